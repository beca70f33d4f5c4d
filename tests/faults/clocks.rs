//! Wall clocks that are wrong, or jump. A lease is counted by one clock, the store's: what the proxies' own say is nothing to
//! it, and when the store's jumps ahead a lease ends early, which is seen and marked.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::provider::until_accepted;
use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::program::hookonce;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github, now, signed, stripe};

/// The first forward of `e1` is answered once the gate is open, all others at once.
async fn first_behind(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    let first = move || Act::Behind(gate.clone(), Box::new(Act::Answer(200)));
    Consumer::deciding(move |seen, nth| if (seen.event_id(), nth) == ("e1", 1) { first() } else { Act::Answer(200) }).await
}

fn redis_at(clock: &Clock) -> RedisProcess {
    RedisProcess::start_in(clock.variables().to_vec(), &[])
}

async fn instance_at(clock: &Clock, setup: &Setup) -> Instance {
    let mut command = hookonce();
    command.envs(clock.variables());
    Instance::start_as(command, setup).await
}

async fn a_lease_ends_early(jump: i64) {
    let (gate, clock) = (Gate::closed(), Clock::right());
    let (consumer, redis) = (first_behind(&gate).await, redis_at(&clock));
    let setup = in_front_of(&consumer).store(&redis.url()).stripe("lease = \"30s\"\nin_flight = \"retry\"");
    let (one, other) = (setup.start(), setup.start());
    let first = one.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    assert_eq!(other.send(&stripe("e1")).await.outcome(), "in_flight");
    assert_eq!(other.send(&stripe("earlier")).await.outcome(), "forwarded");

    clock.move_to(jump);
    // The claim looks as old as the jump. Its holder is alive: the consumer runs twice, and is told.
    assert_eq!(other.send(&stripe("e1")).await.outcome(), "forwarded");
    let marks: Vec<_> = consumer.seen().iter().filter(|seen| seen.event_id() == "e1").map(|seen| seen.mark().is_some()).collect();
    assert_eq!(marks, [false, true]);
    assert_eq!(other.metrics().await.marked("stripe", "unknown"), 1.0);
    gate.open();
    assert!(first.await.unwrap().is_success());
    for event in ["e1", "earlier"] {
        other.in_state("stripe", event, "done").await;
        assert_eq!(one.send(&stripe(event)).await.outcome(), "duplicate");
    }
    assert!(one.stop().await && other.stop().await);
}

#[tokio::test]
async fn when_the_stores_clock_jumps_ahead_a_lease_ends_early_and_the_next_forward_is_marked() {
    a_lease_ends_early(60).await;
    a_lease_ends_early(3600).await;
}

async fn a_lease_ends_late(jump: i64) {
    let (gate, clock) = (Gate::closed(), Clock::right());
    let (consumer, redis) = (first_behind(&gate).await, redis_at(&clock));
    let setup = in_front_of(&consumer).store(&redis.url()).stripe("lease = \"1s\"\nin_flight = \"retry\"");
    let (mut crashed, second) = (Instance::start(&setup).await, Instance::start(&setup).await);
    assert_eq!(second.send(&stripe("earlier")).await.outcome(), "forwarded");
    let _waiting = stripe("e1").begin(crashed.listen).await;
    consumer.arrived("e1", 1).await;
    crashed.kill();
    clock.move_to(-jump);
    // Well past the lease, by the right time.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let answer = second.send(&stripe("e1")).await;
        assert_eq!((answer.status, answer.outcome()), (503, "in_flight"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(second.send(&stripe("earlier")).await.outcome(), "duplicate");
    assert_eq!(second.send(&stripe("new")).await.outcome(), "forwarded");

    clock.move_to(0);
    assert_eq!(until_accepted(&stripe("e1"), second.listen).await.answer.outcome(), "forwarded");
    let marks: Vec<_> = consumer.seen().iter().filter(|seen| seen.event_id() == "e1").map(|seen| seen.mark().is_some()).collect();
    assert_eq!(marks, [false, true]);
}

#[tokio::test]
async fn when_the_stores_clock_falls_back_the_lease_of_a_dead_process_lasts_longer_and_nothing_is_lost() {
    tokio::join!(a_lease_ends_late(60), a_lease_ends_late(3600));
}

#[tokio::test]
async fn leases_are_the_same_to_proxies_whose_clocks_are_twenty_minutes_apart() {
    let (fast, slow) = (Clock::right(), Clock::right());
    fast.move_to(600);
    slow.move_to(-600);
    for (holder, taker) in [(&fast, &slow), (&slow, &fast)] {
        let (consumer, redis) = (first_behind(&Gate::closed()).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).github("lease = \"2s\"\nin_flight = \"retry\"");
        let (mut holder, taker) = (instance_at(holder, &setup).await, instance_at(taker, &setup).await);
        let began = Instant::now();
        let _waiting = github("e1").begin(holder.listen).await;
        consumer.arrived("e1", 1).await;
        assert_eq!(taker.send(&github("e1")).await.outcome(), "in_flight");
        holder.kill();
        assert_eq!(until_accepted(&github("e1"), taker.listen).await.answer.outcome(), "forwarded");
        // Not earlier than the lease says, and not by the minutes that the clocks are off later.
        let took = began.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&took), "{took:?}");
        assert_eq!(consumer.seen()[1].mark(), Some("unknown"));
        assert_eq!(taker.send(&github("e1")).await.outcome(), "duplicate");
    }
}

async fn timestamps_are_put_off(off: i64) {
    let clock = Clock::right();
    clock.move_to(off);
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let instance = instance_at(&clock, &in_front_of(&consumer).store(&redis.url())).await;
    let verbose = Delivery::plain("GET", "/readyz?verbose");
    let told = eventually("it knows that its clock is off", async || {
        let told = verbose.send(instance.admin).await;
        (told.json()["clock_off_for"][0] == "stripe").then_some(told)
    })
    .await;
    assert_eq!((told.status, told.json()["clock_off_for"].as_array().unwrap().len()), (200, 1));
    let skew = instance.metrics().await.value("hookonce_clock_skew_seconds", &[]);
    assert!((skew + off as f64).abs() < 5.0, "{skew}");
    let refused = instance.send(&stripe("e1")).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("clock_off")));
    assert!(refused.header("retry-after").is_some());
    // Whoever signs without a timestamp is not concerned.
    assert_eq!(instance.send(&github("e2")).await.outcome(), "forwarded");
    clock.move_to(0);
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!((consumer.count("e1"), consumer.seen().len()), (1, 2));
}

#[tokio::test]
async fn a_proxy_whose_clock_is_ten_minutes_off_puts_timestamps_off_and_says_why() {
    tokio::join!(timestamps_are_put_off(600), timestamps_are_put_off(-600));
}

#[tokio::test]
async fn a_proxy_whose_clock_is_right_refuses_a_timestamp_that_is_ten_minutes_off() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let instance = Instance::start(&in_front_of(&consumer).store(&redis.url())).await;
    let ten_minutes = Duration::from_secs(600);
    for at in [now() - ten_minutes, now() + ten_minutes] {
        assert_eq!(instance.send(&signed("stripe", "/stripe", &[], "{\"id\":\"e1\"}".into(), at)).await.status, 401);
    }
    assert_eq!(consumer.seen().len(), 0);
}
