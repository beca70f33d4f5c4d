//! Challenges as data: what they look like, what is answered, and who answers them.
//!
//! A signed challenge counts after verification. An unsigned one is answered only in its exact shape, and never reaches
//! the consumer with a body: what is not signed must not find a way past verification.

use std::cell::Cell;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde_json::{Map, Value as Json};

use super::function::Function;
use super::key::is_token;
use super::place::Place;
use super::template::{Source, Template};
use super::way::{Way, When};
use super::{Key, Proof, Received, Scheme, Site, locate};
use crate::config::Secret;
use crate::config::reader::{At, FromNode, Reader, choices};
use crate::config::tree::{Node, Value};

/// A challenge that a provider sends to see whether the endpoint is ours.
#[derive(Clone, Debug)]
pub struct Handshake {
    pub method: Method,
    pub signed: bool,
    /// All of these must hold.
    when: Vec<When>,
    /// A token that must be right before anything is answered.
    guard: Option<Guard>,
    reply: Reply,
    pub answer: Answerer,
}

#[derive(Clone, Debug)]
struct Guard {
    place: Place,
    secret: Secret,
}

#[derive(Clone, Debug)]
struct Reply {
    status: StatusCode,
    content: Content,
    headers: Vec<(HeaderName, Template)>,
}

#[derive(Clone, Debug)]
enum Content {
    Empty,
    Text(Template),
    Json(Vec<(String, Field)>),
}

#[derive(Clone, Debug)]
enum Field {
    Text(Template),
    Constant(Json),
}

/// What becomes of a challenge.
#[derive(Debug)]
pub enum Challenge {
    /// Answered here, without the upstream.
    Answer(Response<Bytes>),
    /// Passed on, without a claim; an unsigned one also without a body.
    PassOn,
}

choices!(
    /// Who answers a challenge.
    Answerer { Hookonce = "hookonce", Upstream = "upstream" }
);
choices!(MethodWord { Get = "GET", Post = "POST", Head = "HEAD", Put = "PUT" });

/// The longest value that is echoed. Challenges are a few dozen bytes.
const ECHO_BYTES_MAX: usize = 1024;
/// The longest value that is signed for whoever asks, and the shortest: `null` is a document too.
const SIGNED_BYTES_MAX: usize = 128;
const SIGNED_BYTES_MIN: usize = 16;

impl Handshake {
    /// A challenge is a small thing; a large body is not searched for one.
    pub const BODY_BYTES_MAX: usize = 64 * 1024;

    /// Whether it must be looked for before the signature is, in the body.
    pub fn is_unsigned_body(&self) -> bool {
        !self.signed && self.places().any(Place::is_in_body)
    }

    /// What becomes of a delivery if it is this challenge, in its exact shape. `proof` is what verification gave, if it
    /// has been done.
    pub fn challenge(&self, scheme: &Scheme, keys: &[Key], received: &Received<'_>, proof: Option<&Proof>) -> Option<Challenge> {
        let is_admitted = if self.signed { proof.is_some() } else { received.body.is_empty() || self.is_unsigned_body() };
        if !is_admitted || *received.method != self.method || received.body.len() > Self::BODY_BYTES_MAX {
            return None;
        }
        if !self.when.iter().all(|when| when.holds(received).unwrap_or(false)) {
            return None;
        }
        if let Some(guard) = &self.guard
            && !is_token(&guard.secret, &locate::find(&guard.place, received).ok().flatten()?)
        {
            return None;
        }
        // Before it is known who answers: what lacks a value that is echoed is no challenge.
        let answer = self.reply.render(scheme, keys, received)?;
        Some(match self.answer {
            Answerer::Hookonce => Challenge::Answer(answer),
            Answerer::Upstream => Challenge::PassOn,
        })
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.when.iter().map(|when| &when.place).chain(self.guard.as_ref().map(|guard| &guard.place)).chain(self.reply.places())
    }

