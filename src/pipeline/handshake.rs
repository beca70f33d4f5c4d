//! Challenges: whether a delivery is one, and what is answered. They are never deduped.
//!
//! What is echoed came from a sender, so it is short, plain text, and marked so that no browser takes it for more.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response};

use crate::scheme::{Answerer, Handshake, Place, Proof, Received, locate};

/// What becomes of a challenge.
#[derive(Debug)]
pub enum Challenge {
    /// Answered here, without the upstream.
    Answer(Response<Bytes>),
    /// Passed on, without a claim; an unsigned one also without a body.
    PassOn,
}

/// The longest value that is echoed. Challenges are a few dozen bytes.
const ECHO_BYTES_MAX: usize = 1024;

/// A challenge is a small thing; a large body is not searched for one.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Whether the delivery is a challenge in its exact shape. `proof` is what verification gave, if it has been done.
pub fn challenge(handshake: &Handshake, received: &Received<'_>, proof: Option<&Proof>) -> Option<Challenge> {
    let is_admitted = if handshake.signed { proof.is_some() } else { received.body.is_empty() };
    if !is_admitted || *received.method != handshake.method || received.body.len() > BODY_BYTES_MAX {
        return None;
    }
    let known = value(&handshake.when.place, received)?;
    if *known != *handshake.when.is.as_bytes() {
        return None;
    }
    if let Some(guard) = &handshake.guard
        && !guard.admits(&value(&guard.place, received)?)
    {
        return None;
    }
    let echo = value(&handshake.reply, received).filter(|echo| echo.len() <= ECHO_BYTES_MAX)?;
    Some(match handshake.answer {
        Answerer::Hookonce => Challenge::Answer(plain_text(echo.into_owned().into())),
        Answerer::Upstream => Challenge::PassOn,
    })
}

/// A value that is there once.
fn value<'a>(place: &Place, received: &Received<'a>) -> Option<Cow<'a, [u8]>> {
    locate::find(place, received).ok().flatten()
}

fn plain_text(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, StatusCode, Uri};

    use super::*;
    use crate::config::Secret;
    use crate::scheme::{Condition, Guard, preset};

    fn slack() -> Handshake {
        preset::find("slack").unwrap().compile().unwrap().handshake.unwrap()
    }

    fn hub(answer: Answerer) -> Handshake {
        Handshake {
            method: Method::GET,
            signed: false,
            when: Condition { place: Place::Query("hub.mode".into()), is: "subscribe".into() },
            reply: Place::Query("hub.challenge".into()),
            guard: Some(Guard { place: Place::Query("hub.verify_token".into()), secret: Secret::new("right") }),
            answer,
        }
    }

    fn judge(handshake: &Handshake, method: &Method, uri: &str, body: &str, proof: Option<Proof>) -> Option<Challenge> {
        let (uri, body, headers) = (uri.parse::<Uri>().unwrap(), Bytes::from(body.to_owned()), HeaderMap::new());
        challenge(handshake, &Received { method, uri: &uri, headers: &headers, body: &body }, proof.as_ref())
    }

    fn echoed(challenge: Option<Challenge>) -> Option<String> {
        let Some(Challenge::Answer(response)) = challenge else { return None };
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        Some(String::from_utf8_lossy(response.body()).into_owned())
    }

    #[test]
    fn a_signed_challenge_is_answered_once_it_is_verified() {
        let body = r#"{"token":"x","challenge":"3eZbrw1aB","type":"url_verification"}"#;
        let proof = Some(Proof { slot: 0 });
        let post = |body: &str, proof| judge(&slack(), &Method::POST, "/", body, proof);
        assert_eq!(echoed(post(body, proof)), Some("3eZbrw1aB".into()));
        assert!(post(body, None).is_none());
        assert!(post(&body.replace("url_verification", "event_callback"), proof).is_none());
        assert!(post(&body.replace("challenge", "x"), proof).is_none());
        assert!(post(&body.replace("3eZbrw1aB", &"x".repeat(1025)), proof).is_none());
        assert!(post(&body.replace("{", "{\"type\":\"url_verification\","), proof).is_none());
        assert!(judge(&slack(), &Method::GET, "/", body, proof).is_none());
    }

    #[test]
    fn an_unsigned_challenge_is_answered_only_in_its_exact_shape() {
        let right = "/?hub.mode=subscribe&hub.challenge=11%3C58&hub.verify_token=right";
        let hub = hub(Answerer::Hookonce);
        assert_eq!(echoed(judge(&hub, &Method::GET, right, "", None)), Some("11<58".into()));
        assert!(judge(&hub, &Method::POST, right, "", None).is_none());
        assert!(judge(&hub, &Method::GET, right, "body", None).is_none());
        for (from, to) in [
            ("subscribe", "unsubscribe"),
            ("hub.challenge", "challenge"),
            ("token=right", "token=wrong"),
            ("&hub.verify_token=right", ""),
            ("hub.mode", "hub.challenge=2&hub.mode"),
        ] {
            assert!(judge(&hub, &Method::GET, &right.replace(from, to), "", None).is_none(), "{to}");
        }
    }

    #[test]
    fn a_challenge_for_the_upstream_is_passed_on() {
        let right = "/?hub.mode=subscribe&hub.challenge=1158&hub.verify_token=right";
        assert!(matches!(judge(&hub(Answerer::Upstream), &Method::GET, right, "", None), Some(Challenge::PassOn)));
    }
}
