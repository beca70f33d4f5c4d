//! Takes jobs to the writer, and their answers back, a round at a time.
//!
//! Waking another thread costs more than a claim does, both ways. So what is asked on one runtime while its ready tasks run
//! is gathered, and a task that comes behind them takes all of it to the writer. What is asked while that round is under way goes
//! with the next one, when the task is back. It wakes the callers where they are. Without load a round is one job.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as threads};
use std::thread::{self, ThreadId};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::writer::Job;
use crate::store::cells::StoreError;

/// The writer is gone.
#[derive(Debug)]
pub(super) struct Gone;

/// What reaches the writer.
pub(super) enum Order {
    Round(Round),
    Close(oneshot::Sender<()>),
}

pub(super) struct Round {
    pub(super) jobs: Vec<Job>,
    pub(super) back: Back,
}

/// The way back to whoever brought a round.
#[derive(Clone)]
pub(super) struct Back(UnboundedSender<Settled>);

/// Jobs that are as safe as asked, or never will be.
pub(super) struct Settled {
    pub(super) jobs: Vec<Job>,
    /// One for each job, or none where all went well.
    pub(super) errors: Vec<StoreError>,
    /// The way itself, once the round they came with has been written: the next one may come by it. Whoever drops a round drops
    /// this, and is waited for no longer.
    pub(super) next: Option<Back>,
}

impl Back {
    pub(super) fn send(&self, settled: Settled) {
        // Whoever no longer waits has gone with its runtime, and its callers too.
        let _ = self.0.send(settled);
    }

    pub(super) fn is_that_of(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

/// Jobs that wait to be taken along, by the thread that asked for them. There is an entry as long as somebody will come.
type Open = Vec<(ThreadId, Vec<Job>)>;

#[derive(Clone)]
pub(super) struct Rounds {
    open: Arc<Mutex<Open>>,
    orders: threads::Sender<Order>,
}

impl Rounds {
    pub(super) fn new(orders: threads::Sender<Order>) -> Self {
        Self { open: Arc::default(), orders }
    }

    /// Has a job taken along with this thread's next round.
    pub(super) fn add(&self, job: Job) {
        let here = thread::current().id();
        let mut open = self.open();
        if let Some((_, jobs)) = open.iter_mut().find(|(thread, _)| *thread == here) {
            return jobs.push(job);
        }
        open.push((here, vec![job]));
        drop(open);
        let carrier = Carrier { rounds: self.clone(), from: here, has_left: false };
        tokio::spawn(carrier.work());
    }

    /// Sends what has been gathered anywhere, and then the word to close.
    pub(super) fn close(&self, closed: oneshot::Sender<()>) -> Result<(), Gone> {
        let gathered: Vec<_> = self.open().iter_mut().map(|(_, jobs)| std::mem::take(jobs)).collect();
        for jobs in gathered.into_iter().filter(|jobs| !jobs.is_empty()) {
            let (back, settled) = unbounded_channel();
            let count = jobs.len();
            self.send(jobs, Back(back))?;
            tokio::spawn(hand_out(count, settled));
        }
        self.orders.send(Order::Close(closed)).map_err(|_| Gone)
    }

    /// Until nobody goes between.
    #[cfg(test)]
    pub(super) async fn left(&self) {
        while !self.open().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    fn send(&self, jobs: Vec<Job>, back: Back) -> Result<(), Gone> {
        self.orders.send(Order::Round(Round { jobs, back })).map_err(|_| Gone)
    }

    /// A std mutex: never held across an await, and for a few instructions.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes between a runtime's thread and the writer, as long as there is something to take along.
struct Carrier {
    rounds: Rounds,
    from: ThreadId,
    /// Its entry is gone. One of the same thread is another's.
    has_left: bool,
}

impl Carrier {
    async fn work(mut self) {
        let (back, mut settled) = unbounded_channel();
        let (mut back, mut out) = (Back(back), 0);
        while let Some(jobs) = self.next() {
            out += jobs.len();
            if self.rounds.send(jobs, back).is_err() {
                // The callers learn it from their answers, which went with the jobs.
                return;
            }
            // Those who wait for the disk may be answered in between, or later.
            back = loop {
                let Some(some) = settled.recv().await else { return };
                out -= some.jobs.len();
                if let Some(next) = answer(some) {
                    break next;
                }
            };
        }
        drop(back);
        hand_out(out, settled).await;
    }

    /// What there is to take along. Where that is nothing, it leaves, and the next job is another's.
    fn next(&mut self) -> Option<Vec<Job>> {
        let mut open = self.rounds.open();
        let at = open.iter().position(|(thread, _)| *thread == self.from && !self.has_left)?;
        let jobs = std::mem::take(&mut open[at].1);
        if jobs.is_empty() {
            open.swap_remove(at);
            self.has_left = true;
            return None;
        }
        Some(jobs)
    }
}

/// A runtime that ends drops its tasks: what was asked is done all the same, and nobody waits for a task that is gone.
impl Drop for Carrier {
    fn drop(&mut self) {
        while let Some(jobs) = self.next() {
            let _ = self.rounds.send(jobs, Back(unbounded_channel().0));
        }
    }
}

async fn hand_out(mut out: usize, mut settled: UnboundedReceiver<Settled>) {
    while out > 0
        && let Some(some) = settled.recv().await
    {
        out -= some.jobs.len();
        answer(some);
    }
}

/// Wakes the callers. Gives the way for the next round, where one has ended.
fn answer(mut settled: Settled) -> Option<Back> {
    for job in settled.jobs {
        job.answer(settled.errors.pop().map_or(Ok(()), Err));
    }
    settled.next
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").finish_non_exhaustive()
    }
}
