//! Takes ended cells off the disk, a few at a time, between commits of the thread that owns the engine.

use std::ops::Bound;
use std::time::{Duration, Instant};

use fjall::{UserKey, UserValue};

use super::ends::{self, Ends};
use super::health::Health;
use super::tables::{Tables, is_endless, said, unreadable};
use super::wall_clock;
use crate::store::cells::StoreError;

/// Cells looked at in one step, but for the rest of an entry: about a millisecond, which is what a claim may have to wait.
const STEP: usize = 100;
/// Between steps while there is more to do: the rest of the time is the callers'.
const PAUSE: Duration = Duration::from_millis(5);
/// Between looks while there is nothing to do.
const IDLE: Duration = Duration::from_secs(1);

pub(super) struct Sweeper {
    due: Instant,
    /// The last index entry that was dealt with. Without it every step would walk over the tombstones of all before.
    cursor: Option<UserKey>,
    /// The wall clock at the last step.
    looked_at: u64,
}

impl Sweeper {
    pub(super) fn new() -> Self {
        Self { due: Instant::now(), cursor: None, looked_at: 0 }
    }

    /// How long until the next step.
    pub(super) fn wait(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    pub(super) fn step_if_due(&mut self, tables: &Tables, health: &Health) {
        if self.wait().is_zero() {
            let swept = self.step(tables, health).unwrap_or_else(|error| {
                // It is met again where it matters, by the caller who asks for that cell.
                tracing::warn!(%error, "ended events could not be swept");
                0
            });
            self.due = Instant::now() + if swept >= STEP { PAUSE } else { IDLE };
        }
    }

    /// Deals with the next index entries that are due. Tells how many cells they were of.
    fn step(&mut self, tables: &Tables, health: &Health) -> Result<usize, StoreError> {
        health.check()?;
        let now = wall_clock();
        if now < self.looked_at {
            // The clock was set back: entries may have been made since that lie before the cursor.
            self.cursor = None;
        }
        self.looked_at = now;
        let due = self.due_entries(tables, now)?;
        let (mut batch, mut later, mut looked_at) = (tables.batch(), Ends::default(), 0);
        for (entry, group) in &due {
            for key in ends::keys(entry, group) {
                looked_at += 1;
                match tables.cell(key)? {
                    // It has become one that does not end.
                    Some(cell) if is_endless(cell.end, now) => {}
                    Some(cell) if cell.end > now => later.add(cell.end, key),
                    Some(_) => batch.remove(&tables.cells, key),
                    None => {}
                }
            }
            batch.remove(&tables.ends, entry.clone());
        }
        later.write(tables.next_number(), &tables.ends, &mut batch);
        tables.commit(batch).map_err(|error| health.fail("a write", &said(&error)))?;
        self.cursor = due.last().map(|(entry, _)| entry.clone()).or(self.cursor.take());
        Ok(looked_at)
    }

    fn due_entries(&self, tables: &Tables, now: u64) -> Result<Vec<(UserKey, UserValue)>, StoreError> {
        let from = self.cursor.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let until = Bound::Excluded(UserKey::from(now.saturating_add(1).to_be_bytes()));
        let (mut due, mut cells) = (Vec::new(), 0);
        for entry in tables.ends.range((from, until)) {
            let (key, group) = entry.into_inner().map_err(|error| unreadable(said(&error)))?;
            cells += ends::keys(&key, &group).len();
            due.push((key, group));
            if cells >= STEP {
                break;
            }
        }
        Ok(due)
    }
}
