//! What a `[scheme]` may say, compiled. A preset and a user's own section come this way alike.
//!
//! Every problem is noted before the verdict: a scheme that comes out of here is consistent, and covers its timestamp.

mod check;

use std::time::Duration;

use super::Scheme;
use super::algorithm::Algorithm;
use super::encoding::Encoding;
use super::key_source::KeySource;
use super::layout::{Items, Layout};
use super::place::{Name, Place, Pointer, Site};
use super::secret_form::{SecretEncoding, SecretForm};
use super::signature::{Signature, Spot};
use super::template::Template;
use super::timestamp::{EventTime, Timestamp, Unit};
use super::way::{Agreement, ReadOfJson, Way, When};
use crate::config::reader::{At, FromNode, Layer, Reader, choices};
use crate::config::scalar::OrNone;
use crate::config::tree::{Node, Value};
use check::{check, note};

const TOLERANCE: Duration = Duration::from_secs(300);
/// Ways of one scheme, templates of one way, and values that must agree: each may cost a walk through the body.
const FEW: usize = 8;

/// The keys of a way of signing. `variants` holds further ways, each over the keys beside it.
const KEYS: [&str; 12] = [
    "signature",
    "prefix",
    "algorithm",
    "encoding",
    "secret_prefix",
    "secret_encoding",
    "signed",
    "timestamp",
    "match",
    "for_each",
    "key_id",
    "leeway",
];

impl FromNode for Scheme {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "[scheme] with `signature` and what else the provider's documentation says");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let ways = match reader.node("variants") {
            Some((list, at)) => variants(list, &at, &reader),
            None => read(&reader, None).map(|way| vec![way]),
        };
        let keys = reader.get::<KeySource>("keys");
        let is_whole = keys.is_some() == reader.has("keys");
        if let (Some(ways), Some(_)) = (&ways, &keys)
            && !ways.iter().all(|way| way.algorithm.is_public())
        {
            note(
                &reader,
                "keys",
                "are for algorithms with public keys",
                "write algorithm = \"jwt-rs256\" or another one with a public key",
            );
        }
        reader.finish();
        Some(Self { ways: ways?, public_url: None, keys }).filter(|_| is_whole)
    }
}

/// Reads each variant over what they have in common.
fn variants(node: &Node, at: &At<'_>, common: &Reader<'_>) -> Option<Vec<Way>> {
    let Value::List(list) = &node.value else {
        at.wrong_type(node, "a list", "[[scheme.variants]], each with what it has of its own");
        return None;
    };
    if list.is_empty() || list.len() > FEW {
        at.error(node, format!("holds {} ways to sign", list.len()), format!("write one to {FEW} of them"));
        return None;
    }
    // What they have in common is theirs to read.
    for key in KEYS {
        common.has(key);
    }
    let mut ways = Vec::new();
    for (place, node) in list.iter().enumerate() {
        let at = at.inner(&place.to_string());
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ when = { header = \"X-Version\", is = \"2\" }, ... }");
            continue;
        };
        let mut reader = Reader::of_table(table, &at);
        reader.lay_under(Layer { table: common.own().table, path: common.own().path.clone() });
        let when = reader.get::<When>("when");
        let is_whole = when.is_some() == reader.has("when");
        let way = read(&reader, when).filter(|_| is_whole);
        reader.finish();
        ways.push(way);
    }
    let is_unconditional = |way: &Option<Way>| way.as_ref().is_some_and(|way| way.when.is_none());
    if ways.iter().rev().skip(1).any(is_unconditional) {
        at.error(node, "has a way without `when` that is not the last: those behind it never count", "move it to the end");
    }
    if ways.len() == list.len() { ways.into_iter().collect() } else { None }
}

