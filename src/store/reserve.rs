//! What stands in for the store while it does not answer, and makes it good afterwards. One for the process.
//!
//! - Events completed lately answer their duplicates (`recent`).
//! - Where a provider's policy allows, events are claimed in a table of the process, which is a store like any other.
//!   What became of them is written back: a success as done, an unknown end as doubt. An explicit failure leaves
//!   nothing to say.
//! - Signed bytes seen lately, for providers whose replays are only watched for (`sightings`).
//! - A claim whose answer was lost may have been stored all the same. It was never used, so it is withdrawn by its token.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::cells::Cells;
use super::memory::MemoryCells;
use super::recent::Recent;
use super::sightings::Sightings;
use super::{AnyCells, Cast, Claim, ClaimOutcome, Entry, Recorded, Store, StoreError, StoreErrorKind, Terms};
use crate::config::Size;
use crate::pipeline::identify::EventKey;

/// Claims to be withdrawn. More than come in before the breaker opens; one that finds no place is left to its lease.
const UNSURE_MAX: usize = 16_384;
/// Entries that are written back side by side: their commands share the connection.
const AT_ONCE: usize = 256;
/// Until those are looked at again that could not be written back yet.
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Reserve {
    pub recent: Recent,
    pub sightings: Sightings,
    cells: MemoryCells,
    /// The contract over `cells`.
    local: Store,
    /// Whether `cells` may hold anything: deliveries look here before they take its lock.
    in_use: AtomicBool,
    // A std mutex: never held across an await.
    unsure: Mutex<VecDeque<Claim>>,
    /// There is something to be written back, or nothing any more.
    changed: Notify,
}

/// What became of one entry that was to be written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBack {
    /// There was nothing to say.
    Nothing,
    Done,
    Doubt,
    /// The store knew of another success, or holds something else: the event may have taken effect twice.
    Conflict,
    /// The event is still claimed here, under a live lease.
    ClaimedHere,
    /// Another process is at work on the event: looked at again later.
    ClaimedThere,
}

