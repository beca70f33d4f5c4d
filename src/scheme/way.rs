//! One way in which a provider signs: where the signature is, what it is made over, and what it must agree with.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::algorithm::{Algorithm, Primitive};
use super::disproof::Disproof;
use super::encoding::{Encoding, SignatureBytes};
use super::json;
use super::jwt::Token;
use super::key::{Chunk, Material, Message};
use super::layout::{Beside, Parts};
use super::place::{Place, Pointer, Site};
use super::public_url::PublicUrl;
use super::scene::Scene;
use super::secret_form::SecretForm;
use super::signature::Signature;
use super::signed::Gathered;
use super::template::{Source, Template};
use super::timestamp::{Timestamp, Unit};
use super::{Key, Received, locate};

#[derive(Clone, Debug)]
pub(super) struct Way {
    /// It counts where this holds, and always where nothing is said.
    pub when: Option<When>,
    pub signature: Signature,
    pub algorithm: Algorithm,
    pub encoding: Encoding,
    pub secret: SecretForm,
    /// What is signed; one of them must hold. None for tokens, which sign themselves or nothing.
    pub signed: Vec<Template>,
    pub timestamp: Option<Timestamp>,
    /// What must agree beside the signature.
    pub agreements: Vec<Agreement>,
    pub read_of_json: ReadOfJson,
    /// Each item of this list is signed by itself.
    pub each: Option<Pointer>,
    /// Names the key that it is signed with.
    pub key_id: Option<Site>,
    /// How far a token's own times may be off.
    pub leeway: Duration,
}

/// What a delivery must have for a way to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct When {
    pub place: Place,
    /// `None`: anything.
    pub is: Option<String>,
}

/// A signed value, and the templates of which it must be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    pub at: Site,
    pub is: Vec<Template>,
}

/// Where a way reads the body's JSON and signs what it finds, and not the body whole. Something unsigned could then stand
/// beside a signed value that a consumer takes for it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadOfJson {
    body: Vec<Pointer>,
    item: Vec<Pointer>,
}

impl ReadOfJson {
    pub fn of(signed: &[Template], each: Option<&Pointer>) -> Self {
        let mut read = Self::default();
        if signed.iter().any(|template| template.has(&Source::Body)) {
            return read;
        }
        read.body.extend(each.cloned());
        for source in signed.iter().flat_map(Template::sources) {
            match source {
                Source::Raw(pointer) | Source::At(Site::Request(Place::Json(pointer))) => read.body.push(pointer.clone()),
                Source::At(Site::Item(pointer)) => read.item.push(pointer.clone()),
                _ => {}
            }
        }
        read
    }

    fn has_lookalike(&self, body: &[u8], item: Option<&RawValue>) -> bool {
        let item = item.map(|item| item.get().as_bytes()).unwrap_or_default();
        self.body.iter().any(|pointer| json::has_lookalike(body, pointer))
            || self.item.iter().any(|pointer| json::has_lookalike(item, pointer))
    }
}

/// What a delivery is judged with.
#[derive(Clone, Copy)]
pub(super) struct Court<'a> {
    /// The place of this way among those of its scheme.
    pub way: usize,
    pub keys: &'a [Key],
    pub public_url: Option<&'a PublicUrl>,
    pub now: SystemTime,
}

impl When {
    /// The error where it stands there twice: nobody could say whether it holds.
    pub fn holds(&self, received: &Received<'_>) -> Result<bool, Disproof> {
        let found = locate::find(&self.place, received).map_err(|_| Disproof::RepeatedValue)?;
        Ok(found.is_some_and(|found| self.is.as_ref().is_none_or(|is| *found == *is.as_bytes())))
    }
}

impl Way {
    /// The place of the key that signed it, lately enough. What was signed is put into `signed`, where somebody asks for it.
    pub fn verify(&self, received: &Received<'_>, court: Court<'_>, signed: &mut Option<Gathered>) -> Result<usize, Disproof> {
        let slot = self.verify_all(received, court, signed)?;
        if let Some(signed) = signed.as_mut().filter(|signed| !signed.is_of_body() && !self.tells_bodies_apart()) {
            signed.and_body(received.body);
        }
        Ok(slot)
    }

