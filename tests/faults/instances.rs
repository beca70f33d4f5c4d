//! Several instances on one Redis: without any fault, standing still, and restarted one after the other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::provider::until_accepted;
use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::{RedisProcess, quiet_port};
use crate::support::sender::{Answer, Delivery, stripe};

async fn three(setup: &Setup) -> [Instance; 3] {
    [Instance::start(setup).await, Instance::start(setup).await, Instance::start(setup).await]
}

async fn working_for(time: Duration) -> Consumer {
    Consumer::deciding(move |_, _| Act::After(time, Box::new(Act::Answer(200)))).await
}

/// Each of the events reached the consumer once, and none was in doubt.
fn assert_one_effect_each(consumer: &Consumer, events: usize) {
    let seen = consumer.seen();
    assert_eq!((consumer.counts().len(), seen.len()), (events, events));
    assert!(seen.iter().all(|seen| seen.mark().is_none() && seen.header("hookonce-attempt") == Some("1")));
}

#[tokio::test]
async fn overlapping_copies_over_three_instances_take_effect_once() {
    const EVENTS: usize = 40;
    let (consumer, redis) = (working_for(Duration::from_millis(50)).await, RedisProcess::start());
    let instances = three(&in_front_of(&consumer).store(&redis.url()).top("workers = 2")).await;
    let mut sending = JoinSet::new();
    for (event, copy) in (0..EVENTS).flat_map(|event| (0..5).map(move |copy| (event, copy))) {
        let to = instances[(event + copy) % 3].listen;
        sending.spawn(async move { stripe(&format!("e{event}")).send(to).await });
    }
    let answers = sending.join_all().await;
    assert_eq!((answers.len(), answers.iter().filter(|answer| answer.outcome() == "forwarded").count()), (5 * EVENTS, EVENTS));
    assert!(answers.iter().all(Answer::is_success), "{answers:?}");
    assert_one_effect_each(&consumer, EVENTS);
    let mut keys = Keys::of(&redis);
    let names = keys.names();
    assert!(names.iter().filter(|name| *name != "test:marker").all(|name| keys.ttl(name) > 0), "{names:?}");
}

#[tokio::test]
async fn over_three_instances_a_new_event_costs_two_commands_and_a_duplicate_one() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let instances = three(&in_front_of(&consumer).store(&redis.url()).top("workers = 1")).await;
    let mut keys = Keys::of(&redis);
    for (index, instance) in instances.iter().enumerate() {
        instance.send(&stripe(&format!("warm{index}"))).await;
        keys.done("stripe", &format!("warm{index}")).await;
    }
    keys.reset_commands();
    for event in 0..12 {
        assert_eq!(instances[event % 3].send(&stripe(&format!("e{event}"))).await.outcome(), "forwarded");
        keys.done("stripe", &format!("e{event}")).await;
    }
    assert_eq!(keys.commands(), BTreeMap::from([("set".to_owned(), 24)]));
    keys.reset_commands();
    for event in 0..12 {
        for instance in &instances {
            assert_eq!(instance.send(&stripe(&format!("e{event}"))).await.outcome(), "duplicate");
        }
    }
    assert_eq!(keys.commands(), BTreeMap::from([("set".to_owned(), 36)]));
}

