//! What can be watched. One `Record` a delivery, closed on every path: its log line and its metrics come from the
//! same values. Steps never touch a counter; they tell the record or the watch of their provider what happened.

pub mod figures;
pub mod latest;
pub(crate) mod line;
pub mod log;
pub mod metrics;
pub mod outcome;
pub mod outlet;
pub mod trace;

use std::borrow::Cow;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use http::{HeaderMap, Method, StatusCode};
use prometheus::IntGauge;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::{Provider, Share, Tls};
use crate::scheme::Disproof;
use crate::store::backlog::Tally;
use crate::store::{Done, Mark, StoreError, StoreErrorKind, WrittenBack};
use latest::{Ended, Latest};
use metrics::{Metrics, ProviderMetrics};
pub use outcome::{Amends, LetterOutcome, Limit, Outcome, StoreOp};
use trace::{Kind, Note, Span, Trace, Tracer};

/// From this attempt on a failure is a repeated one.
const REPEATED: u32 = 3;

/// The program's metrics, shared by all runtimes.
#[derive(Debug)]
pub struct Telemetry {
    pub metrics: Metrics,
    /// `None`: no spans are made.
    tracer: Option<Arc<Tracer>>,
    pub latest: Arc<Latest>,
    // A std mutex: held for a look, never across an await.
    refused: Mutex<Option<String>>,
}

impl Telemetry {
    pub fn new() -> Result<Self, prometheus::Error> {
        Ok(Self { metrics: Metrics::new()?, tracer: None, latest: Arc::default(), refused: Mutex::default() })
    }

    /// Makes spans of a share of the deliveries from now on. Gives what has to be exported.
    pub fn trace(&mut self, sample: Share) -> mpsc::Receiver<Vec<Span>> {
        let (tracer, spans) = Tracer::new(sample, self.metrics.spans.dropped.clone());
        self.tracer = Some(Arc::new(tracer));
        spans
    }

    /// Begins the trace of a request.
    pub fn begin(&self, kind: Kind, headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Trace {
        self.tracer.as_ref().map(|tracer| tracer.begin(kind, headers, now())).unwrap_or_default()
    }

    /// The watch over one provider.
    pub fn watch(&self, provider: &Provider) -> ProviderWatch {
        let metrics = self.metrics.provider(&provider.name, provider.keys.len());
        metrics.retention_seconds.set(i64::try_from(provider.retention.as_secs()).unwrap_or(i64::MAX));
        ProviderWatch { name: provider.name.as_str().into(), metrics, latest: Arc::clone(&self.latest) }
    }

    /// Runs a store operation, timed and its failure counted. Not an `async fn`, which would hold the call twice.
    pub fn store<T, E>(&self, op: StoreOp, call: impl Future<Output = Result<T, E>>) -> impl Future<Output = Result<T, E>>
    where
        E: AsRef<StoreError>,
    {
        let started = Instant::now();
        call.inspect(move |result| {
            let kind = result.as_ref().err().map(|error| error.as_ref().kind);
            if let Some(kind) = kind {
                self.metrics.store_error(op, kind).inc();
            }
            // A call that was not made took no time.
            if kind != Some(StoreErrorKind::BreakerOpen) {
                self.metrics.store_seconds(op).observe(started.elapsed().as_secs_f64());
            }
        })
    }

    /// The store was told of an event that was handled without it.
    pub fn written_back(&self, written: WrittenBack) {
        let amends = match written {
            WrittenBack::Done => Amends::Done,
            WrittenBack::Doubt => Amends::Doubt,
            WrittenBack::Conflict => Amends::Conflict,
            WrittenBack::Nothing | WrittenBack::ClaimedHere | WrittenBack::ClaimedThere => return,
        };
        self.metrics.written_back(amends).inc();
    }

    /// A request that belongs to no provider: often the first mistake of whoever sets things up.
    pub fn unrouted(&self, method: &Method, path: &str) {
        self.metrics.unrouted.inc();
        log::unrouted(method, path);
    }

    /// A provider's published keys were asked for.
    pub fn keys_fetched(&self, is_ok: bool) {
        self.metrics.key_fetches[usize::from(!is_ok)].inc();
    }

    /// The configuration was read anew, and taken; or refused, and why.
    pub fn reloaded(&self, refused: Option<String>) {
        let (reloads, is_ok) = (&self.metrics.reloads, refused.is_none());
        *self.refused() = refused;
        reloads.stale.set(i64::from(!is_ok));
        reloads.results[usize::from(!is_ok)].inc();
    }

    /// Why the configuration that was read last is not the one that is run.
    pub fn refused(&self) -> MutexGuard<'_, Option<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificate that the listening side shows from now on.
    pub fn certificate(&self, tls: Option<&Tls>) {
        let expires = tls.and_then(|tls| tls.expires?.duration_since(SystemTime::UNIX_EPOCH).ok());
        self.metrics.tls_expiry.set(expires.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)));
    }

    pub fn limited(&self, limit: Limit) {
        self.metrics.limited(limit).inc();
    }
}

