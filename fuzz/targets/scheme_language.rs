//! Whatever `[providers.x.scheme]` says, reading it never panics, and neither do signing, verifying, describing and identifying by it.
//! Where it makes a scheme by which a delivery can be signed and verified, `covers` is true to its word: a single bit flipped in
//! a body or a header that it claims to cover is refused. So is another secret, and no secret at all.
//!
//! An input is keys of a provider's section in TOML, a line with `---`, and a body.
#![no_main]
#![allow(clippy::unwrap_used, reason = "a target fails by panicking")]

use std::sync::LazyLock;

use bytes::Bytes;
use hookonce::config::{Config, Environment, Provider, Secret};
use hookonce::pipeline::identify;
use hookonce::scheme::Draft;
use hookonce_fuzz::{Case, Dice, OTHER_SECRET, SECRET, now};
use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;

const BODY: &str = r#"{"id":"evt_1","list":[{"id":1},{"id":2}]}"#;
/// Where nothing can be signed, nothing is seen: the plainest scheme of all must be tried to the end.
static IS_TRIED: LazyLock<()> = LazyLock::new(|| {
    let section = "[providers.x.scheme]\nsignature = { header = \"X-Signature\" }";
    assert!(is_signed_and_tampered_with(section, BODY, &mut Dice::of(b"")));
});

fuzz_target!(|bytes: &[u8]| {
    LazyLock::force(&IS_TRIED);
    let text = String::from_utf8_lossy(bytes);
    // Files are another part's business.
    if !text.contains("file") {
        let (section, body) = text.split_once("\n---\n").unwrap_or((&text, BODY));
        is_signed_and_tampered_with(section, body, &mut Dice::of(bytes));
    }
});

/// Whether it came to that.
fn is_signed_and_tampered_with(section: &str, body: &str, dice: &mut Dice) -> bool {
    let written = format!(
        "upstream = \"http://127.0.0.1:1\"\n[store]\nurl = \"memory:\"\n\
         [providers.x]\npath = \"/hooks\"\nsecret = \"{SECRET}\"\npublic_url = \"https://hooks.example.com/hooks?q=1\"\n{section}\n"
    );
    let Ok(loaded) = Config::from_text(&written, &Environment::default()) else { return false };
    let mut is_tried = false;
    for provider in &loaded.config.providers {
        if let Some(case) = signed(provider, body).filter(|case| case.judged().is_ok()) {
            tampering_is_seen(&case, &written, dice);
            is_tried = true;
        }
    }
    is_tried
}

/// `None` where no delivery can be signed so.
fn signed(provider: &Provider, body: &str) -> Option<Case> {
    let scheme = provider.scheme.clone();
    let mut headers = HeaderMap::new();
    for (name, value) in [("content-type", "application/json"), ("x-event-id", "evt_1"), ("x-topic", "orders/create")] {
        headers.insert(name, value.parse().unwrap());
    }
    let body = Bytes::from(body.to_owned());
    let mut draft = Draft { method: Method::POST, uri: "/hooks?q=1&signature=x".parse().unwrap(), headers, body };
    let _ = scheme.verify(&provider.keys, &draft.received(), now());
    if let Some(rule) = &provider.event_id {
        let _ = rule.fill(&mut draft, "evt_1", false);
        let _ = identify::event_id(rule, provider.tenant.as_ref(), &draft.received());
    }
    let key = provider.keys.first()?.clone().with_id(Some("key".to_owned()));
    scheme.sign(&key, &mut draft, now()).ok().filter(|()| scheme.can_be_signed())?;
    Some(Case { scheme, keys: vec![key], draft, at: now() })
}

fn tampering_is_seen(case: &Case, written: &str, dice: &mut Dice) {
    for (place, tampered) in case.tampered(dice) {
        assert!(tampered.judged().is_err(), "a bit of {place} is flipped, and verifies by\n{written}\n{:?}", tampered.draft);
    }
    assert!(Case { keys: Vec::new(), ..case.clone() }.judged().is_err(), "verified without a key by\n{written}");
    if let Ok(other) = case.scheme.key(&Secret::new(OTHER_SECRET)) {
        let other = other.with_id(Some("key".to_owned()));
        assert!(Case { keys: vec![other], ..case.clone() }.judged().is_err(), "verified with another secret by\n{written}");
    }
}
