//! Queue mode's end of a delivery: the event is stored, durably, and its sender told so.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::once::{Event, Standing};
use super::refusal::Refusal;
use super::reply::{End, Reply};
use super::{Pipeline, now};
use crate::config::{Dedupe, OnConflict, OnStoreDown};
use crate::failpoint::Failpoint;
use crate::queue::content;
use crate::scheme::locate;
use crate::store::backlog::Room;
use crate::store::{Enqueued, Entry, Keeping, Mark, StoreError, StoreErrorKind, ToQueue, WrittenBack};
use crate::telemetry::{Facts, Record, StoreOp};
use tokio::time::Instant;

/// What became of an event at the door of the queue.
pub(super) enum Accepted {
    End(End),
    /// The store could not be asked, and the provider's policy does not refuse then, or a copy is under way because of that:
    /// it is delivered at once, as in sync mode.
    Unkept(Event),
}

impl Pipeline {
    /// Takes responsibility for the event, or finds out that somebody has.
    pub(super) async fn accept(&self, mut event: Event, record: &mut Record) -> Accepted {
        if let Err(refusal) = self.may_be_kept() {
            return Accepted::End(Err(refusal));
        }
        let began = Instant::now();
        let mut observed = None;
        loop {
            // What this process does on its own comes first: a store that has not been told of it would take the event for new.
            if let Some(key) = event.standing.key() {
                match self.reserve.write_back(key, &self.store).await {
                    Ok(WrittenBack::ClaimedHere) => return Accepted::Unkept(event),
                    Ok(written) => self.telemetry.written_back(written),
                    Err(error) => return self.without_store(event, &error),
                }
            }
            Failpoint::BeforeAppend.reach().await;
            let asked = self.append(&event, observed).await;
            record.facts(Facts { store: began.elapsed(), ..Facts::default() });
            let appended = match asked {
                Ok(appended) => appended,
                Err(error) => return self.without_store(event, &error),
            };
            let provider = Arc::clone(&event.route.provider);
            let is_observed = provider.dedupe == Dedupe::Observe && observed.is_none();
            match appended {
                Enqueued::Added(_) => {
                    self.condition.took_new();
                    Failpoint::AfterAppend.reach().await;
                    event.route.watch.claimed_first();
                    event.route.bell.notify_one();
                    return Accepted::End(Ok(Reply::Queued { status: self.config.queue.ack_status }));
                }
                Enqueued::Queued(_) | Enqueued::Done(_) if is_observed => observed = Some(Mark::Observe),
                Enqueued::Queued(queued) => {
                    if queued.body != event.body {
                        event.route.watch.conflict();
                    }
                    return Accepted::End(Ok(Reply::Duplicate { done: None, replay: false }));
                }
                Enqueued::Done(done) if event.is_bypassed() => {
                    if let Some(key) = event.standing.key() {
                        let opening = self.store.reopen(key, &done, Mark::Replay, provider.retention);
                        if let Err(error) = self.telemetry.store(StoreOp::Forget, opening).await {
                            return self.without_store(event, &error);
                        }
                    }
                }
                Enqueued::Done(done) => {
                    if done.body != event.body {
                        event.route.watch.conflict();
                    }
                    event.route.watch.duplicate_of(&done, now());
                    return Accepted::End(Ok(Reply::Duplicate { done: Some(Arc::new(done)), replay: false }));
                }
                Enqueued::InFlight { lease_left } => {
                    return Accepted::End(Err(Refusal::InFlight { retry_after: lease_left }));
                }
                Enqueued::Conflict(entry) => {
                    event.route.watch.conflict();
                    if provider.on_conflict == OnConflict::Reject {
                        return Accepted::End(Err(Refusal::Conflict));
                    }
                    if let Err(error) = self.keep_beside(&event, &entry).await {
                        return self.without_store(event, &error);
                    }
                    event = event.conflicting();
                }
                Enqueued::Full(shortage) => return Accepted::End(Err(Refusal::QueueFull(shortage))),
            }
        }
    }

    /// An acknowledgement is a promise: where it is not known that the store keeps it, there is none.
    fn may_be_kept(&self) -> Result<(), Refusal> {
        match self.condition.keeping() {
            _ if self.config.queue.accept_loss => Ok(()),
            Some(Keeping::Durable) => Ok(()),
            Some(Keeping::Lossy(why)) => Err(Refusal::StoreDown(why.into())),
            None => Err(Refusal::StoreDown("whether it keeps what it confirms is not known yet".into())),
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
        let reset = || self.is_lost_to_reset(event).then_some(Mark::StoreReset);
        let to_queue = ToQueue {
            key: event.standing.key().filter(|_| observed.is_none()).cloned(),
            body: event.body,
            body_matters: event.standing.body_matters(),
            doubt: observed.or(standing).or_else(reset),
            line: self.line_of(event),
            content: content::write(delivery, event.id.as_deref(), event.body),
        };
        if let Some(known) = self.known_from_before(event).await? {
            return Ok(known);
        }
        let queue = &self.config.queue;
        let room = Room { letters: queue.max_events as u64, bytes: queue.max_bytes.0, dead_bytes: queue.dead_max_bytes.0 };
        self.telemetry.store(StoreOp::Append, self.store.enqueue(&event.route.lane, to_queue, room)).await
    }

    /// What is known of the event from when the provider was in sync mode: its key was another one then, where keys have to
    /// be beside their letters. After a retention nothing is.
    async fn known_from_before(&self, event: &Event) -> Result<Option<Enqueued>, StoreError> {
        let Some(key) = event.standing.key() else { return Ok(None) };
        let before = key.untagged();
        if before == *key || self.started.elapsed() > event.route.provider.retention {
            return Ok(None);
        }
        let seen = self.telemetry.store(StoreOp::Look, self.store.look(&before)).await?;
        Ok(seen.and_then(|seen| match (seen.entry, seen.lease_left) {
            (Entry::Done(done), _) => Some(Enqueued::Done(done)),
            (Entry::Claimed(_), Some(lease_left)) if !lease_left.is_zero() => Some(Enqueued::InFlight { lease_left }),
            _ => None,
        }))
    }

    /// Events that agree in what they are ordered by are of one line. What is not there is a line too.
    fn line_of(&self, event: &Event) -> Option<String> {
        let place = event.route.provider.order_by.as_ref()?;
        let found = locate::find(place, &event.verified.delivery().received()).ok().flatten().unwrap_or_default();
        Some(HEXLOWER.encode(&Sha256::digest(&found)[..16]))
    }

    /// The key of the other body must not end before the one with the digest: its body would be taken for new then.
    async fn keep_beside(&self, event: &Event, entry: &Entry) -> Result<(), StoreError> {
        let Some(key) = event.standing.key() else { return Ok(()) };
        let keeping = self.store.keep(key, entry, event.route.provider.retention);
        self.telemetry.store(StoreOp::Keep, keeping).await.map(drop)
    }

    /// What cannot be kept is refused, or delivered at once where the provider could not be put off.
    fn without_store(&self, event: Event, error: &StoreError) -> Accepted {
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
