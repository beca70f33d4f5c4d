//! `hookonce queue`: an operator at a terminal, and a script.

use std::process::Command;
use std::time::Duration;

use hookonce::config::{Config, Environment};
use hookonce::store::StoreSource;
use hookonce::store::backlog::{Appended, Backlog, Filed, Lane, LetterId, NewLetter, Room};
use serde_json::Value;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github_with, now, stripe, stripe_with};
use crate::{Ended, ended, with};

const TOKEN: &str = "a-token-for-these-tests";
/// The second attempt is further away than any test waits.
const PATIENT: &str = "schedule = [\"0s\", \"1h\"]";
/// The first attempt is the last.
const ONCE: &str = "schedule = [\"0s\"]";
const HOUR: Duration = Duration::from_secs(3600);

fn queueing(consumer: &Consumer, schedule: &str) -> Setup {
    let table = format!("[queue]\naccept_loss = true\n{schedule}");
    in_front_of(consumer).top(&format!("admin_token = \"{TOKEN}\"")).both("mode = \"queue\"").table(&table)
}

/// A command that is told where the instance is and what opens it.
fn at(instance: &Instance, words: &[&str]) -> Command {
    let mut command = with(words);
    command.args(["--admin", &instance.admin.to_string()]).env("HOOKONCE_ADMIN_TOKEN", TOKEN);
    command
}

/// What a command says that goes well.
async fn told(instance: &Instance, words: &[&str]) -> String {
    let end = ended(at(instance, words)).await;
    assert_eq!((end.code, end.err.as_str()), (Some(0), ""), "{words:?}: {end:?}");
    end.out
}

async fn refused(instance: &Instance, words: &[&str]) -> Ended {
    let end = ended(at(instance, words)).await;
    assert_eq!(end.code, Some(1), "{words:?}: {end:?}");
    end
}

async fn json(instance: &Instance, words: &[&str]) -> Value {
    serde_json::from_str(&told(instance, &[words, &["--json"]].concat()).await).unwrap()
}

/// Waits until a letter is in this state after so many attempts.
async fn settled(instance: &Instance, provider: &str, event: &str, state: &str, attempt: u64) -> Value {
    let request =
        Delivery::plain("GET", &format!("/api/queue/{provider}/{event}")).with("authorization", &format!("Bearer {TOKEN}"));
    eventually(&format!("{event} is {state} after {attempt} attempts"), async || {
        let answer = request.send(instance.admin).await;
        let letter = (answer.status == 200).then(|| answer.json())?;
        (letter["state"] == state && letter["attempt"] == attempt).then_some(letter)
    })
    .await
}

async fn done(instance: &Instance, provider: &str, event: &str) {
    let request =
        Delivery::plain("GET", &format!("/api/events/{provider}/{event}")).with("authorization", &format!("Bearer {TOKEN}"));
    eventually(&format!("{event} is done"), async || {
        (request.send(instance.admin).await.json()["state"] == "done").then_some(())
    })
    .await;
}

/// The words of the line that names this event.
fn row<'a>(out: &'a str, event: &str) -> Vec<&'a str> {
    let has = |line: &&str| line.split_whitespace().any(|word| word == event);
    out.lines().find(has).unwrap_or_else(|| panic!("{event} is not in\n{out}")).split_whitespace().collect()
}

fn events(listed: &Value) -> Vec<&str> {
    listed["letters"].as_array().unwrap().iter().map(|letter| letter["event"].as_str().unwrap_or("none")).collect()
}

/// The store of an instance, as another instance would see it.
fn store_of(setup: &Setup) -> StoreSource {
    StoreSource::open(&Config::from_text(&setup.text(), &Environment::default()).unwrap().config.store).unwrap()
}

