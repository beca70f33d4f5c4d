//! What came to be while the store did not answer, told to it afterwards.

use std::time::Duration;

use super::cells::{Cells, Change, StoreError, StoreErrorKind, Swapped};
use super::{Claimed, Done, Entry, Failed, Mark, Store, TURNS, decode, entry, lease_over};
use crate::pipeline::identify::EventKey;

/// What a completion that was written back found in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    New,
    /// Another completion, or a value that is not ours and was left alone.
    Again,
}

/// What became of a doubt that was written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    Cast,
    /// Another process is at work on the event; its entry is its own.
    Claimed,
    /// The event is done: there is nothing left to be in doubt of.
    Done,
}

impl<C: Cells> Store<C> {
    /// Writes back a completion that could not be stored when it came to be. Success is a fact: it replaces whatever
    /// hookonce has written, and nothing that somebody else has.
    pub async fn record(&self, key: &EventKey, done: Done, life: Duration) -> Result<Recorded, StoreError> {
        let value = Entry::Done(done).encode();
        let is_other = |entry: &Entry| matches!(entry, Entry::Done(_)) && entry.encode() != value;
        let is_known = match self.look(key).await {
            Err(error) if error.kind == StoreErrorKind::Foreign => return Ok(Recorded::Again),
            seen => seen?.is_some_and(|seen| is_other(&seen.entry)),
        };
        // Whoever writes back at the same time has looked as well, and found nothing.
        let before = self.breaker.guard(self.cells.put(key.as_str(), value.clone(), life)).await?;
        let is_again = is_known || before.as_ref().and_then(Entry::decode).is_some_and(|entry| is_other(&entry));
        Ok(if is_again { Recorded::Again } else { Recorded::New })
    }

    /// Writes back that an attempt ended unknown, unless the store knows better. `ended` is the entry elsewhere.
    pub async fn cast_doubt(&self, key: &EventKey, ended: &Entry, life: Duration) -> Result<Cast, StoreError> {
        let (attempt, doubt) = match ended {
            Entry::Claimed(Claimed { attempt, doubt, .. }) | Entry::Failed(Failed { attempt, doubt, .. }) => (*attempt, *doubt),
            Entry::Queued(_) | Entry::Done(_) => return Ok(Cast::Done),
        };
        let doubt = doubt.or(Some(Mark::Unknown));
        let failed = |attempt, body| Failed { attempt, doubt, status: None, body, at: entry::now() };
        let unheard_of = Entry::Failed(failed(attempt, ended.body())).encode();
        for _ in 0..TURNS {
            let seen = self.breaker.guard(self.cells.put_new(key.as_str(), unheard_of.clone(), life)).await?;
            let Some(from) = seen else { return Ok(Cast::Cast) };
            let (to, at_age) = match decode(&from)? {
                Entry::Failed(Failed { doubt: Some(_), .. }) | Entry::Claimed(Claimed { doubt: Some(_), .. }) => {
                    return Ok(Cast::Cast);
                }
                Entry::Failed(known) => (Failed { doubt, ..known }, None),
                // Once its lease is over nobody is at work on it, and perhaps nobody ever comes to take it over.
                Entry::Claimed(left) => (failed(left.attempt, left.body), Some(lease_over(&left))),
                Entry::Queued(_) => return Ok(Cast::Claimed),
                Entry::Done(_) => return Ok(Cast::Done),
            };
            let change = Change { from, to: Entry::Failed(to).encode(), life, at_age };
            match self.breaker.guard(self.cells.swap(key.as_str(), change)).await? {
                Swapped::Written => return Ok(Cast::Cast),
                Swapped::Young(_) => return Ok(Cast::Claimed),
                Swapped::Differs(_) => {}
            }
        }
        Ok(Cast::Claimed)
    }
}
