//! How providers sign and name their events: data in, verdict out. No I/O and no clock here: `now` is an argument.
//!
//! A scheme is data. A preset and a user's own section are read by the same code; no provider's name is in it.

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Uri};

use crate::config::Secret;
use crate::config::reader::{At, FromNode};
use crate::config::tree::{Node, Table};

/// The request as a scheme looks at it: raw bytes, nothing decoded.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub body: &'a Bytes,
}

/// A signature that holds: which secret it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub slot: usize,
}

/// Why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disproof {
    MissingSignature,
}

impl Disproof {
    /// Every reason, for the series that exist from the start.
    pub const ALL: &'static [Self] = &[Self::MissingSignature];

    /// The word of the metric label and of the JSON reason.
    pub fn code(self) -> &'static str {
        "missing_signature"
    }

    /// A sentence for a log line or for `verify`.
    pub fn explain(self) -> &'static str {
        "there is no signature"
    }
}

/// Key material, decoded as the scheme asks.
#[derive(Clone, Debug)]
pub struct Key;

/// A compiled scheme.
#[derive(Clone, Debug)]
pub struct Scheme;

impl Scheme {
    /// Decodes a secret as this scheme writes them. The error says what is wrong without showing the secret.
    pub fn key(&self, _secret: &Secret) -> Result<Key, String> {
        Ok(Key)
    }

    /// Whether the request was signed with one of the keys, lately enough.
    pub fn verify(&self, _keys: &[Key], _received: &Received<'_>, _now: SystemTime) -> Result<Proof, Disproof> {
        Err(Disproof::MissingSignature)
    }

    /// What can be refused before the body is read: a signature header that is missing.
    pub fn verify_head(&self, _headers: &HeaderMap) -> Result<(), Disproof> {
        Ok(())
    }

    /// Signs a request in the making: puts the timestamp and the signature where the scheme wants them.
    pub fn sign(&self, _key: &Key, _headers: &mut HeaderMap, _body: &Bytes, _now: SystemTime) -> Result<(), String> {
        Ok(())
    }

    /// Whether the signature covers what stands at this place, so that nobody could have changed it.
    pub fn covers(&self, _place: &Place) -> bool {
        false
    }

    /// The largest age of a signed timestamp, if the scheme has one.
    pub fn tolerance(&self) -> Option<std::time::Duration> {
        None
    }
}

impl FromNode for Scheme {
    fn from_node(_node: &Node, _at: &At<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// Where a value stands in a request: a header, a query parameter, a JSON pointer...
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Header(HeaderName),
}

impl FromNode for Place {
    fn from_node(_node: &Node, _at: &At<'_>) -> Option<Self> {
        None
    }
}

/// How the event id is found: places, composites, fallbacks.
#[derive(Clone, Debug)]
pub struct IdRule;

impl IdRule {
    /// Whether every part is covered by the scheme's signature.
    pub fn is_signed(&self, _scheme: &Scheme) -> bool {
        false
    }
}

impl FromNode for IdRule {
    fn from_node(_node: &Node, _at: &At<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// A challenge that a provider sends to see whether the endpoint is ours.
#[derive(Clone, Debug)]
pub struct Handshake;

impl FromNode for Handshake {
    fn from_node(_node: &Node, _at: &At<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// The presets that ship with the program.
pub mod preset {
    use super::Table;

    /// A provider section that ships with the program: the same keys, and `docs`, `evidence`, `aliases`.
    #[derive(Debug)]
    pub struct Preset {
        pub name: &'static str,
        pub table: Table,
    }

    /// The preset of this name or alias.
    pub fn find(_name: &str) -> Option<&'static Preset> {
        None
    }

    pub fn names() -> Vec<&'static str> {
        Vec::new()
    }
}
