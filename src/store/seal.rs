//! Values under a seal: whoever can write to a shared store, and does not know the secret, can neither forge an event that is done
//! nor have a letter of its own delivered.
//!
//! `2|TAG|VALUE`: the tag is a MAC over the name of the cell and the value, so that a value cannot be moved to another cell either.
//! A letter's is over its content, its event's cell and its line; what scripts write on it (attempts, times, marks) is not under it.
//! A value without the right seal is somebody else's: never taken for done, and never for free. So is a sealed one where
//! there is no secret. Against deleting a value, or putting an older one of the same cell back, a seal is no help.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::backlog::{
    Appended, Backlog, Filed, Finished, Holding, Lane, Letter, LetterId, NewLetter, Revived, Room, Slip, TakeTerms, Taken, Tally,
};
use super::cells::{Cells, Change, Cursor, Held, Step, StoreError, StoreErrorKind, Swapped};
use super::entry::Entry;
use crate::config::Secret;
use crate::pipeline::identify::EventKey;

/// What a sealed value begins with; no other value does.
const SEALED: &[u8] = b"2|";
/// Half of a SHA-256, and as it is written.
const TAG_BYTES: usize = 16;
const WRITTEN: usize = 22;
const HEAD: usize = SEALED.len() + WRITTEN + 1;
/// Stands for a value that is not ours where that matters less than what was done: nothing reads it as one that is.
const SOMEBODY_ELSES: Bytes = Bytes::from_static(b"?");

/// Makes seals and knows them again.
#[derive(Clone)]
pub struct Seal(Hmac<Sha256>);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Seal {
    pub fn new(secret: &Secret) -> Result<Self, StoreError> {
        let keyed = Hmac::new_from_slice(secret.bytes()).map_err(|error| StoreError::new(StoreErrorKind::Local, error))?;
        Ok(Self(keyed))
    }

    fn tag(&self, places: &[&str], value: &[u8]) -> [u8; TAG_BYTES] {
        let mut state = self.0.clone();
        state.update(&(places.len() as u64).to_be_bytes());
        for place in places {
            state.update(&(place.len() as u64).to_be_bytes());
            state.update(place.as_bytes());
        }
        state.update(value);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&state.finalize().into_bytes()[..TAG_BYTES]);
        tag
    }

    fn close(&self, places: &[&str], value: &[u8]) -> Bytes {
        let mut sealed = Vec::with_capacity(HEAD + value.len());
        sealed.extend_from_slice(SEALED);
        sealed.extend_from_slice(BASE64URL_NOPAD.encode(&self.tag(places, value)).as_bytes());
        sealed.push(b'|');
        sealed.extend_from_slice(value);
        sealed.into()
    }

    fn open(&self, places: &[&str], sealed: &Bytes) -> Option<Bytes> {
        let written = sealed.strip_prefix(SEALED)?.get(..WRITTEN)?;
        let tag = BASE64URL_NOPAD.decode(written).ok()?;
        let value = (sealed.get(HEAD - 1) == Some(&b'|')).then(|| sealed.slice(HEAD..))?;
        bool::from(self.tag(places, &value).ct_eq(tag.as_slice())).then_some(value)
    }
}

/// Cells whose values are under a seal, where there is one.
#[derive(Clone, Debug)]
pub struct Sealed<C> {
    cells: C,
    seal: Option<Arc<Seal>>,
}

impl<C> From<C> for Sealed<C> {
    fn from(cells: C) -> Self {
        Self { cells, seal: None }
    }
}

impl<C> Sealed<C> {
    pub fn new(cells: C, seal: Option<Arc<Seal>>) -> Self {
        Self { cells, seal }
    }

    /// The cells themselves, as they are stored.
    pub fn inner(&self) -> &C {
        &self.cells
    }

    fn close(&self, key: &str, value: Bytes) -> Bytes {
        match &self.seal {
            Some(seal) => seal.close(&[key], &value),
            None => value,
        }
    }

    fn open(&self, key: &str, stored: Bytes) -> Result<Bytes, StoreError> {
        self.open_at(&[key], stored)
    }

    fn open_at(&self, places: &[&str], stored: Bytes) -> Result<Bytes, StoreError> {
        let foreign = |what| Err(StoreError::new(StoreErrorKind::Foreign, what));
        match &self.seal {
            Some(seal) => seal.open(places, &stored).map_or_else(
                || {
                    foreign(
                        "the key holds a value without our seal: store.seal differs between instances, or somebody else wrote it",
                    )
                },
                Ok,
            ),
            None if stored.starts_with(SEALED) => {
                foreign("the key holds a value under a seal: store.seal is not set here, and is where it was written")
            }
            None => Ok(stored),
        }
    }