    /// What does not go with the scheme: what is signed in an answer must be signed by a MAC. A token would give itself away,
    /// and the other half of a public key is not ours.
    pub fn misfit(&self, scheme: &Scheme) -> Option<&'static str> {
        let signs =
            self.reply.templates().into_iter().flat_map(Template::values).any(|value| value.functions.contains(&Function::Sign));
        let (is_mac, is_body) = (scheme.ways.iter().all(Way::is_mac), scheme.ways.iter().all(Way::signs_body));
        if signs && !is_mac {
            Some("signs its answer, and this scheme has no MAC to sign with")
        } else if signs && !self.signed && !is_body {
            Some("is unsigned and signs its answer: whoever asks could have a delivery of this scheme signed")
        } else {
            None
        }
    }

    fn keeps_its_shape(&self, node: &Node, at: &At<'_>) -> bool {
        let unknown = [Source::Secret, Source::Timestamp]
            .into_iter()
            .find(|source| self.reply.templates().iter().any(|template| template.has(source)));
        let problem = if unknown.is_some() {
            Some(("has a {secret} or a {timestamp} in its answer, which is nobody's to give", "echo what the challenge holds"))
        } else if self.signed {
            None
        } else if self.is_unsigned_body() && self.answer == Answerer::Upstream {
            Some((
                "is unsigned and has a body, which must not reach the upstream",
                "leave out answer: hookonce answers it itself",
            ))
        } else if self.when.is_empty() {
            Some(("is unsigned and says nothing by which it is known", "add when = { query = \"challenge\" }"))
        } else {
            None
        };
        if let Some((what, help)) = problem {
            at.error(node, what, help);
        }
        problem.is_none()
    }
}

fn place_of(source: &Source) -> Option<&Place> {
    static BODY: Place = Place::Body;
    match source {
        Source::At(Site::Request(place)) => Some(place),
        Source::Body | Source::SortedForm | Source::Raw(_) => Some(&BODY),
        _ => None,
    }
}

impl Reply {
    fn templates(&self) -> Vec<&Template> {
        let of_content: Vec<&Template> = match &self.content {
            Content::Empty => Vec::new(),
            Content::Text(template) => vec![template],
            Content::Json(fields) => fields.iter().filter_map(|(_, field)| field.template()).collect(),
        };
        of_content.into_iter().chain(self.headers.iter().map(|(_, template)| template)).collect()
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.templates().into_iter().flat_map(Template::sources).filter_map(place_of)
    }

    /// What is answered. `None` where a value is missing, or is not one to echo.
    fn render(&self, scheme: &Scheme, keys: &[Key], received: &Received<'_>) -> Option<Response<Bytes>> {
        let text = |template: &Template| scheme.echo(template, keys, received);
        let (body, kind) = match &self.content {
            Content::Empty => (String::new(), None),
            Content::Text(template) => (text(template)?, Some("text/plain; charset=utf-8")),
            Content::Json(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    let value = match field {
                        Field::Text(template) => Json::String(text(template)?),
                        Field::Constant(value) => value.clone(),
                    };
                    object.insert(name.clone(), value);
                }
                (Json::Object(object).to_string(), Some("application/json"))
            }
        };
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            // What is echoed came from a sender: no browser shall take it for more than it is.
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        for (name, template) in &self.headers {
            headers.insert(name, HeaderValue::from_str(&text(template)?).ok()?);
        }
        Some(response)
    }
}

impl Field {
    fn template(&self) -> Option<&Template> {
        match self {
            Self::Text(template) => Some(template),
            Self::Constant(_) => None,
        }
    }
}

impl Scheme {
    /// A template filled in for an answer: short, plain text. What is signed in it is signed as deliveries are.
    fn echo(&self, template: &Template, keys: &[Key], received: &Received<'_>) -> Option<String> {
        let way = self.ways.first()?;
        // Whoever asks gets a signature: of what could be a delivery there is none.
        let is_refused = Cell::new(false);
        let sign = |bytes: &[u8]| {
            is_refused.set(is_refused.get() || !is_token_like(bytes) || !way.is_mac());
            let material = keys.first().and_then(|key| key.of_way(0));
            let message = [super::key::Chunk::Bytes(bytes.into())];
            let signature = material.and_then(|material| material.sign(&message).ok());
            let written = signature.and_then(|signature| way.encoding.encode(&signature));
            is_refused.set(is_refused.get() || written.is_none());
            written.unwrap_or_default().into_bytes()
        };
        let mut scene = way.scene(super::layout::Beside::default(), received, self.public_url.as_ref());
        scene.sign = Some(&sign);
        let text = String::from_utf8(scene.text_of(template).ok()??).ok().filter(|_| !is_refused.get())?;
        (text.len() <= ECHO_BYTES_MAX && !text.chars().any(char::is_control)).then_some(text)
    }
}

