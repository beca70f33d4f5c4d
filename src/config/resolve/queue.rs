//! `[queue]`: what is accepted now and delivered later.

use std::time::Duration;

use http::StatusCode;

use crate::config::{QueueConfig, Size};

use super::section::Section;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// A blip, a deployment, an outage, a night, a day: after that somebody should look.
const SCHEDULE: [u64; 7] = [0, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 10 * HOUR, 24 * HOUR];
/// Some providers take nothing but 200 for a yes.
const ACK_STATUS: StatusCode = StatusCode::OK;
/// An hour of 250 events a second, of a KiB each.
const MAX_BYTES: Size = Size(1 << 30);
const MAX_EVENTS: usize = 1_000_000;
/// Room for a bad day, and little enough to be looked at.
const DEAD_MAX_BYTES: Size = Size(256 << 20);
/// Attempts of one event.
const ATTEMPTS_MAX: usize = 100;

pub(super) fn resolve(section: &Section<'_>) -> QueueConfig {
    QueueConfig {
        schedule: schedule(section),
        ack_status: ack_status(section),
        max_bytes: section.at_least("max_bytes", MAX_BYTES, Size(1)),
        max_events: section.at_least("max_events", MAX_EVENTS, 1),
        dead_max_bytes: section.at_least("dead_max_bytes", DEAD_MAX_BYTES, Size(1)),
        accept_loss: section.or("accept_loss", false),
        resign: section.or("resign", true),
        dead_blocks_key: section.or("dead_blocks_key", false),
    }
}

fn schedule(section: &Section<'_>) -> Vec<Duration> {
    let schedule = section.or("schedule", SCHEDULE.map(Duration::from_secs).to_vec());
    if schedule.is_empty() || schedule.len() > ATTEMPTS_MAX {
        section.refuse("schedule", format!("has {} attempts", schedule.len()), format!("write 1 to {ATTEMPTS_MAX} pauses"));
    } else if schedule[0] != Duration::ZERO {
        section.refuse("schedule", "does not begin with \"0s\"", "the first attempt is at once: write the pauses behind that");
    }
    schedule
}

fn ack_status(section: &Section<'_>) -> StatusCode {
    let status = section.or("ack_status", ACK_STATUS);
    if !status.is_success() {
        let what = format!("{} does not say that the event was accepted", status.as_u16());
        section.refuse("ack_status", what, "write 200 to 299");
    }
    status
}
