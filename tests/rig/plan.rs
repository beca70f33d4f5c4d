//! What a seed means: who takes part in its round, how they behave, what goes wrong.

use std::time::Duration;

use super::dice::Dice;
use super::provider::Times;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub kind: Kind,
    pub events: usize,
    /// Events begin, and faults happen, within this time.
    pub span: Duration,
    pub instances: usize,
    pub workers: usize,
    pub times: Times,
    /// How long the store may take.
    pub store_timeout: Duration,
    pub habits: Habits,
    /// How often in a thousand the consumer misbehaves.
    pub consumer_fails: usize,
    pub faults: Faults,
    /// Some providers are in queue mode, and the store keeps what it is given.
    pub queues: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing goes wrong, and copies come one after the other: what an event costs is counted.
    Counted,
    /// Nothing goes wrong, but senders are themselves.
    Calm,
    /// One instance on a file.
    File,
    /// Up to three instances on Redis.
    Redis,
}

impl Kind {
    pub fn is_calm(self) -> bool {
        matches!(self, Self::Counted | Self::Calm)
    }
}

/// How often in a thousand a sender does what senders do.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The first delivery comes in several copies at once.
    pub copies: usize,
    /// It sends again while an earlier delivery is unanswered.
    pub overlaps: usize,
    /// It hangs up after a moment.
    pub hangs_up: usize,
    /// It delivers again what was accepted.
    pub redelivers: usize,
    /// How long after, in milliseconds.
    pub redelivers_after: (usize, usize),
    /// How long it waits for an answer.
    pub patience: Duration,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub store: bool,
    pub instances: bool,
    pub upstream: bool,
}

/// The shortest lease there is, so that a round sees many of them end.
const SHORT: Times = Times {
    lease: Duration::from_secs(1),
    answer_deadline: Duration::from_millis(600),
    upstream_timeout: Duration::from_millis(800),
};
/// Nothing ends by its time in a calm round.
const LONG: Times =
    Times { lease: Duration::from_secs(15), answer_deadline: Duration::from_secs(10), upstream_timeout: Duration::from_secs(30) };

impl Plan {
    pub fn of(seed: u64, events: usize) -> Self {
        let mut dice = Dice::of(seed).aside(0);
        let kind = match seed % 10 {
            0 => Kind::Counted,
            3 => Kind::File,
            7 => Kind::Calm,
            _ => Kind::Redis,
        };
        let pace = if kind.is_calm() { Duration::from_millis(1) } else { Duration::from_micros(2500) };
        let faults = Faults { store: dice.permille(750), instances: dice.permille(600), upstream: dice.permille(400) };
        Self {
            seed,
            kind,
            events,
            span: (pace * u32::try_from(events).unwrap()).max(Duration::from_secs(2)),
            instances: if kind == Kind::File { 1 } else { dice.within(1..4) },
            workers: dice.within(1..3),
            times: if kind.is_calm() { LONG } else { SHORT },
            store_timeout: if kind.is_calm() { Duration::from_secs(5) } else { Duration::from_millis(400) },
            habits: habits(kind, &mut dice),
            consumer_fails: if kind.is_calm() { 0 } else { *dice.pick(&[0, 20, 100, 300]) },
            faults: match kind {
                Kind::Counted | Kind::Calm => Faults { store: false, instances: false, upstream: false },
                Kind::File => Faults { store: false, instances: true, ..faults },
                // Something has to go wrong.
                Kind::Redis => Faults { store: faults.store || !faults.instances, ..faults },
            },
            // One on a file, three on Redis, one without faults.
            queues: matches!(seed % 20, 3 | 8 | 12 | 16 | 17),
        }
    }

    pub fn dice(&self) -> Dice {
        Dice::of(self.seed).aside(1)
    }
}

fn habits(kind: Kind, dice: &mut Dice) -> Habits {
    let patience = if kind.is_calm() { Duration::from_secs(30) } else { Duration::from_secs(2) };
    match kind {
        // By then the first has long been settled, also on a busy machine.
        Kind::Counted => {
            Habits { copies: 0, overlaps: 0, hangs_up: 0, redelivers: 500, redelivers_after: (1000, 1500), patience }
        }
        Kind::Calm | Kind::File | Kind::Redis => Habits {
            copies: *dice.pick(&[50, 200]),
            overlaps: 200,
            hangs_up: 30,
            redelivers: *dice.pick(&[200, 500]),
            redelivers_after: (0, 1500),
            patience,
        },
    }
}
