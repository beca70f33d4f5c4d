//! Keys that providers publish: fetched once, kept for a while, and asked for again at a pace that no sender can raise.
//!
//! A delivery whose keys cannot be had is told to come back: that is our trouble, not the sender's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use tokio::time::{Instant, timeout};

use super::upstream;
use crate::scheme::{DocumentKind, Key, KeyDocument, Scheme};
use crate::telemetry::{Telemetry, log};

/// How long keys are good for. Providers change them once in months, and announce a new one by its name.
const FRESH: Duration = Duration::from_secs(3600);
/// How long they are used while new ones cannot be had: a key that is withdrawn must not be believed for ever.
const LASTING: Duration = Duration::from_secs(24 * 3600);
/// Until a document is asked for again that could not be had, or in which a key was missing.
const PAUSE: Duration = Duration::from_secs(30);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// A set of keys is a few KiB.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Documents that are kept: a provider has one, or one for each region.
const DOCUMENTS_MAX: usize = 64;
/// Fetches in a row, and the time after which there may be one more. Where deliveries name the place of their key, anybody
/// can name a new one.
const BURST: u32 = 10;
const PACE: Duration = Duration::from_secs(3);

/// Fetched keys, shared by all deliveries.
#[derive(Debug)]
pub struct Keyring {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    // Std mutexes: never held across an await.
    held: Mutex<HashMap<Place, Arc<Shelf>>>,
    pace: Mutex<Pace>,
}

/// Keys are made for one provider's scheme: another one's would judge by another algorithm.
type Place = (Arc<str>, Uri);

/// How many fetches may be made now.
#[derive(Debug)]
struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    /// Whether there may be one more.
    fn take(&mut self) -> bool {
        let gained = u32::try_from(self.since.elapsed().as_nanos() / PACE.as_nanos()).unwrap_or(BURST);
        if gained > 0 {
            (self.left, self.since) = ((self.left.saturating_add(gained)).min(BURST), Instant::now());
        }
        self.left.checked_sub(1).map(|left| self.left = left).is_some()
    }
}

/// One document: whoever comes while it is fetched waits for it.
#[derive(Debug, Default)]
struct Shelf {
    fetching: tokio::sync::Mutex<()>,
    keys: Mutex<Fetched>,
}

#[derive(Clone, Debug, Default)]
struct Fetched {
    keys: Option<Arc<[Key]>>,
    /// When it was last asked for, whatever came of it.
    asked: Option<Instant>,
    /// Whether somebody is asking for it now.
    is_fetching: bool,
    /// When the keys came.
    came: Option<Instant>,
}

/// What a delivery wants of the keys.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Those that are kept will do.
    Any,
    /// It names one that was not among them: they must have been fetched since it came. Until then nobody can tell
    /// whether that key is new or made up.
    FetchedSince(Instant),
}

/// Keys could not be had, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub Arc<str>);

impl Keyring {
    pub fn new() -> Result<Self, rustls::Error> {
        Self::trusting(upstream::public_roots())
    }

    pub fn trusting(roots: RootCertStore) -> Result<Self, rustls::Error> {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(upstream::connector(roots)?);
        Ok(Self { client, held: Mutex::default(), pace: Mutex::new(Pace { left: BURST, since: Instant::now() }) })
    }

