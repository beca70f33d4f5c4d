//! What a store promises, held against every store there is, with real files, a real server and real time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod contract;
mod file;
mod fleeting;
mod frozen;
mod redis;
mod redis_cluster;
mod redis_conditions;
mod redis_rights;
mod redis_sentinel;
mod redis_tls;
mod support;
