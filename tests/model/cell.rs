//! The program's own store over one cell, an operation at a time.
//!
//! A `Cell` is what the model tells apart of a stored value. Calls run through `Store` itself: the cell is written out as
//! the entry it stands for, the call is polled until it has had its operations, and what it left behind is read back.
//! There are few different calls, so each is run once and remembered.

use std::collections::HashMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, UNIX_EPOCH};

use hookonce::config::{Fingerprint, Provider};
use hookonce::pipeline::identify::{BodyDigest, EventId, EventKey, fingerprint};
use hookonce::store::{self, Cast, Claim, ClaimOutcome, Done, Entry, Failed, Forgotten, Mark, Released, Store, Terms, Token};

use crate::event::Flaw;
use crate::one_cell::{OneCell, Scene};

/// What the store holds for the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Empty,
    Claimed { by: Holder, doubt: bool, is_over: bool },
    Failed { doubt: bool },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A delivery that is under way.
    Delivery(u8),
    /// One that has given up its claim, which its instance is to withdraw.
    Unsure(bool),
    /// One that has ended and settles nothing.
    Nobody,
}

impl Holder {
    pub const ALL: [Self; 7] = [
        Self::Delivery(0),
        Self::Delivery(1),
        Self::Delivery(2),
        Self::Delivery(3),
        Self::Unsure(false),
        Self::Unsure(true),
        Self::Nobody,
    ];

    /// Its place among all.
    pub fn code(self) -> usize {
        match self {
            Self::Delivery(place) => usize::from(place),
            Self::Unsure(instance) => 4 + usize::from(instance),
            Self::Nobody => 6,
        }
    }
}

impl Cell {
    /// Less than 32, and another number for each.
    pub fn code(self) -> u128 {
        match self {
            Self::Empty => 0,
            Self::Done => 1,
            Self::Failed { doubt } => 2 | u128::from(doubt),
            Self::Claimed { by, doubt, is_over } => (1 + by.code() as u128) << 2 | u128::from(doubt) << 1 | u128::from(is_over),
        }
    }

    /// Follows a delivery to its new place.
    pub fn rename(&mut self, places: &[Holder]) {
        if let Self::Claimed { by: by @ Holder::Delivery(_), .. } = self {
            *by = places[by.code()];
        }
    }

