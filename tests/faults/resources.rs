//! Too much of everything, and too little: waiters, events, file descriptors, processor time, and a process that is killed
//! again and again.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::footprint::Footprint;
use crate::provider::until_accepted;
use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::program::hookonce;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::stripe;
use crate::support::wire::Wire;

/// Answers `e1` once the gate is open, and all others at once.
async fn first_behind(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    let held = move || Act::Behind(gate.clone(), Box::new(Act::Answer(200)));
    Consumer::deciding(move |seen, _| if seen.event_id() == "e1" { held() } else { Act::Answer(200) }).await
}

#[tokio::test]
async fn copies_without_number_are_bounded_and_leave_nothing_behind() {
    const COPIES: usize = 500;
    let gate = Gate::closed();
    let consumer = first_behind(&gate).await;
    let redis = RedisProcess::start();
    let limits = "[limits]\nwaiters_per_event = 100";
    let instance = Instance::start(&in_front_of(&consumer).store(&redis.url()).top("workers = 1").table(limits)).await;
    assert_eq!(instance.send(&stripe("warm")).await.outcome(), "forwarded");
    let (process, mut sending) = (instance.program.process(), JoinSet::new());
    let before = Footprint::of(process);
    for _ in 0..COPIES {
        let to = instance.listen;
        sending.spawn(async move { stripe("e1").send(to).await });
    }
    eventually("all that cannot wait are told so", async || {
        (instance.metrics().await.outcome("stripe", "limited") == (COPIES - 101) as f64).then_some(())
    })
    .await;
    gate.open();
    let answers = sending.join_all().await;
    let count = |status, outcome| answers.iter().filter(|answer| (answer.status, answer.outcome()) == (status, outcome)).count();
    assert_eq!((count(200, "forwarded"), count(200, "waited"), count(503, "limited")), (1, 100, COPIES - 101));
    assert_eq!(consumer.count("e1"), 1);
    before.is_back(process).await;
}

#[tokio::test]
async fn thousands_of_events_leave_nothing_behind_in_the_process() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let instance = Instance::start(&in_front_of(&consumer).store(&redis.url()).top("workers = 1")).await;
    assert_eq!(instance.send(&stripe("first")).await.outcome(), "forwarded");
    let (process, mut sending) = (instance.program.process(), JoinSet::new());
    let before = Footprint::of(process);
    for sender in 0..20 {
        let to = instance.listen;
        sending.spawn(async move {
            for index in 0..100 {
                assert_eq!(stripe(&format!("s{sender}-{index}")).send(to).await.outcome(), "forwarded");
            }
        });
    }
    sending.join_all().await;
    assert_eq!((consumer.seen().len(), consumer.counts().len()), (2001, 2001));
    assert_eq!(instance.metrics().await.value("hookonce_claims_in_flight", &[("provider", "stripe")]), 0.0);
    before.is_back(process).await;
}

#[tokio::test]
async fn copies_that_hang_up_while_they_wait_for_another_instance_are_forgotten() {
    let gate = Gate::closed();
    let consumer = first_behind(&gate).await;
    let redis = RedisProcess::start();
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 1");
    let (first, second) = (Instance::start(&setup).await, Instance::start(&setup).await);
    assert_eq!(second.send(&stripe("warm")).await.outcome(), "forwarded");
    let to = first.listen;
    let leading = tokio::spawn(async move { stripe("e1").send(to).await });
    consumer.arrived("e1", 1).await;
    let before = Footprint::of(second.program.process());
    let looks = async || second.metrics().await.value("hookonce_store_seconds_count", &[("op", "look")]);
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(stripe("e1").begin(second.listen).await);
    }
    eventually("looks at the claim", async || (looks().await >= 3.0).then_some(())).await;
    drop(waiting);
    eventually("senders that are gone", async || (second.metrics().await.outcome("stripe", "abandoned") == 50.0).then_some(()))
        .await;
    // Nobody is left who would want to know: for longer than between any two looks, there is none.
    eventually("an end of looks", async || {
        let so_far = looks().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        (looks().await == so_far).then_some(())
    })
    .await;
    before.is_back(second.program.process()).await;
    gate.open();
    assert_eq!(leading.await.unwrap().outcome(), "forwarded");
    assert_eq!(consumer.count("e1"), 1);
}

