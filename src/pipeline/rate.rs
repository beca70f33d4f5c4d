//! How often something may happen: so many in a time, all at once or spread out over it.
//!
//! One number tells all: when the next one would be due if they came evenly. Whoever comes no more than a whole time before
//! that is let in. (This is the generic cell rate algorithm.)

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::identify::EventKey;
use crate::config::Rate;

/// A rate, and how much of it is used up.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    rate: Rate,
    /// In nanoseconds since the beginning.
    due: AtomicU64,
}

impl Pace {
    pub fn new(rate: Rate) -> Self {
        Self { began: Instant::now(), rate, due: AtomicU64::default() }
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Lets one in, or tells how long it would have to wait.
    pub fn take(&self) -> Result<(), Duration> {
        step(&self.due, self.rate, nanos(self.began.elapsed()))
    }
}

/// Moves the time at which the next one is due, unless that is too far off.
fn step(due: &AtomicU64, rate: Rate, now: u64) -> Result<(), Duration> {
    let (each, ahead) = (nanos(rate.per) / u64::from(rate.count.get()).max(1), nanos(rate.per));
    let mut was = due.load(Ordering::Relaxed);
    loop {
        let next = was.max(now) + each;
        if next > now + ahead {
            return Err(Duration::from_nanos(next - now - ahead));
        }
        match due.compare_exchange_weak(was, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(now_is) => was = now_is,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// How often attempts at one event may fail, for all events. An event shares its cell with few others, and nobody can tell with
/// which: at worst one of them is put off for a moment.
#[derive(Debug)]
pub struct FailurePaces {
    began: Instant,
    rate: Rate,
    cells: Box<[AtomicU64]>,
}

/// Enough that a thousand events that fail each second do not meet; 128 KiB.
const CELLS: usize = 1 << 14;

impl FailurePaces {
    pub fn new(rate: Rate) -> Self {
        let cells = std::iter::repeat_with(AtomicU64::default).take(CELLS).collect();
        Self { began: Instant::now(), rate, cells }
    }

    /// An attempt at the event failed.
    pub fn failed(&self, key: &EventKey) {
        // What is over the rate by now is told to whoever comes next.
        let _ = step(self.cell(key), self.rate, nanos(self.began.elapsed()));
    }

    /// How long the next attempt has to wait, if it has to.
    pub fn wait(&self, key: &EventKey) -> Option<Duration> {
        let due = AtomicU64::new(self.cell(key).load(Ordering::Relaxed));
        step(&due, self.rate, nanos(self.began.elapsed())).err()
    }

    fn cell(&self, key: &EventKey) -> &AtomicU64 {
        &self.cells[key.number() as usize % CELLS]
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn rate(count: u32, seconds: u64) -> Rate {
        Rate { count: NonZeroU32::new(count).unwrap(), per: Duration::from_secs(seconds) }
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_as_are_allowed_may_come_at_once_and_then_one_by_one() {
        let pace = Pace::new(rate(10, 5));
        assert_eq!((0..100).filter(|_| pace.take().is_ok()).count(), 10);
        assert_eq!(pace.take(), Err(Duration::from_millis(500)));
        tokio::time::advance(Duration::from_millis(499)).await;
        assert!(pace.take().is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((pace.take(), pace.take().is_err()), (Ok(()), true));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..100).filter(|_| pace.take().is_ok()).count(), 10, "what was not used is not saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_event_that_keeps_failing_is_put_off() {
        let paces = FailurePaces::new(rate(3, 1));
        let (failing, other) = (EventKey::stored("n:p:failing"), EventKey::stored("n:p:other"));
        for _ in 0..3 {
            assert_eq!(paces.wait(&failing), None);
            paces.failed(&failing);
        }
        assert!(paces.wait(&failing).is_some());
        assert_eq!(paces.wait(&other), None);
        tokio::time::advance(Duration::from_millis(334)).await;
        assert_eq!(paces.wait(&failing), None);
    }
}
