//! Holding what was given for a lease while a call runs: it is begun anew every third of it, and looked at before the first
//! byte.
//!
//! The holder counts by a monotonic clock from before it asked, so that it never believes in a lease longer than
//! the store does.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::store::{Claim, Store, StoreError};
use crate::telemetry::{StoreOp, Telemetry};

/// What is held for a lease that can be begun anew.
pub trait Leased: Sync {
    /// Begins the lease anew. `false`: it is no longer ours.
    fn renew(&self) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// How long something is certainly ours.
#[derive(Debug)]
pub struct Tenure {
    /// When it was asked for.
    since: Instant,
    lease: Duration,
    /// When the lease ends, in milliseconds after that. Nought once it is lost.
    ends: AtomicU64,
}

impl Tenure {
    pub fn new(since: Instant, lease: Duration) -> Self {
        Self { since, lease, ends: AtomicU64::new(millis(lease)) }
    }

    pub fn is_ours(&self) -> bool {
        millis(self.since.elapsed()) < self.ends.load(Ordering::Relaxed)
    }

    /// When it is no longer certainly ours.
    pub fn until(&self) -> Instant {
        self.since + Duration::from_millis(self.ends.load(Ordering::Relaxed))
    }

    /// Does the work while the lease is renewed. The work is pinned by the caller, and so is held once.
    pub async fn during<T>(&self, work: Pin<&mut impl Future<Output = T>>, held: &impl Leased) -> T {
        tokio::select! {
            done = work => done,
            never = self.keep(held) => never,
        }
    }

    /// Renews the lease until dropped, or until it is lost; then there is nothing left to do but to wait.
    async fn keep(&self, held: &impl Leased) -> ! {
        let mut begun = self.until().checked_sub(self.lease).unwrap_or(self.since);
        loop {
            sleep_until(begun + self.lease / 3).await;
            begun = Instant::now();
            let asked = begun - self.since;
            // Calls as long as that are few: the others need not have room for a renewal.
            match Box::pin(held.renew()).await {
                Ok(true) => self.ends.store(millis(asked + self.lease), Ordering::Relaxed),
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

/// A claim that is held.
#[derive(Debug)]
pub struct Hold<'a> {
    claim: &'a Claim,
    /// Who granted it.
    store: &'a Store,
    tenure: Tenure,
}

impl<'a> Hold<'a> {
    pub fn of(claim: &'a Claim, store: &'a Store) -> Self {
        Self { claim, store, tenure: Tenure::new(claim.since(), claim.lease()) }
    }

    /// Whether the claim is certainly still ours.
    pub fn is_ours(&self) -> bool {
        self.tenure.is_ours()
    }

    /// When the claim is no longer certainly ours.
    pub fn until(&self) -> Instant {
        self.tenure.until()
    }

    pub fn claim(&self) -> &'a Claim {
        self.claim
    }

    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Renews the lease while the work is done.
    pub async fn during<T>(&self, work: Pin<&mut impl Future<Output = T>>, telemetry: &Telemetry) -> T {
        self.tenure.during(work, &Renewing { hold: self, telemetry }).await
    }
}

struct Renewing<'a> {
    hold: &'a Hold<'a>,
    telemetry: &'a Telemetry,
}

impl Leased for Renewing<'_> {
    async fn renew(&self) -> Result<bool, StoreError> {
        self.telemetry.store(StoreOp::Renew, self.hold.store.renew(self.hold.claim)).await
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;
    use crate::config::Fingerprint;
    use crate::pipeline::identify::{EventId, EventKey, fingerprint};
    use crate::store::cells::Cells;
    use crate::store::memory::MemoryCells;
    use crate::store::{AnyCells, ClaimOutcome, StoreError, StoreErrorKind, Terms};

    const LEASE: Duration = Duration::from_millis(600);
    const RETENTION: Duration = Duration::from_secs(600);

    async fn claimed() -> (Store, Claim) {
        let store = Store::new(AnyCells::Memory(MemoryCells::default()).into());
        let key = EventKey::new("test", "stripe", &EventId::parse("e1").unwrap());
        let body = fingerprint(&Fingerprint::Body, b"{}");
        let terms = Terms { lease: LEASE, retention: RETENTION, body, body_matters: true, doubt: None };
        match store.claim(&key, &terms).await.unwrap() {
            ClaimOutcome::Claimed { claim, .. } => (store, claim),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_renewal_that_failed_lengthens_nothing() {
        let ((store, claim), telemetry) = (claimed().await, Telemetry::new().unwrap());
        for _ in 0..3 {
            store.breaker().heard(&Err::<(), _>(StoreError::new(StoreErrorKind::Timeout, "")));
        }
        let hold = Hold::of(&claim, &store);
        hold.during(pin!(sleep_until(claim.since() + LEASE)), &telemetry).await;
        assert!(!hold.is_ours());
    }

    #[tokio::test]
    async fn a_claim_that_is_found_lost_is_given_up_before_its_lease_ends() {
        let ((store, claim), telemetry) = (claimed().await, Telemetry::new().unwrap());
        store.cells().put(claim.key.as_str(), "another claim".into(), RETENTION).await.unwrap();
        let hold = Hold::of(&claim, &store);
        let given_up = async {
            while hold.is_ours() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        hold.during(pin!(given_up), &telemetry).await;
        assert_eq!(hold.until(), claim.since());
    }
}
