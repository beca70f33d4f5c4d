//! How providers sign and name their events: data in, verdict out. No I/O and no clock here: `now` is an argument.
//!
//! A scheme is data. A preset and a user's own section are read by the same code; no provider's name is in it.
//! What is verified is the bytes as they were received: nothing is decoded, trimmed or written again before.

mod algorithm;
mod disproof;
mod handshake;
mod id_rule;
pub(crate) mod json;
mod language;
mod layout;
pub mod locate;
mod place;
pub mod preset;
mod signature;
mod signed;
mod timestamp;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use crate::config::Secret;
use algorithm::{Algorithm, Encoding, SecretForm};
use signature::Signature;
use signed::{Piece, Template};
use timestamp::Timestamp;

pub use algorithm::Key;
pub use disproof::Disproof;
pub use handshake::{Answerer, Condition, Guard, Handshake};
pub use id_rule::{Composite, IdPart, IdRule};
use place::Site;
pub use place::{HeaderNames, Place, Pointer};
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
    /// A request whose body is known to be empty.
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
    signature: Signature,
    algorithm: Algorithm,
    secret: SecretForm,
    /// `None`: the value in the header is the proof itself, a token.
    signed: Option<Signed>,
}

/// What a signature is made over, and how it is written.
#[derive(Clone, Debug)]
struct Signed {
    encoding: Encoding,
    template: Template,
    timestamp: Option<Timestamp>,
}

/// A timestamp as it was sent, and the time it tells.
struct Stamp<'a> {
    text: Cow<'a, [u8]>,
    moment: Duration,
}

impl Scheme {
    /// Decodes a secret as this scheme writes them. The error says what is wrong without showing the secret.
    pub fn key(&self, secret: &Secret) -> Result<Key, String> {
        Key::new(self.algorithm, &self.secret.decode(secret)?)
    }

    /// Whether the request was signed with one of the keys, lately enough.
    pub fn verify(&self, keys: &[Key], received: &Received<'_>, now: SystemTime) -> Result<Proof, Disproof> {
        let text = self.signature.read(received.headers)?;
        let offered = self.offered(text)?;
        let stamp = self.stamp(text, received)?;
        let pieces = self.pieces(text, stamp.as_ref(), received)?;
        let slot = first_slot(keys, &pieces, &offered).ok_or(Disproof::NoMatch)?;
        // The age comes last: of a signature that holds, a stale timestamp tells of a clock, a delay or a replay.
        if let (Some(stamp), Some(timestamp)) = (stamp, self.timestamp()) {
            timestamp.judge(stamp.moment, now)?;
        }
        Ok(Proof { slot })
    }

    /// What can be refused before the body is read: a signature that is missing, repeated or not written as it must be.
    pub fn verify_head(&self, headers: &HeaderMap) -> Result<(), Disproof> {
        self.offered(self.signature.read(headers)?).map(|_| ())
    }

    /// Signs a request in the making: puts the timestamp and the signature where the scheme wants them.
    ///
    /// Other headers that the signature covers must be there already.
    pub fn sign(&self, key: &Key, headers: &mut HeaderMap, body: &Bytes, now: SystemTime) -> Result<(), String> {
        let stamp = self.timestamp().map(|timestamp| timestamp.write(now));
        let mut parts = Vec::new();
        match (self.timestamp().map(|timestamp| &timestamp.at), &stamp) {
            (Some(Site::Part(name)), Some(stamp)) => parts.push((name.as_str(), stamp.as_str())),
            (Some(Site::Request(Place::Header(names))), Some(stamp)) => signature::put(names, headers, stamp)?,
            _ => {}
        }
        let text = self.signature.layout.write(&parts, "");
        let received = Received { method: &Method::POST, uri: &Uri::default(), headers, body };
        let signature = self
            .stamp(&text, &received)
            .and_then(|stamp| Ok(key.sign(&self.pieces(&text, stamp.as_ref(), &received)?)))
            .map_err(|reason| self.missing_header(headers).unwrap_or_else(|| reason.explain().to_owned()))?;
        let written = match &self.signed {
            Some(signed) => signed.encoding.encode(&signature),
            None => String::from_utf8(signature.to_vec()).map_err(|_| "is a token that no header can hold".to_owned())?,
        };
        self.signature.put(headers, &parts, &written)
    }

