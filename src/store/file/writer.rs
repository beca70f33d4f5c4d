//! The one thread that owns the engine. It takes what is queued, up to a bound, and writes it in one commit: under
//! load the cost of a commit is shared, without load nobody waits for company.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;
use fjall::UserKey;
use tokio::sync::oneshot;

use super::checkpoint::Checkpoints;
use super::ends::Ends;
use super::floors::Floors;
use super::health::Health;
use super::journal::Syncer;
use super::mend::mend;
use super::rounds::{Back, Order, Round, Settled};
use super::sweep::Sweeper;
use super::tables::{Cell, Tables, WriteBatch, is_endless, said, unreadable};
use super::{Decision, millis, wall_clock};
use crate::failpoint::Failpoint;
use crate::store::cells::{Held, StoreError};
use crate::store::rows::Rows;

/// Jobs in one commit, but for the rest of a round. More would not be cheaper, and the first would wait longer for its answer.
const BATCH_MAX: usize = 1024;

/// How safe a job must be before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// From the end of this process.
    Written,
    /// From the end of this machine.
    Durable,
}

/// What a caller asks for, with the answer once there is one: made, answered and dropped on the caller's thread.
pub(super) struct Job(Box<dyn Errand>);

trait Errand: Send {
    fn run(&mut self, batch: &mut Batch<'_>) -> Until;
    fn answer(self: Box<Self>, safe: Result<(), StoreError>);
}

struct Asked<T, J, A> {
    until: Until,
    job: Option<J>,
    given: Option<Result<T, StoreError>>,
    answer: A,
}

impl Job {
    /// `answer` gets what `job` gives, once that is safe.
    pub(super) fn new<T: Send + 'static>(
        until: Until,
        job: impl FnOnce(&mut Batch<'_>) -> Result<T, StoreError> + Send + 'static,
        answer: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Self {
        Self(Box::new(Asked { until, job: Some(job), given: None, answer }))
    }

    /// Once the job is as safe as asked, or with the reason why it never will be.
    pub(super) fn answer(self, safe: Result<(), StoreError>) {
        self.0.answer(safe);
    }
}

impl<T, J, A> Errand for Asked<T, J, A>
where
    T: Send,
    J: FnOnce(&mut Batch<'_>) -> Result<T, StoreError> + Send,
    A: FnOnce(Result<T, StoreError>) + Send,
{
    fn run(&mut self, batch: &mut Batch<'_>) -> Until {
        let before = batch.writes;
        self.given = self.job.take().map(|job| job(batch));
        // What wrote nothing has nothing to wait for.
        if batch.writes == before { Until::Written } else { self.until }
    }

    fn answer(self: Box<Self>, safe: Result<(), StoreError>) {
        // Without a word where it has not been run: whoever waits learns that the store is gone.
        if let Some(given) = self.given {
            (self.answer)(given.and_then(|given| safe.map(|()| given)));
        }
    }
}

/// What one commit will write, and who waits for it.
pub(super) struct Batch<'a> {
    pub(super) tables: &'a Tables,
    health: &'a Health,
    now: u64,
    /// Cells as this batch leaves them: later jobs must see what earlier ones decided.
    written: HashMap<String, Cell>,
    /// The same of letters; `None` where a row is removed.
    rows: BTreeMap<Vec<u8>, Option<Bytes>>,
    ends: Ends,
    floors: &'a Floors,
    jobs: usize,
    writes: usize,
    write: WriteBatch,
    waiting: Vec<Waiting>,
}

/// Who waits for one round, by how safe it must be.
struct Waiting {
    back: Back,
    written: Vec<Job>,
    durable: Vec<Job>,
}

/// A part of a search.
pub(super) struct Page {
    pub(super) live: Vec<(String, Held)>,
    /// The key after which to go on; `None` at the end.
    pub(super) last: Option<UserKey>,
}

impl<'a> Batch<'a> {
    fn new(tables: &'a Tables, health: &'a Health, floors: &'a Floors) -> Self {
        let (written, rows, ends, waiting) = (HashMap::new(), BTreeMap::new(), Ends::default(), Vec::new());
        Self {
            tables,
            health,
            now: wall_clock(),
            written,
            rows,
            ends,
            floors,
            jobs: 0,
            writes: 0,
            write: tables.batch(),
            waiting,
        }
    }

