//! The usual causes of a signature that does not match, each tried by undoing it.

use super::judge::{KeyMaterial, Trial};
use super::request::SavedRequest;
use crate::config::Secret;

/// What, when undone, makes the signature match. Each is a sentence.
pub(super) fn likely(trial: &Trial, keys: &KeyMaterial, request: &SavedRequest) -> Vec<&'static str> {
    let body_causes = bodies(&request.body)
        .into_iter()
        .filter(|(_, body)| trial.judge(keys, &request.with_body(body.clone())).is_signed())
        .map(|(cause, _)| cause);
    let secret_causes = SECRETS
        .iter()
        .filter(|(_, undo)| {
            let secrets = keys.secrets.iter().filter_map(|secret| undo(secret.bytes())).map(Secret::new).collect();
            trial.judge(&KeyMaterial { secrets, id: keys.id.clone() }, request).is_signed()
        })
        .map(|(cause, _)| *cause);
    body_causes.chain(secret_causes).collect()
}

/// The bodies that may have been signed instead of this one.
fn bodies(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let text = String::from_utf8_lossy(body);
    let unended = body.strip_suffix(b"\n").map(|rest| rest.strip_suffix(b"\r").unwrap_or(rest).to_vec());
    let mut candidates = vec![
        ("The body lost a newline at its end: with it the signature matches.", [body, b"\n"].concat()),
        ("The body was parsed and written again: as compact JSON the signature matches.", compact(body)),
        ("Line ends were changed to CRLF: with LF the signature matches.", text.replace("\r\n", "\n").into_bytes()),
        ("Line ends were changed to LF: with CRLF the signature matches.", text.replace('\n', "\r\n").into_bytes()),
    ];
    let ended = "A newline was added at the body's end, as editors and `echo` do: without it the signature matches.";
    candidates.extend(unended.map(|rest| (ended, rest)));
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
