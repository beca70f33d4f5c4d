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
//! An event that is accepted now and delivered later is queued instead of claimed: see `backlog`.
//!
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
pub mod marker;
pub mod memory;
mod queue;
pub mod recent;
pub mod redis;
pub mod reserve;
mod rows;
pub mod seal;
mod sightings;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use crate::pipeline::identify::{BodyDigest, EventKey};
pub use any::{AnyCells, StoreSource};
pub use binding::{Binder, Bound};
use breaker::Breaker;
use cells::{AtAge, Cells, Change, Held, Step, Swapped};
pub use cells::{Cursor, StoreError, StoreErrorKind};
pub use condition::Condition;
pub use entry::{Claimed, Done, Entry, Failed, Mark, Queued, StoredReply, Token};
pub use keeping::Keeping;
pub use marker::Marker;
pub use queue::{Enqueued, ToQueue};
pub use reserve::{Reserve, WrittenBack};
use seal::Sealed;

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

fn remembered(key: String, held: Held) -> Result<Remembered, StoreError> {
    let entry = decode(&held.value)?;
    let lease_left = match &entry {
        Entry::Claimed(claimed) => Some((claimed.lease + held.left).saturating_sub(claimed.retention)),
        Entry::Failed(_) | Entry::Queued(_) | Entry::Done(_) => None,
    };
    Ok(Remembered { key, entry, left: held.left, lease_left })
}

/// A completion as it is stored.
pub fn done(claim: &Claim, status: u16, at: SystemTime, reply: Option<StoredReply>) -> Done {
    Done { status, body: claim.held.body, attempt: claim.held.attempt, at, reply }
}
