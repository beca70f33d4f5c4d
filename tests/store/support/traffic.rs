//! A stream of claims, as deliveries would make them, and what became of each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce::store::redis::RedisCells;
use hookonce::store::{ClaimOutcome, Earlier, Store, StoreError, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{LONG_LEASE, event_key, terms};
use crate::support::redis::wait_until;

const CLAIMERS: usize = 8;
/// As often as the program does.
const PULSE: Duration = Duration::from_millis(500);

pub struct Try {
    pub at: Instant,
    pub took: Duration,
    pub error: Option<StoreError>,
}

/// Claims one new event after the other until dropped.
pub struct Traffic {
    tries: Arc<Mutex<Vec<Try>>>,
    _tasks: JoinSet<()>,
}

impl Traffic {
    pub fn start(store: &Store<RedisCells>) -> Self {
        let tries = Arc::<Mutex<Vec<Try>>>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..CLAIMERS {
            tasks.spawn(claim_on(store.clone(), Arc::clone(&tries)));
        }
        let store = store.clone();
        tasks.spawn(async move {
            loop {
                // What it says is the breaker's to know.
                let _ = store.pulse("test:marker").await;
                sleep(PULSE).await;
            }
        });
        Self { tries, _tasks: tasks }
    }

    /// Waits for a claim that began after a moment and succeeded, and tells how long after it did.
    pub async fn succeeds_after(&self, moment: Instant) -> Duration {
        let found = || {
            let tries = self.tries.lock().unwrap();
            let good = tries.iter().filter(|one| one.at >= moment && one.error.is_none());
            good.map(|one| one.at + one.took - moment).min()
        };
        wait_until("a claim that succeeds", async || found().is_some()).await;
        found().unwrap()
    }

    /// All there were so far.
    pub fn tries(&self) -> Vec<Try> {
        std::mem::take(&mut *self.tries.lock().unwrap())
    }
}

async fn claim_on(store: Store<RedisCells>, tries: Arc<Mutex<Vec<Try>>>) {
    loop {
        let (at, key) = (Instant::now(), event_key());
        let claimed = store.claim(&key, &terms(LONG_LEASE)).await;
        let took = at.elapsed();
        let error = match claimed {
            Ok(ClaimOutcome::Claimed { earlier: Earlier::None, .. }) => None,
            Ok(other) => panic!("a new event: {other:?}"),
            Err(claim) => Some(claim.error),
        };
        tries.lock().unwrap().push(Try { at, took, error });
        sleep(Duration::from_millis(2)).await;
    }
}

/// What a claim may be told while there is no master.
pub fn is_outage(error: &StoreError) -> bool {
    error.is_outage() || error.kind == StoreErrorKind::BreakerOpen
}
