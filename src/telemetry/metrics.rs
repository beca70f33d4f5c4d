//! Every metric there is. Labels come from the configuration and from closed lists, never from a request;
//! the series of configured providers exist from the start.

use prometheus::{
    Encoder, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::outcome::{Amends, LetterOutcome, Limit, Outcome, StoreOp};
use crate::config::Provider;
use crate::scheme::Disproof;
use crate::store::{Mark, StoreErrorKind};

/// From 50 us: what hookonce itself adds to a delivery is well below a millisecond.
const OVERHEAD_BUCKETS: [f64; 11] = [0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0];
/// A store on the same network answers in well under a millisecond; a second is the default budget.
const STORE_BUCKETS: [f64; 11] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];
/// Up to `upstream_timeout`, five minutes by default.
const UPSTREAM_BUCKETS: [f64; 13] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];
/// From overlapping copies to manual redelivery a month later.
const AGE_BUCKETS: [f64; 10] = [1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0, 2_592_000.0];
const ATTEMPT_BUCKETS: [f64; 7] = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0];

/// The registry and the families in it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    deliveries: IntCounterVec,
    dedup_hits: IntCounterVec,
    dedup_misses: IntCounterVec,
    signature_failures: IntCounterVec,
    secret_matches: IntCounterVec,
    maybe_duplicate: IntCounterVec,
    conflicts: IntCounterVec,
    failed_attempts: HistogramVec,
    repeated_failures: IntCounterVec,
    claims_in_flight: IntGaugeVec,
    bypass_active: IntGaugeVec,
    retention_seconds: IntGaugeVec,
    upstream_seconds: HistogramVec,
    overhead_seconds: HistogramVec,
    duplicate_age: HistogramVec,
    queue: QueueFamilies,
    store_seconds: Vec<Histogram>,
    store_errors: Vec<Vec<IntCounter>>,
    limited: [IntCounter; Limit::ALL.len()],
    pub reloads: ReloadMetrics,
    pub spans: SpanMetrics,
    /// Those that gave keys, and those that did not.
    pub key_fetches: [IntCounter; 2],
    pub unrouted: IntCounter,
    pub store_up: IntGauge,
    pub store_evicted_keys: IntCounter,
    pub store_breaker_open: IntGauge,
    pub store_resets: IntCounter,
    pub clock_skew: Gauge,
    pub tls_expiry: IntGauge,
    written_back: [IntCounter; Amends::ALL.len()],
}

/// The series of one provider, looked up once.
#[derive(Debug)]
pub struct ProviderMetrics {
    pub deliveries: Vec<IntCounter>,
    pub dedup_hits: IntCounter,
    pub dedup_misses: IntCounter,
    pub signature_failures: Vec<IntCounter>,
    pub secret_matches: Vec<IntCounter>,
    pub maybe_duplicate: Vec<IntCounter>,
    pub conflicts: IntCounter,
    pub failed_attempts: Histogram,
    pub repeated_failures: IntCounter,
    pub claims_in_flight: IntGauge,
    pub bypass_active: IntGauge,
    pub retention_seconds: IntGauge,
    pub upstream_seconds: Histogram,
    pub overhead_seconds: Histogram,
    pub duplicate_age: Histogram,
    pub queue: QueueMetrics,
}

/// What is watched of queues.
#[derive(Debug)]
struct QueueFamilies {
    events: IntGaugeVec,
    bytes: IntGaugeVec,
    oldest_seconds: IntGaugeVec,
    attempts: IntCounterVec,
    dead: IntGaugeVec,
    dead_bytes: IntGaugeVec,
}

/// The queue of one provider.
#[derive(Debug)]
pub struct QueueMetrics {
    pub events: IntGauge,
    pub bytes: IntGauge,
    pub oldest_seconds: IntGauge,
    pub attempts: Vec<IntCounter>,
    pub dead: IntGauge,
    pub dead_bytes: IntGauge,
}

/// What became of the spans that were made.
#[derive(Clone, Debug)]
pub struct SpanMetrics {
    pub exported: IntCounter,
    /// There were more than the collector took.
    pub dropped: IntCounter,
    /// The collector did not take them.
    pub failed: IntCounter,
}