    /// What an operation has seen of it: not its age.
    pub fn seen(self) -> Self {
        match self {
            Self::Claimed { by, doubt, .. } => Self::Claimed { by, doubt, is_over: false },
            other => other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// One operation of a claim: its first, or the one that follows from what the last has shown.
    Claim {
        me: Holder,
        seen: Option<Cell>,
        is_warned: bool,
    },
    /// A claim from its beginning to its end.
    ClaimAtOnce {
        me: Holder,
        is_warned: bool,
    },
    /// An operation of a claim whose answer does not come.
    ClaimUnheard {
        me: Holder,
        seen: Option<Cell>,
        is_warned: bool,
    },
    Withdraw {
        me: Holder,
        doubt: bool,
    },
    Renew {
        me: Holder,
        doubt: bool,
    },
    Complete {
        me: Holder,
        doubt: bool,
    },
    /// `is_unknown`: the attempt may have taken effect.
    Fail {
        me: Holder,
        doubt: bool,
        is_unknown: bool,
    },
    /// A success elsewhere is written back, or a doubt.
    Record,
    CastDoubt,
    Look,
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The claim goes on with what it has seen, or from its beginning.
    GoesOn(Option<Cell>),
    Claimed {
        doubt: bool,
    },
    /// The claim may have been stored, and is to be withdrawn.
    Unsure,
    Done,
    /// Somebody is at work on the event.
    Live,
    /// It is open, or it was changed as asked.
    Open,
    Unchanged,
}

/// The store, and what it was seen to do.
pub struct Shop {
    pub terms: Terms,
    key: EventKey,
    pub flaw: Flaw,
    /// What tells the claims of others apart, by the code of their holder.
    pub tokens: Vec<Token>,
    seen: HashMap<(Call, Cell), (Outcome, Cell)>,
}

impl Shop {
    pub fn new(provider: &Provider, flaw: Flaw) -> Self {
        let terms =
            Terms { lease: provider.lease, retention: provider.retention, body: body(), body_matters: false, doubt: None };
        let key = EventKey::new("model", &provider.name, &EventId::parse("evt_1").unwrap());
        let tokens = Holder::ALL.iter().map(|_| Token::random().unwrap()).collect();
        Self { terms, key, flaw, tokens, seen: HashMap::new() }
    }

    /// What the call says, and what it leaves in the cell.
    pub fn call(&mut self, call: Call, cell: Cell) -> (Outcome, Cell) {
        if let Some(known) = self.seen.get(&(call, cell)) {
            return *known;
        }
        let store = Store::new(OneCell::new(self));
        let outcome = self.run(&store, call, cell);
        let result = (outcome, store.cells().read_back());
        self.seen.insert((call, cell), result);
        result
    }

    /// How many different calls there were.
    pub fn calls(&self) -> usize {
        self.seen.len()
    }

    fn run(&self, store: &Store<OneCell<'_>>, call: Call, cell: Cell) -> Outcome {
        match call {
            Call::Claim { me, seen, is_warned } => {
                store.cells().open(Scene { me: Some(me), seen, turns: Some(1), ..Scene::default() }, cell);
                self.claim(store, is_warned)
            }
            Call::ClaimAtOnce { me, is_warned } => {
                store.cells().open(Scene { me: Some(me), ..Scene::default() }, cell);
                self.claim(store, is_warned)
            }
            Call::ClaimUnheard { me, seen, is_warned } => {
                store.cells().open(Scene { me: Some(me), seen, is_unheard: true, ..Scene::default() }, cell);
                match poll(store.claim(&self.key, &self.terms_of(is_warned))).unwrap() {
                    Err(error) if error.unsure.is_some() => Outcome::Unsure,
                    outcome => panic!("a claim whose answer is lost is {outcome:?}"),
                }
            }
            Call::Withdraw { me, doubt } => {
                let claim = self.claim_of(store, me, doubt, cell);
                poll(store.withdraw(&claim)).unwrap().unwrap();
                Outcome::Open
            }
            Call::Renew { me, doubt } => {
                let claim = self.claim_of(store, me, doubt, cell);
                if poll(store.renew(&claim)).unwrap().unwrap() { Outcome::Live } else { Outcome::Unchanged }
            }
            Call::Complete { me, doubt } => {
                let claim = self.claim_of(store, me, doubt, cell);
                poll(store.complete(&claim, store::done(&claim, 200, UNIX_EPOCH, None))).unwrap().unwrap();
                Outcome::Done
            }
            Call::Fail { me, doubt, is_unknown } => {
                let claim = self.claim_of(store, me, doubt, cell);
                match poll(store.fail(&claim, Some(503), is_unknown.then_some(Mark::Unknown))).unwrap().unwrap() {
                    Released::Released => Outcome::Open,
                    Released::LeaseLost => Outcome::Unchanged,
                    Released::Done(_) => Outcome::Done,
                }
            }
            Call::Record | Call::CastDoubt | Call::Look | Call::Forget => self.run_without_claim(store, call, cell),
        }
    }

    fn claim(&self, store: &Store<OneCell<'_>>, is_warned: bool) -> Outcome {
        match poll(store.claim(&self.key, &self.terms_of(is_warned))).map(Result::unwrap) {
            None => Outcome::GoesOn(store.cells().goes_on_with()),
            Some(ClaimOutcome::Claimed { claim, .. }) => Outcome::Claimed { doubt: claim.doubt().is_some() },
            Some(ClaimOutcome::Done(_)) => Outcome::Done,
            Some(ClaimOutcome::InFlight { .. }) => Outcome::Live,
            Some(ClaimOutcome::Conflict(_) | ClaimOutcome::Queued(_)) => panic!("there is one body, and no queue"),
        }
    }

    fn run_without_claim(&self, store: &Store<OneCell<'_>>, call: Call, cell: Cell) -> Outcome {
        store.cells().open(Scene::default(), cell);
        let (key, retention) = (&self.key, self.terms.retention);
        match call {
            Call::Record => {
                let done = Done { status: 200, body: body(), attempt: 1, at: UNIX_EPOCH, reply: None };
                poll(store.record(key, done, retention)).unwrap().unwrap();
                Outcome::Done
            }
            Call::CastDoubt => {
                let ended = Failed { attempt: 1, doubt: Some(Mark::Unknown), status: None, body: body(), at: UNIX_EPOCH };
                match poll(store.cast_doubt(key, &Entry::Failed(ended), retention)).unwrap().unwrap() {
                    Cast::Cast => Outcome::Open,
                    Cast::Claimed => Outcome::Live,
                    Cast::Done => Outcome::Done,
                }
            }
            Call::Forget => match poll(store.forget(key)).unwrap().unwrap() {
                Forgotten::Forgotten => Outcome::Open,
                Forgotten::Absent | Forgotten::Queued | Forgotten::InFlight { .. } => Outcome::Unchanged,
            },
            _ => match poll(store.look(key)).unwrap().unwrap() {
                Some(seen) if seen.lease_left.is_some_and(|left| left > Duration::ZERO) => Outcome::Live,
                Some(seen) if matches!(seen.entry, Entry::Done(_)) => Outcome::Done,
                Some(_) | None => Outcome::Open,
            },
        }
    }

    fn terms_of(&self, is_warned: bool) -> Terms {
        Terms { doubt: is_warned.then_some(Mark::StoreReset), ..self.terms }
    }

    /// A claim as it was made earlier, and the cell as it is now.
    fn claim_of(&self, store: &Store<OneCell<'_>>, me: Holder, doubt: bool, cell: Cell) -> Claim {
        store.cells().open(Scene { me: Some(me), ..Scene::default() }, Cell::Failed { doubt });
        let claimed = poll(store.claim(&self.key, &self.terms)).unwrap().unwrap();
        let ClaimOutcome::Claimed { claim, .. } = claimed else { panic!("an open event is claimed, not {claimed:?}") };
        store.cells().write_out(cell);
        claim
    }
}

pub fn body() -> BodyDigest {
    fingerprint(&Fingerprint::Body, b"{}")
}

/// What the call says; `None` where it waits for an operation that it is not given.
fn poll<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}
