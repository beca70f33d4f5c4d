//! Which event a delivery carries: its id, the key it is remembered under, and the fingerprint of its body.
//!
//! Two different ids never share a key or a written form. A value that stands twice is no id: parsers would disagree.

mod body_digest;
mod event_id;
mod event_key;

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use crate::config::{Fingerprint, Tenant};
use crate::scheme::json::feed;
use crate::scheme::locate::{self, RepeatedError};
use crate::scheme::{Composite, IdRule, Place, Received};

pub use body_digest::{BodyDigest, fingerprint};
pub use event_id::EventId;
pub use event_key::EventKey;

/// Why a delivery's id cannot be used, though there is one. The sender's fault: a 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// A header, parameter or JSON key on the way to the id stands there more than once.
    Ambiguous,
    TooLong,
}

impl IdError {
    pub fn explain(self) -> &'static str {
        match self {
            Self::Ambiguous => "the event id stands there more than once, so that it cannot be told which one counts",
            Self::TooLong => "the event id is longer than 4 KiB",
        }
    }
}

impl From<RepeatedError> for IdError {
    fn from(_: RepeatedError) -> Self {
        Self::Ambiguous
    }
}

/// The event id by the first alternative that is there. `None`: no id, or no tenant where one is asked for.
pub fn event_id(rule: &IdRule, tenant: Option<&Tenant>, received: &Received<'_>) -> Result<Option<EventId>, IdError> {
    for composite in rule.alternatives() {
        if let Some(parts) = parts_of(composite, received)? {
            return of_tenant(tenant, parts, received);
        }
    }
    Ok(None)
}

/// An id made of the body's fingerprint, for deliveries that have none of their own.
pub fn body_id(rule: &Fingerprint, tenant: Option<&Tenant>, received: &Received<'_>) -> Result<Option<EventId>, IdError> {
    let part = format!("body-{}", fingerprint(rule, received.body)).into_bytes();
    of_tenant(tenant, [Cow::Owned(part)], received)
}

type Parts<'a> = SmallVec<[Cow<'a, [u8]>; 3]>;

/// The values of a composite, absent ones empty. `None` where one is missing that must be there.
fn parts_of<'a>(composite: &Composite, received: &Received<'a>) -> Result<Option<Parts<'a>>, IdError> {
    let mut parts = Parts::new();
    for part in composite.parts() {
        // The ids of a batch are one id together: the delivery is what is deduped.
        if let Place::EachJson(pointer) = &part.place {
            match locate::each(pointer, received.body)? {
                Some(values) => parts.extend(batch(values).into_iter().map(Cow::Owned)),
                None if part.optional => {}
                None => return Ok(None),
            }
            continue;
        }
        match locate::find(&part.place, received)? {
            Some(value) => parts.push(value),
            None if part.optional => parts.push(Cow::default()),
            None => return Ok(None),
        }
    }
    Ok(Some(parts))
}

/// The ids of a batch; as a digest where they are more than an id can hold.
fn batch(ids: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if ids.iter().map(Vec::len).sum::<usize>() <= BATCH_BYTES_MAX {
        return ids;
    }
    let mut digest = Sha256::new();
    ids.iter().for_each(|id| feed(&mut digest, id));
    vec![format!("batch-of-{}-{}", ids.len(), HEXLOWER.encode(&digest.finalize()[..16])).into_bytes()]
}

const BATCH_BYTES_MAX: usize = 1024;

/// Puts the tenant before the parts. Without its tenant an id is not known: two tenants could share it.
fn of_tenant<'a>(
    tenant: Option<&'a Tenant>,
    parts: impl IntoIterator<Item = Cow<'a, [u8]>>,
    received: &Received<'a>,
) -> Result<Option<EventId>, IdError> {
    let tenant = match tenant {
        None => return EventId::new(parts),
        Some(Tenant::Fixed(name)) => Some(Cow::Borrowed(name.as_bytes())),
        Some(Tenant::At(place)) => locate::find(place, received)?,
    };
    tenant.map_or(Ok(None), |tenant| EventId::new(std::iter::once(tenant).chain(parts)))
}

#[cfg(test)]
mod tests;
