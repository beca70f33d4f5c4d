//! Drop-in: the consumer sees what it saw before, and the sender sees the consumer's own answer.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::consumer::{Act, Consumer, Gate, Seen};
use crate::support::eventually;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::sender::{Answer, Delivery, github, github_with, stripe};
use crate::support::wire::Wire;

mod requests {
    use super::*;

    /// What the consumer got of a delivery.
    async fn seen_of(setup: impl Fn(Setup) -> Setup, delivery: &Delivery) -> Seen {
        let consumer = Consumer::answering(200).await;
        let proxy = setup(in_front_of(&consumer)).start();
        let answer = proxy.send(delivery).await;
        assert_eq!((answer.status, answer.outcome()), (200, "forwarded"));
        assert!(proxy.stop().await);
        consumer.seen().remove(0)
    }

    fn unchanged(setup: Setup) -> Setup {
        setup
    }

    fn all<'a>(seen: &'a Seen, name: &str) -> Vec<&'a str> {
        seen.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn method_path_query_host_and_every_header_go_on_as_sent() {
        let delivery = github("e1")
            .at("/github?b=2&a=%20&b=1")
            .with("x-hub-signature", "sha1=00")
            .with("user-agent", "GitHub-Hookshot/044aadd")
            .with("authorization", "Basic eA==")
            .with("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            .also("x-many", "2")
            .also("x-many", "1")
            .also("x-many", "2");
        let seen = seen_of(unchanged, &delivery).await;
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/github?b=2&a=%20&b=1"));
        assert_eq!(seen.header("host"), Some("localhost"));
        assert_eq!(all(&seen, "x-many"), ["2", "1", "2"]);
        for (name, value) in &delivery.headers {
            assert!(seen.headers.get_all(name).iter().any(|kept| kept == value), "{name}");
        }
        assert_eq!((seen.header("hookonce-event-id"), seen.header("hookonce-attempt")), (Some("e1"), Some("1")));
    }

    #[tokio::test]
    async fn bodies_go_on_byte_by_byte() {
        let binary: Vec<u8> = (0..=255).chain([0, 13, 10, 13, 10]).collect();
        for body in [binary, b"{ \"spaced\" : 1 }\r\n".to_vec(), Vec::new()] {
            let seen = seen_of(unchanged, &github_with("e1", body.clone())).await;
            assert_eq!(seen.body, body);
            assert!(!seen.headers.contains_key("transfer-encoding"));
        }
    }

    #[tokio::test]
    async fn a_compressed_body_is_left_as_it_is() {
        let squeezed = b"\x1f\x8b\x08\x00not really".to_vec();
        let seen = seen_of(unchanged, &github_with("e1", squeezed.clone()).with("content-encoding", "gzip")).await;
        assert_eq!((seen.header("content-encoding"), &seen.body[..]), (Some("gzip"), &squeezed[..]));
    }

    #[tokio::test]
    async fn a_body_in_chunks_is_put_together() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).start();
        for (event, size) in [("e1", 1), ("e2", 7), ("e3", 10_000)] {
            let mut sender = Wire::with(proxy.listen, &github(event).chunked(size)).await;
            assert_eq!(sender.answer().await.outcome(), "forwarded");
        }
        let mut empty = Wire::with(proxy.listen, &github_with("e4", "").chunked(1)).await;
        assert_eq!(empty.answer().await.outcome(), "forwarded");
        let seen = consumer.seen();
        assert_eq!(seen.iter().map(|seen| seen.body.len()).collect::<Vec<_>>(), [32, 32, 32, 0]);
        assert_eq!(seen[0].body, github("e1").body);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn the_largest_body_of_github_goes_through_and_one_byte_more_does_not() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).start();
        let largest = Bytes::from(vec![b'x'; 25 << 20]);
        assert_eq!(proxy.send(&github_with("e1", largest.clone())).await.outcome(), "forwarded");
        assert!(consumer.seen()[0].body == largest);
        let mut larger = github_with("e2", vec![b'x'; (25 << 20) + 1]).begin_head(proxy.listen).await;
        assert_eq!(larger.answer().await.status, 413);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn only_hookonce_speaks_for_hookonce() {
        let forged = github("e1")
            .with("hookonce-event-id", "forged")
            .with("hookonce-maybe-duplicate", "unknown")
            .with("hookonce-else", "x")
            .with("hookonce_attempt", "9");
        let seen = seen_of(unchanged, &forged).await;
        assert_eq!((seen.event_id(), seen.mark()), ("e1", None));
        assert!(!seen.headers.contains_key("hookonce-else"));
        // Consumers that read headers as variables take `_` for `-`.
        assert!(!seen.headers.contains_key("hookonce_attempt"));
    }

    #[tokio::test]
    async fn headers_of_the_connection_stay_behind() {
        let delivery = github("e1")
            .with("connection", "keep-alive, te")
            .with("keep-alive", "timeout=5")
            .with("te", "trailers")
            .with("proxy-authorization", "Basic eA==");
        let seen = seen_of(unchanged, &delivery).await;
        for name in ["connection", "keep-alive", "te", "proxy-authorization"] {
            assert!(!seen.headers.contains_key(name), "{name}");
        }
    }

    fn through_a_proxy() -> Delivery {
        github("e1")
            .with("x-forwarded-for", "198.51.100.1")
            .with("x-forwarded-proto", "https")
            .with("x-forwarded-host", "hooks.example.com")
            .with("x-forwarded-port", "443")
            .with("forwarded", "for=198.51.100.1")
    }

    #[tokio::test]
    async fn forwarded_headers_are_kept_and_appended_to() {
        for setup in [unchanged, |setup: Setup| setup.top("trusted_proxies = [\"127.0.0.0/8\"]")] {
            let seen = seen_of(setup, &through_a_proxy()).await;
            assert_eq!(seen.header("x-forwarded-for"), Some("198.51.100.1, 127.0.0.1"));
            assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
            assert_eq!(seen.header("x-forwarded-host"), Some("hooks.example.com"));
            assert_eq!(seen.header("x-forwarded-port"), Some("443"));
            assert_eq!(seen.header("forwarded"), Some("for=198.51.100.1"));
        }
    }

    #[tokio::test]
    async fn forwarded_headers_of_others_are_replaced() {
        let seen = seen_of(|setup| setup.top("trusted_proxies = [\"10.0.0.0/8\"]"), &through_a_proxy()).await;
        assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(seen.header("x-forwarded-proto"), Some("http"));
        assert_eq!(seen.header("x-forwarded-host"), Some("localhost"));
        assert_eq!((seen.header("x-forwarded-port"), seen.header("forwarded")), (None, None));
    }

    #[tokio::test]
    async fn the_upstreams_own_path_is_used_where_the_deliverys_is_not_kept() {
        let consumer = Consumer::answering(200).await;
        let keys = format!("preserve_path = false\nupstream = \"{}/hooks/in\"", consumer.url());
        let proxy = in_front_of(&consumer).github(&keys).start();
        proxy.send(&github("e1").at("/github?x=1")).await;
        proxy.send(&github("e2")).await;
        assert_eq!(consumer.seen().iter().map(|seen| &seen.target[..]).collect::<Vec<_>>(), ["/hooks/in?x=1", "/hooks/in"]);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn over_http_2_the_consumer_sees_the_same() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).start();
        let delivery = |event| github(event).at("/github?x=1").also("x-many", "1").also("x-many", "2");
        assert_eq!(delivery("e1").send_h2(proxy.listen).await.outcome(), "forwarded");
        assert_eq!(delivery("e2").send(proxy.listen).await.outcome(), "forwarded");
        assert_eq!(delivery("e1").send_h2(proxy.listen).await.outcome(), "duplicate");
        let [one, two] = consumer.seen().try_into().unwrap();
        assert_eq!(one.header("host"), Some("localhost"));
        assert_eq!((one.method, one.target), (two.method, two.target));
        let names = |headers: &http::HeaderMap| {
            let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&one.headers), names(&two.headers));
        assert_eq!(one.headers.get_all("x-many").iter().count(), 2);
        assert!(proxy.stop().await);
    }
}

