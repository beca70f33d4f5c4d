//! The master, as Sentinels name it.
//!
//! All of them are asked at once. A Sentinel that is cut off from the others names a master of the past, so the one
//! that most name is tried first, and whoever is named must say of itself that it is a master.

use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use super::fault::no_master;
use super::link::{Node, Nodes, View};
use super::poll::{in_time, poll};
use crate::config::Address;

pub(super) struct Sentinels {
    addresses: Vec<Address>,
    /// The Sentinels themselves, which have logins of their own.
    own: Nodes,
    service: String,
}

impl Sentinels {
    pub fn new(addresses: Vec<Address>, own: Nodes, service: String) -> Self {
        Self { addresses, own, service }
    }

    pub async fn view(&self, nodes: &Nodes) -> Result<View, RedisError> {
        let named = poll(self.addresses.iter().map(|sentinel| self.ask(sentinel))).await?;
        let mut cause = None;
        for address in named.into_iter().flatten() {
            let node = nodes.at(&address);
            match in_time(is_master(nodes, &node)).await {
                Ok(true) => return Ok(View::of_one(node)),
                Ok(false) => {
                    nodes.leave(&node);
                    cause = Some(no_master(format!("{address} is named by Sentinel, and is no master")));
                }
                Err(error) => cause = Some(error),
            }
        }
        Err(cause.unwrap_or_else(|| self.unknown()))
    }

    async fn ask(&self, sentinel: &Address) -> Result<Option<Address>, RedisError> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let named: Option<(String, u16)> = self.own.ask(&self.own.at(sentinel), &command).await?;
        Ok(named.map(|(host, port)| Address { host, port }))
    }

    fn unknown(&self) -> RedisError {
        let service = format!("no Sentinel that answers knows the service {:?}", self.service);
        RedisError::from((ErrorKind::InvalidClientConfig, "Sentinel", service))
    }
}

/// By INFO, which is needed anyway, where ROLE would be one more right to give.
async fn is_master(nodes: &Nodes, node: &Arc<Node>) -> Result<bool, RedisError> {
    let text: String = nodes.ask(node, redis::cmd("INFO").arg("replication")).await?;
    Ok(text.lines().any(|line| line == "role:master"))
}
