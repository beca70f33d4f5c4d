//! Checks across providers: every delivery has one place to go.

use crate::config::written::AsWritten;
use crate::config::{Passthrough, PathPattern};

use super::provider::Draft;

pub(super) fn check(drafts: &[Draft<'_>], passthrough: Option<&Passthrough>) {
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(other) = drafts[..index].iter().find(|other| is_same_route(draft, other)) {
            let what = format!("is taken by provider {}, for the same host and method", other.name);
            draft.section.error("path", what, "give each its own path, host or methods");
        }
        if let Some(pattern) = passthrough.and_then(|passthrough| shadow(draft, &passthrough.paths)) {
            let what = format!("would be passed through unverified by passthrough, {}", pattern.as_written());
            draft.section.error("path", what, "narrow passthrough, or move the provider out of it");
        }
    }
}

/// A provider with a host is asked before one without: only equal hosts are in each other's way.
fn is_same_route(one: &Draft<'_>, other: &Draft<'_>) -> bool {
    let (one, other) = (&one.identity, &other.identity);
    one.path.is_some()
        && one.path == other.path
        && one.host == other.host
        && one.methods.iter().any(|method| other.methods.contains(method))
}

/// The pattern that covers the provider's path. Consumers may ignore case, so case does not tell paths apart here.
fn shadow<'p>(draft: &Draft<'_>, patterns: &'p [PathPattern]) -> Option<&'p PathPattern> {
    let path = draft.identity.path.as_ref()?.to_ascii_lowercase();
    patterns.iter().find(|pattern| pattern.to_lowercase().matches(&path))
}
