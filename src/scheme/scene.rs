//! A request together with what has been found in it: where the values of templates come from.

use std::borrow::Cow;

use http::{HeaderName, Method};
use serde_json::value::RawValue;

use super::Received;
use super::disproof::Disproof;
use super::function::Function;
use super::json::{self, Sought};
use super::jwt::Token;
use super::key::{Chunk, Message};
use super::layout::Beside;
use super::locate;
use super::place::Site;
use super::public_url::PublicUrl;
use super::template::{Listed, Piece, Source, Template, Value};

/// What one signature is judged by.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub received: Received<'a>,
    pub public_url: Option<&'a PublicUrl>,
    /// The parts of the signature's text.
    pub parts: Beside<'a>,
    /// The signature as a token, where it is one.
    pub token: Option<&'a Token<'a>>,
    /// The item that is looked at, of a batch.
    pub item: Option<&'a RawValue>,
    /// The timestamp as it was sent.
    pub timestamp: Option<&'a [u8]>,
    /// Signs what a challenge asks for.
    pub sign: Option<&'a Sign<'a>>,
}

pub(super) type Sign<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

type Found<'a> = Option<Cow<'a, [u8]>>;

/// Headers that a list may name.
const LISTED_MAX: usize = 64;

impl<'a> Scene<'a> {
    #[inline]
    pub fn find(&self, site: &Site) -> Result<Found<'a>, Disproof> {
        match site {
            Site::Part(name) => match self.token {
                Some(token) => Ok(token.part(name)?.map(Cow::Owned)),
                None => Ok(self.parts.part(name)?.map(|part| Cow::Borrowed(part.as_bytes()))),
            },
            Site::Claim(pointer) => self.token.map_or(Ok(None), |token| Ok(token.claim(pointer)?.map(Cow::Owned))),
            Site::Item(pointer) => match self.item {
                Some(item) => locate::in_json(item.get().as_bytes(), pointer).map_err(|_| Disproof::RepeatedValue),
                None => Ok(None),
            },
            Site::Request(place) => locate::find(place, &self.received).map_err(|_| Disproof::RepeatedValue),
        }
    }

    /// The bytes of a template, in pieces that are borrowed wherever they can be.
    ///
    /// They are put into a message that is there, so that it need not be moved.
    #[inline]
    pub fn write(&self, template: &'a Template, message: &mut Message<'a>) -> Result<(), Disproof> {
        message.clear();
        for piece in template.pieces() {
            match piece {
                Piece::Literal(literal) => message.push(Chunk::Bytes(Cow::Borrowed(literal.as_bytes()))),
                // A URL that is not changed need not be put together.
                Piece::Value(Value { sources, functions, .. })
                    if functions.is_empty() && matches!(sources.as_slice(), [Source::Url]) =>
                {
                    let pieces =
                        self.public_url.and_then(|url| url.pieces(self.received.uri)).ok_or(Disproof::MissingSignedValue)?;
                    message.extend(pieces.map(|piece| Chunk::Bytes(Cow::Borrowed(piece.as_bytes()))));
                }
                Piece::Value(value) => match self.value(value)? {
                    Some(chunk) => message.push(chunk),
                    None if value.optional => {}
                    None => return Err(missing(value)),
                },
                Piece::Group(pieces) => message.extend(self.group(pieces)?.into_iter().flatten()),
            }
        }
        Ok(())
    }

    /// A group's bytes, or nothing where a value in it is absent.
    fn group(&self, pieces: &'a [Piece]) -> Result<Option<Vec<Chunk<'a>>>, Disproof> {
        let mut chunks = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => chunks.push(Chunk::Bytes(Cow::Borrowed(literal.as_bytes()))),
                Piece::Value(value) => match self.value(value)? {
                    Some(chunk) => chunks.push(chunk),
                    None if value.optional => {}
                    None => return Ok(None),
                },
                // There is none: a template with a group inside a group is not read.
                Piece::Group(_) => {}
            }
        }
        Ok(Some(chunks))
    }

    /// The text of a template; `None` where a value of it is absent.
    pub fn text_of(&self, template: &'a Template) -> Result<Option<Vec<u8>>, Disproof> {
        let mut message = Message::new();
        match self.write(template, &mut message) {
            Ok(()) => Ok(Some(message.iter().flat_map(Chunk::public_bytes).copied().collect())),
            Err(Disproof::MissingSignedValue | Disproof::MissingTimestamp) => Ok(None),
            Err(reason) => Err(reason),
        }
    }

    #[inline]
    fn value(&self, value: &'a Value) -> Result<Option<Chunk<'a>>, Disproof> {
        // The plain case first: one source as it is.
        let found = match value.sources.as_slice() {
            [Source::Secret] if value.functions.is_empty() => return Ok(Some(Chunk::Secret)),
            [source] => self.source(source)?,
            several => {
                let mut joined = Vec::new();
                for source in several {
                    match self.source(source)? {
                        Some(bytes) => joined.extend_from_slice(&bytes),
                        None => return Ok(None),
                    }
                }
                Some(Cow::Owned(joined))
            }
        };
        // An optional body that is empty is taken for absent: some senders digest it only where there is one.
        let found = found.filter(|bytes| !(value.optional && bytes.is_empty()));
        let Some(mut bytes) = found else { return Ok(None) };
        for function in &value.functions {
            if !function.takes(&bytes) {
                return Err(Disproof::MissingSignedValue);
            }
            bytes = match (function, self.sign) {
                (Function::Sign, Some(sign)) => Cow::Owned(sign(&bytes)),
                _ => function.of(bytes),
            };
        }
        Ok(Some(Chunk::Bytes(bytes)))
    }

    #[inline]
    fn source(&self, source: &Source) -> Result<Found<'a>, Disproof> {
        let received = &self.received;
        Ok(match source {
            Source::Body => Some(Cow::Borrowed(received.body.as_ref())),
            Source::Timestamp => self.timestamp.map(Cow::Borrowed),
            Source::Method => Some(Cow::Borrowed(method(received.method))),
            Source::Url => self.public_url.and_then(|url| Some(Cow::Owned(url.pieces(received.uri)?.concat().into_bytes()))),
            Source::Path => Some(Cow::Borrowed(received.uri.path().as_bytes())),
            Source::Query => received.uri.query().map(|query| Cow::Borrowed(query.as_bytes())),
            Source::Target => Some(Cow::Borrowed(received.uri.path_and_query().map_or("/", |target| target.as_str()).as_bytes())),
            // It stands alone, which is a chunk of its own: anything else is refused when the scheme is read.
            Source::Secret => None,
            Source::SortedForm => Some(Cow::Owned(sorted(received.body, b"", b"").ok_or(Disproof::MissingSignedValue)?)),
            Source::SortedQuery => match received.uri.query() {
                None | Some("") => None,
                Some(query) => Some(Cow::Owned(sorted(query.as_bytes(), b"=", b"&").ok_or(Disproof::MissingSignedValue)?)),
            },
            Source::Listed(listed) => self.listed(listed)?,
            Source::Raw(pointer) => match json::find(received.body, pointer) {
                Some(Sought::Found(raw)) => Some(Cow::Borrowed(raw.get().as_bytes())),
                Some(Sought::Repeated) => return Err(Disproof::RepeatedValue),
                Some(Sought::Absent) | None => None,
            },
            Source::At(site) => self.find(site)?,
        })
    }

    /// The headers that a list names: lines in the order of names, values in that of the list.
    fn listed(&self, listed: &Listed) -> Result<Found<'a>, Disproof> {
        let Some(list) = self.find(&listed.list)? else { return Ok(None) };
        let list = String::from_utf8_lossy(&list).to_ascii_lowercase();
        let (mut lines, mut missing) = (Vec::new(), listed.must.clone());
        for name in list.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
            let parsed: HeaderName = name.parse().map_err(|_| Disproof::MalformedSignature)?;
            let mut values = self.received.headers.get_all(&parsed).iter();
            let value = match (values.next(), values.next()) {
                (Some(value), None) => value.as_bytes(),
                (Some(_), Some(_)) => return Err(Disproof::RepeatedValue),
                (None, _) => return Err(Disproof::MissingSignedValue),
            };
            missing.retain(|must| *must != parsed);
            let line = if listed.is_lines { [name.as_bytes(), b":", value].concat() } else { value.to_vec() };
            lines.push(line);
            if lines.len() > LISTED_MAX {
                return Err(Disproof::MalformedSignature);
            }
        }
        if !missing.is_empty() {
            return Err(Disproof::MissingSignedValue);
        }
        if listed.is_lines {
            lines.sort();
        }
        Ok(Some(Cow::Owned(lines.join(if listed.is_lines { &b";"[..] } else { b"." }))))
    }
}

