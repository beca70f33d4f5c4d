//! Which part of a body tells two events with one id apart.

use super::reader::{At, FromNode, Reader};
use super::scalar::{Fault, checked_text};
use super::tree::{Node, Value};
use super::written::{AsWritten, quoted};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fingerprint {
    Body,
    /// Only these JSON pointers.
    Include(Vec<String>),
    /// The JSON body without these pointers.
    Exclude(Vec<String>),
}

const HELP: &str = "write \"body\", { include = [\"/pointer\"] } or { exclude = [\"/pointer\"] }";

impl FromNode for Fingerprint {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::Text(word) | Value::Loose(word) if word == "body" => Some(Self::Body),
            Value::Table(table) => of_fields(node, Reader::of_table(table, at), at),
            _ => {
                at.error(node, "is not a fingerprint", HELP);
                None
            }
        }
    }
}

fn of_fields(node: &Node, reader: Reader<'_>, at: &At<'_>) -> Option<Fingerprint> {
    let read = match (reader.has("include"), reader.has("exclude")) {
        (true, false) => reader.get::<Pointers>("include").map(|fields| Fingerprint::Include(fields.0)),
        (false, true) => reader.get::<Pointers>("exclude").map(|fields| Fingerprint::Exclude(fields.0)),
        _ => {
            at.error(node, "must either include or exclude fields", HELP);
            None
        }
    };
    reader.finish();
    read
}

/// JSON pointers, at least one.
struct Pointers(Vec<String>);

impl FromNode for Pointers {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let pointers: Vec<Pointer> = Vec::from_node(node, at)?;
        if pointers.is_empty() {
            at.error(node, "is empty", "write at least one JSON pointer: [\"/data/id\"]");
            return None;
        }
        Some(Self(pointers.into_iter().map(|pointer| pointer.0).collect()))
    }
}

checked_text!(Pointer by json_pointer);

fn json_pointer(text: &str) -> Result<String, Fault> {
    let is_escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if text.starts_with('/') && is_escaped {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("is not a JSON pointer: {}", quoted(text)), "write \"/data/id\"; ~1 stands for / and ~0 for ~"))
}

impl AsWritten for Fingerprint {
    fn as_written(&self) -> String {
        match self {
            Self::Body => quoted("body"),
            Self::Include(fields) => format!("{{ include = {} }}", fields.as_written()),
            Self::Exclude(fields) => format!("{{ exclude = {} }}", fields.as_written()),
        }
    }
}
