//! An operator at the queue: letters listed, shown, tried again and dropped, and every change on record.

use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::{Proxy, Setup, in_front_of};
use crate::support::sender::{Answer, Delivery, github, github_with, now, stripe, stripe_with};

const TOKEN: &str = "0123456789abcdef";
/// The second attempt is further away than any test waits.
const PATIENT: &str = "schedule = [\"0s\", \"1h\"]";
/// The first attempt is the last.
const ONCE: &str = "schedule = [\"0s\"]";

fn queueing(consumer: &Consumer, schedule: &str) -> Setup {
    let table = format!("[queue]\naccept_loss = true\n{schedule}");
    in_front_of(consumer).top(&format!("admin_token = \"{TOKEN}\"")).both("mode = \"queue\"").table(&table)
}

fn asking(method: &'static str, path: &str) -> Delivery {
    Delivery::plain(method, path).with("authorization", &format!("Bearer {TOKEN}"))
}

async fn ask(proxy: &Proxy, method: &'static str, path: &str) -> Answer {
    proxy.admin(&asking(method, path)).await
}

/// Sends it, and waits until whatever comes next comes later: letters of one millisecond are in no order.
async fn queue(proxy: &Proxy, delivery: &Delivery) {
    assert_eq!(proxy.send(delivery).await.outcome(), "queued");
    let millis = || now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let then = millis();
    eventually("a later moment", async || (millis() > then).then_some(())).await;
}

