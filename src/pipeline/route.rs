//! Finding the provider of a request by method, path and host.
//!
//! A path must be spelled as it is configured. One that only normalises onto a provider's is nobody's: were it
//! passed through, the consumer might take it for a delivery that nobody has verified.

mod spelling;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, Method, Uri, Version, header};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::bypass::Bypass;
use super::rate::Pace;
use super::refusal::Refusal;
use crate::config::{Config, Mode, PathPattern, Provider, Upstream};
use crate::store::backlog::Lane;
use crate::telemetry::{Limit, ProviderWatch, Telemetry};
use spelling::Guarded;

/// One configured sender at a path, with what belongs to it while the program runs.
#[derive(Debug)]
pub struct Route {
    pub provider: Arc<Provider>,
    pub watch: Arc<ProviderWatch>,
    /// Deliveries that may be under way at once, where that is bounded.
    slots: Option<(usize, Arc<Semaphore>)>,
    /// How many deliveries may come in a time, where that is bounded.
    pace: Option<Arc<Pace>>,
    /// An operator may want done events forwarded again for a while.
    pub bypass: Arc<Bypass>,
    /// Its letters, in queue mode.
    pub lane: Lane,
    /// Rung when a letter was added.
    pub bell: Arc<Notify>,
    /// Since when this program has had it in its mode.
    pub in_mode_since: Instant,
    /// Whether its events were accepted for later a while ago, and are not any more.
    lately_queued: AtomicBool,
}

/// A place among the deliveries that may be under way at once.
pub type Slot = OwnedSemaphorePermit;

impl Route {
    fn new(provider: &Arc<Provider>, namespace: &str, telemetry: &Telemetry, before: Option<&Arc<Self>>) -> Self {
        let in_same_mode = before.filter(|before| before.provider.mode == provider.mode);
        // Deliveries that are under way in sync mode have to look where the queue notes its events from now on.
        if let Some(before) = before.filter(|before| before.provider.mode == Mode::Sync && provider.mode == Mode::Queue) {
            before.lately_queued.store(true, Ordering::Relaxed);
        }
        // Those under way hold their places among the same number.
        let same_slots = |max: usize| before.and_then(|before| before.slots.clone()).filter(|(were, _)| *were == max);
        let same_pace = |rate| before.and_then(|before| before.pace.clone()).filter(|pace| pace.rate() == rate);
        Self {
            watch: Arc::new(telemetry.watch(provider)),
            slots: provider.max_concurrent.map(|max| same_slots(max).unwrap_or_else(|| (max, Arc::new(Semaphore::new(max))))),
            pace: provider.rate_limit.map(|rate| same_pace(rate).unwrap_or_else(|| Arc::new(Pace::new(rate)))),
            provider: Arc::clone(provider),
            bypass: before.map(|before| Arc::clone(&before.bypass)).unwrap_or_default(),
            lane: Lane::new(namespace, &provider.name),
            bell: before.map(|before| Arc::clone(&before.bell)).unwrap_or_default(),
            in_mode_since: in_same_mode.map_or_else(Instant::now, |before| before.in_mode_since),
            lately_queued: AtomicBool::new(before.is_some_and(|before| before.has_letters()) && provider.mode == Mode::Sync),
        }
    }

    /// Takes a place, where they are bounded.
    pub fn slot(&self) -> Result<Option<Slot>, Refusal> {
        let taken = self.slots.as_ref().map(|(_, slots)| Arc::clone(slots).try_acquire_owned()).transpose();
        taken.map_err(|_| Refusal::Limited(Limit::Concurrency))
    }

    /// Refuses what is more than may come in a time.
    pub fn keep_pace(&self) -> Result<(), Refusal> {
        let taken = self.pace.as_ref().map_or(Ok(()), |pace| pace.take());
        taken.map_err(|retry_after| Refusal::TooOften { limit: Limit::Rate, retry_after })
    }

    /// Whether there may be letters of its events.
    pub fn has_letters(&self) -> bool {
        self.provider.mode == Mode::Queue || self.was_queued()
    }

    /// Whether events of it may be known by the keys of the other mode.
    pub fn was_queued(&self) -> bool {
        self.lately_queued.load(Ordering::Relaxed)
    }

    pub fn note_queued(&self) {
        if !self.lately_queued.swap(true, Ordering::Relaxed) {
            let provider = &self.provider.name;
            tracing::info!(provider, "was in queue mode until lately: what is left in its queue is delivered");
            self.bell.notify_one();
        }
    }

    /// Refuses what came with a method that only challenges have.
    pub fn refuse_other_method(&self, method: &Method) -> Result<(), Refusal> {
        let is_taken = self.provider.methods.contains(method);
        if is_taken { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow: allowed(&self.provider) }) }
    }
}

