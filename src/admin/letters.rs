//! Letters of the queue, and dead ones: listed, shown, tried again, dropped.
//!
//! A letter is named by its own id or by that of its event. Its content may hold secrets, in headers or in the body: it is
//! shown only to those who ask for it, and that is noted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::events::{millis, rfc3339};
use super::query::Query;
use super::{Admin, AdminResponse, Denied, json_reply};
use crate::pipeline::identify::EventKey;
use crate::pipeline::kept::{self, Kept};
use crate::pipeline::route::Route;
use crate::store::backlog::{Filed, LetterId, Revived, Tally};
use crate::store::{Entry, entry};
use crate::telemetry::StoreOp;

/// Letters that one call lists, where it does not say, and at most.
const LISTED: usize = 100;
const LISTED_MAX: usize = 1000;

/// Answers `/api/queue`, `/api/queue/{provider}/{id}` and `/api/queue/{provider}/{id}/retry`.
pub async fn answer(admin: &Admin, request: &Request<Incoming>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let path = request.uri().path().strip_prefix("/api/queue").unwrap_or_default();
    let query = Query(request.uri().query().unwrap_or_default());
    let has = |name: &str| query.field(name).as_deref() == Some("1");
    let asked = |rest| Asked::read(admin, rest, has("dead"));
    match (request.method(), path.strip_prefix('/')) {
        (&Method::GET, None) if query.field("provider").is_some() => list(admin, &query, has("dead")).await,
        (&Method::GET, None) => tallies(admin).await,
        (_, None) => Err(Denied::method("GET")),
        (&Method::GET, Some(rest)) => show(admin, &asked(rest)?, has("content").then_some(peer)).await,
        (&Method::DELETE, Some(rest)) => change(admin, &asked(rest)?, Deed::Drop { force: has("force") }, peer).await,
        (&Method::POST, Some(rest)) => match rest.strip_suffix("/retry") {
            Some(rest) => change(admin, &asked(rest)?, Deed::Retry, peer).await,
            None => Err(Denied::new(StatusCode::NOT_FOUND, "write POST /api/queue/PROVIDER/ID/retry")),
        },
        (_, Some(_)) => Err(Denied::method("GET, POST, DELETE")),
    }
}

/// `{provider}/{id}`: the letter's own id, or its event's as the log shows it.
struct Asked<'a> {
    route: Arc<Route>,
    id: &'a str,
    /// Whether only a dead one is meant.
    dead: bool,
}

impl<'a> Asked<'a> {
    fn read(admin: &Admin, rest: &'a str, dead: bool) -> Result<Self, Denied> {
        let how = || Denied::new(StatusCode::BAD_REQUEST, "write /api/queue/PROVIDER/ID");
        let (provider, id) = rest.split_once('/').filter(|(_, id)| !id.is_empty()).ok_or_else(how)?;
        Ok(Self { route: admin.route(provider)?, id, dead })
    }

    async fn find(&self, admin: &Admin) -> Result<Filed, Denied> {
        let found = match LetterId::parse(self.id) {
            Some(id) => letter(admin, &self.route, id).await?,
            None => None,
        };
        let found = match found {
            Some(filed) => Some(filed),
            None => self.by_event(admin).await?,
        };
        let absent = if self.dead { "no dead letter has this id" } else { "nothing in the queue has this id" };
        found.filter(|filed| filed.is_dead || !self.dead).ok_or_else(|| Denied::new(StatusCode::NOT_FOUND, absent))
    }

    /// The event's cell says which letter it has.
    async fn by_event(&self, admin: &Admin) -> Result<Option<Filed>, Denied> {
        for key in EventKey::shown_as(&admin.config().store.namespace, &self.route.provider.name, self.id) {
            let key = admin.store.key_in(&self.route.lane, &key);
            let seen = admin.telemetry.store(StoreOp::Look, admin.store.look(&key)).await?;
            if let Some(Entry::Queued(queued)) = seen.map(|seen| seen.entry) {
                return letter(admin, &self.route, queued.letter).await;
            }
        }
        Ok(None)
    }
}