async fn list(proxy: &Proxy, query: &str) -> Value {
    let answer = ask(proxy, "GET", &format!("/api/queue?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn field(listed: &Value, name: &str) -> Vec<String> {
    let text = |letter: &Value| letter[name].as_str().unwrap_or("none").to_owned();
    listed["letters"].as_array().unwrap().iter().map(text).collect()
}

/// Waits until a letter is in this state after so many attempts.
async fn settled(proxy: &Proxy, provider: &str, event: &str, state: &str, attempt: u64) -> Value {
    eventually(&format!("{event} is {state} after {attempt} attempts"), async || {
        let answer = ask(proxy, "GET", &format!("/api/queue/{provider}/{event}")).await;
        let letter = (answer.status == 200).then(|| answer.json())?;
        (letter["state"] == state && letter["attempt"] == attempt).then_some(letter)
    })
    .await
}

async fn done(proxy: &Proxy, provider: &str, event: &str) -> Value {
    eventually(&format!("{event} is done"), async || {
        let answer = ask(proxy, "GET", &format!("/api/events/{provider}/{event}")).await;
        (answer.status == 200).then(|| answer.json()).filter(|event| event["state"] == "done")
    })
    .await
}

/// An event of a customer.
fn of(id: &str, customer: &str) -> Delivery {
    stripe_with(format!("{{\"id\":\"{id}\",\"customer\":\"{customer}\"}}"))
}

fn order(consumer: &Consumer) -> Vec<String> {
    consumer.seen().iter().map(|seen| seen.event_id().to_owned()).collect()
}

on_each_store! {
    letters_are_listed_page_by_page_as_they_came
    a_letter_is_shown_by_its_own_id_and_by_its_event_s
    content_is_shown_to_those_who_ask_for_it
    a_dead_letter_that_is_retried_is_delivered_marked
    a_letter_that_waits_is_hurried
    copies_of_what_was_dropped_are_duplicates
    what_is_under_way_is_left_alone_but_by_force
    a_line_keeps_its_order_after_a_retry
    a_dropped_letter_gives_its_line_free
    only_dead_letters_are_found_among_the_dead
    every_queue_is_counted
}

on_each_lasting_store! { file_over_starts, redis_over_starts:
    letters_can_be_seen_to_after_their_provider_has_left_queue_mode
}

async fn letters_are_listed_page_by_page_as_they_came(store: &str) {
    let consumer = Consumer::answering(503).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    for event in ["e1", "e2", "e3"] {
        queue(&proxy, &stripe(event)).await;
    }
    for event in ["e1", "e2", "e3"] {
        settled(&proxy, "stripe", event, "waiting", 1).await;
    }
    let all = list(&proxy, "provider=stripe").await;
    assert_eq!((field(&all, "event"), all["next"].is_null()), (vec!["e1".into(), "e2".into(), "e3".into()], true), "{all}");
    assert_eq!((all["tally"]["letters"].as_u64(), all["tally"]["dead"].as_u64()), (Some(3), Some(0)), "{all}");
    let first = &all["letters"][0];
    assert_eq!((first["status"].as_u64(), first["line"].is_null(), first["doubt"].is_null()), (Some(503), true, true));
    assert!((3_000_000..=4_000_000).contains(&first["due_in_ms"].as_u64().unwrap()), "{first}");
    assert!(first["queued_at"].as_str().unwrap().ends_with('Z') && first["age_s"].as_u64().unwrap() < 60, "{first}");
    assert!(first["bytes"].as_u64().unwrap() > 0 && first.get("content").is_none(), "{first}");

    let page = list(&proxy, "provider=stripe&limit=2").await;
    assert_eq!(field(&page, "event"), ["e1", "e2"]);
    let next = page["next"].as_str().unwrap();
    assert_eq!(next, page["letters"][1]["letter"].as_str().unwrap());
    let rest = list(&proxy, &format!("provider=stripe&limit=2&after={next}")).await;
    assert_eq!((field(&rest, "event"), rest["next"].is_null()), (vec!["e3".to_owned()], true));
    assert!(field(&list(&proxy, "provider=stripe&dead=1").await, "event").is_empty());
    assert!(field(&list(&proxy, "provider=github").await, "event").is_empty());
    assert!(proxy.stop().await);
}

async fn a_letter_is_shown_by_its_own_id_and_by_its_event_s(store: &str) {
    let consumer = Consumer::answering(503).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    let long = "x".repeat(300);
    for id in ["e1", "a/b", "a/retry", "an odd id", "0123456789abcdef0123456789ab", &long] {
        queue(&proxy, &github_with("x", "{}").with("x-github-delivery", id)).await;
        let shown = eventually("it is at the consumer", async || {
            let seen = consumer.seen().into_iter().find(|seen| seen.header("x-github-delivery") == Some(id))?;
            Some(seen.event_id().to_owned())
        })
        .await;
        let letter = settled(&proxy, "github", &shown, "waiting", 1).await;
        let by_own = ask(&proxy, "GET", &format!("/api/queue/github/{}", letter["letter"].as_str().unwrap())).await.json();
        assert_eq!(by_own["letter"], letter["letter"], "{id}");
        // As a list shows it, too.
        let by_listed = ask(&proxy, "GET", &format!("/api/queue/github/{}", letter["event"].as_str().unwrap())).await.json();
        assert_eq!(by_listed["letter"], letter["letter"], "{id}");
        assert_eq!(ask(&proxy, "POST", &format!("/api/queue/github/{shown}/retry")).await.status, 200, "{id}");
    }
    // A body of its own under a known id is a letter of its own.
    queue(&proxy, &github_with("e1", "{\"other\":1}")).await;
    let other = list(&proxy, "provider=github").await["letters"][6]["event"].as_str().unwrap().to_owned();
    assert!(other.starts_with("e1:"), "{other}");
    assert_eq!(ask(&proxy, "GET", &format!("/api/queue/github/{other}")).await.json()["event"], *other);
    assert!(proxy.stop().await);
}

async fn content_is_shown_to_those_who_ask_for_it(store: &str) {
    let consumer = Consumer::answering(503).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    queue(&proxy, &github_with("e1", "{\"card\":\"4242\"}").with("x-api-key", "letmein")).await;
    let plain = ask(&proxy, "GET", "/api/queue/github/e1").await;
    let text = String::from_utf8(plain.body.to_vec()).unwrap();
    assert!(plain.status == 200 && !text.contains("4242") && !text.contains("letmein") && !text.contains("content"), "{text}");

    let content = ask(&proxy, "GET", "/api/queue/github/e1?content=1").await.json()["content"].clone();
    assert_eq!((content["method"].as_str(), content["uri"].as_str()), (Some("POST"), Some("/github")));
    assert_eq!((content["body"].as_str(), content.get("body_base64")), (Some("{\"card\":\"4242\"}"), None));
    assert!(content["headers"].as_array().unwrap().contains(&serde_json::json!(["x-api-key", "letmein"])), "{content}");

    queue(&proxy, &github_with("e2", &b"\xff\x00"[..])).await;
    let content = ask(&proxy, "GET", "/api/queue/github/e2?content=1").await.json()["content"].clone();
    assert_eq!((content.get("body"), content["body_base64"].as_str()), (None, Some("/wA=")));
    assert!(proxy.stop().await);
}

async fn a_dead_letter_that_is_retried_is_delivered_marked(store: &str) {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 422 } else { 200 })).await;
    let proxy = queueing(&consumer, ONCE).store(store).start();
    queue(&proxy, &stripe("e1")).await;
    let dead = settled(&proxy, "stripe", "e1", "dead", 1).await;
    assert_eq!((dead["status"].as_u64(), dead["due_in_ms"].is_null()), (Some(422), true), "{dead}");
    assert_eq!(field(&list(&proxy, "provider=stripe&dead=1").await, "event"), ["e1"]);
    let retried = ask(&proxy, "POST", "/api/queue/stripe/e1/retry").await;
    assert_eq!((retried.status, &retried.json()["status"], &retried.json()["event"]), (200, &"retried".into(), &"e1".into()));
    assert_eq!(retried.json()["letter"], dead["letter"]);
    done(&proxy, "stripe", "e1").await;
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[0].mark(), seen[1].mark()), (2, None, Some("replay")));
    assert!(field(&list(&proxy, "provider=stripe&dead=1").await, "event").is_empty());
    assert_eq!(ask(&proxy, "POST", "/api/queue/stripe/e1/retry").await.status, 404);
    assert!(proxy.stop().await);
}

