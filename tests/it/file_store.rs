//! One instance on files, with nothing else installed: what it knew, it knows after a crash and after a restart.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::PATIENCE;
use crate::support::consumer::{Act, Consumer};
use crate::support::instance::Instance;
use crate::support::program::{Program, hookonce};
use crate::support::proxy::{Setup, in_front_of};
use crate::support::sender::{Answer, github, stripe};

/// On a store in this folder; a copy of a live claim is answered at once.
fn on_files(folder: &TempDir, consumer: &Consumer) -> Setup {
    let store = format!("file:{}", folder.path().join("events").display());
    in_front_of(consumer).store(&store).both("lease = \"2s\"\nin_flight = \"retry\"")
}

#[tokio::test]
async fn an_event_of_a_killed_process_is_held_to_its_lease_and_forwarded_marked_after_a_restart() {
    let (consumer, folder) =
        (Consumer::deciding(|_, nth| if nth == 1 { Act::Hang } else { Act::Answer(200) }).await, tempfile::tempdir().unwrap());
    let setup = on_files(&folder, &consumer);
    let mut first = Instance::start(&setup).await;
    let began = Instant::now();
    let _waiting = stripe("e1").begin(first.listen).await;
    consumer.arrived("e1", 1).await;
    first.kill();

    let second = Instance::start(&setup).await;
    let mut answer = second.send(&stripe("e1")).await;
    while answer.status == 503 {
        assert_eq!(answer.outcome(), "in_flight");
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        answer = second.send(&stripe("e1")).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!((answer.status, answer.outcome()), (200, "forwarded"));
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[1].header("hookonce-attempt"), seen[1].mark()), (2, Some("2"), Some("unknown")));
    assert_eq!(second.metrics().await.marked("stripe", "unknown"), 1.0);
}

#[tokio::test]
async fn what_was_answered_is_known_after_a_kill() {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id().starts_with("bad") { 500 } else { 200 })).await;
    let folder = tempfile::tempdir().unwrap();
    let setup = on_files(&folder, &consumer);
    let mut first = Instance::start(&setup).await;
    for index in 0..20 {
        assert_eq!(first.send(&stripe(&format!("e{index}"))).await.outcome(), "forwarded");
    }
    assert_eq!(first.send(&github("bad")).await.outcome(), "failed");
    // A completion goes out with its reply: the last one may be on its way.
    first.in_state("stripe", "e19", "done").await;
    first.kill();

    let second = Instance::start(&setup).await;
    for index in 0..20 {
        assert_eq!(second.send(&stripe(&format!("e{index}"))).await.outcome(), "duplicate", "e{index}");
    }
    assert_eq!(second.send(&github("bad")).await.outcome(), "failed");
    let attempts: Vec<String> =
        consumer.seen().iter().skip(20).map(|seen| seen.header("hookonce-attempt").unwrap().to_owned()).collect();
    assert_eq!(attempts, ["1", "2"]);
    assert!(consumer.seen().iter().all(|seen| seen.mark().is_none()));
}

#[tokio::test]
async fn a_restart_in_order_keeps_everything_and_starts_at_once() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let setup = on_files(&folder, &consumer);
    for round in 0..3 {
        let mut instance = Instance::start(&setup).await;
        let answers: [Answer; 2] = [instance.send(&stripe("e1")).await, instance.send(&stripe(&format!("e1-{round}"))).await];
        let first = if round == 0 { "forwarded" } else { "duplicate" };
        assert_eq!(answers.each_ref().map(Answer::outcome), [first, "forwarded"]);
        instance.stop().await;
    }
    assert_eq!(consumer.count("e1"), 1);
}

#[tokio::test]
async fn a_second_process_on_the_same_files_is_refused() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let setup = on_files(&folder, &consumer);
    let mut first = Instance::start(&setup).await;
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), setup.text()).unwrap();
    let mut second = Program::start(hookonce().args(["run", "--config"]).arg(config.path()));
    assert_eq!(second.ended().await.code(), Some(1), "{}", second.err());
    let said = second.err();
    assert!(said.contains("hookonce: ") && said.contains(&folder.path().join("events").display().to_string()), "{said}");
    assert!(!said.contains("serving"), "{said}");
    // The first goes on.
    assert_eq!(first.send(&stripe("e1")).await.outcome(), "forwarded");
    first.stop().await;
    // And leaves its place when it ends.
    let third = Instance::start(&setup).await;
    assert_eq!(third.send(&stripe("e1")).await.outcome(), "duplicate");
}
