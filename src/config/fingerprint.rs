//! Which part of a body tells two events with one id apart.

use crate::scheme::Pointer;

use super::reader::{At, FromNode, Reader};
use super::tree::{Node, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fingerprint {
    Body,
    /// Only these fields.
    Include(Vec<Pointer>),
    /// The JSON body without these fields.
    Exclude(Vec<Pointer>),
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
        (true, false) => pointers(&reader, "include").map(Fingerprint::Include),
        (false, true) => pointers(&reader, "exclude").map(Fingerprint::Exclude),
        _ => {
            at.error(node, "must either include or exclude fields", HELP);
            None
        }
    };
    reader.finish();
    read
}

fn pointers(reader: &Reader<'_>, key: &'static str) -> Option<Vec<Pointer>> {
    let (node, at) = reader.node(key)?;
    let pointers: Vec<Pointer> = Vec::from_node(node, &at)?;
    if pointers.is_empty() {
        at.error(node, "is empty", "write at least one JSON pointer: [\"/data/id\"]");
        return None;
    }
    Some(pointers)
}
