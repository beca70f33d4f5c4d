//! What is wrong with a configuration: every problem at once, each with its key, its place and what to write instead;
//! and what else is noted while one is read.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::files::Files;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the configuration file, counted from one.
    File { line: usize },
    /// An environment variable, by name.
    Env(String),
    /// A command line flag.
    Flag(&'static str),
    /// A preset that ships with the program.
    Preset(&'static str),
    /// Nobody wrote it: the program's own default.
    Builtin,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { line } => write!(f, "line {line}"),
            Self::Env(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::Builtin => write!(f, "default"),
        }
    }
}

/// One thing that is wrong. It never holds a secret's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, dotted from the top: `providers.stripe.lease`.
    pub key: String,
    pub origin: Option<Origin>,
    /// What is wrong, in a few words.
    pub what: String,
    /// What to write instead.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.what)?;
        if !self.help.is_empty() {
            write!(f, "\n    {}", self.help)?;
        }
        Ok(())
    }
}

/// Problems as they are printed: one below the other, each with what it is.
#[derive(Debug)]
pub struct Report<'a> {
    /// "error" or "warning".
    pub word: &'static str,
    pub problems: &'a [Problem],
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.iter().try_for_each(|problem| writeln!(f, "{}: {problem}", self.word))
    }
}

/// The problems and warnings found so far. Reading goes on after each.
#[derive(Debug, Default)]
pub struct Problems {
    errors: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
    /// Every key that was asked for: what the example and the documentation are held against.
    asked: RefCell<BTreeSet<String>>,
    files: RefCell<Files>,
}

impl Problems {
    /// Adds a problem. The same one said twice (a default read for two providers) is kept once.
    pub fn error(&self, problem: Problem) {
        keep_once(&self.errors, problem);
    }

    /// Adds something that works but is worth a second look.
    pub fn warn(&self, problem: Problem) {
        keep_once(&self.warnings, problem);
    }

    /// Notes what was found in a file that the configuration names; nothing where it could not be read.
    pub fn was_read(&self, path: &Path, content: Option<&[u8]>) {
        self.files.borrow_mut().note(path, content);
    }

    pub fn files(&self) -> Files {
        self.files.borrow().clone()
    }

    pub fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub fn asked(&self, key: String) {
        self.asked.borrow_mut().insert(key);
    }

    pub fn into_asked(self) -> BTreeSet<String> {
        self.asked.into_inner()
    }

    /// Errors and warnings, each in the order of the file.
    pub fn into_parts(self) -> (Vec<Problem>, Vec<Problem>) {
        (in_file_order(self.errors.into_inner()), in_file_order(self.warnings.into_inner()))
    }
}

fn keep_once(list: &RefCell<Vec<Problem>>, problem: Problem) {
    let mut list = list.borrow_mut();
    if !list.contains(&problem) {
        list.push(problem);
    }
}

fn in_file_order(mut list: Vec<Problem>) -> Vec<Problem> {
    list.sort_by_key(|problem| match problem.origin {
        Some(Origin::File { line }) => line,
        _ => usize::MAX,
    });
    list
}
