//! What only a store behind a network promises: no call outlasts its budget, and a server that comes back is used.

use std::future::Future;
use std::time::Duration;

use hookonce::pipeline::identify::EventKey;
use hookonce::store::cells::Cells;
use hookonce::store::redis::RedisCells;
use hookonce::store::{Claim, ClaimOutcome, Completed, Forgotten, Mark, Released, Store, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::support::redis::RedisProcess;
use crate::support::{
    BUDGET, Fixture, LEASE, LONG_LEASE, PATIENCE, RETENTION, Redis, SLACK, accepted, event_key, first_claim, next_claim,
    server_at, store_at, terms,
};

const SHORT_BUDGET: Duration = Duration::from_millis(300);

/// A store whose calls give up soon.
fn impatient(process: &RedisProcess) -> Store<RedisCells> {
    store_at(&process.url(), SHORT_BUDGET)
}

/// The error of a call that must fail within its budget.
async fn fails_in_time<T, E>(call: impl Future<Output = Result<T, E>>) -> StoreErrorKind
where
    T: std::fmt::Debug,
    E: AsRef<StoreError>,
{
    let began = Instant::now();
    let kind = call.await.map_err(|error| error.as_ref().kind).unwrap_err();
    assert!(began.elapsed() <= SHORT_BUDGET + SLACK, "took {:?}", began.elapsed());
    let silent = [StoreErrorKind::Timeout, StoreErrorKind::Unreachable, StoreErrorKind::BreakerOpen];
    assert!(silent.contains(&kind), "{kind:?}");
    kind
}

/// Every operation, alone and with others, while the server does not answer.
async fn everything_fails_in_time(store: &Store<RedisCells>, claim: &Claim) {
    let (key, terms) = (event_key(), terms(LEASE));
    fails_in_time(store.claim(&key, &terms)).await;
    tokio::join!(
        fails_in_time(store.claim(&key, &terms)),
        fails_in_time(store.complete(claim, accepted(claim))),
        fails_in_time(store.fail(claim, None, None)),
        fails_in_time(store.renew(claim)),
        fails_in_time(store.look(&claim.key)),
        fails_in_time(store.forget(&claim.key)),
        fails_in_time(store.find("", 10)),
        fails_in_time(store.pulse("marker")),
    );
    fails_in_time(store.pulse("marker")).await;
}

async fn works_again(store: &Store<RedisCells>) {
    let began = Instant::now();
    while let Err(error) = store.pulse("marker").await {
        assert!(began.elapsed() < PATIENCE, "{error}");
        sleep(Duration::from_millis(10)).await;
    }
    let key = event_key();
    let claim = first_claim(store, &key, &terms(LONG_LEASE)).await;
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
}

#[tokio::test]
async fn a_stopped_server_makes_calls_fail_in_time_and_is_used_again() {
    let process = RedisProcess::start();
    let store = impatient(&process);
    let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    process.signal("STOP");
    everything_fails_in_time(&store, &claim).await;
    process.signal("CONT");
    works_again(&store).await;
}

#[tokio::test]
async fn a_killed_server_makes_calls_fail_in_time_and_is_used_again() {
    let mut process = RedisProcess::start();
    let store = impatient(&process);
    let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    process.kill();
    everything_fails_in_time(&store, &claim).await;
    process.restart();
    works_again(&store).await;
}

#[tokio::test]
async fn a_server_that_is_down_at_the_start_is_used_once_it_is_up() {
    let mut process = RedisProcess::start();
    process.kill();
    let store = impatient(&process);
    fails_in_time(store.claim(&event_key(), &terms(LEASE))).await;
    process.restart();
    works_again(&store).await;
}

#[tokio::test]
async fn a_stop_that_is_shorter_than_the_budget_is_not_noticed() {
    let fixture = Redis::open().await;
    let (store, key) = (fixture.store(), event_key());
    store.pulse("marker").await.unwrap();
    fixture.process.signal("STOP");
    let terms = terms(LONG_LEASE);
    let (claim, ()) = tokio::join!(first_claim(&store, &key, &terms), async {
        // Longer than the first try has: the second one finds what the first one did.
        sleep(BUDGET * 3 / 4).await;
        fixture.process.signal("CONT");
    });
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_loaded_again() {
    let fixture = Redis::open().await;
    let store = fixture.store();
    for _ in 0..2 {
        let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
        assert!(store.renew(&claim).await.unwrap());
        assert_eq!(store.fail(&claim, None, None).await.unwrap(), Released::Released);
        let () = fixture.process.ask(&["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test]
async fn every_key_has_an_end() {
    let fixture = Redis::open().await;
    for store in [fixture.store(), scripts_only(&fixture.process)] {
        let key = event_key();
        let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
        ends(&fixture.process, &key).await;
        assert!(store.renew(&claim).await.unwrap());
        ends(&fixture.process, &key).await;
        store.fail(&claim, Some(500), None).await.unwrap();
        ends(&fixture.process, &key).await;
        let (claim, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
        ends(&fixture.process, &key).await;
        store.complete(&claim, accepted(&claim)).await.unwrap();
        ends(&fixture.process, &key).await;
        let seen = store.look(&key).await.unwrap().unwrap().entry;
        assert!(store.keep(&key, &seen, RETENTION).await.unwrap());
        ends(&fixture.process, &key).await;
        assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Forgotten);
        ends(&fixture.process, &key).await;
    }
    assert_eq!(fixture.process.ask::<u64>(&["DBSIZE"]).await, 2, "one key an event");
}

fn scripts_only(process: &RedisProcess) -> Store<RedisCells> {
    Store::new(server_at(&process.url(), BUDGET).with_scripts_only().connect())
}

async fn ends(process: &RedisProcess, key: &EventKey) {
    let left: i64 = process.ask(&["PTTL", key.as_str()]).await;
    let most = i64::try_from(RETENTION.as_millis()).unwrap();
    assert!(left > most - 10_000 && left <= most, "{left} ms");
}

#[tokio::test]
async fn a_value_of_another_type_is_foreign() {
    let fixture = Redis::open().await;
    for store in [fixture.store(), scripts_only(&fixture.process)] {
        let key = event_key();
        let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
        let () = fixture.process.ask(&["DEL", key.as_str()]).await;
        let () = fixture.process.ask(&["LPUSH", key.as_str(), "x"]).await;
        let kinds = [
            store.claim(&key, &terms(LEASE)).await.unwrap_err().error.kind,
            store.complete(&claim, accepted(&claim)).await.unwrap_err().kind,
            store.fail(&claim, None, None).await.unwrap_err().kind,
            store.renew(&claim).await.unwrap_err().kind,
            store.look(&key).await.unwrap_err().kind,
            store.forget(&key).await.unwrap_err().kind,
        ];
        assert_eq!(kinds, [StoreErrorKind::Foreign; 6]);
        assert!(store.find(key.as_str(), 10).await.unwrap().is_empty());
        assert_eq!(fixture.process.ask::<u64>(&["LLEN", key.as_str()]).await, 1, "left as it was");
    }
}

#[tokio::test]
async fn a_key_that_is_not_text_does_not_stop_a_search() {
    let (fixture, key) = (Redis::open().await, event_key());
    let store = fixture.store();
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let () = fixture.process.ask(&["EVAL", "return redis.call('SET', KEYS[1] .. '\\255', 'x')", "1", key.as_str()]).await;
    let found = store.find(key.as_str(), 10).await.unwrap();
    assert_eq!(found.into_iter().map(|found| found.key).collect::<Vec<_>>(), [key.as_str()]);
}

#[tokio::test]
async fn an_event_whose_end_was_taken_away_can_be_forgotten() {
    let (fixture, key) = (Redis::open().await, event_key());
    let store = fixture.store();
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.complete(&claim, accepted(&claim)).await.unwrap();
    let () = fixture.process.ask(&["PERSIST", key.as_str()]).await;
    assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Forgotten);
    assert_eq!(next_claim(&store, &key, &terms(LONG_LEASE)).await.0.doubt(), Some(Mark::Forgotten));
    ends(&fixture.process, &key).await;
}

#[tokio::test]
async fn the_password_is_in_no_error() {
    let process = RedisProcess::start();
    let url = format!("redis://somebody:hunter2@127.0.0.1:{}", process.port());
    let server = server_at(&url, SHORT_BUDGET);
    let cells = server.connect();
    let error = cells.pulse("marker").await.unwrap_err();
    assert!(!format!("{error} {error:?} {server:?} {cells:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn the_server_tells_of_itself() {
    let fixture = Redis::open().await;
    let about = fixture.store().cells().about().await.unwrap();
    assert!(about.version.starts_with(char::is_numeric), "{about:?}");
    assert!(!about.evicts(), "{about:?}");
    let () = fixture.process.ask(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    let () = fixture.process.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    assert!(fixture.store().cells().about().await.unwrap().evicts());
}

#[tokio::test]
async fn a_full_server_still_knows_duplicates_and_settles_claims() {
    let fixture = Redis::open().await;
    for store in [fixture.store(), scripts_only(&fixture.process)] {
        let keys = [event_key(), event_key(), event_key()];
        let mut claims = Vec::new();
        for key in &keys {
            claims.push(first_claim(&store, key, &terms(LONG_LEASE)).await);
        }
        store.complete(&claims[0], accepted(&claims[0])).await.unwrap();
        let () = fixture.process.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;

        let error = store.claim(&event_key(), &terms(LONG_LEASE)).await.unwrap_err().error;
        assert!(error.is_full(), "{error}");
        assert!(matches!(store.claim(&keys[0], &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
        assert!(matches!(store.claim(&keys[1], &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::InFlight { .. }));
        assert!(store.renew(&claims[1]).await.unwrap());
        assert_eq!(store.complete(&claims[1], accepted(&claims[1])).await.unwrap(), Completed::Own);
        assert_eq!(store.fail(&claims[2], Some(500), None).await.unwrap(), Released::Released);
        assert_eq!(next_claim(&store, &keys[2], &terms(LONG_LEASE)).await.0.attempt(), 2);
        let () = fixture.process.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    }
}
