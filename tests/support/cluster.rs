//! A Cluster of three masters, each with a replica.

use super::redis::{RedisProcess, quiet_port, wait_for_replicas, wait_until};

const MASTERS: usize = 3;
const SLOTS: usize = 16384;

pub struct Cluster {
    /// The masters that it begins with, then their replicas in the same order.
    pub nodes: Vec<RedisProcess>,
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With settings of the servers. Ready when all agree and the replicas are in sync.
    pub async fn start_with(settings: &[&str]) -> Self {
        let nodes: Vec<_> = (0..2 * MASTERS).map(|_| start_node(settings)).collect();
        let cluster = Self { nodes };
        cluster.assign_slots().await;
        for node in &cluster.nodes[1..] {
            let (port, bus) = (cluster.nodes[0].port().to_string(), bus_port(&cluster.nodes[0]).await);
            let () = node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
        cluster.until_all("know each other", |info| info.contains("cluster_known_nodes:6")).await;
        for (master, replica) in cluster.nodes.iter().zip(&cluster.nodes[MASTERS..]) {
            let id: String = master.ask(&["CLUSTER", "MYID"]).await;
            wait_until("a replica that may follow", async || replica.try_ask::<()>(&["CLUSTER", "REPLICATE", &id]).await.is_ok())
                .await;
        }
        cluster.until_all("serve", |info| info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")).await;
        cluster.in_sync().await;
        cluster.until_all_agree().await;
        cluster
    }

    pub fn url(&self) -> String {
        format!("redis+cluster://{}", self.addresses())
    }

    /// Of the masters it begins with.
    pub fn addresses(&self) -> String {
        self.nodes[..MASTERS].iter().map(RedisProcess::address).collect::<Vec<_>>().join(",")
    }

    pub async fn slot_of(&self, key: &str) -> String {
        self.living().ask::<u16>(&["CLUSTER", "KEYSLOT", key]).await.to_string()
    }

    /// The port of the master that has a key, as the servers see it.
    pub async fn master_port_of(&self, key: &str) -> u16 {
        let slot = self.slot_of(key).await.parse().unwrap();
        master_of(self.living(), slot).await.expect("the slot has a master")
    }

    pub fn node_at(&self, port: u16) -> &RedisProcess {
        self.nodes.iter().find(|node| node.port() == port).unwrap()
    }

    /// `kill -9`. Gives the port it had.
    pub async fn kill_master_of(&mut self, key: &str) -> u16 {
        let port = self.master_port_of(key).await;
        let place = self.nodes.iter().position(|node| node.port() == port).unwrap();
        self.nodes[place].kill();
        // The dead are at the end, so that the first one always answers.
        let dead = self.nodes.remove(place);
        self.nodes.push(dead);
        port
    }

    /// Waits until the servers name another master of the key than that one.
    pub async fn await_new_master_of(&self, key: &str, than: u16) -> u16 {
        wait_until("a new master", async || self.master_port_of(key).await != than).await;
        self.master_port_of(key).await
    }

    /// Begins to move a slot: its master sends clients on for keys it does not have.
    pub async fn begin_move(&self, slot: &str, from: &RedisProcess, to: &RedisProcess) {
        let (source, target): (String, String) = (from.ask(&["CLUSTER", "MYID"]).await, to.ask(&["CLUSTER", "MYID"]).await);
        let () = to.ask(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &source]).await;
        let () = from.ask(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &target]).await;
    }

    /// Moves the keys that are left, and then the slot itself.
    pub async fn finish_move(&self, slot: &str, from: &RedisProcess, to: &RedisProcess) {
        let (port, target): (String, String) = (to.port().to_string(), to.ask(&["CLUSTER", "MYID"]).await);
        loop {
            let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", slot, "100"]).await;
            if keys.is_empty() {
                break;
            }
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let () = from.ask(&[&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"][..], &keys].concat()).await;
        }
        for node in [to, from] {
            let () = node.ask(&["CLUSTER", "SETSLOT", slot, "NODE", &target]).await;
        }
    }

    /// Waits until every replica has all that its master has now.
    pub async fn in_sync(&self) {
        wait_for_replicas(&self.nodes, MASTERS).await;
    }

    async fn assign_slots(&self) {
        for (place, master) in self.nodes[..MASTERS].iter().enumerate() {
            let (first, last) = (place * SLOTS / MASTERS, (place + 1) * SLOTS / MASTERS - 1);
            let () = master.ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            let () = master.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]).await;
        }
    }

    async fn until_all(&self, what: &str, condition: impl Fn(&str) -> bool) {
        for node in &self.nodes {
            wait_until(what, async || condition(&node.try_ask::<String>(&["CLUSTER", "INFO"]).await.unwrap_or_default())).await;
        }
    }

    /// Whoever is asked names the same masters.
    async fn until_all_agree(&self) {
        for node in &self.nodes {
            for (place, master) in self.nodes[..MASTERS].iter().enumerate() {
                let slot = place * SLOTS / MASTERS;
                wait_until("a server that knows the masters", async || master_of(node, slot).await == Some(master.port())).await;
            }
        }
    }

    fn living(&self) -> &RedisProcess {
        &self.nodes[0]
    }
}

/// Who has a slot, as `node` sees it.
async fn master_of(node: &RedisProcess, slot: usize) -> Option<u16> {
    let text: String = node.try_ask(&["CLUSTER", "NODES"]).await.ok()?;
    // id address flags master ping pong epoch link slot...
    text.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (address, flags) = (words.nth(1)?, words.next()?);
        let mut ranges = words.skip(5).filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
        });
        let is_its = flags.contains("master") && ranges.any(|range| range.contains(&slot));
        is_its.then(|| address.split(['@', ',']).next()?.rsplit(':').next()?.parse().ok()).flatten()
    })
}

fn start_node(settings: &[&str]) -> RedisProcess {
    // The bus has a port of its own, which would otherwise be among those of outgoing connections.
    let bus = quiet_port().to_string();
    let own = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--repl-diskless-sync-delay", "0"];
    let times = ["--cluster-node-timeout", "1500", "--repl-ping-replica-period", "1"];
    RedisProcess::start_with(&[&own[..], &times, settings].concat())
}

async fn bus_port(node: &RedisProcess) -> String {
    let (_, port): (String, String) = node.ask(&["CONFIG", "GET", "cluster-port"]).await;
    port
}