mod answers {
    use super::*;

    async fn answer_to(act: Act) -> Answer {
        let consumer = Consumer::deciding(move |_, _| act.clone()).await;
        let proxy = in_front_of(&consumer).start();
        let answer = proxy.send(&stripe("e1")).await;
        assert_eq!(consumer.seen().len(), 1);
        assert!(proxy.stop().await);
        answer
    }

    #[tokio::test]
    async fn an_answer_without_a_body() {
        let answer = answer_to(Act::Respond(204, vec![("x-consumer", "1")], Bytes::new())).await;
        assert_eq!((answer.status, answer.outcome(), answer.body.len()), (204, "forwarded", 0));
        assert_eq!(answer.header("x-consumer"), Some("1"));
        assert_eq!(answer.header("content-length"), None);
    }

    #[tokio::test]
    async fn a_redirect_with_its_location() {
        let answer = answer_to(Act::Respond(302, vec![("location", "http://elsewhere.test/x?y=1")], Bytes::new())).await;
        assert_eq!((answer.status, answer.header("location")), (302, Some("http://elsewhere.test/x?y=1")));
    }

    #[tokio::test]
    async fn a_refusal_with_its_body() {
        let answer = answer_to(Act::Respond(422, vec![("content-type", "text/plain")], "no such\norder".into())).await;
        assert_eq!((answer.status, answer.outcome(), &answer.body[..]), (422, "failed", &b"no such\norder"[..]));
        assert_eq!(answer.header("content-type"), Some("text/plain"));
    }

