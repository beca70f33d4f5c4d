//! Reading of plain values: strings, numbers, durations, sizes and lists of them.

use std::time::Duration;

use super::problem::Problems;
use super::reader::{At, FromNode};
use super::tree::{self, Node, Value};
use super::units::{self, Size};

/// What is wrong with a text, and what to write instead.
#[derive(Debug)]
pub struct Fault {
    pub what: String,
    pub help: String,
}

impl Fault {
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }
}

/// Reads a text with `parse` and notes what it finds wrong.
pub fn from_text<T>(node: &Node, at: &At<'_>, parse: impl FnOnce(&str) -> Result<T, Fault>) -> Option<T> {
    let text = String::from_node(node, at)?;
    parse(&text).map_err(|fault| at.error(node, fault.what, fault.help)).ok()
}

/// A text that has to pass a check, which may also bring it into its normal form.
macro_rules! checked_text {
    ($(#[$meta:meta])* $name:ident by $check:path) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name(pub String);

        impl $crate::config::reader::FromNode for $name {
            fn from_node(node: &$crate::config::tree::Node, at: &$crate::config::reader::At<'_>) -> Option<Self> {
                $crate::config::scalar::from_text(node, at, $check).map(Self)
            }
        }

        impl $crate::config::written::AsWritten for $name {
            fn as_written(&self) -> String {
                $crate::config::written::quoted(&self.0)
            }
        }
    };
}
pub(crate) use checked_text;

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
            at.error(node, "must be a whole number, 0 or more", "write it in digits, without a sign");
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
    let table = tree::parse(&format!("value = {text}"), |_| node.origin.clone(), &problems);
    let list = table.get("value").filter(|_| problems.is_empty()).cloned();
    if list.is_none() {
        at.error(node, "is not a TOML list", "write it as in the file: [\"a\", \"b\"]");
    }
    list
}

/// A value that the word "none" switches off, wherever a layer below has set it.
#[derive(Clone, Copy, Debug)]
pub struct OrNone<T>(pub Option<T>);

impl<T: FromNode> FromNode for OrNone<T> {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::Text(text) | Value::Loose(text) if text == "none" => Some(Self(None)),
            _ => T::from_node(node, at).map(|value| Self(Some(value))),
        }
    }
}
