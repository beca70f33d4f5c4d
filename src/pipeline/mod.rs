//! The way of one delivery, read from top to bottom:
//! route, intake, verify, handshake, identify, claim, forward, settle, reply.
//!
//! `handle` and `run` live as long as the sender waits. From the claim on, `once` goes on whether or not it does: the HTTP
//! server drops a request's future when the sender hangs up, and the event must not hang with it (`lasting`).

mod accept;
pub mod answer;
pub mod audience;
pub mod body;
pub mod bound;
pub mod bypass;
pub mod caller;
pub mod event;
pub mod flight;
mod former;
pub mod headers;
pub mod hold;
pub mod identify;
pub mod intake;
pub mod kept;
pub mod keyring;
mod lasting;
pub mod listener;
pub mod once;
mod pass;
pub mod plan;
pub mod rate;
pub mod refusal;
mod replay;
pub mod reply;
pub mod route;
pub mod settle;
mod settling;
pub mod upstream;
pub mod verify;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Dedupe, InFlight, MissingId, Mode, OnConflict, OnDuplicate, Provider, ReplayGuard};
use crate::scheme::{Challenge, Handshake, Key, Proof, Received};
use crate::store::{Condition, Mark, Reserve, Store};
use crate::telemetry::trace::{Kind, Trace};
use crate::telemetry::{Closing, Limit, Record, Telemetry};
use accept::Accepted;
use audience::{Ended, News, end_of, end_of_accepted};
use body::ReplyBody;
use bound::{Bound, Place};
use caller::Caller;
use event::{Event, Standing};
use flight::{Ending, Flights, Follower, Joined, Lead};
use identify::{EventId, EventKey};
use intake::{Bounds, Buffered, Delivery, Inbound};
use keyring::{Keyring, Need, Unavailable};
use lasting::Lasting;
use listener::presence::Asked;
use plan::Plan;
use rate::FailurePaces;
use refusal::Refusal;
use reply::{End, Reply};
use route::{Found, Route, Slot};
use upstream::Upstreams;
use verify::Verified;

/// From this size on a body is worth a thread of its own: a MAC or a look for the id would stop its core for others.
const LONG_BODY: usize = 256 * 1024;
/// When the program ends, what was never sent is released first and its sender told so.
const LAST_MOMENT: Duration = Duration::from_millis(400);
/// A copy that was not told the outcome in time may come back after this long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Everything a delivery meets, for one runtime. What is behind an `Arc` of its own is shared by all runtimes.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub plan: Plan,
    pub flights: Arc<Flights>,
    pub telemetry: Arc<Telemetry>,
    pub buffered: Buffered,
    pub store: Store,
    /// What stands in for the store while it cannot be asked.
    pub reserve: Arc<Reserve>,
    /// What is known of the store beside its answers.
    pub condition: Arc<Condition>,
    pub keyring: Arc<Keyring>,
    pub upstreams: Arc<Upstreams>,
    /// How many attempts may be under way, with or without their senders.
    pub attempts: Bound,
    /// How fast attempts at one event may fail, where that is bounded.
    pub failures: Option<Arc<FailurePaces>>,
    /// Attempts that go on without their sender; stopping waits for them.
    pub tasks: TaskTracker,
    /// Cancelled when what was never sent must be let go.
    pub stop: CancellationToken,
}

impl Pipeline {
    pub fn config(&self) -> &Config {
        &self.plan.config
    }

    /// Answers one request. Its record is closed on every path; a future dropped here is a sender that hung up.
    pub async fn handle(
        self: Arc<Self>,
        parts: Box<Parts>,
        body: Incoming,
        caller: Caller,
        asked: &mut Asked,
    ) -> Response<ReplyBody> {
        let mut record = Record::open();
        let body = Inbound::new(&parts, body);
        let end = self.run(parts, body, caller, asked, &mut record).await;
        let (outcome, reason) = (reply::outcome(&end), reply::reason(&end));
        if let Some(limit) = end.as_ref().err().and_then(Refusal::limit) {
            self.telemetry.limited(limit);
        }
        let response = reply::respond(end, outcome);
        record.close(Closing { outcome, status: response.status(), reason });
        response
    }

