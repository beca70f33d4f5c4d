//! Every preset against requests that the providers' own SDKs judged, and against what an attacker would try.
//!
//! The cases in `fixtures/vectors` are one JSON object a line; `valid` is what the SDK said with its clock at `oracle_now`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::BASE64;
use hookonce::config::Secret;
use hookonce::scheme::{Disproof, Key, Proof, Received, Scheme, preset};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::Value;

const NOW: u64 = 1_794_787_700;
const RECORDED: [(&str, usize); 6] =
    [("github", 30), ("shopify", 20), ("slack", 36), ("standard-webhooks", 31), ("stripe", 39), ("svix", 43)];

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn scheme(preset: &str) -> Scheme {
    preset::find(preset).unwrap().compile().unwrap().scheme
}

fn verdict(scheme: &Scheme, keys: &[Key], headers: &HeaderMap, body: &Bytes, now: u64) -> Result<Proof, Disproof> {
    scheme.verify(keys, &Received { method: &Method::POST, uri: &Uri::default(), headers, body }, at(now))
}

/// What we say of a recorded case.
fn judged(case: &Value) -> Result<Proof, Disproof> {
    let scheme = scheme(case["provider"].as_str().unwrap());
    let mut headers = HeaderMap::new();
    for (name, value) in case["headers"].as_object().unwrap() {
        let value = HeaderValue::from_bytes(value.as_str().unwrap().as_bytes()).unwrap();
        headers.append(name.parse::<HeaderName>().unwrap(), value);
    }
    let body = BASE64.decode(case["body_b64"].as_str().unwrap().as_bytes()).unwrap().into();
    let key = scheme.key(&Secret::new(case["secret"].as_str().unwrap())).unwrap();
    verdict(&scheme, &[key], &headers, &body, case["oracle_now"].as_u64().unwrap())
}

#[test]
fn every_recorded_case_is_judged_as_the_sdk_judged_it() {
    let mut seen = Vec::new();
    for preset in preset::names() {
        let path = format!("{}/tests/fixtures/vectors/{preset}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let cases = fs::read_to_string(path).unwrap();
        for case in cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let ours = judged(&case);
            assert_eq!(ours.is_ok(), case["valid"].as_bool().unwrap(), "{preset} {}: {ours:?}", case["name"]);
        }
        seen.push((preset, cases.lines().count()));
    }
    assert_eq!(seen, RECORDED);
}

/// A delivery signed by us, as each preset's provider would sign it.
struct Delivery {
    preset: &'static str,
    scheme: Scheme,
    keys: Vec<Key>,
    headers: HeaderMap,
    body: Bytes,
}

impl Delivery {
    fn all() -> Vec<Self> {
        preset::names().into_iter().map(Self::of).collect()
    }

    fn of(preset: &'static str) -> Self {
        let scheme = scheme(preset);
        // Readable as text and as base64, so that it suits every preset.
        let keys: Vec<Key> = ["c2VjcmV0LW51bWJlci1vbmU=", "c2VjcmV0LW51bWJlci10d28="]
            .iter()
            .map(|s| scheme.key(&Secret::new(*s)).unwrap())
            .collect();
        let body = Bytes::from_static(br#"{"id":"evt_1"}"#);
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_static("msg_1"));
        scheme.sign(&keys[0], &mut headers, &body, at(NOW)).unwrap();
        Self { preset, scheme, keys, headers, body }
    }

    fn signature_name(&self) -> HeaderName {
        self.scheme.signature_header().present_in(&self.headers).unwrap().clone()
    }

    fn judged_with(&self, headers: &HeaderMap) -> Result<Proof, Disproof> {
        verdict(&self.scheme, &self.keys, headers, &self.body, NOW)
    }
}

