//! What a store must be able to do for events that are accepted now and delivered later: one lane a provider, of letters.
//!
//! ```text
//!   append --> waiting --take--> out, for a lease --finish--> gone, and the event's cell says done
//!                 ^               |
//!                 +-- postpone ---+---- bury --> dead --revive--> waiting
//!                 +-- the lease runs out: nobody settled it, and the next one takes it in doubt
//! ```
//!
//! - A letter is written together with the cell of its event, in one step: there is never one without the other.
//! - A lease is a due time: a letter that is out is due again when its lease ends. New letters, those that are tried again
//!   and those of a process that died are taken in one way.
//! - Letters of one line are delivered one at a time, in the order in which they came: only the first of a line is ever due.
//! - `finish` is a fact and needs no token. `postpone`, `bury` and `extend` act only while the letter is the caller's.
//! - Times are counted by the store's own clock. Every operation may be sent again with the same values; where an answer can
//!   be lost, a take that is sent again gives the same letters.

use std::fmt;
use std::future::Future;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::cells::{AtAge, StoreError};
use super::entry::{Mark, Token, millis};
use crate::pipeline::identify::EventKey;

pub trait Backlog: Send + Sync {
    /// Writes the letter and the cell of its event, durably, unless the cell is taken or there is no room.
    fn append(&self, lane: &Lane, letter: NewLetter, room: Room) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Gives out letters that are due. One that was out before and never settled comes in doubt; one whose event is done
    /// is cleared away.
    fn take(&self, lane: &Lane, terms: TakeTerms) -> impl Future<Output = Result<Taken, StoreError>> + Send;

    /// Begins the lease anew. `false` if the letter is no longer the caller's.
    fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The event is done: writes that into its cell and clears the letter away, wherever it is. Gives back what the cell
    /// held.
    fn finish(&self, lane: &Lane, finished: Finished) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;

    /// Puts the letter back, to be taken again after a while. `false` if it is no longer the caller's.
    fn postpone(
        &self,
        lane: &Lane,
        holding: &Holding,
        slip: Slip,
        pause: Duration,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Makes it a dead letter: kept, and not tried again until somebody says so. `false` if it is no longer the caller's.
    fn bury(
        &self,
        lane: &Lane,
        holding: &Holding,
        slip: Slip,
        blocks: bool,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Has a letter tried again now, dead or waiting; its slip is replaced.
    fn revive(&self, lane: &Lane, id: LetterId, slip: Slip) -> impl Future<Output = Result<Revived, StoreError>> + Send;

    fn letter(&self, lane: &Lane, id: LetterId) -> impl Future<Output = Result<Option<Filed>, StoreError>> + Send;

    /// Letters after a given one, in the order in which they came, without their content.
    fn list(
        &self,
        lane: &Lane,
        is_dead: bool,
        after: Option<LetterId>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Filed>, StoreError>> + Send;

    fn tally(&self, lane: &Lane) -> impl Future<Output = Result<Tally, StoreError>> + Send;
}

/// The letters of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    namespace: String,
    provider: String,
}

/// Parts into which a Cluster's keys fall. All of a lane is in one of them, so that a script can touch all of it.
const PARTS: u32 = 64;

impl Lane {
    pub fn new(namespace: &str, provider: &str) -> Self {
        Self { namespace: namespace.to_owned(), provider: provider.to_owned() }
    }

    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// `{q07}`: what a Cluster places keys by.
    pub fn tag(&self) -> String {
        format!("{{q{:02}}}", crc32fast::hash(self.provider.as_bytes()) % PARTS)
    }

    /// What the names of its own keys begin with.
    pub fn prefix(&self) -> String {
        format!("{}:queue:{}:{}", self.namespace, self.tag(), self.provider)
    }

    /// The cell that says that the lane is in use, or was within a retention.
    pub fn trace(&self) -> String {
        format!("{}:used", self.prefix())
    }

    /// The key of an event, where a store has to keep it beside its letter.
    pub fn beside(&self, key: &EventKey) -> EventKey {
        key.tagged(&self.tag())
    }
}

/// Names a letter, and tells the order in which letters came: the time of its making, and chance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterId([u8; 14]);

impl LetterId {
    pub fn new(at: SystemTime) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 14];
        let time = u64::try_from(millis(at)).unwrap_or(u64::MAX).to_be_bytes();
        bytes[..6].copy_from_slice(&time[2..]);
        getrandom::fill(&mut bytes[6..])?;
        Ok(Self(bytes))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn bytes(&self) -> &[u8; 14] {
        &self.0
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LetterId({self})")
    }
}

/// What is written on a letter as it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slip {
    /// Attempts that were made, the one under way included.
    pub attempt: u32,
    /// Why the next attempt may be a second one.
    pub doubt: Option<Mark>,
    /// What the consumer answered last, if it did.
    pub status: Option<u16>,
    /// When the event was accepted.
    pub queued_at: SystemTime,
}

