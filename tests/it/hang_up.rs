//! A sender that hangs up changes nothing about its event: what has begun is brought to its end.

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{github, stripe};

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

/// Whether the server sees a broken body or a closed connection first is up to chance.
async fn is_given_up(proxy: &Proxy) {
    eventually("the end of the delivery", async || {
        let metrics = proxy.metrics().await;
        (metrics.outcome("stripe", "rejected") + metrics.outcome("stripe", "abandoned") == 1.0).then_some(())
    })
    .await;
}

/// Nothing of the event has got anywhere.
async fn was_never_there(proxy: Proxy, consumer: &Consumer, event: &str) {
    assert_eq!(proxy.event("stripe", event).await, None);
    assert_eq!(proxy.send(&stripe(event)).await.outcome(), "forwarded");
    assert_eq!(consumer.count(event), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn before_the_body_is_complete_nothing_is_claimed_and_nothing_forwarded() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let mut sender = stripe("e1").begin_head(proxy.listen).await;
    sender.say(b"{\"id\":").await;
    drop(sender);
    is_given_up(&proxy).await;
    was_never_there(proxy, &consumer, "e1").await;
}

#[tokio::test]
async fn before_the_body_is_complete_over_http_2() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    stripe("e1").begin_h2(proxy.listen, &github("other")).await.abort();
    is_given_up(&proxy).await;
    was_never_there(proxy, &consumer, "e1").await;
}
