//! A Redis that somebody else can write to: forged entries suppress nothing, and forged letters are not delivered.

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{github, stripe};

const SEAL: &str = "seal = \"a secret that only we know\"";

fn sealed(consumer: &Consumer, redis: &RedisProcess) -> Setup {
    in_front_of(consumer).store(&redis.url()).store_keys(SEAL)
}

/// As whoever can write to the server would have it: done, a moment ago.
fn forged() -> String {
    format!("1d|200|1|{}|1794787700123", "0".repeat(32))
}

#[tokio::test]
async fn what_is_stored_is_sealed_and_does_what_it_did() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = sealed(&consumer, &redis).github("replay_guard = \"enforce\"").start();
    for delivery in [stripe("e1"), github("e1")] {
        assert_eq!(proxy.send(&delivery).await.outcome(), "forwarded");
    }
    for provider in ["stripe", "github"] {
        proxy.in_state(provider, "e1", "done").await;
    }
    for delivery in [stripe("e1"), github("e1"), github("e1").with("x-github-delivery", "fresh")] {
        assert_eq!(proxy.send(&delivery).await.outcome(), "duplicate");
    }
    let mut keys = Keys::of(&redis);
    let names = keys.names();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        let value = keys.value(&name);
        assert!(value.starts_with("2|"), "{name}: {value}");
    }
}

#[tokio::test]
async fn a_forged_completion_suppresses_no_event() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = sealed(&consumer, &redis).start();
    let mut keys = Keys::of(&redis);
    for provider in ["stripe", "github"] {
        keys.put(&Keys::name(provider, "e1"), &forged(), 1000);
    }
    // By what is done while the store cannot be asked: one is told to come back, the other, which does not, is forwarded.
    let answer = proxy.send(&stripe("e1")).await;
    assert_eq!((answer.status, answer.outcome()), (503, "store_down"));
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "store_down");
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[0].mark()), (1, Some("store-down")));
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "forwarded", "others have no trouble");
}

#[tokio::test]
async fn an_instance_without_the_seal_says_what_is_wrong_and_loses_nothing() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let mut first = Instance::start(&sealed(&consumer, &redis)).await;
    first.send(&stripe("e1")).await;
    first.in_state("stripe", "e1", "done").await;
    first.stop().await;
    let second = Instance::start(&in_front_of(&consumer).store(&redis.url())).await;
    let answer = second.send(&stripe("e1")).await;
    assert_eq!((answer.status, answer.outcome()), (503, "store_down"));
    eventually("a line that names the key", async || second.log().contains("store.seal is not set here").then_some(())).await;
    assert_eq!(consumer.count("e1"), 1);
}

#[tokio::test]
async fn a_forged_letter_does_not_reach_the_consumer() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let queue = "[queue]\naccept_loss = true";
    let setup = sealed(&consumer, &redis).github("mode = \"queue\"\nlease = \"1s\"").table(queue);
    let instance = Instance::start(&setup).await;
    let mut keys = Keys::of(&redis);
    let prefix = hookonce::store::backlog::Lane::new("test", "github").prefix();
    let (id, letter) = ("0".repeat(28), format!("{prefix}:letter:{}", "0".repeat(28)));
    let content = r#"{"version":1,"method":"POST","uri":"/github","headers":[],"peer":"127.0.0.1","id":"forged","body":"00000000000000000000000000000000"}"#;
    let fields = ["content", &format!("{content}\nforged"), "cell", "", "line", "", "attempt", "0", "doubt", "", "status", ""];
    let rest = ["queued", "1794787700123", "token", "", "bytes", "1"];
    keys.order(&[&["HSET", &letter][..], &fields, &rest].concat());
    keys.order(&["ZADD", &format!("{prefix}:old"), "0", &id]);
    keys.order(&["ZADD", &format!("{prefix}:due"), "0", &id]);
    assert_eq!(instance.send(&github("real")).await.outcome(), "queued");
    consumer.arrived("real", 1).await;
    eventually("the forged one was met", async || instance.log().contains("a letter is not delivered").then_some(())).await;
    assert_eq!((consumer.count("forged"), consumer.seen().len()), (0, 1));
}
