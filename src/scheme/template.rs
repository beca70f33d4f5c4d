//! Templates: `"{timestamp}.{body}"` becomes pieces that are fed to a MAC one after the other, so that a body is never
//! copied to be checked.
//!
//! `{name}` or `{name:argument}` is a value, `{function(value)}` one that is changed first, `{value?}` one that may be
//! absent. `[...]` is left out whole where a value in it is absent; `[[`, `]]`, `{{` and `}}` are themselves.

use http::HeaderName;

use super::function::Function;
use super::place::{Document, HeaderNames, Place, Pointer, Site, Within};

/// Text with values in it. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// As it is written.
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    Value(Value),
    /// Left out whole where a value in it is absent.
    Group(Vec<Piece>),
}

/// Sources one after the other, and what is done to them, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub sources: Vec<Source>,
    pub functions: Vec<Function>,
    /// Nothing stands for it where it is absent.
    pub optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Body,
    /// The timestamp, exactly as it was sent.
    Timestamp,
    Method,
    /// The URL that the provider called.
    Url,
    /// Path and query as they were sent, and both of them as `Target`.
    Path,
    Query,
    Target,
    Secret,
    /// Every field of a form body, sorted by name, names and values without anything between them.
    SortedForm,
    /// Every parameter of the query, decoded and sorted by name: `a=1&b=2`.
    SortedQuery,
    /// `name:value` of the headers that a list names, sorted by name; or their values, in its order.
    Listed(Listed),
    /// JSON as it was sent, whatever it is.
    Raw(Pointer),
    At(Site),
}

/// Headers that are signed because a list names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub list: Site,
    /// What the list has to name, so that it is signed for certain.
    pub must: Vec<HeaderName>,
    pub is_lines: bool,
}

/// Pieces of one template: each costs a lookup for every delivery.
const PIECES_MAX: usize = 32;

impl Template {
    /// Reads a template. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (pieces, rest) = pieces(text, false)?;
        if !rest.is_empty() {
            return Err("has a `]` that closes nothing".to_owned());
        }
        match count(&pieces) {
            0 => Err("is empty".to_owned()),
            count if count > PIECES_MAX => Err(format!("has more than {PIECES_MAX} pieces")),
            _ => Ok(Self { text: text.to_owned(), pieces }),
        }
    }

    /// The template that nearly everybody has: the body and nothing else.
    pub fn body() -> Self {
        let body = Value { sources: vec![Source::Body], functions: Vec::new(), optional: false };
        Self { text: "{body}".to_owned(), pieces: vec![Piece::Value(body)] }
    }

    /// Whether it is that one.
    #[inline]
    pub fn is_body(&self) -> bool {
        let [Piece::Value(Value { sources, functions, .. })] = self.pieces.as_slice() else { return false };
        functions.is_empty() && matches!(sources.as_slice(), [Source::Body])
    }

    /// The value at a place and nothing else.
    pub fn of_place(place: Place) -> Self {
        let text = place.to_string();
        let sources = vec![Source::At(Site::Request(place))];
        Self { text, pieces: vec![Piece::Value(Value { sources, functions: Vec::new(), optional: false })] }
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every source, wherever it stands.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.values().into_iter().flat_map(|value| &value.sources)
    }

    /// Every value, wherever it stands.
    pub fn values(&self) -> Vec<&Value> {
        fn collect<'p>(pieces: &'p [Piece], into: &mut Vec<&'p Value>) {
            for piece in pieces {
                match piece {
                    Piece::Literal(_) => {}
                    Piece::Value(value) => into.push(value),
                    Piece::Group(inner) => collect(inner, into),
                }
            }
        }
        let mut values = Vec::new();
        collect(&self.pieces, &mut values);
        values
    }

    /// Whether something of the request is in it, whatever that leaves out.
    pub fn holds_something(&self) -> bool {
        let is_firm = |value: &Value| !value.optional && value.sources != [Source::Secret];
        self.pieces.iter().any(|piece| matches!(piece, Piece::Value(value) if is_firm(value)))
    }

    pub fn has(&self, source: &Source) -> bool {
        self.sources().any(|other| other == source)
    }

    /// Whether whatever stands at this site is among these bytes, or digested into them.
    pub fn covers(&self, site: &Site) -> bool {
        self.values().into_iter().any(|value| value.covers(site))
    }
}