/// Puts copies of a letter into the queue that were accepted so many hours ago. They have no event id.
async fn add_old(setup: &Setup, provider: &str, like: &Value, hours: &[u32]) {
    let (store, lane) = (store_of(setup).connect().unwrap(), Lane::new("test", provider));
    let id = LetterId::parse(like["letter"].as_str().unwrap()).unwrap();
    let Filed { slip, content, .. } = store.letter(&lane, id).await.unwrap().unwrap();
    for hours in hours {
        let mut slip = slip.clone();
        slip.queued_at = now() - HOUR * *hours;
        let letter =
            NewLetter { id: LetterId::new(slip.queued_at).unwrap(), cell: None, line: None, slip, content: content.clone() };
        let room = Room { letters: 1000, bytes: 1 << 20, dead_bytes: 1 << 20 };
        assert_eq!(store.cells().append(&lane, letter, room).await.unwrap(), Appended::Added);
    }
}

#[tokio::test]
async fn an_empty_queue_says_so() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    assert_eq!(told(&instance, &["queue", "ls", "stripe"]).await, "stripe: no events in the queue\n");
    assert_eq!(told(&instance, &["queue", "dead", "ls", "stripe"]).await, "stripe: no dead letters\n");
    let old = told(&instance, &["queue", "ls", "stripe", "--older-than", "1h30m"]).await;
    assert_eq!(old, "stripe: no events in the queue older than 1h30m\n");
    let all = told(&instance, &["queue", "ls"]).await;
    assert_eq!(row(&all, "github"), ["github", "0", "0B", "-", "0", "0B"]);
    assert_eq!(told(&instance, &["queue", "retry", "stripe", "--all"]).await, "retried: 0\n");
    let nothing = told(&instance, &["queue", "dead", "drop", "stripe", "--all", "--older-than", "1h"]).await;
    assert_eq!(nothing, "stripe, older than 1h: 0 to drop\ndropped: 0\n");
    let open = Instance::start(&in_front_of(&consumer)).await;
    assert!(told(&open, &["queue", "ls"]).await.starts_with("no provider has a queue"));
}

