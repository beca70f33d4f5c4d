//! Holding a claim while a call runs: its lease is begun anew every third of it, and looked at before the first byte.
//!
//! The holder counts by a monotonic clock from before it asked, so that it never believes in a lease longer than
//! the store does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::store::{Claim, Store};
use crate::telemetry::{StoreOp, Telemetry};

#[derive(Debug)]
pub struct Hold<'a> {
    claim: &'a Claim,
    /// Who granted it.
    store: &'a Store,
    /// When the lease ends, in milliseconds after the claim was asked for. Nought once it is lost.
    ends: AtomicU64,
}

impl<'a> Hold<'a> {
    pub fn of(claim: &'a Claim, store: &'a Store) -> Self {
        Self { claim, store, ends: AtomicU64::new(millis(claim.lease())) }
    }

    /// Whether the claim is certainly still ours.
    pub fn is_ours(&self) -> bool {
        millis(self.claim.since().elapsed()) < self.ends.load(Ordering::Relaxed)
    }

    /// When the claim is no longer certainly ours.
    pub fn until(&self) -> Instant {
        self.claim.since() + Duration::from_millis(self.ends.load(Ordering::Relaxed))
    }

    pub fn claim(&self) -> &'a Claim {
        self.claim
    }

    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Renews the lease while the work is done.
    pub async fn during<T>(&self, work: impl Future<Output = T>, telemetry: &Telemetry) -> T {
        tokio::select! {
            done = work => done,
            never = self.keep(telemetry) => never,
        }
    }

    /// Renews the lease until dropped, or until it is lost; then there is nothing left to do but to wait.
    async fn keep(&self, telemetry: &Telemetry) -> ! {
        loop {
            sleep(self.claim.lease() / 3).await;
            let asked = self.claim.since().elapsed();
            match telemetry.store(StoreOp::Renew, self.store.renew(self.claim)).await {
                Ok(true) => self.ends.store(millis(asked + self.claim.lease()), Ordering::Relaxed),
                Ok(false) => {
                    self.ends.store(0, Ordering::Relaxed);
                    std::future::pending::<()>().await;
                }
                // The lease runs on; the next turn asks again.
                Err(error) => tracing::debug!(%error, "a lease could not be renewed"),
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
