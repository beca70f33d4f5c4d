//! Queue mode: accepted durably, answered at once, delivered until it is done.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::proxy::{Proxy, Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github, github_with, stripe, stripe_with};
use crate::support::{eventually, keys::Keys};

const QUEUE: &str = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"50ms\", \"50ms\", \"50ms\"]";

/// Both providers in queue mode.
fn queueing(consumer: &Consumer) -> Setup {
    in_front_of(consumer).both("mode = \"queue\"\nlease = \"1s\"").table(QUEUE)
}

/// Waits until the queue of a provider holds so many events, and so many dead letters.
async fn holds(proxy: &Proxy, provider: &str, events: f64, dead: f64) {
    proxy.counted("hookonce_queue_events", &[("provider", provider)], events).await;
    proxy.counted("hookonce_dead_letters", &[("provider", provider)], dead).await;
}

async fn attempts(proxy: &Proxy, provider: &str, result: &str) -> f64 {
    proxy.metrics().await.value("hookonce_queue_attempts_total", &[("provider", provider), ("result", result)])
}

on_each_store! {
    an_event_is_acknowledged_before_the_consumer_has_it
    what_the_consumer_gets_is_what_came
    a_failing_consumer_is_tried_again
    an_event_that_fails_for_good_is_a_dead_letter
    copies_are_answered_from_the_start
    a_full_queue_refuses
    another_body_under_one_id_is_another_event
    deliveries_without_an_id_are_queued_too
    order_is_kept_where_it_is_asked_for
    a_line_moves_on_as_soon_as_its_first_is_done
    events_that_do_not_say_wait_for_nobody
}

on_each_lasting_store! { file_over_starts, redis_over_starts:
    what_is_left_at_a_stop_is_delivered_after_the_next_start
    events_are_known_when_the_mode_changes
    another_body_is_another_event_when_the_mode_changes_too
    a_doubt_goes_along_when_the_mode_changes
    what_is_observed_is_not_dropped_when_the_mode_changes
    a_bypass_holds_when_the_mode_changes
}

async fn an_event_is_acknowledged_before_the_consumer_has_it(store: &str) {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = queueing(&consumer).store(store).start();
    let answer = proxy.send(&stripe("e1")).await;
    assert_eq!((answer.status, answer.outcome(), answer.json()["status"].as_str()), (200, "queued", Some("queued")));
    consumer.arrived("e1", 1).await;
    proxy.in_state("stripe", "e1", "queued").await;
    let copy = proxy.send(&stripe("e1")).await;
    assert_eq!((copy.status, copy.outcome()), (200, "duplicate"));
    gate.open();
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    holds(&proxy, "stripe", 0.0, 0.0).await;
    assert_eq!((consumer.count("e1"), consumer.seen()[0].mark()), (1, None));
    assert!(proxy.stop().await);
}

async fn what_the_consumer_gets_is_what_came(store: &str) {
    let consumer = Consumer::answering(204).await;
    let proxy = queueing(&consumer).store(store).start();
    let delivery = github("e1").with("x-any", "thing");
    assert_eq!(proxy.send(&delivery).await.outcome(), "queued");
    consumer.arrived("e1", 1).await;
    let seen = consumer.seen().remove(0);
    assert_eq!((seen.target.as_str(), &seen.body), ("/github", &delivery.body));
    for name in ["x-any", "x-hub-signature-256", "x-github-delivery", "content-type"] {
        assert_eq!(seen.headers.get(name), delivery.headers.get(name), "{name}");
    }
    assert_eq!((seen.header("hookonce-event-id"), seen.header("hookonce-attempt")), (Some("e1"), Some("1")));
    assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
    assert!(proxy.stop().await);
}

async fn a_failing_consumer_is_tried_again(store: &str) {
    let consumer = Consumer::deciding(|_, nth| if nth < 3 { Act::Answer(500) } else { Act::Answer(200) }).await;
    let proxy = queueing(&consumer).store(store).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    proxy.in_state("stripe", "e1", "done").await;
    let seen = consumer.seen();
    let attempts_told: Vec<_> = seen.iter().map(|seen| seen.header("hookonce-attempt").unwrap().to_owned()).collect();
    assert_eq!(attempts_told, ["1", "2", "3"]);
    assert!(seen.iter().all(|seen| seen.mark().is_none()), "each failure was explicit");
    proxy.counted("hookonce_queue_attempts_total", &[("provider", "stripe"), ("result", "done")], 1.0).await;
    assert_eq!(attempts(&proxy, "stripe", "failed").await, 2.0);
    assert!(proxy.stop().await);
}

