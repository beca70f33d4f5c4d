//! Letters in Redis: each operation is one script on one lane.

use std::time::Duration;

use bytes::Bytes;
use redis::{FromRedisValue, ParsingError, Value};

use super::call::Call;
use super::letters::{APPEND, BURY, EXTEND, FINISH, LETTER, LIST, POSTPONE, REVIVE, TAKE, TALLY};
use super::link::To;
use super::scripts::Forms;
use super::{RedisCells, millis, read, seconds};
use crate::pipeline::identify::EventKey;
use crate::store::backlog::{
    Appended, Backlog, Filed, Finished, Holding, Lane, Letter, LetterId, NewLetter, Revived, Room, Shortage, Slip, TakeTerms,
    Taken, Tally,
};
use crate::store::cells::{StoreError, StoreErrorKind};
use crate::store::entry::{self, word};

/// The keys of a lane.
struct Keys {
    prefix: String,
    fixed: [String; 4],
}

impl Keys {
    fn of(lane: &Lane) -> Self {
        let prefix = lane.prefix();
        let fixed = ["due", "old", "dead", "tally"].map(|name| format!("{prefix}:{name}"));
        Self { prefix, fixed }
    }

    fn letter(&self, id: LetterId) -> String {
        format!("{}:letter:{id}", self.prefix)
    }

    /// The list of a line. Where there is none, a key that is there in any case: a script is told all that it may touch.
    fn line_or_first(&self, line: Option<&str>) -> String {
        line.map_or_else(|| self.first().to_owned(), |line| format!("{}:line:{line}", self.prefix))
    }

    /// The script on the fixed keys and these.
    fn call(&self, form: &'static super::call::Lua, more: &[&str]) -> Call {
        let keys: Vec<&str> = self.fixed.iter().map(String::as_str).chain(more.iter().copied()).collect();
        form.over(&keys).arg(&self.prefix)
    }

    fn first(&self) -> &str {
        &self.fixed[0]
    }
}

impl RedisCells {
    /// What only adds finds no room on a full server; whatever else is done takes less room than it frees, or little.
    async fn settle_letter<T: FromRedisValue>(
        &self,
        keys: &Keys,
        forms: &'static Forms,
        call: impl Fn(&'static super::call::Lua) -> Call,
    ) -> Result<T, StoreError> {
        let deadline = self.deadline();
        let answer = self.ask(To::Key(keys.first()), call(&forms.plain), deadline).await;
        self.ask_when_full(answer, keys.first(), || call(&forms.when_full), deadline).await
    }
}

fn with_slip(call: Call, slip: &Slip) -> Call {
    let status = slip.status.map(|status| status.to_string()).unwrap_or_default();
    call.arg(slip.attempt).arg(word(slip.doubt)).arg(status).arg(entry::millis(slip.queued_at).to_string())
}

impl Backlog for RedisCells {
    async fn append(&self, lane: &Lane, letter: NewLetter, room: Room) -> Result<Appended, StoreError> {
        let keys = Keys::of(lane);
        let line_key = keys.line_or_first(letter.line.as_deref());
        let cell_key = letter.cell.as_ref().map(|cell| cell.key.as_str()).unwrap_or(keys.first());
        let own = keys.letter(letter.id);
        let call = keys.call(&APPEND.plain, &[&own, cell_key, &line_key]);
        let call = with_slip(call.arg(letter.id.to_string()).arg(&letter.content[..]), &letter.slip);
        let call = call.arg(letter.line.as_deref().unwrap_or_default());
        let call = match &letter.cell {
            None => call.arg("").arg("").arg("").arg("").arg(""),
            Some(cell) => {
                let call = call.arg(cell.key.as_str()).arg(&cell.value[..]);
                let call = call.arg(cell.over.as_ref().map(|over| &over.value[..]).unwrap_or_default());
                match cell.over.as_ref().and_then(|over| over.at_age) {
                    Some(age) => call.arg(millis(age.life)).arg(millis(age.least)),
                    None => call.arg("").arg(""),
                }
            }
        };
        let call = call.arg(room.letters).arg(room.bytes).arg(room.dead_bytes);
        let answer: Vec<Value> = self.ask(To::Key(keys.first()), call, self.deadline()).await?;
        let mut answer = answer.into_iter();
        let (code, rest) = (answer.next().unwrap_or(Value::Nil), answer.next().unwrap_or(Value::Nil));
        Ok(match read::<u8>(code)? {
            0 => Appended::Added,
            1 => Appended::Held(read(rest)?),
            2 => Appended::Young(Duration::from_millis(read(rest)?)),
            _ => Appended::Full(match read::<u8>(rest)? {
                0 => Shortage::Letters,
                1 => Shortage::Bytes,
                _ => Shortage::DeadBytes,
            }),
        })
    }

