//! The one thread that owns the engine. It takes what is queued, up to a bound, and writes it in one commit: under
//! load the cost of a commit is shared, without load nobody waits for company.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::{io, thread};

use fjall::{OwnedWriteBatch as WriteBatch, UserKey};
use tokio::sync::oneshot;

use super::health::Health;
use super::journal::Syncer;
use super::sweep::Sweeper;
use super::tables::{Cell, Tables, end_key, said, unreadable};
use super::{Decision, millis, wall_clock};
use crate::failpoint::Failpoint;
use crate::store::cells::{Held, StoreError};

/// Jobs in one commit. More would not be cheaper, and the first would wait longer for its answer.
const BATCH_MAX: usize = 1024;

/// How safe a job must be before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// From the end of this process.
    Written,
    /// From the end of this machine.
    Durable,
}

pub(super) enum Job {
    Run(Box<dyn FnOnce(&mut Batch<'_>) + Send>),
    Close(oneshot::Sender<()>),
}

/// Called once the job it belongs to is as safe as asked, or with the reason why it never will be.
pub(super) type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

impl Job {
    /// `answer` gets what `job` gives, once that is safe.
    pub(super) fn run<T: Send + 'static>(
        until: Until,
        job: impl FnOnce(&mut Batch<'_>) -> Result<T, StoreError> + Send + 'static,
        answer: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Self {
        Self::Run(Box::new(move |batch| match job(batch) {
            Ok(given) => batch.answer(until, Box::new(move |safe| answer(safe.map(|()| given)))),
            Err(error) => answer(Err(error)),
        }))
    }
}

/// What one commit will write, and who waits for it.
pub(super) struct Batch<'a> {
    pub(super) tables: &'a Tables,
    health: &'a Health,
    now: u64,
    /// Cells as this batch leaves them: later jobs must see what earlier ones decided.
    written: HashMap<String, Cell>,
    write: WriteBatch,
    waiting: Vec<(Until, Answer)>,
}

/// A part of a search.
pub(super) struct Page {
    pub(super) live: Vec<(String, Held)>,
    /// The key after which to go on; `None` at the end.
    pub(super) last: Option<UserKey>,
}

impl<'a> Batch<'a> {
    fn new(tables: &'a Tables, health: &'a Health) -> Self {
        let (written, waiting) = (HashMap::new(), Vec::new());
        Self { tables, health, now: wall_clock(), written, write: tables.batch(), waiting }
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

    fn answer(&mut self, until: Until, answer: Answer) {
        self.waiting.push((until, answer));
    }

    fn cell(&self, key: &str) -> Result<Option<Cell>, StoreError> {
        match self.written.get(key) {
            Some(cell) => Ok(Some(cell.clone())),
            None => self.tables.cell(key.as_bytes()),
        }
    }

    fn put(&mut self, key: String, cell: Cell, end_before: Option<u64>) {
        Failpoint::BeforeWrite.block();
        // One that ends later than the cell it replaces has that one's index entry: the sweeper moves it on. So an
        // event that is claimed, renewed and done costs one entry, not one each.
        if end_before.is_none_or(|before| cell.end < before) {
            self.write.insert(&self.tables.ends, end_key(cell.end, key.as_bytes()), &[][..]);
        }
        self.write.insert(&self.tables.cells, key.as_str(), cell.encode());
        self.written.insert(key, cell);
    }

    /// Commits, and answers those for whom that is enough. Gives back those who wait for the disk.
    fn commit(self) -> Vec<Answer> {
        let committed = self.write.commit();
        if !self.written.is_empty() {
            Failpoint::AfterWrite.block();
        }
        let mut for_the_disk = Vec::new();
        for (until, answer) in self.waiting {
            match (&committed, until) {
                (Err(error), _) => answer(Err(self.health.fail("a write", &said(error)))),
                (Ok(()), Until::Written) => answer(Ok(())),
                (Ok(()), Until::Durable) => for_the_disk.push(answer),
            }
        }
        for_the_disk
    }
}

pub(super) struct Writer {
    path: PathBuf,
    tables: Tables,
    health: Health,
    sweeper: Sweeper,
}

impl Writer {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let (tables, health) = (Tables::open(path)?, Health::new(path));
        Ok(Self { path: path.to_owned(), tables, health, sweeper: Sweeper::new() })
    }

    /// Starts the threads. They end when every sender of `queue` is gone, or with `Job::Close`.
    pub(super) fn spawn(mut self, queue: Receiver<Job>) -> io::Result<()> {
        let syncer = Syncer::spawn(&self.path, self.health.clone())?;
        let work = move || {
            let closing = self.work(&queue, &syncer);
            // In this order: no more jobs, the last flush, the engine with its lock, and only then the word.
            drop(queue);
            syncer.join();
            drop(self);
            if let Some(closed) = closing {
                let _ = closed.send(());
            }
        };
        thread::Builder::new().name("store-writer".into()).spawn(work).map(drop)
    }

    fn work(&mut self, queue: &Receiver<Job>, syncer: &Syncer) -> Option<oneshot::Sender<()>> {
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
        }
    }

    /// Does what is queued, in one commit. Gives back whom to tell if the store is to close.
    fn batch(&self, first: Job, queue: &Receiver<Job>, syncer: &Syncer) -> Option<oneshot::Sender<()>> {
        let mut batch = Batch::new(&self.tables, &self.health);
        let mut closing = None;
        for job in std::iter::once(first).chain(queue.try_iter()).take(BATCH_MAX) {
            match job {
                Job::Run(job) => job(&mut batch),
                Job::Close(closed) => {
                    closing = Some(closed);
                    break;
                }
            }
        }
        syncer.sync(batch.commit());
        closing
    }
}
