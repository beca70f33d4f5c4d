//! The value at a place is what serde_json finds there: text unescaped, integers in the digits that were sent and never rounded,
//! and nothing else. A key that stands twice on the way is refused, whatever the two say. A form field is what a plain reading of
//! the form gives. Nothing panics, and a fingerprint of the same bytes is the same.
//!
//! The first line of an input is the place: a pointer (`/data/id`, `/events/*/id`) or the name of a form field. The rest is the body.
#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target fails by panicking")]

use std::fmt;

use bytes::Bytes;
use hookonce::config::Fingerprint;
use hookonce::pipeline::identify::fingerprint;
use hookonce::scheme::locate::{self, RepeatedError};
use hookonce::scheme::{EachPointer, Place, Pointer, Received};
use http::{HeaderMap, Method, Uri};
use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(place) = std::str::from_utf8(&bytes[..end]) else { return };
    let body = Bytes::copy_from_slice(&bytes[end + 1..]);
    if let Some((list, inner)) = place.split_once("/*/") {
        let list = Pointer::parse(if list.is_empty() { "/" } else { list });
        let (Ok(list), Ok(inner)) = (list, Pointer::parse(&format!("/{inner}"))) else { return };
        let _ = find(&Place::EachJson(EachPointer { list, inner }), &body);
    } else if place.starts_with('/') {
        let Ok(pointer) = Pointer::parse(place) else { return };
        agrees_with_serde(place, &pointer, &body);
        for rule in [Fingerprint::Include(vec![pointer.clone()]), Fingerprint::Exclude(vec![pointer])] {
            assert_eq!(fingerprint(&rule, &body), fingerprint(&rule, &body));
        }
    } else if !place.is_empty() {
        agrees_with_the_form(place, &body);
    }
});

fn find(place: &Place, body: &Bytes) -> Result<Option<Vec<u8>>, RepeatedError> {
    let (uri, headers) = (Uri::from_static("/"), HeaderMap::new());
    let received = Received { method: &Method::POST, uri: &uri, headers: &headers, body };
    Ok(locate::find(place, &received)?.map(std::borrow::Cow::into_owned))
}

fn agrees_with_serde(text: &str, pointer: &Pointer, body: &Bytes) {
    let found = find(&Place::Json(pointer.clone()), body);
    // What serde refuses may be read all the same where the fault lies beside the way; that it does not panic is enough.
    let (Ok(tree), Ok(value)) = (serde_json::from_slice::<Tree>(body), serde_json::from_slice::<Value>(body)) else { return };
    let steps: Vec<String> = text[1..].split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    if tree.repeats_a_key_on(&steps) {
        assert_eq!(found, Err(RepeatedError));
        return;
    }
    let found = found.unwrap().map(|found| String::from_utf8(found).unwrap());
    match value.pointer(text) {
        Some(Value::String(text)) => assert_eq!(found.unwrap_or_default(), *text),
        Some(Value::Number(number)) if !number.is_f64() => assert_eq!(found, Some(number.to_string())),
        // More digits than a machine's integer has. They are kept, and no float is ever an id.
        Some(Value::Number(number)) => {
            if let Some(found) = found {
                assert!(found.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'), "{found}");
                // serde_json's own floats are off by a last bit at times.
                let (ours, serdes) = (found.parse::<f64>().unwrap(), number.as_f64().unwrap());
                assert!((ours - serdes).abs() <= ours.abs() * 1e-15, "{ours} {serdes}");
            }
        }
        _ => assert_eq!(found, None),
    }
}

/// A document in which every key is kept, however often it stands there.
enum Tree {
    Object(Vec<(String, Tree)>),
    List(Vec<Tree>),
    Leaf,
}

impl Tree {
    fn repeats_a_key_on(&self, steps: &[String]) -> bool {
        let Some((step, rest)) = steps.split_first() else { return false };
        match self {
            Self::Object(members) => {
                let mut named = members.iter().filter(|(key, _)| key == step).map(|(_, member)| member);
                match (named.next(), named.next()) {
                    (Some(_), Some(_)) => true,
                    (Some(member), None) => member.repeats_a_key_on(rest),
                    (None, _) => false,
                }
            }
            Self::List(items) => {
                let index = step.parse::<usize>().ok().filter(|index| index.to_string() == *step);
                index.and_then(|index| items.get(index)).is_some_and(|item| item.repeats_a_key_on(rest))
            }
            Self::Leaf => false,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Grow)
    }
}

struct Grow;

impl<'de> Visitor<'de> for Grow {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }
}

fn agrees_with_the_form(name: &str, body: &Bytes) {
    // A form in parts is told by its header, or by how it begins.
    if body.starts_with(b"--") {
        let _ = find(&Place::Form(name.to_owned()), body);
        return;
    }
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let values: Vec<Vec<u8>> = pairs
        .map(|pair| {
            let middle = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (unescaped(&pair[..middle]), unescaped(pair.get(middle + 1..).unwrap_or_default()))
        })
        .filter(|(other, _)| other == name.as_bytes())
        .map(|(_, value)| value)
        .collect();
    let expected = match values.as_slice() {
        [] => Ok(None),
        [value] => Ok(Some(value.clone()).filter(|value| !value.is_empty())),
        _ => Err(RepeatedError),
    };
    assert_eq!(find(&Place::Form(name.to_owned()), body), expected);
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let pair = text.get(at + 1..at + 3).filter(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        match (text[at], pair) {
            (b'%', Some(pair)) => {
                plain.push(u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
                at += 2;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    plain
}
