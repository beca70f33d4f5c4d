//! What is shipped beside the program: each file is read by the tools that its users will give it to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod chart;
mod dashboard;
mod exported;
mod image;
mod metrics;
mod prometheus;
mod promql;
mod rules;
#[allow(dead_code, reason = "shared with tests/it; not all of it is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
mod tools;
