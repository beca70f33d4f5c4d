//! `GET /api/stream`: what the live page shows, as server-sent events. First a `snapshot` of everything, then a `state`
//! every second with the providers that have changed and the deliveries since.
//!
//! Each turn is written once and goes to all pages. A reader that does not keep up is hung up on: it comes again, and
//! gets a snapshot. Pages have a bounded number of places, so that probes and scrapes always find one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::Either;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::history::{History, Moment};
use super::{Admin, AdminResponse, Denied, state};
use crate::config::Secret;
use crate::store::entry;

const EVERY: Duration = Duration::from_secs(1);
/// Pages that are open at once.
pub const STREAMS_MAX: usize = 64;
/// Turns that a page may be behind, and how long it may then take nothing at all.
const BEHIND_MAX: usize = 8;
const STALLED: Duration = Duration::from_secs(10);

/// What all pages share.
#[derive(Debug)]
pub struct Feed {
    places: Arc<Semaphore>,
    // A std mutex: never held across an await.
    known: Mutex<Known>,
}

/// What was last looked at, and what pages were last told.
#[derive(Debug)]
struct Known {
    turns: broadcast::Sender<Bytes>,
    /// What opened the pages that are there.
    token: Option<Secret>,
    history: History,
    /// Each provider as it was told; a page that has just come gets to know all of them.
    told: HashMap<String, Value>,
    /// How often the configuration had been read anew by then.
    reloads: u64,
    /// The last delivery that was told.
    delivery: u64,
}

impl Feed {
    pub fn new(started: Instant) -> Self {
        let turns = broadcast::Sender::new(BEHIND_MAX);
        let known = Known { turns, token: None, history: History::new(started), told: HashMap::new(), reloads: 0, delivery: 0 };
        Self { places: Arc::new(Semaphore::new(STREAMS_MAX)), known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the counters, and tells the pages, if there are any.
    fn turn(&self, admin: &Admin) {
        let mut known = self.known();
        known.look(admin);
        known.see_out_whom_another_token_let_in(admin);
        if known.turns.receiver_count() == 0 {
            return;
        }
        let reloads = admin.telemetry.metrics.reloads.taken();
        let turn = if reloads == known.reloads { known.state(admin) } else { known.snapshot(admin, true) };
        known.reloads = reloads;
        // They may have gone in this moment.
        let _ = known.turns.send(turn);
    }
}

/// Keeps looking, until dropped.
pub async fn sample(admin: &Admin) -> ! {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        admin.feed.turn(admin);
    }
}

/// In the order in which they are configured.
fn names(admin: &Admin) -> Vec<String> {
    admin.config().providers.iter().map(|provider| provider.name.clone()).collect()
}

impl Known {
    /// Whoever was let in by a token that is no longer the one has to come again.
    fn see_out_whom_another_token_let_in(&mut self, admin: &Admin) {
        let config = admin.config();
        if self.token != config.admin_token {
            self.token.clone_from(&config.admin_token);
            self.turns = broadcast::Sender::new(BEHIND_MAX);
        }
    }

    fn look(&mut self, admin: &Admin) {
        let now = Moment { at: Instant::now(), wall: entry::now() };
        let routes = admin.routes();
        let watches = routes.all().map(|route| &route.watch);
        self.history.note(watches, admin.telemetry.store_buckets(), now);
    }

    /// Everything, for all pages or for one that has just come. In the next turn all are told of every provider once more,
    /// which is simpler than to keep apart what whom was told.
    fn snapshot(&mut self, admin: &Admin, is_for_all: bool) -> Bytes {
        self.told.clear();
        let (deliveries, up_to, _) = deliveries(admin, 0);
        if is_for_all {
            self.delivery = up_to;
        }
        let providers: Vec<Value> = names(admin).iter().filter_map(|name| self.provider(admin, name, 0)).collect();
        let told = json!({
            "instance": state::instance(admin),
            "state": state::general(admin, &self.history),
            "providers": providers,
            "deliveries": deliveries,
        });
        written("snapshot", &told)
    }

    /// What is new.
    fn state(&mut self, admin: &Admin) -> Bytes {
        let mut changed = Vec::new();
        for name in names(admin) {
            // The bar before has had its last deliveries since the turn before.
            let Some(now) = self.provider(admin, &name, self.history.bar().saturating_sub(1)) else { continue };
            if self.told.get(&name) != Some(&now) {
                self.told.insert(name, now.clone());
                changed.push(now);
            }
        }
        let (deliveries, up_to, skipped) = deliveries(admin, self.delivery);
        self.delivery = up_to;
        let general = state::general(admin, &self.history);
        written("state", &json!({ "state": general, "providers": changed, "deliveries": deliveries, "skipped": skipped }))
    }

