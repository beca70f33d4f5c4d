//! The program's own store over one cell, an operation at a time.
//!
//! A `Cell` is what the model tells apart of a stored value. Calls run through `Store` itself: the cell is written out as
//! the entry it stands for, the call is polled until it has had its operations, and what it left behind is read back.
//! There are few different calls, so each is run once and remembered.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use hookonce::config::{Fingerprint, Provider};
use hookonce::pipeline::identify::{BodyDigest, EventId, EventKey, fingerprint};
use hookonce::store::cells::{Cells, Change, Cursor, Held, Step, Swapped};
use hookonce::store::{
    self, Cast, Claim, ClaimOutcome, Claimed, Done, Entry, Failed, Forgotten, Mark, Released, Store, StoreError, StoreErrorKind,
    Terms, Token,
};

use crate::event::Flaw;

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
    const ALL: [Self; 7] = [
        Self::Delivery(0),
        Self::Delivery(1),
        Self::Delivery(2),
        Self::Delivery(3),
        Self::Unsure(false),
        Self::Unsure(true),
        Self::Nobody,
    ];

    /// Its place among all.
    fn code(self) -> usize {
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
    fn seen(self) -> Self {
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
    terms: Terms,
    key: EventKey,
    flaw: Flaw,
    /// What tells the claims of others apart, by the code of their holder.
    tokens: Vec<Token>,
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
        let store = Store::new(OneCell { shop: self, state: Mutex::default() });
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
            Some(ClaimOutcome::Conflict(_)) => panic!("there is one body"),
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
                Forgotten::Absent | Forgotten::InFlight { .. } => Outcome::Unchanged,
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

fn body() -> BodyDigest {
    fingerprint(&Fingerprint::Body, b"{}")
}

/// What the call says; `None` where it waits for an operation that it is not given.
fn poll<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// One cell, and who asks for it.
struct OneCell<'a> {
    shop: &'a Shop,
    state: Mutex<(Scene, Option<Held>)>,
}

#[derive(Clone, Debug, Default)]
struct Scene {
    me: Option<Holder>,
    /// The caller's own claim, once it has shown it.
    own: Option<Claimed>,
    /// What an earlier operation of the same call has shown.
    seen: Option<Cell>,
    /// Operations that are answered; `None`: all of them.
    turns: Option<usize>,
    /// Whether operations are done and not answered.
    is_unheard: bool,
    /// Whether the operation that is waited for compares with what was seen.
    is_swap: bool,
}

impl OneCell<'_> {
    fn open(&self, scene: Scene, cell: Cell) {
        self.lock().0 = scene;
        self.write_out(cell);
    }

    fn lock(&self) -> MutexGuard<'_, (Scene, Option<Held>)> {
        self.state.lock().unwrap()
    }

    /// Puts into the cell what a symbol stands for.
    fn write_out(&self, cell: Cell) {
        let held = self.written(cell);
        self.lock().1 = held;
    }

    fn written(&self, cell: Cell) -> Option<Held> {
        let Terms { lease, retention, .. } = self.shop.terms;
        let (at, body, attempt) = (UNIX_EPOCH, body(), 1);
        let mark = |doubt: bool| doubt.then_some(Mark::Unknown);
        let (entry, left) = match cell {
            Cell::Empty => return None,
            Cell::Failed { doubt } => {
                (Entry::Failed(Failed { attempt, doubt: mark(doubt), status: Some(503), body, at }), retention)
            }
            Cell::Done => (Entry::Done(Done { status: 200, body, attempt, at, reply: None }), retention),
            Cell::Claimed { by, doubt, is_over } => {
                let scene = self.lock().0.clone();
                let token = self.shop.tokens[by.code()];
                let other = Claimed { token, lease, retention, attempt, doubt: None, body, at };
                let claimed = scene.own.filter(|_| scene.me == Some(by)).unwrap_or(other);
                let left = if is_over { retention - lease } else { retention };
                let doubt = doubt.then(|| claimed.doubt.unwrap_or(Mark::Unknown));
                (Entry::Claimed(Claimed { doubt, ..claimed }), left)
            }
        };
        Some(Held { value: entry.encode(), left })
    }

    /// The symbol for what the cell holds.
    fn read_back(&self) -> Cell {
        let (scene, held) = &*self.lock();
        let Some(Held { value, left }) = held else { return Cell::Empty };
        match Entry::decode(value).unwrap() {
            Entry::Claimed(claimed) => {
                let other = self.shop.tokens.iter().position(|token| *token == claimed.token);
                let by = other.map_or(scene.me, |code| Some(Holder::ALL[code])).unwrap();
                Cell::Claimed { by, doubt: claimed.doubt.is_some(), is_over: *left + claimed.lease <= claimed.retention }
            }
            Entry::Failed(failed) => Cell::Failed { doubt: failed.doubt.is_some() },
            Entry::Done(_) => Cell::Done,
        }
    }

    /// What a claim that waits for its next operation has seen.
    fn goes_on_with(&self) -> Option<Cell> {
        let is_swap = self.lock().0.is_swap;
        is_swap.then(|| self.read_back().seen())
    }

    /// The caller's own claim is whatever it comes with; a cell that holds it was written before that was known.
    fn get_to_know(&self, value: &Bytes) {
        if let Some(Entry::Claimed(claimed)) = Entry::decode(value) {
            let cell = self.read_back();
            self.lock().0.own = Some(claimed);
            self.write_out(cell);
        }
    }

    /// Does an operation, if there is one left to be done, and answers, if answers are heard.
    async fn turn<T>(&self, is_swap: bool, operation: impl FnOnce(&mut Option<Held>) -> T) -> Result<T, StoreError> {
        let is_done = {
            let scene = &mut self.lock().0;
            scene.is_swap = is_swap;
            let turns = scene.turns;
            scene.turns = turns.map(|turns| turns.saturating_sub(1));
            turns != Some(0)
        };
        if !is_done {
            std::future::pending::<()>().await;
        }
        let (scene, held) = &mut *self.lock();
        let answer = operation(held);
        if scene.is_unheard { Err(StoreError::new(StoreErrorKind::Timeout, "the answer is lost")) } else { Ok(answer) }
    }
}

