//! A process that dies, or stands still, between claim and settlement: the event waits for its lease's end, then goes
//! on, and whatever may be a second forward says so.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, Delivery, stripe};

/// Two instances with a lease, which answer copies of a live claim at once.
struct Scene {
    first: Instance,
    second: Instance,
    consumer: Consumer,
    keys: Keys,
    _redis: RedisProcess,
}

async fn scene(consumer: Consumer, lease: &str) -> Scene {
    let redis = RedisProcess::start();
    let setup = impatient(&consumer, lease).store(&redis.url());
    let (first, second) = (Instance::start(&setup).await, Instance::start(&setup).await);
    Scene { first, second, consumer, keys: Keys::of(&redis), _redis: redis }
}

fn impatient(consumer: &Consumer, lease: &str) -> Setup {
    in_front_of(consumer).stripe(&format!("lease = \"{lease}\"\nin_flight = \"retry\"")).top("workers = 1")
}

/// A delivery on its way.
fn sending(delivery: Delivery, to: &Instance) -> JoinHandle<Answer> {
    let to = to.listen;
    tokio::spawn(async move { delivery.send(to).await })
}

/// Delivers again and again, as a provider does, until the answer is no longer 503; counts those that were.
async fn retried(delivery: &Delivery, to: &Instance) -> (usize, Answer) {
    let mut refused = 0;
    let until = Instant::now() + crate::support::PATIENCE;
    loop {
        let answer = to.send(delivery).await;
        if answer.status != 503 {
            return (refused, answer);
        }
        assert!(answer.header("retry-after").is_some() && answer.outcome() == "in_flight", "{answer:?}");
        assert!(Instant::now() < until, "refused for ever: {answer:?}");
        refused += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_event_of_a_killed_process_is_forwarded_after_its_lease_marked_and_counted() {
    let consumer = Consumer::deciding(|_, nth| if nth == 1 { Act::Hang } else { Act::Answer(200) }).await;
    let Scene { mut first, second, consumer, mut keys, _redis } = scene(consumer, "2s").await;
    let began = Instant::now();
    let _waiting = stripe("e1").begin(first.listen).await;
    consumer.arrived("e1", 1).await;
    first.kill();

    let (refused, answer) = retried(&stripe("e1"), &second).await;
    assert!(refused > 0 && began.elapsed() >= Duration::from_secs(2), "{refused} {:?}", began.elapsed());
    assert_eq!((answer.status, answer.outcome()), (200, "forwarded"));
    let seen = consumer.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].header("hookonce-attempt"), seen[0].mark()), (Some("1"), None));
    assert_eq!((seen[1].header("hookonce-attempt"), seen[1].mark()), (Some("2"), Some("unknown")));
    assert_eq!(second.metrics().await.marked("stripe", "unknown"), 1.0);
    assert!(keys.done("stripe", "e1").await.starts_with("1d|200|2|"));
    assert_eq!(second.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 2);
}

#[tokio::test]
async fn doubt_stays_through_explicit_failures_until_the_event_is_done() {
    let acts = [Act::Hang, Act::Answer(500), Act::Answer(200)];
    let consumer = Consumer::deciding(move |_, nth| acts[nth - 1].clone()).await;
    let Scene { mut first, second, consumer, keys: _keys, _redis } = scene(consumer, "1s").await;
    let _waiting = stripe("e1").begin(first.listen).await;
    consumer.arrived("e1", 1).await;
    first.kill();
    assert_eq!(retried(&stripe("e1"), &second).await.1.status, 500);
    assert_eq!(second.send(&stripe("e1")).await.status, 200);
    let seen: Vec<_> = consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect();
    assert_eq!(seen, [None, Some("unknown".to_owned()), Some("unknown".to_owned())]);
    assert_eq!(second.metrics().await.marked("stripe", "unknown"), 2.0);
}

