//! What the store dedupes on: namespace, provider and event id in one string.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::{BodyDigest, EventId};
use crate::scheme::json::feed;

/// `{namespace}:{provider}:{id}`, readable where that is safe. Cheap to clone and to compare.
///
/// Namespace and provider come from the configuration, which keeps colons out of them; an id that could be mistaken
/// for a delimiter or for another id is written as a tilde and a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKey {
    text: Arc<str>,
    /// Made once, for all the tables that know events by their keys.
    number: u64,
}

/// An id may be of anybody's choice, where the signature leaves it out: nobody shall know which of them meet in a table.
static NUMBERED_BY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Longer ids are digested, so that keys stay short.
const READABLE_BYTES_MAX: usize = 128;

impl EventKey {
    pub fn new(namespace: &str, provider: &str, id: &EventId) -> Self {
        if is_readable(id) { Self::of(namespace, provider, id.display()) } else { Self::of(namespace, provider, &digested(id)) }
    }

    fn of(namespace: &str, provider: &str, id: &str) -> Self {
        let mut key = String::with_capacity(namespace.len() + provider.len() + id.len() + 2);
        for part in [namespace, ":", provider, ":", id] {
            key.push_str(part);
        }
        Self::stored(&key)
    }

    /// The key of an event that shares its id with another of a different body.
    pub fn with_digest(&self, digest: BodyDigest) -> Self {
        Self::stored(&format!("{}:{digest}", self.text))
    }

    /// The key of an event that has no id but what is signed. No id is written so.
    pub fn of_signed(namespace: &str, provider: &str, signed: BodyDigest) -> Self {
        Self::stored(&format!("{namespace}:{provider}:={signed}"))
    }

    /// The cell that says to which event signed bytes belong; no event's key.
    pub fn binding(namespace: &str, provider: &str, signed: BodyDigest) -> String {
        format!("{namespace}:{provider}:={signed}:event")
    }

    /// Every key that an event which is shown so may have, the likeliest first: the id as logs and headers show it, the
    /// same with the digest of another body behind it, or the last part of a key as it is stored.
    pub fn shown_as(namespace: &str, provider: &str, text: &str) -> Vec<Self> {
        let of = |text: &str| Some(Self::new(namespace, provider, &EventId::parse(text)?));
        let stored = |text: &str| (is_digested(text) || is_of_signed(text)).then(|| Self::of(namespace, provider, text));
        let (id, digest) = match text.rsplit_once(':') {
            Some((id, digest)) => (id, BodyDigest::parse(digest)),
            None => (text, None),
        };
        let with_digest = digest.map(|digest| [of(id), stored(id)].map(|key| key.map(|key| key.with_digest(digest))));
        [of(text), stored(text)].into_iter().chain(with_digest.into_iter().flatten()).flatten().collect()
    }

    /// The same with a tag before the id, by which a Cluster keeps it beside other keys.
    pub fn tagged(&self, tag: &str) -> Self {
        let mut parts = self.text.splitn(3, ':');
        let (namespace, provider, id) = (parts.next(), parts.next(), parts.next());
        let [namespace, provider, id] = [namespace, provider, id].map(Option::unwrap_or_default);
        Self::stored(&format!("{namespace}:{provider}:{tag}:{id}"))
    }

    /// The same without a tag.
    pub fn untagged(&self) -> Self {
        let mut parts = self.text.splitn(3, ':');
        let (namespace, provider) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Self::of(namespace, provider, self.id())
    }

    /// What stands behind namespace and provider, neither of which has a colon, and behind a tag.
    pub fn id(&self) -> &str {
        let id = self.text.splitn(3, ':').nth(2).unwrap_or_default();
        let behind = id.strip_prefix('{').and_then(|tagged| tagged.split_once("}:"));
        behind.map_or(id, |(_, id)| id)
    }

    /// The key of an entry, as a store has it.
    pub fn stored(key: &str) -> Self {
        Self { number: NUMBERED_BY.hash_one(key), text: key.into() }
    }

    /// The same for equal keys in one process, and for hardly any others.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Whether every byte of it is harmless, the `+` between two parts too, and there are few enough.
fn is_readable(id: &EventId) -> bool {
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'+');
    let text = id.display();
    text.len() <= READABLE_BYTES_MAX && text.bytes().all(is_harmless)
}

/// Whether this is how `digested` writes an id.
fn is_digested(text: &str) -> bool {
    text.strip_prefix('~').is_some_and(|hex| HEXLOWER.decode(hex.as_bytes()).is_ok_and(|digest| digest.len() == 32))
}

/// Whether this is how `of_signed` writes an id.
fn is_of_signed(text: &str) -> bool {
    text.strip_prefix('=').is_some_and(|hex| BodyDigest::parse(hex).is_some())
}

fn digested(id: &EventId) -> String {
    let mut digest = Sha256::new();
    id.parts().for_each(|part| feed(&mut digest, &part));
    format!("~{}", HEXLOWER.encode(&digest.finalize()))
}
