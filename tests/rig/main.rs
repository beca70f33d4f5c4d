//! The promise under random faults: senders that behave as providers do, instances that are killed and frozen, a store
//! and networks that fail, a consumer that keeps a ledger, and a checker that compares them all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod checker;
mod consumer;
mod dice;
mod fleet;
mod history;
mod machine;
mod nemesis;
mod network;
mod plan;
mod provider;
mod round;
mod sender;
mod soak;
mod store;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../it/support/mod.rs"]
mod support;
