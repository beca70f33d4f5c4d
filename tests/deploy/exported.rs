//! What the program says of itself, and whether an expression asks for anything else.

use std::collections::{BTreeMap, BTreeSet};

use crate::promql::asked;
use crate::support::consumer::Consumer;
use crate::support::proxy::in_front_of;

/// The values of each label.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// What Prometheus itself has.
const OF_PROMETHEUS: [(&str, &[&str]); 2] = [("up", &[]), ("ALERTS", &["alertname", "alertstate", "severity", "provider"])];

/// Labels that Prometheus puts on whatever it scrapes.
const OF_TARGETS: [&str; 4] = ["job", "instance", "namespace", "pod"];

/// Labels whose values are the configuration's, not the program's.
const OF_CONFIGURATION: [&str; 2] = ["provider", "slot"];

/// Every metric there is, with its labels.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    metrics: BTreeMap<String, Labels>,
}

impl Exported {
    /// Of a program that has just been started: series exist from the start.
    pub async fn by_the_program() -> Self {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).start();
        let scraped = proxy.metrics().await;
        let mut exported = Self::default();
        exported.read(scraped.text());
        assert!(exported.metrics.len() > 40, "{:?}", exported.metrics.keys());
        for (name, labels) in OF_PROMETHEUS {
            exported.metrics.insert(name.to_owned(), labels.iter().map(|label| ((*label).to_owned(), BTreeSet::new())).collect());
        }
        exported
    }

    /// Takes in a scrape.
    fn read(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let known = self.metrics.entry(name.to_owned()).or_default();
            for (label, value) in labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('=')) {
                known.entry(label.to_owned()).or_default().insert(value.trim_matches('"').to_owned());
            }
        }
    }

    /// The program's own metrics, as families: without the parts of a histogram.
    pub fn families(&self) -> BTreeSet<&str> {
        let own = self.metrics.keys().filter(|name| name.starts_with("hookonce_"));
        own.map(|name| ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)).collect()
    }

    /// Takes in a recorded metric. Its labels are those that the first part of its name tells; their values, those of what it
    /// was made from.
    pub fn record(&mut self, name: &str, expr: &str) {
        self.check(name, expr);
        let (level, _) = name.split_once(':').unwrap_or_else(|| panic!("{name}: not level:metric:operations"));
        assert_eq!(name.split(':').count(), 3, "{name}: not level:metric:operations");
        let sources: Vec<Labels> = asked(expr).selectors.iter().map(|selector| self.metrics[&selector.metric].clone()).collect();
        let mut labels = Labels::new();
        for label in level.split('_').filter(|label| !OF_TARGETS.contains(label)) {
            let values: BTreeSet<String> = sources.iter().filter_map(|source| source.get(label)).flatten().cloned().collect();
            assert!(!values.is_empty(), "{name}: nothing it is made from has the label {label}");
            labels.insert(label.to_owned(), values);
        }
        self.metrics.insert(name.to_owned(), labels);
    }

    /// Fails where an expression asks for a metric, a label or a value of a label that nobody exports.
    pub fn check(&self, whose: &str, expr: &str) {
        let asked = asked(expr);
        assert!(!asked.selectors.is_empty(), "{whose} asks for nothing: {expr}");
        let mut groups: BTreeSet<&str> = OF_TARGETS.into();
        for selector in &asked.selectors {
            let metric = &selector.metric;
            let labels = self.metrics.get(metric).unwrap_or_else(|| panic!("{whose}: nobody exports {metric}"));
            groups.extend(labels.keys().map(String::as_str));
            for matcher in selector.matchers.iter().filter(|matcher| !OF_TARGETS.contains(&matcher.label.as_str())) {
                let label = &matcher.label;
                let values = labels.get(label).unwrap_or_else(|| panic!("{whose}: {metric} has no label {label}"));
                let is_open = OF_CONFIGURATION.contains(&label.as_str()) || metric == "ALERTS";
                for value in matcher.values.iter().filter(|_| !is_open) {
                    assert!(values.contains(value), "{whose}: {metric} has no {label}=\"{value}\", but {values:?}");
                }
            }
        }
        for label in &asked.grouped_by {
            assert!(groups.contains(label.as_str()), "{whose}: nothing in it has the label {label}");
        }
    }
}
