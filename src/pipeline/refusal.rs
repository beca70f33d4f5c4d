//! Every way a delivery ends without the consumer's answer: its status, its code, its reason in words.
//!
//! A 4xx is for what is certainly the sender's fault. What may be ours is a 503, the one status that nearly every
//! provider answers with another delivery.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::config::Provider;
use crate::scheme::Disproof;
use crate::store::backlog::Shortage;
use crate::telemetry::{Limit, Outcome};

#[derive(Clone, Debug)]
pub enum Refusal {
    /// No provider and no passthrough at this path.
    NotFound,
    MethodNotAllowed {
        allow: Arc<str>,
    },
    /// The target is longer than any provider's.
    UriTooLong,
    /// Too many header fields, or too many bytes in them.
    HeadersTooLarge,
    /// It comes from outside of the provider's networks.
    ForeignNetwork,
    /// The body is larger than the provider's limit.
    TooLarge,
    /// The body did not come in time.
    TooSlow,
    /// The body broke off.
    BrokenBody,
    /// The request as a whole makes no sense here.
    BadRequest(&'static str),
    Unverified {
        reason: Disproof,
        status: StatusCode,
        /// Whether the answer has no body.
        is_bare: bool,
    },
    /// The timestamp is out of bounds, and our own clock may be why.
    ClockOff,
    /// The provider's published keys cannot be had.
    KeysUnavailable(Arc<str>),
    /// No event id, where one is required.
    MissingId,
    /// The event id is there twice, or is not an id.
    BadId(&'static str),
    /// Same id, other body, where that is refused.
    Conflict,
    /// Another copy is under way and its outcome was not seen in time.
    InFlight {
        retry_after: Duration,
    },
    /// An earlier attempt ended unknown, and its lease has just run out: the next copy may be forwarded.
    LeaseOver,
    /// The sender's patience ends before there is an outcome.
    Deadline,
    /// A bound of this process.
    Limited(Limit),
    /// More of them than may come in a time.
    TooOften {
        limit: Limit,
        retry_after: Duration,
    },
    /// The queue takes nothing more.
    QueueFull(Shortage),
    StoreDown(Arc<str>),
    /// The consumer got nothing.
    Unreachable(Arc<str>),
    /// The consumer got the delivery and did not answer; what became of the claim.
    Ambiguous {
        why: Arc<str>,
        claim: &'static str,
    },
    /// Another process saw the consumer answer this.
    FailedElsewhere {
        status: StatusCode,
    },
    /// The lease ran out before anything was sent.
    LeaseLost,
    Stopping,
    /// The program ends while the event is under way.
    Interrupted,
    /// A task of ours panicked.
    Panicked,
}

/// How long a provider should wait before it tries again, where nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Refusal {
    /// The refusal of what does not verify, as the provider is to hear it.
    pub fn unverified(provider: &Provider, reason: Disproof) -> Self {
        Self::Unverified { reason, status: provider.reject_status, is_bare: !provider.reject_body }
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::ForeignNetwork => StatusCode::FORBIDDEN,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BrokenBody | Self::BadRequest(_) | Self::MissingId | Self::BadId(_) => StatusCode::BAD_REQUEST,
            Self::Unverified { status, .. } | Self::FailedElsewhere { status } => *status,
            Self::Conflict => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
            Self::Ambiguous { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::ClockOff
            | Self::KeysUnavailable(_)
            | Self::InFlight { .. }
            | Self::LeaseOver
            | Self::Deadline
            | Self::Limited(_)
            | Self::TooOften { .. }
            | Self::QueueFull(_)
            | Self::StoreDown(_)
            | Self::LeaseLost
            | Self::Stopping
            | Self::Interrupted
            | Self::Panicked => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// A word for programs, in the JSON of the reply.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::UriTooLong => "uri_too_long",
            Self::HeadersTooLarge => "headers_too_large",
            Self::ForeignNetwork => "address_not_allowed",
            Self::TooLarge => "body_too_large",
            Self::TooSlow => "body_too_slow",
            Self::BrokenBody => "body_broken",
            Self::BadRequest(_) => "bad_request",
            Self::Unverified { reason, .. } => reason.code(),
            Self::ClockOff => "clock_off",
            Self::KeysUnavailable(_) => "keys_unavailable",
            Self::MissingId => "missing_event_id",
            Self::BadId(_) => "bad_event_id",
            Self::Conflict => "conflict",
            Self::InFlight { .. } | Self::LeaseOver | Self::Deadline => "in_flight",
            Self::Limited(_) | Self::TooOften { .. } => "limited",
            Self::QueueFull(_) => "queue_full",
            Self::StoreDown(_) => "store_down",
            Self::Unreachable(_) => "upstream_unreachable",
            Self::Ambiguous { .. } => "upstream_unknown",
            Self::FailedElsewhere { .. } => "failed",
            Self::LeaseLost => "lease_lost",
            Self::Stopping | Self::Interrupted => "stopping",
            Self::Panicked => "internal",
        }
    }

    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotFound
            | Self::MethodNotAllowed { .. }
            | Self::ForeignNetwork
            | Self::BrokenBody
            | Self::BadRequest(_)
            | Self::Unverified { .. }
            | Self::ClockOff
            | Self::KeysUnavailable(_)
            | Self::BadId(_) => Outcome::Rejected,
            Self::MissingId => Outcome::NoId,
            Self::UriTooLong
            | Self::HeadersTooLarge
            | Self::TooLarge
            | Self::TooSlow
            | Self::Limited(_)
            | Self::TooOften { .. }
            | Self::QueueFull(_) => Outcome::Limited,
            Self::Conflict => Outcome::Conflict,
            Self::InFlight { .. } | Self::LeaseOver | Self::Deadline | Self::Interrupted => Outcome::InFlight,
            Self::StoreDown(_) => Outcome::StoreDown,
            Self::Ambiguous { .. } => Outcome::Ambiguous,
            Self::Unreachable(_) | Self::FailedElsewhere { .. } | Self::LeaseLost | Self::Stopping | Self::Panicked => {
                Outcome::Failed
            }
        }
    }

    /// When the provider may try again; `None` where trying again would not help.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InFlight { retry_after } | Self::TooOften { retry_after, .. } => Some(*retry_after),
            Self::LeaseOver => Some(Duration::from_secs(1)),
            _ if self.status() == StatusCode::SERVICE_UNAVAILABLE => Some(RETRY_AFTER),
            _ => None,
        }
    }

    /// The bound that was reached, if that is what it was.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::Limited(limit) | Self::TooOften { limit, .. } => Some(*limit),
            Self::UriTooLong => Some(Limit::Uri),
            Self::HeadersTooLarge => Some(Limit::Headers),
            Self::ForeignNetwork => Some(Limit::Networks),
            Self::TooLarge => Some(Limit::Body),
            Self::TooSlow => Some(Limit::BodyTime),
            Self::QueueFull(_) => Some(Limit::Queue),
            _ => None,
        }
    }

    /// The reason in words, for the log line and the reply. It repeats nothing that a sender wrote.
    pub fn reason(&self) -> Cow<'static, str> {
        match self {
            Self::NotFound => "no provider is configured at this path".into(),
            Self::MethodNotAllowed { allow } => format!("this path takes {allow}").into(),
            Self::UriTooLong => "the request's target is longer than is taken".into(),
            Self::HeadersTooLarge => "there are more header fields, or more bytes in them, than are taken".into(),
            Self::ForeignNetwork => "this provider does not deliver from this address".into(),
            Self::TooLarge => "the body is larger than this provider's limit".into(),
            Self::TooSlow => "the body did not arrive in time".into(),
            Self::BrokenBody => "the body broke off".into(),
            Self::BadRequest(why) | Self::BadId(why) => (*why).into(),
            Self::Unverified { reason, .. } => reason.explain().into(),
            Self::ClockOff => "the signature's timestamp is out of bounds, and so is this machine's clock: it must be set".into(),
            Self::KeysUnavailable(why) => why.to_string().into(),
            Self::MissingId => "there is no event id where this provider puts it".into(),
            Self::Conflict => "this event id was used with another body".into(),
            Self::InFlight { .. } => "another copy of this event is under way; try again later".into(),
            Self::LeaseOver => {
                "an earlier attempt ended unknown and its lease is over: the next copy will be forwarded, marked".into()
            }
            Self::Deadline => {
                "no outcome in time: an attempt at this event is under way, or ended unknown and holds it until its lease is over"
                    .into()
            }
            Self::Limited(limit) | Self::TooOften { limit, .. } => format!("a limit is reached: {}", limit.as_str()).into(),
            Self::QueueFull(shortage) => format!("nothing was accepted: {}", shortage.as_str()).into(),
            Self::StoreDown(why) => format!("the store cannot be asked ({why}); nothing was forwarded").into(),
            Self::Unreachable(why) => format!("released: {why}; the next copy will be forwarded").into(),
            Self::Ambiguous { why, claim } => format!("unknown: {why}; {claim}").into(),
            Self::FailedElsewhere { status } => {
                format!("another instance was at work on it and the consumer answered {}", status.as_u16()).into()
            }
            Self::LeaseLost => "the lease ran out before anything was sent; the next copy will be forwarded".into(),
            Self::Stopping => "released: stopping before anything was sent; the next copy will be forwarded".into(),
            Self::Interrupted => "stopping while the event is under way; its outcome, or the end of its lease, decides".into(),
            Self::Panicked => "an internal error; nothing is known of the attempt".into(),
        }
    }

    /// The reason as the sender is told it: what concerns only the operator (addresses, errors of the store) stays in the log.
    pub fn told(&self) -> Cow<'static, str> {
        match self {
            Self::StoreDown(_) => "the store cannot be asked; nothing was forwarded".into(),
            Self::ClockOff => "the timestamp cannot be judged for now; try again later".into(),
            Self::KeysUnavailable(_) => "the signature cannot be judged for now; try again later".into(),
            Self::Unreachable(_) => "the consumer could not be reached".into(),
            Self::Ambiguous { .. } => "the consumer did not answer".into(),
            _ => self.reason(),
        }
    }
}
