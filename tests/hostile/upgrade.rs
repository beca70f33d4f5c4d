//! Other protocols: nobody is switched to one, and nobody gets a tunnel, from either side.

use crate::frames::{Ended, Frames};
use crate::raw::{Recorder, Says};
use crate::support::proxy::{Proxy, Setup};
use crate::support::sender::github;
use crate::support::wire::Wire;

const BEHIND: &str = "POST /github HTTP/1.1\r\nhost: localhost\r\nx-hidden: tunnelled\r\ncontent-length: 2\r\n\r\n{}";

fn open(setup: Setup) -> Setup {
    setup.top("passthrough = [\"/app/*\"]").table("[limits]\nheader_timeout = \"300ms\"\nbody_timeout = \"300ms\"")
}

async fn statuses(proxy: &Proxy, bytes: &str) -> Vec<String> {
    let mut wire = Wire::with(proxy.listen, bytes.as_bytes()).await;
    wire.heard_or_closed("\r\n\r\n").await;
    wire.said().split("HTTP/1.").skip(1).map(|answer| answer.split(' ').nth(1).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn who_asks_to_upgrade_is_answered_as_if_it_had_not() {
    let recorder = Recorder::new().await;
    let proxy = open(recorder.setup().await).start();
    let asking = |event: &str, headers: &str| {
        let bytes = String::from_utf8(github(event).bytes()).unwrap();
        bytes.replacen("host: localhost\r\n", &format!("host: localhost\r\n{headers}"), 1) + BEHIND
    };
    let websocket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    let h2c = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n";
    for (event, headers) in [("e1", websocket), ("e2", h2c), ("e3", "connection: upgrade\r\nupgrade: TLS/1.0, h2c\r\n")] {
        let mut wire = Wire::with(proxy.listen, asking(event, headers).as_bytes()).await;
        // What follows is a request like any other, and is not signed.
        assert_eq!((wire.answer().await.status, wire.answer().await.status), (200, 401), "{headers}");
    }
    // What is passed through is not upgraded either.
    let passed = format!("GET /app HTTP/1.1\r\nhost: localhost\r\n{websocket}\r\n");
    assert_eq!(statuses(&proxy, &passed).await, ["200"]);
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 4);
    let text = recorder.text().to_lowercase();
    assert!(!text.contains("tunnelled") && !text.contains("\r\nupgrade:") && !text.contains("settings"), "{text}");
}

#[tokio::test]
async fn nobody_is_connected_to_anything() {
    let recorder = Recorder::new().await;
    let proxy = open(recorder.setup().await).start();
    let to = recorder.address;
    for target in [
        to.to_string(),
        format!("http://{to}/"),
        format!("http://{to}/github"),
        format!("http://{to}/app"),
        "/github".into(),
        "/app".into(),
        "localhost:80".into(),
    ] {
        let bytes = format!("CONNECT {target} HTTP/1.1\r\nhost: {to}\r\ncontent-length: 0\r\n\r\n{BEHIND}");
        let statuses = statuses(&proxy, &bytes).await;
        assert!(statuses.first().is_none_or(|status| status.starts_with('4')), "{target}: {statuses:?}");
    }
    let field = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let plain = vec![field(":method", "CONNECT"), field(":authority", &to.to_string())];
    let mut extended = vec![field(":method", "CONNECT"), field(":scheme", "http"), field(":path", "/app")];
    extended.extend([field(":authority", "localhost"), field(":protocol", "websocket")]);
    for fields in [plain, extended] {
        let ended = Frames::to(proxy.listen).await.request(&fields, Some(BEHIND.as_bytes())).await;
        assert_ne!(ended, Ended::Status(200), "{fields:?}");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn a_consumer_that_switches_protocols_gives_the_sender_no_tunnel() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nraw bytes of a tunnel";
    let recorder = Recorder::saying(move |_| Says::staying(switch)).await;
    let proxy = open(recorder.setup().await).both("lease = \"1s\"").start();
    let asked = String::from_utf8(github("e1").bytes()).unwrap();
    let asked = asked.replacen("host: localhost\r\n", "host: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n", 1);
    let mut wire = Wire::with(proxy.listen, asked.as_bytes()).await;
    let answer = wire.answer().await;
    // It was sent, and what became of it is not known.
    assert_eq!((answer.status, answer.outcome()), (504, "ambiguous"));
    assert_eq!(proxy.event("github", "e1").await.unwrap()["state"], "claimed");
    let passed = "GET /app HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let mut tunnel = Wire::with(proxy.listen, passed.as_bytes()).await;
    assert_eq!(tunnel.answer().await.status, 504);
    assert!(!wire.said().contains("tunnel") && !tunnel.said().contains("tunnel"));
    drop((wire, tunnel));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_is_no_request_of_http_1_or_2_is_none() {
    let recorder = Recorder::new().await;
    let proxy = open(recorder.setup().await).start();
    let genuine = String::from_utf8(github("e1").bytes()).unwrap();
    for bytes in [
        "GET /\r\n\r\n".to_owned(),
        "GET /app\r\n".to_owned(),
        "POST /github\r\n\r\n{}".to_owned(),
        "\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03".to_owned(),
        "SSH-2.0-OpenSSH\r\n".to_owned(),
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_owned(),
        "PRI * HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "GET * HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
    ] {
        let statuses = statuses(&proxy, &bytes).await;
        assert!(statuses.iter().all(|status| status.starts_with('4')), "{bytes:?}: {statuses:?}");
    }
    assert_eq!(recorder.text(), "");
    // HTTP/2 begins a connection and is no second request on one.
    let mut wire = Wire::with(proxy.listen, format!("{genuine}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{BEHIND}").as_bytes()).await;
    assert_eq!(wire.answer().await.status, 200);
    wire.closed().await;
    assert!(!wire.said().contains("HTTP/1.1 2"), "{}", wire.said());
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 1);
}
