//! The top level: where we listen, where the consumer is, whom we trust.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::config::address::Upstream;
use crate::config::path::PathPattern;
use crate::config::reader::Found;
use crate::config::secret::Sourced;
use crate::config::written::AsWritten;
use crate::config::{Passthrough, Readiness, Secret};

use super::section::Section;

/// Deliveries come from outside, and 8080 needs no rights.
const LISTEN: ([u8; 4], u16) = ([0, 0, 0, 0], 8080);
/// The API is for who is on the machine, unless somebody decides otherwise.
const ADMIN: ([u8; 4], u16) = ([127, 0, 0, 1], 9090);
/// More threads than this only wait for each other.
const WORKERS_MOST: usize = 256;

pub(super) struct Top {
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) admin_token: Option<Secret>,
    /// The default of every provider, with where it was written.
    pub(super) upstream: Option<Found<Upstream>>,
    pub(super) passthrough: Option<Passthrough>,
    pub(super) trusted_proxies: Option<Vec<IpNet>>,
    pub(super) readiness: Readiness,
    pub(super) workers: usize,
}

impl Top {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let listen = root.or("listen", SocketAddr::from(LISTEN));
        let admin = admin_address(root);
        let admin_token = admin_token(root);
        check_addresses(root, listen, admin, admin_token.is_some());
        let upstream = root.found("upstream");
        Self {
            listen,
            admin,
            admin_token,
            passthrough: passthrough(root, upstream.as_ref()),
            upstream,
            trusted_proxies: root.optional("trusted_proxies"),
            readiness: root.or("readiness", Readiness::Serving),
            workers: root.within("workers", cores(), 1..=WORKERS_MOST),
        }
    }
}

pub(super) fn admin_address(root: &Section<'_>) -> SocketAddr {
    root.or("admin", SocketAddr::from(ADMIN))
}

pub(super) fn admin_token(root: &Section<'_>) -> Option<Secret> {
    root.optional::<Sourced>("admin_token").map(|token| token.secret)
}

/// The cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MOST)
}

fn check_addresses(root: &Section<'_>, listen: SocketAddr, admin: SocketAddr, has_token: bool) {
    let is_shared = listen.ip() == admin.ip() || listen.ip().is_unspecified() || admin.ip().is_unspecified();
    if listen.port() == admin.port() && listen.port() != 0 && is_shared {
        let help = "give each its own port: what is served on one must not be reached through the other";
        root.error("admin", format!("takes the port of listen, {listen}"), help);
    }
    if !admin.ip().is_loopback() && !has_token {
        let help = "set admin_token to use it; /metrics, /healthz and /readyz are open either way";
        root.warn("admin", "can be reached from outside and has no admin_token: the event API is closed", help);
    }
}

fn passthrough(root: &Section<'_>, upstream: Option<&Found<Upstream>>) -> Option<Passthrough> {
    let paths = root.optional::<Vec<PathPattern>>("passthrough").filter(|paths| !paths.is_empty())?;
    let upstream = upstream?.value.clone();
    if upstream.has_path() {
        let what = format!("cannot go to an upstream with a path, {}: each path is kept as it is", upstream.as_written());
        root.error("passthrough", what, "drop the path from the top level's upstream, and give the providers their own");
    }
    Some(Passthrough { upstream, paths })
}

/// Reports the missing top-level `upstream` once, whoever needs it.
pub(super) fn require_upstream(root: &Section<'_>, provider_needs_it: bool) {
    let is_needed = provider_needs_it || root.has("passthrough");
    if is_needed && !root.has("upstream") {
        root.error("upstream", "is missing", "write upstream = \"http://HOST:PORT\", or give --upstream URL");
    }
}
