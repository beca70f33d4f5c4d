//! The signature's text: where it stands, how it is laid out, what stands before each signature.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

use super::Received;
use super::disproof::Disproof;
use super::encoding::SignatureBytes;
use super::layout::{Beside, Layout, Parts};
use super::locate;
use super::place::{HeaderNames, Place, Pointer};

#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub at: Spot,
    pub layout: Layout,
    /// Must stand before each signature, and is no part of it.
    pub prefix: String,
}

/// Where signatures stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// One text: the first of the headers that is there, or another place.
    One(Place),
    /// A text in each of these headers, as many of them as are there.
    Every(Vec<HeaderName>),
    /// `NAME1`, `NAME2`, and so on.
    Numbered(String),
    /// One in each item of a batch.
    Item(Pointer),
}

/// The longest text that is looked at: 64 signatures of SHA-512 in hex, or a token with many claims, with room to spare.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Numbered headers that are looked at.
const NUMBERED_MAX: usize = 100;

pub(super) type Texts<'a> = SmallVec<[Cow<'a, str>; 1]>;

impl Signature {
    /// The texts in which signatures stand: one at least, none empty or of an insane length, all in visible ASCII.
    #[inline]
    pub fn read<'a>(&self, received: &Received<'a>, item: Option<&'a RawValue>) -> Result<Texts<'a>, Disproof> {
        let found: SmallVec<[Cow<'a, [u8]>; 1]> = match &self.at {
            Spot::One(place) => {
                let found = locate::find(place, received).map_err(|_| Disproof::RepeatedValue)?;
                return Ok(smallvec![text(found.ok_or(Disproof::MissingSignature)?)?]);
            }
            Spot::Every(names) => several(names.iter(), received.headers)?,
            Spot::Numbered(prefix) => {
                let is_one = |name: &&HeaderName| {
                    let number = name.as_str().strip_prefix(prefix.as_str()).filter(|digits| !digits.starts_with('0'));
                    number.and_then(|digits| digits.parse().ok()).is_some_and(|number| (1..=NUMBERED_MAX).contains(&number))
                };
                several(received.headers.keys().filter(is_one), received.headers)?
            }
            Spot::Item(pointer) => {
                let document = item.map(|item| item.get().as_bytes()).unwrap_or_default();
                let found = locate::in_json(document, pointer).map_err(|_| Disproof::RepeatedValue)?;
                smallvec![found.filter(|text| !text.is_empty()).ok_or(Disproof::MissingSignature)?]
            }
        };
        found.into_iter().map(text).collect()
    }

    /// Whether it can be read before the body is.
    pub fn is_in_head(&self) -> bool {
        match &self.at {
            Spot::One(place) => place.header().is_some(),
            Spot::Every(_) | Spot::Numbered(_) => true,
            Spot::Item(_) => false,
        }
    }

    /// The signature under this key's id, where each stands under the id of its key.
    pub fn of_key<'a>(&self, id: &str, parts: &Beside<'a>) -> Result<Option<&'a str>, Disproof> {
        Ok(parts.part(id)?.and_then(|one| one.strip_prefix(self.prefix.as_str())))
    }

    /// The signatures among these parts that can be decoded.
    pub fn offered(
        &self,
        parts: &Parts<'_>,
        decode: impl Fn(&str) -> Option<SignatureBytes>,
    ) -> impl Iterator<Item = SignatureBytes> {
        parts.signatures.iter().filter_map(|one| one.strip_prefix(self.prefix.as_str())).filter_map(decode)
    }

    /// The name of the header in which it stands, for messages and for those who sign.
    pub fn names(&self) -> Option<HeaderNames> {
        match &self.at {
            Spot::One(place) => place.header().cloned(),
            Spot::Every(names) => HeaderNames::parse(names.iter().map(HeaderName::as_str)).ok(),
            Spot::Numbered(prefix) => HeaderNames::parse([format!("{prefix}1").as_str()]).ok(),
            Spot::Item(_) => None,
        }
    }

    /// The text with this signature and these parts.
    pub fn write(&self, key_id: &str, parts: &[(&str, &str)], signature: &str) -> String {
        self.layout.write(key_id, parts, &format!("{}{signature}", self.prefix))
    }
}

fn several<'a, 'n>(
    names: impl Iterator<Item = &'n HeaderName>,
    headers: &'a HeaderMap,
) -> Result<SmallVec<[Cow<'a, [u8]>; 1]>, Disproof> {
    let mut found = SmallVec::new();
    for name in names {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) if !value.is_empty() => found.push(Cow::Borrowed(value.as_bytes())),
            (Some(_), Some(_)) => return Err(Disproof::RepeatedValue),
            _ => {}
        }
    }
    if found.is_empty() { Err(Disproof::MissingSignature) } else { Ok(found) }
}

#[inline]
fn text(value: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Disproof> {
    // Without a branch for each byte, so that many are looked at at once.
    let is_visible = value.iter().fold(true, |is_visible, byte| is_visible & matches!(byte, b' '..=b'~'));
    if value.len() > TEXT_BYTES_MAX || !is_visible {
        return Err(Disproof::MalformedSignature);
    }
    match value {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Disproof::MalformedSignature),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Disproof::MalformedSignature),
    }
}

/// Writes a header under one of its names, so that the others do not stand there beside it.
pub(super) fn put(names: &HeaderNames, headers: &mut HeaderMap, text: &str) -> Result<(), String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "gives a value that no header can hold".to_owned())?;
    value.set_sensitive(true);
    let name = names.to_write(headers).clone();
    for other in names.iter() {
        headers.remove(other);
    }
    headers.insert(name, value);
    Ok(())
}
