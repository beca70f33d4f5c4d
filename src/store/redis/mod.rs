//! Cells in Redis: one plain command where Redis has one, a script where it must compare first.
//!
//! No call lasts longer than its budget, whatever the server or the network does. A try that fails in a way that may pass is made
//! again with the same values until the budget is used; `Cells` promises that this is safe.
//!
//! A server whose memory is full refuses every plain write. Cells that are there can still be read, and overwritten by
//! scripts that ask for it, so that duplicates are known and claims are settled; only new events find no room.

mod about;
mod backlog;
mod call;
mod cluster;
mod dial;
mod fault;
mod letters;
mod link;
mod poll;
mod reply;
mod roll;
mod scout;
mod scripts;
mod sentinel;
mod slots;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, FromRedisValue, RedisError, Value, cmd};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::cells::{Cells, Change, Cursor, FOR_EVER, Held, Step, StoreError, StoreErrorKind, Swapped};
use super::keeping::Keeping;
use crate::config::{RedisUrl, Topology};
pub use about::About;
use call::{Call, Lua};
use cluster::Seeds;
use dial::Dialer;
use fault::{may_pass, store_error};
use link::{Link, Node, Nodes, To, View};
use roll::Roll;
use scout::Survey;
use scripts::{PUT, PUT_NEW, READ, SWAP, TOUCH};
use sentinel::Sentinels;

/// Between two tries of one call: long enough for a server to come back from a blip, short against any budget.
const PAUSE: Duration = Duration::from_millis(20);
const PULSE_WAIT: Duration = Duration::from_millis(400);
const SCAN_STEP: usize = 500;

/// The connections of one runtime, shared by all its calls.
#[derive(Clone)]
pub struct RedisCells {
    link: Arc<Link>,
    budget: Duration,
    /// A server is too old for the plain commands. Shared by all connections: one finds out, all know.
    scripts_only: Arc<AtomicBool>,
    roll: Arc<Roll>,
}

/// Where Redis is: checked when the program starts, connected to by each runtime.
#[derive(Clone)]
pub struct RedisServer {
    url: RedisUrl,
    tls: Option<TlsConnector>,
    budget: Duration,
    scripts_only: Arc<AtomicBool>,
    roll: Arc<Roll>,
}

impl RedisServer {
    /// Checks all that can be known before anything is connected. The error shows no password.
    pub fn new(url: &RedisUrl, ca: Option<Vec<u8>>, budget: Duration) -> Result<Self, StoreError> {
        let tls = url.tls.then(|| dial::tls(ca.as_deref())).transpose();
        let tls = tls.map_err(|error| StoreError::new(StoreErrorKind::Refused, error))?;
        Ok(Self { url: url.clone(), tls, budget, scripts_only: Arc::default(), roll: Arc::default() })
    }

    /// Treats the servers as ones from before 6.2.
    pub fn with_scripts_only(self) -> Self {
        self.scripts_only.store(true, Ordering::Relaxed);
        self
    }

    /// Connections for the current runtime. They are made when they are needed and made again whenever they break.
    pub fn connect(&self) -> RedisCells {
        let nodes = Nodes::new(self.dialer(), Arc::clone(&self.roll));
        let link = Arc::new(Link::new(self.survey(), nodes));
        let (scripts_only, roll) = (Arc::clone(&self.scripts_only), Arc::clone(&self.roll));
        RedisCells { link, budget: self.budget, scripts_only, roll }
    }

    fn dialer(&self) -> Dialer {
        Dialer::new(self.tls.clone(), &self.url.login, self.url.database, self.budget)
    }

    fn survey(&self) -> Survey {
        match &self.url.topology {
            Topology::Single(server) => Survey::Single(server.clone()),
            Topology::Sentinel { sentinels, service, login } => {
                let dialer = Dialer::new(self.tls.clone(), login, 0, self.budget);
                // Sentinels hold no data: that one of them was restarted means nothing.
                let own = Nodes::new(dialer, Arc::default());
                Survey::Sentinel(Sentinels::new(sentinels.clone(), own, service.clone()))
            }
            Topology::Cluster(servers) => Survey::Cluster(Seeds::new(servers.clone())),
        }
    }
}

impl RedisCells {
    /// When a call that begins now must have ended.
    fn deadline(&self) -> Instant {
        Instant::now() + self.budget
    }