    async fn run(
        self: &Arc<Self>,
        parts: Box<Parts>,
        body: Inbound,
        caller: Caller,
        asked: &mut Asked,
        record: &mut Record,
    ) -> End {
        let head = headers::within(&parts, &self.config().limits)?;
        let room = self.buffered.room(head, asked)?;
        let found = self.plan.routes.find(&parts).inspect_err(|_| self.telemetry.unrouted(&parts.method, parts.uri.path()))?;
        let route = match found {
            Found::Provider(route) => Arc::clone(route),
            Found::Passthrough(upstream) => {
                room.asked.vouched_for();
                let (parts, body) = Box::pin(self.pass(upstream, true, parts, body.stream(), caller)).await?;
                return Ok(Reply::Passed { parts, body });
            }
        };
        record.provider(&route.watch);
        self.refuse_foreign(&route, caller, &parts)?;
        record.traced(self.telemetry.begin(Kind::Server, &parts.headers, now));
        if headers::connection_names_another(&parts.headers) {
            return Err(Refusal::BadRequest("Connection names a header of the event"));
        }
        if body.is_at_end()
            && let Some(challenge) = challenge(&route, &Received::without_body(&parts), None)
        {
            return Box::pin(self.answer_challenge(challenge, &route, parts, Bytes::new(), caller)).await;
        }
        let may_be_challenge = route.provider.handshakes.iter().any(Handshake::is_unsigned_body);
        if !may_be_challenge {
            self.refuse_early(&route, &parts)?;
        }

        let (reading, step) = (Instant::now(), record.trace().step("intake"));
        let delivery = intake::read(parts, body, caller, room, &self.bounds(&route)).await?;
        asked.read_whole();
        record.body_took(reading.elapsed());
        drop(step);
        if may_be_challenge && let Some(challenge) = challenge(&route, &delivery.received(), None) {
            return Box::pin(self.answer_challenge(challenge, &route, delivery.parts, Bytes::new(), caller)).await;
        }

        let step = record.trace().step("verify");
        let (long, at) = (delivery.body.len() >= LONG_BODY, now());
        let (judged, skew) = (Arc::clone(&route), self.condition.skew());
        let published = match route.provider.keys.is_empty() {
            true => Box::pin(self.published_keys(&route, &delivery)).await?,
            false => None,
        };
        let verified = off_core(long, move || verify::verify(&judged, delivery, published.as_deref(), at, skew)).await??;
        drop(step);
        asked.vouched_for();
        if let Some(reason) = verified.disproof() {
            record.unverified(reason);
        }
        if let Some(proof) = verified.proof() {
            record.verified_with(proof.slot);
            if let Some(challenge) = challenge(&route, &verified.delivery().received(), Some(&proof)) {
                let delivery = verified.into_delivery();
                return Box::pin(self.answer_challenge(challenge, &route, delivery.parts, delivery.body, caller)).await;
            }
        }

        route.refuse_other_method(&verified.delivery().parts.method)?;
        route.keep_pace()?;
        let is_queued = route.provider.mode == Mode::Queue && verified.proof().is_some();
        // What goes into the queue is under way there.
        let slot = if is_queued { None } else { route.slot()? };
        let step = record.trace().step("identify");
        let (pipeline, trace) = (Arc::clone(self), record.trace().clone());
        let event = off_core(long, move || pipeline.identify(route, verified, slot, trace)).await??;
        drop(step);
        if let Some(id) = &event.id {
            record.event(id);
        }
        let event = match is_queued {
            false => event,
            true => match Box::pin(self.accept(event, record)).await {
                Accepted::End(end) => return end,
                Accepted::Unkept(event) => event,
            },
        };
        self.deliver(event, record).await
    }

    /// The keys that the provider publishes, where it does and none are configured.
    async fn published_keys(&self, route: &Route, delivery: &Delivery) -> Result<Option<Arc<[Key]>>, Refusal> {
        let Provider { name, scheme, keys, enforce, .. } = route.provider.as_ref();
        let (true, Some(document)) = (keys.is_empty(), scheme.key_document(&delivery.received())) else { return Ok(None) };
        let document = match document {
            Ok(document) => document,
            Err(_) if !enforce => return Ok(None),
            Err(reason) => {
                route.watch.unverified(reason);
                return Err(Refusal::unverified(&route.provider, reason));
            }
        };
        let came = Instant::now();
        let mut held = self.keyring.keys((name, scheme), &document, Need::Any, &self.telemetry).await;
        if held.as_ref().is_ok_and(|held| !scheme.knows_key(held, &delivery.received())) {
            held = self.keyring.keys((name, scheme), &document, Need::FetchedSince(came), &self.telemetry).await;
        }
        match held {
            Err(_) if !enforce => Ok(None),
            Err(Unavailable(why)) => Err(Refusal::KeysUnavailable(why)),
            Ok(held) => Ok(Some(held)),
        }
    }

    fn bounds(&self, route: &Route) -> Bounds {
        let limits = &self.config().limits;
        Bounds {
            body_bytes_max: route.provider.max_body.0,
            time: limits.body_timeout,
            rate: limits.body_rate.0,
            stretch: limits.header_timeout,
        }
    }

