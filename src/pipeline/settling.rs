//! After the call: the consumer's answer is read, the claim settled, the sender told.
//!
//! The sender hears as soon as the outcome is known, and the store at the same time. Success is a fact: a store that
//! fails to note it changes nothing about the reply, and is told again in the background.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answer::Answer;
use super::audience::Audience;
use super::body::Measure;
use super::flight::Ending;
use super::hold::Hold;
use super::identify::EventKey;
use super::once::{Call, Sent};
use super::refusal::Refusal;
use super::reply::{End, Reply, Shared};
use super::settle::{Settlement, passable};
use super::upstream::{ForwardError, Heard, NotSent, Unknown};
use super::{Pipeline, now};
use crate::config::{OnDuplicate, Settle};
use crate::failpoint::Failpoint;
use crate::store::{self, Completed, Done, Mark, Released, Store, StoredReply};
use crate::telemetry::{Limit, Outcome, StoreOp};

/// How long a failure waits for its release to be stored, so that an immediate retry finds it.
const RELEASE_WAIT: Duration = Duration::from_millis(250);
/// Between two tries to tell the store of a settlement.
const RESETTLE: Duration = Duration::from_millis(100);
const RESETTLE_MAX: Duration = Duration::from_secs(1);

impl Pipeline {
    /// Reads the consumer's answer, if there is one.
    pub(super) async fn listen(&self, call: &Call<'_>, sent: Sent) -> Spoken {
        match sent {
            Ok(heard) => Spoken::Answer(self.read_answer(heard, call.deadline).await),
            Err(error) => Spoken::Silence(error),
        }
    }

