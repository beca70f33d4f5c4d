//! What is known of an event from when its provider was in the other mode. Where keys have to be beside their letters, an
//! event has another key in queue mode than in sync mode; for one retention after a change, both count.

use std::time::Duration;

use super::Pipeline;
use super::event::Event;
use super::identify::EventKey;
use crate::store::{Done, Entry, Mark, StoreError};
use crate::telemetry::StoreOp;

/// What the key of the other mode holds, as it matters here.
pub(super) enum Former {
    Nothing,
    Done(Done),
    Queued,
    InFlight {
        lease_left: Duration,
    },
    /// It belongs to another body.
    Conflict(Entry),
    /// An attempt may have taken effect.
    Doubt(Mark),
}

impl Pipeline {
    pub(super) async fn former(&self, event: &Event, key: &EventKey) -> Result<Former, StoreError> {
        let Some(seen) = self.telemetry.store(StoreOp::Look, self.store.look(key)).await? else { return Ok(Former::Nothing) };
        if event.standing.body_matters() && seen.entry.body() != event.body {
            return Ok(Former::Conflict(seen.entry));
        }
        let doubtful = |doubt: Option<Mark>| doubt.map_or(Former::Nothing, Former::Doubt);
        Ok(match (seen.entry, seen.lease_left) {
            (Entry::Done(done), _) => Former::Done(done),
            (Entry::Queued(_), _) => Former::Queued,
            (Entry::Failed(failed), _) => doubtful(failed.doubt),
            (Entry::Claimed(_), Some(lease_left)) if !lease_left.is_zero() => Former::InFlight { lease_left },
            (Entry::Claimed(claimed), _) => doubtful(claimed.doubt.or(Some(Mark::Unknown))),
        })
    }
}
