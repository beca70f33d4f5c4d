//! Letters as the instance tells of them: asked for page by page, and written for people.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::caller::{Caller, encoded, encoded_id, parsed};
use crate::cli::table::table;
use crate::config::units::Size;

/// Letters that are asked for at once.
const PAGE: usize = 500;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Letter {
    pub letter: String,
    pub event: Option<String>,
    pub state: State,
    pub attempt: u32,
    pub doubt: Option<String>,
    pub status: Option<u16>,
    pub queued_at: String,
    pub age_s: u64,
    pub due_in_ms: Option<u64>,
    pub bytes: u64,
    pub line: Option<String>,
    #[serde(default, skip_serializing)]
    pub content: Option<Content>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Waiting,
    Out,
    /// Others of its line come first.
    Behind,
    Dead,
}

#[derive(Debug, Deserialize)]
pub(super) struct Content {
    method: String,
    uri: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Queues {
    pub queues: Vec<Queue>,
}

/// What a queue holds.
#[derive(Debug, Deserialize)]
pub(super) struct Queue {
    pub provider: String,
    pub letters: u64,
    pub bytes: u64,
    pub dead: u64,
    pub dead_bytes: u64,
    pub oldest_age_s: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Page {
    letters: VecDeque<Letter>,
    next: Option<String>,
}

/// The letters of a provider that are old enough, in the order in which they came.
pub(super) struct Letters<'a> {
    caller: &'a Caller,
    target: String,
    least_age_s: u64,
    page: Option<Page>,
}

impl<'a> Letters<'a> {
    pub fn of(caller: &'a Caller, provider: &str, dead: bool, older_than: Option<Duration>) -> Self {
        let target = format!("/api/queue?provider={}&dead={}&limit={PAGE}", encoded(provider), u8::from(dead));
        // The instance tells whole seconds: what it tells is at least as old.
        let least_age_s = older_than.map_or(0, |age| age.as_secs() + u64::from(age.subsec_nanos() > 0));
        Self { caller, target, least_age_s, page: None }
    }

    pub fn next(&mut self) -> Result<Option<Letter>, ExitCode> {
        loop {
            let after = match &mut self.page {
                None => String::new(),
                Some(page) => match (page.letters.pop_front(), &page.next) {
                    // Whoever came later is younger still.
                    (Some(letter), _) => return Ok(Some(letter).filter(|letter| letter.age_s >= self.least_age_s)),
                    (None, Some(next)) => format!("&after={}", encoded(next)),
                    (None, None) => return Ok(None),
                },
            };
            self.page = Some(parsed(&self.caller.json("GET", &format!("{}{after}", self.target), "")?)?);
        }
    }
}

/// Where a letter is, with what is to be done there behind it.
pub(super) fn target(provider: &str, id: &str, deed: &str, dead: bool) -> String {
    format!("/api/queue/{}/{}{deed}?dead={}", encoded(provider), encoded_id(id), u8::from(dead))
}

/// One a line.
pub(super) fn list(letters: &[Letter]) -> String {
    table(["age", "attempt", "status", "due", "event", "letter"], letters.iter().map(row))
}

fn row(letter: &Letter) -> [String; 6] {
    [
        rough(letter.age_s),
        letter.attempt.to_string(),
        or_dash(letter.status),
        letter.due(),
        or_dash(letter.event.as_deref()),
        letter.letter.clone(),
    ]
}

/// All that is told of one.
pub(super) fn about(letter: &Letter, provider: &str) -> String {
    let Letter { letter: id, attempt, queued_at, age_s, bytes, .. } = letter;
    let mut text = String::new();
    for (name, value) in [
        ("provider", provider.to_owned()),
        ("event", or_dash(letter.event.as_deref())),
        ("letter", id.clone()),
        ("accepted", format!("{queued_at}, {} ago", rough(*age_s))),
        ("attempts", attempt.to_string()),
        ("last status", or_dash(letter.status)),
        ("doubt", or_dash(letter.doubt.as_deref())),
        ("due", letter.due()),
        ("line", or_dash(letter.line.as_deref())),
        ("size", Size(*bytes).to_string()),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:12} {value}");
    }
    let _ = writeln!(text, "\n{}", letter.outlook());
    if let Some(content) = &letter.content {
        let _ = write!(text, "\n{}", content.shown());
    }
    text
}

