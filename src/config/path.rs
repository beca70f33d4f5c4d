//! Paths and hosts a delivery is told apart by.
//!
//! A configured path is already in its normal form: whatever the consumer's router might fold onto it (`//`, `..`,
//! `%2f`, a trailing slash) cannot be written here, so that one comparison of texts decides.

use http::Method;

use super::reader::{At, FromNode};
use super::scalar::{Fault, checked_text, from_text};
use super::tree::Node;
use super::written::{AsWritten, quoted};

/// `/health` exactly, or `/app/*`: that path and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    Exact(String),
    /// The path without `/*`: empty for `/*` itself.
    Below(String),
}

impl PathPattern {
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Below(top) => path.strip_prefix(top.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }

    /// The same pattern for a path in small letters.
    pub fn to_lowercase(&self) -> Self {
        match self {
            Self::Exact(path) => Self::Exact(path.to_ascii_lowercase()),
            Self::Below(top) => Self::Below(top.to_ascii_lowercase()),
        }
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let pattern = match text.strip_suffix("/*") {
            Some("") => Ok(Self::Below(String::new())),
            Some(top) => normal_path(top).map(Self::Below),
            None => normal_path(text).map(Self::Exact),
        };
        pattern.map_err(|fault| Fault::new(fault.what, "write \"/health\", or \"/app/*\" for a path and all below it"))
    }
}

impl FromNode for PathPattern {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, Self::parse)
    }
}

impl AsWritten for PathPattern {
    fn as_written(&self) -> String {
        match self {
            Self::Exact(path) => quoted(path),
            Self::Below(path) => quoted(&format!("{path}/*")),
        }
    }
}

checked_text!(
    /// The path of a provider, in its normal form.
    RoutePath by normal_path
);

fn normal_path(text: &str) -> Result<String, Fault> {
    let refused = |why: &str| Fault::new(format!("{why}: {}", quoted(text)), "write a plain path: \"/webhooks/stripe\"");
    if !text.starts_with('/') {
        return Err(refused("does not begin with a slash"));
    }
    if text.len() > 1 && text.ends_with('/') {
        return Err(refused("ends with a slash"));
    }
    if text.contains("//") || text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(refused("is not in its normal form"));
    }
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic() || "%?#*\\\"<>^`{|}".contains(*c)) {
        return Err(refused(&format!("holds {odd:?}, which a path here cannot")));
    }
    Ok(text.to_owned())
}

checked_text!(
    /// A host as it stands in a request, in lower case and without a port.
    Host by plain_host
);

fn plain_host(text: &str) -> Result<String, Fault> {
    let host = text.to_ascii_lowercase();
    let is_address = host.starts_with('[') && host.ends_with(']');
    let is_name = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    if is_name || is_address {
        return Ok(host);
    }
    Err(Fault::new(format!("is not a host: {}", quoted(text)), "write it without scheme, port and path: \"hooks.example.com\""))
}

/// Methods are compared as they are: one in lower case would never be met.
impl FromNode for Method {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, |text| {
            let is_upper = !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase());
            let method = Self::from_bytes(text.as_bytes()).ok().filter(|_| is_upper);
            method.ok_or_else(|| Fault::new(format!("is not a method: {}", quoted(text)), "write it in capitals: \"POST\""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_in_their_normal_form() {
        for path in ["/", "/webhooks/stripe", "/a.b/c_d-e~", "/hooks/:x", "/a/.well-known"] {
            assert_eq!(normal_path(path).unwrap(), path);
        }
        for wrong in
            ["", "hooks", "//", "/a//b", "/a/", "/a/../b", "/./a", "/a%2fb", "/a?b", "/a#b", "/a b", "/ä", "/a\\b", "/a*"]
        {
            assert!(normal_path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pattern_below_takes_whole_segments() {
        let below = PathPattern::parse("/app/*").unwrap();
        assert!(below.matches("/app") && below.matches("/app/") && below.matches("/app/x/y"));
        assert!(!below.matches("/application") && !below.matches("/"));
        let all = PathPattern::parse("/*").unwrap();
        assert!(all.matches("/") && all.matches("/x"));
        assert!(PathPattern::parse("/health").unwrap().matches("/health"));
        for wrong in ["*", "app/*", "/a*", "/a/*/b", "/a//*"] {
            assert!(PathPattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_are_written_as_they_are_read() {
        for text in ["/health", "/app/*", "/*"] {
            assert_eq!(PathPattern::parse(text).unwrap().as_written(), quoted(text));
        }
    }

    #[test]
    fn hosts_are_lower_case_and_have_no_port() {
        assert_eq!(plain_host("Hooks.Example.com").unwrap(), "hooks.example.com");
        assert_eq!(plain_host("[::1]").unwrap(), "[::1]");
        for wrong in ["", "a:80", "http://a", "a/b", "a b"] {
            assert!(plain_host(wrong).is_err(), "{wrong}");
        }
    }
}
