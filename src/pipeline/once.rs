//! One event from its claim to its settlement, with or without its sender: claim and forward here, what follows in
//! `settling`.
//!
//! What is rare is boxed: an event's future has room for everything it may come to wait for, and is as large as the largest.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::audience::{Audience, News};
use super::body::Outgoing;
use super::bound::Place;
use super::event::{Event, Standing};
use super::flight::{Ending, Lead};
use super::former::Former;
use super::headers::{Peer, Told};
use super::hold::Hold;
use super::identify::EventKey;
use super::refusal::Refusal;
use super::settle::{Settlement, passable, settlement_for};
use super::upstream::{self, ForwardError, Heard, NotSent, Patience};
use super::{Pipeline, now};
use crate::config::{Dedupe, InFlight, OnConflict, OnStoreDown, Provider, Upstream};
use crate::failpoint::Failpoint;
use crate::store::{
    Claim, ClaimError, ClaimOutcome, Done, Earlier, Entry, Mark, Store, StoreError, StoreErrorKind, Terms, WrittenBack,
};
use crate::telemetry::trace::{Step, Trace};
use crate::telemetry::{Facts, StoreOp};

/// How often another process's claim is looked at.
const POLL: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_millis(500);

/// The permit to forward: a claim and who granted it, or a reason to go without one.
struct Permit {
    claim: Option<(Claim, Keeper)>,
    mark: Option<Mark>,
}

impl Permit {
    fn without_claim(mark: Option<Mark>) -> Self {
        Self { claim: None, mark }
    }
}

/// Who knows about an event: the store, or this process while the store cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    Store,
    Process,
}

/// What a claim comes to where the store cannot be asked and nobody stands in for it.
enum NoClaim {
    Refuse(StoreError),
    /// It is forwarded all the same.
    Forward,
}

pub type Sent = Result<Box<Heard>, ForwardError>;

impl Pipeline {
    /// Claims the event, forwards it, settles it. Nobody but stopping can interrupt it. It keeps its place to the end.
    pub(super) async fn once(
        self: Arc<Self>,
        event: Box<Event>,
        lead: Option<Lead>,
        sender: oneshot::Sender<News>,
        _place: Place,
    ) {
        let on_duplicate = event.route.provider.on_duplicate;
        let mut audience = Box::new(Audience::new(&event, lead, sender));
        let permit = self.permit(&event, &mut audience).await;
        match permit {
            Ok(permit) => self.attempt(event, permit, audience).await,
            Err(Ending::Moved) => audience.moved(event),
            Err(ending) => audience.end(ending, on_duplicate),
        }
    }

