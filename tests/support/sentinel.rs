//! A master with two replicas, and three Sentinels that watch over it.

use super::redis::{RedisProcess, wait_for_replicas, wait_until};

/// What the Sentinels call it.
pub const SERVICE: &str = "orders";
/// After this much silence a Sentinel holds a server for dead.
const DOWN_AFTER_MS: &str = "700";

pub struct Sentinels {
    pub servers: Vec<RedisProcess>,
    pub sentinels: Vec<RedisProcess>,
}

impl Sentinels {
    pub async fn start() -> Self {
        Self::start_with(&[], &[]).await
    }

    /// With settings of the servers, and of the Sentinels. Ready when all know each other and the replicas are in sync.
    pub async fn start_with(server: &[&str], sentinel: &[&str]) -> Self {
        let quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let server = [&quick[..], server].concat();
        let master = RedisProcess::start_with(&server);
        let port = master.port().to_string();
        let following = [&server[..], &["--replicaof", "127.0.0.1", &port]].concat();
        let servers = vec![master, RedisProcess::start_with(&following), RedisProcess::start_with(&following)];
        let sentinels: Vec<_> = (0..3).map(|_| RedisProcess::start_sentinel(sentinel)).collect();
        let group = Self { servers, sentinels };
        group.in_sync().await;
        for sentinel in &group.sentinels {
            let () = sentinel.ask(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &port, "2"]).await;
            let times = ["down-after-milliseconds", DOWN_AFTER_MS, "failover-timeout", "5000"];
            let () = sentinel.ask(&[&["SENTINEL", "SET", SERVICE][..], &times].concat()).await;
        }
        for sentinel in &group.sentinels {
            let all = format!("name={SERVICE},status=ok,address=127.0.0.1:{port},slaves=2,sentinels=3");
            wait_until("a Sentinel that knows all", async || sentinel.info("master0").await.as_ref() == Some(&all)).await;
        }
        group
    }

    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/{SERVICE}", self.addresses())
    }

    pub fn addresses(&self) -> String {
        self.sentinels.iter().map(RedisProcess::address).collect::<Vec<_>>().join(",")
    }

    /// The master, as most Sentinels name it.
    pub async fn master_port(&self) -> u16 {
        let mut named = Vec::new();
        for sentinel in &self.sentinels {
            let answer = sentinel.try_ask::<(String, u16)>(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).await;
            named.extend(answer.map(|(_, port)| port));
        }
        let votes = |port: &u16| named.iter().filter(|other| *other == port).count();
        named.iter().copied().max_by_key(votes).expect("a Sentinel answers")
    }

    pub async fn master(&self) -> &RedisProcess {
        let port = self.master_port().await;
        self.servers.iter().find(|server| server.port() == port).unwrap()
    }

    /// `kill -9`. Gives the port it had.
    pub async fn kill_master(&mut self) -> u16 {
        let port = self.master_port().await;
        self.servers.iter_mut().find(|server| server.port() == port).unwrap().kill();
        port
    }

    /// Waits until most Sentinels name another master than that one.
    pub async fn await_new_master(&self, than: u16) -> u16 {
        wait_until("a new master", async || self.master_port().await != than).await;
        self.master_port().await
    }

    /// Waits until two replicas have all that the master has now.
    pub async fn in_sync(&self) {
        wait_for_replicas(&self.servers, 2).await;
    }
}
