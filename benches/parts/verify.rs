//! Checking a signature: by the presets that stand for a kind, over bodies of several sizes, right ones and forged ones.

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use data_encoding::{BASE64, HEXLOWER};
use hookonce::config::Secret;
use hookonce::scheme::{Draft, Key, Scheme, preset};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;

use crate::payload::{ID, IdAt, KIB, MIB, USUAL, json, name_of};

/// Readable as text, as hex and as base64.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// MACs of the body alone, of a timestamp and the body, of an id too; a MAC of a token that holds the body's digest.
const WITH_A_SECRET: [&str; 4] = ["github", "stripe", "standard-webhooks", "livekit"];

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("verify");
    let usual = Case::with_secret("github", json(USUAL, IdAt::Beginning));
    // What an attacker without a secret sends most: it must cost next to nothing. Its body is not read.
    let unsigned = Draft { headers: HeaderMap::new(), ..usual.draft.clone() };
    assert!(usual.scheme.verify_head(&unsigned.received()).is_err());
    group.bench_function("github/unsigned", |bencher| {
        bencher.iter(|| usual.scheme.verify_head(black_box(&unsigned.received())));
    });
    right(&mut group, &Case::with_secret("github", Bytes::new()));
    for preset in WITH_A_SECRET {
        both(&mut group, &Case::with_secret(preset, json(USUAL, IdAt::Beginning)));
    }
    both(&mut group, &Case::with_key_pair("discord", json(USUAL, IdAt::Beginning)));
    // What the program asks by default where the signature does not cover the id, so that replays can be told.
    group.bench_function(usual.name("right and digested"), |bencher| {
        bencher.iter(|| usual.scheme.verify_signed(&usual.keys, black_box(&usual.draft.received()), usual.now));
    });
    both(&mut group, &Case::recorded("kick", "large"));
    for size in [64 * KIB, MIB] {
        right(&mut group, &Case::with_secret("github", json(size, IdAt::Beginning)));
    }
    group.finish();
}

/// A delivery, and what it is judged with.
struct Case {
    preset: &'static str,
    scheme: Scheme,
    keys: [Key; 1],
    draft: Draft,
    now: SystemTime,
}

impl Case {
    fn with_secret(preset: &'static str, body: Bytes) -> Self {
        let scheme = preset::find(preset).unwrap().compile().unwrap().scheme;
        let key = scheme.key(&Secret::new(SECRET)).unwrap().with_id(Some("key".to_owned()));
        Self::signed(preset, scheme, &key.clone(), key, body)
    }

    /// Verified with the public half alone, as the program does.
    fn with_key_pair(preset: &'static str, body: Bytes) -> Self {
        let scheme = preset::find(preset).unwrap().compile().unwrap().scheme;
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let signing = scheme.signing_key(&Secret::new(pair.serialize_pem())).unwrap();
        let key = scheme.key(&Secret::new(HEXLOWER.encode(pair.public_key_raw()))).unwrap();
        Self::signed(preset, scheme, &signing, key, body)
    }

    fn signed(preset: &'static str, scheme: Scheme, signing: &Key, key: Key, body: Bytes) -> Self {
        let mut draft = Draft { method: Method::POST, uri: "/hooks".parse().unwrap(), headers: HeaderMap::new(), body };
        draft.headers.insert("content-type", HeaderValue::from_static("application/json"));
        if let Some(rule) = preset::find(preset).unwrap().compile().unwrap().event_id {
            rule.fill(&mut draft, ID, true).unwrap();
        }
        let now = SystemTime::now();
        scheme.sign(signing, &mut draft, now).unwrap();
        Self { preset, scheme, keys: [key], draft, now }
    }

    /// A request of `tests/fixtures/vectors`. There is nothing here that makes RSA keys.
    fn recorded(preset: &'static str, name: &str) -> Self {
        let file = format!("{}/tests/fixtures/vectors/{preset}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let cases = std::fs::read_to_string(file).unwrap();
        let mut cases = cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let case = cases.find(|case| case["name"] == name && case["valid"] == true).unwrap();
        let text = |key: &str| case[key].as_str().unwrap();
        let header = |(name, value): (&String, &Value)| {
            (name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().parse::<HeaderValue>().unwrap())
        };
        let scheme = preset::find(preset).unwrap().compile().unwrap().scheme;
        let keys = [scheme.key(&Secret::new(text("public_key"))).unwrap()];
        let draft = Draft {
            method: text("method").parse().unwrap(),
            uri: text("url").parse().unwrap(),
            headers: case["headers"].as_object().unwrap().iter().map(header).collect(),
            body: BASE64.decode(text("body_b64").as_bytes()).unwrap().into(),
        };
        let now = UNIX_EPOCH + Duration::from_secs(case["oracle_now"].as_u64().unwrap());
        Self { preset, scheme, keys, draft, now }
    }

    /// The same with another last byte: all of it has to be read to find that out.
    fn forged(&self) -> Draft {
        let mut body = self.draft.body.to_vec();
        *body.last_mut().unwrap() ^= 1;
        Draft { body: body.into(), ..self.draft.clone() }
    }

    fn is_right(&self, draft: &Draft) -> bool {
        self.scheme.verify(&self.keys, &draft.received(), self.now).is_ok()
    }

    fn name(&self, what: &str) -> String {
        format!("{}/{}/{what}", self.preset, name_of(self.draft.body.len()))
    }
}

fn both(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    right(group, case);
    let forged = case.forged();
    assert!(!case.is_right(&forged), "{}", case.preset);
    group.bench_function(case.name("forged"), |bencher| bencher.iter(|| case.is_right(black_box(&forged))));
}

fn right(group: &mut BenchmarkGroup<'_, WallTime>, case: &Case) {
    assert!(case.is_right(&case.draft), "{}", case.preset);
    if !case.draft.body.is_empty() {
        group.throughput(Throughput::Bytes(case.draft.body.len() as u64));
    }
    group.bench_function(case.name("right"), |bencher| bencher.iter(|| case.is_right(black_box(&case.draft))));
}
