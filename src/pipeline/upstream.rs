//! The way to the consumer: pooled HTTP/1.1 connections, one pool a runtime.
//!
//! What was never written may be sent again, on a fresh connection; what was written never is. Every error says
//! which of the two it was, because that is what decides over a claim. This is why the connections are pooled here
//! and not by a client that connects and sends in one step: the lease must be looked at between the two.

mod fault;
pub mod framing;
pub mod head;
mod line;
mod pool;
mod writing;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderValue, StatusCode, Uri, header, response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::body::Outgoing;
use super::headers::{self, Beside, Peer, Told};
use crate::config::Upstream;
use crate::telemetry::log::chain;
pub use fault::Fault;
use line::{Line, NoAnswer};
pub use pool::Used;
use pool::{IDLE, Pool};
pub use writing::Writing;

/// One attempt to connect, its name looked up and TLS included: a consumer is near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts to connect, doubled each time.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
const CLOSED_AT_ONCE: &str = "the connection was closed at once";

/// Connections to consumers, for one runtime.
#[derive(Debug)]
pub struct Upstreams {
    connector: HttpsConnector<HttpConnector>,
    // A std mutex: held to find one pool, never across an await.
    pools: Mutex<Pools>,
    bell: Arc<Bell>,
}

/// Rung by what comes on idle connections.
#[derive(Debug, Default)]
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// By host and port: the path of an upstream is no matter of the connection.
#[derive(Debug, Default)]
struct Pools {
    http: HashMap<Box<str>, Arc<Pool>>,
    https: HashMap<Box<str>, Arc<Pool>>,
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

/// The head of an answer, and the connection that the rest of it comes on.
#[derive(Debug)]
pub struct Heard {
    pub parts: Box<response::Parts>,
    pub used: Used,
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
        Ok(Self { connector: connector(roots)?, pools: Mutex::default(), bell: Arc::default() })
    }

    /// Sends a request once. `may_send` is asked right before the first byte goes out.
    pub async fn send(
        &self,
        upstream: &Upstream,
        mut request: Box<Writing>,
        patience: Patience<'_>,
        may_send: impl Fn() -> Result<(), NotSent>,
    ) -> Result<Box<Heard>, ForwardError> {
        let pool = self.pool(upstream);
        let mut again = Again::default();
        loop {
            let (mut line, is_fresh) = match pool.take() {
                Some(line) if patience.stop.is_cancelled() => {
                    drop(line);
                    return Err(ForwardError::NotSent(NotSent::Stopping));
                }
                Some(line) => (line, false),
                // Boxed: most requests find a connection, and need not have room for making one.
                None => {
                    let connecting = Box::pin(self.connect_in_time(upstream, patience, &mut again));
                    (connecting.await.map_err(ForwardError::NotSent)?, true)
                }
            };
            may_send().map_err(ForwardError::NotSent)?;
            match timeout_at(patience.deadline, line.ask(request)).await {
                // Nobody has asked for another protocol, and what follows in it is not for the sender.
                Ok(Ok(parts)) if parts.status == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(ForwardError::broken("it switched to another protocol"));
                }
                Ok(Ok(parts)) => return Ok(Box::new(Heard { parts, used: Used { pool, line } })),
                // An idle one was closed meanwhile. One that was just made is as good as none.
                Ok(Err(NoAnswer::Unsent(_))) if is_fresh && !Box::pin(again.pause(patience)).await => {
                    return Err(ForwardError::NotSent(NotSent::Connect(CLOSED_AT_ONCE.into())));
                }
                Ok(Err(NoAnswer::Unsent(unsent))) => request = unsent,
                Ok(Err(NoAnswer::Broken(fault))) => return Err(ForwardError::broken(&chain(&fault))),
                Err(_) => return Err(ForwardError::Unknown(Unknown::Timeout)),
            }
        }
    }

    /// Closes connections that have been idle too long, and those that their consumer has closed. Runs until dropped.
    pub async fn reap(&self) -> ! {
        loop {
            // Now and then, and when the bell rings.
            let _ = timeout(IDLE / 3, self.bell.0.notified()).await;
            let pools = self.pools();
            pools.http.values().chain(pools.https.values()).for_each(|pool| pool.reap());
        }
    }

    /// Whether the consumer can be reached now: for `check`.
    pub async fn probe(&self, upstream: &Upstream) -> Result<(), Arc<str>> {
        self.connect(upstream).await.map(drop)
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, Upstream(uri): &Upstream) -> Arc<Pool> {
        let mut pools = self.pools();
        let pools = if uri.scheme() == Some(&Scheme::HTTPS) { &mut pools.https } else { &mut pools.http };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        match pools.get(authority) {
            Some(pool) => Arc::clone(pool),
            None => Arc::clone(pools.entry(authority.into()).or_insert_with(|| Pool::new(Arc::clone(&self.bell).into()).into())),
        }
    }

    async fn connect_in_time(
        &self,
        upstream: &Upstream,
        patience: Patience<'_>,
        again: &mut Again,
    ) -> Result<Box<Line>, NotSent> {
        tokio::select! {
            line = self.connect_again_and_again(upstream, patience, again) => line,
            () = patience.stop.cancelled() => Err(NotSent::Stopping),
        }
    }

    async fn connect_again_and_again(
        &self,
        upstream: &Upstream,
        patience: Patience<'_>,
        again: &mut Again,
    ) -> Result<Box<Line>, NotSent> {
        again.begin(patience);
        loop {
            let until = (Instant::now() + CONNECT_TIMEOUT).min(patience.deadline);
            let error = match timeout_at(until, self.connect(upstream)).await {
                Ok(Ok(line)) => return Ok(line),
                Ok(Err(error)) => error,
                Err(_) => "no connection in time".into(),
            };
            if !again.pause(patience).await {
                return Err(NotSent::Connect(error));
            }
        }
    }

    async fn connect(&self, upstream: &Upstream) -> Result<Box<Line>, Arc<str>> {
        let mut connector = self.connector.clone();
        let stream = connector.call(upstream.0.clone()).await.map_err(|error| chain(&*error))?;
        let mut line = Line::over(stream);
        if line.is_quiet(Waker::noop()) { Ok(line) } else { Err(CLOSED_AT_ONCE.into()) }
    }
}

