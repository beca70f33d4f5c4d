//! Where an event stands: its deliveries, the store's cell, what each instance knows by itself, and what the world has seen.
//!
//! Deliveries are alike, and so are the two instances: states that differ only by their order are one.

use std::fmt;

use crate::cell::{Cell, Holder};

/// The most deliveries that may be under way at once.
pub const DELIVERIES: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct State {
    pub deliveries: [Delivery; DELIVERIES],
    pub cell: Cell,
    pub sides: [Side; 2],
    pub world: World,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub stage: Stage,
    /// Which instance it came to.
    pub at: bool,
    /// Whether its claim is kept by its instance, in place of the store.
    pub is_local: bool,
    /// Whether its instance knew, when it came, that the store had lost data.
    pub is_warned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Idle,
    /// A copy in the same process leads.
    Following,
    Claiming {
        seen: Option<Cell>,
    },
    /// Given up and told so, while what it has asked is still on its way to the store.
    Straying {
        seen: Option<Cell>,
    },
    /// A claim of another is looked at.
    Waiting,
    /// Claimed, and nothing sent yet. `is_ours`: as far as the holder's own clock tells.
    Holding {
        doubt: bool,
        is_ours: bool,
        has_sent: bool,
    },
    Forwarding {
        doubt: bool,
    },
    /// Forwarded without a claim.
    Bare,
    /// Done, as far as this process knows.
    Completing {
        doubt: bool,
        answer: Answer,
        is_told: bool,
        /// The store has confirmed it, or will never be told.
        is_settled: bool,
    },
    Failing {
        doubt: bool,
        is_unknown: bool,
        is_told: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Success,
    Error,
}

/// What an instance has in its memory.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub local: Cell,
    /// Whether it has noticed that the store lost data.
    pub knows_reset: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The consumer has acted on the event.
    pub took_effect: bool,
    /// An attempt that is over may have taken effect.
    pub is_risky: bool,
    /// The provider has been told 2xx.
    pub is_told: bool,
    /// The store has lost data.
    pub was_reset: bool,
}

impl Delivery {
    pub const IDLE: Self = Self { stage: Stage::Idle, at: false, is_local: false, is_warned: false };

    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Whether copies in the same process follow it, or are answered by it.
    pub fn leads(&self) -> bool {
        match self.stage {
            Stage::Idle | Stage::Following | Stage::Straying { .. } | Stage::Failing { is_told: true, .. } => false,
            Stage::Claiming { .. } | Stage::Waiting | Stage::Holding { .. } | Stage::Forwarding { .. } | Stage::Bare => true,
            Stage::Completing { .. } | Stage::Failing { is_told: false, .. } => true,
        }
    }

    /// Whether its forward is under way or has succeeded.
    pub fn may_take_effect(&self) -> bool {
        matches!(self.stage, Stage::Forwarding { .. } | Stage::Bare | Stage::Completing { .. })
    }

    /// Whether that forward went out with a mark.
    pub fn is_marked(&self) -> bool {
        match self.stage {
            Stage::Forwarding { doubt } | Stage::Completing { doubt, .. } => doubt || self.is_local,
            _ => true,
        }
    }

    /// Less than 1024, and another number for each; nought where there is none.
    fn code(&self) -> u128 {
        let seen = |seen: Option<Cell>| if let Some(cell) = seen { 1 + cell.code() } else { 0 };
        let stage = match self.stage {
            Stage::Idle => return 0,
            Stage::Following => 1,
            Stage::Waiting => 2,
            Stage::Bare => 3,
            Stage::Claiming { seen: cell } => 4 + seen(cell),
            Stage::Straying { seen: cell } => 40 + seen(cell),
            Stage::Holding { doubt, is_ours, has_sent } => 80 + bits(doubt, is_ours, has_sent),
            Stage::Forwarding { doubt } => 88 + u128::from(doubt),
            Stage::Completing { doubt, answer: Answer::Success, is_told, is_settled } => 90 + bits(doubt, is_told, is_settled),
            Stage::Completing { doubt, answer: Answer::Error, is_told, is_settled } => 98 + bits(doubt, is_told, is_settled),
            Stage::Failing { doubt, is_unknown, is_told } => 106 + bits(doubt, is_unknown, is_told),
        };
        stage << 3 | bits(self.at, self.is_local, self.is_warned)
    }
}

impl Side {
    fn code(&self) -> u128 {
        self.local.code() << 1 | u128::from(self.knows_reset)
    }
}

fn bits(a: bool, b: bool, c: bool) -> u128 {
    u128::from(a) << 2 | u128::from(b) << 1 | u128::from(c)
}

