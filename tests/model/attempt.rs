//! What may happen to one delivery next: from its claim to its end.

use hookonce::config::{InFlight, OnStoreDown};
use hookonce::pipeline::settle::{Settlement, settlement_for};
use hookonce::pipeline::upstream::{ForwardError, NotSent, Unknown};
use http::StatusCode;

use crate::cell::{Call, Cell, Holder, Outcome};
use crate::event::{Broken, Event, Fault, Flaw, Next};
use crate::state::{Answer, Delivery, Stage, State};

/// A call that ends without an answer: the consumer has acted, or it has not.
const SILENCES: [(&str, bool); 2] = [("the consumer acts and is silent", true), ("the consumer is silent", false)];

fn holder(i: usize) -> Holder {
    Holder::Delivery(u8::try_from(i).unwrap())
}

impl Event {
    pub fn delivery_steps(&mut self, i: usize, next: &mut Next<'_>) {
        let delivery = next.state.deliveries[i];
        match delivery.stage {
            Stage::Idle => {}
            Stage::Following => next.change("a follower leaves", Some(Fault::SenderLeaves), |state| state.end(i)),
            Stage::Claiming { seen } => self.claim_steps(i, seen, next),
            Stage::Straying { seen } => self.straying_steps(i, seen, next),
            Stage::Waiting => self.waiting_steps(i, next),
            Stage::Holding { doubt, is_ours, has_sent } => self.holding_steps(i, doubt, is_ours, has_sent, next),
            Stage::Forwarding { doubt } => self.forwarding_steps(i, doubt, next),
            Stage::Bare => self.bare_steps(i, next),
            Stage::Completing { .. } => self.completing_steps(i, next),
            Stage::Failing { .. } => self.failing_steps(i, next),
        }
        if delivery.leads() {
            next.change("an attempt panics", Some(Fault::Crash), |state| {
                state.dismiss_followers(i);
                self.drop_attempt(state, i);
            });
        }
    }

    fn claim_steps(&mut self, i: usize, seen: Option<Cell>, next: &mut Next<'_>) {
        let state = *next.state;
        let Delivery { at, is_warned, .. } = state.deliveries[i];
        let local = state.side(at).local;
        let here = self.shop.call(Call::ClaimAtOnce { me: holder(i), is_warned }, local);
        if seen.is_none() {
            // What this process has done on its own comes first.
            if self.written_back(at, &state).is_some() {
                return;
            }
            if let Cell::Claimed { is_over: false, .. } = local {
                return next.step("claimed by this process", None, |state| self.claimed_here(state, i, here));
            }
        }
        let (outcome, cell) = self.shop.call(Call::Claim { me: holder(i), seen, is_warned }, state.cell);
        next.step("claim", None, |state| {
            state.cell = cell;
            self.claimed(state, i, outcome, cell)
        });
        let (_, unheard) = self.shop.call(Call::ClaimUnheard { me: holder(i), seen, is_warned }, state.cell);
        if let Cell::Claimed { doubt, is_over, .. } = unheard
            && unheard != state.cell
        {
            next.change("claimed, and the answer is lost", Some(Fault::StoreFails), |state| state.cell = unheard);
            next.step("claimed, and given up", Some(Fault::StoreFails), |state| {
                state.cell = Cell::Claimed { by: Holder::Unsure(at), doubt, is_over };
                self.go_without(state, i, here)
            });
        }
        next.step("not claimed, and given up", Some(Fault::StoreFails), |state| self.go_without(state, i, here));
        next.step("given up, and still on its way", Some(Fault::LateWrite), |state| {
            self.go_without(state, i, here)?;
            state.add(Delivery { stage: Stage::Straying { seen }, at: false, is_local: false, is_warned });
            Ok(())
        });
    }

