//! Several instances deliver from one queue, and one of them, or a server of the store, is lost in the middle of its work.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce::store::backlog::Lane;
use tokio::task::JoinSet;

use crate::support::cluster::Cluster;
use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, stripe, stripe_with};

const EVENTS: usize = 500;
/// Events that the consumer has and does not answer: they are out when their instance is killed.
const HELD: usize = 16;
const CONCURRENT: usize = 32;
const SENDERS: usize = 8;

const QUEUE: &str = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"100ms\", \"100ms\", \"100ms\", \"100ms\", \"100ms\"]";

/// The lease is longer than a busy machine keeps anybody from renewing it.
fn setup(consumer: &Consumer, url: &str) -> Setup {
    let keys = format!("mode = \"queue\"\non_store_down = \"closed\"\nlease = \"3s\"\nmax_concurrent = {CONCURRENT}");
    in_front_of(consumer).store(url).top("workers = 2").table(QUEUE).stripe(&keys)
}

/// Works for 5 to 20 ms; on events that are to be held, when they first come, until the gate is opened.
async fn consumer(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    Consumer::deciding(move |seen, nth| match seen.event_id() {
        event if event.starts_with("held") && nth == 1 => Act::Behind(gate.clone(), Box::new(Act::Answer(200))),
        _ => Act::After(Duration::from_millis(5 + u64::from(seen.body[8]) % 16), Box::new(Act::Answer(200))),
    })
    .await
}

/// Waits until the consumer has all that it holds.
async fn are_held(consumer: &Consumer) {
    eventually("letters that are out", async || (consumer.seen().len() == HELD).then_some(())).await;
}

/// Senders that deliver events, each until it is acknowledged by whoever is there.
struct Load {
    sending: JoinSet<()>,
    /// In the order in which they were.
    acknowledged: Arc<Mutex<Vec<String>>>,
}

impl Load {
    fn of(events: usize, places: &[SocketAddr]) -> Self {
        let mut load = Self { sending: JoinSet::new(), acknowledged: Arc::default() };
        for sender in 0..SENDERS {
            let (places, acknowledged) = (places.to_vec(), Arc::clone(&load.acknowledged));
            load.sending.spawn(async move {
                for nth in (sender..events).step_by(SENDERS) {
                    let event = format!("e{nth}");
                    until_acknowledged(&stripe(&event), &places, nth).await;
                    acknowledged.lock().unwrap().push(event);
                }
            });
        }
        load
    }

    /// Waits until this many have been acknowledged.
    async fn has_come_to(&self, count: usize) {
        eventually("more events", async || (self.so_far().len() >= count).then_some(())).await;
    }

    fn so_far(&self) -> Vec<String> {
        self.acknowledged.lock().unwrap().clone()
    }

    async fn end(self) -> Vec<String> {
        self.sending.join_all().await;
        let mut acknowledged = self.acknowledged.lock().unwrap();
        std::mem::take(&mut *acknowledged)
    }
}

async fn until_acknowledged(delivery: &Delivery, places: &[SocketAddr], first: usize) {
    let next = AtomicUsize::new(first);
    eventually("an acknowledgement", async || {
        let to = places[next.fetch_add(1, Ordering::Relaxed) % places.len()];
        delivery.try_send(to).await.is_ok_and(|answer| answer.is_success()).then_some(())
    })
    .await;
}

/// How often each event has come, and how often without a mark. Whatever this consumer gets takes effect.
fn effects(consumer: &Consumer) -> BTreeMap<String, (usize, usize)> {
    let mut effects: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for seen in consumer.seen() {
        let (all, unmarked) = effects.entry(seen.event_id().to_owned()).or_default();
        *all += 1;
        *unmarked += usize::from(seen.mark().is_none());
    }
    effects
}

/// Waits until each of the events is done or, where that can be, lost; then the queue is empty, and nothing in it has died.
async fn emptied(instance: &Instance, events: &[String]) {
    for event in events {
        let request = Delivery::plain("GET", &format!("/api/events/stripe/{event}"));
        eventually(&format!("the end of {event}"), async || {
            let answer = request.send(instance.admin).await;
            (answer.status == 404 || (answer.status == 200 && answer.json()["state"] == "done")).then_some(())
        })
        .await;
    }
    eventually("an empty queue", async || {
        let metrics = instance.metrics().await;
        let left = ["hookonce_queue_events", "hookonce_dead_letters"].map(|name| metrics.value(name, &[("provider", "stripe")]));
        assert_eq!(left[1], 0.0);
        (left[0] == 0.0).then_some(())
    })
    .await;
}

