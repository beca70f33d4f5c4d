//! How the event id is found: a place, a list of places that make one id together, or fallbacks in order.

use super::place::Place;
use super::{Draft, Scheme, locate};
use crate::config::reader::{At, FromNode, Reader};
use crate::config::tree::{Node, Value};

/// Ways to find the id, the preferred one first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRule {
    alternatives: Vec<Composite>,
}

/// Places whose values make one id together; never empty, and one of them at least must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    parts: Vec<IdPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPart {
    pub place: Place,
    /// The id is one without this part too.
    pub optional: bool,
}

/// Alternatives of a rule, and parts of an id: each may cost a walk through the body.
const LENGTH_MAX: usize = 8;

const WRITE_AN_ID: &str = "write { header = \"X-Event-Id\" } or { json = \"/id\" }, a list of such places for an id of \
     several parts, or { any = [ ... ] } for fallbacks";

impl IdRule {
    pub fn alternatives(&self) -> &[Composite] {
        &self.alternatives
    }

    /// Whether every part is covered by the scheme's signature.
    pub fn is_signed(&self, scheme: &Scheme) -> bool {
        self.alternatives.iter().flat_map(Composite::parts).all(|part| scheme.covers(&part.place))
    }
}

impl IdRule {
    /// Puts an id into a request in the making, where it is looked for first. `is_own`: the body is its sender's, and is
    /// left as it is.
    pub fn fill(&self, draft: &mut Draft, id: &str, is_own: bool) -> Result<(), String> {
        let is_there = |composite: &Composite| composite.parts.iter().all(|part| part.optional || is_found(&part.place, draft));
        if self.alternatives.iter().any(is_there) {
            return Ok(());
        }
        let Some(first) = self.alternatives.first() else { return Ok(()) };
        for (nth, part) in first.parts.iter().filter(|part| !part.optional).enumerate() {
            let is_writable = matches!(part.place, Place::Header(_)) || (!is_own && matches!(part.place, Place::Json(_)));
            if is_writable && !is_found(&part.place, draft) {
                draft.put(&part.place, if nth == 0 { id } else { "hookonce.test" })?;
            }
        }
        Ok(())
    }
}

fn is_found(place: &Place, draft: &Draft) -> bool {
    locate::find(place, &draft.received()).is_ok_and(|found| found.is_some())
}

impl Composite {
    pub fn parts(&self) -> &[IdPart] {
        &self.parts
    }
}

impl FromNode for IdRule {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let alternatives = match &node.value {
            Value::Table(table) if table.get("any").is_some() => {
                let reader = Reader::of_table(table, at);
                let alternatives = reader.get::<Vec<Composite>>("any");
                reader.finish();
                alternatives?
            }
            _ => vec![Composite::from_node(node, at)?],
        };
        is_bounded(&alternatives, node, at).then_some(Self { alternatives })
    }
}

impl FromNode for Composite {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let parts = match &node.value {
            Value::List(_) => Vec::<IdPart>::from_node(node, at)?,
            _ => vec![IdPart::from_node(node, at)?],
        };
        if !parts.is_empty() && parts.iter().all(|part| part.optional) {
            at.error(node, "has only optional parts", "leave out `optional` where the id is never without that part");
            return None;
        }
        is_bounded(&parts, node, at).then_some(Self { parts })
    }
}

impl FromNode for IdPart {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.error(node, format!("must say where the id is, not {}", node.value.kind()), WRITE_AN_ID);
            return None;
        };
        let reader = Reader::of_table(table, at);
        let place = Place::read(&reader, node, at);
        let optional = reader.or("optional", false).value;
        reader.finish();
        Some(Self { place: place?, optional })
    }
}

fn is_bounded<T>(list: &[T], node: &Node, at: &At<'_>) -> bool {
    let what = match list.len() {
        0 => "is an empty list",
        1..=LENGTH_MAX => return true,
        _ => "has more than 8 entries",
    };
    at.error(node, what, WRITE_AN_ID);
    false
}