    /// A claim was answered, by the store or by whoever stands in for it.
    fn claimed(&self, state: &mut State, i: usize, outcome: Outcome, cell: Cell) -> Result<(), Broken> {
        state.deliveries[i].stage = match (outcome, self.provider.in_flight) {
            (Outcome::GoesOn(seen), _) => Stage::Claiming { seen },
            (Outcome::Claimed { doubt }, _) => {
                // The holder counts from before it asked.
                let is_ours = !matches!(cell, Cell::Claimed { is_over: true, .. });
                Stage::Holding { doubt, is_ours, has_sent: false }
            }
            (Outcome::Live, InFlight::Wait) => Stage::Waiting,
            (Outcome::Live, InFlight::Retry) => return state.conclude(i, Answer::Error),
            (Outcome::Done, _) | (Outcome::Live, InFlight::Ack) => return state.conclude(i, Answer::Success),
            outcome => panic!("a claim says {outcome:?}"),
        };
        Ok(())
    }

    /// In a process of its own the event has one leader, so that nobody comes between the operations of its claim.
    fn claimed_here(&self, state: &mut State, i: usize, (outcome, cell): (Outcome, Cell)) -> Result<(), Broken> {
        state.deliveries[i].is_local = true;
        state.side_mut(state.deliveries[i].at).local = cell;
        self.claimed(state, i, outcome, cell)
    }

    /// A delivery whose store does not answer, by the provider's policy. (What the process has completed lately is left
    /// out: it answers only what took effect.)
    fn go_without(&self, state: &mut State, i: usize, here: (Outcome, Cell)) -> Result<(), Broken> {
        match self.provider.on_store_down {
            OnStoreDown::Closed => state.conclude(i, Answer::Error),
            OnStoreDown::Local => self.claimed_here(state, i, here),
            OnStoreDown::Open => {
                self.forward(state, i, true)?;
                state.deliveries[i].stage = Stage::Bare;
                Ok(())
            }
        }
    }

    fn straying_steps(&mut self, i: usize, seen: Option<Cell>, next: &mut Next<'_>) {
        let is_warned = next.state.deliveries[i].is_warned;
        let (_, cell) = self.shop.call(Call::Claim { me: holder(i), seen, is_warned }, next.state.cell);
        next.change("a stray claim arrives", None, |state| {
            state.cell = cell;
            state.end(i);
        });
        next.change("a stray claim is lost", None, |state| state.end(i));
    }

    fn waiting_steps(&mut self, i: usize, next: &mut Next<'_>) {
        let delivery = next.state.deliveries[i];
        if !delivery.is_local {
            next.step("nothing is seen any more", Some(Fault::StoreFails), |state| state.conclude(i, Answer::Error));
        }
        match self.shop.call(Call::Look, next.state.kept(&delivery)).0 {
            Outcome::Done => next.step("done elsewhere", None, |state| state.conclude(i, Answer::Success)),
            Outcome::Open => next.step("not done elsewhere", None, |state| state.conclude(i, Answer::Error)),
            _ => next.step("a waiting sender leaves", Some(Fault::SenderLeaves), |state| state.conclude(i, Answer::Error)),
        }
    }

    fn holding_steps(&mut self, i: usize, doubt: bool, is_ours: bool, has_sent: bool, next: &mut Next<'_>) {
        let not_sent = |reason| self.settled(Err(&ForwardError::NotSent(reason)), doubt);
        if !is_ours {
            let stage = not_sent(NotSent::LeaseLost);
            return next.change("not sent, the lease is over", None, |state| state.deliveries[i].stage = stage);
        }
        let is_marked = (doubt && self.flaw != Flaw::TakeoverUnmarked) || next.state.deliveries[i].is_local;
        next.step("forward", None, |state| {
            if has_sent {
                return Err(Broken::MoreForwards);
            }
            self.forward(state, i, is_marked)?;
            state.deliveries[i].stage = Stage::Forwarding { doubt };
            Ok(())
        });
        let stage = not_sent(NotSent::Connect("refused".into()));
        next.change("the consumer is not reached", Some(Fault::Failure), |state| state.deliveries[i].stage = stage);
    }

