//! Stopping in order: not ready, no new connections, everything under way finished and settled; nothing lost on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::program;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::{RedisProcess, quiet_port};
use crate::support::sender::{Answer, Delivery, github, stripe};

fn drain(delay: &str, timeout: &str) -> String {
    format!("[drain]\ndelay = \"{delay}\"\ntimeout = \"{timeout}\"")
}

/// Answers 200 once the gate is open.
async fn gated() -> (Consumer, Gate) {
    let gate = Gate::closed();
    let own = gate.clone();
    (Consumer::deciding(move |_, _| Act::Behind(own.clone(), Box::new(Act::Answer(200)))).await, gate)
}

fn sending(delivery: Delivery, to: &Instance) -> JoinHandle<Answer> {
    let to = to.listen;
    tokio::spawn(async move { delivery.send(to).await })
}

#[tokio::test]
async fn it_is_not_ready_at_once_and_serves_on_for_the_delay() {
    let consumer = Consumer::answering(200).await;
    let mut instance = Instance::start(&in_front_of(&consumer).table(&drain("3s", "10s"))).await;
    assert!(instance.is_ready().await);
    let began = Instant::now();
    instance.program.signal("TERM");
    eventually("the end of readiness", async || (!instance.is_ready().await).then_some(())).await;
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
    instance.closed().await;
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(instance.ended().await.code(), Some(0));
}

async fn a_call_under_way_is_finished(signal: &str, workers: usize) {
    let ((consumer, gate), redis) = (gated().await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).top(&format!("workers = {workers}"));
    let mut instance = Instance::start(&setup).await;
    let (leading, following) = (sending(stripe("e1"), &instance), sending(stripe("e1"), &instance));
    consumer.arrived("e1", 1).await;
    instance.program.signal(signal);
    instance.closed().await;
    assert!(!leading.is_finished() && instance.program.is_running());
    gate.open();
    let mut answers = [leading.await.unwrap(), following.await.unwrap()];
    answers.sort_by_key(|answer| answer.outcome().to_owned());
    assert_eq!(answers.each_ref().map(|answer| (answer.status, answer.outcome())), [(200, "forwarded"), (200, "waited")]);
    assert_eq!(instance.ended().await.code(), Some(0));
    assert!(Keys::of(&redis).value("test:stripe:e1").starts_with("1d|200|1|"));
    assert_eq!(consumer.count("e1"), 1);
}

#[tokio::test]
async fn a_call_under_way_is_finished_answered_and_settled() {
    a_call_under_way_is_finished("TERM", 1).await;
    a_call_under_way_is_finished("TERM", 4).await;
}

#[tokio::test]
async fn an_interrupt_stops_in_order_too() {
    a_call_under_way_is_finished("INT", 2).await;
}

#[tokio::test]
async fn a_call_whose_sender_has_hung_up_is_finished_and_settled() {
    let ((consumer, gate), redis) = (gated().await, RedisProcess::start());
    let mut instance = Instance::start(&in_front_of(&consumer).store(&redis.url())).await;
    let sender = stripe("e1").begin(instance.listen).await;
    consumer.arrived("e1", 1).await;
    drop(sender);
    eventually("a sender that is gone", async || (instance.metrics().await.outcome("stripe", "abandoned") > 0.0).then_some(()))
        .await;
    instance.program.signal("TERM");
    instance.closed().await;
    assert!(instance.program.is_running());
    gate.open();
    assert_eq!(instance.ended().await.code(), Some(0));
    assert!(Keys::of(&redis).value("test:stripe:e1").starts_with("1d|200|1|"));
}

#[tokio::test]
async fn settlements_are_flushed_to_a_store_that_is_slow() {
    let ((consumer, gate), redis) = (gated().await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).table(&drain("0s", "14s"));
    let mut instance = Instance::start(&setup).await;
    let leading = sending(stripe("e1"), &instance);
    consumer.arrived("e1", 1).await;
    program::pause(redis.process()).await;
    gate.open();
    // The consumer has accepted: its sender is told so, whatever the store does.
    assert_eq!(leading.await.unwrap().outcome(), "forwarded");
    instance.program.signal("TERM");
    instance.closed().await;
    // A first try has come to nothing by then, so that it must be made again.
    eventually("a settlement that failed", async || {
        let metrics = instance.metrics().await;
        (metrics.value("hookonce_store_errors_total", &[("op", "complete"), ("kind", "timeout")]) >= 1.0).then_some(())
    })
    .await;
    assert!(instance.program.is_running());
    redis.signal("CONT");
    assert_eq!(instance.ended().await.code(), Some(0));
    assert!(Keys::of(&redis).value("test:stripe:e1").starts_with("1d|200|1|"));
}

