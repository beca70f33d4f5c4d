//! Reading values out of JSON without building a tree: the body is walked once and only what is asked for is kept.
//!
//! A key that stands twice on the way to a value makes the value ambiguous: parsers disagree on which one counts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::place::Pointer;

/// What stands at a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sought<T> {
    Absent,
    Found(T),
    /// A key on the way stands there twice.
    Repeated,
}

/// The raw text at a pointer, exactly as it was sent. `None` where the whole body is not one JSON document.
pub(crate) fn find<'b>(body: &'b [u8], pointer: &Pointer) -> Option<Sought<&'b RawValue>> {
    seek(body, pointer, false)
}

/// Whether a key stands beside those on the way that differs from one of them in nothing but the case of its letters. Some
/// parsers, Go's among them, take either for the other.
pub(crate) fn has_lookalike(body: &[u8], pointer: &Pointer) -> bool {
    matches!(seek(body, pointer, true), Some(Sought::Repeated))
}

fn seek<'b>(body: &'b [u8], pointer: &Pointer, alone: bool) -> Option<Sought<&'b RawValue>> {
    let mut document = serde_json::Deserializer::from_slice(body);
    let sought = Seek { steps: pointer.steps(), alone }.deserialize(&mut document).ok()?;
    document.end().ok()?;
    Some(sought)
}

/// The items of the list at a pointer, each as it was sent. `None` where there is no list; at most `ITEMS_MAX` are read.
pub(crate) fn items<'b>(body: &'b [u8], list: &Pointer) -> Result<Option<Vec<&'b RawValue>>, super::locate::RepeatedError> {
    let raw = match find(body, list) {
        Some(Sought::Found(raw)) => raw,
        Some(Sought::Repeated) => return Err(super::locate::RepeatedError),
        Some(Sought::Absent) | None => return Ok(None),
    };
    Ok(serde_json::from_str::<Items<'_>>(raw.get()).ok().map(|items| items.0))
}

/// A list that is bounded while it is read.
struct Items<'de>(Vec<&'de RawValue>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;

        impl<'de> Visitor<'de> for Bounded {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of a few thousand items at most")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() >= ITEMS_MAX {
                        return Err(serde::de::Error::custom("too many items"));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        deserializer.deserialize_seq(Bounded)
    }
}

/// Providers batch up to a thousand events.
const ITEMS_MAX: usize = 10_000;

/// A string, unescaped, or an integer in exactly the digits that were sent: no number is ever rounded. `-0` is none: to some
/// parsers it is nought, to others a fraction.
pub(crate) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    if text.starts_with('"') {
        return serde_json::from_str::<Text<'_>>(text).ok().map(|text| text.0);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    (text != "-0" && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(Cow::Borrowed(text))
}

/// The same letters in another case, as Unicode has it: `ſ` is an s, and the Kelvin sign a k.
fn is_lookalike(key: &str, other: &str) -> bool {
    let folded = |text: &str| text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>();
    key.eq_ignore_ascii_case(other) || (!key.is_ascii() && folded(key) == folded(other))
}

/// Follows the steps of a pointer. The recursion is as deep as the pointer; what lies beside it is skipped.
#[derive(Clone, Copy)]
struct Seek<'p> {
    steps: &'p [String],
    /// A lookalike counts as the key standing there twice.
    alone: bool,
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = Sought<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.steps.split_first() {
            None => Deserialize::deserialize(deserializer).map(Sought::Found),
            Some((step, steps)) => deserializer.deserialize_any(SeekStep { step, rest: Seek { steps, alone: self.alone } }),
        }
    }
}

struct SeekStep<'p> {
    step: &'p str,
    rest: Seek<'p>,
}

