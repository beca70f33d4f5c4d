//! What the store knows of events: look one up, find by the beginning of an id, let one through again.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{Admin, AdminResponse, json_reply, refuse};
use crate::pipeline::identify::{EventId, EventKey};
use crate::store::{Entry, Forgotten, Remembered, StoreError};
use crate::telemetry::StoreOp;

/// Events that one search shows.
const FOUND_MAX: usize = 100;

/// Answers `/api/events` and `/api/events/{provider}/{id}`.
pub async fn answer(admin: &Admin, request: &Request<Incoming>, peer: SocketAddr) -> AdminResponse {
    let query = request.uri().query().unwrap_or_default();
    let path = request.uri().path().strip_prefix("/api/events").unwrap_or_default();
    let answered = match (request.method(), path.strip_prefix('/')) {
        (&Method::GET, None) => find(admin, query).await,
        (&Method::GET, Some(rest)) => match key_of(admin, rest) {
            Ok(key) => show(admin, &key).await,
            Err(refused) => Ok(refused),
        },
        (&Method::DELETE, Some(rest)) => match key_of(admin, rest) {
            Ok(key) => forget(admin, &key, peer).await,
            Err(refused) => Ok(refused),
        },
        _ => Ok(refuse(StatusCode::METHOD_NOT_ALLOWED, "GET looks up, DELETE lets the next delivery through again")),
    };
    answered.unwrap_or_else(|error| refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))
}

/// `{provider}/{id}`, the id as logs and `Hookonce-Event-Id` show it.
fn key_of(admin: &Admin, rest: &str) -> Result<EventKey, AdminResponse> {
    let bad = |reason: &str| refuse(StatusCode::BAD_REQUEST, reason);
    let (provider, id) = rest.split_once('/').ok_or_else(|| bad("write /api/events/PROVIDER/ID"))?;
    let provider = known(admin, provider)?;
    let id = EventId::parse(id).ok_or_else(|| bad("this is not an event id as the log shows it"))?;
    Ok(EventKey::new(&admin.config.store.namespace, provider, &id))
}

fn known<'a>(admin: &'a Admin, provider: &str) -> Result<&'a str, AdminResponse> {
    let route = admin.routes.named(provider);
    route.map(|route| route.provider.name.as_str()).ok_or_else(|| refuse(StatusCode::NOT_FOUND, "no provider of this name is configured"))
}

async fn show(admin: &Admin, key: &EventKey) -> Result<AdminResponse, StoreError> {
    let seen = admin.telemetry.store(StoreOp::Look, admin.store.look(key)).await?;
    Ok(match seen {
        Some(seen) => json_reply(StatusCode::OK, &shown(&seen)),
        None => refuse(StatusCode::NOT_FOUND, "the store knows no such event"),
    })
}

async fn forget(admin: &Admin, key: &EventKey, peer: SocketAddr) -> Result<AdminResponse, StoreError> {
    let forgotten = admin.telemetry.store(StoreOp::Forget, admin.store.forget(key)).await?;
    tracing::warn!(target: "hookonce::audit", %peer, event = key.as_str(), result = ?forgotten, "forget an event");
    Ok(match forgotten {
        Forgotten::Forgotten => json_reply(StatusCode::OK, &json!({ "status": "forgotten", "key": key.as_str() })),
        Forgotten::Absent => refuse(StatusCode::NOT_FOUND, "the store knows no such event"),
        Forgotten::InFlight { lease_left } => {
            let reason = format!("the consumer is at work on it; its lease has {} ms left", lease_left.as_millis());
            refuse(StatusCode::CONFLICT, &reason)
        }
    })
}

/// `?provider=NAME&id=BEGINNING`.
async fn find(admin: &Admin, query: &str) -> Result<AdminResponse, StoreError> {
    let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let provider = match field("provider").map(|name| known(admin, name)) {
        Some(Ok(provider)) => provider,
        Some(Err(refused)) => return Ok(refused),
        None => return Ok(refuse(StatusCode::BAD_REQUEST, "write /api/events?provider=NAME&id=BEGINNING")),
    };
    let prefix = format!("{}:{provider}:{}", admin.config.store.namespace, field("id").unwrap_or_default());
    let found = admin.telemetry.store(StoreOp::Find, admin.store.find(&prefix, FOUND_MAX)).await?;
    let events: Vec<Value> = found.iter().map(shown).collect();
    Ok(json_reply(StatusCode::OK, &json!({ "events": events, "limit": FOUND_MAX })))
}

fn shown(seen: &Remembered) -> Value {
    let (state, attempt, status, doubt, at) = match &seen.entry {
        Entry::Claimed(claimed) => ("claimed", claimed.attempt, None, claimed.doubt, claimed.at),
        Entry::Failed(failed) => ("failed", failed.attempt, failed.status, failed.doubt, failed.at),
        Entry::Done(done) => ("done", done.attempt, Some(done.status), None, done.at),
    };
    json!({
        "key": seen.key,
        "state": state,
        "attempt": attempt,
        "status": status,
        "doubt": doubt.map(|mark| mark.as_str()),
        "at": rfc3339(at),
        "forgotten_in_s": seen.left.as_secs(),
        "lease_left_ms": seen.lease_left.map(millis),
    })
}

fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
