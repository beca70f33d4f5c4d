//! Requests inside requests: whatever framing a sender makes up, the consumer sees one request for each that was verified,
//! framed anew by one length, and never a byte that was hidden behind it.

use crate::frames::{Ended, Frames};
use crate::raw::Recorder;
use crate::support::proxy::{Proxy, Setup};
use crate::support::sender::{Delivery, github, github_with};
use crate::support::wire::Wire;

/// What an attacker hides behind, or inside, a request.
const HIDDEN: &str = "POST /github HTTP/1.1\r\nhost: localhost\r\nx-hidden: smuggled\r\ncontent-length: 2\r\n\r\n{}";

fn patient(setup: Setup) -> Setup {
    setup.table("[limits]\nheader_timeout = \"300ms\"\nbody_timeout = \"300ms\"")
}

/// A genuine delivery whose framing is this, and whose body is these bytes; both in the attacker's hands.
fn framed(delivery: &Delivery, framing: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST {} HTTP/1.1\r\nhost: localhost\r\n{framing}", delivery.path).into_bytes();
    for (name, value) in &delivery.headers {
        bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// Says this on a connection of its own and waits for an answer, or the end.
async fn said(proxy: &Proxy, bytes: &[u8]) -> Option<u16> {
    let mut wire = Wire::with(proxy.listen, bytes).await;
    wire.heard_or_closed("\r\n\r\n").await;
    wire.said().split(' ').nth(1).and_then(|status| status.parse().ok())
}

fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// Framings that are wrong in themselves: nothing of the request is believed.
#[tokio::test]
async fn a_framing_that_two_readers_could_take_differently_reaches_nobody() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let body = String::from_utf8(github("e1").body.to_vec()).unwrap();
    let length = body.len();
    let lengths = [
        format!("content-length: +{length}\r\n"),
        format!("content-length: -{length}\r\n"),
        format!("content-length: {length},{length}\r\n"),
        format!("content-length: {length}, {length}\r\n"),
        format!("content-length: 0x{length:x}\r\n"),
        format!("content-length: {length} 0\r\n"),
        format!("content-length: {length}.0\r\n"),
        format!("content-length: {length}\u{b}\r\n"),
        format!("content-length: {length}_\r\n"),
        "content-length: \r\n".to_owned(),
        "content-length: 99999999999999999999999\r\n".to_owned(),
        "content-length: 18446744073709551616\r\n".to_owned(),
        format!("content-length: {length}\r\ncontent-length: 0\r\n"),
        format!("content-length: 0\r\ncontent-length: {length}\r\n"),
        format!("content-length : {length}\r\n"),
        format!("content-length\t: {length}\r\n"),
        format!(" content-length: {length}\r\n"),
        format!("x: y\r\n content-length: {length}\r\n"),
        format!("x: y\rcontent-length: {length}\r\n"),
        format!("x: y\0\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\0\r\n"),
        format!("content\0-length: {length}\r\n"),
    ];
    for framing in &lengths {
        let status = said(&proxy, &framed(&github("e1"), framing, format!("{body}{HIDDEN}").as_bytes())).await;
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{framing:?}: {status:?}");
    }
    let codings = [
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: chunked\u{b}\r\n",
        "transfer-encoding: \u{b}chunked\r\n",
        "transfer-encoding: \"chunked\"\r\n",
        "transfer-encoding: chunked;q=1\r\n",
        "transfer-encoding:\r\n chunked\r\n",
        "transfer-encoding: x\r\n chunked\r\n",
        "transfer-encoding : chunked\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "x: y\ntransfer-encoding: chunked\0\r\n",
    ];
    for framing in codings {
        for framing in [framing.to_owned(), format!("{framing}content-length: {length}\r\n")] {
            let whole = format!("{}0\r\n\r\n{HIDDEN}", chunk(&body));
            let status = said(&proxy, &framed(&github("e1"), &framing, whole.as_bytes())).await;
            assert!(status.is_none_or(|status| (400..500).contains(&status)), "{framing:?}: {status:?}");
        }
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn a_length_beside_a_coding_hides_nothing_in_either_order() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let mut forwarded = 0;
    let beside = [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
        "transfer-encoding: gzip, chunked\r\ncontent-length: 4\r\n",
        "transfer-encoding: identity, chunked\r\ncontent-length: 4\r\n",
        "transfer-encoding: chunked, chunked\r\ncontent-length: 4\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "transfer-encoding:\tchunked \r\ncontent-length: 4\r\n",
        "connection: transfer-encoding\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ];
    for (nth, framing) in beside.iter().enumerate() {
        let delivery = github(&format!("e{nth}"));
        let body = String::from_utf8(delivery.body.to_vec()).unwrap();
        let whole = format!("{}0\r\n\r\n{HIDDEN}", chunk(&body));
        let status = said(&proxy, &framed(&delivery, framing, whole.as_bytes())).await;
        forwarded += usize::from(status == Some(200));
        // The other reading: the length counts, and the rest is a request.
        let forged = format!("{}\r\n{HIDDEN}", chunk(&body));
        let status = said(&proxy, &framed(&delivery, framing, format!("0\r\n\r\n{forged}").as_bytes())).await;
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{framing:?}: {status:?}");
    }
    assert!(proxy.stop().await);
    assert!(forwarded > 0);
    assert_eq!(recorder.requests().len(), forwarded);
    assert!(!recorder.text().contains("smuggled"), "{}", recorder.text());
}

#[tokio::test]
async fn chunks_that_are_none_break_the_body_off() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let body = String::from_utf8(github("e1").body.to_vec()).unwrap();
    let length = body.len();
    let bodies = [
        format!("+{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("-{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("0x{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("{length:x}_\r\n{body}\r\n0\r\n\r\n"),
        format!("fffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
        format!("ffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
        format!("7fffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
        format!("\r\n{body}\r\n0\r\n\r\n"),
        format!("{length:x}\r\n{body}0\r\n\r\n"),
        format!("{length:x}\r\n{body}xx0\r\n\r\n"),
        format!("{length:x}\n{body}\n0\n\n"),
        format!("{length:x}\r{body}\r\n0\r\n\r\n"),
        format!("{length:x};a\nb\r\n{body}\r\n0\r\n\r\n"),
        // The last one never comes.
        format!("{length:x}\r\n{body}\r\n"),
        format!("{length:x}\r\n{body}\r\n0\r\n"),
        format!("{length:x}\r\n{body}\r\n0\r\nx"),
        // A name for a chunk, longer than any.
        format!("{length:x};{}\r\n{body}\r\n0\r\n\r\n", "x".repeat(20_000)),
    ];
    for bytes in &bodies {
        let status = said(&proxy, &framed(&github("e1"), "transfer-encoding: chunked\r\n", bytes.as_bytes())).await;
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{bytes:?}: {status:?}");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn what_may_stand_beside_chunks_goes_nowhere() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let delivery = github("e1");
    let body = String::from_utf8(delivery.body.to_vec()).unwrap();
    let trailers = "content-length: 999\r\nhost: evil\r\nx-hidden: smuggled\r\nhookonce-event-id: smuggled\r\n";
    let whole = format!("{:x};smuggled=\"1\"\r\n{body}\r\n0;smuggled\r\n{trailers}\r\n", body.len());
    let framing = "transfer-encoding: chunked\r\ntrailer: x-hidden, content-length\r\n";
    assert_eq!(said(&proxy, &framed(&delivery, framing, whole.as_bytes())).await, Some(200));
    assert!(proxy.stop().await);
    let [request] = recorder.requests().try_into().unwrap();
    assert_eq!((request.body, request.head.contains("smuggled")), (body.into_bytes(), false));
    assert_eq!(recorder.text().matches("evil").count(), 0);
}

#[tokio::test]
async fn what_follows_a_request_is_judged_as_a_request() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    // Genuine, forged, genuine, and another path, in one write.
    let other = HIDDEN.replace("/github", "/app");
    let bytes = [&github("e1").bytes()[..], HIDDEN.as_bytes(), &github("e2").bytes(), other.as_bytes(), &github("e1").bytes()];
    let mut wire = Wire::with(proxy.listen, &bytes.concat()).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(wire.answer().await.status);
    }
    assert_eq!(statuses, [200, 401, 200, 404, 200]);
    // More than its length says: the rest begins another request, which is none.
    let long = framed(&github("e3"), &format!("content-length: {}\r\n", github("e3").body.len()), &github("e3").body);
    let mut wire = Wire::with(proxy.listen, &[&long[..], b"{\"more\":1}"].concat()).await;
    assert_eq!(wire.answer().await.status, 200);
    assert_eq!(wire.answer().await.status, 400);
    wire.closed().await;
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 3);
    assert!(!recorder.text().contains("smuggled") && !recorder.text().contains("more"));
}

#[tokio::test]
async fn lines_that_end_otherwise_and_older_versions_are_one_request_or_none() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let delivery = github("e1");
    let framing = format!("content-length: {}\r\n", delivery.body.len());
    let plain = String::from_utf8(framed(&delivery, &framing, &delivery.body)).unwrap();
    let head_in_lf = {
        let (head, body) = plain.split_once("\r\n\r\n").unwrap();
        format!("{}\n\n{body}", head.replace("\r\n", "\n"))
    };
    let chunked = format!("{}0\r\n\r\n{HIDDEN}", chunk(std::str::from_utf8(&delivery.body).unwrap()));
    let coded = String::from_utf8(framed(&delivery, "transfer-encoding: chunked\r\n", chunked.as_bytes())).unwrap();
    for bytes in [
        head_in_lf,
        format!("\r\n{plain}"),
        plain.replacen("HTTP/1.1", "HTTP/1.0", 1),
        plain.replacen("HTTP/1.1", "HTTP/1.1 ", 1),
        plain.replacen("HTTP/1.1", "HTTP/1.2", 1),
        plain.replacen("HTTP/1.1", "HTTP/2.0", 1),
        plain.replacen("HTTP/1.1", "http/1.1", 1),
        plain.replacen("POST ", "POST  ", 1),
        plain.replacen("POST ", " POST ", 1),
        coded.replacen("HTTP/1.1", "HTTP/1.0", 1),
        plain.replacen("content-length:", "content-length:\r\n", 1),
        plain.replacen("\r\n\r\n", "\r\r\n", 1),
        plain.replace("\r\n", "\r"),
    ] {
        said(&proxy, bytes.as_bytes()).await;
    }
    assert!(proxy.stop().await);
    // All of them are one event, so that at most one may have been taken.
    let requests = recorder.requests();
    assert!(requests.len() <= 1, "{requests:?}");
    assert!(!recorder.text().contains("smuggled"));
}

/// The consumer's framing is made from the body that was verified, and from nothing that a sender says.
#[tokio::test]
async fn the_consumer_gets_one_length_of_its_own_whatever_the_sender_said() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let length = github("e1").body.len();
    let twice = format!("content-length: {length}\r\ncontent-length: {length}\r\n");
    let padded = format!("content-length:   {length}  \r\n");
    let zeros = format!("content-length: 000{length}\r\n");
    for (event, framing) in [("e1", twice), ("e2", padded), ("e3", zeros)] {
        said(&proxy, &framed(&github(event), &framing, &github(event).body)).await;
    }
    for event in ["e4", "e5"] {
        let empty = github_with(event, "");
        assert_eq!(said(&proxy, &if event == "e4" { empty.bytes() } else { empty.chunked(1) }).await, Some(200));
    }
    assert!(proxy.stop().await);
    let requests = recorder.requests();
    assert!(requests.len() >= 4, "{requests:?}");
    for request in requests {
        assert_eq!(request.all("content-length"), [request.body.len().to_string()], "{request:?}");
    }
}

/// A genuine delivery as fields of HTTP/2.
fn fields(delivery: &Delivery) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields = vec![
        (b":method".to_vec(), b"POST".to_vec()),
        (b":scheme".to_vec(), b"http".to_vec()),
        (b":authority".to_vec(), b"localhost".to_vec()),
        (b":path".to_vec(), delivery.path.clone().into_bytes()),
    ];
    fields.extend(delivery.headers.iter().map(|(name, value)| (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec())));
    fields
}

#[tokio::test]
async fn over_http_2_what_would_frame_or_split_a_request_of_http_1_is_refused() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).start();
    let delivery = github("e1");
    let length = delivery.body.len();
    let added: Vec<(&[u8], Vec<u8>)> = vec![
        (b"content-length", (length - 1).to_string().into_bytes()),
        (b"content-length", (length + 1).to_string().into_bytes()),
        (b"content-length", b"0".to_vec()),
        (b"content-length", format!("+{length}").into_bytes()),
        (b"content-length", format!("{length}\r\nx-hidden: smuggled").into_bytes()),
        (b"transfer-encoding", b"chunked".to_vec()),
        (b"connection", b"close".to_vec()),
        (b"keep-alive", b"timeout=5".to_vec()),
        (b"proxy-connection", b"close".to_vec()),
        (b"upgrade", b"h2c".to_vec()),
        (b"te", b"chunked".to_vec()),
        (b"x", b"y\r\nx-hidden: smuggled".to_vec()),
        (b"x", b"y\nx-hidden: smuggled".to_vec()),
        (b"x", b"y\0smuggled".to_vec()),
        (b"x\r\nx-hidden", b"smuggled".to_vec()),
        (b"x-hidden: smuggled\r\nx", b"y".to_vec()),
        (b"X-Hidden", b"smuggled".to_vec()),
        (b"x hidden", b"smuggled".to_vec()),
        (b"", b"smuggled".to_vec()),
        (b":path", b"/smuggled".to_vec()),
        (b":hidden", b"smuggled".to_vec()),
        (b":status", b"200".to_vec()),
    ];
    for (name, value) in &added {
        let mut all = fields(&delivery);
        all.push((name.to_vec(), value.clone()));
        let ended = Frames::to(proxy.listen).await.request(&all, Some(&delivery.body)).await;
        assert_ne!(ended, Ended::Status(200), "{:?}: {:?}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    }
    let replaced: Vec<(&[u8], &[u8])> = vec![
        (b":path", b"/github HTTP/1.1\r\nx-hidden: smuggled\r\n\r\n"),
        (b":path", b"/github x"),
        (b":path", b"github"),
        (b":path", b"*"),
        (b":path", b""),
        (b":path", b"/github\0"),
        (b":path", b"/github\nx"),
        (b":method", b"POST /smuggled HTTP/1.1\r\nx: y\r\n\r\nPOST"),
        (b":method", b"CONNECT"),
        (b":scheme", b"http://smuggled/?"),
        (b":authority", b"localhost\r\nx-hidden: smuggled"),
        (b":authority", b"localhost/smuggled"),
        (b":authority", b"a@localhost"),
    ];
    for (name, value) in replaced {
        let mut all = fields(&delivery);
        all.iter_mut().find(|(other, _)| other == name).unwrap().1 = value.to_vec();
        let ended = Frames::to(proxy.listen).await.request(&all, Some(&delivery.body)).await;
        assert_ne!(ended, Ended::Status(200), "{:?}", String::from_utf8_lossy(value));
    }
    assert!(proxy.stop().await);
    let text = recorder.text();
    assert!(!text.contains("smuggled"), "{text}");
    assert_eq!(recorder.requests().len(), 0, "{text}");
}

#[tokio::test]
async fn over_http_2_a_request_that_ends_at_its_head_carries_no_length() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).top("passthrough = [\"/app/*\"]").start();
    let delivery = Delivery::plain("POST", "/app/x");
    let mut all = fields(&delivery);
    all.push((b"content-length".to_vec(), b"100".to_vec()));
    let ended = Frames::to(proxy.listen).await.request(&all, None).await;
    assert_ne!(ended, Ended::Status(200));
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 0);
}

/// What is passed through goes on while it comes: where its length turns out to be a lie, the consumer's connection is not used
/// again, so that nothing is taken for the rest of it.
#[tokio::test]
async fn over_http_2_a_length_that_lies_spoils_no_connection_for_the_next() {
    let recorder = Recorder::new().await;
    let proxy = patient(recorder.setup().await).top("workers = 1\npassthrough = [\"/app/*\"]").start();
    for (length, body) in [("100", HIDDEN), ("2", HIDDEN), ("0", HIDDEN)] {
        let mut all = fields(&Delivery::plain("POST", "/app/x"));
        all.push((b"content-length".to_vec(), length.as_bytes().to_vec()));
        let ended = Frames::to(proxy.listen).await.request(&all, Some(body.as_bytes())).await;
        assert_ne!(ended, Ended::Status(200), "{length}");
    }
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    assert!(proxy.stop().await);
    let requests: Vec<_> = recorder.whole_requests().into_iter().filter(|request| request.target() == "/github").collect();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].all("hookonce-event-id"), ["e1"]);
}