#[tokio::test]
async fn without_file_descriptors_nobody_is_told_success_and_nothing_is_in_doubt() {
    const FILES: usize = 64;
    let (consumer, redis) = (
        Consumer::deciding(|seen, _| if seen.target == "/hang" { Act::Hang } else { Act::Answer(200) }).await,
        RedisProcess::start(),
    );
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={FILES}:{FILES}")).arg("--").arg(hookonce().get_program());
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 1\npassthrough = [\"/hang\"]");
    let instance = Instance::start_as(command, &setup.stripe("connect_retry = \"300ms\"")).await;
    // The connections to the store are made with the first call; the one to the consumer is closed after it.
    assert_eq!(instance.send(&stripe("warm")).await.outcome(), "forwarded");
    eventually("an idle connection is closed", async || (consumer.open_connections() == 0).then_some(())).await;
    let process = instance.program.process();
    // Those that it has inherited from whoever runs the tests may lie beyond the limit, and do not count.
    let files = || {
        let all = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        all.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().parse::<usize>().unwrap() < FILES).count()
    };
    let before = files();
    // Connections that nobody uses make room.
    let idle: Vec<_> = futures_util::future::join_all((0..2 * FILES).map(|_| TcpStream::connect(instance.listen))).await;
    assert!(until_accepted(&stripe("e0"), instance.listen).await.answer.is_success());
    drop(idle);
    // Those that are in use do not: of one descriptor, in the middle of their second delivery, or of two, with a consumer that
    // takes its time.
    let part = |event: &str| {
        let bytes = stripe(event).bytes();
        bytes[..bytes.len() - 1].to_vec()
    };
    let mut known = Vec::new();
    for event in ["k0", "k1"] {
        let mut wire = Wire::with(instance.listen, &stripe(event).bytes()).await;
        assert!(wire.answer().await.is_success());
        wire.say(&part(event)).await;
        known.push(wire);
    }
    eventually("only those are left", async || (consumer.open_connections() == 0 && files() == before + 2).then_some(())).await;
    if (FILES - files()) % 2 == 1 {
        known.pop();
        eventually("one descriptor", async || (files() == before + 1).then_some(())).await;
    }
    let mut hanging = Vec::new();
    for taken in (files() + 2..=FILES).step_by(2) {
        hanging.push(Wire::with(instance.listen, b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n").await);
        eventually("two descriptors", async || (files() == taken).then_some(())).await;
    }
    let to = instance.listen;
    let kept_out = tokio::spawn(async move { stripe("e1").send(to).await });
    eventually("a connection that is not taken in", async || {
        instance.log().contains("a connection could not be accepted").then_some(())
    })
    .await;
    assert!(!kept_out.is_finished());
    // With one descriptor it is taken in, and there is none left for the consumer.
    drop(known.pop());
    let answer = kept_out.await.unwrap();
    assert_eq!((answer.status, answer.outcome()), (502, "failed"));
    assert_eq!(consumer.count("e1"), 0);

    drop(hanging);
    for event in ["e1", "e2"] {
        assert!(until_accepted(&stripe(event), instance.listen).await.answer.is_success());
        assert_eq!(consumer.count(event), 1);
    }
    assert!(consumer.seen().iter().all(|seen| seen.mark().is_none()));
}

#[tokio::test]
async fn with_next_to_no_processor_time_everything_is_slow_and_nothing_else() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 1");
    let instances = [Instance::start(&setup).await, Instance::start(&setup).await];
    let enough = CancellationToken::new();
    let starving = async {
        while !enough.is_cancelled() {
            instances.iter().for_each(|instance| instance.program.signal("STOP"));
            tokio::time::sleep(Duration::from_millis(90)).await;
            instances.iter().for_each(|instance| instance.program.signal("CONT"));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let sending = async {
        let mut sending = JoinSet::new();
        for copy in 0..120 {
            let to = instances[copy % 2].listen;
            sending.spawn(async move { stripe(&format!("e{}", copy / 4)).send(to).await });
        }
        let answers = sending.join_all().await;
        enough.cancel();
        answers
    };
    let ((), answers) = tokio::join!(starving, sending);
    assert!(answers.iter().all(|answer| answer.is_success()), "{answers:?}");
    assert_eq!((consumer.seen().len(), consumer.counts().len()), (30, 30));
    assert!(consumer.seen().iter().all(|seen| seen.mark().is_none()));
}

#[tokio::test]
async fn killed_again_and_again_under_load_nothing_is_lost_and_every_second_forward_is_marked() {
    const EVENTS: usize = 400;
    let consumer = Consumer::deciding(|_, _| Act::After(Duration::from_millis(5), Box::new(Act::Answer(200)))).await;
    let redis = RedisProcess::start();
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 1").stripe("lease = \"1s\"\nin_flight = \"retry\"");
    let (mut killed, steady) = (Instance::start(&setup).await, Instance::start(&setup).await);
    let (places, mut sending) = (tokio::sync::watch::Sender::new([killed.listen, steady.listen]), JoinSet::new());
    for sender in 0..8 {
        let places = places.subscribe();
        sending.spawn(async move {
            let mut deliveries = HashMap::new();
            for event in (0..EVENTS).filter(|event| event % 8 == sender) {
                let event = format!("e{event}");
                for count in 1.. {
                    let to = places.borrow()[count % 2];
                    let answer = timeout(Duration::from_secs(5), stripe(&event).try_send(to)).await;
                    if matches!(answer, Ok(Ok(answer)) if answer.is_success()) {
                        deliveries.insert(event, count);
                        break;
                    }
                    assert!(count < 2000, "{event} is never accepted");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            deliveries
        });
    }
    for round in 1..=3 {
        eventually("more traffic", async || (consumer.seen().len() > round * EVENTS / 5).then_some(())).await;
        killed.kill();
        killed = Instance::start(&setup).await;
        places.send_modify(|places| places[0] = killed.listen);
    }
    let deliveries: HashMap<String, usize> = sending.join_all().await.into_iter().flatten().collect();
    let (seen, counts) = (consumer.seen(), consumer.counts());
    assert_eq!((deliveries.len(), counts.len()), (EVENTS, EVENTS));
    for (event, count) in counts {
        assert!(count <= deliveries[&event], "{event}: {count} forwards, {} deliveries", deliveries[&event]);
        let marks: Vec<_> = seen.iter().filter(|seen| seen.event_id() == event).map(|seen| seen.mark()).collect();
        assert!(marks.iter().skip(1).all(|mark| *mark == Some("unknown")), "{event}: {marks:?}");
    }
}
