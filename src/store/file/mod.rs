//! Cells in a directory of this machine, for a single instance: nothing else has to be installed.
//!
//! ```text
//!   callers --a round at a time--> writer --one commit a batch--> journal, in the kernel's memory: survives kill -9
//!                                     |                              |
//!                                     +-- who must be durable --> syncer --fdatasync--> disk: survives a power cut
//! ```
//!
//! - One thread writes. What it compares with, nobody else can change, so every operation is atomic; and whatever
//!   the engine does to its caller (it may sleep, it reads the disk), no runtime stops for it.
//! - `put`, and what is done with letters, is answered once it is on disk, the rest once it is in the journal: a claim must
//!   outlive this process, a completion and a promise must outlive this machine.
//! - A cell is kept as its end (milliseconds of the wall clock, eight bytes, big-endian) and its value. A clock that
//!   outlives the process has to be the wall clock: where it is set forward, leases and retention end early by as
//!   much; where it is set back, late. A cell past its end is absent, whether or not it has been swept out yet.
//! - Once a write or a flush has failed, nothing more is written, since nobody can tell what the disk holds. Reads
//!   of cells go on; the rest are errors until the program is started again.
//! - Dropping the last clone does not wait: the writer finishes what is queued, flushes and unlocks the directory on
//!   its own. A process that ends before that has lost nothing, as after kill -9. `close` waits.

mod checkpoint;
mod ends;
mod floors;
mod health;
mod journal;
mod manifest;
mod mend;
mod rounds;
mod sweep;
mod tables;
mod writer;

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::backlog::{
    Appended, Backlog, Filed, Finished, Holding, Lane, LetterId, NewLetter, Revived, Room, Slip, TakeTerms, Taken, Tally,
};
use super::cells::{Cells, Change, Cursor, Held, Step, StoreError, StoreErrorKind, Swapped};
use super::rows::LaneRows;
use rounds::Rounds;
use writer::{Batch, Job, Until, Writer};

/// The longest a call waits for its turn and its answer, unless told otherwise. A disk that needs longer is as good as gone.
const BUDGET: Duration = Duration::from_secs(5);
/// Calls that may be under way at once; more wait for their turn.
const CALLS_MAX: usize = 4096;
/// Cells that a search looks at in one turn, so that claims need not wait for it.
const SCAN_STEP: usize = 256;
/// An opening that takes longer than this is worth a word: the journal was long.
const SLOW_OPEN: Duration = Duration::from_millis(200);

/// A handle on the one writer. Clones may be used from any runtime.
#[derive(Clone)]
pub struct FileCells {
    desk: Arc<Desk>,
    budget: Duration,
}

struct Desk {
    path: PathBuf,
    rounds: Rounds,
    places: Arc<Semaphore>,
}

impl FileCells {
    /// Opens the directory, which is made if need be; blocks while the journal of the last run is read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let began = Instant::now();
        make_directory(path)?;
        let (orders, queue) = mpsc::channel();
        Writer::open(path)?.spawn(queue).map_err(|error| local(path, &error))?;
        let (took, path) = (began.elapsed(), path.to_owned());
        if took > SLOW_OPEN {
            tracing::info!(path = %path.display(), ?took, "opening the store took its time: the journal of the last run is read first");
        }
        Ok(Self {
            desk: Arc::new(Desk { path, rounds: Rounds::new(orders), places: Arc::new(Semaphore::new(CALLS_MAX)) }),
            budget: BUDGET,
        })
    }

    /// The same store, with another patience.
    pub fn with_budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    /// Ends the store in good order: what was asked before is done and flushed, and the directory is free for the
    /// next process. Calls that come later, by any clone, are errors.
    pub async fn close(&self) -> Result<(), StoreError> {
        let (closed, when_closed) = oneshot::channel();
        if self.desk.rounds.close(closed).is_ok() {
            // A sender that is gone means that another call has closed the store.
            let _ = timeout(BUDGET, when_closed).await.map_err(|_| self.late())?;
        }
        Ok(())
    }

    /// Has the writer do something, and waits for it to be as safe as asked.
    async fn ask<T, F>(&self, until: Until, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let answered = async {
            // Held until the answer is given: also a caller that has gone away keeps its place in the queue.
            let place = Arc::clone(&self.desk.places).acquire_owned().await.map_err(|_| self.closed())?;
            let job = Job::new(until, job, move |outcome| {
                drop(place);
                // A caller that no longer waits does not want it.
                let _ = answer.send(outcome);
            });
            self.desk.rounds.add(job);
            answered.await.map_err(|_| self.closed())?
        };
        timeout(self.budget, answered).await.map_err(|_| self.late())?
    }

    /// Has the writer decide, from what the cell holds, what to answer and what to write.
    async fn decide<T, F>(&self, key: &str, until: Until, decide: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(Option<Held>) -> Decision<T> + Send + 'static,
    {
        let key = key.to_owned();
        self.ask(until, move |batch| batch.decide(key, decide)).await
    }

    fn closed(&self) -> StoreError {
        local(&self.desk.path, &"the store is closed")
    }

    fn late(&self) -> StoreError {
        let path = self.desk.path.display();
        StoreError::new(StoreErrorKind::Timeout, format!("{path}: no answer in {:?}: is the disk overloaded?", self.budget))
    }
}

