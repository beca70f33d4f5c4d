//! A captured delivery under a fresh id: marked or answered as a duplicate, and never at the price of the real event.

use hookonce::config::Fingerprint;
use hookonce::pipeline::identify::{EventKey, fingerprint};

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, SECRET, github, github_with, stripe, stripe_with};

const ENFORCE: &str = "replay_guard = \"enforce\"";

/// The delivery as whoever captured it sends it again: only what is signed is as it was.
fn captured(delivery: &Delivery, id: &str) -> Delivery {
    delivery.clone().with("x-github-delivery", id)
}

fn enforcing(consumer: &Consumer, store: &str) -> Setup {
    in_front_of(consumer).store(store).github(ENFORCE)
}

/// The marks of what the consumer got, with the ids, in order.
fn marks(consumer: &Consumer) -> Vec<(String, Option<String>)> {
    consumer.seen().iter().map(|seen| (seen.event_id().to_owned(), seen.mark().map(str::to_owned))).collect()
}

fn marked(id: &str, mark: Option<&str>) -> (String, Option<String>) {
    (id.to_owned(), mark.map(str::to_owned))
}

on_each_store! {
    a_captured_body_under_a_fresh_id_is_forwarded_marked
    enforced_it_is_a_duplicate_and_so_are_its_copies
    without_a_guard_it_goes_as_a_new_event
    an_event_whose_id_was_taken_by_a_captured_body_is_still_forwarded
    an_event_is_forwarded_though_a_captured_body_was_accepted_while_it_failed
    a_captured_body_that_failed_stays_behind_its_event
    a_captured_body_that_came_first_and_failed_costs_the_event_nothing
    a_captured_body_waits_while_its_event_is_under_way
    deliveries_without_an_id_are_known_by_what_is_signed
    an_operator_lets_it_through
    what_only_observes_drops_nothing
    an_event_in_the_queue_is_known_again
    an_event_that_was_not_done_is_taken_over_marked_until_it_is
}

async fn a_captured_body_under_a_fresh_id_is_forwarded_marked(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).store(store).start();
    let real = github("real");
    assert_eq!(proxy.send(&real).await.outcome(), "forwarded");
    proxy.in_state("github", "real", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "forwarded");
    proxy.in_state("github", "fresh", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&real).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&github("another")).await.outcome(), "forwarded");
    assert_eq!(marks(&consumer), [marked("real", None), marked("fresh", Some("replay")), marked("another", None)]);
    assert_eq!(proxy.metrics().await.marked("github", "replay"), 1.0);
}

async fn enforced_it_is_a_duplicate_and_so_are_its_copies(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = enforcing(&consumer, store).start();
    let real = github("real");
    assert_eq!(proxy.send(&real).await.outcome(), "forwarded");
    proxy.in_state("github", "real", "done").await;
    for _ in 0..3 {
        let answer = proxy.send(&captured(&real, "fresh")).await;
        assert_eq!((answer.status, answer.outcome()), (200, "duplicate"));
    }
    proxy.in_state("github", "fresh", "done").await;
    // Without its id it is still the same.
    assert_eq!(proxy.send(&real.clone().without("x-github-delivery")).await.outcome(), "duplicate");
    assert_eq!(marks(&consumer), [marked("real", None)]);
    let metrics = proxy.metrics().await;
    assert_eq!((metrics.outcome("github", "duplicate"), metrics.marked("github", "replay")), (4.0, 0.0));
    // Signed bytes are no events: nobody is shown them as such.
    let found = proxy.admin(&Delivery::plain("GET", "/api/events?provider=github")).await.json();
    let mut ids: Vec<&str> = found["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!((ids.len(), &ids[1..]), (3, &["fresh", "real"][..]), "{found}");
    assert!(ids[0].starts_with('='), "{found}");
}

async fn without_a_guard_it_goes_as_a_new_event(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).store(store).github("replay_guard = \"off\"").start();
    let real = github("real");
    for delivery in [&real, &captured(&real, "fresh")] {
        assert_eq!(proxy.send(delivery).await.outcome(), "forwarded");
    }
    assert_eq!(marks(&consumer), [marked("real", None), marked("fresh", None)]);
}

