//! A consumer that refuses, cannot be reached, breaks off in the middle, or is restarted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::provider::{Accepted, until_accepted};
use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::redis::{RedisProcess, quiet_port};
use crate::support::sender::stripe;

#[tokio::test]
async fn an_event_that_is_refused_again_and_again_is_accepted_once_and_never_in_doubt() {
    let statuses = [500, 503, 429, 404, 302];
    let consumer = Consumer::deciding(|seen, nth| Act::Answer(if nth <= 3 { seen.event_id().parse().unwrap() } else { 200 }));
    let (consumer, redis) = (consumer.await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).start();
    for status in statuses {
        let event = status.to_string();
        let Accepted { refused, answer, .. } = until_accepted(&stripe(&event), proxy.listen).await;
        assert_eq!((refused, answer.outcome()), (vec![status; 3], "forwarded"));
        proxy.in_state("stripe", &event, "done").await;
        assert_eq!(proxy.send(&stripe(&event)).await.outcome(), "duplicate");
        let seen: Vec<_> = consumer.seen().into_iter().filter(|seen| seen.event_id() == event).collect();
        assert_eq!(seen.iter().map(|seen| seen.header("hookonce-attempt").unwrap()).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
        assert!(seen.iter().all(|seen| seen.mark().is_none()), "{seen:?}");
    }
    assert!(proxy.stop().await);
}

/// A consumer that is reached by no connection is as good as one that refused: nothing was sent, and nothing is in doubt.
async fn is_released_and_forwarded_by_the_next(wrong: &str) {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&redis.url()).stripe("connect_retry = \"200ms\"");
    let (lost, found) = (setup.clone().upstream(wrong).start(), setup.start());
    let failed = lost.send(&stripe("e1")).await;
    assert_eq!((failed.status, failed.outcome()), (502, "failed"));
    assert_eq!(failed.json()["code"], "upstream_unreachable");
    assert_eq!(found.send(&stripe("e1")).await.outcome(), "forwarded");
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[0].header("hookonce-attempt"), seen[0].mark()), (1, Some("2"), None));
    assert_eq!(lost.metrics().await.marked("stripe", "unknown") + found.metrics().await.marked("stripe", "unknown"), 0.0);
    assert!(lost.stop().await && found.stop().await);
}

#[tokio::test]
async fn a_consumer_whose_name_is_unknown_gets_the_event_from_an_instance_that_knows_it() {
    is_released_and_forwarded_by_the_next("http://consumer.invalid:8080").await;
}

#[tokio::test]
async fn a_consumer_that_does_not_speak_tls_gets_the_event_from_an_instance_that_does_not_either() {
    let plain = Consumer::answering(200).await;
    let url = format!("https://localhost:{}", plain.address.port());
    is_released_and_forwarded_by_the_next(&url).await;
    assert_eq!(plain.seen().len(), 0);
}

/// Reads one request; its mark, if it has one.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if let Some((head, body)) = String::from_utf8_lossy(&read).split_once("\r\n\r\n") {
            let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let length: usize = field("content-length: ").unwrap().parse().unwrap();
            if body.len() >= length {
                return field("hookonce-maybe-duplicate: ");
            }
        }
        assert!(stream.read_buf(&mut read).await.unwrap() > 0);
    }
}

/// A consumer that says this to the first request and resets the connection; all others it accepts.
struct Rude {
    url: String,
    marks: Arc<Mutex<Vec<Option<String>>>>,
}

impl Rude {
    async fn saying(first: &'static str) -> Self {
        let (listener, marks) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let (url, ledger) = (format!("http://{}", listener.local_addr().unwrap()), Arc::clone(&marks));
        tokio::spawn(async move {
            let mut says = first;
            while let Ok((mut stream, _)) = listener.accept().await {
                let mark = read_request(&mut stream).await;
                ledger.lock().unwrap().push(mark);
                stream.write_all(says.as_bytes()).await.unwrap();
                stream.set_zero_linger().unwrap();
                says = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            }
        });
        Self { url, marks }
    }

    fn marks(&self) -> Vec<Option<String>> {
        self.marks.lock().unwrap().clone()
    }
}

