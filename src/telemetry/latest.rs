//! The deliveries that ended last, for whoever looks at the live page.
//!
//! What did not verify has a ring of its own: whoever forges deliveries can push out other forged ones, and nothing else.
//! Noting one is on every delivery's way: nothing is allocated, no clock is read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Closing, Facts};

const VERIFIED_MAX: usize = 200;
const UNVERIFIED_MAX: usize = 50;

/// A delivery that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub provider: Arc<str>,
    /// Only of a delivery that verified.
    pub event: Option<Arc<str>>,
    /// The secret that matched. `None`: it did not verify.
    pub slot: Option<usize>,
    pub closing: Closing,
    pub facts: Facts,
    pub at: Instant,
    pub total: Duration,
}

#[derive(Debug, Default)]
pub struct Latest {
    // A std mutex: held to swap one entry for another, or to copy what is new once a second; never across an await.
    rings: Mutex<Rings>,
}

/// Each entry with its place in the order of all.
type Ring = VecDeque<(u64, Ended)>;

#[derive(Debug, Default)]
struct Rings {
    /// How many there were.
    count: u64,
    verified: Ring,
    unverified: Ring,
}

/// What has ended since somebody looked last.
#[derive(Debug, Default)]
pub struct News {
    /// The oldest first, each with its number.
    pub ended: Vec<(u64, Ended)>,
    /// Up to which number this goes.
    pub up_to: u64,
    /// How many are not among them, because there were too many at once.
    pub skipped: u64,
}

impl Latest {
    pub fn note(&self, mut ended: Ended) {
        let is_verified = ended.slot.is_some();
        if !is_verified {
            ended.event = None;
        }
        let mut rings = self.rings();
        rings.count += 1;
        let number = rings.count;
        let (ring, max) = match is_verified {
            true => (&mut rings.verified, VERIFIED_MAX),
            false => (&mut rings.unverified, UNVERIFIED_MAX),
        };
        let oldest = if ring.len() == max { ring.pop_front() } else { None };
        ring.push_back((number, ended));
        drop(rings);
        // What it held is freed when nobody waits for the lock.
        drop(oldest);
    }

    /// What has ended after `number`; nought stands for everything that is still known.
    pub fn since(&self, number: u64) -> News {
        let rings = self.rings();
        let new = |ring: &Ring| ring.iter().rev().take_while(|(its, _)| *its > number).cloned().collect::<Vec<_>>();
        let (mut ended, up_to) = ([new(&rings.verified), new(&rings.unverified)].concat(), rings.count);
        drop(rings);
        ended.sort_unstable_by_key(|(its, _)| *its);
        let skipped = (up_to - number.min(up_to)).saturating_sub(ended.len() as u64);
        News { ended, up_to, skipped }
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::telemetry::Outcome;

    fn ended(event: &str, slot: Option<usize>) -> Ended {
        let closing = Closing { outcome: Outcome::Forwarded, status: StatusCode::OK, reason: "the consumer answered 200".into() };
        let event = Some(event.into());
        Ended {
            provider: "stripe".into(),
            event,
            slot,
            closing,
            facts: Facts::default(),
            at: Instant::now(),
            total: Duration::ZERO,
        }
    }

    fn events(news: &News) -> Vec<Option<&str>> {
        news.ended.iter().map(|(_, ended)| ended.event.as_deref()).collect()
    }

    #[test]
    fn a_flood_of_forged_deliveries_pushes_out_nothing_else() {
        let latest = Latest::default();
        latest.note(ended("evt_1", Some(0)));
        for _ in 0..10_000 {
            latest.note(ended("forged", None));
        }
        let all = latest.since(0);
        assert_eq!((all.ended.len(), all.up_to, all.skipped), (1 + UNVERIFIED_MAX, 10_001, 9_950));
        assert_eq!(events(&all)[0], Some("evt_1"));
        assert!(events(&all)[1..].iter().all(Option::is_none), "an id that nobody has signed is shown");
    }

    #[test]
    fn what_is_new_is_told_once_and_in_order() {
        let latest = Latest::default();
        (1..=3).for_each(|n| latest.note(ended(&format!("evt_{n}"), (n != 2).then_some(0))));
        let first = latest.since(0);
        assert_eq!(events(&first), [Some("evt_1"), None, Some("evt_3")]);
        assert_eq!((first.up_to, first.skipped), (3, 0));
        assert_eq!(latest.since(first.up_to).ended.len(), 0);
        (0..500).for_each(|n| latest.note(ended(&format!("more_{n}"), Some(0))));
        let second = latest.since(first.up_to);
        assert_eq!((second.ended.len(), second.skipped), (VERIFIED_MAX, 300));
        assert_eq!(events(&second).last(), Some(&Some("more_499")));
    }
}
