//! The masters of a Cluster and their slots, as its servers tell them.
//!
//! A few servers are asked at once, other ones each time, and what most of them say is taken: one that is dead, or cut
//! off and behind the others, is outvoted or passed over.

use redis::{FromRedisValue, ParsingError, RedisError, Value};

use super::fault::no_master;
use super::link::{Nodes, View};
use super::poll::poll;
use super::slots::{Range, Slots};
use crate::config::Address;

/// How many servers are asked at once.
const ASKED: usize = 3;

/// Where to ask: the masters that were found last, and the servers that were configured.
pub(super) struct Seeds {
    configured: Vec<Address>,
    known: Vec<Address>,
    /// Whose turn it is to be asked.
    turn: usize,
}

impl Seeds {
    pub fn new(configured: Vec<Address>) -> Self {
        Self { known: configured.clone(), configured, turn: 0 }
    }

    pub async fn view(&mut self, nodes: &Nodes) -> Result<View, RedisError> {
        let count = self.known.len().min(ASKED);
        let asked = (0..count).map(|nth| &self.known[(self.turn + nth) % self.known.len()]);
        let maps = poll(asked.map(|address| ask(nodes, address))).await?;
        self.turn = self.turn.wrapping_add(count);
        let map = maps.into_iter().find(|map| !map.0.is_empty()).ok_or_else(|| no_master("no slot has a master".to_owned()))?;
        let masters = map.masters();
        self.known = masters.iter().chain(self.configured.iter().filter(|seed| !masters.contains(seed))).cloned().collect();
        Ok(map.view(masters, nodes))
    }
}

async fn ask(nodes: &Nodes, address: &Address) -> Result<Map, RedisError> {
    let node = nodes.at(address);
    let slots: Vec<Told> = nodes.ask(&node, redis::cmd("CLUSTER").arg("SLOTS")).await?;
    Ok(Map::new(slots, address))
}

/// The master of each range of slots, in order.
#[derive(PartialEq, Eq, Debug)]
struct Map(Vec<(u16, u16, Address)>);

impl Map {
    /// A server that does not know how another is reached says so by `?`, and names no host where it is `from`'s own.
    fn new(told: Vec<Told>, from: &Address) -> Self {
        let known = told.into_iter().filter(|told| told.host.as_deref() != Some("?"));
        let mut ranges: Vec<_> = known
            .map(|Told { first, last, host, port }| {
                let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| from.host.clone());
                (first, last, Address { host, port })
            })
            .collect();
        ranges.sort_unstable();
        Self(ranges)
    }

    fn masters(&self) -> Vec<Address> {
        let mut masters: Vec<Address> = self.0.iter().map(|(_, _, address)| address.clone()).collect();
        masters.sort_unstable();
        masters.dedup();
        masters
    }

    fn view(self, masters: Vec<Address>, nodes: &Nodes) -> View {
        let place = |address: Address| masters.partition_point(|other| *other < address);
        let ranges = self.0.into_iter().map(|(first, last, address)| Range { first, last, master: place(address) });
        let slots = Some(Slots::new(ranges.collect()));
        let masters = masters.iter().map(|address| nodes.at(address)).collect();
        View { masters, slots }
    }
}

/// A range of CLUSTER SLOTS: first, last, its master, its replicas; a server is host, port and more.
struct Told {
    first: u16,
    last: u16,
    host: Option<String>,
    port: u16,
}

impl FromRedisValue for Told {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut range = Vec::<Value>::from_redis_value(value)?.into_iter();
        let mut next = || range.next().unwrap_or(Value::Nil);
        let (first, last) = (u16::from_redis_value(next())?, u16::from_redis_value(next())?);
        let mut master = Vec::<Value>::from_redis_value(next())?.into_iter();
        let mut next = || master.next().unwrap_or(Value::Nil);
        Ok(Self { first, last, host: Option::from_redis_value(next())?, port: u16::from_redis_value(next())? })
    }
}
