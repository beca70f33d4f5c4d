//! One event from its claim to its settlement, in a task of its own: claim and forward here, what follows in
//! `settling`.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::audience::{Audience, News};
use super::body::Outgoing;
use super::flight::{Ending, Lead};
use super::headers::{Peer, Told};
use super::hold::Hold;
use super::identify::{BodyDigest, EventKey};
use super::refusal::Refusal;
use super::route::{Route, Slot};
use super::settle::{Settlement, passable, settlement_for};
use super::upstream::{self, ForwardError, NotSent, Patience, Used};
use super::verify::Verified;
use super::{Pipeline, now};
use crate::config::{Dedupe, InFlight, OnConflict, OnStoreDown, Provider};
use crate::failpoint::Failpoint;
use crate::store::{Claim, ClaimOutcome, Earlier, Entry, Mark, Terms};
use crate::telemetry::{Facts, StoreOp};

/// How often another process's claim is looked at.
const POLL: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_millis(500);

/// A verified delivery and the event it carries.
#[derive(Debug)]
pub struct Event {
    pub route: Arc<Route>,
    pub verified: Verified,
    /// The event id as it is shown.
    pub id: Option<Arc<str>>,
    pub body: BodyDigest,
    pub standing: Standing,
    /// Its place among those that may be under way at once; kept until its outcome is told, whether or not its sender waits.
    pub slot: Option<Slot>,
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
    pub fn conflicting(mut self) -> Self {
        self.id = self.id.map(|id| format!("{id}:{}", self.body).into());
        self.standing = self.standing.conflicting(self.body);
        self
    }
}

/// The permit to forward: a claim, or a reason to go without one.
struct Permit {
    claim: Option<Claim>,
    mark: Option<Mark>,
}

pub(super) type Sent = Result<(Response<Incoming>, Used), ForwardError>;

impl Pipeline {
    /// Claims the event, forwards it, settles it. Nobody but stopping can interrupt it.
    pub(super) async fn once(self: Arc<Self>, event: Event, lead: Option<Lead>, sender: oneshot::Sender<News>) {
        let on_duplicate = event.route.provider.on_duplicate;
        let mut audience = Audience::new(&event, lead, sender);
        let permit = self.permit(&event, &mut audience).await;
        match permit {
            Ok(permit) => self.attempt(event, permit, audience).await,
            Err(Ending::Moved) => audience.moved(event),
            Err(ending) => audience.end(ending, on_duplicate),
        }
    }

    /// Asks the store. The error is how the delivery ends without being forwarded.
    async fn permit(&self, event: &Event, audience: &mut Audience) -> Result<Permit, Ending> {
        let provider = &event.route.provider;
        let key = match &event.standing {
            Standing::Unclaimed { mark } => return Ok(Permit { claim: None, mark: *mark }),
            Standing::Keyed { key, .. } | Standing::Conflicting { key, .. } => key,
        };
        let terms = Terms {
            lease: provider.lease,
            retention: provider.retention,
            body: event.body,
            body_matters: event.standing.body_matters(),
        };
        Failpoint::BeforeClaim.reach().await;
        let asked = Instant::now();
        let outcome = self.telemetry.store(StoreOp::Claim, self.store.claim(key, &terms)).await;
        audience.facts.store = asked.elapsed();
        if let Ok(ClaimOutcome::Claimed { .. } | ClaimOutcome::InFlight { .. }) = &outcome {
            audience.owns_key();
        }
        let observed = || (provider.dedupe == Dedupe::Observe).then_some(Permit { claim: None, mark: Some(Mark::Observe) });
        match outcome {
            Ok(ClaimOutcome::Claimed { claim, earlier }) => {
                Failpoint::AfterClaim.reach().await;
                if earlier == Earlier::None {
                    event.route.watch.claimed_first();
                }
                let conflict = matches!(event.standing, Standing::Conflicting { .. }).then_some(Mark::Conflict);
                Ok(Permit { mark: claim.doubt().or(conflict), claim: Some(claim) })
            }
            Ok(ClaimOutcome::Done(done)) => {
                if done.body != event.body {
                    event.route.watch.conflict();
                }
                event.route.watch.duplicate_of(&done, now());
                observed().ok_or_else(|| Ending::Done(Arc::new(done)))
            }
            Ok(ClaimOutcome::InFlight { lease_left }) => match (observed(), provider.in_flight) {
                (Some(permit), _) => Ok(permit),
                (None, InFlight::Wait) => {
                    let waiting = Instant::now();
                    let ending = self.await_elsewhere(key, audience).await;
                    audience.facts.waited = waiting.elapsed();
                    Err(ending)
                }
                (None, InFlight::Retry) => Err(Ending::Refused(Refusal::InFlight { retry_after: lease_left })),
                (None, InFlight::Ack) => Err(Ending::Acked),
            },
            Ok(ClaimOutcome::Conflict(entry)) => match self.conflict(event, key, &entry).await {
                refused @ Ending::Refused(Refusal::Conflict) => observed().ok_or(refused),
                ending => Err(ending),
            },
            Err(error) => match provider.on_store_down {
                OnStoreDown::Closed => Err(Ending::Refused(Refusal::StoreDown(error.to_string().into()))),
                OnStoreDown::Open => Ok(Permit { claim: None, mark: Some(Mark::StoreDown) }),
            },
        }
    }

