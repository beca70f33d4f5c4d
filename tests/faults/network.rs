//! A network between a proxy and its store that loses one answer, cuts one instance off, or leads it to another server.

use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use tokio::task::JoinHandle;

use crate::provider::until_accepted;
use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::fault_proxy::{Fault, FaultProxy, Way};
use crate::support::keys::Keys;
use crate::support::proxy::{Proxy, Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, Delivery, github, now, stripe, stripe_with};

/// An instance, and the network between it and its Redis.
struct Scene {
    proxy: Proxy,
    network: FaultProxy,
    keys: Keys,
    redis: RedisProcess,
}

fn address(redis: &RedisProcess) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], redis.port()))
}

fn through(network: &FaultProxy, consumer: &Consumer) -> Setup {
    in_front_of(consumer).store(&format!("redis://{}", network.address())).top("workers = 1")
}

/// In this budget a fault can come and go.
const AMPLE: &str = "10s";
/// This one a fault outlasts.
const SHORT: &str = "300ms";

async fn scene(consumer: &Consumer, budget: &str) -> Scene {
    let redis = RedisProcess::start();
    let network = FaultProxy::to(address(&redis)).await;
    let proxy = through(&network, consumer).store_keys(&format!("timeout = \"{budget}\"")).start();
    assert_eq!(proxy.send(&stripe("before")).await.outcome(), "forwarded");
    proxy.in_state("stripe", "before", "done").await;
    Scene { proxy, network, keys: Keys::of(&redis), redis }
}

/// The first forward of `e1` gets this answer once the gate is open; `bad` is refused.
async fn held_back(gate: &Gate, status: u16) -> Consumer {
    let gate = gate.clone();
    let first = move || Act::Behind(gate.clone(), Box::new(Act::Answer(status)));
    let act = move |event: &str, nth| match (event, nth) {
        ("e1", 1) => first(),
        ("bad", _) => Act::Answer(500),
        _ => Act::Answer(200),
    };
    Consumer::deciding(move |seen, nth| act(seen.event_id(), nth)).await
}

impl Scene {
    /// Waits until `e1` is stored in this state, whatever the proxy knows of it.
    async fn stored(&mut self, state: &str) -> String {
        let keys = std::sync::Mutex::new(&mut self.keys);
        eventually(&format!("{state} in Redis"), async || {
            let value = keys.lock().unwrap().value("test:stripe:e1");
            value.starts_with(state).then_some(value)
        })
        .await
    }

    /// `e1` is with the consumer, which holds it back; then the network fails.
    async fn failing_during_the_call(&mut self, consumer: &Consumer, fault: Fault) -> JoinHandle<Answer> {
        let sending = self.proxy.sending(&stripe("e1"));
        consumer.arrived("e1", 1).await;
        self.network.set(fault);
        sending
    }

    /// Waits until the store was asked in vain.
    async fn has_failed(&self, op: &str) {
        eventually("a call that failed", async || {
            let labels = [("op", op), ("kind", "timeout")];
            (self.proxy.metrics().await.value("hookonce_store_errors_total", &labels) >= 1.0).then_some(())
        })
        .await;
    }

    /// A copy is a duplicate, `e1` took effect once, and nobody was told otherwise.
    async fn ends_well(self, consumer: &Consumer) {
        self.proxy.in_state("stripe", "e1", "done").await;
        self.proxy.counted("hookonce_claims_in_flight", &[("provider", "stripe")], 0.0).await;
        assert_eq!(self.proxy.send(&stripe("e1")).await.outcome(), "duplicate");
        assert_eq!(consumer.count("e1"), 1);
        assert_eq!(self.proxy.metrics().await.marked("stripe", "unknown"), 0.0);
        assert!(self.proxy.stop().await);
        drop(self.redis);
    }
}

#[tokio::test]
async fn a_claim_that_was_stored_though_its_answer_was_lost_is_recognised() {
    let consumer = Consumer::answering(200).await;
    let mut scene = scene(&consumer, AMPLE).await;
    scene.network.set(Fault::Lose(Way::Back));
    let sending = scene.proxy.sending(&stripe("e1"));
    scene.stored("1c|").await;
    assert_eq!(consumer.count("e1"), 0);
    scene.network.heal();
    assert_eq!(sending.await.unwrap().outcome(), "forwarded");
    let seen = consumer.seen();
    assert_eq!((seen[1].header("hookonce-attempt"), seen[1].mark()), (Some("1"), None));
    scene.ends_well(&consumer).await;
}

