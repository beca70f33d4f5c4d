//! Events for people: what is known of them, and letting one through again.

use std::time::Duration;

use super::cells::{Cells, Change, Cursor, Held, Step, StoreError, StoreErrorKind, Swapped};
use super::{Done, Entry, Failed, Mark, Store, TURNS, decode, entry, lease_over};
use crate::pipeline::identify::EventKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    Forgotten,
    Absent,
    /// A claim is live: its consumer is at work.
    InFlight {
        lease_left: Duration,
    },
    /// It is in the queue, or a dead letter: it will be delivered, or wait for somebody to say so.
    Queued,
}

/// An event as the store has it, for people.
#[derive(Clone, Debug)]
pub struct Remembered {
    pub key: String,
    pub entry: Entry,
    /// How long it will be remembered.
    pub left: Duration,
    /// For a claim: how much of its lease is left; nought once it may be taken over.
    pub lease_left: Option<Duration>,
}

impl<C: Cells> Store<C> {
    /// What the store knows of an event.
    pub async fn look(&self, key: &EventKey) -> Result<Option<Remembered>, StoreError> {
        let held = self.breaker.guard(self.cells.read(key.as_str())).await?;
        held.map(|held| remembered(key.as_str().to_owned(), held)).transpose()
    }

    /// Events whose key begins with `prefix`. What is not ours is left out.
    pub async fn find(&self, prefix: &str, limit: usize) -> Result<Vec<Remembered>, StoreError> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let step = self.walk(prefix, from).await?;
            found.extend(step.0);
            if step.1.is_none() || found.len() >= limit {
                break;
            }
            from = step.1;
        }
        // A cell may come twice while the store moves its cells about.
        found.sort_unstable_by(|a: &Remembered, b| a.key.cmp(&b.key));
        found.dedup_by(|a, b| a.key == b.key);
        found.truncate(limit);
        Ok(found)
    }

    /// One step over the events whose key begins with `prefix`, and where to go on.
    pub async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<(Vec<Remembered>, Option<Cursor>), StoreError> {
        let Step { cells, next } = self.breaker.guard(self.cells.walk(prefix, from)).await?;
        Ok((cells.into_iter().filter_map(|(key, held)| remembered(key, held).ok()).collect(), next))
    }

    /// Lets the next delivery of an event through, in doubt. A live claim is left alone.
    pub async fn forget(&self, key: &EventKey) -> Result<Forgotten, StoreError> {
        for _ in 0..TURNS {
            let held = self.breaker.guard(self.cells.read(key.as_str())).await?;
            let Some(Held { value, left }) = held else { return Ok(Forgotten::Absent) };
            let (attempt, body, at_age) = match decode(&value)? {
                Entry::Claimed(claimed) => (claimed.attempt, claimed.body, Some(lease_over(&claimed))),
                Entry::Failed(failed) => (failed.attempt, failed.body, None),
                Entry::Queued(_) => return Ok(Forgotten::Queued),
                Entry::Done(done) => (done.attempt, done.body, None),
            };
            let forgotten = Failed { attempt, doubt: Some(Mark::Forgotten), status: None, body, at: entry::now() };
            let change = Change { from: value, to: Entry::Failed(forgotten).encode(), life: left, at_age };
            match self.breaker.guard(self.cells.swap(key.as_str(), change)).await? {
                Swapped::Written => return Ok(Forgotten::Forgotten),
                Swapped::Young(lease_left) => return Ok(Forgotten::InFlight { lease_left }),
                Swapped::Differs(_) => {}
            }
        }
        Err(StoreError::new(StoreErrorKind::Refused, "the entry keeps changing"))
    }

    /// Opens a done event to its next delivery, in doubt, if it is still the one that was seen. Tells whether it was.
    pub async fn reopen(&self, key: &EventKey, done: &Done, doubt: Mark, life: Duration) -> Result<bool, StoreError> {
        let Done { attempt, body, .. } = *done;
        let opened = Failed { attempt, doubt: Some(doubt), status: None, body, at: entry::now() };
        let (from, to) = (Entry::Done(done.clone()).encode(), Entry::Failed(opened).encode());
        let change = Change { from, to, life, at_age: None };
        Ok(self.breaker.guard(self.cells.swap(key.as_str(), change)).await? == Swapped::Written)
    }
}

fn remembered(key: String, held: Held) -> Result<Remembered, StoreError> {
    let entry = decode(&held.value)?;
    let lease_left = match &entry {
        Entry::Claimed(claimed) => Some((claimed.lease + held.left).saturating_sub(claimed.retention)),
        Entry::Failed(_) | Entry::Queued(_) | Entry::Done(_) => None,
    };
    Ok(Remembered { key, entry, left: held.left, lease_left })
}
