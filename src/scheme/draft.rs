//! Signing: what `send`, `sign` and the demo do in the provider's place. Signed as the scheme says, by the same templates
//! that verify.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method, Request, Uri};
use http_body_util::Full;
use serde_json::{Map, Value, json};

use super::key::Material;
use super::layout::Beside;
use super::place::{Document, Place, Pointer, Site, Within};
use super::signature::{Spot, put};
use super::template::{Listed, Source};
use super::timestamp::Unit;
use super::way::Way;
use super::{Key, Received, Scheme, jwt, locate};
use crate::config::Secret;

/// A request in the making.
#[derive(Clone, Debug)]
pub struct Draft {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// How long a token is good for.
const TOKEN_LIFE: Duration = Duration::from_secs(300);

impl Draft {
    pub fn received(&self) -> Received<'_> {
        Received { method: &self.method, uri: &self.uri, headers: &self.headers, body: &self.body }
    }

    pub fn into_request(self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body));
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (self.method, self.uri, self.headers);
        request
    }

    /// Puts a value where it belongs. The error says why it cannot be put there.
    pub(super) fn put(&mut self, place: &Place, text: &str) -> Result<(), String> {
        match place {
            Place::Header(names) => put(names, &mut self.headers, text),
            Place::Json(pointer) => self.edit_json(|document| set(document, pointer, text)),
            Place::Query(name) => self.add_parameter(name, text),
            Place::Form(name) => {
                let field = format!("{name}={}", escaped(text));
                let joint = if self.body.is_empty() { "" } else { "&" };
                self.body = [&self.body[..], joint.as_bytes(), field.as_bytes()].concat().into();
                Ok(())
            }
            Place::Body => {
                self.body = text.to_owned().into();
                Ok(())
            }
            Place::Within(within) if within.document == Document::Json => self.put_within(within, text),
            Place::EachJson(_) | Place::Within(_) => Err("stands at a place that cannot be written to".to_owned()),
        }
    }

    /// Writes into a field of a multipart body that is JSON. Its other bytes stay as they are.
    fn put_within(&mut self, within: &Within, text: &str) -> Result<(), String> {
        let unwritable = || "stands at a place that cannot be written to".to_owned();
        let found = locate::find(&within.outer, &self.received()).ok().flatten().ok_or_else(unwritable)?.into_owned();
        let mut document: Value = serde_json::from_slice(&found).map_err(|_| unwritable())?;
        set(&mut document, &within.pointer, text).ok_or_else(unwritable)?;
        let at = memchr::memmem::find(&self.body, &found).ok_or_else(unwritable)?;
        let (before, after) = (&self.body[..at], &self.body[at + found.len()..]);
        self.body = [before, document.to_string().as_bytes(), after].concat().into();
        Ok(())
    }

    fn edit_json(&mut self, edit: impl FnOnce(&mut Value) -> Option<()>) -> Result<(), String> {
        let mut document: Value =
            serde_json::from_slice(&self.body).map_err(|_| "stands in a body that is not JSON".to_owned())?;
        edit(&mut document).ok_or("stands in the body, which has no such place")?;
        self.body = document.to_string().into();
        Ok(())
    }

    fn add_parameter(&mut self, name: &str, text: &str) -> Result<(), String> {
        let joint = if self.uri.query().is_some() { '&' } else { '?' };
        let target = format!("{}{joint}{name}={}", self.uri, escaped(text));
        self.uri = target.parse().map_err(|_| "stands in the query, which cannot hold it".to_owned())?;
        Ok(())
    }
}

/// Sets what stands at a pointer; an object on the way is made where it is missing.
fn set(document: &mut Value, pointer: &Pointer, text: &str) -> Option<()> {
    let mut here = document;
    let (last, before) = pointer.steps().split_last()?;
    for step in before {
        here = match here {
            Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?)?,
            Value::Object(map) => map.entry(step.as_str()).or_insert_with(|| Value::Object(Map::new())),
            _ => return None,
        };
    }
    here.as_object_mut()?.insert(last.clone(), Value::String(text.to_owned()));
    Some(())
}

fn escaped(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    text.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Scheme {
    /// A key that signs where the scheme verifies with a public one. The error says what is wrong with it.
    pub fn signing_key(&self, private_key: &Secret) -> Result<Key, String> {
        self.key_of(|way| way.signing_material(private_key))
    }

    /// Signs a request: puts the timestamp and the signature where the scheme wants them. Other values that the
    /// signature covers must be there already.
    pub fn sign(&self, key: &Key, draft: &mut Draft, now: SystemTime) -> Result<(), String> {
        // What decides between ways may be there only once it is signed: then the first one is meant.
        let (place, way) =
            self.way(&draft.received()).ok().flatten().or_else(|| Some((0, self.ways.first()?))).ok_or("has no way to sign")?;
        let material = key.of_way(place).ok_or("is signed in a way that this key is not for")?;
        let signer = Signing { way, material, key, scheme: self, now };
        match (way.algorithm.jwt_name(), &way.each) {
            (Some(name), _) => signer.sign_token(name, draft),
            (None, Some(list)) => signer.sign_items(list, draft),
            (None, None) => signer.sign_request(draft),
        }
    }
}

impl Way {
    fn signing_material(&self, private_key: &Secret) -> Result<Material, String> {
        match self.algorithm.primitive() {
            super::algorithm::Primitive::Public(verifier) => {
                super::signing::Signer::new(verifier, private_key.bytes()).map(Material::Private)
            }
            _ => self.material(private_key),
        }
    }
}

struct Signing<'a> {
    way: &'a Way,
    material: &'a Material,
    key: &'a Key,
    scheme: &'a Scheme,
    now: SystemTime,
}

