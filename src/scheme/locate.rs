//! Finding the value at a place. What stands there twice is an error, never the first or the last of the two.
//!
//! An empty value counts as none. A body is read as it is and never decompressed; whatever its headers say of it, they
//! are not signed, and must not decide whether an id is found.

use std::borrow::Cow;

use http::HeaderMap;

use super::Received;
use super::json::{self, Sought};
use super::jwt;
use super::multipart;
use super::place::{Document, EachPointer, HeaderNames, Place, Pointer, Within};

/// The value stands there more than once: a repeated header, parameter or JSON key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedError;

/// The value at a place, if there is one.
#[inline]
pub fn find<'a>(place: &Place, received: &Received<'a>) -> Result<Option<Cow<'a, [u8]>>, RepeatedError> {
    let found = match place {
        Place::Header(names) => header(names, received.headers)?.map(Cow::Borrowed),
        Place::Query(name) => parameter(name, received.uri.query().unwrap_or_default().as_bytes())?,
        Place::Form(name) => match multipart::boundary(received.headers, received.body) {
            Some(boundary) => multipart::field(name, boundary, received.body)?.map(Cow::Borrowed),
            None => parameter(name, received.body)?,
        },
        Place::Json(pointer) => in_json(received.body, pointer)?,
        Place::EachJson(pointer) => each(pointer, received.body)?.map(|values| Cow::Owned(values.join(&b"+"[..]))),
        Place::Body => Some(Cow::Borrowed(received.body.as_ref())),
        Place::Within(within) => inside(within, received)?.map(Cow::Owned),
    };
    Ok(found.filter(|value| !value.is_empty()))
}

/// The value at a pointer of a JSON document, if there is one.
pub(super) fn in_json<'a>(document: &'a [u8], pointer: &Pointer) -> Result<Option<Cow<'a, [u8]>>, RepeatedError> {
    match json::find(document, pointer) {
        Some(Sought::Repeated) => Err(RepeatedError),
        Some(Sought::Found(raw)) => Ok(json::text_of(raw).map(into_bytes)),
        Some(Sought::Absent) | None => Ok(None),
    }
}

/// The value in every item of a list; `None` where one of them has none, or there is no item.
pub fn each(pointer: &EachPointer, body: &[u8]) -> Result<Option<Vec<Vec<u8>>>, RepeatedError> {
    let Some(items) = json::items(body, &pointer.list)? else { return Ok(None) };
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        match in_json(item.get().as_bytes(), &pointer.inner)? {
            Some(value) if !value.is_empty() => values.push(value.into_owned()),
            _ => return Ok(None),
        }
    }
    Ok(Some(values).filter(|values| !values.is_empty()))
}

fn inside(within: &Within, received: &Received<'_>) -> Result<Option<Vec<u8>>, RepeatedError> {
    let Some(text) = find(&within.outer, received)? else { return Ok(None) };
    match within.document {
        Document::Json => Ok(in_json(&text, &within.pointer)?.map(Cow::into_owned)),
        // What is no token has no claims.
        Document::Jwt => Ok(jwt::claim_in(&text, &within.pointer).unwrap_or_default()),
    }
}

/// All fields of a form or a query, decoded, in the order they were sent.
pub(super) fn fields(pairs: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    let ends = memchr::memchr_iter(b'&', pairs).chain([pairs.len()]);
    let slices = ends.scan(0, |start, end| pairs.get(std::mem::replace(start, end + 1)..end));
    slices.filter(|pair| !pair.is_empty()).map(|pair| {
        let middle = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        (percent_decoded(&pair[..middle]), percent_decoded(pair.get(middle + 1..).unwrap_or_default()))
    })
}

/// The value of a header under the first of its names that is present.
#[inline]
pub(super) fn header<'a>(names: &HeaderNames, headers: &'a HeaderMap) -> Result<Option<&'a [u8]>, RepeatedError> {
    for name in names.iter() {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => return Err(RepeatedError),
            (Some(value), None) => return Ok(Some(value.as_bytes())),
            (None, _) => {}
        }
    }
    Ok(None)
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// A parameter of `a=1&b=2`, name and value percent-decoded.
fn parameter<'a>(name: &str, pairs: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, RepeatedError> {
    let mut found = None;
    for (other, value) in fields(pairs) {
        if *other == *name.as_bytes() && found.replace(value).is_some() {
            return Err(RepeatedError);
        }
    }
    Ok(found)
}

/// `+` is a space and `%41` an `A`; a percent sign without two hex digits stands for itself.
fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        decoded.push(match (first, hex_pair(tail)) {
            (b'%', Some(byte)) => {
                rest = &tail[2..];
                byte
            }
            (b'+', _) => b' ',
            (other, _) => *other,
        });
    }
    Cow::Owned(decoded)
}