impl Cells for OneCell<'_> {
    async fn put_new(&self, _: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        self.get_to_know(&value);
        let earlier = self.lock().0.seen.take();
        if let Some(seen) = earlier {
            return Ok(self.written(seen).map(|held| held.value));
        }
        self.turn(false, |held| match held {
            Some(held) => (held.value != value).then(|| held.value.clone()),
            None => {
                *held = Some(Held { value, left: life });
                None
            }
        })
        .await
    }

    async fn put(&self, _: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        self.turn(false, |held| held.replace(Held { value, left: life }).map(|before| before.value)).await
    }

    async fn swap(&self, _: &str, change: Change) -> Result<Swapped, StoreError> {
        self.get_to_know(&change.to);
        let flaw = self.shop.flaw;
        self.turn(true, |held| {
            let settles = change.at_age.is_none() && matches!(Entry::decode(&change.from), Some(Entry::Claimed(_)));
            let verdict = match change.judge(held.clone()) {
                Swapped::Differs(_) if settles && flaw == Flaw::NoFence => Swapped::Written,
                verdict => verdict,
            };
            if verdict == Swapped::Written {
                let value = match Entry::decode(&change.to) {
                    Some(Entry::Failed(failed)) if settles && flaw == Flaw::DoubtForgotten => {
                        Entry::Failed(Failed { doubt: None, ..failed }).encode()
                    }
                    _ => change.to,
                };
                *held = Some(Held { value, left: change.life });
            }
            verdict
        })
        .await
    }

    async fn touch(&self, _: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        self.turn(false, |held| {
            let own = held.as_mut().filter(|held| held.value == value);
            own.map(|held| held.left = life).is_some()
        })
        .await
    }

    async fn read(&self, _: &str) -> Result<Option<Held>, StoreError> {
        self.turn(false, |held| held.clone()).await
    }

    async fn walk(&self, _: &str, _: Option<Cursor>) -> Result<Step, StoreError> {
        Ok(Step::default())
    }

    async fn pulse(&self, _: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }
}