fn read(reader: &Reader<'_>, when: Option<When>) -> Option<Way> {
    let help = "say where the signature is: signature = { header = \"X-Signature\" }";
    let written = reader.require::<Written>("signature", help).map(|found| found.value);
    let algorithm = reader.or("algorithm", Algorithm::HmacSha256).value;
    let default_encoding = match algorithm {
        Algorithm::Token => Encoding::Text,
        _ if algorithm.jwt_name().is_some() => Encoding::Base64Url,
        _ => Encoding::Hex,
    };
    let signs_itself = algorithm == Algorithm::Token || algorithm.jwt_name().is_some();
    if signs_itself {
        refuse_what_a_token_has_not(reader, algorithm);
    }
    let agreements: Option<Vec<Agreement>> = reader.get("match");
    let signed = if signs_itself { Vec::new() } else { templates(reader, "signed").unwrap_or_else(|| vec![Template::body()]) };
    let each: Option<Pointer> = reader.get("for_each");
    let way = Way {
        when,
        signature: Signature {
            prefix: reader.get::<String>("prefix").unwrap_or_default(),
            at: written.as_ref().map_or(Spot::One(Place::Body), |written| written.at.clone()),
            layout: written.as_ref().map_or(Layout::Plain, |written| written.layout.clone()),
        },
        algorithm,
        encoding: reader.or("encoding", default_encoding).value,
        secret: SecretForm {
            prefix: reader.get::<String>("secret_prefix").unwrap_or_default(),
            encoding: reader.or("secret_encoding", SecretEncoding::Utf8).value,
        },
        read_of_json: ReadOfJson::of(&signed, each.as_ref()),
        signed,
        timestamp: reader.get("timestamp"),
        agreements: agreements.clone().unwrap_or_default(),
        each,
        key_id: reader.get("key_id"),
        leeway: reader.or("leeway", Duration::ZERO).value,
    };
    let is_whole = [
        ("timestamp", way.timestamp.is_some()),
        ("match", agreements.is_some()),
        ("for_each", way.each.is_some()),
        ("key_id", way.key_id.is_some()),
    ];
    check(reader, &way, written.is_some());
    let is_whole = is_whole.into_iter().all(|(key, is_read)| reader.has(key) == is_read);
    (written.is_some() && is_whole).then_some(way)
}

/// One template, or several of which one must hold. `None` where the key is not there, or is wrong, which is noted.
fn templates(reader: &Reader<'_>, key: &'static str) -> Option<Vec<Template>> {
    let (node, at) = reader.node(key)?;
    match &node.value {
        Value::List(list) if list.is_empty() || list.len() > FEW => {
            at.error(node, format!("holds {} templates", list.len()), format!("write one to {FEW} of them"));
            None
        }
        Value::List(_) => Vec::from_node(node, &at),
        _ => Template::from_node(node, &at).map(|template| vec![template]),
    }
}

