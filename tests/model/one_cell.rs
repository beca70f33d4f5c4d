//! One cell of the store, which holds what a symbol stands for, and does for one caller no more than it may.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use hookonce::store::cells::{Cells, Change, Cursor, Held, Step, Swapped};
use hookonce::store::{Claimed, Done, Entry, Failed, Mark, StoreError, StoreErrorKind, Terms};

use crate::cell::{Cell, Holder, Shop, body};
use crate::event::Flaw;

/// One cell, and who asks for it.
pub struct OneCell<'a> {
    shop: &'a Shop,
    state: Mutex<(Scene, Option<Held>)>,
}

#[derive(Clone, Debug, Default)]
pub struct Scene {
    pub me: Option<Holder>,
    /// The caller's own claim, once it has shown it.
    pub own: Option<Claimed>,
    /// What an earlier operation of the same call has shown.
    pub seen: Option<Cell>,
    /// Operations that are answered; `None`: all of them.
    pub turns: Option<usize>,
    /// Whether operations are done and not answered.
    pub is_unheard: bool,
    /// Whether the operation that is waited for compares with what was seen.
    pub is_swap: bool,
}

impl<'a> OneCell<'a> {
    pub fn new(shop: &'a Shop) -> Self {
        Self { shop, state: Mutex::default() }
    }

    pub fn open(&self, scene: Scene, cell: Cell) {
        self.lock().0 = scene;
        self.write_out(cell);
    }

    fn lock(&self) -> MutexGuard<'_, (Scene, Option<Held>)> {
        self.state.lock().unwrap()
    }

    /// Puts into the cell what a symbol stands for.
    pub fn write_out(&self, cell: Cell) {
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
    pub fn read_back(&self) -> Cell {
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
            Entry::Queued(_) => unreachable!("nothing is queued"),
        }
    }

    /// What a claim that waits for its next operation has seen.
    pub fn goes_on_with(&self) -> Option<Cell> {
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
