//! Deciding whether a delivery is genuine. Only what comes out of here can be claimed or forwarded.

use std::time::SystemTime;

use super::intake::Delivery;
use super::refusal::Refusal;
use super::route::Route;
use crate::scheme::Proof;

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
pub fn verify(route: &Route, delivery: Delivery, now: SystemTime) -> Result<Verified, Refusal> {
    let provider = &route.provider;
    match provider.scheme.verify(&provider.keys, &delivery.received(), now) {
        Ok(proof) => {
            route.watch.verified_with(proof.slot);
            Ok(Verified { delivery, proof: Some(proof) })
        }
        Err(reason) => {
            route.watch.unverified(reason);
            if provider.enforce {
                return Err(Refusal::Unverified { reason, status: provider.reject_status });
            }
            Ok(Verified { delivery, proof: None })
        }
    }
}
