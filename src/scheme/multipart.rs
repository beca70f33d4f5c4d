//! Fields of a `multipart/form-data` body.
//!
//! Its boundary is what the header says, and must be the body's own first line: the header is not signed, and with
//! another boundary a consumer would read another form than the one that was judged.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The boundary with its dashes, if the request is such a form.
pub(super) fn boundary<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<&'a [u8]> {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return None };
    let kind = kind.to_str().ok()?;
    let start = kind.get(..FORM.len()).filter(|start| start.eq_ignore_ascii_case(FORM))?;
    let parameters = kind[start.len()..].split(';').map(str::trim);
    let named =
        parameters.filter_map(|parameter| parameter.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("boundary"));
    let named = named.map(|(_, value)| value.trim_matches('"'))?;
    let line = &body[..position(body, b"\r\n")?];
    (line.strip_prefix(b"--")? == named.as_bytes() && !named.is_empty()).then_some(line)
}

const FORM: &str = "multipart/form-data";

/// The value of the field with this name; the error where it stands there twice.
pub(super) fn field<'a>(name: &str, boundary: &[u8], body: &'a [u8]) -> Result<Option<&'a [u8]>, super::locate::RepeatedError> {
    let mut found = None;
    for (head, value) in parts(boundary, body) {
        if name_of(head) == Some(name) && found.replace(value).is_some() {
            return Err(super::locate::RepeatedError);
        }
    }
    Ok(found)
}

/// Head and value of each part. What follows the last one, or is not whole, is left out.
fn parts<'a>(boundary: &[u8], body: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let close = [b"\r\n", boundary].concat();
    let mut rest = body.strip_prefix(boundary);
    std::iter::from_fn(move || {
        let here = rest?;
        // After a boundary comes the end of its line, or two dashes where it was the last.
        let here = here.strip_prefix(b"\r\n")?;
        let (head_end, skip) = if here.starts_with(b"\r\n") { (0, 2) } else { (position(here, b"\r\n\r\n")?, 4) };
        let content = &here[head_end + skip..];
        let end = position(content, &close)?;
        rest = Some(&content[end + close.len()..]);
        Some((&here[..head_end], &content[..end]))
    })
}

/// The `name` of a part's `Content-Disposition`.
fn name_of(head: &[u8]) -> Option<&str> {
    let head = std::str::from_utf8(head).ok()?;
    let line =
        head.split("\r\n").find(|line| line.get(..20).is_some_and(|start| start.eq_ignore_ascii_case("content-disposition:")))?;
    let (_, rest) = line.split_once("; name=\"")?;
    rest.split('"').next()
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

#[cfg(test)]
mod tests {
    use super::super::locate::RepeatedError;
    use super::*;

    const BODY: &str = "--X\r\nContent-Disposition: form-data; name=\"json\"\r\nContent-Type: text/plain\r\n\r\n{\"a\":1}\r\n\r\n--X\r\n\
                        content-disposition: form-data; name=\"file\"; filename=\"json\"\r\n\r\n--Y\r\n--X--\r\n";

    #[test]
    fn fields_are_found_by_their_name() {
        let field = |name| field(name, b"--X", BODY.as_bytes());
        assert_eq!(field("json"), Ok(Some(&b"{\"a\":1}\r\n"[..])));
        assert_eq!(field("file"), Ok(Some(&b"--Y"[..])));
        assert_eq!(field("other"), Ok(None));
    }

    #[test]
    fn a_field_that_stands_there_twice_is_none() {
        let twice = BODY.replace("name=\"file\"", "name=\"json\"");
        assert_eq!(field("json", b"--X", twice.as_bytes()), Err(RepeatedError));
    }

    #[test]
    fn what_is_not_whole_is_left_out() {
        for body in ["", "--", "--X", "--X\r\n", "json=1", &BODY[..BODY.len() - 12], "--X\r\n\r\n"] {
            assert!(matches!(field("file", b"--X", body.as_bytes()), Ok(None)), "{body}");
        }
    }

    #[test]
    fn the_boundary_is_the_one_of_header_and_body() {
        let boundary = |kind: &'static str, body: &'static str| {
            let headers = [(CONTENT_TYPE, http::HeaderValue::from_static(kind))].into_iter().collect();
            super::boundary(&headers, body.as_bytes())
        };
        for kind in ["multipart/form-data; boundary=X", "Multipart/Form-Data;charset=utf-8; Boundary=\"X\""] {
            assert_eq!(boundary(kind, BODY), Some(&b"--X"[..]), "{kind}");
        }
        for (kind, body) in [
            ("multipart/form-data; boundary=Y", BODY),
            ("multipart/form-data; boundary=", "--\r\n"),
            ("multipart/form-data", BODY),
            ("multipart/mixed; boundary=X", BODY),
            ("application/x-www-form-urlencoded", BODY),
            ("multipart/form-data; boundary=X", "a=1"),
        ] {
            assert_eq!(boundary(kind, body), None, "{kind} {body}");
        }
    }
}
