//! The way to the consumer: pooled HTTP/1.1 connections, one pool a runtime.
//!
//! What was never written may be sent again, on a fresh connection; what was written never is. Every error says
//! which of the two it was, because that is what decides over a claim. This is why the connections are pooled here
//! and not by a client that connects and sends in one step: the lease must be looked at between the two.

mod line;
mod pool;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::body::Outgoing;
use super::headers::{self, Peer, Told};
use crate::config::Upstream;
use crate::telemetry::log::chain;
use line::{Line, NoAnswer};
pub use pool::Used;
use pool::{IDLE, Pool};

/// One attempt to connect, its name looked up and TLS included: a consumer is near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts to connect, doubled each time.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// Connections to consumers, for one runtime.
#[derive(Debug)]
pub struct Upstreams {
    connector: HttpsConnector<HttpConnector>,
    // A std mutex: held to find one pool, never across an await.
    pools: Mutex<Pools>,
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
    pub response: Response<Incoming>,
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
        Ok(Self { connector: connector(roots)?, pools: Mutex::default() })
    }

    /// Sends a request once. `may_send` is asked right before the first byte goes out.
    pub async fn send(
        &self,
        upstream: &Upstream,
        mut request: Box<Request<Outgoing>>,
        patience: Patience<'_>,
        may_send: impl Fn() -> Result<(), NotSent>,
    ) -> Result<Box<Heard>, ForwardError> {
        let pool = self.pool(upstream);
        let is_streamed = !request.body().is_end_stream() && matches!(request.body(), Outgoing::Stream(_));
        loop {
            let mut line = match pool.take() {
                Some(line) if patience.stop.is_cancelled() => {
                    drop(line);
                    return Err(ForwardError::NotSent(NotSent::Stopping));
                }
                Some(line) => line,
                // Boxed: most requests find a connection, and need not have room for making one.
                None => Box::pin(self.connect_in_time(upstream, patience)).await.map_err(ForwardError::NotSent)?,
            };
            may_send().map_err(ForwardError::NotSent)?;
            match timeout_at(patience.deadline, line.ask(request)).await {
                // Nobody has asked for another protocol, and what follows in it is not for the sender.
                Ok(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(ForwardError::broken("it switched to another protocol"));
                }
                Ok(Ok(response)) => {
                    if is_streamed {
                        // Its sender may say everything before it takes the answer.
                        line.let_go();
                    }
                    return Ok(Box::new(Heard { response, used: Used { pool, line } }));
                }
                Ok(Err(NoAnswer::Unsent(unsent))) => request = unsent,
                Ok(Err(NoAnswer::Broken(error))) => return Err(ForwardError::broken(&chain(&error))),
                Ok(Err(NoAnswer::Interim)) => {
                    return Err(ForwardError::broken("it gave one interim answer after another"));
                }
                Err(_) => return Err(ForwardError::Unknown(Unknown::Timeout)),
            }
        }
    }

    /// Closes connections that have been idle too long. Runs until dropped.
    pub async fn reap(&self) -> ! {
        loop {
            sleep(IDLE / 3).await;
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
            None => Arc::clone(pools.entry(authority.into()).or_default()),
        }
    }

    async fn connect_in_time(&self, upstream: &Upstream, patience: Patience<'_>) -> Result<Line, NotSent> {
        tokio::select! {
            line = self.connect_again_and_again(upstream, patience) => line,
            () = patience.stop.cancelled() => Err(NotSent::Stopping),
        }
    }

    async fn connect_again_and_again(&self, upstream: &Upstream, patience: Patience<'_>) -> Result<Line, NotSent> {
        let give_up = (Instant::now() + patience.connect).min(patience.deadline);
        let mut pause = BACKOFF;
        loop {
            let until = (Instant::now() + CONNECT_TIMEOUT).min(patience.deadline);
            let error = match timeout_at(until, self.connect(upstream)).await {
                Ok(Ok(line)) => return Ok(line),
                Ok(Err(error)) => error,
                Err(_) => "no connection in time".into(),
            };
            if Instant::now() + pause >= give_up {
                return Err(NotSent::Connect(error));
            }
            sleep(pause).await;
            pause = (pause * 2).min(BACKOFF_MAX);
        }
    }

    async fn connect(&self, upstream: &Upstream) -> Result<Line, Arc<str>> {
        let mut connector = self.connector.clone();
        let stream = connector.call(upstream.0.clone()).await.map_err(|error| chain(&*error))?;
        let mut line = Line::over(stream).await.map_err(|error| chain(&error))?;
        match std::future::poll_fn(|cx| line.poll_ready(cx)).await {
            true => Ok(line),
            false => Err("the connection was closed at once".into()),
        }
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
) -> Box<Request<Outgoing>> {
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
    Box::new(Request::from_parts(*parts, body))
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
