//! Bounds of the listening side: what is beyond one is refused and counted, and keeps nobody else out.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, raw_h2,
};
use crate::support::instance::Instance;
use crate::support::program::hookonce;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::sender::{Delivery, github, stripe};
use crate::support::wire::Wire;
use crate::support::{PATIENCE, eventually};

async fn limited(proxy: &Proxy, limit: &str, count: f64) {
    proxy.counted("hookonce_limited_total", &[("limit", limit)], count).await;
}

/// A connection from this address.
async fn from(address: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// A connection from this address that has had a delivery answered, unless it was refused.
async fn gets_in(address: &str, to: SocketAddr, id: &str) -> Option<TcpStream> {
    let mut stream = from(address, to).await;
    stream.write_all(&github(id).bytes()).await.ok()?;
    let mut first = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut first)).await.expect("an answer, or an end").ok()?;
    (first == *b"HTTP/1.1 200").then_some(stream)
}

async fn closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset is an end too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("the other side closes");
    said
}

#[tokio::test]
async fn what_nobody_uses_makes_room_and_what_is_under_way_does_not() {
    let gate = Gate::closed();
    let behind = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(behind.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = in_front_of(&consumer).top("workers = 1").table("[limits]\nconnections = 2").start();
    let mut idle = Wire::to(proxy.listen).await;
    let mut busy = Wire::with(proxy.listen, &github("e1").bytes()).await;
    consumer.saw(1).await;
    // The third takes the place of the one that says nothing.
    let mut third = Wire::with(proxy.listen, &github("e2").bytes()).await;
    idle.closed().await;
    limited(&proxy, "crowded", 1.0).await;
    consumer.saw(2).await;
    // The fourth finds everybody busy.
    let mut fourth = Wire::to(proxy.listen).await;
    let refused = fourth.answer().await;
    assert_eq!((refused.status, refused.outcome(), refused.json()["code"].as_str()), (503, "limited", Some("limited")));
    assert_eq!(refused.header("retry-after"), Some("5"));
    fourth.closed().await;
    limited(&proxy, "connections", 1.0).await;
    gate.open();
    assert_eq!((busy.answer().await.status, third.answer().await.status), (200, 200));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn no_address_takes_the_places_of_others_unless_it_speaks_for_many() {
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer).top("workers = 4").table("[limits]\nconnections_per_address = 2");
    let proxy = setup.start();
    // Answered each, so that both are seated: the kernel gives a third to another runtime, which may be the faster one.
    let mut held = Vec::new();
    for id in ["h1", "h2"] {
        held.push(gets_in("127.0.0.3", proxy.listen, id).await.unwrap());
    }
    // About half of them are handed on to a runtime that has none, and refused there.
    for _ in 0..8 {
        let mut third = from("127.0.0.3", proxy.listen).await;
        assert!(String::from_utf8_lossy(&closed(&mut third).await).contains("a limit is reached: connections_per_address"));
    }
    limited(&proxy, "connections_per_address", 8.0).await;
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    held.pop();
    eventually("room", async || gets_in("127.0.0.3", proxy.listen, "e2").await).await;
    assert!(proxy.stop().await);

    let proxy = setup.top("trusted_proxies = [\"127.0.0.3\"]").start();
    for _ in 0..5 {
        held.push(from("127.0.0.3", proxy.listen).await);
    }
    let mut last = Wire::with(proxy.listen, &github("e3").bytes()).await;
    assert_eq!(last.answer().await.status, 200);
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "connections_per_address")]), 0.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_connection_is_kept_between_requests_and_not_for_ever() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"200ms\"\nidle_timeout = \"1s\"").start();
    let mut kept = Wire::with(proxy.listen, &github("e1").bytes()).await;
    assert_eq!(kept.answer().await.status, 200);
    let idle_since = Instant::now();
    tokio::time::sleep(Duration::from_millis(600)).await;
    kept.say(&github("e2").bytes()).await;
    assert_eq!(kept.answer().await.status, 200, "a head may begin whenever it likes");
    let idle = Instant::now();
    kept.closed().await;
    assert!(idle.elapsed() >= Duration::from_millis(900), "{:?} of {:?}", idle.elapsed(), idle_since.elapsed());
    assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "header_time")]), 0.0);
    assert!(proxy.stop().await);
}

/// Longer than it takes for a connection to be kept without the buffers of its parser.
const RESTED: Duration = Duration::from_millis(1800);

