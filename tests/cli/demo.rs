//! `hookonce demo`: shows what it promises and leaves nothing behind.

use std::path::Path;

use crate::support::eventually;
use crate::support::program::Program;
use crate::support::sender::Delivery;
use crate::{ended, with};

/// A demo whose temporary files can be counted.
fn demo(words: &[&str], folder: &Path) -> std::process::Command {
    let mut command = with(words);
    command.env("TMPDIR", folder);
    command
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test]
async fn the_demo_shows_that_each_event_took_effect_once() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ended(demo(&["demo"], folder.path())).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("Each event took effect once."), "{}", shown.out);
    let events: Vec<Vec<&str>> = shown.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let events: Vec<&Vec<&str>> = events.iter().filter(|words| words.len() > 5 && words[5] == "ok").collect();
    assert_eq!(events.len(), 6, "{}", shown.out);
    for words in events {
        let [deliveries, forwards, effects] = [2, 3, 4].map(|at| words[at].parse::<u32>().unwrap());
        assert!(effects == 1 && forwards >= 1 && deliveries > 1, "{words:?}");
    }
    assert!(is_empty(folder.path()));
}

#[tokio::test]
async fn a_demo_that_is_kept_answers_until_it_is_told_to_end() {
    for signal in ["TERM", "INT", "HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Program::start(&mut demo(&["demo", "--keep"], folder.path()));
        eventually("its addresses", async || program.out().contains("consumer    http://").then_some(())).await;
        let out = program.out();
        let address = |label: &str| {
            let line = out.lines().find_map(|line| line.trim_start().strip_prefix(label)?.trim().strip_prefix("http://"));
            line.unwrap().split(['/', ',']).next().unwrap().parse::<std::net::SocketAddr>().unwrap()
        };
        assert_eq!(Delivery::plain("GET", "/").send(address("the page")).await.status, 200);
        let metrics = Delivery::plain("GET", "/metrics").send(address("metrics")).await;
        assert_eq!(metrics.status, 200);
        let events = Delivery::plain("GET", "/api/events?provider=stripe").send(address("events")).await;
        assert_eq!(events.json()["events"].as_array().unwrap().len(), 3);
        assert_eq!(Delivery::plain("POST", "/stripe").send(address("deliveries")).await.status, 401);
        assert_eq!(Delivery::plain("GET", "/").send(address("consumer")).await.status, 200);
        program.signal(signal);
        assert_eq!(program.ended().await.code(), Some(0));
        assert!(is_empty(folder.path()));
    }
}

#[tokio::test]
async fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(&mut demo(&["demo"], folder.path()));
    eventually("its beginning", async || program.out().contains("Deliveries go to").then_some(())).await;
    program.signal("INT");
    assert_eq!(program.ended().await.code(), Some(1), "{}", program.out());
    assert!(is_empty(folder.path()));
}
