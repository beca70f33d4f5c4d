//! `hookonce run` as its users run it: a process of its own, to be killed or told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus};

use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::net::TcpStream;

use super::eventually;
use super::metrics::Metrics;
use super::program::{Program, hookonce};
use super::proxy::Setup;
use super::sender::{Answer, Delivery};

pub struct Instance {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub program: Program,
    config: NamedTempFile,
}

impl Instance {
    /// Starts it and waits until it says that it serves.
    pub async fn start(setup: &Setup) -> Self {
        Self::configured(&setup.text()).await
    }

    pub async fn configured(text: &str) -> Self {
        Self::run(hookonce(), text).await
    }

    /// By a command that ends with the program's own name: with other variables, or under other limits.
    pub async fn start_as(command: Command, setup: &Setup) -> Self {
        Self::run(command, &setup.text()).await
    }

    async fn run(mut command: Command, text: &str) -> Self {
        let mut config = NamedTempFile::new().unwrap();
        config.write_all(with_log(text).as_bytes()).unwrap();
        let program = Program::start(command.args(["run", "--config"]).arg(config.path()));
        let (listen, admin) = serving(&program).await;
        Self { listen, admin, program, config }
    }

    /// Writes another configuration in place of its own, as editors and tools do: beside it, then over it.
    pub fn rewrite(&self, text: &str) {
        let beside = self.config.path().with_extension("new");
        std::fs::write(&beside, with_log(text)).unwrap();
        std::fs::rename(beside, self.config.path()).unwrap();
    }

    /// Where its configuration is.
    pub fn config(&self) -> &Path {
        self.config.path()
    }

    /// Waits until the configuration was read anew so often, with this result.
    pub async fn reloaded(&self, result: &str, times: f64) {
        eventually(&format!("{times} reloads: {result}"), async || {
            let count = self.metrics().await.value("hookonce_config_reloads_total", &[("result", result)]);
            (count == times).then_some(())
        })
        .await;
    }

    pub async fn send(&self, delivery: &Delivery) -> Answer {
        delivery.send(self.listen).await
    }

    pub async fn metrics(&self) -> Metrics {
        Metrics::of(self.admin).await
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        self.program.err()
    }

    /// Waits until its log has all of these words: it is written by a thread of its own, after what it tells of.
    pub async fn logged(&self, words: &[&str]) -> String {
        eventually(&format!("a log with {words:?}"), async || {
            let log = self.log();
            words.iter().all(|word| log.contains(word)).then_some(log)
        })
        .await
    }

    /// The lines of its log that were written for this part of the program.
    pub fn lines_of(&self, target: &str) -> Vec<Value> {
        lines(&self.log()).into_iter().filter(|line| line["target"] == target).collect()
    }

    /// Waits until the store has an event in this state.
    pub async fn in_state(&self, provider: &str, id: &str, state: &str) {
        let request = Delivery::plain("GET", &format!("/api/events/{provider}/{id}"));
        eventually(&format!("{provider} {id} is {state}"), async || {
            let answer = request.send(self.admin).await;
            (answer.status == 200 && answer.json()["state"] == state).then_some(())
        })
        .await;
    }

    /// Whether it calls itself ready.
    pub async fn is_ready(&self) -> bool {
        Delivery::plain("GET", "/readyz").send(self.admin).await.status == 200
    }

    /// Waits until it takes no more deliveries.
    pub async fn closed(&self) {
        eventually("a closed door", async || TcpStream::connect(self.listen).await.is_err().then_some(())).await;
    }

    pub fn kill(&mut self) {
        self.program.kill();
    }

    pub async fn ended(&mut self) -> ExitStatus {
        self.program.ended().await
    }

    /// Tells it to stop and waits for its end.
    pub async fn stop(&mut self) {
        self.program.signal("TERM");
        let status = self.ended().await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }
}

/// In JSON, unless a test wants it otherwise.
fn with_log(text: &str) -> String {
    let log = if text.contains("[log]") { "" } else { "[log]\nformat = \"json\"\n" };
    format!("{text}\n{log}")
}

/// Waits until the program says that it serves, and where: deliveries, admin side.
pub async fn serving(program: &Program) -> (SocketAddr, SocketAddr) {
    eventually("the program says that it serves", async || {
        let log = program.err();
        // How a command says that it cannot go on, and how it ends without wanting to.
        assert!(!log.contains("hookonce: ") && !log.contains("panicked at"), "{log}");
        let line = log.lines().find(|line| line.contains("serving") && line.contains("listen"))?;
        Some((field(line, "listen")?.parse().unwrap(), field(line, "admin")?.parse().unwrap()))
    })
    .await
}

/// A field of a line, in either format.
fn field(line: &str, key: &str) -> Option<String> {
    if let Ok(line) = serde_json::from_str::<Value>(line) {
        return line[key].as_str().map(str::to_owned);
    }
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
}

/// A log in JSON, line by line.
pub fn lines(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
