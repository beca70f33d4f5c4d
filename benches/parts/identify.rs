//! Finding out which event a delivery carries: its id, its key and the fingerprint of its body.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use hookonce::config::Fingerprint;
use hookonce::pipeline::identify::{EventId, EventKey, event_id, fingerprint};
use hookonce::scheme::{Draft, IdRule, Pointer, preset};
use http::{HeaderMap, HeaderValue, Method};

use crate::payload::{ID, IdAt, MIB, USUAL, json, name_of};

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("identify");
    let (in_header, in_json) = (rule_of("github"), rule_of("stripe"));
    find(&mut group, "header".to_owned(), &in_header, &draft(json(USUAL, IdAt::Beginning)));
    for (size, id_at, place) in [
        (USUAL, IdAt::Beginning, "beginning"),
        (USUAL, IdAt::End, "end"),
        (MIB, IdAt::Beginning, "beginning"),
        (MIB, IdAt::End, "end"),
    ] {
        let draft = draft(json(size, id_at));
        group.throughput(Throughput::Bytes(size as u64));
        find(&mut group, format!("json/{}/{place}", name_of(size)), &in_json, &draft);
    }
    for size in [USUAL, MIB] {
        digest(&mut group, size);
    }
    group.finish();
}

/// How the preset finds ids.
fn rule_of(preset: &str) -> IdRule {
    preset::find(preset).unwrap().compile().unwrap().event_id.unwrap()
}

fn draft(body: Bytes) -> Draft {
    let mut headers = HeaderMap::new();
    headers.insert("x-github-delivery", HeaderValue::from_static(ID));
    headers.insert("x-github-hook-id", HeaderValue::from_static("292430182"));
    Draft { method: Method::POST, uri: "/hooks".parse().unwrap(), headers, body }
}

fn key_of(rule: &IdRule, draft: &Draft) -> Option<EventKey> {
    let id: EventId = event_id(rule, None, &draft.received()).ok()??;
    Some(EventKey::new("bench", "orders", &id))
}

fn find(group: &mut BenchmarkGroup<'_, WallTime>, name: String, rule: &IdRule, draft: &Draft) {
    assert!(key_of(rule, draft).is_some_and(|key| key.as_str().contains(ID)), "{name}");
    group.bench_function(name, |bencher| bencher.iter(|| key_of(rule, black_box(draft))));
}

fn digest(group: &mut BenchmarkGroup<'_, WallTime>, size: usize) {
    let body = json(size, IdAt::Beginning);
    let pointers = || vec![Pointer::parse("/created").unwrap()];
    group.throughput(Throughput::Bytes(size as u64));
    for (what, rule) in [
        ("body", Fingerprint::Body),
        ("include", Fingerprint::Include(pointers())),
        ("exclude", Fingerprint::Exclude(pointers())),
    ] {
        let name = format!("fingerprint/{}/{what}", name_of(size));
        group.bench_function(name, |bencher| bencher.iter(|| fingerprint(&rule, black_box(&body))));
    }
}
