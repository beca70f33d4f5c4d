//! A consumer that does as it is told and writes down what it saw.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::eventually;

/// A request as the consumer got it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn event_id(&self) -> &str {
        self.header("hookonce-event-id").unwrap_or("none")
    }

    pub fn mark(&self) -> Option<&str> {
        self.header("hookonce-maybe-duplicate")
    }
}

/// What to do with a request.
#[derive(Clone, Debug)]
pub enum Act {
    Answer(u16),
    /// Any answer at all.
    Respond(u16, Vec<(&'static str, &'static str)>, Bytes),
    /// First wait this long.
    After(Duration, Box<Act>),
    /// First wait until the test opens the gate.
    Behind(Gate, Box<Act>),
    /// Never answer.
    Hang,
    /// Close the connection without a word.
    Close,
}

/// Holds back answers until it is opened.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

type Decide = dyn Fn(&Seen, usize) -> Act + Send + Sync;

/// The ledger is shared by clones.
#[derive(Clone)]
pub struct Consumer {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepting: AbortHandle,
}

impl Consumer {
    /// Answers everything with this status.
    pub async fn answering(status: u16) -> Self {
        Self::deciding(move |_, _| Act::Answer(status)).await
    }

    /// Decides by the request and how often its event has been seen, this time included.
    pub async fn deciding(decide: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", decide).await
    }

    /// On a given address: to come back where it was.
    pub async fn at(address: &str, decide: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
        let accepting = tokio::spawn(accept(listener, Arc::clone(&seen), Arc::new(decide))).abort_handle();
        Self { address, seen, accepting }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything it saw, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How often each event arrived.
    pub fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for seen in self.seen() {
            *counts.entry(seen.event_id().to_owned()).or_default() += 1;
        }
        counts
    }

    pub fn count(&self, event: &str) -> usize {
        self.counts().get(event).copied().unwrap_or(0)
    }

    /// Waits until an event has arrived this often.
    pub async fn arrived(&self, event: &str, times: usize) {
        eventually("an event at the consumer", async || (self.count(event) >= times).then_some(())).await;
    }

    /// Takes no more connections: the port is free.
    pub fn go_away(&self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Vec<Seen>>>, decide: Arc<Decide>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (seen, decide) = (Arc::clone(&seen), Arc::clone(&decide));
        connections.spawn(async move {
            let service = service_fn(|request| {
                let (seen, decide) = (Arc::clone(&seen), Arc::clone(&decide));
                async move { serve(request, &seen, &*decide).await }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The connection is closed without an answer.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "closed on purpose")
    }
}

impl std::error::Error for Closed {}

async fn serve(request: Request<Incoming>, ledger: &Mutex<Vec<Seen>>, decide: &Decide) -> Result<Response<Full<Bytes>>, Closed> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
    let seen = Seen { method: parts.method, target: parts.uri.to_string(), headers: parts.headers, body };
    let nth = {
        let mut ledger = ledger.lock().unwrap();
        ledger.push(seen.clone());
        ledger.iter().filter(|other| other.event_id() == seen.event_id()).count()
    };
    let mut act = decide(&seen, nth);
    loop {
        act = match act {
            Act::Answer(status) => return Ok(respond(status, &[], Bytes::from(format!("{{\"consumer\":{status}}}")))),
            Act::Respond(status, headers, body) => return Ok(respond(status, &headers, body)),
            Act::After(time, then) => {
                sleep(time).await;
                *then
            }
            Act::Behind(gate, then) => {
                gate.pass().await;
                *then
            }
            Act::Hang => std::future::pending().await,
            Act::Close => return Err(Closed),
        }
    }
}

fn respond(status: u16, headers: &[(&'static str, &'static str)], body: Bytes) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(status).unwrap();
    // A 204 has no body.
    let mut response = Response::new(Full::new(if status == StatusCode::NO_CONTENT { Bytes::new() } else { body }));
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}