async fn a_letter_that_waits_is_hurried(store: &str) {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    queue(&proxy, &stripe("e1")).await;
    queue(&proxy, &stripe("e2")).await;
    let letter = settled(&proxy, "stripe", "e1", "waiting", 1).await;
    settled(&proxy, "stripe", "e2", "waiting", 1).await;
    let path = format!("/api/queue/stripe/{}/retry", letter["letter"].as_str().unwrap());
    assert_eq!(ask(&proxy, "POST", &path).await.json()["status"], "retried");
    done(&proxy, "stripe", "e1").await;
    assert_eq!((consumer.count("e1"), consumer.count("e2")), (2, 1));
    assert_eq!(field(&list(&proxy, "provider=stripe").await, "event"), ["e2"]);
    assert!(proxy.stop().await);
}

async fn copies_of_what_was_dropped_are_duplicates(store: &str) {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id().starts_with("ok") { 200 } else { 422 })).await;
    for (schedule, state) in [(PATIENT, "waiting"), (ONCE, "dead")] {
        let proxy = queueing(&consumer, schedule).store(store).start();
        let (event, other) = (format!("is-{state}"), format!("ok-{state}"));
        queue(&proxy, &stripe(&event)).await;
        settled(&proxy, "stripe", &event, state, 1).await;
        let path = format!("/api/queue/stripe/{event}");
        let dropped = ask(&proxy, "DELETE", &path).await;
        assert_eq!((dropped.status, &dropped.json()["status"]), (200, &"dropped".into()));
        let known = done(&proxy, "stripe", &event).await;
        assert_eq!((known["dropped"].as_bool(), known["status"].is_null()), (Some(true), true), "{known}");
        assert_eq!(proxy.send(&stripe(&event)).await.outcome(), "duplicate");
        for query in ["provider=stripe", "provider=stripe&dead=1"] {
            let left = list(&proxy, query).await;
            let tally = &left["tally"];
            assert!(field(&left, "event").is_empty() && tally["bytes"] == 0 && tally["dead_bytes"] == 0, "{left}");
        }
        assert_eq!((ask(&proxy, "DELETE", &path).await.status, ask(&proxy, "GET", &path).await.status), (404, 404));
        // Whoever else comes is delivered, and nothing is said of an operator then.
        queue(&proxy, &github(&other)).await;
        assert_eq!(done(&proxy, "github", &other).await["dropped"].as_bool(), Some(false));
        assert_eq!(consumer.count(&event), 1);
        assert!(proxy.stop().await);
    }
}