impl SpanMetrics {
    fn new(families: &Families<'_>) -> Result<Self, prometheus::Error> {
        let help = "Spans made, by what became of them.";
        let [exported, dropped, failed] = families.each("spans_total", help, "result", ["exported", "dropped", "failed"])?;
        Ok(Self { exported, dropped, failed })
    }
}

/// The configuration, read anew while the program runs.
#[derive(Debug)]
pub struct ReloadMetrics {
    /// Those that were taken, and those that were refused.
    pub results: [IntCounter; 2],
    pub stale: IntGauge,
}

impl ReloadMetrics {
    /// How often another configuration has been taken up.
    pub fn taken(&self) -> u64 {
        self.results[0].get()
    }

    fn new(families: &Families<'_>) -> Result<Self, prometheus::Error> {
        let help = "Whether the configuration that was read last was refused, so that the one before goes on.";
        Ok(Self {
            results: families.results("config_reloads_total", "Times the configuration was read anew while running.")?,
            stale: families.gauge("config_stale", help)?,
        })
    }
}

impl QueueFamilies {
    fn new(families: &Families<'_>) -> Result<Self, prometheus::Error> {
        let help = "Attempts to deliver an event from the queue, by how they ended.";
        Ok(Self {
            events: families.gauges("queue_events", "Events in the queue, without dead letters.", &["provider"])?,
            bytes: families.gauges("queue_bytes", "Bytes of the events in the queue.", &["provider"])?,
            oldest_seconds: families.gauges("queue_oldest_seconds", "Age of the oldest event in the queue.", &["provider"])?,
            attempts: families.counters("queue_attempts_total", help, &["provider", "result"])?,
            dead: families.gauges("dead_letters", "Events that wait for somebody to act.", &["provider"])?,
            dead_bytes: families.gauges("dead_letter_bytes", "Bytes of dead letters.", &["provider"])?,
        })
    }

    fn provider(&self, name: &str) -> QueueMetrics {
        let of = |family: &IntGaugeVec| family.with_label_values(&[name]);
        let attempts = LetterOutcome::ALL.iter().map(|result| self.attempts.with_label_values(&[name, result.as_str()]));
        QueueMetrics {
            events: of(&self.events),
            bytes: of(&self.bytes),
            oldest_seconds: of(&self.oldest_seconds),
            attempts: attempts.collect(),
            dead: of(&self.dead),
            dead_bytes: of(&self.dead_bytes),
        }
    }
}