/// How connecting is tried again, in one call.
#[derive(Debug, Default)]
struct Again {
    /// Nothing, before the first attempt.
    give_up: Option<Instant>,
    pauses: u32,
}

impl Again {
    fn begin(&mut self, patience: Patience<'_>) -> Instant {
        *self.give_up.get_or_insert_with(|| (Instant::now() + patience.connect).min(patience.deadline))
    }

    /// Waits for the next attempt. Tells whether there is time for one.
    async fn pause(&mut self, patience: Patience<'_>) -> bool {
        let give_up = self.begin(patience);
        let pause = BACKOFF.saturating_mul(1 << self.pauses.min(8)).min(BACKOFF_MAX);
        self.pauses += 1;
        let is_time = Instant::now() + pause < give_up;
        if is_time {
            sleep(pause).await;
        }
        is_time
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
    mut parts: Box<Parts>,
    body: Outgoing,
    peer: Peer,
    told: Told<'_>,
) -> Box<Writing> {
    // HTTP/2 has the host in the target, and where there is one it is what the request was routed by.
    let host = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    let mut beside = Beside::new();
    headers::towards_consumer(&mut parts.headers, &mut beside, host, peer, told);
    if !parts.headers.contains_key(header::HOST)
        && let Some(own) = upstream.0.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
    {
        // HTTP/1.0 needs none; what we speak does.
        parts.headers.insert(header::HOST, own);
    }
    if !preserve_path {
        parts.uri = own_target(upstream, parts.uri.query());
    }
    Writing::of(parts, &beside, body)
}

/// The upstream's own path, with the query that was sent.
fn own_target(upstream: &Upstream, query: Option<&str>) -> Uri {
    let own = match query {
        Some(query) => format!("{}?{query}", upstream.0.path()).parse(),
        None => upstream.0.path().parse(),
    };
    own.unwrap_or_else(|_| Uri::from_static("/"))
}
