//! A consumer that accepts everything but what it is asked to fail, and writes down what it got.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

/// A request as the consumer got it, and how it answered.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub event_id: Option<String>,
    pub mark: Option<String>,
    pub body: Bytes,
    pub status: u16,
}

impl Seen {
    /// The id as hookonce shows it, where plain text is shown as it is.
    pub fn id_in_body(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        body["id"].as_str().map(str::to_owned)
    }
}

pub struct Consumer {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Consumer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
        tokio::spawn(accept(listener, Arc::clone(&seen)));
        Self { address, seen }
    }

    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Vec<Seen>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let seen = Arc::clone(&seen);
        let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(request: Request<Incoming>, seen: Arc<Mutex<Vec<Seen>>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let text = |name: &str| parts.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let (event_id, mark) = (text("hookonce-event-id"), text("hookonce-maybe-duplicate"));
    // What does not come whole was not delivered.
    let Ok(body) = body.collect().await else { return Ok(Response::default()) };
    let mut one = Seen { path: parts.uri.path().to_owned(), event_id, mark, body: body.to_bytes(), status: 200 };
    if one.id_in_body().as_deref() == Some("evt_fails") {
        one.status = 500;
    }
    let status = one.status;
    seen.lock().unwrap().push(one);
    Ok(Response::builder().status(status).body(Full::from("taken\n")).unwrap())
}