impl Metrics {
    #[expect(clippy::too_many_lines, reason = "a table: an entry a metric")]
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let families = Families(&registry);
        let store_seconds =
            families.histograms("store_seconds", "Time a store operation took, retries included.", &["op"], &STORE_BUCKETS)?;
        let store_errors = families.counters("store_errors_total", "Store operations that failed for good.", &["op", "kind"])?;
        families.build()?;
        families.process()?;
        Ok(Self {
            deliveries: families.counters(
                "deliveries_total",
                "Deliveries by how they were answered.",
                &["provider", "outcome"],
            )?,
            dedup_hits: families.counters(
                "dedup_hits_total",
                "Deliveries answered as duplicates, or after waiting for a success.",
                &["provider"],
            )?,
            dedup_misses: families.counters("dedup_misses_total", "Events claimed for the first time.", &["provider"])?,
            signature_failures: families.counters(
                "signature_failures_total",
                "Deliveries that did not verify.",
                &["provider", "reason"],
            )?,
            secret_matches: families.counters(
                "secret_matches_total",
                "Deliveries verified, by the secret that matched.",
                &["provider", "slot"],
            )?,
            maybe_duplicate: families.counters(
                "maybe_duplicate_total",
                "Forwards that may be a second one, by reason.",
                &["provider", "reason"],
            )?,
            conflicts: families.counters("conflicts_total", "Deliveries with a known id and another body.", &["provider"])?,
            failed_attempts: families.histograms(
                "failed_attempts",
                "Which attempt at an event succeeded.",
                &["provider"],
                &ATTEMPT_BUCKETS,
            )?,
            repeated_failures: families.counters(
                "repeated_failures_total",
                "Attempts that failed at an event that had failed twice or more before.",
                &["provider"],
            )?,
            claims_in_flight: families.gauges("claims_in_flight", "Claims held by this process.", &["provider"])?,
            bypass_active: families.gauges("bypass_active", "Whether done events are forwarded again.", &["provider"])?,
            retention_seconds: families.gauges("retention_seconds", "How long a done event is remembered.", &["provider"])?,
            upstream_seconds: families.histograms(
                "upstream_seconds",
                "Time to the head of the consumer's answer.",
                &["provider"],
                &UPSTREAM_BUCKETS,
            )?,
            overhead_seconds: families.histograms(
                "overhead_seconds",
                "Time spent in hookonce itself: without body, store, consumer and waiting.",
                &["provider"],
                &OVERHEAD_BUCKETS,
            )?,
            duplicate_age: families.histograms(
                "duplicate_age_seconds",
                "Time between an event's completion and a duplicate.",
                &["provider"],
                &AGE_BUCKETS,
            )?,
            queue: QueueFamilies::new(&families)?,
            unrouted: families.counter("unrouted_total", "Requests that no provider and no passthrough takes.")?,
            store_up: families.gauge("store_up", "Whether the store answers.")?,
            store_evicted_keys: families
                .counter("store_evicted_keys_total", "Keys the store has thrown away for lack of memory.")?,
            store_breaker_open: families.gauge("store_breaker_open", "Whether deliveries no longer wait for the store.")?,
            store_resets: families.counter("store_resets_total", "Times the store was found to have lost data.")?,
            clock_skew: families.float("clock_skew_seconds", "By how much the store's clock is ahead of this one.")?,
            tls_expiry: families.gauge(
                "tls_expiry_timestamp_seconds",
                "When the certificate of the listening side ends; 0 where there is none.",
            )?,
            written_back: families.each(
                "written_back_total",
                "Events handled while the store was down, by what came of telling it afterwards.",
                "result",
                Amends::ALL.map(Amends::as_str),
            )?,
            store_seconds: StoreOp::ALL.iter().map(|op| store_seconds.with_label_values(&[op.as_str()])).collect(),
            store_errors: StoreOp::ALL.iter().map(|op| errors_of(&store_errors, *op)).collect(),
            key_fetches: families.results("key_fetches_total", "Times a provider's published keys were asked for.")?,
            reloads: ReloadMetrics::new(&families)?,
            spans: SpanMetrics::new(&families)?,
            limited: families.each(
                "limited_total",
                "Requests and connections refused because a limit was reached.",
                "limit",
                Limit::ALL.map(Limit::as_str),
            )?,
            registry,
        })
    }

    /// The series of a provider with `slots` secrets.
    pub fn provider(&self, name: &str, slots: usize) -> ProviderMetrics {
        let of = |family: &IntCounterVec, words: &[&str]| -> Vec<IntCounter> {
            words.iter().map(|word| family.with_label_values(&[name, word])).collect()
        };
        let slots: Vec<String> = (0..slots).map(|slot| slot.to_string()).collect();
        ProviderMetrics {
            deliveries: of(&self.deliveries, &Outcome::ALL.map(Outcome::as_str)),
            dedup_hits: self.dedup_hits.with_label_values(&[name]),
            dedup_misses: self.dedup_misses.with_label_values(&[name]),
            signature_failures: of(
                &self.signature_failures,
                &Disproof::ALL.iter().map(|reason| reason.code()).collect::<Vec<_>>(),
            ),
            secret_matches: of(&self.secret_matches, &slots.iter().map(String::as_str).collect::<Vec<_>>()),
            maybe_duplicate: of(&self.maybe_duplicate, &Mark::ALL.iter().map(|mark| mark.as_str()).collect::<Vec<_>>()),
            conflicts: self.conflicts.with_label_values(&[name]),
            failed_attempts: self.failed_attempts.with_label_values(&[name]),
            repeated_failures: self.repeated_failures.with_label_values(&[name]),
            claims_in_flight: self.claims_in_flight.with_label_values(&[name]),
            bypass_active: self.bypass_active.with_label_values(&[name]),
            retention_seconds: self.retention_seconds.with_label_values(&[name]),
            upstream_seconds: self.upstream_seconds.with_label_values(&[name]),
            overhead_seconds: self.overhead_seconds.with_label_values(&[name]),
            duplicate_age: self.duplicate_age.with_label_values(&[name]),
            queue: self.queue.provider(name),
        }
    }

    /// Takes away the series of a provider that is no longer configured, or those of secrets that it no longer has. Frozen where
    /// they were, they would wake somebody. That one was never there is no fault.
    pub fn retire(&self, provider: &Provider, next: Option<&Provider>) {
        let name = provider.name.as_str();
        for slot in next.map_or(0, |next| next.keys.len())..provider.keys.len() {
            let _ = self.secret_matches.remove_label_values(&[name, &slot.to_string()]);
        }
        if next.is_some() {
            return;
        }
        let of = |family: &IntCounterVec, words: &[&str]| {
            words.iter().for_each(|word| drop(family.remove_label_values(&[name, word])));
        };
        of(&self.deliveries, &Outcome::ALL.map(Outcome::as_str));
        of(&self.signature_failures, &Disproof::ALL.iter().map(|reason| reason.code()).collect::<Vec<_>>());
        of(&self.maybe_duplicate, &Mark::ALL.iter().map(|mark| mark.as_str()).collect::<Vec<_>>());
        of(&self.queue.attempts, &LetterOutcome::ALL.map(LetterOutcome::as_str));
        for family in [&self.dedup_hits, &self.dedup_misses, &self.conflicts, &self.repeated_failures] {
            let _ = family.remove_label_values(&[name]);
        }
        for family in [&self.failed_attempts, &self.upstream_seconds, &self.overhead_seconds, &self.duplicate_age] {
            let _ = family.remove_label_values(&[name]);
        }
        let QueueFamilies { events, bytes, oldest_seconds, dead, dead_bytes, .. } = &self.queue;
        let gauges = [&self.claims_in_flight, &self.bypass_active, &self.retention_seconds];
        for family in gauges.into_iter().chain([events, bytes, oldest_seconds, dead, dead_bytes]) {
            let _ = family.remove_label_values(&[name]);
        }
    }

    pub fn store_seconds(&self, op: StoreOp) -> &Histogram {
        &self.store_seconds[op as usize]
    }

    pub fn store_error(&self, op: StoreOp, kind: StoreErrorKind) -> &IntCounter {
        &self.store_errors[op as usize][kind as usize]
    }

    pub fn written_back(&self, result: Amends) -> &IntCounter {
        &self.written_back[result as usize]
    }

    pub fn limited(&self, limit: Limit) -> &IntCounter {
        &self.limited[limit as usize]
    }

    /// The text that Prometheus scrapes.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::with_capacity(16 * 1024);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