impl Value {
    /// What may be absent beside something else that may be, and what is the same for several values, covers nothing. Of a
    /// body, absent is empty.
    fn covers(&self, site: &Site) -> bool {
        let is_firm = !self.optional || self.sources == [Source::Body];
        is_firm
            && self.functions.iter().all(|function| function.keeps_apart())
            && self.sources.iter().any(|source| source.covers(site))
    }
}

impl Source {
    fn covers(&self, site: &Site) -> bool {
        match (self, site) {
            (Self::Body, Site::Request(place)) => place.is_in_body(),
            (Self::Url | Self::Target | Self::Query, Site::Request(Place::Query(_))) => true,
            (Self::At(Site::Request(Place::Header(signed))), Site::Request(place)) => {
                place.header().is_some_and(|names| names.lead(signed))
            }
            (Self::Listed(listed), Site::Request(Place::Header(names))) => names.iter().all(|name| listed.must.contains(name)),
            (Self::At(signed), site) => signed == site,
            _ => false,
        }
    }
}

fn count(pieces: &[Piece]) -> usize {
    let of = |piece: &Piece| match piece {
        Piece::Literal(_) | Piece::Value(_) => 1,
        Piece::Group(inner) => count(inner),
    };
    pieces.iter().map(of).sum()
}

/// Reads pieces up to the end, or up to the bracket that closes a group. Gives back what is left.
fn pieces(text: &str, in_group: bool) -> Result<(Vec<Piece>, &str), String> {
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
    let flush = |literal: &mut String, pieces: &mut Vec<Piece>| {
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(literal)));
        }
    };
    while let Some(at) = rest.find(['{', '}', '[', ']']) {
        literal.push_str(&rest[..at]);
        let here = &rest[at..];
        let doubled = ["[[", "]]", "{{", "}}"].into_iter().find_map(|pair| here.strip_prefix(pair));
        if let Some(after) = doubled {
            literal.push_str(&here[..1]);
            rest = after;
        } else if let Some(inner) = here.strip_prefix('{') {
            let (name, after) = inner.split_once('}').ok_or("has a `{` that is not closed")?;
            flush(&mut literal, &mut pieces);
            pieces.push(Piece::Value(value(name)?));
            rest = after;
        } else if let Some(inner) = here.strip_prefix('[') {
            if in_group {
                return Err("has a group inside a group".to_owned());
            }
            flush(&mut literal, &mut pieces);
            let (group, after) = self::pieces(inner, true)?;
            pieces.push(Piece::Group(group));
            rest = after.strip_prefix(']').ok_or("has a `[` that is not closed")?;
        } else if in_group && here.starts_with(']') {
            flush(&mut literal, &mut pieces);
            return Ok((pieces, here));
        } else {
            return Err(format!("has a `{}` that closes nothing", &here[..1]));
        }
    }
    if in_group {
        return Err("has a `[` that is not closed".to_owned());
    }
    literal.push_str(rest);
    flush(&mut literal, &mut pieces);
    Ok((pieces, ""))
}

/// `lower(sha256_hex(body?))`: functions around sources that are joined by a plus.
fn value(text: &str) -> Result<Value, String> {
    let unknown = || format!("has an unknown placeholder: `{{{text}}}`");
    let (mut inner, is_last) = text.strip_suffix('?').map_or((text, false), |inner| (inner, true));
    let mut functions = Vec::new();
    while let Some((name, rest)) = inner.split_once('(')
        && let Some(function) = Function::named(name)
    {
        functions.insert(0, function);
        inner = rest.strip_suffix(')').ok_or_else(unknown)?;
    }
    let (inner, optional) = inner.strip_suffix('?').map_or((inner, false), |inner| (inner, true));
    let sources = inner.split('+').map(|name| source(name).ok_or_else(unknown)?).collect::<Result<Vec<_>, String>>()?;
    if functions.is_empty() && sources.len() > 1 {
        return Err(unknown());
    }
    Ok(Value { sources, functions, optional: optional || is_last })
}

