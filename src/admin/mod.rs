//! The admin side, apart from deliveries: probes, metrics, what the store knows of an event, and the queue.
//!
//! Probes and metrics are open. Everything else needs the token, or, where none is set, a caller on this machine;
//! whatever changes something always needs the token.

pub mod bypass;
pub mod events;
mod letters;
pub mod moment;
pub mod monitor;
mod query;
mod range;

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::app::Lifecycle;
use crate::config::{Config, Provider, Readiness};
use crate::pipeline::plan::Plan;
use crate::pipeline::route::{Route, Routes};
use crate::store::{Condition, Reserve, Store, StoreError};
use crate::telemetry::Telemetry;

/// Scrapers, probes and a few people.
const CONNECTIONS_MAX: usize = 256;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What needs to be allowed is below these.
const API: [&str; 3] = ["/api/events", "/api/queue", "/api/bypass"];

pub type AdminResponse = Response<Full<Bytes>>;

#[derive(Debug)]
pub struct Admin {
    pub plan: Arc<ArcSwap<Plan>>,
    pub telemetry: Arc<Telemetry>,
    pub lifecycle: Lifecycle,
    pub reserve: Arc<Reserve>,
    pub condition: Arc<Condition>,
    pub store: Store,
}

/// Answers until dropped.
pub async fn serve(socket: StdListener, admin: Arc<Admin>) {
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin side cannot listen"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (Ok(place), accepted) = (Arc::clone(&places).acquire_owned().await, listener.accept().await) else { return };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "an admin connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let admin = Arc::clone(&admin);
                async move { Ok::<_, Infallible>(admin.answer(request, peer).await) }
            });
            let mut server = http1::Builder::new();
            // Scrapers and probes come with one request each; idle connections would keep others out.
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
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
            _ if API.iter().any(|root| is_below(path, root)) => self.api(request, peer).await.unwrap_or_else(Denied::respond),
            (_, "/healthz" | "/readyz" | "/metrics") => Denied::method("GET, HEAD").respond(),
            _ => Denied::new(
                StatusCode::NOT_FOUND,
                "there is nothing here; try /metrics, /healthz, /readyz, /api/events, /api/queue or /api/bypass",
            )
            .respond(),
        }
    }

    /// What needs to be allowed. A change goes on to its end, and to its line in the log, whether or not the caller waits.
    async fn api(self: &Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
        if let Err(denied) = self.admit(&request, peer) {
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

    /// Whether the caller may ask for this.
    fn admit(&self, request: &Request<Incoming>, peer: SocketAddr) -> Result<(), Denied> {
        match &self.config().admin_token {
            Some(token) if bearer(request).is_some_and(|given| bool::from(given.ct_eq(token.bytes()))) => Ok(()),
            Some(_) => Err(Denied::new(StatusCode::UNAUTHORIZED, "this needs `Authorization: Bearer ADMIN_TOKEN`")),
            None if is_write(request) => Err(Denied::new(StatusCode::FORBIDDEN, "changes need a token: set `admin_token`")),
            None if peer.ip().is_loopback() => Ok(()),
            None => Err(Denied::new(StatusCode::FORBIDDEN, "without `admin_token` only this machine may ask")),
        }
    }
}

/// Why a caller gets nothing.
#[derive(Debug)]
pub struct Denied {
    status: StatusCode,
    reason: Cow<'static, str>,
    /// What would be taken instead, where it is the method.
    allow: Option<&'static str>,
}

impl Denied {
    pub fn new(status: StatusCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason: reason.into(), allow: None }
    }

    pub fn method(allow: &'static str) -> Self {
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {allow}")) }
    }

    fn reason(&self) -> &str {
        &self.reason
    }

    fn respond(self) -> AdminResponse {
        let mut response = json_reply(self.status, &json!({ "status": "refused", "reason": self.reason }));
        if let Some(allow) = self.allow {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
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

fn is_write(request: &Request<Incoming>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Whether a path is `root` itself, or a step below it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn bearer(request: &Request<Incoming>) -> Option<&[u8]> {
    request.headers().get(header::AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")
}

fn text(status: StatusCode, body: &'static str) -> AdminResponse {
    reply(status, "text/plain; charset=utf-8", body)
}

pub fn json_reply(status: StatusCode, value: &serde_json::Value) -> AdminResponse {
    reply(status, "application/json", format!("{value}\n"))
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> AdminResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
