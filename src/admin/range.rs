//! The events of one provider that were done within a time: counted, or opened to their next delivery.
//!
//! A provider may have millions of them. One call walks for a moment only and says where the next goes on, so that
//! whoever asks can show how far it has come, and stops it by asking no more.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::events::rfc3339;
use super::moment::Moment;
use super::query::Query;
use super::{Admin, AdminResponse, Denied, json_reply, outcome};
use crate::pipeline::identify::EventKey;
use crate::store::{Cursor, Done, Entry, Mark, Remembered, StoreError, entry};
use crate::telemetry::StoreOp;

/// How long one call walks.
const SLICE: Duration = Duration::from_millis(500);

/// `?provider=NAME&since=T&until=T&from=PLACE`.
struct Range {
    provider: String,
    since: SystemTime,
    until: SystemTime,
    from: Option<Cursor>,
}

/// What a walk has met.
#[derive(Debug, Default)]
struct Tally {
    /// Events of the provider, whenever they were done.
    seen: usize,
    done: usize,
    /// Claims of that time: their consumers are at work, and they are left alone.
    in_flight: usize,
    forgotten: usize,
}

/// Counts what `forget` would forget.
pub async fn count(admin: &Admin, query: &Query<'_>) -> Result<AdminResponse, Denied> {
    let range = Range::read(admin, query)?;
    let mut tally = Tally::default();
    let next = range.walk(admin, &mut tally, false).await?;
    Ok(json_reply(StatusCode::OK, &range.shown("counted", &tally, next)))
}

/// Lets the next delivery of each through, in doubt.
pub async fn forget(admin: &Admin, query: &Query<'_>, peer: SocketAddr) -> Result<AdminResponse, Denied> {
    let range = Range::read(admin, query)?;
    let mut tally = Tally::default();
    let walked = range.walk(admin, &mut tally, true).await;
    let walked = admin.announce().await.and(walked);
    // Whatever stopped it: what was changed by then is told.
    let result = outcome(&walked, |_| "ok".to_owned());
    let (provider, since, until) = (&range.provider, rfc3339(range.since), rfc3339(range.until));
    let Tally { forgotten, in_flight, .. } = tally;
    tracing::warn!(target: "hookonce::audit", %peer, provider, since, until, forgotten, in_flight, result, "forget events by time");
    Ok(json_reply(StatusCode::OK, &range.shown("forgotten", &tally, walked?)))
}

impl Range {
    fn read(admin: &Admin, query: &Query<'_>) -> Result<Self, Denied> {
        let bad = |reason: &'static str| Denied::new(StatusCode::BAD_REQUEST, reason);
        let how = || bad("write /api/events?provider=NAME&since=TIME&until=TIME");
        let provider = admin.route(&query.field("provider").ok_or_else(how)?)?.provider.name.clone();
        let now = entry::now();
        let moment = |text: String| {
            let at = text.parse::<Moment>().map_err(bad)?.at(now);
            at.ok_or_else(|| bad("this is before the beginning of time"))
        };
        let since = moment(query.field("since").ok_or_else(how)?)?;
        let until = query.field("until").map_or(Ok(now), moment)?;
        if since > until {
            return Err(bad("since is later than until"));
        }
        Ok(Self { provider, since, until, from: query.field("from").map(Cursor) })
    }

    fn has(&self, at: SystemTime) -> bool {
        (self.since..=self.until).contains(&at)
    }

    /// Walks for a moment, and says where to go on.
    async fn walk(&self, admin: &Admin, tally: &mut Tally, forget: bool) -> Result<Option<Cursor>, StoreError> {
        let (prefix, until) = (admin.prefix(&self.provider), Instant::now() + SLICE);
        let mut from = self.from.clone();
        loop {
            let (events, next) = admin.telemetry.store(StoreOp::Find, admin.store.walk(&prefix, from)).await?;
            tally.seen += events.len();
            tally.in_flight += events.iter().filter(|event| self.is_in_flight(event)).count();
            let done: Vec<_> = events.iter().filter_map(|event| Some((event, self.done(event)?))).collect();
            tally.done += done.len();
            if forget {
                tally.forget(admin, &done).await?;
            }
            if next.is_none() || Instant::now() >= until {
                return Ok(next);
            }
            from = next;
            // A store in memory never waits, and others want their answers too.
            yield_now().await;
        }
    }

    fn done<'e>(&self, event: &'e Remembered) -> Option<&'e Done> {
        match &event.entry {
            Entry::Done(done) => self.has(done.at).then_some(done),
            Entry::Claimed(_) | Entry::Failed(_) | Entry::Queued(_) => None,
        }
    }

    fn is_in_flight(&self, event: &Remembered) -> bool {
        let is_live = event.lease_left.is_some_and(|left| !left.is_zero());
        is_live && matches!(&event.entry, Entry::Claimed(claimed) if self.has(claimed.at))
    }

    /// Both times as they were understood: the next call must not mean another range by "2h".
    fn shown(&self, status: &str, tally: &Tally, next: Option<Cursor>) -> Value {
        let Tally { seen, done, in_flight, forgotten } = tally;
        json!({
            "status": status,
            "provider": self.provider,
            "since": rfc3339(self.since),
            "until": rfc3339(self.until),
            "seen": seen,
            "done": done,
            "in_flight": in_flight,
            "forgotten": forgotten,
            "next": next.map(|Cursor(place)| place),
        })
    }
}

impl Tally {
    /// One step's events, all at once. One that has changed since it was seen is left as it is.
    async fn forget(&mut self, admin: &Admin, done: &[(&Remembered, &Done)]) -> Result<(), StoreError> {
        let opening = done.iter().map(async |(event, done)| {
            let key = EventKey::stored(&event.key);
            admin.telemetry.store(StoreOp::Forget, admin.store.reopen(&key, done, Mark::Forgotten, event.left)).await
        });
        let opened = join_all(opening).await;
        self.forgotten += opened.iter().filter(|opened| matches!(opened, Ok(true))).count();
        opened.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }
}
