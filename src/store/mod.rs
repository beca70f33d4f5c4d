//! What remembers events. One contract over any kind of cells, written once:
//!
//! ```text
//!   absent --claim--> claimed --complete (the consumer accepted)--> done          a late success always wins
//!                     |   ^ |
//!               fail  |   | +-- nobody settles: the lease runs out,
//!                     v   |     and the next claim takes over in doubt ("unknown")
//!                   failed+---- the next claim takes over; in doubt only if it was before
//! ```
//!
//! An event that is accepted now and delivered later is queued instead of claimed: see `backlog`. What people ask of the store is in
//! `lookup`; what came to be while it did not answer gets there by `written_back`.
//!
//! - Of any number of concurrent claims on one key, at most one is `Claimed` until its lease is over.
//! - `complete` is a fact and needs no token. `fail` and `renew` act only while the claim is still the caller's.
//! - Doubt, once set, goes from claimed to failed to claimed until the event is done.
//! - A claim lives for the retention; its lease is counted from its age, by the store's clock and by the values
//!   stored with it, never by the caller's configuration.

pub mod any;
pub mod backlog;
mod binding;
pub mod breaker;
mod bypass;
pub mod cells;
pub mod condition;
pub mod entry;
pub mod file;
mod keeping;
mod lookup;
pub mod marker;
pub mod memory;
mod queue;
pub mod recent;
pub mod redis;
pub mod reserve;
mod rows;
pub mod seal;
mod sightings;
mod written_back;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use crate::pipeline::identify::{BodyDigest, EventKey};
pub use any::{AnyCells, StoreSource};
pub use binding::{Binder, Bound};
use breaker::Breaker;
use cells::{AtAge, Cells, Change, Swapped};
pub use cells::{Cursor, StoreError, StoreErrorKind};
pub use condition::Condition;
pub use entry::{Claimed, Done, Entry, Failed, Mark, Queued, StoredReply, Token};
pub use keeping::Keeping;
pub use lookup::{Forgotten, Remembered};
pub use marker::Marker;
pub use queue::{Enqueued, ToQueue};
pub use reserve::{Reserve, WrittenBack};
use seal::Sealed;
pub use written_back::{Cast, Recorded};

/// How often a claim looks again when others change the entry under it. Each turn is another delivery's progress.
const TURNS: usize = 8;

/// What a claim is made with.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub lease: Duration,
    /// Rounded up to whole seconds, which is what an entry holds.
    pub retention: Duration,
    pub body: BodyDigest,
    /// Whether another body under the same key is another event.
    pub body_matters: bool,
    /// Why the claim may be a second one, whatever the store says: it may have lost what came before.
    pub doubt: Option<Mark>,
}

/// The right to forward one event now.
#[derive(Clone, Debug)]
pub struct Claim {
    pub key: EventKey,
    held: Claimed,
    /// The entry as stored, to compare with.
    stored: Bytes,
    /// When the claim was asked for: its lease cannot have begun earlier.
    since: Instant,
}

impl Claim {
    pub fn attempt(&self) -> u32 {
        self.held.attempt
    }

    /// Why this attempt may be a second one.
    pub fn doubt(&self) -> Option<Mark> {
        self.held.doubt
    }

    pub fn lease(&self) -> Duration {
        self.held.lease
    }

    /// How long the event is remembered.
    pub fn retention(&self) -> Duration {
        self.held.retention
    }

    pub fn since(&self) -> Instant {
        self.since
    }

    /// Nobody had claimed the event, as far as the store knows.
    fn into_first(self) -> ClaimOutcome {
        let earlier = if self.held.doubt.is_some() { Earlier::Unknown } else { Earlier::None };
        ClaimOutcome::Claimed { claim: self, earlier }
    }
}

/// What is known of earlier attempts at a claimed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    None,
    /// All of them failed for certain.
    Failed,
    /// One of them may have taken effect.
    Unknown,
}

#[derive(Debug)]
pub enum ClaimOutcome {
    Claimed {
        claim: Claim,
        earlier: Earlier,
    },
    Done(Done),
    InFlight {
        lease_left: Duration,
    },
    /// The event was accepted before, and will be delivered from the queue.
    Queued(Queued),
    /// The key belongs to another body; `entry` is what it holds.
    Conflict(Entry),
}

/// The store could not be asked for a claim, or did not answer.
#[derive(Debug)]
pub struct ClaimError {
    pub error: StoreError,
    /// What it may have stored all the same: to be withdrawn, since it will not be used.
    pub unsure: Option<Claim>,
}

/// What a completion found in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The claim it settles.
    Own,
    /// Another claim: the lease had run out, and somebody else may be forwarding.
    Overrun,
    /// A completion by somebody else: the event took effect twice.
    Again,
    /// Nothing: the store has lost the claim.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    Released,
    /// The claim was no longer ours; nothing was changed.
    LeaseLost,
    /// Somebody else has completed the event meanwhile.
    Done(Done),
}

