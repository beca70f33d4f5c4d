//! The demo's consumer: it fails what its name says, takes a moment, and counts what took effect.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Long enough for copies to overlap.
const WORK: Duration = Duration::from_millis(80);

/// What the consumer saw of one event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub forwards: u32,
    pub effects: u32,
}

type Ledger = Arc<Mutex<BTreeMap<String, Seen>>>;

pub struct Consumer {
    pub address: SocketAddr,
    ledger: Ledger,
}

impl Consumer {
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, ledger) = (listener.local_addr()?, Ledger::default());
        tokio::spawn(accept(listener, Arc::clone(&ledger)));
        Ok(Self { address, ledger })
    }

    pub fn ledger(&self) -> BTreeMap<String, Seen> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: TcpListener, ledger: Ledger) {
    while let Ok((stream, _)) = listener.accept().await {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let ledger = Arc::clone(&ledger);
                async move { Ok::<_, Infallible>(work(&request, &ledger).await) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn work(request: &Request<Incoming>, ledger: &Ledger) -> Response<Full<Bytes>> {
    let event = request.headers().get("hookonce-event-id").and_then(|id| id.to_str().ok()).unwrap_or("without id").to_owned();
    sleep(WORK).await;
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = ledger.entry(event.clone()).or_default();
    seen.forwards += 1;
    if event.ends_with("failed_first") && seen.forwards == 1 {
        return answer(StatusCode::INTERNAL_SERVER_ERROR, "not this time");
    }
    seen.effects += 1;
    answer(StatusCode::OK, "done")
}

fn answer(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
