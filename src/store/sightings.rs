//! Which event ids signed bytes came with lately, as far as this process has seen: it costs the store nothing.
//!
//! A table of fixed size. Its places are chosen by a secret of the process, so that nobody can aim at one of them; where a place
//! is full, what was not met for the longest time goes.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::pipeline::identify::BodyDigest;

/// 64 Ki sightings in a mebibyte: more than most providers send in a day.
const SHELVES: usize = 8192;
const PLACES: usize = 8;
/// Between two lines of the log that say the same. Whoever replays once can do so a thousand times a second.
const LINE: Duration = Duration::from_secs(1);

/// Newest first. An empty place is nought.
type Shelf = [Sighting; PLACES];

/// Both are keyed digests: to know something again is all that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sighting {
    signed: u64,
    id: u64,
}

#[derive(Debug, Default)]
pub struct Sightings {
    // Std mutexes, one for each shelf: held for a look, never across an await. Made when the first provider asks.
    shelves: OnceLock<Vec<Mutex<Shelf>>>,
    keys: RandomState,
    line: Mutex<Option<Instant>>,
}

impl Sightings {
    /// Whether the same bytes came before under another id. The first id is the one that counts.
    pub fn is_under_another_id(&self, provider: &str, signed: BodyDigest, id: &str) -> bool {
        let now = Sighting { signed: self.keys.hash_one((provider, signed)) | 1, id: self.keys.hash_one(id) };
        let shelves = self.shelves.get_or_init(|| (0..SHELVES).map(|_| Mutex::default()).collect());
        // The lowest bit says that the place is taken, so the shelf is chosen by others.
        let shelf = usize::try_from(now.signed >> 32).unwrap_or(0) % SHELVES;
        let mut shelf = shelves[shelf].lock().unwrap_or_else(PoisonError::into_inner);
        let known = shelf.iter().position(|one| one.signed == now.signed);
        let first = known.map_or(now, |place| shelf[place]);
        shelf[..=known.unwrap_or(PLACES - 1)].rotate_right(1);
        shelf[0] = first;
        first.id != now.id
    }

    /// Whether a line of the log is due.
    pub fn is_line_due(&self) -> bool {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = line.is_none_or(|last| last.elapsed() >= LINE);
        if is_due {
            *line = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fingerprint;
    use crate::pipeline::identify::fingerprint;

    fn signed(number: usize) -> BodyDigest {
        fingerprint(&Fingerprint::Body, format!("body {number}").as_bytes())
    }

    #[test]
    fn the_same_bytes_are_known_again_under_whatever_id() {
        let sightings = Sightings::default();
        assert!(!sightings.is_under_another_id("github", signed(1), "a"));
        assert!(!sightings.is_under_another_id("github", signed(1), "a"), "a copy");
        assert!(sightings.is_under_another_id("github", signed(1), "b"));
        assert!(sightings.is_under_another_id("github", signed(1), "b"), "the first id is the one that counts");
        assert!(!sightings.is_under_another_id("github", signed(1), "a"));
        assert!(!sightings.is_under_another_id("github", signed(2), "b"));
        assert!(!sightings.is_under_another_id("shopify", signed(1), "b"), "another provider's");
    }

    #[test]
    fn the_table_keeps_its_size_and_what_is_newest() {
        let sightings = Sightings::default();
        for number in 0..SHELVES * PLACES * 2 {
            assert!(!sightings.is_under_another_id("github", signed(number), "a"));
        }
        let is_known = |number| sightings.is_under_another_id("github", signed(number), "b");
        let newest = (SHELVES * PLACES * 2 - 1000)..SHELVES * PLACES * 2;
        assert!(newest.clone().filter(|number| is_known(*number)).count() > 990, "what came last is there");
        assert!((0..1000).filter(|number| is_known(*number)).count() < 100, "what came first is gone");
        assert_eq!(size_of::<Shelf>() * SHELVES, 1 << 20);
    }

    #[test]
    fn a_thousand_replays_are_one_line() {
        let sightings = Sightings::default();
        assert_eq!((0..1000).filter(|_| sightings.is_line_due()).count(), 1);
    }
}