    /// Reads an answer as far as one is kept.
    pub(crate) fn read_answer(&self, heard: Box<Heard>, deadline: Instant) -> impl Future<Output = Answer> + use<'_> {
        let limits = &self.config().limits;
        let kept_max = usize::try_from(limits.answer.0).unwrap_or(usize::MAX);
        let measure = move |read: usize| Measure {
            left: limits.answer_max.0.saturating_sub(read as u64),
            exceeded: self.telemetry.metrics.limited(Limit::Answer).clone(),
        };
        Answer::read(heard, kept_max, measure, deadline)
    }

    /// The consumer accepted the event: the store and the sender are told at the same time.
    pub(super) async fn complete(&self, hold: &Hold<'_>, call: &Call<'_>, sent: Sent, mut audience: Box<Audience>) {
        audience.accepted();
        let claim = hold.claim();
        let status = sent.as_ref().map_or(StatusCode::GATEWAY_TIMEOUT, |heard| heard.parts.status);
        // A reply that duplicates are to be given is part of the completion, which waits for its end.
        let early = match call.provider.on_duplicate {
            OnDuplicate::Replay => Ok(Box::new(hold.during(Box::pin(self.listen(call, sent)).as_mut(), &self.telemetry).await)),
            OnDuplicate::Ok => Err(sent),
        };
        let reply = early.as_ref().ok().and_then(|spoken| spoken.to_store());
        let done = store::done(claim, status.as_u16(), now(), reply);
        self.reserve.recent.put(&claim.key, done.clone(), claim.retention());
        let confirmed = Notify::new();
        // Pinned, both of them: joined as they are, each would be held twice.
        let completing = pin!(async {
            Failpoint::BeforeComplete.reach().await;
            let step = call.trace.step("settle");
            self.complete_until_stored(hold, done).await;
            drop(step);
            Failpoint::AfterComplete.reach().await;
            confirmed.notify_one();
            if let Some(main) = &call.main {
                Box::pin(self.keep(hold.store(), main, claim.retention())).await;
            }
        });
        let replying = pin!(async {
            let spoken = match early {
                Ok(spoken) => *spoken,
                Err(sent) => self.listen(call, sent).await,
            };
            if call.provider.settle == Settle::BeforeReply {
                // A store that does not confirm in time changes nothing: the consumer has accepted.
                let asked = Instant::now();
                let _ = timeout(self.config().store.timeout, confirmed.notified()).await;
                audience.facts.store += asked.elapsed();
            }
            let is_shared = audience.shares_success(call.provider.on_duplicate);
            audience.tell(spoken.conclude(call, Settlement::Complete, is_shared))
        });
        // The lead is held until the store has confirmed: till then only this process knows that a copy is a duplicate.
        let ((), _lead) = tokio::join!(completing, replying);
    }

    /// The attempt failed: the next delivery may try, as soon as this one's sender knows.
    pub(super) async fn release(
        &self,
        hold: &Hold<'_>,
        doubt: Option<Mark>,
        call: &Call<'_>,
        sent: Sent,
        mut audience: Box<Audience>,
    ) {
        let status = sent.as_ref().ok().map(|heard| heard.parts.status.as_u16());
        // What is signed was another event's, which may have taken effect: so may the next attempt at this one be a second.
        let doubt = doubt.or(call.mark.filter(|mark| *mark == Mark::Replay));
        let (released, when_released) = oneshot::channel();
        let releasing = pin!(async {
            Failpoint::BeforeRelease.reach().await;
            let step = call.trace.step("settle");
            let done = self.fail_until_stored(hold, status, doubt).await;
            drop(step);
            Failpoint::AfterRelease.reach().await;
            // Nobody waits for it any more once the sender has been told.
            let _ = released.send(done);
        });
        let replying = pin!(async {
            let asked = Instant::now();
            let (released, spoken) = tokio::join!(timeout(RELEASE_WAIT, when_released), self.listen(call, sent));
            audience.facts.store += asked.elapsed().min(RELEASE_WAIT);
            match released {
                // Another attempt has succeeded meanwhile: that is what the provider is told.
                Ok(Ok(Some(done))) => audience.end(Ending::Done(Arc::new(done)), call.provider.on_duplicate),
                // The event is open for the next delivery from now on: the lead is not kept.
                _ => drop(audience.tell(spoken.conclude(call, Settlement::Fail { doubt }, true))),
            }
        });
        tokio::join!(releasing, replying);
    }

    /// Tells the store that the event is done, until it has heard.
    async fn complete_until_stored(&self, hold: &Hold<'_>, done: Done) {
        let (claim, store) = (hold.claim(), hold.store());
        let mut pause = RESETTLE;
        let give_up = claim.since() + claim.retention();
        loop {
            let event = claim.key.as_str();
            match self.telemetry.store(StoreOp::Complete, store.complete(claim, done.clone())).await {
                Ok(Completed::Own) => return,
                Ok(Completed::Lost) => return tracing::warn!(event, "the store had lost the claim of an event that is now done"),
                Ok(Completed::Overrun) => {
                    return tracing::warn!(event, "done after its lease: another attempt, marked, may be under way");
                }
                Ok(Completed::Again) => return tracing::warn!(event, "the event was done before: it took effect twice"),
                Err(error) if Instant::now() + pause > give_up => {
                    return tracing::error!(event, %error, "a completion was never stored: a later copy will be forwarded again");
                }
                Err(error) => tracing::debug!(event, %error, "a completion is not stored yet"),
            }
            sleep(pause).await;
            store.breaker().mended().await;
            pause = (pause * 2).min(RESETTLE_MAX);
        }
    }

    /// Lets the key that another body has live as long as the one with the digest, which was written later.
    async fn keep(&self, store: &Store, main: &EventKey, retention: Duration) {
        let Ok(Some(seen)) = self.telemetry.store(StoreOp::Look, store.look(main)).await else { return };
        let kept = self.telemetry.store(StoreOp::Keep, store.keep(main, &seen.entry, retention)).await;
        if let Err(error) = kept {
            tracing::debug!(event = main.as_str(), %error, "a key could not be kept for longer");
        }
    }

    /// Tells the store that the attempt failed, until it has heard or the lease is over. A completion found there wins.
    async fn fail_until_stored(&self, hold: &Hold<'_>, status: Option<u16>, doubt: Option<Mark>) -> Option<Done> {
        let (claim, until) = (hold.claim(), hold.until());
        loop {
            match self.telemetry.store(StoreOp::Fail, hold.store().fail(claim, status, doubt)).await {
                Ok(Released::Done(done)) => return Some(done),
                Ok(Released::Released | Released::LeaseLost) => return None,
                Err(error) => tracing::debug!(event = claim.key.as_str(), %error, "a release is not stored yet"),
            }
            let pause = async {
                sleep(RESETTLE).await;
                hold.store().breaker().mended().await;
            };
            if timeout_at(until, pause).await.is_err() {
                return None;
            }
        }
    }
}