async fn a_completion_is_made_good(fault: Fault, stored: &str, budget: &str) {
    let gate = Gate::closed();
    let consumer = held_back(&gate, 200).await;
    let mut scene = scene(&consumer, budget).await;
    let sending = scene.failing_during_the_call(&consumer, fault).await;
    gate.open();
    // The consumer has accepted: its sender is told so, whatever the store hears of it.
    assert_eq!(sending.await.unwrap().outcome(), "forwarded");
    scene.stored(stored).await;
    assert_eq!(scene.proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    if budget == SHORT {
        scene.has_failed("complete").await;
    }
    scene.network.heal();
    scene.stored("1d|200|1|").await;
    scene.ends_well(&consumer).await;
}

#[tokio::test]
async fn a_completion_that_was_stored_though_its_answer_was_lost_is_recognised() {
    for budget in [AMPLE, SHORT] {
        a_completion_is_made_good(Fault::Lose(Way::Back), "1d|200|1|", budget).await;
    }
}

#[tokio::test]
async fn a_completion_that_was_lost_is_sent_again() {
    for budget in [AMPLE, SHORT] {
        a_completion_is_made_good(Fault::Lose(Way::There), "1c|", budget).await;
    }
}

async fn a_release_is_made_good(fault: Fault, stored: &str, budget: &str) {
    let gate = Gate::closed();
    let consumer = held_back(&gate, 500).await;
    let mut scene = scene(&consumer, budget).await;
    // So that the server has the script: asked for one that it has not, it says so, and that would be lost.
    assert_eq!(scene.proxy.send(&stripe("bad")).await.outcome(), "failed");
    let sending = scene.failing_during_the_call(&consumer, fault).await;
    gate.open();
    // The failure is told, whatever the store hears of it.
    let failed = sending.await.unwrap();
    assert_eq!((failed.status, failed.outcome()), (500, "failed"));
    scene.stored(stored).await;
    if budget == SHORT {
        scene.has_failed("fail").await;
    }
    scene.network.heal();
    scene.stored("1f|1||500|").await;
    until_accepted(&stripe("e1"), scene.proxy.listen).await;
    let seen: Vec<_> = consumer.seen().into_iter().filter(|seen| seen.event_id() == "e1").collect();
    let attempts: Vec<_> = seen.iter().map(|seen| (seen.header("hookonce-attempt").unwrap(), seen.mark())).collect();
    assert_eq!(attempts, [("1", None), ("2", None)]);
    assert!(scene.proxy.stop().await);
}

#[tokio::test]
async fn a_release_that_was_lost_is_sent_again_and_the_next_delivery_is_forwarded_without_doubt() {
    for budget in [AMPLE, SHORT] {
        a_release_is_made_good(Fault::Lose(Way::There), "1c|", budget).await;
    }
}

#[tokio::test]
async fn a_failure_is_passed_on_once_its_release_is_stored() {
    let consumer = Consumer::deciding(|seen, nth| Act::Answer(if (seen.event_id(), nth) == ("e1", 1) { 500 } else { 200 })).await;
    let scene = scene(&consumer, AMPLE).await;
    let other = in_front_of(&consumer).store(&scene.redis.url()).start();
    assert_eq!(other.send(&stripe("before")).await.outcome(), "duplicate");
    // Far below the time that a failure waits for its release.
    scene.network.set(Fault::Delay(Duration::from_millis(50)));
    assert_eq!(scene.proxy.send(&stripe("e1")).await.outcome(), "failed");
    assert_eq!(other.send(&stripe("e1")).await.outcome(), "forwarded");
    assert!(scene.proxy.stop().await && other.stop().await);
}

#[tokio::test]
async fn a_release_that_was_stored_though_its_answer_was_lost_is_recognised() {
    for budget in [AMPLE, SHORT] {
        a_release_is_made_good(Fault::Lose(Way::Back), "1f|1||500|", budget).await;
    }
}

/// One instance is cut off from the store, another is not; both are given the same events.
async fn cut_off(fault: Fault) {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let network = FaultProxy::to(address(&redis)).await;
    let quick = |setup: Setup| setup.store_keys("timeout = \"300ms\"").both("lease = \"1s\"").start();
    let (lonely, other) = (quick(through(&network, &consumer)), quick(in_front_of(&consumer).store(&redis.url())));
    for proxy in [&lonely, &other] {
        assert!(proxy.send(&stripe("probe")).await.is_success());
        proxy.counted("hookonce_store_up", &[], 1.0).await;
    }
    network.set(fault);
    // One provider comes back, and is put off; the other never does, and may be served twice: that is marked.
    assert_eq!(lonely.send(&stripe("e1")).await.outcome(), "store_down");
    assert_eq!(lonely.send(&github("e2")).await.outcome(), "store_down");
    assert_eq!((lonely.send(&stripe("e1")).await.status, lonely.send(&github("e2")).await.outcome()), (503, "duplicate"));
    for delivery in [stripe("e1"), github("e2")] {
        // What the lonely one has asked for may have been stored, and is in the way for as long as that lease.
        assert!(until_accepted(&delivery, other.listen).await.answer.is_success());
    }
    network.heal();
    lonely.counted("hookonce_written_back_total", &[("result", "conflict")], 1.0).await;
    for delivery in [stripe("e1"), github("e2")] {
        eventually("a duplicate", async || (lonely.send(&delivery).await.outcome() == "duplicate").then_some(())).await;
    }
    let marks = |event: &str| {
        let seen = consumer.seen().into_iter().filter(|seen| seen.event_id() == event);
        seen.map(|seen| seen.mark().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(marks("e1").len(), 1);
    // Two forwards, of which one is marked at least.
    assert_eq!((marks("e2").len(), marks("e2")[0].as_deref()), (2, Some("store-down")));
    assert!(lonely.stop().await && other.stop().await);
}

#[tokio::test]
async fn an_instance_that_is_cut_off_marks_what_it_forwards_and_owns_up_to_it() {
    cut_off(Fault::Refuse).await;
    cut_off(Fault::Lose(Way::There)).await;
}

#[tokio::test]
async fn an_instance_that_hears_nothing_of_its_store_marks_what_it_forwards_and_owns_up_to_it() {
    cut_off(Fault::Lose(Way::Back)).await;
}

/// An event that came to be a minute ago.
fn recent(event: &str) -> Delivery {
    let seconds = now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 60;
    stripe_with(format!("{{\"id\":\"{event}\",\"created\":{seconds}}}"))
}

#[tokio::test]
async fn an_instance_that_is_led_to_a_promoted_replica_says_which_events_that_may_have_missed() {
    let (consumer, old) = (Consumer::answering(200).await, RedisProcess::start());
    let new = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &old.port().to_string(), "--repl-diskless-sync-delay", "0"]);
    let network = FaultProxy::to(address(&old)).await;
    let moved = through(&network, &consumer).start();
    let stays = in_front_of(&consumer).store(&old.url()).start();
    assert_eq!(moved.send(&recent("replicated")).await.outcome(), "forwarded");
    let mut replica = Keys::of(&new);
    replica.done("stripe", "replicated").await;
    for proxy in [&moved, &stays] {
        proxy.counted("hookonce_store_up", &[], 1.0).await;
    }
    // From here on the old server has clients that the new one knows nothing of.
    replica.order(&["REPLICAOF", "NO", "ONE"]);
    network.redirect(address(&new));
    moved.counted("hookonce_store_resets_total", &[], 1.0).await;
    for event in ["one", "two", "three"] {
        assert_eq!(stays.send(&recent(event)).await.outcome(), "forwarded");
        assert_eq!(moved.send(&recent(event)).await.outcome(), "forwarded");
    }
    for proxy in [&stays, &moved] {
        assert_eq!(proxy.send(&recent("replicated")).await.outcome(), "duplicate");
    }
    let seen = consumer.seen();
    assert_eq!(seen.len(), 1 + 6);
    for event in ["one", "two", "three"] {
        let marks: Vec<_> = seen.iter().filter(|seen| seen.event_id() == event).map(|seen| seen.mark()).collect();
        assert_eq!(marks, [None, Some("store-reset")], "{event}");
    }
    assert_eq!(moved.metrics().await.marked("stripe", "store-reset"), 3.0);
    assert!(moved.stop().await && stays.stop().await);
}
