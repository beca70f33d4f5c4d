//! What came of a run: how many answers, how many of them wrong, and how long they took.

use std::time::Duration;

#[derive(Default)]
pub struct Figures {
    /// Deliveries that were sent before any was counted: the server has worked for them too.
    pub before: u64,
    /// From when each was due to the end of its answer.
    pub latencies: Vec<Duration>,
    /// From when each was due to when it was sent: what of the latency is the load's own fault, or that of too few connections.
    pub delays: Vec<Duration>,
    /// Answers with another status than the right one.
    pub wrong: u64,
    /// Deliveries without an answer.
    pub errors: u64,
}

impl Figures {
    /// As JSON, times in microseconds.
    pub fn json(mut self, took: Duration) -> String {
        self.latencies.sort_unstable();
        self.delays.sort_unstable();
        let count = self.latencies.len();
        let rate = count as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let of = |share: f64| micros(percentile(&self.latencies, share));
        format!(
            "{{\"before\": {}, \"count\": {count}, \"errors\": {}, \"wrong\": {}, \"seconds\": {:.3}, \"rate\": {rate:.1}, \"p50\": {:.1}, \"p90\": {:.1}, \
             \"p99\": {:.1}, \"p99.9\": {:.1}, \"max\": {:.1}, \"sent_late_p99\": {:.1}}}",
            self.before,
            self.errors,
            self.wrong,
            took.as_secs_f64(),
            of(0.5),
            of(0.9),
            of(0.99),
            of(0.999),
            of(1.0),
            micros(percentile(&self.delays, 0.99)),
        )
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The smallest of them that at least this share does not exceed. They must be sorted.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(numbers: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        numbers.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let hundred = millis(1..=100);
        assert_eq!(percentile(&hundred, 0.5), Duration::from_millis(50));
        assert_eq!(percentile(&hundred, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&hundred, 0.999), Duration::from_millis(100));
        assert_eq!(percentile(&hundred, 1.0), Duration::from_millis(100));
    }

    #[test]
    fn percentiles_of_few_do_not_leave_their_bounds() {
        assert_eq!(percentile(&[], 0.99), Duration::ZERO);
        assert_eq!(percentile(&millis([7]), 0.0), Duration::from_millis(7));
        assert_eq!(percentile(&millis([7]), 0.99), Duration::from_millis(7));
        assert_eq!(percentile(&millis([1, 9]), 0.51), Duration::from_millis(9));
    }

    #[test]
    fn figures_are_sorted_before_they_are_told() {
        let figures = Figures { latencies: millis([3, 1, 2]), wrong: 4, errors: 5, ..Figures::default() };
        let json = figures.json(Duration::from_secs(2));
        for part in ["\"count\": 3", "\"errors\": 5", "\"wrong\": 4", "\"rate\": 1.5", "\"p50\": 2000.0", "\"max\": 3000.0"] {
            assert!(json.contains(part), "{part} is not in {json}");
        }
    }
}
