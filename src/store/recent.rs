//! Events that this process has completed lately. They answer duplicates while the store does not, and never while it
//! does: the store knows better, for instance that an operator has forgotten one of them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;
use tokio::time::Instant;

use super::Done;
use crate::pipeline::identify::EventKey;

/// What an event takes beside its key and its reply.
const OVERHEAD_BYTES: usize = 130;

/// The newest completions, within a bound of bytes.
#[derive(Debug)]
pub struct Recent {
    // A std mutex: held for one look-up, never across an await.
    shelf: Mutex<Shelf>,
    bytes_max: usize,
}

/// The events lie in a row, and a small table finds them there: with the events themselves in it, each would be somewhere else in
/// memory, and all of them would move whenever it grows.
#[derive(Debug, Default)]
struct Shelf {
    /// Oldest first.
    row: VecDeque<Kept>,
    /// How many have left the row. An event's number, which is its place in the row and this, stays the same.
    gone: usize,
    numbers: HashTable<usize>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    key: EventKey,
    done: Done,
    until: Instant,
}

impl Recent {
    pub fn new(bytes_max: usize) -> Self {
        Self { shelf: Mutex::default(), bytes_max }
    }

    /// Keeps a completion, for as long as the store would at most.
    pub fn put(&self, key: &EventKey, done: Done, retention: Duration) {
        let kept = Kept { key: key.clone(), done, until: Instant::now() + retention };
        let mut shelf = self.shelf();
        shelf.put(kept);
        while shelf.bytes > self.bytes_max && shelf.drop_oldest() {}
    }

    pub fn get(&self, key: &EventKey) -> Option<Done> {
        let shelf = self.shelf();
        let kept = &shelf.row[shelf.place(key)?];
        (kept.until > Instant::now()).then(|| kept.done.clone())
    }

    pub fn clear(&self) {
        *self.shelf() = Shelf::default();
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn place(&self, key: &EventKey) -> Option<usize> {
        let number = self.numbers.find(key.number(), |number| self.row[number - self.gone].key == *key)?;
        Some(number - self.gone)
    }

    fn put(&mut self, kept: Kept) {
        self.bytes += kept.bytes();
        if let Some(place) = self.place(&kept.key) {
            let before = std::mem::replace(&mut self.row[place], kept);
            self.bytes -= before.bytes();
            return;
        }
        let Self { row, gone, numbers, .. } = self;
        let (hash, number) = (kept.key.number(), *gone + row.len());
        row.push_back(kept);
        numbers.insert_unique(hash, number, |number| row[number - *gone].key.number());
    }

    /// Tells whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.row.pop_front() else { return false };
        if let Ok(entry) = self.numbers.find_entry(oldest.key.number(), |number| *number == self.gone) {
            entry.remove();
        }
        self.gone += 1;
        self.bytes -= oldest.bytes();
        true
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let reply = self.done.reply.as_ref().map_or(0, |reply| reply.body.len());
        OVERHEAD_BYTES + self.key.as_str().len() + reply
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::config::Fingerprint;
    use crate::pipeline::identify::{EventId, fingerprint};

    const DAY: Duration = Duration::from_secs(86_400);

    fn key(id: &str) -> EventKey {
        EventKey::new("test", "github", &EventId::parse(id).unwrap())
    }

    fn done(attempt: u32) -> Done {
        let body = fingerprint(&Fingerprint::Body, b"");
        Done { status: 200, body, attempt, at: SystemTime::UNIX_EPOCH, reply: None }
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let recent = Recent::new(10 * (OVERHEAD_BYTES + key("e00").as_str().len()));
        let ids: Vec<_> = (0..15).map(|n| key(&format!("e{n:02}"))).collect();
        ids.iter().for_each(|id| recent.put(id, done(1), DAY));
        let known: Vec<_> = ids.iter().map(|id| recent.get(id).is_some()).collect();
        assert_eq!(known, [[false; 5].as_slice(), [true; 10].as_slice()].concat());
        // What is completed anew takes no more room.
        (0..20).for_each(|attempt| recent.put(&ids[14], done(attempt), DAY));
        assert_eq!(recent.get(&ids[14]).unwrap().attempt, 19);
        assert!(recent.get(&ids[5]).is_some());
        recent.clear();
        assert!(ids.iter().all(|id| recent.get(id).is_none()));
        recent.put(&ids[0], done(1), DAY);
        assert!(recent.get(&ids[0]).is_some());
    }

    #[test]
    fn what_is_kept_is_found_however_many_came_and_went() {
        let recent = Recent::new(100 * (OVERHEAD_BYTES + key("e0000").as_str().len()));
        let ids: Vec<_> = (0..5000).map(|n| key(&format!("e{n:04}"))).collect();
        for (n, id) in ids.iter().enumerate() {
            recent.put(id, done(u32::try_from(n).unwrap()), DAY);
            let oldest = n.saturating_sub(99);
            assert_eq!(recent.get(&ids[oldest]).unwrap().attempt as usize, oldest);
            assert!(oldest == 0 || recent.get(&ids[oldest - 1]).is_none());
        }
        let shelf = recent.shelf();
        assert_eq!((shelf.row.len(), shelf.numbers.len()), (100, 100));
    }

    #[test]
    fn what_the_store_would_have_forgotten_is_not_known_here_either() {
        let recent = Recent::new(1 << 20);
        recent.put(&key("e1"), done(1), Duration::ZERO);
        assert_eq!(recent.get(&key("e1")), None);
    }
}