async fn what_is_under_way_is_left_alone_but_by_force(store: &str) {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(202)))).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    queue(&proxy, &stripe("e1")).await;
    consumer.arrived("e1", 1).await;
    settled(&proxy, "stripe", "e1", "out", 1).await;
    for (method, path) in [("POST", "/api/queue/stripe/e1/retry"), ("DELETE", "/api/queue/stripe/e1")] {
        assert_eq!(ask(&proxy, method, path).await.status, 409, "{method} {path}");
    }
    settled(&proxy, "stripe", "e1", "out", 1).await;
    assert_eq!(ask(&proxy, "DELETE", "/api/queue/stripe/e1?force=1").await.json()["status"], "dropped");
    assert_eq!(done(&proxy, "stripe", "e1").await["dropped"].as_bool(), Some(true));
    gate.open();
    // What the consumer says of it is the truer word.
    let accepted = async || (done(&proxy, "stripe", "e1").await["status"] == 202).then_some(());
    eventually("the consumer's word", accepted).await;
    assert_eq!((consumer.count("e1"), proxy.send(&stripe("e1")).await.outcome()), (1, "duplicate"));
    assert!(proxy.stop().await);
}

/// The first of a line is dead and keeps its place.
async fn blocked(consumer: &Consumer, store: &str) -> Proxy {
    let setup = queueing(consumer, &format!("{ONCE}\ndead_blocks_key = true")).stripe("order_by = { json = \"/customer\" }");
    let proxy = setup.store(store).start();
    for id in ["a1", "a2", "a3"] {
        queue(&proxy, &of(id, "a")).await;
    }
    settled(&proxy, "stripe", "a1", "dead", 1).await;
    let behind = list(&proxy, "provider=stripe").await;
    assert_eq!((field(&behind, "event"), field(&behind, "state")), (vec!["a2".into(), "a3".into()], vec!["behind".into(); 2]));
    assert!(behind["letters"][0]["due_in_ms"].is_null() && behind["letters"][0]["line"].is_string(), "{behind}");
    proxy
}

async fn a_line_keeps_its_order_after_a_retry(store: &str) {
    let consumer = Consumer::deciding(|seen, nth| Act::Answer(if seen.event_id() == "a1" && nth == 1 { 422 } else { 200 })).await;
    let proxy = blocked(&consumer, store).await;
    // One that waits for its turn is not let past the others.
    assert_eq!(ask(&proxy, "POST", "/api/queue/stripe/a3/retry").await.json()["status"], "retried");
    assert_eq!(ask(&proxy, "GET", "/api/queue/stripe/a3").await.json()["state"], "behind");
    assert_eq!(ask(&proxy, "POST", "/api/queue/stripe/a1/retry").await.json()["status"], "retried");
    done(&proxy, "stripe", "a3").await;
    assert_eq!(order(&consumer), ["a1", "a1", "a2", "a3"]);
    let marks: Vec<_> = consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect();
    assert_eq!(marks, [None, Some("replay".to_owned()), None, Some("replay".to_owned())]);
    assert!(proxy.stop().await);
}

async fn a_dropped_letter_gives_its_line_free(store: &str) {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "a1" { 422 } else { 200 })).await;
    let proxy = blocked(&consumer, store).await;
    assert_eq!(ask(&proxy, "DELETE", "/api/queue/stripe/a1").await.json()["status"], "dropped");
    done(&proxy, "stripe", "a3").await;
    assert_eq!(order(&consumer), ["a1", "a2", "a3"]);
    assert!(proxy.stop().await);
}

