//! Servers that answer, and cannot serve: each condition is told as what it is, in time, and passes.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use hookonce::pipeline::hold::Hold;
use hookonce::store::cells::{Cells, StoreError};
use hookonce::store::redis::RedisCells;
use hookonce::store::{AnyCells, ClaimOutcome, Completed, Released, Store, StoreErrorKind};
use hookonce::telemetry::Telemetry;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::support::fault_proxy::{Fault, FaultProxy, Way};
use crate::support::redis::{RedisProcess, wait_until};
use crate::support::{
    BUDGET, LONG_LEASE, PATIENCE, RETENTION, SLACK, accepted, event_key, first_claim, next_claim, server_at, store_at, terms,
};

const SHORT_BUDGET: Duration = Duration::from_millis(300);

fn cells_at(process: &RedisProcess) -> RedisCells {
    server_at(&process.url(), SHORT_BUDGET).connect()
}

async fn put(cells: &RedisCells) -> Result<Option<Bytes>, StoreError> {
    cells.put_new(event_key().as_str(), Bytes::from_static(b"x"), RETENTION).await
}

/// A write that must fail, with what the server said, and within its budget.
async fn not_ready(cells: &RedisCells, code: &str) {
    fails_in_time(put(cells), code).await;
}

async fn fails_in_time<T: std::fmt::Debug>(call: impl Future<Output = Result<T, StoreError>>, code: &str) {
    let began = Instant::now();
    let error = call.await.unwrap_err();
    assert!(began.elapsed() <= SHORT_BUDGET + SLACK, "took {:?}", began.elapsed());
    assert_eq!(error.kind, StoreErrorKind::NotReady, "{error}");
    assert!(error.to_string().contains(code), "{error}");
}

async fn serves(cells: &RedisCells) {
    wait_until("a write that succeeds", async || put(cells).await.is_ok()).await;
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_not_ready() {
    let mut process = RedisProcess::start();
    let filling = "for number = 1, 300 do redis.call('SET', 'key:' .. number, string.rep('x', 2000)) end";
    let () = process.ask(&["EVAL", filling, "0"]).await;
    let () = process.ask(&["CONFIG", "SET", "rdbcompression", "no"]).await;
    let () = process.ask(&["SAVE"]).await;
    process.kill();
    // Ten milliseconds a key.
    process.restart_loading(&["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"]);
    let cells = cells_at(&process);
    not_ready(&cells, "BusyLoading").await;
    serves(&cells).await;
}

#[tokio::test]
async fn a_replica_is_not_ready_until_it_is_a_master() {
    let master = RedisProcess::start();
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_until("the replica in sync", async || replica.info("master_link_status").await.as_deref() == Some("up")).await;
    let cells = cells_at(&replica);
    not_ready(&cells, "ReadOnly").await;
    let () = replica.ask(&["REPLICAOF", "NO", "ONE"]).await;
    serves(&cells).await;
}

#[tokio::test]
async fn a_replica_that_has_lost_its_master_is_not_ready() {
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no"]);
    let cells = cells_at(&replica);
    fails_in_time(cells.read("key"), "MasterDown").await;
    let () = replica.ask(&["REPLICAOF", "NO", "ONE"]).await;
    serves(&cells).await;
}

#[tokio::test]
async fn a_master_that_must_not_write_alone_is_not_ready() {
    let process = RedisProcess::start_with(&["--min-replicas-to-write", "1"]);
    let cells = cells_at(&process);
    not_ready(&cells, "NOREPLICAS").await;
    let () = process.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    serves(&cells).await;
}

#[tokio::test]
async fn a_server_that_cannot_save_is_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    let process = RedisProcess::start_with(&["--dir", directory.path().to_str().unwrap(), "--save", "3600 1"]);
    directory.close().unwrap();
    let _: Result<(), _> = process.try_ask(&["BGSAVE"]).await;
    wait_until("a save that failed", async || process.info("rdb_last_bgsave_status").await.as_deref() == Some("err")).await;
    let cells = cells_at(&process);
    not_ready(&cells, "MISCONF").await;
    let () = process.ask(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).await;
    serves(&cells).await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_not_ready() {
    let process = RedisProcess::start_with(&["--busy-reply-threshold", "50"]);
    let cells = cells_at(&process);
    serves(&cells).await;
    let endless = process.try_ask::<()>(&["EVAL", "while true do end", "0"]);
    let (_, ()) = tokio::join!(endless, async {
        wait_until("a busy server", async || put(&cells).await.is_err_and(|error| error.to_string().contains("BUSY"))).await;
        not_ready(&cells, "BUSY").await;
        let () = process.ask(&["SCRIPT", "KILL"]).await;
    });
    serves(&cells).await;
}

#[tokio::test]
async fn a_server_that_holds_its_clients_back_costs_no_more_than_the_budget() {
    let process = RedisProcess::start_with(&["--enable-debug-command", "local"]);
    let cells = cells_at(&process);
    cells.put("known", Bytes::from_static(b"x"), RETENTION).await.unwrap();
    for words in [&["CLIENT", "PAUSE", "1000", "WRITE"][..], &["CLIENT", "PAUSE", "1000", "ALL"], &["DEBUG", "SLEEP", "1"]] {
        let held_back = async {
            // From the first write on that gets no answer. What comes after it on the connection waits too.
            wait_until("a server that holds back", async || put(&cells).await.is_err()).await;
            let began = Instant::now();
            let (written, read, pulse) = tokio::join!(put(&cells), cells.read("known"), cells.pulse("known"));
            assert!(began.elapsed() <= SHORT_BUDGET + SLACK, "{words:?} took {:?}", began.elapsed());
            for kind in [written.unwrap_err().kind, read.unwrap_err().kind, pulse.unwrap_err().kind] {
                assert_eq!(kind, StoreErrorKind::Timeout, "{words:?}");
            }
        };
        // DEBUG SLEEP is answered when it is over; whether that is in time does not matter.
        tokio::join!(async { drop(process.try_ask::<()>(words).await) }, held_back);
        serves(&cells).await;
    }
}

/// What `SCRIPT FLUSH` costs is a way more, not a call.
#[tokio::test]
async fn scripts_may_be_forgotten_at_any_moment() {
    let process = RedisProcess::start();
    let store = store_at(&process.url(), BUDGET);
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        workers.spawn(async move {
            for _ in 0..50 {
                let key = event_key();
                let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
                assert!(store.renew(&claim).await.unwrap());
                assert_eq!(store.fail(&claim, None, None).await.unwrap(), Released::Released);
                let (claim, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
                assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
            }
        });
    }
    let mut flushes = 0;
    while !workers.is_empty() {
        let () = process.ask(&["SCRIPT", "FLUSH"]).await;
        flushes += 1;
        while let Some(ended) = workers.try_join_next() {
            ended.unwrap();
        }
    }
    assert!(flushes > 5, "{flushes}");
}

/// The first try's answer, or its way there, is lost; the second one knows its own token.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_recognised() {
    let process = RedisProcess::start();
    let network = FaultProxy::to(([127, 0, 0, 1], process.port()).into()).await;
    let store = store_at(&format!("redis://{}", network.address()), BUDGET);
    store.pulse("marker").await.unwrap();
    for lost in [Way::Back, Way::There] {
        let key = event_key();
        let terms = terms(LONG_LEASE);
        network.set(Fault::Lose(lost));
        let (claim, ()) = tokio::join!(first_claim(&store, &key, &terms), async {
            let is_stored = async || process.ask::<bool>(&["EXISTS", key.as_str()]).await;
            match lost {
                Way::Back => wait_until("the claim that is stored", is_stored).await,
                Way::There => {
                    sleep(BUDGET / 8).await;
                    assert!(!is_stored().await);
                }
            }
            network.heal();
        });
        assert!(matches!(store.claim(&key, &terms).await.unwrap(), ClaimOutcome::InFlight { .. }));
        assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
    }
}

