//! What an operator can decide: each key does what it says.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, SECRET, github, github_with, stripe, stripe_with};

/// The first delivery of an event is held back, the others are answered at once.
async fn first_gated(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    let first = move || Act::Behind(gate.clone(), Box::new(Act::Answer(200)));
    Consumer::deciding(move |_, nth| if nth == 1 { first() } else { Act::Answer(200) }).await
}

fn marks(consumer: &Consumer) -> Vec<Option<String>> {
    consumer.seen().iter().map(|seen| seen.mark().map(str::to_owned)).collect()
}

fn marked(words: &[&str]) -> Vec<Option<String>> {
    words.iter().map(|word| (!word.is_empty()).then(|| (*word).to_owned())).collect()
}

mod in_flight {
    use super::*;

    /// What a copy gets while the first is under way: in this process and in another.
    async fn of_copies(policy: &str) -> [(u16, String, Value, bool); 2] {
        let gate = Gate::closed();
        let (consumer, redis) = (first_gated(&gate).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).stripe(&format!("in_flight = \"{policy}\""));
        let (one, other) = (setup.start(), setup.start());
        let first = one.sending(&stripe("e1"));
        consumer.arrived("e1", 1).await;
        let copies = [one.send(&stripe("e1")).await, other.send(&stripe("e1")).await];
        gate.open();
        assert_eq!(first.await.unwrap().outcome(), "forwarded");
        assert_eq!(consumer.count("e1"), 1);
        assert!(one.stop().await && other.stop().await);
        copies.map(|copy| {
            (copy.status, copy.outcome().to_owned(), copy.json()["status"].clone(), copy.header("retry-after").is_some())
        })
    }

    #[tokio::test]
    async fn retry_tells_a_copy_to_come_back() {
        for copy in of_copies("retry").await {
            assert_eq!(copy, (503, "in_flight".to_owned(), "refused".into(), true));
        }
    }

    #[tokio::test]
    async fn ack_tells_a_copy_success() {
        for copy in of_copies("ack").await {
            assert_eq!(copy, (200, "in_flight".to_owned(), "in_flight".into(), false));
        }
    }
}

mod on_duplicate {
    use super::*;

    /// The first answer, and what duplicates get: in this process and in another.
    async fn replayed(status: u16, headers: Vec<(&'static str, &'static str)>, body: Bytes) {
        let (sent, answer) = (body.clone(), Act::Respond(status, headers.clone(), body));
        let (consumer, redis) = (Consumer::deciding(move |_, _| answer.clone()).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).stripe("on_duplicate = \"replay\"");
        let (one, other) = (setup.start(), setup.start());
        assert_eq!(one.send(&stripe("e1")).await.body, sent);
        one.in_state("stripe", "e1", "done").await;
        for proxy in [&one, &other] {
            let copy = proxy.send(&stripe("e1")).await;
            assert_eq!((copy.status, copy.outcome()), (status, "duplicate"));
            assert!(copy.body == sent);
            assert_eq!(copy.header("content-type"), headers.first().map(|(_, value)| *value));
        }
        assert_eq!(consumer.count("e1"), 1);
        assert!(one.stop().await && other.stop().await);
    }

    #[tokio::test]
    async fn replay_gives_a_duplicate_the_first_reply() {
        replayed(201, vec![("content-type", "text/xml")], "<Response/>\n\n".into()).await;
    }

    #[tokio::test]
    async fn replay_gives_back_binary_bodies_up_to_16_kib() {
        let body: Vec<u8> = (0..16 * 1024).map(|n: u32| u8::try_from(n % 256).unwrap()).collect();
        replayed(200, vec![("content-type", "application/octet-stream")], body.into()).await;
    }

    #[tokio::test]
    async fn replay_gives_back_an_empty_reply() {
        replayed(204, vec![], Bytes::new()).await;
    }