/// The contract, on any cells.
#[derive(Clone, Debug)]
pub struct Store<C = Sealed<AnyCells>> {
    cells: C,
    breaker: Arc<Breaker>,
}

impl<C: Cells> Store<C> {
    pub fn new(cells: C) -> Self {
        Self::behind(Arc::default(), cells)
    }

    /// A store that shares its breaker with others: they reach the same one.
    pub fn behind(breaker: Arc<Breaker>, cells: C) -> Self {
        Self { cells, breaker }
    }

    pub fn cells(&self) -> &C {
        &self.cells
    }

    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Takes the event, unless somebody holds it or it is done.
    pub async fn claim(&self, key: &EventKey, terms: &Terms) -> Result<ClaimOutcome, ClaimError> {
        let since = Instant::now();
        let token = Token::random().map_err(|error| StoreError::new(StoreErrorKind::Local, error))?;
        let (retention, doubt) = (whole_seconds(terms.retention), terms.doubt);
        let first = Claimed { token, lease: terms.lease, retention, attempt: 1, doubt, body: terms.body, at: entry::now() };
        let stored = first.encode();
        let put = self.breaker.guard(self.cells.put_new(key.as_str(), stored.clone(), retention)).await;
        let claim = Claim { key: key.clone(), held: first, stored, since };
        match put {
            Ok(None) => Ok(claim.into_first()),
            // Boxed: most events are new, or done, and need not have room for a takeover.
            Ok(Some(value)) => match judge(decode(&value)?, &claim.held, terms) {
                Verdict::Take(takeover) => Box::pin(self.take_over(claim, value, takeover, terms)).await,
                Verdict::Known(outcome) => Ok(outcome),
            },
            Err(error) => Err(ClaimError::after(error, || claim)),
        }
    }

    /// Takes the place of an attempt that failed, or whose lease is over. Others may be about to do the same.
    async fn take_over(
        &self,
        first: Claim,
        mut value: Bytes,
        mut takeover: Takeover,
        terms: &Terms,
    ) -> Result<ClaimOutcome, ClaimError> {
        let (key, retention) = (&first.key, first.held.retention);
        for _ in 0..TURNS {
            let next = takeover.next.encode();
            let change = Change { from: value, to: next.clone(), life: retention, at_age: takeover.at_age };
            let swapped = self.breaker.guard(self.cells.swap(key.as_str(), change)).await;
            let (held, earlier) = (takeover.next, takeover.earlier);
            let claim = || Claim { key: key.clone(), held, stored: next, since: first.since };
            let seen = match swapped {
                Err(error) => return Err(ClaimError::after(error, claim)),
                Ok(Swapped::Written) => return Ok(ClaimOutcome::Claimed { claim: claim(), earlier }),
                Ok(Swapped::Young(lease_left)) => return Ok(ClaimOutcome::InFlight { lease_left }),
                Ok(Swapped::Differs(Some(other))) => Some(other),
                Ok(Swapped::Differs(None)) => {
                    let put = self.breaker.guard(self.cells.put_new(key.as_str(), first.stored.clone(), retention)).await;
                    put.map_err(|error| ClaimError::after(error, || first.clone()))?
                }
            };
            let Some(seen) = seen else { return Ok(first.into_first()) };
            (value, takeover) = match judge(decode(&seen)?, &first.held, terms) {
                Verdict::Take(takeover) => (seen, takeover),
                Verdict::Known(outcome) => return Ok(outcome),
            };
        }
        // Others keep changing the entry, so others are at work on it.
        Ok(ClaimOutcome::InFlight { lease_left: terms.lease })
    }

    /// Takes back a claim that was never used. Does nothing where another entry has taken its place.
    pub async fn withdraw(&self, claim: &Claim) -> Result<(), StoreError> {
        let Claimed { attempt, doubt, body, retention, .. } = claim.held;
        let unmade = Failed { attempt: attempt.saturating_sub(1), doubt, status: None, body, at: entry::now() };
        let unmade = Entry::Failed(unmade).encode();
        let change = Change { from: claim.stored.clone(), to: unmade.clone(), life: retention, at_age: None };
        if self.breaker.guard(self.cells.swap(claim.key.as_str(), change)).await? == Swapped::Differs(None) {
            // The claim may still be on its way, on another connection: it must not find the place empty.
            self.breaker.guard(self.cells.put_new(claim.key.as_str(), unmade, retention)).await?;
        }
        Ok(())
    }

    /// The consumer accepted the event: a fact, so it needs no token and may come late.
    pub async fn complete(&self, claim: &Claim, done: Done) -> Result<Completed, StoreError> {
        let value = Entry::Done(done).encode();
        let before = self.breaker.guard(self.cells.put(claim.key.as_str(), value.clone(), claim.held.retention)).await?;
        Ok(match before {
            None => Completed::Lost,
            // Our own completion, sent again because its answer was lost.
            Some(before) if before == claim.stored || before == value => Completed::Own,
            Some(before) => match Entry::decode(&before) {
                Some(Entry::Done(_)) => Completed::Again,
                _ => Completed::Overrun,
            },
        })
    }

