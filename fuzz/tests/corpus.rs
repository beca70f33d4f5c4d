//! Every input that is committed, through its target as this toolchain builds it: without coverage, each once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a target over its corpus. A target ends by aborting, so that it needs a process of its own.
fn replay(target: &str, program: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let inputs: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!((10..=300).contains(&inputs.len()), "{target}: {} inputs", inputs.len());
    let bytes: u64 = inputs.iter().map(|input| input.metadata().unwrap().len()).sum();
    assert!(bytes <= 2 << 20, "{target}: {bytes} bytes");
    let ran = Command::new(program).args(["-timeout=30", "-rss_limit_mb=2048"]).args(&inputs).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{target}: {}\n{said}", ran.status);
    assert_eq!(said.matches("Executed ").count(), inputs.len(), "{target}: not every input was run\n{said}");
}

#[test]
fn nothing_that_was_ever_sent_gets_past_the_front() {
    replay("http_front", env!("CARGO_BIN_EXE_fuzz_http_front"));
}

#[test]
fn an_answer_is_the_same_however_it_comes_and_whoever_reads_it() {
    replay("answer", env!("CARGO_BIN_EXE_fuzz_answer"));
}

#[test]
fn every_preset_takes_what_is_signed_and_nothing_else() {
    replay("scheme", env!("CARGO_BIN_EXE_fuzz_scheme"));
}

#[test]
fn a_scheme_of_ones_own_covers_what_it_says() {
    replay("scheme_language", env!("CARGO_BIN_EXE_fuzz_scheme_language"));
}

#[test]
fn an_event_id_is_what_every_reader_finds() {
    replay("event_id", env!("CARGO_BIN_EXE_fuzz_event_id"));
}

#[test]
fn what_is_stored_is_read_as_it_was_written() {
    replay("entry", env!("CARGO_BIN_EXE_fuzz_entry"));
}

#[test]
fn a_configuration_is_read_or_refused_without_showing_its_secrets() {
    replay("config", env!("CARGO_BIN_EXE_fuzz_config"));
}
