//! `[drain]`: how a process goes.

use std::time::Duration;

use crate::config::Drain;

use super::section::Section;

/// `/readyz` fails this long before the door closes, so that a load balancer has looked away by then.
const DELAY: Duration = Duration::from_secs(5);
/// Longer than providers wait for an answer: whoever is still served is not cut off.
const TIMEOUT: Duration = Duration::from_secs(35);

pub(super) fn resolve(section: &Section<'_>) -> Drain {
    Drain { delay: section.or("delay", DELAY), timeout: section.or("timeout", TIMEOUT) }
}
