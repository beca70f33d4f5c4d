//! What the engine keeps for us, and how it is written there.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io, panic};

use bytes::Bytes;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch, PersistMode, UserKey, UserValue,
};

use super::mend::mend;
use super::{checkpoint, local, millis};
use crate::store::cells::{FOR_EVER, Held, StoreError, StoreErrorKind};

// The engine's memory, beside what is being written: events are looked up once, mostly in vain, so a cache of blocks
// gains little.
const CACHE_BYTES: u64 = 32 << 20;
const MEMTABLE_BYTES: u64 = 16 << 20;
/// The journals, before what is in them is moved into tables: the least there is. See `checkpoint.rs`.
const JOURNALS_BYTES: u64 = 128 << 20;
/// What an item takes in a journal beside its key and its value.
const ITEM_BYTES: usize = 21;
/// One flushes while the other compacts.
const ENGINE_THREADS: usize = 2;

/// The tables: cells by key, when to look whether they have ended, and the letters of the queue.
pub(super) struct Tables {
    database: Database,
    pub(super) cells: Keyspace,
    /// As `ends.rs` has them. Every cell that ends is in an entry here, at its end or before.
    pub(super) ends: Keyspace,
    /// As `store::rows` has them.
    pub(super) letters: Keyspace,
    /// Bytes written to journals since the last checkpoint, about.
    journaled: AtomicU64,
}

impl Tables {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let journaled = mend(path)?;
        match panic::catch_unwind(|| Self::open_engine(path, journaled)) {
            Ok(opened) => opened.map_err(|error| cannot_open(path, &error)),
            Err(_) => Err(damaged(path, &"the engine has panicked")),
        }
    }

    pub(super) fn open_engine(path: &Path, journaled: u64) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .worker_threads(ENGINE_THREADS)
            .max_journaling_size(JOURNALS_BYTES)
            .open()?;
        // Who held the directory when it was to be mended may have let go since: its note must not be taken for one of this run.
        checkpoint::forget(path)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let (cells, ends) = (database.keyspace("cells", options)?, database.keyspace("ends", options)?);
        let letters = database.keyspace("letters", options)?;
        Ok(Self { database, cells, ends, letters, journaled: AtomicU64::new(journaled) })
    }

    pub(super) fn batch(&self) -> WriteBatch {
        WriteBatch { batch: self.database.batch().durability(Some(PersistMode::Buffer)), bytes: 0 }
    }

    /// The batch is in the kernel's hands then.
    pub(super) fn commit(&self, write: WriteBatch) -> fjall::Result<()> {
        self.journaled.fetch_add(write.bytes as u64, Ordering::Relaxed);
        write.batch.commit()
    }

    pub(super) fn journaled(&self) -> u64 {
        self.journaled.load(Ordering::Relaxed)
    }

    /// So many bytes are not needed any more.
    pub(super) fn forget_journaled(&self, bytes: u64) {
        self.journaled.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The number of the next batch. All before it are in the engine's memory or in tables once its journal can be locked.
    pub(super) fn next_number(&self) -> u64 {
        self.database.seqno()
    }

    /// Has the engine move what is in its memory into tables; does not wait for it.
    pub(super) fn flush(&self) -> fjall::Result<()> {
        for table in self.all() {
            table.rotate_memtable()?;
        }
        Ok(())
    }

    /// Whether the engine has done so.
    pub(super) fn is_flushed(&self) -> bool {
        self.all().iter().all(|table| table.tree.sealed_memtable_count() == 0)
    }

    fn all(&self) -> [&Keyspace; 3] {
        [&self.cells, &self.ends, &self.letters]
    }

    pub(super) fn cell(&self, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        self.cells.get(key).map_err(|error| unreadable(said(&error)))?.map(|stored| Cell::decode(&stored)).transpose()
    }
}

/// What is written whole or not at all.
pub(super) struct WriteBatch {
    batch: OwnedWriteBatch,
    bytes: usize,
}

impl WriteBatch {
    pub(super) fn insert(&mut self, table: &Keyspace, key: impl Into<UserKey>, value: impl Into<UserValue>) {
        let (key, value) = (key.into(), value.into());
        self.bytes += ITEM_BYTES + key.len() + value.len();
        self.batch.insert(table, key, value);
    }

    pub(super) fn remove(&mut self, table: &Keyspace, key: impl Into<UserKey>) {
        let key = key.into();
        self.bytes += ITEM_BYTES + key.len();
        self.batch.remove(table, key);
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
