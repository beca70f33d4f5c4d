//! Many senders at once who mean no good, and what it costs everybody else: a real program, its memory and its time.
//!
//! With the tests it is a small siege; `scripts/siege` brings the whole one, against a release build, and prints its figures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod crowd;
mod forgeries;
mod price;
#[allow(dead_code, reason = "shared with tests/it; not all of it is needed here")]
#[path = "../it/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Whether the whole siege was asked for.
#[allow(clippy::disallowed_methods, reason = "a switch for whoever runs the tests")]
fn is_whole() -> bool {
    std::env::var_os("HOOKONCE_SIEGE").is_some()
}

/// The one or the other, by how much was asked for.
fn scale<T>(whole: T, small: T) -> T {
    if is_whole() { whole } else { small }
}

/// The program that was built to be measured, or else that of the tests.
#[allow(clippy::disallowed_methods, reason = "as above")]
fn program() -> Command {
    let built = std::env::var_os("HOOKONCE_SIEGE").map(PathBuf::from).filter(|path| path.is_file());
    let mut command = built.map_or_else(support::program::hookonce, Command::new);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Memory in use, in KiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// CPU time used so far.
fn cpu(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // A hundred a second on every Linux.
    Duration::from_millis(ticks * 10)
}

/// The share of the fastest that took no longer.
fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}
