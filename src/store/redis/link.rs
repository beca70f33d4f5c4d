//! The way to the server that answers for a key, whichever that is now.
//!
//! Who the masters are is the scout's to find out; a call takes what is known, goes on to where a server sends it, and
//! raises doubt when what is known was wrong. It never waits for more than the first view.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Value};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::call::Call;
use super::dial::Dialer;
use super::fault::{Redirect, is_demoted, is_unwelcome, may_pass, no_master};
use super::roll::Roll;
use super::scout::{self, Survey};
use super::slots::Slots;
use super::wire::Wire;
use crate::config::Address;

/// How often one try is sent on: a slot that moves while servers disagree takes two or three.
const HOPS: usize = 5;

/// A server, and the connection to it.
pub(super) struct Node {
    pub address: Address,
    pub wire: Wire,
}

/// Whom a call is for.
#[derive(Clone, Copy)]
pub(super) enum To<'a> {
    /// The master that answers for the key.
    Key(&'a str),
    Node(&'a Arc<Node>),
}

/// Who answers for what.
pub(super) struct View {
    /// One at least.
    pub masters: Vec<Arc<Node>>,
    /// `None` where one master answers for everything.
    pub slots: Option<Slots>,
}

impl View {
    pub fn of_one(master: Arc<Node>) -> Self {
        Self { masters: vec![master], slots: None }
    }

    fn master_for(&self, key: &str) -> Option<&Arc<Node>> {
        match &self.slots {
            Some(slots) => self.masters.get(slots.master_of(key)?),
            None => self.masters.first(),
        }
    }

    /// The masters and their slots, in short.
    pub fn mark(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.masters.iter().for_each(|master| master.address.hash(&mut hasher));
        self.slots.hash(&mut hasher);
        format!("{:x}", hasher.finish())
    }
}

/// What is known of the masters.
#[derive(Clone)]
pub(super) enum Sight {
    /// Nobody has looked yet.
    Unknown,
    Seen(Arc<View>),
    /// There was a look, and nothing to be seen.
    Blind(RedisError),
}

/// The servers that are, or may be, spoken to.
pub(super) struct Nodes {
    dialer: Dialer,
    roll: Arc<Roll>,
    // A std mutex: never held across an await.
    known: Mutex<HashMap<Address, Arc<Node>>>,
}

impl Nodes {
    pub fn new(dialer: Dialer, roll: Arc<Roll>) -> Self {
        Self { dialer, roll, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Address, Arc<Node>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn at(&self, address: &Address) -> Arc<Node> {
        let mut known = self.known();
        if let Some(node) = known.get(address) {
            return Arc::clone(node);
        }
        let wire = Wire::new(address.clone(), self.dialer.clone(), Arc::clone(&self.roll));
        let node = Arc::new(Node { address: address.clone(), wire });
        known.insert(address.clone(), Arc::clone(&node));
        node
    }

    /// Gives the connection up: whoever answers at that address now may be another one.
    pub fn leave(&self, node: &Arc<Node>) {
        let mut known = self.known();
        if known.get(&node.address).is_some_and(|known| Arc::ptr_eq(known, node)) {
            known.remove(&node.address);
        }
    }

    /// Asks a server for what is not a cell's.
    pub async fn ask<T: FromRedisValue>(&self, node: &Arc<Node>, command: &Cmd) -> Result<T, RedisError> {
        let answer = node.wire.ask(command, false, Instant::now() + self.dialer.budget).await;
        Ok(redis::from_redis_value(answer.inspect_err(|error| self.note(node, error))?)?)
    }

    /// Compares the masters with those that were known.
    pub fn note_masters(&self, known: &mut Vec<Address>, masters: &[Arc<Node>]) {
        let now: Vec<Address> = masters.iter().map(|node| node.address.clone()).collect();
        if known.iter().any(|before| !now.contains(before)) {
            self.roll.note_replaced();
        }
        *known = now;
    }

    /// Gives up the connection to a server that is no master now.
    fn note(&self, node: &Arc<Node>, error: &RedisError) {
        if is_demoted(error) {
            self.leave(node);
        }
    }

    /// Gives up the connections to all but these.
    pub fn keep(&self, kept: &[Arc<Node>]) {
        self.known().retain(|address, _| kept.iter().any(|node| node.address == *address));
    }
}

pub(super) struct Link {
    nodes: Arc<Nodes>,
    sight: watch::Receiver<Sight>,
    doubt: Arc<Notify>,
    _scout: AbortOnDropHandle<()>,
}

impl Link {
    /// Begins to look for the masters, on the current runtime.
    pub fn new(survey: Survey, nodes: Nodes) -> Self {
        let nodes = Arc::new(nodes);
        let doubt = Arc::new(Notify::new());
        let (seen, sight) = watch::channel(Sight::Unknown);
        let scout = tokio::spawn(scout::look_out(survey, Arc::clone(&nodes), seen, Arc::clone(&doubt)));
        Self { nodes, sight, doubt, _scout: AbortOnDropHandle::new(scout) }
    }

    /// Says that who the masters are is to be found out anew.
    pub fn doubt(&self) {
        self.doubt.notify_one();
    }

    pub async fn view(&self) -> Result<Arc<View>, RedisError> {
        let sight = self.sight.borrow().clone();
        let sight = match sight {
            Sight::Unknown => self.first_sight().await,
            sight => sight,
        };
        match sight {
            Sight::Seen(view) => Ok(view),
            Sight::Blind(error) => {
                self.doubt();
                Err(error)
            }
            Sight::Unknown => Err(RedisError::from((ErrorKind::Io, "nobody looks for the servers any more"))),
        }
    }

    async fn first_sight(&self) -> Sight {
        let mut sight = self.sight.clone();
        let seen = sight.wait_for(|sight| !matches!(sight, Sight::Unknown)).await;
        seen.map_or(Sight::Unknown, |sight| sight.clone())
    }

    /// The server that a call goes to, where that is known.
    pub fn at_hand(&self, to: To<'_>) -> Option<Arc<Node>> {
        match to {
            To::Key(key) => match &*self.sight.borrow() {
                Sight::Seen(view) => view.master_for(key).cloned(),
                Sight::Unknown | Sight::Blind(_) => None,
            },
            To::Node(node) => Some(Arc::clone(node)),
        }
    }

    /// Takes from a server's error what it says. Gives it back where another try would end alike.
    pub fn heed(&self, node: &Arc<Node>, error: RedisError) -> Option<RedisError> {
        self.nodes.note(node, &error);
        if error.is_timeout() {
            self.doubt();
        }
        (!may_pass(&error)).then(|| self.told(error))
    }

    /// Sends a call, and on to where a server sends it.
    pub async fn send(&self, to: To<'_>, call: &Call, until: Instant) -> Result<Value, RedisError> {
        let node = match to {
            To::Key(key) => self.master_for(key).await?,
            To::Node(node) => Arc::clone(node),
        };
        self.follow(node, call, until).await
    }

    async fn master_for(&self, key: &str) -> Result<Arc<Node>, RedisError> {
        let view = self.view().await?;
        view.master_for(key).cloned().ok_or_else(|| {
            self.doubt();
            no_master("nobody has the slot of the key".to_owned())
        })
    }

    async fn follow(&self, mut node: Arc<Node>, call: &Call, until: Instant) -> Result<Value, RedisError> {
        let mut asking = false;
        for _ in 1..HOPS {
            let error = match self.send_to(&node, call, asking, until).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(redirect) = Redirect::of(&error, &node.address) else { return Err(self.told(error)) };
            if !redirect.asking {
                self.doubt();
            }
            (node, asking) = (self.nodes.at(&redirect.address), redirect.asking);
        }
        self.send_to(&node, call, asking, until).await.map_err(|error| self.told(error))
    }

    async fn send_to(&self, node: &Arc<Node>, call: &Call, asking: bool, until: Instant) -> Result<Value, RedisError> {
        call.send(&node.wire, asking, until).await.inspect_err(|error| self.nodes.note(node, error))
    }

    /// Takes from an error what it says of the server.
    fn told(&self, error: RedisError) -> RedisError {
        if may_pass(&error) || is_unwelcome(&error) {
            self.doubt();
        }
        error
    }
}
