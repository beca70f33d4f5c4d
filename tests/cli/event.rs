//! `hookonce event` and `hookonce bypass`: an operator at a terminal, and a script.

use std::io::Write;
use std::process::Command;

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::redis::quiet_port;
use crate::support::sender::{github_with, stripe};
use crate::{Ended, ended, with};

const TOKEN: &str = "a-token-for-these-tests";

async fn guarded(consumer: &Consumer) -> Instance {
    Instance::start(&in_front_of(consumer).top(&format!("admin_token = \"{TOKEN}\""))).await
}

/// A command that is told where the instance is and what opens it.
fn at(instance: &Instance, words: &[&str]) -> Command {
    let mut command = with(words);
    command.args(["--admin", &instance.admin.to_string()]).env("HOOKONCE_ADMIN_TOKEN", TOKEN);
    command
}

async fn told(instance: &Instance, words: &[&str]) -> Ended {
    ended(at(instance, words)).await
}

/// The words of a line of the table, without the times.
fn row<'a>(out: &'a str, event: &str) -> Vec<&'a str> {
    let line = out.lines().find(|line| line.split_whitespace().next() == Some(event));
    line.unwrap_or_else(|| panic!("{event} is not in\n{out}")).split_whitespace().take(5).collect()
}

#[tokio::test]
async fn an_event_is_shown_with_what_its_next_delivery_will_meet() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |seen, _| match seen.event_id() {
        "held" => Act::Behind(held.clone(), Box::new(Act::Answer(200))),
        "bad" => Act::Answer(500),
        _ => Act::Answer(202),
    })
    .await;
    let instance = guarded(&consumer).await;
    instance.send(&stripe("good")).await;
    instance.send(&stripe("bad")).await;
    let under_way = stripe("held").begin(instance.listen).await;
    consumer.arrived("held", 1).await;
    for (event, cells, outlook) in [
        ("good", ["done", "1", "202", "-"], "answered as a duplicate"),
        ("bad", ["failed", "1", "500", "-"], "is forwarded."),
        ("held", ["claimed", "1", "-", "-"], "The consumer is at work on it"),
    ] {
        let end = told(&instance, &["event", "show", "stripe", event]).await;
        assert_eq!((end.code, end.err.as_str()), (Some(0), ""), "{end:?}");
        assert_eq!(row(&end.out, event), [&[event][..], &cells].concat(), "{}", end.out);
        assert!(end.out.starts_with("event  state") && end.out.contains(outlook), "{}", end.out);
    }
    let json: Value = serde_json::from_str(&told(&instance, &["event", "show", "stripe", "good", "--json"]).await.out).unwrap();
    assert_eq!((json["state"].as_str(), json["key"].as_str()), (Some("done"), Some("test:stripe:good")));
    gate.open();
    drop(under_way);
}

#[tokio::test]
async fn events_are_listed_by_the_beginning_of_their_ids() {
    let consumer = Consumer::answering(200).await;
    let instance = guarded(&consumer).await;
    for event in ["evt_1", "evt_2", "other"] {
        instance.send(&stripe(event)).await;
    }
    let end = told(&instance, &["event", "find", "stripe", "evt_"]).await;
    assert_eq!((end.code, end.out.lines().count()), (Some(0), 3), "{end:?}");
    assert_eq!(row(&end.out, "evt_2"), ["evt_2", "done", "1", "200", "-"]);
    assert_eq!(told(&instance, &["event", "find", "stripe"]).await.out.lines().count(), 4);
    assert_eq!(
        told(&instance, &["event", "find", "stripe", "none", "--json"]).await.out.trim_end(),
        "{\"events\":[],\"limit\":100}"
    );
}