    /// What comes from outside of the provider's networks is not looked at any further.
    fn refuse_foreign(&self, route: &Route, caller: Caller, parts: &Parts) -> Result<(), Refusal> {
        let Some(networks) = &route.provider.allow_networks else { return Ok(()) };
        let origin = caller.origin(&parts.headers, self.config().trusted_proxies.as_deref().unwrap_or_default());
        if origin.is_some_and(|origin| caller::has(networks, origin)) { Ok(()) } else { Err(Refusal::ForeignNetwork) }
    }

    /// What is certainly unsigned is refused before its body is read.
    fn refuse_early(&self, route: &Route, parts: &Parts) -> Result<(), Refusal> {
        match route.provider.scheme.verify_head(&Received::without_body(parts)) {
            Err(reason) if route.provider.enforce => {
                route.watch.unverified(reason);
                Err(Refusal::unverified(&route.provider, reason))
            }
            _ => Ok(()),
        }
    }

    /// Finds the event's id and key. Nothing of a delivery that did not verify may reach the store.
    fn identify(&self, route: Arc<Route>, verified: Verified, slot: Option<Slot>, trace: Trace) -> Result<Box<Event>, Refusal> {
        let provider = Arc::clone(&route.provider);
        let received = verified.delivery().received();
        let body = identify::fingerprint(&provider.fingerprint, received.body);
        let bad = |error: identify::IdError| Refusal::BadId(error.explain());
        let tenant = provider.tenant.as_ref();
        let found = match &provider.event_id {
            Some(rule) => identify::event_id(rule, tenant, &received),
            None => Ok(None),
        };
        let signed = replay::signed(&provider, &verified, body);
        let enforced = signed.filter(|_| provider.replay_guard == ReplayGuard::Enforce);
        let mut doubt = None;
        let shown = |id: EventId| -> Arc<str> { id.display().into() };
        let (id, standing) = match (verified.proof(), found, provider.missing_id) {
            (None, found, _) => (found.unwrap_or_default().map(shown), Standing::Unclaimed { mark: None }),
            (Some(_), Err(error), _) => return Err(bad(error)),
            (Some(_), Ok(Some(id)), _) => {
                let standing = self.keyed(&route, self.key(&route, &id), provider.on_conflict != OnConflict::Duplicate);
                let id = shown(id);
                doubt = signed.and_then(|signed| self.sight(&route, signed, &id));
                (Some(id), standing)
            }
            (Some(_), Ok(None), MissingId::Forward) if let Some(signed) = enforced => {
                // What is signed names the event, unless it differs from one delivery to the next.
                doubt = (!provider.scheme.signs_body_alone()).then_some(Mark::NoId);
                let key = EventKey::of_signed(&self.config().store.namespace, &provider.name, signed);
                (Some(key.id().into()), self.keyed(&route, key, false))
            }
            (Some(_), Ok(None), MissingId::Forward) => (None, Standing::Unclaimed { mark: Some(Mark::NoId) }),
            (Some(_), Ok(None), MissingId::Reject) => return Err(Refusal::MissingId),
            (Some(_), Ok(None), MissingId::Hash) => {
                let id = identify::body_id(&provider.fingerprint, tenant, &received).map_err(bad)?.ok_or(Refusal::MissingId)?;
                let standing = self.keyed(&route, self.key(&route, &id), false);
                (Some(shown(id)), standing)
            }
        };
        Ok(Box::new(Event { route, verified, id, body, signed: enforced, doubt, standing, slot, trace }))
    }

    fn key(&self, route: &Route, id: &EventId) -> EventKey {
        EventKey::new(&self.config().store.namespace, &route.provider.name, id)
    }

    fn keyed(&self, route: &Route, key: EventKey, body_matters: bool) -> Standing {
        let key = match route.provider.mode {
            Mode::Sync => key,
            Mode::Queue => self.store.key_in(&route.lane, &key),
        };
        Standing::Keyed { key, body_matters }
    }

