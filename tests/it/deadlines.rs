//! How long everybody waits: the sender for its answer, the proxy for the consumer, a claim for its settlement.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::stripe;

/// The first time held back, then at once.
async fn slow_once(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    let first = move || Act::Behind(gate.clone(), Box::new(Act::Answer(200)));
    Consumer::deciding(move |_, nth| if nth == 1 { first() } else { Act::Answer(200) }).await
}

#[tokio::test]
async fn at_its_deadline_the_sender_is_answered_and_the_call_goes_on() {
    let gate = Gate::closed();
    let consumer = slow_once(&gate).await;
    let proxy = in_front_of(&consumer).stripe("answer_deadline = \"300ms\"").start();
    for _ in ["the first", "a copy that waits for it"] {
        let began = Instant::now();
        let late = proxy.send(&stripe("e1")).await;
        assert_eq!((late.status, late.outcome()), (503, "in_flight"));
        assert_eq!(late.json()["code"], "in_flight");
        assert!(late.header("retry-after").is_some());
        assert!(began.elapsed() >= Duration::from_millis(300));
    }
    gate.open();
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

/// A consumer that ends the first call without an answer; what then becomes of the event.
async fn unknown_at_first(first: Act) {
    let consumer = Consumer::deciding(move |_, nth| if nth == 1 { first.clone() } else { Act::Answer(200) }).await;
    let keys = "upstream_timeout = \"300ms\"\nlease = \"1s\"\nin_flight = \"retry\"";
    let proxy = in_front_of(&consumer).stripe(keys).start();
    let began = Instant::now();
    let unknown = proxy.send(&stripe("e1")).await;
    assert_eq!((unknown.status, unknown.outcome()), (504, "ambiguous"));
    assert_eq!(unknown.json()["code"], "upstream_unknown");
    assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "claimed");
    let next = eventually("the lease is over", async || {
        let next = proxy.send(&stripe("e1")).await;
        (next.outcome() != "in_flight").then_some(next)
    });
    assert_eq!(next.await.outcome(), "forwarded");
    assert!(began.elapsed() >= Duration::from_secs(1));
    let seen = consumer.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].mark(), seen[1].mark()), (None, Some("unknown")));
    assert_eq!(seen[1].header("hookonce-attempt"), Some("2"));
    let metrics = proxy.metrics().await;
    assert_eq!((metrics.marked("stripe", "unknown"), metrics.outcome("stripe", "ambiguous")), (1.0, 1.0));
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_consumer_that_never_answers_leaves_the_claim_to_its_lease() {
    unknown_at_first(Act::Hang).await;
}

#[tokio::test]
async fn a_consumer_that_closes_without_a_word_leaves_the_claim_to_its_lease() {
    unknown_at_first(Act::Close).await;
}

