//! Keys that are somewhere else now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hookonce::pipeline::identify::EventKey;
use hookonce::store::cells::Cells;
use hookonce::store::redis::RedisCells;
use hookonce::store::{ClaimOutcome, Completed, Cursor, Released, Store, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::cluster::Cluster;
use crate::support::redis::{RedisProcess, wait_until};
use crate::support::rights::{LOGIN, Line, grant};
use crate::support::traffic::{Traffic, is_outage};
use crate::support::{LONG_LEASE, RETENTION, SLACK, accepted, event_key, first_claim, key_named, next_claim, store_at, terms};

const BUDGET: Duration = Duration::from_secs(1);
/// From the moment that the new master is known.
const RESUMES_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn service_resumes_soon_after_a_replica_has_taken_over() {
    let mut cluster = Cluster::start().await;
    let store = store_at(&cluster.url(), BUDGET);
    let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    cluster.in_sync().await;
    let traffic = Traffic::start(&store);
    traffic.succeeds_after(Instant::now()).await;

    let key = claim.key.as_str().to_owned();
    let old = cluster.kill_master_of(&key).await;
    let killed = Instant::now();
    cluster.await_new_master_of(&key, old).await;
    let known = Instant::now();
    loop {
        let renewed = store.renew(&claim).await;
        let took = known.elapsed();
        assert!(took < RESUMES_WITHIN, "{renewed:?} {took:?} after it was known, which was {:?} after the kill", known - killed);
        if renewed.is_ok_and(|is_held| is_held) {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    for one in traffic.tries() {
        assert!(one.took <= BUDGET + SLACK, "{:?}", one.took);
        assert!(one.error.as_ref().is_none_or(is_outage), "{:?}", one.error);
    }
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
    traffic.succeeds_after(Instant::now()).await;
}

/// A key on a master, found by trying.
async fn key_on(cluster: &Cluster, port: u16) -> EventKey {
    loop {
        let key = event_key();
        if cluster.master_port_of(key.as_str()).await == port {
            return key;
        }
    }
}

#[tokio::test]
async fn a_frozen_master_costs_the_keys_of_others_nothing() {
    // Longer than the test: nobody takes over.
    let cluster = Cluster::start_with(&["--cluster-node-timeout", "60000"]).await;
    let cells = store_at(&cluster.url(), BUDGET).cells().clone();
    let [frozen, well] = [&cluster.nodes[2], &cluster.nodes[1]];
    let (lost, found) = (key_on(&cluster, frozen.port()).await, key_on(&cluster, well.port()).await);
    for key in [&lost, &found] {
        cells.put(key.as_str(), Bytes::from_static(b"x"), RETENTION).await.unwrap();
    }
    frozen.signal("STOP");
    let mut waiting = JoinSet::new();
    for _ in 0..64 {
        let (cells, lost) = (cells.clone(), lost.clone());
        waiting.spawn(async move { (Instant::now(), cells.read(lost.as_str()).await, Instant::now()) });
    }
    let mut slowest = Duration::ZERO;
    while !waiting.is_empty() {
        let began = Instant::now();
        assert!(cells.read(found.as_str()).await.unwrap().is_some());
        slowest = slowest.max(began.elapsed());
        while let Some(ended) = waiting.try_join_next() {
            let (began, answer, ended) = ended.unwrap();
            assert_eq!(answer.unwrap_err().kind, StoreErrorKind::Timeout);
            assert!(ended - began <= BUDGET + SLACK, "{:?}", ended - began);
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert!(slowest < SLACK, "{slowest:?}");
    frozen.signal("CONT");
    wait_until("the frozen one's answer", async || cells.read(lost.as_str()).await.is_ok_and(|held| held.is_some())).await;
}

/// Claims and settles events of one slot, sixteen at a time, while something is done to it. All of it must go well.
async fn events_flow(store: &Store<RedisCells>, tag: &'static str, meanwhile: impl Future<Output = ()>) -> usize {
    let mut workers = JoinSet::new();
    let is_over = Arc::new(AtomicBool::new(false));
    for worker in 0..16 {
        let (store, is_over) = (store.clone(), Arc::clone(&is_over));
        workers.spawn(async move {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                let key = key_named(&format!("test:{{{tag}}}:evt_{worker}_{count}"));
                let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
                assert!(store.renew(&claim).await.unwrap());
                assert_eq!(store.fail(&claim, Some(500), None).await.unwrap(), Released::Released);
                let (claim, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
                assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
                assert!(matches!(store.claim(&key, &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
                count += 1;
            }
            count
        });
    }
    meanwhile.await;
    is_over.store(true, Ordering::Relaxed);
    workers.join_all().await.into_iter().sum()
}

#[tokio::test]
async fn a_slot_moves_under_the_hands_of_deliveries() {
    let cluster = Cluster::start().await;
    for node in &cluster.nodes {
        grant(node, Line::OfCluster).await;
    }
    let store = store_at(&format!("redis+cluster://{LOGIN}@{}", cluster.addresses()), BUDGET);
    let tag = "orders";
    let slot = cluster.slot_of("{orders}").await;
    let from = cluster.node_at(cluster.master_port_of("{orders}").await);
    let to = cluster.nodes[..3].iter().find(|node| node.port() != from.port()).unwrap();
    let counted = async |node: &RedisProcess| node.ask::<usize>(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).await;
    let some_more = async |node: &RedisProcess| {
        let before = counted(node).await;
        wait_until("more events", async || counted(node).await > before + 50).await;
    };
    let events = events_flow(&store, tag, async {
        some_more(from).await;
        // From here on new keys are ASKed for at the other one, while it is this one that has the slot.
        cluster.begin_move(&slot, from, to).await;
        some_more(to).await;
        cluster.finish_move(&slot, from, to).await;
        some_more(to).await;
    })
    .await;
    assert_eq!(counted(to).await, events, "no event is anywhere else");
}

/// Many calls share the connection: each must be asked for once, and none with another's ASKING.
#[tokio::test]
async fn a_key_on_its_way_costs_one_way_more() {
    let cluster = Cluster::start().await;
    let cells = store_at(&cluster.url(), BUDGET).cells().clone();
    let slot = cluster.slot_of("{orders}").await;
    let from = cluster.node_at(cluster.master_port_of("{orders}").await);
    let to = cluster.nodes[..3].iter().find(|node| node.port() != from.port()).unwrap();
    cluster.begin_move(&slot, from, to).await;
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let cells = cells.clone();
        callers.spawn(async move {
            for number in 0..10 {
                let key = format!("test:{{orders}}:evt_{caller}_{number}");
                assert_eq!(cells.put_new(&key, Bytes::from_static(b"x"), RETENTION).await.unwrap(), None);
            }
        });
    }
    callers.join_all().await;
    let asked: String = to.ask(&["INFO", "commandstats"]).await;
    assert!(asked.contains("cmdstat_asking:calls=640,"), "{asked}");
    let refused: String = to.ask(&["INFO", "errorstats"]).await;
    assert!(!refused.contains("MOVED"), "{refused}");
}

#[tokio::test]
async fn a_lost_slot_is_not_ready_and_comes_back() {
    let cluster = Cluster::start_with(&["--cluster-require-full-coverage", "no"]).await;
    let cells = store_at(&cluster.url(), BUDGET).cells().clone();
    cells.put("lost", Bytes::from_static(b"x"), RETENTION).await.unwrap();
    let slot = cluster.slot_of("lost").await;
    let port = cluster.master_port_of("lost").await;
    for node in &cluster.nodes {
        let _: Result<(), _> = node.try_ask(&["CLUSTER", "DELSLOTS", &slot]).await;
    }
    let began = Instant::now();
    let error = cells.read("lost").await.unwrap_err();
    assert!(began.elapsed() <= BUDGET + SLACK, "{:?}", began.elapsed());
    assert_eq!(error.kind, StoreErrorKind::NotReady, "{error}");
    let () = cluster.node_at(port).ask(&["CLUSTER", "ADDSLOTS", &slot]).await;
    wait_until("the slot", async || cells.read("lost").await.is_ok()).await;
}

#[tokio::test]
async fn a_walk_goes_over_all_masters_and_ends_where_they_change() {
    let cluster = Cluster::start().await;
    let cells = store_at(&cluster.url(), BUDGET).cells().clone();
    let names: BTreeSet<String> = (0..300).map(|number| format!("walk:{number}")).collect();
    for name in &names {
        cells.put(name, Bytes::from_static(b"x"), RETENTION).await.unwrap();
    }
    let (mut found, mut from) = (BTreeSet::new(), None);
    loop {
        let step = cells.walk("walk:", from).await.unwrap();
        found.extend(step.cells.into_iter().map(|(key, _)| key));
        from = step.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found, names);

    let begun = cells.walk("walk:", None).await.unwrap().next;
    assert!(begun.is_some(), "there is more than one master");
    let [from, to] = [&cluster.nodes[0], &cluster.nodes[1]];
    cluster.begin_move("0", from, to).await;
    cluster.finish_move("0", from, to).await;
    // The scout sees it by itself: no key of that slot is asked for.
    let changed = async || cells.walk("walk:", begun.clone()).await.is_err_and(|error| error.kind == StoreErrorKind::Refused);
    wait_until("a walk that is told to begin again", changed).await;
    let other = Some(Cursor("not ours".to_owned()));
    let error = cells.walk("walk:", other).await.unwrap_err();
    // The servers serve: whoever asks in a wrong way must not make deliveries believe that they do not.
    assert!(!error.is_outage(), "{error}");
}

#[tokio::test]
async fn all_masters_tell_of_themselves() {
    let mut cluster = Cluster::start().await;
    let cells = store_at(&cluster.url(), BUDGET).cells().clone();
    let before = cells.about().await.unwrap();
    assert_eq!(before.run_id.split('+').count(), 3, "{before:?}");
    assert_eq!(cells.about().await.unwrap().run_id, before.run_id);
    assert!(!before.evicts() && !before.is_before_7() && before.clock.is_some(), "{before:?}");
    for words in [["CONFIG", "SET", "maxmemory", "100mb"], ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]] {
        let () = cluster.nodes[1].ask(&words).await;
    }
    assert!(cells.about().await.unwrap().evicts(), "one is enough");

    cluster.in_sync().await;
    let old = cluster.kill_master_of("key").await;
    cluster.await_new_master_of("key", old).await;
    let changed = async || cells.about().await.is_ok_and(|about| about.run_id != before.run_id);
    wait_until("the run id of the new master", changed).await;
}

#[tokio::test]
async fn any_server_of_the_cluster_leads_to_all_of_it() {
    let cluster = Cluster::start().await;
    let replica = &cluster.nodes[5];
    let store = store_at(&format!("redis+cluster://127.0.0.1:1,{}", replica.address()), BUDGET);
    for _ in 0..20 {
        let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
        assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
    }
}

#[tokio::test]
async fn a_server_without_a_cluster_is_refused() {
    let process = RedisProcess::start();
    let store = store_at(&format!("redis+cluster://{}", process.address()), BUDGET);
    let error = store.cells().read("key").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused);
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
}
