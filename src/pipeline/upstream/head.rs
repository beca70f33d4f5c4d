//! The heads of HTTP/1.1: a request's as it is written, an answer's as it is read (RFC 9112). Pure: no I/O.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version, request, response};
use hyper::ext::ReasonPhrase;
use smallvec::SmallVec;

use super::fault::Fault;
use super::framing::Framing;

/// As many as hyper reads from senders.
const HEADERS_MAX: usize = 100;

/// Nobody's body is longer, and what has come of it already can still be added.
const LENGTH_MAX: u64 = u64::MAX / 2;

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    pub parts: Box<response::Parts>,
    /// Where its body ends.
    pub framing: Framing,
    /// Whether the connection may be used again after it.
    pub is_kept_alive: bool,
}

/// Writes a request's head as it stands, and what goes beside its headers; its framing is among them.
pub fn write(parts: &request::Parts, beside: &[(HeaderName, HeaderValue)]) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let fields = || parts.headers.iter().chain(beside.iter().map(|(name, value)| (name, value)));
    let length: usize = fields().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let mut head = Vec::with_capacity(parts.method.as_str().len() + target.len() + 14 + length);
    let mut write = |pieces: [&[u8]; 4]| pieces.into_iter().for_each(|piece| head.extend_from_slice(piece));
    write([parts.method.as_str().as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\n"]);
    fields().for_each(|(name, value)| write([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]));
    head.extend_from_slice(b"\r\n");
    head
}

/// Takes the next head from what has come, once it is there whole. An interim answer is a head like any other.
pub fn read(input: &mut BytesMut, method: &Method) -> Result<Option<Head>, Fault> {
    let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut answer, input, &mut fields);
    let httparse::Status::Complete(length) = parsed.map_err(Fault::Head)? else { return Ok(None) };
    let status = StatusCode::from_u16(answer.code.unwrap_or_default()).map_err(|_| Fault::Field)?;
    let version = if answer.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let reason = answer.reason.filter(|reason| Some(*reason) != status.canonical_reason()).map(Vec::from);
    let mut fields: SmallVec<[(HeaderName, Range<usize>); 16]> = SmallVec::new();
    for field in answer.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Fault::Field)?;
        fields.push((name, place_of(field.value, input)));
    }
    let head = input.split_to(length).freeze();
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, place) in fields {
        headers.append(name, HeaderValue::from_maybe_shared(head.slice(place)).map_err(|_| Fault::Field)?);
    }
    let framing = framing(status, version, &headers, method)?;
    let is_kept_alive = is_kept_alive(version, &headers) && !matches!(framing, Framing::UntilClose);
    let mut response = Response::new(());
    (*response.status_mut(), *response.version_mut(), *response.headers_mut()) = (status, version, headers);
    if let Some(reason) = reason.and_then(|reason| ReasonPhrase::try_from(reason).ok()) {
        response.extensions_mut().insert(reason);
    }
    Ok(Some(Head { parts: Box::new(response.into_parts().0), framing, is_kept_alive }))
}

/// Where a value is in what has come. Values are not copied but shared with that, which can be cut off only once none is borrowed.
fn place_of(value: &[u8], input: &[u8]) -> Range<usize> {
    let start = value.as_ptr() as usize - input.as_ptr() as usize;
    start..start + value.len()
}

/// Where the body ends: RFC 9112, 6.3.
fn framing(status: StatusCode, version: Version, headers: &HeaderMap, method: &Method) -> Result<Framing, Fault> {
    let has_none = status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if has_none || method == Method::HEAD {
        return Ok(Framing::Sized(0));
    }
    if let Some(codings) = headers.get_all(header::TRANSFER_ENCODING).iter().next_back() {
        let last = codings.to_str().map_err(|_| Fault::Coding)?.rsplit(',').next().unwrap_or_default();
        return match version {
            Version::HTTP_10 => Err(Fault::Coding),
            _ if last.trim().eq_ignore_ascii_case("chunked") => Ok(Framing::chunked()),
            _ => Ok(Framing::UntilClose),
        };
    }
    let mut lengths =
        headers.get_all(header::CONTENT_LENGTH).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let Some(first) = lengths.next() else { return Ok(Framing::UntilClose) };
    let length = digits(first).ok_or(Fault::Length)?;
    // Said twice, it must be said alike.
    if lengths.all(|other| digits(other) == Some(length)) { Ok(Framing::Sized(length)) } else { Err(Fault::Length) }
}