    fn verify_all(&self, received: &Received<'_>, court: Court<'_>, signed: &mut Option<Gathered>) -> Result<usize, Disproof> {
        let Some(list) = &self.each else { return self.verify_one(received, None, court, signed) };
        let items = json::items(received.body, list).map_err(|_| Disproof::RepeatedValue)?;
        let (mut first, mut seen) = (Err(Disproof::MissingSignature), HashSet::new());
        for item in items.unwrap_or_default() {
            // One item, captured once, must not be made into another batch by being there twice. A token is in every item.
            let text = self.signature.read(received, Some(item))?.concat();
            if self.algorithm != Algorithm::Token && !seen.insert(text) {
                return Err(Disproof::RepeatedValue);
            }
            let slot = self.verify_one(received, Some(item), court, signed)?;
            first = first.or(Ok(slot));
        }
        first
    }

    fn verify_one(
        &self,
        received: &Received<'_>,
        item: Option<&RawValue>,
        court: Court<'_>,
        signed: &mut Option<Gathered>,
    ) -> Result<usize, Disproof> {
        let texts = self.signature.read(received, item)?;
        if let Some(name) = self.algorithm.jwt_name() {
            return self.verify_token(name, &texts[0], received, court, signed);
        }
        let mut parts = Parts::default();
        self.signature.layout.parse_into(&texts[0], &mut parts)?;
        let mut offered: SmallVec<[SignatureBytes; 2]> = SmallVec::new();
        for signature in self.signature.offered(&parts, |one| self.decode(one)) {
            offered.push(signature);
        }
        for text in &texts[1..] {
            offered.extend(self.signature.offered(&self.signature.layout.parse(text)?, |one| self.decode(one)));
        }
        if offered.is_empty() {
            return Err(Disproof::MalformedSignature);
        }
        let mut scene = self.scene(parts.beside(), received, court.public_url);
        scene.item = item;
        let stamp = self.stamp(&scene)?;
        scene.timestamp = stamp.as_ref().map(|stamp| stamp.text.as_ref());
        let slot = self.slot(&scene, &offered, court, signed)?;
        self.agrees(&scene)?;
        if self.read_of_json.has_lookalike(received.body, item) {
            return Err(Disproof::RepeatedValue);
        }
        // The age comes last: of a signature that holds, a stale timestamp tells of a clock, a delay or a replay.
        self.judge(stamp.as_ref(), court.now)?;
        Ok(slot)
    }

    /// What a token signs is itself: everything else must agree with what it claims.
    fn verify_token(
        &self,
        name: &str,
        text: &str,
        received: &Received<'_>,
        court: Court<'_>,
        signed: &mut Option<Gathered>,
    ) -> Result<usize, Disproof> {
        let text = text.strip_prefix(self.signature.prefix.as_str()).ok_or(Disproof::MalformedSignature)?;
        let token = Token::parse(text)?;
        if !token.is_for(name) {
            return Err(Disproof::OtherVersion);
        }
        let offered = [self.decode(token.signature).ok_or(Disproof::MalformedSignature)?];
        let mut scene = self.scene(Beside::default(), received, court.public_url);
        scene.token = Some(&token);
        let stamp = self.stamp(&scene)?;
        let message = [Chunk::Bytes(Cow::Borrowed(token.signed.as_bytes()))];
        let slot = self.proven(&scene, &message, &offered, court)?.ok_or(Disproof::NoMatch)?;
        if let Some(signed) = signed {
            signed.add(&message);
        }
        self.agrees(&scene)?;
        self.judge(stamp.as_ref(), court.now)?;
        self.judge_token(&token, court.now)?;
        Ok(slot)
    }

    /// What can be refused before the body is read: a signature that is missing, repeated or not written as it must be.
    pub fn verify_head(&self, received: &Received<'_>) -> Result<(), Disproof> {
        if !self.signature.is_in_head() {
            return Ok(());
        }
        let texts = self.signature.read(received, None)?;
        if let Some(name) = self.algorithm.jwt_name() {
            let text = texts[0].strip_prefix(self.signature.prefix.as_str()).ok_or(Disproof::MalformedSignature)?;
            let is_right = Token::parse(text)?.is_for(name);
            return if is_right { Ok(()) } else { Err(Disproof::OtherVersion) };
        }
        for text in &texts {
            if self.signature.offered(&self.signature.layout.parse(text)?, |one| self.decode(one)).next().is_some() {
                return Ok(());
            }
        }
        Err(Disproof::MalformedSignature)
    }

