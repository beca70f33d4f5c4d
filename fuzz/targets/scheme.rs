//! For every preset: a delivery that is signed as `hookonce sign` does it verifies, and is not refused by its head alone. With a
//! single bit flipped in what the signature covers (body, headers, the signature itself), with another secret, or with none, it
//! does not. What nobody signed never verifies, whatever stands in the signature's place. An empty secret is an error.
//!
//! An input has a line for the preset, one for the event's id, one for what stands in the signature's place of an unsigned delivery, one
//! that decides which bits are flipped; the rest is the body, and the preset's own sample where there is none.
#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target fails by panicking")]

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::BASE64;
use hookonce::config::Secret;
use hookonce::scheme::preset::{self, Preset};
use hookonce::scheme::{Draft, IdRule, PublicUrl, Received, Scheme};
use hookonce_fuzz::{Case, Dice, OTHER_SECRET, SECRET, now};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

struct Subject {
    preset: &'static Preset,
    scheme: Scheme,
    event_id: Option<IdRule>,
    /// What was recorded of a provider that signs with a key which nobody else has.
    recorded: Option<Case>,
}

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| preset::names().into_iter().map(Subject::new).collect());

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(5, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (name, id, offered, bits, body) = (line(), line(), line(), line(), line());
    let named = std::str::from_utf8(name).ok().and_then(preset::find);
    let subject = match named {
        Some(preset) => SUBJECTS.iter().find(|subject| subject.preset.name == preset.name).unwrap(),
        None => &SUBJECTS[Dice::of(name).below(SUBJECTS.len())],
    };
    let mut dice = Dice::of(bits);
    let id = String::from_utf8_lossy(id);
    subject.refuses_what_nobody_signed(&id, offered, body);
    let case = match &subject.recorded {
        Some(recorded) => Some(recorded.clone()),
        None => subject.signed(&id, body),
    };
    if let Some(case) = case {
        subject.judges(&case, &mut dice);
    }
});

impl Subject {
    fn new(name: &'static str) -> Self {
        let preset = preset::find(name).unwrap();
        let compiled = preset.compile().unwrap();
        let scheme = compiled.scheme.at_url(PublicUrl::parse("https://hooks.example.com").ok());
        assert!(scheme.key(&Secret::new("")).is_err(), "{name}: an empty secret is taken for one");
        let recorded = scheme.takes_public_keys().then(|| recorded(preset, &scheme));
        Self { preset, scheme, event_id: compiled.event_id, recorded }
    }

