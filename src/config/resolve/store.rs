//! `[store]`: what remembers events, and under which names.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::scalar::{Fault, checked_text};
use crate::config::secret::Sourced;
use crate::config::written::quoted;
use crate::config::{StoreConfig, StoreUrl};

use super::section::Section;

/// Below the working directory: it needs no rights, no server, and is found again by who looks around.
const URL: &str = "./hookonce-data";

/// A store of one's own needs no name to be told apart by.
const NAMESPACE: &str = "hookonce";

/// Longer than a failover's hiccup on one connection, and a third of the shortest patience of a provider.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn resolve(section: &Section<'_>) -> StoreConfig {
    let url = section.or("url", StoreUrl::File(PathBuf::from(URL)));
    let namespace = namespace(section, &url);
    let timeout = section.at_least("timeout", TIMEOUT, Duration::from_millis(10));
    let ca_file = section.optional::<Readable>("ca_file").map(|file| PathBuf::from(file.0));
    if ca_file.is_some() && !url.is_tls() {
        section.warn("ca_file", "is not used: the connection is not encrypted", "write a rediss:// URL, or remove the key");
    }
    let seal = section.optional::<Sourced>("seal").map(|seal| seal.secret);
    StoreConfig { url, namespace: namespace.0, timeout, ca_file, seal }
}

fn namespace(section: &Section<'_>, url: &StoreUrl) -> Namespace {
    let default = Namespace(NAMESPACE.to_owned());
    if !url.is_shared() {
        return section.or("namespace", default);
    }
    let help = "two services on one Redis without it would swallow each other's events: write namespace = \"NAME\" \
                under [store], or set HOOKONCE__STORE__NAMESPACE";
    section.require("namespace", help).unwrap_or(default)
}

checked_text!(
    /// The first part of every key, in letters that need no escaping there.
    Namespace by plain_name
);

fn plain_name(text: &str) -> Result<String, Fault> {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if is_plain && !text.is_empty() {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("is not a namespace: {}", quoted(text)), "write letters, digits, `_`, `.` and `-`"))
}

checked_text!(
    /// A file that can be read now: one that cannot is better known before traffic.
    Readable by readable_file
);

fn readable_file(text: &str) -> Result<String, Fault> {
    match std::fs::read(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(Fault::new(format!("{text} cannot be read: {error}"), "check the path and its permissions")),
    }
}
