//! Cells in this process's memory: for tests, and for trying out. They are forgotten when it ends.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::backlog::{
    Appended, Backlog, Filed, Finished, Holding, Lane, LetterId, NewLetter, Revived, Room, Slip, TakeTerms, Taken, Tally,
};
use super::cells::{Cells, Change, Cursor, FOR_EVER, Held, Step, StoreError, StoreErrorKind, Swapped};
use super::rows::{LaneRows, Rows};

/// Below this many cells nothing is swept: a look at each would cost more than it frees.
const SWEEP_AT_LEAST: usize = 1024;

#[derive(Clone, Debug)]
pub struct MemoryCells {
    // A std mutex: held for a look-up, never across an await.
    shelf: Arc<Mutex<Shelf>>,
    cells_max: usize,
}

#[derive(Debug)]
struct Shelf {
    cells: HashMap<String, Cell>,
    /// The letters of all lanes.
    rows: BTreeMap<Vec<u8>, Bytes>,
    /// The beginning of its clock.
    began: Instant,
    /// The number of cells at which the dead are swept out next.
    sweep_at: usize,
}

#[derive(Debug)]
struct Cell {
    value: Bytes,
    dies: Instant,
}

impl Default for MemoryCells {
    fn default() -> Self {
        Self::bounded(usize::MAX)
    }
}

impl MemoryCells {
    /// Cells that take no new ones beyond a number.
    pub fn bounded(cells_max: usize) -> Self {
        Self { shelf: Arc::default(), cells_max }
    }

    pub fn len(&self) -> usize {
        self.shelf().cells.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn has(&self, key: &str) -> bool {
        self.shelf().cells.contains_key(key)
    }

    /// Removes a cell that holds exactly `value`.
    pub fn remove(&self, key: &str, value: &Bytes) {
        let mut shelf = self.shelf();
        if shelf.cells.get(key).is_some_and(|cell| cell.value == *value) {
            shelf.cells.remove(key);
        }
    }

    /// Removes the cells whose life is over.
    pub fn sweep(&self) {
        self.shelf().sweep(Instant::now());
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // A panic elsewhere leaves a whole map behind: each operation is one insert or one look-up.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self { cells: HashMap::new(), rows: BTreeMap::new(), began: Instant::now(), sweep_at: 0 }
    }
}

impl Shelf {
    fn get(&self, key: &str, now: Instant) -> Option<&Cell> {
        self.cells.get(key).filter(|cell| cell.dies > now)
    }

    fn put(&mut self, key: &str, value: Bytes, life: Duration, now: Instant) {
        self.cells.insert(key.to_owned(), Cell { value, dies: now + life.min(FOR_EVER) });
        if self.cells.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.cells.retain(|_, cell| cell.dies > now);
        self.sweep_at = self.cells.len() * 2;
    }
}

impl Cells for MemoryCells {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let (mut shelf, now) = (self.shelf(), Instant::now());
        if let Some(cell) = shelf.get(key, now) {
            return Ok((cell.value != value).then(|| cell.value.clone()));
        }
        if shelf.cells.len() >= self.cells_max {
            shelf.sweep(now);
            if shelf.cells.len() >= self.cells_max {
                return Err(StoreError::new(StoreErrorKind::Local, "no room for another event"));
            }
        }
        shelf.put(key, value, life, now);
        Ok(None)
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let (mut shelf, now) = (self.shelf(), Instant::now());
        let before = shelf.get(key, now).map(|cell| cell.value.clone());
        shelf.put(key, value, life, now);
        Ok(before)
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        let (mut shelf, now) = (self.shelf(), Instant::now());
        let held = shelf.get(key, now).map(|cell| Held { value: cell.value.clone(), left: cell.dies - now });
        let verdict = change.judge(held);
        if verdict == Swapped::Written {
            shelf.put(key, change.to, change.life, now);
        }
        Ok(verdict)
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        let (mut shelf, now) = (self.shelf(), Instant::now());
        let own = shelf.get(key, now).is_some_and(|cell| cell.value == value);
        if own {
            shelf.put(key, value, life, now);
        }
        Ok(own)
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        let (shelf, now) = (self.shelf(), Instant::now());
        Ok(shelf.get(key, now).map(|cell| Held { value: cell.value.clone(), left: cell.dies - now }))
    }

    /// Everything in one step: a copy of the map's references is made faster than a place in it is found again.
    async fn walk(&self, prefix: &str, _from: Option<Cursor>) -> Result<Step, StoreError> {
        let (shelf, now) = (self.shelf(), Instant::now());
        let found = shelf.cells.iter().filter(|(key, cell)| key.starts_with(prefix) && cell.dies > now);
        let held = |cell: &Cell| Held { value: cell.value.clone(), left: cell.dies - now };
        Ok(Step { cells: found.map(|(key, cell)| (key.clone(), held(cell))).collect(), next: None })
    }

    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(self.read(marker).await?.map(|held| held.value))
    }
}

impl Rows for Shelf {
    fn row(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.rows.get(key).cloned())
    }

    fn put_row(&mut self, key: Vec<u8>, value: Bytes) {
        self.rows.insert(key, value);
    }

    fn remove_row(&mut self, key: Vec<u8>) {
        self.rows.remove(&key);
    }

    fn first_row(&self, from: &[u8], until: &[u8]) -> Result<Option<(Vec<u8>, Bytes)>, StoreError> {
        let bounds = (Bound::Included(from), Bound::Excluded(until));
        Ok(self.rows.range::<[u8], _>(bounds).next().map(|(key, value)| (key.clone(), value.clone())))
    }

    fn cell(&self, key: &str) -> Result<Option<Held>, StoreError> {
        let now = Instant::now();
        Ok(self.get(key, now).map(|cell| Held { value: cell.value.clone(), left: cell.dies - now }))
    }

    fn put_cell(&mut self, key: &str, value: Bytes, life: Duration) -> Result<(), StoreError> {
        self.put(key, value, life, Instant::now());
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }
}

impl Backlog for MemoryCells {
    async fn append(&self, lane: &Lane, letter: NewLetter, room: Room) -> Result<Appended, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).append(letter, room)
    }

    async fn take(&self, lane: &Lane, terms: TakeTerms) -> Result<Taken, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).take(terms)
    }

    async fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).extend(holding, lease)
    }

    async fn finish(&self, lane: &Lane, finished: Finished) -> Result<Option<Bytes>, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).finish(finished)
    }

    async fn postpone(&self, lane: &Lane, holding: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).postpone(holding, slip, pause)
    }

    async fn bury(&self, lane: &Lane, holding: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).bury(holding, slip, blocks)
    }

    async fn revive(&self, lane: &Lane, id: LetterId, slip: Slip) -> Result<Revived, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).revive(id, slip)
    }

    async fn letter(&self, lane: &Lane, id: LetterId) -> Result<Option<Filed>, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).letter(id)
    }

    async fn list(&self, lane: &Lane, is_dead: bool, after: Option<LetterId>, most: usize) -> Result<Vec<Filed>, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).list(is_dead, after, most)
    }

    async fn tally(&self, lane: &Lane) -> Result<Tally, StoreError> {
        LaneRows::new(&mut *self.shelf(), lane).tally()
    }
}