    /// What is sent before it is signed. `None` where no request could carry it.
    fn draft(&self, id: &str, body: &[u8]) -> Option<Draft> {
        let sample = self.preset.sample();
        let filled = |text: &str| {
            let text = text.replace("{id}", id).replace("{now}", "1794787700").replace("{now_ms}", "1794787700000");
            text.replace("{now_rfc3339}", "2026-11-16T00:08:20Z")
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &sample.headers {
            headers.insert(name.parse::<HeaderName>().unwrap(), filled(value).parse().ok()?);
        }
        headers.insert(CONTENT_TYPE, sample.content_type.parse().unwrap());
        let is_own = !body.is_empty();
        let body = if is_own { Bytes::copy_from_slice(body) } else { filled(&sample.body).into() };
        let mut draft = Draft { method: Method::POST, uri: "/hooks".parse().unwrap(), headers, body };
        if let Some(rule) = &self.event_id {
            rule.fill(&mut draft, id, is_own).ok()?;
        }
        Some(draft)
    }

    /// `None` where the scheme cannot sign such a delivery, and says so.
    fn signed(&self, id: &str, body: &[u8]) -> Option<Case> {
        let mut draft = self.draft(id, body)?;
        let key = self.scheme.key(&Secret::new(SECRET)).unwrap().with_id(Some("key".to_owned()));
        self.scheme.sign(&key, &mut draft, now()).ok()?;
        Some(Case { scheme: self.scheme.clone(), keys: vec![key], draft, at: now() })
    }

    fn judges(&self, case: &Case, dice: &mut Dice) {
        let name = self.preset.name;
        if let Err(reason) = case.judged() {
            panic!("{name}: what is signed does not verify: {reason:?} {:?}", case.draft);
        }
        let (nothing, Draft { method, uri, headers, .. }) = (Bytes::new(), &case.draft);
        let head = Received { method, uri, headers, body: &nothing };
        assert_eq!(case.scheme.verify_head(&head), Ok(()), "{name}: refused by its head alone");
        for (place, tampered) in case.tampered(dice) {
            // The one preset whose header holds another version's signature beside the one that counts.
            if name == "hook0" && place == "the header x-hook0-signature" {
                continue;
            }
            assert!(tampered.judged().is_err(), "{name}: a bit of {place} is flipped: {:?}", tampered.draft);
        }
        assert!(Case { keys: Vec::new(), ..case.clone() }.judged().is_err(), "{name}: verified without a key");
        if !case.scheme.takes_public_keys() {
            let other = case.scheme.key(&Secret::new(OTHER_SECRET)).unwrap().with_id(Some("key".to_owned()));
            assert!(Case { keys: vec![other], ..case.clone() }.judged().is_err(), "{name}: verified with another secret");
        }
    }

    fn refuses_what_nobody_signed(&self, id: &str, offered: &[u8], body: &[u8]) {
        let Some(mut draft) = self.draft(id, body) else { return };
        let Ok(value) = HeaderValue::from_bytes(offered) else { return };
        let is_known = |text: &[u8]| text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        if is_known(offered) || is_known(body) || is_known(id.as_bytes()) {
            return;
        }
        for header in self.scheme.signature_header().iter().flat_map(|names| names.iter().cloned().collect::<Vec<_>>()) {
            draft.headers.insert(header, value.clone());
        }
        let keys = match &self.recorded {
            Some(recorded) => recorded.keys.clone(),
            None => vec![self.scheme.key(&Secret::new(SECRET)).unwrap().with_id(Some("key".to_owned()))],
        };
        let case = Case { scheme: self.scheme.clone(), keys, draft, at: now() };
        assert!(case.judged().is_err(), "{}: nobody signed this: {:?}", self.preset.name, case.draft);
    }
}

/// The plainest request that the provider's own SDK took for right.
fn recorded(preset: &Preset, scheme: &Scheme) -> Case {
    let path = format!("{}/../tests/fixtures/vectors/{}.jsonl", env!("CARGO_MANIFEST_DIR"), preset.name);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let cases = text.lines().filter_map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str();
        let is_right = case["valid"].as_bool() == Some(true) && text("body_b64").is_some_and(|body| !body.is_empty());
        let public_key = text("public_key").filter(|_| is_right)?;
        let headers = case["headers"].as_object().unwrap().iter();
        let headers: HeaderMap =
            headers.map(|(name, value)| (name.parse().unwrap(), value.as_str().unwrap().parse().unwrap())).collect();
        let scheme = scheme.clone().at_url(PublicUrl::parse(text("url").unwrap()).ok());
        let key = scheme.key(&Secret::new(public_key)).ok()?.with_id(text("key_id").map(str::to_owned));
        let body = Bytes::from(BASE64.decode(text("body_b64").unwrap().as_bytes()).unwrap());
        let (method, uri) = (text("method").unwrap().parse().unwrap(), text("url").unwrap().parse().unwrap());
        let at = UNIX_EPOCH + Duration::from_secs(case["oracle_now"].as_u64().unwrap());
        Some(Case { scheme, keys: vec![key], draft: Draft { method, uri, headers, body }, at })
    });
    let plainest = cases.min_by_key(|case| (case.draft.headers.len(), case.draft.body.len()));
    plainest.unwrap_or_else(|| panic!("{}: nothing was recorded that verifies", preset.name))
}
