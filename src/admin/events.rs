//! What the store knows of events: look one up, find by the beginning of an id, let one through again.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{Admin, AdminResponse, Denied, json_reply};
use crate::pipeline::identify::{EventId, EventKey};
use crate::pipeline::route::percent_decoded;
use crate::store::{Entry, Forgotten, Remembered};
use crate::telemetry::StoreOp;

/// Events that one search shows.
const FOUND_MAX: usize = 100;

/// Answers `/api/events` and `/api/events/{provider}/{id}`.
pub async fn answer(admin: &Admin, request: &Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let path = request.uri().path().strip_prefix("/api/events").unwrap_or_default();
    match (request.method(), path.strip_prefix('/')) {
        (&Method::GET, None) => find(admin, request.uri().query().unwrap_or_default()).await,
        (&Method::GET, Some(rest)) => show(admin, &key_of(admin, rest)?).await,
        (&Method::DELETE, Some(rest)) => forget(admin, &key_of(admin, rest)?, peer).await,
        (_, None) => Err(Denied::method("GET")),
        (_, Some(_)) => Err(Denied::method("GET, DELETE")),
    }
}

/// `{provider}/{id}`, the id as logs and `Hookonce-Event-Id` show it.
fn key_of(admin: &Admin, rest: &str) -> Result<EventKey, Denied> {
    let bad = |reason: &'static str| Denied::new(StatusCode::BAD_REQUEST, reason);
    let (provider, id) = rest.split_once('/').ok_or_else(|| bad("write /api/events/PROVIDER/ID"))?;
    let provider = known(admin, provider)?;
    let id = EventId::parse(id).ok_or_else(|| bad("this is not an event id as the log shows it"))?;
    Ok(EventKey::new(&admin.config.store.namespace, provider, &id))
}

fn known<'a>(admin: &'a Admin, provider: &str) -> Result<&'a str, Denied> {
    let route = admin.routes.named(provider);
    let unknown = || Denied::new(StatusCode::NOT_FOUND, "no provider of this name is configured");
    route.map(|route| route.provider.name.as_str()).ok_or_else(unknown)
}

fn absent() -> Denied {
    Denied::new(StatusCode::NOT_FOUND, "the store knows no such event")
}

async fn show(admin: &Admin, key: &EventKey) -> Result<AdminResponse, Denied> {
    let seen = admin.telemetry.store(StoreOp::Look, admin.store.look(key)).await?.ok_or_else(absent)?;
    Ok(json_reply(StatusCode::OK, &shown(&seen)))
}

async fn forget(admin: &Admin, key: &EventKey, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let forgotten = admin.telemetry.store(StoreOp::Forget, admin.store.forget(key)).await?;
    tracing::warn!(target: "hookonce::audit", %peer, event = key.as_str(), result = ?forgotten, "forget an event");
    if forgotten == Forgotten::Forgotten {
        admin.announce().await?;
    }
    match forgotten {
        Forgotten::Forgotten => Ok(json_reply(StatusCode::OK, &json!({ "status": "forgotten", "key": key.as_str() }))),
        Forgotten::Absent => Err(absent()),
        Forgotten::InFlight { lease_left } => {
            let reason = format!("the consumer is at work on it; its lease has {} ms left", lease_left.as_millis());
            Err(Denied::new(StatusCode::CONFLICT, reason))
        }
    }
}

/// `?provider=NAME&id=BEGINNING`.
async fn find(admin: &Admin, query: &str) -> Result<AdminResponse, Denied> {
    let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(percent_decoded);
    let how = || Denied::new(StatusCode::BAD_REQUEST, "write /api/events?provider=NAME&id=BEGINNING");
    let provider = known(admin, &field("provider").ok_or_else(how)?)?;
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
