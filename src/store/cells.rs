//! What a store must be able to do: one cell an event, holding bytes, with a life after which it is gone.
//!
//! Every operation is atomic on its cell, and safe to repeat: one whose answer was lost may be sent again with
//! the same values. Ages are counted by the store's own clock; no operation trusts the caller's.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

/// Longer than any cell lives, and short of the end of any clock.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

pub trait Cells: Send + Sync {
    /// Writes `value` if the cell is empty. Gives back what the cell held otherwise; `None` where it holds `value` now.
    fn put_new(&self, key: &str, value: Bytes, life: Duration) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;

    /// Writes `value`, whatever was there, and gives that back.
    fn put(&self, key: &str, value: Bytes, life: Duration) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;

    /// Writes `change.to` over exactly `change.from`, once that is as old as `change.at_age` says.
    fn swap(&self, key: &str, change: Change) -> impl Future<Output = Result<Swapped, StoreError>> + Send;

    /// Gives exactly `value` its whole life anew, which makes it age nought. Tells whether it was there.
    fn touch(&self, key: &str, value: Bytes, life: Duration) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// What the cell holds, and how much of its life is left.
    fn read(&self, key: &str) -> impl Future<Output = Result<Option<Held>, StoreError>> + Send;

    /// One step over the cells whose key begins with `prefix`, in no particular order. A cell that is there all the while
    /// comes at least once.
    fn walk(&self, prefix: &str, from: Option<Cursor>) -> impl Future<Output = Result<Step, StoreError>> + Send;

    /// Whether the store answers, and what the cell `marker` holds. Cheaper and less patient than `read`: it is asked
    /// twice a second, and an outage is to be known soon.
    fn pulse(&self, marker: &str) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;
}

/// Where a walk goes on, in the terms of the store that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// Some of the cells of a walk, perhaps none, and where it goes on; `None` at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub cells: Vec<(String, Held)>,
    pub next: Option<Cursor>,
}

/// A compare-and-set.
#[derive(Clone, Debug)]
pub struct Change {
    pub from: Bytes,
    pub to: Bytes,
    pub life: Duration,
    pub at_age: Option<AtAge>,
}

/// A cell that was given `life` is `life - what is left of it` old.
#[derive(Clone, Copy, Debug)]
pub struct AtAge {
    pub life: Duration,
    pub least: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The cell holds the new value: by this call, or by an earlier one whose answer was lost.
    Written,
    /// It held another value, which it still holds.
    Differs(Option<Bytes>),
    /// It held the expected value, too young by this much.
    Young(Duration),
}

impl Change {
    /// What the change does to a cell that holds `held`: for stores that compare in this process.
    pub fn judge(&self, held: Option<Held>) -> Swapped {
        match held {
            // By an earlier call whose answer was lost.
            Some(held) if held.value == self.to => Swapped::Written,
            Some(held) if held.value == self.from => match self.at_age {
                Some(age) => match age.least.saturating_sub(age.life.saturating_sub(held.left)) {
                    Duration::ZERO => Swapped::Written,
                    missing => Swapped::Young(missing),
                },
                None => Swapped::Written,
            },
            held => Swapped::Differs(held.map(|held| held.value)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub value: Bytes,
    pub left: Duration,
}

/// The store did not do what it was asked. Whether it happened all the same is not known.
#[derive(Debug)]
pub struct StoreError {
    pub kind: StoreErrorKind,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// No connection, or it broke.
    Unreachable,
    /// No answer within the budget.
    Timeout,
    /// It has not answered for a while, and is not asked.
    BreakerOpen,
    /// The server answered that it cannot serve yet, or no longer: it is loading, read-only, without a master.
    NotReady,
    /// The server answered with an error.
    Refused,
    /// The cell holds something that hookonce did not write.
    Foreign,
    /// A file, a disk or the kernel failed.
    Local,
}

impl StoreErrorKind {
    pub const ALL: &'static [Self] =
        &[Self::Unreachable, Self::Timeout, Self::BreakerOpen, Self::NotReady, Self::Refused, Self::Foreign, Self::Local];

    /// The word of the metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::BreakerOpen => "breaker_open",
            Self::NotReady => "not_ready",
            Self::Refused => "refused",
            Self::Foreign => "foreign",
            Self::Local => "local",
        }
    }
}

impl StoreError {
    pub fn new(kind: StoreErrorKind, detail: impl fmt::Display) -> Self {
        Self { kind, detail: detail.to_string() }
    }

    /// Whether the store was asked and does not serve: another call would have fared no better.
    pub fn is_outage(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unreachable | StoreErrorKind::Timeout | StoreErrorKind::NotReady)
    }

    /// Whether another call may fare better: the store serves.
    pub fn is_of_this_call(&self) -> bool {
        !self.is_outage() && self.kind != StoreErrorKind::BreakerOpen
    }

    /// The server did not understand the command: it is older than the command.
    pub fn is_syntax(&self) -> bool {
        self.kind == StoreErrorKind::Refused && self.detail.contains("syntax error")
    }

    /// The server's memory is full.
    pub fn is_full(&self) -> bool {
        self.kind == StoreErrorKind::Refused && self.detail.contains("OOM")
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {}: {}", self.kind.as_str(), self.detail)
    }
}

impl std::error::Error for StoreError {}

impl AsRef<Self> for StoreError {
    fn as_ref(&self) -> &Self {
        self
    }
}