async fn an_event_that_fails_for_good_is_a_dead_letter(store: &str) {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "poison" { 422 } else { 200 })).await;
    let proxy = queueing(&consumer).store(store).start();
    assert_eq!(proxy.send(&stripe("poison")).await.outcome(), "queued");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    proxy.in_state("stripe", "e1", "done").await;
    holds(&proxy, "stripe", 0.0, 1.0).await;
    assert_eq!((consumer.count("poison"), attempts(&proxy, "stripe", "dead").await), (4, 1.0));
    proxy.in_state("stripe", "poison", "queued").await;
    assert_eq!(proxy.send(&stripe("poison")).await.outcome(), "duplicate", "it is ours");
    assert!(proxy.stop().await);
}

async fn copies_are_answered_from_the_start(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = queueing(&consumer).store(store).top("workers = 2").start();
    let copies = proxy.sending_copies(&stripe("e1"), 40).await;
    let mut outcomes = Vec::new();
    for answer in crate::support::proxy::answers(copies).await {
        assert_eq!(answer.status, 200);
        outcomes.push(answer.outcome().to_owned());
    }
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "queued").count(), 1, "{outcomes:?}");
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

async fn a_full_queue_refuses(store: &str) {
    let consumer = Consumer::answering(500).await;
    let table = "[queue]\naccept_loss = true\nmax_events = 2\nschedule = [\"0s\", \"1h\"]";
    let proxy = in_front_of(&consumer).both("mode = \"queue\"").table(table).store(store).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "queued");
    let refused = proxy.send(&stripe("e3")).await;
    assert_eq!((refused.status, refused.outcome(), refused.json()["code"].as_str()), (503, "limited", Some("queue_full")));
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate", "what is there needs no room");
    assert_eq!(proxy.send(&github("e3")).await.outcome(), "queued", "others have room of their own");
    assert!(proxy.stop().await);
}

async fn another_body_under_one_id_is_another_event(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = queueing(&consumer).store(store).start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "queued");
    let other = github_with("e1", "{\"other\":1}");
    assert_eq!(proxy.send(&other).await.outcome(), "queued");
    assert_eq!(proxy.send(&other).await.outcome(), "duplicate");
    let both = async || (consumer.seen().len() == 2).then_some(());
    eventually("both have come", both).await;
    let seen = consumer.seen();
    let marked: Vec<_> = seen.iter().filter_map(|seen| seen.mark()).collect();
    assert_eq!(marked, ["conflict"]);
    assert!(proxy.stop().await);
}

async fn deliveries_without_an_id_are_queued_too(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = queueing(&consumer).store(store).start();
    let nameless = github("e1").without("x-github-delivery");
    for _ in 0..2 {
        assert_eq!(proxy.send(&nameless).await.outcome(), "queued");
    }
    eventually("both have come", async || (consumer.seen().len() == 2).then_some(())).await;
    assert!(consumer.seen().iter().all(|seen| seen.mark() == Some("no-id")));
    holds(&proxy, "github", 0.0, 0.0).await;
    assert!(proxy.stop().await);
}

async fn order_is_kept_where_it_is_asked_for(store: &str) {
    let consumer = Consumer::deciding(|seen, nth| Act::Answer(if seen.event_id() == "a1" && nth < 3 { 503 } else { 200 })).await;
    let proxy = queueing(&consumer).stripe("order_by = { json = \"/customer\" }").store(store).start();
    let of = |id: &str, customer: &str| stripe_with(format!("{{\"id\":\"{id}\",\"customer\":\"{customer}\"}}"));
    for (id, customer) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b")] {
        assert_eq!(proxy.send(&of(id, customer)).await.outcome(), "queued");
    }
    for id in ["a3", "b2"] {
        proxy.in_state("stripe", id, "done").await;
    }
    let order = |line: &str| -> Vec<String> {
        consumer.seen().iter().map(|seen| seen.event_id().to_owned()).filter(|id| id.starts_with(line)).collect()
    };
    assert_eq!(order("a"), ["a1", "a1", "a1", "a2", "a3"]);
    assert_eq!(order("b"), ["b1", "b2"]);
    assert!(proxy.stop().await);
}

async fn a_line_moves_on_as_soon_as_its_first_is_done(store: &str) {
    const EVENTS: u32 = 20;
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = queueing(&consumer).stripe("order_by = { json = \"/customer\" }").store(store).start();
    for index in 1..=EVENTS {
        let delivery = stripe_with(format!("{{\"id\":\"e{index}\",\"customer\":\"a\"}}"));
        assert_eq!(proxy.send(&delivery).await.outcome(), "queued");
    }
    consumer.arrived("e1", 1).await;
    let opened = Instant::now();
    gate.open();
    proxy.in_state("stripe", &format!("e{EVENTS}"), "done").await;
    // Far less than if somebody only looked every half second whose turn it is.
    let took = opened.elapsed();
    assert!(took < EVENTS * Duration::from_millis(500) / 2, "{took:?}");
    assert!(proxy.stop().await);
}

