//! A delivery's log line, written by hand: the same bytes that `tracing_subscriber` would write, for a fifth of the cost.
//!
//! There is one for every delivery, forged ones too. Whatever is out of the ordinary, a letter that has to be escaped or a
//! terminal with colours, is left to `tracing_subscriber`.

use std::fmt::{self, Display, Write as _};
use std::time::{Duration, SystemTime};

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Text,
    Json,
}

/// A line as far as it is written. Nothing, once it has met something that is not plain.
#[derive(Debug)]
pub struct Line {
    style: Style,
    target: &'static str,
    text: Option<String>,
}

/// As long as most lines get.
const CAPACITY: usize = 320;

impl Line {
    pub fn begin(style: Style, level: &str, target: &'static str, at: SystemTime, message: &str) -> Self {
        let mut line = Self { style, target, text: Some(String::with_capacity(CAPACITY)) };
        let at = humantime::format_rfc3339_micros(at);
        match style {
            Style::Text => line.write(format_args!("{at} {level:>5} ")),
            Style::Json => line.write(format_args!("{{\"timestamp\":\"{at}\",\"level\":\"{level}\",\"message\":\"")),
        }
        line.plain(message);
        if style == Style::Json {
            line.push("\"");
        }
        line
    }

    pub fn text(&mut self, name: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        self.name(name);
        self.push("\"");
        self.plain(value);
        self.push("\"");
    }

    pub fn number(&mut self, name: &str, value: Option<impl Display>) {
        let Some(value) = value else { return };
        self.name(name);
        self.write(format_args!("{value}"));
    }

    /// In milliseconds, to the microsecond.
    pub fn millis(&mut self, name: &str, time: Duration) {
        let micros = (time.as_nanos() + 500) / 1000;
        let (whole, mut part, mut digits) = (micros / 1000, micros % 1000, 3);
        while digits > 1 && part % 10 == 0 {
            part /= 10;
            digits -= 1;
        }
        self.name(name);
        self.write(format_args!("{whole}.{part:0digits$}"));
    }

    /// The line, with its end; or nothing, where somebody else has to write it.
    pub fn end(mut self) -> Option<String> {
        let target = self.target;
        match self.style {
            Style::Text => self.push("\n"),
            Style::Json => self.write(format_args!(",\"target\":\"{target}\"}}\n")),
        }
        self.text
    }

    fn name(&mut self, name: &str) {
        match self.style {
            Style::Text => self.write(format_args!(" {name}=")),
            Style::Json => self.write(format_args!(",\"{name}\":")),
        }
    }

    /// What needs no escape in either style.
    fn plain(&mut self, value: &str) {
        if value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
            self.push(value);
        } else {
            self.text = None;
        }
    }

    fn push(&mut self, value: &str) {
        if let Some(text) = &mut self.text {
            text.push_str(value);
        }
    }

    fn write(&mut self, value: fmt::Arguments<'_>) {
        if let Some(text) = &mut self.text {
            // A string takes whatever it is given.
            let _ = text.write_fmt(value);
        }
    }
}
