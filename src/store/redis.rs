//! Cells in Redis: one plain command where Redis has one, a script where it must compare first.
//!
//! No call lasts longer than its budget, whatever the server or the network does: the client's own timeouts do not
//! cover the wait for a reconnect, so every call has one around it. A try that fails in a way that may pass is made
//! again with the same values until the budget is used; `Cells` promises that this is safe.
//!
//! A server whose memory is full refuses every plain write. Cells that are there can still be read, and overwritten by
//! scripts that ask for it, so that duplicates are known and claims are settled; only new events find no room.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::join_all;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, Script, ScriptInvocation, ServerErrorKind,
    TlsCertificates, Value,
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::cells::{Cells, Change, Cursor, FOR_EVER, Held, Step, StoreError, StoreErrorKind, Swapped};
use crate::config::Secret;

/// Between two tries of one call: long enough for a server to come back from a blip, short against any budget.
const PAUSE: Duration = Duration::from_millis(20);
/// Commands of concurrent deliveries that may queue for the connection before callers wait.
const PIPELINE_BUFFER: usize = 1024;
const PULSE_WAIT: Duration = Duration::from_millis(400);
/// A peer that is gone without a word is noticed after this long, by keepalive or unacknowledged data.
const DEAD_PEER: Duration = Duration::from_secs(5);
const SCAN_STEP: usize = 500;

/// A script, and the same for a server whose memory is full (known since 7.0).
struct Lua {
    plain: Script,
    when_full: Script,
}

impl Lua {
    fn new(code: &str) -> Self {
        Self { plain: Script::new(code), when_full: Script::new(&format!("#!lua flags=allow-oom\n{code}")) }
    }
}

/// KEYS: the cell. ARGV: from, to, life in ms, life that `from` was given in ms (or empty), least age in ms.
static SWAP: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(
        r"local held = redis.call('GET', KEYS[1])
        if held == ARGV[2] then return {0} end
        if held ~= ARGV[1] then return {2, held} end
        if ARGV[4] ~= '' then
            local missing = ARGV[5] - (ARGV[4] - redis.call('PTTL', KEYS[1]))
            if missing > 0 then return {1, missing} end
        end
        redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
        return {0}",
    )
});
/// KEYS: the cell. ARGV: the value it must hold, life in ms.
static TOUCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    )
});
/// KEYS: the cell. Its value and what is left of its life in ms, which two commands might find of two values.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"local held = redis.call('GET', KEYS[1])
        return held and {held, redis.call('PTTL', KEYS[1])}",
    )
});
/// `SET NX GET EX` for servers before 7.0, which refuse NX and GET together.
static PUT_NEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"local held = redis.call('GET', KEYS[1])
        if held then return held end
        redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
        return false",
    )
});
/// `SET GET EX` for servers before 6.2, and for those that are full.
static PUT: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(
        r"local held = redis.call('GET', KEYS[1])
        redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
        return held",
    )
});

/// One connection, shared by all calls of the runtime it was made on.
#[derive(Clone)]
pub struct RedisCells {
    link: ConnectionManager,
    budget: Duration,
    /// The server is too old for the plain commands. Shared by all connections: one finds out, all know.
    scripts_only: Arc<AtomicBool>,
}

/// Where Redis is: checked when the program starts, connected to by each runtime.
#[derive(Clone)]
pub struct RedisServer {
    client: Client,
    budget: Duration,
    scripts_only: Arc<AtomicBool>,
}

impl RedisServer {
    /// Reads the URL; nothing is connected yet. The error shows no password.
    pub fn new(url: &Secret, ca: Option<Vec<u8>>, budget: Duration) -> Result<Self, StoreError> {
        let refused = |error: RedisError| StoreError::new(StoreErrorKind::Refused, error);
        let url = std::str::from_utf8(url.bytes()).map_err(|error| StoreError::new(StoreErrorKind::Refused, error))?;
        let info = url.into_connection_info().map_err(refused)?;
        let keepalive = TcpKeepalive::new().with_time(DEAD_PEER).with_interval(Duration::from_secs(1)).with_retries(3);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(DEAD_PEER);
        // A least-privilege user need not be allowed CLIENT SETINFO.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let info = info.set_tcp_settings(tcp).set_redis_settings(settings);
        let client = match ca {
            Some(root_cert) => Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: Some(root_cert) }),
            None => Client::open(info),
        };
        Ok(Self { client: client.map_err(refused)?, budget, scripts_only: Arc::default() })
    }

    /// Treats the server as one from before 6.2.
    pub fn with_scripts_only(self) -> Self {
        self.scripts_only.store(true, Ordering::Relaxed);
        self
    }

    /// A connection for the current runtime. It is made with the first call and made again whenever it breaks.
    pub fn connect(&self) -> Result<RedisCells, StoreError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_millis(100))
            .set_connection_timeout(Some(self.budget))
            .set_response_timeout(Some(self.budget))
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let link = ConnectionManager::new_lazy_with_config(self.client.clone(), config).map_err(store_error)?;
        Ok(RedisCells { link, budget: self.budget, scripts_only: Arc::clone(&self.scripts_only) })
    }
}

