//! Events that are accepted now and delivered later: the contract over any backlog.

use std::time::Duration;

use bytes::Bytes;

use super::backlog::{
    Appended, Backlog, CellOf, Filed, Finished, Holding, Lane, LetterId, NewLetter, Over, Revived, Room, Shortage, Slip,
    TakeTerms, Taken, Tally,
};
use super::cells::{Cells, Change};
use super::entry::{self, Done, Entry, Mark, Queued};
use super::{Completed, Store, StoreError, StoreErrorKind, TURNS, decode, lease_over};
use crate::pipeline::identify::{BodyDigest, EventKey};

/// An event to be delivered later.
#[derive(Clone, Debug)]
pub struct ToQueue {
    /// `None`: nothing to tell copies by.
    pub key: Option<EventKey>,
    pub body: BodyDigest,
    /// Whether another body under the same key is another event.
    pub body_matters: bool,
    /// Why its delivery may be a second one, whatever the store says.
    pub doubt: Option<Mark>,
    pub line: Option<String>,
    pub content: Bytes,
}

#[derive(Debug)]
pub enum Enqueued {
    Added(LetterId),
    /// It was accepted before.
    Queued(Queued),
    Done(Done),
    /// Somebody is at work on it, in another way.
    InFlight {
        lease_left: Duration,
    },
    /// The key belongs to another body; `entry` is what it holds.
    Conflict(Entry),
    Full(Shortage),
}

impl<C: Cells + Backlog> Store<C> {
    /// Leaves word that the lane is in use: whoever does not use it any more has to look there for a while.
    pub async fn leave_trace(&self, lane: &Lane, life: Duration) -> Result<(), StoreError> {
        self.breaker.guard(self.cells.put(&lane.trace(), Bytes::from_static(b"1"), life)).await.map(drop)
    }

    /// Whether the lane is in use, or was lately.
    pub async fn has_trace(&self, lane: &Lane) -> Result<bool, StoreError> {
        Ok(self.cells.pulse(&lane.trace()).await?.is_some())
    }

    /// Takes responsibility for the event: once it is added, it is durable.
    pub async fn enqueue(&self, lane: &Lane, event: ToQueue, room: Room) -> Result<Enqueued, StoreError> {
        let at = entry::now();
        let id = LetterId::new(at).map_err(|error| StoreError::new(StoreErrorKind::Local, error))?;
        let value = Queued { letter: id, body: event.body, at }.encode();
        let mut slip = Slip { attempt: 0, doubt: event.doubt, status: None, queued_at: at };
        let mut over = None;
        for _ in 0..TURNS {
            let cell = event.key.clone().map(|key| CellOf { key, value: value.clone(), over: over.take() });
            let letter = NewLetter { id, cell, line: event.line.clone(), slip: slip.clone(), content: event.content.clone() };
            let held = match self.breaker.guard(self.cells.append(lane, letter, room)).await? {
                Appended::Added => return Ok(Enqueued::Added(id)),
                Appended::Full(shortage) => return Ok(Enqueued::Full(shortage)),
                Appended::Young(lease_left) => return Ok(Enqueued::InFlight { lease_left }),
                Appended::Held(held) => held,
            };
            let entry = decode(&held)?;
            if event.body_matters && entry.body() != event.body {
                return Ok(Enqueued::Conflict(entry));
            }
            // The schedule begins anew: what was tried before was somebody else's.
            let (doubt, at_age) = match entry {
                Entry::Done(done) => return Ok(Enqueued::Done(done)),
                Entry::Queued(queued) => return Ok(Enqueued::Queued(queued)),
                Entry::Failed(failed) => (failed.doubt.or(event.doubt), None),
                Entry::Claimed(claimed) => (claimed.doubt.or(Some(Mark::Unknown)), Some(lease_over(&claimed))),
            };
            slip.doubt = doubt;
            over = Some(Over { value: held, at_age });
        }
        Err(StoreError::new(StoreErrorKind::Refused, "the entry keeps changing"))
    }

    pub async fn take(&self, lane: &Lane, terms: TakeTerms) -> Result<Taken, StoreError> {
        self.breaker.guard(self.cells.take(lane, terms)).await
    }

