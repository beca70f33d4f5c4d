//! What a store promises, held against every store there is, with real files, a real server and real time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

/// Runs each of these tests on every store there is.
macro_rules! on_every_store {
    ($($name:ident)*) => {
        on_every_store! { memory: Memory; $($name)* }
        on_every_store! { file: File; $($name)* }
        on_every_store! { sealed_memory: SealedMemory; $($name)* }
        on_every_store! { redis: Redis; $($name)* }
        on_every_store! { sealed_redis: SealedRedis; $($name)* }
        on_every_store! { redis_with_scripts_only: RedisWithScriptsOnly; $($name)* }
        on_every_store! { redis_with_least_rights: RedisWithLeastRights; $($name)* }
        on_every_store! { redis_sentinel: SentinelRedis; $($name)* }
        on_every_store! { redis_cluster: ClusterRedis; $($name)* }
    };
    ($module:ident: $fixture:ty; $($name:ident)*) => {
        mod $module {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                let fixture = <$fixture>::open().await;
                super::$name(&fixture).await;
                fixture.close().await;
            })*
        }
    };
}

mod backlog;
mod binding;
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
mod seal;
mod support;
