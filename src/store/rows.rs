//! A lane as rows of an ordered table, for stores that decide in this process. Whoever calls has the table to itself.
//!
//! ```text
//!   LANE 0 c ID        content
//!   LANE 0 d TIME ID   due then                       LANE 0 l LINE 0 NUMBER   the letters of a line, in order
//!   LANE 0 s ID        note: slip, lease, place       LANE 0 t                 what the lane holds
//!   LANE 0 x ID        the same of a dead letter
//! ```

use std::time::Duration;

use bytes::Bytes;

use super::backlog::{
    Appended, CellOf, Filed, Finished, Holding, Lane, Letter, LetterId, NewLetter, Revived, Room, Shortage, Slip, TakeTerms,
    Taken, Tally,
};
use super::cells::{Change, FOR_EVER, Held, StoreError, StoreErrorKind, Swapped};
use super::entry::{Entry, Mark, Token, millis, optional, time, word};
use crate::pipeline::identify::EventKey;

/// An ordered table, and the cells beside it.
pub(super) trait Rows {
    fn row(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;
    fn put_row(&mut self, key: Vec<u8>, value: Bytes);
    fn remove_row(&mut self, key: Vec<u8>);
    /// The first row at `from` or after it, before `until`.
    fn first_row(&self, from: &[u8], until: &[u8]) -> Result<Option<(Vec<u8>, Bytes)>, StoreError>;
    fn cell(&self, key: &str) -> Result<Option<Held>, StoreError>;
    fn put_cell(&mut self, key: &str, value: Bytes, life: Duration) -> Result<(), StoreError>;
    /// Milliseconds, by the store's clock.
    fn now(&self) -> u64;
}

/// What is kept of a letter beside its content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    slip: Slip,
    /// Whoever has it out.
    token: Option<Token>,
    /// When it is due, or its lease ends. `None` where others of its line come first, and for dead ones.
    due: Option<u64>,
    cell: Option<EventKey>,
    line: Option<Place>,
    bytes: u64,
}

/// A letter's place in its line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    line: String,
    number: u64,
}

/// The counts of a lane, and the number that the next letter of any line gets.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    letters: u64,
    bytes: u64,
    dead: u64,
    dead_bytes: u64,
    next: u64,
}

/// One lane of a table.
pub(super) struct LaneRows<'r, R> {
    rows: &'r mut R,
    name: Vec<u8>,
}

impl<'r, R: Rows> LaneRows<'r, R> {
    pub fn new(rows: &'r mut R, lane: &Lane) -> Self {
        Self { rows, name: lane.prefix().into_bytes() }
    }

    pub fn append(&mut self, letter: NewLetter, room: Room) -> Result<Appended, StoreError> {
        if let Some(cell) = &letter.cell {
            match self.judge_cell(cell)? {
                Swapped::Written => {}
                Swapped::Differs(held) => return Ok(held.map_or(Appended::Added, Appended::Held)),
                Swapped::Young(left) => return Ok(Appended::Young(left)),
            }
        }
        // Sent again, because the answer was lost. A letter without a cell can be told by its name alone.
        if self.note(b's', letter.id)?.is_some() {
            return Ok(Appended::Added);
        }
        let (mut counts, bytes) = (self.counts()?, letter.content.len() as u64);
        let shortage = [
            (counts.letters + 1 > room.letters, Shortage::Letters),
            (counts.bytes + bytes > room.bytes, Shortage::Bytes),
            (counts.dead_bytes >= room.dead_bytes && counts.dead > 0, Shortage::DeadBytes),
        ];
        if let Some((_, shortage)) = shortage.into_iter().find(|(is_short, _)| *is_short) {
            return Ok(Appended::Full(shortage));
        }
        let line = letter.line.map(|line| Place { line, number: counts.next });
        counts.next += 1;
        (counts.letters, counts.bytes) = (counts.letters + 1, counts.bytes + bytes);
        let cell = letter.cell.as_ref().map(|cell| cell.key.clone());
        let mut note = Note { slip: letter.slip, token: None, due: None, cell, line, bytes };
        self.join(letter.id, &mut note)?;
        self.put_note(b's', letter.id, &note);
        self.rows.put_row(self.key(b'c', letter.id.bytes()), letter.content);
        self.put_counts(&counts);
        if let Some(cell) = letter.cell {
            self.rows.put_cell(cell.key.as_str(), cell.value, FOR_EVER)?;
        }
        Ok(Appended::Added)
    }