    /// Makes one call before the deadline, again and again while its failure may pass.
    async fn ask<T: FromRedisValue>(&self, to: To<'_>, call: Call, deadline: Instant) -> Result<T, StoreError> {
        // The usual call has one server to go to, which answers. Whatever else may happen takes the long way, which is boxed:
        // every future of a delivery would otherwise have room for it, and be moved with it.
        if let Some(node) = self.link.at_hand(to) {
            match call.send(&node.wire, false, self.try_until(deadline)).await {
                Ok(value) => return read(value),
                Err(error) => self.link.heed(&node, error).map_or(Ok(()), Err).map_err(store_error)?,
            }
        }
        read(Box::pin(self.until(deadline, |until| self.link.send(to, &call, until))).await?)
    }

    /// When one try of a call is given up: another one must have its turn too.
    fn try_until(&self, deadline: Instant) -> Instant {
        (Instant::now() + self.budget / 2).min(deadline)
    }

    /// The masters as they are known now; waits for them only where nobody has seen them yet.
    async fn view(&self, deadline: Instant) -> Result<Arc<View>, StoreError> {
        self.until(deadline, |_| self.link.view()).await
    }

    async fn until<T, F>(&self, deadline: Instant, attempt: impl Fn(Instant) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let mut cause = None;
        loop {
            let until = self.try_until(deadline);
            match timeout_at(until, attempt(until)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) if error.is_timeout() => self.link.doubt(),
                Ok(Err(error)) if !may_pass(&error) => return Err(store_error(error)),
                Ok(Err(error)) => cause = Some(store_error(error)),
                // A cause that was seen tells more than the time that ran out on the way to seeing it again.
                Err(_) => self.link.doubt(),
            }
            if Instant::now() + PAUSE >= deadline {
                let silence = || StoreError::new(StoreErrorKind::Timeout, format!("no answer in {:?}", self.budget));
                return Err(cause.unwrap_or_else(silence));
            }
            sleep(PAUSE).await;
        }
    }

    /// The plain command, or the script where a server is known, or found, to be too old for it.
    async fn ask_or_script(
        &self,
        key: &str,
        command: Call,
        script: impl FnOnce() -> Call,
        deadline: Instant,
    ) -> Result<Option<Bytes>, StoreError> {
        if !self.scripts_only.load(Ordering::Relaxed) {
            match self.ask(To::Key(key), command, deadline).await {
                Err(error) if error.is_syntax() => self.scripts_only.store(true, Ordering::Relaxed),
                other => return other,
            }
        }
        Box::pin(self.ask(To::Key(key), script(), deadline)).await
    }

    /// Goes on where the server has refused a write because it is full. What it says then matters less.
    async fn ask_when_full<T: FromRedisValue>(
        &self,
        refused: Result<T, StoreError>,
        key: &str,
        call: impl FnOnce() -> Call,
        deadline: Instant,
    ) -> Result<T, StoreError> {
        match refused {
            Err(error) if error.is_full() => Box::pin(self.ask(To::Key(key), call(), deadline)).await.or(Err(error)),
            other => other,
        }
    }

    /// When a server was last found in the place of another one, which may have known more. Whoever has an answer of
    /// that server can ask here: it was met before it was asked.
    pub fn replaced(&self) -> Option<SystemTime> {
        self.roll.replaced()
    }

    /// What the masters say of themselves: version, memory policy, evictions, the time.
    pub async fn about(&self) -> Result<About, StoreError> {
        let deadline = self.deadline();
        let view = self.view(deadline).await?;
        let each = view.masters.iter().map(|master| self.about_one(master, deadline));
        let about = About::of_all(try_join_all(each).await?);
        self.scripts_only.fetch_or(about.is_before_7(), Ordering::Relaxed);
        Ok(about)
    }

    async fn about_one(&self, master: &Arc<Node>, deadline: Instant) -> Result<About, StoreError> {
        let text: String = self.ask(To::Node(master), cmd("INFO").into(), deadline).await?;
        let (seconds, micros): (u64, u64) = self.ask(To::Node(master), cmd("TIME").into(), deadline).await?;
        let clock = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
        Ok(About { clock: Some(clock), ..About::parse(&text) })
    }

    /// Whether what the masters have confirmed is on their disks.
    pub async fn keeping(&self) -> Result<Keeping, StoreError> {
        let deadline = self.deadline();
        let view = self.view(deadline).await?;
        let each = view.masters.iter().map(|master| self.keeping_of(master, deadline));
        Ok(Keeping::worst(try_join_all(each).await?))
    }

    async fn keeping_of(&self, master: &Arc<Node>, deadline: Instant) -> Result<Keeping, StoreError> {
        let text: String = self.ask(To::Node(master), Call::from(cmd("INFO")).arg("persistence"), deadline).await?;
        let has_log = text.lines().any(|line| line.trim() == "aof_enabled:1");
        let sync = self.setting(master, "appendfsync", deadline).await?;
        // Under this one it does not write before it confirms, either, while the log is written anew.
        let is_paused = self.setting(master, "no-appendfsync-on-rewrite", deadline).await?.as_deref() == Some("yes");
        Ok(Keeping::of_redis(has_log, sync.as_deref(), is_paused))
    }

    /// How a server is set, or `None` where that is not for us to ask.
    async fn setting(&self, master: &Arc<Node>, name: &str, deadline: Instant) -> Result<Option<String>, StoreError> {
        let asking = Call::from(cmd("CONFIG")).arg("GET").arg(name);
        match self.ask::<Vec<String>>(To::Node(master), asking, deadline).await {
            Ok(pair) => Ok(pair.into_iter().nth(1)),
            Err(error) if error.kind == StoreErrorKind::Refused => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn read_until(&self, key: &str, deadline: Instant) -> Result<Option<Held>, StoreError> {
        let held: Option<(Bytes, i64)> = self.ask(To::Key(key), READ.on(key), deadline).await?;
        // Negative where somebody has taken the key's end away.
        let left = |millis: i64| u64::try_from(millis).map_or(FOR_EVER, Duration::from_millis);
        Ok(held.map(|(value, millis)| Held { value, left: left(millis) }))
    }

    /// What the keys hold, without what is not ours.
    async fn read_all(&self, keys: impl Iterator<Item = String>) -> Result<Vec<(String, Held)>, StoreError> {
        let deadline = self.deadline();
        // They share the connection, and with it their writes.
        let reading = keys.map(async |key| (self.read_until(&key, deadline).await, key));
        let mut cells = Vec::new();
        for (held, key) in join_all(reading).await {
            match held {
                Ok(held) => cells.extend(held.map(|held| (key, held))),
                Err(error) if error.kind == StoreErrorKind::Foreign => {}
                Err(error) => return Err(error),
            }
        }
        Ok(cells)
    }
}

impl Cells for RedisCells {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let deadline = self.deadline();
        let command = set(key, &value).arg("NX").arg("GET").arg("EX").arg(seconds(life));
        let script = || put_script(&PUT_NEW, key, &value, life);
        let held = match self.ask_or_script(key, command, script, deadline).await {
            // A full server refuses the command also where the cell is taken.
            Err(error) if error.is_full() => Some(Box::pin(self.read_until(key, deadline)).await?.ok_or(error)?.value),
            held => held?,
        };
        Ok(held.filter(|held| *held != value))
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let deadline = self.deadline();
        let command = set(key, &value).arg("GET").arg("EX").arg(seconds(life));
        let before = self.ask_or_script(key, command, || put_script(&PUT.plain, key, &value, life), deadline).await;
        self.ask_when_full(before, key, || put_script(&PUT.when_full, key, &value, life), deadline).await
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        let deadline = self.deadline();
        let answer: Result<Vec<Value>, _> = self.ask(To::Key(key), swap_script(&SWAP.plain, key, &change), deadline).await;
        let when_full = || swap_script(&SWAP.when_full, key, &change);
        let mut answer = self.ask_when_full(answer, key, when_full, deadline).await?.into_iter();
        let (code, rest) = (answer.next().unwrap_or(Value::Nil), answer.next().unwrap_or(Value::Nil));
        Ok(match read::<u8>(code)? {
            0 => Swapped::Written,
            1 => Swapped::Young(Duration::from_millis(read(rest)?)),
            _ => Swapped::Differs(read(rest)?),
        })
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        let script = TOUCH.on(key).arg(&value[..]).arg(millis(life).max(1));
        self.ask(To::Key(key), script, self.deadline()).await
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        self.read_until(key, self.deadline()).await
    }

    /// One master after the other.
    async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<Step, StoreError> {
        let deadline = self.deadline();
        let view = self.view(deadline).await?;
        let place = Place::of(from, &view)?;
        let pattern = format!("{}*", escape_glob(prefix));
        let scan = Call::from(cmd("SCAN")).arg(&place.scan).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_STEP);
        let (next, keys): (String, Vec<Vec<u8>>) = self.ask(To::Node(&view.masters[place.master]), scan, deadline).await?;
        // A key that is not text is somebody else's.
        let cells = self.read_all(keys.into_iter().filter_map(|key| String::from_utf8(key).ok())).await?;
        Ok(Step { cells, next: place.then(next, &view) })
    }

    /// One try, and a short one. Neither GET nor a script, so that the server's own counts of those are of deliveries.
    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        let call = Call::from(cmd("GETRANGE")).arg(marker).arg(0).arg(-1);
        // A store that is far away, and given its time, is not one that is down.
        let patience = PULSE_WAIT.max(self.budget / 2).min(self.budget);
        match timeout(patience, self.link.send(To::Key(marker), &call, Instant::now() + patience)).await {
            Ok(answer) => Ok(Some(read::<Bytes>(answer.map_err(store_error)?)?).filter(|value| !value.is_empty())),
            Err(_) => {
                self.link.doubt();
                Err(StoreError::new(StoreErrorKind::Timeout, "no sign of life"))
            }
        }
    }
}