    #[tokio::test]
    async fn a_reply_past_16_kib_is_not_replayed() {
        let body = Bytes::from(vec![b'x'; 16 * 1024 + 1]);
        let consumer = Consumer::deciding(move |_, _| Act::Respond(200, vec![], body.clone())).await;
        let proxy = in_front_of(&consumer).stripe("on_duplicate = \"replay\"").start();
        assert_eq!(proxy.send(&stripe("e1")).await.body.len(), 16 * 1024 + 1);
        proxy.in_state("stripe", "e1", "done").await;
        let copy = proxy.send(&stripe("e1")).await;
        assert_eq!((copy.status, copy.outcome(), copy.json()["status"].as_str()), (200, "duplicate", Some("duplicate")));
        assert!(proxy.stop().await);
    }
}

mod on_conflict {
    use super::*;

    fn one() -> Delivery {
        github_with("e1", "{\"body\":1}")
    }

    fn two() -> Delivery {
        github_with("e1", "{\"body\":2}")
    }

    fn signed(body: u32) -> Delivery {
        stripe_with(format!("{{\"id\":\"e1\",\"body\":{body}}}"))
    }

    #[tokio::test]
    async fn another_body_under_an_unsigned_id_is_another_event() {
        let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
        let proxy = in_front_of(&consumer).store(&redis.url()).start();
        let ways = [(one(), "forwarded"), (two(), "conflict"), (two(), "duplicate"), (one(), "duplicate")];
        for (delivery, outcome) in ways {
            let answer = proxy.send(&delivery).await;
            assert_eq!((answer.status, answer.outcome()), (200, outcome));
            // The store hears of a completion beside the reply.
            proxy.counted("hookonce_claims_in_flight", &[("provider", "github")], 0.0).await;
        }
        assert_eq!(marks(&consumer), marked(&["", "conflict"]));
        // A consumer that tells events apart by their ids must not drop the second.
        assert_eq!((consumer.count("e1"), consumer.counts().len()), (1, 2));
        let metrics = proxy.metrics().await;
        assert_eq!(metrics.marked("github", "conflict"), 1.0);
        assert_eq!(metrics.value("hookonce_conflicts_total", &[("provider", "github")]), 2.0);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn another_body_is_another_event_while_the_first_is_in_flight() {
        let gate = Gate::closed();
        let held = gate.clone();
        let consumer = Consumer::deciding(move |seen, _| match &seen.body[..] {
            b"{\"body\":1}" => Act::Behind(held.clone(), Box::new(Act::Answer(200))),
            _ => Act::Answer(200),
        })
        .await;
        let redis = RedisProcess::start();
        let setup = in_front_of(&consumer).store(&redis.url()).github("in_flight = \"retry\"");
        let (here, elsewhere) = (setup.start(), setup.start());
        let first = here.sending(&one());
        consumer.arrived("e1", 1).await;
        assert_eq!(here.send(&two()).await.outcome(), "conflict");
        here.counted("hookonce_claims_in_flight", &[("provider", "github")], 1.0).await;
        assert_eq!(here.send(&two()).await.outcome(), "duplicate");
        assert_eq!(elsewhere.send(&two()).await.outcome(), "duplicate");
        assert_eq!(elsewhere.send(&one()).await.outcome(), "in_flight");
        gate.open();
        assert_eq!(first.await.unwrap().outcome(), "forwarded");
        assert_eq!(marks(&consumer), marked(&["", "conflict"]));
        assert!(here.stop().await && elsewhere.stop().await);
    }

    #[tokio::test]
    async fn a_copy_of_the_first_stays_a_duplicate_while_another_body_is_being_looked_up() {
        let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
        let proxy = in_front_of(&consumer).store(&redis.url()).store_keys("timeout = \"10s\"").top("workers = 1").start();
        assert_eq!(proxy.send(&one()).await.outcome(), "forwarded");
        proxy.in_state("github", "e1", "done").await;
        redis.signal("STOP");
        let other = proxy.sending_copies(&two(), 1).await.remove(0);
        let copy = proxy.sending_copies(&one(), 1).await.remove(0);
        redis.signal("CONT");
        assert_eq!(copy.await.unwrap().outcome(), "duplicate");
        assert_eq!(other.await.unwrap().outcome(), "conflict");
        assert_eq!(consumer.seen().len(), 2);
        assert!(proxy.stop().await);
    }

    const SOON: &str = "100";

    /// Else the other body would be taken for new under that key, once it is free, whatever has become of it.
    #[tokio::test]
    async fn the_first_body_is_remembered_as_long_as_the_other() {
        let consumer = Consumer::deciding(|seen, _| Act::Answer(if seen.mark().is_none() { 200 } else { 500 })).await;
        let redis = RedisProcess::start();
        let (proxy, mut keys, main) =
            (in_front_of(&consumer).store(&redis.url()).start(), Keys::of(&redis), Keys::name("github", "e1"));
        assert_eq!(proxy.send(&one()).await.outcome(), "forwarded");
        keys.done("github", "e1").await;
        // Until the store's word has come, the other body meets the first in the process and leaves its key alone.
        proxy.counted("hookonce_claims_in_flight", &[("provider", "github")], 0.0).await;
        keys.order(&["EXPIRE", &main, SOON]);
        assert_eq!(proxy.send(&two()).await.outcome(), "failed");
        assert!(keys.ttl(&main) > SOON.parse().unwrap());
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn the_first_body_is_remembered_as_long_as_one_that_ends_after_it() {
        let gates = [Gate::closed(), Gate::closed()];
        let held = gates.clone();
        let consumer = Consumer::deciding(move |seen, _| {
            Act::Behind(held[usize::from(seen.mark().is_some())].clone(), Box::new(Act::Answer(200)))
        })
        .await;
        let redis = RedisProcess::start();
        let (proxy, mut keys, main) =
            (in_front_of(&consumer).store(&redis.url()).start(), Keys::of(&redis), Keys::name("github", "e1"));
        let first = proxy.sending(&one());
        consumer.arrived("e1", 1).await;
        let other = proxy.sending(&two());
        eventually("both are with the consumer", async || (consumer.seen().len() == 2).then_some(())).await;
        gates[0].open();
        assert_eq!(first.await.unwrap().outcome(), "forwarded");
        keys.done("github", "e1").await;
        keys.order(&["EXPIRE", &main, SOON]);
        gates[1].open();
        assert_eq!(other.await.unwrap().outcome(), "conflict");
        proxy.counted("hookonce_claims_in_flight", &[("provider", "github")], 0.0).await;
        assert!(keys.ttl(&main) > SOON.parse().unwrap());
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn another_body_under_a_signed_id_is_a_duplicate_and_counted() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).start();
        assert_eq!(proxy.send(&signed(1)).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&signed(2)).await.outcome(), "duplicate");
        assert_eq!(proxy.metrics().await.value("hookonce_conflicts_total", &[("provider", "stripe")]), 1.0);
        assert_eq!(consumer.count("e1"), 1);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn another_body_under_a_signed_id_waits_for_the_first_and_is_counted() {
        let gate = Gate::closed();
        let consumer = first_gated(&gate).await;
        let proxy = in_front_of(&consumer).top("workers = 1").start();
        let first = proxy.sending(&signed(1));
        consumer.arrived("e1", 1).await;
        let other = proxy.sending_copies(&signed(2), 1).await.remove(0);
        gate.open();
        assert_eq!((first.await.unwrap().outcome(), other.await.unwrap().outcome()), ("forwarded", "waited"));
        assert_eq!(proxy.metrics().await.value("hookonce_conflicts_total", &[("provider", "stripe")]), 1.0);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn reject_refuses_another_body_whether_the_first_is_done_or_in_flight() {
        let gate = Gate::closed();
        let consumer = first_gated(&gate).await;
        let proxy = in_front_of(&consumer).both("on_conflict = \"reject\"").start();
        let first = proxy.sending(&one());
        consumer.arrived("e1", 1).await;
        for done in [false, true] {
            let refused = proxy.send(&two()).await;
            assert_eq!((refused.status, refused.outcome()), (422, "conflict"), "done: {done}");
            assert_eq!(refused.json()["code"], "conflict");
            gate.open();
            proxy.in_state("github", "e1", "done").await;
        }
        first.await.unwrap();
        assert_eq!(consumer.seen().len(), 1);
        assert_eq!(proxy.send(&signed(1)).await.status, 200);
        assert_eq!(proxy.send(&signed(2)).await.status, 422);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn what_is_derived_can_be_overridden() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).github("on_conflict = \"duplicate\"").stripe("on_conflict = \"forward\"").start();
        assert_eq!(proxy.send(&one()).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&two()).await.outcome(), "duplicate");
        assert_eq!(proxy.send(&signed(1)).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&signed(2)).await.outcome(), "conflict");
        assert!(proxy.stop().await);
    }
}

