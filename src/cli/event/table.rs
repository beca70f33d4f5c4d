//! Events for people, one a line.

use super::Event;
use crate::cli::table::table;

const COLUMNS: [&str; 7] = ["event", "state", "attempt", "status", "doubt", "when", "remembered until"];

pub(super) fn of(events: &[Event]) -> String {
    table(COLUMNS, events.iter().map(row))
}

fn row(event: &Event) -> [String; 7] {
    let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    [
        event.id.clone(),
        event.state.clone(),
        event.attempt.to_string(),
        match event.status {
            _ if event.dropped => "dropped".to_owned(),
            Some(status) => status.to_string(),
            None => or_dash(None),
        },
        or_dash(event.doubt.as_deref()),
        to_second(&event.at),
        event.remembered_until.as_deref().map_or_else(|| "for ever".to_owned(), to_second),
    ]
}

/// RFC 3339 without the part behind the second: nobody plans by milliseconds.
fn to_second(time: &str) -> String {
    time.split_once('.').map_or(time, |(second, _)| second).trim_end_matches('Z').replace('T', " ") + " UTC"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let event = |id: &str, status| Event {
            id: id.to_owned(),
            state: "done".to_owned(),
            attempt: 12,
            status,
            dropped: false,
            doubt: None,
            at: "2026-11-16T05:20:01.123Z".to_owned(),
            remembered_until: Some("2026-11-19T05:20:01Z".to_owned()),
            lease_left_ms: None,
        };
        let expected = "\
event        state  attempt  status  doubt  when                     remembered until
e1           done   12       200     -      2026-11-16 05:20:01 UTC  2026-11-19 05:20:01 UTC
a-longer-id  done   12       -       -      2026-11-16 05:20:01 UTC  2026-11-19 05:20:01 UTC
";
        assert_eq!(of(&[event("e1", Some(200)), event("a-longer-id", None)]), expected);
    }
}