#[derive(Debug)]
pub enum Found<'a> {
    Provider(&'a Arc<Route>),
    /// Not a delivery: it goes to this consumer untouched.
    Passthrough(&'a Upstream),
}

#[derive(Debug)]
pub struct Routes {
    by_path: BTreeMap<String, Vec<Arc<Route>>>,
    /// What must not be passed through.
    guarded: Guarded,
    passthrough: Option<(Upstream, Vec<PathPattern>)>,
}

impl Routes {
    /// The routes of a configuration. Where there was one before, its providers go on as what they were.
    pub fn new(config: &Config, telemetry: &Telemetry, before: Option<&Self>) -> Self {
        let mut by_path: BTreeMap<String, Vec<Arc<Route>>> = BTreeMap::new();
        for provider in &config.providers {
            let before = before.and_then(|routes| routes.named(&provider.name));
            let route = Route::new(provider, &config.store.namespace, telemetry, before);
            by_path.entry(provider.path.clone()).or_default().push(Arc::new(route));
        }
        let guarded = Guarded::new(by_path.keys());
        let passthrough = config.passthrough.as_ref().map(|pass| (pass.upstream.clone(), pass.paths.clone()));
        Self { by_path, guarded, passthrough }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.by_path.values().flatten()
    }

    /// The provider of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Route>> {
        self.all().find(|route| route.provider.name == name)
    }

    pub fn find(&self, parts: &Parts) -> Result<Found<'_>, Refusal> {
        refuse_unclear_target(parts)?;
        let path = parts.uri.path();
        let Some(candidates) = self.by_path.get(path) else { return self.find_passthrough(parts) };
        let by_host = candidates.iter().any(|route| route.provider.host.is_some());
        let host = by_host.then(|| host_of(parts)).flatten();
        let mut here =
            candidates.iter().filter(|route| route.provider.host.as_deref().is_none_or(|wanted| Some(wanted) == host.as_deref()));
        let Some(first) = here.next() else { return Err(Refusal::NotFound) };
        std::iter::once(first)
            .chain(here)
            .find(|route| takes(&route.provider, &parts.method))
            .map(Found::Provider)
            .ok_or_else(|| Refusal::MethodNotAllowed { allow: allowed(&first.provider) })
    }

    fn find_passthrough(&self, parts: &Parts) -> Result<Found<'_>, Refusal> {
        let Some((upstream, patterns)) = &self.passthrough else { return Err(Refusal::NotFound) };
        let path = parts.uri.path();
        // Consumers that read headers as variables take `_` for `-`.
        let is_elsewhere = |name: &HeaderName| TARGETS_ELSEWHERE.contains(&&*name.as_str().replace('_', "-"));
        let mut elsewhere = parts.headers.iter().filter(|(name, _)| is_elsewhere(name)).map(|(_, target)| target.as_bytes());
        if self.guarded.has(path) || elsewhere.any(|target| self.is_guarded(target)) {
            return Err(Refusal::NotFound);
        }
        let plain = spelling::plain(path);
        // Both as it was sent and as the consumer may read it.
        let is_listed = patterns.iter().any(|pattern| pattern.matches(path) && pattern.matches(&plain));
        if is_listed { Ok(Found::Passthrough(upstream)) } else { Err(Refusal::NotFound) }
    }

    /// Whether a path, with or without what stands around it in a URL, may be a provider's.
    fn is_guarded(&self, target: &[u8]) -> bool {
        let whole = String::from_utf8_lossy(target);
        whole.parse::<Uri>().is_ok_and(|uri| self.guarded.has(uri.path())) || self.guarded.has(&whole)
    }
}

/// Some frameworks take the path from these, whatever the request line says.
const TARGETS_ELSEWHERE: [&str; 2] = ["x-original-url", "x-rewrite-url"];

/// A handshake may come with a method that deliveries do not have.
fn takes(provider: &Provider, method: &Method) -> bool {
    provider.methods.contains(method) || provider.handshakes.iter().any(|handshake| handshake.method == *method)
}

fn allowed(provider: &Provider) -> Arc<str> {
    provider.methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ").into()
}

/// Refuses what servers would not agree on whom it is for.
fn refuse_unclear_target(parts: &Parts) -> Result<(), Refusal> {
    // Most are plain names, which need no parser.
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    let is_host = |text: &str| is_plain(text) || (text.parse::<Authority>().is_ok() && !text.contains('@'));
    let mut named = parts.headers.get_all(header::HOST).iter();
    let (first, target) = (named.next(), parts.uri.authority());
    let why = if parts.method == Method::CONNECT {
        "nothing is tunnelled"
    } else if named.next().is_some() {
        "there is more than one Host"
    } else if first.is_some_and(|host| !host.to_str().is_ok_and(is_host)) {
        "Host is not a host"
    } else if target.is_some_and(|authority| !is_host(authority.as_str())) {
        "the target names a user"
    } else if first.is_none() && target.is_none() && parts.version == Version::HTTP_11 {
        "there is no Host"
    } else {
        return Ok(());
    };
    Err(Refusal::BadRequest(why))
}

/// The host that was asked for, in lower case and without a port.
fn host_of(parts: &Parts) -> Option<String> {
    let named = parts.headers.get(header::HOST).and_then(|value| value.to_str().ok());
    let host = parts.uri.host().or_else(|| named.map(|name| name.rsplit_once(':').map_or(name, |(host, _)| host)));
    host.map(str::to_ascii_lowercase)
}

/// A text with what is percent-encoded decoded; what only looks so is kept.
pub fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let decoded = escaped.and_then(|digits| data_encoding::HEXLOWER_PERMISSIVE.decode(digits).ok());
        plain.push(decoded.as_ref().map_or(bytes[at], |byte| byte[0]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}
