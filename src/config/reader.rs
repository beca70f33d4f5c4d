//! Typed reading of the tree. Each key is asked for by name; what goes wrong is noted and reading goes on,
//! so that one run tells everything. What nobody asked for is an unknown key.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use super::problem::{Origin, Problem, Problems};
use super::tree::{Node, Table, Value};
use super::units::{self, Size};

/// The variables of the process, taken once. Tests make their own.
#[derive(Clone, Debug, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the process's environment")]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    pub fn var(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(vars: [(&str, &str); N]) -> Self {
        Self(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }
}

/// A key's place while it is read: what messages need, and where they go.
#[derive(Clone, Debug)]
pub struct At<'a> {
    pub key: String,
    pub problems: &'a Problems,
    pub environment: &'a Environment,
}

impl At<'_> {
    pub fn error(&self, node: &Node, what: impl Into<String>, help: impl Into<String>) {
        self.problems.error(self.problem(Some(node.origin.clone()), what, help));
    }

    pub fn warn(&self, origin: &Origin, what: impl Into<String>, help: impl Into<String>) {
        self.problems.warn(self.problem(Some(origin.clone()), what, help));
    }

    pub fn problem(&self, origin: Option<Origin>, what: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { key: self.key.clone(), origin, what: what.into(), help: help.into() }
    }

    pub fn wrong_type(&self, node: &Node, wanted: &str, example: &str) {
        self.error(node, format!("must be {wanted}, not {}", node.value.kind()), format!("write {example}"));
    }

    /// The same place, one level down.
    pub fn inner(&self, step: &str) -> Self {
        Self { key: join(&self.key, step), problems: self.problems, environment: self.environment }
    }
}

fn join(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") }
}

/// What can be read from a node. A failure has been noted when `None` comes back.
pub trait FromNode: Sized {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self>;
}

/// A value and where it came from.
#[derive(Clone, Debug)]
pub struct Found<T> {
    pub value: T,
    pub origin: Origin,
}

/// One table of a section, with the path under which messages name it.
#[derive(Debug)]
pub struct Layer<'a> {
    pub table: &'a Table,
    pub path: String,
}

/// Reads the keys of one section: from its first layer that has them.
#[derive(Debug)]
pub struct Reader<'a> {
    layers: Vec<Layer<'a>>,
    problems: &'a Problems,
    environment: &'a Environment,
    asked: RefCell<Vec<&'static str>>,
    pending: RefCell<Vec<&'static str>>,
}

impl<'a> Reader<'a> {
    pub fn new(layers: Vec<Layer<'a>>, problems: &'a Problems, environment: &'a Environment) -> Self {
        Self { layers, problems, environment, asked: RefCell::default(), pending: RefCell::default() }
    }

    /// A reader of one table found while reading another.
    pub fn of_table(table: &'a Table, at: &At<'a>) -> Self {
        Self::new(vec![Layer { table, path: at.key.clone() }], at.problems, at.environment)
    }

    /// The place of `key` in the section's own layer.
    pub fn at(&self, key: &str) -> At<'a> {
        let path = self.layers.first().map_or("", |layer| &layer.path);
        At { key: join(path, key), problems: self.problems, environment: self.environment }
    }

    /// Where the section itself begins.
    pub fn origin(&self) -> Origin {
        self.layers.first().map_or(Origin::Builtin, |layer| layer.table.origin.clone())
    }

    /// The node under `key`, with the place to name in messages.
    pub fn node(&self, key: &'static str) -> Option<(&'a Node, At<'a>)> {
        self.asked.borrow_mut().push(key);
        let (layer, node) = self.layers.iter().find_map(|layer| Some((layer, layer.table.get(key)?)))?;
        let at = At { key: join(&layer.path, key), problems: self.problems, environment: self.environment };
        Some((node, at))
    }

    pub fn has(&self, key: &'static str) -> bool {
        self.node(key).is_some()
    }

    pub fn found<T: FromNode>(&self, key: &'static str) -> Option<Found<T>> {
        let (node, at) = self.node(key)?;
        Some(Found { value: T::from_node(node, &at)?, origin: node.origin.clone() })
    }

    pub fn get<T: FromNode>(&self, key: &'static str) -> Option<T> {
        self.found(key).map(|found| found.value)
    }

    /// The value, or the default where the key is not set. A wrong value has been noted and counts as not set.
    pub fn or<T: FromNode>(&self, key: &'static str, default: T) -> Found<T> {
        self.found(key).unwrap_or(Found { value: default, origin: Origin::Builtin })
    }

    /// The value of a key that must be set.
    pub fn require<T: FromNode>(&self, key: &'static str, help: &str) -> Option<Found<T>> {
        if !self.has(key) {
            self.problems.error(self.at(key).problem(Some(self.origin()), "is missing", help));
        }
        self.found(key)
    }

    /// Keys that are part of the design and not built yet: refused by name, never ignored.
    pub fn pending(&self, keys: &[&'static str]) {
        self.pending.borrow_mut().extend_from_slice(keys);
    }

    /// Notes every key that nobody asked for.
    pub fn finish(self) {
        let (asked, pending) = (self.asked.into_inner(), self.pending.into_inner());
        for layer in &self.layers {
            for entry in &layer.table.entries {
                let key = entry.key.as_str();
                if asked.contains(&key) {
                    continue;
                }
                let (what, help) = if pending.contains(&key) {
                    ("is not built yet".to_owned(), "remove the key; this version would not act on it".to_owned())
                } else {
                    ("is not a known key".to_owned(), nearest(key, &asked))
                };
                self.problems.error(Problem { key: join(&layer.path, key), origin: Some(entry.origin.clone()), what, help });
            }
        }
    }
}