impl Letter {
    fn due(&self) -> String {
        match (self.state, self.due_in_ms) {
            (State::Dead, _) => "never".to_owned(),
            (State::Out, _) => "under way".to_owned(),
            (State::Behind, _) => "after others".to_owned(),
            (State::Waiting, Some(ms @ 1..)) => format!("in {}", rough(ms.div_ceil(1000))),
            (State::Waiting, _) => "now".to_owned(),
        }
    }

    /// What will become of it.
    fn outlook(&self) -> String {
        let marked = self.doubt.as_ref().map(|mark| format!(", marked `{mark}`")).unwrap_or_default();
        match self.state {
            State::Dead => {
                "A dead letter: its last attempt has failed, and it waits for somebody to have it tried again, or to drop it."
                    .to_owned()
            }
            State::Out => "It is being delivered at this moment.".to_owned(),
            State::Behind => format!("It is delivered{marked} once the events of its line that came before it are done."),
            State::Waiting => format!("It is delivered when it is due{marked}."),
        }
    }
}

impl Content {
    /// As it would stand in a request.
    fn shown(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {}\n", harmless(value))).collect();
        let body = match (&self.body, &self.body_base64) {
            (Some(text), _) => harmless(text),
            (None, Some(code)) => format!("(not text; in base64)\n{code}"),
            (None, None) => String::new(),
        };
        format!("{} {}\n{headers}\n{body}", self.method, self.uri)
    }
}

/// A sender's text, with what a terminal would take for an order spelled out.
fn harmless(text: &str) -> String {
    let is_order = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    text.chars().map(|letter| if is_order(letter) { letter.escape_default().to_string() } else { letter.to_string() }).collect()
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A time in its two largest units: `2h 3m`.
pub(super) fn rough(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let first = units.iter().position(|(length, _)| seconds >= *length).unwrap_or(units.len() - 1);
    let mut rest = seconds;
    let mut words = Vec::new();
    for (length, unit) in units.iter().skip(first).take(2) {
        let count = rest / length;
        rest %= length;
        if count > 0 || words.is_empty() {
            words.push(format!("{count}{unit}"));
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(state: State, due_in_ms: Option<u64>) -> Letter {
        Letter {
            letter: "0192a0".to_owned(),
            event: Some("evt_1".to_owned()),
            state,
            attempt: 3,
            doubt: None,
            status: Some(503),
            queued_at: "2026-11-16T05:20:01.123Z".to_owned(),
            age_s: 7385,
            due_in_ms,
            bytes: 512,
            line: None,
            content: None,
        }
    }

    #[test]
    fn a_time_is_told_in_its_two_largest_units() {
        for (seconds, told) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m 1s"),
            (3600, "1h"),
            (3659, "1h"),
            (7385, "2h 3m"),
            (86_400, "1d"),
            (200_000, "2d 7h"),
        ] {
            assert_eq!(rough(seconds), told, "{seconds}");
        }
    }

    #[test]
    fn what_a_sender_wrote_gives_no_orders_to_a_terminal() {
        assert_eq!(harmless("{\n\t\"a\": \"\u{e9}\u{1b}[2J\u{9b}\"}\r\n"), "{\n\t\"a\": \"\u{e9}\\u{1b}[2J\\u{9b}\"}\r\n");
    }

    #[test]
    fn a_list_says_when_each_is_due() {
        let letters = [
            letter(State::Waiting, Some(249_001)),
            letter(State::Waiting, Some(0)),
            letter(State::Out, Some(9000)),
            Letter { event: None, status: None, ..letter(State::Behind, None) },
            letter(State::Dead, None),
        ];
        let expected = "\
age    attempt  status  due           event  letter
2h 3m  3        503     in 4m 10s     evt_1  0192a0
2h 3m  3        503     now           evt_1  0192a0
2h 3m  3        503     under way     evt_1  0192a0
2h 3m  3        -       after others  -      0192a0
2h 3m  3        503     never         evt_1  0192a0
";
        assert_eq!(list(&letters), expected);
    }
}
