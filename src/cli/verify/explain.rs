//! The verdict in words, step by step, for a person.

use std::time::{Duration, UNIX_EPOCH};

use super::causes;
use super::judge::{Fault, Judgement, KeyMaterial, Trial};
use super::request::SavedRequest;
use crate::config::units::Written;
use crate::scheme::Disproof;

pub(super) fn explanation(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest, judgement: &Judgement) -> String {
    let mut lines = vec![
        line("preset", trial.preset.name),
        line("request", &format!("{} {}, {} bytes of body", request.method, request.uri.path(), request.body.len())),
        line("signature", &signature(trial, request, judgement)),
    ];
    lines.extend(timestamp(trial, request).map(|text| line("timestamp", &text)));
    let label = if trial.compiled.scheme.takes_public_keys() { "public key" } else { "secret" };
    lines.push(line(label, &secret(trial, keys, request, judgement)));
    lines.extend(judgement.unusable.iter().map(|(slot, why)| line("", &format!("number {} {why}", slot + 1))));
    lines.push(line("event id", &event_id(judgement)));
    lines.extend(challenge(trial, request, judgement).map(|text| line("handshake", text)));
    match judgement.proof {
        Ok(_) => lines.push(line("verdict", "valid")),
        Err(fault) => {
            lines.push(line("verdict", &format!("not valid: {}", fault.code())));
            lines.push(line("", &format!("{}.", capitalised(reason(trial, fault)))));
            lines.extend(advice(trial, keys, request, fault).iter().map(|text| line("likely", text)));
        }
    }
    lines.concat()
}

/// Labels stand in a column as wide as the longest, "public key".
fn line(label: &str, text: &str) -> String {
    format!("{label:<10}  {text}\n")
}

/// The fault in words that fit what the preset verifies with.
fn reason(trial: &Trial, fault: Fault) -> &'static str {
    match (fault, trial.compiled.scheme.takes_public_keys()) {
        (Fault::UnusableSecret, true) => "no public key is one that can be used",
        (Fault::UnusableSecret, false) => "no secret is one that this preset's provider gives out",
        (Fault::Disproof(Disproof::NoMatch), true) => {
            "no public key verifies this signature: the key is another one, or the body was changed after it was signed (parsed \
             and written again, decompressed, a newline added)"
        }
        (Fault::Disproof(reason), _) => reason.explain(),
    }
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn signature(trial: &Trial, request: &SavedRequest, judgement: &Judgement) -> String {
    let Some(names) = trial.compiled.scheme.signature_header() else { return elsewhere(trial, judgement) };
    match names.present_in(&request.headers) {
        Some(name) => format!("header {name}: found"),
        None => format!("header {names}: not there"),
    }
}

/// Where a signature stands that is in no header.
fn elsewhere(trial: &Trial, judgement: &Judgement) -> String {
    let mut places: Vec<String> = trial.compiled.scheme.describe().iter().map(|way| place(way).to_owned()).collect();
    places.dedup();
    let places = places.join(", or ");
    match judgement.proof {
        Ok(_)
        | Err(
            Fault::UnusableSecret | Fault::Disproof(Disproof::NoMatch | Disproof::Altered | Disproof::Stale | Disproof::Future),
        ) => format!("{places}: found"),
        Err(Fault::Disproof(Disproof::MissingSignature)) => format!("{places}: not there"),
        Err(_) => format!("looked for: {places}"),
    }
}

/// "/sign in the body" of "/sign in the body: hmac-sha256 over ...; ...".
fn place(way: &str) -> &str {
    let end = [" over ", "; "].iter().filter_map(|joint| way.find(joint)).min().unwrap_or(way.len());
    way[..end].rsplit_once(": ").map_or(way, |(place, _)| place)
}

fn timestamp(trial: &Trial, request: &SavedRequest) -> Option<String> {
    let tolerance = Written(trial.compiled.scheme.tolerance()?);
    let Some(moment) = trial.compiled.scheme.claimed_time(&request.received()) else { return Some("not readable".to_owned()) };
    let now = whole_seconds(trial.now.duration_since(UNIX_EPOCH).unwrap_or_default());
    let moment = whole_seconds(moment);
    Some(match now.checked_sub(moment) {
        Some(age) => format!("{} old; {tolerance} are tolerated", Written(age)),
        None => format!("{} in the future; {tolerance} are tolerated", Written(moment.saturating_sub(now))),
    })
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

fn secret(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest, judgement: &Judgement) -> String {
    let given = keys.secrets.len();
    let did = if trial.compiled.scheme.takes_public_keys() { "verified it" } else { "made the signature" };
    let slot = judgement.proof.as_ref().ok().map(|proof| proof.slot);
    match (slot.or_else(|| trial.signer(keys, request)), judgement.proof) {
        (Some(slot), _) => format!("number {} of {given} {did}", slot + 1),
        // Items of a batch may be signed with one secret each, so that none signed them all.
        (None, Err(Fault::Disproof(Disproof::Altered | Disproof::Stale | Disproof::Future))) => did.to_owned(),
        (None, Err(Fault::Disproof(Disproof::NoMatch) | Fault::UnusableSecret)) => format!("none of {given} {did}"),
        (None, _) => format!("{given} given, not tried"),
    }
}

fn event_id(judgement: &Judgement) -> String {
    match &judgement.id {
        Ok(Some(id)) => id.display().to_owned(),
        Ok(None) => "none found".to_owned(),
        Err(error) => format!("not usable: {}", error.explain()),
    }
}

fn challenge(trial: &Trial, request: &SavedRequest, judgement: &Judgement) -> Option<&'static str> {
    let (scheme, proof) = (&trial.compiled.scheme, judgement.proof.as_ref().ok());
    let mut handshakes = trial.compiled.handshakes.iter();
    handshakes.find_map(|handshake| handshake.challenge(scheme, &judgement.keys, &request.received(), proof))?;
    Some("this is a challenge: it would be answered and never deduped")
}

/// What to look at, found by trying.
fn advice(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest, fault: Fault) -> Vec<String> {
    match fault {
        Fault::Disproof(Disproof::NoMatch) => {
            let key = if trial.compiled.scheme.takes_public_keys() { "public key" } else { "secret" };
            let untried = format!("The {key} is another one, or the body was changed in a way that was not tried");
            or_else(causes::likely(trial, keys, request), trial, &untried)
        }
        // What is wrong with each is told already; whose they are is not known.
        Fault::UnusableSecret => causes::likely(trial, keys, request),
        Fault::Disproof(Disproof::Altered) => {
            let untried = "The body was changed in a way that was not tried";
            or_else(causes::of_request(trial, keys, request), trial, untried)
        }
        Fault::Disproof(Disproof::Stale | Disproof::Future) => {
            let moment = trial.compiled.scheme.claimed_time(&request.received()).unwrap_or_default().as_secs();
            vec![format!(
                "A request that was saved is old: judge it as of then with --at {moment}. Otherwise compare the clocks."
            )]
        }
        Fault::Disproof(_) => Vec::new(),
    }
}

/// What was found, or what is left where nothing was.
fn or_else(found: Vec<String>, trial: &Trial, untried: &str) -> Vec<String> {
    if !found.is_empty() {
        return found;
    }
    let url = if trial.compiled.scheme.signs_url() { ", or the URL is another" } else { "" };
    vec![format!("{untried}{url}.")]
}
