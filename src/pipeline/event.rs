//! A delivery whose event is known, and what that is deduplicated on.

use std::sync::Arc;

use super::identify::{BodyDigest, EventKey};
use super::route::{Route, Slot};
use super::verify::Verified;
use crate::config::Dedupe;
use crate::store::Mark;
use crate::telemetry::trace::Trace;

/// A verified delivery and the event it carries.
#[derive(Debug)]
pub struct Event {
    pub route: Arc<Route>,
    pub verified: Verified,
    /// The event id as it is shown.
    pub id: Option<Arc<str>>,
    pub body: BodyDigest,
    /// What was signed, where the store is to know it again.
    pub signed: Option<BodyDigest>,
    /// Why its forward may be a second one, as far as is known before the store is asked.
    pub doubt: Option<Mark>,
    pub standing: Standing,
    /// Its place among those that may be under way at once; kept until its outcome is told, whether or not its sender waits.
    pub slot: Option<Slot>,
    pub trace: Trace,
}

/// What an event is deduplicated on.
#[derive(Clone, Debug)]
pub enum Standing {
    /// Its key; another body under it is another event, if that matters.
    Keyed { key: EventKey, body_matters: bool },
    /// Key and digest: the same id was used with another body.
    Conflicting { key: EventKey, main: EventKey },
    /// Nothing: it is forwarded without a claim, marked if it may be a second one.
    Unclaimed { mark: Option<Mark> },
}

impl Standing {
    pub fn key(&self) -> Option<&EventKey> {
        match self {
            Self::Keyed { key, .. } | Self::Conflicting { key, .. } => Some(key),
            Self::Unclaimed { .. } => None,
        }
    }

    pub fn body_matters(&self) -> bool {
        matches!(self, Self::Keyed { body_matters: true, .. })
    }

    /// The same event under key and digest.
    pub fn conflicting(self, body: BodyDigest) -> Self {
        match self {
            Self::Keyed { key, .. } => Self::Conflicting { key: key.with_digest(body), main: key },
            other => other,
        }
    }
}

impl Event {
    /// The same event, to be taken up under key and digest. Its id has the digest too: a consumer that keeps ids to tell
    /// events apart must not take it for the other one.
    pub fn conflicting(mut self: Box<Self>) -> Box<Self> {
        self.id = self.id.map(|id| format!("{id}:{}", self.body).into());
        self.standing = self.standing.conflicting(self.body);
        self
    }

    /// Whether it is forwarded though it is done: an operator wants that for a while.
    pub(super) fn is_bypassed(&self) -> bool {
        self.route.provider.dedupe == Dedupe::On && self.route.bypass.is_on()
    }
}