/// Delivers one event to a rude consumer until it is accepted: what was answered, and the marks.
async fn through_a_reset(first: &'static str) -> (Vec<u16>, &'static str, Vec<Option<String>>) {
    let rude = Rude::saying(first).await;
    let setup = in_front_of(&Consumer::answering(200).await).upstream(&rude.url);
    let proxy = setup.stripe("lease = \"1s\"\nin_flight = \"retry\"").start();
    let Accepted { mut refused, answer, .. } = until_accepted(&stripe("e1"), proxy.listen).await;
    refused.dedup();
    proxy.in_state("stripe", "e1", "done").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    let marks = rude.marks();
    assert_eq!(proxy.metrics().await.marked("stripe", "unknown"), marks.iter().flatten().count() as f64);
    assert!(proxy.stop().await);
    let outcome = if answer.outcome() == "forwarded" { "forwarded" } else { "another" };
    (refused, outcome, marks)
}

#[tokio::test]
async fn a_reset_before_the_head_is_complete_leaves_the_event_in_doubt() {
    let marked = vec![None, Some("unknown".to_owned())];
    for first in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n"] {
        assert_eq!(through_a_reset(first).await, (vec![504, 503], "forwarded", marked.clone()), "{first:?}");
    }
}

#[tokio::test]
async fn after_the_head_a_reset_changes_nothing() {
    let accepted = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning";
    assert_eq!(through_a_reset(accepted).await, (vec![], "forwarded", vec![None]));
    let refused = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 100\r\n\r\nthe beginning";
    assert_eq!(through_a_reset(refused).await, (vec![500], "forwarded", vec![None, None]));
}

#[tokio::test]
async fn a_consumer_slower_than_the_answer_deadline_runs_once() {
    let gate = Gate::closed();
    let own = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(own.clone(), Box::new(Act::Answer(200)))).await;
    let redis = RedisProcess::start();
    let setup = in_front_of(&consumer).store(&redis.url()).stripe("answer_deadline = \"200ms\"");
    let (one, other) = (setup.start(), setup.start());
    assert_eq!(one.send(&stripe("e1")).await.status, 503);
    // Its retry comes while the first call runs, wherever a load balancer sends it.
    assert_eq!((one.send(&stripe("e1")).await.status, other.send(&stripe("e1")).await.status), (503, 503));
    gate.open();
    one.in_state("stripe", "e1", "done").await;
    for proxy in [&one, &other] {
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    }
    let seen = consumer.seen();
    assert_eq!((seen.len(), seen[0].mark()), (1, None));
    assert!(one.stop().await && other.stop().await);
}

#[tokio::test]
async fn while_a_consumer_restarts_deliveries_wait_for_it_and_none_fails() {
    let (redis, address) = (RedisProcess::start(), format!("127.0.0.1:{}", quiet_port()));
    let work = |_: &_, _| Act::After(Duration::from_millis(5), Box::new(Act::Answer(200)));
    let before = Consumer::at(&address, work).await;
    let instance = Instance::start(&in_front_of(&before).store(&redis.url())).await;
    let deliver = |events: std::ops::Range<usize>| {
        let (mut sending, to) = (JoinSet::new(), instance.listen);
        for index in events {
            sending.spawn(async move { stripe(&format!("e{index}")).send(to).await });
        }
        sending
    };
    assert!(deliver(0..40).join_all().await.iter().all(|answer| answer.outcome() == "forwarded"));
    before.leave().await;
    let gone = Instant::now();
    let waiting = deliver(40..80);
    // Less than the three seconds for which connecting is tried.
    tokio::time::sleep_until(gone + Duration::from_millis(1500)).await;
    let after = Consumer::at(&address, work).await;
    let answers = waiting.join_all().await;
    assert!(answers.iter().all(|answer| (answer.status, answer.outcome()) == (200, "forwarded")), "{answers:?}");
    let seen = after.seen();
    assert_eq!((before.seen().len(), seen.len(), after.counts().len()), (40, 40, 40));
    assert!(seen.iter().all(|seen| seen.header("hookonce-attempt") == Some("1") && seen.mark().is_none()));
}
