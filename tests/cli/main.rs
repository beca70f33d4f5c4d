//! The program as it is typed: what each command prints, how it ends, and that it never prints a secret.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod check;
mod demo;
mod event;
mod health;
mod help;
mod queue;
mod run;
mod secrets;
mod senders;
#[allow(dead_code, reason = "shared with tests/it; not all of it is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
mod verify;

use std::process::{Command, Output};

use support::program::hookonce;

/// How a command ended: code, standard output, standard error.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// Runs a command to its end, without standing in the way of what else the test runs.
async fn ended(mut command: Command) -> Ended {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap().into()
}

/// `hookonce` with these words.
fn with(words: &[&str]) -> Command {
    let mut command = hookonce();
    command.args(words);
    command
}