    pub(super) fn scene<'a>(
        &'a self,
        parts: Beside<'a>,
        received: &Received<'a>,
        public_url: Option<&'a PublicUrl>,
    ) -> Scene<'a> {
        Scene { received: *received, public_url, parts, token: None, item: None, timestamp: None, sign: None }
    }

    /// The parts of the signature's text, or the token that it is, whether or not it holds.
    fn opened<T>(&self, received: &Received<'_>, look: impl FnOnce(&Scene<'_>) -> Option<T>) -> Option<T> {
        let texts = self.signature.read(received, None).ok()?;
        let text = texts[0].strip_prefix(self.signature.prefix.as_str()).unwrap_or(&texts[0]);
        let token = self.algorithm.jwt_name().and_then(|_| Token::parse(text).ok());
        let parts = self.signature.layout.parse(&texts[0]).unwrap_or_default();
        let mut scene = self.scene(parts.beside(), received, None);
        scene.token = token.as_ref();
        look(&scene)
    }

    #[inline]
    fn decode(&self, written: &str) -> Option<SignatureBytes> {
        self.encoding.decode(written).filter(|bytes| self.algorithm.primitive().fits(bytes))
    }

    /// The first key that proves one of the signatures over one of the templates.
    #[inline]
    fn slot(
        &self,
        scene: &Scene<'_>,
        offered: &[SignatureBytes],
        court: Court<'_>,
        signed: &mut Option<Gathered>,
    ) -> Result<usize, Disproof> {
        if self.signed.is_empty() {
            return self.proven(scene, &[], offered, court)?.ok_or(Disproof::NoMatch);
        }
        let (mut proven, mut message) = (None, Message::new());
        for template in &self.signed {
            scene.write(template, &mut message)?;
            let slot = self.proven(scene, &message, offered, court)?;
            if let (Some(signed), Some(_), None, false) = (signed.as_mut(), slot, proven, template.is_body()) {
                signed.add(&message);
            }
            proven = proven.or(slot);
        }
        proven.ok_or(Disproof::NoMatch)
    }

    /// All keys are tried, so that time does not tell which one it was.
    fn proven(
        &self,
        scene: &Scene<'_>,
        message: &[Chunk<'_>],
        offered: &[SignatureBytes],
        court: Court<'_>,
    ) -> Result<Option<usize>, Disproof> {
        let named = match &self.key_id {
            Some(site) => scene.find(site)?,
            None => None,
        };
        let (mut proven, mut is_known) = (None, false);
        for (slot, key) in court.keys.iter().enumerate() {
            // A key without an id is for whoever has none, or another one.
            if self.key_id.is_some() && key.id.as_ref().is_some_and(|id| named.as_deref() != Some(id.as_bytes())) {
                continue;
            }
            let its_own;
            let offered = match &key.id {
                Some(id) if self.signature.layout.is_keyed() => {
                    let Some(signature) = self.signature.of_key(id, &scene.parts)? else { continue };
                    its_own = self.decode(signature);
                    its_own.as_slice()
                }
                _ => offered,
            };
            is_known = true;
            let holds = key.of_way(court.way).is_some_and(|material| material.proves(message, offered));
            proven = proven.or(holds.then_some(slot));
        }
        if is_known || court.keys.is_empty() { Ok(proven) } else { Err(Disproof::UnknownKey) }
    }

    #[inline]
    fn stamp<'a>(&self, scene: &Scene<'a>) -> Result<Option<Stamp<'a>>, Disproof> {
        let Some(timestamp) = &self.timestamp else { return Ok(None) };
        let text = scene.find(&timestamp.at)?.ok_or(Disproof::MissingTimestamp)?;
        let moment = timestamp.read(&text)?;
        Ok(Some(Stamp { text, moment }))
    }

    #[inline]
    fn judge(&self, stamp: Option<&Stamp<'_>>, now: SystemTime) -> Result<(), Disproof> {
        match (stamp, &self.timestamp) {
            (Some(stamp), Some(timestamp)) => timestamp.judge(stamp.moment, now),
            _ => Ok(()),
        }
    }

    /// A token's own times count wherever it has them.
    fn judge_token(&self, token: &Token<'_>, now: SystemTime) -> Result<(), Disproof> {
        let now = Unit::Seconds.since_epoch(now);
        let time = |name: &str| {
            let text = token.claim(&Pointer::of_step(name))?;
            let time = text.as_deref().map(|text| Unit::Seconds.read(text).ok_or(Disproof::MalformedTimestamp)).transpose()?;
            // A time that is no whole number is no time, and must not count as none.
            if time.is_none() && token.has_claim(name) { Err(Disproof::MalformedTimestamp) } else { Ok(time) }
        };
        if time("exp")?.is_some_and(|expires| now >= expires + self.leeway) {
            Err(Disproof::Stale)
        } else if time("nbf")?.is_some_and(|begins| now + self.leeway < begins) {
            Err(Disproof::Future)
        } else {
            Ok(())
        }
    }

    /// An absent value agrees with nothing but an empty template.
    #[inline]
    fn agrees(&self, scene: &Scene<'_>) -> Result<(), Disproof> {
        for agreement in &self.agreements {
            let found = scene.find(&agreement.at)?.unwrap_or_default();
            let mut agrees = false;
            for template in &agreement.is {
                agrees |= scene.text_of(template)?.is_some_and(|expected| expected == *found);
            }
            if !agrees {
                return Err(Disproof::Altered);
            }
        }
        Ok(())
    }

    /// The time that the timestamp tells, since 1970, whether or not the signature holds. For explanations only.
    pub fn claimed_time(&self, received: &Received<'_>) -> Option<Duration> {
        self.opened(received, |scene| self.stamp(scene).ok()?.map(|stamp| stamp.moment))
    }

    /// Whether the key that a delivery names is among these, or it names none.
    pub fn knows_key(&self, keys: &[Key], received: &Received<'_>) -> bool {
        let Some(site) = &self.key_id else { return true };
        let named = self.opened(received, |scene| scene.find(site).ok().flatten().map(Cow::into_owned));
        named.is_none_or(|named| keys.iter().any(|key| key.id.as_ref().is_none_or(|id| named == id.as_bytes())))
    }

    /// Whether the signature covers what stands there, so that nobody could have changed it.
    pub fn covers(&self, site: &Site) -> bool {
        let is_stamp = self.timestamp.as_ref().is_some_and(|timestamp| timestamp.at == *site);
        let is_signed = |template: &Template| template.covers(site) || (is_stamp && template.has(&Source::Timestamp));
        let by_template = !self.signed.is_empty() && self.signed.iter().all(is_signed);
        by_template || self.is_of_items(site) || self.is_in_token(site) || self.is_agreed_on(site)
    }

    /// Whether it is a value of the items that are signed one by one.
    fn is_of_items(&self, site: &Site) -> bool {
        match (site, &self.each) {
            (Site::Request(Place::EachJson(each)), Some(list)) => {
                each.list == *list && self.is_in_template(&Site::Item(each.inner.clone()))
            }
            _ => false,
        }
    }

    /// Whether it is a claim of the token that is the signature.
    fn is_in_token(&self, site: &Site) -> bool {
        self.algorithm.jwt_name().is_some()
            && match site {
                Site::Claim(_) | Site::Part(_) => true,
                Site::Request(Place::Within(within)) => {
                    matches!(&self.signature.at, super::signature::Spot::One(place) if *place == within.outer)
                }
                Site::Request(_) | Site::Item(_) => false,
            }
    }

    /// Whether a covered value must agree with it.
    fn is_agreed_on(&self, site: &Site) -> bool {
        self.agreements.iter().any(|agreement| {
            // An agreement covers nothing by itself, nor does one that could be had with an absent value.
            let is_firm = agreement.at != *site && (self.is_in_token(&agreement.at) || self.is_in_template(&agreement.at));
            is_firm && agreement.is.iter().all(|template| template.covers(site))
        })
    }

    fn is_in_template(&self, site: &Site) -> bool {
        !self.signed.is_empty() && self.signed.iter().all(|template| template.covers(site))
    }

    /// Whether it signs with a secret that its signatures do not give away.
    pub fn is_mac(&self) -> bool {
        matches!(self.algorithm.primitive(), Primitive::Hmac(_)) && self.algorithm.jwt_name().is_none()
    }

    /// Whether what it signs is the body and nothing else.
    pub fn signs_body(&self) -> bool {
        self.signed == [Template::body()]
    }

    /// Whether two bodies are never signed alike, but by chance.
    pub fn tells_bodies_apart(&self) -> bool {
        let is_about_body = |template: &Template| template.has(&Source::Body) || template.has(&Source::SortedForm);
        let by_template = !self.signed.is_empty() && self.signed.iter().all(is_about_body);
        by_template || self.covers(&Site::Request(Place::Body))
    }

    /// A key of this way. The error says what is wrong with the secret without showing it.
    pub fn material(&self, secret: &crate::config::Secret) -> Result<Material, String> {
        Material::new(self.algorithm.primitive(), &self.secret.decode(secret)?)
    }
}

/// A timestamp as it was sent, and the time it tells.
struct Stamp<'a> {
    text: Cow<'a, [u8]>,
    moment: Duration,
}