    /// The keys of a document: those that are kept, or fetched now.
    pub async fn keys(
        &self,
        (provider, scheme): (&str, &Scheme),
        document: &KeyDocument,
        need: Need,
        telemetry: &Telemetry,
    ) -> Result<Arc<[Key]>, Unavailable> {
        let shelf = self.shelf(provider, &document.url)?;
        if let Some(kept) = shelf.kept(need) {
            return kept;
        }
        let _turn = shelf.fetching.lock().await;
        // Somebody else may have fetched it meanwhile.
        if let Some(kept) = shelf.kept(need) {
            return kept;
        }
        // Only a place that has never given a key, and that a delivery has named, is somebody's whim.
        let is_named = document.kind == DocumentKind::Certificate && shelf.fetched().keys.is_none();
        if is_named && !self.pace.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Unavailable("keys are asked for at too many places at once".into()));
        }
        // Noted before, and ended in any case: who hangs up meanwhile has asked all the same.
        let _asking = shelf.asking();
        let fetched = timeout(FETCH_TIMEOUT, self.fetch(&document.url)).await.unwrap_or_else(|_| Err("no answer in time".into()));
        let read = fetched.map(|bytes| scheme.keys_of(document.kind, &bytes));
        let read = read.and_then(|keys| if keys.is_empty() { Err("it holds no key that fits".to_owned()) } else { Ok(keys) });
        telemetry.keys_fetched(read.is_ok());
        let keys: Arc<[Key]> = match read {
            Ok(keys) => keys.into(),
            Err(why) => return shelf.failed(&document.url, &why, need),
        };
        tracing::info!(url = %document.url, keys = keys.len(), "fetched the provider's keys");
        shelf.note(|fetched| (fetched.keys, fetched.came) = (Some(Arc::clone(&keys)), Some(Instant::now())));
        Ok(keys)
    }

    /// Keeps the keys of these providers only. Those of another scheme under the same name would judge by another algorithm.
    pub fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).retain(|(provider, _), _| is_kept(provider));
    }

    fn shelf(&self, provider: &str, url: &Uri) -> Result<Arc<Shelf>, Unavailable> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (provider.into(), url.clone());
        if let Some(shelf) = held.get(&place) {
            return Ok(Arc::clone(shelf));
        }
        if held.len() >= DOCUMENTS_MAX {
            // Those that never gave a key, named by anybody, go once they may be asked for again; then the oldest.
            held.retain(|_, shelf| shelf.fetched().keys.is_some() || shelf.is_tried());
            let oldest = held.iter().filter(|(_, shelf)| !shelf.is_tried()).min_by_key(|(_, shelf)| shelf.fetched().came);
            let oldest = oldest.map(|(place, _)| place.clone()).filter(|_| held.len() >= DOCUMENTS_MAX);
            oldest.map(|place| held.remove(&place));
        }
        if held.len() >= DOCUMENTS_MAX {
            return Err(Unavailable("too many documents with keys are asked for".into()));
        }
        Ok(Arc::clone(held.entry(place).or_default()))
    }

    async fn fetch(&self, url: &Uri) -> Result<Bytes, String> {
        let request = Request::get(url).body(Empty::new()).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| log::chain(&error).to_string())?;
        // A redirect would lead away from the host that is believed.
        if response.status() != StatusCode::OK {
            return Err(format!("it answered {}", response.status()));
        }
        let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| error.to_string())
    }
}

/// Somebody is asking; until this is dropped.
struct Asking<'a>(&'a Shelf);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.note(|fetched| fetched.is_fetching = false);
    }
}

impl Shelf {
    fn asking(&self) -> Asking<'_> {
        self.note(|fetched| (fetched.asked, fetched.is_fetching) = (Some(Instant::now()), true));
        Asking(self)
    }

    /// Whether it has been asked for so lately that it is not asked for again, or is being asked for.
    fn is_tried(&self) -> bool {
        let fetched = self.fetched();
        fetched.is_fetching || fetched.asked.is_some_and(|asked| asked.elapsed() < PAUSE)
    }

    fn fetched(&self) -> MutexGuard<'_, Fetched> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Fetched)) {
        change(&mut self.fetched());
    }

    /// What is kept and may be used. `None`: it is to be fetched.
    fn kept(&self, need: Need) -> Option<Result<Arc<[Key]>, Unavailable>> {
        let fetched = self.fetched();
        let is_paused = !fetched.is_fetching && fetched.asked.is_some_and(|asked| asked.elapsed() < PAUSE);
        let is_enough = match need {
            Need::Any => fetched.came.is_some_and(|came| came.elapsed() < FRESH),
            Need::FetchedSince(moment) => fetched.came.is_some_and(|came| came >= moment),
        };
        match fetched.lasting() {
            Some(keys) if is_enough => Some(Ok(keys)),
            Some(keys) if is_paused && matches!(need, Need::Any) => Some(Ok(keys)),
            _ if is_paused => Some(Err(Unavailable("the provider's keys were asked for a moment ago".into()))),
            _ => None,
        }
    }

    fn failed(&self, url: &Uri, why: &str, need: Need) -> Result<Arc<[Key]>, Unavailable> {
        tracing::warn!(%url, why, "the provider's keys could not be fetched");
        match self.fetched().lasting() {
            Some(keys) if matches!(need, Need::Any) => Ok(keys),
            _ => Err(Unavailable(format!("the provider's keys could not be fetched: {why}").into())),
        }
    }
}

impl Fetched {
    /// Old keys are better than none while new ones cannot be had, up to a point.
    fn lasting(&self) -> Option<Arc<[Key]>> {
        self.keys.clone().filter(|_| self.came.is_some_and(|came| came.elapsed() < LASTING))
    }
}
