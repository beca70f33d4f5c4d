//! A Redis server of a test's own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use redis::{AsyncConnectionConfig, FromRedisValue, RedisResult};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Below the ports that the kernel gives to outgoing connections: a client that calls a port of those again and again
/// while nobody listens may be given that very port, and find itself at the other end.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// The longest servers are waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Started in a directory of its own, killed when dropped.
pub struct RedisProcess {
    child: Child,
    port: u16,
    directory: TempDir,
    manner: Manner,
}

/// How it is started, and started again.
struct Manner {
    role: Role,
    settings: Vec<String>,
    variables: Vec<(&'static str, PathBuf)>,
}

#[derive(Clone, Copy)]
enum Role {
    Server,
    Sentinel,
}

impl RedisProcess {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With settings of its command line.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_as(Role::Server, Vec::new(), settings)
    }

    /// In an environment of its own.
    pub fn start_in(variables: Vec<(&'static str, PathBuf)>, settings: &[&str]) -> Self {
        Self::start_as(Role::Server, variables, settings)
    }

    /// One that watches servers, and none yet.
    pub fn start_sentinel(settings: &[&str]) -> Self {
        Self::start_as(Role::Sentinel, Vec::new(), settings)
    }

    /// Tries ports until the server itself has been able to take one.
    fn start_as(role: Role, variables: Vec<(&'static str, PathBuf)>, settings: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let manner = Manner { role, settings: owned(settings), variables };
        let launched = |port| Some((port, manner.launch(port, &directory)?));
        let (port, child) = PORTS.map(|_| next_port()).find_map(launched).unwrap();
        Self { child, port, directory, manner }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
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

    /// Starts it again where it was, empty unless it has saved its data.
    pub fn restart(&mut self) {
        self.child = self.manner.launch(self.port, &self.directory).expect("the port is free again");
    }

    /// As `restart`, with other settings, and without waiting until its data is loaded.
    pub fn restart_loading(&mut self, settings: &[&str]) {
        self.manner.settings = owned(settings);
        let mut command = self.manner.command(self.port, &self.directory);
        self.child = until_it_says("Server initialized", &mut command).expect("the port is free again");
    }

    /// Asks the server past the store.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_ask(words).await.unwrap()
    }

    /// Fails soon where nobody answers.
    pub async fn try_ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let second = Some(Duration::from_secs(1));
        let config = AsyncConnectionConfig::new().set_connection_timeout(second).set_response_timeout(second);
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }

    /// A field of INFO.
    pub async fn info(&self, field: &str) -> Option<String> {
        let text: String = self.try_ask(&["INFO"]).await.ok()?;
        text.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned()))
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn owned(settings: &[&str]) -> Vec<String> {
    settings.iter().map(|&word| word.to_owned()).collect()
}

impl Manner {
    /// `None` where the server ended before it listened: the port was taken.
    fn launch(&self, port: u16, directory: &TempDir) -> Option<Child> {
        let sign = match self.role {
            Role::Server => "Ready to accept connections",
            Role::Sentinel => "Sentinel ID is",
        };
        until_it_says(sign, &mut self.command(port, directory))
    }

    fn command(&self, port: u16, directory: &TempDir) -> Command {
        let mut command = Command::new("redis-server");
        match self.role {
            Role::Server => command.args(["--save", "", "--appendonly", "no"]),
            Role::Sentinel => {
                // It keeps there what it has learnt.
                let file = directory.path().join("sentinel.conf");
                std::fs::OpenOptions::new().create(true).append(true).open(&file).unwrap();
                command.arg(file).arg("--sentinel")
            }
        };
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(directory.path()).args(&self.settings);
        command.envs(self.variables.iter().cloned());
        command
    }
}

/// A port that nobody listens on, and that no outgoing connection will be given.
pub fn quiet_port() -> u16 {
    PORTS.map(|_| next_port()).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Waits until so many of the servers are replicas, with all that their masters have at this moment.
pub async fn wait_for_replicas(servers: &[RedisProcess], count: usize) {
    let mut sent = Vec::new();
    for server in servers {
        sent.push((server.port().to_string(), offset(server, "master_repl_offset").await));
    }
    wait_until("replicas in sync", async || {
        let mut in_sync = 0;
        for server in servers {
            let master = server.info("master_port").await;
            let received = offset(server, "slave_repl_offset").await;
            let is_up = server.info("master_link_status").await.as_deref() == Some("up");
            let has_all = sent.iter().any(|(port, sent)| master.as_ref() == Some(port) && received >= *sent);
            in_sync += usize::from(is_up && has_all);
        }
        in_sync >= count
    })
    .await;
}

async fn offset(server: &RedisProcess, field: &str) -> u64 {
    server.info(field).await.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Waits until `condition` holds; fails, naming it, when it never does.
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < until, "this never came: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Spread by process, so that test runs side by side seldom try the same one.
fn next_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let own = u16::try_from(std::process::id().wrapping_mul(61) % u32::from(span)).unwrap();
    PORTS.start + own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % span
}

/// The server says itself that it listens; anybody could answer at the port.
fn until_it_says(sign: &str, command: &mut Command) -> Option<Child> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is needed: apt-get install redis-server");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let is_ready = lines.any(|line| line.contains(sign));
    // It writes little, but must not be stopped by a pipe that nobody reads.
    std::thread::spawn(move || lines.for_each(drop));
    if !is_ready {
        child.wait().unwrap();
    }
    is_ready.then_some(child)
}
