//! A store that has lost its data: found out within a second, counted, and its events marked where their time is known.

use std::time::UNIX_EPOCH;

use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::keys::Keys;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github, now, stripe_with};

/// An event that came to be so many seconds from now.
fn stripe_from(event: &str, seconds: i64) -> Delivery {
    let now = i64::try_from(now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    stripe_with(format!("{{\"id\":\"{event}\",\"created\":{}}}", now + seconds))
}

async fn resets(proxy: &Proxy) -> f64 {
    proxy.metrics().await.value("hookonce_store_resets_total", &[])
}

/// Waits until the proxy has looked at the store before: the first turn of its watch is over when the second begins.
pub async fn knows_its_store(proxy: &Proxy) {
    eventually("a second pulse", async || (pulses(proxy).await >= 2.0).then_some(())).await;
}

async fn pulses(proxy: &Proxy) -> f64 {
    proxy.metrics().await.value("hookonce_store_seconds_count", &[("op", "pulse")])
}

async fn counts_a_reset(proxy: &Proxy) {
    proxy.counted("hookonce_store_resets_total", &[], 1.0).await;
}

fn marks_of(consumer: &Consumer, event: &str) -> Vec<Option<String>> {
    consumer.seen().iter().filter(|seen| seen.event_id() == event).map(|seen| seen.mark().map(str::to_owned)).collect()
}

#[tokio::test]
async fn events_from_before_a_reset_are_marked_and_later_ones_are_not() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url());
    let (proxy, other) = (setup.start(), setup.start());
    for delivery in [stripe_from("old", -60), stripe_from("older", -3600)] {
        assert_eq!(proxy.send(&delivery).await.outcome(), "forwarded");
    }
    assert_eq!(proxy.send(&github("push")).await.outcome(), "forwarded");
    knows_its_store(&proxy).await;
    knows_its_store(&other).await;
    Keys::of(&redis).flush();
    counts_a_reset(&proxy).await;
    counts_a_reset(&other).await;
    assert_eq!(other.send(&stripe_from("old", -60)).await.outcome(), "forwarded");
    assert_eq!(proxy.send(&stripe_from("new", 60)).await.outcome(), "forwarded");
    // Its provider does not say how old it is.
    assert_eq!(proxy.send(&github("push")).await.outcome(), "forwarded");
    assert_eq!(marks_of(&consumer, "old"), [None, Some("store-reset".to_owned())]);
    assert_eq!(marks_of(&consumer, "new"), [None]);
    assert_eq!(marks_of(&consumer, "push"), [None, None]);
    assert_eq!(other.metrics().await.marked("stripe", "store-reset"), 1.0);
    // An instance that was not there knows from the marker.
    let late = setup.start();
    knows_its_store(&late).await;
    assert_eq!(late.send(&stripe_from("older", -3600)).await.outcome(), "forwarded");
    assert_eq!(marks_of(&consumer, "older")[1], Some("store-reset".to_owned()));
    assert_eq!((resets(&late).await, resets(&proxy).await, resets(&other).await), (0.0, 1.0, 1.0));
    assert!(proxy.stop().await && other.stop().await && late.stop().await);
}

