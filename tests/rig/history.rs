//! What happened in a round, as its parties wrote it down. One clock for all of them.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Since the round began.
pub type At = Duration;

#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(self) -> At {
        self.0.elapsed()
    }

    /// The moment that is so long after the beginning.
    pub fn instant(self, at: At) -> Instant {
        self.0 + at
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BodyDigest([u8; 32]);

impl fmt::Debug for BodyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}..")
    }
}

pub fn digest(body: &[u8]) -> BodyDigest {
    BodyDigest(Sha256::digest(body).into())
}

/// An event as its provider made it.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: String,
    pub provider: &'static str,
    /// Whether its own time is in it, so that it can be told from events after a store's loss.
    pub has_time: bool,
    pub body: BodyDigest,
    /// Accepted once it is stored, and delivered by the proxy itself.
    pub is_queued: bool,
    /// What it is ordered by, where it is.
    pub line: Option<String>,
}

/// One try of the sender. Events are named by their place in the round.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub event: usize,
    /// Whether there was a connection to write it to.
    pub is_sent: bool,
    pub began: At,
    pub ended: At,
    /// `None` where no whole answer came.
    pub answer: Option<Answer>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// In the proxy's words.
    pub outcome: String,
}

impl Delivery {
    pub fn is_accepted(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| (200..300).contains(&answer.status))
    }
}

/// One request as the consumer got it.
#[derive(Clone, Debug)]
pub struct Forward {
    pub event: usize,
    /// The id the proxy says it has.
    pub id: Option<String>,
    pub mark: Option<String>,
    pub body: BodyDigest,
    pub began: At,
    /// Whether the proxy can have known how it ended: the consumer accepted or refused, and said so.
    pub is_clear: bool,
    /// When it took effect, if it did.
    pub effect: Option<At>,
}

/// A fault of the surroundings, from its injection until it was mended.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub what: &'static str,
    pub part: Part,
    pub from: At,
    pub until: At,
}

/// What was in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The store, or the way to it.
    Store,
    /// The store, which lost what it held, and with it its connections.
    Memory,
    /// The store, which was emptied without a word.
    Contents,
    Instance,
    Upstream,
    Machine,
}

/// One process of an instance, from when it served until it ended.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    pub from: At,
    pub until: At,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub events: Vec<Event>,
    pub deliveries: Vec<Delivery>,
    pub forwards: Vec<Forward>,
    pub troubles: Vec<Trouble>,
    /// When the machine itself stood still.
    pub stalls: Vec<Trouble>,
    /// Every process that served.
    pub services: Vec<Service>,
    /// Whether any of them has counted a loss of the store.
    pub are_resets_counted: bool,
    /// Nothing was injected, by anybody.
    pub is_calm: bool,
}
