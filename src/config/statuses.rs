//! HTTP statuses and sets of them, written as `409` or `"2xx"`.

use std::collections::BTreeMap;

use http::StatusCode;

use super::reader::{At, FromNode};
use super::tree::{Node, Value};
use super::written::{AsWritten, quoted};

/// A set of statuses, written as `"2xx"` or `409`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<StatusRange>);

/// Statuses from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    pub first: u16,
    pub last: u16,
}

/// What a final answer may carry; 1xx never ends a call.
const FINAL: StatusRange = StatusRange { first: 200, last: 599 };

impl Statuses {
    /// `"2xx"`: the consumer took the event.
    pub fn success() -> Self {
        Self(vec![StatusRange::of_class(2)])
    }

    pub fn contains(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(status.as_u16()))
    }

    /// The first status that is in both sets.
    pub fn overlap(&self, other: &Self) -> Option<u16> {
        let shared = self.0.iter().flat_map(|a| other.0.iter().filter_map(|b| a.overlap(*b)));
        shared.min()
    }
}

impl StatusRange {
    fn of_class(class: u16) -> Self {
        Self { first: class * 100, last: class * 100 + 99 }
    }

    fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    fn overlap(self, other: Self) -> Option<u16> {
        let first = self.first.max(other.first);
        (first <= self.last.min(other.last)).then_some(first)
    }

    fn parse(text: &str) -> Option<Self> {
        let range = match text.strip_suffix("xx") {
            Some(class) => Self::of_class(class.parse().ok().filter(|class| (1..=9).contains(class))?),
            None => text.parse().map(|status| Self { first: status, last: status }).ok()?,
        };
        (FINAL.contains(range.first) && FINAL.contains(range.last)).then_some(range)
    }
}

impl FromNode for Statuses {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let ranges = Vec::from_node(node, at)?;
        if ranges.is_empty() {
            at.error(node, "is empty", "write at least one status: [\"2xx\", 409]");
            return None;
        }
        Some(Self(ranges))
    }
}

impl FromNode for StatusRange {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let text = match &node.value {
            Value::Text(text) | Value::Loose(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => other.kind().to_owned(),
        };
        let range = Self::parse(text.trim());
        if range.is_none() {
            at.error(
                node,
                format!("is not a final status: {text}"),
                "write a class, \"2xx\" to \"5xx\", or a number, 200 to 599",
            );
        }
        range
    }
}

impl FromNode for StatusCode {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let number = u64::from_node(node, at)?;
        let status = u16::try_from(number).ok().and_then(|number| Self::from_u16(number).ok());
        if status.is_none() {
            at.error(node, format!("is not an HTTP status: {number}"), "write a number of three digits");
        }
        status
    }
}

/// Statuses with what they mean: `{ 410 = "ends the subscription" }`.
impl FromNode for BTreeMap<u16, String> {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ 410 = \"what it means\" }");
            return None;
        };
        let read = table.entries.iter().map(|entry| {
            let status = StatusRange::parse(&entry.key).filter(|range| range.first == range.last);
            if status.is_none() {
                at.error(&entry.node, format!("is not a final status: {}", entry.key), "write the status as the key, 200 to 599");
            }
            let meaning = String::from_node(&entry.node, &at.inner(&entry.key));
            Some((status?.first, meaning?))
        });
        read.collect::<Vec<_>>().into_iter().collect()
    }
}

impl AsWritten for Statuses {
    fn as_written(&self) -> String {
        self.0.as_written()
    }
}

impl AsWritten for StatusRange {
    fn as_written(&self) -> String {
        if self.first == self.last { self.first.to_string() } else { quoted(&format!("{}xx", self.first / 100)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str]) -> Statuses {
        Statuses(words.iter().map(|word| StatusRange::parse(word).unwrap()).collect())
    }

    #[test]
    fn classes_and_numbers_are_read_and_written_alike() {
        for word in ["2xx", "5xx"] {
            assert_eq!(StatusRange::parse(word).unwrap().as_written(), quoted(word));
        }
        assert_eq!(StatusRange::parse("409").unwrap().as_written(), "409");
        for wrong in ["", "xx", "1xx", "6xx", "22xx", "100", "600", "-1", "2x", "2XX"] {
            assert_eq!(StatusRange::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn overlap_names_the_first_shared_status() {
        assert_eq!(set(&["2xx", "409"]).overlap(&set(&["4xx"])), Some(409));
        assert_eq!(set(&["2xx"]).overlap(&set(&["3xx", "4xx", "5xx"])), None);
        assert!(set(&["2xx"]).contains(StatusCode::NO_CONTENT));
        assert!(!set(&["2xx"]).contains(StatusCode::NOT_MODIFIED));
    }
}
