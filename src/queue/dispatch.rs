//! Gives letters out to attempts: as many as may be under way at once, as soon as they are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::attempt::attempt;
use crate::failpoint::Failpoint;
use crate::pipeline::Pipeline;
use crate::pipeline::plan::Door;
use crate::pipeline::route::Route;
use crate::store::backlog::{TakeTerms, Taken};
use crate::store::{StoreError, StoreErrorKind, Token};
use crate::telemetry::StoreOp;

/// Letters of one provider that are out at once, where `max_concurrent` does not say.
const CONCURRENT: usize = 32;
/// Letters that other processes have left behind are looked for this often.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// What is held in memory of one take, beside one letter.
const TAKE_BYTES: u64 = 2 << 20;
/// A store that does not give letters out is asked again after this long.
const PAUSE: Duration = Duration::from_millis(250);
/// A consumer that cannot be connected to is tried this often, with one letter: the others need not spend an attempt to learn
/// what that one has, and whoever comes back is not met by all of them.
const AWAY: Duration = Duration::from_secs(1);
/// Attempts in a row that could not connect, until the consumer is taken to be away.
const AWAY_AFTER: usize = 3;

/// Delivers the letters of one provider until the program closes, or the provider is no longer configured. Those that are out
/// then are seen to their end; the rest stays where it is.
pub async fn deliver(door: Arc<Door>, provider: String, closing: CancellationToken) {
    let mut slots = Slots::default();
    let unreached = Arc::new(AtomicUsize::new(0));
    let mut is_heard = true;
    loop {
        let pipeline = door.pipeline();
        let Some(route) = pipeline.plan.routes.named(&provider).map(Arc::clone) else { return };
        // A provider that is in sync mode may have been in the other one.
        if !route.has_letters() {
            drop(pipeline);
            tokio::select! {
                () = route.bell.notified() => continue,
                () = closing.cancelled() => return,
            }
        }
        slots.become_as_many_as(route.provider.max_concurrent.unwrap_or(CONCURRENT));
        let slots = &slots.slots;
        // One slot at least: what is taken is sent at once.
        let slot = tokio::select! {
            slot = Arc::clone(slots).acquire_owned() => slot,
            // There may be more of them by now.
            () = route.bell.notified() => continue,
            () = closing.cancelled() => return,
        };
        let Ok(slot) = slot else { return };
        let mut free = vec![slot];
        let is_away = unreached.load(Ordering::Relaxed) >= AWAY_AFTER;
        while !is_away && let Ok(another) = Arc::clone(slots).try_acquire_owned() {
            free.push(another);
        }
        let asked = Instant::now();
        // Those who come from here on ring again.
        let rung = route.bell.notified();
        let next = match take(&pipeline, &route, free.len()).await {
            Ok(taken) => {
                is_heard = true;
                let was_full = taken.letters.len() == free.len();
                for (letter, slot) in taken.letters.into_iter().zip(free) {
                    let (pipeline, route, unreached) = (Arc::clone(&pipeline), Arc::clone(&route), Arc::clone(&unreached));
                    pipeline.tasks.clone().spawn(async move {
                        if attempt(&pipeline, &route, letter, asked).await {
                            unreached.store(0, Ordering::Relaxed);
                        } else {
                            unreached.fetch_add(1, Ordering::Relaxed);
                        }
                        drop(slot);
                    });
                }
                if is_away {
                    AWAY
                } else if was_full {
                    Duration::ZERO
                } else {
                    taken.next.unwrap_or(LOOK).min(LOOK)
                }
            }
            Err(error) => {
                let provider = &route.provider.name;
                if is_heard {
                    tracing::warn!(provider, %error, "the store gives out no letters");
                }
                is_heard = false;
                PAUSE
            }
        };
        if next.is_zero() {
            continue;
        }
        tokio::select! {
            () = sleep(next) => {}
            // Who is away is not back because there is more to do.
            () = rung, if next != AWAY => {}
            () = closing.cancelled() => return,
        }
    }
}

/// Places for letters that are out. A reload may change how many there are while some are taken.
struct Slots {
    slots: Arc<Semaphore>,
    count: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(0)), count: 0 }
    }
}

impl Slots {
    /// Those that are too many and taken go when they are given back, and this is called again.
    fn become_as_many_as(&mut self, count: usize) {
        self.slots.add_permits(count.saturating_sub(self.count));
        self.count = self.count.max(count);
        self.count -= self.slots.forget_permits(self.count - count);
    }
}

async fn take(pipeline: &Pipeline, route: &Route, most: usize) -> Result<Taken, StoreError> {
    let token = Token::random().map_err(|error| StoreError::new(StoreErrorKind::Local, error))?;
    let terms = TakeTerms { lease: route.provider.lease, most, bytes: TAKE_BYTES, token, trusts_cells: true };
    let taken = pipeline.telemetry.store(StoreOp::Take, pipeline.store.take(&route.lane, terms)).await?;
    if taken.missing > 0 {
        let provider = &route.provider.name;
        tracing::error!(
            provider,
            letters = taken.missing,
            "the store has lost letters, or is moving them: were keys deleted or evicted?"
        );
    }
    if !taken.letters.is_empty() {
        Failpoint::AfterTake.reach().await;
    }
    Ok(taken)
}
