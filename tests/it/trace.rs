//! Traces: where they come from, where they go on, and what a collector is given. It is read here by the definitions that
//! collectors are built from.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::proxy::{Proxy, Setup, in_front_of};
use crate::support::sender::{Delivery, github, stripe};

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(consumer: &Consumer, collector: &Consumer) -> Setup {
    let key = "headers = { \"api-key\" = \"0123456789abcdef\" }";
    in_front_of(consumer).table(&format!("[trace]\nendpoint = \"{}\"\n{key}", collector.url()))
}

/// Every span that the collector has been given.
fn spans(collector: &Consumer) -> Vec<Span> {
    let requests = collector.seen().into_iter().map(|seen| {
        assert_eq!((seen.target.as_str(), seen.header("content-type")), ("/v1/traces", Some("application/json")));
        assert_eq!(seen.header("api-key"), Some("0123456789abcdef"));
        serde_json::from_slice::<ExportTraceServiceRequest>(&seen.body).unwrap()
    });
    requests
        .flat_map(|request| request.resource_spans)
        .flat_map(|resource| resource.scope_spans)
        .flat_map(|scope| scope.spans)
        .collect()
}

/// Waits until there are spans of so many deliveries and attempts.
async fn spans_of(collector: &Consumer, count: usize) -> Vec<Span> {
    eventually(&format!("spans of {count}"), async || {
        let spans = spans(collector);
        let ends = spans.iter().filter(|span| ["delivery", "attempt"].contains(&span.name.as_str())).count();
        (ends >= count).then_some(spans)
    })
    .await
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

fn notes(span: &Span) -> HashMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    span.attributes.iter().map(|note| (note.key.as_str(), text(note.value.as_ref().unwrap().value.as_ref().unwrap()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

async fn dropped_or_failed(proxy: &Proxy, result: &str) -> f64 {
    proxy.metrics().await.value("hookonce_spans_total", &[("result", result)])
}

#[tokio::test]
async fn a_delivery_is_one_trace_with_a_span_for_each_step() {
    let (consumer, collector) = (Consumer::answering(200).await, Consumer::answering(200).await);
    let proxy = traced(&consumer, &collector).start();
    proxy.send(&github("e1").with("traceparent", GIVEN).with("tracestate", "vendor=1")).await;
    let spans = spans_of(&collector, 1).await;
    let delivery = named(&spans, "delivery");
    assert_eq!((hex(&delivery.trace_id).as_str(), hex(&delivery.parent_span_id).as_str()), (&GIVEN[3..35], &GIVEN[36..52]));
    for step in ["intake", "verify", "identify", "claim", "forward", "settle"] {
        let step = named(&spans, step);
        assert_eq!((&step.trace_id, &step.parent_span_id), (&delivery.trace_id, &delivery.span_id));
        assert!(
            step.start_time_unix_nano >= delivery.start_time_unix_nano && step.end_time_unix_nano >= step.start_time_unix_nano
        );
    }
    let notes = notes(delivery);
    let said = ["hookonce.provider", "hookonce.outcome", "hookonce.event_id", "hookonce.attempt", "http.response.status_code"];
    assert_eq!(said.map(|key| notes[key].as_str()), ["github", "forwarded", "e1", "1", "200"]);
    // The consumer goes on where the call left off.
    let seen = &consumer.seen()[0];
    let forward = named(&spans, "forward");
    assert_eq!(seen.header("traceparent").unwrap(), format!("00-{}-{}-01", &GIVEN[3..35], hex(&forward.span_id)));
    assert_eq!(seen.header("tracestate"), Some("vendor=1"));
    assert_eq!((delivery.kind, forward.kind), (2, 3));
    proxy.counted("hookonce_spans_total", &[("result", "exported")], spans.len() as f64).await;
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_duplicate_and_a_failure_say_so() {
    let collector = Consumer::answering(200).await;
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 500 } else { 200 })).await;
    let proxy = traced(&consumer, &collector).start();
    for _ in 0..3 {
        proxy.send(&stripe("e1")).await;
    }
    let spans = spans_of(&collector, 3).await;
    let mut ends: Vec<_> = spans.iter().filter(|span| span.name == "delivery").collect();
    ends.sort_by_key(|span| span.start_time_unix_nano);
    let outcomes: Vec<String> = ends.iter().map(|span| notes(span)["hookonce.outcome"].clone()).collect();
    assert_eq!(outcomes, ["failed", "forwarded", "duplicate"]);
    let codes: Vec<i32> = ends.iter().map(|span| span.status.as_ref().map_or(0, |status| status.code)).collect();
    assert_eq!(codes, [2, 0, 0]);
    // Each is a trace of its own, begun here.
    assert!(ends[0].trace_id != ends[1].trace_id && ends.iter().all(|span| span.parent_span_id.is_empty()));
    let last_claim = spans.iter().filter(|span| span.name == "claim").max_by_key(|span| span.start_time_unix_nano).unwrap();
    assert_eq!(notes(last_claim)["hookonce.claim"], "done");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_letter_goes_on_with_the_trace_of_its_delivery() {
    let collector = Consumer::answering(200).await;
    let consumer = Consumer::answering(200).await;
    let queue = "[queue]\naccept_loss = true";
    let proxy = traced(&consumer, &collector).table(queue).github("mode = \"queue\"").start();
    assert_eq!(proxy.send(&github("e1").with("tracestate", "vendor=1")).await.outcome(), "queued");
    let spans = spans_of(&collector, 2).await;
    let (delivery, attempt, append) = (named(&spans, "delivery"), named(&spans, "attempt"), named(&spans, "append"));
    assert_eq!((&attempt.trace_id, &attempt.parent_span_id), (&delivery.trace_id, &delivery.span_id));
    assert_eq!(append.parent_span_id, delivery.span_id);
    let forward = named(&spans, "forward");
    assert_eq!(forward.parent_span_id, attempt.span_id);
    let seen = &consumer.seen()[0];
    assert!(seen.header("traceparent").unwrap().contains(&hex(&forward.span_id)));
    // What was said of another trace, which nobody named, is not said of this one.
    assert_eq!(seen.header("tracestate"), None);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn forged_deliveries_leave_no_span_and_unwanted_traces_pass_untouched() {
    let (consumer, collector) = (Consumer::answering(200).await, Consumer::answering(200).await);
    let proxy = traced(&consumer, &collector).start();
    let forged = Delivery { body: "{}".into(), ..github("e1") }.with("traceparent", GIVEN);
    assert_eq!(proxy.send(&forged).await.status, 401);
    let unsampled = GIVEN.replace("-01", "-00");
    proxy.send(&github("e2").with("traceparent", &unsampled)).await;
    proxy.send(&github("e3")).await;
    let spans = spans_of(&collector, 1).await;
    assert_eq!(notes(named(&spans, "delivery"))["hookonce.event_id"], "e3");
    assert!(spans.iter().all(|span| hex(&span.trace_id) != GIVEN[3..35]));
    assert_eq!(consumer.seen()[0].header("traceparent"), Some(unsampled.as_str()));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn without_an_endpoint_a_context_is_passed_on_as_it_came() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    proxy.send(&github("e1").with("traceparent", GIVEN).with("tracestate", "vendor=1")).await;
    proxy.send(&github("e2")).await;
    let seen = consumer.seen();
    assert_eq!((seen[0].header("traceparent"), seen[0].header("tracestate")), (Some(GIVEN), Some("vendor=1")));
    assert_eq!(seen[1].header("traceparent"), None);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_no_delivery_and_what_is_left_goes_at_the_end() {
    let collector = Consumer::deciding(|_, _| Act::Answer(400)).await;
    let consumer = Consumer::answering(200).await;
    let proxy = traced(&consumer, &collector).start();
    assert_eq!(proxy.send(&github("e1")).await.status, 200);
    eventually("spans that nobody takes", async || (dropped_or_failed(&proxy, "failed").await >= 7.0).then_some(())).await;
    assert_eq!(dropped_or_failed(&proxy, "exported").await, 0.0);
    let before = collector.seen().len();
    assert_eq!(proxy.send(&github("e2")).await.status, 200);
    assert!(proxy.stop().await);
    assert_eq!(collector.seen().len(), before + 1);
}
