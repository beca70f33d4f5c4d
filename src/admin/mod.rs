//! The admin side, apart from deliveries: probes, metrics, what the store knows of an event, the queue, the live page.
//!
//! Probes and metrics are open. Everything else needs the token, or, where none is set, a caller on this machine;
//! whatever changes something always needs the token.

mod access;
pub mod bypass;
pub mod events;
mod history;
mod letters;
pub mod moment;
pub mod monitor;
mod page;
mod query;
mod range;
mod running;
mod state;
pub mod stream;

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::app::Lifecycle;
use crate::config::{Config, Provider, Readiness};
use crate::pipeline::listener::crowd::Crowd;
use crate::pipeline::plan::Plan;
use crate::pipeline::route::{Route, Routes};
use crate::store::{Condition, Reserve, Store, StoreError};
use crate::telemetry::Telemetry;
use access::is_write;
use stream::Feed;

/// Scrapers, probes and a few people.
const CONNECTIONS_MAX: usize = 256;
/// A caller that holds more keeps others from theirs, probes among them.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
const HEADER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer waits to be taken; a stream sees to itself.
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What needs to be allowed is below these, or is part of the page.
const API: [&str; 3] = ["/api/events", "/api/queue", "/api/bypass"];

/// Whole, or told bit by bit.
pub type AdminResponse = Response<Either<Full<Bytes>, stream::Stream>>;

#[derive(Debug)]
pub struct Admin {
    pub plan: Arc<ArcSwap<Plan>>,
    pub telemetry: Arc<Telemetry>,
    pub lifecycle: Lifecycle,
    pub reserve: Arc<Reserve>,
    pub condition: Arc<Condition>,
    pub store: Store,
    pub place: Place,
    /// What the live page is told.
    pub feed: Feed,
}

/// Where and since when the program serves.
#[derive(Debug)]
pub struct Place {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub started: Instant,
}

/// Answers until dropped.
pub async fn serve(socket: StdListener, admin: Arc<Admin>) {
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin side cannot listen"),
    };
    let crowd = Crowd::of(CONNECTIONS_MAX, Some(CONNECTIONS_PER_ADDRESS_MAX));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "an admin connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Whoever finds no seat is hung up on.
        let Ok(seat) = crowd.seat(peer.ip(), false, || false) else { continue };
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let (hang_up, answered) = (CancellationToken::new(), Notify::new());
            let service = service_fn(|mut request: Request<Incoming>| {
                request.extensions_mut().insert(hang_up.clone());
                let (admin, answered) = (Arc::clone(&admin), &answered);
                async move {
                    let response = admin.answer(request, peer).await;
                    if matches!(response.body(), Either::Left(_)) {
                        answered.notify_one();
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            let overdue = async {
                answered.notified().await;
                sleep(TAKE_TIMEOUT).await;
            };
            let mut server = http1::Builder::new();
            // Scrapers and probes come with one request each; idle connections would keep others out.
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
            tokio::select! {
                _ = server.serve_connection(TokioIo::new(stream), service) => {}
                () = hang_up.cancelled() => {}
                () = overdue => {}
            }
            drop(seat);
        });
    }
}

