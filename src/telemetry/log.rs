//! The log: text for people, JSON for machines. One line a delivery; never a body, a secret or a signature.

use std::io::IsTerminal;
use std::time::Duration;

use tracing::field::Empty;
use tracing_subscriber::EnvFilter;

use super::outlet::Outlet;
use super::{Closing, Facts};
use crate::config::{LogConfig, LogFormat};
use crate::telemetry::Outcome;

/// Everything a delivery's line says.
#[derive(Debug)]
pub struct Line<'a> {
    pub provider: &'a str,
    pub event: Option<&'a str>,
    pub slot: Option<usize>,
    pub facts: Facts,
    pub total: Duration,
    pub closing: Closing<'a>,
}

/// Starts logging to standard error. A filter that cannot be read was refused with the configuration.
pub fn start(config: &LogConfig) {
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let Some(outlet) = Outlet::open() else { return eprintln!("hookonce: no thread for the log: it stays empty") };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(outlet);
    // A second start keeps the first.
    let _ = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
}

/// Whether a filter can be read.
pub fn is_filter(level: &str) -> bool {
    EnvFilter::try_new(level).is_ok()
}

/// Writes the line of one delivery. What calls for a person is a warning.
pub fn delivery(line: &Line<'_>) {
    let Line { provider, event, slot, facts, total, closing } = line;
    let (outcome, status) = (closing.outcome.as_str(), closing.status.as_u16());
    let (attempt, mark) = (facts.attempt, facts.mark.map(|mark| mark.as_str()));
    let (total_ms, upstream_ms, store_ms) = (millis(*total), millis(facts.upstream), millis(facts.store));
    macro_rules! write {
        ($level:ident) => {
            tracing::$level!(
                target: "hookonce::delivery",
                provider, outcome, status, event, attempt, maybe_duplicate = mark, slot, total_ms, upstream_ms, store_ms,
                "{}", closing.reason
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

/// A request that belongs to no provider.
pub fn unrouted(closing: Closing<'_>, total: Duration) {
    let (status, total_ms) = (closing.status.as_u16(), millis(total));
    tracing::debug!(target: "hookonce::delivery", provider = Empty, status, total_ms, "{}", closing.reason);
}

fn is_worth_a_look(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::Ambiguous | Outcome::Limited | Outcome::StoreDown | Outcome::Conflict)
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