    /// Shows `decide` what the cell holds, and writes what it says.
    pub(super) fn decide<T>(&mut self, key: String, decide: impl FnOnce(Option<Held>) -> Decision<T>) -> Result<T, StoreError> {
        let before = self.cell(&key)?;
        let end_before = before.as_ref().map(|cell| cell.end);
        let decision = decide(before.and_then(|cell| cell.held(self.now)));
        if let Some((value, life)) = decision.write {
            self.writable()?;
            let end = self.now.saturating_add(millis(life));
            self.put(key, Cell { end, value }, end_before);
        }
        Ok(decision.answer)
    }

    pub(super) fn writable(&self) -> Result<(), StoreError> {
        self.health.check()
    }

    /// Up to `step` cells whose key begins with `prefix`, after `last`. Does not see what this batch writes.
    pub(super) fn page(&self, prefix: &str, last: Option<UserKey>, step: usize) -> Result<Page, StoreError> {
        let from = last.map_or_else(|| Bound::Included(UserKey::from(prefix)), Bound::Excluded);
        let (mut live, mut last) = (Vec::new(), None);
        for entry in self.tables.cells.range((from, Bound::Unbounded)).take(step) {
            let (key, stored) = entry.into_inner().map_err(|error| unreadable(said(&error)))?;
            if !key.starts_with(prefix.as_bytes()) {
                return Ok(Page { live, last: None });
            }
            let name = String::from_utf8_lossy(&key).into_owned();
            live.extend(Cell::decode(&stored)?.held(self.now).map(|held| (name, held)));
            last = Some(key);
        }
        Ok(Page { live, last })
    }

    /// Does the jobs of a round.
    fn work_off(&mut self, round: Round) {
        let Round { mut jobs, back } = round;
        self.jobs += jobs.len();
        let durable = jobs.extract_if(.., |Job(job)| job.run(self) == Until::Durable).collect();
        self.waiting.push(Waiting { back, written: jobs, durable });
    }

    fn cell(&self, key: &str) -> Result<Option<Cell>, StoreError> {
        match self.written.get(key) {
            Some(cell) => Ok(Some(cell.clone())),
            None => self.tables.cell(key.as_bytes()),
        }
    }

    fn put(&mut self, key: String, cell: Cell, end_before: Option<u64>) {
        Failpoint::BeforeWrite.block();
        self.writes += 1;
        // One that ends later than the cell it replaces has that one's index entry: the sweeper moves it on. So an
        // event that is claimed, renewed and done costs one entry, not one each.
        if end_before.is_none_or(|before| cell.end < before) && !is_endless(cell.end, self.now) {
            self.ends.add(cell.end, key.as_bytes());
        }
        self.write.insert(&self.tables.cells, key.as_str(), cell.encode());
        self.written.insert(key, cell);
    }

    /// Commits, and answers those for whom that is enough. Gives back those who wait for the disk.
    fn commit(mut self) -> Vec<(Back, Vec<Job>)> {
        let has_written = !self.written.is_empty() || !self.rows.is_empty();
        for (key, value) in self.rows {
            match value {
                Some(value) => self.write.insert(&self.tables.letters, key, &value[..]),
                None => self.write.remove(&self.tables.letters, key),
            }
        }
        self.ends.write(self.tables.next_number(), &self.tables.ends, &mut self.write);
        let committed = self.tables.commit(self.write);
        if has_written {
            Failpoint::AfterWrite.block();
        }
        let (health, mut for_the_disk) = (self.health, Vec::new());
        let failed = committed.err().map(|error| said(&error));
        for Waiting { back, written: mut jobs, durable } in self.waiting {
            let mut errors = Vec::new();
            if let Some(error) = &failed {
                jobs.extend(durable);
                errors.extend(jobs.iter().map(|_| health.fail("a write", error)));
            } else if !durable.is_empty() {
                for_the_disk.push((back.clone(), durable));
            }
            back.clone().send(Settled { jobs, errors, next: Some(back) });
        }
        for_the_disk
    }
}

impl Rows for Batch<'_> {
    fn row(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self.rows.get(key) {
            Some(written) => Ok(written.clone()),
            None => {
                let stored = self.tables.letters.get(key).map_err(|error| unreadable(said(&error)))?;
                Ok(stored.map(|stored| Bytes::copy_from_slice(&stored)))
            }
        }
    }

    fn put_row(&mut self, key: Vec<u8>, value: Bytes) {
        self.writes += 1;
        self.floors.lower(&key);
        self.rows.insert(key, Some(value));
    }