impl Admin {
    /// The configuration that is run by now.
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.plan.load().config)
    }

    /// Its routes.
    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.plan.load().routes)
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> AdminResponse {
        let path = request.uri().path();
        match (request.method(), path) {
            (&Method::GET | &Method::HEAD, "/healthz") => text(StatusCode::OK, "ok\n"),
            (&Method::GET | &Method::HEAD, "/readyz") => self.readyz(request.uri().query() == Some("verbose")),
            (&Method::GET | &Method::HEAD, "/metrics") => self.metrics(),
            _ if is_guarded(path) => self.api(request, peer).await.unwrap_or_else(Denied::respond),
            (_, "/healthz" | "/readyz" | "/metrics") => Denied::method("GET, HEAD").respond(),
            _ => Denied::new(
                StatusCode::NOT_FOUND,
                "there is nothing here; try /, /metrics, /healthz, /readyz, /api/events, /api/queue, /api/bypass or /api/config",
            )
            .respond(),
        }
    }

    /// What needs to be allowed. A change goes on to its end, and to its line in the log, whether or not the caller waits.
    async fn api(self: &Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
        if let Err(denied) = access::admit(self.config().admin_token.as_ref(), &request, peer) {
            if is_write(&request) {
                let (method, path) = (request.method(), request.uri().path());
                tracing::warn!(target: "hookonce::audit", %peer, %method, path, result = %denied.reason, "refused");
            }
            return Err(denied);
        }
        if !is_write(&request) {
            return self.allowed(request, peer).await;
        }
        let admin = Arc::clone(self);
        let changing = tokio::spawn(async move { admin.allowed(request, peer).await });
        let broken = |error| Denied::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the call did not end well: {error}"));
        changing.await.map_err(broken)?
    }

    async fn allowed(&self, request: Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
        match request.uri().path() {
            path if is_below(path, "/api/bypass") => bypass::answer(self, request, peer).await,
            path if is_below(path, "/api/queue") => letters::answer(self, &request, peer).await,
            "/api/config" => running::answer(self, &request),
            "/api/stream" => stream::open(self, &request, request.extensions().get().cloned().unwrap_or_default()),
            path if page::is_part(path) => page::answer(&request),
            _ => events::answer(self, &request, peer).await,
        }
    }

    /// The provider of this name.
    fn route(&self, provider: &str) -> Result<Arc<Route>, Denied> {
        let unknown = || Denied::new(StatusCode::NOT_FOUND, "no provider of this name is configured");
        self.routes().named(provider).map(Arc::clone).ok_or_else(unknown)
    }

    /// What the keys of a provider's events begin with.
    fn prefix(&self, provider: &str) -> String {
        format!("{}:{provider}:", self.config().store.namespace)
    }

    /// Tells every instance that an operator has changed something which they keep in memory.
    pub async fn announce(&self) -> Result<(), StoreError> {
        let key = self.config().store.marker();
        // An operator may be quicker than the watch, which makes it as a rule.
        self.store.mark(&key, None, "").await?;
        self.store.announce(&key).await.map(drop)
    }

    /// Serving and not draining; with `readiness = "store"`, the store counts too.
    fn readyz(&self, verbose: bool) -> AdminResponse {
        let is_draining = self.lifecycle.draining.is_cancelled();
        let store_up = self.telemetry.metrics.store_up.get() == 1;
        let is_ready = !is_draining && (store_up || self.config().readiness == Readiness::Serving);
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        if !verbose {
            return text(status, if is_ready { "ready\n" } else { "not ready\n" });
        }
        let state = json!({
            "ready": is_ready,
            "draining": is_draining,
            "store": if store_up { "up" } else { "down" },
            "breaker": if self.store.breaker().is_open() { "open" } else { "closed" },
            "takes_no_new_events_for_s": self.condition.takes_none_for().map(|time| time.as_secs()),
            "store_reset": self.condition.reset().map(|at| humantime::format_rfc3339_millis(at).to_string()),
            "clock_skew_s": self.telemetry.metrics.clock_skew.get(),
            "clock_off_for": self.clock_is_off_for(),
            "readiness": self.config().readiness.as_str(),
            "bypassed": bypass::all(self),
        });
        json_reply(status, &state)
    }

    /// The providers whose timestamps this machine's clock cannot judge.
    fn clock_is_off_for(&self) -> Vec<String> {
        let is_off = |provider: &&Arc<Provider>| provider.cannot_judge_time_with(self.condition.skew());
        self.config().providers.iter().filter(is_off).map(|provider| provider.name.clone()).collect()
    }

    fn metrics(&self) -> AdminResponse {
        match self.telemetry.metrics.render() {
            Ok(body) => reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", body),
            Err(error) => Denied::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).respond(),
        }
    }
}

/// Why a caller gets nothing.
#[derive(Debug)]
pub struct Denied {
    status: StatusCode,
    reason: Cow<'static, str>,
    /// What would be taken instead.
    hint: Option<(HeaderName, &'static str)>,
}

impl Denied {
    pub fn new(status: StatusCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason: reason.into(), hint: None }
    }

    pub fn method(allow: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {allow}")).with(header::ALLOW, allow)
    }

    fn with(self, name: HeaderName, value: &'static str) -> Self {
        Self { hint: Some((name, value)), ..self }
    }

    fn reason(&self) -> &str {
        &self.reason
    }

    fn respond(self) -> AdminResponse {
        let mut response = json_reply(self.status, &json!({ "status": "refused", "reason": self.reason }));
        if let Some((name, value)) = self.hint {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

/// How a change ended, for the audit.
fn outcome<T>(result: &Result<T, StoreError>, told: impl FnOnce(&T) -> String) -> String {
    result.as_ref().map_or_else(ToString::to_string, told)
}

fn is_guarded(path: &str) -> bool {
    matches!(path, "/api/config" | "/api/stream") || page::is_part(path) || API.iter().any(|root| is_below(path, root))
}

/// Whether a path is `root` itself, or a step below it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn text(status: StatusCode, body: &'static str) -> AdminResponse {
    reply(status, "text/plain; charset=utf-8", body)
}

pub fn json_reply(status: StatusCode, value: &serde_json::Value) -> AdminResponse {
    reply(status, "application/json", format!("{value}\n"))
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> AdminResponse {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