    pub fn take(&mut self, terms: TakeTerms) -> Result<Taken, StoreError> {
        let (now, mut taken, mut bytes) = (self.rows.now(), Taken::default(), 0);
        while let Some((due, id)) = self.first_due()? {
            if due > now || taken.letters.len() == terms.most || bytes >= terms.bytes {
                taken.next = Some(Duration::from_millis(due.saturating_sub(now)));
                break;
            }
            let Ok(Some(mut note)) = self.note(b's', id) else {
                // Written by a later version, perhaps: it holds nobody up, and is looked at again.
                self.rows.remove_row(self.due_key(due, id));
                self.rows.put_row(self.due_key(self.after(terms.lease), id), Bytes::new());
                taken.missing += 1;
                continue;
            };
            if terms.trusts_cells && self.is_done(&note)? {
                self.remove(b's', id, &note)?;
                continue;
            }
            if note.token.is_some() {
                note.slip.doubt = note.slip.doubt.or(Some(Mark::Unknown));
            }
            note.slip.attempt += 1;
            note.token = Some(terms.token);
            self.set_due(id, &mut note, Some(self.after(terms.lease)));
            self.put_note(b's', id, &note);
            let content = self.rows.row(&self.key(b'c', id.bytes()))?.unwrap_or_default();
            let held = match &note.cell {
                Some(key) if !terms.trusts_cells => self.rows.cell(key.as_str())?.map(|held| held.value),
                _ => None,
            };
            bytes += note.bytes;
            let line = note.line.map(|place| place.line);
            let holding = Holding { id, token: terms.token, cell: note.cell, line };
            taken.letters.push(Letter { holding, slip: note.slip, content, held });
        }
        Ok(taken)
    }

    pub fn extend(&mut self, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        let Some(mut note) = self.own(holding)? else { return Ok(false) };
        let due = self.after(lease);
        self.set_due(holding.id, &mut note, Some(due));
        self.put_note(b's', holding.id, &note);
        Ok(true)
    }

    pub fn finish(&mut self, finished: Finished) -> Result<Option<Bytes>, StoreError> {
        for state in *b"sx" {
            if let Some(note) = self.note(state, finished.id)? {
                self.remove(state, finished.id, &note)?;
            }
        }
        let Some((key, value, life)) = finished.cell else { return Ok(None) };
        let before = self.rows.cell(key.as_str())?.map(|held| held.value);
        self.rows.put_cell(key.as_str(), value, life)?;
        Ok(before)
    }

    pub fn postpone(&mut self, holding: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        let Some(mut note) = self.own(holding)? else { return Ok(false) };
        (note.slip, note.token) = (slip, None);
        let due = if pause.is_zero() { self.rows.now() } else { self.after(pause) };
        self.set_due(holding.id, &mut note, Some(due));
        self.put_note(b's', holding.id, &note);
        Ok(true)
    }

    pub fn bury(&mut self, holding: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        let Some(mut note) = self.own(holding)? else { return Ok(false) };
        (note.slip, note.token) = (slip, None);
        self.set_due(holding.id, &mut note, None);
        if !blocks {
            self.leave(&mut note)?;
        }
        self.rows.remove_row(self.key(b's', holding.id.bytes()));
        self.put_note(b'x', holding.id, &note);
        let mut counts = self.counts()?;
        (counts.letters, counts.bytes) = (counts.letters.saturating_sub(1), counts.bytes.saturating_sub(note.bytes));
        (counts.dead, counts.dead_bytes) = (counts.dead + 1, counts.dead_bytes + note.bytes);
        self.put_counts(&counts);
        Ok(true)
    }

