//! `[limits]`: bounds of the listening side. The defaults fit a container of 512 MiB.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::config::scalar::OrNone;
use crate::config::{Limits, Rate, Size};

use super::section::Section;

/// Half of a small container's memory: ten of the largest bodies a preset allows, or a hundred thousand common ones.
const BUFFERED: Size = Size(256 << 20);
/// Far above what providers open, and a limit on what others can hold open.
const CONNECTIONS: usize = 10_000;
/// More than a provider opens; a tenth of all, so that no single address can take them.
const CONNECTIONS_PER_ADDRESS: usize = 1000;
/// As many as there may be connections: an attempt outlives its sender.
const ATTEMPTS: usize = 10_000;
/// Faster than any provider tries again. Whoever replays what fails would have the consumer work at it as fast as it can.
const ATTEMPTS_PER_EVENT: Rate = Rate::per_second(NonZeroU32::new(10).unwrap());
/// The longest that proxies commonly take; providers send what they were given, and a few parameters.
const URI: Size = Size(8 << 10);
/// The most that can be parsed.
const URI_MOST: Size = Size(65_534);
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
/// What a modem brings. Slower senders are not slow, they hold on.
const BODY_RATE: Size = Size(1 << 10);
/// Longer than the minute for which load balancers keep theirs: they would send a delivery on a connection that we close.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// The least that HTTP/2 recommends.
const STREAMS: usize = 100;
/// Copies come by the handful; more than this on one event is a storm, which a 503 spreads out.
const WAITERS_PER_EVENT: usize = 64;
/// Answers to webhooks are small: this is a bound, not a plan.
const ANSWER: Size = Size(1 << 20);
/// Far more than a provider reads. A consumer that never ends would hold its sender for ever.
const ANSWER_MAX: Size = Size(64 << 20);
/// Some twenty-five thousand events: the duplicates that come during an outage are mostly of the last minutes.
const RECENT: Size = Size(4 << 20);
/// Ten a second for nearly three hours, in some 30 MiB.
const LOCAL_CLAIMS: usize = 100_000;

const INSTANT: Duration = Duration::from_millis(1);
/// For ever, and short of the end of any clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) fn resolve(section: &Section<'_>) -> Limits {
    Limits {
        buffered: section.at_least("buffered", BUFFERED, Size(64 << 10)),
        connections: section.within("connections", CONNECTIONS, 1..=1_000_000),
        connections_per_address: connections_per_address(section),
        attempts: section.within("attempts", ATTEMPTS, 1..=1_000_000),
        attempts_per_event: section.or("attempts_per_event", OrNone(Some(ATTEMPTS_PER_EVENT))).0,
        uri: section.within("uri", URI, Size(1)..=URI_MOST),
        headers: section.within("headers", HEADERS, 1..=10_000),
        header_bytes: section.within("header_bytes", HEADER_BYTES, HEADER_BYTES_LEAST..=HEADER_BYTES_MOST),
        header_timeout: section.within("header_timeout", HEADER_TIMEOUT, INSTANT..=LONGEST),
        body_timeout: section.within("body_timeout", BODY_TIMEOUT, INSTANT..=LONGEST),
        body_rate: section.or("body_rate", BODY_RATE),
        idle_timeout: section.within("idle_timeout", IDLE_TIMEOUT, INSTANT..=LONGEST),
        streams: section.within("streams", STREAMS, 1..=10_000),
        waiters_per_event: section.within("waiters_per_event", WAITERS_PER_EVENT, 0..=100_000),
        answer: section.or("answer", ANSWER),
        answer_max: section.or("answer_max", ANSWER_MAX),
        recent: section.or("recent", RECENT),
        local_claims: section.within("local_claims", LOCAL_CLAIMS, 0..=10_000_000),
    }
}

fn connections_per_address(section: &Section<'_>) -> Option<usize> {
    let most = section.or("connections_per_address", OrNone(Some(CONNECTIONS_PER_ADDRESS))).0;
    if most == Some(0) {
        section.refuse("connections_per_address", "is nought: nobody would be let in", "write a number, or \"none\"");
    }
    most
}
