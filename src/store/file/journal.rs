//! Brings the engine's journal to the disk, for those who wait for it, many at a time.
//!
//! The engine could do it itself, but it lets nobody write meanwhile; so the journal's file is flushed from here. That
//! is right because of how the engine writes it, in the version that `Cargo.toml` pins:
//!
//! - The journal is `N.jnl` in the store's directory, and the highest `N` is the one being written.
//! - A committed batch has been handed to the kernel whole.
//! - Before the engine goes on to `N + 1` it flushes `N`, and it writes to `N + 1` only once the directory is flushed.
//!
//! So whoever was committed before a look at the directory is in the newest file of that look, or on disk already.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::health::Health;
use super::rounds::{Back, Settled};
use super::writer::Job;
use crate::failpoint::Failpoint;

/// From one flush to the next, at least: under load the completions of this long share a flush.
const INTERVAL: Duration = Duration::from_millis(4);
/// The same after a flush for a few, who cost little.
const QUIET_INTERVAL: Duration = Duration::from_millis(2);
const FEW: usize = 4;
/// Looks at the directory until its newest file can be opened: it may be done with and gone in between.
const LOOKS: usize = 3;

/// Those of each round whose writes have been committed.
type Waiters = Vec<(Back, Vec<Job>)>;

pub(super) struct Syncer {
    waiters: Sender<Waiters>,
    thread: JoinHandle<()>,
}

impl Syncer {
    pub(super) fn spawn(directory: &Path, health: Health) -> io::Result<Self> {
        let (waiters, queue) = mpsc::channel();
        let mut journal = Journal::new(directory);
        let work = move || work(&queue, &mut journal, &health);
        let thread = thread::Builder::new().name("store-syncer".into()).spawn(work)?;
        Ok(Self { waiters, thread })
    }

    /// Answers, soon, those whose writes have been committed.
    pub(super) fn sync(&self, waiters: Waiters) {
        if !waiters.is_empty() {
            // Were the thread gone, the answers would be dropped, and whoever waits would learn that.
            let _ = self.waiters.send(waiters);
        }
    }

    /// Flushes what is left, and ends.
    pub(super) fn join(self) {
        drop(self.waiters);
        if self.thread.join().is_err() {
            tracing::error!("the store's flushing thread has panicked");
        }
    }
}

fn work(queue: &Receiver<Waiters>, journal: &mut Journal, health: &Health) {
    let mut due = Instant::now();
    while let Ok(mut waiters) = queue.recv() {
        // Not at the queue: whoever comes meanwhile need not wake anybody.
        while let wait = due.saturating_duration_since(Instant::now())
            && !wait.is_zero()
        {
            thread::park_timeout(wait);
        }
        waiters.extend(queue.try_iter().flatten());
        let jobs: usize = waiters.iter().map(|(_, jobs)| jobs.len()).sum();
        due = Instant::now() + if jobs <= FEW { QUIET_INTERVAL } else { INTERVAL };
        let synced = journal.sync();
        // After a failure the kernel may call the next flush a success, though it has dropped what failed.
        let outcome = || match &synced {
            Ok(()) => health.check().err(),
            Err(error) => Some(health.fail("a flush", error)),
        };
        let is_safe = outcome().is_none();
        for (back, jobs) in joined(waiters) {
            let errors = if is_safe { Vec::new() } else { jobs.iter().filter_map(|_| outcome()).collect() };
            back.send(Settled { jobs, errors, next: None });
        }
    }
}

/// One for each who went between, who may have brought several rounds: nobody is woken twice.
fn joined(waiters: Waiters) -> Waiters {
    let mut joined: Waiters = Vec::with_capacity(waiters.len());
    for (back, jobs) in waiters {
        match joined.iter_mut().find(|(known, _)| known.is_that_of(&back)) {
            Some((_, known)) => known.extend(jobs),
            None => joined.push((back, jobs)),
        }
    }
    joined
}

pub(super) struct Journal {
    directory: PathBuf,
    /// Kept open while it is the newest.
    newest: Option<(u64, File)>,
}

impl Journal {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), newest: None }
    }

    fn sync(&mut self) -> io::Result<()> {
        Failpoint::BeforeSync.pass()?;
        self.newest()?.sync_data()?;
        Failpoint::AfterSync.pass()
    }

    /// The one that is being written.
    pub(super) fn newest(&mut self) -> io::Result<&File> {
        let mut looks = 1..LOOKS;
        let newest = loop {
            let number = newest_number(&self.directory)?;
            match self.newest.take() {
                Some(known) if known.0 == number => break known,
                _ => {}
            }
            match File::open(self.directory.join(format!("{number}.jnl"))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && looks.next().is_some() => {}
                opened => break (number, opened?),
            }
        };
        Ok(&self.newest.insert(newest).1)
    }
}

pub(super) fn newest_number(directory: &Path) -> io::Result<u64> {
    let newest = numbers(directory)?.into_iter().max();
    newest.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the store's directory holds no journal"))
}

/// The numbers of all journals there are, in no order.
pub(super) fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok()));
    }
    Ok(numbers)
}