impl Signing<'_> {
    fn sign_request(&self, draft: &mut Draft) -> Result<(), String> {
        self.name_key(draft)?;
        self.put_agreements(draft)?;
        let stamp = self.way.timestamp.as_ref().map(|timestamp| timestamp.write(self.now));
        let mut parts = Vec::new();
        match (self.way.timestamp.as_ref().map(|timestamp| &timestamp.at), &stamp) {
            (Some(Site::Part(name)), Some(stamp)) => parts.push((name.as_str(), stamp.as_str())),
            (Some(Site::Request(place)), Some(stamp)) => self.put_timestamp(draft, place, stamp)?,
            _ => {}
        }
        let listed = self.listed(draft);
        parts.extend(listed.iter().map(|(name, names)| (*name, names.as_str())));
        if let Spot::One(place @ Place::Json(_)) = &self.way.signature.at {
            // The body takes the form that it will have, before anything of it is signed.
            draft.put(place, "")?;
        }
        let key_id = match &self.key.id {
            Some(id) => id.as_str(),
            None if self.way.signature.layout.is_keyed() => {
                return Err("stands under the id of its key, which has none".to_owned());
            }
            None => "",
        };
        let text = self.way.signature.layout.write(key_id, &parts, "");
        let signature = self.signature(draft, &text, stamp.as_deref(), None)?;
        let written = self.way.signature.write(key_id, &parts, &signature);
        match &self.way.signature.at {
            Spot::One(place) => draft.put(place, &written),
            Spot::Every(_) | Spot::Numbered(_) => {
                let names = self.way.signature.names().ok_or("stands under a name that is none")?;
                put(&names, &mut draft.headers, &written)
            }
            Spot::Item(_) => Err("stands in the items of a list, and none is named".to_owned()),
        }
    }

    /// Parts beside the timestamp: as they stand in a signature that is there already; otherwise those that name the headers
    /// which are signed, all that are there but the body's own, and those that may say anything.
    fn listed(&self, draft: &Draft) -> Vec<(&str, String)> {
        let received = draft.received();
        let text = self.way.signature.read(&received, None).ok();
        let before = text.as_ref().and_then(|texts| self.way.signature.layout.parse(&texts[0]).ok()).unwrap_or_default();
        let kept = |name: &str| before.beside().part(name).ok().flatten().map(str::to_owned);
        let names: Vec<&str> = draft.headers.keys().filter(|name| *name != CONTENT_TYPE).map(HeaderName::as_str).collect();
        let sources = self.way.signed.iter().flat_map(|template| template.sources());
        let lists = sources.filter_map(|source| match source {
            Source::Listed(Listed { list: Site::Part(name), .. }) => {
                Some((name.as_str(), kept(name).unwrap_or_else(|| names.join(" "))))
            }
            _ => None,
        });
        let lists: Vec<(&str, String)> = lists.collect();
        let sources = self.way.signed.iter().flat_map(|template| template.sources());
        let others = sources.filter_map(|source| match source {
            Source::At(Site::Part(name)) if !lists.iter().any(|(list, _)| list == name) => {
                Some((name.as_str(), kept(name).unwrap_or_else(|| "test".to_owned())))
            }
            _ => None,
        });
        let others: Vec<(&str, String)> = others.collect();
        [lists, others].concat()
    }

    /// Writes the time where it belongs.
    fn put_timestamp(&self, draft: &mut Draft, place: &Place, stamp: &str) -> Result<(), String> {
        if let Place::Json(pointer) = place {
            // A number where it is one.
            return draft.edit_json(|document| {
                set(document, pointer, stamp)?;
                if let (Some(slot), Ok(number)) = (document.pointer_mut(&pointer.to_string()), stamp.parse::<u64>()) {
                    *slot = json!(number);
                }
                Some(())
            });
        }
        draft.put(place, stamp)
    }

    fn sign_items(&self, list: &Pointer, draft: &mut Draft) -> Result<(), String> {
        let Spot::Item(at) = &self.way.signature.at else { return Err("is not in the items it signs".to_owned()) };
        let body = draft.body.clone();
        let items =
            super::json::items(&body, list).ok().flatten().ok_or("signs the items of a list that the body does not have")?;
        let signatures: Vec<String> =
            items.iter().map(|item| self.signature(draft, "", None, Some(item))).collect::<Result<_, _>>()?;
        draft.edit_json(|document| {
            let items = document.pointer_mut(&list.to_string())?.as_array_mut()?;
            items.iter_mut().zip(&signatures).try_for_each(|(item, signature)| set(item, at, signature))
        })
    }

    fn signature(
        &self,
        draft: &Draft,
        text: &str,
        stamp: Option<&str>,
        item: Option<&serde_json::value::RawValue>,
    ) -> Result<String, String> {
        let received = draft.received();
        let parts = self.way.signature.layout.parse(text).unwrap_or_default();
        let mut scene = self.way.scene(parts.beside(), &received, self.scheme.public_url.as_ref());
        scene.timestamp = stamp.map(str::as_bytes);
        scene.item = item;
        let mut message = super::key::Message::new();
        if let Some(template) = self.way.signed.first() {
            scene.write(template, &mut message).map_err(|_| self.missing(draft))?;
        }
        let signature = self.material.sign(&message)?;
        self.way.encoding.encode(&signature).ok_or_else(|| "is a token that no text can hold".to_owned())
    }

    fn sign_token(&self, name: &str, draft: &mut Draft) -> Result<(), String> {
        let seconds = |at: SystemTime| Unit::Seconds.since_epoch(at).as_secs();
        let mut claims = json!({"iat": seconds(self.now), "nbf": seconds(self.now), "exp": seconds(self.now + TOKEN_LIFE)});
        let mut head = json!({"alg": name, "typ": "JWT"});
        if let (Some(id), Some(site)) = (&self.key.id, &self.way.key_id) {
            match site {
                Site::Claim(pointer) => set(&mut claims, pointer, id).ok_or("names its key where it cannot be written")?,
                Site::Part(name) => head[name] = json!(id),
                Site::Request(_) | Site::Item(_) => self.name_key(draft)?,
            }
        }
        let received = draft.received();
        let scene = self.way.scene(Beside::default(), &received, self.scheme.public_url.as_ref());
        for agreement in &self.way.agreements {
            let Site::Claim(pointer) = &agreement.at else { continue };
            let template = agreement.is.first().ok_or("agrees with nothing")?;
            // A claim that must agree with itself must only be there.
            let text = match scene.text_of(template).ok().flatten() {
                Some(text) => text,
                None if template.covers(&agreement.at) => seconds(self.now).to_string().into_bytes(),
                None => return Err(self.missing(draft)),
            };
            if !text.is_empty() {
                set(&mut claims, pointer, &String::from_utf8_lossy(&text)).ok_or("claims what cannot be written")?;
            }
        }
        let unsigned = jwt::unsigned(&head, &claims);
        let message = [super::key::Chunk::Bytes(unsigned.as_bytes().into())];
        let signature = self.way.encoding.encode(&self.material.sign(&message)?).unwrap_or_default();
        let written = format!("{}{unsigned}.{signature}", self.way.signature.prefix);
        match &self.way.signature.at {
            Spot::One(place) => draft.put(place, &written),
            _ => Err("is a token, which stands at one place".to_owned()),
        }
    }

    fn name_key(&self, draft: &mut Draft) -> Result<(), String> {
        match (&self.way.key_id, &self.key.id) {
            (Some(Site::Request(place)), Some(id)) => draft.put(place, id),
            _ => Ok(()),
        }
    }

    /// Digests that stand in the request beside the signature.
    fn put_agreements(&self, draft: &mut Draft) -> Result<(), String> {
        for agreement in &self.way.agreements {
            let Site::Request(place) = &agreement.at else { continue };
            let template = agreement.is.first().ok_or("agrees with nothing")?;
            let text = {
                let received = draft.received();
                let scene = self.way.scene(Beside::default(), &received, self.scheme.public_url.as_ref());
                scene.text_of(template).ok().flatten().ok_or_else(|| self.missing(draft))?
            };
            // What decides that this way counts is there already.
            if locate::find(place, &draft.received()).ok().flatten().is_none() {
                draft.put(place, &String::from_utf8_lossy(&text))?;
            }
        }
        Ok(())
    }

    /// What to say where a value is not there that the signature covers.
    fn missing(&self, draft: &Draft) -> String {
        let sources = self.way.signed.iter().flat_map(|template| template.sources());
        for source in sources {
            match source {
                Source::At(Site::Request(Place::Header(names))) if names.present_in(&draft.headers).is_none() => {
                    return format!("the signature covers the header {}, which is not there", names.to_write(&draft.headers));
                }
                Source::Url if self.scheme.public_url.is_none() => {
                    return "the signature covers the URL that the provider calls, which is not given".to_owned();
                }
                _ => {}
            }
        }
        "the signature covers a value that is not there".to_owned()
    }
}
