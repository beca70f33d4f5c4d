//! Keys that the provider publishes: where they are fetched from, which hosts are believed, and how they are read.
//! Fetching itself is the pipeline's.

use http::Uri;
use serde_json::Value as Json;

use super::encoding::decode_copied_base64;
use super::place::Place;
use super::{Disproof, Key, Received, Scheme, locate};
use crate::config::Secret;
use crate::config::reader::{At, FromNode, Reader};
use crate::config::tree::{Node, Value};

/// Where keys come from that are not configured.
#[derive(Clone, Debug)]
pub(super) enum KeySource {
    /// A set of keys at a URL that never changes.
    Jwks(Uri),
    /// A certificate at a URL that each delivery names. Only these hosts are asked: anybody can name a URL.
    Certificate { at: Place, hosts: Vec<HostPattern>, ends: String },
}

/// A document that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDocument {
    pub url: Uri,
    pub kind: DocumentKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Jwks,
    Certificate,
}

/// `sns.*.amazonaws.com`: a star stands for the name of a region, such as `us-east-1`. Any label would be too many: some of
/// them are whoever's has the bucket of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPattern(Vec<String>);

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        let labels: Vec<String> = text.split('.').map(str::to_owned).collect();
        let is_label = |label: &String| label == "*" || is_plain(label);
        // The last two say whose host it is, and must be said.
        let is_pinned = labels.len() >= 2 && labels.iter().rev().take(2).all(|label| label != "*");
        (is_pinned && labels.iter().all(is_label)).then_some(Self(labels))
    }

    fn matches(&self, host: &str) -> bool {
        let labels: Vec<&str> = host.split('.').collect();
        let matches = |(pattern, label): (&String, &&str)| if pattern == "*" { is_region(label) } else { pattern == label };
        labels.len() == self.0.len() && self.0.iter().zip(&labels).all(matches)
    }
}

/// Words joined by hyphens, at least two of them, and a number.
fn is_region(label: &str) -> bool {
    let mut parts: Vec<&str> = label.split('-').collect();
    let number = parts.pop().unwrap_or_default();
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let is_number = (1..=2).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    parts.len() >= 2 && is_number && parts.iter().all(is_word)
}

