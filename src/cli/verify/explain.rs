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
        line("signature", &signature(trial, request)),
    ];
    lines.extend(timestamp(trial, request).map(|text| line("timestamp", &text)));
    lines.push(line(if trial.compiled.scheme.takes_public_keys() { "public key" } else { "secret" }, &secret(keys, judgement)));
    lines.extend(judgement.unusable.iter().map(|(slot, why)| line("", &format!("number {} {why}", slot + 1))));
    lines.push(line("event id", &event_id(judgement)));
    lines.extend(challenge(trial, request, judgement).map(|text| line("handshake", text)));
    match judgement.proof {
        Ok(_) => lines.push(line("verdict", "valid")),
        Err(fault) => {
            lines.push(line("verdict", &format!("not valid: {}", fault.code())));
            lines.push(line("", &format!("{}.", capitalised(fault.explain()))));
            lines.extend(advice(trial, keys, request, fault).iter().map(|text| line("likely", text)));
        }
    }
    lines.concat()
}

fn line(label: &str, text: &str) -> String {
    format!("{label:<10} {text}\n")
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn signature(trial: &Trial, request: &SavedRequest) -> String {
    let Some(names) = trial.compiled.scheme.signature_header() else { return "in the body or the query".to_owned() };
    match names.present_in(&request.headers) {
        Some(name) => format!("header {name}: found"),
        None => {
            let looked_for: Vec<&str> = names.iter().map(http::HeaderName::as_str).collect();
            format!("header {}: not there", looked_for.join(" or "))
        }
    }
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

fn secret(keys: &KeyMaterial, judgement: &Judgement) -> String {
    let given = keys.secrets.len();
    match judgement.proof {
        Ok(proof) => format!("number {} of {given} made the signature", proof.slot + 1),
        Err(Fault::Disproof(Disproof::Stale | Disproof::Future)) => format!("one of {given} made the signature"),
        Err(Fault::Disproof(Disproof::NoMatch) | Fault::UnusableSecret) => format!("none of {given} made the signature"),
        Err(Fault::Disproof(_)) => format!("{given} given, not tried"),
    }
}

fn event_id(judgement: &Judgement) -> String {
    match &judgement.id {
        Ok(Some(id)) => id.display(),
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
        Fault::Disproof(Disproof::NoMatch) | Fault::UnusableSecret => {
            let found = causes::likely(trial, keys, request);
            if found.is_empty() {
                vec![
                    "The secret is another endpoint's or has been rotated; no change to the body that was tried helps."
                        .to_owned(),
                ]
            } else {
                found
            }
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
