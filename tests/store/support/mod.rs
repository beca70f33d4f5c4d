//! Stores to test, each with what it needs to run.

pub mod child;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../../support/cluster.rs"]
pub mod cluster;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../../support/fault_proxy.rs"]
pub mod fault_proxy;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../../support/redis.rs"]
pub mod redis;
pub mod rights;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../../support/sentinel.rs"]
pub mod sentinel;
pub mod traffic;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hookonce::config::{Fingerprint, RedisUrl, Secret};
use hookonce::pipeline::identify::{BodyDigest, EventId, EventKey, fingerprint};
use hookonce::store::backlog::Backlog;
use hookonce::store::cells::Cells;
use hookonce::store::entry::now;
use hookonce::store::file::FileCells;
use hookonce::store::memory::MemoryCells;
use hookonce::store::redis::{RedisCells, RedisServer};
use hookonce::store::seal::{Seal, Sealed};
use hookonce::store::{Claim, ClaimOutcome, Done, Earlier, Store, StoredReply, Terms, done};
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use self::cluster::Cluster;
use self::redis::RedisProcess;
use self::rights::{LOGIN, Line, grant};
use self::sentinel::{SERVICE, Sentinels};

/// Short enough not to wait for long, long enough for what a test does meanwhile on a busy machine.
pub const LEASE: Duration = Duration::from_millis(300);
pub const LONG_LEASE: Duration = Duration::from_secs(60);
pub const RETENTION: Duration = Duration::from_secs(600);
/// How exactly stores count: their clocks tick in milliseconds.
pub const TICK: Duration = Duration::from_millis(2);
/// The longest a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// What scheduling may add to a budget.
pub const SLACK: Duration = Duration::from_millis(500);
/// What a call of a Redis store may take.
pub const BUDGET: Duration = Duration::from_secs(2);

pub trait Fixture: Sync + Sized {
    type Cells: Cells + Backlog + Clone + Send + Sync + 'static;
    /// What a letter takes beside its content.
    const SEAL_BYTES: u64 = 0;

    async fn open() -> Self;

    /// The store, for the runtime that asks.
    fn store(&self) -> Store<Self::Cells>;

    async fn close(self) {}
}

pub struct Memory(MemoryCells);

impl Fixture for Memory {
    type Cells = MemoryCells;

    async fn open() -> Self {
        Self(MemoryCells::default())
    }

    fn store(&self) -> Store<MemoryCells> {
        Store::new(self.0.clone())
    }
}

/// The seal of the tests.
pub fn seal() -> Arc<Seal> {
    Arc::new(Seal::new(&Secret::new("a secret that only we know")).unwrap())
}

pub struct SealedMemory(MemoryCells);

impl Fixture for SealedMemory {
    type Cells = Sealed<MemoryCells>;
    const SEAL_BYTES: u64 = 25;

    async fn open() -> Self {
        Self(MemoryCells::default())
    }

    fn store(&self) -> Store<Sealed<MemoryCells>> {
        Store::new(Sealed::new(self.0.clone(), Some(seal())))
    }
}

pub struct File {
    cells: FileCells,
    _directory: TempDir,
}

impl Fixture for File {
    type Cells = FileCells;

    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { cells: FileCells::open(&directory.path().join("store")).unwrap(), _directory: directory }
    }

    fn store(&self) -> Store<FileCells> {
        Store::new(self.cells.clone())
    }

    async fn close(self) {
        // Otherwise the directory would be removed under the hands of the store's threads.
        self.cells.close().await.unwrap();
    }
}

pub struct Redis {
    server: RedisServer,
    pub process: RedisProcess,
}

impl Fixture for Redis {
    type Cells = RedisCells;

    async fn open() -> Self {
        let process = RedisProcess::start();
        Self { server: server_at(&process.url(), BUDGET), process }
    }

    fn store(&self) -> Store<RedisCells> {
        Store::new(self.server.connect())
    }
}

pub struct SealedRedis(Redis);

impl Fixture for SealedRedis {
    type Cells = Sealed<RedisCells>;
    const SEAL_BYTES: u64 = 25;

    async fn open() -> Self {
        Self(Redis::open().await)
    }

    fn store(&self) -> Store<Sealed<RedisCells>> {
        Store::new(Sealed::new(self.0.server.connect(), Some(seal())))
    }
}

/// Redis, as for a server that is too old for the plain commands.
pub struct RedisWithScriptsOnly(Redis);

impl Fixture for RedisWithScriptsOnly {
    type Cells = RedisCells;

    async fn open() -> Self {
        let Redis { server, process } = Redis::open().await;
        Self(Redis { server: server.with_scripts_only(), process })
    }

    fn store(&self) -> Store<RedisCells> {
        self.0.store()
    }
}

/// Redis, as a user with the rights that the documentation gives.
pub struct RedisWithLeastRights(Redis);

impl Fixture for RedisWithLeastRights {
    type Cells = RedisCells;

    async fn open() -> Self {
        let process = RedisProcess::start();
        grant(&process, Line::Server).await;
        grant(&process, Line::Queue).await;
        let server = server_at(&format!("redis://{LOGIN}@{}", process.address()), BUDGET);
        Self(Redis { server, process })
    }

