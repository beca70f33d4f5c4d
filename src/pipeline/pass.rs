//! Requests that are no events: they are passed on to the consumer, and nothing is claimed.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use tokio::time::Instant;

use super::Pipeline;
use super::body::{Outgoing, ReplyBody};
use super::caller::Caller;
use super::headers::{Peer, Told};
use super::refusal::Refusal;
use super::reply::{End, Reply};
use super::route::Route;
use super::upstream::{self, ForwardError, Heard, Patience};
use crate::config::Upstream;
use crate::scheme::Challenge;
use crate::telemetry::Outcome;

/// What is passed through, or on, gets the patience of an ordinary proxy.
const CONNECT_RETRY: Duration = Duration::from_secs(3);
const PASS_TIMEOUT: Duration = Duration::from_secs(60);

impl Pipeline {
    /// Answers a challenge, or passes it on; neither claims anything.
    pub(super) async fn answer_challenge(
        &self,
        challenge: Challenge,
        route: &Route,
        parts: Box<Parts>,
        body: Bytes,
        caller: Caller,
    ) -> End {
        match challenge {
            Challenge::Answer(answer) => Ok(Reply::Challenge(answer)),
            Challenge::PassOn => {
                let (upstream, preserve_path) = (&route.provider.upstream, route.provider.preserve_path);
                let whole = Outgoing::Whole(body);
                let (parts, body) = self.pass(upstream, preserve_path, parts, whole, caller).await?;
                Ok(Reply::Relayed { parts, body, outcome: Outcome::Handshake, reason: "a challenge, passed on".into() })
            }
        }
    }

    /// Sends a request that is no event to the consumer, and streams its answer back.
    pub(super) async fn pass(
        &self,
        upstream: &Upstream,
        preserve_path: bool,
        parts: Box<Parts>,
        body: Outgoing,
        caller: Caller,
    ) -> Result<(Box<http::response::Parts>, ReplyBody), Refusal> {
        let peer = Peer::of(caller, self.config().trusted_proxies.as_deref());
        let told = Told { event_id: None, attempt: None, mark: None, trace: None };
        let request = upstream::request(upstream, preserve_path, parts, body, peer, told);
        let patience = Patience { connect: CONNECT_RETRY, deadline: Instant::now() + PASS_TIMEOUT, stop: &self.stop };
        match self.upstreams.send(upstream, request, patience, || Ok(())).await {
            Ok(heard) => {
                let Heard { parts, used } = *heard;
                Ok((parts, ReplyBody::streaming(Bytes::new(), used, None)))
            }
            Err(error @ ForwardError::NotSent(_)) => Err(Refusal::Unreachable(error.to_string().into())),
            Err(error @ ForwardError::Unknown(_)) => {
                Err(Refusal::Ambiguous { why: error.to_string().into(), claim: "nothing was claimed" })
            }
        }
    }
}
