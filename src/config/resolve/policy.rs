//! What is done with a provider's deliveries. Each of these keys may stand in `[defaults]` too.

use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;

use crate::config::reader::{At, Found, FromNode};
use crate::config::scalar::OrNone;
use crate::config::tree::Node;
use crate::config::written::{AsWritten, quoted};
use crate::config::{
    Ambiguous, Dedupe, Fingerprint, InFlight, MissingId, Mode, OnConflict, OnDuplicate, OnStoreDown, Rate, ReplayGuard, Settle,
    Size, Statuses, Upstream,
};

use super::section::{NOT_SET, Section};
use crate::scheme::Place;

/// Longer than a crashed proxy's event should wait; renewed while a call runs, so that slow consumers keep it.
const LEASE: Duration = Duration::from_secs(15);
/// A lease is renewed every third of it: below this the store hears of little else.
const LEASE_LEAST: Duration = Duration::from_secs(1);
/// A consumer that works for minutes is slow, not dead; one that is silent for longer will not answer.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// A restart of the consumer on the same machine.
const CONNECT_RETRY: Duration = Duration::from_secs(3);
/// The longest that most providers keep trying.
const RETENTION: WholeSeconds = WholeSeconds(Duration::from_secs(72 * 3600));
/// Ten times what common events have; presets raise it where a provider documents more.
const MAX_BODY: Size = Size(5 << 20);
const INSTANT: Duration = Duration::from_millis(1);

pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) order_by: Option<Place>,
    pub(super) target: Target,
    pub(super) copies: Copies,
    pub(super) times: Times,
    pub(super) outcomes: Outcomes,
    pub(super) door: Door,
}

/// Defaults that follow from what the provider is.
#[derive(Clone, Copy)]
pub(super) struct Derived {
    pub(super) on_conflict: OnConflict,
    pub(super) replay_guard: ReplayGuard,
    pub(super) on_store_down: OnStoreDown,
    /// A quarter of the time that the provider keeps trying: enough is left for its retries to get through.
    pub(super) closed_max: Duration,
}

impl Policy {
    pub(super) fn read(section: &Section<'_>, top: Option<&Found<Upstream>>, derived: Derived) -> Self {
        Self {
            mode: section.or("mode", Mode::Sync),
            order_by: section.verbatim("order_by", NOT_SET),
            target: Target::read(section, top),
            copies: Copies::read(section, derived),
            times: Times::read(section),
            outcomes: Outcomes::read(section, derived),
            door: Door::read(section),
        }
    }
}

/// Where deliveries go.
pub(super) struct Target {
    /// `None` where nobody says: noted at the top level, once for all providers.
    pub(super) upstream: Option<Upstream>,
    pub(super) preserve_path: bool,
}

impl Target {
    fn read(section: &Section<'_>, top: Option<&Found<Upstream>>) -> Self {
        let own = section.reader().found::<Upstream>("upstream");
        let upstream = own.or_else(|| top.cloned());
        if let Some(found) = &upstream {
            section.note("upstream", found.value.as_written(), found.origin.clone());
        }
        Self { upstream: upstream.map(|found| found.value), preserve_path: section.or("preserve_path", true) }
    }
}

/// What tells a copy from another event, and what it gets.
pub(super) struct Copies {
    pub(super) missing_id: MissingId,
    pub(super) fingerprint: Fingerprint,
    pub(super) in_flight: InFlight,
    pub(super) on_duplicate: OnDuplicate,
    pub(super) on_conflict: OnConflict,
    pub(super) replay_guard: ReplayGuard,
    pub(super) dedupe: Dedupe,
}

impl Copies {
    fn read(section: &Section<'_>, derived: Derived) -> Self {
        Self {
            missing_id: section.or("missing_id", MissingId::Forward),
            fingerprint: section.verbatim("fingerprint", &quoted("body")).unwrap_or(Fingerprint::Body),
            in_flight: section.or("in_flight", InFlight::Wait),
            on_duplicate: section.or("on_duplicate", OnDuplicate::Ok),
            on_conflict: section.or("on_conflict", derived.on_conflict),
            replay_guard: section.or("replay_guard", derived.replay_guard),
            dedupe: section.or("dedupe", Dedupe::On),
        }
    }
}

