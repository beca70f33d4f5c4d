//! What the live page is told: the instance, its state, each provider's figures, and the deliveries that ended last.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::events::{millis, rfc3339};
use super::history::{Counts, History, Kind, Past};
use super::{Admin, bypass};
use crate::pipeline::route::Route;
use crate::scheme::Disproof;
use crate::store::{Keeping, Mark, entry};
use crate::telemetry::figures::{Buckets, Quantile, QueueFigures};
use crate::telemetry::latest::Ended;
use crate::telemetry::{LetterOutcome, Outcome};

/// A longer id is cut: it can be looked up by those who have it from elsewhere.
const EVENT_BYTES_MAX: usize = 512;

/// What stays the same while the program runs.
pub fn instance(admin: &Admin) -> Value {
    let place = &admin.place;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "listen": place.listen.to_string(),
        "admin": place.admin.to_string(),
        "started": entry::now().checked_sub(place.started.elapsed()).map(rfc3339),
        "process": std::process::id(),
        // Without a token nothing can be changed from here.
        "changes": admin.config().admin_token.is_some(),
        "kinds": Kind::ALL.map(Kind::as_str),
        "bar_s": super::history::BAR.as_secs(),
        "bars": super::history::BARS,
    })
}

/// Everything but providers and deliveries.
pub fn general(admin: &Admin, history: &History) -> Value {
    let limits = crate::telemetry::Limit::ALL.map(|limit| (limit.as_str(), admin.telemetry.metrics.limited(limit).get()));
    json!({
        "at": rfc3339(entry::now()),
        "bar": history.bar(),
        "uptime_s": admin.place.started.elapsed().as_secs(),
        "draining": admin.lifecycle.draining.is_cancelled(),
        "unrouted": admin.telemetry.metrics.unrouted.get(),
        "limited": counted(limits),
        "bypasses": bypass::all(admin),
        "reload": { "taken": admin.telemetry.metrics.reloads.taken(), "refused": *admin.telemetry.refused() },
        "store": store(admin, history),
    })
}

fn store(admin: &Admin, history: &History) -> Value {
    let (metrics, condition, breaker) = (&admin.telemetry.metrics, &admin.condition, admin.store.breaker());
    let keeping = match condition.keeping() {
        Some(Keeping::Lossy(why)) => Some(why),
        Some(Keeping::Durable) | None => None,
    };
    json!({
        "url": admin.config().store.url.masked(),
        "namespace": admin.config().store.namespace,
        "up": metrics.store_up.get() == 1,
        "breaker": if breaker.is_open() { "open" } else { "closed" },
        "down_for_s": breaker.down_for().map(|time| time.as_secs()),
        "takes_no_new_events_for_s": condition.takes_none_for().map(|time| time.as_secs()),
        "resets": metrics.store_resets.get(),
        "last_reset": condition.reset().map(rfc3339),
        "evicted": metrics.store_evicted_keys.get(),
        "skew_s": metrics.clock_skew.get(),
        "clock_off_for": admin.clock_is_off_for(),
        "to_write_back": admin.reserve.unsettled(),
        "may_lose": keeping,
        "claim": latency(&history.store()),
    })
}

/// One provider, with its bars from this number on.
pub fn provider(route: &Route, past: &Past, bars_from: u64) -> Value {
    let (provider, figures, window) = (&route.provider, &past.now, past.window());
    let (overhead, upstream) = past.latencies();
    let secrets = figures.matches.iter().zip(&past.matched);
    let secrets = secrets.map(|(matches, last)| json!({ "matches": matches, "last": last.map(rfc3339) }));
    json!({
        "name": provider.name,
        "preset": provider.preset,
        "path": provider.path,
        "upstream": provider.upstream.0.to_string().trim_end_matches('/'),
        "mode": provider.mode.as_str(),
        "rate": rounded(past.rate()),
        "outcomes": counted(Outcome::ALL.map(|outcome| (outcome.as_str(), figures.outcomes[outcome as usize]))),
        "hits": figures.hits,
        "misses": figures.misses,
        "window": { "kinds": window.counts, "hits": window.hits, "misses": window.misses },
        "bars": past.bars(bars_from).into_iter().map(bar).collect::<Vec<_>>(),
        "marks": counted(Mark::ALL.iter().map(|mark| (mark.as_str(), figures.marks[*mark as usize]))),
        "disproofs": counted(Disproof::ALL.iter().map(|reason| (reason.code(), figures.disproofs[*reason as usize]))),
        "conflicts": figures.conflicts,
        "in_flight": figures.in_flight,
        "overhead": latency(&overhead),
        "upstream_time": latency(&upstream),
        "secrets": secrets.collect::<Vec<_>>(),
        "queue": route.has_letters().then(|| queue(&figures.queue)),
    })
}

/// Its number, and a count for each kind.
fn bar((number, counts): (u64, Counts)) -> Vec<u64> {
    [&[number], &counts[..]].concat()
}

fn queue(queue: &QueueFigures) -> Value {
    json!({
        "events": queue.events,
        "bytes": queue.bytes,
        "oldest_s": queue.oldest_seconds,
        "dead": queue.dead,
        "dead_bytes": queue.dead_bytes,
        "attempts": counted(LetterOutcome::ALL.map(|result| (result.as_str(), queue.attempts[result as usize]))),
    })
}

/// Those that are not nought.
fn counted<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Value {
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    Value::Object(counts.map(|(word, count)| (word.to_owned(), count.into())).collect::<Map<_, _>>())
}

/// Median and 99th percentile; `null` where there was nothing to measure.
fn latency(buckets: &Buckets) -> Value {
    let (Some(p50), Some(p99)) = (buckets.quantile(0.5), buckets.quantile(0.99)) else { return Value::Null };
    json!({ "p50": quantile(p50), "p99": quantile(p99) })
}

/// Seconds, and on which side of them it lies.
fn quantile(quantile: Quantile) -> Value {
    match quantile {
        Quantile::Below(bound) => json!([bound, "<"]),
        Quantile::About(value) => json!([rounded(value), ""]),
        Quantile::Above(bound) => json!([bound, ">"]),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A delivery that has ended.
pub fn delivery(number: u64, ended: &Ended, now: SystemTime) -> Value {
    let Ended { provider, event, slot, closing, facts, at, total } = ended;
    let event = event.as_deref().map(|id| (&id[..id.floor_char_boundary(EVENT_BYTES_MAX)], id.len() > EVENT_BYTES_MAX));
    json!({
        "n": number,
        "at": now.checked_sub(at.elapsed()).map(rfc3339),
        "provider": &**provider,
        "event": event.map(|(id, _)| id),
        "cut": event.is_some_and(|(_, is_cut)| is_cut),
        "verified": slot.is_some(),
        "outcome": closing.outcome.as_str(),
        "status": closing.status.as_u16(),
        "attempt": facts.attempt,
        "mark": facts.mark.map(Mark::as_str),
        "reason": closing.reason,
        "ms": fine(*total),
        "upstream_ms": fine(facts.upstream),
    })
}

/// Milliseconds with two digits behind the point, where it matters.
fn fine(time: std::time::Duration) -> f64 {
    if time.as_secs() > 0 { millis(time) as f64 } else { (time.as_secs_f64() * 1e5).round() / 1e2 }
}