#[tokio::test]
async fn the_doubt_after_a_reset_outlives_a_failure() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 2 { 500 } else { 200 })).await;
    let redis = RedisProcess::start();
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    let old = stripe_from("old", -60);
    assert_eq!(proxy.send(&old).await.outcome(), "forwarded");
    knows_its_store(&proxy).await;
    Keys::of(&redis).flush();
    counts_a_reset(&proxy).await;
    assert_eq!(proxy.send(&old).await.outcome(), "failed");
    assert_eq!(proxy.send(&old).await.outcome(), "forwarded");
    let marked = || Some("store-reset".to_owned());
    assert_eq!(marks_of(&consumer, "old"), [None, marked(), marked()]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_a_reset() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    assert_eq!(proxy.send(&stripe_from("old", -60)).await.outcome(), "forwarded");
    proxy.in_state("stripe", "old", "done").await;
    knows_its_store(&proxy).await;
    redis.kill();
    redis.restart();
    counts_a_reset(&proxy).await;
    let again = proxy.send(&stripe_from("old", -60)).await;
    assert_eq!(again.outcome(), "forwarded");
    assert_eq!(marks_of(&consumer, "old"), [None, Some("store-reset".to_owned())]);
    assert_eq!(resets(&proxy).await, 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_server_that_comes_back_with_its_data_may_have_lost_its_latest_writes() {
    let consumer = Consumer::answering(200).await;
    let mut redis = RedisProcess::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    assert_eq!(proxy.send(&stripe_from("known", -60)).await.outcome(), "forwarded");
    proxy.in_state("stripe", "known", "done").await;
    knows_its_store(&proxy).await;
    redis.kill();
    proxy.counted("hookonce_store_up", &[], 0.0).await;
    redis.restart();
    counts_a_reset(&proxy).await;
    // What it still knows, it knows.
    eventually("it answers", async || (proxy.send(&stripe_from("known", -60)).await.outcome() == "duplicate").then_some(()))
        .await;
    assert_eq!(proxy.send(&stripe_from("unknown", -60)).await.outcome(), "forwarded");
    assert_eq!(marks_of(&consumer, "unknown"), [Some("store-reset".to_owned())]);
    let before = pulses(&proxy).await;
    eventually("two more pulses", async || (pulses(&proxy).await >= before + 2.0).then_some(())).await;
    assert_eq!(resets(&proxy).await, 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_first_claim_on_a_server_that_was_restarted_knows_of_it() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    for round in 0..5 {
        let events: Vec<_> = (0..8).map(|nth| format!("old-{round}-{nth}")).collect();
        for event in &events {
            assert_eq!(proxy.send(&stripe_from(event, -60)).await.outcome(), "forwarded");
            // A completion that is not stored yet would be told to the new server.
            proxy.in_state("stripe", event, "done").await;
        }
        redis.kill();
        redis.restart();
        // At once, long before the watch looks again.
        for event in &events {
            eventually("it is forwarded", async || {
                (proxy.send(&stripe_from(event, -60)).await.outcome() == "forwarded").then_some(())
            })
            .await;
            let marks = marks_of(&consumer, event);
            assert!(marks.len() == 2 && marks[1].is_some(), "round {round}, {event}: {marks:?}");
        }
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_restart_while_no_instance_was_there_is_a_reset() {
    let consumer = Consumer::answering(200).await;
    let mut redis = RedisProcess::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let setup = in_front_of(&consumer).store(&redis.url());
    let proxy = setup.start();
    knows_its_store(&proxy).await;
    assert!(proxy.stop().await);
    redis.kill();
    redis.restart();
    let (proxy, other) = (setup.start(), setup.start());
    // The very first delivery: what the store may have lost is known before the door opens.
    assert_eq!(proxy.send(&stripe_from("unknown", -60)).await.outcome(), "forwarded");
    assert_eq!(marks_of(&consumer, "unknown"), [Some("store-reset".to_owned())]);
    assert_eq!(other.send(&stripe_from("another", -60)).await.outcome(), "forwarded");
    assert_eq!(marks_of(&consumer, "another"), [Some("store-reset".to_owned())]);
    assert!(resets(&proxy).await + resets(&other).await >= 1.0);
    assert!(proxy.stop().await && other.stop().await);
    // Known by now, and dated: not counted anew.
    let late = setup.start();
    knows_its_store(&late).await;
    assert_eq!(resets(&late).await, 0.0);
    assert!(late.stop().await);
}

#[tokio::test]
async fn a_new_store_and_a_restart_of_our_own_are_none() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url());
    for event in ["first", "second"] {
        let proxy = setup.start();
        knows_its_store(&proxy).await;
        assert_eq!(proxy.send(&stripe_from(event, -3600)).await.outcome(), "forwarded");
        assert_eq!(resets(&proxy).await, 0.0);
        assert!(proxy.stop().await);
        assert_eq!(marks_of(&consumer, event), [None]);
    }
}

#[tokio::test]
async fn a_reset_marks_nothing_once_the_store_would_have_forgotten_in_any_case() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let year = 365 * 86_400;
    for (age, mark) in [(60, Some("store-reset".to_owned())), (year, None)] {
        let event = format!("from-before-{age}");
        let reset = now().duration_since(UNIX_EPOCH).unwrap().as_secs() - age;
        Keys::of(&redis).put("test:marker", &format!("1m|AAAAAAAAAAAAAAAAAAAAAA|{reset}000|0"), 100);
        let proxy = in_front_of(&consumer).store(&redis.url()).start();
        knows_its_store(&proxy).await;
        assert_eq!(proxy.send(&stripe_from(&event, -2 * year as i64)).await.outcome(), "forwarded");
        assert_eq!(marks_of(&consumer, &event), [mark]);
        assert!(proxy.stop().await);
    }
}