    /// Asks the store, or who stands in for it. The error is how the delivery ends without being forwarded.
    async fn permit(&self, event: &Event, audience: &mut Audience) -> Result<Permit, Ending> {
        let provider = &event.route.provider;
        let key = match &event.standing {
            Standing::Unclaimed { mark } => return Ok(Permit::without_claim(*mark)),
            Standing::Keyed { key, .. } | Standing::Conflicting { key, .. } => key,
        };
        let former = match event.route.was_queued().then(|| Box::pin(self.known_from_queue(event, key))) {
            None => None,
            Some(known) => match known.await {
                Ok(former) => former,
                Err(_) if provider.dedupe == Dedupe::Observe => Some(Mark::Observe),
                Err(ending) => return Err(ending),
            },
        };
        let terms = Terms {
            lease: provider.lease,
            retention: provider.retention,
            body: event.body,
            body_matters: event.standing.body_matters(),
            doubt: former.or_else(|| self.is_lost_to_reset(event).then_some(Mark::StoreReset)).or(event.doubt),
        };
        Failpoint::BeforeClaim.reach().await;
        let (asked, mut step) = (Instant::now(), event.trace.step("claim"));
        let mut claimed = self.claim(event, key, &terms).await;
        if let Ok((ClaimOutcome::Done(done), keeper)) = &claimed
            && event.is_bypassed()
        {
            claimed = Box::pin(self.claim_again(event, key, &terms, done, *keeper)).await;
        }
        audience.facts.store = asked.elapsed();
        let (outcome, keeper) = match claimed {
            Ok(claimed) => claimed,
            Err(NoClaim::Forward) => return Ok(Permit::without_claim(Some(Mark::StoreDown))),
            Err(NoClaim::Refuse(error)) => {
                step.failed(&error);
                return Err(Ending::Refused(Refusal::StoreDown(error.to_string().into())));
            }
        };
        step.note("hookonce.claim", word_for(&outcome));
        drop(step);
        if let ClaimOutcome::Claimed { .. } | ClaimOutcome::InFlight { .. } = &outcome {
            audience.owns_key();
        }
        let observed = || (provider.dedupe == Dedupe::Observe).then_some(Permit::without_claim(Some(Mark::Observe)));
        match outcome {
            ClaimOutcome::Claimed { claim, earlier } => {
                Failpoint::AfterClaim.reach().await;
                let replayed = match keeper {
                    Keeper::Store if event.signed.is_some() => {
                        let guarded = Box::pin(self.guard(event, &claim)).await;
                        audience.facts.store = asked.elapsed();
                        guarded?
                    }
                    Keeper::Store | Keeper::Process => None,
                };
                if earlier == Earlier::None {
                    event.route.watch.claimed_first();
                }
                let conflict = matches!(event.standing, Standing::Conflicting { .. }).then_some(Mark::Conflict);
                let apart = (keeper == Keeper::Process).then_some(Mark::StoreDown);
                // The server that answered may have been found to be another one only on the way to this answer.
                let lost = || self.is_lost_to_reset(event).then_some(Mark::StoreReset);
                Ok(Permit { mark: claim.doubt().or(conflict).or(apart).or_else(lost).or(replayed), claim: Some((claim, keeper)) })
            }
            ClaimOutcome::Done(done) => {
                if done.body != event.body {
                    event.route.watch.conflict();
                }
                event.route.watch.duplicate_of(&done, now());
                observed().ok_or_else(|| Ending::Done(Arc::new(done)))
            }
            ClaimOutcome::Queued(_) => observed().ok_or(Ending::Queued),
            ClaimOutcome::InFlight { lease_left } => match (observed(), provider.in_flight) {
                (Some(permit), _) => Ok(permit),
                (None, InFlight::Wait) => {
                    let (waiting, _step) = (Instant::now(), event.trace.step("wait"));
                    let ending = Box::pin(self.await_elsewhere(self.kept_by(keeper), key, audience)).await;
                    audience.facts.waited = waiting.elapsed();
                    Err(ending)
                }
                (None, InFlight::Retry) => Err(Ending::Refused(Refusal::InFlight { retry_after: lease_left })),
                (None, InFlight::Ack) => Err(Ending::Acked),
            },
            ClaimOutcome::Conflict(entry) => match Box::pin(self.conflict(event, self.kept_by(keeper), key, &entry)).await {
                refused @ Ending::Refused(Refusal::Conflict) => observed().ok_or(refused),
                ending => Err(ending),
            },
        }
    }

    /// What is known of the event from when the provider was in queue mode, or the doubt that is left of it.
    async fn known_from_queue(&self, event: &Event, key: &EventKey) -> Result<Option<Mark>, Ending> {
        let route = &event.route;
        let before = self.store.key_in(&route.lane, key);
        if before == *key {
            return Ok(None);
        }
        match self.former(event, &before).await {
            Ok(Former::Nothing) => Ok(None),
            Ok(Former::Doubt(mark)) => Ok(Some(mark)),
            Ok(Former::Done(_)) if event.is_bypassed() => Ok(Some(Mark::Replay)),
            Ok(Former::Done(done)) => Err(Ending::Done(Arc::new(done))),
            Ok(Former::Queued) => Err(Ending::Queued),
            Ok(Former::InFlight { lease_left }) => Err(Ending::Refused(Refusal::InFlight { retry_after: lease_left })),
            Ok(Former::Conflict(entry)) => Err(self.conflict(event, &self.store, &before, &entry).await),
            // Whoever cannot be asked may know better.
            Err(_) => Ok(Some(Mark::StoreDown)),
        }
    }