fn missing(value: &Value) -> Disproof {
    if value.sources.contains(&Source::Timestamp) { Disproof::MissingTimestamp } else { Disproof::MissingSignedValue }
}

/// The name lives as long as anybody asks: the methods that providers use are constants.
fn method(method: &Method) -> &'static [u8] {
    match method.as_str() {
        "POST" => b"POST",
        "GET" => b"GET",
        "PUT" => b"PUT",
        "PATCH" => b"PATCH",
        "DELETE" => b"DELETE",
        "HEAD" => b"HEAD",
        _ => b"OTHER",
    }
}

/// Fields of a form that are sorted. Anybody can send more, and each costs more than its bytes.
const FIELDS_MAX: usize = 1000;

/// Names in order, each name followed by its value; a name that stands there several times by its values, in order and
/// each once. `None` where they are too many.
fn sorted(pairs: &[u8], assign: &[u8], between: &[u8]) -> Option<Vec<u8>> {
    if memchr::memchr_iter(b'&', pairs).take(FIELDS_MAX).count() >= FIELDS_MAX {
        return None;
    }
    let mut fields: Vec<_> = locate::fields(pairs).collect();
    fields.sort();
    fields.dedup();
    let mut sorted = Vec::with_capacity(pairs.len());
    for (name, value) in fields {
        if !sorted.is_empty() {
            sorted.extend_from_slice(between);
        }
        for piece in [&name, assign, &value] {
            sorted.extend_from_slice(piece);
        }
    }
    Some(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_sorted_by_name_then_value_without_repeats() {
        let form = |pairs: &[u8]| sorted(pairs, b"", b"");
        assert_eq!(form(b"b=2&a=%20x&b=1&b=2&A=&c").unwrap(), b"Aa xb1b2c");
        assert_eq!(form(b"").unwrap(), b"");
        assert!(form("a&".repeat(999).as_bytes()).is_some() && form("a&".repeat(1000).as_bytes()).is_none());
        assert_eq!(sorted(b"b=2&a=%20x&b=1&A=", b"=", b"&").unwrap(), b"A=&a= x&b=1&b=2");
    }
}
