//! The fingerprint by which two bodies under one event id are told apart.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::config::Fingerprint;
use crate::scheme::Pointer;
use crate::scheme::json::{self, Sought, feed};

/// The first half of a SHA-256, written in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyDigest([u8; 16]);

impl BodyDigest {
    /// Of a whole digest.
    pub fn of(digest: impl Into<[u8; 32]>) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest.into()[..16]);
        Self(half)
    }

    /// The digest that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }

    /// As it is written, for whoever has no need of a string.
    pub fn digits(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 32];
        for (two, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *two = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        digits
    }
}

impl fmt::Display for BodyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// Digests what counts of a body. Where that cannot be told (no JSON, none of the fields), the whole body counts.
pub fn fingerprint(rule: &Fingerprint, body: &[u8]) -> BodyDigest {
    let digest = match rule {
        Fingerprint::Body => None,
        Fingerprint::Include(pointers) => digest_of(body, pointers),
        Fingerprint::Exclude(pointers) => json::digest_without(body, pointers),
    };
    BodyDigest::of(digest.unwrap_or_else(|| Sha256::new_with_prefix(body)).finalize())
}

/// Digests the values at these pointers, exactly as they were sent. `None` where none is there or one is ambiguous.
fn digest_of(body: &[u8], pointers: &[Pointer]) -> Option<Sha256> {
    let mut digest = Sha256::new();
    let mut found = 0;
    for pointer in pointers {
        match json::find(body, pointer)? {
            Sought::Repeated => return None,
            Sought::Absent => digest.update([0]),
            Sought::Found(raw) => {
                found += 1;
                digest.update([1]);
                feed(&mut digest, raw.get().as_bytes());
            }
        }
    }
    (found > 0).then_some(digest)
}
