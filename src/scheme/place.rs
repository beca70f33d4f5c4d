//! Places: where a value stands in a request, written one way everywhere in the configuration.
//!
//! A place is found without knowing the scheme. The one place that belongs to a scheme, a part of its signature
//! header, is a `Site` and cannot be named outside of it.

use std::fmt;

use http::{HeaderMap, HeaderName};

use crate::config::reader::{At, FromNode, Reader};
use crate::config::tree::{Node, Value};

/// Where a value stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Header(HeaderNames),
    /// A parameter of the query, percent-decoded.
    Query(String),
    /// A field of a form body, percent-decoded.
    Form(String),
    Json(Pointer),
    /// The same of every item of a list in the body.
    EachJson(EachPointer),
    /// The body itself.
    Body,
    /// Inside the text at another place.
    Within(Box<Within>),
}

/// A value inside a text that is a document of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    pub outer: Place,
    pub document: Document,
    pub pointer: Pointer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    Json,
    /// The claims of a JSON Web Token.
    Jwt,
}

/// `/events/*/id`: where the list is, and where the value is in each of its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EachPointer {
    pub list: Pointer,
    pub inner: Pointer,
}

/// As a person would say it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(names) => write!(f, "header {names}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
            Self::Form(name) => write!(f, "form field {name}"),
            Self::Json(pointer) => write!(f, "{pointer} in the body"),
            Self::EachJson(EachPointer { list, inner }) => write!(f, "{list}/*{inner} in the body"),
            Self::Body => f.write_str("the body"),
            Self::Within(within) => match within.document {
                Document::Json => write!(f, "{} in {}", within.pointer, within.outer),
                Document::Jwt => write!(f, "claim {} of the token in {}", within.pointer, within.outer),
            },
        }
    }
}

impl fmt::Display for HeaderNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(HeaderName::as_str).collect();
        f.write_str(&names.join(" or "))
    }
}

/// Names of one header, the preferred one first; never empty. The first that is present holds the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    first: HeaderName,
    others: Vec<HeaderName>,
}

impl HeaderNames {
    pub fn one(name: HeaderName) -> Self {
        Self { first: name, others: Vec::new() }
    }

    /// Reads alternatives as they are written. The error names the one that is no header name.
    pub(super) fn parse<'t>(names: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let mut read = names.into_iter().map(|name| name.parse::<HeaderName>().map_err(|_| name.to_owned()));
        let first = read.next().unwrap_or_else(|| Err(String::new()))?;
        Ok(Self { first, others: read.collect::<Result<_, _>>()? })
    }

    pub fn iter(&self) -> impl Iterator<Item = &HeaderName> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The first name that is present.
    pub fn present_in(&self, headers: &HeaderMap) -> Option<&HeaderName> {
        self.iter().find(|name| headers.contains_key(*name))
    }

    /// The name to write under: one that is there already, or the preferred one.
    pub(super) fn to_write(&self, headers: &HeaderMap) -> &HeaderName {
        self.present_in(headers).unwrap_or(&self.first)
    }

    /// Whether these are the first names of `other`: whatever is found under these is then what `other` finds.
    pub(super) fn lead(&self, other: &Self) -> bool {
        let mut others = other.iter();
        self.iter().all(|name| others.next() == Some(name))
    }
}

/// A JSON pointer, split into its steps. Without any it is the whole document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

impl Pointer {
    /// Steps of a pointer. Each is a level of recursion while a body is read.
    const STEPS_MAX: usize = 16;

    /// Reads `/data/object/id`; `~1` is a slash and `~0` a tilde inside a step.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix('/') else { return Err("must begin with a slash") };
        if text.replace("~0", "").replace("~1", "").contains('~') {
            return Err("holds a `~` that is neither `~0` nor `~1`");
        }
        let steps: Vec<String> = rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        if steps.len() > Self::STEPS_MAX { Err("has more than 16 steps") } else { Ok(Self(steps)) }
    }

    /// Reads a pointer, or the name of a field at the top: `/data/id`, `id`.
    pub(super) fn parse_or_name(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        if text.starts_with('/') { Self::parse(text) } else { Ok(Self::of_step(text)) }
    }

    pub(super) fn whole() -> Self {
        Self(Vec::new())
    }

    pub(super) fn of_step(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    pub(super) fn steps(&self) -> &[String] {
        &self.0
    }
}

