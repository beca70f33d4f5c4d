//! Reads the settings of one section, and keeps how each came out and where it was written.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use crate::config::Setting;
use crate::config::problem::{Origin, Problem};
use crate::config::reader::{At, Found, FromNode, Layer, Reader};
use crate::config::tree::Node;
use crate::config::written::AsWritten;

/// How a setting is shown that nobody set and that has no default.
pub(super) const NOT_SET: &str = "not set";

pub(super) struct Section<'a> {
    reader: Reader<'a>,
    settings: RefCell<Vec<Setting>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(reader: Reader<'a>) -> Self {
        Self { reader, settings: RefCell::default() }
    }

    /// The section under `key`; an empty one where it is not written.
    pub(super) fn section(&self, key: &'static str) -> Self {
        Self::new(self.reader.section(key))
    }

    /// Adds a layer below all others.
    pub(super) fn lay_under(&mut self, layer: Layer<'a>) {
        self.reader.lay_under(layer);
    }

    pub(super) fn reader(&self) -> &Reader<'a> {
        &self.reader
    }

    pub(super) fn has(&self, key: &'static str) -> bool {
        self.reader.has(key)
    }

    pub(super) fn node(&self, key: &'static str) -> Option<(&'a Node, At<'a>)> {
        self.reader.node(key)
    }

    /// The value, or its default.
    pub(super) fn or<T: FromNode + AsWritten>(&self, key: &'static str, default: T) -> T {
        let found = self.reader.or(key, default);
        self.note(key, found.value.as_written(), found.origin);
        found.value
    }

    /// The value, or its default; what lies outside of `range` is refused and counts as not set.
    pub(super) fn within<T>(&self, key: &'static str, default: T, range: RangeInclusive<T>) -> T
    where
        T: FromNode + AsWritten + PartialOrd + Copy,
    {
        let value = self.or(key, default);
        if range.contains(&value) {
            return value;
        }
        let (least, most) = (range.start().as_written(), range.end().as_written());
        self.refuse(key, format!("is out of bounds: {}", value.as_written()), format!("write {least} to {most}"));
        default
    }

    /// The value, or its default; what lies below `least` is refused and counts as not set.
    pub(super) fn at_least<T>(&self, key: &'static str, default: T, least: T) -> T
    where
        T: FromNode + AsWritten + PartialOrd + Copy,
    {
        let value = self.or(key, default);
        if value >= least {
            return value;
        }
        self.refuse(key, format!("is too small: {}", value.as_written()), format!("write {} or more", least.as_written()));
        default
    }

    /// The value of a key that has no default.
    pub(super) fn optional<T: FromNode + AsWritten>(&self, key: &'static str) -> Option<T> {
        self.found(key).map(|found| found.value)
    }

    /// The value of a key that has no default, and where it was written.
    pub(super) fn found<T: FromNode + AsWritten>(&self, key: &'static str) -> Option<Found<T>> {
        let found = self.reader.found::<T>(key);
        match &found {
            Some(found) => self.note(key, found.value.as_written(), found.origin.clone()),
            None => self.note(key, NOT_SET.to_owned(), Origin::Builtin),
        }
        found
    }

    /// The value of a key that must be set.
    pub(super) fn require<T: FromNode + AsWritten>(&self, key: &'static str, help: &str) -> Option<T> {
        let found = self.reader.require::<T>(key, help)?;
        self.note(key, found.value.as_written(), found.origin);
        Some(found.value)
    }

    /// The value of a key that is shown as it was written, or as `unset`.
    pub(super) fn verbatim<T: FromNode>(&self, key: &'static str, unset: &str) -> Option<T> {
        let Some((node, at)) = self.node(key) else {
            self.note(key, unset.to_owned(), Origin::Builtin);
            return None;
        };
        self.note(key, node.as_written(), node.origin.clone());
        T::from_node(node, &at)
    }

    pub(super) fn note(&self, key: &'static str, value: String, origin: Origin) {
        self.settings.borrow_mut().push(Setting { key, value, origin });
    }

    /// Notes that a value is wrong by itself, under the key and in the layer it was written in.
    pub(super) fn refuse(&self, key: &'static str, what: impl Into<String>, help: impl Into<String>) {
        if let Some((node, at)) = self.node(key) {
            at.error(node, what, help);
        }
    }

    /// Notes that a value does not go with others of this section.
    pub(super) fn error(&self, key: &'static str, what: impl Into<String>, help: impl Into<String>) {
        let problem = self.problem(key, what, help);
        self.reader.at(key).problems.error(problem);
    }

    pub(super) fn warn(&self, key: &'static str, what: impl Into<String>, help: impl Into<String>) {
        let problem = self.problem(key, what, help);
        self.reader.at(key).problems.warn(problem);
    }

    /// What nobody wrote is named by where its section begins.
    fn problem(&self, key: &'static str, what: impl Into<String>, help: impl Into<String>) -> Problem {
        let written = self.origin_of(key).filter(|origin| *origin != Origin::Builtin);
        self.reader.at(key).problem(written.or_else(|| self.reader.written_at()), what, help)
    }

    /// Of keys that do not go together, the one to name: the first that somebody wrote.
    pub(super) fn written_of(&self, keys: &[&'static str]) -> &'static str {
        let is_written = |key: &&&'static str| !matches!(self.origin_of(key), None | Some(Origin::Builtin | Origin::Preset(_)));
        keys.iter().find(is_written).or(keys.first()).copied().unwrap_or_default()
    }

    fn origin_of(&self, key: &str) -> Option<Origin> {
        self.settings.borrow().iter().find(|setting| setting.key == key).map(|setting| setting.origin.clone())
    }

    /// Refuses the keys nobody asked for, and gives back the settings in the order they were read.
    pub(super) fn finish(self) -> Vec<Setting> {
        self.reader.finish();
        self.settings.into_inner()
    }
}
