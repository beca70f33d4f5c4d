//! `hookonce run`: how it starts, and how it says that it cannot.

use std::net::TcpListener;
use std::process::Command;

use tempfile::TempDir;

use crate::support::consumer::Consumer;
use crate::support::instance::serving;
use crate::support::program::Program;
use crate::support::redis::{RedisProcess, quiet_port};
use crate::support::sender::{Delivery, SECRET, github, stripe};
use crate::{ended, with};

/// By flags alone, in a folder of its own.
fn by_flags(folder: &TempDir, upstream: &str) -> Command {
    let mut command = with(&["run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", upstream]);
    command.args(["--provider", "github", "--secret-env", "GITHUB_SECRET"]);
    command.env("GITHUB_SECRET", SECRET).current_dir(folder.path());
    command
}

fn at(path: &str, delivery: Delivery) -> Delivery {
    Delivery { path: path.to_owned(), ..delivery }
}

#[tokio::test]
async fn flags_alone_start_it_on_the_embedded_store() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let mut program = Program::start(&mut by_flags(&folder, &consumer.url()));
    let (listen, _) = serving(&program).await;
    let delivery = at("/", github("e1"));
    assert_eq!(delivery.send(listen).await.outcome(), "forwarded");
    assert_eq!(delivery.send(listen).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    let log = program.err();
    assert!(log.contains("store=\"file:./hookonce-data\"") && log.contains("single instance"), "{log}");
    program.signal("TERM");
    program.signal("TERM");
    program.ended().await;
}

#[tokio::test]
async fn the_log_holds_what_its_level_lets_in() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    for (level, is_told) in [("info", true), ("WARN, hookonce::cli = info", false)] {
        let mut command = by_flags(&folder, &consumer.url());
        command.envs([("HOOKONCE__LOG__LEVEL", level), ("HOOKONCE__DRAIN__DELAY", "0s")]);
        let mut program = Program::start(&mut command);
        let (listen, _) = serving(&program).await;
        at("/", github("e1")).send(listen).await;
        program.signal("TERM");
        assert_eq!(program.ended().await.code(), Some(0));
        let log = program.err();
        assert!(log.contains("stopped") && log.contains("outcome=") == is_told, "{level}: {log}");
    }
}

#[tokio::test]
async fn the_example_starts_with_its_secret_and_overrides() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let mut command = with(&["run", "--config", "config.example.toml"]);
    command.env("STRIPE_WEBHOOK_SECRET", SECRET);
    command.envs([("HOOKONCE__LISTEN", "127.0.0.1:0"), ("HOOKONCE__ADMIN", "127.0.0.1:0"), ("HOOKONCE__DRAIN__DELAY", "0s")]);
    command.env("HOOKONCE__STORE__URL", redis.url()).env("HOOKONCE__UPSTREAM", consumer.url());
    let mut program = Program::start(&mut command);
    let (listen, _) = serving(&program).await;
    let delivery = at("/webhooks/stripe", stripe("e1"));
    assert_eq!(delivery.send(listen).await.outcome(), "forwarded");
    assert_eq!(delivery.send(listen).await.outcome(), "duplicate");
    program.signal("TERM");
    assert_eq!(program.ended().await.code(), Some(0), "{}", program.err());
}

#[tokio::test]
async fn a_secret_that_is_not_set_is_named() {
    let mut command = with(&["run", "--config", "config.example.toml"]);
    command.env_remove("STRIPE_WEBHOOK_SECRET");
    let end = ended(command).await;
    assert_eq!((end.code, end.out.as_str()), (Some(2), ""));
    assert!(end.err.contains("variable STRIPE_WEBHOOK_SECRET is not set"), "{}", end.err);
}

#[tokio::test]
async fn six_mistakes_are_all_told_with_their_lines_before_a_port_opens() {
    let text = std::fs::read_to_string("tests/fixtures/config/bad/six-mistakes.toml").unwrap();
    // Whoever tried to listen there would be told that it is in use, and whoever called would be seen.
    let held = TcpListener::bind(("127.0.0.1", quiet_port())).unwrap();
    held.set_nonblocking(true).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text.replace("127.0.0.1:8080", &held.local_addr().unwrap().to_string())).unwrap();
    let mut command = with(&["run", "--config"]);
    command.arg(file.path()).env("GITHUB_SECRET", SECRET).env_remove("STRIPE_WEBHOOK_SECRET_OF_NOBODY");
    let end = ended(command).await;
    assert_eq!((end.code, end.out.as_str()), (Some(2), ""));
    let told: Vec<&str> = end.err.lines().filter(|line| line.starts_with("error")).collect();
    let expected = [
        "error: line 3: lissten: is not a known key",
        "error: line 4: workers: must be a whole number, not a string",
        "error: line 6: store.namespace: is missing",
        "error: line 11: providers.stripe.secret: variable STRIPE_WEBHOOK_SECRET_OF_NOBODY is not set",
        "error: line 12: providers.stripe.retention: is a duration without a unit",
        "error: line 17: providers.github.retries: is not a known key",
    ];
    assert_eq!(told, expected);
    assert!(!end.err.contains("listen on") && held.accept().is_err(), "{}", end.err);
}

