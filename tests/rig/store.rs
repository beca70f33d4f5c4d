//! What the instances of a round share: a Redis server behind one network an instance, or a file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Cmd};
use tempfile::TempDir;

use super::support::fault_proxy::FaultProxy;
use super::support::keys::Keys;
use super::support::redis::RedisProcess;

pub const NAMESPACE: &str = "rig";
/// A server that is well answers at once, unless the machine is very busy.
const ANSWER_WAIT: Duration = Duration::from_secs(15);

pub enum Store {
    Redis(Redis),
    File(TempDir),
}

pub struct Redis {
    pub server: RedisProcess,
    pub links: Vec<FaultProxy>,
    /// Whether it has its data again when it is started again.
    pub is_durable: bool,
}

impl Store {
    pub fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    pub async fn redis(instances: usize, is_durable: bool) -> Self {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisProcess::start_with(if is_durable { &durable } else { &[] });
        let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let mut links = Vec::new();
        for _ in 0..instances {
            links.push(FaultProxy::to(address).await);
        }
        Self::Redis(Redis { server, links, is_durable })
    }

    pub fn url_for(&self, instance: usize) -> String {
        match self {
            Self::Redis(redis) => format!("redis://{}", redis.links[instance].address()),
            Self::File(directory) => format!("file:{}", directory.path().join("events").display()),
        }
    }
}

impl Redis {
    /// Tells the server itself something, past the networks.
    pub async fn tell(&self, command: &Cmd) {
        let client = redis::Client::open(self.server.url()).unwrap();
        let patience =
            AsyncConnectionConfig::new().set_connection_timeout(Some(ANSWER_WAIT)).set_response_timeout(Some(ANSWER_WAIT));
        let mut link = client.get_multiplexed_async_connection_with_config(&patience).await.unwrap();
        command.query_async::<()>(&mut link).await.unwrap();
    }

    /// Keys without an end, but for the marker and the tallies of queues.
    pub fn endless(&self) -> Vec<String> {
        let mut keys = Keys::of(&self.server);
        let marker = format!("{NAMESPACE}:marker");
        keys.names().into_iter().filter(|key| *key != marker && !key.ends_with(":tally") && keys.ttl(key) == -1).collect()
    }

    /// Commands that deliveries have caused since the count began.
    pub fn commands(&self) -> BTreeMap<String, u64> {
        Keys::of(&self.server).commands()
    }
}
