//! Several instances on one Redis are one proxy: copies spread over them take effect once.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, stripe};

const COPIES: usize = 60;
/// Long enough for copies to meet, on both sides.
const WORK: Duration = Duration::from_millis(400);

/// Two instances with this many workers each.
async fn pair(consumer: &Consumer, redis: &RedisProcess, workers: usize) -> [Instance; 2] {
    let setup = in_front_of(consumer).store(&redis.url()).top(&format!("workers = {workers}"));
    [Instance::start(&setup).await, Instance::start(&setup).await]
}

/// Sends copies of one event to both at the same time.
async fn spread(pair: &[Instance; 2]) -> Vec<Answer> {
    let (event, mut sending) = (stripe("e1"), JoinSet::new());
    for copy in 0..COPIES {
        let (event, to) = (event.clone(), pair[copy % 2].listen);
        sending.spawn(async move { event.send(to).await });
    }
    sending.join_all().await
}

async fn copies_over_two_instances_are_forwarded_once(workers: usize) {
    let consumer = Consumer::deciding(|_, _| Act::After(WORK, Box::new(Act::Answer(201)))).await;
    let redis = RedisProcess::start();
    let mut pair = pair(&consumer, &redis, workers).await;
    let answers = spread(&pair).await;
    assert_eq!((answers.len(), consumer.count("e1")), (COPIES, 1));
    assert!(answers.iter().all(Answer::is_success), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.outcome() == "forwarded").count(), 1);
    assert!(answers.iter().all(|answer| ["forwarded", "waited", "duplicate"].contains(&answer.outcome())), "{answers:?}");
    assert_eq!(consumer.seen()[0].mark(), None);
    for instance in &mut pair {
        instance.stop().await;
    }
}

#[tokio::test]
async fn copies_over_two_instances_of_one_worker_are_forwarded_once() {
    copies_over_two_instances_are_forwarded_once(1).await;
}

#[tokio::test]
async fn copies_over_two_instances_of_four_workers_are_forwarded_once() {
    copies_over_two_instances_are_forwarded_once(4).await;
}

async fn nobody_is_told_2xx_of_what_failed(workers: usize) {
    let consumer = Consumer::deciding(|_, _| Act::After(WORK, Box::new(Act::Answer(501)))).await;
    let redis = RedisProcess::start();
    let mut pair = pair(&consumer, &redis, workers).await;
    let answers = spread(&pair).await;
    assert_eq!(answers.len(), COPIES);
    // A copy that comes after the failure is a new attempt, so that there may be several forwards; none is in doubt.
    assert!(answers.iter().all(|answer| answer.status == 501 && answer.outcome() == "failed"), "{answers:?}");
    let seen = consumer.seen();
    let attempts: Vec<String> = seen.iter().map(|seen| seen.header("hookonce-attempt").unwrap().to_owned()).collect();
    assert_eq!(attempts, (1..=seen.len()).map(|attempt| attempt.to_string()).collect::<Vec<_>>());
    assert!(seen.iter().all(|seen| seen.mark().is_none()));
    for instance in &mut pair {
        instance.stop().await;
    }
}

#[tokio::test]
async fn copies_over_two_instances_of_one_worker_all_hear_of_the_failure() {
    nobody_is_told_2xx_of_what_failed(1).await;
}

#[tokio::test]
async fn copies_over_two_instances_of_four_workers_all_hear_of_the_failure() {
    nobody_is_told_2xx_of_what_failed(4).await;
}

#[tokio::test]
async fn a_copy_at_the_other_instance_waits_for_the_outcome() {
    for (status, told) in [(204, (200, "duplicate")), (422, (422, "failed"))] {
        let gate = Gate::closed();
        let behind = gate.clone();
        let consumer = Consumer::deciding(move |_, _| Act::Behind(behind.clone(), Box::new(Act::Answer(status)))).await;
        let redis = RedisProcess::start();
        let [first, second] = pair(&consumer, &redis, 1).await;
        let leading = tokio::spawn({
            let to = first.listen;
            async move { stripe("e1").send(to).await }
        });
        consumer.arrived("e1", 1).await;
        let looks = second.metrics().await.value("hookonce_store_seconds_count", &[("op", "look")]);
        let waiting = tokio::spawn({
            let to = second.listen;
            async move { stripe("e1").send(to).await }
        });
        // It has met the claim once it looks at it again and again.
        eventually("a copy that waits", async || {
            let now = second.metrics().await.value("hookonce_store_seconds_count", &[("op", "look")]);
            (now >= looks + 2.0).then_some(())
        })
        .await;
        assert!(!waiting.is_finished() && !leading.is_finished());
        gate.open();
        assert_eq!(leading.await.unwrap().status, status);
        let answer = waiting.await.unwrap();
        assert_eq!((answer.status, answer.outcome()), told);
        assert_eq!(consumer.count("e1"), 1);
    }
}

/// What may befall the copy that another instance waits for, and what the sender there is told.
#[derive(Clone, Copy, Debug)]
enum Befalls {
    AnAnswerThatDoesNotCount,
    ItsClaimIsLost,
    TheStoreIsGone,
}

#[tokio::test]
async fn a_copy_that_waits_elsewhere_is_told_success_only_where_there_was_one() {
    let ends = [(Befalls::AnAnswerThatDoesNotCount, 502), (Befalls::ItsClaimIsLost, 503), (Befalls::TheStoreIsGone, 503)];
    for (befalls, told) in ends {
        let gate = Gate::closed();
        let behind = gate.clone();
        let consumer = Consumer::deciding(move |_, _| Act::Behind(behind.clone(), Box::new(Act::Answer(200)))).await;
        let mut redis = RedisProcess::start();
        let setup = in_front_of(&consumer).store(&redis.url()).stripe("complete_on = [201]");
        let (here, elsewhere) = (setup.start(), setup.start());
        let leading = here.sending(&stripe("e1"));
        consumer.arrived("e1", 1).await;
        let waiting = elsewhere.sending(&stripe("e1"));
        let looks = async || elsewhere.metrics().await.value("hookonce_store_seconds_count", &[("op", "look")]);
        eventually("a look at the claim", async || (looks().await >= 1.0).then_some(())).await;
        match befalls {
            Befalls::AnAnswerThatDoesNotCount => gate.open(),
            Befalls::ItsClaimIsLost => Keys::of(&redis).remove(&Keys::name("stripe", "e1")),
            Befalls::TheStoreIsGone => redis.kill(),
        }
        assert_eq!(waiting.await.unwrap().status, told, "{befalls:?}");
        gate.open();
        assert_eq!(leading.await.unwrap().status, 502);
        assert_eq!(consumer.count("e1"), 1);
    }
}
