//! A store that is away, or has lost what it knew, while events are in its queue.

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, answers, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{stripe, stripe_with};

fn queueing(consumer: &Consumer, redis: &RedisProcess) -> Setup {
    let queue = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"100ms\", \"100ms\", \"100ms\"]";
    in_front_of(consumer).store(&redis.url()).table(queue).stripe("mode = \"queue\"\nlease = \"1s\"")
}

/// Accepts everything once the gate is open.
async fn behind(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    Consumer::deciding(move |_, _| Act::Behind(gate.clone(), Box::new(Act::Answer(200)))).await
}

/// While the store is away an event is delivered at once, as in sync mode. Its copy comes when the store is back, and must
/// not be taken for new.
#[tokio::test]
async fn an_event_that_is_under_way_without_the_store_is_not_queued_beside_it() {
    let (gate, mut redis) = (Gate::closed(), RedisProcess::start());
    let consumer = behind(&gate).await;
    let proxy = queueing(&consumer, &redis).stripe("on_store_down = \"local\"").start();
    redis.kill();
    proxy.counted("hookonce_store_up", &[], 0.0).await;
    let first = proxy.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    redis.restart();
    proxy.counted("hookonce_store_up", &[], 1.0).await;
    proxy.counted("hookonce_store_breaker_open", &[], 0.0).await;
    let copy = proxy.sending_copies(&stripe("e1"), 1).await;
    gate.open();
    let (first, copy) = (first.await.unwrap(), answers(copy).await.remove(0));
    assert_eq!((first.status, first.outcome()), (200, "store_down"));
    assert!(copy.is_success() && copy.outcome() != "queued", "{copy:?}");
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    let marks: Vec<_> = consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect();
    assert_eq!(marks, [Some("store-down".to_owned())]);
    assert!(proxy.stop().await);
}

/// A letter that waits for another of its line has not been out when the store is saved. It is done afterwards, and the
/// store forgets that.
#[tokio::test]
async fn what_a_store_has_forgotten_that_went_back_in_time_is_delivered_again_marked() {
    let (gate, mut redis) = (Gate::closed(), RedisProcess::start());
    let consumer = behind(&gate).await;
    let instance = Instance::start(&queueing(&consumer, &redis).stripe("order_by = { json = \"/customer\" }")).await;
    for event in ["a1", "a2"] {
        let delivery = stripe_with(format!("{{\"id\":\"{event}\",\"customer\":\"a\"}}"));
        assert_eq!(instance.send(&delivery).await.outcome(), "queued");
    }
    consumer.arrived("a1", 1).await;
    Keys::of(&redis).order(&["SAVE"]);
    gate.open();
    instance.in_state("stripe", "a2", "done").await;
    redis.kill();
    redis.restart();
    for event in ["a1", "a2"] {
        consumer.arrived(event, 2).await;
        instance.in_state("stripe", event, "done").await;
    }
    let marks: Vec<_> = consumer.seen().iter().map(|seen| (seen.event_id().to_owned(), seen.mark().map(str::to_owned))).collect();
    let expected = [("a1", None), ("a2", None), ("a1", Some("unknown")), ("a2", Some("store-reset"))];
    assert_eq!(marks, expected.map(|(event, mark)| (event.to_owned(), mark.map(str::to_owned))));
}

#[tokio::test]
async fn a_full_store_takes_no_event_into_its_queue_until_closed_turns_to_local() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = queueing(&consumer, &redis).stripe("on_store_down = \"closed\"\nclosed_max = \"1s\"").start();
    assert_eq!(proxy.send(&stripe("before")).await.outcome(), "queued");
    proxy.in_state("stripe", "before", "done").await;
    let mut keys = Keys::of(&redis);
    keys.set("maxmemory", "1");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "store_down");
    let is_let_through = async || {
        assert_eq!(proxy.send(&stripe("before")).await.outcome(), "duplicate");
        (proxy.send(&stripe("e1")).await.status == 200).then_some(())
    };
    eventually("closed is over", is_let_through).await;
    proxy.in_state("stripe", "e1", "done").await;
    keys.set("maxmemory", "0");
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "queued");
    // It has taken an event meanwhile: the time for which it takes none begins anew.
    keys.set("maxmemory", "1");
    let refused = proxy.send(&stripe("e3")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
    proxy.in_state("stripe", "e2", "done").await;
    let marks: Vec<_> = consumer.seen().iter().map(|seen| (seen.event_id().to_owned(), seen.mark().map(str::to_owned))).collect();
    let expected = [("before", None), ("e1", Some("store-down")), ("e2", None)];
    assert_eq!(marks, expected.map(|(event, mark)| (event.to_owned(), mark.map(str::to_owned))));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_was_done_from_a_queue_is_known_while_the_store_is_away() {
    let (consumer, mut redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = queueing(&consumer, &redis).stripe("on_store_down = \"local\"").start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "queued");
    proxy.in_state("stripe", "e1", "done").await;
    redis.kill();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "store_down");
    assert_eq!((consumer.count("e1"), consumer.count("e2")), (1, 1));
}
