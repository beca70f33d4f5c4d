//! What a template can do to a value before it is used.

use std::borrow::Cow;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::public_url::{with_port, without_port};

/// Each is forced by a provider; `docs/schemes.md` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Lower,
    Upper,
    /// As it is, on one line: a value with a line break is refused.
    Line,
    Md5Hex,
    Sha1Hex,
    Sha256Hex,
    Sha256Base64,
    Sha256Base64Url,
    Sha512Hex,
    Sha512Base64,
    /// The checksum in decimal digits.
    Crc32,
    /// As a JSON string, with its quotes.
    JsonString,
    /// A URL in which the reserved characters are not escaped.
    Unescaped,
    /// Escaped as a whole URI, or as a part of one: what is escaped already is escaped again.
    EncodeUri,
    EncodeComponent,
    WithPort,
    WithoutPort,
    /// A URL up to its query.
    WithoutQuery,
    /// Signed as deliveries are: for challenges that ask for it.
    Sign,
}

impl Function {
    const ALL: [(&'static str, Self); 19] = [
        ("lower", Self::Lower),
        ("upper", Self::Upper),
        ("line", Self::Line),
        ("md5_hex", Self::Md5Hex),
        ("sha1_hex", Self::Sha1Hex),
        ("sha256_hex", Self::Sha256Hex),
        ("sha256_base64", Self::Sha256Base64),
        ("sha256_base64url", Self::Sha256Base64Url),
        ("sha512_hex", Self::Sha512Hex),
        ("sha512_base64", Self::Sha512Base64),
        ("crc32", Self::Crc32),
        ("json_string", Self::JsonString),
        ("unescaped", Self::Unescaped),
        ("encode_uri", Self::EncodeUri),
        ("encode_component", Self::EncodeComponent),
        ("with_port", Self::WithPort),
        ("without_port", Self::WithoutPort),
        ("without_query", Self::WithoutQuery),
        ("sign", Self::Sign),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, function)| *function)
    }

    /// Whether two values that differ still differ afterwards, so that what is signed changed is signed itself.
    pub fn keeps_apart(self) -> bool {
        !matches!(self, Self::Lower | Self::Upper | Self::Crc32 | Self::Unescaped | Self::WithoutQuery)
    }

    /// Whether a value can be given to it.
    pub fn takes(self, value: &[u8]) -> bool {
        match self {
            Self::Line => memchr::memchr2(b'\n', b'\r', value).is_none(),
            // What is not text cannot be written as such, and must not be taken for something that can.
            Self::JsonString => std::str::from_utf8(value).is_ok(),
            _ => true,
        }
    }

    /// The value changed. `Sign` needs a key, and is not for here: it gives nothing.
    pub fn of<'a>(self, value: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let text = || String::from_utf8_lossy(&value);
        if self == Self::Line || (self == Self::Unescaped && memchr::memchr(b'%', &value).is_none()) {
            return value;
        }
        Cow::Owned(match self {
            Self::Lower => value.to_ascii_lowercase(),
            Self::Upper => value.to_ascii_uppercase(),
            Self::Md5Hex => HEXLOWER.encode(&Md5::digest(&value)).into_bytes(),
            Self::Sha1Hex => HEXLOWER.encode(&Sha1::digest(&value)).into_bytes(),
            Self::Sha256Hex => HEXLOWER.encode(&Sha256::digest(&value)).into_bytes(),
            Self::Sha256Base64 => BASE64.encode(&Sha256::digest(&value)).into_bytes(),
            Self::Sha256Base64Url => BASE64URL_NOPAD.encode(&Sha256::digest(&value)).into_bytes(),
            Self::Sha512Hex => HEXLOWER.encode(&Sha512::digest(&value)).into_bytes(),
            Self::Sha512Base64 => BASE64.encode(&Sha512::digest(&value)).into_bytes(),
            Self::Crc32 => crc32fast::hash(&value).to_string().into_bytes(),
            Self::JsonString => serde_json::Value::String(text().into_owned()).to_string().into_bytes(),
            Self::Unescaped => unescaped(&value),
            Self::EncodeUri => escaped(&value, b";,/?:@&=+$-_.!~*'()#"),
            Self::EncodeComponent => escaped(&value, b"-_.!~*'()"),
            Self::WithPort => with_port(&text()).into_bytes(),
            Self::WithoutPort => without_port(&text()).into_bytes(),
            Self::WithoutQuery => value.split(|byte| *byte == b'?').next().unwrap_or_default().to_vec(),
            Self::Line | Self::Sign => Vec::new(),
        })
    }
}

/// Every byte but letters, digits and those to keep, as `%41`.
fn escaped(text: &[u8], kept: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) { vec![*byte] } else { format!("%{byte:02X}").into_bytes() }
    };
    text.iter().flat_map(escape).collect()
}

/// The escapes of `:/?@!$'()*,;` and no others are undone.
fn unescaped(url: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(url.len());
    let mut rest = url;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match super::locate::hex_pair(tail) {
            Some(byte) if *first == b'%' && b":/?@!$'()*,;".contains(&byte) => {
                plain.push(byte);
                rest = &tail[2..];
            }
            _ => plain.push(*first),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_changed_as_their_names_say() {
        for (name, value, expected) in [
            ("lower", "AbC", "abc"),
            ("upper", "AbC", "ABC"),
            ("md5_hex", "abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1_hex", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha256_hex", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("sha256_base64", "abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
            ("sha256_base64url", "abc", "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"),
            ("crc32", "123456789", "3421780262"),
            ("json_string", "a\"b\n", "\"a\\\"b\\n\""),
            ("unescaped", "/a%2Fb%3f%20%2", "/a/b?%20%2"),
            ("encode_uri", "/a b%20?x=1", "/a%20b%2520?x=1"),
            ("encode_component", "x=1&y", "x%3D1%26y"),
            ("without_query", "https://a.example/x?y=1?z", "https://a.example/x"),
            ("without_query", "https://a.example/x", "https://a.example/x"),
        ] {
            let changed = Function::named(name).unwrap().of(Cow::Borrowed(value.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&changed), expected, "{name}");
        }
        assert_eq!(Function::named("md4_hex"), None);
    }
}
