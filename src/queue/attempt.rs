//! One attempt at a letter: sent to the consumer, and settled by what comes of it.

use std::pin::pin;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep, timeout_at};

use super::dispatch::LOOK;
use super::resign::resign;
use super::schedule;
use crate::failpoint::Failpoint;
use crate::pipeline::body::Outgoing;
use crate::pipeline::headers::{Peer, Told};
use crate::pipeline::hold::{Leased, Tenure};
use crate::pipeline::identify::BodyDigest;
use crate::pipeline::intake::Delivery;
use crate::pipeline::kept::{self, Kept};
use crate::pipeline::once::{Sent, note_call};
use crate::pipeline::route::Route;
use crate::pipeline::settle::{Settlement, settlement_for};
use crate::pipeline::upstream::{self, ForwardError, NotSent, Patience};
use crate::pipeline::{Pipeline, now};
use crate::store::backlog::{Holding, Letter, Slip};
use crate::store::{Completed, Done, Mark, StoreError};
use crate::telemetry::log::{self, LetterLine};
use crate::telemetry::trace::{Kind, Note, Trace};
use crate::telemetry::{LetterOutcome, StoreOp};

/// Between two tries to tell the store how an attempt ended.
const RESETTLE: Duration = Duration::from_millis(100);
const RESETTLE_MAX: Duration = Duration::from_secs(1);

/// Attempts beyond the schedule that nobody lived to settle. A letter that ends its process each time is a dead one, too.
const UNSETTLED_MAX: usize = 3;

/// A letter that is out, and whose it is.
struct Errand<'a> {
    pipeline: &'a Pipeline,
    route: &'a Route,
    holding: &'a Holding,
    tenure: Tenure,
}

impl Leased for Errand<'_> {
    async fn renew(&self) -> Result<bool, StoreError> {
        let Pipeline { store, telemetry, .. } = self.pipeline;
        let Route { lane, provider, .. } = self.route;
        telemetry.store(StoreOp::Extend, store.extend(lane, self.holding, provider.lease)).await
    }
}

/// What becomes of a letter.
enum Fate {
    Done(Done),
    /// Tried again after a pause.
    Again {
        slip: Slip,
        pause: Duration,
    },
    Dead {
        slip: Slip,
    },
    /// No longer ours: whoever has it settles it.
    Lost,
}

/// Sends the letter, which was asked for at `since`, and settles it. Tells whether the consumer could be connected to.
pub(super) async fn attempt(pipeline: &Pipeline, route: &Route, letter: Letter, since: Instant) -> bool {
    let Letter { holding, mut slip, content, .. } = letter;
    let provider = &route.provider;
    // A store that has lost something may have lost that this letter was out before.
    let is_older = |reset| slip.queued_at < reset;
    if pipeline.reset_for(provider).is_some_and(is_older) {
        slip.doubt = slip.doubt.or(Some(Mark::StoreReset));
    }
    let errand = Errand { pipeline, route, holding: &holding, tenure: Tenure::new(since, provider.lease) };
    let age = now().duration_since(slip.queued_at).unwrap_or_default();
    let ends_never = |attempt: usize| attempt > pipeline.config().queue.schedule.len() + UNSETTLED_MAX;
    if usize::try_from(slip.attempt).is_ok_and(ends_never) {
        return errand.give_up(slip, "no attempt at it ends").await;
    }
    let Some(Kept { delivery, event_id, body }) = kept::read(&content) else {
        return errand.give_up(slip, "it cannot be read").await;
    };
    let (delivery, is_resigned) =
        if pipeline.config().queue.resign { resign(provider, delivery, age, now()) } else { (delivery, false) };
    let trace = pipeline.telemetry.begin(Kind::Consumer, &delivery.parts.headers, now);
    trace.is_genuine();
    let began = Instant::now();
    let sent = errand.tenure.during(pin!(errand.send(delivery, event_id.as_deref(), &slip, &trace)), &errand).await;
    Failpoint::AfterCall.reach().await;
    let upstream = began.elapsed();
    let is_reached = !matches!(sent, Err(ForwardError::NotSent(NotSent::Connect(_))));
    let is_sent = !matches!(sent, Err(ForwardError::NotSent(_)));
    if is_sent {
        route.watch.upstream_took(upstream);
        slip.doubt.inspect(|mark| route.watch.marked(*mark));
    }
    let (status, attempt, mark) = (sent.as_ref().ok().map(|heard| heard.parts.status.as_u16()), slip.attempt, slip.doubt);
    let (fate, outcome, reason) = errand.judge(&sent, slip, body);
    if let (Fate::Done(done), Some(key)) = (&fate, &holding.cell) {
        pipeline.reserve.recent.put(key, done.clone(), provider.retention);
    }
    match outcome {
        LetterOutcome::Done => route.watch.succeeded_at(attempt),
        LetterOutcome::Failed | LetterOutcome::Unknown | LetterOutcome::Dead => route.watch.failed_at(attempt),
        LetterOutcome::Returned => {}
    }
    // The consumer's answer is read to its end, so that its connection can be used again; nobody else wants it.
    let listening = async {
        if let Ok(heard) = sent {
            pipeline.read_answer(heard, began + provider.upstream_timeout).await;
        }
    };
    let settling = async {
        let _step = trace.step("settle");
        errand.settle(fate).await;
    };
    tokio::join!(settling, listening);
    let notes = || notes(route, event_id.as_deref(), outcome, attempt, mark);
    trace.end(|| "attempt".to_owned(), notes, (outcome != LetterOutcome::Done).then_some(&reason));
    route.watch.letter(outcome);
    let (provider, event, letter) = (provider.name.as_str(), event_id.as_deref(), holding.id.to_string());
    log::letter(&LetterLine {
        provider,
        event,
        letter,
        outcome,
        status,
        attempt,
        mark,
        is_resigned,
        age,
        upstream,
        reason: &reason,
    });
    is_reached
}

