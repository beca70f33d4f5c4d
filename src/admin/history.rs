//! The last five minutes of every provider, from the program's own counters: a page that is opened shows them at once.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::telemetry::figures::{Buckets, Figures};
use crate::telemetry::outcome::words;
use crate::telemetry::{Outcome, ProviderWatch};

/// Deliveries are added up in bars of this length.
pub const BAR: Duration = Duration::from_secs(5);
pub const BARS: u64 = 60;
/// A rate is over ten seconds, so that it does not flicker; latencies are over a minute.
const RATE_BARS: u64 = 2;
const LATENCY_BARS: u64 = 12;

words!(
    /// Outcomes, as coarsely as a small chart can tell them apart.
    Kind {
        Forwarded = "forwarded",
        Duplicate = "duplicate",
        Queued = "queued",
        Failed = "failed",
        Refused = "refused",
    }
);

impl Kind {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Forwarded | Outcome::Handshake | Outcome::NoId | Outcome::Conflict => Self::Forwarded,
            Outcome::Duplicate | Outcome::Waited => Self::Duplicate,
            Outcome::Queued => Self::Queued,
            Outcome::Failed | Outcome::Ambiguous | Outcome::InFlight | Outcome::StoreDown | Outcome::Abandoned => Self::Failed,
            Outcome::Rejected | Outcome::Limited => Self::Refused,
        }
    }
}

/// Deliveries by kind.
pub type Counts = [u64; Kind::ALL.len()];

/// How something stood when each of the last bars began, the oldest first.
#[derive(Debug)]
struct Trail<T> {
    stands: VecDeque<(u64, T)>,
    bars: u64,
}

impl<T> Trail<T> {
    /// That covers so many bars, the current one included.
    fn of(bars: u64) -> Self {
        Self { stands: VecDeque::new(), bars }
    }

    fn note(&mut self, bar: u64, stand: impl FnOnce() -> T) {
        if self.stands.back().is_none_or(|(last, _)| *last != bar) {
            self.stands.push_back((bar, stand()));
        }
        while self.stands.front().is_some_and(|(first, _)| first + self.bars <= bar) {
            self.stands.pop_front();
        }
    }

    /// The oldest that lies at most so many bars back.
    fn back(&self, bars: u64) -> Option<&T> {
        let first = self.stands.back()?.0.saturating_sub(bars);
        self.stands.iter().find(|(bar, _)| *bar >= first).map(|(_, stand)| stand)
    }
}

/// What is remembered of all providers, and of the store.
#[derive(Debug)]
pub struct History {
    began: Instant,
    bar: u64,
    providers: HashMap<Arc<str>, Past>,
    store: Trail<Buckets>,
    store_now: Buckets,
}

impl History {
    pub fn new(began: Instant) -> Self {
        let store = Trail::of(LATENCY_BARS + 1);
        Self { began, bar: 0, providers: HashMap::new(), store, store_now: Buckets::default() }
    }

    /// The number of the current bar.
    pub fn bar(&self) -> u64 {
        self.bar
    }

    pub fn of(&self, provider: &str) -> Option<&Past> {
        self.providers.get(provider)
    }

    /// The store's own times, over the last minute.
    pub fn store(&self) -> Buckets {
        self.store.back(LATENCY_BARS).map_or_else(Buckets::default, |earlier| self.store_now.since(earlier))
    }

    /// Looks at the counters. Providers that are no longer watched are forgotten.
    pub fn note<'a>(&mut self, watches: impl Iterator<Item = &'a Arc<ProviderWatch>>, store: Buckets, now: Moment) {
        self.bar = now.at.duration_since(self.began).as_secs() / BAR.as_secs();
        self.store.note(self.bar, || store.clone());
        self.store_now = store;
        let mut watched = BTreeSet::new();
        for watch in watches {
            watched.insert(Arc::clone(&watch.name));
            let figures = watch.figures();
            let past = self.providers.entry(Arc::clone(&watch.name)).or_insert_with(|| Past::new(figures.clone(), now));
            past.note(figures, self.bar, now);
        }
        self.providers.retain(|name, _| watched.contains(name));
    }
}