#[tokio::test]
async fn a_list_is_a_table_of_what_waits() {
    let consumer = Consumer::answering(503).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    for event in ["e1", "e2"] {
        instance.send(&stripe(event)).await;
        settled(&instance, "stripe", event, "waiting", 1).await;
    }
    let letter = settled(&instance, "stripe", "e1", "waiting", 1).await["letter"].as_str().unwrap().to_owned();
    let out = told(&instance, &["queue", "ls", "stripe"]).await;
    assert!(out.starts_with("age  attempt  status  due") && out.lines().count() == 3, "{out}");
    let words = row(&out, "e1");
    assert_eq!((&words[1..4], &words[words.len() - 2..]), (&["1", "503", "in"][..], &["e1", letter.as_str()][..]), "{out}");
    let counted = told(&instance, &["queue", "ls"]).await;
    assert_eq!((row(&counted, "stripe")[1], row(&counted, "github")[1]), ("2", "0"), "{counted}");

    let one = told(&instance, &["queue", "ls", "stripe", "--limit", "1"]).await;
    assert!(one.lines().count() == 4 && one.contains("There are more"), "{one}");
    let listed = json(&instance, &["queue", "ls", "stripe", "--limit", "1"]).await;
    assert_eq!((listed["letters"].as_array().unwrap().len(), listed["more"].as_bool()), (1, Some(true)), "{listed}");
    let listed = json(&instance, &["queue", "ls", "stripe"]).await;
    assert_eq!((listed["more"].as_bool(), listed["letters"][0]["status"].as_u64()), (Some(false), Some(503)), "{listed}");
    assert_eq!(json(&instance, &["queue", "ls"]).await["queues"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_letter_is_shown_and_its_content_only_on_request() {
    let consumer = Consumer::answering(503).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    instance.send(&github_with("e1", "{\"card\":\"4242\"}").with("x-api-key", "letmein")).await;
    let letter = settled(&instance, "github", "e1", "waiting", 1).await["letter"].as_str().unwrap().to_owned();
    for id in ["e1", letter.as_str()] {
        let out = told(&instance, &["queue", "show", "github", id]).await;
        assert!(
            out.contains(&letter) && row(&out, "e1") == ["event", "e1"] && row(&out, "503") == ["last", "status", "503"],
            "{out}"
        );
        assert!(out.contains("It is delivered when it is due."), "{out}");
        assert!(!out.contains("4242") && !out.contains("letmein"), "{out}");
    }
    let out = told(&instance, &["queue", "show", "github", "e1", "--content"]).await;
    assert!(out.contains("\nPOST /github\n") && out.contains("\nx-api-key: letmein\n"), "{out}");
    assert!(out.ends_with("\n\n{\"card\":\"4242\"}\n"), "{out}");
    assert!(json(&instance, &["queue", "show", "github", "e1"]).await.get("content").is_none());
    let content = json(&instance, &["queue", "show", "github", "e1", "--content"]).await["content"].clone();
    assert_eq!(content["body"], "{\"card\":\"4242\"}");
}

#[tokio::test]
async fn a_dead_letter_is_retried_and_a_waiting_one_hurried() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await;
    for (schedule, state, retry) in [
        (ONCE, "dead", &["queue", "dead", "retry"][..]),
        (PATIENT, "waiting", &["queue", "retry"]),
        (ONCE, "dead", &["queue", "retry"]),
    ] {
        let instance = Instance::start(&queueing(&consumer, schedule)).await;
        let event = format!("{state}-{}", retry.len());
        instance.send(&stripe(&event)).await;
        settled(&instance, "stripe", &event, state, 1).await;
        let out = told(&instance, &[retry, &["stripe", &event]].concat()).await;
        assert!(out.starts_with(&format!("retried: {event} ")), "{out}");
        done(&instance, "stripe", &event).await;
        assert_eq!(consumer.seen().pop().unwrap().mark(), Some("replay"));
        assert_eq!(consumer.count(&event), 2);
    }
}

#[tokio::test]
async fn dead_letters_are_retried_all_at_once() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 503 } else { 200 })).await;
    let instance = Instance::start(&queueing(&consumer, ONCE)).await;
    for event in ["e1", "e2", "e3"] {
        instance.send(&stripe(event)).await;
        settled(&instance, "stripe", event, "dead", 1).await;
    }
    assert_eq!(row(&told(&instance, &["queue", "dead", "ls", "stripe"]).await, "e2")[3], "never");
    // What is not dead is no concern of this.
    assert_eq!(told(&instance, &["queue", "retry", "stripe", "--all"]).await, "retried: 0\n");
    assert_eq!(json(&instance, &["queue", "dead", "retry", "stripe", "--all"]).await["retried"], 3);
    for event in ["e1", "e2", "e3"] {
        done(&instance, "stripe", event).await;
        assert_eq!(consumer.count(event), 2);
    }
    assert_eq!(told(&instance, &["queue", "dead", "ls", "stripe"]).await, "stripe: no dead letters\n");
}

#[tokio::test]
async fn what_was_never_tried_needs_no_retry() {
    let consumer = Consumer::deciding(|seen, nth| Act::Answer(if seen.event_id() == "a1" && nth == 1 { 503 } else { 200 })).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT).stripe("order_by = { json = \"/customer\" }")).await;
    for id in ["a1", "a2"] {
        instance.send(&stripe_with(format!("{{\"id\":\"{id}\",\"customer\":\"a\"}}"))).await;
    }
    settled(&instance, "stripe", "a1", "waiting", 1).await;
    assert_eq!(row(&told(&instance, &["queue", "ls", "stripe"]).await, "a2")[3..5], ["after", "others"]);
    assert_eq!(told(&instance, &["queue", "retry", "stripe", "--all"]).await, "retried: 1; left alone: 1\n");
    done(&instance, "stripe", "a2").await;
    let seen = consumer.seen();
    let told: Vec<_> = seen.iter().map(|seen| (seen.event_id(), seen.mark())).collect();
    assert_eq!(told, [("a1", None), ("a1", Some("replay")), ("a2", None)]);
}

