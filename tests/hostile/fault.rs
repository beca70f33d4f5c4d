//! What may be our own fault is a 503, so that the provider comes back; a 4xx is for what is certainly the sender's.

use std::time::Duration;

use crate::raw::Recorder;
use crate::support::consumer::Consumer;
use crate::support::proxy::in_front_of;
use crate::support::redis::quiet_port;
use crate::support::sender::{Delivery, github, now, signed};

#[tokio::test]
async fn keys_that_cannot_be_fetched_are_not_the_senders_fault() {
    let recorder = Recorder::new().await;
    let own = format!(
        "[providers.own]\npath = \"/own\"\nevent_id = {{ json = \"/id\" }}\n[providers.own.scheme]\nsignature = {{ header = \"X-Sig\" }}\n\
         algorithm = \"ed25519\"\nencoding = \"hex\"\nkey_id = {{ header = \"X-Key\" }}\nkeys = {{ jwks = \"https://127.0.0.1:{}/jwks.json\" }}",
        quiet_port()
    );
    let proxy = recorder.setup().await.table(&own).start();
    let delivery =
        Delivery::plain("POST", "/own").with("x-sig", &"0".repeat(128)).with("x-key", "1").with_body("{\"id\":\"e1\"}");
    for _ in 0..3 {
        let answer = proxy.send(&delivery).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("keys_unavailable")));
        assert!(answer.headers.contains_key("retry-after"));
        // It is the operator's to know where they were looked for.
        assert!(!String::from_utf8_lossy(&answer.body).contains("jwks"));
    }
    // What is certainly wrong is so without the keys.
    for certain in [delivery.clone().without("x-sig"), delivery.clone().with("x-sig", "zz")] {
        assert_eq!(proxy.send(&certain).await.status, 401);
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn a_store_that_is_away_is_not_the_senders_fault() {
    let consumer = Consumer::answering(200).await;
    let store = format!("redis://127.0.0.1:{}", quiet_port());
    let proxy = in_front_of(&consumer).store(&store).both("on_store_down = \"closed\"").start();
    let answer = proxy.send(&github("e1")).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("store_down")));
    assert!(!String::from_utf8_lossy(&answer.body).contains("127.0.0.1"));
    // A forgery is one whatever the store does.
    assert_eq!(proxy.send(&github("e1").with_body("{}")).await.status, 401);
    assert_eq!(consumer.seen().len(), 0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_old_signature_is_the_senders_fault_where_the_clock_is_right() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let at = |time| signed("stripe", "/stripe", &[], "{\"id\":\"e1\"}".into(), time);
    for (time, status) in [
        (now() - Duration::from_secs(310), 401),
        (now() + Duration::from_secs(310), 401),
        (now() - Duration::from_secs(290), 200),
    ] {
        assert_eq!(proxy.send(&at(time)).await.status, status);
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 1);
}