#[tokio::test]
async fn a_configuration_that_is_not_there_is_a_usage_error() {
    let end = ended(with(&["run", "--config", "/nowhere/hookonce.toml"])).await;
    assert_eq!(end.code, Some(2));
    assert!(end.err.contains("/nowhere/hookonce.toml"), "{}", end.err);
}

#[tokio::test]
async fn a_port_in_use_is_said_to_be() {
    let (taken, folder) = (TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
    let address = taken.local_addr().unwrap().to_string();
    for key in ["HOOKONCE__LISTEN", "HOOKONCE__ADMIN"] {
        let mut command = with(&["run", "--upstream", "http://127.0.0.1:9", "--provider", "github", "--secret-env", "S"]);
        command.args(["--store", "memory:"]).current_dir(folder.path());
        command.envs([("S", SECRET), ("HOOKONCE__LISTEN", "127.0.0.1:0"), ("HOOKONCE__ADMIN", "127.0.0.1:0")]).env(key, &address);
        let end = ended(command).await;
        assert_eq!(end.code, Some(1), "{end:?}");
        assert!(end.err.contains(&format!("hookonce: cannot listen on {address}: Address already in use")), "{}", end.err);
    }
}

#[tokio::test]
async fn an_instance_does_not_share_its_port_with_a_second_one() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let first = Program::start(&mut by_flags(&folder, &consumer.url()));
    let listen = serving(&first).await.0.to_string();
    let other = tempfile::tempdir().unwrap();
    let mut command = with(&["run", "--listen", &listen, "--admin", "127.0.0.1:0", "--upstream", &consumer.url()]);
    command.args(["--provider", "github", "--secret-env", "GITHUB_SECRET"]);
    command.env("GITHUB_SECRET", SECRET).current_dir(other.path());
    let end = ended(command).await;
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.err.contains(&format!("cannot listen on {listen}")), "{}", end.err);
}

/// GitHub in queue mode, on this Redis.
fn queueing(folder: &TempDir, redis: &RedisProcess, upstream: &str) -> Command {
    let mut command = by_flags(folder, upstream);
    command.args(["--store", &redis.url()]);
    command.envs([("HOOKONCE__STORE__NAMESPACE", "test"), ("HOOKONCE__PROVIDERS__GITHUB__MODE", "queue")]);
    command.env("HOOKONCE__DRAIN__DELAY", "0s");
    command
}

#[tokio::test]
async fn a_queue_on_a_redis_that_may_lose_events_has_to_be_wanted() {
    let (consumer, folder, redis) = (Consumer::answering(200).await, tempfile::tempdir().unwrap(), RedisProcess::start());
    let refused = ended(queueing(&folder, &redis, &consumer.url())).await;
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    for word in ["snapshot", "appendfsync always", "accept_loss = true"] {
        assert!(refused.err.contains(word), "{word}: {}", refused.err);
    }
    let mut command = queueing(&folder, &redis, &consumer.url());
    let mut program = Program::start(command.env("HOOKONCE__QUEUE__ACCEPT_LOSS", "true"));
    let (listen, _) = serving(&program).await;
    assert_eq!(at("/", github("e1")).send(listen).await.outcome(), "queued");
    consumer.arrived("e1", 1).await;
    program.signal("TERM");
    assert_eq!(program.ended().await.code(), Some(0), "{}", program.err());
    assert!(program.err().contains("can be lost"), "{}", program.err());
    let () = redis.ask(&["CONFIG", "SET", "appendonly", "yes"]).await;
    let () = redis.ask(&["CONFIG", "SET", "appendfsync", "always"]).await;
    let mut program = Program::start(&mut queueing(&folder, &redis, &consumer.url()));
    let (listen, _) = serving(&program).await;
    assert_eq!(at("/", github("e2")).send(listen).await.outcome(), "queued");
    program.signal("TERM");
    assert_eq!(program.ended().await.code(), Some(0), "{}", program.err());
}