#[tokio::test]
async fn a_connection_that_rests_goes_on_where_it_was() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top("passthrough = [\"/app\"]").start();
    let mut kept = Wire::with(proxy.listen, &github("e1").bytes()).await;
    assert_eq!(kept.answer().await.status, 200);
    tokio::time::sleep(RESTED).await;
    // Two at once, and the beginning of a third.
    let (second, third) = (github("e2").bytes(), github("e3").bytes());
    kept.say(&[&second[..], &github("e2").bytes(), &third[..10]].concat()).await;
    assert_eq!((kept.answer().await.outcome(), kept.answer().await.outcome()), ("forwarded", "duplicate"));
    tokio::time::sleep(RESTED).await;
    kept.say(&third[10..]).await;
    assert_eq!(kept.answer().await.outcome(), "forwarded");
    tokio::time::sleep(RESTED).await;
    kept.say(b"GET /app HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(kept.answer().await.status, 200);
    tokio::time::sleep(RESTED).await;
    // A byte at a time.
    for byte in github("e4").bytes() {
        kept.say(&[byte]).await;
    }
    assert_eq!(kept.answer().await.outcome(), "forwarded");
    tokio::time::sleep(RESTED).await;
    assert!(proxy.stop().await);
    kept.closed().await;
}

#[tokio::test]
async fn a_body_that_comes_after_its_refusal_is_never_a_request() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top("passthrough = [\"/app\"]").start();
    let hidden = b"POST /app HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    // Refused from its head: nobody waits for the body.
    let head = format!("POST /github HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", hidden.len());
    for pause in [100, 500, 1000, 1200, 1500, 1800, 2500] {
        let mut wire = Wire::with(proxy.listen, head.as_bytes()).await;
        assert_eq!(wire.answer().await.status, 401);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let _ = wire.try_say(hidden).await;
        let _ = timeout(Duration::from_millis(300), wire.rest()).await;
    }
    assert_eq!(consumer.seen().len(), 0, "{:?}", consumer.seen());
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off_and_counted() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"300ms\"\nidle_timeout = \"1m\"").start();
    let mut first = Wire::with(proxy.listen, b"POST /github HTTP/1.1\r\nx: ").await;
    let mut later = Wire::with(proxy.listen, &github("e1").bytes()).await;
    assert_eq!(later.answer().await.status, 200);
    later.say(b"POST /github HTTP/1.1\r\n").await;
    // One byte after the other.
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if later.try_say(b"x").await.is_err() {
            break;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    first.closed().await;
    limited(&proxy, "header_time", 2.0).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_body_that_trickles_is_cut_off_though_it_never_stops() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"400ms\"\nbody_rate = \"1KiB\"").start();
    let delivery = github("e1").with_body("x".repeat(100_000));
    let bytes = delivery.bytes();
    let body_at = bytes.len() - 100_000;
    let mut slow = Wire::with(proxy.listen, &bytes[..body_at + 10]).await;
    let began = Instant::now();
    while began.elapsed() < PATIENCE && slow.try_say(b"x").await.is_ok() && !slow.has_answer() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let answer = slow.answer().await;
    assert_eq!((answer.status, answer.outcome()), (408, "limited"));
    // Whoever brings enough is waited for, however long it takes.
    let large = crate::support::sender::github_with("e2", vec![b' '; 20_000]);
    let bytes = large.bytes();
    let mut steady = Wire::with(proxy.listen, &bytes[..bytes.len() - 20_000]).await;
    for piece in bytes[bytes.len() - 20_000..].chunks(1000) {
        steady.say(piece).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(steady.answer().await.status, 200);
    limited(&proxy, "body_time", 1.0).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn large_bodies_that_come_slowly_keep_no_small_ones_out() {
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer).table("[limits]\nbuffered = \"8MiB\"").both("max_body = \"2MiB\"");
    let proxy = setup.start();
    let forged = github("forged").with("x-hub-signature-256", &format!("sha256={}", "0".repeat(64)));
    let bytes = forged.with_body(vec![b' '; 1 << 20]).bytes();
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(proxy.listen).await.unwrap();
        // All but the last byte.
        let _ = stream.write_all(&bytes[..bytes.len() - 1]).await;
        held.push(stream);
    }
    proxy.counted_at_least("hookonce_limited_total", &[("limit", "buffered_per_address")], 1.0).await;
    assert_eq!(proxy.send(&github("small")).await.status, 200);
    drop(held);
    assert!(proxy.stop().await);

    // The same from many.
    let proxy = setup.start();
    let mut held = Vec::new();
    for number in 0..8 {
        let mut stream = from(&format!("127.0.0.{}", 10 + number), proxy.listen).await;
        let _ = stream.write_all(&bytes[..bytes.len() - 1]).await;
        held.push(stream);
    }
    proxy.counted_at_least("hookonce_limited_total", &[("limit", "buffered")], 1.0).await;
    assert_eq!(proxy.send(&github("small")).await.status, 200);
    drop(held);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn one_address_holds_no_more_than_its_share_with_requests_that_nobody_vouches_for() {
    let consumer = Consumer::answering(200).await;
    // A quarter is 256 KiB: some thirty requests, whatever they announce.
    let proxy = in_front_of(&consumer).table("[limits]\nbuffered = \"1MiB\"").both("max_body = \"64KiB\"").start();
    let bytes = github("forged").bytes();
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = from("127.0.0.3", proxy.listen).await;
        stream.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
        held.push(stream);
    }
    proxy.counted_at_least("hookonce_limited_total", &[("limit", "buffered_per_address")], 5.0).await;
    for number in 0..100 {
        assert_eq!(proxy.send(&github(&format!("e{number}"))).await.status, 200, "others have theirs");
    }
    drop(held);
    eventually("room", async || gets_in("127.0.0.3", proxy.listen, "again").await).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_is_vouched_for_is_held_without_a_bound_for_its_address() {
    let gate = Gate::closed();
    let behind = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(behind.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = in_front_of(&consumer).table("[limits]\nbuffered = \"1MiB\"").both("max_body = \"64KiB\"").start();
    let mut waiting = Vec::new();
    for number in 0..60 {
        waiting.push(Wire::with(proxy.listen, &github(&format!("e{number}")).bytes()).await);
    }
    consumer.saw(60).await;
    gate.open();
    for mut wire in waiting {
        assert_eq!(wire.answer().await.status, 200);
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn strangers_who_take_long_over_a_request_make_room_and_those_who_are_known_do_not() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top("workers = 1").table("[limits]\nconnections = 3").start();
    let bytes = github("slow").with("expect", "100-continue").bytes();
    let part = &bytes[..bytes.len() - 1];
    let mut known = Wire::with(proxy.listen, &github("e1").bytes()).await;
    assert_eq!(known.answer().await.status, 200);
    known.say(part).await;
    let (mut slow, mut other) = (Wire::with(proxy.listen, part).await, Wire::with(proxy.listen, part).await);
    for wire in [&mut known, &mut slow, &mut other] {
        assert_eq!(wire.answer().await.status, 100);
    }
    // None at first: both of them might yet come.
    eventually("a place", async || gets_in("127.0.0.1", proxy.listen, "e2").await).await;
    slow.closed().await;
    proxy.counted_at_least("hookonce_limited_total", &[("limit", "crowded")], 1.0).await;
    known.say(&bytes[bytes.len() - 1..]).await;
    assert_eq!(known.answer().await.status, 200);
    drop(other);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_target_or_a_head_that_is_too_large() {
    let consumer = Consumer::answering(200).await;
    let limits = "[limits]\nuri = \"100B\"\nheader_bytes = \"8KiB\"\nheaders = 20";
    let proxy = in_front_of(&consumer).top("passthrough = [\"/app/*\"]").table(limits).start();
    let target = |length: usize| format!("/app/{}", "x".repeat(length - 5));
    for (length, status) in [(100, 200), (101, 414)] {
        assert_eq!(Delivery::plain("GET", &target(length)).send(proxy.listen).await.status, status);
        assert_eq!(Delivery::plain("GET", &target(length)).send_h2(proxy.listen).await.status, status);
    }
    limited(&proxy, "uri", 2.0).await;
    let many = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("x-{number}: 1\r\n")).collect();
        format!("GET /app/x HTTP/1.1\r\nhost: a\r\n{}\r\n", names.concat()).into_bytes()
    };
    assert_eq!(Wire::with(proxy.listen, &many(19)).await.answer().await.status, 200);
    assert_eq!(Wire::with(proxy.listen, &many(20)).await.answer().await.status, 431);
    limited(&proxy, "headers", 1.0).await;
    let long = |bytes: usize| Delivery::plain("GET", "/app/x").with("x-long", &"x".repeat(bytes));
    assert_eq!(long(4000).send(proxy.listen).await.status, 200);
    assert_eq!(long(9000).send(proxy.listen).await.status, 431);
    limited(&proxy, "headers", 2.0).await;
    let mut over_h2 = Delivery::plain("GET", "/app/x");
    assert_eq!(over_h2.clone().with("x-long", &"x".repeat(9000)).send_h2(proxy.listen).await.status, 431);
    for number in 0..21 {
        let name = http::HeaderName::try_from(format!("x-{number}")).unwrap();
        over_h2.headers.insert(name, http::HeaderValue::from_static("1"));
    }
    assert_eq!(over_h2.send_h2(proxy.listen).await.status, 431);
    limited(&proxy, "headers", 4.0).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_provider_delivers_no_faster_than_it_may_and_forged_ones_use_nothing_up() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).github("rate_limit = \"3/h\"").start();
    for _ in 0..10 {
        assert_eq!(proxy.send(&github("forged").with_body("{}")).await.status, 401);
    }
    for event in ["e1", "e2", "e3"] {
        assert_eq!(proxy.send(&github(event)).await.outcome(), "forwarded");
    }
    let refused = proxy.send(&github("e4")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "limited"));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1100..=1200).contains(&wait), "{wait}");
    assert_eq!(proxy.send(&stripe("e4")).await.outcome(), "forwarded", "others have their own");
    limited(&proxy, "rate", 1.0).await;
    assert_eq!(consumer.seen().len(), 4);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_that_keeps_failing_is_not_tried_faster_than_it_may() {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "bad" { 500 } else { 200 })).await;
    let proxy = in_front_of(&consumer).table("[limits]\nattempts_per_event = \"3/h\"").start();
    for _ in 0..3 {
        assert_eq!(proxy.send(&github("bad")).await.status, 500);
    }
    let refused = proxy.send(&github("bad")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "limited"));
    assert!(refused.header("retry-after").is_some());
    for _ in 0..10 {
        assert!(proxy.send(&github("good")).await.is_success(), "duplicates are no attempts");
    }
    limited(&proxy, "attempts_per_event", 1.0).await;
    assert_eq!(consumer.seen().len(), 4);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_provider_delivers_from_its_networks_alone() {
    let consumer = Consumer::answering(200).await;
    let networks = "allow_networks = [\"127.0.0.1\", \"198.51.100.0/24\"]";
    let proxy = in_front_of(&consumer).top("trusted_proxies = [\"127.0.0.4\"]").github(networks).start();
    let status = async |address: &str, delivery: Delivery| {
        let mut stream = from(address, proxy.listen).await;
        stream.write_all(&delivery.with("connection", "close").bytes()).await.unwrap();
        let said = String::from_utf8_lossy(&closed(&mut stream).await).into_owned();
        said[9..12].parse::<u16>().unwrap()
    };
    let through = |event: &str, hops: &str| github(event).with("x-forwarded-for", hops);
    for (address, delivery, expected) in [
        ("127.0.0.1", github("e1"), 200),
        ("127.0.0.2", github("e2"), 403),
        ("127.0.0.2", through("e3", "198.51.100.7"), 403),
        ("127.0.0.4", through("e4", "198.51.100.7"), 200),
        ("127.0.0.4", through("e5", "198.51.100.7, 203.0.113.1"), 403),
        ("127.0.0.4", through("e6", "203.0.113.1, 198.51.100.7, 127.0.0.4"), 200),
        ("127.0.0.4", github("e7"), 403),
        ("127.0.0.2", stripe("e8"), 200),
    ] {
        let what = format!("{address} {:?}", delivery.headers.get("x-forwarded-for"));
        assert_eq!(status(address, delivery).await, expected, "{what}");
    }
    limited(&proxy, "networks", 4.0).await;
    assert_eq!(proxy.metrics().await.outcome("github", "rejected"), 4.0);
    assert_eq!(consumer.seen().len(), 4);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_cut_off() {
    let piece = Bytes::from(vec![b'x'; 300_000]);
    let consumer = Consumer::deciding(move |_, _| Act::Respond(200, vec![], piece.clone())).await;
    let limits = "[limits]\nanswer = \"64KiB\"\nanswer_max = \"200KiB\"";
    let proxy = in_front_of(&consumer).table(limits).start();
    let wire = Wire::with(proxy.listen, &github("e1").bytes()).await;
    let said = wire.rest().await.unwrap_or_default();
    assert!(said.len() < (200 << 10) + 1000, "no more than that, its head aside: {}", said.len());
    limited(&proxy, "answer", 1.0).await;
    proxy.in_state("github", "e1", "done").await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_reply_that_is_not_taken_is_not_kept_for_ever() {
    let large = Bytes::from(vec![b'x'; 32 << 20]);
    let consumer = Consumer::deciding(move |_, _| Act::Respond(200, vec![], large.clone())).await;
    let setup = in_front_of(&consumer).top("passthrough = [\"/large\"]");
    let proxy = setup.table("[limits]\nidle_timeout = \"500ms\"").start();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(proxy.listen).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    limited(&proxy, "reply_time", 1.0).await;
    assert!(closed(&mut stream).await.len() < 32 << 20);
    eventually("the consumer's connection is free", async || (consumer.open_connections() == 0).then_some(())).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn as_many_files_are_open_as_the_system_allows() {
    let consumer = Consumer::answering(200).await;
    let mut command = Command::new("prlimit");
    command.arg("--nofile=256:2000").arg("--").arg(hookonce().get_program());
    let instance = Instance::start_as(command, &in_front_of(&consumer)).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", instance.program.process())).unwrap();
    let files: Vec<&str> = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(files[3..5], ["2000", "2000"]);
}

// ---- HTTP/2 ----

async fn h2(to: SocketAddr) -> SendRequest<Bytes> {
    let (sender, connection) = h2::client::handshake(TcpStream::connect(to).await.unwrap()).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    sender
}

fn request(path: &str) -> Request<()> {
    Request::post(format!("http://a{path}")).body(()).unwrap()
}

#[tokio::test]
async fn streams_that_are_opened_and_given_up_again_and_again_end_their_connection() {
    let consumer = Consumer::deciding(|seen, _| if seen.target == "/slow" { Act::Hang } else { Act::Answer(200) }).await;
    let proxy = in_front_of(&consumer).top("passthrough = [\"/slow\"]\nworkers = 1").start();
    let mut sender = h2(proxy.listen).await;
    let mut opened = 0;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        sender = match sender.ready().await {
            Ok(ready) => ready,
            Err(_) => break,
        };
        let Ok((response, mut stream)) = sender.send_request(request("/slow"), false) else { break };
        opened += 1;
        // Accepted, so that the library's own bound on streams that never were does not count it.
        tokio::task::yield_now().await;
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    assert!(opened < 20_000, "{opened}");
    proxy.counted_at_least("hookonce_limited_total", &[("limit", "resets")], 1.0).await;
    assert_eq!(proxy.send(&github("e1")).await.status, 200, "others are served");
    assert!(proxy.stop().await);
}

/// `POST` to `/github` at `a`, as HPACK writes it.
fn head(path: &str) -> Vec<u8> {
    let path_length = u8::try_from(path.len()).unwrap();
    [&[0x83, 0x86, 0x41, 1, b'a', 0x04, path_length], path.as_bytes()].concat()
}

/// Writes until the other side has had enough.
async fn flood(stream: &mut TcpStream, piece: &[u8], bytes_max: usize) -> usize {
    let mut written = 0;
    while written < bytes_max {
        match timeout(Duration::from_secs(2), stream.write_all(piece)).await {
            Ok(Ok(())) => written += piece.len(),
            _ => break,
        }
    }
    written
}

#[tokio::test]
async fn a_head_over_http2_that_does_not_end_takes_no_memory_and_no_time() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"500ms\"").start();
    let mut stream = raw_h2(proxy.listen, &[]).await;
    stream.write_all(&frame(HEADERS, 0, 1, &head("/github"))).await.unwrap();
    // Header after header, none of which is the last: a literal without a name in the table.
    let header = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]].concat();
    let piece = frame(CONTINUATION, 0, 1, &header.repeat(100));
    let written = flood(&mut stream, &piece, 64 << 20).await;
    assert!(written < 8 << 20, "{written}");
    closed(&mut stream).await;

    // One that is merely slow.
    let mut slow = raw_h2(proxy.listen, &[]).await;
    slow.write_all(&frame(HEADERS, 0, 1, &head("/github"))).await.unwrap();
    let began = Instant::now();
    closed(&mut slow).await;
    assert!(began.elapsed() < Duration::from_secs(5));
    proxy.counted_at_least("hookonce_limited_total", &[("limit", "header_time")], 1.0).await;
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn frames_that_only_keep_us_busy_do_not_keep_a_connection_open() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"1s\"\nidle_timeout = \"1s\"").start();
    for kind in [PING, SETTINGS] {
        let mut stream = raw_h2(proxy.listen, &[]).await;
        let piece = frame(kind, 0, 0, if kind == PING { &[7; 8] } else { &[] });
        let began = Instant::now();
        while began.elapsed() < PATIENCE && stream.write_all(&piece).await.is_ok() {
            // The answers are taken as they come.
            let mut taken = [0; 4096];
            let _ = stream.try_read(&mut taken);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(8), "{kind}: {:?}", began.elapsed());
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn streams_that_are_reset_unseen_end_their_connection() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let mut stream = raw_h2(proxy.listen, &[]).await;
    let pieces: Vec<u8> = (0..2000)
        .flat_map(|number| {
            let id = 2 * number + 1;
            [frame(HEADERS, END_HEADERS, id, &head("/github")), frame(RST_STREAM, 0, id, &8u32.to_be_bytes())].concat()
        })
        .collect();
    let _ = stream.write_all(&pieces).await;
    closed(&mut stream).await;
    limited(&proxy, "resets", 1.0).await;
    assert_eq!(consumer.seen().len(), 0);
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_window_that_is_never_opened_holds_nothing_for_long() {
    let large = Bytes::from(vec![b'x'; 8 << 20]);
    let consumer = Consumer::deciding(move |_, _| Act::Respond(200, vec![], large.clone())).await;
    let setup = in_front_of(&consumer).top("passthrough = [\"/large\"]");
    let proxy = setup.table("[limits]\nidle_timeout = \"700ms\"").start();
    // SETTINGS_INITIAL_WINDOW_SIZE of nought.
    let mut stream = raw_h2(proxy.listen, &[0, 4, 0, 0, 0, 0]).await;
    for number in 0..10 {
        stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &head("/large"))).await.unwrap();
    }
    consumer.saw(10).await;
    closed(&mut stream).await;
    limited(&proxy, "reply_time", 1.0).await;
    eventually("the consumer's connections are free", async || (consumer.open_connections() == 0).then_some(())).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn one_reply_that_is_not_taken_is_seen_among_others_that_are() {
    let large = Bytes::from(vec![b'x'; 8 << 20]);
    let consumer = Consumer::deciding(move |seen, _| match &*seen.target {
        "/large" => Act::Respond(200, vec![], large.clone()),
        _ => Act::Answer(200),
    })
    .await;
    let setup = in_front_of(&consumer).top("passthrough = [\"/large\", \"/small\"]\nworkers = 1");
    let proxy = setup.table("[limits]\nidle_timeout = \"1s\"").start();
    let mut stream = raw_h2(proxy.listen, &[]).await;
    // The connection has room for more, the stream has not.
    stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())).await.unwrap();
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("/large"))).await.unwrap();
    // Whoever asks on, for little, keeps the connection busy.
    let began = Instant::now();
    for number in 1..2000 {
        let _ = stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &head("/small"))).await;
        let mut taken = [0; 16384];
        if matches!(timeout(Duration::from_millis(20), stream.read(&mut taken)).await, Ok(Ok(0) | Err(_))) {
            break;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    limited(&proxy, "reply_time", 1.0).await;
    eventually("the consumer's connection is free", async || (consumer.open_connections() <= 1).then_some(())).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn more_streams_than_may_be_open_are_refused() {
    let gate = Gate::closed();
    let behind = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(behind.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = in_front_of(&consumer).top("passthrough = [\"/app\"]").table("[limits]\nstreams = 3").start();
    let mut stream = raw_h2(proxy.listen, &[]).await;
    for number in 0..10 {
        stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &head("/app"))).await.unwrap();
    }
    consumer.saw(3).await;
    // REFUSED_STREAM for the others.
    let mut read = Vec::new();
    let refused = |read: &[u8]| read.windows(13).filter(|w| w[..4] == [0, 0, 4, RST_STREAM] && w[9..] == [0, 0, 0, 7]).count();
    while refused(&read) < 7 {
        assert!(timeout(PATIENCE, stream.read_buf(&mut read)).await.unwrap().unwrap() > 0);
    }
    assert_eq!(consumer.seen().len(), 3);
    gate.open();
    assert!(proxy.stop().await);
}