/// The byte that two hex digits at the start of `text` stand for.
pub(crate) fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let (high, low) = (text.first().and_then(digit)?, text.get(1).and_then(digit)?);
    u8::try_from(high * 16 + low).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderValue, Method, Uri};

    use super::*;
    use crate::scheme::Pointer;

    type Found = Result<Option<String>, RepeatedError>;

    fn find_in(place: &Place, uri: &str, headers: &[(&'static str, &'static str)], body: &str) -> Found {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let (uri, body) = (uri.parse::<Uri>().unwrap(), Bytes::from(body.to_owned()));
        let received = Received { method: &Method::POST, uri: &uri, headers: &map, body: &body };
        Ok(find(place, &received)?.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    #[test]
    fn a_header_is_the_first_present_and_never_one_of_two() {
        let place = Place::Header(HeaderNames::parse(["x-a", "x-b"]).unwrap());
        assert_eq!(find_in(&place, "/", &[("x-b", "2"), ("x-a", "1")], ""), Ok(Some("1".into())));
        assert_eq!(find_in(&place, "/", &[("x-b", "2")], ""), Ok(Some("2".into())));
        assert_eq!(find_in(&place, "/", &[("x-a", "1"), ("x-a", "1")], ""), Err(RepeatedError));
        assert_eq!(find_in(&place, "/", &[("x-a", ""), ("x-b", "2")], ""), Ok(None));
        assert_eq!(find_in(&place, "/", &[], ""), Ok(None));
    }

    #[test]
    fn query_parameters_are_decoded_and_must_be_single() {
        let place = Place::Query("hub.mode".into());
        assert_eq!(find_in(&place, "/?a=1&hub%2Emode=a%20b+c%zz&b", &[], ""), Ok(Some("a b c%zz".into())));
        assert_eq!(find_in(&place, "/?hub.mode=a&hub%2emode=a", &[], ""), Err(RepeatedError));
        assert_eq!(find_in(&place, "/?hub.mode", &[], ""), Ok(None));
        assert_eq!(find_in(&place, "/", &[], ""), Ok(None));
    }

    #[test]
    fn form_fields_are_read_whatever_the_headers_say() {
        let place = Place::Form("id".into());
        assert_eq!(find_in(&place, "/", &[], "x=1&id=%E2%82%AC"), Ok(Some("€".into())));
        assert_eq!(find_in(&place, "/", &[], "id=1&id=2"), Err(RepeatedError));
        for header in [("content-type", "application/json"), ("content-encoding", "gzip")] {
            assert_eq!(find_in(&place, "/", &[header], "id=1"), Ok(Some("1".into())));
        }
    }

    #[test]
    fn multipart_fields_are_read_as_form_fields_are() {
        let body = "--X\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"event\":{\"id\":\"e\"}}\r\n--X--\r\n";
        let kind = [("content-type", "multipart/form-data; boundary=X")];
        assert_eq!(find_in(&Place::Form("json".into()), "/", &[], body), Ok(None), "nobody says that it is one");
        assert_eq!(find_in(&Place::Form("json".into()), "/", &kind, body), Ok(Some("{\"event\":{\"id\":\"e\"}}".into())));
        let inner =
            Within { outer: Place::Form("json".into()), document: Document::Json, pointer: Pointer::parse("/event/id").unwrap() };
        assert_eq!(find_in(&Place::Within(Box::new(inner)), "/", &kind, body), Ok(Some("e".into())));
    }

    #[test]
    fn values_of_every_item_are_found_or_none() {
        let place = |list: &str| {
            let list = if list.is_empty() { Pointer::whole() } else { Pointer::parse(list).unwrap() };
            Place::EachJson(EachPointer { list, inner: Pointer::parse("/id").unwrap() })
        };
        assert_eq!(find_in(&place("/e"), "/", &[], r#"{"e":[{"id":"a"},{"id":2}]}"#), Ok(Some("a+2".into())));
        assert_eq!(find_in(&place(""), "/", &[], r#"[{"id":"a"}]"#), Ok(Some("a".into())));
        for none in [r#"{"e":[{"id":"a"},{}]}"#, r#"{"e":[]}"#, r#"{"e":{"id":"a"}}"#, "{}", "x"] {
            assert_eq!(find_in(&place("/e"), "/", &[], none), Ok(None), "{none}");
        }
        assert_eq!(find_in(&place("/e"), "/", &[], r#"{"e":[{"id":"a","id":"b"}]}"#), Err(RepeatedError));
    }

    #[test]
    fn json_is_read_whatever_the_headers_say() {
        let place = Place::Json(Pointer::parse("/id").unwrap());
        let body = r#"{"id":"a"}"#;
        assert_eq!(find_in(&place, "/", &[], body), Ok(Some("a".into())));
        assert_eq!(find_in(&place, "/", &[("content-encoding", "gzip")], body), Ok(Some("a".into())));
        assert_eq!(find_in(&place, "/", &[], r#"{"id":"a","id":"b"}"#), Err(RepeatedError));
        assert_eq!(find_in(&place, "/", &[], r#"{"id":""}"#), Ok(None));
    }
}