fn errors_of(family: &IntCounterVec, op: StoreOp) -> Vec<IntCounter> {
    StoreErrorKind::ALL.iter().map(|kind| family.with_label_values(&[op.as_str(), kind.as_str()])).collect()
}

/// Makes a family and registers it.
struct Families<'a>(&'a Registry);

impl Families<'_> {
    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
        let family = IntCounterVec::new(opts(name, help), labels)?;
        self.0.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// A counter for each word of a closed list.
    fn each<const N: usize>(
        &self,
        name: &str,
        help: &str,
        label: &str,
        words: [&str; N],
    ) -> Result<[IntCounter; N], prometheus::Error> {
        let family = self.counters(name, help, &[label])?;
        Ok(words.map(|word| family.with_label_values(&[word])))
    }

    /// A counter of what went well, and one of what did not.
    fn results(&self, name: &str, help: &str) -> Result<[IntCounter; 2], prometheus::Error> {
        self.each(name, help, "result", ["ok", "failed"])
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
        let family = IntGaugeVec::new(opts(name, help), labels)?;
        self.0.register(Box::new(family.clone()))?;
        Ok(family)
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts { common_opts: opts(name, help), buckets: buckets.to_vec() };
        let family = HistogramVec::new(options, labels)?;
        self.0.register(Box::new(family.clone()))?;
        Ok(family)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        let gauge = IntGauge::with_opts(opts(name, help))?;
        self.0.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    }

    fn float(&self, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
        let gauge = Gauge::with_opts(opts(name, help))?;
        self.0.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        let counter = IntCounter::with_opts(opts(name, help))?;
        self.0.register(Box::new(counter.clone()))?;
        Ok(counter)
    }

    fn build(&self) -> Result<(), prometheus::Error> {
        let build = self.gauges("build_info", "The running version.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(())
    }

    /// Memory, CPU and open files of the process, under their usual names.
    fn process(&self) -> Result<(), prometheus::Error> {
        self.0.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(format!("hookonce_{name}"), help)
}