/// Stands for an instance: lists these letters as dead, and answers each retry with the status behind its name.
async fn instance_with(letters: &'static [(&'static str, u16)]) -> Consumer {
    let listed = letters.iter().map(|(name, _)| {
        serde_json::json!({
            "letter": name, "event": name, "state": "dead", "attempt": 1, "doubt": null, "status": 503,
            "queued_at": "2026-11-16T05:20:01.123Z", "age_s": 60, "due_in_ms": null, "bytes": 1, "line": null,
        })
    });
    let page = serde_json::json!({ "letters": listed.collect::<Vec<_>>(), "next": null }).to_string();
    Consumer::deciding(move |seen, _| match letters.iter().find(|(name, _)| seen.target.contains(&format!("/{name}/"))) {
        Some((_, status)) => Act::Respond(*status, vec![], "{\"reason\":\"so\"}".into()),
        None => Act::Respond(200, vec![], page.clone().into()),
    })
    .await
}

#[tokio::test]
async fn all_of_them_goes_on_past_what_is_gone_and_stops_where_the_instance_cannot() {
    let retry = async |instance: &Consumer| {
        ended(with(&["queue", "dead", "retry", "stripe", "--all", "--admin", &instance.address.to_string()])).await
    };
    let end = retry(&instance_with(&[("gone", 404), ("out", 409), ("good", 200)]).await).await;
    assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (Some(0), "retried: 1; left alone: 2\n", ""), "{end:?}");
    let instance = instance_with(&[("good", 200), ("bad", 503), ("never", 200)]).await;
    let end = retry(&instance).await;
    assert_eq!((end.code, end.out.as_str()), (Some(1), ""), "{end:?}");
    assert!(end.err.contains("refused (503): so") && end.err.contains("retried before that: 1 of 3"), "{end:?}");
    assert!(!instance.seen().iter().any(|seen| seen.target.contains("never")));
}

/// Events that wait for their second attempt: a new one, and letters of three and of two hours ago.
async fn of_three_ages(consumer: &Consumer, redis: &RedisProcess) -> Instance {
    let setup = queueing(consumer, PATIENT).store(&redis.url());
    let instance = Instance::start(&setup).await;
    instance.send(&stripe("new")).await;
    let new = settled(&instance, "stripe", "new", "waiting", 1).await;
    // The old ones are tried at once, for the second and last time.
    add_old(&setup, "stripe", &new, &[2, 3]).await;
    instance
}

