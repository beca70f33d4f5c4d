//! One request, one preset, some secrets: the verdict, and the event id beside it.

use std::time::SystemTime;

use serde::Serialize;

use super::request::SavedRequest;
use crate::config::Secret;
use crate::pipeline::identify::{self, IdError};
use crate::scheme::preset::{Compiled, Preset};
use crate::scheme::{Disproof, Proof};

/// What requests are judged by.
#[derive(Debug)]
pub(super) struct Trial {
    pub preset: &'static Preset,
    pub compiled: Compiled,
    pub now: SystemTime,
}

/// The verdict on signature and timestamp, and the id whatever the verdict is.
#[derive(Debug)]
pub(super) struct Judgement {
    pub proof: Result<Proof, Fault>,
    pub id: Result<Option<String>, IdError>,
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

    pub fn explain(self) -> &'static str {
        match self {
            Self::UnusableSecret => "no secret is one that this preset's provider gives out",
            Self::Disproof(reason) => reason.explain(),
        }
    }
}

impl Trial {
    pub fn new(preset: &'static Preset, now: SystemTime) -> Result<Self, String> {
        let told =
            |problems: Vec<crate::config::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Ok(Self { preset, compiled: preset.compile().map_err(told)?, now })
    }

    pub fn judge(&self, secrets: &[Secret], request: &SavedRequest) -> Judgement {
        let (mut keys, mut slots, mut unusable) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, secret) in secrets.iter().enumerate() {
            match self.compiled.scheme.key(secret) {
                Ok(key) => {
                    keys.push(key);
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
        Judgement { proof, id: self.event_id(request), unusable }
    }

    fn event_id(&self, request: &SavedRequest) -> Result<Option<String>, IdError> {
        let Some(rule) = &self.compiled.event_id else { return Ok(None) };
        Ok(identify::event_id(rule, None, &request.received())?.map(|id| id.display()))
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
        let event_id = self.id.clone().ok().flatten();
        Verdict {
            valid: Some(self.is_valid()),
            reason: self.proof.err().map(Fault::code),
            event_ids: event_id.iter().cloned().collect(),
            event_id,
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
