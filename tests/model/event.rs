//! What may happen to one event next, as the program does it, and what may go wrong.
//!
//! A delivery's place is free again once it has ended, so that the provider delivers for as long as it likes; and there is
//! no bound on how often a fault occurs.

use std::sync::Arc;

use hookonce::config::{InFlight, OnStoreDown, Provider};

use crate::cell::{Call, Cell, Holder, Outcome, Shop};
use crate::state::{Answer, DELIVERIES, Delivery, Stage, State};

const INSTANCES: [bool; 2] = [false, true];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The consumer refuses, or cannot be reached.
    Failure,
    /// A sender leaves before it is told.
    SenderLeaves,
    /// The provider delivers again what it was told 2xx for.
    Redelivery,
    /// An instance dies, or the task of one attempt does.
    Crash,
    /// A lease ends though its holder lives: renewals are late, or the process was frozen.
    LeaseEnds,
    /// The consumer does not answer; it may have acted or not.
    Unknown,
    /// A settlement never reaches the store.
    LostSettlement,
    /// The store does not answer; it may have done what it was asked or not.
    StoreFails,
    /// A claim that was given up reaches the store at any later time.
    LateWrite,
    /// An operator forgets the event.
    Forget,
    /// The store loses all its data, or its latest writes.
    Reset,
}

impl Fault {
    /// What happens every day: no reason for a mark.
    pub const EVERYDAY: [Self; 3] = [Self::Failure, Self::SenderLeaves, Self::Redelivery];
}

/// A promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A sender was told 2xx, and the event took no effect.
    Loss,
    /// One delivery was forwarded twice.
    MoreForwards,
    /// A forward is not marked, though an earlier one is under way, has succeeded or ended unknown.
    Unmarked,
    /// The consumer accepted, and the sender whose delivery it was is told an error.
    HiddenSuccess,
    /// A forward was marked without a reason.
    MarkedInCalm,
    /// The event took effect twice without a reason.
    TwiceInCalm,
}

/// A way in which the program could be wrong, to see that it would be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// A late failure is stored over whatever is there.
    NoFence,
    /// What could not be stored is an error to the sender.
    SettlementErrorTold,
    TakeoverUnmarked,
    DoubtForgotten,
    /// The proxy tries again by itself.
    OwnRetry,
    /// A claim is never taken over.
    LeaseForEver,
}

/// What happened between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    pub fault: Option<Fault>,
}

pub type Steps = Vec<(Step, Result<State, Broken>)>;

/// What may follow on one state.
pub struct Next<'a> {
    pub state: &'a State,
    faults: &'a [Fault],
    steps: &'a mut Steps,
}

impl Next<'_> {
    /// Adds a step, if the fault that it takes may occur.
    pub fn step(&mut self, name: &'static str, fault: Option<Fault>, change: impl FnOnce(&mut State) -> Result<(), Broken>) {
        if fault.is_some_and(|fault| !self.faults.contains(&fault)) {
            return;
        }
        let mut after = *self.state;
        let changed = change(&mut after);
        self.steps.push((Step { name, fault }, changed.map(|()| after.in_order())));
    }

    /// A step that breaks nothing by itself.
    pub fn change(&mut self, name: &'static str, fault: Option<Fault>, change: impl FnOnce(&mut State)) {
        self.step(name, fault, |state| {
            change(state);
            Ok(())
        });
    }
}

/// The program with a provider's settings, and what may befall it.
pub struct Event {
    pub provider: Arc<Provider>,
    pub shop: Shop,
    pub flaw: Flaw,
    pub faults: Arc<[Fault]>,
    /// Deliveries that may be under way at once.
    overlap: usize,
}

impl Event {
    pub fn new(provider: Arc<Provider>, flaw: Flaw, faults: &[Fault], overlap: usize) -> Self {
        Self { shop: Shop::new(&provider, flaw), provider, flaw, faults: faults.into(), overlap }
    }

    /// Nothing happens but what happens every day.
    pub fn is_calm(&self) -> bool {
        self.faults.iter().all(|fault| Fault::EVERYDAY.contains(fault))
    }

    /// While the store is down an instance knows nothing of the other's forwards, so it marks its own. The other learns
    /// of them later; until then one unmarked forward beside marked ones is all that can be asked for.
    pub fn is_lenient(&self) -> bool {
        self.provider.on_store_down != OnStoreDown::Closed
    }

    /// Everything that may happen next.
    pub fn steps(&mut self, state: &State, steps: &mut Steps) {
        let faults = Arc::clone(&self.faults);
        let next = &mut Next { state, faults: &faults, steps };
        self.provider_steps(next);
        self.store_steps(next);
        INSTANCES.iter().for_each(|at| self.instance_steps(*at, next));
        (0..DELIVERIES).for_each(|i| self.delivery_steps(i, next));
    }

