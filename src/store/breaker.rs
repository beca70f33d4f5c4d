//! Keeps a store that does not serve from costing every delivery its whole patience.
//!
//! Closed, every call goes through. A few outages in a row open it, and calls fail at once. When the watch hears the
//! store again, one call at a time is let through on trial; the first that is answered closes it. One for all
//! connections of the process.

use std::future::Future;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::cells::{StoreError, StoreErrorKind};

/// One lost answer is a blip. Calls and the watch's own count alike, so that it opens without traffic too.
const FAILURES_MAX: u32 = 3;

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
/// The store was heard again: the next call goes through, and no other until it is answered.
const ON_TRIAL: u8 = 2;

#[derive(Debug, Default)]
pub struct Breaker {
    state: AtomicU8,
    /// In a row.
    failures: AtomicU32,
    /// When the first of them was. A std mutex: never held across an await.
    since: Mutex<Option<Instant>>,
    mended: Notify,
}

impl Breaker {
    /// Makes the call, unless the breaker is open, and learns from it.
    pub async fn guard<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if !self.lets_through() {
            let down_for = self.down_for().unwrap_or_default();
            return Err(StoreError::new(StoreErrorKind::BreakerOpen, format!("no answer for {} s", down_for.as_secs())));
        }
        let result = call.await;
        match &result {
            Err(error) if error.is_outage() => self.failed(),
            _ => self.answered(),
        }
        result
    }

    /// The watch asked for a sign of life.
    pub fn heard<T>(&self, pulse: &Result<T, StoreError>) {
        match pulse {
            Err(error) if error.is_outage() => self.failed(),
            // A pulse is no delivery's call: those may still hang where it is answered.
            _ if self.state.compare_exchange(OPEN, ON_TRIAL, Ordering::Relaxed, Ordering::Relaxed).is_ok() => {
                self.mended.notify_waiters();
            }
            _ => {}
        }
    }

    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OPEN
    }

    /// For how long the store has not served; `None` while it does.
    pub fn down_for(&self) -> Option<Duration> {
        self.since().map(|since| since.elapsed())
    }

    /// Waits while the breaker is open.
    pub async fn mended(&self) {
        loop {
            let mended = self.mended.notified();
            if !self.is_open() {
                return;
            }
            mended.await;
        }
    }

    fn lets_through(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            CLOSED => true,
            ON_TRIAL => self.state.compare_exchange(ON_TRIAL, OPEN, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
            _ => false,
        }
    }

    fn failed(&self) {
        self.since().get_or_insert_with(Instant::now);
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_MAX && self.state.swap(OPEN, Ordering::Relaxed) == CLOSED
        {
            tracing::warn!("the store's breaker is open: deliveries no longer wait for it");
        }
    }

    fn answered(&self) {
        // The common case writes nothing that other cores read.
        if self.failures.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.failures.store(0, Ordering::Relaxed);
        *self.since() = None;
        if self.state.swap(CLOSED, Ordering::Relaxed) != CLOSED {
            tracing::info!("the store's breaker is closed");
        }
        self.mended.notify_waiters();
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn call(breaker: &Breaker, answer: Result<(), StoreErrorKind>) -> Result<(), StoreErrorKind> {
        breaker.guard(async { answer.map_err(|kind| StoreError::new(kind, "")) }).await.map_err(|error| error.kind)
    }

    const OUTAGE: Result<(), StoreErrorKind> = Err(StoreErrorKind::Timeout);
    const SHUT: Result<(), StoreErrorKind> = Err(StoreErrorKind::BreakerOpen);

    async fn opened() -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..FAILURES_MAX {
            assert_eq!(call(&breaker, OUTAGE).await, OUTAGE);
        }
        assert!(breaker.is_open());
        breaker
    }

    #[tokio::test]
    async fn outages_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let breaker = Breaker::default();
        for _ in 0..3 * FAILURES_MAX {
            assert_eq!(call(&breaker, OUTAGE).await, OUTAGE);
            assert!(breaker.down_for().is_some());
            assert_eq!(call(&breaker, Err(StoreErrorKind::Refused)).await, Err(StoreErrorKind::Refused));
            assert_eq!(breaker.down_for(), None);
        }
        let breaker = opened().await;
        assert_eq!(call(&breaker, Ok(())).await, SHUT);
    }

    #[tokio::test]
    async fn a_store_that_does_not_serve_opens_it_whatever_keeps_it_from_serving() {
        for kind in [StoreErrorKind::Unreachable, StoreErrorKind::Timeout, StoreErrorKind::NotReady] {
            let breaker = Breaker::default();
            for _ in 0..FAILURES_MAX {
                assert_eq!(call(&breaker, Err(kind)).await, Err(kind));
            }
            assert!(breaker.is_open(), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn after_a_pulse_one_call_is_on_trial_and_its_answer_decides() {
        let breaker = opened().await;
        breaker.heard(&Ok(()));
        let trial = breaker.guard(async {
            assert_eq!(call(&breaker, Ok(())).await, SHUT);
            Err::<(), _>(StoreError::new(StoreErrorKind::Timeout, ""))
        });
        assert!(trial.await.is_err());
        assert_eq!(call(&breaker, Ok(())).await, SHUT);
        breaker.heard(&Ok(()));
        assert_eq!(call(&breaker, Ok(())).await, Ok(()));
        assert_eq!(call(&breaker, Ok(())).await, Ok(()));
        assert_eq!(breaker.down_for(), None);
    }

    #[tokio::test]
    async fn it_opens_without_traffic_and_those_who_wait_hear_of_its_end() {
        let breaker = Breaker::default();
        for _ in 0..FAILURES_MAX {
            breaker.heard(&Err::<(), _>(StoreError::new(StoreErrorKind::Unreachable, "")));
        }
        assert!(breaker.is_open());
        let (waited, ()) = tokio::join!(breaker.mended(), async { breaker.heard(&Ok(())) });
        assert_eq!(waited, ());
    }
}
