//! What the program says of itself.

use std::net::SocketAddr;

use super::sender::Delivery;

/// One scrape.
#[derive(Clone, Debug)]
pub struct Metrics(String);

impl Metrics {
    pub async fn of(admin: SocketAddr) -> Self {
        let answer = Delivery::plain("GET", "/metrics").send(admin).await;
        assert_eq!(answer.status, 200);
        Self(String::from_utf8(answer.body.to_vec()).unwrap())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value of the series with this name and, among others, these labels. Fails where there is not exactly one.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let is_it = |line: &&str| {
            let series = line.rsplit_once(' ').map_or("", |(series, _)| series);
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            found == name && labels.iter().all(|(key, value)| rest.contains(&format!("{key}=\"{value}\"")))
        };
        let found: Vec<&str> = self.0.lines().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        found[0].rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    /// Deliveries of a provider with this outcome.
    pub fn outcome(&self, provider: &str, outcome: &str) -> f64 {
        self.value("hookonce_deliveries_total", &[("provider", provider), ("outcome", outcome)])
    }

    pub fn marked(&self, provider: &str, reason: &str) -> f64 {
        self.value("hookonce_maybe_duplicate_total", &[("provider", provider), ("reason", reason)])
    }
}