impl<'de> Visitor<'de> for SeekStep<'_> {
    type Value = Sought<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut sought = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            if key.0 != self.step {
                map.next_value::<IgnoredAny>()?;
                if self.rest.alone && is_lookalike(&key.0, self.step) {
                    sought = Some(Sought::Repeated);
                }
                continue;
            }
            let value = map.next_value_seed(self.rest)?;
            sought = Some(if sought.is_none() { value } else { Sought::Repeated });
        }
        Ok(sought.unwrap_or(Sought::Absent))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut before = index(self.step);
        let mut sought = Sought::Absent;
        loop {
            if before == Some(0) {
                match seq.next_element_seed(self.rest)? {
                    Some(value) => sought = value,
                    None => return Ok(sought),
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(sought);
            }
            before = before.and_then(|n| n.checked_sub(1));
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Sought::Absent)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Sought::Absent)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Sought::Absent)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Sought::Absent)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Sought::Absent)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Sought::Absent)
    }
}

/// The step as a position in an array: digits without a leading nought.
fn index(step: &str) -> Option<usize> {
    if step.len() > 1 && step.starts_with('0') || !step.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    step.parse().ok()
}

/// A string that is borrowed from the body unless it holds escapes.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;

        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Borrowing)
    }
}

/// Digests a document without what stands at `pointers`, key and all. `None` where the body is not a JSON object.
///
/// Members count in the order and in the digits they were sent.
pub(crate) fn digest_without(body: &[u8], pointers: &[Pointer]) -> Option<Sha256> {
    let mut digest = Sha256::new();
    let mut document = serde_json::Deserializer::from_slice(body);
    let steps = pointers.iter().map(Pointer::steps).collect();
    Without { pointers: steps, digest: &mut digest }.deserialize(&mut document).ok()?;
    document.end().ok()?;
    Some(digest)
}

/// Feeds one object to a digest, leaving out what the pointers name. The recursion is as deep as the longest pointer.
struct Without<'p, 'd> {
    pointers: Vec<&'p [String]>,
    digest: &'d mut Sha256,
}

impl<'de> DeserializeSeed<'de> for Without<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Without<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.digest.update(b"{");
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let below: Vec<&[String]> = self
                .pointers
                .iter()
                .filter_map(|steps| steps.split_first())
                .filter(|(step, _)| **step == key.0)
                .map(|(_, rest)| rest)
                .collect();
            if below.iter().any(|rest| rest.is_empty()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&RawValue>()?.get();
            feed(self.digest, key.0.as_bytes());
            if below.is_empty() || !value.starts_with('{') {
                feed(self.digest, value.as_bytes());
            } else {
                let inner = Without { pointers: below, digest: self.digest };
                inner.deserialize(&mut serde_json::Deserializer::from_str(value)).map_err(serde::de::Error::custom)?;
            }
        }
        self.digest.update(b"}");
        Ok(())
    }
}

