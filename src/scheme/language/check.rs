//! What does not fit together in a scheme, though each key by itself is right.

use super::super::algorithm::{Algorithm, Primitive};
use super::super::encoding::Encoding;
use super::super::function::Function;
use super::super::layout::Layout;
use super::super::place::{Place, Site};
use super::super::signature::Spot;
use super::super::template::{Source, Template};
use super::super::way::Way;
use crate::config::problem::Origin;
use crate::config::reader::Reader;

/// Notes what does not fit together.
pub(super) fn check(reader: &Reader<'_>, way: &Way, has_signature: bool) {
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
            (Site::Part(name), Layout::Items(items)) if items.pick.as_ref().is_none_or(|pick| pick == name) => {
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

pub(super) fn note(reader: &Reader<'_>, key: &'static str, what: &str, help: &str) {
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