async fn letters_can_be_seen_to_after_their_provider_has_left_queue_mode(store: &str) {
    let consumer = Consumer::answering(503).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    queue(&proxy, &stripe("e1")).await;
    settled(&proxy, "stripe", "e1", "waiting", 1).await;
    assert!(proxy.stop().await);
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).store(store).start();
    assert_eq!(field(&list(&proxy, "provider=stripe").await, "event"), ["e1"]);
    // Until the store has been looked at, nobody knows that there was a queue.
    let is_retried = async || (ask(&proxy, "POST", "/api/queue/stripe/e1/retry").await.status == 200).then_some(());
    eventually("it is retried", is_retried).await;
    consumer.arrived("e1", 2).await;
    settled(&proxy, "stripe", "e1", "waiting", 1).await;
    assert_eq!(ask(&proxy, "DELETE", "/api/queue/stripe/e1").await.json()["status"], "dropped");
    assert!(field(&list(&proxy, "provider=stripe").await, "event").is_empty());
    assert!(proxy.stop().await);
}

async fn only_dead_letters_are_found_among_the_dead(store: &str) {
    let consumer = Consumer::answering(503).await;
    let proxy = queueing(&consumer, PATIENT).store(store).start();
    queue(&proxy, &stripe("e1")).await;
    settled(&proxy, "stripe", "e1", "waiting", 1).await;
    for (method, path) in [
        ("GET", "/api/queue/stripe/e1?dead=1"),
        ("POST", "/api/queue/stripe/e1/retry?dead=1"),
        ("DELETE", "/api/queue/stripe/e1?dead=1"),
    ] {
        assert_eq!(ask(&proxy, method, path).await.status, 404, "{method} {path}");
    }
    settled(&proxy, "stripe", "e1", "waiting", 1).await;
    assert!(proxy.stop().await);
}

async fn every_queue_is_counted(store: &str) {
    let consumer = Consumer::answering(503).await;
    let table = format!("[queue]\naccept_loss = true\n{PATIENT}");
    let setup = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).stripe("mode = \"queue\"").table(&table);
    let proxy = setup.store(store).start();
    queue(&proxy, &stripe("e1")).await;
    let counted = ask(&proxy, "GET", "/api/queue").await.json();
    let [only] = counted["queues"].as_array().unwrap().as_slice() else { panic!("{counted}") };
    assert_eq!((only["provider"].as_str(), only["letters"].as_u64(), only["dead"].as_u64()), (Some("stripe"), Some(1), Some(0)));
    assert!(only["bytes"].as_u64().unwrap() > 0 && only["oldest"].is_string() && only["oldest_age_s"].is_u64(), "{only}");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let consumer = Consumer::answering(200).await;
    let proxy = queueing(&consumer, PATIENT).start();
    let absent = "0123456789abcdef0123456789ab";
    for (method, path, status) in [
        ("GET", "/api/queue/stripe/none", 404),
        ("GET", &format!("/api/queue/stripe/{absent}"), 404),
        ("GET", "/api/queue/nobody/e1", 404),
        ("POST", "/api/queue/stripe/none/retry", 404),
        ("POST", "/api/queue/nobody/e1/retry", 404),
        ("POST", "/api/queue/stripe/none", 404),
        ("DELETE", "/api/queue/stripe/none", 404),
        ("DELETE", "/api/queue/stripe/none?force=1", 404),
        ("GET", "/api/queue?provider=nobody", 404),
        ("GET", "/api/queues", 404),
        ("GET", "/api/queue/stripe", 400),
        ("GET", "/api/queue/stripe/", 400),
        ("POST", "/api/queue/stripe/retry", 400),
        ("DELETE", "/api/queue/stripe", 400),
        ("GET", "/api/queue?provider=stripe&after=e1", 400),
        ("GET", "/api/queue?provider=stripe&limit=0", 400),
        ("GET", "/api/queue?provider=stripe&limit=1001", 400),
        ("GET", "/api/queue?provider=stripe&limit=many", 400),
        ("DELETE", "/api/queue?provider=stripe", 405),
        ("PUT", "/api/queue/stripe/e1", 405),
    ] {
        let answer = ask(&proxy, method, path).await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (status, Some("refused")), "{method} {path}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
    assert!(proxy.stop().await);
}

