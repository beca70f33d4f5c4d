//! How providers sign and name their events: data in, verdict out. No I/O and no clock here: `now` is an argument.
//!
//! A scheme is data. A preset and a user's own section are read by the same code; no provider's name is in it.
//! What is verified is the bytes as they were received: nothing is decoded, trimmed or written again before.

mod algorithm;
mod describe;
mod disproof;
mod draft;
mod encoding;
mod function;
mod handshake;
mod id_rule;
pub(crate) mod json;
mod jwt;
mod key;
mod key_source;
mod language;
mod layout;
pub mod locate;
mod multipart;
mod place;
pub mod preset;
pub mod public_key;
mod public_url;
mod scene;
mod secret_form;
mod signature;
mod signed;
mod signing;
mod template;
mod timestamp;
mod way;

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use crate::config::Secret;
use key::Material;
use key_source::KeySource;
use secret_form::SecretForm;
use signed::Gathered;
use template::Source;
use way::{Court, Way};

pub use disproof::Disproof;
pub use draft::Draft;
pub use handshake::{Answerer, Challenge, Handshake};
pub use id_rule::{Composite, IdPart, IdRule};
pub use key_source::{DocumentKind, KeyDocument};
use place::Site;
pub use place::{EachPointer, HeaderNames, Place, Pointer};
pub use public_url::PublicUrl;
pub use signed::Signed;
pub use timestamp::EventTime;

/// The request as a scheme looks at it: raw bytes, nothing decoded.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub body: &'a Bytes,
}

impl<'a> Received<'a> {
    /// A request whose body is known to be empty, or not read yet.
    pub fn without_body(parts: &'a Parts) -> Self {
        static NOTHING: Bytes = Bytes::new();
        Self { method: &parts.method, uri: &parts.uri, headers: &parts.headers, body: &NOTHING }
    }
}

/// A signature that holds: which secret it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub slot: usize,
}

/// A compiled scheme.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// The first whose condition holds judges. Never empty.
    ways: Vec<Way>,
    public_url: Option<PublicUrl>,
    /// Where keys are fetched from, where none are configured.
    keys: Option<KeySource>,
}

/// A secret or a public key, as each way of a scheme uses it.
#[derive(Clone)]
pub struct Key {
    /// By which deliveries name it, where they do.
    id: Option<String>,
    /// One for each way that it suits.
    materials: Vec<Option<Material>>,
}

impl Key {
    /// The same key, under the name that the provider has for it.
    pub fn with_id(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }

