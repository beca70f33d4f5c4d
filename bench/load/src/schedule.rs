//! When a delivery is due, and which of them repeat an event. Both follow from its number alone: what a slow answer does to the
//! deliveries behind it changes nothing of when they should have been sent, and so counts as their latency.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub began: Instant,
    /// Deliveries a second.
    pub rate: u64,
}

impl Schedule {
    pub fn due(&self, number: u64) -> Instant {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.rate.max(1));
        self.began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Spreads the repeats evenly: of any hundred deliveries in a row, `percent` are repeats.
pub fn is_repeat(number: u64, percent: u64) -> bool {
    (number + 1) * percent / 100 > number * percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_due_at_even_distances_and_never_drift() {
        let schedule = Schedule { began: Instant::now(), rate: 3 };
        let after = |number| schedule.due(number) - schedule.began;
        assert_eq!(after(0), Duration::ZERO);
        assert_eq!(after(1), Duration::from_nanos(333_333_333));
        assert_eq!(after(3), Duration::from_secs(1));
        assert_eq!(after(3 * 86_400), Duration::from_secs(86_400));
    }

    #[test]
    fn repeats_are_as_many_as_asked_for_and_spread_out() {
        for percent in [0, 1, 5, 50, 99, 100] {
            for first in [0, 7, 1_000_000] {
                let repeats = (first..first + 100).filter(|number| is_repeat(*number, percent)).count();
                assert_eq!(repeats as u64, percent);
            }
        }
        assert_eq!((0..20).filter(|number| is_repeat(*number, 5)).count(), 1);
    }
}