#[tokio::test]
async fn what_was_never_sent_is_let_go_and_forwarded_elsewhere_without_a_mark() {
    let (redis, port) = (RedisProcess::start(), quiet_port());
    let nobody = Consumer::answering(200).await;
    let setup = in_front_of(&nobody).upstream(&format!("http://127.0.0.1:{port}")).store(&redis.url());
    let setup = setup.stripe("connect_retry = \"60s\"");
    let mut first = Instance::start(&setup.clone().table(&drain("0s", "500ms"))).await;
    let second = Instance::start(&setup).await;
    let mut keys = Keys::of(&redis);
    let leading = sending(stripe("e1"), &first);
    eventually("a claim", async || {
        (first.metrics().await.value("hookonce_claims_in_flight", &[("provider", "stripe")]) > 0.0).then_some(())
    })
    .await;
    let began = Instant::now();
    first.program.signal("TERM");
    let answer = leading.await.unwrap();
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("stopping")));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(first.ended().await.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(keys.value("test:stripe:e1").starts_with("1f|1||"), "{}", keys.value("test:stripe:e1"));

    let consumer = Consumer::at(&format!("127.0.0.1:{port}"), |_, _| Act::Answer(200)).await;
    assert_eq!(second.send(&stripe("e1")).await.outcome(), "forwarded");
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[0].header("hookonce-attempt"), seen[0].mark()), (1, Some("2"), None));
}

#[tokio::test]
async fn a_call_that_outlasts_the_timeout_is_left_to_its_lease() {
    let (consumer, redis) = (Consumer::deciding(|_, _| Act::Hang).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).table(&drain("0s", "300ms"));
    let mut instance = Instance::start(&setup).await;
    let waiting = stripe("e1").begin(instance.listen).await;
    consumer.arrived("e1", 1).await;
    let began = Instant::now();
    instance.program.signal("TERM");
    assert_eq!(instance.ended().await.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(!waiting.rest().await.unwrap_or_default().starts_with("HTTP/1.1 2"));
    assert!(Keys::of(&redis).value("test:stripe:e1").starts_with("1c|"));
    assert!(instance.log().contains("left to their leases"), "{}", instance.log());
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    for (delay, signals) in [("0s", ["TERM", "TERM"]), ("60s", ["INT", "TERM"])] {
        let consumer = Consumer::deciding(|_, _| Act::Hang).await;
        let mut instance = Instance::start(&in_front_of(&consumer).table(&drain(delay, "60s"))).await;
        let _waiting = stripe("e1").begin(instance.listen).await;
        consumer.arrived("e1", 1).await;
        instance.program.signal(signals[0]);
        eventually("the end of readiness", async || (!instance.is_ready().await).then_some(())).await;
        let began = Instant::now();
        instance.program.signal(signals[1]);
        assert_eq!(instance.ended().await.code(), Some(1));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(instance.log().contains("stopped at once"), "{}", instance.log());
    }
}

#[tokio::test]
async fn connections_without_a_request_do_not_hold_up_the_end() {
    let consumer = Consumer::answering(200).await;
    let mut instance = Instance::start(&in_front_of(&consumer).table(&drain("0s", "60s"))).await;
    let silent = TcpStream::connect(instance.listen).await.unwrap();
    let mut idle = stripe("e1").begin(instance.listen).await;
    assert_eq!(idle.answer().await.status, 200);
    let began = Instant::now();
    instance.stop().await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    drop((silent, idle));
}

/// Requests that lie in the kernel's queue when the program is told to stop: it has stood still all the while.
async fn what_waits_in_the_backlog_is_answered(workers: usize) {
    const COUNT: usize = 400;
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer).top(&format!("workers = {workers}")).table(&drain("0s", "15s"));
    let mut instance = Instance::start(&setup).await;
    instance.program.pause().await;
    let mut waiting = Vec::new();
    for index in 0..COUNT {
        waiting.push(stripe(&format!("e{index}")).begin(instance.listen).await);
    }
    instance.program.signal("TERM");
    instance.program.resume();
    let mut unanswered = Vec::new();
    for (index, stream) in waiting.into_iter().enumerate() {
        match stream.rest().await {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => {}
            other => unanswered.push((index, other)),
        }
    }
    assert_eq!(unanswered.len(), 0, "{:?}", unanswered.first());
    assert_eq!(instance.ended().await.code(), Some(0));
    assert_eq!((consumer.counts().len(), consumer.seen().len()), (COUNT, COUNT));
}

#[tokio::test]
async fn what_waits_in_the_backlog_of_one_worker_is_answered() {
    what_waits_in_the_backlog_is_answered(1).await;
}

#[tokio::test]
async fn what_waits_in_the_backlog_of_four_workers_is_answered() {
    what_waits_in_the_backlog_is_answered(4).await;
}

