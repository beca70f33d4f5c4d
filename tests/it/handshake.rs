//! Challenges: answered, or passed on, in their exact shape alone, and never claimed.

use crate::support::consumer::Consumer;
use crate::support::proxy::{Proxy, Setup, in_front_of};
use crate::support::sender::{Delivery, SECRET, now, signed};

const CHALLENGE: &str = r#"{"token":"x","challenge":"3eZbrw1aB","type":"url_verification"}"#;

fn slack(body: &'static str) -> Delivery {
    signed("slack", "/slack", &[], body.into(), now())
}

fn with_slack(setup: Setup) -> Setup {
    setup.table(&format!("[providers.slack]\npath = \"/slack\"\nsecret = \"{SECRET}\""))
}

/// A feed that asks for its endpoint with a token.
fn with_feed(setup: Setup, answer: &str) -> Setup {
    setup.table(&format!(
        "[providers.feed]\npreset = \"github\"\npath = \"/feed\"\nsecret = \"{SECRET}\"\n\
         [providers.feed.handshake]\nsigned = false\nwhen = {{ query = \"hub.mode\", is = \"subscribe\" }}\n\
         reply = {{ query = \"hub.challenge\" }}\n\
         token = {{ query = \"hub.verify_token\", secret = \"token-0123456789\" }}\nanswer = \"{answer}\""
    ))
}

async fn assert_unclaimed(proxy: Proxy) {
    assert_eq!(proxy.metrics().await.value("hookonce_store_seconds_count", &[("op", "claim")]), 0.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_signed_challenge_is_answered_every_time() {
    let consumer = Consumer::answering(200).await;
    let proxy = with_slack(in_front_of(&consumer)).start();
    for _ in 0..2 {
        let answer = proxy.send(&slack(CHALLENGE)).await;
        assert_eq!((answer.status, answer.outcome(), &answer.body[..]), (200, "handshake", &b"3eZbrw1aB"[..]));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    assert_eq!(proxy.metrics().await.outcome("slack", "handshake"), 2.0);
    assert_eq!(consumer.seen().len(), 0);
    assert_unclaimed(proxy).await;
}

#[tokio::test]
async fn a_challenge_that_is_not_signed_is_refused() {
    let consumer = Consumer::answering(200).await;
    let proxy = with_slack(in_front_of(&consumer)).start();
    assert_eq!(proxy.send(&slack(CHALLENGE).without("x-slack-signature")).await.status, 401);
    assert_eq!(proxy.send(&slack("{}").with_body(CHALLENGE)).await.status, 401);
    assert_eq!(consumer.seen().len(), 0);
    assert_unclaimed(proxy).await;
}

#[tokio::test]
async fn an_event_beside_a_challenge_is_an_event() {
    let consumer = Consumer::answering(200).await;
    let proxy = with_slack(in_front_of(&consumer)).start();
    let event = slack(r#"{"type":"event_callback","challenge":"x","event_id":"Ev1"}"#);
    assert_eq!(proxy.send(&event).await.outcome(), "forwarded");
    assert_eq!(consumer.count("Ev1"), 1);
    assert!(proxy.stop().await);
}

const RIGHT: &str = "/feed?hub.mode=subscribe&hub.challenge=11%3C58&hub.verify_token=token-0123456789";

#[tokio::test]
async fn an_unsigned_challenge_with_the_right_token_is_answered_here() {
    let consumer = Consumer::answering(200).await;
    let proxy = with_feed(in_front_of(&consumer), "hookonce").start();
    let answer = proxy.send(&Delivery::plain("GET", RIGHT)).await;
    assert_eq!((answer.status, answer.outcome(), &answer.body[..]), (200, "handshake", &b"11<58"[..]));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(Delivery::plain("GET", RIGHT).send_h2(proxy.listen).await.body, "11<58");
    assert_eq!(consumer.seen().len(), 0);
    assert_unclaimed(proxy).await;
}

#[tokio::test]
async fn an_unsigned_challenge_is_passed_on_without_a_claim() {
    let consumer = Consumer::answering(200).await;
    let proxy = with_feed(in_front_of(&consumer), "upstream").start();
    let answer = proxy.send(&Delivery::plain("GET", RIGHT).with("x-kept", "1")).await;
    assert_eq!((answer.status, answer.outcome(), &answer.body[..]), (200, "handshake", &b"{\"consumer\":200}"[..]));
    let seen = consumer.seen().remove(0);
    assert_eq!((seen.method.as_str(), &seen.target[..], seen.header("x-kept")), ("GET", RIGHT, Some("1")));
    assert_eq!((seen.event_id(), seen.body.len()), ("none", 0));
    assert_unclaimed(proxy).await;
}

#[tokio::test]
async fn what_is_not_a_challenge_in_its_exact_shape_is_refused() {
    for answer in ["hookonce", "upstream"] {
        let consumer = Consumer::answering(200).await;
        let proxy = with_feed(in_front_of(&consumer), answer).start();
        for (from, to) in [
            ("token-0123456789", "token-0123456780"),
            ("&hub.verify_token=token-0123456789", ""),
            ("subscribe", "unsubscribe"),
            ("hub.challenge", "challenge"),
            ("hub.mode", "hub.challenge=2&hub.mode"),
            ("hub.mode", "hub.mode=subscribe&hub.mode"),
        ] {
            let refused = proxy.send(&Delivery::plain("GET", &RIGHT.replace(from, to))).await;
            assert_eq!((refused.status, refused.outcome()), (401, "rejected"), "{to}");
        }
        assert_eq!(proxy.send(&Delivery::plain("GET", RIGHT).with_body("x")).await.status, 401);
        assert_eq!(proxy.send(&Delivery::plain("POST", RIGHT)).await.status, 401);
        assert_eq!(consumer.seen().len(), 0);
        assert_unclaimed(proxy).await;
    }
}

#[tokio::test]
async fn a_delivery_with_the_method_of_challenges_is_no_delivery() {
    let consumer = Consumer::answering(200).await;
    let proxy = with_feed(in_front_of(&consumer), "hookonce").start();
    let mut delivery = signed("github", "/feed", &[("x-github-delivery", "e1")], "".into(), now());
    delivery.method = "GET";
    let refused = proxy.send(&delivery).await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
    assert_eq!(consumer.seen().len(), 0);
    assert_unclaimed(proxy).await;
}
