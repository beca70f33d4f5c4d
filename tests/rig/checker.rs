//! Holds a history to the promise, event by event.

use std::fmt;
use std::time::Duration;

use super::history::{At, Delivery, Event, Forward, History, Part, Service, Trouble};

/// How long a trouble may still be felt after it was mended: leases that run out, connections that are made again.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Instances look at the store twice a second; the rest is for a busy machine.
const LOOK: Duration = Duration::from_secs(2);
/// How long an instance may need to know the store it has come to.
const SETTLED_IN: Duration = Duration::from_secs(1);

/// In a calm round everything has seconds, but for the watch over the store, which calls it down after less than one.
const CALM_STALL: Duration = Duration::from_millis(250);

/// What was promised and not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The sender was told 2xx of an event that had taken no effect by then; from a queue, of one that never did.
    Lost,
    /// The sender was never told 2xx, though the faults were over.
    NeverAccepted,
    /// More forwards than deliveries, where each has to be caused by one.
    Unasked,
    /// A second effect without a mark.
    Unmarked,
    /// No fault came near the event, and yet it did not take effect exactly once, without a mark.
    NotOnce,
    /// It took effect before another of its line that had been accepted before it came.
    Disorder,
    /// The consumer was not sent what the provider had sent.
    Altered,
    /// A key of the store that would live for ever.
    Endless,
    /// More store commands than an event may cost.
    Commands,
    /// Something is still held after the last delivery.
    Leak,
    /// A mark that no metric counts.
    Uncounted,
    /// An instance's own code failed.
    Panic,
    /// The round did not come to its end.
    Unfinished,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub broken: Broken,
    /// The event's place in the round, where it is about one.
    pub event: Option<usize>,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.broken, self.what)
    }
}

/// What a round comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub events: usize,
    pub deliveries: usize,
    pub forwards: usize,
    /// Deliveries that were told 2xx without being forwarded.
    pub duplicates: usize,
    pub faults: usize,
    /// Events that no fault came near.
    pub untouched: usize,
    pub lost: usize,
    pub never_accepted: usize,
    pub unasked: usize,
    /// Second effects that said that they might be.
    pub doubled_marked: usize,
    pub unmarked: usize,
    /// Second effects without a mark that a counted loss of the store explains: the event has no time of its own.
    pub excused: usize,
    /// The same of events that have one, forwarded before anybody could know of the loss.
    pub unaware: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.deliveries += other.deliveries;
        self.forwards += other.forwards;
        self.duplicates += other.duplicates;
        self.faults += other.faults;
        self.untouched += other.untouched;
        self.lost += other.lost;
        self.never_accepted += other.never_accepted;
        self.unasked += other.unasked;
        self.doubled_marked += other.doubled_marked;
        self.unmarked += other.unmarked;
        self.excused += other.excused;
        self.unaware += other.unaware;
    }
}

pub fn check(history: &History) -> (Tally, Vec<Violation>) {
    let mut tally = Tally {
        events: history.events.len(),
        deliveries: history.deliveries.iter().filter(|delivery| delivery.is_sent).count(),
        forwards: history.forwards.len(),
        duplicates: history.deliveries.iter().filter(|delivery| is_duplicate(delivery)).count(),
        faults: history.troubles.len(),
        ..Tally::default()
    };
    let mut violations = Vec::new();
    let lives = lives(history);
    for life in &lives {
        let mut judged = Judged { life, tally: &mut tally, violations: &mut violations };
        judged.loss();
        judged.unasked();
        judged.second_effects(history);
        judged.once(history);
        judged.as_sent();
        judged.order(&lives);
    }
    (tally, violations)
}

fn is_duplicate(delivery: &Delivery) -> bool {
    let outcome = delivery.answer.as_ref().map_or("", |answer| &answer.outcome);
    delivery.is_accepted() && matches!(outcome, "duplicate" | "waited")
}