    fn provider(&self, admin: &Admin, name: &str, bars_from: u64) -> Option<Value> {
        let routes = admin.routes();
        let (route, past) = (routes.named(name)?, self.history.of(name)?);
        Some(state::provider(route, past, bars_from))
    }
}

/// Those after this one, the last of them, and how many more there were.
fn deliveries(admin: &Admin, after: u64) -> (Vec<Value>, u64, u64) {
    let (news, now) = (admin.telemetry.latest.since(after), entry::now());
    (news.ended.iter().map(|(number, ended)| state::delivery(*number, ended, now)).collect(), news.up_to, news.skipped)
}

/// JSON has no line break that is not escaped.
fn written(event: &str, told: &Value) -> Bytes {
    format!("event: {event}\ndata: {told}\n\n").into()
}

/// Opens a stream. `hang_up` ends its connection, also where its reader takes nothing.
pub fn open<B>(admin: &Admin, request: &Request<B>, hang_up: CancellationToken) -> Result<AdminResponse, Denied> {
    if request.method() != Method::GET {
        return Err(Denied::method("GET"));
    }
    let place = Arc::clone(&admin.feed.places).try_acquire_owned();
    let place = place.map_err(|_| Denied::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open: close one"))?;
    let (first, turns) = {
        let mut known = admin.feed.known();
        known.look(admin);
        known.see_out_whom_another_token_let_in(admin);
        let is_alone = known.turns.receiver_count() == 0;
        if is_alone {
            known.reloads = admin.telemetry.metrics.reloads.taken();
        }
        (known.snapshot(admin, is_alone), known.turns.subscribe())
    };
    // One turn under way, one on its way to the socket.
    let (tell, told) = mpsc::channel(2);
    tokio::spawn(pump(first, turns, tell, hang_up));
    let mut response = Response::new(Either::Right(Stream { told, _place: place }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy in between must not collect it.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// Hands turn after turn to the connection, as long as it takes them.
async fn pump(first: Bytes, mut turns: broadcast::Receiver<Bytes>, tell: mpsc::Sender<Bytes>, hang_up: CancellationToken) {
    let mut turn = Ok(first);
    // Behind by too many turns is an end as well.
    while let Ok(told) = turn {
        match timeout(STALLED, tell.send(told)).await {
            Ok(Ok(())) => turn = turns.recv().await,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    hang_up.cancel();
}

/// The body of such an answer.
#[derive(Debug)]
pub struct Stream {
    told: mpsc::Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.told.poll_recv(cx).map(|told| told.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that is open, and what its connection is told by.
    fn page(turns: &broadcast::Sender<Bytes>) -> (mpsc::Receiver<Bytes>, CancellationToken) {
        let ((tell, told), hang_up) = (mpsc::channel(2), CancellationToken::new());
        tokio::spawn(pump(Bytes::from_static(b"first"), turns.subscribe(), tell, hang_up.clone()));
        (told, hang_up)
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_takes_nothing_is_hung_up_on() {
        let turns = broadcast::Sender::new(BEHIND_MAX);
        let ((mut quick, quick_ends), (slow, slow_ends)) = (page(&turns), page(&turns));
        let began = Instant::now();
        while !slow_ends.is_cancelled() {
            assert!(began.elapsed() < STALLED * 2, "it is still held");
            turns.send(Bytes::from_static(b"turn")).unwrap();
            tokio::time::sleep(EVERY).await;
            while quick.try_recv().is_ok() {}
        }
        assert!(!quick_ends.is_cancelled());
        drop(slow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_has_gone_or_fell_behind_is_forgotten() {
        let turns = broadcast::Sender::new(BEHIND_MAX);
        let (gone, gone_ends) = page(&turns);
        drop(gone);
        timeout(EVERY, gone_ends.cancelled()).await.unwrap();
        let (mut behind, behind_ends) = page(&turns);
        assert_eq!(behind.recv().await.unwrap(), "first");
        // All at once, as for a page whose runtime was stopped.
        (0..=BEHIND_MAX + 2).for_each(|_| drop(turns.send(Bytes::from_static(b"turn"))));
        timeout(EVERY, behind_ends.cancelled()).await.unwrap();
        timeout(EVERY, async {
            while turns.receiver_count() > 0 {
                tokio::task::yield_now().await
            }
        })
        .await
        .unwrap();
    }
}
