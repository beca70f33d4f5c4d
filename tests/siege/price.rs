//! What bounds cost those who keep them: CPU a delivery, with all of them on and with none.

use std::net::SocketAddr;
use std::time::Duration;

use data_encoding::HEXLOWER;
use ring::hmac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::consumer::Consumer;
use crate::support::instance::Instance;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::SECRET;
use crate::{cpu, program, scale};

const NONE: &str = "[limits]\nconnections = 1000000\nconnections_per_address = \"none\"\nattempts = 1000000\n\
    attempts_per_event = \"none\"\nuri = \"65534B\"\nheaders = 100\nheader_bytes = \"1MiB\"\nheader_timeout = \"1d\"\n\
    body_timeout = \"1d\"\nbody_rate = \"0B\"\nidle_timeout = \"1d\"\nstreams = 10000\nwaiters_per_event = 100000\n\
    buffered = \"64GiB\"\nanswer_max = \"64GiB\"";
const ALL: &str = "max_concurrent = 10000\nrate_limit = \"1000000/s\"\nallow_networks = [\"127.0.0.0/8\", \"10.0.0.0/8\"]";
const SENDERS: usize = 64;

/// An event of GitHub's kind with a body of 2 KiB, signed here: the sender must not be what takes the time.
fn event(key: &hmac::Key, id: &str) -> Vec<u8> {
    let body = format!("{{\"event\":\"{id}\",\"text\":\"{}\"}}", "x".repeat(2000));
    let signature = HEXLOWER.encode(hmac::sign(key, body.as_bytes()).as_ref());
    let head = format!("x-github-event: issues\r\nx-github-delivery: {id}\r\nx-hub-signature-256: sha256={signature}");
    let length = body.len();
    format!("POST /github HTTP/1.1\r\nhost: a\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Sends new events over kept connections.
async fn deliver(to: SocketAddr, round: usize, count: usize) {
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        senders.spawn(async move {
            let mut stream = TcpStream::connect(to).await.unwrap();
            let (mut read, key) = (Vec::new(), hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()));
            for number in 0..count / SENDERS {
                stream.write_all(&event(&key, &format!("{round}-{sender}-{number}"))).await.unwrap();
                read.clear();
                while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                    assert!(stream.read_buf(&mut read).await.unwrap() > 0);
                }
                assert!(read.starts_with(b"HTTP/1.1 204"), "{}", String::from_utf8_lossy(&read));
            }
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended.unwrap();
    }
}

/// A consumer that answers, and remembers nothing: it must not be what takes the time either.
async fn consumer() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = Vec::new();
                while stream.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
                    // Every event ends so, and none has this anywhere else.
                    if read.ends_with(b"x\"}") {
                        read.clear();
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
                    }
                }
            });
        }
    });
    address
}

/// CPU a delivery, in microseconds.
async fn measured(instance: &Instance, round: usize, count: usize) -> f64 {
    let process = instance.program.process();
    let before = cpu(process);
    deliver(instance.listen, round, count).await;
    let used: Duration = cpu(process) - before;
    used.as_secs_f64() * 1e6 / count as f64
}

#[tokio::test]
async fn bounds_cost_next_to_nothing() {
    let (nobody, server) = (Consumer::answering(500).await, RedisProcess::start());
    let upstream = format!("http://{}", consumer().await);
    let quiet = |setup: Setup| {
        setup.upstream(&upstream).store(&server.url()).top("workers = 1").table("[log]\nlevel = \"error,hookonce::cli=info\"")
    };
    let with = quiet(in_front_of(&nobody)).github(ALL);
    let without = quiet(in_front_of(&nobody)).table(NONE).github("replay_guard = \"off\"");
    let with = Instance::start_as(program(), &with).await;
    let without = Instance::start_as(program(), &without).await;
    let (rounds, count) = (scale(9, 3), scale(25_600, 640));
    let (mut all, mut none) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        // Each goes first every other time; the first round is for warming up.
        let (a, b) = if round % 2 == 0 {
            let a = measured(&with, 2 * round, count).await;
            (a, measured(&without, 2 * round + 1, count).await)
        } else {
            let b = measured(&without, 2 * round + 1, count).await;
            (measured(&with, 2 * round, count).await, b)
        };
        if round > 0 {
            println!("round {round}: {a:.1} us a delivery with all bounds, {b:.1} us with none, {:.3}", a / b);
            all.push(a);
            none.push(b);
        }
    }
    let mut ratios: Vec<f64> = all.iter().zip(&none).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("median of {rounds} rounds: {median:.3}");
    // A small siege is as loud as the machine it is on.
    assert!(median < scale(1.05, 2.0), "{ratios:?}");
}