    pub fn revive(&mut self, id: LetterId, slip: Slip) -> Result<Revived, StoreError> {
        if let Some(mut note) = self.note(b's', id)? {
            if note.token.is_some() && note.due.is_some_and(|due| due > self.rows.now()) {
                return Ok(Revived::Out);
            }
            (note.slip, note.token) = (slip, None);
            // One that waits for others of its line goes on waiting.
            if note.due.is_some() {
                let now = self.rows.now();
                self.set_due(id, &mut note, Some(now));
            }
            self.put_note(b's', id, &note);
            return Ok(Revived::Revived);
        }
        let Some(mut note) = self.note(b'x', id)? else { return Ok(Revived::Absent) };
        note.slip = slip;
        let mut counts = self.counts()?;
        (counts.letters, counts.bytes) = (counts.letters + 1, counts.bytes + note.bytes);
        (counts.dead, counts.dead_bytes) = (counts.dead.saturating_sub(1), counts.dead_bytes.saturating_sub(note.bytes));
        // Its turn is over unless it has kept its place: it is the last of its line now.
        if let Some(place) = note.line.as_mut()
            && self.rows.row(&line_key(&self.name, place))?.is_none()
        {
            place.number = counts.next;
            counts.next += 1;
        }
        self.join(id, &mut note)?;
        self.rows.remove_row(self.key(b'x', id.bytes()));
        self.put_note(b's', id, &note);
        self.put_counts(&counts);
        Ok(Revived::Revived)
    }

    pub fn letter(&self, id: LetterId) -> Result<Option<Filed>, StoreError> {
        for state in *b"sx" {
            if let Some(note) = self.note(state, id)? {
                let content = self.rows.row(&self.key(b'c', id.bytes()))?.unwrap_or_default();
                return Ok(Some(Filed { content, ..self.filed(state, id, note) }));
            }
        }
        Ok(None)
    }

    pub fn list(&self, is_dead: bool, after: Option<LetterId>, most: usize) -> Result<Vec<Filed>, StoreError> {
        let state = if is_dead { b'x' } else { b's' };
        let until = self.key(state + 1, &[]);
        let mut from = match after {
            Some(id) => successor(self.key(state, id.bytes())),
            None => self.key(state, &[]),
        };
        let mut listed = Vec::new();
        while listed.len() < most
            && let Some((key, value)) = self.rows.first_row(&from, &until)?
        {
            let id = self.id_of(&key)?;
            listed.push(self.filed(state, id, Note::decode(&value)?));
            from = successor(key);
        }
        Ok(listed)
    }

    pub fn tally(&self) -> Result<Tally, StoreError> {
        let Counts { letters, bytes, dead, dead_bytes, .. } = self.counts()?;
        let oldest = self.list(false, None, 1)?.pop().map(|filed| filed.slip.queued_at);
        Ok(Tally { letters, bytes, dead, dead_bytes, oldest })
    }

    /// The millisecond that has begun counts for nothing: no lease, and no pause, ends early.
    fn after(&self, pause: Duration) -> u64 {
        self.rows.now() + ms(pause) + 1
    }

    /// `Differs(None)`: it holds what is to be written.
    fn judge_cell(&self, cell: &CellOf) -> Result<Swapped, StoreError> {
        let Some(held) = self.rows.cell(cell.key.as_str())? else { return Ok(Swapped::Written) };
        if held.value == cell.value {
            return Ok(Swapped::Differs(None));
        }
        let Some(over) = &cell.over else { return Ok(Swapped::Differs(Some(held.value))) };
        let change = Change { from: over.value.clone(), to: cell.value.clone(), life: FOR_EVER, at_age: over.at_age };
        Ok(change.judge(Some(held)))
    }

    /// Whether the event has been done without its letter.
    fn is_done(&self, note: &Note) -> Result<bool, StoreError> {
        let Some(key) = &note.cell else { return Ok(false) };
        let held = self.rows.cell(key.as_str())?;
        Ok(held.is_some_and(|held| matches!(Entry::decode(&held.value), Some(Entry::Done(_)))))
    }

