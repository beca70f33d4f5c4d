//! What targets share: a delivery of which single bits are flipped, and numbers that an input decides.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hookonce::scheme::{Disproof, Draft, HeaderNames, Key, Place, Proof, Scheme};
use http::{HeaderName, HeaderValue};

/// When everything here happens.
pub fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_794_787_700)
}

/// Readable as text, as hex and as base64.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// As good, and another one.
pub const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

/// Numbers that differ with the input and with nothing else.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)))
    }

    /// A number below `end`, or nought.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from(self.0 >> 33).unwrap_or_default().checked_rem(end).unwrap_or_default()
    }

    /// The same bytes but for one bit; nothing where there is none.
    pub fn flip(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (at, bit) = (self.below(bytes.len()), self.below(8));
        let mut flipped = bytes.to_vec();
        *flipped.get_mut(at)? ^= 1 << bit;
        Some(flipped)
    }
}

/// A signed delivery, and what it is judged with.
#[derive(Clone, Debug)]
pub struct Case {
    pub scheme: Scheme,
    pub keys: Vec<Key>,
    pub draft: Draft,
    pub at: SystemTime,
}

impl Case {
    pub fn judged(&self) -> Result<Proof, Disproof> {
        self.scheme.verify(&self.keys, &self.draft.received(), self.at)
    }

    fn with_body(&self, body: Vec<u8>) -> Self {
        Self { draft: Draft { body: Bytes::from(body), ..self.draft.clone() }, ..self.clone() }
    }

    fn with_header(&self, name: &HeaderName, value: HeaderValue) -> Self {
        let mut case = self.clone();
        case.draft.headers.insert(name, value);
        case
    }

    /// Whether this header is the signature's, or one of its numbered ones.
    pub fn is_of_signature(&self, name: &HeaderName) -> bool {
        let stem = name.as_str().trim_end_matches(char::is_numeric);
        let is_it = |other: &HeaderName| other == name || other.as_str().strip_suffix('1') == Some(stem);
        self.scheme.signature_header().is_some_and(|names| names.iter().any(is_it))
    }

    /// Deliveries that differ from this one in a single bit of what its signature covers, and what that bit is in.
    pub fn tampered(&self, dice: &mut Dice) -> Vec<(String, Self)> {
        let mut tampered = Vec::new();
        if self.scheme.covers(&Place::Body) {
            tampered.extend(dice.flip(&self.draft.body).map(|body| ("the body".to_owned(), self.with_body(body))));
        }
        for (name, value) in &self.draft.headers {
            if !self.is_of_signature(name) && !self.scheme.covers(&Place::Header(HeaderNames::one(name.clone()))) {
                continue;
            }
            let flipped = dice.flip(value.as_bytes()).and_then(|value| HeaderValue::from_bytes(&value).ok());
            tampered.extend(flipped.map(|value| (format!("the header {name}"), self.with_header(name, value))));
        }
        tampered
    }
}
