//! Connections to the consumer: used again, gone before the consumer closes them, and never a reason to send twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::proxy::in_front_of;
use crate::support::sender::{github_with, stripe};

#[tokio::test]
async fn connections_are_used_again() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top("workers = 1").start();
    for event in 0..50 {
        assert_eq!(proxy.send(&stripe(&format!("e{event}"))).await.outcome(), "forwarded");
    }
    assert_eq!(consumer.connections(), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_failing_consumers_connection_is_used_again() {
    let consumer = Consumer::answering(500).await;
    let proxy = in_front_of(&consumer).top("workers = 1").start();
    for event in 0..10 {
        assert_eq!(proxy.send(&stripe(&format!("e{event}"))).await.outcome(), "failed");
    }
    assert_eq!(consumer.connections(), 1);
    assert!(proxy.stop().await);
}

/// By its addresses alone, one of four connections hardly ever has a runtime to itself.
#[tokio::test]
async fn a_few_connections_are_spread_over_the_runtimes() {
    for _ in 0..4 {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).top("workers = 4").start();
        let mut kept = Vec::new();
        for event in 0..4 {
            let mut wire = stripe(&format!("e{event}")).begin(proxy.listen).await;
            assert_eq!(wire.answer().await.outcome(), "forwarded");
            kept.push(wire);
        }
        // Each runtime has its own connections to the consumer, and needs one for what comes one by one.
        assert_eq!(consumer.connections(), 4);
        drop(kept);
        assert!(proxy.stop().await);
    }
}

/// What is still to be written there is written by a task of its own, and the next event goes by another connection.
#[tokio::test]
async fn a_connection_that_was_answered_early_holds_up_nobody() {
    // More than the sockets of both sides take in, so that the rest is to be written for as long as nobody reads it.
    const BODY: usize = 20 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::<AtomicUsize>::default();
    let (read_on, reading) = watch::channel(false);
    let (whole, mut was_whole) = mpsc::channel(16);
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let (mut reading, whole) = (reading.clone(), whole.clone());
            tokio::spawn(async move {
                let mut read = Vec::new();
                while let Ok(1..) = stream.read_buf(&mut read).await {
                    let Some(head) = read.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
                    let text = String::from_utf8_lossy(&read[..head]).into_owned();
                    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                    let length = length.parse::<usize>().unwrap();
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                    let mut left = (head + 4 + length) - read.len();
                    read.clear();
                    if length > BODY {
                        reading.wait_for(|on| *on).await.unwrap();
                    }
                    let mut rest = vec![0; 1 << 16];
                    while left > 0 {
                        let came = stream.read(&mut rest[..left.min(1 << 16)]).await.unwrap();
                        assert_ne!(came, 0, "{left} bytes never came");
                        left -= came;
                    }
                    whole.send(length).await.unwrap();
                }
            });
        }
    });
    let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).top("workers = 1").start();
    let large = format!("{{\"pad\":\"{}\"}}", "x".repeat(BODY));
    assert_eq!(proxy.send(&github_with("large", large)).await.outcome(), "forwarded");
    for event in 0..10 {
        assert_eq!(proxy.send(&stripe(&format!("e{event}"))).await.outcome(), "forwarded");
        assert!(was_whole.recv().await.unwrap() < BODY);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);
    read_on.send(true).unwrap();
    assert!(was_whole.recv().await.unwrap() > BODY);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn idle_connections_are_closed_before_a_consumer_would() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    assert_eq!(consumer.open_connections(), 1);
    let since = Instant::now();
    eventually("the connection is closed", async || (consumer.open_connections() == 0).then_some(())).await;
    let idle = since.elapsed();
    // 1.5 s, looked at every half second; and two more for a busy machine.
    assert!((Duration::from_millis(1400)..Duration::from_secs(4)).contains(&idle), "{idle:?}");
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
}

/// Reads one request and gives back its event id.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if body.len() >= field("content-length: ")?.parse().ok()? {
                return field("hookonce-event-id: ");
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

#[tokio::test]
async fn a_consumer_that_closes_after_every_answer_gets_every_event_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, closed) = (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (ledger, closes) = (Arc::clone(&seen), Arc::clone(&closed));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (ledger, closes) = (Arc::clone(&ledger), Arc::clone(&closes));
            tokio::spawn(async move {
                if let Some(event) = read_request(&mut stream).await {
                    ledger.lock().unwrap().push(event);
                    // It says nothing of closing.
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                }
                let _ = stream.shutdown().await;
                // The proxy has noticed once it has closed its side too. Before that, what is sent may be lost on the way, and
                // nobody could tell.
                let _ = stream.read_to_end(&mut Vec::new()).await;
                closes.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).top("workers = 1").start();
    let (mut sent, began) = (Vec::new(), Instant::now());
    for event in 0..200 {
        let event = format!("e{event}");
        let answer = proxy.send(&stripe(&event)).await;
        assert_eq!((answer.status, answer.outcome()), (200, "forwarded"), "{event}");
        sent.push(event);
        eventually("it has closed", async || (closed.load(Ordering::SeqCst) >= sent.len()).then_some(())).await;
    }
    assert_eq!(*seen.lock().unwrap(), sent);
    // Not one by one when its time as an idle one is over, which would take five minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(proxy.stop().await);
}
