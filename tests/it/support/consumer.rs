//! A consumer that does as it is told and writes down what it saw.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

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
    /// The head and the first part at once, the second part when the gate opens.
    InTwo(u16, Bytes, Gate, Bytes),
    /// The head and a part of the body, then the connection is closed.
    BreakOff(u16, Bytes),
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
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Connections {
    accepted: AtomicUsize,
    closed: AtomicUsize,
    leaving: CancellationToken,
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
        Self::on(TcpListener::bind(address).await.unwrap(), decide)
    }

    pub fn on(listener: TcpListener, decide: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> Self {
        let (address, seen, connections) = (listener.local_addr().unwrap(), Arc::default(), Arc::default());
        tokio::spawn(accept(listener, Arc::clone(&seen), Arc::new(decide), Arc::clone(&connections)));
        Self { address, seen, connections }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Nobody is there yet: the port is taken, and refuses connections until somebody listens.
    pub fn absent() -> TcpSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        socket
    }

    /// Listens no more, answers what it was given, and is gone: as a consumer that is told to stop.
    pub async fn leave(&self) {
        self.connections.leaving.cancel();
        eventually("a consumer that is gone", async || (self.open_connections() == 0).then_some(())).await;
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

    /// Waits until it has seen so many requests.
    pub async fn saw(&self, count: usize) {
        eventually(&format!("{count} requests"), async || (self.seen().len() >= count).then_some(())).await;
    }

    /// Waits until an event has arrived this often.
    pub async fn arrived(&self, event: &str, times: usize) {
        eventually("an event at the consumer", async || (self.count(event) >= times).then_some(())).await;
    }

    /// Connections it has ever had.
    pub fn connections(&self) -> usize {
        self.connections.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.connections() - self.connections.closed.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Vec<Seen>>>, decide: Arc<Decide>, connections: Arc<Connections>) {
    let mut open = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted.unwrap(),
            () = connections.leaving.cancelled() => break,
        };
        connections.accepted.fetch_add(1, Ordering::SeqCst);
        let (seen, decide, connections) = (Arc::clone(&seen), Arc::clone(&decide), Arc::clone(&connections));
        open.spawn(async move {
            let service = service_fn(|request| {
                let (seen, decide) = (Arc::clone(&seen), Arc::clone(&decide));
                async move { serve(request, &seen, &*decide).await }
            });
            let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            tokio::select! {
                _ = connection.as_mut() => {}
                () = connections.leaving.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            connections.closed.fetch_add(1, Ordering::SeqCst);
        });
    }
    drop(listener);
    open.join_all().await;
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

type AnyBody = UnsyncBoxBody<Bytes, Closed>;

async fn serve(request: Request<Incoming>, ledger: &Mutex<Vec<Seen>>, decide: &Decide) -> Result<Response<AnyBody>, Closed> {
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
            Act::Answer(status) => return Ok(respond(status, &[], whole(format!("{{\"consumer\":{status}}}")))),
            Act::Respond(status, headers, body) => return Ok(respond(status, &headers, whole(body))),
            Act::InTwo(status, first, gate, second) => {
                let second = async move {
                    gate.pass().await;
                    Ok(second)
                };
                return Ok(respond(status, &[], in_two(first, second)));
            }
            Act::BreakOff(status, first) => {
                let broken = async {
                    // So that what was written before goes out.
                    tokio::task::yield_now().await;
                    Err(Closed)
                };
                return Ok(respond(status, &[], in_two(first, broken)));
            }
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

fn respond(status: u16, headers: &[(&'static str, &'static str)], body: AnyBody) -> Response<AnyBody> {
    let status = StatusCode::from_u16(status).unwrap();
    // A 204 has no body.
    let mut response = Response::new(if status == StatusCode::NO_CONTENT { whole("") } else { body });
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}

fn whole(body: impl Into<Bytes>) -> AnyBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

fn in_two(first: Bytes, second: impl Future<Output = Result<Bytes, Closed>> + Send + 'static) -> AnyBody {
    InTwo { first: Some(first), second: Some(Box::pin(second)) }.boxed_unsync()
}

type Second = dyn Future<Output = Result<Bytes, Closed>> + Send;

/// A body of unknown length, in two chunks.
struct InTwo {
    first: Option<Bytes>,
    second: Option<Pin<Box<Second>>>,
}

impl Body for InTwo {
    type Data = Bytes;
    type Error = Closed;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Closed>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(second) = &mut self.second else { return Poll::Ready(None) };
        let second = ready!(second.as_mut().poll(cx));
        self.second = None;
        Poll::Ready(Some(second.map(Frame::data)))
    }
}