/// A place as a scheme names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Request(Place),
    /// A named part of the signature: the `t` of `t=1,v1=abc`, the `kid` of a token's head.
    Part(String),
    /// A claim of the token that is the signature.
    Claim(Pointer),
    /// In the item that is looked at.
    Item(Pointer),
}

const WRITE_A_PLACE: &str = "write one of { header = \"X-Name\" }, { headers = [\"X-A\", \"X-B\"] }, { query = \"name\" }, \
     { form = \"name\" }, { json = \"/pointer\" }, { body = true }";
const WRITE_A_SITE: &str = "write a place such as { header = \"X-Name\" }, or one of { part = \"t\" }, { claim = \"sub\" }, \
     { item = \"/pointer\" }";

impl Place {
    /// The keys of which one says where a value is.
    pub(super) const KEYS: [&'static str; 6] = ["header", "headers", "query", "form", "json", "body"];

    /// Reads a place out of a table that may hold other keys beside it.
    pub(super) fn read(reader: &Reader<'_>, node: &Node, at: &At<'_>) -> Option<Self> {
        let named: Vec<&'static str> = Self::KEYS.into_iter().filter(|key| reader.has(key)).collect();
        let [key] = named.as_slice() else {
            let what = if named.is_empty() { "does not say where it is" } else { "names more than one place" };
            at.error(node, what, WRITE_A_PLACE);
            return None;
        };
        let place = match *key {
            "header" | "headers" => reader.get(key).map(Self::Header),
            "query" => reader.get::<Name>(key).map(|name| Self::Query(name.0)),
            "form" => reader.get::<Name>(key).map(|name| Self::Form(name.0)),
            "json" => json(reader),
            _ => whole_body(reader),
        };
        let inner = match (reader.get::<FieldPointer>("within"), reader.get::<FieldPointer>("claim")) {
            (Some(_), Some(_)) => {
                at.error(node, "names both `within` and `claim`", "the text there is JSON or a token, not both");
                return None;
            }
            (Some(pointer), None) => Some((Document::Json, pointer)),
            (None, Some(pointer)) => Some((Document::Jwt, pointer)),
            (None, None) if reader.has("within") || reader.has("claim") => return None,
            (None, None) => None,
        };
        Some(match inner {
            Some((document, pointer)) => Self::Within(Box::new(Within { outer: place?, document, pointer: pointer.0 })),
            None => place?,
        })
    }

    /// Whether it is somewhere in the body.
    pub(super) fn is_in_body(&self) -> bool {
        match self {
            Self::Json(_) | Self::EachJson(_) | Self::Form(_) | Self::Body => true,
            Self::Within(within) => within.outer.is_in_body(),
            Self::Header(_) | Self::Query(_) => false,
        }
    }

    /// The header it stands in, if it stands in one.
    pub(super) fn header(&self) -> Option<&HeaderNames> {
        match self {
            Self::Header(names) => Some(names),
            Self::Within(within) => within.outer.header(),
            _ => None,
        }
    }
}

/// `/events/*/id` is that of every item.
fn json(reader: &Reader<'_>) -> Option<Place> {
    let (node, at) = reader.node("json")?;
    let text = String::from_node(node, &at)?;
    let Some((list, inner)) = text.split_once("/*/") else { return Pointer::from_node(node, &at).map(Place::Json) };
    let list = if list.is_empty() { Ok(Pointer::whole()) } else { Pointer::parse(list) };
    let read = list.and_then(|list| Ok(EachPointer { list, inner: Pointer::parse(&format!("/{inner}"))? }));
    if let Err(why) = read {
        at.error(node, format!("\"{text}\" {why}"), "write a JSON pointer in which one step may be a star: \"/events/*/id\"");
    }
    read.ok().map(Place::EachJson)
}

fn whole_body(reader: &Reader<'_>) -> Option<Place> {
    let body = reader.found::<bool>("body")?;
    if !body.value {
        let help = "write body = true, or name another place";
        reader.at("body").problems.error(reader.at("body").problem(Some(body.origin), "cannot be false", help));
        return None;
    }
    Some(Place::Body)
}

impl FromNode for Place {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.error(node, format!("must be a place, not {}", node.value.kind()), WRITE_A_PLACE);
            return None;
        };
        let reader = Reader::of_table(table, at);
        let place = Self::read(&reader, node, at);
        reader.finish();
        place
    }
}