/// One thing to ask of the server.
enum Call {
    Command(Cmd),
    Script(ScriptInvocation<'static>),
}

impl Call {
    async fn send(&self, link: &mut ConnectionManager) -> Result<Value, RedisError> {
        match self {
            Self::Command(command) => command.query_async(link).await,
            Self::Script(call) => call.invoke_async(link).await,
        }
    }
}

impl RedisCells {
    /// When a call that begins now must have ended.
    fn deadline(&self) -> Instant {
        Instant::now() + self.budget
    }

    /// Makes one call before the deadline, again and again while its failure may pass.
    async fn ask<T: FromRedisValue>(&self, call: Call, deadline: Instant) -> Result<T, StoreError> {
        let mut link = self.link.clone();
        let mut cause = None;
        loop {
            let try_until = (Instant::now() + self.budget / 2).min(deadline);
            match timeout_at(try_until, call.send(&mut link)).await {
                Ok(Ok(value)) => return read(value),
                Ok(Err(error)) if !may_pass(&error) => return Err(store_error(error)),
                Ok(Err(error)) => cause = Some(store_error(error)),
                // A cause that was seen tells more than the time that ran out on the way to seeing it again.
                Err(_) => {}
            }
            if Instant::now() + PAUSE >= deadline {
                let silence = || StoreError::new(StoreErrorKind::Timeout, format!("no answer in {:?}", self.budget));
                return Err(cause.unwrap_or_else(silence));
            }
            sleep(PAUSE).await;
        }
    }

    /// The plain command, or the script where the server is known, or found, to be too old for it.
    async fn ask_or_script(
        &self,
        command: Cmd,
        script: impl FnOnce() -> ScriptInvocation<'static> + Send,
        deadline: Instant,
    ) -> Result<Option<Bytes>, StoreError> {
        if !self.scripts_only.load(Ordering::Relaxed) {
            match self.ask(Call::Command(command), deadline).await {
                Err(error) if error.is_syntax() => self.scripts_only.store(true, Ordering::Relaxed),
                other => return other,
            }
        }
        self.ask(Call::Script(script()), deadline).await
    }

    /// Goes on where the server has refused a write because it is full. What it says then matters less.
    async fn ask_when_full<T: FromRedisValue>(
        &self,
        refused: Result<T, StoreError>,
        call: impl FnOnce() -> Call + Send,
        deadline: Instant,
    ) -> Result<T, StoreError> {
        match refused {
            Err(error) if error.is_full() => self.ask(call(), deadline).await.or(Err(error)),
            other => other,
        }
    }

    /// What the server says of itself: version, memory policy, evictions, the time.
    pub async fn about(&self) -> Result<About, StoreError> {
        let text: String = self.ask(Call::Command(redis::cmd("INFO")), self.deadline()).await?;
        let (seconds, micros): (u64, u64) = self.ask(Call::Command(redis::cmd("TIME")), self.deadline()).await?;
        let clock = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
        let about = About { clock: Some(clock), ..About::parse(&text) };
        self.scripts_only.fetch_or(about.is_before_7(), Ordering::Relaxed);
        Ok(about)
    }

    async fn read_until(&self, key: &str, deadline: Instant) -> Result<Option<Held>, StoreError> {
        let held: Option<(Bytes, i64)> = self.ask(Call::Script(READ.key(key)), deadline).await?;
        // Negative where somebody has taken the key's end away.
        let left = |millis: i64| u64::try_from(millis).map_or(FOR_EVER, Duration::from_millis);
        Ok(held.map(|(value, millis)| Held { value, left: left(millis) }))
    }
}

impl Cells for RedisCells {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let deadline = self.deadline();
        let mut command = redis::cmd("SET");
        command.arg(key).arg(&value[..]).arg("NX").arg("GET").arg("EX").arg(seconds(life));
        let held = match self.ask_or_script(command, || put_script(&PUT_NEW, key, &value, life), deadline).await {
            // A full server refuses the command also where the cell is taken.
            Err(error) if error.is_full() => Some(self.read_until(key, deadline).await?.ok_or(error)?.value),
            held => held?,
        };
        Ok(held.filter(|held| *held != value))
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let deadline = self.deadline();
        let mut command = redis::cmd("SET");
        command.arg(key).arg(&value[..]).arg("GET").arg("EX").arg(seconds(life));
        let before = self.ask_or_script(command, || put_script(&PUT.plain, key, &value, life), deadline).await;
        let when_full = || Call::Script(put_script(&PUT.when_full, key, &value, life));
        self.ask_when_full(before, when_full, deadline).await
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        let deadline = self.deadline();
        let answer: Result<Vec<Value>, _> = self.ask(Call::Script(swap_script(&SWAP.plain, key, &change)), deadline).await;
        let when_full = || Call::Script(swap_script(&SWAP.when_full, key, &change));
        let mut answer = self.ask_when_full(answer, when_full, deadline).await?.into_iter();
        let (code, rest) = (answer.next().unwrap_or(Value::Nil), answer.next().unwrap_or(Value::Nil));
        Ok(match read::<u8>(code)? {
            0 => Swapped::Written,
            1 => Swapped::Young(Duration::from_millis(read(rest)?)),
            _ => Swapped::Differs(read(rest)?),
        })
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        let mut script = TOUCH.key(key);
        script.arg(&value[..]).arg(millis(life).max(1));
        self.ask(Call::Script(script), self.deadline()).await
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        self.read_until(key, self.deadline()).await
    }

