//! The ends of a delivery, and the response that each becomes.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode, Version, response};
use serde::Serialize;

use super::body::ReplyBody;
use super::headers;
use super::refusal::Refusal;
use crate::store::Done;
use crate::telemetry::Outcome;
use crate::telemetry::line::is_plain;

/// A delivery that ended with an answer.
#[derive(Debug)]
pub enum Reply {
    /// The consumer's own answer.
    Relayed { parts: Box<response::Parts>, body: ReplyBody, outcome: Outcome, reason: Cow<'static, str> },
    /// The answer that another copy of the event got, a moment ago.
    Mirrored { answer: Arc<Shared>, outcome: Outcome },
    /// The event is done: nothing was forwarded.
    Duplicate { done: Option<Arc<Done>>, replay: bool },
    /// The event is in the queue, durably: it will be delivered.
    Queued { status: StatusCode },
    /// A live claim, and the provider is to be told 2xx all the same.
    AckedInFlight,
    /// Not a delivery: the consumer's answer to a request that was passed through.
    Passed { parts: Box<response::Parts>, body: ReplyBody },
    /// A challenge, answered here.
    Challenge(Response<Bytes>),
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

/// The word for how it ended.
pub fn outcome(end: &End) -> Outcome {
    match end {
        Ok(Reply::Relayed { outcome, .. } | Reply::Mirrored { outcome, .. }) => *outcome,
        Ok(Reply::Duplicate { .. }) => Outcome::Duplicate,
        Ok(Reply::Queued { .. }) => Outcome::Queued,
        Ok(Reply::AckedInFlight) => Outcome::InFlight,
        Ok(Reply::Passed { .. }) => Outcome::Forwarded,
        Ok(Reply::Challenge(_)) => Outcome::Handshake,
        Err(refusal) => refusal.outcome(),
    }
}

/// The end in words.
pub fn reason(end: &End) -> Cow<'static, str> {
    match end {
        Ok(Reply::Relayed { reason, .. }) => reason.clone(),
        Ok(Reply::Mirrored { answer, .. }) if answer.is_success => "waited for another copy, which succeeded".into(),
        Ok(Reply::Mirrored { .. }) => "waited for another copy, which failed; the next copy will be forwarded".into(),
        Ok(Reply::Duplicate { .. }) => "this event is done; nothing was forwarded".into(),
        Ok(Reply::Queued { .. }) => "accepted: it will be delivered from the queue".into(),
        Ok(Reply::AckedInFlight) => {
            "told 2xx while another copy is under way, as configured: if that one fails, the event is lost".into()
        }
        Ok(Reply::Passed { .. }) => "passed through".into(),
        Ok(Reply::Challenge(_)) => "a challenge, answered".into(),
        Err(refusal) => refusal.reason(),
    }
}

/// The response that the sender gets.
pub fn respond(end: End, outcome: Outcome) -> Response<ReplyBody> {
    let mut response = match end {
        Ok(Reply::Passed { parts, body }) => return relayed(*parts, body),
        Ok(Reply::Relayed { parts, body, .. }) => relayed(*parts, body),
        Ok(Reply::Mirrored { answer, .. }) => mirrored(&answer),
        Ok(Reply::Duplicate { done, replay }) => duplicate(done.as_deref().filter(|_| replay)),
        Ok(Reply::Queued { status }) => json(status, r#"{"status":"queued"}"#),
        Ok(Reply::AckedInFlight) => json(StatusCode::OK, r#"{"status":"in_flight"}"#),
        Ok(Reply::Challenge(answer)) => answer.map(ReplyBody::whole),
        Err(refusal) => refused(&refusal),
    };
    response.headers_mut().insert(headers::OUTCOME, HeaderValue::from_static(outcome.as_str()));
    response
}

fn relayed(parts: response::Parts, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::from_parts(parts, body);
    // The consumer's version is that of its own connection.
    *response.version_mut() = Version::HTTP_11;
    headers::towards_sender(response.headers_mut());
    response
}

fn mirrored(answer: &Shared) -> Response<ReplyBody> {
    let Some(body) = &answer.body else {
        return json(answer.status, if answer.is_success { DUPLICATE } else { r#"{"status":"failed"}"# });
    };
    let mut response = Response::new(ReplyBody::whole(body.clone()));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers.clone();
    headers::towards_sender(response.headers_mut());
    response
}

const DUPLICATE: &str = r#"{"status":"duplicate"}"#;

/// 200, or the consumer's own reply where it was kept for this.
fn duplicate(replayed: Option<&Done>) -> Response<ReplyBody> {
    let kept = |done: &Done| Some((StatusCode::from_u16(done.status).ok()?, done.reply.clone()?));
    // A status that completes here but is a failure to the provider would be asked for again and again.
    let Some((status, reply)) = replayed.and_then(kept).filter(|(status, _)| status.is_success()) else {
        return json(StatusCode::OK, DUPLICATE);
    };
    let mut response = Response::new(ReplyBody::whole(reply.body));
    *response.status_mut() = status;
    if let Some(value) = reply.content_type.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// What a sender reads that is refused.
#[derive(Serialize)]
struct Refused<'a> {
    code: &'a str,
    reason: &'a str,
    status: &'a str,
}

impl Refused<'_> {
    fn written(&self) -> String {
        // Only what others said may have to be escaped.
        if !is_plain(self.reason) {
            return serde_json::to_string(self).unwrap_or_default();
        }
        let mut text = String::with_capacity(256);
        for part in [r#"{"code":""#, self.code, r#"","reason":""#, self.reason, r#"","status":""#, self.status, r#""}"#] {
            text.push_str(part);
        }
        text
    }
}

fn refused(refusal: &Refusal) -> Response<ReplyBody> {
    let mut response = if let Refusal::Unverified { is_bare: true, status, .. } = refusal {
        let mut response = Response::new(ReplyBody::whole(Bytes::new()));
        *response.status_mut() = *status;
        response
    } else {
        let told = Refused { code: refusal.code(), reason: &refusal.told(), status: "refused" };
        json(refusal.status(), told.written())
    };
    if let Some(wait) = refusal.retry_after() {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
    }
    if let Refusal::MethodNotAllowed { allow } = refusal
        && let Ok(value) = HeaderValue::from_str(allow)
    {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}

fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_written_as_json_has_it() {
        for reason in ["", "the signature does not match", "this path takes \"POST\"", "a\\b", "a\nb", "a\u{7f}b", "\u{e9}"] {
            let told = Refused { code: "no_match", reason, status: "refused" };
            assert_eq!(told.written(), serde_json::to_string(&told).unwrap());
        }
    }
}