    async fn take(&self, lane: &Lane, terms: TakeTerms) -> Result<Taken, StoreError> {
        let keys = Keys::of(lane);
        let call_key = format!("{}:take:{}", keys.prefix, terms.token);
        let (letters, next, missing): (Vec<TakenLetter>, i64, u64) = self
            .settle_letter(&keys, &TAKE, |form| {
                let call = keys.call(form, &[&call_key]).arg(millis(terms.lease));
                call.arg(terms.most)
                    .arg(terms.bytes)
                    .arg(terms.token.to_string())
                    .arg(millis(self.budget * 2))
                    .arg(u8::from(terms.trusts_cells))
            })
            .await?;
        let letters = letters.into_iter().map(|TakenLetter { id, content, slip, cell, line, held }| Letter {
            holding: Holding { id, token: terms.token, cell, line },
            slip,
            content,
            held,
        });
        Ok(Taken { letters: letters.collect(), next: u64::try_from(next).ok().map(Duration::from_millis), missing })
    }

    async fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        let keys = Keys::of(lane);
        let letter = keys.letter(holding.id);
        self.settle_letter(&keys, &EXTEND, |form| {
            keys.call(form, &[&letter]).arg(holding.id.to_string()).arg(holding.token.to_string()).arg(millis(lease))
        })
        .await
    }

    async fn finish(&self, lane: &Lane, finished: Finished) -> Result<Option<Bytes>, StoreError> {
        let keys = Keys::of(lane);
        let letter = keys.letter(finished.id);
        let cell_key = finished.cell.as_ref().map_or(keys.first(), |(key, ..)| key.as_str());
        let line_key = keys.line_or_first(finished.line.as_deref());
        self.settle_letter(&keys, &FINISH, |form| {
            let call = keys.call(form, &[&letter, cell_key, &line_key]).arg(finished.id.to_string());
            match &finished.cell {
                Some((_, value, life)) => call.arg(&value[..]).arg(seconds(*life)),
                None => call.arg("").arg(""),
            }
        })
        .await
    }

    async fn postpone(&self, lane: &Lane, holding: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        let keys = Keys::of(lane);
        let letter = keys.letter(holding.id);
        self.settle_letter(&keys, &POSTPONE, |form| {
            let call = keys.call(form, &[&letter]).arg(holding.id.to_string()).arg(holding.token.to_string());
            with_slip(call, &slip).arg(millis(pause))
        })
        .await
    }

    async fn bury(&self, lane: &Lane, holding: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        let keys = Keys::of(lane);
        let letter = keys.letter(holding.id);
        let line_key = keys.line_or_first(holding.line.as_deref());
        self.settle_letter(&keys, &BURY, |form| {
            let call = keys.call(form, &[&letter, &line_key]).arg(holding.id.to_string()).arg(holding.token.to_string());
            with_slip(call, &slip).arg(u8::from(blocks))
        })
        .await
    }

    async fn revive(&self, lane: &Lane, id: LetterId, slip: Slip) -> Result<Revived, StoreError> {
        let keys = Keys::of(lane);
        let letter = keys.letter(id);
        let code: u8 =
            self.settle_letter(&keys, &REVIVE, |form| with_slip(keys.call(form, &[&letter]).arg(id.to_string()), &slip)).await?;
        Ok(match code {
            0 => Revived::Revived,
            1 => Revived::Absent,
            _ => Revived::Out,
        })
    }

    async fn letter(&self, lane: &Lane, id: LetterId) -> Result<Option<Filed>, StoreError> {
        let keys = Keys::of(lane);
        let call = keys.call(&LETTER.plain, &[&keys.letter(id)]).arg(id.to_string());
        let found: Option<FiledLetter> = self.ask(To::Key(keys.first()), call, self.deadline()).await?;
        Ok(found.map(|found| found.0))
    }