impl FromNode for Site {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.error(node, format!("must be a place, not {}", node.value.kind()), WRITE_A_SITE);
            return None;
        };
        let reader = Reader::of_table(table, at);
        let site = Self::read(&reader, node, at);
        reader.finish();
        site
    }
}

impl Site {
    /// The keys of which one says where a value is.
    const KEYS: [&'static str; 3] = ["part", "claim", "item"];

    /// Reads a site out of a table that may hold other keys beside it.
    pub(super) fn read(reader: &Reader<'_>, node: &Node, at: &At<'_>) -> Option<Self> {
        if Place::KEYS.into_iter().any(|key| reader.has(key)) {
            return Place::read(reader, node, at).map(Self::Request);
        }
        let named: Vec<&'static str> = Self::KEYS.into_iter().filter(|key| reader.has(key)).collect();
        match named.as_slice() {
            ["part"] => reader.get::<Name>("part").map(|name| Self::Part(name.0)),
            ["claim"] => reader.get::<FieldPointer>("claim").map(|pointer| Self::Claim(pointer.0)),
            ["item"] => reader.get::<Pointer>("item").map(Self::Item),
            _ => {
                let what = if named.is_empty() { "does not say where it is" } else { "names more than one place" };
                at.error(node, what, WRITE_A_SITE);
                None
            }
        }
    }
}

/// A pointer, or the name of a field at the top.
struct FieldPointer(Pointer);

impl FromNode for FieldPointer {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let text = String::from_node(node, at)?;
        let read = Pointer::parse_or_name(&text);
        if let Err(why) = read {
            at.error(node, format!("\"{text}\" {why}"), "write a name, or a JSON pointer: \"sub\", \"/data/id\"");
        }
        read.ok().map(Self)
    }
}

impl FromNode for HeaderNames {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let names = match &node.value {
            Value::List(_) => Vec::<String>::from_node(node, at)?,
            _ => vec![String::from_node(node, at)?],
        };
        let read = Self::parse(names.iter().map(String::as_str));
        if let Err(name) = &read {
            at.error(node, format!("\"{name}\" is not a header name"), "write it as the provider sends it: \"X-Signature\"");
        }
        read.ok()
    }
}

impl FromNode for Pointer {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let text = String::from_node(node, at)?;
        let read = Self::parse(&text);
        if let Err(why) = read {
            at.error(node, format!("\"{text}\" {why}"), "write a JSON pointer: \"/id\", \"/data/object/id\", \"/items/0/id\"");
        }
        read.ok()
    }
}

/// A name that is not empty.
#[derive(Debug)]
pub(super) struct Name(pub String);

impl FromNode for Name {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let name = String::from_node(node, at)?;
        if name.is_empty() {
            at.error(node, "is empty", "write a name");
            return None;
        }
        Some(Self(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_split_and_unescaped() {
        assert_eq!(Pointer::parse("/a~1b/~0c/0").unwrap().steps(), ["a/b", "~c", "0"]);
        assert_eq!(Pointer::parse("/").unwrap().steps(), [""]);
        for wrong in ["", "id", "$.id", "/a~2", &"/x".repeat(17)] {
            assert!(Pointer::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn leading_names_find_what_the_longer_list_finds() {
        let names = |list: &[&str]| HeaderNames::parse(list.iter().copied()).unwrap();
        assert!(names(&["a"]).lead(&names(&["a", "b"])));
        assert!(names(&["A", "b"]).lead(&names(&["a", "B"])));
        assert!(!names(&["b"]).lead(&names(&["a", "b"])));
        assert!(!names(&["a", "b"]).lead(&names(&["a"])));
        assert!(HeaderNames::parse([]).is_err());
    }
}