    /// What a cell held that is written by now.
    fn open_former(&self, key: &str, stored: Option<Bytes>) -> Option<Bytes> {
        stored.map(|stored| self.open(key, stored).unwrap_or(SOMEBODY_ELSES))
    }

    fn close_content(&self, letter: &NewLetter, lane: &Lane) -> Bytes {
        let cell = letter.cell.as_ref().map(|cell| &cell.key);
        match &self.seal {
            Some(seal) => seal.close(&places(&name_of(lane, letter.id), cell, letter.line.as_deref()), &letter.content),
            None => letter.content.clone(),
        }
    }

    fn open_content(
        &self,
        lane: &Lane,
        id: LetterId,
        cell: Option<&EventKey>,
        line: Option<&str>,
        content: Bytes,
    ) -> Result<Bytes, StoreError> {
        self.open_at(&places(&name_of(lane, id), cell, line), content)
    }

    /// Whether the event has been done without its letter, and truly so.
    fn is_done(&self, letter: &Letter) -> bool {
        let (Some(key), Some(held)) = (&letter.holding.cell, &letter.held) else { return false };
        let opened = self.open(key.as_str(), held.clone());
        opened.is_ok_and(|value| matches!(Entry::decode(&value), Some(Entry::Done(_))))
    }
}

fn name_of(lane: &Lane, id: LetterId) -> String {
    format!("{}:letter:{id}", lane.prefix())
}

/// What a letter's content belongs to: nobody may hang it on another event's cell.
fn places<'a>(name: &'a str, cell: Option<&'a EventKey>, line: Option<&'a str>) -> [&'a str; 3] {
    [name, cell.map(EventKey::as_str).unwrap_or_default(), line.unwrap_or_default()]
}

impl<C: Cells> Cells for Sealed<C> {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let held = self.cells.put_new(key, self.close(key, value), life).await?;
        held.map(|held| self.open(key, held)).transpose()
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let before = self.cells.put(key, self.close(key, value), life).await?;
        Ok(self.open_former(key, before))
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        let (from, to) = (self.close(key, change.from), self.close(key, change.to));
        Ok(match self.cells.swap(key, Change { from, to, ..change }).await? {
            Swapped::Differs(other) => Swapped::Differs(self.open_former(key, other)),
            swapped => swapped,
        })
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        self.cells.touch(key, self.close(key, value), life).await
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        let Some(Held { value, left }) = self.cells.read(key).await? else { return Ok(None) };
        Ok(Some(Held { value: self.open(key, value)?, left }))
    }

    /// What is not ours is left out, as everywhere.
    async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<Step, StoreError> {
        let Step { cells, next } = self.cells.walk(prefix, from).await?;
        let opened = cells.into_iter().filter_map(|(key, Held { value, left })| {
            let value = self.open(&key, value).ok()?;
            Some((key, Held { value, left }))
        });
        Ok(Step { cells: opened.collect(), next })
    }

    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        self.cells.pulse(marker).await?.map(|value| self.open(marker, value)).transpose()
    }
}

impl<C: Cells + Backlog> Backlog for Sealed<C> {
    async fn append(&self, lane: &Lane, mut letter: NewLetter, room: Room) -> Result<Appended, StoreError> {
        letter.content = self.close_content(&letter, lane);
        let key = letter.cell.as_ref().map(|cell| cell.key.clone());
        if let Some(cell) = &mut letter.cell {
            cell.value = self.close(cell.key.as_str(), std::mem::take(&mut cell.value));
            if let Some(over) = &mut cell.over {
                over.value = self.close(cell.key.as_str(), std::mem::take(&mut over.value));
            }
        }
        match (self.cells.append(lane, letter, room).await?, key) {
            (Appended::Held(held), Some(key)) => self.open(key.as_str(), held).map(Appended::Held),
            (appended, _) => Ok(appended),
        }
    }

