//! A provider's secrets, decoded as its scheme writes them.

use crate::config::reader::{At, FromNode};
use crate::config::secret::Sourced;
use crate::config::tree::Node;
use crate::config::written::AsWritten;
use crate::scheme::{Key, Scheme};

use super::section::Section;

/// Rotation needs two, a shared endpoint a few; each costs a MAC on every forged delivery.
const SECRETS_MOST: usize = 16;

/// The keys of `secret` or `secrets`, in the order written. Without a scheme they are read and cannot be decoded.
pub(super) fn keys(section: &Section<'_>, scheme: Option<&Scheme>) -> Option<Vec<Key>> {
    let (key, secrets) = read(section)?;
    let shown: Vec<String> = secrets.iter().map(AsWritten::as_written).collect();
    let origin = secrets.first().map(|secret| secret.origin.clone())?;
    section.note(key, shown.join(", "), origin);
    let scheme = scheme?;
    let keys: Vec<Option<Key>> = secrets.iter().map(|secret| decode(section, key, secret, scheme)).collect();
    keys.into_iter().collect()
}

fn read(section: &Section<'_>) -> Option<(&'static str, Vec<Sourced>)> {
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
        at.problems.error(at.problem(Some(secret.origin.clone()), what, "copy the secret exactly as the provider shows it"));
    };
    scheme.key(&secret.secret).map_err(wrong).ok()
}