/// One moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at: Instant,
    pub wall: SystemTime,
}

/// What is remembered of one provider.
#[derive(Debug)]
pub struct Past {
    stands: Trail<Stand>,
    /// Hookonce's own time and the consumer's.
    times: Trail<(Buckets, Buckets)>,
    pub now: Figures,
    at: Instant,
    /// By slot: when its secret was last seen to match.
    pub matched: Vec<Option<SystemTime>>,
}

#[derive(Clone, Copy, Debug)]
struct Stand {
    at: Instant,
    counts: Counts,
    hits: u64,
    misses: u64,
}

impl Stand {
    fn nought(at: Instant) -> Self {
        Self { at, counts: Counts::default(), hits: 0, misses: 0 }
    }

    fn of(figures: &Figures, at: Instant) -> Self {
        let mut counts = Counts::default();
        for outcome in Outcome::ALL {
            counts[Kind::of(outcome) as usize] += figures.outcomes[outcome as usize];
        }
        Self { at, counts, hits: figures.hits, misses: figures.misses }
    }

    /// What has been added since `earlier`.
    fn since(&self, earlier: &Self) -> Added {
        Added {
            counts: std::array::from_fn(|nth| self.counts[nth].saturating_sub(earlier.counts[nth])),
            hits: self.hits.saturating_sub(earlier.hits),
            misses: self.misses.saturating_sub(earlier.misses),
        }
    }
}

/// What has been added in some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added {
    pub counts: Counts,
    pub hits: u64,
    pub misses: u64,
}

impl Past {
    fn new(now: Figures, moment: Moment) -> Self {
        let matched = now.matches.iter().map(|count| (*count > 0).then_some(moment.wall)).collect();
        Self { stands: Trail::of(BARS), times: Trail::of(LATENCY_BARS + 1), now, at: moment.at, matched }
    }

    fn note(&mut self, figures: Figures, bar: u64, now: Moment) {
        self.matched.resize(figures.matches.len(), None);
        for ((last, before), after) in self.matched.iter_mut().zip(&self.now.matches).zip(&figures.matches) {
            if after > before {
                *last = Some(now.wall);
            }
        }
        // In the first bar of all, everything has come since the start.
        let is_first = bar == 0;
        let times = || (figures.overhead.clone(), figures.upstream.clone());
        self.stands.note(bar, || if is_first { Stand::nought(now.at) } else { Stand::of(&figures, now.at) });
        self.times.note(bar, || if is_first { Default::default() } else { times() });
        (self.now, self.at) = (figures, now.at);
    }

    fn current(&self) -> Stand {
        Stand::of(&self.now, self.at)
    }

    /// Bars from this number on in which there was something: number and counts.
    pub fn bars(&self, from: u64) -> Vec<(u64, Counts)> {
        let stands = &self.stands.stands;
        let ends = stands.iter().skip(1).map(|(_, stand)| *stand).chain([self.current()]);
        let bars = stands.iter().zip(ends).map(|((bar, begin), end)| (*bar, end.since(begin).counts));
        bars.filter(|(bar, counts)| *bar >= from && counts.iter().any(|count| *count > 0)).collect()
    }

    /// Deliveries a second.
    pub fn rate(&self) -> f64 {
        let Some(earlier) = self.stands.back(RATE_BARS) else { return 0.0 };
        let time = self.at.duration_since(earlier.at).as_secs_f64();
        let count: u64 = self.current().since(earlier).counts.iter().sum();
        if time < 1.0 { 0.0 } else { count as f64 / time }
    }

    /// Of the time that is remembered.
    pub fn window(&self) -> Added {
        self.stands.back(BARS).map(|first| self.current().since(first)).unwrap_or_default()
    }

