//! A Redis that holds something else where an event should be, or throws keys away.

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::stripe;

#[tokio::test]
async fn what_is_not_ours_is_neither_free_nor_done() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    let mut keys = Keys::of(&redis);
    let values: [&[&str]; 5] = [
        &["SET", "test:stripe:e1", "x"],
        &["SET", "test:stripe:e1", ""],
        &["SET", "test:stripe:e1", "1d|200|1|"],
        &["LPUSH", "test:stripe:e1", "1d|200|1|"],
        &["HSET", "test:stripe:e1", "status", "done"],
    ];
    for value in values {
        keys.order(&["DEL", "test:stripe:e1"]);
        keys.order(value);
        for _ in 0..2 {
            let refused = proxy.send(&stripe("e1")).await;
            assert_eq!((refused.status, refused.outcome()), (503, "store_down"), "{value:?}");
            assert!(refused.header("retry-after").is_some());
        }
    }
    let errors = proxy.metrics().await.value("hookonce_store_errors_total", &[("op", "claim"), ("kind", "foreign")]);
    assert_eq!((errors, consumer.count("e1")), (10.0, 0));
    // It is one event's trouble, and nobody else's.
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "forwarded");
    keys.order(&["DEL", "test:stripe:e1"]);
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!(consumer.seen()[1].mark(), None);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_redis_that_may_throw_keys_away_is_warned_of_and_served() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let consumer = Consumer::answering(200).await;
        let redis = RedisProcess::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", policy]);
        let instance = Instance::start(&in_front_of(&consumer).store(&redis.url())).await;
        eventually("a warning", async || {
            let warned =
                instance.log().lines().any(|line| line.contains("WARN") && line.contains(policy) && line.contains("noeviction"));
            warned.then_some(())
        })
        .await;
        assert_eq!(instance.send(&stripe("e1")).await.outcome(), "forwarded");
    }
}
