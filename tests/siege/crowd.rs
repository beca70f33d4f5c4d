//! Connections that are held: idle ones, and ones that say what they have to say one byte at a time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::sender::github;
use crate::{program, quantile, resident, scale};

/// The usual bounds, but for their times, which are half of what they are.
const LIMITS: &str = "[limits]\nheader_timeout = \"5s\"\nbody_timeout = \"15s\"\nidle_timeout = \"10s\"";

async fn connect(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.into(), 0)).ok()?;
    timeout(Duration::from_secs(5), socket.connect(to)).await.ok()?.ok()
}

/// Deliveries one after the other, some on connections of their own, until told to stop: how long each took.
async fn honest(to: SocketAddr, count: usize, name: &str) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let delivery = github(&format!("{name}-{number}"));
        let began = Instant::now();
        let answer = timeout(Duration::from_secs(10), delivery.send(to)).await.expect("an answer");
        assert_eq!(answer.outcome(), "forwarded", "{name} {number}: {:?}", answer.body);
        times.push(began.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    times
}

/// How a connection says something without coming to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// Says nothing at all.
    Silent,
    /// Has asked for something, and been refused.
    Idle,
    SlowHead,
    SlowBody,
}

/// Holds a connection until the other side ends it, and tells for how long that was.
async fn hold(from: Ipv4Addr, to: SocketAddr, manner: Manner, held: Arc<AtomicUsize>) -> (Manner, Duration) {
    let Some(mut stream) = connect(from, to).await else { return (manner, Duration::ZERO) };
    held.fetch_add(1, Ordering::Relaxed);
    let began = Instant::now();
    let opening: &[u8] = match manner {
        Manner::Silent => b"",
        Manner::Idle => b"POST /github HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
        Manner::SlowHead => b"POST /github HTTP/1.1\r\nhost: a\r\nx-slow: ",
        Manner::SlowBody => {
            b"POST /github HTTP/1.1\r\nhost: a\r\nx-github-delivery: 1\r\ncontent-length: 100000\r\nx-hub-signature-256: sha256=\
              0000000000000000000000000000000000000000000000000000000000000000\r\n\r\n{"
        }
    };
    let _ = stream.write_all(opening).await;
    let mut said = [0; 512];
    loop {
        match timeout(Duration::from_secs(1), stream.read(&mut said)).await {
            // An answer may come first.
            Ok(Ok(1..)) => {}
            Ok(_) => break,
            Err(_) if !matches!(manner, Manner::Silent | Manner::Idle) && stream.write_all(b"x").await.is_err() => break,
            Err(_) => {}
        }
    }
    held.fetch_sub(1, Ordering::Relaxed);
    (manner, began.elapsed())
}

/// Holds all of them, and tells for how long those of each manner were let.
async fn besiege(
    to: SocketAddr,
    address: impl Fn(usize) -> Ipv4Addr,
    slow: usize,
    idle: usize,
    held: Arc<AtomicUsize>,
) -> [Duration; 4] {
    let mut holders = JoinSet::new();
    for number in 0..idle + slow {
        let manner = match number {
            number if number < idle && number % 2 == 0 => Manner::Silent,
            number if number < idle => Manner::Idle,
            number if number % 2 == 0 => Manner::SlowHead,
            _ => Manner::SlowBody,
        };
        holders.spawn(hold(address(number), to, manner, Arc::clone(&held)));
        if number % 100 == 99 {
            // The kernel holds a thousand for the program.
            sleep(Duration::from_millis(5)).await;
        }
    }
    let mut longest = [Duration::ZERO; 4];
    while let Some(ended) = holders.join_next().await {
        let (manner, time) = ended.unwrap();
        longest[manner as usize] = longest[manner as usize].max(time);
    }
    longest
}

async fn siege(
    name: &str,
    address: impl Fn(usize) -> Ipv4Addr + Send + 'static,
    (slow, idle): (usize, usize),
    expected: usize,
) -> usize {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start_as(program(), &in_front_of(&consumer).table(LIMITS)).await;
    let (to, process) = (instance.listen, instance.program.process());
    let samples = scale(1000, 200);
    honest(to, samples / 4, "warm").await;
    let mut calm = honest(to, samples, "calm").await;
    let before = resident(process);
    let held = Arc::new(AtomicUsize::new(0));
    // On a thread of their own: what they cost this end is nobody's latency.
    let besiegers = {
        let held = Arc::clone(&held);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || runtime.block_on(besiege(to, address, slow, idle, held)))
    };
    eventually("a siege", async || (held.load(Ordering::Relaxed) >= expected).then_some(())).await;
    let (most, during) = (held.load(Ordering::Relaxed), resident(process));
    let mut under_siege = honest(to, samples, "siege").await;
    let longest = besiegers.join().unwrap();
    let (calm_p50, calm_p99) = (quantile(&mut calm, 0.5), quantile(&mut calm, 0.99));
    let (p50, p99) = (quantile(&mut under_siege, 0.5), quantile(&mut under_siege, 0.99));
    let [silent_for, idle_for, head_for, body_for] = longest;
    println!(
        "{name}: {slow} slow, {idle} idle, {most} of them held at once; {} honest deliveries beside them\n  \
         latency p50 {calm_p50:.1?} -> {p50:.1?}, p99 {calm_p99:.1?} -> {p99:.1?}\n  \
         memory {} -> {} MiB, {:.1} KiB a connection; cut off after {silent_for:.1?} (silent), {idle_for:.1?} (idle), {head_for:.1?} (head), \
         {body_for:.1?} (body)",
        under_siege.len(),
        before >> 10,
        during >> 10,
        (during.saturating_sub(before)) as f64 / most.max(1) as f64,
    );
    let slack = Duration::from_secs(4);
    assert!(head_for.max(silent_for) < Duration::from_secs(5) + slack, "{longest:?}");
    assert!(idle_for.max(body_for) < Duration::from_secs(10) + slack, "{longest:?}");
    assert!(p99 < calm_p99 * 3 + Duration::from_millis(50), "{calm_p99:?} {p99:?}");
    assert!(during < before + 16 * 1024 + 32 * most as u64, "{before} KiB {during} KiB");
    assert_eq!(consumer.seen().len(), samples / 4 + 2 * samples);
    let refused = instance.metrics().await.value("hookonce_limited_total", &[("limit", "connections_per_address")]);
    refused as usize
}

#[tokio::test]
async fn slow_senders_and_idle_connections_from_many_addresses_keep_nobody_waiting() {
    let address = |number: usize| Ipv4Addr::new(127, 1, (number / 200) as u8, (number % 200 + 1) as u8);
    let (slow, idle) = (scale(1000, 100), scale(10_000, 1000));
    // With them all places are taken, and whoever comes takes that of one who is idle.
    let refused = siege("many addresses", address, (slow, idle), scale(9_500, 1000)).await;
    assert_eq!(refused, 0);
}

#[tokio::test]
async fn slow_senders_and_idle_connections_from_one_address_get_no_further_than_their_share() {
    let (slow, idle) = (scale(1000, 100), scale(10_000, 1000));
    let refused = siege("one address", |_| Ipv4Addr::new(127, 9, 9, 9), (slow, idle), 900).await;
    assert!(refused >= slow + idle - 1000, "{refused}");
}
