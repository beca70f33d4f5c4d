//! Typed reading of the tree. Each key is asked for by name; what goes wrong is noted and reading goes on,
//! so that one run tells everything. What nobody asked for is an unknown key.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use super::problem::{Origin, Problem, Problems};
use super::tree::{Node, Table, Value};

/// The variables of the process, taken once. Tests make their own.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, String>);

/// Names only: any of the values may be a secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

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
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    pub table: &'a Table,
    pub path: String,
}

/// What a section that nobody wrote is read from.
static UNWRITTEN: Table = Table { entries: Vec::new(), origin: Origin::Builtin };

/// Reads the keys of one section: from its own layer, or from the first one below that has them.
///
/// `finish` goes through the section's own keys. The layers below belong to others and have readers of their own.
#[derive(Debug)]
pub struct Reader<'a> {
    own: Layer<'a>,
    below: Vec<Layer<'a>>,
    problems: &'a Problems,
    environment: &'a Environment,
    asked: RefCell<Vec<&'static str>>,
    refused: RefCell<Vec<Refused>>,
}

/// Keys that are known and cannot be used here, with the reason.
#[derive(Debug)]
struct Refused {
    keys: &'static [&'static str],
    what: &'static str,
    help: &'static str,
}

impl<'a> Reader<'a> {
    pub fn new(own: Layer<'a>, problems: &'a Problems, environment: &'a Environment) -> Self {
        let (asked, refused) = (RefCell::default(), RefCell::default());
        Self { own, below: Vec::new(), problems, environment, asked, refused }
    }

    /// Adds a layer below all others.
    pub fn lay_under(&mut self, layer: Layer<'a>) {
        self.below.push(layer);
    }

    pub fn own(&self) -> &Layer<'a> {
        &self.own
    }

    /// A reader of one table found while reading another.
    pub fn of_table(table: &'a Table, at: &At<'a>) -> Self {
        Self::new(Layer { table, path: at.key.clone() }, at.problems, at.environment)
    }

    /// A reader of the table under `key`; of an empty one where it is not written.
    pub fn section(&self, key: &'static str) -> Self {
        let table = match self.node(key) {
            Some((Node { value: Value::Table(table), .. }, _)) => table,
            Some((node, at)) => {
                at.wrong_type(node, "a table", &format!("[{}] and its keys below it", at.key));
                &UNWRITTEN
            }
            None => &UNWRITTEN,
        };
        Self::of_table(table, &self.at(key))
    }

    /// The place of `key` in the section's own layer.
    pub fn at(&self, key: &str) -> At<'a> {
        At { key: join(&self.own.path, key), problems: self.problems, environment: self.environment }
    }

    /// Where the section itself begins.
    pub fn origin(&self) -> Origin {
        self.own.table.origin.clone()
    }

    /// The node under `key`, with the place to name in messages.
    pub fn node(&self, key: &'static str) -> Option<(&'a Node, At<'a>)> {
        self.asked.borrow_mut().push(key);
        let mut layers = std::iter::once(&self.own).chain(&self.below);
        let (layer, node) = layers.find_map(|layer| Some((layer, layer.table.get(key)?)))?;
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
            self.problems.error(self.at(key).problem(self.written_at(), "is missing", help));
        }
        self.found(key)
    }

    /// Where the section begins, if somebody wrote it.
    pub fn written_at(&self) -> Option<Origin> {
        Some(self.origin()).filter(|origin| *origin != Origin::Builtin)
    }

    /// Keys that are known and have no place in this section.
    pub fn refuse(&self, keys: &'static [&'static str], what: &'static str, help: &'static str) {
        self.refused.borrow_mut().push(Refused { keys, what, help });
    }

    /// Notes every key of the section that nobody asked for.
    pub fn finish(self) {
        let (asked, refused) = (self.asked.into_inner(), self.refused.into_inner());
        for key in &asked {
            self.problems.asked(join(&self.own.path, key));
        }
        for entry in self.own.table.entries.iter().filter(|entry| !asked.contains(&entry.key.as_str())) {
            let (what, help) = match refused.iter().find(|refused| refused.keys.contains(&entry.key.as_str())) {
                Some(refused) => (refused.what.to_owned(), refused.help.to_owned()),
                None => ("is not a known key".to_owned(), nearest(&entry.key, &asked)),
            };
            let key = join(&self.own.path, &entry.key);
            self.problems.error(Problem { key, origin: Some(entry.origin.clone()), what, help });
        }
    }
}

/// More names than this are no hint.
const LISTED_MAX: usize = 48;

/// A hint for a misspelt name: the nearest of those known, or all of them.
pub fn nearest(name: &str, known: &[&str]) -> String {
    let mut known: Vec<&str> = known.to_vec();
    known.sort_unstable();
    known.dedup();
    match misspelt(name, &known) {
        Some(other) => format!("did you mean `{other}`?"),
        None if known.is_empty() => "remove it".to_owned(),
        None if known.len() > LISTED_MAX => format!("there are {} of them, none with a name like that", known.len()),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// The known name that `name` is probably a misspelling of.
pub fn misspelt<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let (steps, other) = known.iter().map(|other| (distance(name, other), *other)).min()?;
    (steps <= 2.max(name.len() / 3)).then_some(other)
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

/// An enum that is written as one of a few words.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
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

        impl $crate::config::written::AsWritten for $name {
            fn as_written(&self) -> String {
                $crate::config::written::quoted(self.as_str())
            }
        }

        impl $crate::config::reader::FromNode for $name {
            fn from_node(node: &$crate::config::tree::Node, at: &$crate::config::reader::At<'_>) -> Option<Self> {
                let text = <String as $crate::config::reader::FromNode>::from_node(node, at)?;
                match text.as_str() {
                    $($word => return Some(Self::$variant),)+
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
