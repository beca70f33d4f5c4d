//! One event, many deliveries, one effect.

use bytes::Bytes;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::proxy::{Proxy, answers, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, github, github_with, stripe};

/// Answers with this status, and a body and headers of its own, once the gate is open.
async fn gated(gate: &Gate, status: u16) -> Consumer {
    let gate = gate.clone();
    let act = move || Act::Respond(status, vec![("x-consumer", "one"), ("x-consumer", "two")], Bytes::from("the answer\n"));
    Consumer::deciding(move |_, _| Act::Behind(gate.clone(), Box::new(act()))).await
}

fn count_of(answers: &[Answer], outcome: &str) -> usize {
    answers.iter().filter(|answer| answer.outcome() == outcome).count()
}

#[tokio::test]
async fn a_duplicate_is_answered_without_reaching_the_consumer() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    for delivery in [github("e1"), stripe("e1")] {
        let (first, second) = (proxy.send(&delivery).await, proxy.send(&delivery).await);
        assert_eq!((first.status, first.outcome()), (200, "forwarded"));
        assert_eq!((second.status, second.outcome()), (200, "duplicate"));
        assert_eq!(second.json()["status"], "duplicate");
    }
    assert_eq!(consumer.count("e1"), 2);
    let metrics = proxy.metrics().await;
    assert_eq!((metrics.outcome("github", "forwarded"), metrics.outcome("github", "duplicate")), (1.0, 1.0));
    assert_eq!(metrics.value("hookonce_dedup_misses_total", &[("provider", "github")]), 1.0);
    assert_eq!(metrics.value("hookonce_dedup_hits_total", &[("provider", "github")]), 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_failure_is_passed_on_and_the_next_delivery_is_forwarded() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 501 } else { 200 })).await;
    let proxy = in_front_of(&consumer).start();
    let answers = [proxy.send(&stripe("e1")).await, proxy.send(&stripe("e1")).await, proxy.send(&stripe("e1")).await];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [501, 200, 200]);
    assert_eq!(answers.each_ref().map(|answer| answer.outcome()), ["failed", "forwarded", "duplicate"]);
    let seen = consumer.seen();
    assert_eq!(seen.iter().map(|seen| seen.header("hookonce-attempt").unwrap()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(seen.iter().all(|seen| seen.mark().is_none()));
    let metrics = proxy.metrics().await;
    assert_eq!(metrics.value("hookonce_failed_attempts_sum", &[("provider", "stripe")]), 2.0);
    assert_eq!(metrics.value("hookonce_failed_attempts_count", &[("provider", "stripe")]), 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_that_fails_again_and_again_is_counted_from_its_third_failure_on() {
    let consumer = Consumer::answering(500).await;
    let proxy = in_front_of(&consumer).stripe("retention = \"8d\"").start();
    let repeated = async || proxy.metrics().await.value("hookonce_repeated_failures_total", &[("provider", "stripe")]);
    for expected in [0.0, 0.0, 1.0, 2.0] {
        proxy.send(&stripe("e1")).await;
        assert_eq!(repeated().await, expected);
    }
    proxy.send(&stripe("e2")).await;
    assert_eq!(repeated().await, 2.0);
    let retention = proxy.metrics().await.value("hookonce_retention_seconds", &[("provider", "stripe")]);
    assert_eq!(retention, 8.0 * 86_400.0);
}

#[tokio::test]
async fn sixty_copies_at_once_are_forwarded_once_and_all_get_the_answer() {
    let gate = Gate::closed();
    let consumer = gated(&gate, 202).await;
    let proxy = in_front_of(&consumer).top("workers = 1").start();
    let copies = proxy.sending_copies(&stripe("e1"), 60).await;
    gate.open();
    let answers = answers(copies).await;
    assert_eq!((count_of(&answers, "forwarded"), count_of(&answers, "waited")), (1, 59));
    let first = answers.iter().find(|answer| answer.outcome() == "forwarded").unwrap();
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (202, &first.body));
        assert_eq!(without_outcome(answer), without_outcome(first));
    }
    assert_eq!(consumer.count("e1"), 1);
    assert_eq!(proxy.metrics().await.value("hookonce_dedup_hits_total", &[("provider", "stripe")]), 59.0);
    assert!(proxy.stop().await);
}

fn without_outcome(answer: &Answer) -> http::HeaderMap {
    let mut headers = answer.headers.clone();
    headers.remove("hookonce-outcome");
    headers
}

#[tokio::test]
async fn sixty_copies_spread_over_runtimes_are_forwarded_once() {
    let gate = Gate::closed();
    let (consumer, redis) = (gated(&gate, 200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).top("workers = 4").start();
    for event in ["e1", "e2", "e3"] {
        let copies = proxy.sending_copies(&stripe(event), 60).await;
        gate.open();
        let answers = answers(copies).await;
        // A copy that another runtime takes up late finds the event done.
        let served = count_of(&answers, "waited") + count_of(&answers, "duplicate");
        assert_eq!((count_of(&answers, "forwarded"), served), (1, 59));
        assert!(answers.iter().all(Answer::is_success));
        assert_eq!(consumer.count(event), 1);
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn when_the_first_copy_fails_no_copy_is_told_success() {
    for workers in ["workers = 1", "workers = 4"] {
        let gate = Gate::closed();
        let consumer = gated(&gate, 503).await;
        let proxy = in_front_of(&consumer).top(workers).start();
        let copies = proxy.sending_copies(&stripe("e1"), 60).await;
        gate.open();
        let answers = answers(copies).await;
        assert!(answers.iter().all(|answer| (answer.status, answer.outcome()) == (503, "failed")));
        assert!(answers.iter().all(|answer| answer.body == "the answer\n"));
        assert!(proxy.stop().await);
    }
}

#[tokio::test]
async fn when_the_first_copy_ends_unknown_no_copy_is_told_success() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Close))).await;
    let proxy = in_front_of(&consumer).top("workers = 1").start();
    let copies = proxy.sending_copies(&stripe("e1"), 5).await;
    consumer.arrived("e1", 1).await;
    gate.open();
    for copy in copies {
        assert_eq!(copy.await.unwrap().status, 504);
    }
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn copies_beyond_the_limit_of_waiters_are_told_to_come_back() {
    let gate = Gate::closed();
    let consumer = gated(&gate, 200).await;
    let proxy = in_front_of(&consumer).top("workers = 1").table("[limits]\nwaiters_per_event = 2").start();
    let first = proxy.sending_copies(&stripe("e1"), 1).await;
    let waiters = proxy.sending_copies(&stripe("e1"), 2).await;
    let refused = proxy.send(&stripe("e1")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "limited"));
    assert_eq!(refused.json()["code"], "limited");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "waiters")]), 1.0);
    gate.open();
    assert!(answers(first).await.iter().chain(&answers(waiters).await).all(Answer::is_success));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn two_events_do_not_wait_for_each_other() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |seen, _| match seen.event_id() {
        "slow" => Act::Behind(held.clone(), Box::new(Act::Answer(200))),
        _ => Act::Answer(200),
    })
    .await;
    let proxy = in_front_of(&consumer).top("workers = 1").start();
    let slow = proxy.sending_copies(&stripe("slow"), 2).await;
    for event in ["e1", "e2"] {
        assert_eq!(proxy.send(&stripe(event)).await.outcome(), "forwarded");
    }
    assert_eq!(proxy.send(&github("slow-not")).await.outcome(), "forwarded");
    gate.open();
    assert!(answers(slow).await.iter().all(Answer::is_success));
    assert!(proxy.stop().await);
}

