//! What a `[scheme]` may say, compiled. A preset and a user's own section come this way alike.
//!
//! Every problem is noted before the verdict: a scheme that comes out of here is consistent, and covers its timestamp.

use std::time::Duration;

use super::algorithm::{Algorithm, Encoding, SecretEncoding, SecretForm};
use super::layout::{Items, Layout};
use super::place::{Name, Place, Site};
use super::signature::Signature;
use super::signed::{Piece, Template};
use super::timestamp::{EventTime, Timestamp, Unit};
use super::{Scheme, Signed};
use crate::config::reader::{At, FromNode, Reader, choices};
use crate::config::tree::{Node, Value};

const TOLERANCE: Duration = Duration::from_secs(300);

impl FromNode for Scheme {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "[scheme] with `signature` and what else the provider's documentation says");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let scheme = read(&reader);
        reader.pending(&["for_each", "key_id", "keys", "nonce"]);
        reader.finish();
        scheme
    }
}

fn read(reader: &Reader<'_>) -> Option<Scheme> {
    let help = "say where the signature is: signature = { header = \"X-Signature\" }";
    let signature = reader.require::<Written>("signature", help).map(|found| found.value);
    let prefix = reader.get::<String>("prefix").unwrap_or_default();
    let secret = SecretForm {
        prefix: reader.get::<String>("secret_prefix").unwrap_or_default(),
        encoding: reader.or("secret_encoding", SecretEncoding::Utf8).value,
    };
    let algorithm = reader.or("algorithm", Algorithm::HmacSha256).value;
    let layout = signature.as_ref().map(|written| &written.layout);
    let signed = if algorithm == Algorithm::Token {
        refuse_what_a_token_has_not(reader);
        None
    } else {
        Some(signed(reader, layout)?)
    };
    let Written { names, layout } = signature?;
    Some(Scheme { signature: Signature { names, layout, prefix }, algorithm, secret, signed })
}

fn refuse_what_a_token_has_not(reader: &Reader<'_>) {
    for key in ["signed", "encoding", "timestamp"] {
        if let Some((node, at)) = reader.node(key) {
            at.error(
                node,
                "means nothing with algorithm = \"token\"",
                "remove it: a token is compared as it is and signs nothing",
            );
        }
    }
}

/// What is signed and how it is written. `None` where one of its keys is wrong.
fn signed(reader: &Reader<'_>, layout: Option<&Layout>) -> Option<Signed> {
    let encoding = reader.or("encoding", Encoding::Hex).value;
    let template = reader.or("signed", Template::body()).value;
    let timestamp: Option<Timestamp> = reader.get("timestamp");
    let is_stamped = reader.has("timestamp");
    if template.has(&Piece::Timestamp) && !is_stamped {
        let help = "add timestamp = { at = { header = \"X-Timestamp\" }, unit = \"s\", tolerance = \"5m\" }";
        note(reader, "signed", "uses {timestamp}, and no `timestamp` says where that is", help);
    }
    if !template.has(&Piece::Body) {
        warn(reader, "signed", "does not cover the body", "whoever holds one delivery can send it again with another body");
    }
    let signed = Signed { encoding, template, timestamp };
    if let Some(timestamp) = &signed.timestamp
        && !signed.covers(&timestamp.at)
    {
        let help = "add {timestamp} to `signed` where the provider has it, or remove `timestamp`";
        note(reader, "timestamp", "is not among the signed bytes: anybody could change it, so that it protects nothing", help);
    }
    check_parts(reader, &signed, layout);
    (signed.timestamp.is_some() == is_stamped).then_some(signed)
}

/// Parts need a header that has parts, and a signature cannot be a part of what it signs.
fn check_parts(reader: &Reader<'_>, signed: &Signed, layout: Option<&Layout>) {
    let in_template = signed.template.pieces().iter().filter_map(|piece| match piece {
        Piece::At(Site::Part(name)) => Some(("signed", name)),
        _ => None,
    });
    let in_timestamp = signed.timestamp.iter().filter_map(|timestamp| match &timestamp.at {
        Site::Part(name) => Some(("timestamp", name)),
        Site::Request(_) => None,
    });
    for (key, name) in in_template.chain(in_timestamp) {
        match layout {
            Some(Layout::Plain) => {
                let help = "say how the header is laid out: signature = { header = \"...\", layout = \"pairs\", pick = \"v1\" }";
                note(reader, key, &format!("names the part \"{name}\" of a signature header that has no parts"), help);
            }
            Some(Layout::Items(items)) if items.pick == *name => {
                note(reader, key, &format!("names \"{name}\", which is the signature itself"), "name another part");
            }
            Some(Layout::Items(_)) | None => {}
        }
    }
}

