//! Every state that can be reached, the shortest way first, and whether the event can still come through from each.

use std::fmt::Write as _;

use crate::event::{Broken, Event, Fault, Step};
use crate::state::State;

/// What was found where nothing is broken.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    /// Every kind of fault that led somewhere new.
    pub faults: Vec<Fault>,
    /// Where the provider delivers on, nothing more goes wrong, and it will never be told 2xx.
    pub stuck: Option<String>,
}

/// A broken promise, and how it comes to that.
#[derive(Debug)]
pub struct Violation {
    pub broken: Broken,
    pub trace: String,
}

/// Goes through all that may happen.
pub fn explore(event: &mut Event) -> Result<Explored, Violation> {
    let mut search = Search::default();
    search.reach(None, State::FIRST);
    let (mut count, mut steps) = (0, Vec::new());
    let mut at = 0;
    while let Some(state) = search.states.get(at).copied() {
        event.steps(&state, &mut steps);
        count += steps.len();
        for (step, after) in steps.drain(..) {
            match after {
                Ok(after) => search.reach(Some((at, step)), after),
                Err(broken) => return Err(Violation { broken, trace: search.trace(at, Some(step)) }),
            }
        }
        at += 1;
    }
    Ok(Explored { states: search.states.len(), steps: count, faults: search.faults(), stuck: search.stuck() })
}

#[derive(Default)]
struct Search {
    states: Vec<State>,
    /// The state before, and the step from there.
    from: Vec<Option<(usize, Step)>>,
    index: Index,
    /// Steps without a fault, from where to where.
    calm: Vec<(usize, usize)>,
}

impl Search {
    fn reach(&mut self, from: Option<(usize, Step)>, after: State) {
        let to = self.index.place_of(after.code());
        if to == self.states.len() {
            self.states.push(after);
            self.from.push(from);
        }
        if let Some((at, Step { fault: None, .. })) = from {
            self.calm.push((at, to));
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for fault in self.from.iter().flatten().filter_map(|(_, step)| step.fault) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        faults
    }

    /// A state from which no way without faults leads to a 2xx.
    fn stuck(&self) -> Option<String> {
        let mut comes_through: Vec<bool> = self.states.iter().map(|state| state.world.is_told).collect();
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            // Backwards, because most steps lead to states that were found later.
            for (from, to) in self.calm.iter().rev() {
                if comes_through[*to] && !comes_through[*from] {
                    comes_through[*from] = true;
                    is_changed = true;
                }
            }
        }
        comes_through.iter().position(|through| !through).map(|at| self.trace(at, None))
    }

    fn trace(&self, at: usize, last: Option<Step>) -> String {
        let mut steps = Vec::new();
        let mut at = at;
        while let Some((before, step)) = self.from[at] {
            steps.push((step, Some(self.states[at])));
            at = before;
        }
        steps.reverse();
        steps.extend(last.map(|step| (step, None)));
        steps.iter().fold(String::new(), |mut trace, (step, state)| {
            let _ = write!(trace, "\n  {}", step.name);
            state.map(|state| write!(trace, "  ->  {state}"));
            trace
        })
    }
}

/// Gives each code the next number. Codes come by the million, and tests are not optimised: a general map would take
/// most of the time.
#[derive(Default)]
struct Index {
    codes: Vec<u128>,
    /// Places in `codes`, one more than they are, by the digest of the code or the next free after it.
    slots: Vec<usize>,
}

impl Index {
    fn place_of(&mut self, code: u128) -> usize {
        if self.codes.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let slot = self.slot_of(code);
        if self.slots[slot] == 0 {
            self.codes.push(code);
            self.slots[slot] = self.codes.len();
        }
        self.slots[slot] - 1
    }

    fn slot_of(&self, code: u128) -> usize {
        let mixed = ((code >> 61) as u64 ^ code as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut slot = (mixed ^ mixed >> 32) as usize & (self.slots.len() - 1);
        while self.slots[slot] != 0 && self.codes[self.slots[slot] - 1] != code {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 2).max(1 << 16)];
        for place in 0..self.codes.len() {
            let slot = self.slot_of(self.codes[place]);
            self.slots[slot] = place + 1;
        }
    }
}
