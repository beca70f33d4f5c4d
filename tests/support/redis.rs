//! A Redis server of a test's own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;

/// Below the ports that the kernel gives to outgoing connections: a client that calls a port of those again and again
/// while nobody listens may be given that very port, and find itself at the other end.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Started in a directory of its own, killed when dropped.
pub struct RedisProcess {
    child: Child,
    port: u16,
    directory: TempDir,
    settings: Vec<String>,
    variables: Vec<(&'static str, PathBuf)>,
}

impl RedisProcess {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With settings of its command line.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_in(Vec::new(), settings)
    }

    /// In an environment of its own. Tries ports until the server itself has been able to take one.
    pub fn start_in(variables: Vec<(&'static str, PathBuf)>, settings: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings: Vec<String> = settings.iter().map(|&word| word.to_owned()).collect();
        let launched = |port| Some((port, launch(port, &directory, &settings, &variables)?));
        let (port, child) = PORTS.map(|_| next_port()).find_map(launched).unwrap();
        Self { child, port, directory, settings, variables }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Stops or continues the process, as a debugger or an overloaded machine would.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, empty, where it was.
    pub fn restart(&mut self) {
        self.child = launch(self.port, &self.directory, &self.settings, &self.variables).expect("the port is free again");
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on, and that no outgoing connection will be given.
pub fn quiet_port() -> u16 {
    PORTS.map(|_| next_port()).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Spread by process, so that test runs side by side seldom try the same one.
fn next_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let own = u16::try_from(std::process::id().wrapping_mul(61) % u32::from(span)).unwrap();
    PORTS.start + own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % span
}

/// `None` where the server ended before it listened: the port was taken.
fn launch(port: u16, directory: &TempDir, settings: &[String], variables: &[(&str, PathBuf)]) -> Option<Child> {
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(directory.path())
        .args(settings)
        .envs(variables.iter().cloned())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is needed: apt-get install redis-server");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The server says itself that it listens; anybody could answer at the port.
    let is_ready = lines.any(|line| line.contains("Ready to accept connections"));
    // It writes little, but must not be stopped by a pipe that nobody reads.
    std::thread::spawn(move || lines.for_each(drop));
    if !is_ready {
        child.wait().unwrap();
    }
    is_ready.then_some(child)
}
