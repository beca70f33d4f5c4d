//! A request as it was saved: the head is parsed, the body's bytes are left alone.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::scheme::Received;

/// Header fields of one request.
const HEADERS_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct SavedRequest {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl SavedRequest {
    /// Reads a raw HTTP/1.1 request: head, blank line, body.
    pub fn parse(raw: &[u8]) -> Result<Self, String> {
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut fields);
        let body_at = match head.parse(raw) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Err("the request has no blank line after its head".to_owned()),
            Err(error) => return Err(format!("the request's head cannot be read: {error}")),
        };
        let method = head.method.unwrap_or_default().parse().map_err(|_| "the request's method cannot be read".to_owned())?;
        let uri = head.path.unwrap_or_default().parse().map_err(|_| "the request's path cannot be read".to_owned())?;
        let mut headers = HeaderMap::new();
        for field in head.headers.iter() {
            append(&mut headers, field.name, field.value)?;
        }
        Ok(Self { method, uri, headers, body: Bytes::copy_from_slice(&raw[body_at..]) })
    }

    pub fn received(&self) -> Received<'_> {
        Received { method: &self.method, uri: &self.uri, headers: &self.headers, body: &self.body }
    }

    pub fn with_body(&self, body: Vec<u8>) -> Self {
        Self { body: body.into(), ..self.clone() }
    }
}

/// Adds a header line; one that is there already stays beside it.
pub(super) fn append(headers: &mut HeaderMap, name: &str, value: &[u8]) -> Result<(), String> {
    let unreadable = || format!("the header \"{name}\" cannot be read");
    let value = HeaderValue::from_bytes(value).map_err(|_| unreadable())?;
    let name: HeaderName = name.parse().map_err(|_| unreadable())?;
    headers.try_append(name, value).map_err(|_| "the request has too many headers".to_owned())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_what_follows_the_blank_line_to_the_last_byte() {
        let request = SavedRequest::parse(b"POST /a?b=1 HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: 2\r\n\r\n{}\r\n\xff").unwrap();
        assert_eq!((request.method, request.uri.query()), (Method::POST, Some("b=1")));
        assert_eq!(request.headers.get_all("x-a").iter().count(), 2);
        assert_eq!(request.body.as_ref(), b"{}\r\n\xff");
        assert_eq!(SavedRequest::parse(b"GET / HTTP/1.1\nHost: x\n\n").unwrap().body.as_ref(), b"");
        for wrong in [&b""[..], b"POST / HTTP/1.1\r\nHost: x\r\n", b"{}", b"POST / HTTP/1.1\r\nbad header\r\n\r\n"] {
            assert!(SavedRequest::parse(wrong).is_err());
        }
    }
}