#[tokio::test]
async fn age_decides_what_is_listed_retried_and_dropped() {
    let (consumer, redis) = (Consumer::answering(503).await, RedisProcess::start());
    let instance = of_three_ages(&consumer, &redis).await;
    consumer.arrived("new", 3).await;
    eventually("two dead letters", async || {
        let listed = json(&instance, &["queue", "dead", "ls", "stripe"]).await;
        (listed["letters"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    let dead = told(&instance, &["queue", "dead", "ls", "stripe"]).await;
    let ages: Vec<_> = dead.lines().skip(1).map(|line| line.split("  ").next().unwrap()).collect();
    assert!(ages[0].starts_with("3h") && ages[1].starts_with("2h"), "{dead}");
    let older = |age: &'static str| ["queue", "dead", "ls", "stripe", "--older-than", age];
    for (age, count) in [("4h", 0), ("150m", 1), ("1h", 2)] {
        assert_eq!(json(&instance, &older(age)).await["letters"].as_array().unwrap().len(), count, "{age}");
    }

    assert_eq!(told(&instance, &["queue", "dead", "retry", "stripe", "--all", "--older-than", "150m"]).await, "retried: 1\n");
    consumer.arrived("new", 4).await;
    assert_eq!(consumer.seen().pop().unwrap().mark(), Some("replay"));
    // It waits for its second attempt now, as the new one does.
    eventually("one more that waits", async || {
        let waiting = json(&instance, &["queue", "ls", "stripe"]).await;
        (waiting["letters"][0]["attempt"] == 1 && waiting["letters"][0]["state"] == "waiting").then_some(())
    })
    .await;
    assert_eq!(events(&json(&instance, &["queue", "ls", "stripe"]).await), ["none", "new"]);

    let drop = ["queue", "drop", "stripe", "--all", "--older-than", "1h"];
    let asked = refused(&instance, &drop).await;
    assert!(asked.out.contains("stripe, older than 1h: 1 to drop, 0 under way") && asked.err.contains("--yes"), "{asked:?}");
    assert_eq!(events(&json(&instance, &["queue", "ls", "stripe"]).await), ["none", "new"]);
    let out = told(&instance, &[&drop[..], &["--yes"]].concat()).await;
    assert!(out.ends_with("\ndropped: 1\n"), "{out}");
    assert_eq!(events(&json(&instance, &["queue", "ls", "stripe"]).await), ["new"]);
    // The dead one is as old, and was not meant.
    let dead = json(&instance, &["queue", "dead", "ls", "stripe"]).await;
    assert_eq!(dead["letters"].as_array().unwrap().len(), 1, "{dead}");
}

#[tokio::test]
async fn more_than_a_page_is_gone_through() {
    const LETTERS: usize = 501;
    let (consumer, redis) = (Consumer::answering(503).await, RedisProcess::start());
    let setup = queueing(&consumer, ONCE).store(&redis.url());
    let instance = Instance::start(&setup).await;
    instance.send(&stripe("e1")).await;
    let first = settled(&instance, "stripe", "e1", "dead", 1).await;
    add_old(&setup, "stripe", &first, &[1; LETTERS]).await;
    eventually("that many dead letters", async || {
        let counted = json(&instance, &["queue", "ls"]).await;
        let stripe = counted["queues"].as_array().unwrap().iter().find(|queue| queue["provider"] == "stripe").cloned()?;
        (stripe["dead"] == LETTERS + 1).then_some(())
    })
    .await;
    let listed = json(&instance, &["queue", "dead", "ls", "stripe", "--limit", "1000"]).await;
    assert_eq!((listed["letters"].as_array().unwrap().len(), listed["more"].as_bool()), (LETTERS + 1, Some(false)));
    let out = told(&instance, &["queue", "dead", "drop", "stripe", "--all", "--older-than", "30m", "--yes"]).await;
    assert!(out.ends_with(&format!("dropped: {LETTERS}\n")), "{out}");
    assert_eq!(events(&json(&instance, &["queue", "dead", "ls", "stripe"]).await), ["e1"]);
}

#[tokio::test]
async fn a_dropped_event_is_never_delivered_and_says_so() {
    let consumer = Consumer::answering(503).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    instance.send(&stripe("e1")).await;
    settled(&instance, "stripe", "e1", "waiting", 1).await;
    let queued = told(&instance, &["event", "show", "stripe", "e1"]).await;
    assert!(queued.contains("It is in the queue") && queued.contains("answered as a duplicate"), "{queued}");
    let out = told(&instance, &["queue", "drop", "stripe", "e1"]).await;
    assert!(out.starts_with("dropped: e1 "), "{out}");
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
    let shown = told(&instance, &["event", "show", "stripe", "e1"]).await;
    assert_eq!(row(&shown, "e1")[..4], ["e1", "done", "1", "dropped"], "{shown}");
    assert!(shown.contains("Dropped by an operator"), "{shown}");
    assert_eq!(consumer.count("e1"), 1);
}

#[tokio::test]
async fn what_is_under_way_is_dropped_only_by_force() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    instance.send(&stripe("e1")).await;
    consumer.arrived("e1", 1).await;
    settled(&instance, "stripe", "e1", "out", 1).await;
    assert_eq!(row(&told(&instance, &["queue", "ls", "stripe"]).await, "e1")[3..5], ["under", "way"]);
    for words in [&["queue", "retry", "stripe", "e1"][..], &["queue", "drop", "stripe", "e1"]] {
        assert!(refused(&instance, words).await.err.starts_with("hookonce: refused (409): "), "{words:?}");
    }
    let all = ["queue", "drop", "stripe", "--all", "--older-than", "0s", "--yes"];
    let out = told(&instance, &all).await;
    assert_eq!(out, "stripe, older than 0s: 0 to drop, 1 under way and left alone\ndropped: 0; left alone: 1\n");
    assert_eq!(told(&instance, &["queue", "retry", "stripe", "--all"]).await, "retried: 0; left alone: 1\n");
    assert!(told(&instance, &["queue", "drop", "stripe", "e1", "--force"]).await.starts_with("dropped: e1 "));
    assert_eq!(told(&instance, &["queue", "ls", "stripe"]).await, "stripe: no events in the queue\n");
    gate.open();
}

#[tokio::test]
async fn what_is_refused_is_said_and_ends_with_one() {
    let consumer = Consumer::answering(503).await;
    let instance = Instance::start(&queueing(&consumer, PATIENT)).await;
    instance.send(&stripe("e1")).await;
    settled(&instance, "stripe", "e1", "waiting", 1).await;
    for words in [
        &["queue", "ls", "nobody"][..],
        &["queue", "show", "stripe", "none"],
        &["queue", "retry", "stripe", "none"],
        &["queue", "drop", "stripe", "none"],
        &["queue", "retry", "nobody", "--all"],
        &["queue", "dead", "show", "stripe", "e1"],
        &["queue", "dead", "retry", "stripe", "e1"],
        &["queue", "dead", "drop", "stripe", "e1"],
    ] {
        let end = refused(&instance, words).await;
        assert!(end.out.is_empty() && end.err.starts_with("hookonce: refused (404): "), "{words:?}: {end:?}");
    }
    for words in [
        &["queue", "retry", "stripe", "e1"][..],
        &["queue", "drop", "stripe", "e1"],
        &["queue", "drop", "stripe", "--all", "--older-than", "0s", "--yes"],
    ] {
        let mut command = at(&instance, words);
        command.env("HOOKONCE_ADMIN_TOKEN", "wrong");
        let end = ended(command).await;
        assert!(end.code == Some(1) && end.err.contains("refused (401)"), "{words:?}: {end:?}");
    }
    settled(&instance, "stripe", "e1", "waiting", 1).await;
}

#[tokio::test]
async fn a_mistake_of_the_command_line_ends_with_two() {
    for words in [
        &["queue"][..],
        &["queue", "dead"],
        &["queue", "show", "stripe"],
        &["queue", "retry", "stripe"],
        &["queue", "retry", "--all"],
        &["queue", "retry", "stripe", "e1", "--all"],
        &["queue", "retry", "stripe", "e1", "--older-than", "1h"],
        &["queue", "retry", "stripe", "--all", "--older-than", "60"],
        &["queue", "drop", "stripe"],
        &["queue", "drop", "stripe", "--all"],
        &["queue", "drop", "stripe", "--all", "--yes"],
        &["queue", "drop", "stripe", "e1", "--yes"],
        &["queue", "drop", "stripe", "e1", "--older-than", "1h"],
        &["queue", "drop", "stripe", "e1", "--all", "--older-than", "1h"],
        &["queue", "dead", "drop", "stripe", "--all", "--older-than", "1h", "--force"],
        &["queue", "ls", "--older-than", "1h"],
        &["queue", "ls", "stripe", "--limit", "0"],
    ] {
        let end = ended(with(words)).await;
        assert_eq!((end.code, end.out.as_str()), (Some(2), ""), "{words:?}: {end:?}");
        assert!(end.err.contains("Usage: hookonce") || end.err.contains("invalid value"), "{words:?}: {}", end.err);
    }
}

#[tokio::test]
async fn each_part_of_a_command_has_its_own_help() {
    for words in [
        &["queue"][..],
        &["queue", "ls"],
        &["queue", "show"],
        &["queue", "retry"],
        &["queue", "drop"],
        &["queue", "dead"],
        &["queue", "dead", "ls"],
        &["queue", "dead", "show"],
        &["queue", "dead", "retry"],
        &["queue", "dead", "drop"],
    ] {
        let help = ended(with(&[words, &["--help"]].concat())).await;
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{words:?}");
        assert!(help.out.contains(&format!("Usage: hookonce {}", words.join(" "))), "{}", help.out);
    }
}