/// The lines of the audit so far that say this.
async fn audited(instance: &Instance, what: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} times: {what}"), async || {
        let lines: Vec<Value> = instance.lines_of("hookonce::audit").into_iter().filter(|line| line["message"] == what).collect();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn every_change_and_every_look_inside_is_noted() {
    let consumer = Consumer::answering(422).await;
    let instance = Instance::start(&queueing(&consumer, ONCE)).await;
    instance.send(&stripe("e1")).await;
    let ask = async |method, path: &str| asking(method, path).send(instance.admin).await;
    let letter = eventually("a dead letter", async || {
        let letter = ask("GET", "/api/queue/stripe/e1").await.json();
        (letter["state"] == "dead").then_some(letter)
    })
    .await["letter"]
        .clone();
    assert_eq!(ask("GET", "/api/queue/stripe/e1?content=1").await.status, 200);
    assert_eq!(ask("POST", "/api/queue/stripe/e1/retry").await.status, 200);
    consumer.arrived("e1", 2).await;
    eventually("a dead letter again", async || {
        (ask("GET", "/api/queue/stripe/e1").await.json()["state"] == "dead").then_some(())
    })
    .await;
    assert_eq!(ask("DELETE", "/api/queue/stripe/e1").await.status, 200);
    assert_eq!(ask("DELETE", "/api/queue/stripe/e1").await.status, 404);
    for (what, results) in [
        ("read the content of a letter", &["ok"][..]),
        ("retry a letter", &["retried"]),
        ("drop a letter", &["dropped", "nothing in the queue has this id"]),
    ] {
        let lines = audited(&instance, what, results.len()).await;
        assert_eq!(lines.iter().map(|line| line["result"].as_str().unwrap()).collect::<Vec<_>>(), results);
        let line = &lines[0];
        assert_eq!((&line["provider"], &line["letter"], &line["event"]), (&"stripe".into(), &letter, &"e1".into()));
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    }
}

#[tokio::test]
async fn a_success_after_a_forced_drop_is_not_called_a_second_effect() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    instance.send(&stripe("e1")).await;
    consumer.arrived("e1", 1).await;
    assert_eq!(asking("DELETE", "/api/queue/stripe/e1?force=1").send(instance.admin).await.status, 200);
    gate.open();
    eventually("its line", async || instance.lines_of("hookonce::queue").pop().filter(|line| line["outcome"] == "done")).await;
    assert!(!instance.log().contains("twice"), "{}", instance.log());
}

#[tokio::test]
async fn without_the_token_nothing_is_changed() {
    let consumer = Consumer::answering(422).await;
    let table = format!("[queue]\naccept_loss = true\n{ONCE}");
    let open = Instance::start(&in_front_of(&consumer).both("mode = \"queue\"").table(&table)).await;
    let guarded = Instance::start(&queueing(&consumer, ONCE)).await;
    for (instance, status, read) in [(&open, 403, 200), (&guarded, 401, 401)] {
        instance.send(&stripe("e1")).await;
        let dead =
            async || (instance.metrics().await.value("hookonce_dead_letters", &[("provider", "stripe")]) == 1.0).then_some(());
        eventually("a dead letter", dead).await;
        for (method, path) in [
            ("POST", "/api/queue/stripe/e1/retry"),
            ("DELETE", "/api/queue/stripe/e1"),
            ("DELETE", "/api/queue/stripe/e1?force=1"),
        ] {
            assert_eq!(Delivery::plain(method, path).send(instance.admin).await.status, status, "{method} {path}");
        }
        assert_eq!(audited(instance, "refused", 3).await.len(), 3);
        for path in ["/api/queue", "/api/queue?provider=stripe", "/api/queue/stripe/e1", "/api/queue/stripe/e1?content=1"] {
            assert_eq!(Delivery::plain("GET", path).send(instance.admin).await.status, read, "{path}");
        }
        assert_eq!(instance.metrics().await.value("hookonce_dead_letters", &[("provider", "stripe")]), 1.0);
    }
    assert_eq!(consumer.count("e1"), 2, "one of each instance");
}