    fn forwarding_steps(&mut self, i: usize, doubt: bool, next: &mut Next<'_>) {
        let delivery = next.state.deliveries[i];
        let kept = next.state.kept(&delivery);
        let (_, renewed) = self.shop.call(Call::Renew { me: holder(i), doubt }, kept);
        if renewed != kept {
            next.change("renew", None, |state| state.keep(&delivery, renewed));
        }
        let accepted = self.settled(Ok(StatusCode::OK), doubt);
        next.step("the consumer accepts", None, |state| {
            self.take_effect(state)?;
            state.deliveries[i].stage = accepted;
            Ok(())
        });
        let failed = match self.flaw {
            Flaw::OwnRetry => Stage::Holding { doubt, is_ours: true, has_sent: true },
            _ => self.settled(Ok(StatusCode::SERVICE_UNAVAILABLE), doubt),
        };
        next.change("the consumer fails", Some(Fault::Failure), |state| state.deliveries[i].stage = failed);
        let unknown = self.settled(Err(&ForwardError::Unknown(Unknown::Timeout)), doubt);
        for (name, acts) in SILENCES {
            next.step(name, Some(Fault::Unknown), |state| {
                state.world.took_effect |= acts;
                self.note_risk(state, i);
                if unknown == Stage::Idle {
                    return state.conclude(i, Answer::Error);
                }
                state.deliveries[i].stage = unknown;
                Ok(())
            });
        }
    }

    /// How a delivery goes on after its call, by the program's own table. Idle: it is left to its lease.
    fn settled(&self, head: Result<StatusCode, &ForwardError>, doubt: bool) -> Stage {
        let answer = if head.is_ok() { Answer::Success } else { Answer::Error };
        match settlement_for(&self.provider, head) {
            Settlement::Complete => Stage::Completing { doubt, answer, is_told: false, is_settled: false },
            Settlement::Fail { doubt: unknown } => Stage::Failing { doubt, is_unknown: unknown.is_some(), is_told: false },
            Settlement::Hold => Stage::Idle,
        }
    }

    fn bare_steps(&self, i: usize, next: &mut Next<'_>) {
        next.step("the consumer accepts", None, |state| {
            self.take_effect(state)?;
            self.note_risk(state, i);
            state.conclude(i, Answer::Success)
        });
        next.step("the consumer fails", Some(Fault::Failure), |state| state.conclude(i, Answer::Error));
        for (name, acts) in SILENCES {
            next.step(name, Some(Fault::Unknown), |state| {
                state.world.took_effect |= acts;
                self.note_risk(state, i);
                state.conclude(i, Answer::Error)
            });
        }
    }

    /// The sender and the store are told at the same time.
    fn completing_steps(&mut self, i: usize, next: &mut Next<'_>) {
        let delivery = next.state.deliveries[i];
        let Stage::Completing { doubt, answer, is_told, is_settled } = delivery.stage else { return };
        let kept = next.state.kept(&delivery);
        let (_, done) = self.shop.call(Call::Complete { me: holder(i), doubt }, kept);
        let settle = |state: &mut State, is_told: bool, is_settled: bool| {
            state.deliveries[i].stage = Stage::Completing { doubt, answer, is_told, is_settled };
            if is_told && is_settled {
                self.drop_attempt(state, i);
            }
        };
        if !is_told {
            next.step("tell", None, |state| {
                state.tell(i, answer)?;
                settle(state, true, is_settled);
                Ok(())
            });
            next.step("the sender has left", Some(Fault::SenderLeaves), |state| {
                if state.has_followers(i) {
                    state.tell(i, answer)?;
                }
                settle(state, true, is_settled);
                Ok(())
            });
        }
        if is_settled {
            return;
        }
        next.step("the completion is lost", Some(Fault::LostSettlement), |state| {
            if self.flaw == Flaw::SettlementErrorTold && !is_told {
                state.tell(i, Answer::Error)?;
            }
            settle(state, is_told, true);
            Ok(())
        });
        next.change("complete", None, |state| {
            state.keep(&delivery, done);
            settle(state, is_told, true);
        });
        if done != kept {
            next.change("completed, and the answer is lost", Some(Fault::StoreFails), |state| state.keep(&delivery, done));
        }
    }