/// All that happened to one event, in order.
struct Life<'a> {
    index: usize,
    event: &'a Event,
    deliveries: Vec<&'a Delivery>,
    forwards: Vec<&'a Forward>,
}

fn lives(history: &History) -> Vec<Life<'_>> {
    let none = |(index, event)| Life { index, event, deliveries: Vec::new(), forwards: Vec::new() };
    let mut lives: Vec<Life<'_>> = history.events.iter().enumerate().map(none).collect();
    for delivery in &history.deliveries {
        lives[delivery.event].deliveries.push(delivery);
    }
    for forward in &history.forwards {
        lives[forward.event].forwards.push(forward);
    }
    for life in &mut lives {
        life.forwards.sort_by_key(|forward| forward.began);
    }
    lives
}

impl Life<'_> {
    /// Whether a trouble, or the consumer's own behaviour, may have left an outcome unknown.
    fn is_touched(&self, history: &History) -> bool {
        let began = self.deliveries.iter().map(|delivery| delivery.began).min();
        let ended = self.deliveries.iter().map(|delivery| delivery.ended).chain(self.forwards.iter().map(|one| one.began)).max();
        let (Some(began), Some(ended)) = (began, ended) else { return true };
        let is_near = |trouble: &Trouble| began <= trouble.until + AFTERMATH && trouble.from <= ended;
        if history.is_calm {
            return history.stalls.iter().any(|stall| stall.until - stall.from > CALM_STALL && is_near(stall));
        }
        history.troubles.iter().chain(&history.stalls).any(is_near) || !self.forwards.iter().all(|forward| forward.is_clear)
    }

    fn first_effect(&self) -> Option<At> {
        self.forwards.iter().filter_map(|forward| forward.effect).min()
    }

    /// When its sender was first told that it is accepted.
    fn told(&self) -> Option<At> {
        self.deliveries.iter().filter(|one| one.is_accepted()).map(|one| one.ended).min()
    }
}

/// Why a second effect need not be marked.
#[derive(Clone, Copy, Debug)]
enum Excuse {
    /// The event does not say how old it is.
    NoTime,
    /// Nobody could know yet that the store had lost its data.
    Unaware,
}

/// When every instance must know of a loss: a moment after whatever else kept it from looking.
fn known_by(loss: &Trouble, history: &History) -> At {
    let mut known = loss.until + LOOK;
    let blinds = |trouble: &&Trouble| !matches!(trouble.part, Part::Upstream);
    let mut blinding: Vec<_> = history.troubles.iter().chain(&history.stalls).filter(blinds).collect();
    blinding.sort_by_key(|trouble| trouble.from);
    for trouble in blinding.into_iter().filter(|trouble| trouble.until >= loss.from) {
        if trouble.from <= known {
            known = known.max(trouble.until + LOOK);
        }
    }
    known
}

struct Judged<'a> {
    life: &'a Life<'a>,
    tally: &'a mut Tally,
    violations: &'a mut Vec<Violation>,
}

