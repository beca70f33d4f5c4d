//! The promise, through the door: real sockets, real Redis, the real program. One file a promise.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod admin;
mod deadlines;
mod faithful;
mod handshake;
mod hang_up;
mod once;
mod policies;
mod pooling;
mod refusals;
mod store_down;
mod support;