/// What is counted of one provider beside its deliveries' outcomes.
#[derive(Debug)]
pub struct ProviderWatch {
    pub name: Arc<str>,
    metrics: ProviderMetrics,
    latest: Arc<Latest>,
}

impl ProviderWatch {
    /// An event was claimed that nobody had claimed before.
    pub fn claimed_first(&self) {
        self.metrics.dedup_misses.inc();
    }

    /// A claim is held until the guard is dropped.
    pub fn claim_held(&self) -> GaugeGuard {
        self.metrics.claims_in_flight.inc();
        GaugeGuard(self.metrics.claims_in_flight.clone())
    }

    /// Whether done events are forwarded again. Tells whether that is news.
    pub fn bypassed(&self, is_on: bool) -> bool {
        let (gauge, now) = (&self.metrics.bypass_active, i64::from(is_on));
        let is_news = gauge.get() != now;
        gauge.set(now);
        is_news
    }

    /// A forward goes out that may be a second one.
    pub fn marked(&self, mark: Mark) {
        self.metrics.maybe_duplicate[mark as usize].inc();
    }

    /// An attempt at a letter ended.
    pub fn letter(&self, outcome: LetterOutcome) {
        self.metrics.queue.attempts[outcome as usize].inc();
    }

    /// What the queue holds, and the age of its oldest event.
    pub fn queue(&self, tally: &Tally, now: SystemTime) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let queue = &self.metrics.queue;
        queue.events.set(number(tally.letters));
        queue.bytes.set(number(tally.bytes));
        queue.dead.set(number(tally.dead));
        queue.dead_bytes.set(number(tally.dead_bytes));
        let age = tally.oldest.and_then(|oldest| now.duration_since(oldest).ok()).unwrap_or_default();
        queue.oldest_seconds.set(number(age.as_secs()));
    }

    pub fn conflict(&self) {
        self.metrics.conflicts.inc();
    }

    /// The head of the consumer's answer came, or none did.
    pub fn upstream_took(&self, time: Duration) {
        self.metrics.upstream_seconds.observe(time.as_secs_f64());
    }

    /// The consumer accepted an event at this attempt.
    pub fn succeeded_at(&self, attempt: u32) {
        self.metrics.failed_attempts.observe(f64::from(attempt));
    }

    /// The consumer did not accept an event at this attempt. Once is a hiccup, several times is an event that nobody looks after.
    pub fn failed_at(&self, attempt: u32) {
        if attempt >= REPEATED {
            self.metrics.repeated_failures.inc();
        }
    }

    pub fn unverified(&self, reason: Disproof) {
        self.metrics.signature_failures[reason as usize].inc();
    }

    pub fn verified_with(&self, slot: usize) {
        if let Some(counter) = self.metrics.secret_matches.get(slot) {
            counter.inc();
        }
    }

    /// A duplicate of an event that was done at `done.at`.
    pub fn duplicate_of(&self, done: &Done, now: SystemTime) {
        if let Ok(age) = now.duration_since(done.at) {
            self.metrics.duplicate_age.observe(age.as_secs_f64());
        }
    }
}

/// Takes one off a gauge when dropped, on whatever path.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What the attempt at an event adds to the record of the delivery that caused it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    pub store: Duration,
    /// For another process's attempt.
    pub waited: Duration,
    pub upstream: Duration,
    pub attempt: Option<u32>,
    pub mark: Option<Mark>,
}

