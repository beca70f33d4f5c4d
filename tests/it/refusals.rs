//! What is refused, how, and that nothing of it reaches the consumer or the store.

use std::time::Duration;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::proxy::{Proxy, Setup, in_front_of};
use crate::support::sender::{Answer, Delivery, github, github_with, now, signed, stripe, stripe_with};
use crate::support::wire::Wire;

/// Status, code and outcome; a 503 says when to come back.
fn assert_refused(answer: &Answer, status: u16, code: &str, outcome: &str) {
    assert_eq!((answer.status, answer.json()["code"].as_str(), answer.outcome()), (status, Some(code), outcome));
    assert_eq!(answer.json()["status"], "refused");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("retry-after").is_some(), status == 503);
}

async fn assert_untouched(proxy: Proxy, consumer: &Consumer) {
    assert_eq!(consumer.seen().len(), 0);
    assert_eq!(proxy.metrics().await.value("hookonce_store_seconds_count", &[("op", "claim")]), 0.0);
    assert!(proxy.stop().await);
}

/// Sends each and looks at what comes back.
async fn refuses(setup: impl Fn(Setup) -> Setup, cases: &[(Delivery, u16, &str)]) -> Vec<Answer> {
    let consumer = Consumer::answering(200).await;
    let proxy = setup(in_front_of(&consumer)).start();
    let mut answers = Vec::new();
    for (delivery, status, code) in cases {
        let answer = proxy.send(delivery).await;
        assert_refused(&answer, *status, code, "rejected");
        answers.push(answer);
    }
    assert_untouched(proxy, &consumer).await;
    answers
}

#[tokio::test]
async fn what_is_at_no_providers_path_or_comes_with_another_method() {
    let cases = [
        (github("e1").at("/"), 404, "not_found"),
        (github("e1").at("/github/"), 404, "not_found"),
        (Delivery::plain("GET", "/favicon.ico"), 404, "not_found"),
        (Delivery::plain("GET", "/github"), 405, "method_not_allowed"),
        (Delivery::plain("OPTIONS", "/stripe"), 405, "method_not_allowed"),
    ];
    let answers = refuses(|setup| setup, &cases).await;
    assert_eq!(answers.iter().map(|answer| answer.header("allow")).collect::<Vec<_>>()[2..], [None, Some("POST"), Some("POST")]);
}

#[tokio::test]
async fn what_is_not_signed_as_it_should_be() {
    let at = |time| signed("stripe", "/stripe", &[], "{\"id\":\"e1\"}".into(), time);
    let hour = Duration::from_secs(3600);
    let signature = |delivery: &Delivery| delivery.headers["x-hub-signature-256"].to_str().unwrap().to_owned();
    let twice = github("e1").also("x-hub-signature-256", &signature(&github("e1")));
    let cases = [
        (github("e1").without("x-hub-signature-256"), 401, "missing_signature"),
        (stripe("e1").without("stripe-signature"), 401, "missing_signature"),
        (github("e1").with("x-hub-signature-256", ""), 401, "missing_signature"),
        (github("e1").with("x-hub-signature-256", "sha256=00"), 401, "malformed_signature"),
        (github("e1").with("x-hub-signature-256", &signature(&github("e1")).to_uppercase()), 401, "malformed_signature"),
        (github("e1").with("x-hub-signature-256", &signature(&github("e2"))), 401, "no_match"),
        (github("e1").with_body("{}"), 401, "no_match"),
        (stripe("e1").with_body("{\"id\":\"e2\"}"), 401, "no_match"),
        (twice, 401, "repeated_value"),
        (at(now() - hour), 401, "stale"),
        (at(now() + hour), 401, "future"),
    ];
    refuses(|setup| setup, &cases).await;
}

