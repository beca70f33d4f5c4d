//! A real Prometheus that scrapes the real program, with the rules as they are shipped but for the patience of alerts.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::program::Program;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, stripe};
use crate::tools::{root, tool};

/// Another program may take the port that was free a moment ago.
const TRIES: usize = 5;

struct Prometheus {
    address: SocketAddr,
    program: Program,
    _directory: TempDir,
}

impl Prometheus {
    /// Scrapes `target` every second, and alerts fire after one.
    async fn watching(target: SocketAddr) -> Self {
        for _ in 0..TRIES {
            let started = Self::start(target);
            let is_ready = eventually("Prometheus is ready, or has no port", async || {
                let answer = Delivery::plain("GET", "/-/ready").try_send(started.address).await;
                let is_taken = started.program.err().contains("address already in use");
                if is_taken { Some(false) } else { answer.is_ok_and(|answer| answer.status == 200).then_some(true) }
            });
            if is_ready.await {
                return started;
            }
        }
        panic!("Prometheus found no port");
    }

    fn start(target: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rules = fs::read_to_string(root().join("prometheus/hookonce.rules.yaml")).unwrap();
        let is_patience = |line: &str| line.trim_start().starts_with("for: ");
        let hasty =
            rules.lines().map(|line| if is_patience(line) { "        for: 1s\n".to_owned() } else { format!("{line}\n") });
        fs::write(directory.path().join("rules.yaml"), hasty.collect::<String>()).unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yaml]\n\
             scrape_configs: [{{ job_name: hookonce, static_configs: [{{ targets: ['{target}'] }}] }}]\n"
        );
        fs::write(directory.path().join("prometheus.yaml"), config).unwrap();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let mut command = tool("prometheus");
        command
            .arg("--config.file=prometheus.yaml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"));
        let program = Program::start(command.current_dir(directory.path()));
        Self { address, program, _directory: directory }
    }

    /// The values of a query that takes no escaping.
    async fn values(&self, query: &str) -> Vec<f64> {
        let answer = Delivery::plain("GET", &format!("/api/v1/query?query={query}")).send(self.address).await;
        let found: Value = answer.json();
        let results = found.pointer("/data/result").and_then(Value::as_array).unwrap_or_else(|| panic!("{query}: {found}"));
        results.iter().map(|result| result["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Waits until a query has this one value, or none.
    async fn says(&self, query: &str, value: Option<f64>) {
        let is_there = async || {
            let values = self.values(query).await;
            let is_it = match (values.as_slice(), value) {
                ([], None) => true,
                ([found], Some(value)) => (found - value).abs() < 1e-6,
                _ => false,
            };
            is_it.then_some(())
        };
        eventually(&format!("{query} is {value:?}"), is_there).await;
    }
}

#[tokio::test]
async fn duplicates_are_seen_and_a_store_that_goes_is_told_of() {
    let consumer = Consumer::answering(200).await;
    let mut redis = RedisProcess::start();
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    let prometheus = Prometheus::watching(proxy.admin).await;
    prometheus.says("hookonce_dedup_misses_total{provider=%22stripe%22}", Some(0.0)).await;
    for _ in 0..4 {
        proxy.send(&stripe("evt_1")).await;
    }
    prometheus.says("job_provider:hookonce_dedup_hits:ratio_rate5m", Some(0.75)).await;
    prometheus.says("ALERTS", None).await;
    redis.kill();
    prometheus.says("ALERTS{alertname=%22HookonceStoreDown%22,alertstate=%22firing%22}", Some(1.0)).await;
    redis.restart();
    prometheus.says("ALERTS{alertname=%22HookonceStoreDown%22}", None).await;
    prometheus.says("ALERTS{alertname=%22HookonceStoreReset%22,alertstate=%22firing%22}", Some(1.0)).await;
}