impl Cells for FileCells {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let decide = move |held: Option<Held>| match held {
            Some(held) => Decision::leave((held.value != value).then_some(held.value)),
            None => Decision::write(None, value, life),
        };
        self.decide(key, Until::Written, decide).await
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let decide = move |held: Option<Held>| Decision::write(held.map(|held| held.value), value, life);
        self.decide(key, Until::Durable, decide).await
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        let decide = move |held| match change.judge(held) {
            Swapped::Written => Decision::write(Swapped::Written, change.to, change.life),
            other => Decision::leave(other),
        };
        self.decide(key, Until::Written, decide).await
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        let decide = move |held: Option<Held>| match held {
            Some(held) if held.value == value => Decision::write(true, value, life),
            _ => Decision::leave(false),
        };
        self.decide(key, Until::Written, decide).await
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        self.decide(key, Until::Written, Decision::leave).await
    }

    async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<Step, StoreError> {
        let (prefix, last) = (prefix.to_owned(), from.map(|Cursor(key)| key.into()));
        let page = self.ask(Until::Written, move |batch| batch.page(&prefix, last, SCAN_STEP)).await?;
        Ok(Step { cells: page.live, next: page.last.map(|key| Cursor(String::from_utf8_lossy(&key).into_owned())) })
    }

    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        self.ask(Until::Written, |batch| batch.writable()).await?;
        Ok(self.read(marker).await?.map(|held| held.value))
    }
}

impl FileCells {
    /// Has the writer do something with a lane.
    async fn in_lane<T, F>(&self, lane: &Lane, until: Until, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut LaneRows<'_, Batch<'_>>) -> Result<T, StoreError> + Send + 'static,
    {
        let lane = lane.clone();
        self.ask(until, move |batch| {
            batch.writable()?;
            work(&mut LaneRows::new(batch, &lane))
        })
        .await
    }
}

/// What is promised to a sender, or keeps an attempt from going unmarked, outlives the machine; the rest the process.
impl Backlog for FileCells {
    async fn append(&self, lane: &Lane, letter: NewLetter, room: Room) -> Result<Appended, StoreError> {
        self.in_lane(lane, Until::Durable, move |lane| lane.append(letter, room)).await
    }

    async fn take(&self, lane: &Lane, terms: TakeTerms) -> Result<Taken, StoreError> {
        self.in_lane(lane, Until::Durable, move |lane| lane.take(terms)).await
    }

    async fn extend(&self, lane: &Lane, holding: &Holding, lease: Duration) -> Result<bool, StoreError> {
        let holding = holding.clone();
        self.in_lane(lane, Until::Written, move |lane| lane.extend(&holding, lease)).await
    }

    async fn finish(&self, lane: &Lane, finished: Finished) -> Result<Option<Bytes>, StoreError> {
        self.in_lane(lane, Until::Durable, move |lane| lane.finish(finished)).await
    }

    async fn postpone(&self, lane: &Lane, holding: &Holding, slip: Slip, pause: Duration) -> Result<bool, StoreError> {
        let holding = holding.clone();
        self.in_lane(lane, Until::Durable, move |lane| lane.postpone(&holding, slip, pause)).await
    }

    async fn bury(&self, lane: &Lane, holding: &Holding, slip: Slip, blocks: bool) -> Result<bool, StoreError> {
        let holding = holding.clone();
        self.in_lane(lane, Until::Durable, move |lane| lane.bury(&holding, slip, blocks)).await
    }

    async fn revive(&self, lane: &Lane, id: LetterId, slip: Slip) -> Result<Revived, StoreError> {
        self.in_lane(lane, Until::Durable, move |lane| lane.revive(id, slip)).await
    }

    async fn letter(&self, lane: &Lane, id: LetterId) -> Result<Option<Filed>, StoreError> {
        self.in_lane(lane, Until::Written, move |lane| lane.letter(id)).await
    }

    async fn list(&self, lane: &Lane, is_dead: bool, after: Option<LetterId>, most: usize) -> Result<Vec<Filed>, StoreError> {
        self.in_lane(lane, Until::Written, move |lane| lane.list(is_dead, after, most)).await
    }

    async fn tally(&self, lane: &Lane) -> Result<Tally, StoreError> {
        self.in_lane(lane, Until::Written, |lane| lane.tally()).await
    }
}

/// What to answer, and what to write for how long, if anything.
struct Decision<T> {
    answer: T,
    write: Option<(Bytes, Duration)>,
}

impl<T> Decision<T> {
    fn leave(answer: T) -> Self {
        Self { answer, write: None }
    }

    fn write(answer: T, value: Bytes, life: Duration) -> Self {
        Self { answer, write: Some((value, life)) }
    }
}

/// Makes the directory for this user alone: it tells who was sent what.
fn make_directory(path: &Path) -> Result<(), StoreError> {
    if path.exists() && !path.is_dir() {
        return Err(local(path, &"is not a directory: file: keeps several files, in a directory of its own"));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| local(path, &error))
}

fn local(path: &Path, what: &dyn fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Local, format!("{}: {what}", path.display()))
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the store's own clock: it must outlive the process")]
fn wall_clock() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since_1970)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for FileCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCells").field("path", &self.desk.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
