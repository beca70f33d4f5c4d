//! Speaking for others: for hookonce, for a proxy before it, for another host.

use crate::raw::{Recorder, Request};
use crate::support::proxy::{Proxy, Setup};
use crate::support::sender::github;
use crate::support::wire::Wire;

/// What the consumer got of a delivery whose header lines are these.
async fn seen_with(setup: impl Fn(Setup) -> Setup, lines: &str) -> Request {
    let recorder = Recorder::new().await;
    let proxy = setup(recorder.setup().await).start();
    assert_eq!(with_lines(&proxy, lines).await, 200, "{lines}");
    assert!(proxy.stop().await);
    recorder.requests().remove(0)
}

async fn with_lines(proxy: &Proxy, lines: &str) -> u16 {
    let bytes = String::from_utf8(github("e1").bytes()).unwrap();
    let bytes = bytes.replacen("host: localhost\r\n", lines, 1);
    Wire::with(proxy.listen, bytes.as_bytes()).await.answer().await.status
}

#[tokio::test]
async fn nobody_speaks_for_hookonce_in_any_spelling() {
    let lines = "host: a\r\nHookonce-Event-Id: forged\r\nHOOKONCE-ATTEMPT: 99\r\nhookonce-maybe-duplicate: forged\r\n\
                 Hookonce_Event_Id: forged\r\nHOOKONCE_attempt: forged\r\nhookonce-Event_id: forged\r\nHookonce-Outcome: forged\r\n\
                 hookonce-: forged\r\nHookonce_: forged\r\n";
    let request = seen_with(|setup| setup, lines).await;
    assert!(!request.head.contains("forged"), "{}", request.head);
    assert_eq!((request.all("hookonce-event-id"), request.all("hookonce-attempt")), (vec!["e1"], vec!["1"]));
    assert_eq!(request.head.to_lowercase().matches("\nhookonce").count(), 2);
}

const FORWARDED: &str = "host: a\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2, 3.3.3.3\r\nX-Forwarded-Host: evil\r\n\
    X-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-Server: evil\r\nForwarded: for=evil\r\n\
    Forwarded: for=evil2;host=evil\r\n";

#[tokio::test]
async fn a_peer_that_is_not_trusted_says_nothing_of_others() {
    let request = seen_with(|setup| setup.top("trusted_proxies = [\"10.0.0.0/8\"]"), FORWARDED).await;
    assert!(!request.head.contains("evil"), "{}", request.head);
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!((request.all("x-forwarded-host"), request.all("x-forwarded-proto")), (vec!["a"], vec!["http"]));
    assert_eq!(request.head.to_lowercase().matches("forwarded").count(), 3);
}

#[tokio::test]
async fn underscores_do_not_get_a_forwarded_header_past_the_rule() {
    let lines = "host: a\r\nX_Forwarded_For: 1.1.1.1\r\nX-Forwarded_For: 1.1.1.1\r\nx_forwarded-proto: https\r\n";
    let request = seen_with(|setup| setup.top("trusted_proxies = [\"10.0.0.0/8\"]"), lines).await;
    assert!(!request.head.contains("1.1.1.1") && !request.head.contains("https"), "{}", request.head);
}

#[tokio::test]
async fn a_trusted_peer_is_believed_and_named_at_the_end_of_one_list() {
    let request = seen_with(|setup| setup.top("trusted_proxies = [\"127.0.0.1\"]"), FORWARDED).await;
    assert_eq!(request.all("x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1"]);
    assert_eq!((request.all("x-forwarded-host"), request.all("x-forwarded-proto")), (vec!["evil"], vec!["https"]));
    // What cannot be read does not take with it who stands behind it.
    let lines = "host: a\r\nx-forwarded-for: \u{e9}, 4.4.4.4\r\n";
    let odd = seen_with(|setup| setup.top("trusted_proxies = [\"127.0.0.1\"]"), lines).await;
    assert_eq!(odd.all("x-forwarded-for"), ["\u{e9}, 4.4.4.4, 127.0.0.1"]);
}

