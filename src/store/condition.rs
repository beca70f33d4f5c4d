//! What is known of the store beside its answers, for deliveries to go by: data it has lost, its clock, and since when it
//! takes no new events.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::keeping::Keeping;

#[derive(Debug, Default)]
pub struct Condition {
    /// Milliseconds since 1970; nought while nothing was lost.
    reset: AtomicU64,
    /// Milliseconds by which the store's clock is ahead of ours.
    skew: AtomicI64,
    /// Whether `takes_none_since` is set: claims look here before they take its lock.
    takes_none: AtomicBool,
    // A std mutex: never held across an await.
    takes_none_since: Mutex<Option<Instant>>,
    /// `None` before anybody could find out.
    keeping: Mutex<Option<Keeping>>,
}

impl Condition {
    /// When the store was last found to have lost data.
    pub fn reset(&self) -> Option<SystemTime> {
        let millis = self.reset.load(Ordering::Relaxed);
        (millis > 0).then(|| UNIX_EPOCH + Duration::from_millis(millis))
    }

    pub fn set_reset(&self, at: Option<SystemTime>) {
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        self.reset.store(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether what the store has confirmed outlives it, as far as is known.
    pub fn keeping(&self) -> Option<Keeping> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells whether that is news.
    pub fn set_keeping(&self, keeping: Keeping) -> bool {
        let before = self.keeping.lock().unwrap_or_else(PoisonError::into_inner).replace(keeping.clone());
        before != Some(keeping)
    }

    /// How far our clock and the store's lie apart, whichever is ahead.
    pub fn skew(&self) -> Duration {
        Duration::from_millis(self.skew.load(Ordering::Relaxed).unsigned_abs())
    }

    /// By how much the store's clock is ahead; negative where ours is.
    pub fn set_skew(&self, millis: i64) {
        self.skew.store(millis, Ordering::Relaxed);
    }

    /// The store did not take an event: it does not answer, its memory or its disk is full, or we are not allowed to write.
    pub fn took_none(&self) {
        self.takes_none_since().get_or_insert_with(Instant::now);
        self.takes_none.store(true, Ordering::Relaxed);
    }

    /// The store has taken a new event. That it answers for one it knows says little: a full store does so too.
    pub fn took_new(&self) {
        if self.takes_none.load(Ordering::Relaxed) {
            self.takes_none.store(false, Ordering::Relaxed);
            *self.takes_none_since() = None;
        }
    }

    /// For how long it has taken no new event that was to be claimed.
    pub fn takes_none_for(&self) -> Option<Duration> {
        self.takes_none_since().map(|since| since.elapsed())
    }

    fn takes_none_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.takes_none_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_refuses_from_its_first_refusal_to_the_next_claim_it_grants() {
        let condition = Condition::default();
        assert_eq!(condition.takes_none_for(), None);
        condition.took_none();
        let first = *condition.takes_none_since();
        condition.took_none();
        assert_eq!(*condition.takes_none_since(), first);
        condition.took_new();
        assert_eq!(condition.takes_none_for(), None);
    }
}