    /// The attempt failed and the next delivery may try. Changes nothing if the claim is no longer the caller's.
    pub async fn fail(&self, claim: &Claim, status: Option<u16>, doubt: Option<Mark>) -> Result<Released, StoreError> {
        let Claimed { attempt, doubt: before, body, retention, .. } = claim.held;
        let failed = Entry::Failed(Failed { attempt, doubt: before.or(doubt), status, body, at: entry::now() });
        let change = Change { from: claim.stored.clone(), to: failed.encode(), life: retention, at_age: None };
        Ok(match self.breaker.guard(self.cells.swap(claim.key.as_str(), change)).await? {
            Swapped::Written => Released::Released,
            Swapped::Differs(Some(other)) => match Entry::decode(&other) {
                Some(Entry::Done(done)) => Released::Done(done),
                _ => Released::LeaseLost,
            },
            Swapped::Differs(None) | Swapped::Young(_) => Released::LeaseLost,
        })
    }

    /// Begins the lease anew. `false` if the claim is no longer the caller's.
    pub async fn renew(&self, claim: &Claim) -> Result<bool, StoreError> {
        self.breaker.guard(self.cells.touch(claim.key.as_str(), claim.stored.clone(), claim.held.retention)).await
    }

    /// Gives a settled entry its retention anew, if it is still the one that was seen. A claim is left alone: its
    /// age is its lease, and only its holder may renew that.
    pub async fn keep(&self, key: &EventKey, seen: &Entry, retention: Duration) -> Result<bool, StoreError> {
        match seen {
            Entry::Claimed(_) => Ok(false),
            // It has no end.
            Entry::Queued(_) => Ok(true),
            Entry::Failed(_) | Entry::Done(_) => {
                self.breaker.guard(self.cells.touch(key.as_str(), seen.encode(), retention)).await
            }
        }
    }
}

impl ClaimError {
    /// Only a store that was asked can have done it.
    fn after(error: StoreError, claim: impl FnOnce() -> Claim) -> Self {
        let unsure = error.is_outage().then(claim);
        Self { error, unsure }
    }
}

impl AsRef<StoreError> for ClaimError {
    fn as_ref(&self) -> &StoreError {
        &self.error
    }
}

impl From<StoreError> for ClaimError {
    fn from(error: StoreError) -> Self {
        Self { error, unsure: None }
    }
}

enum Verdict {
    Known(ClaimOutcome),
    Take(Takeover),
}

struct Takeover {
    next: Claimed,
    earlier: Earlier,
    at_age: Option<AtAge>,
}

/// What an entry means to a new claim. Whether a lease is over, only the store can tell: `at_age` asks it.
fn judge(entry: Entry, first: &Claimed, terms: &Terms) -> Verdict {
    if terms.body_matters && entry.body() != terms.body {
        return Verdict::Known(ClaimOutcome::Conflict(entry));
    }
    let (attempt, doubt, at_age) = match entry {
        Entry::Done(done) => return Verdict::Known(ClaimOutcome::Done(done)),
        Entry::Queued(queued) => return Verdict::Known(ClaimOutcome::Queued(queued)),
        // What is there may be older than what was lost: a success may have followed the failure.
        Entry::Failed(failed) => (failed.attempt, failed.doubt.or(terms.doubt), None),
        Entry::Claimed(claimed) => (claimed.attempt, claimed.doubt.or(Some(Mark::Unknown)), Some(lease_over(&claimed))),
    };
    let earlier = match (doubt, attempt) {
        (Some(_), _) => Earlier::Unknown,
        // Claimed before, withdrawn, never attempted.
        (None, 0) => Earlier::None,
        (None, _) => Earlier::Failed,
    };
    let next = Claimed { attempt: attempt.saturating_add(1), doubt, ..first.clone() };
    Verdict::Take(Takeover { next, earlier, at_age })
}

fn lease_over(claimed: &Claimed) -> AtAge {
    AtAge { life: claimed.retention, least: claimed.lease }
}

fn whole_seconds(retention: Duration) -> Duration {
    Duration::from_secs(retention.as_secs().saturating_add(u64::from(retention.subsec_nanos() > 0)))
}

fn decode(value: &Bytes) -> Result<Entry, StoreError> {
    Entry::decode(value).ok_or_else(|| StoreError::new(StoreErrorKind::Foreign, "the key holds a value of somebody else"))
}

/// A completion as it is stored.
pub fn done(claim: &Claim, status: u16, at: SystemTime, reply: Option<Box<StoredReply>>) -> Done {
    Done { status, body: claim.held.body, attempt: claim.held.attempt, at, reply }
}