    pub async fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        self.breaker.guard(self.cells.extend(lane, holding, lease)).await
    }

    /// The event is done, or as good as done: a fact, so it needs no token and may come late.
    pub async fn finish(&self, lane: &Lane, letter: &Holding, done: Done, retention: Duration) -> Result<Completed, StoreError> {
        let value = Entry::Done(done).encode();
        let cell = letter.cell.clone().map(|key| (key, value.clone(), retention));
        let (has_cell, finished) = (cell.is_some(), Finished { id: letter.id, line: letter.line.clone(), cell });
        let before = self.breaker.guard(self.cells.finish(lane, finished)).await?;
        Ok(match before {
            None if has_cell => Completed::Lost,
            None => Completed::Own,
            Some(before) if before == value => Completed::Own,
            Some(before) => match Entry::decode(&before) {
                Some(Entry::Queued(queued)) if queued.letter == letter.id => Completed::Own,
                // Dropped while it was out: the success is the truer word, and the only effect.
                Some(Entry::Done(done)) if done.is_dropped() => Completed::Own,
                Some(Entry::Done(_)) => Completed::Again,
                _ => Completed::Overrun,
            },
        })
    }

    pub async fn postpone(&self, lane: &Lane, letter: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        self.breaker.guard(self.cells.postpone(lane, letter, slip, pause)).await
    }

    pub async fn bury(&self, lane: &Lane, letter: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        self.breaker.guard(self.cells.bury(lane, letter, slip, blocks)).await
    }

    /// Has a letter tried again, from the first attempt on, in doubt.
    pub async fn revive(&self, lane: &Lane, filed: &Filed) -> Result<Revived, StoreError> {
        let doubt = filed.slip.doubt.or(Some(Mark::Replay));
        let slip = Slip { attempt: 0, doubt, ..filed.slip.clone() };
        self.breaker.guard(self.cells.revive(lane, filed.id, slip)).await
    }

    /// Clears a letter away for good. Its event is recorded as done, so that copies stay duplicates; `body` is its
    /// fingerprint, for where the cell was lost.
    pub async fn discard(
        &self,
        lane: &Lane,
        filed: &Filed,
        body: Option<BodyDigest>,
        retention: Duration,
    ) -> Result<(), StoreError> {
        let seen = match &filed.cell {
            Some(key) => self.look(key).await?.map(|seen| seen.entry),
            None => None,
        };
        let body = match seen {
            Some(Entry::Queued(queued)) if queued.letter == filed.id => Some(queued.body),
            // Somebody else's by now, or done: it says more than we could.
            Some(_) => None,
            None => body,
        };
        let value = |body| Entry::Done(Done::dropped(body, filed.slip.attempt, entry::now())).encode();
        let cell = filed.cell.clone().zip(body.map(value)).map(|(key, value)| (key, value, retention));
        let finished = Finished { id: filed.id, line: filed.line.clone(), cell: cell.clone() };
        let before = self.breaker.guard(self.cells.finish(lane, finished)).await?;
        // The consumer accepted it between our look and this: that is put back.
        if let (Some((key, dropped, life)), Some(before)) = (cell, before)
            && before != dropped
            && matches!(Entry::decode(&before), Some(Entry::Done(_)))
        {
            let change = Change { from: dropped, to: before, life, at_age: None };
            self.breaker.guard(self.cells.swap(key.as_str(), change)).await?;
        }
        Ok(())
    }

    pub async fn letter(&self, lane: &Lane, id: LetterId) -> Result<Option<Filed>, StoreError> {
        self.breaker.guard(self.cells.letter(lane, id)).await
    }

    pub async fn letters(
        &self,
        lane: &Lane,
        is_dead: bool,
        after: Option<LetterId>,
        most: usize,
    ) -> Result<Vec<Filed>, StoreError> {
        self.breaker.guard(self.cells.list(lane, is_dead, after, most)).await
    }

    pub async fn tally(&self, lane: &Lane) -> Result<Tally, StoreError> {
        self.breaker.guard(self.cells.tally(lane)).await
    }
}
