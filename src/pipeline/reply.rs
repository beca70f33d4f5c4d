//! The ends of a delivery, and the response that each becomes.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode, response};

use super::body::ReplyBody;
use super::headers;
use super::refusal::Refusal;
use crate::store::Done;
use crate::telemetry::{Closing, Outcome};

/// A delivery that ended with an answer.
#[derive(Debug)]
pub enum Reply {
    /// The consumer's own answer.
    Relayed { parts: Box<response::Parts>, body: ReplyBody, outcome: Outcome, reason: Cow<'static, str> },
    /// The answer that another copy of the event got, a moment ago.
    Mirrored { answer: Arc<Shared>, outcome: Outcome },
    /// The event is done: nothing was forwarded.
    Duplicate { done: Option<Arc<Done>>, replay: bool },
    /// A live claim, and the provider is to be told 2xx all the same.
    AckedInFlight,
    /// A challenge, answered here.
    Challenge { body: Bytes, content_type: &'static str },
}

/// An answer that can be given to several copies.
#[derive(Debug)]
pub struct Shared {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// `None` where it was too large to keep.
    pub body: Option<Bytes>,
    /// Whether it completed the event.
    pub is_success: bool,
}

/// How a delivery ended.
pub type End = Result<Reply, Refusal>;

/// What the record is closed with.
pub fn closing<'a>(end: &End, response: &Response<ReplyBody>, reason: &'a str) -> Closing<'a> {
    let outcome = match end {
        Ok(Reply::Relayed { outcome, .. } | Reply::Mirrored { outcome, .. }) => *outcome,
        Ok(Reply::Duplicate { .. }) => Outcome::Duplicate,
        Ok(Reply::AckedInFlight) => Outcome::InFlight,
        Ok(Reply::Challenge { .. }) => Outcome::Handshake,
        Err(refusal) => refusal.outcome(),
    };
    Closing { outcome, status: response.status(), reason }
}

/// The end in words.
pub fn reason(end: &End) -> Cow<'static, str> {
    match end {
        Ok(Reply::Relayed { reason, .. }) => reason.clone(),
        Ok(Reply::Mirrored { answer, .. }) if answer.is_success => "waited for another copy, which succeeded".into(),
        Ok(Reply::Mirrored { .. }) => "waited for another copy, which failed; the next copy will be forwarded".into(),
        Ok(Reply::Duplicate { .. }) => "this event is done; nothing was forwarded".into(),
        Ok(Reply::AckedInFlight) => "told 2xx while another copy is under way, as configured: if that one fails, the event is lost".into(),
        Ok(Reply::Challenge { .. }) => "a challenge, answered".into(),
        Err(refusal) => refusal.reason(),
    }
}

/// The response that the sender gets.
pub fn respond(end: End) -> (Response<ReplyBody>, End) {
    let (mut response, end) = match end {
        Ok(Reply::Relayed { parts, body, outcome, reason }) => {
            let mut response = Response::from_parts(*parts, body);
            headers::towards_sender(response.headers_mut());
            let shell = Reply::Relayed { parts: Box::new(Response::new(()).into_parts().0), body: ReplyBody::default(), outcome, reason };
            (response, Ok(shell))
        }
        Ok(Reply::Challenge { body, content_type }) => {
            let mut response = Response::new(ReplyBody::whole(body.clone()));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            (response, Ok(Reply::Challenge { body, content_type }))
        }
        Ok(reply) => (owned(&reply), Ok(reply)),
        Err(refusal) => (refused(&refusal), Err(refusal)),
    };
    let outcome = closing(&end, &response, "").outcome;
    response.headers_mut().insert(headers::OUTCOME, HeaderValue::from_static(outcome.as_str()));
    (response, end)
}