    /// The note of a letter that is out and the caller's.
    fn own(&self, holding: &Holding) -> Result<Option<Note>, StoreError> {
        Ok(self.note(b's', holding.id)?.filter(|note| note.token == Some(holding.token)))
    }

    /// Takes its place in its line, if it has one, and is due if it is the first.
    fn join(&mut self, id: LetterId, note: &mut Note) -> Result<(), StoreError> {
        let now = self.rows.now();
        let Some(place) = &note.line else {
            self.set_due(id, note, Some(now));
            return Ok(());
        };
        self.rows.put_row(line_key(&self.name, place), Bytes::copy_from_slice(id.bytes()));
        let first = self.first_of(&place.line.clone())?;
        if first == Some(id) {
            self.set_due(id, note, Some(now));
        }
        Ok(())
    }

    /// Leaves its place in its line to the next.
    fn leave(&mut self, note: &mut Note) -> Result<(), StoreError> {
        let Some(place) = &note.line else { return Ok(()) };
        self.rows.remove_row(line_key(&self.name, place));
        let Some(next) = self.first_of(&place.line)? else { return Ok(()) };
        // One that was the first already is due or out, and dead ones that keep their place block it.
        if let Some(mut note) = self.note(b's', next)?
            && note.due.is_none()
        {
            let now = self.rows.now();
            self.set_due(next, &mut note, Some(now));
            self.put_note(b's', next, &note);
        }
        Ok(())
    }

    fn first_of(&self, line: &str) -> Result<Option<LetterId>, StoreError> {
        let from = line_key(&self.name, &Place { line: line.to_owned(), number: 0 });
        let until = line_key(&self.name, &Place { line: line.to_owned(), number: u64::MAX });
        let first = self.rows.first_row(&from, &until)?;
        Ok(first.and_then(|(_, id)| LetterId::of_bytes(&id)))
    }

    /// Clears a letter away.
    fn remove(&mut self, state: u8, id: LetterId, note: &Note) -> Result<(), StoreError> {
        let mut note = note.clone();
        self.set_due(id, &mut note, None);
        self.leave(&mut note)?;
        self.rows.remove_row(self.key(state, id.bytes()));
        self.rows.remove_row(self.key(b'c', id.bytes()));
        let mut counts = self.counts()?;
        let (letters, bytes) =
            if state == b's' { (&mut counts.letters, &mut counts.bytes) } else { (&mut counts.dead, &mut counts.dead_bytes) };
        (*letters, *bytes) = (letters.saturating_sub(1), bytes.saturating_sub(note.bytes));
        self.put_counts(&counts);
        Ok(())
    }

    fn set_due(&mut self, id: LetterId, note: &mut Note, due: Option<u64>) {
        if let Some(before) = note.due {
            self.rows.remove_row(self.due_key(before, id));
        }
        if let Some(due) = due {
            self.rows.put_row(self.due_key(due, id), Bytes::new());
        }
        note.due = due;
    }

    fn first_due(&self) -> Result<Option<(u64, LetterId)>, StoreError> {
        let (from, until) = (self.key(b'd', &[]), self.key(b'd' + 1, &[]));
        let Some((key, _)) = self.rows.first_row(&from, &until)? else { return Ok(None) };
        let rest = &key[from.len()..];
        let due = rest.first_chunk().map(|due| u64::from_be_bytes(*due));
        let id = rest.get(8..).and_then(LetterId::of_bytes);
        due.zip(id).map(Some).ok_or_else(unreadable)
    }

    fn note(&self, state: u8, id: LetterId) -> Result<Option<Note>, StoreError> {
        self.rows.row(&self.key(state, id.bytes()))?.map(|value| Note::decode(&value)).transpose()
    }