#[tokio::test]
async fn what_is_not_believed_is_counted_by_reason() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    for delivery in [github("e1").without("x-hub-signature-256"), github("e1").with_body("1"), github("e1").with_body("2")] {
        assert_eq!(proxy.send(&delivery).await.status, 401);
    }
    let metrics = proxy.metrics().await;
    let failures = |reason| metrics.value("hookonce_signature_failures_total", &[("provider", "github"), ("reason", reason)]);
    assert_eq!((failures("missing_signature"), failures("no_match"), failures("stale")), (1.0, 2.0, 0.0));
    assert_eq!(metrics.outcome("github", "rejected"), 3.0);
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn what_has_an_id_that_cannot_be_used() {
    let long = "x".repeat(4097);
    let cases = [
        (stripe_with("{\"id\":\"e1\",\"id\":\"e2\"}"), 400, "bad_event_id"),
        (github("e1").also("x-github-delivery", "e2"), 400, "bad_event_id"),
        (github(&long), 400, "bad_event_id"),
        (stripe(&long), 400, "bad_event_id"),
    ];
    refuses(|setup| setup, &cases).await;
}

fn small(setup: Setup) -> Setup {
    setup.both("max_body = \"1KiB\"")
}

#[tokio::test]
async fn what_is_too_large_whether_it_says_so_or_not() {
    let consumer = Consumer::answering(200).await;
    let proxy = small(in_front_of(&consumer)).start();
    let large = github_with("e1", vec![b'x'; 1025]);
    let announced = large.begin_head(proxy.listen).await.answer().await;
    assert_refused(&announced, 413, "body_too_large", "limited");
    for size in [1025, 1024, 100] {
        let chunked = Wire::with(proxy.listen, &large.chunked(size)).await.answer().await;
        assert_refused(&chunked, 413, "body_too_large", "limited");
    }
    assert_refused(&large.send_h2(proxy.listen).await, 413, "body_too_large", "limited");
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "body")]), 5.0);
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn what_is_certainly_refused_is_refused_before_its_body() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let unsigned = github("e1").without("x-hub-signature-256");
    for (delivery, status) in [(&unsigned, 401), (&unsigned.clone().at("/x"), 404), (&github("e1").at("/stripe"), 401)] {
        assert_eq!(delivery.begin_head(proxy.listen).await.answer().await.status, status);
    }
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn a_sender_that_says_everything_before_it_listens_hears_why_it_is_refused() {
    let consumer = Consumer::answering(200).await;
    let proxy = small(in_front_of(&consumer)).start();
    let large = github_with("e1", vec![b'x'; 4 << 20]);
    let unsigned = large.clone().without("x-hub-signature-256");
    for (delivery, status) in [(&large, 413), (&unsigned, 401), (&unsigned.clone().at("/x"), 404)] {
        for bytes in [delivery.bytes(), delivery.chunked(60_000)] {
            let mut sender = Wire::with(proxy.listen, &bytes).await;
            assert_eq!(sender.answer().await.status, status);
            // What comes next is the next request, and not the rest of this one.
            sender.say(&github("e2").with_body("{}").bytes()).await;
            assert_eq!(sender.answer().await.json()["code"], "no_match");
        }
    }
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn a_sender_that_asks_first_is_not_told_to_go_on() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let asking = |delivery: Delivery| delivery.with("expect", "100-continue");
    let mut refused = asking(github("e1").without("x-hub-signature-256")).begin_head(proxy.listen).await;
    assert_eq!(refused.answer().await.status, 401);
    // Its body will not come.
    refused.closed().await;
    assert_eq!(consumer.seen().len(), 0);
    let mut taken = asking(github("e1")).begin_head(proxy.listen).await;
    assert_eq!(taken.answer().await.status, 100);
    taken.say(&github("e1").body).await;
    assert_eq!(taken.answer().await.outcome(), "forwarded");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nbody_timeout = \"200ms\"").start();
    let mut sender = github("e1").begin_head(proxy.listen).await;
    sender.say(b"{").await;
    assert_refused(&sender.answer().await, 408, "body_too_slow", "limited");
    drop(sender);
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "body_time")]), 1.0);
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn a_body_that_is_no_body() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let mut bytes = github("e1").chunked(1000);
    bytes.truncate(bytes.len() - "0\r\n\r\n".len());
    bytes.extend_from_slice(b"nonsense\r\n");
    let mut sender = Wire::with(proxy.listen, &bytes).await;
    assert_refused(&sender.answer().await, 400, "body_broken", "rejected");
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn more_bodies_at_once_than_may_be_held() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = in_front_of(&consumer).both("max_body = \"64KiB\"").table("[limits]\nbuffered = \"64KiB\"").start();
    let half = |event| github_with(event, vec![b'x'; 40_000]);
    // A body is held until the consumer has answered.
    let first = proxy.sending(&half("e1"));
    consumer.arrived("e1", 1).await;
    assert_refused(&proxy.send(&half("e2")).await, 503, "limited", "limited");
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "buffered")]), 1.0);
    assert_eq!(consumer.seen().len(), 1);
    gate.open();
    assert_eq!(first.await.unwrap().outcome(), "forwarded");
    assert_eq!(proxy.send(&half("e2")).await.outcome(), "forwarded");
    assert_eq!(consumer.seen().len(), 2);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_body_that_is_only_announced_takes_no_room() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).both("max_body = \"128KiB\"").table("[limits]\nbuffered = \"192KiB\"").start();
    let announced = [
        github_with("e1", vec![b'x'; 128 << 10]).begin_head(proxy.listen).await,
        github_with("e2", vec![b'x'; 128 << 10]).begin_head(proxy.listen).await,
    ];
    for event in ["e3", "e4", "e5", "e6"] {
        assert_eq!(proxy.send(&github(event)).await.outcome(), "forwarded");
    }
    drop(announced);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn connections_that_say_nothing_or_not_enough() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"200ms\"").start();
    for said in ["", "P", "PRI * HTTP/2.0\r\n", "POST /github HTTP/1.1\r\nhost:"] {
        let mut sender = Wire::with(proxy.listen, said.as_bytes()).await;
        sender.closed().await;
    }
    assert_untouched(proxy, &consumer).await;
}