    /// Hookonce's own time and the consumer's, over the last minute.
    pub fn latencies(&self) -> (Buckets, Buckets) {
        let since =
            |(overhead, upstream): &(Buckets, Buckets)| (self.now.overhead.since(overhead), self.now.upstream.since(upstream));
        self.times.back(LATENCY_BARS).map(since).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::config::{Config, Environment};
    use crate::telemetry::{Closing, Record, Telemetry};

    struct Scene {
        watch: Arc<ProviderWatch>,
        history: History,
        began: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let text =
                "upstream = 'http://c:1'\n[providers.stripe]\npath = '/'\nsecrets = ['0123456789abcdef', 'fedcba9876543210']";
            let config = Config::from_text(text, &Environment::default()).unwrap().config;
            let (telemetry, began) = (Telemetry::new().unwrap(), Instant::now());
            Self { watch: Arc::new(telemetry.watch(&config.providers[0])), history: History::new(began), began }
        }

        fn end(&self, outcome: Outcome, count: usize) {
            for _ in 0..count {
                let mut record = Record::open();
                record.provider(&self.watch);
                record.close(Closing { outcome, status: http::StatusCode::OK, reason: "".into() });
            }
        }

        fn at(&mut self, second: u64) -> &Past {
            let time = Duration::from_secs(second);
            let now = Moment { at: self.began + time, wall: UNIX_EPOCH + time };
            self.history.note([&self.watch].into_iter(), Buckets::default(), now);
            self.history.of("stripe").unwrap()
        }
    }

    #[test]
    fn deliveries_are_counted_in_the_bar_in_which_they_came() {
        let mut scene = Scene::new();
        scene.end(Outcome::Forwarded, 1);
        assert_eq!(scene.at(0).bars(0), [(0, [1, 0, 0, 0, 0])]);
        scene.end(Outcome::Forwarded, 2);
        scene.end(Outcome::Waited, 1);
        assert_eq!(scene.at(1).bars(0), [(0, [3, 1, 0, 0, 0])]);
        scene.end(Outcome::Rejected, 2);
        scene.end(Outcome::Ambiguous, 1);
        assert_eq!(scene.at(5).bars(0), [(0, [3, 1, 0, 1, 2])]);
        scene.end(Outcome::Queued, 4);
        assert_eq!(scene.at(6).bars(0), [(0, [3, 1, 0, 1, 2]), (1, [0, 0, 4, 0, 0])]);
        assert_eq!(scene.at(11).bars(1), [(1, [0, 0, 4, 0, 0])]);
        assert_eq!(scene.at(299).window().counts, [3, 1, 4, 1, 2]);
        assert_eq!(scene.at(300).window().counts, [0, 0, 4, 0, 0]);
        assert_eq!(scene.at(10_000).bars(0).len(), 0);
        assert_eq!(scene.history.of("stripe").unwrap().stands.stands.len(), 1);
    }

    #[test]
    fn a_rate_is_over_ten_seconds_and_dies_down() {
        let mut scene = Scene::new();
        assert_eq!(scene.at(0).rate(), 0.0);
        (1..=20).for_each(|second| {
            scene.end(Outcome::Forwarded, 7);
            scene.at(second);
        });
        assert_eq!(scene.at(20).rate(), 7.0);
        (21..35).for_each(|second| assert!(scene.at(second).rate() <= 7.0));
        assert_eq!(scene.at(35).rate(), 0.0);
    }

    #[test]
    fn it_is_known_when_a_secret_matched_last() {
        let mut scene = Scene::new();
        assert_eq!(scene.at(0).matched, [None, None]);
        scene.watch.verified_with(1);
        let at = |second| Some(UNIX_EPOCH + Duration::from_secs(second));
        assert_eq!(scene.at(7).matched, [None, at(7)]);
        scene.watch.verified_with(0);
        assert_eq!(scene.at(9).matched, [at(9), at(7)]);
    }

    #[test]
    fn memory_is_bounded_and_who_is_gone_is_forgotten() {
        let mut scene = Scene::new();
        for second in 0..2_000 {
            assert!(scene.at(second).stands.stands.len() <= BARS as usize);
            assert!(scene.history.store.stands.len() <= LATENCY_BARS as usize + 1);
        }
        let now = Moment { at: scene.began + Duration::from_secs(2_000), wall: UNIX_EPOCH };
        scene.history.note(std::iter::empty(), Buckets::default(), now);
        assert!(scene.history.of("stripe").is_none());
    }
}