    async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<Step, StoreError> {
        let mut scan = redis::cmd("SCAN");
        let from = from.map_or_else(|| "0".to_owned(), |Cursor(place)| place);
        scan.arg(from).arg("MATCH").arg(format!("{}*", escape_glob(prefix))).arg("COUNT").arg(SCAN_STEP);
        let (next, keys): (String, Vec<Vec<u8>>) = self.ask(Call::Command(scan), self.deadline()).await?;
        let deadline = self.deadline();
        // A key that is not text is somebody else's. The reads share the connection, and with it their writes.
        let keys = keys.into_iter().filter_map(|key| String::from_utf8(key).ok());
        let reading = keys.map(async |key| (self.read_until(&key, deadline).await, key));
        let mut cells = Vec::new();
        for (held, key) in join_all(reading).await {
            match held {
                Ok(held) => cells.extend(held.map(|held| (key, held))),
                Err(error) if error.kind == StoreErrorKind::Foreign => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Step { cells, next: (next != "0").then_some(Cursor(next)) })
    }

    /// One try, and a short one. Neither GET nor a script, so that the server's own counts of those are of deliveries.
    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        let mut link = self.link.clone();
        let mut command = redis::cmd("GETRANGE");
        command.arg(marker).arg(0).arg(-1);
        match timeout(PULSE_WAIT.min(self.budget), Call::Command(command).send(&mut link)).await {
            Ok(answer) => Ok(Some(read::<Bytes>(answer.map_err(store_error)?)?).filter(|value| !value.is_empty())),
            Err(_) => Err(StoreError::new(StoreErrorKind::Timeout, "no sign of life")),
        }
    }
}

fn put_script(script: &'static Script, key: &str, value: &Bytes, life: Duration) -> ScriptInvocation<'static> {
    let mut call = script.key(key);
    call.arg(&value[..]).arg(seconds(life));
    call
}

fn swap_script(script: &'static Script, key: &str, change: &Change) -> ScriptInvocation<'static> {
    let mut call = script.key(key);
    call.arg(&change.from[..]).arg(&change.to[..]).arg(millis(change.life).max(1));
    match change.at_age {
        Some(age) => call.arg(millis(age.life)).arg(millis(age.least)),
        None => call.arg("").arg(""),
    };
    call
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

/// Whether the same call may succeed a moment later.
fn may_pass(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly | ServerErrorKind::TryAgain
        ),
        _ => false,
    }
}

fn store_error(error: RedisError) -> StoreError {
    let kind = if error.is_timeout() {
        StoreErrorKind::Timeout
    } else if error.kind() == ErrorKind::Io {
        StoreErrorKind::Unreachable
    } else if may_pass(&error) {
        StoreErrorKind::NotReady
    } else if error.to_string().contains("WRONGTYPE") {
        // Before 7.0 the code of an error in a script is that of the script.
        StoreErrorKind::Foreign
    } else {
        StoreErrorKind::Refused
    };
    StoreError::new(kind, error)
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

/// What INFO tells that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub version: String,
    pub policy: String,
    pub maxmemory: u64,
    pub evicted_keys: u64,
    /// Another one after a restart, and after a failover.
    pub run_id: String,
    /// Its clock, a moment ago.
    pub clock: Option<SystemTime>,
}

impl About {
    fn parse(info: &str) -> Self {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim();
        Self {
            version: field("redis_version").to_owned(),
            policy: field("maxmemory_policy").to_owned(),
            maxmemory: field("maxmemory").parse().unwrap_or(0),
            evicted_keys: field("evicted_keys").parse().unwrap_or(0),
            run_id: field("run_id").to_owned(),
            clock: None,
        }
    }

    /// Whether the server throws keys away when its memory is full: events would be forgotten in silence.
    pub fn evicts(&self) -> bool {
        self.maxmemory > 0 && self.policy != "noeviction" && !self.policy.is_empty()
    }

    /// Whether it knows `SET NX GET`.
    pub fn is_before_7(&self) -> bool {
        self.version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < 7)
    }
}