    fn remove_row(&mut self, key: Vec<u8>) {
        self.writes += 1;
        self.rows.insert(key, None);
    }

    fn first_row(&self, from: &[u8], until: &[u8]) -> Result<Option<(Vec<u8>, Bytes)>, StoreError> {
        let floor = self.floors.of(from);
        let (start, end) = (floor.as_deref().unwrap_or(from), Bound::Excluded(until));
        let mut written = self.rows.range::<[u8], _>((Bound::Included(start), end));
        let written = written.find_map(|(key, value)| Some((key, value.as_ref()?)));
        let mut stored = None;
        for entry in self.tables.letters.range::<&[u8], _>((Bound::Included(start), end)) {
            let (key, value) = entry.into_inner().map_err(|error| unreadable(said(&error)))?;
            // What this batch has written counts instead.
            if !self.rows.contains_key(&key[..]) {
                stored = Some((key, value));
                break;
            }
        }
        let first = match (written, stored) {
            (Some((key, value)), Some((other, _))) if key[..] < other[..] => Some((key.clone(), value.clone())),
            (_, Some((key, value))) => Some((key.to_vec(), Bytes::copy_from_slice(&value))),
            (Some((key, value)), None) => Some((key.clone(), value.clone())),
            (None, None) => None,
        };
        self.floors.raise(from, first.as_ref().map_or(until, |(key, _)| key));
        Ok(first)
    }

    fn cell(&self, key: &str) -> Result<Option<Held>, StoreError> {
        Ok(Batch::cell(self, key)?.and_then(|cell| cell.held(self.now)))
    }

    fn put_cell(&mut self, key: &str, value: Bytes, life: Duration) -> Result<(), StoreError> {
        self.decide(key.to_owned(), |_| Decision::write((), value, life))
    }

    fn now(&self) -> u64 {
        self.now
    }
}

pub(super) struct Writer {
    path: PathBuf,
    tables: Arc<Tables>,
    health: Health,
    sweeper: Sweeper,
    floors: Floors,
}

impl Writer {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let (tables, health) = (Arc::new(Tables::open(path)?), Health::new(path));
        Ok(Self { path: path.to_owned(), tables, health, sweeper: Sweeper::new(), floors: Floors::default() })
    }

    /// Starts the threads. They end when every sender of `queue` is gone, or with `Order::Close`.
    pub(super) fn spawn(mut self, queue: Receiver<Order>) -> io::Result<()> {
        let syncer = Syncer::spawn(&self.path, self.health.clone())?;
        let checkpoints = Checkpoints::spawn(&self.path, &self.tables, &self.health)?;
        let work = move || {
            let closing = self.work(&queue, &syncer, &checkpoints);
            // In this order: no more jobs, the last flush, the engine with its lock, and only then the word.
            drop(queue);
            syncer.join();
            checkpoints.finish();
            let (path, is_healthy) = (self.path.clone(), self.health.check().is_ok());
            drop(self);
            if is_healthy {
                leave(&path);
            }
            if let Some(closed) = closing {
                let _ = closed.send(());
            }
        };
        thread::Builder::new().name("store-writer".into()).spawn(work).map(drop)
    }

    fn work(&mut self, queue: &Receiver<Order>, syncer: &Syncer, checkpoints: &Checkpoints) -> Option<oneshot::Sender<()>> {
        loop {
            match queue.recv_timeout(self.sweeper.wait()) {
                Ok(first) => {
                    if let Some(closing) = self.batch(first, queue, syncer) {
                        return Some(closing);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            self.sweeper.step_if_due(&self.tables, &self.health);
            checkpoints.make_if_due();
        }
    }

    /// Does what is queued, in one commit. Gives back whom to tell if the store is to close.
    fn batch(&self, first: Order, queue: &Receiver<Order>, syncer: &Syncer) -> Option<oneshot::Sender<()>> {
        let mut batch = Batch::new(&self.tables, &self.health, &self.floors);
        let mut closing = None;
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Round(round) => batch.work_off(round),
                Order::Close(closed) => {
                    closing = Some(closed);
                    break;
                }
            }
            next = if batch.jobs < BATCH_MAX { queue.try_recv().ok() } else { None };
        }
        syncer.sync(batch.commit());
        closing
    }
}

/// Takes out of the journals what the last checkpoint has made needless, so that the next start need not. It would do so otherwise.
fn leave(path: &Path) {
    if let Err(error) = mend(path) {
        tracing::warn!(%error, "the journals were left as they are");
    }
}
