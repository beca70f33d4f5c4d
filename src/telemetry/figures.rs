//! What a provider's series stand at, and what their increase comes to: for the live page, which shows the last minutes.

use prometheus::Histogram;
use prometheus::core::Metric;

use super::outcome::{LetterOutcome, Outcome};
use super::{ProviderWatch, Telemetry};
use crate::scheme::Disproof;
use crate::store::Mark;
use crate::telemetry::StoreOp;

/// Everything that is counted of one provider, at one moment.
#[derive(Clone, Debug)]
pub struct Figures {
    pub outcomes: [u64; Outcome::ALL.len()],
    pub hits: u64,
    pub misses: u64,
    pub conflicts: u64,
    /// By slot: how often this secret matched.
    pub matches: Vec<u64>,
    pub marks: [u64; Mark::ALL.len()],
    pub disproofs: [u64; Disproof::ALL.len()],
    pub in_flight: i64,
    pub overhead: Buckets,
    pub upstream: Buckets,
    pub queue: QueueFigures,
}

#[derive(Clone, Debug)]
pub struct QueueFigures {
    pub events: i64,
    pub bytes: i64,
    pub oldest_seconds: i64,
    pub dead: i64,
    pub dead_bytes: i64,
    pub attempts: [u64; LetterOutcome::ALL.len()],
}

impl ProviderWatch {
    pub fn figures(&self) -> Figures {
        let metrics = &self.metrics;
        let queue = &metrics.queue;
        Figures {
            outcomes: std::array::from_fn(|nth| metrics.deliveries[nth].get()),
            hits: metrics.dedup_hits.get(),
            misses: metrics.dedup_misses.get(),
            conflicts: metrics.conflicts.get(),
            matches: metrics.secret_matches.iter().map(prometheus::IntCounter::get).collect(),
            marks: std::array::from_fn(|nth| metrics.maybe_duplicate[nth].get()),
            disproofs: std::array::from_fn(|nth| metrics.signature_failures[nth].get()),
            in_flight: metrics.claims_in_flight.get(),
            overhead: Buckets::of(&metrics.overhead_seconds),
            upstream: Buckets::of(&metrics.upstream_seconds),
            queue: QueueFigures {
                events: queue.events.get(),
                bytes: queue.bytes.get(),
                oldest_seconds: queue.oldest_seconds.get(),
                dead: queue.dead.get(),
                dead_bytes: queue.dead_bytes.get(),
                attempts: std::array::from_fn(|nth| queue.attempts[nth].get()),
            },
        }
    }
}

impl Telemetry {
    /// How long the store took to say whose an event is, whatever the mode.
    pub fn store_buckets(&self) -> Buckets {
        let of = |op| Buckets::of(self.metrics.store_seconds(op));
        of(StoreOp::Claim).and(&of(StoreOp::Append))
    }
}

/// A histogram at one moment: how many lay at or below each bound, and how many there were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    below: Vec<(f64, u64)>,
    count: u64,
}

/// A quantile, as well as buckets tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantile {
    /// In the first bucket: less than this.
    Below(f64),
    /// By interpolation in its bucket.
    About(f64),
    /// Beyond the last bound.
    Above(f64),
}

impl Buckets {
    fn of(histogram: &Histogram) -> Self {
        let metric = histogram.metric();
        let histogram = metric.get_histogram();
        let below = histogram.get_bucket().iter().map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
        // The last is for what is beyond all bounds, where the library keeps one for that.
        Self { below: below.filter(|(bound, _)| bound.is_finite()).collect(), count: histogram.get_sample_count() }
    }

    fn and(mut self, other: &Self) -> Self {
        self.below.iter_mut().zip(&other.below).for_each(|((_, count), (_, more))| *count += more);
        self.count += other.count;
        self
    }

    /// What has been added since `earlier`, which may be of no time at all.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |nth: usize| earlier.below.get(nth).map_or(0, |(_, count)| *count);
        let below = self.below.iter().enumerate().map(|(nth, (bound, count))| (*bound, count.saturating_sub(before(nth))));
        Self { below: below.collect(), count: self.count.saturating_sub(earlier.count) }
    }

    /// The value that a share `q` of all lies below. `None` where there are none.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        if self.count == 0 {
            return None;
        }
        let rank = q * self.count as f64;
        let Some(nth) = self.below.iter().position(|(_, count)| *count as f64 >= rank) else {
            return self.below.last().map(|(bound, _)| Quantile::Above(*bound));
        };
        let (bound, count) = self.below[nth];
        let Some((lower, before)) = nth.checked_sub(1).map(|before| self.below[before]) else {
            return Some(Quantile::Below(bound));
        };
        let share = (rank - before as f64) / (count - before).max(1) as f64;
        Some(Quantile::About(lower + (bound - lower) * share))
    }
}

#[cfg(test)]
mod tests {
    use prometheus::HistogramOpts;

    use super::*;

    fn histogram() -> Histogram {
        Histogram::with_opts(HistogramOpts::new("x", "x").buckets(vec![0.125, 0.25, 0.5])).unwrap()
    }

    #[test]
    fn quantiles_are_of_what_was_added_since() {
        let histogram = histogram();
        assert_eq!(Buckets::of(&histogram).quantile(0.5), None);
        (0..100).for_each(|_| histogram.observe(0.1));
        let before = Buckets::of(&histogram);
        assert_eq!(before.quantile(0.99), Some(Quantile::Below(0.125)));
        assert_eq!(before.since(&before).quantile(0.5), None);
        assert_eq!(before.since(&Buckets::default()), before);
        for value in [0.2, 0.2, 0.3, 9.0] {
            histogram.observe(value);
        }
        let added = Buckets::of(&histogram).since(&before);
        assert_eq!(added.quantile(0.25), Some(Quantile::About(0.1875)));
        assert_eq!(added.quantile(0.5), Some(Quantile::About(0.25)));
        assert_eq!(added.quantile(0.75), Some(Quantile::About(0.5)));
        assert_eq!(added.quantile(0.99), Some(Quantile::Above(0.5)));
    }
}