async fn an_event_whose_id_was_taken_by_a_captured_body_is_still_forwarded(store: &str) {
    for guard in ["observe", "enforce"] {
        let consumer = Consumer::answering(200).await;
        // Each guard has a provider's name, and so its keys, of its own.
        let proxy = in_front_of(&consumer)
            .store(store)
            .table(&format!(
                "[providers.hub-{guard}]\npreset = \"github\"\npath = \"/hub\"\nsecret = \"{}\"\nreplay_guard = \"{guard}\"",
                SECRET
            ))
            .start();
        let (real, later) = (github("real").at("/hub"), github("later").at("/hub"));
        proxy.send(&real).await;
        proxy.counted("hookonce_claims_in_flight", &[("provider", &format!("hub-{guard}"))], 0.0).await;
        proxy.send(&captured(&real, "later")).await;
        assert_eq!(proxy.send(&later).await.outcome(), "conflict");
        let last = consumer.seen().pop().unwrap();
        assert_eq!((&last.body, last.mark()), (&later.body, Some("conflict")), "{guard}");
        proxy.stop().await;
    }
}

async fn an_event_is_forwarded_though_a_captured_body_was_accepted_while_it_failed(store: &str) {
    let consumer = Consumer::deciding(|seen, times| match (seen.event_id(), times) {
        ("real", 1) => Act::Answer(500),
        _ => Act::Answer(200),
    })
    .await;
    let proxy = enforcing(&consumer, store).start();
    let real = github("real");
    assert_eq!(proxy.send(&real).await.status, 500);
    proxy.in_state("github", "real", "failed").await;
    // The event is not done: its copy is what gets through, whoever sends it.
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "forwarded");
    proxy.in_state("github", "fresh", "done").await;
    // The consumer may have taken it for something else: what is not signed was its sender's to choose.
    assert_eq!(proxy.send(&real).await.outcome(), "forwarded");
    proxy.in_state("github", "real", "done").await;
    for delivery in [&real, &captured(&real, "fresh"), &captured(&real, "fresher")] {
        assert_eq!(proxy.send(delivery).await.outcome(), "duplicate");
    }
    assert_eq!(marks(&consumer), [marked("real", None), marked("fresh", Some("replay")), marked("real", Some("replay"))]);
}

async fn a_captured_body_that_failed_stays_behind_its_event(store: &str) {
    let consumer = Consumer::deciding(|_, times| Act::Answer(if times == 1 { 500 } else { 200 })).await;
    let proxy = enforcing(&consumer, store).start();
    let real = github("real");
    for (delivery, id) in [(&real, "real"), (&captured(&real, "fresh"), "fresh")] {
        assert_eq!(proxy.send(delivery).await.status, 500);
        proxy.in_state("github", id, "failed").await;
    }
    assert_eq!(proxy.send(&real).await.outcome(), "forwarded");
    proxy.in_state("github", "real", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
    assert_eq!(marks(&consumer), [marked("real", None), marked("fresh", Some("replay")), marked("real", Some("replay"))]);
}

async fn a_captured_body_that_came_first_and_failed_costs_the_event_nothing(store: &str) {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "fresh" { 500 } else { 200 })).await;
    let proxy = enforcing(&consumer, store).start();
    let real = github("real");
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.status, 500);
    proxy.in_state("github", "fresh", "failed").await;
    assert_eq!(proxy.send(&real).await.outcome(), "forwarded");
    proxy.in_state("github", "real", "done").await;
    // Nobody can tell which of them is the provider's. Whichever came first is not given up for the other.
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.status, 500);
    assert_eq!(proxy.send(&captured(&real, "third")).await.outcome(), "forwarded");
    proxy.in_state("github", "third", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fourth")).await.outcome(), "duplicate");
    let after_the_first = ["real", "fresh", "third"].map(|id| marked(id, Some("replay")));
    assert_eq!(marks(&consumer), [&[marked("fresh", None)], &after_the_first[..]].concat());
}