    #[tokio::test]
    async fn repeated_headers() {
        let cookies = vec![("set-cookie", "b=2; Path=/"), ("set-cookie", "a=1"), ("www-authenticate", "Basic")];
        let answer = answer_to(Act::Respond(401, cookies, Bytes::new())).await;
        assert_eq!(answer.headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["b=2; Path=/", "a=1"]);
        assert_eq!(answer.header("www-authenticate"), Some("Basic"));
    }

    #[tokio::test]
    async fn what_belongs_to_the_consumers_connection_stays_behind() {
        let headers =
            vec![("connection", "x-named"), ("x-named", "1"), ("keep-alive", "timeout=5"), ("hookonce-outcome", "duplicate")];
        let answer = answer_to(Act::Respond(200, headers, Bytes::new())).await;
        assert_eq!((answer.header("x-named"), answer.header("keep-alive"), answer.outcome()), (None, None, "forwarded"));
    }

    #[tokio::test]
    async fn an_answer_in_chunks() {
        let open = Gate::closed();
        open.open();
        let answer = answer_to(Act::InTwo(200, "first,".into(), open, "second".into())).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"first,second"[..]));
    }

    #[tokio::test]
    async fn an_answer_larger_than_what_is_kept_comes_whole_and_its_connection_is_used_again() {
        let large: Bytes = (0..3_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let sent = large.clone();
        let consumer = Consumer::deciding(move |_, _| Act::Respond(200, vec![], sent.clone())).await;
        let proxy = in_front_of(&consumer).top("workers = 1").table("[limits]\nanswer = \"64KiB\"").start();
        for event in ["e1", "e2", "e3"] {
            let answer = proxy.send(&stripe(event)).await;
            assert_eq!((answer.status, answer.outcome()), (200, "forwarded"));
            assert!(answer.body == large);
        }
        assert_eq!(consumer.connections(), 1);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn over_http_2() {
        let large: Bytes = vec![b'x'; 200_000].into();
        let sent = large.clone();
        let headers = vec![("set-cookie", "a=1"), ("set-cookie", "b=2"), ("connection", "close")];
        let consumer = Consumer::deciding(move |_, _| Act::Respond(201, headers.clone(), sent.clone())).await;
        let proxy = in_front_of(&consumer).start();
        let answer = stripe("e1").send_h2(proxy.listen).await;
        assert_eq!((answer.status, answer.outcome()), (201, "forwarded"));
        assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
        assert!(answer.body == large);
        assert!(proxy.stop().await);
    }
}

mod passthrough {
    use super::*;

    #[tokio::test]
    async fn a_listed_path_goes_to_the_consumer_and_back_untouched() {
        let consumer = Consumer::deciding(|_, _| Act::Respond(418, vec![("x-app", "1")], "teapot".into())).await;
        let proxy = in_front_of(&consumer).top("passthrough = [\"/health\", \"/app/*\"]").start();
        for path in ["/health", "/app", "/app/deep/er?x=1&y"] {
            let answer = proxy.send(&Delivery::plain("PUT", path).with("hookonce-event-id", "x").with_body("body")).await;
            assert_eq!((answer.status, answer.header("x-app"), &answer.body[..]), (418, Some("1"), &b"teapot"[..]));
            assert_eq!(answer.outcome(), "none");
            let seen = consumer.seen().pop().unwrap();
            assert_eq!((seen.method.as_str(), &seen.target[..], &seen.body[..]), ("PUT", path, &b"body"[..]));
            assert_eq!((seen.header("host"), seen.event_id()), (Some("localhost"), "none"));
        }
        for path in ["/healthz", "/health/", "/apps", "/", "/other"] {
            assert_eq!(proxy.send(&Delivery::plain("GET", path)).await.status, 404, "{path}");
        }
        assert_eq!(consumer.seen().len(), 3);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn answers_come_as_they_are_made() {
        let gate = Gate::closed();
        let rest = gate.clone();
        let consumer = Consumer::deciding(move |_, _| Act::InTwo(200, "first".into(), rest.clone(), "second".into())).await;
        let proxy = in_front_of(&consumer).top("passthrough = [\"/app/*\"]").start();
        let mut sender = Wire::with(proxy.listen, &Delivery::plain("GET", "/app/events").bytes()).await;
        sender.heard("first").await;
        gate.open();
        sender.heard("second").await;
        assert!(proxy.stop().await);
    }

    /// Many senders say everything before they listen: a long answer that comes early must not keep the request from going on.
    #[tokio::test]
    async fn a_request_goes_on_while_nobody_takes_its_answer() {
        const BYTES: usize = 16 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).top("passthrough = [\"/app/*\"]").start();
        let head = format!("POST /app HTTP/1.1\r\nhost: a\r\ncontent-length: {BYTES}\r\n\r\n");
        let mut sender = tokio::net::TcpStream::connect(proxy.listen).await.unwrap();
        sender.write_all(head.as_bytes()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        // Early, but not before the question: what answers nothing ends a connection.
        stream.peek(&mut [0]).await.unwrap();
        let (mut request, mut answer) = stream.into_split();
        let answering = async {
            answer.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {BYTES}\r\n\r\n").as_bytes()).await.unwrap();
            answer.write_all(&vec![b'a'; BYTES]).await.unwrap();
        };
        let reading = async {
            let mut left = BYTES;
            let mut read = vec![0; 1 << 16];
            while left > 0 {
                let count = request.read(&mut read).await.unwrap();
                assert!(count > 0, "the request was cut short by {left} bytes");
                left = left.saturating_sub(count);
            }
        };
        let sending = async {
            sender.write_all(&vec![b'r'; BYTES]).await.unwrap();
            let (mut left, mut read) = (BYTES, vec![0; 1 << 16]);
            while left > 0 {
                let count = sender.read(&mut read).await.unwrap();
                assert!(count > 0, "the answer was cut short by {left} bytes");
                left = left.saturating_sub(count);
            }
        };
        let all = async { tokio::join!(answering, reading, sending) };
        tokio::time::timeout(std::time::Duration::from_secs(20), all).await.expect("somebody waits for nobody");
        drop(sender);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn requests_go_on_as_they_come() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).top("passthrough = [\"/app/*\"]").start();
        let mut sender = Wire::with(proxy.listen, b"POST /app HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await;
        sender.say(b"5\r\nfirst\r\n").await;
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("first") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
        sender.say(b"6\r\nsecond\r\n0\r\n\r\n").await;
        while !String::from_utf8_lossy(&read).ends_with("0\r\n\r\n") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        assert_eq!(sender.answer().await.body, "ok");
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn connections_to_the_consumer_are_used_again() {
        let open = Gate::closed();
        open.open();
        let consumer = Consumer::deciding(move |seen, _| match &seen.target[..] {
            "/app/empty" => Act::Answer(204),
            "/app/chunks" => Act::InTwo(200, "a".into(), open.clone(), "b".into()),
            _ => Act::Respond(200, vec![], "a body".into()),
        })
        .await;
        let proxy = in_front_of(&consumer).top("workers = 1\npassthrough = [\"/app/*\"]").start();
        for path in ["/app/empty", "/app/chunks", "/app/whole", "/app/empty", "/app/whole"] {
            assert!(proxy.send(&Delivery::plain("GET", path)).await.is_success());
            assert!(proxy.send(&Delivery::plain("POST", path).with_body("x")).await.is_success());
        }
        assert_eq!(proxy.send(&Delivery::plain("HEAD", "/app/whole")).await.header("content-length"), Some("6"));
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
        assert_eq!(consumer.connections(), 1);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn an_upload_that_nobody_reads_holds_up_no_delivery() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let setup = in_front_of(&Consumer::answering(200).await).upstream(&url);
        let proxy = setup.top("workers = 1\npassthrough = [\"/app/*\"]").start();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                // Reads the beginning, answers, and stays.
                assert!(stream.read(&mut [0; 16]).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                open.push(stream);
            }
        });
        let mut upload = Wire::with(proxy.listen, b"POST /app HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nx").await;
        assert_eq!(upload.answer().await.status, 200);
        let sent = async || Some(proxy.send(&stripe("e1")).await);
        assert_eq!(eventually("an answer", sent).await.status, 200);
        drop(upload);
        assert!(proxy.stop().await);
    }

    /// As a lenient server might read them, all of these are a provider's path, and some are listed as they stand.
    const SPELLINGS: &[&str] = &[
        "//github",
        "/github/",
        "/GitHub",
        "/./github",
        "/x/../github",
        "/%67ithub",
        "/%2567ithub",
        "/github%2f",
        "/github;a=b",
        "/\\github",
        "/github%00",
        "/app/../github",
        "/app/..//github/",
        "/app/%2e%2e/github",
        "/app/%252e%252e/github",
        "/app/..%2fgithub",
        "/app/..%5cgithub",
        "/app\\..\\github",
        "/app/..;/github",
        "/app/../GITHUB",
        "/app/x/../../github",
        "/app/../github%00",
        "/app/../app/../github",
    ];

    #[tokio::test]
    async fn a_path_that_only_normalises_onto_a_providers_is_nobodys() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).top("passthrough = [\"/app/*\"]").start();
        assert_eq!(proxy.send(&Delivery::plain("POST", "/app/x")).await.status, 200);
        for path in SPELLINGS {
            let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}");
            let status = Wire::with(proxy.listen, request.as_bytes()).await.answer().await.status;
            assert!(matches!(status, 400 | 404), "{path}: {status}");
        }
        let absolute = "POST http://localhost/app/../github HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(Wire::with(proxy.listen, absolute.as_bytes()).await.answer().await.status, 404);
        assert_eq!(consumer.seen().len(), 1);
        assert!(proxy.stop().await);
    }
}
