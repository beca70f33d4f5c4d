use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};

use super::*;
use crate::scheme::{Place, Pointer, preset};

fn with_received<T>(headers: &[(&'static str, &'static str)], body: &str, judge: impl Fn(&Received<'_>) -> T) -> T {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    let body = Bytes::from(body.to_owned());
    judge(&Received { method: &Method::POST, uri: &Uri::default(), headers: &map, body: &body })
}

fn rule(preset: &str) -> IdRule {
    preset::find(preset).unwrap().compile().unwrap().event_id.unwrap()
}

fn shown(preset: &str, headers: &[(&'static str, &'static str)], body: &str) -> Result<Option<String>, IdError> {
    with_received(headers, body, |received| Ok(event_id(&rule(preset), None, received)?.map(|id| id.display().to_owned())))
}

fn id(parts: &[&[u8]]) -> EventId {
    EventId::new(parts).unwrap().unwrap()
}

#[test]
fn ids_of_several_parts_leave_out_what_is_optional() {
    let (delivery, hook) = (("x-github-delivery", "72d3162e"), ("x-github-hook-id", "7"));
    assert_eq!(shown("github", &[delivery, hook], ""), Ok(Some("72d3162e+7".into())));
    assert_eq!(shown("github", &[delivery], ""), Ok(Some("72d3162e".into())));
    assert_eq!(shown("github", &[hook], ""), Ok(None));
    assert_eq!(shown("github", &[delivery, delivery], ""), Err(IdError::Ambiguous));
}

#[test]
fn fallbacks_are_tried_in_order() {
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert_eq!(shown("slack", &[], r#"{"event_id":"Ev1","trigger_id":"x"}"#), Ok(Some("Ev1".into())));
    assert_eq!(shown("slack", &[form], "command=%2Fx&trigger_id=13.37"), Ok(Some("13.37".into())));
    assert_eq!(shown("slack", &[], r#"{"type":"app_rate_limited"}"#), Ok(None));
    assert_eq!(shown("slack", &[], r#"{"event_id":"a","event_id":"b"}"#), Err(IdError::Ambiguous));
}

#[test]
fn one_id_under_several_topics_is_several_events() {
    let (event, shop) = (("x-shopify-event-id", "e"), ("x-shopify-shop-domain", "a.myshopify.com"));
    let create = shown("shopify", &[event, shop, ("x-shopify-topic", "orders/create")], "");
    assert_eq!(create, Ok(Some("e+orders/create+a.myshopify.com".into())));
    assert_ne!(create, shown("shopify", &[event, shop, ("x-shopify-topic", "orders/paid")], ""));
}

#[test]
fn a_tenant_comes_first_and_must_be_there() {
    let at = Tenant::At(Place::Json(Pointer::parse("/account").unwrap()));
    let of = |tenant: &Tenant, body: &str| {
        with_received(&[], body, |received| {
            event_id(&rule("stripe"), Some(tenant), received).map(|id| id.map(|id| id.display().to_owned()))
        })
    };
    assert_eq!(of(&at, r#"{"id":"evt_1","account":"acct_1"}"#), Ok(Some("acct_1+evt_1".into())));
    assert_eq!(of(&at, r#"{"id":"evt_1"}"#), Ok(None));
    assert_eq!(of(&Tenant::Fixed("eu".into()), r#"{"id":"evt_1"}"#), Ok(Some("eu+evt_1".into())));
}

#[test]
fn long_ids_are_refused() {
    let body = |length: usize| format!("{{\"id\":\"{}\"}}", "x".repeat(length));
    assert!(shown("stripe", &[], &body(4096)).unwrap().is_some());
    assert_eq!(shown("stripe", &[], &body(4097)), Err(IdError::TooLong));
}

#[test]
fn ids_are_written_so_that_they_can_be_read_back() {
    for (parts, text) in [
        (&[&b"evt_1"[..]][..], "evt_1"),
        (&[b"a+b", b"50%"], "a%2Bb+50%25"),
        (&[b"", b"b"], "+b"),
        (&[b"a", b"", b"c"], "a++c"),
        (&[b"a", b"", b""], "a"),
        (&[b"\xff \n", "é".as_bytes()], "%FF%20%0A+%C3%A9"),
    ] {
        assert_eq!(id(parts).display(), text);
        assert_eq!(EventId::parse(text), Some(id(parts)), "{text}");
    }
    for wrong in ["", "+", "a%", "a%4", "a%zz", "%+1"] {
        assert_eq!(EventId::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn keys_are_readable_where_that_is_safe() {
    let key = |parts: &[&[u8]]| EventKey::new("billing", "stripe", &id(parts)).as_str().to_owned();
    assert_eq!(key(&[b"evt_1.x-2"]), "billing:stripe:evt_1.x-2");
    assert_eq!(key(&[b"a", b"", b"c"]), "billing:stripe:a++c");
    assert_eq!(key(&[&[b'x'; 128]]).len(), "billing:stripe:".len() + 128);
    for unsafe_parts in
        [&[&b"a:b"[..]][..], &[b"{q}"], &[b"~"], &[b"a+b"], &[b"\0"], &[&[b'x'; 129]], &[&[b'x'; 64], &[b'x'; 64]]]
    {
        let key = key(unsafe_parts);
        assert_eq!(key.len(), "billing:stripe:~".len() + 64, "{key}");
        assert!(key.starts_with("billing:stripe:~"));
    }
}

#[test]
fn a_conflicting_body_gets_a_key_of_its_own() {
    let key = EventKey::new("n", "p", &id(&[b"a"]));
    let digest = fingerprint(&Fingerprint::Body, b"body");
    let conflict = key.with_digest(digest);
    assert_eq!(conflict.as_str(), "n:p:a:230d8358dc8e8890b4c58deeb62912ee");
    assert_eq!(BodyDigest::parse("230d8358dc8e8890b4c58deeb62912ee"), Some(digest));
    for wrong in ["", "230d8358dc8e8890b4c58deeb62912", "230D8358DC8E8890B4C58DEEB62912EE"] {
        assert_eq!(BodyDigest::parse(wrong), None);
    }
}

#[test]
fn fingerprints_look_at_what_they_are_told_to() {
    let pointer = |text: &str| Pointer::parse(text).unwrap();
    let include = Fingerprint::Include(vec![pointer("/amount"), pointer("/currency")]);
    let exclude = Fingerprint::Exclude(vec![pointer("/attempt")]);
    let (first, second) = (br#"{"amount":1,"currency":"eur","attempt":1}"#, br#"{"amount":1,"currency":"eur","attempt":2}"#);
    let other = br#"{"amount":1.0,"currency":"eur","attempt":1}"#;
    for rule in [&include, &exclude] {
        assert_eq!(fingerprint(rule, first), fingerprint(rule, second));
        assert_ne!(fingerprint(rule, first), fingerprint(rule, other));
        assert_eq!(fingerprint(rule, b"no json"), fingerprint(&Fingerprint::Body, b"no json"));
        assert_ne!(fingerprint(rule, b"{}"), fingerprint(rule, b"[]"));
    }
    assert_ne!(fingerprint(&Fingerprint::Body, first), fingerprint(&Fingerprint::Body, second));
    assert_ne!(fingerprint(&include, br#"{"x":1}"#), fingerprint(&include, br#"{"x":2}"#), "neither field is there");
    assert_ne!(fingerprint(&include, br#"{"amount":1}"#), fingerprint(&include, br#"{"currency":1}"#));
}

#[test]
fn a_body_can_be_its_own_id() {
    let of = |body: &str| with_received(&[], body, |received| body_id(&Fingerprint::Body, None, received).unwrap().unwrap());
    assert_eq!(of("body").display(), "body-230d8358dc8e8890b4c58deeb62912ee");
    assert_ne!(of("body"), of("body "));
}

#[test]
fn every_form_an_event_is_shown_in_leads_to_its_key() {
    let (id, body) = (|text: &str| EventId::parse(text).unwrap(), fingerprint(&Fingerprint::Body, b"body"));
    for written in ["evt_1", "a+b", "an%20odd:id", &"x".repeat(200)] {
        let main = EventKey::new("n", "p", &id(written));
        for key in [main.clone(), main.with_digest(body)] {
            let stored = key.as_str().strip_prefix("n:p:").unwrap();
            assert!(EventKey::shown_as("n", "p", stored).contains(&key), "{stored}");
        }
        assert_eq!(EventKey::shown_as("n", "p", written)[0], main);
        assert!(EventKey::shown_as("n", "p", &format!("{written}:{body}")).contains(&main.with_digest(body)));
    }
    let of_signed = EventKey::of_signed("n", "p", body);
    assert_eq!(EventKey::shown_as("n", "p", of_signed.id()).last(), Some(&of_signed));
    assert_ne!(EventKey::new("n", "p", &id(of_signed.id())), of_signed, "no id is written so");
    // What only looks like a digest is an id like any other.
    assert_eq!(EventKey::shown_as("n", "p", "~abc"), [EventKey::new("n", "p", &id("~abc"))]);
    assert_eq!(EventKey::shown_as("n", "p", "").len() + EventKey::shown_as("n", "p", "%zz").len(), 0);
}

/// All lists of up to three parts over an alphabet of bytes that mean something somewhere.
fn part_lists() -> Vec<EventId> {
    let mut parts: Vec<Vec<u8>> = vec![Vec::new()];
    let alphabet = b"a+%:~\x002B\xff";
    parts.extend(alphabet.iter().map(|byte| vec![*byte]));
    parts.extend(alphabet.iter().flat_map(|a| alphabet.iter().map(|b| vec![*a, *b])));
    parts.extend([b"%2B".to_vec(), b"%252B".to_vec(), vec![b'x'; 129]]);
    let mut lists: Vec<Vec<Vec<u8>>> = Vec::new();
    for (position, first) in parts.iter().enumerate() {
        lists.push(vec![first.clone()]);
        for second in &parts {
            lists.push(vec![first.clone(), second.clone()]);
            lists.push(vec![first.clone(), second.clone(), parts[position / 2].clone()]);
        }
    }
    lists.into_iter().filter_map(|list| EventId::new(list).unwrap()).collect()
}

#[test]
fn different_ids_never_share_a_key_or_a_written_form() {
    let (mut displays, mut keys) = (HashMap::new(), HashMap::new());
    let lists = part_lists();
    assert!(lists.len() > 10_000);
    for id in lists {
        let (display, key) = (id.display().to_owned(), EventKey::new("n", "p", &id));
        assert_eq!(EventId::parse(&display).as_ref(), Some(&id), "{display}");
        assert!(display.bytes().all(|b| (b'!'..=b'~').contains(&b)));
        assert_eq!(*keys.entry(key.as_str().to_owned()).or_insert_with(|| id.clone()), id);
        assert_eq!(*displays.entry(display).or_insert_with(|| id.clone()), id);
    }
}
