//! The signature's header: under which names it stands, how it is laid out, what stands before each signature.

use http::{HeaderMap, HeaderValue};

use super::disproof::Disproof;
use super::layout::Layout;
use super::locate;
use super::place::HeaderNames;

#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub names: HeaderNames,
    pub layout: Layout,
    /// Must stand before each signature, and is no part of it.
    pub prefix: String,
}

/// The longest header that is looked at: 64 signatures of SHA-512 in hex, with room to spare.
const HEADER_BYTES_MAX: usize = 16 * 1024;

impl Signature {
    /// The header's text: there once, not empty, of a sane length, in visible ASCII.
    pub fn read<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Disproof> {
        let value = locate::header(&self.names, headers).map_err(|_| Disproof::RepeatedHeader)?.unwrap_or_default();
        if value.is_empty() {
            return Err(Disproof::MissingSignature);
        }
        if value.len() > HEADER_BYTES_MAX || !value.iter().all(|b| matches!(b, b' '..=b'~')) {
            return Err(Disproof::MalformedSignature);
        }
        std::str::from_utf8(value).map_err(|_| Disproof::MalformedSignature)
    }

    /// The signatures in the header's text that can be decoded; at least one.
    pub fn offered(&self, text: &str, decode: impl Fn(&str) -> Option<Vec<u8>>) -> Result<Vec<Vec<u8>>, Disproof> {
        let written = self.layout.signatures(text)?;
        let offered: Vec<Vec<u8>> =
            written.into_iter().filter_map(|one| one.strip_prefix(self.prefix.as_str())).filter_map(decode).collect();
        if offered.is_empty() { Err(Disproof::MalformedSignature) } else { Ok(offered) }
    }

    /// Puts a signature where the scheme wants it, in place of any that is there.
    pub fn put(&self, headers: &mut HeaderMap, parts: &[(&str, &str)], signature: &str) -> Result<(), String> {
        let text = self.layout.write(parts, &format!("{}{signature}", self.prefix));
        put(&self.names, headers, &text)
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