pub(super) struct Times {
    pub(super) retention: Duration,
    pub(super) lease: Duration,
    pub(super) upstream_timeout: Duration,
    pub(super) answer_deadline: Option<Duration>,
    pub(super) connect_retry: Duration,
}

impl Times {
    fn read(section: &Section<'_>) -> Self {
        Self {
            retention: section.or("retention", RETENTION).0,
            lease: section.at_least("lease", LEASE, LEASE_LEAST),
            upstream_timeout: section.at_least("upstream_timeout", UPSTREAM_TIMEOUT, INSTANT),
            answer_deadline: answer_deadline(section),
            connect_retry: section.or("connect_retry", CONNECT_RETRY),
        }
    }
}

fn answer_deadline(section: &Section<'_>) -> Option<Duration> {
    let deadline = section.or("answer_deadline", OrNone(None)).0;
    if deadline == Some(Duration::ZERO) {
        section.refuse("answer_deadline", "is nought: no answer would be in time", "write a duration, or \"none\"");
    }
    deadline
}

/// What an end of a call does to the claim.
pub(super) struct Outcomes {
    pub(super) complete_on: Statuses,
    pub(super) release_on: Option<Statuses>,
    pub(super) ambiguous: Ambiguous,
    pub(super) on_store_down: OnStoreDown,
    pub(super) closed_max: Option<Duration>,
    pub(super) settle: Settle,
}

impl Outcomes {
    fn read(section: &Section<'_>, derived: Derived) -> Self {
        // Who writes "closed" means it; who writes nothing wants no event lost.
        let closed_max = if section.has("on_store_down") { None } else { Some(derived.closed_max) };
        Self {
            complete_on: section.or("complete_on", Statuses::success()),
            release_on: section.optional("release_on"),
            ambiguous: section.or("ambiguous", Ambiguous::Hold),
            on_store_down: section.or("on_store_down", derived.on_store_down),
            closed_max: section.or("closed_max", OrNone(closed_max)).0,
            settle: section.or("settle", Settle::WithReply),
        }
    }
}

/// What is let in.
pub(super) struct Door {
    pub(super) enforce: bool,
    pub(super) reject_status: StatusCode,
    pub(super) reject_body: bool,
    pub(super) max_body: Size,
    pub(super) max_concurrent: Option<usize>,
    pub(super) rate_limit: Option<Rate>,
    pub(super) allow_networks: Option<Vec<IpNet>>,
}

impl Door {
    fn read(section: &Section<'_>) -> Self {
        Self {
            enforce: section.or("enforce", true),
            reject_status: reject_status(section),
            reject_body: section.or("reject_body", true),
            max_body: section.at_least("max_body", MAX_BODY, Size(1)),
            max_concurrent: max_concurrent(section),
            rate_limit: section.or("rate_limit", OrNone(None)).0,
            allow_networks: allow_networks(section),
        }
    }
}

fn reject_status(section: &Section<'_>) -> StatusCode {
    let status = section.or("reject_status", StatusCode::UNAUTHORIZED);
    if !status.is_client_error() {
        let what = format!("{} does not say that the sender is at fault", status.as_u16());
        section.refuse("reject_status", what, "write 400 to 499");
    }
    status
}

fn max_concurrent(section: &Section<'_>) -> Option<usize> {
    let most = section.or("max_concurrent", OrNone(None)).0;
    if most == Some(0) {
        section.refuse("max_concurrent", "is nought: no delivery would be let in", "write a number, or \"none\"");
    }
    most
}

fn allow_networks(section: &Section<'_>) -> Option<Vec<IpNet>> {
    let networks = section.or::<OrNone<Vec<IpNet>>>("allow_networks", OrNone(None)).0;
    if networks.as_ref().is_some_and(Vec::is_empty) {
        section.refuse("allow_networks", "is empty: no delivery would be let in", "write the sender's networks, or \"none\"");
    }
    networks
}

/// A duration that a store counts in seconds: rounded up, since forgetting early is the worse mistake.
#[derive(Clone, Copy)]
struct WholeSeconds(Duration);

impl FromNode for WholeSeconds {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let duration = Duration::from_node(node, at)?;
        let up = u64::from(duration.subsec_nanos() > 0);
        Some(Self(Duration::from_secs(duration.as_secs().saturating_add(up))))
    }
}

impl AsWritten for WholeSeconds {
    fn as_written(&self) -> String {
        self.0.as_written()
    }
}
