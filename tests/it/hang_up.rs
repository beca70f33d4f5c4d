//! A sender that hangs up changes nothing about its event: what has begun is brought to its end.

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::stripe;

async fn gated(gate: &Gate, status: u16) -> Consumer {
    let gate = gate.clone();
    Consumer::deciding(move |_, _| Act::Behind(gate.clone(), Box::new(Act::Answer(status)))).await
}

/// The event is done, its consumer saw it once, and a copy is a duplicate.
async fn was_settled(proxy: Proxy, consumer: &Consumer, event: &str) {
    proxy.in_state("stripe", event, "done").await;
    assert_eq!(proxy.send(&stripe(event)).await.outcome(), "duplicate");
    assert_eq!(consumer.count(event), 1);
    assert_eq!(proxy.metrics().await.outcome("stripe", "abandoned"), 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn during_the_claim() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).store_keys("timeout = \"10s\"").start();
    assert_eq!(proxy.send(&stripe("before")).await.outcome(), "forwarded");
    redis.signal("STOP");
    let sender = stripe("e1").begin(proxy.listen).await;
    proxy.counted("hookonce_secret_matches_total", &[("provider", "stripe")], 2.0).await;
    drop(sender);
    proxy.ended("stripe", "abandoned", 1.0).await;
    assert_eq!(consumer.count("e1"), 0);
    redis.signal("CONT");
    was_settled(proxy, &consumer, "e1").await;
}

#[tokio::test]
async fn during_the_forward() {
    let gate = Gate::closed();
    let consumer = gated(&gate, 200).await;
    let proxy = in_front_of(&consumer).start();
    let sender = stripe("e1").begin(proxy.listen).await;
    consumer.arrived("e1", 1).await;
    drop(sender);
    proxy.ended("stripe", "abandoned", 1.0).await;
    gate.open();
    was_settled(proxy, &consumer, "e1").await;
}

#[tokio::test]
async fn during_the_forward_over_http_2() {
    let gate = Gate::closed();
    let consumer = gated(&gate, 200).await;
    let proxy = in_front_of(&consumer).start();
    let (delivery, to) = (stripe("e1"), proxy.listen);
    let sender = tokio::spawn(async move { delivery.send_h2(to).await });
    consumer.arrived("e1", 1).await;
    sender.abort();
    proxy.ended("stripe", "abandoned", 1.0).await;
    gate.open();
    was_settled(proxy, &consumer, "e1").await;
}

#[tokio::test]
async fn during_the_settlement() {
    let gate = Gate::closed();
    let (consumer, redis) = (gated(&gate, 200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).store_keys("timeout = \"10s\"");
    let proxy = setup.stripe("settle = \"before_reply\"").start();
    let sender = stripe("e1").begin(proxy.listen).await;
    consumer.arrived("e1", 1).await;
    redis.signal("STOP");
    gate.open();
    proxy.counted("hookonce_upstream_seconds_count", &[("provider", "stripe")], 1.0).await;
    drop(sender);
    proxy.ended("stripe", "abandoned", 1.0).await;
    redis.signal("CONT");
    was_settled(proxy, &consumer, "e1").await;
}

#[tokio::test]
async fn a_failure_that_nobody_waited_for_is_released_all_the_same() {
    let gate = Gate::closed();
    let consumer = gated(&gate, 500).await;
    let proxy = in_front_of(&consumer).start();
    let sender = stripe("e1").begin(proxy.listen).await;
    consumer.arrived("e1", 1).await;
    drop(sender);
    proxy.ended("stripe", "abandoned", 1.0).await;
    gate.open();
    proxy.in_state("stripe", "e1", "failed").await;
    assert_eq!(proxy.send(&stripe("e1")).await.status, 500);
    assert_eq!(consumer.seen().iter().map(|seen| seen.header("hookonce-attempt").unwrap()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_copy_goes_on_waiting_when_the_first_sender_hangs_up() {
    let gate = Gate::closed();
    let consumer = gated(&gate, 200).await;
    let proxy = in_front_of(&consumer).start();
    let sender = stripe("e1").begin(proxy.listen).await;
    consumer.arrived("e1", 1).await;
    let copy = proxy.sending_copies(&stripe("e1"), 1).await.remove(0);
    drop(sender);
    proxy.ended("stripe", "abandoned", 1.0).await;
    gate.open();
    assert!(copy.await.unwrap().is_success());
    was_settled(proxy, &consumer, "e1").await;
}

/// One place, on one runtime: taken as soon as a head has come, free again when its sender is known to be gone. What is
/// not signed needs it for a moment only, and tells by its refusal whether it is taken.
fn one_at_a_time(consumer: &Consumer) -> Proxy {
    in_front_of(consumer).top("workers = 1").stripe("max_concurrent = 1").start()
}

async fn place_is(proxy: &Proxy, state: &str) {
    let status = if state == "taken" { 503 } else { 401 };
    let probe = stripe("probe").without("stripe-signature");
    eventually(&format!("the place is {state}"), async || (proxy.send(&probe).await.status == status).then_some(())).await;
}

/// Nothing of the event has got anywhere.
async fn was_never_there(proxy: Proxy, consumer: &Consumer, event: &str) {
    assert_eq!(proxy.event("stripe", event).await, None);
    assert_eq!(proxy.send(&stripe(event)).await.outcome(), "forwarded");
    assert_eq!(consumer.seen().len(), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn before_the_body_is_complete_nothing_is_claimed_and_nothing_forwarded() {
    let consumer = Consumer::answering(200).await;
    let proxy = one_at_a_time(&consumer);
    let mut sender = stripe("e1").begin_head(proxy.listen).await;
    sender.say(b"{\"id\":").await;
    place_is(&proxy, "taken").await;
    drop(sender);
    place_is(&proxy, "free").await;
    was_never_there(proxy, &consumer, "e1").await;
}

#[tokio::test]
async fn before_the_body_is_complete_over_http_2() {
    let consumer = Consumer::answering(200).await;
    let proxy = one_at_a_time(&consumer);
    let sender = stripe("e1").begin_h2(proxy.listen);
    place_is(&proxy, "taken").await;
    sender.abort();
    place_is(&proxy, "free").await;
    was_never_there(proxy, &consumer, "e1").await;
}