    /// The failure is stored before the sender is told, if that does not take too long.
    fn failing_steps(&mut self, i: usize, next: &mut Next<'_>) {
        let delivery = next.state.deliveries[i];
        let Stage::Failing { doubt, is_unknown, is_told } = delivery.stage else { return };
        let end = |state: &mut State, answer| {
            if !is_told {
                state.tell(i, answer)?;
            }
            state.end(i);
            Ok(())
        };
        next.step("the failure is lost", Some(Fault::LostSettlement), |state| end(state, Answer::Error));
        if !is_told {
            next.step("told before it has failed", None, |state| {
                state.tell(i, Answer::Error)?;
                state.deliveries[i].stage = Stage::Failing { doubt, is_unknown, is_told: true };
                Ok(())
            });
        }
        let kept = next.state.kept(&delivery);
        let (outcome, cell) = self.shop.call(Call::Fail { me: holder(i), doubt, is_unknown }, kept);
        next.step("fail", None, |state| {
            state.keep(&delivery, cell);
            // Another attempt has succeeded meanwhile: that is what the provider is told.
            end(state, if outcome == Outcome::Done { Answer::Success } else { Answer::Error })
        });
        if cell != kept {
            next.change("failed, and the answer is lost", Some(Fault::StoreFails), |state| state.keep(&delivery, cell));
        }
    }

    /// The delivery ends, whatever it was about.
    pub fn drop_attempt(&self, state: &mut State, i: usize) {
        if state.deliveries[i].may_take_effect() {
            self.note_risk(state, i);
        }
        state.end(i);
    }

    fn note_risk(&self, state: &mut State, i: usize) {
        state.world.is_risky |= self.counts(&state.deliveries[i]);
    }

    /// Whether a forward that may have taken effect makes the next one a second.
    fn counts(&self, delivery: &Delivery) -> bool {
        !(self.is_lenient() && delivery.is_marked())
    }

    fn forward(&self, state: &State, i: usize, is_marked: bool) -> Result<(), Broken> {
        let others = state.deliveries.iter().filter(|other| other.may_take_effect());
        let is_second = state.world.is_risky || others.into_iter().any(|other| self.counts(other));
        // Lost data is noticed within a second, and marks are made where the event's own time is known.
        let is_excused = state.world.was_reset && !state.deliveries[i].is_warned;
        if is_second && !is_marked && !is_excused {
            return Err(Broken::Unmarked);
        }
        if is_marked && self.is_calm() {
            return Err(Broken::MarkedInCalm);
        }
        Ok(())
    }

    fn take_effect(&self, state: &mut State) -> Result<(), Broken> {
        let is_second = std::mem::replace(&mut state.world.took_effect, true);
        if is_second && self.is_calm() { Err(Broken::TwiceInCalm) } else { Ok(()) }
    }
}

impl State {
    /// The sender of a delivery hears, and those who follow it.
    fn tell(&mut self, i: usize, answer: Answer) -> Result<(), Broken> {
        if answer == Answer::Error && matches!(self.deliveries[i].stage, Stage::Completing { answer: Answer::Success, .. }) {
            return Err(Broken::HiddenSuccess);
        }
        self.dismiss_followers(i);
        self.answer(answer)
    }

    fn conclude(&mut self, i: usize, answer: Answer) -> Result<(), Broken> {
        self.tell(i, answer)?;
        self.end(i);
        Ok(())
    }

    fn has_followers(&self, i: usize) -> bool {
        let at = self.deliveries[i].at;
        self.deliveries.iter().any(|delivery| delivery.at == at && delivery.stage == Stage::Following)
    }
}
