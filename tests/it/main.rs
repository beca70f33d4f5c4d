//! The promise, through the door: real sockets, real Redis, the real program. One file a promise.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod admin;
mod commands;
mod crash;
mod deadlines;
mod faithful;
mod file_store;
mod handshake;
mod hang_up;
mod instances;
mod keyring;
mod log_lines;
mod once;
mod policies;
mod pooling;
mod queue;
mod redelivery;
mod refusals;
mod silence;
mod stop;
mod store_down;
mod store_reset;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
mod support;
mod tls;