#[derive(Clone, Debug)]
pub struct NewLetter {
    pub id: LetterId,
    /// Where the event is remembered, and the value that says that it is queued. `None`: it has no id to be remembered by.
    pub cell: Option<CellOf>,
    /// Letters of one line wait for each other.
    pub line: Option<String>,
    pub slip: Slip,
    pub content: Bytes,
}

#[derive(Clone, Debug)]
pub struct CellOf {
    pub key: EventKey,
    pub value: Bytes,
    /// What it may be written over. `None`: nothing.
    pub over: Option<Over>,
}

/// A value that a cell holds, and the age at which that may be replaced.
#[derive(Clone, Debug)]
pub struct Over {
    pub value: Bytes,
    pub at_age: Option<AtAge>,
}

/// How much a lane may hold.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub letters: u64,
    pub bytes: u64,
    pub dead_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// By this call, or by an earlier one whose answer was lost.
    Added,
    /// The cell holds this.
    Held(Bytes),
    /// It holds what it may be written over, too young by this much.
    Young(Duration),
    Full(Shortage),
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    Letters,
    Bytes,
    DeadBytes,
}

impl Shortage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Letters => "the queue holds as many events as it may",
            Self::Bytes => "the queue holds as many bytes as it may",
            Self::DeadBytes => "dead letters take as many bytes as they may",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TakeTerms {
    pub lease: Duration,
    pub most: usize,
    /// No more than one letter beyond these, since they are all held in memory.
    pub bytes: u64,
    /// Whose they are, for `Holding`.
    pub token: Token,
    /// Whether a cell that says done is believed, and its letter cleared away. If not, what it says comes with the letter.
    pub trusts_cells: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub letters: Vec<Letter>,
    /// When the next one is due, if one is waiting: perhaps now.
    pub next: Option<Duration>,
    /// Letters that were due and are not there: the store has lost them, or has them elsewhere for a moment.
    pub missing: u64,
}

/// A letter that is out, with its slip as this attempt has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub holding: Holding,
    pub slip: Slip,
    pub content: Bytes,
    /// What its event's cell says, where that is for the caller to judge.
    pub held: Option<Bytes>,
}

/// The right to settle a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub id: LetterId,
    pub token: Token,
    pub cell: Option<EventKey>,
    pub line: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub id: LetterId,
    pub line: Option<String>,
    /// The cell, what it is to say, and for how long.
    pub cell: Option<(EventKey, Bytes, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revived {
    Revived,
    Absent,
    /// It is out: somebody is at work on it.
    Out,
}

/// A letter as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    pub id: LetterId,
    pub slip: Slip,
    pub cell: Option<EventKey>,
    pub line: Option<String>,
    pub is_dead: bool,
    pub is_out: bool,
    /// Until it is due; `None` for dead letters and those that wait for others of their line.
    pub due_in: Option<Duration>,
    pub bytes: u64,
    /// Empty in lists.
    pub content: Bytes,
}

/// What a lane holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub letters: u64,
    pub bytes: u64,
    pub dead: u64,
    pub dead_bytes: u64,
    /// When the oldest letter that is not dead was accepted.
    pub oldest: Option<SystemTime>,
}
