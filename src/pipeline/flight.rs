//! Deliveries of one event in this process, on whatever runtime: one leads, the others follow and get its outcome.
//!
//! An entry is made before the claim goes to the store and stays until the store has confirmed the completion, so
//! that no two copies here ever ask the store for one event at the same time. A follower never forwards.

use std::sync::{Arc, PoisonError};
#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard};

use hashbrown::HashTable;
// A scheduler of the tests decides who goes next at each use of these.
#[cfg(test)]
use tests::schedule::{Mutex, MutexGuard, watch};
#[cfg(not(test))]
use tokio::sync::watch;

use super::identify::{BodyDigest, EventKey};
use super::refusal::Refusal;
use super::reply::Shared;
use crate::store::Done;

/// Locks among which the keys are spread: more than any machine has cores that would meet on one.
const SHARDS: usize = 64;

type Shard = HashTable<(EventKey, Arc<Flight>)>;

/// The events under way in this process.
#[derive(Debug)]
pub struct Flights {
    // Std mutexes: held for one look-up, never across an await.
    shards: Vec<Mutex<Shard>>,
    followers_max: usize,
}

#[derive(Debug)]
struct Flight {
    body: BodyDigest,
    progress: watch::Sender<Progress>,
}

/// How far the leader has come.
#[derive(Debug)]
struct Progress {
    /// Whether the store has said that the key belongs to the leader's body.
    owns_key: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Running,
    /// The consumer has accepted the event; its answer's body is still being read.
    Accepted,
    Ended(Ending),
}

impl Phase {
    fn is_accepted(&self) -> bool {
        match self {
            Self::Running => false,
            Self::Accepted => true,
            Self::Ended(Ending::Answered(answer)) => answer.is_success,
            Self::Ended(Ending::Done(_) | Ending::Queued | Ending::Accepted) => true,
            Self::Ended(Ending::Refused(_) | Ending::Acked | Ending::Moved) => false,
        }
    }
}

/// How it ended, for the followers.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The consumer's answer.
    Answered(Arc<Shared>),
    /// The event was done before.
    Done(Arc<Done>),
    Refused(Refusal),
    /// The event was accepted before: it is in the queue, or a dead letter.
    Queued,
    /// The consumer has accepted it, and nobody waited for its answer.
    Accepted,
    /// Another process is at work on it, and the provider is to be told 2xx all the same.
    Acked,
    /// The key belongs to another body: look under the key with the digest.
    Moved,
}

/// What a delivery finds when it joins.
#[derive(Debug)]
pub enum Joined {
    /// Nobody else is at work on it: go on.
    Lead(Lead),
    /// Another copy is under way.
    Follow(Follower),
    /// Another copy was accepted, or even answered, and the store may not have confirmed it yet.
    Accepted(Follower),
    /// Another body under the same key is under way: another event, if the key turns out to be that body's.
    OtherBody(Rival),
    /// Too many wait already.
    Full,
}

impl Joined {
    /// Whether another body is taken for a copy of the same event.
    pub fn has_other_body(&self) -> bool {
        match self {
            Self::Follow(follower) | Self::Accepted(follower) => follower.has_other_body,
            Self::Lead(_) | Self::OtherBody(_) | Self::Full => false,
        }
    }
}

impl Flights {
    pub fn new(followers_max: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), followers_max }
    }

    /// Joins the event's flight, or opens it. Where `body_matters`, another body is another event.
    pub fn join(self: &Arc<Self>, key: &EventKey, body: BodyDigest, body_matters: bool) -> Joined {
        let mut shard = self.shard(key);
        let Some((_, flight)) = shard.find(key.number(), |(other, _)| other == key) else {
            let progress = watch::Sender::new(Progress { owns_key: false, phase: Phase::Running });
            let flight = Arc::new(Flight { body, progress });
            shard.insert_unique(key.number(), (key.clone(), Arc::clone(&flight)), |(key, _)| key.number());
            return Joined::Lead(Lead { flights: Arc::clone(self), key: key.clone(), flight });
        };
        let has_other_body = flight.body != body;
        if body_matters && has_other_body {
            return Joined::OtherBody(Rival(flight.progress.subscribe()));
        }
        let is_full = flight.progress.receiver_count() >= self.followers_max;
        // Before it is looked how far the leader is: one that has come further by then has seen somebody who waits.
        let follower = Follower { progress: flight.progress.subscribe(), has_other_body };
        if flight.progress.borrow().phase.is_accepted() {
            return Joined::Accepted(follower);
        }
        if is_full { Joined::Full } else { Joined::Follow(follower) }
    }

    fn shard(&self, key: &EventKey) -> MutexGuard<'_, Shard> {
        // Other bits than those that a shard places its keys by.
        let index = usize::try_from((key.number() >> 32) % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to go on with an event in this process. Dropped, the event is open for the next delivery.
#[derive(Debug)]
pub struct Lead {
    flights: Arc<Flights>,
    key: EventKey,
    flight: Arc<Flight>,
}

impl Lead {
    /// Whether copies wait for the outcome.
    pub fn has_followers(&self) -> bool {
        self.flight.progress.receiver_count() > 0
    }

    /// The store has said that the key belongs to this body.
    pub fn owns_key(&self) {
        self.change(|progress| progress.owns_key = true);
    }

    /// The consumer's 2xx head is in: from now on a copy is a duplicate.
    pub fn accepted(&self) {
        self.change(|progress| progress.phase = Phase::Accepted);
    }

    /// Tells the followers. The entry stays until the lead is dropped.
    pub fn end(&self, ending: Ending) {
        self.change(|progress| progress.phase = Phase::Ended(ending));
    }

    /// Waking those who wait costs as much where nobody does. Who comes while this is changed looks at it afterwards.
    fn change(&self, change: impl FnOnce(&mut Progress)) {
        self.flight.progress.send_if_modified(|progress| {
            change(progress);
            self.has_followers()
        });
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Ok(entry) = self.flights.shard(&self.key).find_entry(self.key.number(), |(key, _)| *key == self.key) {
            entry.remove();
        }
        // A leader that ends without a word to those who wait has panicked.
        self.flight.progress.send_if_modified(|progress| {
            let is_open = self.has_followers() && !matches!(progress.phase, Phase::Ended(_));
            if is_open {
                progress.phase = Phase::Ended(Ending::Refused(Refusal::Panicked));
            }
            is_open
        });
    }
}

/// A copy that waits for the leader's outcome.
#[derive(Debug)]
pub struct Follower {
    progress: watch::Receiver<Progress>,
    has_other_body: bool,
}

impl Follower {
    pub async fn ending(mut self) -> Ending {
        let ended = self.progress.wait_for(|progress| matches!(progress.phase, Phase::Ended(_))).await;
        match ended.as_deref() {
            Ok(Progress { phase: Phase::Ended(ending), .. }) => ending.clone(),
            Ok(_) | Err(_) => Ending::Refused(Refusal::Panicked),
        }
    }
}

/// A delivery with another body than the leader's.
#[derive(Debug)]
pub struct Rival(watch::Receiver<Progress>);

impl Rival {
    /// Whether the key belongs to the leader's body; if not, the flight is over, and the key may be this delivery's own.
    pub async fn is_another_event(mut self) -> bool {
        self.0.wait_for(|progress| progress.owns_key).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
