//! Headers of a connection: they go no further, and nobody uses them to take away a header of an event.

use crate::raw::{OK, Recorder, Says};
use crate::support::sender::{Delivery, github};
use crate::support::wire::Wire;

#[tokio::test]
async fn a_connection_that_names_a_header_of_the_event_is_refused_before_its_signature() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let signed = || github("e1").with("hookonce-event-id", "forged").with("x-forwarded-for", "198.51.100.1");
    for names in [
        "close, X-Hub-Signature-256, Hookonce-Event-Id",
        "x-hub-signature-256",
        "X-GITHUB-DELIVERY",
        "keep-alive,x-github-event",
        "close,\tx-hub-signature-256 ",
        ",,x-hub-signature-256,,",
        "content-length",
        "content-type",
        "host",
        "hookonce-event-id",
        "x-forwarded-for",
    ] {
        for delivery in [signed(), signed().with("x-hub-signature-256", "sha256=00")] {
            let answer = proxy.send(&delivery.with("connection", names)).await;
            let reason = answer.json()["reason"].as_str().map(str::to_owned);
            assert_eq!((answer.status, reason.as_deref()), (400, Some("Connection names a header of the event")), "{names}");
        }
    }
    let twice = signed().with("connection", "close").also("connection", "x-hub-signature-256");
    assert_eq!(proxy.send(&twice).await.status, 400);
    assert_eq!(proxy.metrics().await.outcome("github", "rejected"), 23.0);
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn what_is_of_the_connection_stays_behind_and_the_event_goes_on() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let delivery = github("e1")
        .with("connection", "keep-alive, Upgrade, HTTP2-Settings, TE, x-absent")
        .with("upgrade", "h2c")
        .with("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA")
        .with("keep-alive", "timeout=5")
        .with("te", "trailers")
        .with("trailer", "x-late")
        .with("proxy-connection", "keep-alive")
        .with("proxy-authorization", "Basic eA==")
        .with("proxy-authenticate", "Basic")
        .with("expect", "100-continue");
    let mut wire = delivery.begin(proxy.listen).await;
    assert_eq!(wire.answer().await.status, 100);
    assert_eq!(wire.answer().await.status, 200);
    drop(wire);
    // Named by nobody, they are of the connection all the same.
    assert_eq!(proxy.send(&github("e2").with("http2-settings", "AA").with("te", "gzip")).await.status, 200);
    assert!(proxy.stop().await);
    for request in recorder.requests() {
        let head = request.head.to_lowercase();
        for name in ["connection", "upgrade", "http2-settings", "keep-alive", "te", "trailer", "proxy-", "expect"] {
            assert!(!head.contains(&format!("\n{name}")), "{name}: {head}");
        }
        assert_eq!((request.all("x-hub-signature-256").len(), request.all("x-github-delivery").len()), (1, 1));
    }
}

#[tokio::test]
async fn what_is_passed_through_keeps_what_says_who_asks_for_what() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    let names = "close, host, content-length, content-type, x-forwarded-for, forwarded, authorization, cookie, x-named";
    let request = Delivery::plain("POST", "/app/x")
        .with("connection", names)
        .with("content-type", "text/plain")
        .with("x-forwarded-for", "198.51.100.1")
        .with("forwarded", "for=198.51.100.1")
        .with("authorization", "Basic eA==")
        .with("cookie", "a=1")
        .with("x-named", "1")
        .with_body("body");
    let mut wire = request.begin(proxy.listen).await;
    assert_eq!(wire.answer().await.status, 200);
    drop(wire);
    assert!(proxy.stop().await);
    let [request] = recorder.requests().try_into().unwrap();
    assert_eq!((request.all("x-named").len(), request.all("connection").len()), (0, 0));
    assert_eq!((request.all("host"), &request.body[..]), (vec!["localhost"], &b"body"[..]));
    for name in ["content-type", "x-forwarded-for", "forwarded", "authorization", "cookie"] {
        assert_eq!(request.all(name).len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_coding_named_by_the_connection_leaves_no_length_behind() {
    let recorder = Recorder::saying(|_| Says::closing(OK)).await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    let bytes = "POST /app/x HTTP/1.1\r\nhost: a\r\nconnection: transfer-encoding, content-length\r\ncontent-length: 5\r\n\
                 transfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let mut wire = Wire::with(proxy.listen, bytes.as_bytes()).await;
    wire.heard_or_closed("\r\n\r\n").await;
    drop(wire);
    assert!(proxy.stop().await);
    let text = recorder.text().to_lowercase();
    assert!(!text.contains("content-length: 5"), "{text}");
}
