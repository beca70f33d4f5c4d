//! Hostile input, through the door: what an attacker sends reaches neither the consumer nor the store, stops nothing and is
//! seen in no wrong place. Each test is a row of `docs/security.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod admin;
mod encoding;
mod fault;
mod frames;
mod hop_by_hop;
mod ids;
mod json;
mod metrics;
mod paths;
mod raw;
mod secrets;
mod smuggling;
mod spoofing;
mod ssrf;
#[allow(dead_code, reason = "shared with tests/it; not all of it is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
mod upgrade;
mod upstream;