/// A store that holds its breath while the consumer accepts: only the process knows that the event is done.
async fn accepted_but_not_stored(limits: &str) -> (RedisProcess, Consumer, Proxy) {
    let gate = Gate::closed();
    let (consumer, redis) = (gated(&gate, 200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 1").table(limits);
    let proxy = setup.start();
    let first = proxy.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    redis.signal("STOP");
    gate.open();
    assert_eq!(first.await.unwrap().outcome(), "forwarded");
    (redis, consumer, proxy)
}

#[tokio::test]
async fn a_copy_after_the_success_is_a_duplicate_though_the_store_has_not_confirmed() {
    let (redis, consumer, proxy) = accepted_but_not_stored("").await;
    let copy = proxy.send(&stripe("e1")).await;
    assert_eq!((copy.status, copy.outcome()), (200, "duplicate"));
    // It was not asked for: a store that comes back after the lease would let the copy through.
    assert_eq!(proxy.metrics().await.value("hookonce_store_seconds_count", &[("op", "claim")]), 1.0);
    redis.signal("CONT");
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_duplicate_needs_no_place_among_the_waiters() {
    let (redis, _consumer, proxy) = accepted_but_not_stored("[limits]\nwaiters_per_event = 0").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    redis.signal("CONT");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_copy_that_comes_while_the_answer_is_still_being_read_is_a_duplicate() {
    let gate = Gate::closed();
    let rest = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::InTwo(200, "a".into(), rest.clone(), "b".into())).await;
    let proxy = in_front_of(&consumer).start();
    let first = proxy.sending(&stripe("e1"));
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    gate.open();
    assert_eq!(first.await.unwrap().body, "ab");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_answer_whose_body_breaks_off_after_a_success_completes_the_event() {
    let consumer = Consumer::deciding(|_, _| Act::BreakOff(200, "half".into())).await;
    let proxy = in_front_of(&consumer).start();
    let first = proxy.send(&stripe("e1")).await;
    assert_eq!((first.status, first.outcome(), &first.body[..]), (200, "forwarded", &b"half"[..]));
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn another_instance_waits_for_the_first_and_gets_its_outcome() {
    let gate = Gate::closed();
    let held = gate.clone();
    let fails = |seen: &crate::support::consumer::Seen| if seen.event_id() == "bad" { 507 } else { 200 };
    let consumer = Consumer::deciding(move |seen, _| Act::Behind(held.clone(), Box::new(Act::Answer(fails(seen))))).await;
    let redis = RedisProcess::start();
    let setup = in_front_of(&consumer).store(&redis.url());
    let (one, other) = (setup.start(), setup.start());
    let firsts = [one.sending(&stripe("good")), one.sending(&stripe("bad"))];
    consumer.arrived("good", 1).await;
    consumer.arrived("bad", 1).await;
    let copies = [other.sending_copies(&stripe("good"), 1).await, other.sending_copies(&stripe("bad"), 1).await];
    let claims = async || other.metrics().await.value("hookonce_store_seconds_count", &[("op", "claim")]);
    eventually("both copies have met a claim", async || (claims().await >= 2.0).then_some(())).await;
    gate.open();
    let [good, bad] = copies.map(answers);
    let (good, bad) = (good.await.remove(0), bad.await.remove(0));
    assert_eq!((good.status, good.outcome()), (200, "duplicate"));
    assert_eq!((bad.status, bad.outcome()), (507, "failed"));
    for first in firsts {
        first.await.unwrap();
    }
    assert_eq!((consumer.count("good"), consumer.count("bad")), (1, 1));
    assert!(one.stop().await && other.stop().await);
}

#[tokio::test]
async fn one_id_at_two_providers_is_two_events() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!(proxy.send(&github_with("e1", "{\"id\":\"e1\"}")).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
}