async fn a_captured_body_waits_while_its_event_is_under_way(store: &str) {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = enforcing(&consumer, store).start();
    let real = github("real");
    let sending = proxy.sending(&real);
    consumer.arrived("real", 1).await;
    let answer = proxy.send(&captured(&real, "fresh")).await;
    assert_eq!((answer.status, answer.outcome()), (503, "in_flight"));
    proxy.in_state("github", "fresh", "failed").await;
    gate.open();
    assert_eq!(sending.await.unwrap().outcome(), "forwarded");
    proxy.in_state("github", "real", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
    assert_eq!(marks(&consumer), [marked("real", None)]);
}

async fn deliveries_without_an_id_are_known_by_what_is_signed(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = enforcing(&consumer, store).stripe(ENFORCE).start();
    let nameless = github("none").without("x-github-delivery");
    assert_eq!(proxy.send(&nameless).await.outcome(), "forwarded");
    let first = consumer.seen().pop().unwrap();
    assert!(first.mark().is_none() && first.event_id().starts_with('='), "{first:?}");
    proxy.in_state("github", first.event_id(), "done").await;
    assert_eq!(proxy.send(&nameless).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&captured(&nameless, "fresh")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&github("other").without("x-github-delivery")).await.outcome(), "forwarded");
    // A timestamp is signed anew with each delivery: what has one may have come before all the same.
    let stamped = stripe_with("{\"object\":\"event\"}");
    assert_eq!(proxy.send(&stamped).await.outcome(), "no_id");
    let seen = consumer.seen().pop().unwrap();
    assert_eq!(seen.mark(), Some("no-id"));
    proxy.in_state("stripe", seen.event_id(), "done").await;
    assert_eq!(proxy.send(&stamped).await.outcome(), "duplicate");
}

async fn an_operator_lets_it_through(store: &str) {
    let consumer = Consumer::answering(200).await;
    let token = "0123456789abcdef";
    let proxy = enforcing(&consumer, store).top(&format!("admin_token = \"{token}\"")).start();
    let ask = |method, path: &str| Delivery::plain(method, path).with("authorization", &format!("Bearer {token}"));
    let state = async |id: &str, state: &str| {
        let request = ask("GET", &format!("/api/events/github/{id}"));
        eventually(state, async || (proxy.admin(&request).await.json()["state"] == state).then_some(())).await;
    };
    let real = github("real");
    proxy.send(&real).await;
    state("real", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
    state("fresh", "done").await;
    // Forgotten, an event goes through though its like is done.
    assert_eq!(proxy.admin(&ask("DELETE", "/api/events/github/fresh")).await.status, 200);
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "forwarded");
    state("fresh", "done").await;
    let bypass = ask("PUT", "/api/bypass/github").with_body("{\"for\":\"10m\"}");
    assert_eq!(proxy.admin(&bypass).await.status, 200);
    proxy.counted("hookonce_bypass_active", &[("provider", "github")], 1.0).await;
    assert_eq!(proxy.send(&captured(&real, "newest")).await.outcome(), "forwarded");
    let expected = [marked("real", None), marked("fresh", Some("forgotten")), marked("newest", Some("replay"))];
    assert_eq!(marks(&consumer), expected);
}

async fn what_only_observes_drops_nothing(store: &str) {
    let consumer = Consumer::answering(200).await;
    let proxy = enforcing(&consumer, store).github("dedupe = \"observe\"").start();
    let real = github("real");
    proxy.send(&real).await;
    proxy.in_state("github", "real", "done").await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "forwarded");
    assert_eq!(marks(&consumer), [marked("real", None), marked("fresh", Some("observe"))]);
}