impl Judged<'_> {
    fn broken(&mut self, broken: Broken, what: String) {
        let what = format!("{} {}: {what}", self.life.event.provider, self.life.event.id);
        self.violations.push(Violation { broken, event: Some(self.life.index), what });
    }

    fn loss(&mut self) {
        let Some(told) = self.life.told() else {
            self.tally.never_accepted += 1;
            return self.broken(Broken::NeverAccepted, format!("{} deliveries, no 2xx", self.life.deliveries.len()));
        };
        if self.life.first_effect().is_none_or(|effect| effect > told && !self.life.event.is_queued) {
            self.tally.lost += 1;
            self.broken(Broken::Lost, format!("2xx at {told:?}, effect at {:?}", self.life.first_effect()));
        }
    }

    fn unasked(&mut self) {
        let deliveries = self.life.deliveries.iter().filter(|delivery| delivery.is_sent).count();
        let forwards = self.life.forwards.len();
        if forwards > deliveries && !self.life.event.is_queued {
            self.tally.unasked += forwards - deliveries;
            self.broken(Broken::Unasked, format!("{forwards} forwards of {deliveries} deliveries"));
        }
    }

    /// One effect needs no mark; which of them came first is for nobody to say where two were under way.
    fn second_effects(&mut self, history: &History) {
        let effects = self.life.forwards.iter().filter(|forward| forward.effect.is_some());
        let (marked, unmarked): (Vec<_>, Vec<_>) = effects.partition(|forward| forward.mark.is_some());
        let first = usize::from(unmarked.is_empty());
        self.tally.doubled_marked += marked.len().saturating_sub(first);
        for pair in unmarked.windows(2) {
            match self.excuse(pair[1], history) {
                Some(Excuse::NoTime) => self.tally.excused += 1,
                Some(Excuse::Unaware) => self.tally.unaware += 1,
                None => {
                    self.tally.unmarked += 1;
                    let what = format!("effects of forwards at {:?} and {:?}", pair[0].began, pair[1].began);
                    self.broken(Broken::Unmarked, what);
                }
            }
        }
    }

    /// The store may have lost what it knew of the event before this forward.
    fn excuse(&self, second: &Forward, history: &History) -> Option<Excuse> {
        let first = self.life.deliveries.iter().map(|delivery| delivery.began).min()?;
        let lies_between = |loss: &&Trouble| first <= loss.until && loss.from <= second.began;
        let mut losses =
            history.troubles.iter().filter(|trouble| matches!(trouble.part, Part::Memory | Part::Contents)).filter(lies_between);
        losses.find_map(|loss| {
            let known = known_by(loss, history);
            let is_witnessed = history.services.iter().any(|one| one.from + SETTLED_IN <= loss.from && known <= one.until);
            if is_witnessed && !history.are_resets_counted {
                return None;
            }
            // Whoever was there has lost its connection, and asks whom it meets then. An emptied store tells nobody.
            let is_new = |one: &Service| loss.from < one.from + SETTLED_IN && one.from <= second.began;
            let can_be_missed = loss.part == Part::Contents || history.services.iter().any(is_new);
            let is_unaware = !is_witnessed || (can_be_missed && second.began <= known);
            if self.life.event.has_time { is_unaware.then_some(Excuse::Unaware) } else { Some(Excuse::NoTime) }
        })
    }

    fn once(&mut self, history: &History) {
        if self.life.is_touched(history) {
            return;
        }
        self.tally.untouched += 1;
        let effects = self.life.forwards.iter().filter(|forward| forward.effect.is_some()).count();
        let marks: Vec<_> = self.life.forwards.iter().filter_map(|forward| forward.mark.as_deref()).collect();
        if effects != 1 || !marks.is_empty() {
            self.broken(Broken::NotOnce, format!("{effects} effects, marks {marks:?}"));
        }
    }

    /// Who was accepted before this one came is before it in their line.
    fn order(&mut self, lives: &[Life<'_>]) {
        let Event { provider, line: Some(line), .. } = self.life.event else { return };
        let came = self.life.deliveries.iter().filter(|one| one.is_sent).map(|one| one.began).min();
        let (Some(came), Some(effect)) = (came, self.life.first_effect()) else { return };
        let of_its_line =
            lives.iter().filter(|other| other.event.line.as_ref() == Some(line) && other.event.provider == *provider);
        let mut before = of_its_line.filter(|other| other.told().is_some_and(|told| told < came));
        if let Some(passed) = before.find(|other| other.first_effect().is_some_and(|other| other > effect)) {
            self.broken(Broken::Disorder, format!("effect at {effect:?}, {} at {:?}", passed.event.id, passed.first_effect()));
        }
    }

    fn as_sent(&mut self) {
        let Event { id, body, .. } = self.life.event;
        let is_altered = |forward: &&&Forward| forward.body != *body || forward.id.as_deref() != Some(id);
        if let Some(altered) = self.life.forwards.iter().find(is_altered) {
            self.broken(Broken::Altered, format!("forwarded as {:?}", altered.id));
        }
    }
}

mod tests;