impl Errand<'_> {
    /// Makes it a dead letter without another attempt. Tells nothing of the consumer.
    async fn give_up(&self, slip: Slip, why: &str) -> bool {
        let (provider, letter) = (&self.route.provider.name, self.holding.id.to_string());
        tracing::error!(provider, letter, why, "a letter is kept as a dead one");
        self.settle(Fate::Dead { slip }).await;
        self.route.watch.letter(LetterOutcome::Dead);
        true
    }

    async fn send(&self, delivery: Delivery, event_id: Option<&str>, slip: &Slip, trace: &Trace) -> Sent {
        let (pipeline, provider) = (self.pipeline, &self.route.provider);
        let peer = Peer::of(delivery.caller, pipeline.config().trusted_proxies.as_deref());
        let mut step = trace.call("forward");
        let told = Told { event_id, attempt: Some(slip.attempt), mark: slip.doubt, trace: trace.onward(&step) };
        let body = Outgoing::Whole(delivery.body);
        let request = upstream::request(&provider.upstream, provider.preserve_path, delivery.parts, body, peer, told);
        let may_send = || {
            Failpoint::BeforeFirstByte.block();
            if self.tenure.is_ours() { Ok(()) } else { Err(NotSent::LeaseLost) }
        };
        // The queue tries again by itself: a consumer that is away must not hold a place for longer than it takes to see that.
        let deadline = Instant::now() + provider.upstream_timeout;
        let patience = Patience { connect: Duration::ZERO, deadline, stop: &pipeline.stop };
        let sent = pipeline.upstreams.send(&provider.upstream, request, patience, may_send).await;
        note_call(&mut step, &provider.upstream, &sent);
        sent
    }

    /// What becomes of the letter, the word for it, and why.
    fn judge(&self, sent: &Sent, slip: Slip, body: BodyDigest) -> (Fate, LetterOutcome, String) {
        let provider = &self.route.provider;
        let head = sent.as_ref().map(|heard| heard.parts.status);
        let said = match sent {
            Ok(heard) => format!("the consumer answered {}", heard.parts.status.as_u16()),
            Err(error) => error.to_string(),
        };
        match sent {
            Err(ForwardError::NotSent(NotSent::LeaseLost)) => return (Fate::Lost, LetterOutcome::Returned, said),
            Err(ForwardError::NotSent(NotSent::Stopping)) => {
                let slip = Slip { attempt: slip.attempt.saturating_sub(1), ..slip };
                return (Fate::Again { slip, pause: Duration::ZERO }, LetterOutcome::Returned, said);
            }
            _ => {}
        }
        let status = head.ok().map(|status| status.as_u16());
        let slip = Slip { status, ..slip };
        let (slip, outcome, least) = match settlement_for(provider, head) {
            Settlement::Complete => {
                let status = status.unwrap_or(StatusCode::GATEWAY_TIMEOUT.as_u16());
                let done = Done { status, body, attempt: slip.attempt, at: now(), reply: None };
                return (Fate::Done(done), LetterOutcome::Done, said);
            }
            Settlement::Fail { doubt } => {
                let outcome = if doubt.is_some() { LetterOutcome::Unknown } else { LetterOutcome::Failed };
                (Slip { doubt: slip.doubt.or(doubt), ..slip }, outcome, Duration::ZERO)
            }
            // The consumer may still be at work on it: it is left alone for as long as a claim would be.
            Settlement::Hold => {
                (Slip { doubt: slip.doubt.or(Some(Mark::Unknown)), ..slip }, LetterOutcome::Unknown, provider.lease)
            }
        };
        let asked = sent.as_ref().ok().and_then(|heard| schedule::asked_for(heard.parts.status, &heard.parts.headers, now()));
        match schedule::pause(&self.pipeline.config().queue.schedule, slip.attempt, asked, schedule::chance()) {
            Some(pause) => {
                let pause = pause.max(least);
                let reason = format!("{said}; tried again in {}", humantime::format_duration(rounded(pause)));
                (Fate::Again { slip, pause }, outcome, reason)
            }
            None => {
                (Fate::Dead { slip }, LetterOutcome::Dead, format!("{said}; that was the last attempt: it is a dead letter now"))
            }
        }
    }

    /// Tells the store, until it has heard or somebody else may have the letter. Success is a fact, and is told for as long as
    /// it is remembered.
    async fn settle(&self, fate: Fate) {
        let retention = self.route.provider.retention;
        let give_up = match fate {
            Fate::Done(_) => Instant::now() + retention,
            Fate::Again { .. } | Fate::Dead { .. } => self.tenure.until(),
            Fate::Lost => return,
        };
        let mut pause = RESETTLE;
        loop {
            match self.tell(&fate).await {
                Ok(()) => return self.ring(&fate),
                Err(error) => tracing::debug!(letter = %self.holding.id, %error, "how an attempt ended is not stored yet"),
            }
            let waiting = async {
                sleep(pause).await;
                self.pipeline.store.breaker().mended().await;
            };
            if timeout_at(give_up, waiting).await.is_err() {
                let letter = self.holding.id.to_string();
                return tracing::warn!(letter, "how an attempt ended was not stored: it is made again, marked");
            }
            pause = (pause * 2).min(RESETTLE_MAX);
        }
    }

    /// Has letters looked for that are due by this settlement, sooner than they would be found.
    fn ring(&self, fate: &Fate) {
        let is_soon = match fate {
            Fate::Done(_) | Fate::Dead { .. } => self.holding.line.is_some(),
            Fate::Again { pause, .. } => *pause < LOOK,
            Fate::Lost => false,
        };
        if is_soon {
            self.route.bell.notify_one();
        }
    }

    async fn tell(&self, fate: &Fate) -> Result<(), StoreError> {
        let Pipeline { store, telemetry, .. } = self.pipeline;
        let (lane, holding, event) = (&self.route.lane, self.holding, self.holding.cell.as_ref().map(|key| key.as_str()));
        match fate {
            Fate::Done(done) => {
                Failpoint::BeforeComplete.reach().await;
                let finishing = store.finish(lane, holding, done.clone(), self.route.provider.retention);
                match telemetry.store(StoreOp::Finish, finishing).await? {
                    Completed::Own => {}
                    Completed::Lost => tracing::warn!(event, "the store had lost the key of an event that is now done"),
                    Completed::Overrun => tracing::warn!(event, "done while another attempt, marked, may be under way"),
                    Completed::Again => tracing::warn!(event, "the event was done before: it took effect twice"),
                }
                Failpoint::AfterComplete.reach().await;
            }
            Fate::Again { slip, pause } => {
                Failpoint::BeforeRelease.reach().await;
                telemetry.store(StoreOp::Postpone, store.postpone(lane, holding, slip.clone(), *pause)).await?;
                // The whole thread: another task on it would take the letter as soon as it is due again.
                Failpoint::AfterRelease.block();
            }
            Fate::Dead { slip } => {
                let blocks = self.pipeline.config().queue.dead_blocks_key;
                Failpoint::BeforeBury.reach().await;
                telemetry.store(StoreOp::Bury, store.bury(lane, holding, slip.clone(), blocks)).await?;
                Failpoint::AfterBury.reach().await;
            }
            Fate::Lost => {}
        }
        Ok(())
    }
}

/// What a span says of an attempt.
fn notes(
    route: &Route,
    event: Option<&str>,
    outcome: LetterOutcome,
    attempt: u32,
    mark: Option<Mark>,
) -> Vec<(&'static str, Note)> {
    let mut notes: Vec<(&'static str, Note)> = vec![
        ("hookonce.provider", route.provider.name.as_str().into()),
        ("hookonce.outcome", outcome.as_str().into()),
        ("hookonce.attempt", attempt.into()),
    ];
    notes.extend(event.map(|event| ("hookonce.event_id", event.into())));
    notes.extend(mark.map(|mark| ("hookonce.maybe_duplicate", mark.as_str().into())));
    notes
}

/// Whole seconds, where there are some.
fn rounded(pause: Duration) -> Duration {
    if pause.as_secs() > 0 { Duration::from_secs(pause.as_secs()) } else { Duration::from_millis(pause.subsec_millis().into()) }
}
