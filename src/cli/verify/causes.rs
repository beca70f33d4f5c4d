//! The usual causes of a signature that does not match, each tried by undoing it.

use super::judge::{KeyMaterial, Trial};
use super::request::SavedRequest;
use crate::config::Secret;

/// What, when undone, makes the signature match. Each is a sentence.
pub(super) fn likely(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest) -> Vec<String> {
    let secret_causes = SECRETS
        .iter()
        .filter(|(_, undo)| {
            let secrets = keys.secrets.iter().filter_map(|secret| undo(secret.bytes())).map(Secret::new).collect();
            trial.judge(&KeyMaterial { secrets, id: keys.id.clone() }, request).is_signed()
        })
        .map(|(cause, _)| (*cause).to_owned());
    let secret_causes = secret_causes.chain(form_cause(trial, keys, request));
    secret_causes.chain(of_request(trial, keys, request)).collect()
}

/// The same, of what came; the secret is known to be right.
pub(super) fn of_request(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest) -> Vec<String> {
    body_cause(trial, keys, request).into_iter().chain(url_cause(trial, keys, request)).collect()
}

/// What was done to the body. The first that helps is told: the next would lead to the same bytes by another way.
fn body_cause(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest) -> Option<String> {
    let mut bodies = bodies(&request.body).into_iter();
    let (cause, _) = bodies.find(|(_, body)| trial.judge(keys, &request.with_body(body.clone())).is_signed())?;
    Some(cause.to_owned())
}

/// A secret that is right, and in another form than this provider's.
fn form_cause(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest) -> Option<String> {
    let others = keys.secrets.iter().flat_map(|secret| trial.compiled.scheme.keys_in_other_forms(secret));
    let (form, _) = others.into_iter().find(|(_, key)| trial.is_signed_with(key.clone().with_id(keys.id.clone()), request))?;
    let wanted = trial.compiled.scheme.describe_key();
    Some(format!(
        "The secret is used {form} by whoever signed this, and {} wants it otherwise ({wanted}): is it the right preset?",
        trial.preset.name
    ))
}

/// A URL that differs from the one that was signed by what gateways and people change.
fn url_cause(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest) -> Option<String> {
    let url = trial.url.as_deref().filter(|_| trial.compiled.scheme.signs_url())?;
    let found = urls(url)
        .into_iter()
        .find(|(_, other)| other != url && trial.at_url(other).is_some_and(|trial| trial.judge(keys, request).is_signed()));
    found.map(|(what, other)| format!("The URL that was signed differs by {what}: with {other} the signature matches."))
}

fn urls(url: &str) -> Vec<(&'static str, String)> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let host_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(host_end);
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let with_query = |path: &str| query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let other_scheme = if scheme == "https" { "http" } else { "https" };
    let slashed = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
    let mut urls = vec![
        ("its scheme", format!("{other_scheme}://{rest}")),
        ("its port", format!("{scheme}://{host}{target}")),
        ("a slash at the end of its path", format!("{scheme}://{authority}{}", with_query(&slashed))),
        ("its query", format!("{scheme}://{authority}{path}")),
        ("its scheme and port", format!("{other_scheme}://{host}{target}")),
    ];
    urls.extend(["80", "443", "8080", "8443"].map(|port| ("its port", format!("{scheme}://{host}:{port}{target}"))));
    urls
}

/// The bodies that may have been signed instead of this one.
fn bodies(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let text = String::from_utf8_lossy(body);
    let unended = body.strip_suffix(b"\n").map(|rest| rest.strip_suffix(b"\r").unwrap_or(rest).to_vec());
    let ended = "A newline was added at the body's end, as editors and `echo` do: without it the signature matches.";
    // Small changes first: writing JSON again takes away a newline at the end too.
    let mut candidates = vec![("The body lost a newline at its end: with it the signature matches.", [body, b"\n"].concat())];
    candidates.extend(unended.map(|rest| (ended, rest)));
    candidates.extend([
        ("Line ends were changed to CRLF: with LF the signature matches.", text.replace("\r\n", "\n").into_bytes()),
        ("Line ends were changed to LF: with CRLF the signature matches.", text.replace('\n', "\r\n").into_bytes()),
        ("The body was parsed and written again: as compact JSON the signature matches.", compact(body)),
    ]);
    candidates.retain(|(_, candidate)| candidate != body);
    candidates
}

type Undo = fn(&[u8]) -> Option<Vec<u8>>;

/// What happens to secrets between a provider's page and a command line.
const SECRETS: [(&str, Undo); 3] = [
    ("The secret has spaces or a newline around it: without them the signature matches.", |secret| {
        changed(secret, secret.trim_ascii())
    }),
    ("The secret is in quotes: without them the signature matches.", |secret| {
        let inner = |quote: &[u8]| secret.strip_prefix(quote)?.strip_suffix(quote);
        inner(b"\"").or_else(|| inner(b"'")).map(<[u8]>::to_vec)
    }),
    ("The secret has a prefix that is no part of it: without it the signature matches.", |secret| {
        let end = secret.iter().position(|byte| *byte == b'_')?;
        Some(secret[end + 1..].to_vec())
    }),
];

fn changed(before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    (before != after).then(|| after.to_vec())
}

/// JSON without the spaces between its tokens.
fn compact(body: &[u8]) -> Vec<u8> {
    let (mut is_string, mut is_escaped) = (false, false);
    body.iter()
        .copied()
        .filter(|byte| {
            let is_quote = *byte == b'"' && !is_escaped;
            is_escaped = is_string && *byte == b'\\' && !is_escaped;
            is_string ^= is_quote;
            is_string || !byte.is_ascii_whitespace()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_json_keeps_its_strings() {
        let body = b"{\n  \"a\" : \"x \\\" y\",\t\"b\": [1, 2]\r\n}\n";
        assert_eq!(compact(body), b"{\"a\":\"x \\\" y\",\"b\":[1,2]}");
    }
}