#[tokio::test]
async fn a_trace_that_is_made_up_changes_nothing_else() {
    for value in [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-0000000000000000-00",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
        "garbage\"}{",
        "",
    ] {
        let request = seen_with(|setup| setup, &format!("host: a\r\ntraceparent: {value}\r\ntraceparent: {value}\r\n")).await;
        assert_eq!((request.all("hookonce-event-id"), request.all("hookonce-attempt")), (vec!["e1"], vec!["1"]));
    }
}

#[tokio::test]
async fn a_request_for_two_hosts_or_none_or_for_no_host_is_refused() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    for lines in [
        "host: a\r\nhost: b\r\n",
        "host: a\r\nHost: a\r\n",
        "",
        "host: a b\r\n",
        "host: a/github\r\n",
        "host: user@a\r\n",
        "host: user:pass@a\r\n",
        "host: a?b\r\n",
        "host: a#b\r\n",
        "host: http://a/\r\n",
        "host: a, b\r\n",
        "host: \u{e9}\r\n",
        "host : a\r\n",
    ] {
        assert_eq!(with_lines(&proxy, lines).await, 400, "{lines:?}");
    }
    let bytes = String::from_utf8(github("e1").bytes()).unwrap();
    for target in ["http://user@localhost/github", "http://user:pass@localhost/github", "http://@localhost/github"] {
        let bytes = bytes.replacen("/github", target, 1);
        assert_eq!(Wire::with(proxy.listen, bytes.as_bytes()).await.answer().await.status, 400, "{target}");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn the_consumer_is_told_of_the_host_that_the_request_was_routed_by() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let bytes = String::from_utf8(github("e1").bytes()).unwrap();
    let absolute = bytes.replacen("/github", "http://internal.example:81/github#x", 1);
    assert_eq!(Wire::with(proxy.listen, absolute.as_bytes()).await.answer().await.status, 200);
    let older = String::from_utf8(github("e2").bytes()).unwrap().replacen("HTTP/1.1\r\nhost: localhost", "HTTP/1.0", 1);
    assert_eq!(Wire::with(proxy.listen, older.as_bytes()).await.answer().await.status, 200);
    assert!(proxy.stop().await);
    let [absolute, older] = recorder.requests().try_into().unwrap();
    assert_eq!((absolute.all("host"), absolute.target()), (vec!["internal.example:81"], "/github"));
    assert_eq!(older.all("host"), [recorder.address.to_string()]);
}

#[tokio::test]
async fn a_provider_of_one_host_is_found_by_that_host_alone() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.github("host = \"hooks.example.com\"").top("passthrough = [\"/app/*\"]").start();
    let ask = async |event: &str, host: &str| {
        let bytes = String::from_utf8(github(event).bytes()).unwrap();
        let bytes = bytes.replacen("host: localhost", &format!("host: {host}"), 1);
        Wire::with(proxy.listen, bytes.as_bytes()).await.answer().await.status
    };
    for (event, host) in [("e1", "hooks.example.com"), ("e2", "HOOKS.example.COM"), ("e3", "hooks.example.com:8080")] {
        assert_eq!(ask(event, host).await, 200, "{host}");
    }
    for host in [
        "hooks.example.com.",
        "example.com",
        "x.hooks.example.com",
        "hooks.example.com.evil",
        "127.0.0.1",
        "",
        "[::1]",
        "[::1]:80",
    ] {
        // At a provider's path nothing is passed through, whatever the host.
        assert_eq!(ask("e4", host).await, 404, "{host}");
    }
    let absolute = String::from_utf8(github("e5").bytes()).unwrap().replacen("/github", "http://evil/github", 1);
    let absolute = absolute.replacen("host: localhost", "host: hooks.example.com", 1);
    assert_eq!(Wire::with(proxy.listen, absolute.as_bytes()).await.answer().await.status, 404);
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 3);
}

#[tokio::test]
async fn a_path_with_a_host_in_it_is_a_path() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    for path in ["/app//evil.example/x", "/app/@evil.example/x", "/app/http://evil.example/x"] {
        let bytes = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(Wire::with(proxy.listen, bytes.as_bytes()).await.answer().await.status, 200, "{path}");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 3);
    assert!(recorder.requests().iter().all(|request| request.all("host") == ["localhost"]));
}