fn note(reader: &Reader<'_>, key: &'static str, what: &str, help: &str) {
    let origin = reader.node(key).map_or_else(|| reader.origin(), |(node, _)| node.origin.clone());
    let at = reader.at(key);
    at.problems.error(at.problem(Some(origin), what, help));
}

fn warn(reader: &Reader<'_>, key: &'static str, what: &str, help: &str) {
    if let Some((node, at)) = reader.node(key) {
        at.warn(&node.origin, what, help);
    }
}

/// `signature = { header = "...", layout = "...", pick = "..." }`, before it is known what its prefix is.
struct Written {
    names: super::HeaderNames,
    layout: Layout,
}

choices!(
    /// How signatures are written into their header.
    LayoutWord { Plain = "plain", Pairs = "pairs", Tagged = "tagged" }
    pending { "list", "positional", "pipe-pairs", "json-base64" }
);

impl FromNode for Written {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a place", "{ header = \"X-Signature\" }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let place = Place::read(&reader, node, at);
        let layout = layout(&reader, node, at);
        reader.pending(&["numbered", "group_separator", "trim"]);
        reader.finish();
        match place? {
            Place::Header(names) => Some(Self { names, layout: layout? }),
            Place::Query(_) | Place::Form(_) | Place::Json(_) | Place::Body => {
                at.error(node, "outside of a header is not built yet", "write signature = { header = \"X-Signature\" }");
                None
            }
        }
    }
}

fn layout(reader: &Reader<'_>, node: &Node, at: &At<'_>) -> Option<Layout> {
    let word = reader.or("layout", LayoutWord::Plain).value;
    let pick = reader.get::<Name>("pick");
    let separator = reader.get::<Name>("separator");
    let assign = reader.get::<Name>("assign");
    let (default_separator, default_assign) = match word {
        LayoutWord::Plain => {
            for key in ["pick", "separator", "assign"].into_iter().filter(|key| reader.has(key)) {
                note(
                    reader,
                    key,
                    "means nothing in a plain header",
                    "add layout = \"pairs\" or layout = \"tagged\", or remove it",
                );
            }
            return Some(Layout::Plain);
        }
        LayoutWord::Pairs => (",", "="),
        LayoutWord::Tagged => (" ", ","),
    };
    if !reader.has("pick") {
        let help = "name the part that is the signature: pick = \"v1\"";
        at.problems.error(reader.at("pick").problem(Some(node.origin.clone()), "is missing", help));
    }
    let separator = separator.map_or_else(|| default_separator.to_owned(), |name| name.0);
    let assign = assign.map_or_else(|| default_assign.to_owned(), |name| name.0);
    if separator == assign {
        note(reader, "separator", "is the same as `assign`", "items are told apart by one and split in two by the other");
    }
    Some(Layout::Items(Items { separator, assign, pick: pick?.0 }))
}

impl FromNode for Template {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let text = String::from_node(node, at)?;
        let read = Self::parse(&text);
        if let Err(what) = &read {
            at.error(node, what.as_str(), "write literal text with {body}, {timestamp}, {header:Name}, {header:A|B} or {part:x}");
        }
        read.ok()
    }
}

impl FromNode for Timestamp {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ at = { header = \"X-Timestamp\" }, unit = \"s\", tolerance = \"5m\" }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let help = "say where it is: at = { header = \"X-Timestamp\" } or at = { part = \"t\" }";
        let site = reader.require::<Site>("at", help);
        let unit = reader.or("unit", Unit::Seconds).value;
        let tolerance = reader.or("tolerance", TOLERANCE).value;
        if tolerance.is_zero() {
            note(
                &reader,
                "tolerance",
                "is nought: no delivery could be that quick",
                "write what the provider recommends, such as \"5m\"",
            );
        }
        reader.finish();
        Some(Self { at: site?.value, unit, tolerance })
    }
}

impl FromNode for EventTime {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ at = { json = \"/created\" }, unit = \"s\" }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let place =
            reader.require::<Place>("at", "say where it is: at = { json = \"/created\" } or at = { header = \"X-Time\" }");
        let unit = reader.or("unit", Unit::Seconds).value;
        reader.finish();
        Some(Self { at: place?.value, unit })
    }
}

#[cfg(test)]
mod tests;