    /// Claims the event in the store; where that cannot be asked, by the provider's policy.
    async fn claim(&self, event: &Event, key: &EventKey, terms: &Terms) -> Result<(ClaimOutcome, Keeper), NoClaim> {
        let here = |outcome| (outcome, Keeper::Process);
        // What this process has done on its own comes first: a store that cannot be told of it would take the event for new.
        let claimed = match self.reserve.write_back(key, &self.store).await {
            Ok(WrittenBack::ClaimedHere) => {
                return Box::pin(self.reserve.claim(key, terms)).await.map(here).map_err(NoClaim::Refuse);
            }
            Ok(written) => {
                self.telemetry.written_back(written);
                self.telemetry.store(StoreOp::Claim, self.store.claim(key, terms)).await
            }
            Err(error) => Err(error.into()),
        };
        let ClaimError { error, unsure } = match claimed {
            Ok(outcome) => {
                if matches!(&outcome, ClaimOutcome::Claimed { claim, .. } if claim.attempt() == 1) {
                    self.condition.took_new();
                }
                return Ok((outcome, Keeper::Store));
            }
            Err(failed) => failed,
        };
        // A key that holds something else is that event's trouble alone.
        if error.kind != StoreErrorKind::Foreign {
            self.condition.took_none();
        }
        unsure.into_iter().for_each(|claim| self.reserve.withdraw(claim));
        let policy = self.policy_without_store(&event.route.provider);
        if policy == OnStoreDown::Open {
            return Err(NoClaim::Forward);
        }
        let known = self.reserve.recall(key, terms);
        if let Some(known) = known.filter(|known| !(matches!(known, ClaimOutcome::Done(_)) && event.is_bypassed())) {
            return Ok(here(known));
        }
        match policy {
            OnStoreDown::Local => Box::pin(self.reserve.claim(key, terms)).await.map(here).map_err(NoClaim::Refuse),
            OnStoreDown::Closed | OnStoreDown::Open => Err(NoClaim::Refuse(error)),
        }
    }

    /// Opens an event that is done, and claims it once more. Who finds it done again was overtaken by a copy.
    async fn claim_again(
        &self,
        event: &Event,
        key: &EventKey,
        terms: &Terms,
        done: &Done,
        keeper: Keeper,
    ) -> Result<(ClaimOutcome, Keeper), NoClaim> {
        let opening = self.kept_by(keeper).reopen(key, done, Mark::Replay, terms.retention);
        self.telemetry.store(StoreOp::Forget, opening).await.map_err(NoClaim::Refuse)?;
        self.claim(event, key, terms).await
    }

    /// What is done now that the store cannot be asked. "closed" is for as long as the provider surely comes back.
    pub(super) fn policy_without_store(&self, provider: &Provider) -> OnStoreDown {
        // What only observes holds nothing up.
        if provider.dedupe == Dedupe::Observe {
            return OnStoreDown::Open;
        }
        let down_for = self.store.breaker().down_for().max(self.condition.takes_none_for()).unwrap_or_default();
        match provider.on_store_down {
            OnStoreDown::Closed if provider.closed_max.is_some_and(|max| down_for >= max) => OnStoreDown::Local,
            policy => policy,
        }
    }

    /// Whether the store may have lost what it knew of this event.
    pub(super) fn is_lost_to_reset(&self, event: &Event) -> bool {
        let provider = &event.route.provider;
        let (Some(reset), Some(rule)) = (self.reset_for(provider), &provider.event_time) else { return false };
        rule.read(&event.verified.delivery().received()).is_some_and(|at| at < reset)
    }