impl Reserve {
    pub fn new(recent_max: Size, claims_max: usize) -> Self {
        let cells = MemoryCells::bounded(claims_max);
        Self {
            recent: Recent::new(usize::try_from(recent_max.0).unwrap_or(usize::MAX)),
            sightings: Sightings::default(),
            local: Store::new(AnyCells::Memory(cells.clone()).into()),
            cells,
            in_use: AtomicBool::new(false),
            unsure: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// The claims of this process.
    pub fn local(&self) -> &Store {
        &self.local
    }

    /// A completed event, as far as this process remembers.
    pub fn recall(&self, key: &EventKey, terms: &Terms) -> Option<ClaimOutcome> {
        let done = self.recent.get(key)?;
        let is_other = terms.body_matters && done.body != terms.body;
        Some(if is_other { ClaimOutcome::Conflict(Entry::Done(done)) } else { ClaimOutcome::Done(done) })
    }

    /// Claims the event in this process.
    pub async fn claim(&self, key: &EventKey, terms: &Terms) -> Result<ClaimOutcome, StoreError> {
        let outcome = self.local.claim(key, terms).await.map_err(|failed| failed.error);
        // After the claim is there, so that whoever has just found nothing and said so is put right.
        self.in_use.store(true, Ordering::SeqCst);
        self.changed.notify_one();
        outcome
    }

    /// Has a claim withdrawn that may have been stored, once the store can be asked.
    pub fn withdraw(&self, claim: Claim) {
        let mut unsure = self.unsure();
        if unsure.len() < UNSURE_MAX {
            unsure.push_back(claim);
        }
        self.changed.notify_one();
    }

    /// Tells the store what became of an event here, if anything did.
    pub async fn write_back(&self, key: &EventKey, store: &Store) -> Result<WrittenBack, StoreError> {
        if !self.in_use.load(Ordering::SeqCst) {
            return Ok(WrittenBack::Nothing);
        }
        // Boxed: as a rule there is nothing to be told, and no room is needed for it.
        Box::pin(self.write_back_held(key, store)).await
    }

    async fn write_back_held(&self, key: &EventKey, store: &Store) -> Result<WrittenBack, StoreError> {
        let Some(held) = self.cells.read(key.as_str()).await? else { return Ok(WrittenBack::Nothing) };
        let Some(seen) = self.local.look(key).await? else { return Ok(WrittenBack::Nothing) };
        let result = match seen.entry {
            Entry::Claimed(_) if seen.lease_left != Some(Duration::ZERO) => return Ok(WrittenBack::ClaimedHere),
            Entry::Failed(failed) if failed.doubt.is_none() => WrittenBack::Nothing,
            Entry::Claimed(_) | Entry::Failed(_) => match store.cast_doubt(key, &seen.entry, seen.left).await {
                Ok(Cast::Cast) => WrittenBack::Doubt,
                Ok(Cast::Done) => WrittenBack::Conflict,
                Ok(Cast::Claimed) => return Ok(WrittenBack::ClaimedThere),
                Err(error) if error.kind == StoreErrorKind::Foreign => WrittenBack::Conflict,
                Err(error) => return Err(error),
            },
            // Letters are kept by the store alone.
            Entry::Queued(_) => WrittenBack::Nothing,
            Entry::Done(done) => {
                let recorded = store.record(key, done.clone(), seen.left).await?;
                self.recent.put(key, done, seen.left);
                if recorded == Recorded::Again { WrittenBack::Conflict } else { WrittenBack::Done }
            }
        };
        // One that has changed meanwhile is written back in its turn.
        self.cells.remove(key.as_str(), &held.value);
        Ok(result)
    }

    /// Writes back whatever there is, whenever the store can be asked, for ever.
    pub async fn keep_writing_back(&self, store: &Store, told: impl Fn(WrittenBack)) -> ! {
        loop {
            if self.is_settled() {
                // A claim of this process may be settled long after it was thought to be over: there is no word of that.
                let _ = timeout(AGAIN, self.changed.notified()).await;
                continue;
            }
            store.breaker().mended().await;
            if self.write_all_back(store, &told).await.is_err() || !self.is_settled() {
                sleep(AGAIN).await;
            }
        }
    }

    /// Waits until no event is left whose end the store has not been told.
    pub async fn settled(&self) {
        while !self.cells.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Events whose end the store has not been told.
    pub fn unsettled(&self) -> usize {
        self.cells.len()
    }

    fn is_settled(&self) -> bool {
        self.cells.is_empty() && self.unsure().is_empty()
    }

    async fn write_all_back(&self, store: &Store, told: &impl Fn(WrittenBack)) -> Result<(), StoreError> {
        // What the store would have forgotten by now need not be told.
        self.cells.sweep();
        self.in_use.store(true, Ordering::SeqCst);
        let keys: Vec<_> = self.cells.walk("", None).await?.cells.into_iter().map(|(key, _)| EventKey::stored(&key)).collect();
        for some in keys.chunks(AT_ONCE) {
            let mut outage = None;
            for result in join_all(some.iter().map(|key| self.write_back(key, store))).await {
                match result {
                    Ok(written) => told(written),
                    Err(error) if error.is_of_this_call() => tracing::debug!(%error, "an event cannot be written back yet"),
                    Err(error) => outage = Some(error),
                }
            }
            outage.map_or(Ok(()), Err)?;
        }
        self.withdraw_all(store).await?;
        self.in_use.store(!self.cells.is_empty(), Ordering::SeqCst);
        // On again if somebody has claimed in between.
        self.in_use.fetch_or(!self.cells.is_empty(), Ordering::SeqCst);
        Ok(())
    }

    async fn withdraw_all(&self, store: &Store) -> Result<(), StoreError> {
        let all: Vec<Claim> = self.unsure().drain(..).collect();
        // While an event is under way here, a claim that may be there keeps others from it.
        let (busy, free): (Vec<_>, Vec<_>) = all.into_iter().partition(|claim| self.cells.has(claim.key.as_str()));
        self.unsure().extend(busy);
        let mut left = free.as_slice();
        while !left.is_empty() {
            let (some, rest) = left.split_at(left.len().min(AT_ONCE));
            let results = join_all(some.iter().map(|claim| store.withdraw(claim))).await;
            // What is refused is left to its lease.
            if let Some(error) = results.into_iter().filter_map(Result::err).find(|error| !error.is_of_this_call()) {
                self.unsure().extend(left.iter().cloned());
                return Err(error);
            }
            left = rest;
        }
        Ok(())
    }

    fn unsure(&self) -> MutexGuard<'_, VecDeque<Claim>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
