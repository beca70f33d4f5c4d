//! The admin side: on a port of its own, with the same answer for every wrong token, and nothing changed by a look.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::sender::{Answer, Delivery, SECRET, stripe};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

async fn guarded() -> (Consumer, Proxy) {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    assert_eq!(proxy.send(&stripe("e1")).await.status, 200);
    (consumer, proxy)
}

async fn ask(proxy: &Proxy, method: &'static str, path: &str, authorization: &str) -> Answer {
    proxy.admin(&Delivery::plain(method, path).with("authorization", authorization)).await
}

#[tokio::test]
async fn the_scheme_of_a_token_is_read_in_any_case() {
    let (_consumer, proxy) = guarded().await;
    for scheme in ["Bearer", "bearer", "BEARER", "BeArEr"] {
        assert_eq!(ask(&proxy, "GET", "/api/events?provider=stripe", &format!("{scheme} {TOKEN}")).await.status, 200, "{scheme}");
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn every_wrong_token_gets_the_same_answer_and_changes_nothing() {
    let (consumer, proxy) = guarded().await;
    let almost = format!("{}0", &TOKEN[..31]);
    let wrong = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Bearer {almost}"),
        format!("Bearer {}", &TOKEN[..16]),
        format!("Bearer {TOKEN}x"),
        format!("Bearer  {TOKEN}"),
        format!("Bearer {}", TOKEN.to_uppercase()),
        format!("Bearer \"{TOKEN}\""),
        format!("Token {TOKEN}"),
        TOKEN.to_owned(),
        format!("Bearer {}", "x".repeat(8000)),
        "Basic Og==".to_owned(),
        "Bearer null".to_owned(),
        "Bearer undefined".to_owned(),
    ];
    for (method, path) in
        [("GET", "/api/events/stripe/e1"), ("GET", "/api/config"), ("DELETE", "/api/events/stripe/e1"), ("GET", "/api/none")]
    {
        let without = proxy.admin(&Delivery::plain(method, path)).await;
        for authorization in &wrong {
            let answer = ask(&proxy, method, path, authorization).await;
            assert_eq!((answer.status, &answer.body), (without.status, &without.body), "{method} {path} {authorization}");
        }
        assert!(matches!(without.status, 401 | 404), "{path}: {}", without.status);
    }
    // Twice is none, whichever is right.
    let right = format!("Bearer {TOKEN}");
    let twice =
        Delivery::plain("DELETE", "/api/events/stripe/e1").with("authorization", &right).also("authorization", "Bearer x");
    assert_eq!(proxy.admin(&twice).await.status, 401);
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.seen().len(), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_look_changes_nothing_whatever_else_it_says() {
    let (consumer, proxy) = guarded().await;
    let right = format!("Bearer {TOKEN}");
    for path in ["/", "/metrics", "/healthz", "/readyz", "/api/config", "/api/events?provider=stripe", "/api/events/stripe/e1"] {
        for method in ["GET", "HEAD"] {
            let smuggled = Delivery::plain(method, path)
                .with("authorization", &right)
                .with("x-http-method-override", "DELETE")
                .with("x-method-override", "DELETE");
            let in_query = format!("{path}{}_method=DELETE", if path.contains('?') { "&" } else { "?" });
            for status in [proxy.admin(&smuggled).await.status, ask(&proxy, method, &in_query, &right).await.status] {
                // Not every path has a head without a body.
                assert!(status == 200 || (method == "HEAD" && status == 405), "{method} {path}: {status}");
            }
        }
    }
    for method in ["POST", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "MOVE"] {
        let status = ask(&proxy, method, "/api/config", &right).await.status;
        assert!((400..500).contains(&status), "{method}: {status}");
    }
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.seen().len(), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_page_of_another_site_changes_nothing_with_whatever_a_browser_adds() {
    let (consumer, proxy) = guarded().await;
    let basic = format!("Basic {}", data_encoding::BASE64.encode(format!("me:{TOKEN}").as_bytes()));
    for (method, authorization) in [("DELETE", basic.as_str()), ("POST", &basic), ("DELETE", "")] {
        for (site, mode) in [("cross-site", "cors"), ("same-site", "no-cors"), ("cross-site", "navigate"), ("none", "navigate")] {
            let request = Delivery::plain(method, "/api/events/stripe/e1")
                .with("authorization", authorization)
                .with("origin", "https://evil.example")
                .with("sec-fetch-site", site)
                .with("sec-fetch-mode", mode)
                .with("content-type", "text/plain");
            let status = proxy.admin(&request).await.status;
            assert!(matches!(status, 401 | 403 | 405), "{method} {site} {mode}: {status}");
        }
    }
    // Not even with the right token, which a browser would have to have been given.
    let right = format!("Bearer {TOKEN}");
    let request =
        Delivery::plain("DELETE", "/api/events/stripe/e1").with("authorization", &right).with("sec-fetch-site", "cross-site");
    assert_eq!(proxy.admin(&request).await.status, 403);
    // And nobody else's page is let in to read an answer.
    let answer = proxy.admin(&Delivery::plain("OPTIONS", "/api/config").with("origin", "https://evil.example")).await;
    assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control-")));
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(consumer.seen().len(), 1);
    assert!(proxy.stop().await);
}

/// Whether the connection that this end listens to is one, on the side of whoever listens at `server`.
fn is_established(server: SocketAddr, client: SocketAddr) -> bool {
    let ends = format!(":{:04X} 0100007F:{:04X} 01 ", server.port(), client.port());
    std::fs::read_to_string("/proc/net/tcp").unwrap().lines().any(|line| line.contains(&ends))
}

#[tokio::test]
async fn an_answer_that_is_not_taken_holds_no_place_for_long() {
    let consumer = Consumer::answering(200).await;
    // Enough series for more than the kernel keeps of an answer.
    let many = (0..300)
        .map(|number| format!("[providers.p{number}]\npreset = \"github\"\npath = \"/{number}\"\nsecret = \"{SECRET}\"\n"));
    let proxy = in_front_of(&consumer).table(&many.collect::<String>()).start();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    let mut stream = socket.connect(proxy.admin).await.unwrap();
    let client = stream.local_addr().unwrap();
    assert!(is_established(proxy.admin, client));
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let began = Instant::now();
    eventually("an end", async || (!is_established(proxy.admin, client)).then_some(())).await;
    assert!(began.elapsed() > Duration::from_secs(5), "it was waited for: {:?}", began.elapsed());
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn connections_that_are_held_keep_no_probe_of_another_address_waiting() {
    let (_consumer, proxy) = guarded().await;
    let mut held = Vec::new();
    for _ in 0..300 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.7:0".parse().unwrap()).unwrap();
        held.push(socket.connect(proxy.admin).await.unwrap());
    }
    let began = Instant::now();
    assert_eq!(proxy.admin(&Delivery::plain("GET", "/healthz")).await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(held);
    assert!(proxy.stop().await);
}
