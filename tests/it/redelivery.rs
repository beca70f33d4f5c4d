//! Redelivery on purpose: events that an operator forgets, and bypasses that end by themselves, at every instance.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, Delivery, github, github_with, now, stripe};

const TOKEN: &str = "0123456789abcdef";

fn with_token(consumer: &Consumer) -> Setup {
    in_front_of(consumer).top(&format!("admin_token = \"{TOKEN}\""))
}

/// Two instances on one Redis, in front of one consumer.
async fn pair(consumer: &Consumer, redis: &RedisProcess) -> [Instance; 2] {
    let setup = with_token(consumer).store(&redis.url());
    [Instance::start(&setup).await, Instance::start(&setup).await]
}

async fn ask(instance: &Instance, method: &'static str, path: &str) -> Answer {
    ask_with(instance, method, path, "").await
}

async fn ask_with(instance: &Instance, method: &'static str, path: &str, body: &'static str) -> Answer {
    let request = Delivery::plain(method, path).with("authorization", &format!("Bearer {TOKEN}")).with_body(body);
    request.send(instance.admin).await
}

/// Waits until an instance says whether a provider is bypassed.
async fn bypassed(instance: &Instance, provider: &str, is_on: bool) {
    eventually("a bypass that begins or ends", async || {
        let gauge = instance.metrics().await.value("hookonce_bypass_active", &[("provider", provider)]);
        (gauge == f64::from(u8::from(is_on))).then_some(())
    })
    .await;
}