    fn store(&self) -> Store<RedisCells> {
        self.0.store()
    }
}

/// Redis behind Sentinels, shared by the tests that run at one time: it takes a while to start. As such a user too.
pub struct SentinelRedis {
    server: RedisServer,
    _group: Arc<Sentinels>,
}

impl Fixture for SentinelRedis {
    type Cells = RedisCells;

    async fn open() -> Self {
        static SHARED: Mutex<Weak<Sentinels>> = Mutex::const_new(Weak::new());
        let group = shared(&SHARED, async || {
            let group = Sentinels::start().await;
            for server in &group.servers {
                grant(server, Line::Server).await;
                grant(server, Line::Queue).await;
            }
            for sentinel in &group.sentinels {
                grant(sentinel, Line::Sentinel).await;
            }
            group
        })
        .await;
        let own = "sentinel_username=hookonce&sentinel_password=PASSWORD";
        let url = format!("redis+sentinel://{LOGIN}@{}/{SERVICE}?{own}", group.addresses());
        Self { server: server_at(&url, BUDGET), _group: group }
    }

    fn store(&self) -> Store<RedisCells> {
        Store::new(self.server.connect())
    }
}

/// A Cluster, shared as well, as such a user.
pub struct ClusterRedis {
    server: RedisServer,
    _cluster: Arc<Cluster>,
}

impl Fixture for ClusterRedis {
    type Cells = RedisCells;

    async fn open() -> Self {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::const_new(Weak::new());
        let cluster = shared(&SHARED, async || {
            let cluster = Cluster::start().await;
            for node in &cluster.nodes {
                grant(node, Line::OfCluster).await;
                grant(node, Line::Queue).await;
            }
            cluster
        })
        .await;
        let url = format!("redis+cluster://{LOGIN}@{}", cluster.addresses());
        Self { server: server_at(&url, BUDGET), _cluster: cluster }
    }

    fn store(&self) -> Store<RedisCells> {
        Store::new(self.server.connect())
    }
}

/// What other tests are using now, or one of its own. It ends with the last of them: nobody else would end it.
async fn shared<T>(at: &Mutex<Weak<T>>, start: impl AsyncFnOnce() -> T) -> Arc<T> {
    let mut held = at.lock().await;
    if let Some(shared) = held.upgrade() {
        return shared;
    }
    let started = Arc::new(start().await);
    *held = Arc::downgrade(&started);
    started
}

pub fn server_at(url: &str, budget: Duration) -> RedisServer {
    RedisServer::new(&RedisUrl::parse(url).unwrap(), None, budget).unwrap()
}

/// A store for the current runtime.
pub fn store_at(url: &str, budget: Duration) -> Store<RedisCells> {
    Store::new(server_at(url, budget).connect())
}

/// A key that no other test uses.
pub fn event_key() -> EventKey {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    key_named(&format!("test:orders:evt_{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// A key by its text, `namespace:provider:id`.
pub fn key_named(key: &str) -> EventKey {
    let parts: Vec<&str> = key.splitn(3, ':').collect();
    let made = EventKey::new(parts[0], parts[1], &EventId::parse(parts[2]).unwrap());
    assert_eq!(made.as_str(), key, "an id that is written out as it is");
    made
}

pub fn digest(body: &[u8]) -> BodyDigest {
    fingerprint(&Fingerprint::Body, body)
}

pub fn terms(lease: Duration) -> Terms {
    Terms { lease, retention: RETENTION, body: digest(b"{}"), body_matters: true, doubt: None }
}

/// A claim on a key that must be free.
pub async fn first_claim<C: Cells>(store: &Store<C>, key: &EventKey, terms: &Terms) -> Claim {
    match store.claim(key, terms).await.unwrap() {
        ClaimOutcome::Claimed { claim, earlier: Earlier::None } => {
            assert_eq!((claim.attempt(), claim.doubt()), (1, None));
            claim
        }
        other => panic!("{other:?}"),
    }
}

/// A claim on an event that is failed, or will be free once its lease is over.
pub async fn next_claim<C: Cells>(store: &Store<C>, key: &EventKey, terms: &Terms) -> (Claim, Earlier) {
    let until = Instant::now() + PATIENCE;
    loop {
        match store.claim(key, terms).await.unwrap() {
            ClaimOutcome::Claimed { claim, earlier } => return (claim, earlier),
            ClaimOutcome::InFlight { lease_left } if Instant::now() < until => sleep(lease_left).await,
            other => panic!("{other:?}"),
        }
    }
}

/// How the event of `claim` is recorded once the consumer has accepted it.
pub fn accepted(claim: &Claim) -> Done {
    done(claim, 200, whole_millis(), None)
}

pub fn accepted_with_reply(claim: &Claim, content_type: Option<&str>, body: &'static [u8]) -> Done {
    let reply = Box::new(StoredReply { content_type: content_type.map(str::to_owned), body: Bytes::from_static(body) });
    done(claim, 201, whole_millis(), Some(reply))
}

/// The time, as exactly as it is stored.
fn whole_millis() -> std::time::SystemTime {
    let since = now().duration_since(std::time::UNIX_EPOCH).unwrap();
    std::time::UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap())
}