/// Senders that deliver one event after another, each to whoever there is until somebody says 2xx.
struct Load {
    places: Arc<Mutex<Vec<SocketAddr>>>,
    sending: JoinSet<BTreeMap<String, usize>>,
    enough: CancellationToken,
}

impl Load {
    fn start(places: Vec<SocketAddr>, senders: usize) -> Self {
        let (places, enough, mut sending) = (Arc::new(Mutex::new(places)), CancellationToken::new(), JoinSet::new());
        for sender in 0..senders {
            let (places, enough) = (Arc::clone(&places), enough.clone());
            sending.spawn(async move {
                let mut told = BTreeMap::new();
                for index in 0.. {
                    if enough.is_cancelled() {
                        break;
                    }
                    let event = format!("s{sender}-{index}");
                    let tries = deliver(&event, &places, sender + index).await;
                    told.insert(event, tries);
                }
                told
            });
        }
        Self { places, sending, enough }
    }

    /// Ends it: every event that somebody said 2xx to, with how often it was tried.
    async fn end(self) -> BTreeMap<String, usize> {
        self.enough.cancel();
        self.sending.join_all().await.into_iter().flatten().collect()
    }
}

/// Tries each place in turn, as a provider behind a load balancer does.
async fn deliver(event: &str, places: &Mutex<Vec<SocketAddr>>, first: usize) -> usize {
    let until = Instant::now() + crate::support::PATIENCE;
    for tries in 0.. {
        let place = {
            let places = places.lock().unwrap();
            places[(first + tries) % places.len()]
        };
        match stripe(event).try_send(place).await {
            Ok(answer) if answer.is_success() => return tries + 1,
            // Somebody is at work on it, or nobody is there: a moment later it looks different.
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        assert!(Instant::now() < until, "nobody took {event}");
    }
    unreachable!("it tries until it is taken")
}

/// Each event that anybody was told 2xx of has reached the consumer once, and nothing was in doubt.
fn assert_one_effect_each(told: &BTreeMap<String, usize>, consumer: &Consumer) {
    let counts = consumer.counts();
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(told.keys().collect::<BTreeSet<_>>(), counts.keys().collect::<BTreeSet<_>>());
    let marked: Vec<_> = consumer.seen().into_iter().filter(|seen| seen.mark().is_some()).collect();
    assert!(marked.is_empty(), "{marked:?}");
}

fn on_redis(consumer: &Consumer, redis: &RedisProcess, delay: &str) -> Setup {
    in_front_of(consumer).store(&redis.url()).top("workers = 2").table(&drain(delay, "15s"))
}

async fn brief_work() -> Consumer {
    Consumer::deciding(|_, _| Act::After(Duration::from_millis(5), Box::new(Act::Answer(200)))).await
}

#[tokio::test]
async fn whoever_hammers_at_a_closing_door_finds_each_event_taken_once_elsewhere() {
    let (consumer, redis) = (brief_work().await, RedisProcess::start());
    let setup = on_redis(&consumer, &redis, "0s");
    let (mut first, second) = (Instance::start(&setup).await, Instance::start(&setup).await);
    let load = Load::start(vec![first.listen, second.listen], 16);
    eventually("some traffic", async || (consumer.seen().len() > 200).then_some(())).await;
    first.stop().await;
    let so_far = consumer.seen().len();
    eventually("more traffic", async || (consumer.seen().len() > so_far + 50).then_some(())).await;
    assert_one_effect_each(&load.end().await, &consumer);
}

#[tokio::test]
async fn whoever_keeps_a_connection_learns_with_an_answer_that_it_ends() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table(&drain("2s", "5s")).start();
    assert_eq!(proxy.send(&github("e1")).await.header("connection"), None);
    let (listen, admin) = (proxy.listen, proxy.admin);
    let stopping = tokio::spawn(proxy.stop());
    let ready = Delivery::plain("GET", "/readyz");
    eventually("not ready any more", async || (ready.send(admin).await.status == 503).then_some(())).await;
    let answer = github("e2").send(listen).await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(stopping.await.unwrap());
}

#[tokio::test]
async fn a_rolling_restart_loses_doubles_and_marks_nothing() {
    let (consumer, redis) = (brief_work().await, RedisProcess::start());
    let setup = on_redis(&consumer, &redis, "100ms");
    let mut instances = [Instance::start(&setup).await, Instance::start(&setup).await];
    let load = Load::start(instances.iter().map(|instance| instance.listen).collect(), 8);
    for round in 0..4 {
        let so_far = consumer.seen().len();
        eventually("more traffic", async || (consumer.seen().len() > so_far + 50).then_some(())).await;
        instances[round % 2].stop().await;
        let next = Instance::start(&setup).await;
        load.places.lock().unwrap()[round % 2] = next.listen;
        instances[round % 2] = next;
    }
    assert_one_effect_each(&load.end().await, &consumer);
}
