//! The log: text for people, JSON for machines. One line a delivery; never a body, a secret or a signature.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use super::outlet::Outlet;
use super::trace::context::TraceId;
use super::{Closing, Facts};
use crate::config::{LogConfig, LogFormat};
use crate::scheme::Disproof;
use crate::store::Mark;
use crate::telemetry::{LetterOutcome, Outcome};

/// Everything a delivery's line says.
#[derive(Debug)]
pub struct Line<'a> {
    pub provider: &'a str,
    pub event: Option<&'a str>,
    pub slot: Option<usize>,
    /// Why it did not verify, where it was let through all the same.
    pub unverified: Option<Disproof>,
    pub facts: Facts,
    pub waited: Duration,
    pub total: Duration,
    pub closing: &'a Closing,
    pub trace: Option<TraceId>,
}

/// Starts logging to standard error. A filter that cannot be read was refused with the configuration.
pub fn start(config: &LogConfig) {
    // Not `EnvFilter`, which would link half a megabyte of regular expressions for fields of spans, of which there are none.
    let filter = config.level.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let Some(outlet) = Outlet::open() else { return eprintln!("hookonce: no thread for the log: it stays empty") };
    let builder = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(outlet);
    // A second start keeps the first.
    let _ = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).finish().with(filter).try_init(),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
            builder.finish().with(filter).try_init()
        }
    };
}

/// Writes the line of one delivery. What calls for a person is a warning.
pub fn delivery(line: &Line<'_>) {
    let Line { provider, event, slot, unverified, facts, waited, total, closing, trace } = line;
    let (outcome, status) = (closing.outcome.as_str(), closing.status.as_u16());
    let (attempt, mark) = (facts.attempt, facts.mark.map(|mark| mark.as_str()));
    let (total_ms, upstream_ms, store_ms) = (millis(*total), millis(facts.upstream), millis(facts.store));
    let waited_ms = millis(*waited);
    let unverified = unverified.map(Disproof::code);
    let trace_id = trace.map(|id| id.to_string());
    macro_rules! write {
        ($level:ident) => {
            tracing::$level!(
                target: "hookonce::delivery",
                provider, outcome, status, event, attempt, maybe_duplicate = mark, slot, unverified, total_ms, upstream_ms, store_ms, waited_ms,
                trace_id, "{}", closing.reason
            )
        };
    }
    if is_worth_a_look(closing.outcome) { write!(warn) } else { write!(info) }
}

/// Writes how an event ended whose sender was answered, or gone, before.
pub fn late(provider: &str, event: Option<&str>, facts: Facts, outcome: Outcome, reason: &str) {
    let (outcome, upstream_ms) = (outcome.as_str(), millis(facts.upstream));
    tracing::info!(target: "hookonce::late", provider, outcome, event, attempt = facts.attempt, upstream_ms, "{reason}");
}

/// Everything the line of an attempt at a letter says.
#[derive(Debug)]
pub struct LetterLine<'a> {
    pub provider: &'a str,
    pub event: Option<&'a str>,
    pub letter: String,
    pub outcome: LetterOutcome,
    pub status: Option<u16>,
    pub attempt: u32,
    pub mark: Option<Mark>,
    pub is_resigned: bool,
    pub age: Duration,
    pub upstream: Duration,
    pub reason: &'a str,
}

/// Writes the line of one attempt at a letter.
pub fn letter(line: &LetterLine<'_>) {
    let LetterLine { provider, event, letter, status, attempt, reason, .. } = line;
    let (outcome, mark, resigned) = (line.outcome.as_str(), line.mark.map(Mark::as_str), line.is_resigned);
    let (age_ms, upstream_ms) = (millis(line.age), millis(line.upstream));
    macro_rules! write {
        ($level:ident) => {
            tracing::$level!(
                target: "hookonce::queue",
                provider, outcome, status, event, letter, attempt, maybe_duplicate = mark, resigned, age_ms, upstream_ms,
                "{reason}"
            )
        };
    }
    match line.outcome {
        LetterOutcome::Done | LetterOutcome::Returned => write!(info),
        LetterOutcome::Failed | LetterOutcome::Unknown => write!(warn),
        LetterOutcome::Dead => write!(error),
    }
}

/// More than any first step of a path needs.
const STEP_BYTES_MAX: usize = 32;

/// Writes that a request belongs to no provider. Of its path only the first step: what comes behind may be a secret. A path
/// may hold letters that a terminal obeys, or that turn the direction of a line: nothing but visible ASCII is written.
pub fn unrouted(method: &Method, path: &str) {
    let (first, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
    let first = &first[..first.floor_char_boundary(STEP_BYTES_MAX)];
    let first: String = first.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
    let path = format!("/{first}{}", if rest.is_empty() { "" } else { "/..." });
    tracing::info!(target: "hookonce::unrouted", %method, path, "no provider takes this");
}

/// An error with its causes: hyper's own text is only the outermost.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> Arc<str> {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text.into()
}

fn is_worth_a_look(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::Ambiguous | Outcome::Limited | Outcome::StoreDown | Outcome::Conflict)
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