async fn an_event_in_the_queue_is_known_again(store: &str) {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let queue = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"50ms\"]";
    let proxy = enforcing(&consumer, store).github("mode = \"queue\"").table(queue).start();
    let real = github("real");
    assert_eq!(proxy.send(&real).await.outcome(), "queued");
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
    gate.open();
    proxy.in_state("github", "real", "done").await;
    for delivery in [&real, &captured(&real, "fresh"), &real.clone().without("x-github-delivery")] {
        assert_eq!(proxy.send(delivery).await.outcome(), "duplicate");
    }
    assert_eq!(proxy.send(&github("another")).await.outcome(), "queued");
    consumer.arrived("another", 1).await;
    assert_eq!(marks(&consumer), [marked("real", None), marked("another", None)]);
}

async fn an_event_that_was_not_done_is_taken_over_marked_until_it_is(store: &str) {
    let consumer = Consumer::deciding(|seen, times| match (seen.event_id(), times) {
        ("real", _) => Act::Close,
        ("fresh", 1) => Act::Answer(500),
        _ => Act::Answer(200),
    })
    .await;
    let proxy = enforcing(&consumer, store).github("lease = \"1s\"\nretention = \"1h\"").start();
    let real = github("real");
    assert_eq!(proxy.send(&real).await.outcome(), "ambiguous");
    let fresh = captured(&real, "fresh");
    let taken = eventually("the lease is over", async || {
        let answer = proxy.send(&fresh).await;
        (answer.status != 503).then_some(answer.status)
    })
    .await;
    assert_eq!(taken, 500);
    proxy.in_state("github", "fresh", "failed").await;
    assert_eq!(proxy.send(&fresh).await.outcome(), "forwarded");
    let expected = [marked("real", None), marked("fresh", Some("replay")), marked("fresh", Some("replay"))];
    assert_eq!(marks(&consumer), expected);
}

#[tokio::test]
async fn after_its_retention_it_is_forwarded_marked() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).github("retention = \"2s\"\nlease = \"1s\"").start();
    let real = github("real");
    proxy.send(&real).await;
    let mut keys = Keys::of(&redis);
    keys.done("github", "real").await;
    let keys = std::sync::Mutex::new(keys);
    eventually("the event is forgotten", async || {
        keys.lock().unwrap().value(&Keys::name("github", "real")).is_empty().then_some(())
    })
    .await;
    assert_eq!(proxy.send(&captured(&real, "fresh")).await.outcome(), "forwarded");
    assert_eq!(marks(&consumer), [marked("real", None), marked("fresh", Some("replay"))]);
}

#[tokio::test]
async fn what_it_costs_is_nothing_observed_and_one_command_enforced() {
    for (guard, new, replay) in [("observe", 2, 2), ("enforce", 3, 0)] {
        let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).github(&format!("replay_guard = \"{guard}\""));
        let instance = Instance::start(&setup.top("workers = 1")).await;
        let mut keys = Keys::of(&redis);
        instance.send(&stripe("warm")).await;
        keys.done("stripe", "warm").await;
        keys.reset_commands();
        let real = github("real");
        instance.send(&real).await;
        keys.done("github", "real").await;
        let labels = [("provider", "github")];
        // Until then this process answers copies by itself.
        let is_settled = async || (instance.metrics().await.value("hookonce_claims_in_flight", &labels) == 0.0).then_some(());
        eventually("the completion was heard of", is_settled).await;
        assert_eq!(keys.commands(), [("set".to_owned(), new)].into(), "{guard}: a new event");
        keys.reset_commands();
        assert_eq!(instance.send(&real).await.outcome(), "duplicate");
        assert_eq!(keys.commands(), [("set".to_owned(), 1)].into(), "{guard}: a duplicate");
        keys.reset_commands();
        instance.send(&captured(&real, "fresh")).await;
        keys.done("github", "fresh").await;
        eventually("the completion was heard of", is_settled).await;
        if replay > 0 {
            assert_eq!(keys.commands(), [("set".to_owned(), replay)].into(), "{guard}: a replay");
        }
        keys.reset_commands();
        assert_eq!(instance.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
        assert_eq!(keys.commands(), [("set".to_owned(), 1)].into(), "{guard}: a copy of a replay");
    }
}