fn assert_nothing_is_lost(effects: &BTreeMap<String, (usize, usize)>, acknowledged: &[String]) {
    let lost: Vec<_> = acknowledged.iter().filter(|id| !effects.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

fn assert_nothing_is_silent(effects: &BTreeMap<String, (usize, usize)>) {
    let silent: Vec<_> = effects.iter().filter(|(_, (_, unmarked))| *unmarked > 1).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// The first of two has letters out and others under its hands when it is killed; the second is left with all of it.
async fn one_of_two_is_killed(url: &str) {
    let consumer = consumer(&Gate::closed()).await;
    let setup = setup(&consumer, url);
    let mut first = Instance::start(&setup).await;
    for index in 0..HELD {
        assert_eq!(first.send(&stripe(&format!("held{index}"))).await.outcome(), "queued");
    }
    are_held(&consumer).await;
    let second = Instance::start(&setup).await;
    let load = Load::of(EVENTS, &[first.listen, second.listen]);
    load.has_come_to(EVENTS / 3).await;
    let of_the_first =
        first.metrics().await.value("hookonce_queue_attempts_total", &[("provider", "stripe"), ("result", "done")]);
    first.kill();
    let acknowledged = load.end().await;
    let held: Vec<_> = (0..HELD).map(|index| format!("held{index}")).collect();
    emptied(&second, &[&held[..], &acknowledged].concat()).await;

    let effects = effects(&consumer);
    assert_eq!((acknowledged.len(), effects.len()), (EVENTS, EVENTS + HELD));
    assert_nothing_is_lost(&effects, &acknowledged);
    assert_nothing_is_silent(&effects);
    assert!(held.iter().all(|event| effects[event] == (2, 1)), "{effects:?}");
    // Only what was out can be in doubt.
    let marked = consumer.seen().iter().filter(|seen| seen.mark() == Some("unknown")).count();
    assert!((HELD..=CONCURRENT).contains(&marked), "{marked}");
    let of_the_second =
        second.metrics().await.value("hookonce_queue_attempts_total", &[("provider", "stripe"), ("result", "done")]);
    assert!(of_the_first > 0.0 && of_the_second > 0.0, "{of_the_first} {of_the_second}");
    let doubled = effects.values().filter(|(all, _)| *all > 1).count();
    println!("{} events, {of_the_first} by the first before it was killed; {marked} marked, {doubled} twice", effects.len());
}

#[tokio::test]
async fn one_of_two_instances_is_killed_and_the_other_delivers_what_it_had() {
    let redis = RedisProcess::start();
    one_of_two_is_killed(&redis.url()).await;
}

#[tokio::test]
async fn one_of_two_instances_on_a_cluster_is_killed_and_the_other_delivers_what_it_had() {
    let cluster = Cluster::start().await;
    one_of_two_is_killed(&cluster.url()).await;
}

#[tokio::test]
async fn instances_that_are_restarted_in_order_deliver_everything_once_and_mark_nothing() {
    let (consumer, redis) = (consumer(&Gate::closed()).await, RedisProcess::start());
    let setup = setup(&consumer, &redis.url());
    let mut instances = [Instance::start(&setup).await, Instance::start(&setup).await];
    let next = [Instance::start(&setup).await, Instance::start(&setup).await];
    let places: Vec<_> = instances.iter().chain(&next).map(|instance| instance.listen).collect();
    let load = Load::of(EVENTS, &places);
    for (nth, instance) in instances.iter_mut().enumerate() {
        load.has_come_to(EVENTS / 4 * (nth + 1)).await;
        instance.stop().await;
    }
    let acknowledged = load.end().await;
    emptied(&next[0], &acknowledged).await;
    let effects = effects(&consumer);
    assert_nothing_is_lost(&effects, &acknowledged);
    assert!(effects.values().all(|effect| *effect == (1, 1)), "{effects:?}");
    assert!(consumer.seen().iter().all(|seen| seen.header("hookonce-attempt") == Some("1")));
}

/// Scripts that touch several keys have to wait until all of them are on one server again.
#[tokio::test]
async fn while_the_slot_of_a_queue_moves_its_events_are_put_off_and_none_is_lost() {
    let gate = Gate::closed();
    let (consumer, cluster) = (consumer(&gate).await, Cluster::start().await);
    let instance = Instance::start(&setup(&consumer, &cluster.url())).await;
    assert_eq!(instance.send(&stripe("held")).await.outcome(), "queued");
    consumer.arrived("held", 1).await;
    let lane = Lane::new("test", "stripe").prefix();
    let (slot, from) = (cluster.slot_of(&lane).await, cluster.node_at(cluster.master_port_of(&lane).await));
    let to = cluster.nodes[..3].iter().find(|node| node.port() != from.port()).unwrap();
    cluster.begin_move(&slot, from, to).await;
    let refused = instance.send(&stripe("e1")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
    cluster.finish_move(&slot, from, to).await;
    until_acknowledged(&stripe("e1"), &[instance.listen], 0).await;
    gate.open();
    emptied(&instance, &["held".to_owned(), "e1".to_owned()]).await;
    assert_eq!(effects(&consumer), BTreeMap::from([("e1".to_owned(), (1, 1)), ("held".to_owned(), (1, 1))]));
}

/// Of a letter that is settled while its line is on another server already, nothing is half done.
#[tokio::test]
async fn a_line_goes_on_after_its_slot_has_moved_under_it() {
    let gate = Gate::closed();
    let (consumer, cluster) = (consumer(&gate).await, Cluster::start().await);
    let setup = setup(&consumer, &cluster.url()).stripe("order_by = { json = \"/customer\" }");
    let instance = Instance::start(&setup).await;
    let of = |id: &str| stripe_with(format!("{{\"id\":\"{id}\",\"customer\":\"a\"}}"));
    for id in ["held", "e1", "e2"] {
        assert_eq!(instance.send(&of(id)).await.outcome(), "queued");
    }
    consumer.arrived("held", 1).await;
    let lane = Lane::new("test", "stripe").prefix();
    let (slot, from) = (cluster.slot_of(&lane).await, cluster.node_at(cluster.master_port_of(&lane).await));
    let to = cluster.nodes[..3].iter().find(|node| node.port() != from.port()).unwrap();
    cluster.begin_move(&slot, from, to).await;
    let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).await;
    let line = keys.iter().find(|key| key.contains(":line:")).unwrap();
    let () = from.ask(&["MIGRATE", "127.0.0.1", &to.port().to_string(), line, "0", "5000"]).await;
    gate.open();
    // It is told that the event is done, again and again, and cannot take it in.
    let is_tried = async || {
        let metrics = instance.metrics().await;
        let errors = |kind| metrics.value("hookonce_store_errors_total", &[("op", "finish"), ("kind", kind)]);
        (errors("not_ready") + errors("refused") > 0.0).then_some(())
    };
    eventually("a settlement that is refused", is_tried).await;
    cluster.finish_move(&slot, from, to).await;
    emptied(&instance, &["held", "e1", "e2"].map(str::to_owned)).await;
    let order: Vec<String> = consumer.seen().iter().map(|seen| seen.event_id().to_owned()).collect();
    assert_eq!(order, ["held", "e1", "e2"]);
}

/// What the replica had when its master died is delivered, and so is all that came afterwards. Replicas follow a moment
/// behind: what was acknowledged in that moment may be lost, and what was done in it is done again, marked.
#[tokio::test]
async fn a_cluster_that_loses_the_master_of_a_queue_delivers_what_its_replica_has() {
    let gate = Gate::closed();
    let (consumer, mut cluster) = (consumer(&gate).await, Cluster::start().await);
    let setup = setup(&consumer, &cluster.url());
    let instances = [Instance::start(&setup).await, Instance::start(&setup).await];
    for index in 0..HELD {
        assert_eq!(instances[index % 2].send(&stripe(&format!("held{index}"))).await.outcome(), "queued");
    }
    are_held(&consumer).await;
    cluster.in_sync().await;
    let load = Load::of(EVENTS, &instances.each_ref().map(|instance| instance.listen));
    load.has_come_to(EVENTS / 3).await;
    let lane = Lane::new("test", "stripe").prefix();
    let old = cluster.kill_master_of(&lane).await;
    cluster.await_new_master_of(&lane, old).await;
    let before = load.so_far();
    gate.open();
    let acknowledged = load.end().await;
    let held: Vec<_> = (0..HELD).map(|index| format!("held{index}")).collect();
    emptied(&instances[0], &[&held[..], &acknowledged].concat()).await;

    let effects = effects(&consumer);
    assert_nothing_is_silent(&effects);
    assert_nothing_is_lost(&effects, &held);
    assert!(before.len() < EVENTS, "the load was over before its master died");
    assert_nothing_is_lost(&effects, &acknowledged[before.len()..]);
    let lost = before.iter().filter(|id| !effects.contains_key(*id)).count();
    let doubled = effects.values().filter(|(all, _)| *all > 1).count();
    println!("{} events, {} before the master died; {lost} lost with it, {doubled} twice", acknowledged.len(), before.len());
}