    /// Whether the signature covers what stands at this place, so that nobody could have changed it.
    pub fn covers(&self, place: &Place) -> bool {
        self.signed.as_ref().is_some_and(|signed| signed.covers(&Site::Request(place.clone())))
    }

    /// The largest age of a signed timestamp, if the scheme has one.
    pub fn tolerance(&self) -> Option<Duration> {
        self.timestamp().map(|timestamp| timestamp.tolerance)
    }

    /// The names of the header in which the signature stands.
    pub fn signature_header(&self) -> &HeaderNames {
        &self.signature.names
    }

    /// The time that the timestamp tells, since 1970, whether or not the signature holds. For explanations only.
    pub fn claimed_time(&self, received: &Received<'_>) -> Option<Duration> {
        let text = self.signature.read(received.headers).ok()?;
        self.stamp(text, received).ok()?.map(|stamp| stamp.moment)
    }

    fn timestamp(&self) -> Option<&Timestamp> {
        self.signed.as_ref()?.timestamp.as_ref()
    }

    /// The signatures offered by the header's text, decoded, each as long as the algorithm makes them.
    fn offered(&self, text: &str) -> Result<Vec<Vec<u8>>, Disproof> {
        self.signature.offered(text, |one| {
            let bytes = match &self.signed {
                Some(signed) => signed.encoding.decode(one)?,
                None => one.as_bytes().to_vec(),
            };
            self.algorithm.fits(&bytes).then_some(bytes)
        })
    }

    fn stamp<'a>(&self, text: &'a str, received: &Received<'a>) -> Result<Option<Stamp<'a>>, Disproof> {
        let Some(timestamp) = self.timestamp() else { return Ok(None) };
        let text = self.find(&timestamp.at, text, received)?.ok_or(Disproof::MissingTimestamp)?;
        let moment = timestamp.read(&text)?;
        Ok(Some(Stamp { text, moment }))
    }

    /// The signed bytes, in pieces that are borrowed wherever they can be.
    fn pieces<'a>(
        &'a self,
        text: &'a str,
        stamp: Option<&'a Stamp<'a>>,
        received: &Received<'a>,
    ) -> Result<Vec<Cow<'a, [u8]>>, Disproof> {
        let pieces = self.signed.as_ref().map_or(&[][..], |signed| signed.template.pieces());
        let bytes_of = |piece: &'a Piece| match piece {
            Piece::Literal(literal) => Ok(Cow::Borrowed(literal.as_bytes())),
            Piece::Body => Ok(Cow::Borrowed(received.body.as_ref())),
            Piece::Timestamp => stamp.map(|stamp| Cow::Borrowed(stamp.text.as_ref())).ok_or(Disproof::MissingTimestamp),
            Piece::At(site) => self.find(site, text, received)?.ok_or(Disproof::MissingSignedValue),
        };
        pieces.iter().map(bytes_of).collect()
    }

    fn find<'a>(&self, site: &Site, text: &'a str, received: &Received<'a>) -> Result<Option<Cow<'a, [u8]>>, Disproof> {
        match site {
            Site::Part(name) => Ok(self.signature.layout.part(name, text)?.map(|part| Cow::Borrowed(part.as_bytes()))),
            Site::Request(place) => locate::find(place, received).map_err(|_| Disproof::RepeatedHeader),
        }
    }

    /// What to say of a covered header that is not there.
    fn missing_header(&self, headers: &HeaderMap) -> Option<String> {
        let pieces = self.signed.as_ref().map_or(&[][..], |signed| signed.template.pieces());
        let names = pieces.iter().find_map(|piece| match piece {
            Piece::At(Site::Request(Place::Header(names))) if names.present_in(headers).is_none() => Some(names),
            _ => None,
        })?;
        Some(format!("the signature covers the header {}, which is not there", names.to_write(headers)))
    }
}

impl Signed {
    fn covers(&self, site: &Site) -> bool {
        let is_stamp = self.timestamp.as_ref().is_some_and(|timestamp| timestamp.at == *site);
        self.template.covers(site) || (is_stamp && self.template.has(&Piece::Timestamp))
    }
}

/// The first key that proves a signature. All are tried, so that time does not tell which one it was.
fn first_slot(keys: &[Key], pieces: &[Cow<'_, [u8]>], offered: &[Vec<u8>]) -> Option<usize> {
    let proven: Vec<bool> = keys.iter().map(|key| key.proves(pieces, offered)).collect();
    proven.iter().position(|holds| *holds)
}

#[cfg(test)]
mod tests;