    /// A letter that was not written by us is not given out. It is not cleared away either: it may be that our secret is wrong.
    async fn take(&self, lane: &Lane, terms: TakeTerms) -> Result<Taken, StoreError> {
        let trusts_cells = terms.trusts_cells && self.seal.is_none();
        let Taken { letters, next, missing } = self.cells.take(lane, TakeTerms { trusts_cells, ..terms }).await?;
        let mut taken = Taken { letters: Vec::with_capacity(letters.len()), next, missing };
        for letter in letters {
            let Holding { id, cell, line, .. } = &letter.holding;
            match self.open_content(lane, *id, cell.as_ref(), line.as_deref(), letter.content.clone()) {
                Ok(_) if self.is_done(&letter) => {
                    let finished = Finished { id: *id, line: line.clone(), cell: None };
                    self.cells.finish(lane, finished).await?;
                }
                Ok(content) => taken.letters.push(Letter { content, held: None, ..letter }),
                Err(error) => {
                    let (provider, letter) = (lane.provider(), id);
                    tracing::error!(provider, %letter, %error, "a letter is not delivered: it is not one of ours");
                }
            }
        }
        Ok(taken)
    }

    async fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        self.cells.extend(lane, holding, lease).await
    }

    async fn finish(&self, lane: &Lane, mut finished: Finished) -> Result<Option<Bytes>, StoreError> {
        let key = finished.cell.as_ref().map(|(key, ..)| key.clone());
        if let Some((key, value, _)) = &mut finished.cell {
            *value = self.close(key.as_str(), std::mem::take(value));
        }
        let before = self.cells.finish(lane, finished).await?;
        Ok(key.and_then(|key| self.open_former(key.as_str(), before)))
    }

    async fn postpone(&self, lane: &Lane, holding: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        self.cells.postpone(lane, holding, slip, pause).await
    }

    async fn bury(&self, lane: &Lane, holding: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        self.cells.bury(lane, holding, slip, blocks).await
    }

    async fn revive(&self, lane: &Lane, id: LetterId, slip: Slip) -> Result<Revived, StoreError> {
        self.cells.revive(lane, id, slip).await
    }

    async fn letter(&self, lane: &Lane, id: LetterId) -> Result<Option<Filed>, StoreError> {
        let Some(mut filed) = self.cells.letter(lane, id).await? else { return Ok(None) };
        let content = std::mem::take(&mut filed.content);
        filed.content = self.open_content(lane, id, filed.cell.as_ref(), filed.line.as_deref(), content)?;
        Ok(Some(filed))
    }

    async fn list(&self, lane: &Lane, is_dead: bool, after: Option<LetterId>, most: usize) -> Result<Vec<Filed>, StoreError> {
        self.cells.list(lane, is_dead, after, most).await
    }

    async fn tally(&self, lane: &Lane) -> Result<Tally, StoreError> {
        self.cells.tally(lane).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(secret: &str) -> Seal {
        Seal::new(&Secret::new(secret)).unwrap()
    }

    #[test]
    fn a_seal_holds_for_its_value_in_its_place_and_nothing_else() {
        let (ours, value) = (seal("0123456789abcdef"), Bytes::from_static(b"1d|200|1"));
        let sealed = ours.close(&["a:b:c"], &value);
        assert_eq!((sealed.len(), ours.open(&["a:b:c"], &sealed)), (HEAD + value.len(), Some(value.clone())));
        assert_eq!(ours.open(&["a:b:d"], &sealed), None, "in another cell");
        assert_eq!(ours.open(&["a:b", ":c"], &sealed), None, "cut in another way");
        assert_eq!(seal("another secret of ours").open(&["a:b:c"], &sealed), None);
        for position in 0..sealed.len() {
            let mut altered = sealed.to_vec();
            altered[position] ^= 1;
            assert_eq!(ours.open(&["a:b:c"], &altered.into()), None, "{position}");
        }
        for cut in 0..sealed.len() {
            assert_eq!(ours.open(&["a:b:c"], &sealed.slice(..cut)), None, "{cut}");
        }
        assert_eq!(ours.open(&["a:b:c"], &value), None, "without a seal");
        assert_eq!(format!("{ours:?}"), "Seal(..)");
    }

    #[test]
    fn a_sealed_value_is_no_entry_to_who_has_no_seal() {
        let sealed = seal("0123456789abcdef").close(&["a"], b"1d|200|1|00000000000000000000000000000000|1\ntext\nbody");
        assert_eq!(Entry::decode(&sealed), None);
        let error = Sealed::from(()).open("a", sealed).unwrap_err();
        assert!(error.kind == StoreErrorKind::Foreign && error.to_string().contains("store.seal"), "{error}");
    }
}