    fn of_way(&self, way: usize) -> Option<&Material> {
        self.materials.get(way)?.as_ref()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Scheme {
    /// Decodes a secret or a public key as this scheme writes them. The error says what is wrong without showing it.
    pub fn key(&self, secret: &Secret) -> Result<Key, String> {
        self.key_of(|way| way.material(secret))
    }

    fn key_of(&self, material: impl Fn(&Way) -> Result<Material, String>) -> Result<Key, String> {
        let mut why = None;
        let materials: Vec<_> = self.ways.iter().map(|way| material(way).map_err(|wrong| why = Some(wrong)).ok()).collect();
        match why {
            Some(why) if materials.iter().all(Option::is_none) => Err(why),
            _ => Ok(Key { id: None, materials }),
        }
    }

    /// The keys that a secret gives if it is taken in another form than this scheme's, and which that is. For explanations
    /// only.
    pub fn keys_in_other_forms(&self, secret: &Secret) -> Vec<(&'static str, Key)> {
        let key = |form: &SecretForm| self.key_of(|way| Material::new(way.algorithm.primitive(), &form.decode(secret)?)).ok();
        SecretForm::ALL.iter().filter_map(|(name, form)| Some((*name, key(form)?))).collect()
    }

    /// The same scheme at the URL that the provider calls.
    pub fn at_url(self, public_url: Option<PublicUrl>) -> Self {
        Self { public_url, ..self }
    }

    /// Whether the request was signed with one of the keys, lately enough.
    pub fn verify(&self, keys: &[Key], received: &Received<'_>, now: SystemTime) -> Result<Proof, Disproof> {
        self.judge(keys, received, now, &mut None)
    }

    /// The same, and what was signed: by that a delivery is known again, whatever else of it was changed.
    pub fn verify_signed(&self, keys: &[Key], received: &Received<'_>, now: SystemTime) -> Result<(Proof, Signed), Disproof> {
        let mut signed = Some(Gathered::default());
        let proof = self.judge(keys, received, now, &mut signed)?;
        Ok((proof, signed.unwrap_or_default().signed()))
    }

    fn judge(
        &self,
        keys: &[Key],
        received: &Received<'_>,
        now: SystemTime,
        signed: &mut Option<Gathered>,
    ) -> Result<Proof, Disproof> {
        // A place that keys are never fetched from proves nothing, whoever stands in for the fetching.
        if let Some(Err(reason)) = self.key_document(received) {
            return Err(reason);
        }
        let (way, judge) = self.way(received)?.ok_or(Disproof::OtherVersion)?;
        let court = Court { way, keys, public_url: self.public_url.as_ref(), now };
        judge.verify(received, court, signed).map(|slot| Proof { slot })
    }

    /// What can be refused before the body is read: a signature that is missing, repeated or not written as it must be.
    pub fn verify_head(&self, head: &Received<'_>) -> Result<(), Disproof> {
        let mut first = Ok(());
        for way in &self.ways {
            match way.verify_head(head) {
                Ok(()) => return Ok(()),
                Err(reason) => first = first.and(Err(reason)),
            }
        }
        first
    }

    /// The way that counts for a request.
    fn way(&self, received: &Received<'_>) -> Result<Option<(usize, &Way)>, Disproof> {
        for (place, way) in self.ways.iter().enumerate() {
            if way.when.as_ref().map_or(Ok(true), |when| when.holds(received))? {
                return Ok(Some((place, way)));
            }
        }
        Ok(None)
    }

    /// Whether the signature covers what stands at this place, so that nobody could have changed it.
    pub fn covers(&self, place: &Place) -> bool {
        // The query of a URL that is configured whole is that one, whatever a request's is.
        let is_fixed = matches!(place, Place::Query(_)) && self.public_url.as_ref().is_some_and(PublicUrl::has_query);
        let site = Site::Request(place.clone());
        !is_fixed && self.ways.iter().all(|way| way.covers(&site))
    }

    /// Whether every delivery of an event is signed alike: the body is signed, and nothing that changes from one to the next.
    pub fn signs_body_alone(&self) -> bool {
        self.ways.iter().all(Way::signs_body)
    }

    /// Whether two bodies are never signed alike, but by chance.
    pub fn tells_bodies_apart(&self) -> bool {
        self.ways.iter().all(Way::tells_bodies_apart)
    }

    /// The largest age of a signed timestamp, if the scheme has one; of several, the shortest.
    pub fn tolerance(&self) -> Option<Duration> {
        self.ways.iter().filter_map(|way| way.timestamp.as_ref()?.tolerance).min()
    }

    /// The names of the header in which the signature stands. `None`: it stands elsewhere.
    pub fn signature_header(&self) -> Option<HeaderNames> {
        self.ways.iter().find_map(|way| way.signature.names())
    }

    /// The time that the timestamp tells, since 1970, whether or not the signature holds. For explanations only.
    pub fn claimed_time(&self, received: &Received<'_>) -> Option<Duration> {
        self.way(received).ok()??.1.claimed_time(received)
    }

    /// Whether it cannot judge without knowing the URL that the provider calls.
    pub fn signs_url(&self) -> bool {
        let templates = |way: &Way| {
            let agreed = way.agreements.iter().flat_map(|agreement| &agreement.is);
            way.signed.iter().chain(agreed).any(|template| template.has(&Source::Url))
        };
        self.ways.iter().any(templates)
    }

    /// Whether it verifies with public keys, so that nothing needs to be kept secret.
    pub fn takes_public_keys(&self) -> bool {
        self.ways.iter().all(|way| way.algorithm.is_public())
    }

    /// Whether the secret that verifies can also sign.
    pub fn can_be_signed(&self) -> bool {
        !self.ways.iter().any(|way| way.algorithm.is_public())
    }

    /// Whether the key that a delivery names is among these, or it names none.
    pub fn knows_key(&self, keys: &[Key], received: &Received<'_>) -> bool {
        self.way(received).ok().flatten().is_none_or(|(_, way)| way.knows_key(keys, received))
    }

    /// Whether deliveries name the key they are signed with.
    pub fn names_keys(&self) -> bool {
        self.ways.iter().any(|way| way.key_id.is_some())
    }
}

#[cfg(test)]
mod tests;
