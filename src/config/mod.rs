//! Configuration: what was written (`tree`) becomes what is run (`Config`), or a list of everything that is wrong.
//!
//! Nothing outside this module sees a tree, reads a file or a variable. `Config` holds no string that
//! would have to be parsed later and no `Option` that "must be set by then".

mod address;
mod change;
mod files;
mod fingerprint;
mod flags;
mod load;
mod path;
pub mod problem;
mod rate;
pub(crate) mod reader;
mod redis_url;
mod resolve;
pub(crate) mod scalar;
pub(crate) mod secret;
mod share;
mod statuses;
mod store_url;
mod tls;
pub(crate) mod tree;
pub(crate) mod units;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use ipnet::IpNet;

use crate::scheme::{EventTime, Handshake, IdRule, Key, Place, Scheme};
pub use address::Upstream;
pub use files::Files;
pub use fingerprint::Fingerprint;
pub use flags::Flags;
pub use load::{Loaded, known_keys};
pub use path::PathPattern;
pub use problem::{Origin, Problem};
pub use rate::Rate;
pub use reader::Environment;
use reader::choices;
pub use redis_url::{Address, Login, RedisUrl, Topology};
use scalar::Fault;
pub use secret::Secret;
pub use share::Share;
pub use statuses::{StatusRange, Statuses};
pub use store_url::StoreUrl;
pub use units::Size;

/// What is run.
#[derive(Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub admin_token: Option<Secret>,
    /// Paths that go to `upstream` untouched, and where that is. `None` where nothing is passed through.
    pub passthrough: Option<Passthrough>,
    /// Peers whose `X-Forwarded-*` is believed. `None`: not configured, everybody's is kept.
    pub trusted_proxies: Option<Vec<IpNet>>,
    pub readiness: Readiness,
    pub workers: usize,
    pub store: StoreConfig,
    /// `None`: deliveries come in the clear.
    pub tls: Option<Tls>,
    pub limits: Limits,
    pub log: LogConfig,
    /// `None`: no spans are made.
    pub trace: Option<TraceConfig>,
    pub drain: Drain,
    pub queue: QueueConfig,
    pub providers: Vec<Arc<Provider>>,
    /// The settings outside of providers, section by section: what `check` prints.
    pub sections: Vec<SectionSettings>,
}

impl Config {
    /// Whether a provider's events are accepted for later.
    pub fn has_queue(&self) -> bool {
        self.providers.iter().any(|provider| provider.mode == Mode::Queue)
    }
}

#[derive(Debug)]
pub struct Passthrough {
    pub upstream: Upstream,
    pub paths: Vec<PathPattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    pub url: StoreUrl,
    /// First part of every key: two services on one Redis must not see each other's events.
    pub namespace: String,
    /// The longest a store operation may take, its retries included.
    pub timeout: Duration,
    /// A CA certificate for `rediss://`, beside the public roots.
    pub ca_file: Option<PathBuf>,
    /// What values are sealed with, so that nobody else's are taken for ours. `None`: they are not.
    pub seal: Option<Secret>,
}

impl StoreConfig {
    /// The key that tells one store from an emptied one. An event's key has a colon more.
    pub fn marker(&self) -> String {
        format!("{}:marker", self.namespace)
    }
}

/// What the listening side proves itself with.
#[derive(Clone, Debug)]
pub struct Tls {
    pub server: Arc<rustls::ServerConfig>,
    /// When its certificate ends, where that can be read.
    pub expires: Option<SystemTime>,
}

/// Bounds of the listening side. What is beyond one of them is refused.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of all requests held at once.
    pub buffered: Size,
    pub connections: usize,
    /// Those of one address, or of one network of 64 bits in IPv6; but for trusted proxies.
    pub connections_per_address: Option<usize>,
    /// Events under way at once: their senders may have gone, their calls go on.
    pub attempts: usize,
    /// Attempts at one event that fail.
    pub attempts_per_event: Option<Rate>,
    /// The request's target, its query included.
    pub uri: Size,
    /// Header fields of a request, and their bytes with the request line.
    pub headers: usize,
    pub header_bytes: Size,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    /// Bytes a second that a body must bring; nought: any.
    pub body_rate: Size,
    /// How long a connection is kept on which nothing moves.
    pub idle_timeout: Duration,
    /// Concurrent HTTP/2 streams of one connection.
    pub streams: usize,
    /// Copies of one event that may wait for its outcome.
    pub waiters_per_event: usize,
    /// How much of an answer is kept in memory, to be shared with waiting copies; the rest is streamed.
    pub answer: Size,
    /// How much of an answer is passed on at the most.
    pub answer_max: Size,
    /// Completed events kept in memory, for while the store does not answer.
    pub recent: Size,
    /// Events that the process claims for itself while the store does not answer.
    pub local_claims: usize,
}

impl Limits {
    /// Most events are smaller.
    pub const SMALL_BODY: Size = Size(64 << 10);

    /// What large bodies may take of all that is buffered. The rest is for small ones, which a few large ones that come slowly
    /// would otherwise keep out.
    pub fn buffered_large(&self) -> Size {
        Size(self.buffered.0 - self.buffered.0 / 4)
    }

    /// What one address may hold of it with requests that nobody has vouched for yet.
    pub fn buffered_per_address(&self) -> Size {
        Size(self.buffered.0 / 4)
    }
}

#[derive(Clone, Debug)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A filter in the manner of `tracing`: "info", "hookonce=debug,warn".
    pub level: String,
}

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    pub endpoint: Uri,
    pub service_name: String,
    /// Of the traces that begin here; others are as whoever began them wishes.
    pub sample: Share,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Clone, Debug)]