/// How far a walk has come: `MARK/MASTER/SCAN`. A cursor means something to the server that gave it, and a cell that has
/// moved to another one might be missed: a walk goes on only over the very servers that it began with.
struct Place {
    master: usize,
    scan: String,
}

impl Place {
    fn of(cursor: Option<Cursor>, view: &View) -> Result<Self, StoreError> {
        let Some(Cursor(text)) = cursor else { return Ok(Self { master: 0, scan: "0".to_owned() }) };
        let mut parts = text.splitn(3, '/');
        let (mark, master, scan) = (parts.next(), parts.next().and_then(|master| master.parse().ok()), parts.next());
        match (master, scan) {
            (Some(master), Some(scan)) if mark == Some(&view.mark()) && master < view.masters.len() => {
                Ok(Self { master, scan: scan.to_owned() })
            }
            // No outage: the servers serve, and deliveries have nothing to do with it.
            _ => Err(StoreError::new(StoreErrorKind::Refused, "the servers have changed under the search: begin it again")),
        }
    }

    fn then(&self, scan: String, view: &View) -> Option<Cursor> {
        let (master, scan) = if scan == "0" { (self.master + 1, "0".to_owned()) } else { (self.master, scan) };
        (master < view.masters.len()).then(|| Cursor(format!("{}/{master}/{scan}", view.mark())))
    }
}