fn is_plain(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

impl KeySource {
    /// What to fetch for a delivery. The error where it names nothing that may be fetched.
    fn document(&self, received: &Received<'_>) -> Result<KeyDocument, Disproof> {
        match self {
            Self::Jwks(url) => Ok(KeyDocument { url: url.clone(), kind: DocumentKind::Jwks }),
            Self::Certificate { at, hosts, ends } => {
                let text = locate::find(at, received).map_err(|_| Disproof::RepeatedValue)?.ok_or(Disproof::UnknownKey)?;
                let url = std::str::from_utf8(&text)
                    .ok()
                    .and_then(|text| pinned(text, hosts).filter(|_| text.ends_with(ends.as_str())))
                    .ok_or(Disproof::UnknownKey)?;
                Ok(KeyDocument { url, kind: DocumentKind::Certificate })
            }
        }
    }
}

/// A URL at one of these hosts: encrypted, at the usual port, with nothing in it that could lead elsewhere.
fn pinned(text: &str, hosts: &[HostPattern]) -> Option<Uri> {
    let rest = text.strip_prefix("https://")?;
    let (host, path) = rest.split_once('/')?;
    let is_plain_byte = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    let is_step = |step: &str| !matches!(step, "" | "." | "..");
    let is_plain_path = path.bytes().all(is_plain_byte) && path.split('/').all(is_step);
    (is_plain_path && hosts.iter().any(|pattern| pattern.matches(host))).then(|| text.parse().ok())?
}

impl Scheme {
    /// What has to be fetched before a delivery can be judged, unless a key is configured. `None`: this scheme fetches nothing.
    pub fn key_document(&self, received: &Received<'_>) -> Option<Result<KeyDocument, Disproof>> {
        self.keys.as_ref().map(|source| source.document(received))
    }

    /// Whether keys are fetched where none are configured.
    pub fn fetches_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// The keys of a document that was fetched. What cannot be read is left out.
    pub fn keys_of(&self, kind: DocumentKind, document: &[u8]) -> Vec<Key> {
        match kind {
            DocumentKind::Certificate => self.key(&Secret::new(document)).into_iter().collect(),
            DocumentKind::Jwks => {
                let set: Json = serde_json::from_slice(document).unwrap_or_default();
                set["keys"].as_array().into_iter().flatten().take(KEYS_MAX).filter_map(|key| self.key_of_jwk(key)).collect()
            }
        }
    }

    fn key_of_jwk(&self, jwk: &Json) -> Option<Key> {
        let bytes = public_bytes(jwk)?;
        let key = self.key_of(|way| super::key::Material::new(way.algorithm.primitive(), &bytes)).ok()?;
        Some(key.with_id(jwk["kid"].as_str().map(str::to_owned)))
    }
}

/// Keys of one set.
const KEYS_MAX: usize = 64;

/// The bare public key: a point, or modulus and exponent in DER.
fn public_bytes(jwk: &Json) -> Option<Vec<u8>> {
    let number = |name: &str| decode_copied_base64(jwk[name].as_str()?.as_bytes());
    match (jwk["kty"].as_str()?, jwk["crv"].as_str()) {
        ("OKP", Some("Ed25519")) => number("x"),
        ("EC", Some("P-256")) => Some([vec![4], number("x")?, number("y")?].concat()),
        ("RSA", _) => {
            let inner = [der_integer(&number("n")?), der_integer(&number("e")?)].concat();
            Some(der(0x30, &inner))
        }
        _ => None,
    }
}

fn der_integer(bytes: &[u8]) -> Vec<u8> {
    let bytes: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    // A leading bit would make it negative.
    let sign: &[u8] = if bytes.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    der(0x02, &[sign, &bytes].concat())
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    let head = match (u8::try_from(length), digits.len()) {
        (Ok(short @ 0..=0x7f), _) => vec![tag, short],
        // At most four digits: documents are bounded far below.
        (_, count) => [vec![tag, 0x80 | u8::try_from(count).unwrap_or(4)], digits].concat(),
    };
    [head, content.to_vec()].concat()
}

impl FromNode for KeySource {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(
                node,
                "a table",
                "{ jwks = \"https://...\" } or { certificate = { json = \"/CertURL\" }, hosts = [\"...\"] }",
            );
            return None;
        };
        let reader = Reader::of_table(table, at);
        let (jwks, certificate) = (reader.get::<String>("jwks"), reader.get::<Place>("certificate"));
        let hosts = reader.get::<Vec<String>>("hosts");
        let ends = reader.get::<String>("ends").unwrap_or_default();
        reader.finish();
        match (jwks, certificate, hosts) {
            (Some(url), None, None) => {
                let parsed = url.parse::<Uri>().ok().filter(|url| url.scheme_str() == Some("https") && url.host().is_some());
                if parsed.is_none() {
                    at.error(
                        node,
                        format!("\"{url}\" is not an https URL"),
                        "keys that anybody could change on the way prove nothing",
                    );
                }
                parsed.map(Self::Jwks)
            }
            (None, Some(place), Some(hosts)) => {
                let patterns: Option<Vec<_>> = hosts.iter().map(|host| HostPattern::parse(host)).collect();
                let patterns = patterns.filter(|patterns| !patterns.is_empty());
                if patterns.is_none() {
                    at.error(
                        node,
                        "names a host that is none",
                        "write hosts = [\"sns.*.amazonaws.com\"]: a star stands for a region",
                    );
                }
                patterns.map(|hosts| Self::Certificate { at: place, hosts, ends })
            }
            _ => {
                let help =
                    "write { jwks = \"https://...\" }, or { certificate = PLACE, hosts = [ ... ] }: anybody can name a URL";
                at.error(node, "does not say where keys are fetched from", help);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pinned_hosts_are_asked() {
        let hosts = [HostPattern::parse("sns.*.amazonaws.com").unwrap()];
        let right = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0.pem";
        assert_eq!(pinned(right, &hosts).unwrap(), right);
        for wrong in [
            "http://sns.us-east-1.amazonaws.com/x.pem",
            "https://sns.us-east-1.amazonaws.com",
            "https://sns.us-east-1.amazonaws.com:8443/x.pem",
            "https://sns.us-east-1.amazonaws.com@evil.example/x.pem",
            "https://evil.example/sns.us-east-1.amazonaws.com/x.pem",
            "https://sns.us-east-1.amazonaws.com.evil.example/x.pem",
            "https://sns.a.b.amazonaws.com/x.pem",
            "https://sns..amazonaws.com/x.pem",
            "https://sns.us-east-1.amazonaws.com/a/../x.pem",
            "https://sns.us-east-1.amazonaws.com/x.pem?a=b",
            "https://SNS.us-east-1.amazonaws.com/x.pem",
            "https://sns.s3.amazonaws.com/x.pem",
            "https://sns.s3-us-west-2.amazonaws.com/x.pem",
            "https://sns.s3-accelerate.amazonaws.com/x.pem",
            "https://sns.us-east-1.amazonaws.com//x.pem",
            "https://sns.us-east-1.amazonaws.com/./x.pem",
        ] {
            assert_eq!(pinned(wrong, &hosts), None, "{wrong}");
        }
        for wrong in ["", "com", "*.com", "sns.*", "a b.com", "sns.*.*"] {
            assert_eq!(HostPattern::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_in_der() {
        assert_eq!(der_integer(&[1, 0, 1]), [2, 3, 1, 0, 1]);
        assert_eq!(der_integer(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(der(0x30, &[0; 0x80])[..3], [0x30, 0x81, 0x80]);
        assert_eq!(der(0x30, &[0; 0x100])[..4], [0x30, 0x82, 1, 0]);
    }
}