    /// When the store may have lost what it knew of the provider's events.
    pub(crate) fn reset_for(&self, provider: &Provider) -> Option<SystemTime> {
        let reset = self.condition.reset().max(self.store.replaced())?;
        // After a retention it would have been forgotten in any case.
        let is_over = now().duration_since(reset).is_ok_and(|since| since > provider.retention);
        (!is_over).then_some(reset)
    }

    fn kept_by(&self, keeper: Keeper) -> &Store {
        match keeper {
            Keeper::Store => &self.store,
            Keeper::Process => self.reserve.local(),
        }
    }

    /// The same id with another body: another event, unless that is refused.
    async fn conflict(&self, event: &Event, store: &Store, key: &EventKey, entry: &Entry) -> Ending {
        event.route.watch.conflict();
        let provider = &event.route.provider;
        tracing::warn!(
            provider = provider.name,
            event = event.id.as_deref(),
            "one id, two bodies: if they are one event, exclude what differs with `fingerprint`, or set `on_conflict`"
        );
        if provider.on_conflict == OnConflict::Reject {
            return Ending::Refused(Refusal::Conflict);
        }
        // The main key must not end before the key with the digest: its body would be taken for new then.
        if !matches!(entry, Entry::Claimed(_)) {
            let kept = self.telemetry.store(StoreOp::Keep, store.keep(key, entry, provider.retention)).await;
            if let Err(error) = kept {
                return Ending::Refused(Refusal::StoreDown(error.to_string().into()));
            }
        }
        Ending::Moved
    }

    /// Waits for the outcome of another process's claim, as long as somebody here waits for it.
    async fn await_elsewhere(&self, store: &Store, key: &EventKey, audience: &Audience) -> Ending {
        let mut pause = POLL;
        let over = Ending::Refused(Refusal::LeaseOver);
        while audience.is_there() {
            sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
            let seen = match self.telemetry.store(StoreOp::Look, store.look(key)).await {
                Ok(Some(seen)) => seen,
                Ok(None) => return over,
                Err(error) => return Ending::Refused(Refusal::StoreDown(error.to_string().into())),
            };
            match seen.entry {
                Entry::Done(done) => return Ending::Done(Arc::new(done)),
                Entry::Queued(_) => return Ending::Queued,
                Entry::Failed(failed) => {
                    let status = failed.status.and_then(|status| StatusCode::from_u16(status).ok());
                    let status = passable(status.unwrap_or(StatusCode::BAD_GATEWAY));
                    return Ending::Refused(Refusal::FailedElsewhere { status });
                }
                Entry::Claimed(_) if seen.lease_left == Some(Duration::ZERO) => return over,
                Entry::Claimed(_) => {}
            }
        }
        over
    }

