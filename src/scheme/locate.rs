//! Finding the value at a place. What stands there twice is an error, never the first or the last of the two.
//!
//! An empty value counts as none. A body is read as it is and never decompressed; whatever its headers say of it, they
//! are not signed, and must not decide whether an id is found.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};

use super::Received;
use super::json::{self, Sought};
use super::place::{HeaderNames, Place};

/// The value stands there more than once: a repeated header, parameter or JSON key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedError;

/// The value at a place, if there is one.
pub fn find<'a>(place: &Place, received: &Received<'a>) -> Result<Option<Cow<'a, [u8]>>, RepeatedError> {
    let found = match place {
        Place::Header(names) => header(names, received.headers)?.map(Cow::Borrowed),
        Place::Query(name) => parameter(name, received.uri.query().unwrap_or_default().as_bytes())?,
        Place::Form(name) => parameter(name, received.body)?,
        Place::Json(pointer) => match json::find(received.body, pointer) {
            Some(Sought::Repeated) => return Err(RepeatedError),
            Some(Sought::Found(raw)) => json::text_of(raw).map(into_bytes),
            Some(Sought::Absent) | None => None,
        },
        Place::Body => Some(Cow::Borrowed(received.body.as_ref())),
    };
    Ok(found.filter(|value| !value.is_empty()))
}

/// The value of a header under the first of its names that is present.
pub(super) fn header<'a>(names: &HeaderNames, headers: &'a HeaderMap) -> Result<Option<&'a [u8]>, RepeatedError> {
    names.present_in(headers).map_or(Ok(None), |name| only(name, headers))
}

fn only<'a>(name: &HeaderName, headers: &'a HeaderMap) -> Result<Option<&'a [u8]>, RepeatedError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(RepeatedError),
        (value, None) => Ok(value.map(http::HeaderValue::as_bytes)),
    }
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
    for pair in pairs.split(|b| *b == b'&') {
        let middle = pair.iter().position(|b| *b == b'=').unwrap_or(pair.len());
        if *percent_decoded(&pair[..middle]) == *name.as_bytes() {
            let value = percent_decoded(pair.get(middle + 1..).unwrap_or_default());
            if found.replace(value).is_some() {
                return Err(RepeatedError);
            }
        }
    }
    Ok(found)
}

/// `+` is a space and `%41` an `A`; a percent sign without two hex digits stands for itself.
fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|b| matches!(b, b'%' | b'+')) {
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
    fn json_is_read_whatever_the_headers_say() {
        let place = Place::Json(Pointer::parse("/id").unwrap());
        let body = r#"{"id":"a"}"#;
        assert_eq!(find_in(&place, "/", &[], body), Ok(Some("a".into())));
        assert_eq!(find_in(&place, "/", &[("content-encoding", "gzip")], body), Ok(Some("a".into())));
        assert_eq!(find_in(&place, "/", &[], r#"{"id":"a","id":"b"}"#), Err(RepeatedError));
        assert_eq!(find_in(&place, "/", &[], r#"{"id":""}"#), Ok(None));
    }
}