async fn letter(admin: &Admin, route: &Route, id: LetterId) -> Result<Option<Filed>, Denied> {
    Ok(admin.telemetry.store(StoreOp::Letters, admin.store.letter(&route.lane, id)).await?)
}

/// What the queue of every provider that has one holds.
async fn tallies(admin: &Admin) -> Result<AdminResponse, Denied> {
    let all = admin.routes();
    let mut routes: Vec<_> = all.all().filter(|route| route.has_letters()).collect();
    routes.sort_by_key(|route| &route.provider.name);
    let mut queues = Vec::with_capacity(routes.len());
    for route in routes {
        queues.push(tally(admin, route).await?);
    }
    Ok(json_reply(StatusCode::OK, &json!({ "queues": queues })))
}

async fn tally(admin: &Admin, route: &Route) -> Result<Value, Denied> {
    let tally = admin.telemetry.store(StoreOp::Letters, admin.store.tally(&route.lane)).await?;
    let Tally { letters, bytes, dead, dead_bytes, oldest } = tally;
    Ok(json!({
        "provider": route.provider.name,
        "letters": letters,
        "bytes": bytes,
        "dead": dead,
        "dead_bytes": dead_bytes,
        "oldest": oldest.map(rfc3339),
        "oldest_age_s": oldest.map(age_s),
    }))
}

/// `?provider=NAME&dead=1&after=LETTER&limit=N`.
async fn list(admin: &Admin, query: &Query<'_>, is_dead: bool) -> Result<AdminResponse, Denied> {
    let bad = |reason: &'static str| Denied::new(StatusCode::BAD_REQUEST, reason);
    let route = admin.route(&query.field("provider").unwrap_or_default())?;
    let after = query.field("after").map(|text| LetterId::parse(&text).ok_or_else(|| bad("`after` is the id of a letter")));
    let limit = query.field("limit").map_or(Ok(LISTED), |text| text.parse().map_err(|_| bad("`limit` is a number")))?;
    if !(1..=LISTED_MAX).contains(&limit) {
        return Err(bad("`limit` is 1 to 1000"));
    }
    let listing = admin.store.letters(&route.lane, is_dead, after.transpose()?, limit);
    let letters = admin.telemetry.store(StoreOp::Letters, listing).await?;
    let next = letters.last().filter(|_| letters.len() == limit).map(|last| last.id.to_string());
    let told = json!({
        "tally": tally(admin, &route).await?,
        "letters": letters.iter().map(shown).collect::<Vec<_>>(),
        "next": next,
    });
    Ok(json_reply(StatusCode::OK, &told))
}

/// With its content where a reader is named, which is noted.
async fn show(admin: &Admin, asked: &Asked<'_>, reader: Option<SocketAddr>) -> Result<AdminResponse, Denied> {
    let found = asked.find(admin).await;
    if let Some(peer) = reader {
        let result = found.as_ref().map_or_else(Denied::reason, |_| "ok");
        note(asked, found.as_ref().ok(), peer, "read the content of a letter", result);
    }
    let filed = found?;
    let mut told = shown(&filed);
    if reader.is_some() {
        told["content"] = content_of(&filed);
    }
    Ok(json_reply(StatusCode::OK, &told))
}

/// What an operator may do with a letter.
#[derive(Clone, Copy)]
enum Deed {
    Retry,
    /// By force also where it is out.
    Drop {
        force: bool,
    },
}

impl Deed {
    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry a letter",
            Self::Drop { .. } => "drop a letter",
        }
    }

    /// Tells in a word what came of it.
    async fn on(self, filed: &Filed, admin: &Admin, route: &Route) -> Result<&'static str, Denied> {
        match self {
            Self::Retry => retry(admin, route, filed).await,
            Self::Drop { force } => discard(admin, route, filed, force).await,
        }
    }
}

