//! Keeps a store that does not serve from costing every delivery its whole patience.
//!
//! Closed, every call goes through. A few outages in a row open it, and calls fail at once. When the watch hears the
//! store again, one call at a time is let through on trial; the first that is answered closes it. One for all
//! connections of the process.

use std::future::{Future, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Either;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cells::{StoreError, StoreErrorKind};

/// One lost answer is a blip. Calls and the watch's own count alike, so that it opens without traffic too.
const FAILURES_MAX: u32 = 3;

#[derive(Debug, Default)]
pub struct Breaker {
    /// Whether there is any trouble: calls look here before they take its lock.
    in_trouble: AtomicBool,
    // A std mutex: never held across an await.
    trouble: Mutex<Trouble>,
    mended: Notify,
}

/// What has failed since all was well.
#[derive(Debug, Default)]
struct Trouble {
    state: State,
    /// Calls that failed in a row, and pulses.
    calls: u32,
    pulses: u32,
    /// When the first of them did.
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open,
    /// The store was heard again: the next call goes through, and no other until it is answered.
    OnTrial,
}

impl Trouble {
    fn failed(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        let is_enough = self.calls + self.pulses >= FAILURES_MAX;
        if is_enough && self.state == State::Closed {
            tracing::warn!("the store's breaker is open: deliveries no longer wait for it");
        }
        if is_enough || self.state == State::OnTrial {
            self.state = State::Open;
        }
    }
}

impl Breaker {
    /// Makes the call, unless the breaker is open, and learns from it. Not an `async fn`, which would hold the call twice.
    pub fn guard<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> impl Future<Output = Result<T, StoreError>> {
        if !self.lets_through() {
            let down_for = self.down_for().unwrap_or_default();
            let open = StoreError::new(StoreErrorKind::BreakerOpen, format!("no answer for {} s", down_for.as_secs()));
            return Either::Left(ready(Err(open)));
        }
        Either::Right(call.inspect(|result| match result {
            Err(error) if error.is_outage() => self.change(|trouble| {
                trouble.calls = trouble.calls.saturating_add(1);
                trouble.failed();
            }),
            _ => self.answered(),
        }))
    }

    /// The watch asked for a sign of life.
    pub fn heard<T>(&self, pulse: &Result<T, StoreError>) {
        match pulse {
            Err(error) if error.is_outage() => self.change(|trouble| {
                trouble.pulses = trouble.pulses.saturating_add(1);
                trouble.failed();
            }),
            _ if self.in_trouble.load(Ordering::Relaxed) => self.change(|trouble| {
                // A pulse is no delivery's call: those may still hang where it is answered, so that what they have found
                // out stands.
                trouble.pulses = 0;
                trouble.since = trouble.since.filter(|_| trouble.calls > 0);
                if trouble.state == State::Open {
                    trouble.state = State::OnTrial;
                }
            }),
            _ => {}
        }
    }

    pub fn is_open(&self) -> bool {
        self.in_trouble.load(Ordering::Relaxed) && self.trouble().state == State::Open
    }

    /// For how long the store has not served; `None` while it does.
    pub fn down_for(&self) -> Option<Duration> {
        self.trouble().since.map(|since| since.elapsed())
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
        if !self.in_trouble.load(Ordering::Relaxed) {
            return true;
        }
        let mut trouble = self.trouble();
        match trouble.state {
            State::Closed => true,
            State::OnTrial => {
                trouble.state = State::Open;
                true
            }
            State::Open => false,
        }
    }

    fn answered(&self) {
        // The common case writes nothing that other cores read.
        if !self.in_trouble.load(Ordering::Relaxed) {
            return;
        }
        self.change(|trouble| {
            if std::mem::take(trouble).state != State::Closed {
                tracing::info!("the store's breaker is closed");
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Trouble)) {
        let mut trouble = self.trouble();
        change(&mut trouble);
        let (is_open, is_over) = (trouble.state == State::Open, trouble.state == State::Closed && trouble.since.is_none());
        self.in_trouble.store(!is_over, Ordering::Relaxed);
        drop(trouble);
        if !is_open {
            self.mended.notify_waiters();
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn pulses_that_fail_now_and_then_are_not_in_a_row() {
        let breaker = Breaker::default();
        let silence = Err::<(), _>(StoreError::new(StoreErrorKind::Timeout, ""));
        for _ in 0..2 * FAILURES_MAX {
            breaker.heard(&silence);
            assert!(breaker.down_for().is_some() && !breaker.is_open());
            breaker.heard(&Ok(()));
            assert_eq!(breaker.down_for(), None);
        }
        // What a call has found out, no pulse takes back.
        assert_eq!(call(&breaker, OUTAGE).await, OUTAGE);
        breaker.heard(&Ok(()));
        assert!(breaker.down_for().is_some());
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