    async fn list(&self, lane: &Lane, is_dead: bool, after: Option<LetterId>, most: usize) -> Result<Vec<Filed>, StoreError> {
        let keys = Keys::of(lane);
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let call = keys.call(&LIST.plain, &[]).arg(u8::from(is_dead)).arg(after).arg(most);
        let found: Vec<FiledLetter> = self.ask(To::Key(keys.first()), call, self.deadline()).await?;
        Ok(found.into_iter().map(|found| found.0).collect())
    }

    async fn tally(&self, lane: &Lane) -> Result<Tally, StoreError> {
        let keys = Keys::of(lane);
        let call = keys.call(&TALLY.plain, &[]);
        let (letters, bytes, dead, dead_bytes, oldest): (u64, u64, u64, u64, String) =
            self.ask(To::Key(keys.first()), call, self.deadline()).await?;
        let oldest = entry::optional(&oldest, entry::time).ok_or_else(|| foreign("a letter's time"))?;
        Ok(Tally { letters, bytes, dead, dead_bytes, oldest })
    }
}

fn foreign(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Foreign, format!("{what} is not one of ours"))
}

/// `{id, content, attempt, doubt, status, queued at, cell, line, what the cell holds}`.
struct TakenLetter {
    id: LetterId,
    content: Bytes,
    slip: Slip,
    cell: Option<EventKey>,
    line: Option<String>,
    held: Option<Bytes>,
}

/// `{id, due in ms, attempt, doubt, status, queued at, cell, line, token, bytes, dead, content}`.
struct FiledLetter(Filed);

/// The fields of an answer, one after the other.
struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    fn of(value: Value) -> Result<Self, ParsingError> {
        Ok(Self(Vec::<Value>::from_redis_value(value)?.into_iter()))
    }

    fn next<T: FromRedisValue>(&mut self) -> Result<T, ParsingError> {
        T::from_redis_value(self.0.next().unwrap_or(Value::Nil))
    }

    fn id(&mut self) -> Result<LetterId, ParsingError> {
        LetterId::parse(&self.next::<String>()?).ok_or_else(|| "a letter's name is not one of ours".into())
    }

    fn slip(&mut self) -> Result<Slip, ParsingError> {
        let (attempt, doubt, status, queued): (u32, String, String, String) =
            (self.next()?, self.next()?, self.next()?, self.next()?);
        let read = || {
            let status = entry::optional(&status, |text| text.parse().ok())?;
            Some(Slip { attempt, doubt: entry::doubt_of_slip(&doubt), status, queued_at: entry::time(&queued)? })
        };
        read().ok_or_else(|| "a letter's slip is not one of ours".into())
    }

    /// The cell, and the line.
    fn places(&mut self) -> Result<(Option<EventKey>, Option<String>), ParsingError> {
        let (cell, line): (String, String) = (self.next()?, self.next()?);
        let cell = Some(cell).filter(|cell| !cell.is_empty()).map(|cell| EventKey::stored(&cell));
        Ok((cell, Some(line).filter(|line| !line.is_empty())))
    }
}

impl FromRedisValue for TakenLetter {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut fields = Fields::of(value)?;
        let (id, content, slip) = (fields.id()?, fields.next()?, fields.slip()?);
        let (cell, line) = fields.places()?;
        let held = Some(fields.next::<Bytes>()?).filter(|held| !held.is_empty());
        Ok(Self { id, content, slip, cell, line, held })
    }
}

impl FromRedisValue for FiledLetter {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut fields = Fields::of(value)?;
        let (id, due, slip) = (fields.id()?, fields.next::<i64>()?, fields.slip()?);
        let (cell, line) = fields.places()?;
        let (token, bytes, dead, content): (String, u64, String, Bytes) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let due_in = u64::try_from(due).ok().map(Duration::from_millis);
        let is_out = !token.is_empty() && due > 0;
        Ok(Self(Filed { id, slip, cell, line, is_dead: dead == "1", is_out, due_in, bytes, content }))
    }
}