#[tokio::test]
async fn a_copy_that_waits_for_a_held_claim_is_told_to_come_back_when_the_lease_is_over() {
    let consumer = Consumer::deciding(|_, nth| if nth == 1 { Act::Close } else { Act::Answer(200) }).await;
    let proxy = in_front_of(&consumer).stripe("lease = \"1s\"").start();
    assert_eq!(proxy.send(&stripe("e1")).await.status, 504);
    let waited = proxy.send(&stripe("e1")).await;
    assert_eq!((waited.status, waited.outcome()), (503, "in_flight"));
    assert_eq!(consumer.count("e1"), 1);
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!(consumer.seen()[1].mark(), Some("unknown"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_consumer_that_takes_three_leases_keeps_its_claim() {
    let gate = Gate::closed();
    let (consumer, redis) = (slow_once(&gate).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).stripe("lease = \"1s\"\nin_flight = \"retry\"");
    let (one, other) = (setup.start(), setup.start());
    let first = one.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    // A lease is renewed every third of it.
    eventually("three leases", async || {
        assert_ne!(other.send(&stripe("e1")).await.outcome(), "forwarded");
        (one.metrics().await.value("hookonce_store_seconds_count", &[("op", "renew")]) >= 9.0).then_some(())
    })
    .await;
    assert_eq!(other.send(&stripe("e1")).await.status, 503);
    gate.open();
    assert_eq!(first.await.unwrap().outcome(), "forwarded");
    assert_eq!(other.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    assert!(one.stop().await && other.stop().await);
}

#[tokio::test]
async fn the_claim_is_kept_while_a_reply_to_be_replayed_is_read() {
    let gate = Gate::closed();
    let rest = gate.clone();
    let in_two = move || Act::InTwo(200, "a".into(), rest.clone(), "b".into());
    let consumer = Consumer::deciding(move |_, nth| if nth == 1 { in_two() } else { Act::Answer(200) }).await;
    let redis = RedisProcess::start();
    let setup = in_front_of(&consumer).store(&redis.url());
    let setup = setup.stripe("lease = \"1s\"\nin_flight = \"retry\"\non_duplicate = \"replay\"");
    let (one, other) = (setup.start(), setup.start());
    let first = one.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    eventually("two leases", async || {
        assert_ne!(other.send(&stripe("e1")).await.outcome(), "forwarded");
        (one.metrics().await.value("hookonce_store_seconds_count", &[("op", "renew")]) >= 6.0).then_some(())
    })
    .await;
    gate.open();
    assert_eq!(first.await.unwrap().body, "ab");
    one.in_state("stripe", "e1", "done").await;
    let copy = other.send(&stripe("e1")).await;
    assert_eq!((copy.outcome(), &copy.body[..]), ("duplicate", &b"ab"[..]));
    assert_eq!(consumer.count("e1"), 1);
    assert!(one.stop().await && other.stop().await);
}

#[tokio::test]
async fn a_consumer_that_comes_back_in_time_is_not_missed() {
    let socket = Consumer::absent();
    let address = socket.local_addr().unwrap();
    let proxy = in_front_of(&Consumer::answering(200).await)
        .upstream(&format!("http://{address}"))
        .stripe("connect_retry = \"30s\"")
        .start();
    let first = proxy.sending(&stripe("e1"));
    proxy.counted("hookonce_claims_in_flight", &[("provider", "stripe")], 1.0).await;
    let consumer = Consumer::on(socket.listen(64).unwrap(), |_, _| Act::Answer(200));
    assert_eq!(first.await.unwrap().outcome(), "forwarded");
    assert_eq!(consumer.seen()[0].header("hookonce-attempt"), Some("1"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_whose_consumer_stays_away_is_released_at_once() {
    let socket = Consumer::absent();
    let address = socket.local_addr().unwrap();
    let proxy = in_front_of(&Consumer::answering(200).await)
        .upstream(&format!("http://{address}"))
        .stripe("connect_retry = \"200ms\"")
        .start();
    let failed = proxy.send(&stripe("e1")).await;
    assert_eq!((failed.status, failed.outcome()), (502, "failed"));
    assert_eq!(failed.json()["code"], "upstream_unreachable");
    assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "failed");
    let consumer = Consumer::on(socket.listen(64).unwrap(), |_, _| Act::Answer(200));
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    let seen = consumer.seen();
    assert_eq!((seen[0].header("hookonce-attempt"), seen[0].mark()), (Some("2"), None));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_consumer_that_never_finishes_its_handshake_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).stripe("connect_retry = \"200ms\"").start();
    let began = Instant::now();
    let failed = proxy.send(&stripe("e1")).await;
    assert_eq!((failed.status, failed.outcome()), (502, "failed"));
    // One try takes two seconds at most.
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "failed");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_consumer_that_closes_every_connection_at_once_is_not_called_in_a_rush() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_zero_linger().unwrap();
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let proxy = in_front_of(&Consumer::answering(200).await)
        .upstream(&format!("http://{address}"))
        .stripe("connect_retry = \"500ms\"\nupstream_timeout = \"20s\"")
        .start();
    let began = Instant::now();
    for event in 0..20 {
        assert!(proxy.send(&stripe(&format!("e{event}"))).await.status >= 502);
    }
    assert!(began.elapsed() < Duration::from_secs(15));
    // Each call: at most a try every 50 ms, at first, for half a second.
    assert!(accepted.load(std::sync::atomic::Ordering::SeqCst) <= 20 * 10);
    assert!(proxy.stop().await);
}