/// Does it, and notes what came of it, also where that is nothing.
async fn change(admin: &Admin, asked: &Asked<'_>, deed: Deed, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let (filed, done) = match asked.find(admin).await {
        Ok(filed) => {
            let done = deed.on(&filed, admin, &asked.route).await;
            (Some(filed), done)
        }
        Err(denied) => (None, Err(denied)),
    };
    let result = match &done {
        Ok(word) => word,
        Err(denied) => denied.reason(),
    };
    note(asked, filed.as_ref(), peer, deed.name(), result);
    let (letter, event) = (filed.as_ref().map(|filed| filed.id.to_string()), filed.as_ref().and_then(event_of));
    Ok(json_reply(StatusCode::OK, &json!({ "status": done?, "letter": letter, "event": event })))
}

async fn retry(admin: &Admin, route: &Route, filed: &Filed) -> Result<&'static str, Denied> {
    let conflict = |reason: &'static str| Denied::new(StatusCode::CONFLICT, reason);
    if !route.has_letters() {
        return Err(conflict("nobody would deliver it: the provider's `mode` is not \"queue\""));
    }
    match admin.telemetry.store(StoreOp::Revive, admin.store.revive(&route.lane, filed)).await? {
        Revived::Revived => {
            route.bell.notify_one();
            Ok("retried")
        }
        Revived::Absent => Err(Denied::new(StatusCode::NOT_FOUND, "it is no longer in the queue")),
        Revived::Out => Err(conflict("it is being delivered at this moment")),
    }
}

async fn discard(admin: &Admin, route: &Route, filed: &Filed, force: bool) -> Result<&'static str, Denied> {
    if filed.is_out && !force {
        let reason = "it is being delivered at this moment: `force=1` drops it all the same, and the consumer may have it";
        return Err(Denied::new(StatusCode::CONFLICT, reason));
    }
    let body = kept::read(&filed.content).map(|kept| kept.body);
    let discarding = admin.store.discard(&route.lane, filed, body, route.provider.retention);
    admin.telemetry.store(StoreOp::Finish, discarding).await?;
    // Whoever was behind it in its line is due now.
    route.bell.notify_one();
    Ok("dropped")
}

/// The line of the audit.
fn note(asked: &Asked<'_>, filed: Option<&Filed>, peer: SocketAddr, what: &str, result: &str) {
    let provider = &asked.route.provider.name;
    let letter = filed.map_or_else(|| asked.id.to_owned(), |filed| filed.id.to_string());
    let event = filed.and_then(event_of);
    tracing::warn!(target: "hookonce::audit", %peer, provider, letter, event, result, "{what}");
}

/// Everything but its content.
fn shown(filed: &Filed) -> Value {
    let Filed { id, slip, line, due_in, bytes, .. } = filed;
    json!({
        "letter": id.to_string(),
        "event": event_of(filed),
        "state": state_of(filed),
        "attempt": slip.attempt,
        "doubt": slip.doubt.map(|mark| mark.as_str()),
        "status": slip.status,
        "queued_at": rfc3339(slip.queued_at),
        "age_s": age_s(slip.queued_at),
        "due_in_ms": due_in.map(millis),
        "bytes": bytes,
        "line": line,
    })
}

fn state_of(filed: &Filed) -> &'static str {
    match filed {
        Filed { is_dead: true, .. } => "dead",
        Filed { is_out: true, .. } => "out",
        // Others of its line come first.
        Filed { due_in: None, .. } => "behind",
        _ => "waiting",
    }
}

fn event_of(filed: &Filed) -> Option<&str> {
    filed.cell.as_ref().map(EventKey::id)
}

fn age_s(at: SystemTime) -> u64 {
    entry::now().duration_since(at).unwrap_or_default().as_secs()
}

/// The delivery as it came; `null` where it cannot be read.
fn content_of(filed: &Filed) -> Value {
    let Some(Kept { delivery, .. }) = kept::read(&filed.content) else { return Value::Null };
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: Vec<_> = delivery.parts.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect();
    let mut told = json!({
        "method": delivery.parts.method.as_str(),
        "uri": delivery.parts.uri.to_string(),
        "headers": headers,
    });
    match std::str::from_utf8(&delivery.body) {
        Ok(text) => told["body"] = text.into(),
        Err(_) => told["body_base64"] = data_encoding::BASE64.encode(&delivery.body).into(),
    }
    told
}
