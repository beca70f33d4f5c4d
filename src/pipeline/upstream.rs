//! The way to the consumer: pooled HTTP/1.1 connections, one pool a runtime.
//!
//! What was never written may be sent again, on a fresh connection; what was written never is. Every error says
//! which of the two it was, because that is what decides over a claim. This is why the connections are pooled here
//! and not by a client that connects and sends in one step: the lease must be looked at between the two.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::body::Outgoing;
use super::headers::{self, Peer, Told};
use crate::config::Upstream;
use crate::telemetry::log::chain;

/// Consumers close idle connections after 2 to 5 seconds. Ours are gone before, so that none is closed under a request.
const IDLE: Duration = Duration::from_millis(1500);
/// Idle connections kept for one consumer.
const IDLE_MAX: usize = 256;
/// How long a connection taken from the pool may need to be ready.
const READY_WAIT: Duration = Duration::from_millis(20);
/// One attempt to connect, its name looked up and TLS included: a consumer is near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts to connect, doubled each time.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// A consumer's head, and what is read ahead of its body. A head of this size is no answer but a fault.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Interim answers (1xx) to one request. A few are a sign of life; whoever goes on so never answers.
const INTERIM_MAX: usize = 32;

/// Connections to consumers, for one runtime.
#[derive(Debug)]
pub struct Upstreams {
    connector: HttpsConnector<HttpConnector>,
    // A std mutex: held to take or put one connection, never across an await.
    idle: Mutex<HashMap<Upstream, Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Outgoing>,
    since: Instant,
}

/// A connection that has taken a request. It goes back to its pool once the answer has been read whole.
#[derive(Debug)]
pub struct Used {
    pool: Arc<Upstreams>,
    upstream: Upstream,
    sender: SendRequest<Outgoing>,
}

impl Used {
    /// The answer has been read to its end. Dropped without this, the connection is closed.
    pub fn put_back(self) {
        let Self { pool, upstream, sender } = self;
        if sender.is_closed() {
            return;
        }
        let mut idle = pool.idle();
        let pool = idle.entry(upstream).or_default();
        if pool.len() < IDLE_MAX {
            pool.push(Idle { sender, since: Instant::now() });
        }
    }
}

/// When a call is given up.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// Connecting is tried again for this long: nothing was sent.
    pub connect: Duration,
    /// The call as a whole.
    pub deadline: Instant,
    /// Ends what has not been sent.
    pub stop: &'a CancellationToken,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum ForwardError {
    /// Nothing was written to the consumer.
    NotSent(NotSent),
    /// The request went out, at least in part: what became of it cannot be known.
    Unknown(Unknown),
}

#[derive(Clone, Debug)]
pub enum NotSent {
    /// No connection: refused, no such name, TLS.
    Connect(Arc<str>),
    /// The claim's lease ran out first.
    LeaseLost,
    /// The program is stopping.
    Stopping,
}

#[derive(Clone, Debug)]
pub enum Unknown {
    Timeout,
    Broken(Arc<str>),
}

impl ForwardError {
    fn broken(why: &str) -> Self {
        Self::Unknown(Unknown::Broken(why.into()))
    }
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(NotSent::Connect(why)) => write!(f, "could not connect: {why}"),
            Self::NotSent(NotSent::LeaseLost) => write!(f, "the lease ran out before anything was sent"),
            Self::NotSent(NotSent::Stopping) => write!(f, "stopping before anything was sent"),
            Self::Unknown(Unknown::Timeout) => write!(f, "no answer in time"),
            Self::Unknown(Unknown::Broken(why)) => write!(f, "the connection broke: {why}"),
        }
    }
}

impl Upstreams {
    /// Trusts the public authorities.
    pub fn new() -> Result<Self, rustls::Error> {
        Self::trusting(public_roots())
    }

    pub fn trusting(roots: RootCertStore) -> Result<Self, rustls::Error> {
        Ok(Self { connector: connector(roots)?, idle: Mutex::default() })
    }