/// One delivery, from its first byte to its answer. Dropped unclosed, the sender has hung up.
#[derive(Debug)]
pub struct Record {
    started: Instant,
    watch: Option<Arc<ProviderWatch>>,
    event: Option<Arc<str>>,
    slot: Option<usize>,
    unverified: Option<Disproof>,
    body: Duration,
    waited: Duration,
    facts: Facts,
    trace: Trace,
    is_closed: bool,
}

/// How a delivery ended, in the terms of the record.
#[derive(Clone, Debug)]
pub struct Closing {
    pub outcome: Outcome,
    pub status: StatusCode,
    pub reason: Cow<'static, str>,
}

impl Record {
    pub fn open() -> Self {
        Self {
            started: Instant::now(),
            watch: None,
            event: None,
            slot: None,
            unverified: None,
            body: Duration::ZERO,
            waited: Duration::ZERO,
            facts: Facts::default(),
            trace: Trace::default(),
            is_closed: false,
        }
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn provider(&mut self, watch: &Arc<ProviderWatch>) {
        self.watch = Some(Arc::clone(watch));
    }

    pub fn traced(&mut self, trace: Trace) {
        self.trace = trace;
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub fn body_took(&mut self, time: Duration) {
        self.body = time;
    }

    pub fn verified_with(&mut self, slot: usize) {
        self.slot = Some(slot);
        self.trace.is_genuine();
    }

    /// It goes on though its signature does not hold.
    pub fn unverified(&mut self, reason: Disproof) {
        self.unverified = Some(reason);
    }

    pub fn event(&mut self, id: &Arc<str>) {
        self.event = Some(Arc::clone(id));
    }

    pub fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    pub fn facts(&mut self, facts: Facts) {
        self.facts = facts;
    }

    /// Counts the delivery, writes its line and keeps it among the latest. What belongs to no provider is not a delivery.
    pub fn close(&mut self, closing: Closing) {
        self.is_closed = true;
        let total = self.started.elapsed();
        let Some(watch) = &self.watch else { return };
        let metrics = &watch.metrics;
        metrics.deliveries[closing.outcome as usize].inc();
        if matches!(closing.outcome, Outcome::Duplicate | Outcome::Waited) {
            metrics.dedup_hits.inc();
        }
        // Of a sender that hung up it is not known what the time was spent on.
        if closing.outcome != Outcome::Abandoned {
            let elsewhere = self.body + self.waited + self.facts.waited + self.facts.store + self.facts.upstream;
            metrics.overhead_seconds.observe(total.saturating_sub(elsewhere).as_secs_f64());
        }
        let error = closing.status.is_server_error().then_some(&*closing.reason);
        self.trace.end(|| "delivery".to_owned(), || self.notes(watch, &closing), error);
        log::delivery(&log::Line {
            provider: &watch.name,
            event: self.event.as_deref(),
            slot: self.slot,
            unverified: self.unverified,
            facts: self.facts,
            waited: self.waited + self.facts.waited,
            total,
            closing: &closing,
            trace: self.trace.id(),
        });
        watch.latest.note(Ended {
            provider: Arc::clone(&watch.name),
            event: self.event.take(),
            slot: self.slot,
            closing,
            facts: self.facts,
            at: self.started + total,
            total,
        });
    }

    /// What a span says of the delivery: what its line says, in the words that traces have for it.
    fn notes(&self, watch: &ProviderWatch, closing: &Closing) -> Vec<(&'static str, Note)> {
        let mut notes: Vec<(&'static str, Note)> = vec![
            ("http.response.status_code", closing.status.as_u16().into()),
            ("hookonce.provider", (&*watch.name).into()),
            ("hookonce.outcome", closing.outcome.as_str().into()),
            ("hookonce.reason", (&*closing.reason).into()),
        ];
        notes.extend(self.event.as_deref().map(|event| ("hookonce.event_id", event.into())));
        notes.extend(self.facts.attempt.map(|attempt| ("hookonce.attempt", attempt.into())));
        notes.extend(self.facts.mark.map(|mark| ("hookonce.maybe_duplicate", mark.as_str().into())));
        notes
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_closed {
            // No status went out; 499 is what proxies write for a sender that did not wait.
            let status = StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST);
            let reason = "the sender hung up before there was an answer; what had begun goes on";
            self.close(Closing { outcome: Outcome::Abandoned, status, reason: reason.into() });
        }
    }
}
