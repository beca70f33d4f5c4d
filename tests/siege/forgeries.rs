//! Requests that nobody has signed, as fast as they come.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::consumer::Consumer;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::github;
use crate::{program, resident, scale};

/// A forged delivery: another id, path or signature each time, of every kind that is refused.
fn forged(number: usize) -> Vec<u8> {
    let (id, body) = (format!("forged-{number}"), format!("{{\"id\":\"evt_{number}\",\"number\":{number}}}"));
    let (path, headers) = match number % 5 {
        0 => ("/github".to_owned(), format!("x-hub-signature-256: sha256={number:064x}\r\nx-github-delivery: {id}\r\n")),
        1 => ("/github".to_owned(), format!("x-github-delivery: {id}\r\n")),
        2 => ("/stripe".to_owned(), format!("stripe-signature: t={number},v1={number:064x}\r\n")),
        3 => ("/stripe".to_owned(), format!("stripe-signature: v1={id}\r\n")),
        _ => (format!("/nobody/{id}"), format!("x-{id}: {id}\r\n")),
    };
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: a\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Sends these on one connection, a handful at a time, and counts how each was answered.
async fn send(to: SocketAddr, numbers: std::ops::Range<usize>) -> (usize, usize) {
    const HANDFUL: usize = 20;
    let mut stream = TcpStream::connect(to).await.unwrap();
    let (mut refused, mut unknown) = (0, 0);
    let mut read = Vec::with_capacity(16 << 10);
    for first in numbers.clone().step_by(HANDFUL) {
        let last = (first + HANDFUL).min(numbers.end);
        let bytes: Vec<u8> = (first..last).flat_map(forged).collect();
        stream.write_all(&bytes).await.unwrap();
        let mut open = last - first;
        while open > 0 {
            let before = read.len();
            assert!(stream.read_buf(&mut read).await.unwrap() > 0, "closed after {}", String::from_utf8_lossy(&read[..before]));
            // A status line is as long as another; what is cut in two waits for its rest.
            while let Some(at) = memchr::memmem::find(&read, b"HTTP/1.1 ").filter(|at| read.len() >= at + 12) {
                match &read[at + 9..at + 12] {
                    b"401" => refused += 1,
                    b"404" => unknown += 1,
                    other => panic!("{}", String::from_utf8_lossy(other)),
                }
                read.drain(..at + 12);
                open -= 1;
            }
        }
    }
    (refused, unknown)
}

/// Commands that Redis was given, but for those with which the program looks whether it is there.
async fn commands(server: &RedisProcess) -> Vec<String> {
    let stats: String = server.ask(&["INFO", "commandstats"]).await;
    let is_asked = |line: &&str| {
        line.starts_with("cmdstat_")
            && !["ping", "exists", "getrange", "info", "time"].iter().any(|own| line.starts_with(&format!("cmdstat_{own}:")))
    };
    let counted = |line: &str| line.split(',').next().unwrap_or_default().to_owned();
    stats.lines().filter(is_asked).map(counted).collect()
}

#[tokio::test]
async fn forgeries_reach_no_store_make_no_series_and_take_no_memory() {
    let (consumer, server) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = in_front_of(&consumer).store(&server.url()).table("[log]\nlevel = \"error,hookonce::cli=info\"");
    let instance = Instance::start_as(program(), &setup).await;
    let (to, process) = (instance.listen, instance.program.process());
    assert_eq!(instance.send(&github("e1")).await.status, 200);
    // What is settled with the reply has been by then, and memory is what it is under load.
    flood(to, 0..scale(50_000, 2_000)).await;
    let (stored, series, before) = (commands(&server).await, lines(&instance).await, resident(process));
    let count = scale(1_000_000, 20_000);
    let began = Instant::now();
    let (refused, unknown) = flood(to, 100_000..100_000 + count).await;
    let (after, took) = (resident(process), began.elapsed());
    println!(
        "{count} forgeries: {refused} refused, {unknown} at no provider's path, {:.0} a second; memory {:.1} -> {:.1} MiB; {series} series",
        count as f64 / took.as_secs_f64(),
        before as f64 / 1024.0,
        after as f64 / 1024.0,
    );
    assert_eq!((refused, unknown), (count / 5 * 4, count / 5));
    assert_eq!(commands(&server).await, stored, "a forgery was told to the store");
    assert_eq!(lines(&instance).await, series, "a forgery made a series");
    assert!(after < before + 4 * 1024, "{before} KiB {after} KiB");
    assert_eq!(consumer.seen().len(), 1);
    assert_eq!(instance.send(&github("e2")).await.status, 200);
}

async fn lines(instance: &Instance) -> usize {
    instance.metrics().await.text().lines().filter(|line| line.starts_with("hookonce_")).count()
}

async fn flood(to: SocketAddr, numbers: std::ops::Range<usize>) -> (usize, usize) {
    const SENDERS: usize = 32;
    let each = numbers.len().div_ceil(SENDERS);
    let mut senders = JoinSet::new();
    for first in numbers.clone().step_by(each) {
        senders.spawn(send(to, first..(first + each).min(numbers.end)));
    }
    let mut total = (0, 0);
    while let Some(counted) = senders.join_next().await {
        let (refused, unknown) = counted.unwrap();
        total = (total.0 + refused, total.1 + unknown);
    }
    total
}
