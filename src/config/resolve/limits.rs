//! `[limits]`: bounds of the listening side. The defaults fit a container of 512 MiB.

use std::time::Duration;

use crate::config::{Limits, Size};

use super::section::Section;

/// Half of a small container's memory: ten of the largest bodies a preset allows, or a hundred thousand common ones.
const BUFFERED: Size = Size(256 << 20);
/// Far above what providers open, and a limit on what others can hold open.
const CONNECTIONS: usize = 10_000;
/// As many as there may be connections: an attempt outlives its sender.
const ATTEMPTS: usize = 10_000;
/// The default of most servers; providers send thirty.
const HEADERS: usize = 100;
/// Room for a long signature, cookies and trace context.
const HEADER_BYTES: Size = Size(32 << 10);
/// The HTTP/1 parser cannot work with a smaller buffer.
const HEADER_BYTES_LEAST: Size = Size(8 << 10);
const HEADER_BYTES_MOST: Size = Size(1 << 20);
/// Providers write a head at once: who needs longer holds a connection on purpose.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// As long as the most patient provider waits for its answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The least that HTTP/2 recommends.
const STREAMS: usize = 100;
/// Copies come by the handful; more than this on one event is a storm, which a 503 spreads out.
const WAITERS_PER_EVENT: usize = 64;
/// Answers to webhooks are small: this is a bound, not a plan.
const ANSWER: Size = Size(1 << 20);
/// Some thirty thousand events: the duplicates that come during an outage are mostly of the last minutes.
const RECENT: Size = Size(8 << 20);
/// Ten a second for nearly three hours, in some 30 MiB.
const LOCAL_CLAIMS: usize = 100_000;

const INSTANT: Duration = Duration::from_millis(1);

pub(super) fn resolve(section: &Section<'_>) -> Limits {
    Limits {
        buffered: section.at_least("buffered", BUFFERED, Size(64 << 10)),
        connections: section.within("connections", CONNECTIONS, 1..=1_000_000),
        attempts: section.within("attempts", ATTEMPTS, 1..=1_000_000),
        headers: section.within("headers", HEADERS, 1..=10_000),
        header_bytes: section.within("header_bytes", HEADER_BYTES, HEADER_BYTES_LEAST..=HEADER_BYTES_MOST),
        header_timeout: section.at_least("header_timeout", HEADER_TIMEOUT, INSTANT),
        body_timeout: section.at_least("body_timeout", BODY_TIMEOUT, INSTANT),
        streams: section.within("streams", STREAMS, 1..=10_000),
        waiters_per_event: section.within("waiters_per_event", WAITERS_PER_EVENT, 0..=100_000),
        answer: section.or("answer", ANSWER),
        recent: section.or("recent", RECENT),
        local_claims: section.within("local_claims", LOCAL_CLAIMS, 0..=10_000_000),
    }
}
