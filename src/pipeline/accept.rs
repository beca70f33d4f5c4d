//! Queue mode's end of a delivery: the event is stored, durably, and its sender told so.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::event::{Event, Standing};
use super::former::Former;
use super::identify::EventKey;
use super::kept;
use super::refusal::Refusal;
use super::reply::{End, Reply};
use super::{Pipeline, now};
use crate::config::{Dedupe, OnConflict, OnStoreDown};
use crate::failpoint::Failpoint;
use crate::scheme::locate;
use crate::store::backlog::Room;
use crate::store::{Bound, Enqueued, Keeping, Mark, StoreError, StoreErrorKind, ToQueue, WrittenBack};
use crate::telemetry::{Facts, Record, StoreOp};

/// What became of an event at the door of the queue.
pub(super) enum Accepted {
    End(End),
    /// The store could not be asked, and the provider's policy does not refuse then, or a copy is under way because of that:
    /// it is delivered at once, as in sync mode.
    Unkept(Box<Event>),
}

/// What is to be done with what the store has said.
enum Next {
    End(End),
    /// Added all the same, marked.
    Observe,
    /// Asked again: the entry was opened.
    Again,
    /// Asked again under key and digest.
    Conflicting,
}

/// Why nothing is acknowledged.
enum Unkept {
    /// Nobody could find out yet.
    Unknown,
    Lossy(String),
}

/// Each turn is another delivery's progress, or a body that goes under a key of its own.
const TURNS: usize = 8;

impl Pipeline {
    /// Takes responsibility for the event, or finds out that somebody has.
    pub(super) async fn accept(&self, mut event: Box<Event>, record: &mut Record) -> Accepted {
        match self.may_be_kept() {
            Ok(()) => {}
            Err(Unkept::Unknown) => {
                let error = StoreError::new(StoreErrorKind::NotReady, "whether it keeps what it confirms is not known yet");
                return self.without_store(event, &error);
            }
            Err(Unkept::Lossy(why)) => return Accepted::End(Err(Refusal::StoreDown(why.into()))),
        }
        let began = Instant::now();
        // Attempts at the letter will be part of the same trace.
        if let Some(onward) = event.trace.onward_from_here() {
            event.verified.carry(onward);
        }
        let mut observed = None;
        for _ in 0..TURNS {
            // What this process does on its own comes first: a store that has not been told of it would take the event for new.
            if let Some(key) = event.standing.key() {
                match self.reserve.write_back(key, &self.store).await {
                    Ok(WrittenBack::ClaimedHere) => return Accepted::Unkept(event),
                    Ok(written) => self.telemetry.written_back(written),
                    Err(error) => return self.without_store(event, &error),
                }
            }
            Failpoint::BeforeAppend.reach().await;
            let step = event.trace.step("append");
            let asked = self.append(&event, observed).await;
            drop(step);
            record.facts(Facts { store: began.elapsed(), ..Facts::default() });
            let appended = match asked {
                Ok(appended) => appended,
                Err(error) => return self.without_store(event, &error),
            };
            // What would be refused or dropped goes on as well, with nothing to tell copies by.
            let is_observed = event.route.provider.dedupe == Dedupe::Observe && observed.is_none();
            match self.answer(&event, appended, is_observed).await {
                Ok(Next::End(end)) => return Accepted::End(end),
                Ok(Next::Observe) => observed = Some(Mark::Observe),
                Ok(Next::Again) => {}
                Ok(Next::Conflicting) => event = event.conflicting(),
                Err(error) => return self.without_store(event, &error),
            }
        }
        let error = StoreError::new(StoreErrorKind::Refused, "the entry keeps changing");
        self.without_store(event, &error)
    }

    /// What follows from what the store has said.
    async fn answer(&self, event: &Event, appended: Enqueued, is_observed: bool) -> Result<Next, StoreError> {
        let (provider, watch) = (&event.route.provider, &event.route.watch);
        let note_body = |body| {
            if body != event.body {
                watch.conflict();
            }
        };
        Ok(match appended {
            Enqueued::Added(_) => {
                self.condition.took_new();
                Failpoint::AfterAppend.reach().await;
                watch.claimed_first();
                event.route.bell.notify_one();
                Next::End(Ok(Reply::Queued { status: self.config().queue.ack_status }))
            }
            Enqueued::Full(shortage) => Next::End(Err(Refusal::QueueFull(shortage))),
            Enqueued::Conflict(_) if provider.on_conflict != OnConflict::Reject => {
                watch.conflict();
                if let (Enqueued::Conflict(entry), Some(key)) = (&appended, event.standing.key()) {
                    // The key of the other body must not end before the one with the digest: its body would be taken for new.
                    self.telemetry.store(StoreOp::Keep, self.store.keep(key, entry, provider.retention)).await?;
                }
                Next::Conflicting
            }
            _ if is_observed => Next::Observe,
            Enqueued::Conflict(_) => {
                watch.conflict();
                Next::End(Err(Refusal::Conflict))
            }
            Enqueued::Queued(queued) => {
                note_body(queued.body);
                Next::End(Ok(Reply::Duplicate { done: None, replay: false }))
            }
            Enqueued::Done(done) => match event.standing.key().filter(|_| event.is_bypassed()) {
                Some(key) => {
                    let opening = self.store.reopen(key, &done, Mark::Replay, provider.retention);
                    self.telemetry.store(StoreOp::Forget, opening).await?;
                    Next::Again
                }
                None => {
                    note_body(done.body);
                    watch.duplicate_of(&done, now());
                    Next::End(Ok(Reply::Duplicate { done: Some(Arc::new(done)), replay: false }))
                }
            },
            Enqueued::InFlight { lease_left } => Next::End(Err(Refusal::InFlight { retry_after: lease_left })),
        })
    }

