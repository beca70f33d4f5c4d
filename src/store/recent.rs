//! Events that this process has completed lately. They answer duplicates while the store does not, and never while it
//! does: the store knows better, for instance that an operator has forgotten one of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Done;
use crate::pipeline::identify::EventKey;

/// What an event takes beside its key, which is held twice over, and its reply.
const OVERHEAD_BYTES: usize = 240;

/// The newest completions, within a bound of bytes.
#[derive(Debug)]
pub struct Recent {
    // A std mutex: held for one look-up, never across an await.
    shelf: Mutex<Shelf>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    events: HashMap<EventKey, Kept>,
    /// Oldest first.
    order: VecDeque<EventKey>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    done: Done,
    until: Instant,
}

impl Recent {
    pub fn new(bytes_max: usize) -> Self {
        Self { shelf: Mutex::default(), bytes_max }
    }

    /// Keeps a completion, for as long as the store would at most.
    pub fn put(&self, key: &EventKey, done: Done, retention: Duration) {
        let mut shelf = self.shelf();
        let kept = Kept { done, until: Instant::now() + retention };
        shelf.bytes += bytes_of(key, &kept);
        match shelf.events.insert(key.clone(), kept) {
            Some(before) => shelf.bytes -= bytes_of(key, &before),
            None => shelf.order.push_back(key.clone()),
        }
        while shelf.bytes > self.bytes_max
            && let Some(oldest) = shelf.order.pop_front()
        {
            if let Some(before) = shelf.events.remove(&oldest) {
                shelf.bytes -= bytes_of(&oldest, &before);
            }
        }
    }

    pub fn get(&self, key: &EventKey) -> Option<Done> {
        let shelf = self.shelf();
        shelf.events.get(key).filter(|kept| kept.until > Instant::now()).map(|kept| kept.done.clone())
    }

    pub fn clear(&self) {
        *self.shelf() = Shelf::default();
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(key: &EventKey, kept: &Kept) -> usize {
    let reply = kept.done.reply.as_ref().map_or(0, |reply| reply.body.len());
    OVERHEAD_BYTES + key.as_str().len() + reply
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
    }

    #[test]
    fn what_the_store_would_have_forgotten_is_not_known_here_either() {
        let recent = Recent::new(1 << 20);
        recent.put(&key("e1"), done(1), Duration::ZERO);
        assert_eq!(recent.get(&key("e1")), None);
    }
}