/// A number in digits alone; no sign, which `parse` would take.
fn digits(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let is_plain = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok().filter(|length| *length <= LENGTH_MAX)
}

/// An older consumer closes, where nobody asks it not to.
fn is_kept_alive(version: Version, headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter();
    let mut options = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    version == Version::HTTP_11 && !options.any(|option| option.eq_ignore_ascii_case(b"close"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str, method: Method) -> Result<Option<Head>, Fault> {
        read(&mut BytesMut::from(text), &method)
    }

    fn framed(head_lines: &str) -> Result<Framing, Fault> {
        head(&format!("HTTP/1.1 200 OK\r\n{head_lines}\r\n"), Method::POST).map(|head| head.unwrap().framing)
    }

    #[test]
    fn a_request_is_written_as_it_stands() {
        let request = http::Request::post("/hooks?a=1").header("host", "a").header("x-a", "1").header("x-a", "\u{e4}");
        let beside = [(HeaderName::from_static("x-b"), HeaderValue::from_static(""))];
        let written = write(&request.body(()).unwrap().into_parts().0, &beside);
        assert_eq!(written.len(), written.capacity());
        let expected = "POST /hooks?a=1 HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nx-a: \u{e4}\r\nx-b: \r\n\r\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn a_head_is_taken_once_it_is_whole_and_nothing_behind_it() {
        let text = "HTTP/1.1 404 Gone fishing\r\nx-a: 1\r\nX-A: 2\r\ncontent-length: 3\r\n\r\n";
        for end in 0..text.len() {
            assert!(head(&text[..end], Method::POST).unwrap().is_none(), "{end}");
        }
        let mut input = BytesMut::from(format!("{text}abc").as_str());
        let head = read(&mut input, &Method::POST).unwrap().unwrap();
        assert_eq!(&input[..], b"abc");
        assert_eq!((head.parts.status.as_u16(), head.is_kept_alive), (404, true));
        assert_eq!(head.parts.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(head.parts.extensions.get::<ReasonPhrase>().unwrap().as_bytes(), b"Gone fishing");
        assert_eq!(head.framing, Framing::Sized(3));
    }

    #[test]
    fn the_usual_reason_is_not_kept() {
        let head = head("HTTP/1.1 200 OK\r\n\r\n", Method::POST).unwrap().unwrap();
        assert!(head.parts.extensions.is_empty());
    }

    #[test]
    fn a_body_ends_where_the_head_says() {
        for (lines, expected) in [
            ("content-length: 2\r\n", Framing::Sized(2)),
            ("content-length: 2, 2\r\ncontent-length: 2\r\n", Framing::Sized(2)),
            ("transfer-encoding: chunked\r\n", Framing::chunked()),
            ("transfer-encoding: gzip, Chunked\r\ncontent-length: 5\r\n", Framing::chunked()),
            ("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", Framing::chunked()),
            ("transfer-encoding: chunked, gzip\r\n", Framing::UntilClose),
            ("x: y\r\n", Framing::UntilClose),
        ] {
            assert_eq!(framed(lines).unwrap(), expected, "{lines:?}");
        }
        for status in ["100", "103", "204", "304"] {
            let head = head(&format!("HTTP/1.1 {status} X\r\ncontent-length: 9\r\n\r\n"), Method::POST).unwrap().unwrap();
            assert_eq!(head.framing, Framing::Sized(0), "{status}");
        }
        let answer = head("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Method::HEAD).unwrap().unwrap();
        assert_eq!(
            (answer.framing, &answer.parts.headers["content-length"]),
            (Framing::Sized(0), &HeaderValue::from_static("9"))
        );
    }

    #[test]
    fn a_length_that_is_none_is_a_fault() {
        for length in ["", "+2", "-2", "0x2", "2 2", "2, 3", "2,", "18446744073709551616", "18446744073709551615"] {
            assert!(matches!(framed(&format!("content-length: {length}\r\n")), Err(Fault::Length)), "{length:?}");
        }
        let older = head("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Method::POST);
        assert!(matches!(older, Err(Fault::Coding)));
        assert!(matches!(framed("transfer-encoding: g\u{e5}ip, chunked\r\n"), Err(Fault::Coding)));
    }

    #[test]
    fn a_connection_is_used_again_unless_somebody_says_otherwise() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive, x\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\nconnection: x, Close\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", false),
        ] {
            assert_eq!(head(answer, Method::POST).unwrap().unwrap().is_kept_alive, expected, "{answer:?}");
        }
    }
}