/// The first instance stands still while the consumer answers it, and the second takes the event over.
async fn overtaken(scene: &Scene, first_answer: &Gate) -> (JoinHandle<Answer>, JoinHandle<(usize, Answer)>) {
    let Scene { first, second, consumer, .. } = scene;
    let left_behind = sending(stripe("e1"), first);
    consumer.arrived("e1", 1).await;
    first.program.pause().await;
    first_answer.open();
    let to = second.listen;
    let overtaking = tokio::spawn(async move {
        let mut refused = 0;
        loop {
            let answer = stripe("e1").send(to).await;
            if answer.outcome() != "in_flight" {
                return (refused, answer);
            }
            refused += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    consumer.arrived("e1", 2).await;
    (left_behind, overtaking)
}

/// Answers the nth forward with the nth status once the nth gate is open.
async fn gated(statuses: [u16; 2]) -> (Consumer, [Gate; 2]) {
    let gates = [Gate::closed(), Gate::closed()];
    let own = gates.clone();
    let consumer = Consumer::deciding(move |_, nth| Act::Behind(own[nth - 1].clone(), Box::new(Act::Answer(statuses[nth - 1]))));
    (consumer.await, gates)
}

#[tokio::test]
async fn a_late_failure_does_not_touch_a_newer_claim() {
    let (consumer, gates) = gated([500, 200]).await;
    let mut scene = scene(consumer, "1s").await;
    let (left_behind, overtaking) = overtaken(&scene, &gates[0]).await;
    let key = Keys::name("stripe", "e1");
    let newer = scene.keys.value(&key);
    assert!(newer.starts_with("1c|"), "{newer}");

    scene.first.program.resume();
    assert_eq!(left_behind.await.unwrap().status, 500);
    eventually("a late release", async || {
        let metrics = scene.first.metrics().await;
        (metrics.value("hookonce_store_seconds_count", &[("op", "fail")]) >= 1.0).then_some(())
    })
    .await;
    assert_eq!(scene.keys.value(&key), newer);
    assert_eq!(scene.first.send(&stripe("e1")).await.outcome(), "in_flight");

    gates[1].open();
    assert_eq!(overtaking.await.unwrap().1.outcome(), "forwarded");
    assert!(scene.keys.done("stripe", "e1").await.starts_with("1d|200|2|"));
    assert_eq!(scene.consumer.count("e1"), 2);
}

#[tokio::test]
async fn a_late_success_wins_over_the_failure_of_a_newer_attempt() {
    let (consumer, gates) = gated([200, 500]).await;
    let mut scene = scene(consumer, "1s").await;
    let (left_behind, overtaking) = overtaken(&scene, &gates[0]).await;
    assert_eq!(scene.consumer.seen()[1].mark(), Some("unknown"));

    scene.first.program.resume();
    assert_eq!(left_behind.await.unwrap().status, 200);
    let done = scene.keys.done("stripe", "e1").await;
    assert!(done.starts_with("1d|200|1|"), "{done}");
    eventually("a word about the newer attempt", async || scene.first.log().contains("done after its lease").then_some(())).await;

    gates[1].open();
    let (_, answer) = overtaking.await.unwrap();
    assert_eq!((answer.status, answer.outcome()), (200, "duplicate"));
    assert_eq!(scene.keys.value(&Keys::name("stripe", "e1")), done);
    assert_eq!(scene.second.metrics().await.marked("stripe", "unknown"), 1.0);
    assert_eq!(scene.first.send(&stripe("e1")).await.outcome(), "duplicate");
}

#[tokio::test]
async fn an_event_that_took_effect_twice_is_done_and_said_to_be() {
    let (consumer, gates) = gated([200, 200]).await;
    gates[1].open();
    let mut scene = scene(consumer, "1s").await;
    let (left_behind, overtaking) = overtaken(&scene, &gates[0]).await;
    assert_eq!(overtaking.await.unwrap().1.outcome(), "forwarded");
    scene.keys.done("stripe", "e1").await;

    scene.first.program.resume();
    assert_eq!(left_behind.await.unwrap().status, 200);
    eventually("a word about both", async || scene.first.log().contains("it took effect twice").then_some(())).await;
    assert_eq!(scene.second.metrics().await.marked("stripe", "unknown"), 1.0);
    for instance in [&scene.first, &scene.second] {
        assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
    }
    assert_eq!(scene.consumer.count("e1"), 2);
}

#[tokio::test]
async fn a_consumer_that_takes_three_leases_keeps_its_claim() {
    let work = Duration::from_secs(6);
    let consumer = Consumer::deciding(move |_, _| Act::After(work, Box::new(Act::Answer(200)))).await;
    let Scene { first, second, consumer, keys: _keys, _redis } = scene(consumer, "2s").await;
    let leading = sending(stripe("e1"), &first);
    consumer.arrived("e1", 1).await;
    let (refused, answer) = retried(&stripe("e1"), &second).await;
    assert!(refused > 10, "{refused}");
    assert_eq!((answer.status, answer.outcome()), (200, "duplicate"));
    assert_eq!((leading.await.unwrap().status, consumer.count("e1")), (200, 1));
}

#[tokio::test]
async fn a_claim_is_kept_while_the_reply_that_is_to_be_replayed_comes_in() {
    let gate = Gate::closed();
    let own = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::InTwo(200, "first, ".into(), own.clone(), "second".into())).await;
    let redis = RedisProcess::start();
    let setup = impatient(&consumer, "1s").store(&redis.url()).stripe("on_duplicate = \"replay\"");
    let (first, second) = (Instance::start(&setup).await, Instance::start(&setup).await);
    let leading = sending(stripe("e1"), &first);
    consumer.arrived("e1", 1).await;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(second.send(&stripe("e1")).await.outcome(), "in_flight");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    gate.open();
    assert_eq!(leading.await.unwrap().body, "first, second");
    Keys::of(&redis).done("stripe", "e1").await;
    let replayed = second.send(&stripe("e1")).await;
    assert_eq!((replayed.outcome(), &replayed.body[..]), ("duplicate", &b"first, second"[..]));
    assert_eq!(consumer.count("e1"), 1);
}
