//! One request, one preset, some secrets: the verdict, and the event id beside it.

use std::time::SystemTime;

use serde::Serialize;

use super::request::SavedRequest;
use crate::cli::providers::choice;
use crate::config::Secret;
use crate::pipeline::identify::{self, EventId, IdError};
use crate::scheme::preset::{Compiled, Preset};
use crate::scheme::{Composite, Disproof, Key, Place, Proof, PublicUrl, locate};

/// Secrets or public keys, and the name that the provider has for them.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyMaterial {
    pub secrets: Vec<Secret>,
    pub id: Option<String>,
}

/// What requests are judged by.
#[derive(Debug)]
pub(super) struct Trial {
    pub preset: &'static Preset,
    pub compiled: Compiled,
    pub now: SystemTime,
    /// The URL that the provider called, as it was given.
    pub url: Option<String>,
}

/// The verdict on signature and timestamp, and the id whatever the verdict is.
#[derive(Debug)]
pub(super) struct Judgement {
    pub proof: Result<Proof, Fault>,
    pub keys: Vec<Key>,
    pub id: Result<Option<EventId>, IdError>,
    /// The ids of a batch, one by one.
    pub items: Option<Vec<String>>,
    /// What is wrong with secrets that were left out, by their position.
    pub unusable: Vec<(usize, String)>,
}

/// Why a request is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No secret could be used.
    UnusableSecret,
    Disproof(Disproof),
}

impl Fault {
    pub fn code(self) -> &'static str {
        match self {
            Self::UnusableSecret => "unusable_secret",
            Self::Disproof(reason) => reason.code(),
        }
    }

    /// Whether the signature holds, and something else is wrong.
    fn is_signed(self) -> bool {
        matches!(self, Self::Disproof(Disproof::Altered | Disproof::Stale | Disproof::Future))
    }
}

impl Trial {
    /// `url` is the one that the provider called, for schemes that sign it.
    pub fn new(preset: &'static Preset, now: SystemTime, url: Option<&str>) -> Result<Self, String> {
        let public_url = url.map(PublicUrl::parse).transpose().map_err(|what| format!("the URL {what}"))?;
        let mut compiled = choice::compiled(preset)?;
        compiled.scheme = compiled.scheme.at_url(public_url);
        Ok(Self { preset, compiled, now, url: url.map(str::to_owned) })
    }

    pub fn judge(&self, material: &KeyMaterial, request: &SavedRequest) -> Judgement {
        let (mut keys, mut slots, mut unusable) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, secret) in material.secrets.iter().enumerate() {
            match self.compiled.scheme.key(secret) {
                Ok(key) => {
                    keys.push(key.with_id(material.id.clone()));
                    slots.push(slot);
                }
                Err(why) => unusable.push((slot, why)),
            }
        }
        let proof = match self.compiled.scheme.verify(&keys, &request.received(), self.now) {
            Err(Disproof::NoMatch) if keys.is_empty() => Err(Fault::UnusableSecret),
            Err(reason) => Err(Fault::Disproof(reason)),
            Ok(proof) => Ok(Proof { slot: slots.get(proof.slot).copied().unwrap_or(proof.slot) }),
        };
        Judgement { proof, keys, id: self.event_id(request), items: self.items(request), unusable }
    }

    /// Whether a key made the signature, however old it is.
    pub fn is_signed_with(&self, key: Key, request: &SavedRequest) -> bool {
        let judged = self.compiled.scheme.verify(&[key], &request.received(), self.now);
        matches!(judged, Ok(_) | Err(Disproof::Stale | Disproof::Future))
    }

    /// The secret that made the signature, whatever else is wrong, by its position.
    pub fn signer(&self, material: &KeyMaterial, request: &SavedRequest) -> Option<usize> {
        let mut slots = material.secrets.iter().enumerate();
        let alone = |secret: &Secret| KeyMaterial { secrets: vec![secret.clone()], id: material.id.clone() };
        let (slot, _) = slots.find(|(_, secret)| match self.judge(&alone(secret), request).proof {
            Ok(_) => true,
            Err(fault) => fault.is_signed(),
        })?;
        Some(slot)
    }

    /// The same trial, as if the provider had called another URL.
    pub fn at_url(&self, url: &str) -> Option<Self> {
        let compiled =
            Compiled { scheme: self.compiled.scheme.clone().at_url(PublicUrl::parse(url).ok()), ..self.compiled.clone() };
        Some(Self { preset: self.preset, compiled, now: self.now, url: Some(url.to_owned()) })
    }

    fn items(&self, request: &SavedRequest) -> Option<Vec<String>> {
        let parts = self.compiled.event_id.as_ref()?.alternatives().iter().flat_map(Composite::parts);
        let each = parts.filter_map(|part| if let Place::EachJson(each) = &part.place { Some(each) } else { None }).next()?;
        let values = locate::each(each, &request.body).ok().flatten()?;
        Some(values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect())
    }

    fn event_id(&self, request: &SavedRequest) -> Result<Option<EventId>, IdError> {
        let Some(rule) = &self.compiled.event_id else { return Ok(None) };
        identify::event_id(rule, None, &request.received())
    }
}

impl Judgement {
    pub fn is_valid(&self) -> bool {
        self.proof.is_ok()
    }

    /// Whether the signature holds, however old it is.
    pub fn is_signed(&self) -> bool {
        matches!(self.proof, Ok(_) | Err(Fault::Disproof(Disproof::Stale | Disproof::Future)))
    }

    pub fn verdict(&self) -> Verdict {
        let id = self.id.as_ref().ok().and_then(Option::as_ref).map(|id| id.display().to_owned());
        Verdict {
            valid: Some(self.is_valid()),
            reason: self.proof.err().map(Fault::code),
            event_ids: self.items.clone().unwrap_or_else(|| id.iter().cloned().collect()),
            event_id: id,
            note: self.note(),
        }
    }

    fn note(&self) -> Option<String> {
        let secrets = self.unusable.iter().map(|(slot, why)| format!("secret {} {why}", slot + 1));
        let id = self.id.as_ref().err().map(|error| error.explain().to_owned());
        let notes: Vec<String> = secrets.chain(id).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdict {
    pub valid: Option<bool>,
    pub reason: Option<&'static str>,
    pub event_id: Option<String>,
    pub event_ids: Vec<String>,
    pub note: Option<String>,
}
