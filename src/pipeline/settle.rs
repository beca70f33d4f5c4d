//! What the consumer's answer does to the claim: policy, in one table, without I/O.

use http::StatusCode;

use super::upstream::ForwardError;
use crate::config::{Ambiguous, Provider};
use crate::store::Mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The event is done.
    Complete,
    /// The next delivery may try; in doubt, if the attempt may have taken effect.
    Fail { doubt: Option<Mark> },
    /// Nobody knows: the claim is left to its lease.
    Hold,
}

/// The status a sender is told of an attempt that did not complete. A 2xx that does not count as success here must not
/// sound like one there, and a 1xx is no answer at all.
pub fn passable(status: StatusCode) -> StatusCode {
    if status.is_success() || status.is_informational() { StatusCode::BAD_GATEWAY } else { status }
}

/// The head of an answer, or why there is none, and what follows from it.
pub fn settlement_for(provider: &Provider, head: Result<StatusCode, &ForwardError>) -> Settlement {
    match head {
        Ok(status) if provider.complete_on.contains(status) => Settlement::Complete,
        Ok(status) if provider.release_on.as_ref().is_none_or(|set| set.contains(status)) => Settlement::Fail { doubt: None },
        Err(ForwardError::NotSent(_)) => Settlement::Fail { doubt: None },
        // A status in neither list is as unknown as none: a gateway's 504 tells nothing of the consumer behind it.
        Ok(_) | Err(ForwardError::Unknown(_)) => match provider.ambiguous {
            Ambiguous::Hold => Settlement::Hold,
            Ambiguous::Release => Settlement::Fail { doubt: Some(Mark::Unknown) },
            Ambiguous::Keep => Settlement::Complete,
        },
    }
}
