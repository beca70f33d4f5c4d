//! The event id as the provider gave it: a list of parts, and the one way to write it down.

use std::fmt::Write as _;

use super::IdError;
use crate::scheme::locate::hex_pair;

/// Parts in order, the tenant's first where there is one. An absent optional part is empty; none is empty at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    parts: Vec<Vec<u8>>,
}

impl EventId {
    /// Longer ids are refused: no provider has them, and they would have to be carried through headers and logs.
    const BYTES_MAX: usize = 4096;

    /// `None` where all parts are empty.
    pub(super) fn new(mut parts: Vec<Vec<u8>>) -> Result<Option<Self>, IdError> {
        parts.truncate(parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1));
        if parts.iter().map(Vec::len).sum::<usize>() > Self::BYTES_MAX {
            return Err(IdError::TooLong);
        }
        Ok((!parts.is_empty()).then_some(Self { parts }))
    }

    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(Vec::as_slice)
    }

    /// The id as logs and headers show it: parts joined by `+`, with everything but visible ASCII percent-encoded.
    pub fn display(&self) -> String {
        let mut text = String::new();
        for (position, part) in self.parts.iter().enumerate() {
            if position > 0 {
                text.push('+');
            }
            for byte in part {
                if matches!(byte, b'!'..=b'~') && !matches!(byte, b'+' | b'%') {
                    text.push(char::from(*byte));
                } else {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "%{byte:02X}");
                }
            }
        }
        text
    }

    /// The id that is written so. `None` where it is empty, too long, or holds a `%` without two hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text.split('+').map(|part| decoded(part.as_bytes())).collect::<Option<Vec<_>>>()?;
        Self::new(parts).ok().flatten()
    }
}

fn decoded(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            bytes.push(hex_pair(tail)?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}
