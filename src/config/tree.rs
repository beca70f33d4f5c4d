//! The configuration as it was written: a tree of values, each knowing its origin.
//!
//! A file, the environment, flags and presets all become the same tree, so that one reader serves them all.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::problem::{Origin, Problem, Problems};

/// A value with its origin.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    /// Text of a variable or a flag: it is read as whatever type the key asks for.
    Loose(String),
    Integer(i64),
    Bool(bool),
    List(Vec<Node>),
    Table(Table),
    /// A float or a date: no key takes one.
    Foreign(&'static str),
}

impl Value {
    /// The value's type in words, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Loose(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Bool(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Foreign(kind) => kind,
        }
    }
}

/// Keys and values in the order they were written.
#[derive(Clone, Debug)]
pub struct Table {
    pub entries: Vec<Entry>,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub origin: Origin,
    pub node: Node,
}

impl Table {
    pub fn empty(origin: Origin) -> Self {
        Self { entries: Vec::new(), origin }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The table under `key`, if the value there is one.
    pub fn table(&self, key: &str) -> Option<&Table> {
        match &self.get(key)?.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Writes `value` at `path`, making tables on the way and replacing what is there.
    pub fn set(&mut self, path: &[&str], value: Value, origin: &Origin) {
        let Some((first, rest)) = path.split_first() else { return };
        let index = match self.entries.iter().position(|entry| entry.key == *first) {
            Some(index) => index,
            None => {
                let node = Node { value: Value::Table(Self::empty(origin.clone())), origin: origin.clone() };
                self.entries.push(Entry { key: (*first).to_owned(), origin: origin.clone(), node });
                self.entries.len() - 1
            }
        };
        let node = &mut self.entries[index].node;
        if rest.is_empty() {
            *node = Node { value, origin: origin.clone() };
            return;
        }
        if !matches!(node.value, Value::Table(_)) {
            *node = Node { value: Value::Table(Self::empty(origin.clone())), origin: origin.clone() };
        }
        if let Value::Table(table) = &mut node.value {
            table.set(rest, value, origin);
        }
    }
}

/// Parses TOML text. Syntax errors go to `problems`, and what could be read is given back all the same.
pub fn parse(text: &str, origin: impl Fn(usize) -> Origin, problems: &Problems) -> Table {
    let lines = Lines::of(text);
    let place = |span: Range<usize>| origin(lines.number(span.start));
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        problems.error(Problem {
            key: String::new(),
            origin: error.span().map(place),
            what: format!("not TOML: {}", error.message()),
            help: "strings need quotes; each key may be set once".to_owned(),
        });
    }
    table_of(root.into_inner(), origin(1), &place)
}

fn table_of(table: DeTable<'_>, origin: Origin, place: &impl Fn(Range<usize>) -> Origin) -> Table {
    let mut entries: Vec<(usize, Entry)> = table
        .into_iter()
        .map(|(key, value)| {
            let start = key.span().start;
            let entry = Entry { origin: place(key.span()), key: key.into_inner().into_owned(), node: node_of(value, place) };
            (start, entry)
        })
        .collect();
    entries.sort_by_key(|(start, _)| *start);
    Table { entries: entries.into_iter().map(|(_, entry)| entry).collect(), origin }
}

fn node_of(value: toml::Spanned<DeValue<'_>>, place: &impl Fn(Range<usize>) -> Origin) -> Node {
    let origin = place(value.span());
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Foreign("a number too large"), Value::Integer)
        }
        DeValue::Float(_) => Value::Foreign("a float"),
        DeValue::Boolean(flag) => Value::Bool(flag),
        DeValue::Datetime(_) => Value::Foreign("a date"),
        DeValue::Array(items) => Value::List(items.into_iter().map(|item| node_of(item, place)).collect()),
        DeValue::Table(table) => Value::Table(table_of(table, origin.clone(), place)),
    };
    Node { value, origin }
}

/// Where each line starts, to turn an offset into a line number.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    fn number(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= offset)
    }
}

/// Lays `HOOKONCE__STORE__URL`-like variables over the tree. Names are lower-cased; `__` separates the levels.
///
/// Provider names may hold `-`, which a variable's name cannot: an existing key that is equal but for `-` is taken.
pub fn lay_environment<'v>(root: &mut Table, vars: impl Iterator<Item = (&'v str, &'v str)>) {
    let mut found: Vec<_> = vars.filter_map(|(name, value)| Some((name, name.strip_prefix("HOOKONCE__")?, value))).collect();
    found.sort_unstable();
    for (name, rest, value) in found {
        let path: Vec<String> = rest.to_ascii_lowercase().split("__").map(str::to_owned).collect();
        let path = spelled_as_written(root, &path);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        root.set(&path, Value::Loose(value.to_owned()), &Origin::Env(name.to_owned()));
    }
}

fn spelled_as_written(root: &Table, path: &[String]) -> Vec<String> {
    let mut table = Some(root);
    path.iter()
        .map(|step| {
            let entry = table.and_then(|t| t.entries.iter().find(|e| e.key.to_ascii_lowercase().replace('-', "_") == *step));
            table = entry.and_then(|e| match &e.node.value {
                Value::Table(inner) => Some(inner),
                _ => None,
            });
            entry.map_or_else(|| step.clone(), |e| e.key.clone())
        })
        .collect()
}
