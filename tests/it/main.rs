//! The promise, through the door: real sockets, real Redis, the real program. One file a promise.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

/// Runs each of these tests on a store in memory, on one in a file, and on Redis.
macro_rules! on_each_store {
    ($($name:ident)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name("memory:").await;
            })*
        }
        on_each_lasting_store! { file, redis: $($name)* }
    };
}

/// The same without memory, which ends with the program.
macro_rules! on_each_lasting_store {
    ($file:ident, $redis:ident: $($name:ident)*) => {
        mod $file {
            $(#[tokio::test]
            async fn $name() {
                let directory = tempfile::tempdir().unwrap();
                super::$name(&format!("file:{}/store", directory.path().display())).await;
            })*
        }
        mod $redis {
            $(#[tokio::test]
            async fn $name() {
                let server = crate::support::redis::RedisProcess::start();
                super::$name(&server.url()).await;
            })*
        }
    };
}

mod admin;
mod bounds;
mod commands;
mod crash;
mod deadlines;
mod faithful;
mod file_store;
mod front_tls;
mod handshake;
mod hang_up;
mod instances;
mod keyring;
mod letters;
mod log_lines;
mod once;
mod page;
mod policies;
mod pooling;
mod queue;
mod redelivery;
mod refusals;
mod reload;
mod replay;
mod seal;
mod silence;
mod stop;
mod store_down;
mod store_reset;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
mod support;
mod tls;
mod trace;
