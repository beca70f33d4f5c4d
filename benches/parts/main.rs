//! What each part of a delivery costs by itself: checking its signature, finding its id, claiming it on each store, and
//! writing and reading what is stored. Where a change makes a delivery slower, this tells which part of it.
//!
//! `cargo bench --bench parts [-- --quick] [FILTER]`, by the profile that is shipped; `--save-baseline` and `--baseline`
//! compare two states of the code. `cargo test --bench parts` runs each once and measures nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

mod claim;
mod entry;
mod identify;
mod payload;
mod verify;

use criterion::{criterion_group, criterion_main};

criterion_group!(parts, verify::bench, identify::bench, claim::bench, entry::bench);
criterion_main!(parts);
