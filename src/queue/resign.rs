//! Signatures that have grown old while an event waited are made anew, by the provider's own scheme and secret, so that a
//! consumer that verifies for itself still accepts them.

use std::time::{Duration, SystemTime};

use crate::config::Provider;
use crate::pipeline::intake::Delivery;
use crate::scheme::Draft;

/// A signature is made anew once this part of its time is over: consumers' clocks differ, and so does their patience.
const PART: u32 = 5;

/// Signs the delivery anew if it has waited for so long that it needs it. Tells whether it was.
pub(super) fn resign(provider: &Provider, delivery: Delivery, waited: Duration, now: SystemTime) -> (Delivery, bool) {
    let (Some(tolerance), Some(key)) = (provider.scheme.tolerance(), provider.keys.first()) else { return (delivery, false) };
    if waited < tolerance / PART || !provider.scheme.can_be_signed() {
        return (delivery, false);
    }
    let Delivery { mut parts, body, peer, .. } = delivery;
    let mut draft =
        Draft { method: parts.method.clone(), uri: parts.uri.clone(), headers: parts.headers.clone(), body: body.clone() };
    match provider.scheme.sign(key, &mut draft, now) {
        Ok(()) => {
            (parts.uri, parts.headers) = (draft.uri, draft.headers);
            (Delivery::kept(parts, draft.body, peer), true)
        }
        Err(why) => {
            tracing::warn!(provider = provider.name, why, "a signature could not be made anew: delivered as it was");
            (Delivery::kept(parts, body, peer), false)
        }
    }
}
