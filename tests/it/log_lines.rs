//! One line a delivery, that says what happened and why.

use serde_json::{Value, json};

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::sender::{Delivery, github, stripe};

/// Waits until there are this many lines for deliveries.
async fn lines(instance: &Instance, count: usize) -> Vec<Value> {
    eventually("the lines of the deliveries", async || {
        let lines = instance.lines_of("hookonce::delivery");
        (lines.len() >= count).then_some(lines)
    })
    .await
}

/// What a line says, without times.
fn said(line: &Value) -> Value {
    let keys = ["level", "provider", "outcome", "status", "event", "attempt", "message"];
    keys.iter().map(|key| line[key].clone()).collect()
}

#[tokio::test]
async fn each_delivery_has_one_line_with_its_outcome_and_the_reason() {
    let consumer = Consumer::deciding(|seen, nth| match (seen.event_id(), nth) {
        ("fails-once", 1) => Act::Answer(501),
        _ => Act::Answer(204),
    })
    .await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    let forged = stripe("forged").with("stripe-signature", "t=1,v1=00");
    for delivery in [stripe("e1"), stripe("e1"), stripe("fails-once"), stripe("fails-once"), github("g1"), forged] {
        instance.send(&delivery).await;
    }
    instance.send(&Delivery::plain("POST", "/nowhere/token")).await;
    instance.send(&github("").without("x-github-delivery")).await;
    let lines = lines(&instance, 7).await;
    let expected = [
        json!(["INFO", "stripe", "forwarded", 204, "e1", 1, "the consumer answered 204"]),
        json!(["INFO", "stripe", "duplicate", 200, "e1", null, "this event is done; nothing was forwarded"]),
        json!([
            "WARN",
            "stripe",
            "failed",
            501,
            "fails-once",
            1,
            "released: the consumer answered 501, the next copy will be forwarded"
        ]),
        json!(["INFO", "stripe", "forwarded", 204, "fails-once", 2, "the consumer answered 204"]),
        json!(["INFO", "github", "forwarded", 204, "g1", 1, "the consumer answered 204"]),
    ];
    assert_eq!(lines[..5].iter().map(said).collect::<Vec<_>>(), expected);
    let rejected = said(&lines[5]);
    assert_eq!(rejected.as_array().unwrap()[..6], json!(["INFO", "stripe", "rejected", 401, null, null]).as_array().unwrap()[..]);
    assert!(!rejected[6].as_str().unwrap().is_empty());
    assert_eq!((lines[6]["outcome"].as_str(), lines[6]["maybe_duplicate"].as_str()), (Some("no_id"), Some("no-id")));
    assert_eq!(lines.len(), 7, "{lines:?}");
    let unrouted = instance.lines_of("hookonce::unrouted");
    assert_eq!(unrouted.iter().map(|line| line["path"].as_str().unwrap()).collect::<Vec<_>>(), ["/nowhere/..."]);
    // The log goes one way, whole.
    assert_eq!(instance.program.out(), "");
    for line in &lines {
        assert!(line["total_ms"].is_number() && line["timestamp"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn a_sender_that_hung_up_leaves_a_line_and_the_event_another_when_it_ends() {
    let gate = Gate::closed();
    let own = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(own.clone(), Box::new(Act::Answer(200)))).await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    let sender = stripe("e1").begin(instance.listen).await;
    consumer.arrived("e1", 1).await;
    drop(sender);
    let abandoned = said(&lines(&instance, 1).await[0]);
    assert_eq!(abandoned.as_array().unwrap()[1..5], json!(["stripe", "abandoned", 499, "e1"]).as_array().unwrap()[..]);
    assert!(instance.lines_of("hookonce::late").is_empty());
    gate.open();
    let late = eventually("a late line", async || instance.lines_of("hookonce::late").pop()).await;
    assert_eq!(
        json!([late["provider"], late["outcome"], late["event"], late["attempt"], late["message"]]),
        json!(["stripe", "forwarded", "e1", 1, "the consumer answered 200"])
    );
    assert_eq!(instance.send(&stripe("e1")).await.outcome(), "duplicate");
}

#[tokio::test]
async fn a_deadline_leaves_a_line_and_the_event_another_when_it_ends() {
    let gate = Gate::closed();
    let own = gate.clone();
    let consumer = Consumer::deciding(move |_, _| Act::Behind(own.clone(), Box::new(Act::Answer(500)))).await;
    let instance = Instance::start(&in_front_of(&consumer).stripe("answer_deadline = \"200ms\"")).await;
    assert_eq!(instance.send(&stripe("e1")).await.status, 503);
    let line = said(&lines(&instance, 1).await[0]);
    assert_eq!(line.as_array().unwrap()[1..5], json!(["stripe", "in_flight", 503, "e1"]).as_array().unwrap()[..]);
    gate.open();
    let late = eventually("a late line", async || instance.lines_of("hookonce::late").pop()).await;
    assert_eq!((late["outcome"].as_str(), late["event"].as_str()), (Some("failed"), Some("e1")));
}

#[tokio::test]
async fn text_is_plain_where_nobody_looks() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer).table("[log]\nformat = \"text\"")).await;
    instance.send(&stripe("e1")).await;
    let line = eventually("the line of the delivery", async || {
        instance.log().lines().find(|line| line.contains("the consumer answered 200")).map(str::to_owned)
    })
    .await;
    for part in ["INFO", "provider=\"stripe\"", "outcome=\"forwarded\"", "status=200", "event=\"e1\"", "attempt=1"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // Colours are for terminals.
    assert!(!instance.log().contains('\u{1b}'), "{}", instance.log());
}

#[tokio::test]
async fn what_goes_on_though_it_does_not_verify_says_why() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer).stripe("enforce = false")).await;
    instance.send(&stripe("e1").with("stripe-signature", "t=1,v1=00")).await;
    instance.send(&stripe("e2")).await;
    let lines = lines(&instance, 2).await;
    assert_eq!(lines[0]["unverified"], "malformed_signature");
    assert!(lines[1].get("unverified").is_none(), "{}", lines[1]);
}