/// With room for what else is said, so that a command is not moved as it is written.
fn set(key: &str, value: &Bytes) -> Call {
    Call::from(Cmd::with_capacity(7, key.len() + value.len() + 32)).arg("SET").arg(key).arg(&value[..])
}

fn put_script(script: &'static Lua, key: &str, value: &Bytes, life: Duration) -> Call {
    script.on(key).arg(&value[..]).arg(seconds(life))
}

fn swap_script(script: &'static Lua, key: &str, change: &Change) -> Call {
    let call = script.on(key).arg(&change.from[..]).arg(&change.to[..]).arg(millis(change.life).max(1));
    match change.at_age {
        Some(age) => call.arg(millis(age.life)).arg(millis(age.least)),
        None => call.arg("").arg(""),
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::new(StoreErrorKind::Refused, error))
}

/// Never nought, which the server refuses.
fn seconds(life: Duration) -> u64 {
    (life.as_secs() + u64::from(life.subsec_nanos() > 0)).max(1)
}

fn millis(life: Duration) -> u64 {
    u64::try_from(life.as_millis()).unwrap_or(u64::MAX)
}

fn escape_glob(prefix: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\');
    prefix.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

impl std::fmt::Debug for RedisCells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisCells").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisServer").field("budget", &self.budget).finish_non_exhaustive()
    }
}
