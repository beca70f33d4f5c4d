//! The promise, through the door: real sockets, real Redis, the real program. One file a promise.

mod support;
mod once;
