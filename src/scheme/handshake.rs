//! Challenges as data: what they look like, what is echoed, and who answers them.
//!
//! A signed challenge counts after verification. An unsigned one can only be a GET whose parts all stand in the query:
//! nothing else that is unsigned is ever answered.

use http::Method;

use super::algorithm::is_token;
use super::place::Place;
use crate::config::Secret;
use crate::config::reader::{At, FromNode, Reader, choices};
use crate::config::tree::{Node, Value};

/// A challenge that a provider sends to see whether the endpoint is ours.
#[derive(Clone, Debug)]
pub struct Handshake {
    pub method: Method,
    pub signed: bool,
    pub when: Condition,
    /// What is echoed.
    pub reply: Place,
    /// A token that must be right before anything is answered.
    pub guard: Option<Guard>,
    pub answer: Answerer,
}

/// The value by which a challenge is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub place: Place,
    pub is: String,
}

#[derive(Clone, Debug)]
pub struct Guard {
    pub place: Place,
    pub secret: Secret,
}

impl Guard {
    /// Whether this is the token. The comparison takes the same time wherever the difference lies.
    pub fn admits(&self, offered: &[u8]) -> bool {
        is_token(&self.secret, offered)
    }
}

choices!(
    /// Who answers a challenge.
    Answerer { Hookonce = "hookonce", Upstream = "upstream" }
);
choices!(MethodWord { Get = "GET", Post = "POST" } pending { "HEAD", "PUT" });

impl FromNode for Handshake {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ when = { json = \"/type\", is = \"...\" }, reply = { json = \"/challenge\" } }");
            return None;
        };
        let reader = Reader::of_table(table, at);
        let signed = reader.or("signed", true).value;
        let method = reader.or("method", if signed { MethodWord::Post } else { MethodWord::Get }).value;
        let when =
            reader.require::<Condition>("when", "say how it is known: when = { query = \"hub.mode\", is = \"subscribe\" }");
        let reply = reader.require::<Place>("reply", "say what is echoed: reply = { query = \"hub.challenge\" }");
        let guard = reader.get::<Guard>("token");
        let is_whole = guard.is_some() == reader.has("token");
        let answer = reader.or("answer", Answerer::Hookonce).value;
        reader.pending(&["compute", "reply_header", "reply_json"]);
        reader.finish();
        let handshake = Self { method: method.into(), signed, when: when?.value, reply: reply?.value, guard, answer };
        (is_whole && handshake.keeps_its_shape(node, at)).then_some(handshake)
    }
}

impl Handshake {
    fn keeps_its_shape(&self, node: &Node, at: &At<'_>) -> bool {
        let mut places = [&self.when.place, &self.reply].into_iter().chain(self.guard.as_ref().map(|guard| &guard.place));
        let is_query_only = places.all(|place| matches!(place, Place::Query(_)));
        let fits = self.signed || (self.method == Method::GET && is_query_only);
        if !fits {
            let help = "an unsigned challenge is a GET with all it says in the query; leave out signed = false for any other";
            at.error(node, "is unsigned and not a plain GET", help);
        }
        fits
    }
}

impl From<MethodWord> for Method {
    fn from(word: MethodWord) -> Self {
        match word {
            MethodWord::Get => Self::GET,
            MethodWord::Post => Self::POST,
        }
    }
}

impl FromNode for Condition {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let (place, is) = place_and(node, at, |reader| reader.require::<String>("is", "write the value by which it is known"))?;
        Some(Self { place, is: is.value })
    }
}

impl FromNode for Guard {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let (place, secret) =
            place_and(node, at, |reader| reader.require::<Secret>("secret", "write secret = { env = \"NAME\" }"))?;
        Some(Self { place, secret: secret.value })
    }
}

/// A place, and one more thing in the same table.
fn place_and<T>(node: &Node, at: &At<'_>, read: impl Fn(&Reader<'_>) -> Option<T>) -> Option<(Place, T)> {
    let Value::Table(table) = &node.value else {
        at.wrong_type(node, "a place", "{ query = \"name\" } or { json = \"/pointer\" }");
        return None;
    };
    let reader = Reader::of_table(table, at);
    let (place, other) = (Place::read(&reader, node, at), read(&reader));
    reader.finish();
    Some((place?, other?))
}