pub struct Drain {
    pub delay: Duration,
    pub timeout: Duration,
}

/// How events are kept that are delivered later. The bounds are those of each provider.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// The pause before each attempt; the first is none. After the last an event is a dead letter.
    pub schedule: Vec<Duration>,
    /// What a sender is told once its event is durable.
    pub ack_status: StatusCode,
    pub max_bytes: Size,
    pub max_events: usize,
    pub dead_max_bytes: Size,
    /// Whether a store will do that may lose what it has confirmed.
    pub accept_loss: bool,
    /// Whether signatures that have grown old are made anew.
    pub resign: bool,
    /// Whether a dead letter holds up the events behind it.
    pub dead_blocks_key: bool,
}

/// One configured sender at a path, everything resolved.
#[derive(Debug)]
pub struct Provider {
    pub name: String,
    pub path: String,
    pub methods: Vec<Method>,
    /// Lower case, without a port. `None`: any.
    pub host: Option<String>,
    /// The preset it was built from, if any.
    pub preset: Option<&'static str>,
    pub scheme: Scheme,
    /// One for each secret, in the order written: the position is the `slot` label.
    pub keys: Vec<Key>,
    /// `None`: the provider gives its events no id.
    pub event_id: Option<IdRule>,
    /// When the event came to be, by the provider.
    pub event_time: Option<EventTime>,
    pub tenant: Option<Tenant>,
    /// Challenges that it sends, each told by its own shape.
    pub handshakes: Vec<Handshake>,
    /// How long the provider keeps trying by itself. Nought: it never does. `None`: not known.
    pub retry_window: Option<Duration>,
    pub disables_on_failure: bool,
    /// Statuses that mean something particular to this provider, and what.
    pub special_statuses: BTreeMap<u16, String>,
    pub mode: Mode,
    /// Events that agree in this are delivered one at a time, in the order in which they came.
    pub order_by: Option<Place>,
    pub upstream: Upstream,
    pub preserve_path: bool,
    pub missing_id: MissingId,
    pub fingerprint: Fingerprint,
    pub retention: Duration,
    pub lease: Duration,
    pub upstream_timeout: Duration,
    pub answer_deadline: Option<Duration>,
    pub connect_retry: Duration,
    pub in_flight: InFlight,
    pub on_duplicate: OnDuplicate,
    pub on_conflict: OnConflict,
    pub replay_guard: ReplayGuard,
    pub complete_on: Statuses,
    /// `None`: whatever does not complete.
    pub release_on: Option<Statuses>,
    pub ambiguous: Ambiguous,
    pub on_store_down: OnStoreDown,
    /// How long "closed" refuses before it turns to "local".
    pub closed_max: Option<Duration>,
    pub settle: Settle,
    pub enforce: bool,
    pub dedupe: Dedupe,
    pub reject_status: StatusCode,
    /// Whether a rejection says why in its body.
    pub reject_body: bool,
    pub max_body: Size,
    pub max_concurrent: Option<usize>,
    pub rate_limit: Option<Rate>,
    /// Where deliveries may come from. `None`: anywhere.
    pub allow_networks: Option<Vec<IpNet>>,
    /// Each setting as it came out, and where it was written: what `check` prints.
    pub settings: Vec<Setting>,
}

impl Provider {
    /// Whether a clock that is off by so much may take a timestamp for out of bounds that is not.
    pub fn cannot_judge_time_with(&self, skew: Duration) -> bool {
        self.scheme.tolerance().is_some_and(|tolerance| skew > tolerance / 2)
    }
}

/// The settings of one section: the top level has no name.
#[derive(Clone, Debug)]
pub struct SectionSettings {
    pub name: &'static str,
    pub settings: Vec<Setting>,
}

/// A setting in the form one would write it, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: &'static str,
    pub value: String,
    pub origin: Origin,
}

/// Whose event it is, where one endpoint serves several tenants: a part of the key.
#[derive(Clone, Debug)]
pub enum Tenant {
    Fixed(String),
    At(Place),
}

choices!(
    /// What `/readyz` asks for.
    Readiness { Serving = "serving", Store = "store" }
);
choices!(LogFormat { Text = "text", Json = "json" });
choices!(
    /// How an event is delivered.
    Mode { Sync = "sync", Queue = "queue" }
);
choices!(
    /// What happens to a delivery in which no event id is found.
    MissingId { Forward = "forward", Reject = "reject", Hash = "hash" }
);
choices!(
    /// What a copy does that meets a live claim.
    InFlight { Wait = "wait", Retry = "retry", Ack = "ack" }
);
choices!(
    /// How a duplicate of a done event is answered.
    OnDuplicate { Ok = "ok", Replay = "replay" }
);
choices!(
    /// What the same id with another body is taken for.
    OnConflict { Duplicate = "duplicate", Forward = "forward", Reject = "reject" }
);
choices!(
    /// What happens to signed bytes that come again under another id.
    ReplayGuard { Off = "off", Observe = "observe", Enforce = "enforce" }
);
choices!(
    /// What becomes of a claim whose call ended unknown.
    Ambiguous { Hold = "hold", Release = "release", Keep = "keep" }
);
choices!(
    /// What happens to a delivery while the store cannot be asked.
    OnStoreDown { Closed = "closed", Local = "local", Open = "open" }
);
choices!(
    /// Whether the reply waits for the completion to be stored.
    Settle { WithReply = "with_reply", BeforeReply = "before_reply" }
);
choices!(
    /// Whether duplicates are dropped, or only counted and marked.
    Dedupe { On = "on", Observe = "observe" }
);