/// Letters, digits and a little more, as in tokens; nothing that JSON, XML or a form could be made of.
fn is_token_like(bytes: &[u8]) -> bool {
    let unpadded = bytes.strip_suffix(b"==").or_else(|| bytes.strip_suffix(b"=")).unwrap_or(bytes);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+/.-".contains(byte);
    (SIGNED_BYTES_MIN..=SIGNED_BYTES_MAX).contains(&bytes.len()) && unpadded.iter().all(is_plain)
}

impl FromNode for Handshake {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ when = { json = \"/type\", is = \"...\" }, reply = { json = \"/challenge\" } }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let signed = reader.or("signed", true).value;
        let method = reader.or("method", if signed { MethodWord::Post } else { MethodWord::Get }).value;
        let when = match reader.node("when") {
            Some((Node { value: Value::List(_), .. }, _)) => reader.get::<Vec<When>>("when"),
            Some(_) => reader.get::<When>("when").map(|when| vec![when]),
            None => Some(Vec::new()),
        };
        let guard = reader.get::<Guard>("token");
        let is_whole = guard.is_some() == reader.has("token");
        let reply = Reply::read(&reader);
        let answer = reader.or("answer", Answerer::Hookonce).value;
        reader.finish();
        let handshake = Self { method: method.into(), signed, when: when?, reply: reply?, guard, answer };
        (is_whole && handshake.keeps_its_shape(node, at)).then_some(handshake)
    }
}

impl Reply {
    fn read(reader: &Reader<'_>) -> Option<Self> {
        let status = reader.or("status", StatusCode::OK).value;
        let content = match (reader.node("reply"), reader.node("reply_json")) {
            (Some((node, at)), Some(_)) => {
                at.error(node, "is written beside reply_json", "an answer is text or JSON: write one of them");
                None
            }
            (Some(_), None) => reader.get::<Echo>("reply").map(|echo| Content::Text(echo.0)),
            (None, Some((node, at))) => json_fields(node, &at).map(Content::Json),
            (None, None) => Some(Content::Empty),
        };
        let headers = match reader.node("reply_headers") {
            Some((node, at)) => header_fields(node, &at),
            None => Some(Vec::new()),
        };
        Some(Self { status, content: content?, headers: headers? })
    }
}

/// A template, or the place of the value that is echoed.
struct Echo(Template);

impl FromNode for Echo {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::Table(_) => Place::from_node(node, at).map(|place| Self(Template::of_place(place))),
            _ => Template::from_node(node, at).map(Self),
        }
    }
}

fn json_fields(node: &Node, at: &At<'_>) -> Option<Vec<(String, Field)>> {
    let Value::Table(table) = &node.value else {
        at.wrong_type(node, "a table", "{ challenge = \"{json:/challenge}\" }");
        return None;
    };
    let field = |node: &Node, at: &At<'_>| match &node.value {
        Value::Integer(number) => Some(Field::Constant(Json::from(*number))),
        Value::Bool(is) => Some(Field::Constant(Json::from(*is))),
        _ => Template::from_node(node, at).map(Field::Text),
    };
    let read = table.entries.iter().map(|entry| Some((entry.key.clone(), field(&entry.node, &at.inner(&entry.key))?)));
    let fields: Vec<Option<_>> = read.collect();
    fields.into_iter().collect()
}

fn header_fields(node: &Node, at: &At<'_>) -> Option<Vec<(HeaderName, Template)>> {
    let Value::Table(table) = &node.value else {
        at.wrong_type(node, "a table", "{ \"X-Hook-Secret\" = \"{header:X-Hook-Secret}\" }");
        return None;
    };
    let mut fields = Vec::new();
    for entry in &table.entries {
        let inner = at.inner(&entry.key);
        let Ok(name) = entry.key.parse::<HeaderName>() else {
            inner.error(&entry.node, "is not a header name", "write it as the provider asks for it: \"X-Hook-Secret\"");
            return None;
        };
        fields.push((name, Template::from_node(&entry.node, &inner)?));
    }
    Some(fields)
}

impl From<MethodWord> for Method {
    fn from(word: MethodWord) -> Self {
        match word {
            MethodWord::Get => Self::GET,
            MethodWord::Post => Self::POST,
            MethodWord::Head => Self::HEAD,
            MethodWord::Put => Self::PUT,
        }
    }
}

impl FromNode for Guard {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a place and a secret", "{ query = \"hub.verify_token\", secret = { env = \"NAME\" } }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let place = Place::read(&reader, node, at);
        let secret = reader.require::<Secret>("secret", "write secret = { env = \"NAME\" }");
        reader.finish();
        Some(Self { place: place?, secret: secret?.value })
    }
}

#[cfg(test)]
mod tests;