impl State {
    pub const FIRST: Self = {
        let side = Side { local: Cell::Empty, knows_reset: false };
        Self {
            deliveries: [Delivery::IDLE; DELIVERIES],
            cell: Cell::Empty,
            sides: [side; 2],
            world: World { took_effect: false, is_risky: false, is_told: false, was_reset: false },
        }
    };

    pub fn side(&self, at: bool) -> &Side {
        &self.sides[usize::from(at)]
    }

    pub fn side_mut(&mut self, at: bool) -> &mut Side {
        &mut self.sides[usize::from(at)]
    }

    /// The cell a delivery claims in.
    pub fn kept(&self, delivery: &Delivery) -> Cell {
        if delivery.is_local { self.side(delivery.at).local } else { self.cell }
    }

    pub fn keep(&mut self, delivery: &Delivery, cell: Cell) {
        *(if delivery.is_local { &mut self.side_mut(delivery.at).local } else { &mut self.cell }) = cell;
    }

    /// A delivery takes the first place that is free.
    pub fn add(&mut self, delivery: Delivery) {
        if let Some(free) = self.deliveries.iter_mut().find(|delivery| delivery.is_idle()) {
            *free = delivery;
        }
    }

    pub fn end(&mut self, i: usize) {
        self.deliveries[i].stage = Stage::Idle;
    }

    /// Those who follow a delivery are told what it was told.
    pub fn dismiss_followers(&mut self, i: usize) {
        let leader = self.deliveries[i];
        for follower in self.deliveries.iter_mut().filter(|delivery| delivery.stage == Stage::Following) {
            if follower.at == leader.at {
                follower.stage = Stage::Idle;
            }
        }
    }

    /// One number for each state; equal numbers are equal states.
    pub fn code(&self) -> u128 {
        let [a, b, c, d] = &self.deliveries;
        let deliveries = ((a.code() << 10 | b.code()) << 10 | c.code()) << 10 | d.code();
        let [left, right] = &self.sides;
        let World { took_effect, is_risky, is_told, was_reset } = self.world;
        let world = bits(took_effect, is_risky, is_told) << 1 | u128::from(was_reset);
        (((deliveries << 5 | self.cell.code()) << 6 | left.code()) << 6 | right.code()) << 4 | world
    }

    /// The same state with deliveries and instances in a fixed order. What has ended is forgotten: a claim that it leaves
    /// behind is nobody's.
    pub fn in_order(mut self) -> Self {
        self.flip_sides();
        let mut codes = [0; DELIVERIES];
        let mut order = [0, 1, 2, 3];
        for end in 0..DELIVERIES {
            codes[end] = self.deliveries[end].code();
            let mut at = end;
            while at > 0 && codes[order[at - 1]] > codes[order[at]] {
                order.swap(at - 1, at);
                at -= 1;
            }
        }
        self.reorder(order);
        self
    }

    /// Puts the busier instance first.
    fn flip_sides(&mut self) {
        let mut weights = [0, 0];
        for delivery in &self.deliveries {
            let code = Delivery { at: false, ..*delivery }.code();
            weights[usize::from(delivery.at)] += code * code;
        }
        let [left, right] = &self.sides;
        if (weights[0], left.code()) >= (weights[1], right.code()) {
            return;
        }
        self.sides.swap(0, 1);
        for delivery in &mut self.deliveries {
            delivery.at = !delivery.at;
        }
        if let Cell::Claimed { by: Holder::Unsure(at), .. } = &mut self.cell {
            *at = !*at;
        }
    }

    /// Puts deliveries into a new order: `order` has the old place of each.
    fn reorder(&mut self, order: [usize; DELIVERIES]) {
        let before = self.deliveries;
        let mut places = [Holder::Nobody; DELIVERIES];
        for new in 0..DELIVERIES {
            let delivery = before[order[new]];
            self.deliveries[new] = if delivery.is_idle() { Delivery::IDLE } else { delivery };
            if !delivery.is_idle() {
                places[order[new]] = Holder::Delivery(new as u8);
            }
        }
        for delivery in &mut self.deliveries {
            if let Stage::Claiming { seen: Some(cell) } | Stage::Straying { seen: Some(cell) } = &mut delivery.stage {
                cell.rename(&places);
            }
        }
        self.cell.rename(&places);
        self.sides[0].local.rename(&places);
        self.sides[1].local.rename(&places);
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.cell)?;
        for (name, side) in ["A", "B"].iter().zip(&self.sides) {
            if side.local != Cell::Empty {
                write!(f, "; {name} has {:?}", side.local)?;
            }
        }
        for delivery in self.deliveries.iter().filter(|delivery| !delivery.is_idle()) {
            let name = if delivery.at { "B" } else { "A" };
            write!(f, "; {name}{} {:?}", if delivery.is_local { " itself" } else { "" }, delivery.stage)?;
        }
        Ok(())
    }
}
