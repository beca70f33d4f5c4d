//! Looks through the journals before the engine does, and cuts off what a full disk or a power cut left half written.
//!
//! The engine, in the version that `Cargo.toml` pins, goes wrong both ways by itself. It does not open a journal whose last
//! batch lost a piece in its middle, and may panic over one that ends inside of a length; but it takes any byte that it
//! cannot read for the end of a journal, and silently drops whatever was written after it.
//!
//! So a batch that is not whole is cut off only where that is all there is to it:
//!
//! - Nothing whole was written after it: it was being written when the end came.
//! - Or it ends in nothing but zeros at the end of a sector: the disk was given that sector and the next ones, had not
//!   flushed them, and wrote them in an order of its own. Nobody was told yet that any of them is safe from a power cut.
//!
//! Anything else is damage to what was safe once, and for people to decide on.
//!
//! ```text
//!   batch:  1 | items u32 | number u64     then so many items     then  3 | XXH3 of the items' bytes u64 | "FJL" 3
//!   item:   2 | kind u8 | 0 | table u64 | key's length u16 | value's length u32, twice | key | value
//!           4 | table u64                                         all little-endian; zeros up to the file's end
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::journal::numbers;
use super::{local, manifest};
use crate::store::cells::StoreError;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = *b"FJL\x03";
/// Kinds of items: a value, and two ways to remove one. The engine panics over its fourth, which is never in a journal.
const KIND_MAX: u8 = 2;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
/// So many zeros at the end of a sector were not written by anybody.
const ZEROS: [u8; 16] = [0; 16];
/// What is read at once, and what is left out of memory where it is empty: a new journal is 64 MiB of zeros.
const PIECE: usize = 64 << 10;
/// Whoever had the directory before may be about to leave it: as patient as the engine.
const LOOKS: usize = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Bytes looked at in search of a whole batch, all attempts together: what was stored may look like the beginning of one
/// at every place.
const SEARCH_MAX: usize = 1 << 30;

/// Cuts off what was not written whole. An error says what is damaged and what can be done.
pub(super) fn mend(directory: &Path) -> Result<(), StoreError> {
    let held = held(directory).map_err(|error| local(directory, &error))?;
    // Otherwise the store is new, or in use by another: the engine knows what to do and to say.
    let Some(_held) = held else { return Ok(()) };
    manifest::check(directory)?;
    let mut journals = numbers(directory).map_err(|error| local(directory, &error))?;
    journals.sort_unstable();
    let mut is_followed = false;
    for number in journals.into_iter().rev() {
        let name = format!("{number}.jnl");
        let is_written = mend_journal(directory, &name, is_followed)?;
        is_followed |= is_written;
    }
    Ok(())
}

/// The directory's own mark of being in use, until it is dropped. A journal that somebody writes always has an unfinished end.
fn held(directory: &Path) -> io::Result<Option<File>> {
    let file = match File::open(directory.join("lock")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for _ in 0..LOOKS {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => thread::park_timeout(BETWEEN_LOOKS),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Tells whether anything whole is in it. `is_followed`: something whole is in a later one.
fn mend_journal(directory: &Path, name: &str, is_followed: bool) -> Result<bool, StoreError> {
    let path = directory.join(name);
    let failed = |error: io::Error| local(&path, &error);
    let journal = written(&path).map_err(failed)?;
    let whole = whole(&journal);
    let rest = &journal[whole..];
    if rest.is_empty() {
        return Ok(whole > 0);
    }
    let next = next_whole(rest);
    if (next.is_some() || is_followed) && !is_torn(&journal, whole, next.map_or(journal.len(), |next| whole + next)) {
        let what = format!(
            "is damaged at byte {whole}, and what was written later is whole: restore the directory from a copy, or give up \
             what this file holds from there on with `truncate -s {whole} '{}'`",
            path.display()
        );
        return Err(local(&path, &what));
    }
    cut(&path, whole).map_err(failed)?;
    let (path, bytes) = (path.display(), rest.len());
    tracing::warn!(%path, bytes, "the end of a journal was not written whole and is cut off: a full disk, or a power cut");
    Ok(whole > 0)
}

/// What a journal holds, without the zeros at its end.
fn written(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut journal, mut empty) = (File::open(path)?, Vec::new(), 0);
    let (mut piece, zeros) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        if piece[..length] == zeros[..length] {
            empty += length;
        } else {
            journal.resize(journal.len() + empty, 0);
            journal.extend_from_slice(&piece[..length]);
            empty = 0;
        }
    }
    journal.truncate(journal.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    Ok(journal)
}

/// Up to where whole batches follow one another.
fn whole(journal: &[u8]) -> usize {
    let mut at = 0;
    while let (Some(length), _) = batch(&journal[at..]) {
        at += length;
    }
    at
}

/// Where the next whole batch begins, after the first byte; the end, where that would take too long to find out.
fn next_whole(rest: &[u8]) -> Option<usize> {
    let mut left = SEARCH_MAX;
    for at in memchr::memchr_iter(START, rest).skip_while(|at| *at == 0) {
        let (length, looked_at) = batch(&rest[at..]);
        if length.is_some() {
            return Some(at);
        }
        match left.checked_sub(looked_at) {
            Some(less) => left = less,
            None => return Some(rest.len()),
        }
    }
    None
}

/// Whether a sector in there ends in zeros.
fn is_torn(journal: &[u8], from: usize, until: usize) -> bool {
    let ends = (from.next_multiple_of(SECTOR)..=until).step_by(SECTOR);
    ends.into_iter().any(|end| journal[from..end].ends_with(&ZEROS))
}

/// The length of the whole batch that comes first, if one does, and how many bytes it took to find out.
fn batch(bytes: &[u8]) -> (Option<usize>, usize) {
    let mut rest = bytes;
    let length = whole_batch(&mut rest).map(|()| bytes.len() - rest.len());
    (length, bytes.len() - rest.len())
}

fn whole_batch(rest: &mut &[u8]) -> Option<()> {
    let [START] = take(rest)? else { return None };
    let items = u32::from_le_bytes(take(rest)?);
    let _number: [u8; 8] = take(rest)?;
    let before = *rest;
    for _ in 0..items {
        item(rest)?;
    }
    let items = &before[..before.len() - rest.len()];
    let [END] = take(rest)? else { return None };
    let sum = u64::from_le_bytes(take(rest)?);
    (take(rest)? == TRAILER && sum == xxh3_64(items)).then_some(())
}

fn item(rest: &mut &[u8]) -> Option<()> {
    let [tag] = take(rest)?;
    if tag == CLEAR {
        return skip(rest, size_of::<u64>());
    }
    let [kind, compression] = take(rest)?;
    let _table: [u8; 8] = take(rest)?;
    let key = u16::from_le_bytes(take(rest)?);
    let (value, stored) = (u32::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
    if tag != ITEM || kind > KIND_MAX || compression != 0 || value != stored {
        return None;
    }
    skip(rest, usize::from(key))?;
    skip(rest, usize::try_from(value).ok()?)
}

fn take<const LENGTH: usize>(rest: &mut &[u8]) -> Option<[u8; LENGTH]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn skip(rest: &mut &[u8], length: usize) -> Option<()> {
    *rest = rest.get(length..)?;
    Some(())
}

fn cut(path: &Path, length: usize) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(length as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