    /// Forwards the event and settles its claim, if it has one.
    async fn attempt(&self, mut event: Box<Event>, permit: Permit, mut audience: Box<Audience>) {
        let Permit { claim, mark } = permit;
        let route = Arc::clone(&event.route);
        let _held = claim.as_ref().map(|_| route.watch.claim_held());
        audience.slot = event.slot.take();
        let main = match &event.standing {
            Standing::Conflicting { main, .. } => Some(main.clone()),
            Standing::Keyed { .. } | Standing::Unclaimed { .. } => None,
        };
        let hold = claim.as_ref().map(|(claim, keeper)| Hold::of(claim, self.kept_by(*keeper)));
        let (began, attempt) = (Instant::now(), hold.as_ref().map(|hold| hold.claim().attempt()));
        let (trace, deadline) = (event.trace.clone(), began + route.provider.upstream_timeout);
        let call = Call { provider: &route.provider, main, deadline, attempt, mark, trace };
        let sent = self.forward(event, &call, hold.as_ref()).await;
        Failpoint::AfterCall.reach().await;
        let upstream = began.elapsed();
        audience.facts = Facts { upstream, attempt, mark, ..audience.facts };
        route.watch.upstream_took(upstream);
        if let (Some(mark), false) = (mark, matches!(sent, Err(ForwardError::NotSent(_)))) {
            route.watch.marked(mark);
        }
        let settlement = settlement_for(&route.provider, sent.as_ref().map(|heard| heard.parts.status));
        if let (Some(attempt), true) = (attempt, settlement != Settlement::Complete) {
            route.watch.failed_at(attempt);
            if let Some((paces, key)) = self.failures.as_deref().zip(hold.as_ref().map(|hold| &hold.claim().key)) {
                paces.failed(key);
            }
        }
        match (&hold, settlement) {
            (Some(hold), Settlement::Complete) => {
                route.watch.succeeded_at(hold.claim().attempt());
                // Boxed, though it is the rule: for as long as a consumer takes, its event need not have room for what follows.
                Box::pin(self.complete(hold, &call, sent, audience)).await;
            }
            (Some(hold), Settlement::Fail { doubt }) => Box::pin(self.release(hold, doubt, &call, sent, audience)).await,
            (Some(_), settlement @ Settlement::Hold) | (None, settlement) => {
                let spoken = Box::pin(self.listen(&call, sent)).await;
                audience.tell(spoken.conclude(&call, settlement, true));
            }
        }
    }

    /// Sends the delivery to the consumer, renewing the lease while the call runs.
    async fn forward(&self, event: Box<Event>, call: &Call<'_>, hold: Option<&Hold<'_>>) -> Sent {
        let Event { verified, id, .. } = *event;
        let delivery = verified.into_delivery();
        let peer = Peer::of(delivery.caller, self.config().trusted_proxies.as_deref());
        let mut step = call.trace.call("forward");
        let trace = call.trace.onward(&step);
        let told = Told { event_id: id.as_deref(), attempt: call.attempt, mark: call.mark, trace };
        let body = Outgoing::Whole(delivery.body);
        let request = upstream::request(&call.provider.upstream, call.provider.preserve_path, delivery.parts, body, peer, told);
        let may_send = || {
            Failpoint::BeforeFirstByte.block();
            if hold.is_none_or(Hold::is_ours) { Ok(()) } else { Err(NotSent::LeaseLost) }
        };
        let patience = Patience { connect: call.provider.connect_retry, deadline: call.deadline, stop: &self.stop };
        let sending = pin!(self.upstreams.send(&call.provider.upstream, request, patience, may_send));
        let sent = match hold {
            None => sending.await,
            Some(hold) => hold.during(sending, &self.telemetry).await,
        };
        note_call(&mut step, &call.provider.upstream, &sent);
        sent
    }
}

/// One call to the consumer.
pub(super) struct Call<'a> {
    pub provider: &'a Provider,
    /// The key that belongs to another body, where this one goes under key and digest.
    pub main: Option<EventKey>,
    pub deadline: Instant,
    pub attempt: Option<u32>,
    pub mark: Option<Mark>,
    pub trace: Trace,
}

/// What a span says of a claim.
fn word_for(outcome: &ClaimOutcome) -> &'static str {
    match outcome {
        ClaimOutcome::Claimed { .. } => "claimed",
        ClaimOutcome::Done(_) => "done",
        ClaimOutcome::InFlight { .. } => "in_flight",
        ClaimOutcome::Queued(_) => "queued",
        ClaimOutcome::Conflict(_) => "conflict",
    }
}

/// What a span says of a call.
pub fn note_call(step: &mut Step, upstream: &Upstream, sent: &Sent) {
    step.note("server.address", upstream.0.host().unwrap_or_default());
    match sent {
        Ok(heard) => step.note("http.response.status_code", heard.parts.status.as_u16()),
        Err(error) => step.failed(error),
    }
}