#[tokio::test]
async fn what_is_only_announced_keeps_nobody_out() {
    let consumer = Consumer::answering(200).await;
    let limits = "[limits]\nbuffered = \"34MiB\"";
    let proxy = in_front_of(&consumer).table(limits).github("max_concurrent = 2").start();
    // Well-formed signatures of nothing, on bodies that are announced large and never come.
    let forged = github("forged").with("x-hub-signature-256", &format!("sha256={}", "0".repeat(64)));
    let mut held = Vec::new();
    for _ in 0..8 {
        let head = String::from_utf8(forged.bytes()).unwrap();
        let length = format!("content-length: {}", forged.body.len());
        let head = head.split("\r\n\r\n").next().unwrap().replace(&length, "content-length: 20000000");
        held.push(Wire::with(proxy.listen, format!("{head}\r\n\r\n{{").as_bytes()).await);
    }
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "forwarded");
    drop(held);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn two_hosts_are_none() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let bytes = String::from_utf8(stripe("e1").bytes()).unwrap().replacen("host: localhost", "host: localhost\r\nhost: other", 1);
    let mut wire = Wire::with(proxy.listen, bytes.as_bytes()).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (400, Some("bad_request")));
    assert_eq!(consumer.seen().len(), 0);
    drop(wire);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn more_attempts_than_may_be_under_way() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = in_front_of(&consumer).table("[limits]\nattempts = 2").start();
    for event in ["e1", "e2"] {
        let sender = stripe(event).begin(proxy.listen).await;
        consumer.arrived(event, 1).await;
        // The attempt goes on without its sender.
        drop(sender);
    }
    assert_refused(&proxy.send(&stripe("e3")).await, 503, "limited", "limited");
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "attempts")]), 1.0);
    gate.open();
    let next = async || Some(proxy.send(&stripe("e3")).await).filter(|answer| answer.status == 200);
    assert_eq!(eventually("room for another", next).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
}