    fn put_note(&mut self, state: u8, id: LetterId, note: &Note) {
        self.rows.put_row(self.key(state, id.bytes()), note.encode());
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        let Some(stored) = self.rows.row(&self.key(b't', &[]))? else { return Ok(Counts::default()) };
        let text = std::str::from_utf8(&stored).unwrap_or_default();
        let mut numbers = text.split('|').map(|number| number.parse::<u64>().map_err(|_| unreadable()));
        let mut next = || numbers.next().unwrap_or_else(|| Err(unreadable()));
        Ok(Counts { letters: next()?, bytes: next()?, dead: next()?, dead_bytes: next()?, next: next()? })
    }

    fn put_counts(&mut self, counts: &Counts) {
        let Counts { letters, bytes, dead, dead_bytes, next } = counts;
        let text = format!("{letters}|{bytes}|{dead}|{dead_bytes}|{next}");
        self.rows.put_row(self.key(b't', &[]), text.into());
    }

    fn filed(&self, state: u8, id: LetterId, note: Note) -> Filed {
        let due_in = note.due.map(|due| Duration::from_millis(due.saturating_sub(self.rows.now())));
        let is_out = note.token.is_some() && due_in.is_some_and(|left| !left.is_zero());
        let Note { slip, cell, line, bytes, .. } = note;
        let line = line.map(|place| place.line);
        Filed { id, slip, cell, line, is_dead: state == b'x', is_out, due_in, bytes, content: Bytes::new() }
    }

    fn id_of(&self, key: &[u8]) -> Result<LetterId, StoreError> {
        key.get(self.name.len() + 2..).and_then(LetterId::of_bytes).ok_or_else(unreadable)
    }

    fn key(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        [&self.name, &[0, kind][..], rest].concat()
    }

    fn due_key(&self, due: u64, id: LetterId) -> Vec<u8> {
        self.key(b'd', &[&due.to_be_bytes()[..], id.bytes()].concat())
    }
}

fn line_key(lane: &[u8], place: &Place) -> Vec<u8> {
    [lane, &[0, b'l'], place.line.as_bytes(), &[0], &place.number.to_be_bytes()].concat()
}

/// The first key after this one.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}

fn unreadable() -> StoreError {
    StoreError::new(StoreErrorKind::Foreign, "a row of the queue is not one of ours")
}

impl Note {
    fn encode(&self) -> Bytes {
        let Self { slip: Slip { attempt, doubt, status, queued_at }, token, due, cell, line, bytes } = self;
        let (token, due) = (shown(token.as_ref()), shown(due.as_ref()));
        let number = line.as_ref().map(|place| place.number);
        let line = line.as_ref().map(|place| place.line.as_str()).unwrap_or_default();
        let cell = cell.as_ref().map(EventKey::as_str).unwrap_or_default();
        let (doubt, status, number, queued_at) =
            (word(*doubt), shown(status.as_ref()), shown(number.as_ref()), millis(*queued_at));
        format!("1|{attempt}|{doubt}|{status}|{queued_at}|{token}|{due}|{bytes}|{number}|{line}|{cell}").into()
    }

    fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let read = || {
            let mut fields = std::str::from_utf8(value).ok()?.splitn(11, '|');
            let mut next = || fields.next();
            if next()? != "1" {
                return None;
            }
            let attempt = next()?.parse().ok()?;
            let doubt = super::entry::doubt_of_slip(next()?);
            let status = optional(next()?, |text| text.parse().ok())?;
            let queued_at = time(next()?)?;
            let token = optional(next()?, Token::parse)?;
            let due = optional(next()?, |text| text.parse().ok())?;
            let bytes = next()?.parse().ok()?;
            let number: Option<u64> = optional(next()?, |text| text.parse().ok())?;
            let line = next()?.to_owned();
            let cell = Some(next()?).filter(|cell| !cell.is_empty()).map(EventKey::stored);
            let line = number.map(|number| Place { line, number });
            Some(Self { slip: Slip { attempt, doubt, status, queued_at }, token, due, cell, line, bytes })
        };
        read().ok_or_else(unreadable)
    }
}

fn shown<T: ToString>(value: Option<&T>) -> String {
    value.map(T::to_string).unwrap_or_default()
}