fn refuse_what_a_token_has_not(reader: &Reader<'_>, algorithm: Algorithm) {
    let keys: &[&'static str] = if algorithm == Algorithm::Token { &["signed", "timestamp"] } else { &["signed", "encoding"] };
    for key in keys {
        if let Some((node, at)) = reader.node(key) {
            let what = format!("means nothing with algorithm = \"{}\"", algorithm.as_str());
            let help = if algorithm == Algorithm::Token {
                "remove it: a token is compared as it is and signs nothing"
            } else {
                "remove it: a token signs its own claims; say with `match` what they must agree with"
            };
            at.error(node, what, help);
        }
    }
}

/// `signature = { header = "...", layout = "...", pick = "..." }`, before it is known what its prefix is.
struct Written {
    at: Spot,
    layout: Layout,
}

choices!(
    /// How signatures are written into their text.
    LayoutWord { Plain = "plain", Pairs = "pairs", Tagged = "tagged", Keyed = "keyed", List = "list" }
);

impl FromNode for Written {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a place", "{ header = \"X-Signature\" }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let spot = spot(&reader, node, at);
        let layout = layout(&reader, node, at);
        reader.finish();
        Some(Self { at: spot?, layout: layout? })
    }
}

fn spot(reader: &Reader<'_>, node: &Node, at: &At<'_>) -> Option<Spot> {
    if let Some((node, at)) = reader.node("every") {
        let names: Vec<String> = Vec::from_node(node, &at)?;
        let read: Result<Vec<_>, _> = names.iter().map(|name| name.parse()).collect();
        if read.is_err() || names.is_empty() || names.len() > FEW {
            at.error(node, "is not a list of header names", "write [\"X-Signature-Primary\", \"X-Signature-Secondary\"]");
        }
        return read.ok().filter(|_| (1..=FEW).contains(&names.len())).map(Spot::Every);
    }
    if let Some((node, at)) = reader.node("numbered") {
        let prefix = String::from_node(node, &at)?;
        if format!("{prefix}1").parse::<http::HeaderName>().is_err() || prefix.is_empty() {
            at.error(node, "is not what a header name begins with", "write \"X-Signature-\" for X-Signature-1 and so on");
            return None;
        }
        return Some(Spot::Numbered(prefix.to_ascii_lowercase()));
    }
    match Site::read(reader, node, at)? {
        Site::Request(Place::EachJson(_)) => {
            at.error(node, "names every item", "write for_each = \"/items\" and signature = { item = \"/signature\" }");
            None
        }
        Site::Request(place) => Some(Spot::One(place)),
        Site::Item(pointer) => Some(Spot::Item(pointer)),
        Site::Part(_) | Site::Claim(_) => {
            at.error(node, "is a part of itself", "write where the signature stands: { header = \"X-Signature\" }");
            None
        }
    }
}

fn layout(reader: &Reader<'_>, node: &Node, at: &At<'_>) -> Option<Layout> {
    let word = reader.or("layout", LayoutWord::Plain).value;
    let pick = reader.get::<Name>("pick");
    let separator = reader.get::<Name>("separator").map(|name| name.0);
    let assign = reader.get::<Name>("assign").map(|name| name.0);
    let trim = reader.get::<bool>("trim");
    let meaningless: &[&'static str] = match word {
        LayoutWord::Plain => &["pick", "separator", "assign", "trim"],
        LayoutWord::List => &["pick", "assign", "trim"],
        LayoutWord::Keyed => &["pick"],
        LayoutWord::Pairs | LayoutWord::Tagged => &[],
    };
    for key in meaningless.iter().filter(|key| reader.has(key)) {
        let what = format!("means nothing in a {} header", word.as_str());
        note(reader, key, &what, "add layout = \"pairs\" or layout = \"tagged\", or remove it");
    }
    let (default_separator, default_assign) = match word {
        LayoutWord::Plain => return Some(Layout::Plain),
        LayoutWord::List => return Some(Layout::List { separator: separator.unwrap_or_else(|| ",".to_owned()) }),
        LayoutWord::Pairs | LayoutWord::Keyed => (",", "="),
        LayoutWord::Tagged => (" ", ","),
    };
    if !reader.has("pick") && word != LayoutWord::Keyed {
        let help = "name the part that is the signature: pick = \"v1\"";
        at.problems.error(reader.at("pick").problem(Some(node.origin.clone()), "is missing", help));
    }
    let pick = match word {
        LayoutWord::Keyed => None,
        _ => Some(pick?.0),
    };
    let separator = separator.unwrap_or_else(|| default_separator.to_owned());
    let assign = assign.unwrap_or_else(|| default_assign.to_owned());
    if separator == assign {
        note(reader, "separator", "is the same as `assign`", "items are told apart by one and split in two by the other");
    }
    Some(Layout::Items(Items { separator, assign, pick, trim: trim.unwrap_or(false) }))
}

impl FromNode for Template {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let text = String::from_node(node, at)?;
        let read = Self::parse(&text);
        if let Err(what) = &read {
            let help = "write literal text with values such as {body}, {timestamp}, {header:Name}, {header:A|B}, {part:x}, {url}; \
                        docs/schemes.md has them all";
            at.error(node, what.as_str(), help);
        }
        read.ok()
    }
}

impl FromNode for When {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a place", "{ header = \"X-Version\", is = \"2\" }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let (place, is) = (Place::read(&reader, node, at), reader.get::<String>("is"));
        let is_whole = is.is_some() == reader.has("is");
        reader.finish();
        Some(Self { place: place?, is }).filter(|_| is_whole)
    }
}

impl FromNode for Agreement {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a place and a template", "{ claim = \"sub\", is = \"{url}\" }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let site = Site::read(&reader, node, at);
        if !reader.has("is") {
            let help = "write what it must be: is = \"{sha256_hex(body)}\"";
            at.problems.error(reader.at("is").problem(Some(node.origin.clone()), "is missing", help));
        }
        let is = templates(&reader, "is");
        reader.finish();
        Some(Self { at: site?, is: is? })
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
        let tolerance = reader.or("tolerance", OrNone(Some(TOLERANCE))).value.0;
        if tolerance.is_some_and(|tolerance| tolerance.is_zero()) {
            note(
                &reader,
                "tolerance",
                "is nought: no delivery could be that quick",
                "write what the provider recommends, such as \"5m\", or \"none\" where it recommends nothing",
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
