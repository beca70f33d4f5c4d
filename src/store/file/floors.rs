//! Where the first row of a range is, at the earliest.
//!
//! Rows that come and go at the front of a range leave their traces in the engine until it compacts, and whoever looks for
//! the first row walks over all of them. So it is remembered up to where there is nothing.

use std::cell::RefCell;
use std::collections::HashMap;

/// Ranges that are remembered: a few a lane, and those of lines, which come and go.
const RANGES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Floors(RefCell<HashMap<Vec<u8>, Vec<u8>>>);

impl Floors {
    /// Where to begin to look, where the whole of a range is looked at.
    pub(super) fn of(&self, from: &[u8]) -> Option<Vec<u8>> {
        self.0.borrow().get(whole(from)?).cloned()
    }

    /// The first row of a range was found at `first`, or nothing before it.
    pub(super) fn raise(&self, from: &[u8], first: &[u8]) {
        let Some(range) = whole(from) else { return };
        let mut floors = self.0.borrow_mut();
        if floors.len() >= RANGES_MAX {
            floors.clear();
        }
        floors.insert(range.to_vec(), first.to_vec());
    }

    /// A row is written: its range begins there, if it began later.
    pub(super) fn lower(&self, key: &[u8]) {
        let mut floors = self.0.borrow_mut();
        if let Some(floor) = range_of(key).and_then(|range| floors.get_mut(range)).filter(|floor| key < floor.as_slice()) {
            *floor = key.to_vec();
        }
    }
}

/// `LANE 0 KIND`, and for lines `LANE 0 l LINE 0`: what all keys of a range begin with.
fn range_of(key: &[u8]) -> Option<&[u8]> {
    let kind = memchr::memchr(0, key)? + 1;
    if *key.get(kind)? == b'l' { key.get(..key.len() - NUMBER) } else { Some(&key[..=kind]) }
}

const NUMBER: usize = size_of::<u64>();

/// The range that begins with exactly this key.
fn whole(from: &[u8]) -> Option<&[u8]> {
    let range = range_of(from)?;
    from[range.len()..].iter().all(|byte| *byte == 0).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_rises_to_the_first_row_and_falls_to_a_new_one() {
        let floors = Floors::default();
        floors.raise(b"lane\0d", b"lane\0d5");
        assert_eq!(floors.of(b"lane\0d").as_deref(), Some(&b"lane\0d5"[..]));
        floors.lower(b"lane\0d7");
        floors.lower(b"lane\0s1");
        assert_eq!(floors.of(b"lane\0d").as_deref(), Some(&b"lane\0d5"[..]));
        floors.lower(b"lane\0d3");
        assert_eq!(floors.of(b"lane\0d").as_deref(), Some(&b"lane\0d3"[..]));
        assert_eq!((floors.of(b"lane\0d1"), floors.of(b"lane\0s"), floors.of(b"other\0d")), (None, None, None));
    }

    #[test]
    fn lines_have_floors_of_their_own() {
        let (floors, key) =
            (Floors::default(), |line: &str, number: u64| [b"lane\0l", line.as_bytes(), &[0], &number.to_be_bytes()].concat());
        floors.raise(&key("a", 0), &key("a", 300));
        assert_eq!(floors.of(&key("a", 0)), Some(key("a", 300)));
        assert_eq!((floors.of(&key("b", 0)), floors.of(&key("a", 1))), (None, None));
        floors.lower(&key("a", 2));
        assert_eq!(floors.of(&key("a", 0)), Some(key("a", 2)));
    }
}
