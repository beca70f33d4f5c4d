//! What a `[scheme]` may say, compiled. A preset and a user's own section come this way alike.
//!
//! Every problem is noted before the verdict: a scheme that comes out of here is consistent, and covers its timestamp.

use std::time::Duration;

use super::Scheme;
use super::algorithm::{Algorithm, Primitive};
use super::encoding::Encoding;
use super::function::Function;
use super::key_source::KeySource;
use super::layout::{Items, Layout};
use super::place::{Name, Place, Site};
use super::secret_form::{SecretEncoding, SecretForm};
use super::signature::{Signature, Spot};
use super::template::{Source, Template};
use super::timestamp::{EventTime, Timestamp, Unit};
use super::way::{Agreement, Way, When};
use crate::config::problem::Origin;
use crate::config::reader::{At, FromNode, Layer, Reader, choices};
use crate::config::scalar::OrNone;
use crate::config::tree::{Node, Value};

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
        signed: if signs_itself { Vec::new() } else { templates(reader, "signed").unwrap_or_else(|| vec![Template::body()]) },
        timestamp: reader.get("timestamp"),
        agreements: agreements.clone().unwrap_or_default(),
        each: reader.get("for_each"),
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
    let keys: &[&'static str] =
        if algorithm == Algorithm::Token { &["signed", "timestamp", "for_each"] } else { &["signed", "encoding"] };
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

/// Notes what does not fit together.
fn check(reader: &Reader<'_>, way: &Way, has_signature: bool) {
    check_templates(reader, way);
    check_leftovers(reader, way);
    let has = |source: &Source| way.signed.iter().any(|template| template.has(source));
    if has(&Source::Timestamp) && !reader.has("timestamp") {
        let help = "add timestamp = { at = { header = \"X-Timestamp\" }, unit = \"s\", tolerance = \"5m\" }";
        note(reader, "signed", "uses {timestamp}, and no `timestamp` says where that is", help);
    }
    if !way.covers(&Site::Request(Place::Body)) && way.algorithm != Algorithm::Token {
        let key = if way.algorithm.jwt_name().is_some() { "algorithm" } else { "signed" };
        warn(reader, key, "does not cover the whole body", "whoever holds one delivery can send it again with another body");
    }
    if let Some(timestamp) = &way.timestamp
        && !way.covers(&timestamp.at)
    {
        let help = "add {timestamp} to `signed` where the provider has it, or remove `timestamp`";
        note(reader, "timestamp", "is not among the signed bytes: anybody could change it, so that it protects nothing", help);
    }
    let is_digest = matches!(way.algorithm.primitive(), Primitive::Digest(_));
    if is_digest != has(&Source::Secret) && !way.signed.is_empty() {
        let (what, help) = if is_digest {
            ("has no {secret}: a digest without it proves nothing", "put {secret} where the provider has it")
        } else {
            ("has a {secret}, which is for plain digests alone", "remove it, or write algorithm = \"digest-sha256\"")
        };
        note(reader, "signed", what, help);
    }
    if has_signature {
        check_parts(reader, way);
        check_items(reader, way);
    }
}

/// What templates may hold depends on where they stand.
fn check_templates(reader: &Reader<'_>, way: &Way) {
    let agreed = way.agreements.iter().flat_map(|agreement| &agreement.is).map(|template| ("match", template));
    let signed = way.signed.iter().map(|template| ("signed", template));
    for (key, template) in signed.chain(agreed) {
        for value in template.values() {
            if value.functions.contains(&Function::Sign) {
                note(reader, key, "signs inside of what is signed", "{sign(...)} is for the answer to a challenge");
            }
            let is_alone = value.sources == [Source::Secret] && value.functions.is_empty();
            if value.sources.contains(&Source::Secret) && (key == "match" || !is_alone) {
                note(reader, key, "has a {secret} that is not plain text of a digest", "put {secret} by itself into `signed`");
            }
        }
        if key == "match" && template.has(&Source::Timestamp) && !reader.has("timestamp") {
            note(reader, key, "uses {timestamp}, and no `timestamp` says where that is", "add timestamp = { at = ... }");
        }
    }
    if !way.signed.iter().all(Template::holds_something) {
        note(reader, "signed", "may hold nothing of the request", "add {body}, or a value that must be there");
    }
}

/// Keys that would do nothing, and places that are many.
fn check_leftovers(reader: &Reader<'_>, way: &Way) {
    let is_token = way.algorithm == Algorithm::Token;
    if !way.leeway.is_zero() && way.algorithm.jwt_name().is_none() {
        note(reader, "leeway", "is for tokens with times of their own", "remove it, or set the tolerance of `timestamp`");
    }
    if way.encoding == Encoding::Text && !is_token {
        note(reader, "encoding", "is for tokens alone: a signature is bytes", "write \"hex\" or \"base64\"");
    }
    for (key, site) in sites(way) {
        if matches!(site, Site::Request(Place::EachJson(_))) {
            note(reader, key, "names a value in every item", "name one value; /*/ is for event ids");
        }
    }
}

/// The sites that a way names, and the keys they stand under.
fn sites(way: &Way) -> Vec<(&'static str, &Site)> {
    let signed = way.signed.iter().flat_map(Template::sources).filter_map(site_of).map(|site| ("signed", site));
    let timestamp = way.timestamp.iter().map(|timestamp| ("timestamp", &timestamp.at));
    let key_id = way.key_id.iter().map(|site| ("key_id", site));
    let agreed = way.agreements.iter().flat_map(|agreement| {
        let inner = agreement.is.iter().flat_map(Template::sources).filter_map(site_of);
        std::iter::once(&agreement.at).chain(inner).map(|site| ("match", site))
    });
    signed.chain(timestamp).chain(key_id).chain(agreed).collect()
}

fn site_of(source: &Source) -> Option<&Site> {
    match source {
        Source::At(site) => Some(site),
        Source::Listed(listed) => Some(&listed.list),
        _ => None,
    }
}

/// Parts need a text that has parts, claims need a token, and a signature cannot be a part of what it signs.
fn check_parts(reader: &Reader<'_>, way: &Way) {
    let is_token = way.algorithm.jwt_name().is_some();
    for (key, site) in sites(way) {
        match (site, &way.signature.layout) {
            (Site::Part(_), _) if is_token => {}
            (Site::Part(name), Layout::Plain) => {
                let help = "say how the header is laid out: signature = { header = \"...\", layout = \"pairs\", pick = \"v1\" }";
                note(reader, key, &format!("names the part \"{name}\" of a signature header that has no parts"), help);
            }
            (Site::Part(name), Layout::Items(items)) if items.pick == *name => {
                note(reader, key, &format!("names \"{name}\", which is the signature itself"), "name another part");
            }
            (Site::Claim(_), _) if !is_token => {
                note(
                    reader,
                    key,
                    "names a claim, and the signature is no token",
                    "write algorithm = \"jwt-hs256\" or another jwt",
                );
            }
            _ => {}
        }
    }
}

/// Items need a list, and with a list the signature is in the items.
fn check_items(reader: &Reader<'_>, way: &Way) {
    let in_item = matches!(way.signature.at, Spot::Item(_));
    if way.each.is_none() && (in_item || sites(way).iter().any(|(_, site)| matches!(site, Site::Item(_)))) {
        note(reader, "signature", "names an item, and no `for_each` says of which list", "add for_each = \"/items\"");
    }
    if way.each.is_some() && !in_item {
        note(
            reader,
            "for_each",
            "signs each item, and the signature is not in them",
            "write signature = { item = \"/signature\" }",
        );
    }
}

fn note(reader: &Reader<'_>, key: &'static str, what: &str, help: &str) {
    let origin = reader.node(key).map_or_else(|| reader.origin(), |(node, _)| node.origin.clone());
    let at = reader.at(key);
    at.problems.error(at.problem(Some(origin), what, help));
}

/// Whoever uses a preset cannot change how its provider signs: `hookonce providers NAME` tells what is not signed.
fn warn(reader: &Reader<'_>, key: &'static str, what: &str, help: &str) {
    if let Some((node, at)) = reader.node(key)
        && !matches!(node.origin, Origin::Preset(_))
    {
        at.warn(&node.origin, what, help);
    }
}

/// `signature = { header = "...", layout = "...", pick = "..." }`, before it is known what its prefix is.
struct Written {
    at: Spot,
    layout: Layout,
}

choices!(
    /// How signatures are written into their text.
    LayoutWord { Plain = "plain", Pairs = "pairs", Tagged = "tagged", List = "list" }
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
        LayoutWord::Pairs | LayoutWord::Tagged => &[],
    };
    for key in meaningless.iter().filter(|key| reader.has(key)) {
        let what = format!("means nothing in a {} header", word.as_str());
        note(reader, key, &what, "add layout = \"pairs\" or layout = \"tagged\", or remove it");
    }
    let (default_separator, default_assign) = match word {
        LayoutWord::Plain => return Some(Layout::Plain),
        LayoutWord::List => return Some(Layout::List { separator: separator.unwrap_or_else(|| ",".to_owned()) }),
        LayoutWord::Pairs => (",", "="),
        LayoutWord::Tagged => (" ", ","),
    };
    if !reader.has("pick") {
        let help = "name the part that is the signature: pick = \"v1\"";
        at.problems.error(reader.at("pick").problem(Some(node.origin.clone()), "is missing", help));
    }
    let separator = separator.unwrap_or_else(|| default_separator.to_owned());
    let assign = assign.unwrap_or_else(|| default_assign.to_owned());
    if separator == assign {
        note(reader, "separator", "is the same as `assign`", "items are told apart by one and split in two by the other");
    }
    Some(Layout::Items(Items { separator, assign, pick: pick?.0, trim: trim.unwrap_or(false) }))
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