async fn what_is_left_at_a_stop_is_delivered_after_the_next_start(store: &str) {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await;
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"300ms\"]";
    let setup = in_front_of(&consumer).both("mode = \"queue\"").table(table).store(store);
    let proxy = setup.start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    consumer.arrived("e1", 1).await;
    let postponed = async || (attempts(&proxy, "stripe", "failed").await == 1.0).then_some(());
    eventually("it is postponed", postponed).await;
    assert!(proxy.stop().await);
    assert_eq!(consumer.count("e1"), 1);
    let proxy = setup.start();
    consumer.arrived("e1", 2).await;
    proxy.in_state("stripe", "e1", "done").await;
    assert!(consumer.seen().iter().all(|seen| seen.mark().is_none()));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_call_without_an_answer_is_tried_again_marked() {
    let consumer = Consumer::deciding(|_, nth| if nth == 1 { Act::Close } else { Act::Answer(200) }).await;
    let proxy = queueing(&consumer).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    proxy.in_state("stripe", "e1", "done").await;
    let marks: Vec<_> = consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect();
    assert_eq!(marks, [None, Some("unknown".to_owned())]);
    assert_eq!(attempts(&proxy, "stripe", "unknown").await, 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_key_in_redis_is_beside_its_letter() {
    let (consumer, server) = (Consumer::answering(503).await, RedisProcess::start());
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"1h\"]";
    let proxy = in_front_of(&consumer).both("mode = \"queue\"").table(table).store(&server.url()).start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "queued");
    let mut keys = Keys::of(&server);
    let names = keys.names();
    let cell = names.iter().find(|name| name.ends_with(":e1")).unwrap();
    assert!(cell.starts_with("test:github:{q") && cell.ends_with("}:e1"), "{names:?}");
    assert_eq!(keys.ttl(cell), -1, "it has no end while the event is in the queue");
    let tag = &cell[cell.find('{').unwrap()..=cell.find('}').unwrap()];
    assert!(names.iter().filter(|name| name.contains(":github:")).all(|name| name.contains(tag)), "{names:?}");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn nothing_is_accepted_by_a_redis_that_may_lose_it() {
    let (consumer, server) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).both("mode = \"queue\"").store(&server.url()).start();
    let refused = proxy.send(&stripe("e1")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
    let mut keys = Keys::of(&server);
    keys.order(&["CONFIG", "SET", "appendonly", "yes"]);
    keys.order(&["CONFIG", "SET", "appendfsync", "always"]);
    let is_accepted = async || (proxy.send(&stripe("e1")).await.outcome() == "queued").then_some(());
    eventually("it is accepted", is_accepted).await;
    proxy.in_state("stripe", "e1", "done").await;
    assert!(proxy.stop().await);
}

async fn events_are_known_when_the_mode_changes(store: &str) {
    let consumer =
        Consumer::deciding(|seen, nth| Act::Answer(if seen.event_id() == "late" && nth == 1 { 503 } else { 200 })).await;
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"300ms\"]";
    let (sync, queue) =
        (in_front_of(&consumer).store(store), in_front_of(&consumer).both("mode = \"queue\"").table(table).store(store));
    let proxy = sync.start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    proxy.in_state("stripe", "e1", "done").await;
    assert!(proxy.stop().await);
    let proxy = queue.start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "queued");
    proxy.in_state("stripe", "e2", "done").await;
    assert_eq!(proxy.send(&stripe("late")).await.outcome(), "queued");
    eventually("it is postponed", async || (attempts(&proxy, "stripe", "failed").await == 1.0).then_some(())).await;
    assert!(proxy.stop().await);
    let proxy = sync.start();
    for event in ["e1", "e2", "late"] {
        assert_eq!(proxy.send(&stripe(event)).await.outcome(), "duplicate", "{event}");
    }
    consumer.arrived("late", 2).await;
    assert_eq!(proxy.send(&stripe("e3")).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
    assert_eq!((consumer.count("e1"), consumer.count("e2"), consumer.count("late")), (1, 1, 2));
}

#[tokio::test]
async fn a_consumer_that_is_away_is_tried_with_one_letter_at_a_time() {
    let socket = Consumer::absent();
    let address = socket.local_addr().unwrap();
    let consumer = Consumer::answering(200).await;
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"100ms\", \"100ms\", \"100ms\", \"100ms\"]";
    let setup = in_front_of(&consumer).upstream(&format!("http://{address}")).both("mode = \"queue\"").table(table);
    let proxy = setup.start();
    for nth in 0..200 {
        assert_eq!(proxy.send(&stripe(&format!("e{nth}"))).await.outcome(), "queued");
    }
    let spent = attempts(&proxy, "stripe", "failed").await;
    assert!(spent < 60.0, "{spent}: most have not been tried");
    let back = Consumer::on(socket.listen(64).unwrap(), |_, _| Act::Answer(200));
    eventually("all have come", async || (back.counts().len() == 200).then_some(())).await;
    holds(&proxy, "stripe", 0.0, 0.0).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_line_does_not_wait_between_its_events() {
    let consumer = Consumer::answering(200).await;
    let proxy = queueing(&consumer).stripe("order_by = { json = \"/customer\" }").start();
    let began = std::time::Instant::now();
    for nth in 0..40 {
        let body = format!("{{\"id\":\"e{nth}\",\"customer\":\"a\"}}");
        assert_eq!(proxy.send(&stripe_with(body)).await.outcome(), "queued");
    }
    eventually("all have come", async || (consumer.counts().len() == 40).then_some(())).await;
    // At a look every half second, it would take twenty seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_letter_that_redis_has_lost_holds_up_nobody() {
    let (consumer, server) =
        (Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await, RedisProcess::start());
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"200ms\"]";
    let proxy = in_front_of(&consumer).both("mode = \"queue\"\nlease = \"1s\"").table(table).store(&server.url()).start();
    assert_eq!(proxy.send(&github("lost")).await.outcome(), "queued");
    eventually("it is postponed", async || (attempts(&proxy, "github", "failed").await == 1.0).then_some(())).await;
    let mut keys = Keys::of(&server);
    for name in keys.names().iter().filter(|name| name.contains(":letter:")) {
        keys.remove(name);
    }
    assert_eq!(proxy.send(&github("e2")).await.outcome(), "queued");
    proxy.in_state("github", "e2", "done").await;
    assert_eq!(consumer.count("lost"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_letter_that_nobody_lives_to_settle_ends_as_a_dead_one() {
    let (consumer, server) = (Consumer::answering(200).await, RedisProcess::start());
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"1h\"]";
    let setup = in_front_of(&consumer).both("mode = \"queue\"").table(table).store(&server.url());
    let absent = Consumer::absent();
    let away = setup.clone().upstream(&format!("http://{}", absent.local_addr().unwrap()));
    let proxy = away.start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "queued");
    eventually("it is postponed", async || (attempts(&proxy, "github", "failed").await == 1.0).then_some(())).await;
    assert!(proxy.stop().await);
    // As after processes that died with it in their hands.
    let mut keys = Keys::of(&server);
    let names = keys.names();
    let letter = names.iter().find(|name| name.contains(":letter:")).unwrap();
    let due = names.iter().find(|name| name.ends_with("github:due")).unwrap();
    keys.order(&["HSET", letter, "attempt", "5", "token", "AAECAwQFBgcICQoLDA0ODw"]);
    keys.order(&["ZADD", due, "0", letter.rsplit(':').next().unwrap()]);
    let proxy = setup.start();
    holds(&proxy, "github", 0.0, 1.0).await;
    assert!(consumer.seen().is_empty());
    assert!(proxy.stop().await);
}

/// The same in sync mode and in queue mode.
fn in_both_modes(consumer: &Consumer, store: &str) -> (Setup, Setup) {
    let sync = in_front_of(consumer).store(store).both("lease = \"1s\"");
    let queue = sync.clone().both("mode = \"queue\"").table(QUEUE);
    (sync, queue)
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

async fn another_body_is_another_event_when_the_mode_changes_too(store: &str) {
    let consumer = Consumer::answering(200).await;
    let (sync, queue) = in_both_modes(&consumer, store);
    let proxy = sync.start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "forwarded");
    proxy.in_state("github", "e1", "done").await;
    assert!(proxy.stop().await);
    let proxy = queue.start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&github_with("e1", "{\"second\":1}")).await.outcome(), "queued");
    eventually("it has come", async || (consumer.seen().len() == 2).then_some(())).await;
    assert_eq!(consumer.seen()[1].mark(), Some("conflict"));
    assert!(proxy.stop().await);
    let proxy = sync.start();
    assert_eq!(proxy.send(&github_with("e1", "{\"third\":1}")).await.outcome(), "conflict");
    assert_eq!(consumer.seen().len(), 3);
    assert!(proxy.stop().await);
}

async fn a_doubt_goes_along_when_the_mode_changes(store: &str) {
    let consumer = Consumer::deciding(|_, nth| if nth == 1 { Act::Close } else { Act::Answer(200) }).await;
    let (sync, queue) = in_both_modes(&consumer, store);
    let proxy = sync.start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "ambiguous");
    assert!(proxy.stop().await);
    let proxy = queue.start();
    let is_queued = async || (proxy.send(&stripe("e1")).await.outcome() == "queued").then_some(());
    eventually("its lease is over", is_queued).await;
    consumer.arrived("e1", 2).await;
    assert_eq!(consumer.seen()[1].mark(), Some("unknown"));
    assert!(proxy.stop().await);
}

async fn what_is_observed_is_not_dropped_when_the_mode_changes(store: &str) {
    let consumer = Consumer::answering(200).await;
    let (sync, queue) = in_both_modes(&consumer, store);
    let proxy = sync.start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    proxy.in_state("stripe", "e1", "done").await;
    assert!(proxy.stop().await);
    let proxy = queue.both("dedupe = \"observe\"").start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    consumer.arrived("e1", 2).await;
    assert_eq!(consumer.seen()[1].mark(), Some("observe"));
    assert!(proxy.stop().await);
}

async fn a_bypass_holds_when_the_mode_changes(store: &str) {
    let consumer = Consumer::answering(200).await;
    let (sync, queue) = in_both_modes(&consumer, store);
    let proxy = sync.start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    proxy.in_state("stripe", "e1", "done").await;
    assert!(proxy.stop().await);
    let proxy = queue.top(&format!("admin_token = \"{TOKEN}\"")).start();
    let begin = Delivery::plain("PUT", "/api/bypass/stripe")
        .with("authorization", &format!("Bearer {TOKEN}"))
        .with_body("{\"for\":\"10m\"}");
    assert_eq!(proxy.admin(&begin).await.status, 200);
    proxy.counted("hookonce_bypass_active", &[("provider", "stripe")], 1.0).await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    consumer.arrived("e1", 2).await;
    assert_eq!(consumer.seen()[1].mark(), Some("replay"));
    assert!(proxy.stop().await);
}

async fn events_that_do_not_say_wait_for_nobody(store: &str) {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "poison" { 422 } else { 200 })).await;
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"1h\"]";
    let order = "mode = \"queue\"\norder_by = { json = \"/customer\" }";
    let proxy = in_front_of(&consumer).stripe(order).table(table).store(store).start();
    assert_eq!(proxy.send(&stripe("poison")).await.outcome(), "queued");
    consumer.arrived("poison", 1).await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    proxy.in_state("stripe", "e1", "done").await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_from_the_start_is_dealt_with_as_the_provider_says() {
    let consumer = Consumer::answering(200).await;
    let nobody = Consumer::absent();
    let store = format!("redis://{}", nobody.local_addr().unwrap());
    let proxy = in_front_of(&consumer).both("mode = \"queue\"").store_keys("timeout = \"200ms\"").store(&store).start();
    // GitHub never comes back, and is served without the store; Stripe does.
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    assert_eq!(consumer.seen()[0].mark(), Some("store-down"));
    assert_eq!(proxy.send(&stripe("e1")).await.status, 503);
    proxy.stop().await;
}

#[tokio::test]
async fn what_a_store_may_have_lost_is_marked() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await;
    let mut server = RedisProcess::start();
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"3s\"]";
    let proxy = in_front_of(&consumer).both("mode = \"queue\"").table(table).store(&server.url()).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    eventually("it is postponed", async || (attempts(&proxy, "stripe", "failed").await == 1.0).then_some(())).await;
    let () = server.ask(&["SAVE"]).await;
    server.kill();
    server.restart();
    consumer.arrived("e1", 2).await;
    assert_eq!(consumer.seen()[1].mark(), Some("store-reset"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_doubt_of_a_later_version_is_a_doubt() {
    let (consumer, server) =
        (Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await, RedisProcess::start());
    let table = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"1s\"]";
    let proxy = in_front_of(&consumer).both("mode = \"queue\"").table(table).store(&server.url()).start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "queued");
    eventually("it is postponed", async || (attempts(&proxy, "github", "failed").await == 1.0).then_some(())).await;
    let mut keys = Keys::of(&server);
    let names = keys.names();
    keys.order(&["HSET", names.iter().find(|name| name.contains(":letter:")).unwrap(), "doubt", "word-of-tomorrow"]);
    consumer.arrived("e1", 2).await;
    assert_eq!(consumer.seen()[1].mark(), Some("unknown"));
    assert!(proxy.stop().await);
}