/// Waits for so many lines of the audit that say this.
async fn audited(instance: &Instance, what: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} times: {what}"), async || {
        let lines = instance.lines_of("hookonce::audit").into_iter().filter(|line| line["message"] == what);
        let lines: Vec<Value> = lines.collect();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn an_event_forgotten_at_one_instance_goes_through_the_other_marked() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [first, second] = pair(&consumer, &redis).await;
    first.send(&stripe("e1")).await;
    Keys::of(&redis).done("stripe", "e1").await;
    assert_eq!(second.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(ask(&first, "DELETE", "/api/events/stripe/e1").await.json()["status"], "forgotten");
    assert_eq!(second.send(&stripe("e1")).await.outcome(), "forwarded");
    let again = consumer.seen().pop().unwrap();
    assert_eq!((again.mark(), again.header("hookonce-attempt")), (Some("forgotten"), Some("2")));
    Keys::of(&redis).done("stripe", "e1").await;
    assert_eq!(first.send(&stripe("e1")).await.outcome(), "duplicate");
    let lines = audited(&first, "forget an event", 1).await;
    assert_eq!((lines.len(), &lines[0]["event"], &lines[0]["result"]), (1, &"test:stripe:e1".into(), &"Forgotten".into()));
    assert!(lines[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{lines:?}");
}

#[tokio::test]
async fn an_operator_may_be_quicker_than_the_watch_over_the_store() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [instance, _] = pair(&consumer, &redis).await;
    instance.send(&stripe("e1")).await;
    let mut keys = Keys::of(&redis);
    keys.done("stripe", "e1").await;
    // As before the watch has made the marker.
    keys.remove("test:marker");
    let answer = ask(&instance, "DELETE", "/api/events/stripe/e1").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// A completion as it stands in Redis, of this long ago.
fn done(ago: Duration) -> String {
    let at = (now() - ago).duration_since(UNIX_EPOCH).unwrap().as_millis();
    format!("1d|200|1|{}|{at}", "0".repeat(32))
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_range_forgets_what_was_done_in_it_and_nothing_else() {
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |seen, _| match seen.event_id() {
        "held" => Act::Behind(held.clone(), Box::new(Act::Answer(200))),
        "bad" => Act::Answer(500),
        _ => Act::Answer(200),
    })
    .await;
    let redis = RedisProcess::start();
    let [first, second] = pair(&consumer, &redis).await;
    let mut keys = Keys::of(&redis);
    for (event, hours) in [("old", 3), ("in-range", 1)] {
        keys.put(&Keys::name("stripe", event), &done(hours * HOUR), 1000);
    }
    keys.put(&Keys::name("github", "in-range"), &done(HOUR), 1000);
    first.send(&stripe("new")).await;
    keys.done("stripe", "new").await;
    first.send(&stripe("bad")).await;
    let under_way = tokio::spawn({
        let to = first.listen;
        async move { stripe("held").send(to).await }
    });
    consumer.arrived("held", 1).await;

    let counts = |answer: &Answer| ["done", "in_flight", "forgotten"].map(|field| answer.json()[field].as_u64().unwrap());
    let range = "/api/events?provider=stripe&since=2h";
    let counted = ask(&first, "GET", range).await;
    assert_eq!((counts(&counted), counted.json()["next"].is_null()), ([2, 1, 0], true));
    assert_eq!(counts(&ask(&first, "DELETE", "/api/events?provider=stripe&since=5h&until=4h").await), [0, 0, 0]);
    assert_eq!(counts(&ask(&first, "DELETE", range).await), [2, 1, 2]);
    assert_eq!(counts(&ask(&first, "GET", range).await), [0, 1, 0]);

    for event in ["in-range", "new"] {
        assert_eq!(second.send(&stripe(event)).await.outcome(), "forwarded", "{event}");
        assert_eq!(consumer.seen().pop().unwrap().mark(), Some("forgotten"), "{event}");
    }
    assert!(keys.ttl(&Keys::name("stripe", "old")) <= 1000);
    assert_eq!(second.send(&stripe("old")).await.outcome(), "duplicate");
    assert!(keys.value(&Keys::name("github", "in-range")).starts_with("1d|"));
    gate.open();
    assert_eq!(under_way.await.unwrap().outcome(), "forwarded");
    keys.done("stripe", "held").await;
    assert_eq!(second.send(&stripe("held")).await.outcome(), "duplicate");
    let lines = audited(&first, "forget events by time", 2).await;
    assert_eq!(lines.iter().map(|line| line["forgotten"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 2]);
}

#[tokio::test]
async fn a_long_range_is_walked_in_slices_and_others_are_served_meanwhile() {
    const EVENTS: usize = 30_000;
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [instance, _] = pair(&consumer, &redis).await;
    Keys::of(&redis).put_many((0..EVENTS).map(|index| (Keys::name("github", &format!("e{index}")), done(HOUR))), 1000);
    let (mut forgotten, mut slices, mut from) = (0, 0, String::new());
    loop {
        let path = format!("/api/events?provider=github&since=2h{from}");
        let (slice, probe) = tokio::join!(ask(&instance, "DELETE", &path), async {
            let asked = tokio::time::Instant::now();
            assert!(instance.is_ready().await);
            asked.elapsed()
        });
        assert!(probe < Duration::from_millis(300), "{probe:?}");
        forgotten += slice.json()["forgotten"].as_u64().unwrap();
        slices += 1;
        match slice.json()["next"].as_str() {
            Some(next) => from = format!("&from={next}"),
            None => break,
        }
    }
    assert_eq!(forgotten, EVENTS as u64);
    assert!(slices > 1, "{EVENTS} events in {slices} slices");
    assert_eq!(audited(&instance, "forget events by time", slices).await.len(), slices);
}

#[tokio::test]
async fn a_bypass_begun_at_one_instance_holds_at_the_other_until_it_is_ended() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [first, second] = pair(&consumer, &redis).await;
    first.send(&stripe("e1")).await;
    first.send(&github("g1")).await;
    Keys::of(&redis).done("stripe", "e1").await;
    Keys::of(&redis).done("github", "g1").await;
    assert_eq!(second.send(&stripe("e1")).await.outcome(), "duplicate");

    let begun = ask_with(&first, "PUT", "/api/bypass/stripe", "{\"for\":\"10m\"}").await;
    assert_eq!((begun.status, begun.json()["active"].as_bool()), (200, Some(true)), "{begun:?}");
    bypassed(&second, "stripe", true).await;
    assert_eq!(second.send(&stripe("e1")).await.outcome(), "forwarded");
    let again = consumer.seen().pop().unwrap();
    assert_eq!((again.mark(), again.header("hookonce-attempt")), (Some("replay"), Some("2")));
    assert_eq!(second.metrics().await.marked("stripe", "replay"), 1.0);
    // It is about what is done: a new event is as new as ever, and another provider's duplicate a duplicate.
    assert_eq!(second.send(&stripe("new")).await.outcome(), "forwarded");
    assert_eq!(consumer.seen().pop().unwrap().mark(), None);
    assert_eq!(second.send(&github("g1")).await.outcome(), "duplicate");

    let verbose = Delivery::plain("GET", "/readyz?verbose").send(second.admin).await.json();
    assert_eq!(verbose["bypassed"][0]["provider"], "stripe", "{verbose}");
    assert_eq!(ask(&second, "DELETE", "/api/bypass/stripe").await.json()["active"], false);
    bypassed(&first, "stripe", false).await;
    for instance in [&first, &second] {
        assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
    }
    assert_eq!(ask(&second, "DELETE", "/api/bypass/stripe").await.status, 404);
    assert_eq!(audited(&first, "begin a bypass", 1).await[0]["provider"], "stripe");
    assert_eq!(audited(&second, "end a bypass", 2).await.len(), 2);
}

#[tokio::test]
async fn copies_at_once_are_forwarded_once_during_a_bypass_too() {
    const COPIES: usize = 10;
    let gate = Gate::closed();
    let held = gate.clone();
    let consumer = Consumer::deciding(move |_, nth| match nth {
        1 => Act::Answer(200),
        _ => Act::Behind(held.clone(), Box::new(Act::Answer(200))),
    })
    .await;
    let redis = RedisProcess::start();
    let both = pair(&consumer, &redis).await;
    both[0].send(&stripe("e1")).await;
    Keys::of(&redis).done("stripe", "e1").await;
    assert_eq!(ask_with(&both[0], "PUT", "/api/bypass/stripe", "{\"for\":\"10m\"}").await.status, 200);
    bypassed(&both[1], "stripe", true).await;
    let mut copies = tokio::task::JoinSet::new();
    for copy in 0..COPIES {
        let to = both[copy % 2].listen;
        copies.spawn(async move { stripe("e1").send(to).await });
    }
    // All of them are under way once they are verified and one instance looks at the other's claim.
    let sum = async |name: &str, label| {
        let values = [both[0].metrics().await, both[1].metrics().await].map(|metrics| metrics.value(name, &[label]));
        values[0] + values[1]
    };
    eventually("copies that wait", async || {
        let verified = sum("hookonce_secret_matches_total", ("provider", "stripe")).await;
        let looks = sum("hookonce_store_seconds_count", ("op", "look")).await;
        (verified == (COPIES + 1) as f64 && looks > 0.0).then_some(())
    })
    .await;
    gate.open();
    let answers = copies.join_all().await;
    assert!(answers.iter().all(Answer::is_success), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.outcome() == "forwarded").count(), 1, "{answers:?}");
    assert_eq!(consumer.count("e1"), 2);
}

#[tokio::test]
async fn a_bypass_ends_by_itself_everywhere() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [first, second] = pair(&consumer, &redis).await;
    first.send(&stripe("e1")).await;
    Keys::of(&redis).done("stripe", "e1").await;
    assert_eq!(ask_with(&first, "PUT", "/api/bypass/stripe", "{\"for\":\"10s\"}").await.status, 200);
    assert_eq!(first.send(&stripe("e1")).await.outcome(), "forwarded");
    let life = Keys::of(&redis).ttl("test:bypass-stripe");
    assert!((1..=10).contains(&life), "{life}");
    bypassed(&second, "stripe", true).await;
    for instance in [&first, &second] {
        bypassed(instance, "stripe", false).await;
        assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
        eventually("a word of its end", async || instance.log().contains("the bypass has ended").then_some(())).await;
    }
    assert!(!Keys::of(&redis).names().contains(&"test:bypass-stripe".to_owned()));
}

