//! A provider's secrets, decoded as its scheme writes them.

use crate::config::problem::Origin;
use crate::config::reader::{At, FromNode};
use crate::config::secret::Sourced;
use crate::config::tree::{Node, Value};
use crate::config::written::AsWritten;
use crate::scheme::{Key, Scheme};

use super::section::Section;

/// Rotation needs two, a shared endpoint a few; each costs a MAC on every forged delivery.
const SECRETS_MOST: usize = 16;

/// The keys of `secret` or `secrets`, in the order written. Without a scheme they are read and cannot be decoded.
pub(super) fn keys(section: &Section<'_>, scheme: Option<&Scheme>) -> Option<Vec<Key>> {
    let (key, secrets) = if scheme.is_some_and(Scheme::takes_public_keys) {
        public_keys(section, scheme.is_some_and(Scheme::fetches_keys))?
    } else {
        read(section)?
    };
    let shown: Vec<String> = secrets.iter().map(AsWritten::as_written).collect();
    match secrets.first() {
        Some(first) => section.note(key, shown.join(", "), first.origin.clone()),
        None => section.note(key, "fetched".to_owned(), Origin::Builtin),
    }
    let scheme = scheme?;
    let keys: Vec<Option<Key>> = secrets.iter().map(|secret| decode(section, key, secret, scheme)).collect();
    keys.into_iter().collect()
}

fn read(section: &Section<'_>) -> Option<(&'static str, Vec<Sourced>)> {
    section.refuse(
        "public_key",
        "is not what this provider's signatures are verified with",
        "write secret = { env = \"VARIABLE\" }",
    );
    let Some((node, at)) = section.node("secrets") else {
        let help = "write secret = { env = \"VARIABLE\" } or { file = \"PATH\" }, or give --secret-env VARIABLE";
        let found = section.reader().require::<Sourced>("secret", help)?;
        return Some(("secret", vec![found.value]));
    };
    if section.has("secret") {
        at.error(node, "is written beside secret", "write one of them: secrets = [ ... ] holds them all");
    }
    several(node, &at).map(|secrets| ("secrets", secrets))
}

/// Nothing to keep secret, and read like one: from a variable, a file or the configuration.
fn public_keys(section: &Section<'_>, is_fetched: bool) -> Option<(&'static str, Vec<Sourced>)> {
    for key in ["secret", "secrets"] {
        section.refuse(key, "is not what this provider's signatures are verified with", "write public_key = \"...\"");
    }
    match section.node("public_key") {
        Some((node @ Node { value: Value::List(_), .. }, at)) => several(node, &at).map(|keys| ("public_key", keys)),
        None if is_fetched => Some(("public_key", Vec::new())),
        _ => {
            let help = "write public_key = \"...\", { env = \"VARIABLE\" } or { file = \"PATH\" }: the key that the provider shows; or give \
                 --public-key-env VARIABLE";
            let found = section.reader().require::<Sourced>("public_key", help)?;
            Some(("public_key", vec![found.value]))
        }
    }
}

fn several(node: &Node, at: &At<'_>) -> Option<Vec<Sourced>> {
    let secrets: Vec<Sourced> = Vec::from_node(node, at)?;
    if secrets.is_empty() {
        at.error(node, "is empty", "without a secret no signature could hold: write at least one");
        return None;
    }
    if secrets.len() > SECRETS_MOST {
        at.error(
            node,
            format!("holds {} secrets", secrets.len()),
            format!("{SECRETS_MOST} at most: remove those no longer in use"),
        );
        return None;
    }
    Some(secrets)
}

fn decode(section: &Section<'_>, key: &str, secret: &Sourced, scheme: &Scheme) -> Option<Key> {
    let wrong = |why| {
        let what = format!("{} does not fit the scheme: {why}", secret.source);
        let at = section.reader().at(key);
        at.problems.error(at.problem(Some(secret.origin.clone()), what, "copy it exactly as the provider shows it"));
    };
    scheme.key(&secret.secret).map_err(wrong).ok().map(|key| key.with_id(secret.id.clone()))
}
