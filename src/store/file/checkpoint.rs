//! Bounds what is read again at the next start, however this run ends.
//!
//! What was written is in the engine's journal and in its memory, until the engine moves it into tables. It would let the journals
//! grow to 64 MiB at least before it is done with one, and reads all of them when it opens. So a thread has it move what there is
//! sooner, and notes in the file `checkpoint` up to which batch everything is in tables: `mend.rs` takes those batches out
//! of the journals before the engine reads them. A store that is closed in good order leaves next to nothing to read.
//!
//! The note is a number (u64, little-endian) and the XXH3 of it. It is of this run alone: numbers are given again after
//! an opening, so that it is removed before the engine opens anything.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::health::Health;
use super::journal::Journal;
use super::tables::{Tables, said};

/// As much of the journal as a start may read: a few hundred milliseconds. The smaller it is, the more often tables are merged.
const MOST_BYTES: u64 = 16 << 20;
/// Less than `MOST_BYTES`, but worth a checkpoint when the last one was so long ago: where little comes, a start is quick.
const SOME_BYTES: u64 = 2 << 20;
const SOME_TIME: Duration = Duration::from_secs(30);
/// So little is read in no time.
const LITTLE_BYTES: u64 = 256 << 10;
/// How often it is looked for `SOME_BYTES`, and for the end of what the engine was asked for.
const LOOK: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(5);
/// An engine that needs longer than this is left to itself: the journal is there.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where somebody waits for the store to be closed.
const PATIENCE_AT_CLOSE: Duration = Duration::from_secs(3);

const NAME: &str = "checkpoint";

/// The thread that makes checkpoints.
pub(super) struct Checkpoints {
    maker: Arc<Maker>,
    wishes: SyncSender<()>,
    thread: JoinHandle<()>,
}

struct Maker {
    tables: Arc<Tables>,
    directory: PathBuf,
    health: Health,
    is_closing: AtomicBool,
}

impl Checkpoints {
    pub(super) fn spawn(directory: &Path, tables: &Arc<Tables>, health: &Health) -> io::Result<Self> {
        let (wishes, queue) = mpsc::sync_channel(1);
        let (tables, directory, health) = (Arc::clone(tables), directory.to_owned(), health.clone());
        let maker = Arc::new(Maker { tables, directory, health, is_closing: AtomicBool::new(false) });
        let worker = Arc::clone(&maker);
        let thread = thread::Builder::new().name("store-checkpoint".into()).spawn(move || worker.work(&queue))?;
        Ok(Self { maker, wishes, thread })
    }

    /// After a commit: one is made, soon, where the journal has become long.
    pub(super) fn make_if_due(&self) {
        if self.maker.tables.journaled() >= MOST_BYTES {
            // Where it is full, somebody has wished for it already.
            let _ = self.wishes.try_send(());
        }
    }

    /// The end of the thread, and the last checkpoint, unless there is next to nothing to read.
    pub(super) fn finish(self) {
        self.maker.is_closing.store(true, Ordering::Relaxed);
        drop(self.wishes);
        if self.thread.join().is_err() {
            tracing::error!("the store's thread for checkpoints has panicked");
        }
        if self.maker.tables.journaled() >= LITTLE_BYTES {
            self.maker.make(|began| began.elapsed() < PATIENCE_AT_CLOSE);
        }
    }
}

impl Maker {
    fn work(&self, wishes: &Receiver<()>) {
        let mut last = Instant::now();
        loop {
            let is_wished = match wishes.recv_timeout(LOOK) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let least = if is_wished { MOST_BYTES } else { SOME_BYTES };
            if self.tables.journaled() >= least && (is_wished || last.elapsed() >= SOME_TIME) {
                // Whoever closes the store makes another.
                self.make(|began| began.elapsed() < PATIENCE && !self.is_closing.load(Ordering::Relaxed));
                last = Instant::now();
            }
        }
    }

    /// `goes_on` is asked as long as the engine is at work.
    fn make(&self, goes_on: impl Fn(Instant) -> bool) {
        // What the disk holds after a failure is not known, and is for the next start to find out.
        if self.health.check().is_err() {
            return;
        }
        if let Err(error) = self.try_make(goes_on) {
            tracing::warn!(%error, "the journal could not be shortened: the next start takes longer");
        }
    }

    fn try_make(&self, goes_on: impl Fn(Instant) -> bool) -> Result<(), String> {
        let began = Instant::now();
        let journaled = self.tables.journaled();
        let number = self.tables.next_number();
        // The engine does so too, before it writes a table, and lets nobody write meanwhile: then little is left to do.
        let mut journal = Journal::new(&self.directory);
        journal.newest().and_then(|newest| newest.sync_all()).map_err(|error| self.health.fail("a flush", &error).to_string())?;
        self.tables.flush().map_err(|error| said(&error))?;
        while !self.tables.is_flushed() {
            if !goes_on(began) {
                return Err("the engine has not written its tables in time".into());
            }
            thread::park_timeout(STEP);
        }
        note(&self.directory, number).map_err(|error| error.to_string())?;
        self.tables.forget_journaled(journaled);
        Ok(())
    }
}

/// Notes that every batch with a lower number is in tables.
pub(super) fn note(directory: &Path, number: u64) -> io::Result<()> {
    let (path, new) = (directory.join(NAME), directory.join("checkpoint.new"));
    let number = number.to_le_bytes();
    let mut file = File::create(&new)?;
    file.write_all(&number)?;
    file.write_all(&xxh3_64(&number).to_le_bytes())?;
    file.sync_all()?;
    // An older one in its place, after a power cut, says less and is as true.
    fs::rename(new, path)
}

/// The first number that may not be in tables; 0 where nothing is known.
pub(super) fn noted(directory: &Path) -> io::Result<u64> {
    let bytes = match fs::read(directory.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read?,
    };
    let parts = bytes.split_first_chunk().and_then(|(number, rest)| Some((number, rest.first_chunk()?)));
    Ok(match parts {
        Some((number, sum)) if xxh3_64(number) == u64::from_le_bytes(*sum) => u64::from_le_bytes(*number),
        // The journals hold everything as well.
        _ => 0,
    })
}

/// Removes the note, and makes sure that it stays away.
pub(super) fn forget(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => File::open(directory)?.sync_all(),
    }
}
