//! The admin side: probes and metrics for everybody, events for those who may ask.

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::sender::{Answer, Delivery, github, github_with, stripe};

const TOKEN: &str = "0123456789abcdef";

async fn get(proxy: &Proxy, path: &str) -> Answer {
    proxy.admin(&Delivery::plain("GET", path)).await
}

async fn with_token(proxy: &Proxy, method: &'static str, path: &str) -> Answer {
    proxy.admin(&Delivery::plain(method, path).with("authorization", &format!("Bearer {TOKEN}"))).await
}

#[tokio::test]
async fn probes_answer() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    assert_eq!((get(&proxy, "/healthz").await.status, get(&proxy, "/readyz").await.status), (200, 200));
    proxy.counted("hookonce_store_up", &[], 1.0).await;
    let verbose = get(&proxy, "/readyz?verbose").await.json();
    assert_eq!((verbose["ready"].as_bool(), verbose["draining"].as_bool()), (Some(true), Some(false)));
    assert_eq!((verbose["store"].as_str(), verbose["readiness"].as_str()), (Some("up"), Some("serving")));
    assert_eq!(proxy.admin(&Delivery::plain("HEAD", "/readyz")).await.status, 200);
    for path in ["/api", "/api/event", "/api/configs", "/page", "/metrics/", "/github"] {
        assert_eq!(get(&proxy, path).await.status, 404, "{path}");
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_admin_side_and_the_deliveries_have_nothing_in_common() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    assert_eq!(proxy.send(&Delivery::plain("GET", "/metrics")).await.status, 404);
    assert_eq!(proxy.admin(&github("e1")).await.status, 404);
    assert_eq!(consumer.seen().len(), 0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_series_of_every_provider_are_there_from_the_start() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    let answer = get(&proxy, "/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let metrics = proxy.metrics().await;
    for provider in ["github", "stripe"] {
        for outcome in ["forwarded", "duplicate", "waited", "failed", "ambiguous", "in_flight", "rejected", "limited"] {
            assert_eq!(metrics.outcome(provider, outcome), 0.0);
        }
        for mark in ["unknown", "conflict", "no-id", "observe", "forgotten", "store-down"] {
            assert_eq!(metrics.marked(provider, mark), 0.0);
        }
        for name in ["dedup_hits_total", "dedup_misses_total", "conflicts_total", "claims_in_flight", "upstream_seconds_count"] {
            assert_eq!(metrics.value(&format!("hookonce_{name}"), &[("provider", provider)]), 0.0);
        }
    }
    assert!(!metrics.text().contains("test-secret"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn without_a_token_this_machine_may_read_and_nobody_may_write() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    proxy.send(&stripe("e1")).await;
    assert_eq!(get(&proxy, "/api/events/stripe/e1").await.status, 200);
    assert_eq!(get(&proxy, "/api/events?provider=stripe").await.status, 200);
    for method in ["DELETE", "POST", "PUT"] {
        assert_eq!(proxy.admin(&Delivery::plain(method, "/api/events/stripe/e1")).await.status, 403);
    }
    assert_eq!(with_token(&proxy, "DELETE", "/api/events/stripe/e1").await.status, 403);
    assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "done");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn with_a_token_only_the_token_opens() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    proxy.send(&stripe("e1")).await;
    let long = format!("Bearer {TOKEN}0");
    let wrong = ["", "Bearer", "Bearer ", TOKEN, "Bearer 0123456789abcdeF", &long, "Basic 0123456789abcdef"];
    for path in ["/api/events", "/api/events?provider=stripe", "/api/events/stripe/e1", "/api/events/nobody/x"] {
        assert_eq!(get(&proxy, path).await.status, 401);
        for value in wrong {
            let asked = Delivery::plain("GET", path).with("authorization", value);
            assert_eq!(proxy.admin(&asked).await.status, 401, "{value}");
        }
    }
    assert_eq!(proxy.admin(&Delivery::plain("DELETE", "/api/events/stripe/e1")).await.status, 401);
    assert_eq!(with_token(&proxy, "GET", "/api/events/stripe/e1").await.json()["state"], "done");
    assert_eq!(with_token(&proxy, "DELETE", "/api/events/stripe/e1").await.status, 200);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_is_shown_with_what_an_operator_wants_to_know() {
    let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.event_id() == "bad" { 500 } else { 202 })).await;
    let proxy = in_front_of(&consumer).start();
    proxy.send(&stripe("good")).await;
    proxy.send(&stripe("bad")).await;
    let good = proxy.event("stripe", "good").await.unwrap();
    assert_eq!((good["key"].as_str(), good["state"].as_str()), (Some("test:stripe:good"), Some("done")));
    assert_eq!((good["status"].as_u64(), good["attempt"].as_u64()), (Some(202), Some(1)));
    assert!(good["at"].as_str().unwrap().ends_with('Z') && good["doubt"].is_null() && good["lease_left_ms"].is_null());
    let bad = proxy.event("stripe", "bad").await.unwrap();
    assert_eq!((bad["state"].as_str(), bad["status"].as_u64()), (Some("failed"), Some(500)));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn events_are_found_by_the_beginning_of_their_id() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    for event in ["evt_1", "evt_2", "other"] {
        proxy.send(&stripe(event)).await;
    }
    proxy.send(&github("evt_1")).await;
    let found = async |query: &str| {
        let events = get(&proxy, &format!("/api/events?{query}")).await.json()["events"].clone();
        let mut keys: Vec<String> =
            events.as_array().unwrap().iter().map(|event| event["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(found("provider=stripe&id=evt").await, ["test:stripe:evt_1", "test:stripe:evt_2"]);
    assert_eq!(found("id=evt%5F2&provider=stripe").await, ["test:stripe:evt_2"]);
    assert_eq!(found("provider=stripe").await.len(), 3);
    assert_eq!(found("provider=github").await, ["test:github:evt_1"]);
    assert_eq!(found("provider=stripe&id=*").await.len(), 0);
    assert_eq!(get(&proxy, "/api/events").await.status, 400);
    assert_eq!(get(&proxy, "/api/events?provider=nobody").await.status, 404);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_id_with_odd_characters_is_asked_for_as_it_is_shown() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    let long = "x".repeat(300);
    for id in ["a/b", "a b", "a+b", "100%", "a:b:c", "~tilde", "a?b#c", "..", "\u{e9}", &long] {
        let delivery = github_with("x", "{}").with("x-github-delivery", id);
        assert_eq!(proxy.send(&delivery).await.outcome(), "forwarded", "{id}");
        // A URL has its own use for these two.
        let shown = consumer.seen().last().unwrap().event_id().replace('?', "%3F").replace('#', "%23");
        let path = format!("/api/events/github/{shown}");
        assert_eq!(with_token(&proxy, "GET", &path).await.json()["state"], "done", "{id}");
        assert_eq!(with_token(&proxy, "DELETE", &path).await.json()["status"], "forgotten", "{id}");
        assert_eq!(proxy.send(&delivery).await.outcome(), "forwarded", "{id}");
        assert_eq!(consumer.seen().last().unwrap().mark(), Some("forgotten"));
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(held.clone(), Box::new(Act::Answer(200)))).await;
    let proxy = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).start();
    let first = proxy.sending(&stripe("e1"));
    consumer.arrived("e1", 1).await;
    for (method, path, status) in [
        ("GET", "/api/events/stripe/none", 404),
        ("DELETE", "/api/events/stripe/none", 404),
        ("DELETE", "/api/events/nobody/e1", 404),
        ("GET", "/api/events/stripe", 400),
        ("GET", "/api/events/stripe/", 400),
        ("GET", "/api/events/stripe/%zz", 400),
        ("DELETE", "/api/events/stripe/e1", 409),
        ("DELETE", "/api/events", 400),
        ("POST", "/api/events/stripe/e1", 405),
        ("PUT", "/api/events", 405),
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
    ] {
        let answer = with_token(&proxy, method, path).await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (status, Some("refused")), "{method} {path}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
    assert_eq!(with_token(&proxy, "GET", "/api/events/stripe/e1").await.json()["state"], "claimed");
    gate.open();
    assert_eq!(first.await.unwrap().outcome(), "forwarded");
    assert!(proxy.stop().await);
}
