//! A store that cannot be asked: what is refused, what is let through, and that it mends by itself.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::store_reset::knows_its_store;
use crate::support::consumer::{Act, Consumer, Gate, Seen};
use crate::support::eventually;
use crate::support::fault_proxy::{Fault, FaultProxy};
use crate::support::keys::Keys;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, Delivery, github, stripe};

/// A port that nobody listens on, held so that nobody else can.
fn nowhere() -> (tokio::net::TcpSocket, String) {
    let socket = Consumer::absent();
    let url = format!("redis://{}", socket.local_addr().unwrap());
    (socket, url)
}

const QUICK: &str = "timeout = \"200ms\"";

/// How long an answer may take that waits for nothing: far below any store's budget, with room for a busy machine.
const AT_ONCE: Duration = Duration::from_millis(150);

async fn timed(proxy: &Proxy, delivery: &Delivery) -> (Answer, Duration) {
    let began = Instant::now();
    let answer = proxy.send(delivery).await;
    (answer, began.elapsed())
}

/// Waits until the store works for deliveries again.
async fn works_again(proxy: &Proxy) {
    let probe = async || (proxy.send(&stripe("probe")).await.outcome() == "duplicate").then_some(());
    eventually("the store works again", probe).await;
    // What was learnt of the outage is over too.
    proxy.counted("hookonce_store_breaker_open", &[], 0.0).await;
}

#[tokio::test]
async fn closed_refuses_within_the_budget_and_then_at_once() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    assert_eq!(proxy.send(&stripe("before")).await.outcome(), "forwarded");
    redis.kill();
    let (refused, took) = timed(&proxy, &stripe("e1")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
    assert_eq!(refused.json()["code"], "store_down");
    assert!(refused.header("retry-after").is_some());
    // The budget is one second; two more are for a busy machine.
    assert!(took < Duration::from_secs(3), "{took:?}");
    proxy.counted("hookonce_store_breaker_open", &[], 1.0).await;
    let (refused, took) = timed(&proxy, &stripe("e1")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(proxy.metrics().await.value("hookonce_store_errors_total", &[("op", "claim"), ("kind", "breaker_open")]), 1.0);
    redis.restart();
    eventually("the store works again", async || (proxy.send(&stripe("e1")).await.outcome() == "forwarded").then_some(())).await;
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.seen().iter().filter_map(Seen::mark).count(), 0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_frozen_store_costs_nothing_once_it_is_known() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    assert_eq!(proxy.send(&stripe("probe")).await.outcome(), "forwarded");
    redis.signal("STOP");
    proxy.counted("hookonce_store_breaker_open", &[], 1.0).await;
    for event in ["e1", "e2", "e3", "e1"] {
        let (passed, took) = timed(&proxy, &github(event)).await;
        assert_eq!(passed.status, 200);
        assert!(took < AT_ONCE, "{took:?}");
    }
    redis.signal("CONT");
    works_again(&proxy).await;
    proxy.counted("hookonce_written_back_total", &[("result", "done")], 3.0).await;
    assert_eq!(consumer.seen().len(), 4);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn local_claims_in_the_process_and_tells_the_store_when_it_is_back() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK);
    let (proxy, other) = (setup.start(), setup.start());
    redis.kill();
    let passed = proxy.send(&github("e1")).await;
    assert_eq!((passed.status, passed.outcome()), (200, "store_down"));
    assert_eq!(consumer.seen()[0].mark(), Some("store-down"));
    assert_eq!(proxy.metrics().await.marked("github", "store-down"), 1.0);
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    redis.restart();
    proxy.counted("hookonce_written_back_total", &[("result", "done")], 1.0).await;
    proxy.in_state("github", "e1", "done").await;
    // Before, it would take the event on its own as well.
    works_again(&other).await;
    assert_eq!(other.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await && other.stop().await);
}

