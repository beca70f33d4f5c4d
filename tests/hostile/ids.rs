//! Ids as weapons: they end no header, no key and no log line, no two of them are one, and they are not long.

use std::collections::BTreeSet;

use crate::raw::{OK, Recorder, Says};
use crate::support::keys::Keys;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github, github_with, stripe_with};
use crate::support::wire::Wire;

fn with_id(id: &str) -> Delivery {
    stripe_with(serde_json::json!({ "id": id }).to_string())
}

#[tokio::test]
async fn an_id_ends_no_header_and_begins_none() {
    let recorder = Recorder::saying(|_| Says::closing(OK)).await;
    let proxy = recorder.setup().await.start();
    let ids = [
        "a\r\nx-hidden: injected",
        "a\nx-hidden: injected",
        "a\rb",
        "a\0b",
        "a\u{7f}b",
        "\u{85}",
        "\u{e9}",
        "a b",
        "\t",
        "\u{2028}",
    ];
    for id in ids {
        assert_eq!(proxy.send(&with_id(id)).await.outcome(), "forwarded", "{id:?}");
    }
    // Bytes above ASCII in a header.
    let bytes = [&b"POST /github HTTP/1.1\r\nhost: a\r\nx-github-delivery: a\xffb\xe9\r\n"[..]].concat();
    let delivery = github("e1");
    let signature = delivery.headers["x-hub-signature-256"].to_str().unwrap();
    let rest = format!("x-hub-signature-256: {signature}\r\ncontent-length: {}\r\n\r\n", delivery.body.len());
    let mut wire = Wire::with(proxy.listen, &[&bytes[..], rest.as_bytes(), &delivery.body].concat()).await;
    let status = wire.answer().await.status;
    drop(wire);
    assert!(proxy.stop().await);
    assert_eq!(status, 200);
    let text = recorder.text();
    assert!(!text.contains("\nx-hidden"), "{text}");
    let shown: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("hookonce-event-id: ")).collect();
    assert_eq!(shown.len(), ids.len() + 1);
    assert!(shown.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_graphic())), "{shown:?}");
    assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), shown.len(), "{shown:?}");
}

/// Ids that would be one if parts, delimiters or digests could be injected.
#[tokio::test]
async fn no_two_ids_share_a_key_and_none_leaves_its_namespace() {
    let redis = RedisProcess::start();
    let recorder = Recorder::new().await;
    let feed = "[providers.feed]\npath = \"/feed\"\nsecret = \"test-secret-0123456789abcdef\"\n\
                event_id = [{ json = \"/a\" }, { json = \"/b\" }]\ntenant = { json = \"/tenant\" }\nmissing_id = \"reject\"\n\
                [providers.feed.scheme]\nsignature = { header = \"X-Hub-Signature-256\" }\nprefix = \"sha256=\"";
    let proxy = recorder.setup().await.store(&redis.url()).table(feed).start();
    let digest = format!("~{}", "0".repeat(64));
    let mut ids: Vec<String> = [
        "a",
        "a:b",
        "a::b",
        ":a",
        "a:",
        "{a}",
        "{a}:b",
        "{q07}:a",
        "}{",
        "~a",
        "~",
        "*",
        "?",
        "[a]",
        "a\0b",
        "a+b",
        "a%2Bb",
        "a b",
        "a/b",
        "..",
        "marker",
        "bypass-stripe",
        "stripe:a",
        "test:stripe:a",
        "\r\n$3\r\nSET",
        "A",
        "\u{e9}",
        "e\u{301}",
    ]
    .map(str::to_owned)
    .to_vec();
    ids.push(digest);
    ids.push("x".repeat(128));
    ids.push("x".repeat(129));
    ids.push("x".repeat(4096));
    for id in &ids {
        assert_eq!(proxy.send(&with_id(id)).await.outcome(), "forwarded", "{id:?}");
    }
    // One concatenation, several parts.
    let parts = [
        ("t", "ab", "c"),
        ("t", "a", "bc"),
        ("ta", "b", "c"),
        ("t", "abc", ""),
        ("t", "a+b", "c"),
        ("t+a", "b", "c"),
        ("t", "a:b", "c"),
        ("t:a", "b", "c"),
    ];
    for (tenant, a, b) in parts {
        let body = serde_json::json!({ "tenant": tenant, "a": a, "b": b }).to_string();
        let signed = github_with("unused", body).at("/feed");
        let answer = proxy.send(&signed).await;
        // A part that must be there and is empty is no id.
        assert_eq!(answer.outcome(), if b.is_empty() { "no_id" } else { "forwarded" }, "{tenant} {a} {b}");
    }
    assert!(proxy.stop().await);
    let names = Keys::of(&redis).names();
    let events: Vec<&String> = names.iter().filter(|name| *name != "test:marker").collect();
    assert_eq!(events.len(), ids.len() + parts.len() - 1, "{names:#?}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-+~".contains(c);
    for name in events {
        let id =
            name.strip_prefix("test:stripe:").or_else(|| name.strip_prefix("test:feed:")).unwrap_or_else(|| panic!("{name}"));
        assert!(id.len() <= 128 && id.chars().all(is_plain), "{name}");
    }
}

#[tokio::test]
async fn a_long_id_is_refused_and_a_longest_one_is_not() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    for (length, status) in [(128, 200), (129, 200), (4096, 200), (4097, 400), (1 << 20, 400)] {
        assert_eq!(proxy.send(&with_id(&"y".repeat(length))).await.status, status, "{length}");
    }
    assert_eq!(proxy.send(&github(&"y".repeat(4096))).await.status, 200);
    assert_eq!(proxy.send(&github(&"y".repeat(4097))).await.status, 400);
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 4);
}