    /// Takes the event through, or finds out what became of it, until the sender's patience ends.
    async fn deliver(self: &Arc<Self>, mut event: Box<Event>, record: &mut Record) -> End {
        let provider = Arc::clone(&event.route.provider);
        let deadline = provider.answer_deadline.map(|patience| record.started() + patience);
        loop {
            let key = event.standing.key().filter(|_| provider.dedupe == Dedupe::On);
            let joined = key.map(|key| self.flights.join(key, event.body, event.standing.body_matters()));
            if joined.as_ref().is_some_and(Joined::has_other_body) {
                event.route.watch.conflict();
            }
            let lead = match joined {
                None => None,
                Some(Joined::Lead(lead)) => Some(lead),
                Some(Joined::Follow(follower)) => {
                    match Box::pin(self.follow(follower, provider.in_flight, deadline, record)).await? {
                        Ending::Moved => {
                            event = event.conflicting();
                            continue;
                        }
                        ending => return end_of(ending, provider.on_duplicate),
                    }
                }
                Some(Joined::Accepted(follower)) if provider.on_duplicate == OnDuplicate::Replay => {
                    let ending = Box::pin(self.follow(follower, InFlight::Wait, deadline, record)).await?;
                    return end_of_accepted(ending, provider.on_duplicate);
                }
                Some(Joined::Accepted(_)) => return Ok(Reply::Duplicate { done: None, replay: false }),
                Some(Joined::OtherBody(rival)) => {
                    let late = Refusal::InFlight { retry_after: RETRY_AFTER };
                    if !Box::pin(self.within(deadline, rival.is_another_event(), late)).await? {
                        continue;
                    }
                    event.route.watch.conflict();
                    if provider.on_conflict == OnConflict::Reject {
                        return Err(Refusal::Conflict);
                    }
                    event = event.conflicting();
                    continue;
                }
                Some(Joined::Full) => return Err(Refusal::Limited(Limit::Waiters)),
            };
            event = match self.lead(event, lead, deadline, record).await? {
                Ended::End(end) => return end,
                Ended::Moved(event) => event.conflicting(),
            };
        }
    }

    /// Goes on with the event, and gives the sender its outcome if it waits for that. The event itself goes on without it.
    async fn lead(
        self: &Arc<Self>,
        event: Box<Event>,
        lead: Option<Lead>,
        deadline: Option<Instant>,
        record: &mut Record,
    ) -> Result<Ended, Refusal> {
        let (tell, told) = oneshot::channel();
        let began = Instant::now();
        let place = match self.place_for(&event) {
            Ok(place) => place,
            Err(refusal) => {
                lead.inspect(|lead| lead.end(Ending::Refused(refusal.clone())));
                return Err(refusal);
            }
        };
        let attempt = Lasting::new(&self.tasks, Arc::clone(self).once(event, lead, tell, place));
        match self.within(deadline, attempt.until(told), Refusal::Deadline).await {
            Ok(Ok(News { ended, facts })) => {
                record.facts(facts);
                Ok(ended)
            }
            Ok(Err(_)) => Err(Refusal::Panicked),
            Err(late) => {
                record.waited(began.elapsed());
                Err(late)
            }
        }
    }

    /// A place among the attempts that are under way, unless the last ones at this event failed too fast.
    fn place_for(&self, event: &Event) -> Result<Place, Refusal> {
        let paces = self.failures.as_deref().zip(event.standing.key());
        if let Some(retry_after) = paces.and_then(|(paces, key)| paces.wait(key)) {
            return Err(Refusal::TooOften { limit: Limit::AttemptsPerEvent, retry_after });
        }
        self.attempts.take().ok_or(Refusal::Limited(Limit::Attempts))
    }

    /// Waits for the outcome of a copy that is under way in this process.
    async fn follow(
        &self,
        follower: Follower,
        policy: InFlight,
        deadline: Option<Instant>,
        record: &mut Record,
    ) -> Result<Ending, Refusal> {
        match policy {
            InFlight::Retry => return Err(Refusal::InFlight { retry_after: RETRY_AFTER }),
            InFlight::Ack => return Ok(Ending::Acked),
            InFlight::Wait => {}
        }
        let (began, _step) = (Instant::now(), record.trace().step("wait"));
        let ending = self.within(deadline, follower.ending(), Refusal::InFlight { retry_after: RETRY_AFTER }).await;
        record.waited(began.elapsed());
        ending
    }

    /// Waits until the deadline, where there is one, or until the program ends and a last moment has passed.
    async fn within<T>(&self, deadline: Option<Instant>, future: impl Future<Output = T>, late: Refusal) -> Result<T, Refusal> {
        let patience = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let end = async {
            self.stop.cancelled().await;
            sleep(LAST_MOMENT).await;
        };
        tokio::select! {
            biased;
            value = future => Ok(value),
            () = patience => Err(late),
            () = end => Err(Refusal::Interrupted),
        }
    }
}

fn challenge(route: &Route, received: &Received<'_>, proof: Option<&Proof>) -> Option<Challenge> {
    let Provider { scheme, keys, handshakes, .. } = route.provider.as_ref();
    handshakes.iter().find_map(|handshake| handshake.challenge(scheme, keys, received, proof))
}

/// Does work over a body: here where it is short, on a blocking thread where it is long.
async fn off_core<T: Send + 'static>(is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    if is_long { tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::Panicked) } else { Ok(work()) }
}

/// The wall clock, read here and handed on.
#[expect(clippy::disallowed_methods, reason = "the one place of the pipeline that reads the wall clock")]
pub fn now() -> SystemTime {
    SystemTime::now()
}