#[tokio::test]
async fn a_forgotten_event_is_forwarded_again() {
    let consumer = Consumer::answering(200).await;
    let instance = guarded(&consumer).await;
    for id in ["e1", "odd id?#%<>\"{}|\\^`"] {
        let delivery = github_with("x", "{}").with("x-github-delivery", id);
        instance.send(&delivery).await;
        // What the log and the header show is what is typed.
        let shown = consumer.seen().pop().unwrap().event_id().to_owned();
        let end = told(&instance, &["event", "forget", "github", &shown]).await;
        assert_eq!((end.code, end.err.as_str()), (Some(0), ""), "{end:?}");
        assert!(end.out.starts_with("forgotten: "), "{}", end.out);
        let end = told(&instance, &["event", "show", "github", &shown]).await;
        assert!(end.out.contains("marked `forgotten`"), "{end:?}");
        assert_eq!(instance.send(&delivery).await.outcome(), "forwarded");
        assert_eq!(consumer.seen().pop().unwrap().mark(), Some("forgotten"));
    }
}

#[tokio::test]
async fn a_range_is_counted_first_and_forgotten_only_with_a_yes() {
    let consumer = Consumer::answering(200).await;
    let instance = guarded(&consumer).await;
    for event in ["e1", "e2", "e3"] {
        instance.send(&stripe(event)).await;
    }
    let range = ["event", "forget", "--provider", "stripe", "--since", "1h"];
    let asked = told(&instance, &range).await;
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.out.contains("3 to forget") && asked.err.contains("--yes"), "{asked:?}");
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");

    let end = told(&instance, &[&range[..], &["--yes"]].concat()).await;
    assert_eq!((end.code, end.err.as_str()), (Some(0), ""), "{end:?}");
    assert!(end.out.contains("forgotten: 3."), "{}", end.out);
    for event in ["e1", "e2", "e3"] {
        assert_eq!(instance.send(&stripe(event)).await.outcome(), "forwarded");
    }
    let nothing = told(&instance, &["event", "forget", "--provider", "stripe", "--since", "2h", "--until", "1h", "--json"]).await;
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), "{\"forgotten\":0,\"in_flight\":0,\"provider\":\"stripe\"}\n"));
}

#[tokio::test]
async fn a_bypass_is_begun_shown_and_ended() {
    let consumer = Consumer::answering(200).await;
    let instance = guarded(&consumer).await;
    instance.send(&stripe("e1")).await;
    assert_eq!(told(&instance, &["bypass"]).await.out, "no provider is bypassed\n");
    assert_eq!(told(&instance, &["bypass", "stripe"]).await.out, "stripe: not bypassed\n");
    let begun = told(&instance, &["bypass", "stripe", "--for", "30m"]).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    assert!(begun.out.starts_with("stripe: bypassed until "), "{}", begun.out);
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!(consumer.seen().pop().unwrap().mark(), Some("replay"));
    assert!(told(&instance, &["bypass"]).await.out.starts_with("stripe: bypassed until "));
    let json: Value = serde_json::from_str(&told(&instance, &["bypass", "stripe", "--json"]).await.out).unwrap();
    assert_eq!(json["active"], true);
    let over = told(&instance, &["bypass", "stripe", "--end"]).await;
    assert_eq!((over.code, over.out.as_str()), (Some(0), "stripe: not bypassed\n"), "{over:?}");
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(told(&instance, &["bypass", "stripe", "--end"]).await.code, Some(1));
}

#[tokio::test]
async fn what_is_refused_is_said_and_ends_with_one() {
    let consumer = Consumer::answering(200).await;
    let (instance, open) = (guarded(&consumer).await, Instance::start(&in_front_of(&consumer)).await);
    for words in [
        &["event", "show", "stripe", "none"][..],
        &["event", "show", "nobody", "e1"],
        &["event", "forget", "stripe", "none"],
        &["event", "forget", "--provider", "nobody", "--since", "1h", "--yes"],
        &["bypass", "nobody", "--for", "1m"],
    ] {
        let end = told(&instance, words).await;
        assert_eq!((end.code, end.out.as_str()), (Some(1), ""), "{words:?}: {end:?}");
        assert!(end.err.starts_with("hookonce: refused (404): "), "{}", end.err);
    }
    for (instance, token, status) in [(&instance, "wrong", 401), (&open, TOKEN, 403)] {
        let mut command = at(instance, &["event", "forget", "stripe", "e1"]);
        command.env("HOOKONCE_ADMIN_TOKEN", token);
        let end = ended(command).await;
        assert!(end.code == Some(1) && end.err.contains(&format!("refused ({status})")), "{end:?}");
        assert!(!end.err.contains(token), "{end:?}");
    }
    let nobody = format!("127.0.0.1:{}", quiet_port());
    let end = ended(with(&["event", "show", "stripe", "e1", "--admin", &nobody])).await;
    assert!(end.code == Some(1) && end.err.contains(&nobody) && end.err.contains("does not answer"), "{end:?}");
}