    /// The provider delivers until it is told 2xx, and may deliver again after.
    fn provider_steps(&self, next: &mut Next<'_>) {
        let under_way = next.state.deliveries.iter().filter(|delivery| !delivery.is_idle()).count();
        if under_way >= self.overlap {
            return;
        }
        let is_told = next.state.world.is_told;
        let (name, fault) = if is_told { ("redeliver", Some(Fault::Redelivery)) } else { ("deliver", None) };
        for at in INSTANCES {
            next.step(name, fault, |state| {
                let leader = state.deliveries.iter().find(|delivery| delivery.at == at && delivery.leads());
                let stage = match leader.map(|leader| leader.stage) {
                    None => Stage::Claiming { seen: None },
                    Some(Stage::Completing { answer: Answer::Success, .. }) => return state.answer(Answer::Success),
                    Some(_) => match self.provider.in_flight {
                        InFlight::Wait => Stage::Following,
                        InFlight::Retry => return Ok(()),
                        InFlight::Ack => return state.answer(Answer::Success),
                    },
                };
                let is_warned = state.side(at).knows_reset && self.provider.event_time.is_some();
                state.add(Delivery { stage, at, is_local: false, is_warned });
                Ok(())
            });
        }
    }

    /// What happens to the store by itself, or by an operator.
    fn store_steps(&mut self, next: &mut Next<'_>) {
        let cell = next.state.cell;
        self.lease_step(next, cell, |state| &mut state.cell);
        let (_, forgotten) = self.shop.call(Call::Forget, cell);
        if forgotten != cell {
            next.change("an operator forgets", Some(Fault::Forget), |state| state.cell = forgotten);
        }
        for (name, older) in
            [("the store loses its data", Cell::Empty), ("the store loses writes", Cell::Failed { doubt: false })]
        {
            next.change(name, Some(Fault::Reset), |state| {
                state.cell = older;
                state.world.was_reset = true;
                state.sides.iter_mut().for_each(|side| side.knows_reset = false);
            });
        }
    }

    fn lease_step(&self, next: &mut Next<'_>, cell: Cell, place: impl Fn(&mut State) -> &mut Cell) {
        let Cell::Claimed { by, doubt, is_over: false } = cell else { return };
        if self.flaw == Flaw::LeaseForEver {
            return;
        }
        let (name, fault) = match by {
            Holder::Delivery(_) => ("a lease ends under its holder", Some(Fault::LeaseEnds)),
            Holder::Unsure(_) | Holder::Nobody => ("a lease ends", None),
        };
        next.change(name, fault, |state| {
            *place(state) = Cell::Claimed { by, doubt, is_over: true };
            if let Holder::Delivery(i) = by
                && let Stage::Holding { is_ours, .. } = &mut state.deliveries[usize::from(i)].stage
            {
                *is_ours = false;
            }
        });
    }

    /// What an instance does beside its deliveries, and what befalls it.
    fn instance_steps(&mut self, at: bool, next: &mut Next<'_>) {
        let side = *next.state.side(at);
        self.amends_steps(at, next);
        if next.state.world.was_reset && !side.knows_reset {
            next.change("a reset is noticed", None, |state| state.side_mut(at).knows_reset = true);
        }
        self.lease_step(next, side.local, |state| &mut state.side_mut(at).local);
        next.change("an instance crashes", Some(Fault::Crash), |state| {
            for i in 0..DELIVERIES {
                if state.deliveries[i].at == at && !matches!(state.deliveries[i].stage, Stage::Straying { .. }) {
                    self.drop_attempt(state, i);
                }
            }
            state.let_go(Holder::Unsure(at));
            state.side_mut(at).local = Cell::Empty;
        });
    }

    /// Claims that were given up are withdrawn, and what was done without the store is told to it.
    fn amends_steps(&mut self, at: bool, next: &mut Next<'_>) {
        let (cell, me) = (next.state.cell, Holder::Unsure(at));
        if let Cell::Claimed { by, doubt, .. } = cell
            && by == me
        {
            let (_, withdrawn) = self.shop.call(Call::Withdraw { me, doubt }, cell);
            next.change("withdraw", None, |state| state.cell = withdrawn);
            next.change("a withdrawal is lost", Some(Fault::LostSettlement), |state| state.let_go(me));
        }
        if let Some(written) = self.written_back(at, next.state) {
            next.change("write back", None, |state| {
                state.side_mut(at).local = Cell::Empty;
                state.cell = written;
            });
        }
    }

    /// What the store holds once it was told what became of the event in an instance; `None` where there is nothing to
    /// tell, or the store does not take it yet.
    pub fn written_back(&mut self, at: bool, state: &State) -> Option<Cell> {
        match state.side(at).local {
            Cell::Empty | Cell::Claimed { is_over: false, .. } => None,
            Cell::Failed { doubt: false } => Some(state.cell),
            Cell::Done => Some(self.shop.call(Call::Record, state.cell).1),
            Cell::Failed { doubt: true } | Cell::Claimed { is_over: true, .. } => {
                let (outcome, cell) = self.shop.call(Call::CastDoubt, state.cell);
                (outcome != Outcome::Live).then_some(cell)
            }
        }
    }
}

impl State {
    /// The provider hears.
    pub fn answer(&mut self, answer: Answer) -> Result<(), Broken> {
        if answer == Answer::Success {
            if !self.world.took_effect {
                return Err(Broken::Loss);
            }
            self.world.is_told = true;
        }
        Ok(())
    }

    /// A claim that is not settled is left to its lease.
    fn let_go(&mut self, holder: Holder) {
        if let Cell::Claimed { by, .. } = &mut self.cell
            && *by == holder
        {
            *by = Holder::Nobody;
        }
    }
}
