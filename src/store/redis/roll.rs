//! Who has answered so far, by address and run id. Another server in the place of one that was known, restarted or
//! promoted, may have lost what that one knew: deliveries must hear of it before they trust its first answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::Address;

/// Shared by the connections of all runtimes.
#[derive(Default)]
pub(super) struct Roll {
    // A std mutex: never held across an await.
    run_ids: Mutex<HashMap<Address, String>>,
    /// Milliseconds since 1970; nought while every server is the one it was.
    replaced: AtomicU64,
}

impl Roll {
    /// A server has said who it is.
    pub fn met(&self, address: &Address, run_id: &str) {
        if run_id.is_empty() {
            return;
        }
        let mut known = self.run_ids.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(address.clone(), run_id.to_owned());
        if before.is_some_and(|before| before != run_id) {
            self.note_replaced();
        }
    }

    /// A server is no master now that was one.
    pub fn note_replaced(&self) {
        let since = now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.replaced.fetch_max(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When a server was last found in the place of another.
    pub fn replaced(&self) -> Option<SystemTime> {
        let millis = self.replaced.load(Ordering::Relaxed);
        (millis > 0).then(|| UNIX_EPOCH + Duration::from_millis(millis))
    }
}

#[expect(clippy::disallowed_methods, reason = "compared with the events' own times")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_server_at_a_known_address_has_taken_a_place() {
        let roll = Roll::default();
        let at = |port| Address { host: "redis".to_owned(), port };
        roll.met(&at(1), "a");
        roll.met(&at(2), "b");
        roll.met(&at(1), "a");
        // Some services that speak the protocol do not say.
        roll.met(&at(1), "");
        assert_eq!(roll.replaced(), None);
        roll.met(&at(2), "c");
        assert!(roll.replaced().is_some());
    }
}