/// A holder that counted from the answer would believe in its lease for longer than the store does.
#[tokio::test]
async fn a_lease_is_counted_from_when_it_was_asked_for_however_late_the_answer() {
    const LATE: Duration = Duration::from_millis(200);
    let process = RedisProcess::start();
    let network = FaultProxy::to(([127, 0, 0, 1], process.port()).into()).await;
    let cells = AnyCells::Redis(server_at(&format!("redis://{}", network.address()), BUDGET).connect());
    let store: Store = Store::new(cells.into());
    store.pulse("marker").await.unwrap();
    network.set(Fault::Delay(LATE));
    let claim = first_claim(&store, &event_key(), &terms(Duration::from_millis(1500))).await;
    assert!(claim.since() + LATE <= Instant::now());
    let (hold, telemetry) = (Hold::of(&claim, &store), Telemetry::new().unwrap());
    let before = hold.until();
    let renewed = async {
        while hold.until() == before {
            sleep(Duration::from_millis(1)).await;
        }
    };
    hold.during(pin!(timeout(PATIENCE, renewed)), &telemetry).await.unwrap();
    assert!(hold.until() + LATE <= Instant::now() + claim.lease());
}

#[tokio::test]
async fn a_user_that_is_made_later_is_welcome_then() {
    let (server, sentinel) = (RedisProcess::start(), RedisProcess::start_sentinel(&[]));
    let () = sentinel.ask(&["SENTINEL", "MONITOR", "orders", "127.0.0.1", &server.port().to_string(), "1"]).await;
    let login = "sentinel_username=late&sentinel_password=word";
    let urls = [
        format!("redis://late:word@{}", server.address()),
        format!("redis+sentinel://late:word@{}/orders?{login}", sentinel.address()),
    ];
    let all = urls.map(|url| server_at(&url, SHORT_BUDGET).connect());
    for cells in &all {
        for _ in 0..2 {
            assert_eq!(put(cells).await.unwrap_err().kind, StoreErrorKind::Refused);
        }
    }
    let user = ["ACL", "SETUSER", "late", "on", ">word", "+@all"];
    let () = sentinel.ask(&user).await;
    assert_eq!(put(&all[1]).await.unwrap_err().kind, StoreErrorKind::Refused);
    let () = server.ask(&[&user[..], &["~*"]].concat()).await;
    for cells in &all {
        serves(cells).await;
    }
}

/// As behind a name, or an address that is given to whichever server is the master.
#[tokio::test]
async fn a_server_that_is_no_longer_the_master_is_left_for_the_one_at_its_address() {
    let first = RedisProcess::start();
    let second = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &first.port().to_string()]);
    wait_until("the replica in sync", async || second.info("master_link_status").await.as_deref() == Some("up")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (master, at) = watch::channel(first.address());
    let mut carriers = JoinSet::new();
    carriers.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            let to = at.borrow().clone();
            open.spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                // Connections end as they like.
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let cells = server_at(&format!("redis://{address}"), SHORT_BUDGET).connect();
    serves(&cells).await;
    let () = second.ask(&["REPLICAOF", "NO", "ONE"]).await;
    let () = first.ask(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]).await;
    master.send_replace(second.address());
    serves(&cells).await;
    assert_eq!(first.info("role").await.unwrap(), "slave");
}