#[tokio::test]
async fn two_instances_know_what_either_has_seen() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = enforcing(&consumer, &redis.url());
    let [first, second] = [Instance::start(&setup).await, Instance::start(&setup).await];
    let real = github("real");
    first.send(&real).await;
    Keys::of(&redis).done("github", "real").await;
    assert_eq!(second.send(&captured(&real, "fresh")).await.outcome(), "duplicate");
    // Many captured copies of a new event at once, each under an id of its own: one of them takes effect.
    let other = github_with("other", "{\"other\":true}");
    let mut sending = tokio::task::JoinSet::new();
    for copy in 0..40 {
        let (delivery, to) = (captured(&other, &format!("copy-{copy}")), [first.listen, second.listen][copy % 2]);
        sending.spawn(async move { delivery.send(to).await });
    }
    let answers = sending.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.outcome() == "forwarded").count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| ["forwarded", "duplicate", "in_flight"].contains(&answer.outcome())), "{answers:?}");
    assert_eq!(consumer.seen().iter().filter(|seen| seen.body == other.body).count(), 1);
}

#[tokio::test]
async fn a_thousand_replays_are_told_of_in_few_lines() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    let real = github("real");
    instance.send(&real).await;
    for copy in 0..50 {
        instance.send(&captured(&real, &format!("copy-{copy}"))).await;
    }
    let lines = instance.lines_of("hookonce::pipeline::replay");
    assert!((1..10).contains(&lines.len()), "{lines:?}");
    assert_eq!((lines[0]["level"].as_str(), lines[0]["event"].as_str()), (Some("WARN"), Some("copy-0")), "{lines:?}");
}

#[tokio::test]
async fn the_rights_that_are_documented_are_enough() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let lines: Vec<&str> =
        include_str!("../../docs/redis.md").lines().filter(|line| line.starts_with("ACL SETUSER hookonce ")).collect();
    for line in [lines[0], lines[3]] {
        let words: Vec<&str> = line.split(' ').map(|word| if word == "~billing:*" { "~test:*" } else { word }).collect();
        let () = redis.ask(&words).await;
    }
    let url = format!("redis://hookonce:PASSWORD@{}", redis.address());
    for mode in ["sync", "queue"] {
        let setup = enforcing(&consumer, &url).github(&format!("mode = \"{mode}\"")).table("[queue]\naccept_loss = true");
        let proxy = setup.start();
        let real = github(mode);
        proxy.send(&real).await;
        proxy.in_state("github", mode, "done").await;
        assert_eq!(proxy.send(&captured(&real, &format!("{mode}-again"))).await.outcome(), "duplicate", "{mode}");
        assert_eq!(proxy.send(&real.clone().without("x-github-delivery")).await.outcome(), "duplicate", "{mode}");
        assert_eq!(consumer.count(mode), 1);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn a_store_that_cannot_say_holds_nothing_up_where_it_must_not() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let mut keys = Keys::of(&redis);
    for (policy, status) in [("closed", 503), ("local", 200), ("open", 200)] {
        let proxy = enforcing(&consumer, &redis.url()).github(&format!("on_store_down = \"{policy}\"")).start();
        let delivery = github(policy);
        // The id can be claimed; of what is signed the store says something that nobody understands.
        let cell = EventKey::binding("test", "github", fingerprint(&Fingerprint::Body, &delivery.body));
        keys.put(&cell, "x", 1000);
        assert_eq!(proxy.send(&delivery).await.status, status, "{policy}");
        if status == 200 {
            assert_eq!(consumer.seen().pop().unwrap().mark(), Some("store-down"), "{policy}");
            continue;
        }
        // Its claim was never used: the next delivery need not wait for it, and is not in doubt.
        proxy.in_state("github", policy, "failed").await;
        keys.remove(&cell);
        assert_eq!(proxy.send(&delivery).await.outcome(), "forwarded");
        assert_eq!(marks(&consumer), [marked(policy, None)]);
    }
}
