//! Signed bytes that come again under another id. Where the signature does not cover the id, whoever has captured a delivery can
//! send it as a new event: the id's own claim does not know it.
//!
//! `observe` remembers in this process and marks, `enforce` has the store remember to which event signed bytes belong.

use std::sync::Arc;
use std::time::Duration;

use super::event::Event;
use super::flight::Ending;
use super::identify::{BodyDigest, EventKey, fingerprint};
use super::refusal::Refusal;
use super::route::Route;
use super::verify::Verified;
use super::{Pipeline, now};
use crate::config::{Dedupe, Fingerprint, InFlight, Mode, OnStoreDown, Provider, ReplayGuard};
use crate::scheme::Signed;
use crate::store::{self, Binder, Bound, Claim, Done, Mark, StoreError};
use crate::telemetry::StoreOp;

/// The digest of what was signed, where somebody asks for it. `body` is the delivery's fingerprint, which may be the same.
pub(super) fn signed(provider: &Provider, verified: &Verified, body: BodyDigest) -> Option<BodyDigest> {
    Some(match (verified.signed()?, &provider.fingerprint) {
        (Signed::Digest(digest), _) => BodyDigest::of(digest),
        (Signed::Body, Fingerprint::Body) => body,
        (Signed::Body, _) => fingerprint(&Fingerprint::Body, &verified.delivery().body),
    })
}

impl Pipeline {
    /// Looks whether this process has seen the bytes under another id, and remembers that it has seen them under this one.
    pub(super) fn sight(&self, route: &Route, signed: BodyDigest, id: &str) -> Option<Mark> {
        let Provider { name, replay_guard, .. } = route.provider.as_ref();
        let is_watched = *replay_guard == ReplayGuard::Observe;
        let is_replay = is_watched && self.reserve.sightings.is_under_another_id(name, signed, id);
        if is_replay {
            self.note_replay(
                name,
                Some(id),
                "what is signed here came before under another event id: forwarded, marked; with replay_guard = \"enforce\" it \
                 would be a duplicate",
            );
        }
        is_replay.then_some(Mark::Replay)
    }

    /// Binds what is signed to an event that holds its claim. Gives the mark that its forward needs, or how the delivery ends
    /// without one.
    pub(super) async fn guard(&self, event: &Event, claim: &Claim) -> Result<Option<Mark>, Ending> {
        let Some(signed) = event.signed else { return Ok(None) };
        let provider = &event.route.provider;
        let bound = match self.bind(event, signed, &claim.key, Some(claim)).await {
            Ok(Bound::Ours) => return Ok(None),
            Ok(Bound::Taken | Bound::Regained) => return Ok(Some(Mark::Replay)),
            Ok(_) if provider.dedupe == Dedupe::Observe => return Ok(Some(Mark::Observe)),
            Ok(bound) => bound,
            Err(error) => {
                return match self.policy_without_store(provider) {
                    OnStoreDown::Local | OnStoreDown::Open => Ok(Some(Mark::StoreDown)),
                    OnStoreDown::Closed => {
                        self.reserve.withdraw(claim.clone());
                        Err(Ending::Refused(Refusal::StoreDown(error.to_string().into())))
                    }
                };
            }
        };
        Err(match bound {
            Bound::Done(done) => {
                event.route.watch.duplicate_of(&done, now());
                self.settle_as(claim, &done).await;
                Ending::Done(Arc::new(done))
            }
            Bound::Queued(_) => {
                self.let_go(claim).await;
                Ending::Queued
            }
            Bound::InFlight { lease_left } => {
                self.let_go(claim).await;
                match provider.in_flight {
                    InFlight::Ack => Ending::Acked,
                    InFlight::Wait | InFlight::Retry => Ending::Refused(Refusal::InFlight { retry_after: lease_left }),
                }
            }
            Bound::Ours | Bound::Taken | Bound::Regained => return Ok(None),
        })
    }

    /// Asks the store to which event the bytes belong, and makes them this one's where nobody else has a use for them.
    pub(super) async fn bind(
        &self,
        event: &Event,
        signed: BodyDigest,
        key: &EventKey,
        claim: Option<&Claim>,
    ) -> Result<Bound, StoreError> {
        let provider = &event.route.provider;
        let cell = EventKey::binding(&self.config().store.namespace, &provider.name, signed);
        // Until the event itself is forgotten, which is counted from its end.
        let under_way = match provider.mode {
            Mode::Sync => provider.upstream_timeout,
            Mode::Queue => self.config().queue.schedule.iter().fold(Duration::ZERO, |sum, pause| sum.saturating_add(*pause)),
        };
        let life = provider.retention.saturating_add(under_way);
        let binder = Binder { key, claim, life, lease: provider.lease, insists: event.is_bypassed() };
        let step = event.trace.step("bind");
        let bound = self.telemetry.store(StoreOp::Bind, self.store.bind(&cell, binder)).await?;
        drop(step);
        let note = |what| self.note_replay(&provider.name, event.id.as_deref(), what);
        match &bound {
            Bound::Ours | Bound::InFlight { .. } => {}
            Bound::Taken => note("what is signed here came before under another event id, which is not done: forwarded, marked"),
            Bound::Regained => {
                note("what is signed here was accepted under another event id while this event failed: forwarded, marked");
            }
            Bound::Done(_) | Bound::Queued(_) => {
                note("what is signed here came before under another event id: it is a duplicate of that event");
            }
        }
        Ok(bound)
    }

    /// What came under the other id is what has taken effect: copies of this one are duplicates too. Where that cannot be
    /// stored, they are told so by the same way as this one.
    async fn settle_as(&self, claim: &Claim, done: &Done) {
        let own = store::done(claim, done.status, now(), done.reply.clone());
        if let Err(error) = self.telemetry.store(StoreOp::Complete, self.store.complete(claim, own)).await {
            tracing::debug!(event = claim.key.as_str(), %error, "a replay is not settled");
        }
    }

    /// Gives back a claim that was never used.
    async fn let_go(&self, claim: &Claim) {
        if self.telemetry.store(StoreOp::Fail, self.store.withdraw(claim)).await.is_err() {
            self.reserve.withdraw(claim.clone());
        }
    }

    fn note_replay(&self, provider: &str, event: Option<&str>, what: &'static str) {
        if self.reserve.sightings.is_line_due() {
            tracing::warn!(provider, event, "{what}");
        }
    }
}
