//! The event id as the provider gave it: a list of parts, and the one way to write it down.

use std::fmt::Write as _;

use super::IdError;
use crate::scheme::locate::hex_pair;

/// Parts in order, the tenant's first where there is one. An absent optional part is empty; none is empty at the end.
///
/// Held as it is written, from which the parts can be read back: that is what nearly everybody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventId(String);

impl EventId {
    /// Longer ids are refused: no provider has them, and they would have to be carried through headers and logs.
    const BYTES_MAX: usize = 4096;
    /// Room for most ids, as they are written.
    const WRITTEN_BYTES: usize = 64;

    /// `None` where all parts are empty.
    pub(super) fn new(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Option<Self>, IdError> {
        let mut text = String::with_capacity(Self::WRITTEN_BYTES);
        let (mut bytes, mut end) = (0, 0);
        for (position, part) in parts.into_iter().enumerate() {
            let part = part.as_ref();
            bytes += part.len();
            if bytes > Self::BYTES_MAX {
                return Err(IdError::TooLong);
            }
            if position > 0 {
                text.push('+');
            }
            if !part.is_empty() {
                write(part, &mut text);
                end = text.len();
            }
        }
        text.truncate(end);
        Ok((!text.is_empty()).then_some(Self(text)))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        self.0.split('+').filter_map(read)
    }

    /// The id as logs and headers show it: parts joined by `+`, with everything but visible ASCII percent-encoded.
    pub fn display(&self) -> &str {
        &self.0
    }

    /// The id that is written so. `None` where it is empty, too long, or holds a `%` without two hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text.split('+').map(read).collect::<Option<Vec<_>>>()?;
        Self::new(parts).ok().flatten()
    }
}

fn write(part: &[u8], text: &mut String) {
    let is_written_as_it_is = |byte: u8| matches!(byte, b'!'..=b'~') & (byte != b'+') & (byte != b'%');
    match std::str::from_utf8(part) {
        // Without a branch for each byte, so that many are looked at at once.
        Ok(plain) if part.iter().fold(true, |all, byte| all & is_written_as_it_is(*byte)) => text.push_str(plain),
        _ => part.iter().for_each(|byte| match is_written_as_it_is(*byte) {
            true => text.push(char::from(*byte)),
            // Writing to a string cannot fail.
            false => drop(write!(text, "%{byte:02X}")),
        }),
    }
}

fn read(part: &str) -> Option<Vec<u8>> {
    let mut rest = part.as_bytes();
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
