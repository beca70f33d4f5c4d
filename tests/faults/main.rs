//! The guarantee under faults: each is made for real, and what it may do to an event is what `docs/guarantee.md` says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/clock.rs"]
mod clock;
mod clocks;
mod consumer;
mod disk;
mod failover;
mod footprint;
mod foreign;
mod frozen;
mod instances;
mod kill;
mod network;
mod provider;
mod queue_fleet;
mod queue_kill;
mod queue_outage;
mod queue_store;
mod resources;
#[allow(dead_code, reason = "shared with tests/it; not all of it is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