#[tokio::test]
async fn a_process_that_stands_still_between_claim_and_first_byte_sends_nothing_afterwards() {
    let (redis, port) = (RedisProcess::start(), quiet_port());
    let setup = in_front_of(&Consumer::answering(200).await).upstream(&format!("http://127.0.0.1:{port}"));
    let setup = setup.store(&redis.url()).top("workers = 1");
    let setup = setup.stripe("lease = \"1s\"\nin_flight = \"retry\"\nconnect_retry = \"60s\"");
    let (first, second) = (Instance::start(&setup).await, Instance::start(&setup).await);
    let (to, left_behind) = (first.listen, stripe("e1"));
    let left_behind = tokio::spawn(async move { left_behind.send(to).await });
    // It has claimed, and looks for its consumer.
    first.in_state("stripe", "e1", "claimed").await;
    first.program.pause().await;
    let consumer = Consumer::at(&format!("127.0.0.1:{port}"), |_, _| Act::Answer(200)).await;
    assert_eq!(until_accepted(&stripe("e1"), second.listen).await.answer.outcome(), "forwarded");

    first.program.resume();
    let answer = left_behind.await.unwrap();
    assert_eq!((answer.status, answer.outcome()), (200, "duplicate"));
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[0].header("hookonce-attempt"), seen[0].mark()), (1, Some("2"), Some("unknown")));
    assert_eq!(first.send(&stripe("e1")).await.outcome(), "duplicate");
}

/// Where an instance takes deliveries, and where it says whether it is ready.
type Place = (SocketAddr, SocketAddr);

/// Delivers two copies of each event, at the same time, to instances that call themselves ready, as a load balancer does.
struct Balanced {
    instances: Arc<Mutex<Vec<Place>>>,
    sending: JoinSet<Vec<Answer>>,
    enough: CancellationToken,
}

impl Balanced {
    fn over(instances: &[Instance], senders: usize) -> Self {
        let places = instances.iter().map(|instance| (instance.listen, instance.admin)).collect();
        let mut balanced =
            Self { instances: Arc::new(Mutex::new(places)), sending: JoinSet::new(), enough: CancellationToken::new() };
        for sender in 0..senders {
            let (instances, enough) = (Arc::clone(&balanced.instances), balanced.enough.clone());
            balanced.sending.spawn(async move {
                let mut answers = Vec::new();
                for index in (0..).take_while(|_| !enough.is_cancelled()) {
                    let event = stripe(&format!("s{sender}-{index}"));
                    let (one, other) = (ready(&instances, sender + index).await, ready(&instances, sender + index + 1).await);
                    let (one, other) = tokio::join!(event.send(one), event.send(other));
                    answers.extend([one, other]);
                }
                answers
            });
        }
        balanced
    }

    async fn end(self) -> Vec<Answer> {
        self.enough.cancel();
        self.sending.join_all().await.into_iter().flatten().collect()
    }
}

/// The next one that calls itself ready.
async fn ready(instances: &Mutex<Vec<Place>>, first: usize) -> SocketAddr {
    let probe = Delivery::plain("GET", "/readyz");
    for turn in 0.. {
        let (listen, admin) = {
            let instances = instances.lock().unwrap();
            instances[(first + turn) % instances.len()]
        };
        if probe.try_send(admin).await.is_ok_and(|answer| answer.status == 200) {
            return listen;
        }
    }
    unreachable!("it looks on until one is ready")
}

#[tokio::test]
async fn a_rolling_restart_of_three_fails_no_delivery_doubles_none_and_marks_none() {
    let (consumer, redis) = (working_for(Duration::from_millis(20)).await, RedisProcess::start());
    let drain = "[drain]\ndelay = \"500ms\"\ntimeout = \"15s\"";
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 1").table(drain);
    let mut instances = three(&setup).await;
    let load = Balanced::over(&instances, 4);
    for (index, instance) in instances.iter_mut().enumerate() {
        let so_far = consumer.seen().len();
        eventually("more traffic", async || (consumer.seen().len() > so_far + 20).then_some(())).await;
        // The next one is there before the old one goes.
        let next = Instance::start(&setup).await;
        let old = std::mem::replace(&mut load.instances.lock().unwrap()[index], (next.listen, next.admin));
        assert_eq!(old.0, instance.listen);
        instance.stop().await;
        *instance = next;
    }
    let answers = load.end().await;
    let failed: Vec<_> = answers.iter().filter(|answer| !answer.is_success()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_one_effect_each(&consumer, answers.len() / 2);
}
