//! Every preset against requests that the provider's own SDK, or a named implementation, has judged, and against what an
//! attacker would try.
//!
//! The cases in `fixtures/vectors` are one JSON object a line; `valid` is what was said with the clock at `oracle_now`. A preset
//! without any has its scheme from one that has them, or compares a token: what an attacker would try is tried on a delivery
//! that is signed here.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "vectors/family.rs"]
mod family;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::BASE64;
use hookonce::config::Secret;
use hookonce::scheme::preset::{self, Preset};
use hookonce::scheme::{Disproof, Draft, Key, Place, Proof, PublicUrl, Received, Scheme};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::Value;

/// A recorded request, and what it is judged with.
#[derive(Clone)]
struct Case {
    name: String,
    valid: bool,
    scheme: Scheme,
    keys: Vec<Key>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    now: SystemTime,
}

impl Case {
    /// `None` where no request could carry one of its headers.
    fn read(preset: &Preset, line: &str) -> Option<Self> {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str().map(str::to_owned);
        let url = PublicUrl::parse(&text("url").unwrap()).unwrap();
        let scheme = preset.compile().unwrap().scheme.at_url(Some(url));
        let mut headers = HeaderMap::new();
        for (name, value) in case["headers"].as_object().unwrap() {
            let value = HeaderValue::from_bytes(value.as_str().unwrap().as_bytes()).ok()?;
            headers.append(name.parse::<HeaderName>().ok()?, value);
        }
        let additional =
            case["additional_secrets"].as_array().into_iter().flatten().map(|secret| secret.as_str().unwrap().to_owned());
        let secrets: Vec<String> = if scheme.takes_public_keys() {
            text("public_key").into_iter().collect()
        } else {
            text("secret").into_iter().chain(additional).chain(text("next_secret")).collect()
        };
        let key = |secret: &String| Some(scheme.key(&Secret::new(secret.as_bytes())).ok()?.with_id(text("key_id")));
        Some(Self {
            name: text("name").unwrap(),
            valid: case["valid"].as_bool().unwrap(),
            keys: secrets.iter().filter_map(key).collect(),
            method: text("method").unwrap().parse().unwrap(),
            uri: text("url").unwrap().parse().unwrap(),
            body: BASE64.decode(text("body_b64").unwrap().as_bytes()).unwrap().into(),
            now: UNIX_EPOCH + Duration::from_secs(case["oracle_now"].as_u64().unwrap()),
            headers,
            scheme,
        })
    }

    /// The preset's sample, signed here.
    fn signed(preset: &Preset) -> Self {
        let compiled = preset.compile().unwrap();
        let scheme = compiled.scheme.at_url(PublicUrl::parse("https://hooks.example.com").ok());
        let now = UNIX_EPOCH + Duration::from_secs(NOW);
        let filled = |text: &str| {
            let text = text.replace("{id}", "evt_1").replace("{now}", &NOW.to_string()).replace("{now_ms}", &format!("{NOW}000"));
            text.replace("{now_rfc3339}", "2026-11-16T00:08:20Z")
        };
        let sample = preset.sample();
        let mut draft = Draft {
            method: Method::POST,
            uri: "/hooks".parse().unwrap(),
            headers: sample.headers.iter().map(|(name, value)| (name.parse().unwrap(), filled(value).parse().unwrap())).collect(),
            body: filled(&sample.body).into(),
        };
        draft.headers.insert(CONTENT_TYPE, sample.content_type.parse().unwrap());
        if let Some(rule) = &compiled.event_id {
            rule.fill(&mut draft, "evt_1", false).unwrap();
        }
        let key = scheme.key(&Secret::new(SECRET)).unwrap().with_id(Some("key".to_owned()));
        scheme.sign(&key, &mut draft, now).unwrap();
        let Draft { method, uri, headers, body } = draft;
        Self { name: preset.name.to_owned(), valid: true, keys: vec![key], scheme, method, uri, headers, body, now }
    }

    fn judged(&self) -> Result<Proof, Disproof> {
        let Self { method, uri, headers, body, .. } = self;
        self.scheme.verify(&self.keys, &Received { method, uri, headers, body }, self.now)
    }

    /// The sample of a preset whose body holds a token.
    fn signed_by_token_in_body(preset: &str) -> Option<Self> {
        let preset = preset::find(preset).unwrap();
        let scheme = preset.compile().unwrap().scheme;
        (scheme.algorithm() == "token" && scheme.signature_header().is_none()).then(|| Self::signed(preset))
    }

