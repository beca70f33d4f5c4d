//! Deciding whether a delivery is genuine. Only what comes out of here can be claimed or forwarded.

use std::sync::Arc;
use std::time::SystemTime;

use super::intake::Delivery;
use super::refusal::Refusal;
use super::route::Route;
use crate::scheme::{Disproof, Proof};

/// From this size on a MAC is worth a thread of its own: it would stop its core for others.
const LONG_BODY: usize = 256 * 1024;

/// A delivery that may go on: its signature holds, or this provider's are not enforced.
#[derive(Debug)]
pub struct Verified {
    delivery: Delivery,
    proof: Option<Proof>,
}

impl Verified {
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    pub fn into_delivery(self) -> Delivery {
        self.delivery
    }

    /// The secret that matched. `None`: nothing did, and nothing of this delivery may reach the store.
    pub fn proof(&self) -> Option<Proof> {
        self.proof
    }
}

/// Checks the signature at the time `now`.
pub async fn verify(route: &Arc<Route>, delivery: Delivery, now: SystemTime) -> Result<Verified, Refusal> {
    let (delivery, verdict) = if delivery.body.len() < LONG_BODY {
        let verdict = judge(route, &delivery, now);
        (delivery, verdict)
    } else {
        let route = Arc::clone(route);
        let judged = tokio::task::spawn_blocking(move || {
            let verdict = judge(&route, &delivery, now);
            (delivery, verdict)
        });
        judged.await.map_err(|_| Refusal::Panicked)?
    };
    match verdict {
        Ok(proof) => {
            route.watch.verified_with(proof.slot);
            Ok(Verified { delivery, proof: Some(proof) })
        }
        Err(reason) => {
            route.watch.unverified(reason);
            if route.provider.enforce {
                return Err(Refusal::Unverified { reason, status: route.provider.reject_status });
            }
            Ok(Verified { delivery, proof: None })
        }
    }
}

fn judge(route: &Route, delivery: &Delivery, now: SystemTime) -> Result<Proof, Disproof> {
    route.provider.scheme.verify(&route.provider.keys, &delivery.received(), now)
}