/// `None` where there is no such source.
fn source(text: &str) -> Option<Result<Source, String>> {
    if let Some((list, rest)) = text.split_once('(') {
        let is_lines = match list {
            "header_lines" => true,
            "header_values" => false,
            _ => return None,
        };
        let mut names = rest.strip_suffix(')')?.split(',').map(str::trim);
        let list = source(names.next()?)?;
        let must: Result<Vec<HeaderName>, _> = names.map(|name| name.parse()).collect();
        return match (list, must) {
            (Ok(Source::At(list)), Ok(must)) => Some(Ok(Source::Listed(Listed { list, must, is_lines }))),
            (wrong @ Err(_), _) => Some(wrong),
            _ => None,
        };
    }
    let at = |place: Place| Some(Ok(Source::At(Site::Request(place))));
    let wrong = |what: &str, name: &str| Some(Err(format!("names a {what} that cannot be: \"{name}\"")));
    // `name#/pointer` is inside a text that is JSON itself.
    let within = |name: &str, outer: fn(String) -> Place| match name.split_once('#') {
        None => at(outer(name.to_owned())),
        Some((name, pointer)) => match Pointer::parse(pointer) {
            Ok(pointer) => {
                let (outer, document) = (outer(name.to_owned()), Document::Json);
                at(Place::Within(Box::new(Within { outer, document, pointer })))
            }
            Err(_) => wrong("pointer", pointer),
        },
    };
    let pointer = |name: &str, of: fn(Pointer) -> Source| match Pointer::parse(name) {
        Ok(pointer) => Some(Ok(of(pointer))),
        Err(_) => wrong("pointer", name),
    };
    match text.split_once(':') {
        None => Some(Ok(match text {
            "body" => Source::Body,
            "timestamp" => Source::Timestamp,
            "method" => Source::Method,
            "url" => Source::Url,
            "path" => Source::Path,
            "query" => Source::Query,
            "target" => Source::Target,
            "secret" => Source::Secret,
            "sorted_form" => Source::SortedForm,
            "sorted_query" => Source::SortedQuery,
            _ => return None,
        })),
        Some((_, "")) => None,
        Some(("header", names)) => match HeaderNames::parse(names.split('|')) {
            Ok(names) => at(Place::Header(names)),
            Err(name) => wrong("header", &name),
        },
        Some(("query", name)) => within(name, Place::Query),
        Some(("form", name)) => within(name, Place::Form),
        Some(("json", name)) => pointer(name, |pointer| Source::At(Site::Request(Place::Json(pointer)))),
        Some(("item", name)) => pointer(name, |pointer| Source::At(Site::Item(pointer))),
        Some(("raw", name)) => pointer(name, Source::Raw),
        Some(("part", name)) => Some(Ok(Source::At(Site::Part(name.to_owned())))),
        Some(("claim", name)) => match Pointer::parse_or_name(name) {
            Ok(pointer) => Some(Ok(Source::At(Site::Claim(pointer)))),
            Err(_) => wrong("claim", name),
        },
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Site {
        Site::Request(Place::Header(HeaderNames::parse(names.iter().copied()).unwrap()))
    }

    fn plain(source: Source) -> Piece {
        Piece::Value(Value { sources: vec![source], functions: Vec::new(), optional: false })
    }

    #[test]
    fn templates_are_split_into_pieces() {
        let template = Template::parse("v0:{timestamp}:{header:A|B}{part:n}.[[{body}").unwrap();
        let literal = |text: &str| Piece::Literal(text.to_owned());
        assert_eq!(
            template.pieces(),
            [
                literal("v0:"),
                plain(Source::Timestamp),
                literal(":"),
                plain(Source::At(header(&["a", "b"]))),
                plain(Source::At(Site::Part("n".into()))),
                literal(".["),
                plain(Source::Body),
            ]
        );
    }

    #[test]
    fn values_may_be_changed_joined_left_out_and_grouped() {
        let template = Template::parse("{upper(sha256_hex(secret+body))}[Subject\n{json:/Subject}\n]{query:x?}").unwrap();
        let subject = Source::At(Site::Request(Place::Json(Pointer::parse("/Subject").unwrap())));
        assert_eq!(
            template.pieces(),
            [
                Piece::Value(Value {
                    sources: vec![Source::Secret, Source::Body],
                    functions: vec![Function::Sha256Hex, Function::Upper],
                    optional: false,
                }),
                Piece::Group(vec![Piece::Literal("Subject\n".into()), plain(subject), Piece::Literal("\n".into())]),
                Piece::Value(Value {
                    sources: vec![Source::At(Site::Request(Place::Query("x".into())))],
                    functions: Vec::new(),
                    optional: true,
                }),
            ]
        );
        let lines = Template::parse("{header_lines(header:X-Signed-Headers, X-Time)}").unwrap();
        let listed =
            Listed { list: header(&["x-signed-headers"]), must: vec![HeaderName::from_static("x-time")], is_lines: true };
        assert_eq!(lines.pieces(), [plain(Source::Listed(listed))]);
        assert!(lines.covers(&header(&["x-time"])) && !lines.covers(&header(&["x-other"])));
        let within = Template::parse("{form:json#/event/id}{sha256_hex(body)?}").unwrap();
        assert!(
            within.values()[1].optional && matches!(&within.values()[0].sources[0], Source::At(Site::Request(Place::Within(_))))
        );
    }

    #[test]
    fn wrong_templates_say_what_is_wrong() {
        for (text, what) in [
            ("", "is empty"),
            ("[]", "is empty"),
            ("{body", "not closed"),
            ("[{body}", "`[` that is not closed"),
            ("body}", "closes nothing"),
            ("body]", "closes nothing"),
            ("[a[b]]", "group inside a group"),
            ("{bod}", "unknown placeholder: `{bod}`"),
            ("{body:x}", "unknown placeholder"),
            ("{header}", "unknown placeholder"),
            ("{header:a b}", "\"a b\""),
            ("{part:}", "unknown placeholder"),
            ("{md4(body)}", "unknown placeholder"),
            ("{lower(body}", "unknown placeholder"),
            ("{body+method}", "unknown placeholder"),
            ("{json:id}", "pointer that cannot be: \"id\""),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
        assert!(Template::parse(&"{body}".repeat(33)).is_err());
    }

    #[test]
    fn a_template_covers_what_it_feeds() {
        let template = Template::parse("{header:a|b}.{body}").unwrap();
        assert!(template.covers(&header(&["a"])) && template.covers(&header(&["a", "b"])));
        assert!(!template.covers(&header(&["b"])) && !template.covers(&header(&["c"])));
        assert!(template.covers(&Site::Request(Place::Form("x".into()))));
        assert!(!template.covers(&Site::Request(Place::Query("x".into()))));
        assert!(!Template::parse("{header:a}").unwrap().covers(&Site::Request(Place::Body)));
        assert!(Template::parse("{sha256_hex(body)}").unwrap().covers(&Site::Request(Place::Body)));
        let url = Template::parse("{url}{sorted_form}").unwrap();
        assert!(url.covers(&Site::Request(Place::Query("x".into()))));
        // Where one field ends and the next begins is not signed.
        assert!(!url.covers(&Site::Request(Place::Form("x".into()))) && !url.covers(&Site::Request(Place::Body)));
        for loose in ["{crc32(body)}", "{lower(body)}"] {
            assert!(!Template::parse(loose).unwrap().covers(&Site::Request(Place::Body)), "{loose}");
        }
        assert!(!Template::parse("{header:a?}{header:b?}").unwrap().covers(&header(&["a"])));
    }
}