/// A hint for a misspelt name: the nearest of those known, or all of them.
pub fn nearest(name: &str, known: &[&str]) -> String {
    let mut known: Vec<&str> = known.to_vec();
    known.sort_unstable();
    known.dedup();
    match known.iter().map(|other| (distance(name, other), other)).min() {
        Some((steps, other)) if steps <= 2.max(name.len() / 3) => format!("did you mean `{other}`?"),
        _ if known.is_empty() => "remove it".to_owned(),
        _ => format!("known here: {}", known.join(", ")),
    }
}

/// Edit distance, for names of a few dozen letters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let here = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], here);
        }
    }
    row[b.len()]
}

impl FromNode for String {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::Text(text) | Value::Loose(text) => Some(text.clone()),
            _ => {
                at.wrong_type(node, "a string", "it in quotes");
                None
            }
        }
    }
}

impl FromNode for u64 {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let number = match &node.value {
            Value::Integer(number) => Self::try_from(*number).ok(),
            Value::Loose(text) => text.trim().parse().ok(),
            _ => {
                at.wrong_type(node, "a whole number", "it without quotes");
                return None;
            }
        };
        if number.is_none() {
            at.error(node, "must be a whole number, nought or more", "write it in digits, without a sign");
        }
        number
    }
}

impl FromNode for usize {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        u64::from_node(node, at).and_then(|number| Self::try_from(number).ok())
    }
}

impl FromNode for bool {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::Bool(flag) => Some(*flag),
            Value::Loose(text) if matches!(text.trim(), "true" | "false") => Some(text.trim() == "true"),
            _ => {
                at.wrong_type(node, "true or false", "true or false, without quotes");
                None
            }
        }
    }
}

impl FromNode for Duration {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let help = "write a number with its unit, in quotes: \"250ms\", \"15s\", \"5m\", \"72h\", \"7d\"";
        match &node.value {
            Value::Text(text) | Value::Loose(text) => {
                let read = units::duration(text);
                if read.is_none() {
                    at.error(node, format!("is not a duration: \"{text}\""), help);
                }
                read
            }
            Value::Integer(_) => {
                at.error(node, "is a duration without a unit", help);
                None
            }
            _ => {
                at.error(node, format!("must be a duration, not {}", node.value.kind()), help);
                None
            }
        }
    }
}

impl FromNode for Size {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let help = "write a number with its unit, in quotes: \"64KiB\", \"25MiB\"";
        let read = match &node.value {
            Value::Text(text) | Value::Loose(text) => units::size(text),
            _ => None,
        };
        if read.is_none() {
            at.error(node, "is not a size with a unit", help);
        }
        read
    }
}

impl<T: FromNode> FromNode for Vec<T> {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::List(items) => {
                let read: Vec<Option<T>> = items.iter().map(|item| T::from_node(item, at)).collect();
                read.into_iter().collect()
            }
            // A variable holds one text: a TOML list, or a single item.
            Value::Loose(text) if text.trim_start().starts_with('[') => {
                let list = loose_list(text, node, at)?;
                Self::from_node(&list, at)
            }
            Value::Loose(_) => Some(vec![T::from_node(node, at)?]),
            _ => {
                at.wrong_type(node, "a list", "it in square brackets: [ ... ]");
                None
            }
        }
    }
}

fn loose_list(text: &str, node: &Node, at: &At<'_>) -> Option<Node> {
    let problems = Problems::default();
    let table = super::tree::parse(&format!("value = {text}"), |_| node.origin.clone(), &problems);
    let list = table.get("value").filter(|_| problems.is_empty()).cloned();
    if list.is_none() {
        at.error(node, "is not a TOML list", "write it as in the file: [\"a\", \"b\"]");
    }
    list
}

/// An enum that is written as one of a few words. Words after `pending` are designed and not built yet.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? } $(pending { $($later:literal),+ $(,)? })?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            #[allow(dead_code, reason = "not every choice is written out again")]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::config::reader::FromNode for $name {
            fn from_node(node: &$crate::config::tree::Node, at: &$crate::config::reader::At<'_>) -> Option<Self> {
                let text = <String as $crate::config::reader::FromNode>::from_node(node, at)?;
                match text.as_str() {
                    $($word => return Some(Self::$variant),)+
                    $($($later => at.error(node, format!("\"{text}\" is not built yet"), $crate::config::reader::one_of(Self::WORDS)),)+)?
                    _ => at.error(node, format!("\"{text}\" is not a choice here"), $crate::config::reader::one_of(Self::WORDS)),
                }
                None
            }
        }
    };
}
pub(crate) use choices;

/// "write one of "a", "b"", for messages.
pub fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    if let [only] = quoted.as_slice() { format!("write {only}") } else { format!("write one of {}", quoted.join(", ")) }
}
