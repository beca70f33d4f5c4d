//! The program as its users run it: its own process, to be killed or told to stop.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::NamedTempFile;

use super::proxy::Setup;
use super::{PATIENCE, eventually};

pub struct Instance {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    child: Child,
    log: Arc<Mutex<String>>,
    _config: NamedTempFile,
}

/// The program under test.
pub fn hookonce() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookonce"));
    command.env_remove("RUST_LOG");
    command
}

impl Instance {
    /// Starts `hookonce run` and waits until it says that it serves.
    pub async fn start(setup: &Setup) -> Self {
        let mut config = NamedTempFile::new().unwrap();
        write!(config, "{}\n[log]\nformat = \"json\"\n", setup.text()).unwrap();
        let mut child = hookonce().args(["run", "--config"]).arg(config.path()).stderr(Stdio::piped()).spawn().unwrap();
        let log = collect(child.stderr.take().unwrap());
        let serving = eventually("the program says that it serves", async || {
            let text = log.lock().unwrap().clone();
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .find(|line: &serde_json::Value| line["message"] == "serving")
        });
        let serving = serving.await;
        let address = |key: &str| serving[key].as_str().unwrap().parse().unwrap();
        Self { listen: address("listen"), admin: address("admin"), child, log, _config: config }
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// SIGKILL: nothing can be said or done any more.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for it to end by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let until = tokio::time::Instant::now() + PATIENCE * 3;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(tokio::time::Instant::now() < until, "the program did not end: {}", self.log());
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stderr: impl std::io::Read + Send + 'static) -> Arc<Mutex<String>> {
    let log: Arc<Mutex<String>> = Arc::default();
    let shared = Arc::clone(&log);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut log = shared.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
    });
    log
}
