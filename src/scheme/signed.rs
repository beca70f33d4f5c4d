//! The template of what is signed: `"{timestamp}.{body}"` becomes pieces that are fed to a MAC one after the other,
//! so that a body is never copied to be checked.

use super::place::{HeaderNames, Place, Site};

/// The signed bytes, piece by piece. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    Body,
    /// The timestamp, exactly as it was sent.
    Timestamp,
    At(Site),
}

/// Placeholders and functions that providers are known to need and that are not built yet.
const PENDING: [&str; 15] = [
    "const",
    "crc32_dec",
    "form",
    "json",
    "json_string",
    "lower",
    "method",
    "path",
    "query",
    "secret",
    "sha256_hex",
    "sha512_b64",
    "sorted_form",
    "sorted_query",
    "url",
];

/// Pieces of one template: each costs a lookup for every delivery.
const PIECES_MAX: usize = 32;

impl Template {
    /// Reads a template. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (literal, from) = rest.split_at(at);
            let inner = from.strip_prefix('{').ok_or("has a `}` that closes nothing")?;
            let (name, after) = inner.split_once('}').ok_or("has a `{` that is not closed")?;
            pieces.extend((!literal.is_empty()).then(|| Piece::Literal(literal.to_owned())));
            pieces.push(placeholder(name)?);
            rest = after;
        }
        pieces.extend((!rest.is_empty()).then(|| Piece::Literal(rest.to_owned())));
        match pieces.len() {
            0 => Err("is empty".to_owned()),
            count if count > PIECES_MAX => Err(format!("has more than {PIECES_MAX} pieces")),
            _ => Ok(Self(pieces)),
        }
    }

    /// The template that nearly everybody has: the body and nothing else.
    pub fn body() -> Self {
        Self(vec![Piece::Body])
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    pub fn has(&self, piece: &Piece) -> bool {
        self.0.contains(piece)
    }

    /// Whether every byte at this place is among the signed bytes.
    pub fn covers(&self, site: &Site) -> bool {
        self.0.iter().any(|piece| match (piece, site) {
            (Piece::Body, Site::Request(Place::Json(_) | Place::Form(_) | Place::Body)) => true,
            (Piece::At(Site::Request(Place::Header(signed))), Site::Request(Place::Header(names))) => names.lead(signed),
            (Piece::At(signed), site) => signed == site,
            _ => false,
        })
    }
}

fn placeholder(text: &str) -> Result<Piece, String> {
    let (name, argument) = text.split_once(':').map_or((text, None), |(name, argument)| (name, Some(argument)));
    match (name, argument) {
        ("body", None) => Ok(Piece::Body),
        ("timestamp", None) => Ok(Piece::Timestamp),
        ("header", Some(names)) => HeaderNames::parse(names.split('|'))
            .map(|names| Piece::At(Site::Request(Place::Header(names))))
            .map_err(|name| format!("names a header that cannot be: \"{name}\"")),
        ("part", Some(part)) if !part.is_empty() => Ok(Piece::At(Site::Part(part.to_owned()))),
        (name, _) if PENDING.contains(&name.split('(').next().unwrap_or(name)) => {
            Err(format!("has the placeholder `{{{text}}}`, which is not built yet"))
        }
        _ => Err(format!("has an unknown placeholder: `{{{text}}}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Site {
        Site::Request(Place::Header(HeaderNames::parse(names.iter().copied()).unwrap()))
    }

    #[test]
    fn templates_are_split_into_pieces() {
        let template = Template::parse("v0:{timestamp}:{header:A|B}{part:n}.{body}").unwrap();
        let literal = |text: &str| Piece::Literal(text.to_owned());
        assert_eq!(
            template.pieces(),
            [
                literal("v0:"),
                Piece::Timestamp,
                literal(":"),
                Piece::At(header(&["a", "b"])),
                Piece::At(Site::Part("n".into())),
                literal("."),
                Piece::Body,
            ]
        );
    }

    #[test]
    fn wrong_templates_say_what_is_wrong() {
        for (text, what) in [
            ("", "is empty"),
            ("{body", "not closed"),
            ("body}", "closes nothing"),
            ("{bod}", "unknown placeholder: `{bod}`"),
            ("{body:x}", "unknown placeholder"),
            ("{header}", "unknown placeholder"),
            ("{header:a b}", "\"a b\""),
            ("{part:}", "unknown placeholder"),
            ("{url}.{body}", "not built yet"),
            ("{sha256_hex(body)}", "not built yet"),
            ("{json:/id}", "not built yet"),
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
    }
}