#[tokio::test]
async fn an_instance_that_starts_during_a_bypass_knows_of_it() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [first, mut second] = pair(&consumer, &redis).await;
    second.stop().await;
    assert_eq!(ask_with(&first, "PUT", "/api/bypass/github", "{\"for\":\"1h\"}").await.status, 200);
    let third = Instance::start(&with_token(&consumer).store(&redis.url())).await;
    bypassed(&third, "github", true).await;
    let left = ask(&third, "GET", "/api/bypass/github").await.json()["left_s"].as_u64().unwrap();
    assert!((3590..=3600).contains(&left), "{left}");
}

#[tokio::test]
async fn a_bypass_holds_while_the_store_is_down_too() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = with_token(&consumer).store(&redis.url()).stripe("on_store_down = \"local\"").github("on_store_down = \"local\"");
    let instance = Instance::start(&setup).await;
    instance.send(&stripe("e1")).await;
    instance.send(&github("g1")).await;
    Keys::of(&redis).done("stripe", "e1").await;
    Keys::of(&redis).done("github", "g1").await;
    assert_eq!(ask_with(&instance, "PUT", "/api/bypass/stripe", "{\"for\":\"1h\"}").await.status, 200);
    drop(redis);
    // This process remembers both of them.
    assert_eq!(instance.send(&github("g1")).await.outcome(), "duplicate");
    for mark in ["store-down", "replay"] {
        instance.send(&stripe("e1")).await;
        assert_eq!(consumer.seen().pop().unwrap().mark(), Some(mark));
    }
    assert_eq!(consumer.count("e1"), 3);
}