#[tokio::test]
async fn what_the_store_cannot_be_told_yet_is_still_known_here() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).start();
    knows_its_store(&proxy).await;
    // Without scripts it can take a new event, and cannot be told of one that was handled without it.
    let scripts = |allowed| ["ACL", "SETUSER", "default", allowed];
    Keys::of(&redis).order(&scripts("-evalsha"));
    redis.signal("STOP");
    proxy.counted("hookonce_store_breaker_open", &[], 1.0).await;
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "store_down");
    redis.signal("CONT");
    works_again(&proxy).await;
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    Keys::of(&redis).order(&scripts("+evalsha"));
    proxy.in_state("github", "e1", "done").await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_that_failed_without_the_store_leaves_no_trace() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 500 } else { 200 })).await;
    let mut redis = RedisProcess::start();
    let proxy = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).start();
    redis.kill();
    assert_eq!(proxy.send(&github("e1")).await.status, 500);
    redis.restart();
    works_again(&proxy).await;
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "forwarded");
    let marks: Vec<_> = consumer.seen().iter().filter(|seen| seen.event_id() == "e1").map(|seen| seen.mark().is_some()).collect();
    assert_eq!(marks, [true, false]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_that_ended_unknown_without_the_store_is_in_doubt_afterwards() {
    let consumer =
        Consumer::deciding(|seen, nth| if (seen.event_id(), nth) == ("e1", 1) { Act::Close } else { Act::Answer(200) }).await;
    let mut redis = RedisProcess::start();
    let setup = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).github("lease = \"1s\"");
    let (proxy, other) = (setup.start(), setup.start());
    redis.kill();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "ambiguous");
    redis.restart();
    proxy.counted("hookonce_written_back_total", &[("result", "doubt")], 1.0).await;
    works_again(&other).await;
    assert_eq!(other.send(&github("e1")).await.outcome(), "forwarded");
    assert_eq!(consumer.seen().iter().rfind(|seen| seen.event_id() == "e1").unwrap().mark(), Some("unknown"));
    assert!(proxy.stop().await && other.stop().await);
}

#[tokio::test]
async fn an_event_that_ended_unknown_without_the_store_is_held_to_its_lease_though_the_store_is_back() {
    let consumer =
        Consumer::deciding(|seen, nth| if (seen.event_id(), nth) == ("e1", 1) { Act::Close } else { Act::Answer(200) }).await;
    let mut redis = RedisProcess::start();
    let held = "lease = \"4s\"\nin_flight = \"retry\"";
    let proxy = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).github(held).start();
    redis.kill();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "ambiguous");
    redis.restart();
    works_again(&proxy).await;
    let next = async || Some(proxy.send(&github("e1")).await).filter(|next| next.outcome() != "in_flight");
    assert_eq!(eventually("the lease is over", next).await.outcome(), "forwarded");
    let marks: Vec<_> = consumer.seen().iter().filter(|seen| seen.event_id() == "e1").map(|seen| seen.mark().is_some()).collect();
    assert_eq!(marks, [true, true]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn two_instances_that_took_the_same_event_are_counted() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK);
    let (one, other) = (setup.start(), setup.start());
    redis.kill();
    assert_eq!(one.send(&github("e1")).await.status, 200);
    assert_eq!(other.send(&github("e1")).await.status, 200);
    redis.restart();
    let counted = async |result: &str| {
        let labels = [("result", result)];
        one.metrics().await.value("hookonce_written_back_total", &labels)
            + other.metrics().await.value("hookonce_written_back_total", &labels)
    };
    eventually("both have told", async || ((counted("done").await, counted("conflict").await) == (1.0, 1.0)).then_some(())).await;
    assert_eq!(consumer.seen().iter().filter(|seen| seen.mark() == Some("store-down")).count(), 2);
    assert!(one.stop().await && other.stop().await);
}