    /// The same id with another body: another event, unless that is refused.
    async fn conflict(&self, event: &Event, key: &EventKey, entry: &Entry) -> Ending {
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
            let kept = self.telemetry.store(StoreOp::Keep, self.store.keep(key, entry, provider.retention)).await;
            if let Err(error) = kept {
                return Ending::Refused(Refusal::StoreDown(error.to_string().into()));
            }
        }
        Ending::Moved
    }

    /// Waits for the outcome of another process's claim, as long as somebody here waits for it.
    async fn await_elsewhere(&self, key: &EventKey, audience: &Audience) -> Ending {
        let mut pause = POLL;
        let over = Ending::Refused(Refusal::LeaseOver);
        while audience.is_there() {
            sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
            let seen = match self.telemetry.store(StoreOp::Look, self.store.look(key)).await {
                Ok(Some(seen)) => seen,
                Ok(None) => return over,
                Err(error) => return Ending::Refused(Refusal::StoreDown(error.to_string().into())),
            };
            match seen.entry {
                Entry::Done(done) => return Ending::Done(Arc::new(done)),
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
    async fn attempt(&self, mut event: Event, permit: Permit, mut audience: Audience) {
        let Permit { claim, mark } = permit;
        let route = Arc::clone(&event.route);
        let _held = claim.as_ref().map(|_| route.watch.claim_held());
        audience.slot = event.slot.take();
        let main = match &event.standing {
            Standing::Conflicting { main, .. } => Some(main.clone()),
            Standing::Keyed { .. } | Standing::Unclaimed { .. } => None,
        };
        let hold = claim.as_ref().map(Hold::of);
        let (began, attempt) = (Instant::now(), claim.as_ref().map(Claim::attempt));
        let call = Call { provider: &route.provider, main, deadline: began + route.provider.upstream_timeout, attempt, mark };
        let sent = self.forward(event, &call, hold.as_ref()).await;
        Failpoint::AfterCall.reach().await;
        let upstream = began.elapsed();
        audience.facts = Facts { upstream, attempt, mark, ..audience.facts };
        route.watch.upstream_took(upstream);
        if let (Some(mark), false) = (mark, matches!(sent, Err(ForwardError::NotSent(_)))) {
            route.watch.marked(mark);
        }
        match (&hold, settlement_for(&route.provider, sent.as_ref().map(|(response, _)| response.status()))) {
            (Some(hold), Settlement::Complete) => {
                route.watch.succeeded_at(hold.claim().attempt());
                self.complete(hold, &call, sent, audience).await;
            }
            (Some(hold), Settlement::Fail { doubt }) => self.release(hold, doubt, &call, sent, audience).await,
            (Some(_), settlement @ Settlement::Hold) | (None, settlement) => {
                let spoken = self.listen(&call, sent).await;
                audience.tell(spoken.conclude(&call, settlement));
            }
        }
    }

    /// Sends the delivery to the consumer, renewing the lease while the call runs.
    async fn forward(&self, event: Event, call: &Call<'_>, hold: Option<&Hold<'_>>) -> Sent {
        let delivery = event.verified.into_delivery();
        let peer = Peer::of(delivery.peer, self.config.trusted_proxies.as_deref());
        let told = Told { event_id: event.id.as_deref(), attempt: call.attempt, mark: call.mark };
        let body = Outgoing::Whole(Full::new(delivery.body));
        let request = upstream::request(&call.provider.upstream, call.provider.preserve_path, delivery.parts, body, peer, told);
        let may_send = || {
            Failpoint::BeforeFirstByte.block();
            if hold.is_none_or(Hold::is_ours) { Ok(()) } else { Err(NotSent::LeaseLost) }
        };
        let patience = Patience { connect: call.provider.connect_retry, deadline: call.deadline, stop: &self.stop };
        let sending = self.upstreams.send(&call.provider.upstream, request, patience, may_send);
        match hold {
            None => sending.await,
            Some(hold) => hold.during(sending, &self.store, &self.telemetry).await,
        }
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
}