#[tokio::test]
async fn without_the_token_nothing_is_changed_and_the_attempt_is_noted() {
    let consumer = Consumer::answering(200).await;
    let open = Instance::start(&in_front_of(&consumer)).await;
    let guarded = Instance::start(&with_token(&consumer)).await;
    for (instance, status) in [(&open, 403), (&guarded, 401)] {
        instance.send(&stripe("e1")).await;
        for (method, path) in [
            ("DELETE", "/api/events?provider=stripe&since=1h"),
            ("DELETE", "/api/events/stripe/e1"),
            ("PUT", "/api/bypass/stripe"),
            ("DELETE", "/api/bypass/stripe"),
        ] {
            let answer = Delivery::plain(method, path).with_body("{\"for\":\"1m\"}").send(instance.admin).await;
            assert_eq!(answer.status, status, "{method} {path}");
        }
        assert_eq!(audited(instance, "refused", 4).await.len(), 4);
        assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
    }
    for path in ["/api/bypass", "/api/bypass/stripe", "/api/events?provider=stripe&since=1h"] {
        assert_eq!(Delivery::plain("GET", path).send(open.admin).await.status, 200, "{path}");
        assert_eq!(Delivery::plain("GET", path).send(guarded.admin).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn a_wish_that_cannot_be_understood_is_refused() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&with_token(&consumer)).await;
    for body in
        ["", "30m", "{}", "{\"for\":30}", "{\"for\":\"30\"}", "{\"for\":\"0s\"}", "{\"for\":\"25h\"}", "{\"for\":\"1m\",\"x\":1}"]
    {
        assert_eq!(ask_with(&instance, "PUT", "/api/bypass/stripe", body).await.status, 400, "{body}");
    }
    for (method, path, status) in [
        ("PUT", "/api/bypass/nobody", 404),
        ("GET", "/api/bypass/nobody", 404),
        ("POST", "/api/bypass/stripe", 405),
        ("DELETE", "/api/bypass", 405),
        ("GET", "/api/bypassed", 404),
        ("DELETE", "/api/events", 400),
        ("DELETE", "/api/events?provider=stripe", 400),
        ("DELETE", "/api/events?provider=nobody&since=1h", 404),
        ("DELETE", "/api/events?provider=stripe&since=yesterday", 400),
        ("DELETE", "/api/events?provider=stripe&since=1h&until=2h", 400),
        ("GET", "/api/events?provider=stripe&since=", 400),
    ] {
        assert_eq!(ask_with(&instance, method, path, "{\"for\":\"1m\"}").await.status, status, "{method} {path}");
    }
    assert_eq!(ask(&instance, "GET", "/api/bypass").await.json()["bypasses"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn an_event_is_known_by_every_form_it_is_shown_in() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let [instance, _] = pair(&consumer, &redis).await;
    instance.send(&github("e1")).await;
    instance.send(&github_with("e1", "{}")).await;
    let other_body = consumer.seen().pop().unwrap().event_id().to_owned();
    assert!(other_body.starts_with("e1:"), "{other_body}");
    instance.send(&github("an odd id")).await;
    instance.send(&github_with("an odd id", "{}")).await;
    for event in [&other_body[..], "an%20odd%20id", consumer.seen().pop().unwrap().event_id()] {
        instance_shows(&instance, event).await;
    }
    // As the keys stand in Redis, and as a search shows them.
    let found = ask(&instance, "GET", "/api/events?provider=github").await.json();
    let ids: Vec<&str> = found["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids.iter().filter(|id| id.starts_with('~')).count()), (4, 2), "{ids:?}");
    for id in ids {
        instance_shows(&instance, id).await;
        assert_eq!(ask(&instance, "DELETE", &format!("/api/events/github/{id}")).await.status, 200, "{id}");
    }
    for delivery in [github("e1"), github_with("e1", "{}"), github("an odd id"), github_with("an odd id", "{}")] {
        instance.send(&delivery).await;
        assert_eq!(consumer.seen().pop().unwrap().mark(), Some("forgotten"));
    }
}

async fn instance_shows(instance: &Instance, id: &str) {
    eventually(&format!("{id} is done"), async || {
        let shown = ask(instance, "GET", &format!("/api/events/github/{id}")).await;
        (shown.status == 200 && shown.json()["state"] == "done").then_some(())
    })
    .await;
}
