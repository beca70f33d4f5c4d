//! The promise, through the door: real sockets, real Redis, the real program. One file a promise.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod deadlines;
mod faithful;
mod hang_up;
mod once;
mod policies;
mod refusals;
mod support;