    /// An acknowledgement is a promise: where it is not known that the store keeps it, there is none.
    fn may_be_kept(&self) -> Result<(), Unkept> {
        match self.condition.keeping() {
            _ if self.config().queue.accept_loss => Ok(()),
            Some(Keeping::Durable) => Ok(()),
            Some(Keeping::Lossy(why)) => Err(Unkept::Lossy(why)),
            None => Err(Unkept::Unknown),
        }
    }

    /// `observed`: it is added though it was before, with nothing to tell copies by.
    async fn append(&self, event: &Event, observed: Option<Mark>) -> Result<Enqueued, StoreError> {
        let delivery = event.verified.delivery();
        let standing = match &event.standing {
            Standing::Unclaimed { mark } => *mark,
            Standing::Conflicting { .. } => Some(Mark::Conflict),
            Standing::Keyed { .. } => None,
        };
        let former = match self.sync_key_of(event).filter(|_| observed.is_none()) {
            Some(key) => self.former(event, &key).await?,
            None => Former::Nothing,
        };
        let doubt = match former {
            Former::Nothing | Former::Queued => None,
            Former::Doubt(mark) => Some(mark),
            // An operator wants it to go through again.
            Former::Done(_) if event.is_bypassed() => Some(Mark::Replay),
            Former::Done(done) => return Ok(Enqueued::Done(done)),
            Former::InFlight { lease_left } => return Ok(Enqueued::InFlight { lease_left }),
            Former::Conflict(entry) => return Ok(Enqueued::Conflict(entry)),
        };
        let replayed = match (event.signed, event.standing.key().filter(|_| observed.is_none())) {
            (Some(signed), Some(key)) => match self.bind(event, signed, key, None).await? {
                Bound::Ours => None,
                Bound::Taken | Bound::Regained => Some(Mark::Replay),
                Bound::Done(done) => return Ok(Enqueued::Done(done)),
                Bound::Queued(queued) => return Ok(Enqueued::Queued(queued)),
                Bound::InFlight { lease_left } => return Ok(Enqueued::InFlight { lease_left }),
            },
            _ => None,
        };
        let reset = || self.is_lost_to_reset(event).then_some(Mark::StoreReset);
        let to_queue = ToQueue {
            key: event.standing.key().filter(|_| observed.is_none()).cloned(),
            body: event.body,
            body_matters: event.standing.body_matters(),
            doubt: observed.or(doubt).or(standing).or(replayed).or(event.doubt).or_else(reset),
            line: self.line_of(event),
            content: kept::write(delivery, event.id.as_deref(), event.body),
        };
        let queue = &self.config().queue;
        let room = Room { letters: queue.max_events as u64, bytes: queue.max_bytes.0, dead_bytes: queue.dead_max_bytes.0 };
        self.telemetry.store(StoreOp::Append, self.store.enqueue(&event.route.lane, to_queue, room)).await
    }

    /// The key that the event had in sync mode, where that is another one. After a retention nothing is known under it.
    fn sync_key_of(&self, event: &Event) -> Option<EventKey> {
        let key = event.standing.key().filter(|_| event.route.in_mode_since.elapsed() <= event.route.provider.retention)?;
        Some(key.untagged()).filter(|before| before != key)
    }

    /// Events that agree in what they are ordered by are of one line. What does not say waits for nobody.
    fn line_of(&self, event: &Event) -> Option<String> {
        let place = event.route.provider.order_by.as_ref()?;
        let found = locate::find(place, &event.verified.delivery().received()).ok().flatten()?;
        Some(HEXLOWER.encode(&Sha256::digest(&found)[..16]))
    }

    /// What cannot be kept is refused, or delivered at once where the provider could not be put off.
    fn without_store(&self, event: Box<Event>, error: &StoreError) -> Accepted {
        // A key that holds something else is that event's trouble alone.
        if error.kind != StoreErrorKind::Foreign {
            self.condition.took_none();
        }
        match self.policy_without_store(&event.route.provider) {
            OnStoreDown::Closed => Accepted::End(Err(Refusal::StoreDown(error.to_string().into()))),
            OnStoreDown::Local | OnStoreDown::Open => Accepted::Unkept(event),
        }
    }
}
