//! Places: where a value stands in a request, written one way everywhere in the configuration.
//!
//! A place is found without knowing the scheme. The one place that belongs to a scheme, a part of its signature
//! header, is a `Site` and cannot be named outside of it.

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
    /// The body itself.
    Body,
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

/// A JSON pointer, split into its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

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

    pub(super) fn steps(&self) -> &[String] {
        &self.0
    }
}

/// A place as a scheme names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Request(Place),
    /// A named part of the signature header: the `t` of `t=1,v1=abc`.
    Part(String),
}

const WRITE_A_PLACE: &str = "write one of { header = \"X-Name\" }, { headers = [\"X-A\", \"X-B\"] }, { query = \"name\" }, \
     { form = \"name\" }, { json = \"/pointer\" }, { body = true }";

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
        match *key {
            "header" | "headers" => reader.get(key).map(Self::Header),
            "query" => reader.get::<Name>(key).map(|name| Self::Query(name.0)),
            "form" => reader.get::<Name>(key).map(|name| Self::Form(name.0)),
            "json" => reader.get(key).map(Self::Json),
            _ => whole_body(reader),
        }
    }
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
        match &node.value {
            Value::Table(table) if table.get("part").is_some() => {
                let reader = Reader::of_table(table, at);
                let part = reader.get::<Name>("part");
                reader.finish();
                part.map(|name| Self::Part(name.0))
            }
            _ => Place::from_node(node, at).map(Self::Request),
        }
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
