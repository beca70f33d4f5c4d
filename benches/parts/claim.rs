//! Claims on each store: a new event from its claim to its completion, and a copy of one that is done.
//!
//! By one runtime of one thread, as each core has in the program: one event after the other, or 64 callers that each go on
//! with their next event as soon as they may, where the time is that of 64 events. Redis keeps nothing on disk here; `file:`
//! syncs the disk under `target`.

#[allow(dead_code, reason = "shared with tests, which need more of it")]
#[path = "../../tests/support/redis.rs"]
mod redis;

use std::cell::LazyCell;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, measurement::WallTime};
use futures_util::future::join_all;
use hookonce::config::{Fingerprint, RedisUrl};
use hookonce::pipeline::identify::{EventId, EventKey, fingerprint};
use hookonce::store::entry::now;
use hookonce::store::file::FileCells;
use hookonce::store::memory::MemoryCells;
use hookonce::store::redis::{RedisCells, RedisServer};
use hookonce::store::{AnyCells, ClaimOutcome, Completed, Store, Terms, done};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use self::redis::RedisProcess;

/// Long enough for a busy machine: a claim that is late shall be measured, not refused.
const BUDGET: Duration = Duration::from_secs(5);

/// Made once, so that the digest of a body is not part of a claim.
static TERMS: LazyLock<Terms> = LazyLock::new(|| Terms {
    lease: Duration::from_secs(30),
    retention: Duration::from_secs(259_200),
    body: fingerprint(&Fingerprint::Body, b"{}"),
    body_matters: true,
    doubt: None,
});

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("claim");
    // Each sample is as long as the others: stores grow while they are measured.
    group.sampling_mode(SamplingMode::Flat);
    on(&mut group, "memory", || Bed::new(async || Under::Memory));
    on(&mut group, "file", || Bed::new(Under::file));
    if has_redis() {
        on(&mut group, "redis", || Bed::new(Under::redis));
    } else {
        eprintln!("claim/redis is left out: there is no redis-server");
    }
    group.finish();
}

fn has_redis() -> bool {
    Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok()
}

fn on(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, open: fn() -> Bed) {
    for (callers, how) in [(1, "one at a time"), (64, "64 at once")] {
        group.throughput(Throughput::Elements(callers as u64));
        // Opened by the first sample, since a filter may leave all of them out.
        let bed = LazyCell::new(open);
        group.bench_function(format!("{name}/new and completed/{how}"), |bencher| {
            bencher.iter_custom(|rounds| {
                let keys = (0..callers).map(|_| (0..rounds).map(|_| new_key()).collect()).collect();
                bed.time(&bed.store(), keys, complete)
            });
        });
        drop(bed);
        let known = LazyCell::new(|| Known::new(open(), callers));
        group.bench_function(format!("{name}/done/{how}"), |bencher| {
            bencher.iter_custom(|rounds| {
                let keys = known.keys.iter().map(|key| (0..rounds).map(|_| key.clone()).collect()).collect();
                known.bed.time(&known.store, keys, find_done)
            });
        });
    }
}

/// Claims a new event and completes it, as when the consumer has accepted it at once.
async fn complete(store: &Store, key: &EventKey) {
    let ClaimOutcome::Claimed { claim, .. } = store.claim(key, &TERMS).await.unwrap() else { panic!("{key:?} is not new") };
    let completed = store.complete(&claim, done(&claim, 200, now(), None)).await.unwrap();
    assert_eq!(completed, Completed::Own);
}

async fn find_done(store: &Store, key: &EventKey) {
    let outcome = store.claim(key, &TERMS).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Done(_)), "{outcome:?}");
}

/// The key of an event that was never claimed.
fn new_key() -> EventKey {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = format!("evt_{:024}", COUNT.fetch_add(1, Ordering::Relaxed));
    EventKey::new("bench", "orders", &EventId::parse(&id).unwrap())
}

/// Where claims are timed.
struct Bed {
    runtime: Runtime,
    under: Under,
}

/// What keeps the cells, as long as it is measured.
enum Under {
    Memory,
    File(FileCells, #[expect(dead_code, reason = "removed when dropped")] TempDir),
    Redis(RedisCells, #[expect(dead_code, reason = "killed when dropped")] RedisProcess),
}

impl Under {
    async fn file() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self::File(FileCells::open(&directory.path().join("store")).unwrap().with_budget(BUDGET), directory)
    }

    async fn redis() -> Self {
        let process = RedisProcess::start();
        let server = RedisServer::new(&RedisUrl::parse(&process.url()).unwrap(), None, BUDGET).unwrap();
        Self::Redis(server.connect(), process)
    }
}

impl Bed {
    /// Opened on its own runtime, which connections belong to.
    fn new(open: impl AsyncFnOnce() -> Under) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let under = runtime.block_on(open());
        Self { runtime, under }
    }

    /// The store as the program has it. Memory begins empty: millions of events of one run would fill the machine's.
    fn store(&self) -> Store {
        let cells = match &self.under {
            Under::Memory => AnyCells::Memory(MemoryCells::default()),
            Under::File(cells, _) => AnyCells::File(cells.clone()),
            Under::Redis(cells, _) => AnyCells::Redis(cells.clone()),
        };
        Store::new(cells.into())
    }

    /// How long it takes until each caller has done so with each of its keys, one after the other.
    fn time(&self, store: &Store, keys: Vec<Vec<EventKey>>, deal: impl AsyncFn(&Store, &EventKey)) -> Duration {
        let caller = async |keys: &Vec<EventKey>| {
            for key in keys {
                deal(store, key).await;
            }
        };
        self.runtime.block_on(async {
            let began = Instant::now();
            join_all(keys.iter().map(caller)).await;
            began.elapsed()
        })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Under::File(cells, _) = &self.under {
            // Otherwise the directory would be removed under the hands of the store's threads.
            self.runtime.block_on(cells.close()).unwrap();
        }
    }
}

/// A store that knows some events to be done.
struct Known {
    bed: Bed,
    store: Store,
    keys: Vec<EventKey>,
}

impl Known {
    fn new(bed: Bed, count: usize) -> Self {
        let (store, keys): (_, Vec<_>) = (bed.store(), (0..count).map(|_| new_key()).collect());
        bed.time(&store, vec![keys.clone()], complete);
        Self { bed, store, keys }
    }
}
