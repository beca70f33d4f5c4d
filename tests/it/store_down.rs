//! A store that cannot be asked: what is refused, what is let through, and that it mends by itself.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github, stripe};

/// A port that nobody listens on, held so that nobody else can.
fn nowhere() -> (tokio::net::TcpSocket, String) {
    let socket = Consumer::absent();
    let url = format!("redis://{}", socket.local_addr().unwrap());
    (socket, url)
}

#[tokio::test]
async fn closed_refuses_within_the_budget_and_open_forwards_marked() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    assert_eq!(proxy.send(&stripe("before")).await.outcome(), "forwarded");
    redis.kill();
    for _ in 0..2 {
        let began = Instant::now();
        let refused = proxy.send(&stripe("e1")).await;
        assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
        assert_eq!(refused.json()["code"], "store_down");
        assert!(refused.header("retry-after").is_some());
        // The budget is one second; two more are for a busy machine.
        assert!(began.elapsed() < Duration::from_secs(3));
        let passed = proxy.send(&github("e1")).await;
        assert_eq!((passed.status, passed.outcome()), (200, "store_down"));
    }
    let marks: Vec<_> = consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect();
    assert_eq!(marks, [None, Some("store-down".to_owned()), Some("store-down".to_owned())]);
    assert_eq!(proxy.metrics().await.marked("github", "store-down"), 2.0);
    redis.restart();
    eventually("the store works again", async || (proxy.send(&stripe("e1")).await.outcome() == "forwarded").then_some(())).await;
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_is_configured_wins_over_what_is_derived() {
    let consumer = Consumer::answering(200).await;
    let (_socket, url) = nowhere();
    let setup = in_front_of(&consumer).store(&url).store_keys("timeout = \"200ms\"");
    let proxy = setup.github("on_store_down = \"closed\"").stripe("on_store_down = \"open\"").start();
    assert_eq!(proxy.send(&github("e1")).await.status, 503);
    assert_eq!(proxy.send(&stripe("e1")).await.status, 200);
    assert_eq!(consumer.seen()[0].mark(), Some("store-down"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn copies_at_once_are_forwarded_once_though_the_store_is_down() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let (_socket, url) = nowhere();
    let proxy = in_front_of(&consumer).store(&url).store_keys("timeout = \"200ms\"").top("workers = 1").start();
    let copies = proxy.sending_copies(&github("e1"), 5).await;
    consumer.arrived("e1", 1).await;
    gate.open();
    for copy in copies {
        assert!(copy.await.unwrap().is_success());
    }
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_store_that_is_away_at_the_start_stops_nothing() {
    let consumer = Consumer::answering(200).await;
    let (_socket, url) = nowhere();
    let setup = in_front_of(&consumer).store(&url).store_keys("timeout = \"200ms\"");
    let readyz = Delivery::plain("GET", "/readyz");
    let proxy = setup.start();
    assert_eq!(proxy.admin(&readyz).await.status, 200);
    assert_eq!(proxy.admin(&readyz.clone().at("/readyz?verbose")).await.json()["store"], "down");
    assert_eq!(proxy.metrics().await.value("hookonce_store_up", &[]), 0.0);
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "store_down");
    assert_eq!(proxy.admin(&Delivery::plain("GET", "/api/events/github/e1")).await.status, 503);
    assert!(proxy.stop().await);
    let strict = setup.top("readiness = \"store\"").start();
    assert_eq!(strict.admin(&readyz).await.status, 503);
    assert_eq!(strict.admin(&Delivery::plain("GET", "/healthz")).await.status, 200);
    assert!(strict.stop().await);
}

#[tokio::test]
async fn whether_the_store_is_up_is_known_soon_without_traffic() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).top("readiness = \"store\"").start();
    let readyz = Delivery::plain("GET", "/readyz");
    proxy.counted("hookonce_store_up", &[], 1.0).await;
    assert_eq!(proxy.admin(&readyz).await.status, 200);
    redis.kill();
    let began = Instant::now();
    proxy.counted("hookonce_store_up", &[], 0.0).await;
    // About a second, and two more for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(proxy.admin(&readyz).await.status, 503);
    redis.restart();
    proxy.counted("hookonce_store_up", &[], 1.0).await;
    assert_eq!(proxy.admin(&readyz).await.status, 200);
    redis.signal("STOP");
    proxy.counted("hookonce_store_up", &[], 0.0).await;
    redis.signal("CONT");
    proxy.counted("hookonce_store_up", &[], 1.0).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_completion_reaches_the_store_when_it_is_back() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let mut redis = RedisProcess::start();
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    let first = proxy.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    redis.kill();
    gate.open();
    assert_eq!(first.await.unwrap().outcome(), "forwarded");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    redis.restart();
    proxy.counted("hookonce_claims_in_flight", &[("provider", "stripe")], 0.0).await;
    assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "done");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_failure_is_told_though_the_store_is_down() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(500)))).await;
    let mut redis = RedisProcess::start();
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    let first = proxy.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    redis.kill();
    gate.open();
    let first = first.await.unwrap();
    assert_eq!((first.status, first.outcome()), (500, "failed"));
    // Nothing was stored, nothing is known: the next delivery is told to come back.
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "store_down");
    assert_eq!(consumer.count("e1"), 1);
}
