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
//! Then whole batches that are in tables already, by the last checkpoint, are taken out: the engine would read them one by one.
//!
//! ```text
//!   batch:  1 | items u32 | number u64     then so many items     then  3 | XXH3 of the items' bytes u64 | "FJL" 3
//!   item:   2 | kind u8 | 0 | table u64 | key's length u16 | value's length u32, twice | key | value
//!           4 | table u64                                         all little-endian; zeros up to the file's end
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::journal::numbers;
use super::{checkpoint, local, manifest};
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

/// Cuts off what was not written whole, and takes out what is in tables. Tells how many bytes are left to be read; an error says
/// what is damaged and what can be done.
pub(super) fn mend(directory: &Path) -> Result<u64, StoreError> {
    let failed = |error: io::Error| local(directory, &error);
    // Otherwise the store is new, or in use by another: the engine knows what to do and to say.
    let Some(_held) = held(directory).map_err(failed)? else { return Ok(0) };
    manifest::check(directory)?;
    let first = checkpoint::noted(directory).map_err(failed)?;
    let mut journals = numbers(directory).map_err(failed)?;
    journals.sort_unstable();
    let (mut is_followed, mut left, mut needless) = (false, 0, Vec::new());
    for number in journals.into_iter().rev() {
        let name = format!("{number}.jnl");
        let looked = mend_journal(directory, &name, is_followed, first)?;
        is_followed |= looked.whole > 0;
        left += (looked.whole - looked.needless) as u64;
        needless.extend((looked.needless > 0).then_some((directory.join(name), looked)));
    }
    // Only once all of them are known to be whole. Without room for it, the engine reads what it need not.
    for (path, looked) in needless {
        if let Err(error) = take_out(&path, looked) {
            tracing::warn!(%error, path = %path.display(), "the journal could not be shortened: this start takes longer");
            left += looked.needless as u64;
        }
    }
    checkpoint::forget(directory).map_err(failed)?;
    Ok(left)
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

/// What was found in a journal: up to where whole batches follow one another, and up to where they are in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looked {
    whole: usize,
    needless: usize,
}

/// `is_followed`: something whole is in a later one. `first`: the first batch that may not be in tables.
fn mend_journal(directory: &Path, name: &str, is_followed: bool, first: u64) -> Result<Looked, StoreError> {
    let path = directory.join(name);
    let failed = |error: io::Error| local(&path, &error);
    let journal = written(&path).map_err(failed)?;
    let looked = look_through(&journal, first);
    let whole = looked.whole;
    let rest = &journal[whole..];
    if rest.is_empty() {
        return Ok(looked);
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
    Ok(looked)
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

fn look_through(journal: &[u8], first: u64) -> Looked {
    let (mut looked, mut last) = (Looked { whole: 0, needless: 0 }, None);
    while let (Some(length), _) = batch(&journal[looked.whole..]) {
        let number = number(&journal[looked.whole..]);
        // Numbers are not in any sum: one that does not follow the one before is not to be trusted.
        if looked.needless == looked.whole && number < Some(first) && number > last {
            looked.needless += length;
        }
        looked.whole += length;
        last = number;
    }
    looked
}

/// The number of the batch that comes first.
fn number(bytes: &[u8]) -> Option<u64> {
    bytes.get(size_of::<u8>() + size_of::<u32>()..)?.first_chunk().map(|number| u64::from_le_bytes(*number))
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

/// Leaves of a journal what is not in tables. The engine wants the file to be there, also with nothing in it.
fn take_out(path: &Path, looked: Looked) -> io::Result<()> {
    let (new, mut journal) = (path.with_extension("new"), File::open(path)?);
    journal.seek(SeekFrom::Start(looked.needless as u64))?;
    let rest = journal.take((looked.whole - looked.needless) as u64);
    if let Err(error) = write_whole(&new, rest).and_then(|()| fs::rename(&new, path)) {
        let _ = fs::remove_file(new);
        return Err(error);
    }
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

fn write_whole(path: &Path, mut from: impl Read) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::copy(&mut from, &mut file)?;
    file.sync_all()
}

fn cut(path: &Path, length: usize) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(length as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