/// What came of it.
pub(super) enum Spoken {
    Answer(Answer),
    Silence(ForwardError),
}

impl Spoken {
    fn to_store(&self) -> Option<Box<StoredReply>> {
        match self {
            Self::Answer(answer) => answer.to_store(),
            Self::Silence(_) => None,
        }
    }

    /// What the sender is told, and what can be given to copies that wait, where there may be some.
    pub(super) fn conclude(self, call: &Call<'_>, settlement: Settlement, is_shared: bool) -> (End, Option<Arc<Shared>>) {
        let mut answer = match self {
            Self::Answer(answer) => answer,
            Self::Silence(error) => return (Err(refusal_for(error, settlement)), None),
        };
        let status = answer.parts.status.as_u16();
        let (outcome, reason) = match settlement {
            // The usual answer is not written anew for each event.
            Settlement::Complete if status == 200 => (success_of(call.mark), "the consumer answered 200".into()),
            Settlement::Complete => (success_of(call.mark), format!("the consumer answered {status}").into()),
            Settlement::Fail { .. } => {
                let reason = format!("released: the consumer answered {status}, the next copy will be forwarded");
                (Outcome::Failed, reason.into())
            }
            Settlement::Hold => {
                let reason = format!("unknown: the consumer answered {status}, which is in neither list");
                (Outcome::Ambiguous, reason.into())
            }
        };
        let reason: Cow<'static, str> = match call.provider.special_statuses.get(&status) {
            Some(meaning) => format!("{reason}; to this provider {status} means: {meaning}").into(),
            None => reason,
        };
        if settlement != Settlement::Complete {
            answer.parts.status = passable(answer.parts.status);
        }
        let shared = is_shared.then(|| answer.shared(settlement == Settlement::Complete));
        (Ok(Reply::Relayed { parts: answer.parts, body: answer.body, outcome, reason }), shared)
    }
}

/// A forward that went without a claim, or beside another, says so in its outcome.
fn success_of(mark: Option<Mark>) -> Outcome {
    match mark {
        Some(Mark::NoId) => Outcome::NoId,
        Some(Mark::Conflict) => Outcome::Conflict,
        Some(Mark::StoreDown) => Outcome::StoreDown,
        Some(Mark::Unknown | Mark::Observe | Mark::Forgotten | Mark::StoreReset | Mark::Replay) | None => Outcome::Forwarded,
    }
}

fn refusal_for(error: ForwardError, settlement: Settlement) -> Refusal {
    let why = error.to_string().into();
    match error {
        ForwardError::NotSent(NotSent::Connect(_)) => Refusal::Unreachable(why),
        ForwardError::NotSent(NotSent::LeaseLost) => Refusal::LeaseLost,
        ForwardError::NotSent(NotSent::Stopping) => Refusal::Stopping,
        ForwardError::Unknown(Unknown::Timeout | Unknown::Broken(_)) => {
            let claim = match settlement {
                Settlement::Hold => "after the lease the next copy will be forwarded, marked",
                Settlement::Fail { .. } => "released as configured, the next copy will be forwarded, marked",
                Settlement::Complete => "recorded as done, as configured",
            };
            Refusal::Ambiguous { why, claim }
        }
    }
}
