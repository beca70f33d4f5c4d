//! What the engine keeps for us, and how it is written there.

use std::path::Path;
use std::time::Duration;
use std::{fmt, io, panic};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch as WriteBatch, PersistMode};

use super::mend::mend;
use super::{local, millis};
use crate::store::cells::{FOR_EVER, Held, StoreError, StoreErrorKind};

// The engine's memory, beside what is being written: events are looked up once, mostly in vain, so a cache of blocks
// gains little.
const CACHE_BYTES: u64 = 32 << 20;
const MEMTABLE_BYTES: u64 = 16 << 20;
/// What is read again at the next start.
const JOURNALS_BYTES: u64 = 128 << 20;
/// One flushes while the other compacts.
const ENGINE_THREADS: usize = 2;

/// The tables: cells by key, when to look whether they have ended, and the letters of the queue.
pub(super) struct Tables {
    database: Database,
    pub(super) cells: Keyspace,
    /// `end || key`, without a value. Every cell that ends has an entry here at its end or before.
    pub(super) ends: Keyspace,
    /// As `store::rows` has them.
    pub(super) letters: Keyspace,
}

impl Tables {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        mend(path)?;
        match panic::catch_unwind(|| Self::open_engine(path)) {
            Ok(opened) => opened.map_err(|error| cannot_open(path, &error)),
            Err(_) => Err(damaged(path, &"the engine has panicked")),
        }
    }

    fn open_engine(path: &Path) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .worker_threads(ENGINE_THREADS)
            .max_journaling_size(JOURNALS_BYTES)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let (cells, ends) = (database.keyspace("cells", options)?, database.keyspace("ends", options)?);
        let letters = database.keyspace("letters", options)?;
        Ok(Self { database, cells, ends, letters })
    }

    /// A batch that is in the kernel's hands once it is committed.
    pub(super) fn batch(&self) -> WriteBatch {
        self.database.batch().durability(Some(PersistMode::Buffer))
    }

    pub(super) fn cell(&self, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        self.cells.get(key).map_err(|error| unreadable(said(&error)))?.map(|stored| Cell::decode(&stored)).transpose()
    }
}

#[derive(Clone)]
pub(super) struct Cell {
    /// Milliseconds since 1970.
    pub(super) end: u64,
    pub(super) value: Bytes,
}

impl Cell {
    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.end.to_be_bytes()[..], &self.value[..]].concat()
    }

    pub(super) fn decode(stored: &[u8]) -> Result<Self, StoreError> {
        let (end, value) = stored.split_first_chunk().ok_or_else(|| unreadable("a stored cell is cut short"))?;
        Ok(Self { end: u64::from_be_bytes(*end), value: Bytes::copy_from_slice(value) })
    }

    /// What a caller may know of it: nothing once it has ended.
    pub(super) fn held(self, now: u64) -> Option<Held> {
        let left = Duration::from_millis(self.end.saturating_sub(now));
        (!left.is_zero()).then_some(Held { value: self.value, left })
    }
}

/// Whether nobody will live to see it end: such a cell is not in the index.
pub(super) fn is_endless(end: u64, now: u64) -> bool {
    end.saturating_sub(now) > millis(FOR_EVER / 2)
}

/// The key of the index entry for a cell that ends at `end`.
pub(super) fn end_key(end: u64, key: &[u8]) -> Vec<u8> {
    [&end.to_be_bytes()[..], key].concat()
}

pub(super) fn unreadable(error: impl fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Local, format!("a cell cannot be read: {error}"))
}

fn cannot_open(path: &Path, error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Locked => {
            local(path, &"is in use by another process; file: is for a single instance, several can share a redis:// store")
        }
        fjall::Error::Io(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            local(path, &"holds a store whose making was interrupted, with nothing in it yet: remove the directory")
        }
        // The kernel's words say it all, unless they only come of a file that is missing or cut short.
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error))
            if error.raw_os_error().is_some()
                && !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) =>
        {
            local(path, error)
        }
        error => damaged(path, &said(error)),
    }
}

/// What no start mends.
pub(super) fn damaged(path: &Path, what: &dyn fmt::Display) -> StoreError {
    let way_out = "restore the store's directory from a copy, or begin with an empty one, to which all events are new";
    local(path, &format!("is damaged ({what}): {way_out}"))
}

/// The engine's errors in the kernel's words, where they are the kernel's.
pub(super) fn said(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => error.to_string(),
        fjall::Error::Poisoned => "an earlier write or flush in the background".into(),
        error => error.to_string(),
    }
}