#[test]
fn what_is_signed_is_verified() {
    let all = Delivery::all();
    assert_eq!(all.len(), RECORDED.len());
    for delivery in all {
        assert_eq!(delivery.judged_with(&delivery.headers), Ok(Proof { slot: 0 }), "{}", delivery.preset);
        let rotated = [delivery.keys[1].clone(), delivery.keys[0].clone()];
        let ours = verdict(&delivery.scheme, &rotated, &delivery.headers, &delivery.body, NOW);
        assert_eq!(ours, Ok(Proof { slot: 1 }), "{}", delivery.preset);
    }
}

#[test]
fn every_flipped_bit_of_a_signature_is_refused() {
    for delivery in Delivery::all() {
        let name = delivery.signature_name();
        let good = delivery.headers[&name].as_bytes().to_vec();
        let mut tried = 0;
        for (position, bit) in (0..good.len()).flat_map(|position| (0..8).map(move |bit| (position, 1_u8 << bit))) {
            let mut flipped = good.clone();
            flipped[position] ^= bit;
            let Ok(value) = HeaderValue::from_bytes(&flipped) else { continue };
            let mut headers = delivery.headers.clone();
            headers.insert(&name, value);
            tried += 1;
            assert!(delivery.judged_with(&headers).is_err(), "{}: byte {position}, bit {bit}", delivery.preset);
        }
        assert!(tried > 250, "{}: {tried}", delivery.preset);
    }
}

#[test]
fn every_flipped_bit_of_the_body_is_refused() {
    for delivery in Delivery::all() {
        for position in 0..delivery.body.len() {
            let mut body = delivery.body.to_vec();
            body[position] ^= 1;
            let ours = verdict(&delivery.scheme, &delivery.keys, &delivery.headers, &body.into(), NOW);
            assert_eq!(ours, Err(Disproof::NoMatch), "{}: byte {position}", delivery.preset);
        }
    }
}

#[test]
fn wrong_and_empty_secrets_prove_nothing() {
    for delivery in Delivery::all() {
        let ours = verdict(&delivery.scheme, &delivery.keys[1..], &delivery.headers, &delivery.body, NOW);
        assert_eq!(ours, Err(Disproof::NoMatch), "{}", delivery.preset);
        assert!(delivery.scheme.key(&Secret::new("")).is_err(), "{}", delivery.preset);
    }
}

#[test]
fn stale_and_future_deliveries_are_refused_where_a_timestamp_is_signed() {
    let mut stamped = Vec::new();
    for delivery in Delivery::all() {
        let Some(tolerance) = delivery.scheme.tolerance().map(|tolerance| tolerance.as_secs()) else { continue };
        let judged = |now| verdict(&delivery.scheme, &delivery.keys, &delivery.headers, &delivery.body, now);
        assert!(judged(NOW + tolerance).is_ok() && judged(NOW - tolerance).is_ok(), "{}", delivery.preset);
        assert_eq!(judged(NOW + tolerance + 1), Err(Disproof::Stale), "{}", delivery.preset);
        assert_eq!(judged(NOW - tolerance - 1), Err(Disproof::Future), "{}", delivery.preset);
        stamped.push(delivery.preset);
    }
    assert_eq!(stamped, ["slack", "standard-webhooks", "stripe", "svix"]);
}

#[test]
fn missing_and_repeated_signatures_are_refused_from_the_head_alone() {
    for delivery in Delivery::all() {
        let name = delivery.signature_name();
        let mut headers = delivery.headers.clone();
        assert_eq!(delivery.scheme.verify_head(&headers), Ok(()));
        headers.append(&name, headers[&name].clone());
        assert_eq!(delivery.scheme.verify_head(&headers), Err(Disproof::RepeatedHeader), "{}", delivery.preset);
        assert_eq!(delivery.judged_with(&headers), Err(Disproof::RepeatedHeader), "{}", delivery.preset);
        headers.remove(&name);
        assert_eq!(delivery.scheme.verify_head(&headers), Err(Disproof::MissingSignature), "{}", delivery.preset);
        assert_eq!(delivery.judged_with(&headers), Err(Disproof::MissingSignature), "{}", delivery.preset);
    }
}
