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
    let parameters = kind[start.len()..].split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let mut named = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let (Some((_, named)), None) = (named.next(), named.next()) else { return None };
    let named = named.trim_matches('"');
    let line = &body[..position(body, b"\r\n")?];
    (line.strip_prefix(b"--")? == named.as_bytes() && !named.is_empty()).then_some(line)
}

const FORM: &str = "multipart/form-data";

/// The value of the field with this name; the error where it stands there twice.
pub(super) fn field<'a>(name: &str, boundary: &[u8], body: &'a [u8]) -> Result<Option<&'a [u8]>, super::locate::RepeatedError> {
    let mut found = None;
    for (head, value) in parts(boundary, body) {
        // A part that cannot be named might be this one to somebody else.
        let named = name_of(head).ok_or(super::locate::RepeatedError)?;
        if named == name && found.replace(value).is_some() {
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

/// The `name` of a part: exactly `form-data; name="NAME"`, and perhaps a file's name. Readers differ on everything else.
fn name_of(head: &[u8]) -> Option<&str> {
    let head = std::str::from_utf8(head).ok()?;
    let is_it = |line: &&str| line.get(..19).is_some_and(|start| start.eq_ignore_ascii_case("content-disposition"));
    let mut lines = head.split("\r\n").filter(is_it);
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let rest = line[19..].strip_prefix(": form-data; name=\"")?;
    let (name, rest) = rest.split_once('"')?;
    let is_file = |rest: &str| {
        let file = rest.strip_prefix("; filename=\"").and_then(|rest| rest.strip_suffix('"'));
        file.is_some_and(|file| !file.contains(['"', '\\']))
    };
    (rest.is_empty() || is_file(rest)).then_some(name).filter(|name| !name.contains('\\'))
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
    fn a_part_that_readers_could_name_differently_spoils_the_form() {
        for other in ["name=json", "Name=\"json\"", "name=\"a\"; name=\"json\"", "name=\"js\\on\"", "filename=\"a\""] {
            let odd = BODY.replace("name=\"file\"; filename=\"json\"", other);
            assert_eq!(field("json", b"--X", odd.as_bytes()), Err(RepeatedError), "{other}");
        }
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
            ("multipart/form-data; boundary=X; boundary=Y", BODY),
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