#[tokio::test]
async fn closed_turns_to_local_before_the_provider_gives_up() {
    let consumer = Consumer::answering(200).await;
    let (_socket, url) = nowhere();
    let setup = in_front_of(&consumer).store(&url).store_keys(QUICK).table("[drain]\ndelay = \"0s\"\ntimeout = \"100ms\"");
    let proxy = setup.stripe("closed_max = \"1s\"").start();
    let began = Instant::now();
    assert_eq!(proxy.send(&stripe("e1")).await.status, 503);
    eventually("closed is over", async || (proxy.send(&stripe("e1")).await.status == 200).then_some(())).await;
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(consumer.seen()[0].mark(), Some("store-down"));
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    // Nobody could be told.
    assert!(!proxy.stop().await);
}

#[tokio::test]
async fn a_full_store_takes_no_new_events_and_closed_turns_to_local_too() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).stripe("closed_max = \"1s\"").start();
    assert_eq!(proxy.send(&stripe("before")).await.outcome(), "forwarded");
    proxy.in_state("stripe", "before", "done").await;
    Keys::of(&redis).set("maxmemory", "1");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "store_down");
    let is_let_through = async || {
        // What the server knows it goes on answering for, which says nothing about what is new.
        assert_eq!(proxy.send(&stripe("before")).await.outcome(), "duplicate");
        (proxy.send(&stripe("e1")).await.status == 200).then_some(())
    };
    eventually("closed is over", is_let_through).await;
    // A full server takes what is written back by a script that is allowed to.
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.seen().iter().map(|seen| seen.mark().is_some()).collect::<Vec<_>>(), [false, true]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_full_table_of_local_claims_refuses_and_keeps_what_it_has() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).table("[limits]\nlocal_claims = 2");
    let proxy = setup.start();
    redis.kill();
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    assert_eq!(proxy.send(&github("e2")).await.status, 200);
    assert_eq!(proxy.send(&github("e3")).await.outcome(), "store_down");
    assert_eq!(consumer.count("e3"), 0);
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    redis.restart();
    proxy.counted("hookonce_written_back_total", &[("result", "done")], 2.0).await;
    assert_eq!(proxy.send(&github("e3")).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_only_observes_is_not_held_up() {
    let consumer = Consumer::answering(200).await;
    let (_socket, url) = nowhere();
    let proxy = in_front_of(&consumer).store(&url).store_keys(QUICK).stripe("dedupe = \"observe\"").start();
    assert_eq!(proxy.send(&stripe("e1")).await.status, 200);
    assert_eq!(consumer.seen()[0].mark(), Some("store-down"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn open_forwards_every_copy_marked() {
    let consumer = Consumer::answering(200).await;
    let (_socket, url) = nowhere();
    let proxy = in_front_of(&consumer).store(&url).store_keys(QUICK).github("on_store_down = \"open\"").start();
    for _ in 0..2 {
        let passed = proxy.send(&github("e1")).await;
        assert_eq!((passed.status, passed.outcome()), (200, "store_down"));
    }
    let marks: Vec<_> = consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect();
    assert_eq!(marks, [Some("store-down".to_owned()), Some("store-down".to_owned())]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_was_completed_lately_is_known_only_while_the_store_does_not_answer() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let token = "admin-token-0123456789";
    let setup = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).top(&format!("admin_token = \"{token}\""));
    let (proxy, other) = (setup.start(), setup.start());
    // With its first look at the marker it forgets what it has completed before: an operator may have changed something.
    knows_its_store(&proxy).await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    redis.signal("STOP");
    proxy.counted("hookonce_store_breaker_open", &[], 1.0).await;
    let known = proxy.send(&stripe("e1")).await;
    assert_eq!((known.status, known.outcome()), (200, "duplicate"));
    assert_eq!(other.send(&stripe("e1")).await.outcome(), "store_down");
    redis.signal("CONT");
    proxy.counted("hookonce_store_breaker_open", &[], 0.0).await;
    // Forgotten through one instance, forgotten by all: also while the store is away again.
    let bearer = format!("Bearer {token}");
    let forget = Delivery::plain("DELETE", "/api/events/stripe/e1").with("authorization", &bearer);
    eventually("the store can be asked", async || (other.admin(&forget).await.status == 200).then_some(())).await;
    let is_empty = async || {
        redis.signal("STOP");
        proxy.counted("hookonce_store_breaker_open", &[], 1.0).await;
        let answer = proxy.send(&stripe("e1")).await;
        redis.signal("CONT");
        proxy.counted("hookonce_store_breaker_open", &[], 0.0).await;
        (answer.outcome() == "store_down").then_some(())
    };
    eventually("the other instance has heard of it", is_empty).await;
    eventually("it goes through again", async || (proxy.send(&stripe("e1")).await.outcome() == "forwarded").then_some(())).await;
    assert_eq!(consumer.seen()[1].mark(), Some("forgotten"));
    assert!(proxy.stop().await && other.stop().await);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_withdrawn() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).start();
    assert_eq!(proxy.send(&stripe("probe")).await.outcome(), "forwarded");
    redis.signal("STOP");
    // The command reaches the server, which will carry it out when it wakes up.
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "store_down");
    redis.signal("CONT");
    let began = Instant::now();
    eventually("it goes through", async || (proxy.send(&stripe("e1")).await.outcome() == "forwarded").then_some(())).await;
    assert!(began.elapsed() < Duration::from_secs(10), "the lease is 15 s");
    let attempts: Vec<_> =
        consumer.seen().iter().map(|seen| (seen.header("hookonce-attempt").unwrap().to_owned(), seen.mark().is_some())).collect();
    assert_eq!(attempts, [("1".to_owned(), false), ("1".to_owned(), false)]);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn copies_at_once_are_forwarded_once_though_the_store_is_down() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let mut redis = RedisProcess::start();
    let proxy = in_front_of(&consumer).store(&redis.url()).store_keys(QUICK).top("workers = 1").start();
    redis.kill();
    let copies = proxy.sending_copies(&github("e1"), 5).await;
    consumer.arrived("e1", 1).await;
    gate.open();
    for copy in copies {
        assert!(copy.await.unwrap().is_success());
    }
    assert_eq!(consumer.count("e1"), 1);
    redis.restart();
    // Stopping waits until the store has been told.
    assert!(proxy.stop().await);
    assert!(Keys::of(&redis).value(&Keys::name("github", "e1")).starts_with("1d|"));
}

#[tokio::test]
async fn a_store_that_is_away_at_the_start_stops_nothing() {
    let consumer = Consumer::answering(200).await;
    let (_socket, url) = nowhere();
    let setup = in_front_of(&consumer).store(&url).store_keys(QUICK);
    let readyz = Delivery::plain("GET", "/readyz");
    let proxy = setup.start();
    assert_eq!(proxy.admin(&readyz).await.status, 200);
    assert_eq!(proxy.admin(&readyz.clone().at("/readyz?verbose")).await.json()["store"], "down");
    assert_eq!(proxy.metrics().await.value("hookonce_store_up", &[]), 0.0);
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "store_down");
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

/// More than it takes to call a store down.
const LOOKS: f64 = 8.0;

#[tokio::test]
async fn a_store_that_answers_within_its_budget_is_not_called_down() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let network = FaultProxy::to(SocketAddr::from(([127, 0, 0, 1], redis.port()))).await;
    let setup = in_front_of(&consumer).store(&format!("redis://{}", network.address())).store_keys("timeout = \"3s\"");
    let proxy = setup.stripe("on_store_down = \"closed\"").start();
    proxy.counted("hookonce_store_up", &[], 1.0).await;
    network.set(Fault::Delay(Duration::from_millis(250)));
    let looked = async || {
        let looks = proxy.metrics().await.value("hookonce_store_seconds_count", &[("op", "pulse")]);
        (looks >= LOOKS).then_some(())
    };
    eventually("a watch that has made up its mind", looked).await;
    for event in ["e1", "e2"] {
        let answer = proxy.send(&stripe(event)).await;
        assert_eq!((answer.status, answer.outcome()), (200, "forwarded"), "{answer:?}");
    }
    assert!(proxy.stop().await);
}