mod fingerprint {
    use super::*;

    async fn outcomes(rule: &str, bodies: [&'static str; 3]) -> [String; 3] {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).github(&format!("fingerprint = {rule}")).start();
        let mut outcomes = [const { String::new() }; 3];
        for (body, outcome) in bodies.into_iter().zip(&mut outcomes) {
            *outcome = proxy.send(&github_with("e1", body)).await.outcome().to_owned();
        }
        assert!(proxy.stop().await);
        outcomes
    }

    #[tokio::test]
    async fn what_is_excluded_does_not_make_another_event() {
        let bodies = [r#"{"n":1,"sent_at":1}"#, r#"{"n":1,"sent_at":2}"#, r#"{"n":2,"sent_at":2}"#];
        assert_eq!(outcomes(r#"{ exclude = ["/sent_at"] }"#, bodies).await, ["forwarded", "duplicate", "conflict"]);
    }

    #[tokio::test]
    async fn only_what_is_included_makes_another_event() {
        let bodies = [r#"{"n":1,"x":1}"#, r#"{"n":1,"x":2}"#, r#"{"n":2,"x":2}"#];
        assert_eq!(outcomes(r#"{ include = ["/n"] }"#, bodies).await, ["forwarded", "duplicate", "conflict"]);
    }
}

mod statuses {
    use super::*;

    /// The first answer has this status, the second is a 200.
    async fn setup(status: u16, keys: &str) -> (Consumer, Setup) {
        let consumer = Consumer::deciding(move |_, nth| Act::Answer(if nth == 1 { status } else { 200 })).await;
        let setup = in_front_of(&consumer).stripe(keys);
        (consumer, setup)
    }

    #[tokio::test]
    async fn a_status_in_complete_on_completes() {
        let (consumer, setup) = setup(409, "complete_on = [\"2xx\", 409]").await;
        let proxy = setup.start();
        let first = proxy.send(&stripe("e1")).await;
        assert_eq!((first.status, first.outcome()), (409, "forwarded"));
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
        assert_eq!(consumer.count("e1"), 1);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_redirect_is_a_failure_and_is_not_followed() {
        let (consumer, setup) = setup(302, "").await;
        let proxy = setup.start();
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "failed");
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
        assert_eq!(consumer.count("e1"), 2);
        assert!(proxy.stop().await);
    }

    /// A 504 is in neither list.
    async fn ambiguous(word: &str) -> (Consumer, Setup) {
        setup(504, &format!("release_on = [500, 503]\nlease = \"1s\"\nin_flight = \"retry\"\nambiguous = \"{word}\"")).await
    }

    #[tokio::test]
    async fn a_status_in_neither_list_is_held_to_the_end_of_the_lease() {
        let (consumer, setup) = ambiguous("hold").await;
        let proxy = setup.start();
        let first = proxy.send(&stripe("e1")).await;
        assert_eq!((first.status, first.outcome(), &first.body[..]), (504, "ambiguous", &b"{\"consumer\":504}"[..]));
        assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "claimed");
        let next = async || Some(proxy.send(&stripe("e1")).await).filter(|next| next.outcome() != "in_flight");
        assert_eq!(eventually("the lease is over", next).await.outcome(), "forwarded");
        assert_eq!(marks(&consumer), marked(&["", "unknown"]));
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_status_in_neither_list_is_released_in_doubt() {
        let (consumer, setup) = ambiguous("release").await;
        let proxy = setup.start();
        assert_eq!(proxy.send(&stripe("e1")).await.status, 504);
        assert_eq!(proxy.event("stripe", "e1").await.unwrap()["doubt"], "unknown");
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
        assert_eq!(marks(&consumer), marked(&["", "unknown"]));
        assert_eq!(proxy.metrics().await.marked("stripe", "unknown"), 1.0);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_status_in_neither_list_is_kept_as_done() {
        let (consumer, setup) = ambiguous("keep").await;
        let proxy = setup.start();
        assert_eq!(proxy.send(&stripe("e1")).await.status, 504);
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
        assert_eq!(consumer.count("e1"), 1);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn doubt_lasts_through_explicit_failures() {
        let consumer = Consumer::deciding(|_, nth| Act::Answer([504, 500, 200][nth - 1])).await;
        let proxy = in_front_of(&consumer).stripe("release_on = [500]\nambiguous = \"release\"").start();
        for status in [504, 500, 200] {
            assert_eq!(proxy.send(&stripe("e1")).await.status, status);
        }
        assert_eq!(marks(&consumer), marked(&["", "unknown", "unknown"]));
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_status_with_a_meaning_is_explained_in_the_log() {
        let (_consumer, setup) = setup(410, "special_statuses = { 410 = \"ends the subscription\" }").await;
        let instance = Instance::start(&setup).await;
        assert_eq!(stripe("e1").send(instance.listen).await.status, 410);
        let has_line = async || instance.log().contains("410 means: ends the subscription").then_some(());
        eventually("the meaning in the log", has_line).await;
    }
}

mod settle {
    use super::*;

    #[tokio::test]
    async fn before_reply_holds_the_reply_back_until_the_store_has_confirmed() {
        let gate = Gate::closed();
        let (consumer, redis) = (first_gated(&gate).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).store_keys("timeout = \"10s\"");
        let proxy = setup.top("workers = 1").stripe("settle = \"before_reply\"").start();
        let first = proxy.sending(&stripe("e1"));
        consumer.arrived("e1", 1).await;
        redis.signal("STOP");
        gate.open();
        proxy.counted("hookonce_upstream_seconds_count", &[("provider", "stripe")], 1.0).await;
        // What needs no store overtakes it.
        assert_eq!(proxy.send(&github("none").without("x-github-delivery")).await.outcome(), "no_id");
        assert!(proxy.metrics().await.outcome("stripe", "forwarded") == 0.0 && !first.is_finished());
        redis.signal("CONT");
        assert_eq!(first.await.unwrap().outcome(), "forwarded");
        assert_eq!(proxy.event("stripe", "e1").await.unwrap()["state"], "done");
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn before_reply_does_not_turn_success_into_failure() {
        let gate = Gate::closed();
        let (consumer, redis) = (first_gated(&gate).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).store_keys("timeout = \"300ms\"");
        let proxy = setup.stripe("settle = \"before_reply\"").start();
        let first = proxy.sending(&stripe("e1"));
        consumer.arrived("e1", 1).await;
        redis.signal("STOP");
        gate.open();
        assert_eq!(first.await.unwrap().status, 200);
        redis.signal("CONT");
        proxy.in_state("stripe", "e1", "done").await;
        assert!(proxy.stop().await);
    }
}

mod door {
    use super::*;

    #[tokio::test]
    async fn what_is_not_enforced_is_forwarded_without_a_claim_and_counted() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).stripe("enforce = false").start();
        let forged = stripe("e1").with("stripe-signature", &format!("t=1,v1={}", "0".repeat(64)));
        for delivery in [&forged, &forged, &stripe("e1").without("stripe-signature")] {
            let answer = proxy.send(delivery).await;
            assert_eq!((answer.status, answer.outcome()), (200, "forwarded"));
        }
        assert_eq!(proxy.event("stripe", "e1").await, None);
        let metrics = proxy.metrics().await;
        let failures = |reason| metrics.value("hookonce_signature_failures_total", &[("provider", "stripe"), ("reason", reason)]);
        assert_eq!((failures("no_match"), failures("missing_signature")), (2.0, 1.0));
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_forged_signature_gets_the_configured_status() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).stripe("reject_status = 403").start();
        let refused = proxy.send(&stripe("e1").without("stripe-signature")).await;
        assert_eq!((refused.status, refused.outcome()), (403, "rejected"));
        let refused = proxy.send(&stripe("e1").with_body("{\"id\":\"e2\"}")).await;
        assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("no_match")));
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_rejection_says_nothing_where_the_provider_wants_nothing() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).stripe("reject_body = false").start();
        for refused in [stripe("e1").without("stripe-signature"), stripe("e1").with_body("{\"id\":\"e2\"}")] {
            let refused = proxy.send(&refused).await;
            assert_eq!((refused.status, refused.outcome(), refused.body.len()), (401, "rejected", 0));
        }
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn deliveries_beyond_max_concurrent_are_told_to_come_back() {
        let gate = Gate::closed();
        let held = gate.clone();
        let consumer = Consumer::deciding(move |seen, _| match seen.event_id() {
            "e1" => Act::Behind(held.clone(), Box::new(Act::Answer(200))),
            _ => Act::Answer(200),
        })
        .await;
        let proxy = in_front_of(&consumer).stripe("max_concurrent = 1").start();
        let first = stripe("e1").begin(proxy.listen).await;
        consumer.arrived("e1", 1).await;
        let refused = proxy.send(&stripe("e2")).await;
        assert_eq!((refused.status, refused.outcome()), (503, "limited"));
        assert_eq!(proxy.send(&github("e2")).await.outcome(), "forwarded");
        // A sender that hangs up does not make room: its attempt goes on.
        drop(first);
        proxy.ended("stripe", "abandoned", 1.0).await;
        assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "limited");
        assert_eq!(proxy.metrics().await.value("hookonce_limited_total", &[("limit", "concurrency")]), 2.0);
        gate.open();
        proxy.counted("hookonce_claims_in_flight", &[("provider", "stripe")], 0.0).await;
        assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "forwarded");
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn an_event_that_only_the_store_has_not_confirmed_takes_no_room() {
        let gate = Gate::closed();
        let (consumer, redis) = (first_gated(&gate).await, RedisProcess::start());
        let setup = in_front_of(&consumer).store(&redis.url()).store_keys("timeout = \"300ms\"");
        let proxy = setup.github("max_concurrent = 1").start();
        let first = proxy.sending(&github("e1"));
        consumer.arrived("e1", 1).await;
        redis.signal("STOP");
        gate.open();
        assert_eq!(first.await.unwrap().outcome(), "forwarded");
        assert_eq!(proxy.send(&github("e2")).await.outcome(), "store_down");
        redis.signal("CONT");
        assert!(proxy.stop().await);
    }
}

mod observe {
    use super::*;

    #[tokio::test]
    async fn everything_is_forwarded_and_what_would_have_been_dropped_is_marked() {
        let gate = Gate::closed();
        let consumer = first_gated(&gate).await;
        let proxy = in_front_of(&consumer).stripe("dedupe = \"observe\"").start();
        let first = proxy.sending(&stripe("e1"));
        consumer.arrived("e1", 1).await;
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
        gate.open();
        assert_eq!(first.await.unwrap().outcome(), "forwarded");
        proxy.in_state("stripe", "e1", "done").await;
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
        assert_eq!(marks(&consumer), marked(&["", "observe", "observe"]));
        assert_eq!(proxy.metrics().await.marked("stripe", "observe"), 2.0);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_conflict_that_would_be_rejected_is_forwarded() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).github("dedupe = \"observe\"\non_conflict = \"reject\"").start();
        assert_eq!(proxy.send(&github_with("e1", "1")).await.status, 200);
        assert_eq!(proxy.send(&github_with("e1", "2")).await.status, 200);
        assert_eq!(marks(&consumer), marked(&["", "observe"]));
        assert!(proxy.stop().await);
    }
}

mod ids {
    use super::*;

    fn without_id() -> Delivery {
        stripe_with("{\"no\":\"id\"}")
    }

    #[tokio::test]
    async fn without_an_id_a_delivery_is_forwarded_and_marked() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).start();
        for _ in 0..2 {
            let answer = proxy.send(&without_id()).await;
            assert_eq!((answer.status, answer.outcome()), (200, "no_id"));
        }
        assert_eq!(marks(&consumer), marked(&["no-id", "no-id"]));
        assert_eq!(proxy.metrics().await.marked("stripe", "no-id"), 2.0);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn without_an_id_a_delivery_is_rejected_where_that_is_asked_for() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).stripe("missing_id = \"reject\"").start();
        let refused = proxy.send(&without_id()).await;
        assert_eq!((refused.status, refused.outcome()), (400, "no_id"));
        assert_eq!(refused.json()["code"], "missing_event_id");
        assert_eq!(consumer.seen().len(), 0);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn without_an_id_a_delivery_is_known_by_its_body_where_that_is_asked_for() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).stripe("missing_id = \"hash\"").start();
        assert_eq!(proxy.send(&without_id()).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&without_id()).await.outcome(), "duplicate");
        assert_eq!(proxy.send(&stripe_with("{\"no\":\"other\"}")).await.outcome(), "forwarded");
        assert_eq!(marks(&consumer), marked(&["", ""]));
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn one_id_of_two_tenants_is_two_events() {
        let consumer = Consumer::answering(200).await;
        let proxy = in_front_of(&consumer).github("tenant = { header = \"X-Shop\" }").start();
        let of = |shop| github("e1").with("x-shop", shop);
        assert_eq!(proxy.send(&of("a")).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&of("b")).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&of("a")).await.outcome(), "duplicate");
        assert_eq!(proxy.send(&github("e1")).await.outcome(), "no_id");
        let ids: Vec<String> = consumer.seen().iter().map(|seen| seen.event_id().to_owned()).collect();
        assert_eq!(ids, ["a+e1", "b+e1", "none"]);
        assert!(proxy.stop().await);
    }

    #[tokio::test]
    async fn a_preset_under_another_name_has_events_of_its_own() {
        let consumer = Consumer::answering(200).await;
        let orders = format!("[providers.orders]\npreset = \"github\"\npath = \"/orders\"\nsecret = \"{SECRET}\"");
        let proxy = in_front_of(&consumer).table(&orders).start();
        assert_eq!(proxy.send(&github("e1")).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&github("e1").at("/orders")).await.outcome(), "forwarded");
        assert_eq!(proxy.send(&github("e1").at("/orders")).await.outcome(), "duplicate");
        assert!(proxy.stop().await);
    }
}

