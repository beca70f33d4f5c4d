//! Deciding whether a delivery is genuine. Only what comes out of here can be claimed or forwarded.

use std::time::{Duration, SystemTime};

use super::headers;
use super::intake::Delivery;
use super::refusal::Refusal;
use super::route::Route;
use crate::config::ReplayGuard;
use crate::scheme::{Disproof, Key, Proof, Signed};
use crate::telemetry::trace::Onward;

/// A delivery that may go on: its signature holds, or this provider's are not enforced.
#[derive(Debug)]
pub struct Verified {
    delivery: Delivery,
    proof: Result<Proof, Disproof>,
    signed: Option<Signed>,
}

impl Verified {
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    pub fn into_delivery(self) -> Delivery {
        self.delivery
    }

    /// Has whoever gets the delivery later go on with its trace.
    pub fn carry(&mut self, onward: Onward) {
        headers::carry(&mut self.delivery.parts.headers, onward);
    }

    /// The secret that matched. `None`: nothing did, and nothing of this delivery may reach the store.
    pub fn proof(&self) -> Option<Proof> {
        self.proof.ok()
    }

    /// What was signed, where replays are looked for.
    pub fn signed(&self) -> Option<Signed> {
        self.signed
    }

    /// Why nothing did.
    pub fn disproof(&self) -> Option<Disproof> {
        self.proof.err()
    }
}

/// Checks the signature at the time `now`, by a clock that is off by `skew` as far as is known; with the keys that the
/// provider has published, or those that are configured.
pub fn verify(
    route: &Route,
    delivery: Delivery,
    published: Option<&[Key]>,
    now: SystemTime,
    skew: Duration,
) -> Result<Verified, Refusal> {
    let provider = &route.provider;
    let keys = published.unwrap_or(&provider.keys);
    let judged = match provider.replay_guard {
        ReplayGuard::Off => provider.scheme.verify(keys, &delivery.received(), now).map(|proof| (proof, None)),
        ReplayGuard::Observe | ReplayGuard::Enforce => {
            provider.scheme.verify_signed(keys, &delivery.received(), now).map(|(proof, signed)| (proof, Some(signed)))
        }
    };
    match judged {
        Ok((proof, signed)) => {
            route.watch.verified_with(proof.slot);
            Ok(Verified { delivery, proof: Ok(proof), signed })
        }
        Err(reason) => {
            route.watch.unverified(reason);
            // A clock that is off by half of what is tolerated may be what is wrong: the provider shall come back.
            let is_of_clock = matches!(reason, Disproof::Stale | Disproof::Future);
            if provider.enforce && is_of_clock && provider.cannot_judge_time_with(skew) {
                return Err(Refusal::ClockOff);
            }
            if provider.enforce {
                return Err(Refusal::unverified(provider, reason));
            }
            Ok(Verified { delivery, proof: Err(reason), signed: None })
        }
    }
}
