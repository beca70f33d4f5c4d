//! What a test needs around the proxy: a consumer, a sender, a store, the program itself.

#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../../support/cluster.rs"]
pub mod cluster;
pub mod consumer;
#[allow(dead_code, reason = "shared by test programs, none of which needs all of it")]
#[path = "../../support/fault_proxy.rs"]
pub mod fault_proxy;
pub mod frames;
pub mod https;
pub mod instance;
pub mod keys;
pub mod metrics;
pub mod program;
pub mod proxy;
#[path = "../../support/redis.rs"]
pub mod redis;
pub mod sender;
#[path = "../../support/sentinel.rs"]
pub mod sentinel;
pub mod wire;

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The longest a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until `condition` gives something; fails, naming it, when it never does.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut condition: impl FnMut() -> F) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < until, "this never came: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
