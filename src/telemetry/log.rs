//! The log: text for people, JSON for machines. One line a delivery; never a body, a secret or a signature.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use http::Method;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use super::line::{self, Sheet, Style, name};
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

/// Where the lines of deliveries go, once logging has started; to `tracing` where they need what only that can do.
static DIRECT: OnceLock<(Style, &'static Outlet)> = OnceLock::new();

/// Starts logging to standard error. A filter that cannot be read was refused with the configuration.
pub fn start(config: &LogConfig) {
    // Not `EnvFilter`, which would link half a megabyte of regular expressions for fields of spans, of which there are none.
    let filter = config.level.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let Some(outlet) = Outlet::open() else { return eprintln!("hookonce: no thread for the log: it stays empty") };
    let builder = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(outlet);
    let is_terminal = std::io::stderr().is_terminal();
    // A second start keeps the first.
    let started = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(is_terminal).finish().with(filter).try_init(),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
            builder.finish().with(filter).try_init()
        }
    };
    let style = match config.format {
        LogFormat::Text => Style::Text,
        LogFormat::Json => Style::Json,
    };
    if started.is_ok() && (style == Style::Json || !is_terminal) {
        let _ = DIRECT.set((style, outlet));
    }
}

const DELIVERY: &str = "hookonce::delivery";

thread_local! {
    static SHEET: RefCell<Sheet> = RefCell::default();
}

/// Writes the line of one delivery. What calls for a person is a warning.
pub fn delivery(line: &Line<'_>) {
    if let Some((style, outlet)) = DIRECT.get() {
        let is_warning = is_worth_a_look(line.closing.outcome);
        let is_wanted = match is_warning {
            true => tracing::enabled!(target: DELIVERY, tracing::Level::WARN),
            false => tracing::enabled!(target: DELIVERY, tracing::Level::INFO),
        };
        if !is_wanted {
            return;
        }
        let is_written = SHEET.with_borrow_mut(|sheet| {
            let text = written(sheet, line, *style, now());
            text.inspect(|text| outlet.push(text)).is_some()
        });
        if is_written {
            return;
        }
    }
    traced(line);
}

/// The line as it stands in the log, or nothing where it has to be escaped.
fn written<'p>(sheet: &'p mut Sheet, line: &Line<'_>, style: Style, at: SystemTime) -> Option<&'p [u8]> {
    let Line { provider, event, slot, unverified, facts, waited, total, closing, trace } = line;
    let level = if is_worth_a_look(closing.outcome) { "WARN" } else { "INFO" };
    let mut text = line::Line::begin(sheet, style, level, DELIVERY, at, &closing.reason);
    text.text(name!("provider"), Some(provider));
    text.text(name!("outcome"), Some(closing.outcome.as_str()));
    text.number(name!("status"), Some(closing.status.as_u16().into()));
    text.text(name!("event"), *event);
    text.number(name!("attempt"), facts.attempt.map(u64::from));
    text.text(name!("maybe_duplicate"), facts.mark.map(|mark| mark.as_str()));
    text.number(name!("slot"), slot.map(|slot| slot as u64));
    text.text(name!("unverified"), unverified.map(Disproof::code));
    text.millis(name!("total_ms"), *total);
    text.millis(name!("upstream_ms"), facts.upstream);
    text.millis(name!("store_ms"), facts.store);
    text.millis(name!("waited_ms"), *waited);
    text.text(name!("trace_id"), trace.map(|id| id.to_string()).as_deref());
    text.end()
}

/// The same through `tracing`.
fn traced(line: &Line<'_>) {
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
                target: DELIVERY,
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

#[expect(clippy::disallowed_methods, reason = "a line says when it was written, whatever the pipeline's clock says")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn is_worth_a_look(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::Ambiguous | Outcome::Limited | Outcome::StoreDown | Outcome::Conflict)
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use http::StatusCode;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// What `tracing_subscriber` writes.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Paper {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn by_tracing(style: Style, line: &Line<'_>) -> String {
        let paper = Paper::default();
        let builder = tracing_subscriber::fmt().with_writer(paper.clone());
        let write = || traced(line);
        match style {
            Style::Text => tracing::subscriber::with_default(builder.with_target(false).with_ansi(false).finish(), write),
            Style::Json => {
                let builder = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
                tracing::subscriber::with_default(builder.finish(), write);
            }
        }
        let bytes = paper.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }

    /// The times are not alike, and as long.
    fn without_time(line: &str) -> String {
        let is_time = |c: char| c.is_ascii_digit();
        let end = line.find('Z').unwrap();
        format!("{}{}", line[..end].replace(is_time, "0"), &line[end..])
    }

    #[test]
    fn a_line_is_the_same_whoever_writes_it() {
        let short = Facts::default();
        let long = Facts {
            store: Duration::from_nanos(1_234_567),
            upstream: Duration::from_millis(15_100),
            waited: Duration::ZERO,
            attempt: Some(3),
            mark: Some(Mark::Replay),
        };
        let closing = |outcome, status, reason: &'static str| Closing {
            outcome,
            status: StatusCode::from_u16(status).unwrap(),
            reason: reason.into(),
        };
        let closings = [
            closing(Outcome::Forwarded, 200, "the consumer answered 200"),
            closing(Outcome::Failed, 502, "released: the consumer answered 500, the next copy will be forwarded"),
        ];
        let mut sheet = Sheet::default();
        for style in [Style::Text, Style::Json] {
            for (facts, closing) in [short, long].iter().flat_map(|facts| closings.iter().map(move |closing| (facts, closing))) {
                for (event, slot, unverified) in
                    [(None, None, None), (Some("evt_1:a-b"), Some(1), Some(Disproof::MissingSignature))]
                {
                    let total = Duration::from_micros(20_050);
                    let waited = Duration::from_micros(7);
                    let line =
                        Line { provider: "github", event, slot, unverified, facts: *facts, waited, total, closing, trace: None };
                    let written = written(&mut sheet, &line, style, SystemTime::UNIX_EPOCH).unwrap();
                    assert_eq!(without_time(std::str::from_utf8(written).unwrap()), without_time(&by_tracing(style, &line)));
                }
            }
        }
    }

    #[test]
    fn what_has_to_be_escaped_is_not_written_by_hand() {
        let closing = Closing { outcome: Outcome::Forwarded, status: StatusCode::OK, reason: "fine".into() };
        for event in ["a\"b", "a\\b", "a\nb", "\u{1b}[31m", "\u{e9}"] {
            let (facts, waited, total) = (Facts::default(), Duration::ZERO, Duration::ZERO);
            let line = Line {
                provider: "github",
                event: Some(event),
                slot: None,
                unverified: None,
                facts,
                waited,
                total,
                closing: &closing,
                trace: None,
            };
            assert_eq!(written(&mut Sheet::default(), &line, Style::Json, SystemTime::UNIX_EPOCH), None, "{event:?}");
        }
    }
}