    /// Where the body holds the secret.
    fn tokens(&self) -> impl Iterator<Item = usize> {
        let starts: Vec<usize> = self
            .body
            .windows(SECRET.len())
            .enumerate()
            .filter(|(_, bytes)| *bytes == SECRET.as_bytes())
            .map(|(start, _)| start)
            .collect();
        assert!(!starts.is_empty(), "{}: holds no token", self.name);
        starts.into_iter()
    }

    /// A small request that is right, in the plainest form there is.
    fn plainest(cases: &[Self]) -> Option<Self> {
        let valid = cases.iter().filter(|case| case.valid && !case.body.is_empty());
        // One signature alone: beside others, bits of those may be flipped.
        let signature = |case: &&Self| {
            let name = case.scheme.signature_header().and_then(|names| names.present_in(&case.headers).cloned());
            name.map_or(0, |name| case.headers[name].len())
        };
        valid.min_by_key(|case| (signature(case), case.headers.len(), case.body.len())).cloned()
    }
}

/// When deliveries are signed here, and with what: it is readable as text, as hex and as base64.
const NOW: u64 = 1_794_787_700;
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn path_of(preset: &str) -> String {
    format!("{}/tests/fixtures/vectors/{preset}.jsonl", env!("CARGO_MANIFEST_DIR"))
}

/// The recorded cases of a preset. Those that no request could be are left out: they are wrong in any case.
fn cases(preset: &str) -> Vec<Case> {
    let preset = preset::find(preset).unwrap();
    let text = fs::read_to_string(path_of(preset.name)).unwrap_or_default();
    text.lines().filter_map(|line| Case::read(preset, line)).collect()
}

/// Presets whose evidence is recorded requests.
fn recorded() -> Vec<&'static str> {
    let names = preset::names().into_iter();
    names.filter(|name| matches!(preset::find(name).unwrap().text("evidence"), Some("sdk" | "source" | "docs-example"))).collect()
}

/// A right request of any preset: the plainest that was recorded, or its sample.
fn plainest(preset: &str) -> Case {
    if recorded().contains(&preset) {
        return Case::plainest(&cases(preset)).unwrap();
    }
    let case = Case::signed(preset::find(preset).unwrap());
    assert!(case.judged().is_ok(), "{preset}: {:?}", case.judged());
    case
}

#[test]
fn every_preset_has_evidence_and_every_recorded_request_a_preset() {
    for name in preset::names() {
        let preset = preset::find(name).unwrap();
        let evidence = preset.text("evidence").unwrap_or_default();
        assert!(["sdk", "docs-example", "family", "source", "token"].contains(&evidence), "{name}: {evidence}");
        let judge = preset.text("judge").unwrap_or_default();
        match evidence {
            "family" => assert!(preset::find(judge).is_some_and(|other| recorded().contains(&other.name)), "{name}: {judge}"),
            // What is compared with a secret needs no judge, and a name would be that of somebody who was not asked.
            "token" => assert!(preset.compile().unwrap().scheme.algorithm() == "token" && judge.is_empty(), "{name}: {judge}"),
            _ => {
                let said: Vec<bool> = cases(name).iter().map(|case| case.valid).collect();
                assert!(
                    said.contains(&true) && (evidence == "docs-example" || said.contains(&false)),
                    "{name}: no cases of both kinds"
                );
                assert!(!judge.is_empty(), "{name}: nobody judges");
            }
        }
    }
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/vectors")).unwrap() {
        let name = file.unwrap().file_name().to_string_lossy().replace(".jsonl", "");
        assert!(recorded().contains(&name.as_str()), "{name}: requests without a preset");
    }
}