    /// Sends a request once. `may_send` is asked right before the first byte goes out.
    pub async fn send(
        self: &Arc<Self>,
        upstream: &Upstream,
        mut request: Request<Outgoing>,
        patience: Patience<'_>,
        may_send: impl Fn() -> Result<(), NotSent>,
    ) -> Result<(Response<Incoming>, Used), ForwardError> {
        let interim = Interim::of(&mut request);
        loop {
            let mut sender = tokio::select! {
                sender = self.ready_sender(upstream, patience) => sender?,
                () = patience.stop.cancelled() => return Err(ForwardError::NotSent(NotSent::Stopping)),
            };
            may_send().map_err(ForwardError::NotSent)?;
            let answer = tokio::select! {
                biased;
                () = interim.too_many() => return Err(ForwardError::broken("it gave one interim answer after another")),
                answer = timeout_at(patience.deadline, sender.try_send_request(request)) => answer,
            };
            match answer {
                // Nobody has asked for another protocol, and what follows in it is not for the sender.
                Ok(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(ForwardError::broken("it switched to another protocol"));
                }
                Ok(Ok(response)) => return Ok((response, Used { pool: Arc::clone(self), upstream: upstream.clone(), sender })),
                Ok(Err(mut refused)) => match refused.take_message() {
                    // The connection had been closed: the request is still ours, whole.
                    Some(unsent) => request = unsent,
                    None => return Err(ForwardError::broken(&chain(refused.error()))),
                },
                Err(_) => return Err(ForwardError::Unknown(Unknown::Timeout)),
            }
        }
    }

    /// Closes connections that have been idle too long. Runs until dropped.
    pub async fn reap(&self) -> ! {
        loop {
            sleep(IDLE / 3).await;
            let now = Instant::now();
            for pool in self.idle().values_mut() {
                pool.retain(|idle| now - idle.since < IDLE && !idle.sender.is_closed());
            }
        }
    }

    /// Whether the consumer can be reached now: for `check`.
    pub async fn probe(&self, upstream: &Upstream) -> Result<(), Arc<str>> {
        self.connect(upstream).await.map(drop)
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Upstream, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The idle connection used last, or a fresh one.
    async fn ready_sender(&self, upstream: &Upstream, patience: Patience<'_>) -> Result<SendRequest<Outgoing>, ForwardError> {
        while let Some(mut sender) = self.take_idle(upstream) {
            // A connection is ready as soon as it has seen the end of the answer before; a closed one says so. One that is
            // neither still writes to a consumer that answered without reading: it is given up.
            if matches!(timeout(READY_WAIT, sender.ready()).await, Ok(Ok(()))) {
                return Ok(sender);
            }
        }
        // Boxed: most requests find a connection, and need not have room for making one.
        Box::pin(self.connect_again_and_again(upstream, patience)).await
    }

    fn take_idle(&self, upstream: &Upstream) -> Option<SendRequest<Outgoing>> {
        let mut idle = self.idle();
        let pool = idle.get_mut(upstream)?;
        let newest = pool.pop()?;
        if newest.since.elapsed() < IDLE {
            return Some(newest.sender);
        }
        // All others are older.
        pool.clear();
        None
    }

    async fn connect_again_and_again(
        &self,
        upstream: &Upstream,
        patience: Patience<'_>,
    ) -> Result<SendRequest<Outgoing>, ForwardError> {
        let give_up = (Instant::now() + patience.connect).min(patience.deadline);
        let mut pause = BACKOFF;
        loop {
            let until = (Instant::now() + CONNECT_TIMEOUT).min(patience.deadline);
            let error = match timeout_at(until, self.connect(upstream)).await {
                Ok(Ok(sender)) => return Ok(sender),
                Ok(Err(error)) => error,
                Err(_) => "no connection in time".into(),
            };
            if Instant::now() + pause >= give_up {
                return Err(ForwardError::NotSent(NotSent::Connect(error)));
            }
            sleep(pause).await;
            pause = (pause * 2).min(BACKOFF_MAX);
        }
    }

    async fn connect(&self, upstream: &Upstream) -> Result<SendRequest<Outgoing>, Arc<str>> {
        let mut connector = self.connector.clone();
        let io = connector.call(upstream.0.clone()).await.map_err(|error| chain(&*error))?;
        let (mut sender, connection) = client().handshake(io).await.map_err(|error| chain(&error))?;
        // The connection ends when its sender is dropped, or with an error that the request's own future tells.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        sender.ready().await.map_err(|error| chain(&error))?;
        Ok(sender)
    }
}

/// How a consumer is spoken with. Header fields are as many as hyper has room for on the stack, which is 100.
fn client() -> http1::Builder {
    let mut client = http1::Builder::new();
    // The default, stated: bytes without a head are no answer.
    client.max_buf_size(HEAD_BYTES_MAX).http09_responses(false);
    client
}

/// The interim answers to a request, counted.
#[derive(Debug, Default)]
struct Interim {
    count: AtomicUsize,
    waker: AtomicWaker,
}

impl Interim {
    fn of<B>(request: &mut Request<B>) -> Arc<Self> {
        let interim = Arc::new(Self::default());
        let counted = Arc::clone(&interim);
        hyper::ext::on_informational(request, move |_| {
            if counted.count.fetch_add(1, Ordering::Relaxed) == INTERIM_MAX {
                counted.waker.wake();
            }
        });
        interim
    }