#[tokio::test]
async fn a_mistake_of_the_command_line_ends_with_two() {
    for words in [
        &["event"][..],
        &["event", "show", "stripe"],
        &["event", "forget", "stripe"],
        &["event", "forget", "--provider", "stripe"],
        &["event", "forget", "--since", "1h"],
        &["event", "forget", "stripe", "e1", "--since", "1h"],
        &["event", "forget", "stripe", "e1", "--provider", "stripe", "--since", "1h"],
        &["event", "forget", "stripe", "e1", "--yes"],
        &["event", "forget", "--provider", "stripe", "--since", "yesterday"],
        &["event", "forget", "--provider", "stripe", "--since", "1h", "--until", "2026-11-16"],
        &["bypass", "--for", "1m"],
        &["bypass", "--end"],
        &["bypass", "stripe", "--for", "30"],
        &["bypass", "stripe", "--for", "25h"],
        &["bypass", "stripe", "--for", "0s"],
        &["bypass", "stripe", "--for", "1m", "--end"],
    ] {
        let end = ended(with(words)).await;
        assert_eq!((end.code, end.out.as_str()), (Some(2), ""), "{words:?}: {end:?}");
        assert!(end.err.contains("Usage: hookonce") || end.err.contains("invalid value"), "{words:?}: {}", end.err);
    }
    for words in [&["--admin", "nonsense"][..], &["--admin", "https://127.0.0.1:9090"], &["--token-env", "NOT_SET_ANYWHERE"]] {
        let end = ended(with(&[&["event", "show", "stripe", "e1"], words].concat())).await;
        assert_eq!((end.code, end.out.as_str()), (Some(2), ""), "{words:?}: {end:?}");
    }
}

#[tokio::test]
async fn address_and_token_may_come_from_the_file_of_the_instance_or_a_named_variable() {
    let consumer = Consumer::answering(200).await;
    let instance = guarded(&consumer).await;
    instance.send(&stripe("e1")).await;
    let mut file = NamedTempFile::new().unwrap();
    // Whatever else is wrong with it: the secrets of the instance need not be here.
    write!(file, "admin = \"{}\"\nadmin_token = {{ env = \"ITS_TOKEN\" }}\n[providers.stripe]\n", instance.admin).unwrap();
    let show = ["event", "show", "stripe", "e1"];
    let from_file = || {
        let mut command = with(&show);
        command.arg("--config").arg(file.path());
        command
    };
    let mut command = from_file();
    command.env("ITS_TOKEN", TOKEN);
    assert_eq!(ended(command).await.code, Some(0));
    let end = ended(from_file()).await;
    assert!(end.code == Some(2) && end.err.contains("ITS_TOKEN is not set"), "{end:?}");
    // A token that is given needs no other.
    let mut command = from_file();
    command.args(["--token-env", "MINE"]).env("MINE", TOKEN).env("HOOKONCE_ADMIN_TOKEN", "wrong");
    assert_eq!(ended(command).await.code, Some(0));
    for address in [format!("http://{}", instance.admin), format!("http://localhost:{}/", instance.admin.port())] {
        let mut command = with(&show);
        command.args(["--admin", &address]).env("HOOKONCE_ADMIN_TOKEN", TOKEN);
        let end = ended(command).await;
        assert_eq!(end.code, Some(0), "{address}: {end:?}");
    }
}

#[tokio::test]
async fn each_part_of_a_command_has_its_own_help() {
    for words in [&["event", "show"][..], &["event", "find"], &["event", "forget"], &["bypass"], &["event"]] {
        let help = ended(with(&[words, &["--help"]].concat())).await;
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{words:?}");
        assert!(help.out.contains(&format!("Usage: hookonce {}", words.join(" "))), "{}", help.out);
    }
}