#[test]
fn every_recorded_case_is_judged_as_it_was_judged() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for preset in recorded() {
        for case in cases(preset) {
            let ours = case.judged();
            count += 1;
            if ours.is_ok() != case.valid {
                wrong.push(format!("{preset} {}: {ours:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    assert!(count >= 4500, "{count}");
}

/// Presets that have their scheme from a verified one, and that one.
fn families() -> Vec<(&'static str, &'static str)> {
    let names = preset::names().into_iter().map(|name| preset::find(name).unwrap());
    let members = names.filter(|preset| preset.text("evidence") == Some("family"));
    members.map(|preset| (preset.name, preset.text("judge").unwrap())).collect()
}

/// What was recorded of one preset, judged under the names and by the scheme of another: how many cases there are, and which
/// are judged otherwise than they were.
fn judged_as(other: &str, preset: &str) -> (usize, Vec<String>) {
    let (from, to) = (family::Scheme::of(preset), family::Scheme::of(other));
    let text = fs::read_to_string(path_of(preset)).unwrap();
    let renamed = text.lines().filter_map(|line| from.renamed(line, &to));
    let cases: Vec<Case> = renamed.filter_map(|line| Case::read(preset::find(other).unwrap(), &line)).collect();
    let wrong = cases.iter().filter(|case| case.judged().is_ok() != case.valid);
    (cases.len(), wrong.map(|case| format!("{}: {:?}", case.name, case.judged())).collect())
}

#[test]
fn a_family_has_one_scheme_under_several_names() {
    let mut count = 0;
    for (name, judge) in families() {
        assert_eq!(family::Scheme::of(name).shape(), family::Scheme::of(judge).shape(), "{name} is not of the family of {judge}");
        let (cases, wrong) = judged_as(name, judge);
        assert!(cases > 0, "{name}: nothing of {judge} can be said under its names");
        assert!(wrong.is_empty(), "{name}, as {judge}: {wrong:#?}");
        count += cases;
    }
    assert!(count >= 500, "{count}");
}

#[test]
fn what_differs_in_more_than_names_is_no_family() {
    for (one, other) in [("github", "doppler"), ("stripe", "mux"), ("svix", "clerk"), ("gitlab", "telegram"), ("shopify", "line")]
    {
        assert_eq!(family::Scheme::of(one).shape(), family::Scheme::of(other).shape(), "{one}, {other}");
        assert_eq!(judged_as(other, one).1, [""; 0], "{one}, {other}");
    }
    for (one, other, what) in [
        ("nylas", "paystack", "algorithm"),
        ("nylas", "shopify", "encoding"),
        ("nylas", "scrapfly", "encoding"),
        ("github", "nylas", "prefix"),
        ("paystack", "onfleet", "secret_encoding"),
        ("standard-webhooks", "polar", "secret_encoding"),
        ("stripe", "workos", "timestamp"),
        ("stripe", "elevenlabs", "timestamp"),
        ("stripe", "circleci", "timestamp"),
        ("stripe", "paddle", "signed"),
        ("ghost", "workos", "signed"),
        ("shopify", "cronofy", "layout"),
        ("shopify", "worldline", "key_id"),
        ("shopify", "hookdeck", "signature"),
        ("gitlab", "figma", "signature"),
    ] {
        let (one_shape, other_shape) = (family::Scheme::of(one).shape(), family::Scheme::of(other).shape());
        assert_ne!(one_shape.get(what), other_shape.get(what), "{one}, {other}: {what}");
    }
    // What the shape would not tell, the cases do.
    for (one, other) in [("nylas", "shopify"), ("paystack", "onfleet"), ("stripe", "paddle"), ("standard-webhooks", "polar")] {
        assert!(!judged_as(other, one).1.is_empty(), "{one}, {other}");
    }
}

/// What comes of flipping each bit of some bytes: how many flips were tried, and which are taken for right all the same.
fn flipped(bytes: &[u8], judged: impl Fn(Vec<u8>) -> Option<bool>) -> (usize, Vec<usize>) {
    let (mut tried, mut accepted) = (0, Vec::new());
    for (position, bit) in (0..bytes.len()).flat_map(|position| (0..8).map(move |bit| (position, 1_u8 << bit))) {
        let mut other = bytes.to_vec();
        other[position] ^= bit;
        match judged(other) {
            Some(true) => accepted.push(position),
            Some(false) => {}
            None => continue,
        }
        tried += 1;
    }
    (tried, accepted)
}

#[test]
fn every_flipped_bit_of_a_body_is_refused_unless_the_preset_says_otherwise() {
    for preset in preset::names() {
        let case = plainest(preset);
        let (tried, accepted) = flipped(&case.body, |body| Some(Case { body: body.into(), ..case.clone() }.judged().is_ok()));
        assert!(tried > 0, "{preset}");
        let is_covered = case.scheme.covers(&Place::Body);
        let says = preset::find(preset).unwrap().text("unsigned");
        assert_eq!(says.is_some(), !is_covered, "{preset}: {says:?}");
        assert!(accepted.is_empty() || says.is_some(), "{preset}: bytes {accepted:?} of {tried}");
    }
}

#[test]
fn every_flipped_bit_of_a_token_in_a_body_is_refused() {
    let mut tried = 0;
    for preset in preset::names() {
        let case = Case::signed_by_token_in_body(preset);
        for (start, case) in case.iter().flat_map(|case| case.tokens().map(move |start| (start, case))) {
            let (flips, accepted) = flipped(SECRET.as_bytes(), |token| {
                let mut body = case.body.to_vec();
                body[start..start + SECRET.len()].copy_from_slice(&token);
                Some(Case { body: body.into(), ..case.clone() }.judged().is_ok())
            });
            assert!(accepted.is_empty(), "{preset}: bytes {accepted:?} of {flips}");
            tried += flips;
        }
    }
    assert!(tried >= 512, "{tried}");
}

/// Items of a signature's header that are another version's and not looked at, where no request comes without them.
const BESIDE: [(&str, &str); 1] = [("hook0", "v0=")];

/// Whether a position is in the item of a list that begins so.
fn is_in(item: &str, text: &str, position: usize) -> bool {
    let start = text[..position].rfind(',').map_or(0, |comma| comma + 1);
    text[start..].starts_with(item)
}

#[test]
fn every_flipped_bit_of_a_covered_header_is_refused() {
    let mut counts = BTreeMap::new();
    for preset in preset::names() {
        let case = plainest(preset);
        for name in case.headers.keys() {
            let place = Place::Header(hookonce::scheme::HeaderNames::one(name.clone()));
            // One of several is numbered.
            let is_numbered = name.as_str().trim_end_matches(char::is_numeric);
            let is_it = |other: &HeaderName| other == name || other.as_str().strip_suffix('1') == Some(is_numbered);
            let signature = case.scheme.signature_header().is_some_and(|names| names.iter().any(is_it));
            if !signature && !case.scheme.covers(&place) {
                continue;
            }
            let (tried, accepted) = flipped(case.headers[name].as_bytes(), |value| {
                let mut headers = case.headers.clone();
                headers.insert(name, HeaderValue::from_bytes(&value).ok()?);
                Some(Case { headers, ..case.clone() }.judged().is_ok())
            });
            let text = case.headers[name].to_str().unwrap();
            let is_beside =
                |position: &usize| BESIDE.iter().any(|(other, item)| *other == preset && is_in(item, text, *position));
            let wrong: Vec<&usize> = accepted.iter().filter(|position| !is_beside(position)).collect();
            assert!(wrong.is_empty(), "{preset}: {name}, bytes {wrong:?}");
            *counts.entry(preset).or_insert(0) += tried;
        }
    }
    let without: Vec<_> = preset::names().into_iter().filter(|preset| !counts.contains_key(preset)).collect();
    for preset in without {
        assert!(preset::find(preset).unwrap().compile().unwrap().scheme.signature_header().is_none(), "{preset}");
    }
}

#[test]
fn another_secret_proves_nothing_and_an_empty_one_is_none() {
    for preset in preset::names() {
        let case = plainest(preset);
        assert_eq!(Case { keys: Vec::new(), ..case.clone() }.judged().err(), Some(Disproof::NoMatch), "{preset}");
        // In every form that secrets have; a public key must be one.
        if !case.scheme.takes_public_keys() {
            let other =
                case.scheme.key(&Secret::new("fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210")).unwrap();
            let with_other = Case { keys: vec![other], ..case.clone() };
            assert_eq!(with_other.judged().err(), Some(Disproof::NoMatch), "{preset}");
        }
        assert!(case.scheme.key(&Secret::new("")).is_err(), "{preset}");
    }
}

#[test]
fn a_missing_or_repeated_signature_is_refused_from_the_head_alone() {
    for preset in preset::names() {
        let case = plainest(preset);
        let Some(names) = case.scheme.signature_header() else { continue };
        let Some(name) = names.present_in(&case.headers).cloned() else { continue };
        let head = |headers: &HeaderMap| {
            let received = Received { method: &case.method, uri: &case.uri, headers, body: &Bytes::new() };
            case.scheme.verify_head(&received)
        };
        assert_eq!(head(&case.headers), Ok(()), "{preset}");
        let mut headers = case.headers.clone();
        headers.append(&name, headers[&name].clone());
        assert_eq!(head(&headers), Err(Disproof::RepeatedValue), "{preset}");
        headers.remove(&name);
        assert_eq!(head(&headers), Err(Disproof::MissingSignature), "{preset}");
    }
}

#[test]
fn what_is_too_old_or_too_new_is_refused_where_the_age_is_judged() {
    let mut judged = 0;
    for preset in preset::names() {
        let case = plainest(preset);
        let Some(tolerance) = case.scheme.tolerance() else { continue };
        // The plainest case was signed at about its own now.
        let beyond = tolerance * 2 + Duration::from_secs(1);
        assert_eq!(Case { now: case.now + beyond, ..case.clone() }.judged().err(), Some(Disproof::Stale), "{preset}");
        assert_eq!(Case { now: case.now - beyond, ..case.clone() }.judged().err(), Some(Disproof::Future), "{preset}");
        judged += 1;
    }
    assert!(judged >= 40, "{judged}");
}
