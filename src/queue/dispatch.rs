//! Gives letters out to attempts: as many as may be under way at once, as soon as they are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::attempt::attempt;
use crate::failpoint::Failpoint;
use crate::pipeline::Pipeline;
use crate::pipeline::route::Route;
use crate::store::backlog::{TakeTerms, Taken};
use crate::store::{StoreError, StoreErrorKind, Token};
use crate::telemetry::StoreOp;

/// Letters of one provider that are out at once, where `max_concurrent` does not say.
const CONCURRENT: usize = 32;
/// Letters that other processes have left behind are looked for this often.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// What is held in memory of one take, beside one letter.
const TAKE_BYTES: u64 = 8 << 20;
/// A store that does not give letters out is asked again after this long.
const PAUSE: Duration = Duration::from_millis(250);

/// Delivers the letters of one provider until the program closes. Those that are out then are seen to their end; the rest
/// stays where it is.
pub async fn deliver(pipeline: Arc<Pipeline>, route: Arc<Route>, closing: CancellationToken) {
    let most = route.provider.max_concurrent.unwrap_or(CONCURRENT);
    let slots = Arc::new(Semaphore::new(most));
    loop {
        // One slot at least: what is taken is sent at once.
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = closing.cancelled() => return,
        };
        let Ok(slot) = slot else { return };
        let mut free = vec![slot];
        while let Ok(another) = Arc::clone(&slots).try_acquire_owned() {
            free.push(another);
        }
        let asked = Instant::now();
        // Those who come from here on ring again.
        let rung = route.bell.notified();
        let next = match take(&pipeline, &route, free.len()).await {
            Ok(taken) => {
                let was_full = taken.letters.len() == free.len();
                for (letter, slot) in taken.letters.into_iter().zip(free) {
                    let (pipeline, route) = (Arc::clone(&pipeline), Arc::clone(&route));
                    pipeline.tasks.clone().spawn(async move {
                        attempt(&pipeline, &route, letter, asked).await;
                        drop(slot);
                    });
                }
                if was_full { Duration::ZERO } else { taken.next.unwrap_or(LOOK).min(LOOK) }
            }
            Err(error) => {
                tracing::debug!(provider = route.provider.name, %error, "no letters could be had");
                PAUSE
            }
        };
        if next.is_zero() {
            continue;
        }
        tokio::select! {
            () = sleep(next) => {}
            () = rung => {}
            () = closing.cancelled() => return,
        }
    }
}

async fn take(pipeline: &Pipeline, route: &Route, most: usize) -> Result<Taken, StoreError> {
    let token = Token::random().map_err(|error| StoreError::new(StoreErrorKind::Local, error))?;
    let terms = TakeTerms { lease: route.provider.lease, most, bytes: TAKE_BYTES, token };
    let taken = pipeline.telemetry.store(StoreOp::Take, pipeline.store.take(&route.lane, terms)).await?;
    if !taken.letters.is_empty() {
        Failpoint::AfterTake.reach().await;
    }
    Ok(taken)
}
