//! What the store knows of events: look one up, find by the beginning of an id, let one through again.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::query::Query;
use super::{Admin, AdminResponse, Denied, json_reply, outcome, range};
use crate::pipeline::identify::EventKey;
use crate::store::{Entry, Forgotten, Remembered, entry};
use crate::telemetry::StoreOp;

/// Events that one search shows.
const FOUND_MAX: usize = 100;

/// Answers `/api/events` and `/api/events/{provider}/{id}`.
pub async fn answer(admin: &Admin, request: &Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let path = request.uri().path().strip_prefix("/api/events").unwrap_or_default();
    let query = Query(request.uri().query().unwrap_or_default());
    match (request.method(), path.strip_prefix('/')) {
        (&Method::GET, None) if query.field("since").is_some() => range::count(admin, &query).await,
        (&Method::GET, None) => find(admin, &query).await,
        (&Method::DELETE, None) => range::forget(admin, &query, peer).await,
        (&Method::GET, Some(rest)) => show(admin, &keys_of(admin, rest)?).await,
        (&Method::DELETE, Some(rest)) => forget(admin, &keys_of(admin, rest)?, peer).await,
        (_, _) => Err(Denied::method("GET, DELETE")),
    }
}

/// `{provider}/{id}`, the id as logs and `Hookonce-Event-Id` show it. There may be several keys that are shown so.
fn keys_of(admin: &Admin, rest: &str) -> Result<Vec<EventKey>, Denied> {
    let bad = |reason: &'static str| Denied::new(StatusCode::BAD_REQUEST, reason);
    let (provider, id) = rest.split_once('/').ok_or_else(|| bad("write /api/events/PROVIDER/ID"))?;
    let route = admin.route(provider)?;
    let mut keys = EventKey::shown_as(&admin.config().store.namespace, &route.provider.name, id);
    // In queue mode an event's key may have to be beside its letter; before, it was not.
    if route.has_letters() {
        let beside = keys.iter().map(|key| admin.store.key_in(&route.lane, key)).filter(|key| !keys.contains(key)).collect();
        keys = [beside, keys].concat();
    }
    if keys.is_empty() { Err(bad("this is not an event id as the log shows it")) } else { Ok(keys) }
}

fn absent() -> Denied {
    Denied::new(StatusCode::NOT_FOUND, "the store knows no such event")
}

async fn show(admin: &Admin, keys: &[EventKey]) -> Result<AdminResponse, Denied> {
    for key in keys {
        if let Some(seen) = admin.telemetry.store(StoreOp::Look, admin.store.look(key)).await? {
            return Ok(json_reply(StatusCode::OK, &shown(&seen)));
        }
    }
    Err(absent())
}

async fn forget(admin: &Admin, keys: &[EventKey], peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let mut told = None;
    for key in keys {
        let forgotten = admin.telemetry.store(StoreOp::Forget, admin.store.forget(key)).await;
        let is_absent = matches!(forgotten, Ok(Forgotten::Absent));
        told = Some((key.as_str(), forgotten));
        if !is_absent {
            break;
        }
    }
    let (key, forgotten) = told.ok_or_else(absent)?;
    let result = outcome(&forgotten, |forgotten| format!("{forgotten:?}"));
    tracing::warn!(target: "hookonce::audit", %peer, event = key, result, "forget an event");
    match forgotten? {
        Forgotten::Forgotten => {
            admin.announce().await?;
            Ok(json_reply(StatusCode::OK, &json!({ "status": "forgotten", "key": key })))
        }
        Forgotten::Absent => Err(absent()),
        Forgotten::InFlight { lease_left } => {
            let reason = format!("the consumer is at work on it; its lease has {} ms left", lease_left.as_millis());
            Err(Denied::new(StatusCode::CONFLICT, reason))
        }
        Forgotten::Queued => {
            let reason = "it is in the queue or a dead letter: `hookonce queue` can have it tried again, or drop it";
            Err(Denied::new(StatusCode::CONFLICT, reason))
        }
    }
}

/// `?provider=NAME&id=BEGINNING`.
async fn find(admin: &Admin, query: &Query<'_>) -> Result<AdminResponse, Denied> {
    let how = || Denied::new(StatusCode::BAD_REQUEST, "write /api/events?provider=NAME&id=BEGINNING");
    let route = admin.route(&query.field("provider").ok_or_else(how)?)?;
    let prefix = format!("{}{}", admin.prefix(&route.provider.name), query.field("id").unwrap_or_default());
    let mut found = admin.telemetry.store(StoreOp::Find, admin.store.find(&prefix, FOUND_MAX)).await?;
    let beside = admin.store.key_in(&route.lane, &EventKey::stored(&prefix));
    if query.field("id").is_some() && beside.as_str() != prefix {
        found.extend(admin.telemetry.store(StoreOp::Find, admin.store.find(beside.as_str(), FOUND_MAX)).await?);
        found.truncate(FOUND_MAX);
    }
    let events: Vec<Value> = found.iter().map(shown).collect();
    Ok(json_reply(StatusCode::OK, &json!({ "events": events, "limit": FOUND_MAX })))
}

fn shown(seen: &Remembered) -> Value {
    let (state, attempt, status, doubt, at) = match &seen.entry {
        Entry::Claimed(claimed) => ("claimed", claimed.attempt, None, claimed.doubt, claimed.at),
        Entry::Failed(failed) => ("failed", failed.attempt, failed.status, failed.doubt, failed.at),
        Entry::Queued(queued) => ("queued", 0, None, None, queued.at),
        Entry::Done(done) => ("done", done.attempt, Some(done.status).filter(|_| !done.is_dropped()), None, done.at),
    };
    let is_dropped = matches!(&seen.entry, Entry::Done(done) if done.is_dropped());
    json!({
        "key": seen.key,
        "id": EventKey::stored(&seen.key).id(),
        "state": state,
        "attempt": attempt,
        "status": status,
        "dropped": is_dropped,
        "doubt": doubt.map(|mark| mark.as_str()),
        "at": rfc3339(at),
        "forgotten_in_s": seen.left.as_secs(),
        "remembered_until": entry::now().checked_add(seen.left).map(rfc3339),
        "lease_left_ms": seen.lease_left.map(millis),
    })
}

pub fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