#[tokio::test]
async fn a_forgotten_event_is_forwarded_again_and_marked() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let proxy = in_front_of(&consumer).store(&redis.url()).top("admin_token = \"0123456789abcdef\"").start();
    let forget = Delivery::plain("DELETE", "/api/events/stripe/e1").with("authorization", "Bearer 0123456789abcdef");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    proxy.counted("hookonce_claims_in_flight", &[("provider", "stripe")], 0.0).await;
    assert_eq!(proxy.admin(&forget).await.json()["status"], "forgotten");
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    proxy.counted("hookonce_claims_in_flight", &[("provider", "stripe")], 0.0).await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "duplicate");
    assert_eq!(marks(&consumer), marked(&["", "forgotten"]));
    assert_eq!(consumer.seen()[1].header("hookonce-attempt"), Some("2"));
    assert_eq!(proxy.metrics().await.marked("stripe", "forgotten"), 1.0);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_is_new_again_once_its_retention_is_over() {
    let consumer = Consumer::answering(200).await;
    let orders = format!(
        "[providers.orders]\npreset = \"github\"\npath = \"/orders\"\nsecret = \"{SECRET}\"\nretention = \"2s\"\nlease = \"1s\""
    );
    let proxy = in_front_of(&consumer).table(&orders).start();
    let began = tokio::time::Instant::now();
    assert_eq!(proxy.send(&github("e1").at("/orders")).await.outcome(), "forwarded");
    let next = async || Some(proxy.send(&github("e1").at("/orders")).await).filter(|next| next.outcome() != "duplicate");
    assert_eq!(eventually("the event is forgotten", next).await.outcome(), "forwarded");
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(marks(&consumer), marked(&["", ""]));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_2xx_that_does_not_complete_is_never_told_as_one() {
    let consumer =
        Consumer::deciding(|seen, nth| Act::Answer(if seen.event_id() == "late" && nth > 1 { 201 } else { 200 })).await;
    let redis = RedisProcess::start();
    for (released, outcome) in [("", "failed"), ("release_on = [\"5xx\"]", "ambiguous")] {
        let proxy = in_front_of(&consumer).stripe(&format!("complete_on = [201]\n{released}")).start();
        let first = proxy.send(&stripe("never")).await;
        assert_eq!((first.status, first.outcome()), (502, outcome));
        assert!(proxy.stop().await);
    }
    // Nor to a copy that waits elsewhere, and the next copy goes through.
    let proxy = in_front_of(&consumer).store(&redis.url()).stripe("complete_on = [201]").start();
    assert_eq!(proxy.send(&stripe("late")).await.status, 502);
    assert_eq!(proxy.send(&stripe("late")).await.status, 201);
    assert_eq!(proxy.send(&stripe("late")).await.outcome(), "duplicate");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_encoded_reply_is_not_replayed_without_its_encoding() {
    let consumer =
        Consumer::deciding(|_, _| Act::Respond(200, vec![("content-encoding", "gzip")], Bytes::from_static(b"\x1f\x8b"))).await;
    let proxy = in_front_of(&consumer).stripe("on_duplicate = \"replay\"").start();
    assert_eq!(proxy.send(&stripe("e1")).await.header("content-encoding"), Some("gzip"));
    let second = proxy.send(&stripe("e1")).await;
    assert_eq!((second.outcome(), second.json()["status"].as_str()), ("duplicate", Some("duplicate")));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_signed_id_is_found_whatever_unsigned_headers_say_of_the_body() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    for delivery in [stripe("e1").with("content-encoding", "gzip"), stripe("e1").with("content-type", "text/plain")] {
        assert_eq!(proxy.send(&delivery).await.outcome(), "duplicate");
    }
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_failure_that_counts_as_done_is_not_replayed() {
    let consumer = Consumer::answering(409).await;
    let proxy = in_front_of(&consumer).stripe("complete_on = [\"2xx\", 409]\non_duplicate = \"replay\"").start();
    assert_eq!(proxy.send(&stripe("e1")).await.status, 409);
    let second = proxy.send(&stripe("e1")).await;
    assert_eq!((second.status, second.outcome()), (200, "duplicate"));
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}
