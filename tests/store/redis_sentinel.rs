//! A master that is another one now.

use std::time::Duration;

use hookonce::store::cells::Cells;
use hookonce::store::{Completed, StoreErrorKind};
use tokio::time::Instant;

use crate::support::redis::{RedisProcess, quiet_port, wait_until};
use crate::support::sentinel::{SERVICE, Sentinels};
use crate::support::traffic::{Traffic, is_outage};
use crate::support::{LONG_LEASE, SLACK, accepted, event_key, first_claim, store_at, terms};

const BUDGET: Duration = Duration::from_secs(1);
/// From the moment that the new master is known.
const RESUMES_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn service_resumes_soon_after_a_new_master_is_known() {
    let mut group = Sentinels::start().await;
    let store = store_at(&group.url(), BUDGET);
    let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    group.in_sync().await;
    let traffic = Traffic::start(&store);
    traffic.succeeds_after(Instant::now()).await;

    let killed = Instant::now();
    let old = group.kill_master().await;
    group.await_new_master(old).await;
    let known = Instant::now();
    let after = traffic.succeeds_after(known).await;
    assert!(after < RESUMES_WITHIN, "{after:?} after it was known, which was {:?} after the kill", known - killed);

    for one in traffic.tries() {
        assert!(one.took <= BUDGET + SLACK, "{:?}", one.took);
        assert!(one.error.as_ref().is_none_or(is_outage), "{:?}", one.error);
    }
    drop(traffic);
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own, "what was in sync is there");
}

#[tokio::test]
async fn a_frozen_master_is_left_for_the_new_one() {
    let group = Sentinels::start().await;
    let store = store_at(&group.url(), BUDGET);
    let traffic = Traffic::start(&store);
    traffic.succeeds_after(Instant::now()).await;
    let old = group.master().await;
    old.signal("STOP");
    group.await_new_master(old.port()).await;
    let after = traffic.succeeds_after(Instant::now()).await;
    assert!(after < RESUMES_WITHIN, "{after:?}");
    for one in traffic.tries() {
        assert!(one.took <= BUDGET + SLACK, "{:?}", one.took);
    }
    // It comes back as a master that knows nothing of the other: nobody must believe it.
    old.signal("CONT");
    wait_until("the old master following the new one", async || old.info("role").await.as_deref() == Some("slave")).await;
    traffic.succeeds_after(Instant::now()).await;
    let errors: Vec<_> = traffic.tries().into_iter().filter_map(|one| one.error).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[tokio::test]
async fn a_planned_failover_is_followed() {
    let group = Sentinels::start().await;
    let store = store_at(&group.url(), BUDGET);
    let traffic = Traffic::start(&store);
    traffic.succeeds_after(Instant::now()).await;
    let old = group.master_port().await;
    let () = group.sentinels[0].ask(&["SENTINEL", "FAILOVER", SERVICE]).await;
    group.await_new_master(old).await;
    let after = traffic.succeeds_after(Instant::now()).await;
    assert!(after < RESUMES_WITHIN, "{after:?}");
    for one in traffic.tries() {
        assert!(one.took <= BUDGET + SLACK, "{:?}", one.took);
    }
}

/// A master that is cut off from its Sentinels, though not from us, goes on answering.
#[tokio::test]
async fn a_master_that_was_replaced_is_left_though_it_answers() {
    let group = Sentinels::start().await;
    let store = store_at(&group.url(), BUDGET);
    let (old, key) = (group.master().await, event_key());
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    // As after a failover that the old master has not heard of: the Sentinels follow another one.
    let other = group.servers.iter().find(|server| server.port() != old.port()).unwrap();
    let () = other.ask(&["REPLICAOF", "NO", "ONE"]).await;
    let port = other.port().to_string();
    for sentinel in &group.sentinels {
        let () = sentinel.ask(&["SENTINEL", "REMOVE", SERVICE]).await;
        let () = sentinel.ask(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &port, "2"]).await;
    }
    assert_eq!(old.info("role").await.unwrap(), "master");
    wait_until("claims at the new master", async || {
        let key = event_key();
        first_claim(&store, &key, &terms(LONG_LEASE)).await;
        other.ask::<bool>(&["EXISTS", key.as_str()]).await
    })
    .await;
}

#[tokio::test]
async fn one_sentinel_that_is_behind_or_dead_is_outvoted() {
    let mut group = Sentinels::start().await;
    let (astray, master) = (RedisProcess::start(), group.master_port().await);
    let () = group.sentinels[0].ask(&["SENTINEL", "REMOVE", SERVICE]).await;
    let wrong = astray.port().to_string();
    let () = group.sentinels[0].ask(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &wrong, "2"]).await;
    let store = store_at(&group.url(), BUDGET);
    first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    assert_eq!(astray.ask::<u64>(&["DBSIZE"]).await, 0);

    group.sentinels[0].kill();
    let store = store_at(&group.url(), BUDGET);
    let key = event_key();
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let master = group.servers.iter().find(|server| server.port() == master).unwrap();
    assert!(master.ask::<bool>(&["EXISTS", key.as_str()]).await);
}

#[tokio::test]
async fn who_is_named_and_is_no_master_is_passed_over() {
    let master = RedisProcess::start();
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let mut addresses = Vec::new();
    let sentinels = [&replica, &master].map(|server| (RedisProcess::start_sentinel(&[]), server.port().to_string()));
    for (sentinel, port) in &sentinels {
        let () = sentinel.ask(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", port, "2"]).await;
        addresses.push(sentinel.address());
    }
    // Whose answer comes first is chance.
    for _ in 0..10 {
        let store = store_at(&format!("redis+sentinel://{}/{SERVICE}", addresses.join(",")), BUDGET);
        first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    }
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_is_refused_by_name() {
    let sentinel = RedisProcess::start_sentinel(&[]);
    let store = store_at(&format!("redis+sentinel://{}/payments", sentinel.address()), BUDGET);
    let error = store.cells().pulse("marker").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused);
    assert!(error.to_string().contains("\"payments\""), "{error}");
}

#[tokio::test]
async fn sentinels_that_are_not_there_are_an_outage() {
    let store = store_at(&format!("redis+sentinel://127.0.0.1:{}/orders", quiet_port()), BUDGET);
    let began = Instant::now();
    let error = store.cells().read("key").await.unwrap_err();
    assert!(began.elapsed() <= BUDGET + SLACK);
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
}