/// Adds bytes with their length before them, so that no two lists of byte strings give one stream.
pub(crate) fn feed(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_be_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_at(body: &str, pointer: &str) -> Result<Option<String>, &'static str> {
        match find(body.as_bytes(), &Pointer::parse(pointer).unwrap()) {
            None => Err("not JSON"),
            Some(Sought::Repeated) => Err("repeated"),
            Some(Sought::Absent) => Ok(None),
            Some(Sought::Found(raw)) => Ok(text_of(raw).map(Cow::into_owned)),
        }
    }

    #[test]
    fn values_are_found_by_key_and_position() {
        let body = r#"{"a":{"b":[{"id":"x"},{"id":"y"}]},"0":"nought","":"empty"}"#;
        assert_eq!(text_at(body, "/a/b/1/id"), Ok(Some("y".into())));
        assert_eq!(text_at(body, "/0"), Ok(Some("nought".into())));
        assert_eq!(text_at(body, "/"), Ok(Some("empty".into())));
        for absent in ["/a/b/2/id", "/a/b/01/id", "/a/b/-/id", "/a/b/id", "/0/x", "/z"] {
            assert_eq!(text_at(body, absent), Ok(None), "{absent}");
        }
    }

    #[test]
    fn integers_keep_their_digits_and_nothing_else_is_text() {
        for digits in ["9007199254740993", "-1", "123456789012345678901234567890"] {
            assert_eq!(text_at(&format!("{{\"id\": {digits} }}"), "/id"), Ok(Some(digits.into())));
        }
        for other in ["-0", "1.0", "1e3", "1e400", "null", "true", "[1]", "{}"] {
            assert_eq!(text_at(&format!("{{\"id\":{other}}}"), "/id"), Ok(None), "{other}");
        }
    }

    #[test]
    fn a_key_repeated_on_the_way_is_ambiguous_however_it_is_spelt() {
        assert_eq!(text_at(r#"{"id":"a","id":"b"}"#, "/id"), Err("repeated"));
        assert_eq!(text_at(r#"{"id":"a","\u0069d":"a"}"#, "/id"), Err("repeated"));
        assert_eq!(text_at(r#"{"a":{"id":"x"},"a":{}}"#, "/a/id"), Err("repeated"));
        assert_eq!(text_at(r#"{"x":1,"x":2,"id":"a"}"#, "/id"), Ok(Some("a".into())));
    }

    #[test]
    fn a_key_in_another_case_is_a_lookalike_wherever_it_stands_on_the_way() {
        let has = |body: &str| has_lookalike(body.as_bytes(), &Pointer::parse("/Task/Skill").unwrap());
        for body in [
            r#"{"Task":{"Skill":1,"skill":2}}"#,
            r#"{"Task":{"SKILL":2,"Skill":1}}"#,
            r#"{"Task":{"skill":2}}"#,
            r#"{"task":{},"Task":{"Skill":1}}"#,
            r#"{"Task":{"Skill":1,"\u0053kill":1}}"#,
            r#"{"Task":{"Skill":1,"\u017fkill":1}}"#,
            r#"{"Task":{"Skill":1,"S\u212aill":1}}"#,
        ] {
            assert!(has(body), "{body}");
        }
        for body in [r#"{"Task":{"Skill":1,"Skills":2},"other":{"skill":1}}"#, r#"{"Task":{}}"#, "[]", "no JSON"] {
            assert!(!has(body), "{body}");
        }
    }

    #[test]
    fn what_is_not_one_document_is_not_read() {
        for body in
            ["", "id=1", "{\"id\":\"a\"}x", "{\"id\":\"a\"}{}", "\u{feff}{\"id\":\"a\"}", "{\"id\":\"a\"", "{\"id\":\"a\",}"]
        {
            assert_eq!(text_at(body, "/id"), Err("not JSON"), "{body}");
        }
        assert_eq!(text_at(r#"{"id":"\ud800"}"#, "/id"), Ok(None), "a lone surrogate is no text");
        assert!(find(b"{\"\xff\":1}", &Pointer::parse("/id").unwrap()).is_none(), "keys are text");
    }

    #[test]
    fn deep_nesting_beside_the_path_costs_no_stack() {
        let body = format!("{{\"deep\":{}{},\"id\":\"a\"}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(text_at(&body, "/id"), Ok(Some("a".into())));
    }

    #[test]
    fn what_is_left_out_does_not_count_whether_it_is_there_or_not() {
        let digest = |body: &str| {
            let pointers = [Pointer::parse("/meta/attempt").unwrap(), Pointer::parse("/sent_at").unwrap()];
            digest_without(body.as_bytes(), &pointers).map(|digest| digest.finalize().to_vec())
        };
        let first = digest(r#"{"id":1,"meta":{"k":1}}"#);
        assert!(first.is_some());
        assert_eq!(first, digest(r#"{"id":1,"meta":{"attempt":2,"k":1},"sent_at":"now"}"#));
        assert_ne!(first, digest(r#"{"id":2,"meta":{"k":1}}"#));
        assert_ne!(first, digest(r#"{"id":1,"meta":{"k":1.0}}"#));
        assert_ne!(first, digest(r#"{"id":1,"k":1}"#));
        assert_eq!(digest("[1]"), None);
        assert_eq!(digest("{} x"), None);
    }
}
