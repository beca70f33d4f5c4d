//! Bypasses of a provider's dedupe: begun and ended by an operator at any instance, known to all of them.
//!
//! A bypass is a cell of its own in the store, with the bypass's length as its life. Every instance reads it when the
//! store has come up and when an operator has changed something; in between only its own clock is asked.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::events::rfc3339;
use super::{Admin, AdminResponse, Denied, json_reply, outcome};
use crate::config::units::{self, Written};
use crate::pipeline::route::Route;
use crate::store::{StoreError, entry};
use crate::telemetry::StoreOp;

/// Whoever needs longer does not want dedupe.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const BODY_BYTES_MAX: usize = 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers `/api/bypass` and `/api/bypass/{provider}`.
pub async fn answer(admin: &Admin, request: Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let path = request.uri().path().strip_prefix("/api/bypass").unwrap_or_default();
    let Some(name) = path.strip_prefix('/') else {
        return match *request.method() {
            Method::GET => Ok(json_reply(StatusCode::OK, &json!({ "bypasses": all(admin) }))),
            _ => Err(Denied::method("GET")),
        };
    };
    let route = &*admin.route(name)?;
    match *request.method() {
        Method::GET => Ok(json_reply(StatusCode::OK, &shown(route))),
        Method::PUT => begin(admin, route, length(request).await?, peer).await,
        Method::DELETE => end(admin, route, peer).await,
        _ => Err(Denied::method("GET, PUT, DELETE")),
    }
}

/// Those that are on.
pub fn all(admin: &Admin) -> Vec<Value> {
    admin.routes().all().filter(|route| route.bypass.is_on()).map(|route| shown(route)).collect()
}

fn shown(route: &Route) -> Value {
    let left = route.bypass.left();
    json!({
        "provider": route.provider.name,
        "active": left.is_some(),
        "until": left.and_then(|left| entry::now().checked_add(left)).map(rfc3339),
        "left_s": left.map_or(0, |left| left.as_secs()),
    })
}

/// `{"for":"30m"}`.
async fn length(request: Request<Incoming>) -> Result<Duration, Denied> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        r#for: String,
    }
    let bad = |reason: &'static str| Denied::new(StatusCode::BAD_REQUEST, reason);
    let reading = timeout(BODY_TIMEOUT, Limited::new(request.into_body(), BODY_BYTES_MAX).collect());
    let Ok(Ok(body)) = reading.await else { return Err(bad("the body did not come, or is too long")) };
    let wish: Wish = serde_json::from_slice(&body.to_bytes()).map_err(|_| bad("write {\"for\":\"30m\"}"))?;
    let length = units::duration(&wish.r#for).ok_or_else(|| bad("\"for\" is a duration with its unit, such as \"30m\""))?;
    // A store may count lives in whole seconds only.
    let length = Duration::from_secs(length.as_secs() + u64::from(length.subsec_nanos() > 0));
    let is_fit = !length.is_zero() && length <= LONGEST;
    is_fit.then_some(length).ok_or_else(|| bad("a bypass lasts from \"1s\" to \"24h\""))
}

async fn begin(admin: &Admin, route: &Route, length: Duration, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let written = write(admin, route, Some(length)).await;
    let (provider, result) = (&route.provider.name, outcome(&written, |_| "ok".to_owned()));
    tracing::warn!(target: "hookonce::audit", %peer, provider, length = %Written(length), result, "begin a bypass");
    written?;
    Ok(json_reply(StatusCode::OK, &shown(route)))
}

async fn end(admin: &Admin, route: &Route, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let written = write(admin, route, None).await;
    let told = |was_on: &bool| if *was_on { "ok" } else { "none was on" }.to_owned();
    let (provider, result) = (&route.provider.name, outcome(&written, told));
    tracing::warn!(target: "hookonce::audit", %peer, provider, result, "end a bypass");
    if !written? {
        return Err(Denied::new(StatusCode::NOT_FOUND, "no bypass of this provider is on"));
    }
    Ok(json_reply(StatusCode::OK, &shown(route)))
}

/// Writes it into the store and has every instance read it. Tells whether there was one before.
async fn write(admin: &Admin, route: &Route, length: Option<Duration>) -> Result<bool, StoreError> {
    let cell = cell(admin, route);
    let was_on = admin.telemetry.store(StoreOp::Bypass, admin.store.set_bypass(&cell, length)).await?;
    route.bypass.set(length);
    note(admin);
    admin.announce().await?;
    Ok(was_on)
}

/// Reads what the store has of all of them.
pub async fn reread(admin: &Admin) -> Result<(), StoreError> {
    for route in admin.routes().all() {
        let left = admin.telemetry.store(StoreOp::Bypass, admin.store.bypass(&cell(admin, route))).await?;
        route.bypass.set(left);
    }
    note(admin);
    Ok(())
}

/// Says so where one has begun, or ended, since this was asked last.
pub fn note(admin: &Admin) {
    for route in admin.routes().all() {
        let (provider, left) = (&route.provider.name, route.bypass.left());
        if !route.watch.bypassed(left.is_some()) {
            continue;
        }
        match left {
            Some(left) => tracing::warn!(
                provider,
                left_s = left.as_secs(),
                "dedupe is bypassed: events that are done are forwarded again when they are delivered, marked `replay`"
            ),
            None => tracing::warn!(provider, "the bypass has ended: events that are done are duplicates again"),
        }
    }
}

/// One colon: it cannot be an event's.
fn cell(admin: &Admin, route: &Route) -> String {
    format!("{}:bypass-{}", admin.config().store.namespace, route.provider.name)
}
