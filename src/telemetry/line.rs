//! A delivery's log line, written by hand: the same bytes that `tracing_subscriber` would write, for a fraction of the cost.
//!
//! There is one for every delivery, forged ones too. Whatever is out of the ordinary, a letter that has to be escaped or a
//! terminal with colours, is left to `tracing_subscriber`.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Text,
    Json,
}

/// What one line after the other is written on, so that none has to be allocated.
#[derive(Debug, Default)]
pub struct Sheet {
    text: Vec<u8>,
    second: Second,
}

/// The second that the last line was written in. Most lines share it with the one before.
#[derive(Debug, Default)]
struct Second {
    since_epoch: u64,
    /// Up to the point behind the seconds.
    text: String,
}

/// A field's name with what stands around it, put together when the program is made.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub text: &'static str,
    pub json: &'static str,
}

macro_rules! name {
    ($name:literal) => {
        $crate::telemetry::line::Name { text: concat!(" ", $name, "="), json: concat!(",\"", $name, "\":") }
    };
}

pub(super) use name;

/// A line as far as it is written.
#[derive(Debug)]
pub struct Line<'p> {
    style: Style,
    target: &'static str,
    text: &'p mut Vec<u8>,
    /// Whether it has met nothing that has to be escaped.
    is_plain: bool,
}

impl<'p> Line<'p> {
    pub fn begin(sheet: &'p mut Sheet, style: Style, level: &str, target: &'static str, at: SystemTime, message: &str) -> Self {
        let Sheet { text, second } = sheet;
        text.clear();
        let mut line = Self { style, target, text, is_plain: true };
        match style {
            Style::Text => {
                line.time(second, at);
                // A space, and what is short of five letters.
                line.push("      ".get(level.len()..).unwrap_or(" "));
                line.push(level);
                line.push(" ");
            }
            Style::Json => {
                line.push("{\"timestamp\":\"");
                line.time(second, at);
                line.push("\",\"level\":\"");
                line.push(level);
                line.push("\",\"message\":\"");
            }
        }
        line.plain(message);
        if style == Style::Json {
            line.push("\"");
        }
        line
    }

    pub fn text(&mut self, name: Name, value: Option<&str>) {
        let Some(value) = value else { return };
        self.name(name);
        self.text.push(b'"');
        self.plain(value);
        self.text.push(b'"');
    }

    pub fn number(&mut self, name: Name, value: Option<u64>) {
        let Some(value) = value else { return };
        self.name(name);
        self.push(itoa::Buffer::new().format(value));
    }

    /// In milliseconds, to the microsecond.
    pub fn millis(&mut self, name: Name, time: Duration) {
        let rounded = time.saturating_add(Duration::from_nanos(500));
        let part = digits::<3>(rounded.subsec_micros() % 1000);
        let last = part.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
        self.number(name, Some(u64::try_from(rounded.as_millis()).unwrap_or(u64::MAX)));
        self.text.push(b'.');
        self.text.extend_from_slice(&part[..=last]);
    }

    /// The line, with its end; or nothing, where somebody else has to write it.
    pub fn end(mut self) -> Option<&'p [u8]> {
        match self.style {
            Style::Text => self.push("\n"),
            Style::Json => {
                self.push(",\"target\":\"");
                self.push(self.target);
                self.push("\"}\n");
            }
        }
        self.is_plain.then_some(self.text)
    }

    fn name(&mut self, name: Name) {
        self.push(match self.style {
            Style::Text => name.text,
            Style::Json => name.json,
        });
    }

    /// As RFC 3339 has it, to the microsecond.
    fn time(&mut self, second: &mut Second, at: SystemTime) {
        let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.push(second.text(since_epoch.as_secs()));
        self.text.extend_from_slice(&digits::<6>(since_epoch.subsec_micros()));
        self.push("Z");
    }

    /// What needs no escape in either style.
    fn plain(&mut self, value: &str) {
        self.is_plain &= is_plain(value);
        self.push(value);
    }

    fn push(&mut self, value: &str) {
        self.text.extend_from_slice(value.as_bytes());
    }
}

impl Second {
    fn text(&mut self, since_epoch: u64) -> &str {
        if self.since_epoch != since_epoch || self.text.is_empty() {
            let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(since_epoch));
            (self.since_epoch, self.text) = (since_epoch, String::new());
            // It has no words for times behind the year 9999, which then stay empty.
            let _ = write!(self.text, "{at}");
            self.text = self.text.replace('Z', ".");
        }
        &self.text
    }
}

/// Whether it can stand between quotes as it is, in JSON too. Without a branch for each byte, so that many are looked at at once.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\');
    text.bytes().fold(true, |so_far, byte| so_far & is_plain(byte))
}

/// The last digits of a number, with noughts before it.
fn digits<const N: usize>(mut number: u32) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_time_it_was_written_at() {
        let mut sheet = Sheet::default();
        for micros in [0, 999_999, 1_000_000, 1_794_787_700_000_042, 1_794_787_700_120_000, 1_794_787_701_000_000, 7] {
            let at = UNIX_EPOCH + Duration::from_nanos(micros * 1000 + 999);
            let line = Line::begin(&mut sheet, Style::Text, "INFO", "target", at, "words").end().unwrap();
            let expected = format!("{}  INFO words\n", humantime::format_rfc3339_micros(at));
            assert_eq!(String::from_utf8_lossy(line), expected);
        }
    }

    #[test]
    fn milliseconds_are_written_as_numbers_are() {
        for (nanos, expected) in [
            (0, "0.0"),
            (499, "0.0"),
            (500, "0.001"),
            (10_000, "0.01"),
            (999_499, "0.999"),
            (999_500, "1.0"),
            (1_000_000, "1.0"),
            (20_050_000, "20.05"),
            (61_000_100_000, "61000.1"),
        ] {
            let mut sheet = Sheet::default();
            let mut line = Line::begin(&mut sheet, Style::Text, "INFO", "target", UNIX_EPOCH, "words");
            line.millis(name!("ms"), Duration::from_nanos(nanos));
            let written = String::from_utf8_lossy(line.end().unwrap()).into_owned();
            assert_eq!(written.rsplit_once('=').unwrap().1.trim_end(), expected, "{nanos}");
        }
    }
}