    /// Waits until there are too many, which as a rule is never.
    async fn too_many(&self) {
        std::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            if self.count.load(Ordering::Relaxed) > INTERIM_MAX { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Those that browsers trust.
pub fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// Connects with or without TLS, as a URL says.
pub fn connector(roots: RootCertStore) -> Result<HttpsConnector<HttpConnector>, rustls::Error> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnector::from((http, tls)))
}

/// The request as the consumer sees it: everything as it was sent, but for what belongs to the connection.
pub fn request(
    upstream: &Upstream,
    preserve_path: bool,
    mut parts: Parts,
    body: Outgoing,
    peer: Peer,
    told: Told<'_>,
) -> Request<Outgoing> {
    // HTTP/2 has the host in the target, and where there is one it is what the request was routed by.
    let host = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    headers::towards_consumer(&mut parts.headers, host, peer, told);
    frame(&mut parts, &body);
    if !parts.headers.contains_key(header::HOST)
        && let Some(own) = upstream.0.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
    {
        // HTTP/1.0 needs none; what we speak does.
        parts.headers.insert(header::HOST, own);
    }
    parts.uri = target(upstream, &parts.uri, preserve_path);
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    Request::from_parts(parts, body)
}

/// The length of a body that is there whole is what it has, and never what was said of it: hyper sends on a
/// `Content-Length` as it stands, and a consumer that waits for more would take the next request for it.
fn frame(parts: &mut Parts, body: &Outgoing) {
    let Outgoing::Whole(body) = body else { return };
    let length = body.size_hint().lower();
    match parts.method {
        Method::GET | Method::HEAD if length == 0 => parts.headers.remove(header::CONTENT_LENGTH),
        _ => parts.headers.insert(header::CONTENT_LENGTH, length.into()),
    };
}

/// The path as it was sent, or the upstream's own, and the query.
fn target(upstream: &Upstream, received: &Uri, preserve_path: bool) -> Uri {
    let own = || match received.query() {
        Some(query) => format!("{}?{query}", upstream.0.path()).parse().ok(),
        None => upstream.0.path().parse().ok(),
    };
    let kept = || received.path_and_query().cloned().map(Uri::from);
    if preserve_path { kept() } else { own() }.unwrap_or_else(|| Uri::from_static("/"))
}
