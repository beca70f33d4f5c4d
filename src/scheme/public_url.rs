//! The URL that the provider calls, for schemes that sign it. It is configured, never put together from what a request
//! says of itself: a gateway in between changes host, scheme and port, and a sender could choose them.

use http::Uri;

use crate::config::reader::{At, FromNode};
use crate::config::tree::Node;

/// `https://hooks.example.com`: each request's path and query follow. With a path, that path counts instead of the
/// request's; with a query too, it is the whole URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// Without a slash at its end where there is no path.
    text: String,
    has_path: bool,
    has_query: bool,
}

impl PublicUrl {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err("is not a whole URL");
        }
        if text.contains('#') {
            return Err("has a fragment, which no provider sends");
        }
        let has_query = text.contains('?');
        let has_path = has_query || !matches!(uri.path(), "" | "/");
        let text = if has_path { text } else { text.strip_suffix('/').unwrap_or(text) };
        Ok(Self { text: text.to_owned(), has_path, has_query })
    }

    /// Whether it is the whole URL, so that a request's own query has to be the same, or none.
    pub(super) fn has_query(&self) -> bool {
        self.has_query
    }

    /// The URL that was called to send a request with this target, in three pieces. `None` where its query is another one.
    pub(super) fn pieces<'a>(&'a self, target: &'a Uri) -> Option<[&'a str; 3]> {
        let own = self.text.split_once('?').map(|(_, query)| query);
        if self.has_query && target.query().is_some() && target.query() != own {
            return None;
        }
        Some(match (self.has_query, self.has_path, target.query()) {
            (true, _, _) | (false, true, None) => [&self.text, "", ""],
            (false, true, Some(query)) => [&self.text, "?", query],
            (false, false, _) => [&self.text, target.path_and_query().map_or("/", |target| target.as_str()), ""],
        })
    }
}

impl FromNode for PublicUrl {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let text = String::from_node(node, at)?;
        let read = Self::parse(&text);
        if let Err(what) = read {
            let help = "write the URL as it stands at the provider: \"https://hooks.example.com\", or with its path";
            at.error(node, format!("\"{text}\" {what}"), help);
        }
        read.ok()
    }
}

impl crate::config::written::AsWritten for PublicUrl {
    fn as_written(&self) -> String {
        crate::config::written::quoted(&self.text)
    }
}

/// The URL with the port that its scheme implies, unless it names one.
pub(super) fn with_port(url: &str) -> String {
    let Some((scheme, authority, rest)) = split(url) else { return url.to_owned() };
    if port_at(authority).is_some() {
        return url.to_owned();
    }
    let port = if scheme == "http" { 80 } else { 443 };
    format!("{scheme}://{authority}:{port}{rest}")
}

/// The URL without its port, whichever that is.
pub(super) fn without_port(url: &str) -> String {
    let Some((scheme, authority, rest)) = split(url) else { return url.to_owned() };
    let end = port_at(authority).unwrap_or(authority.len());
    format!("{scheme}://{}{rest}", &authority[..end])
}

fn split(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some((scheme, &rest[..end], &rest[end..]))
}

/// Where `:8443` begins. The colons of an IPv6 address stand inside brackets, that of a password before the host.
fn port_at(authority: &str) -> Option<usize> {
    let after_host = authority.rfind([']', '@']).map_or(0, |end| end + 1);
    authority[after_host..].rfind(':').map(|colon| after_host + colon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_fills_in_what_is_not_configured() {
        let target: Uri = "/path?x=1".parse().unwrap();
        for (configured, url) in [
            ("https://a.example", "https://a.example/path?x=1"),
            ("https://a.example/", "https://a.example/path?x=1"),
            ("https://a.example:8443/hooks", "https://a.example:8443/hooks?x=1"),
            ("https://a.example/hooks/?x=1", "https://a.example/hooks/?x=1"),
        ] {
            assert_eq!(PublicUrl::parse(configured).unwrap().pieces(&target).unwrap().concat(), url);
        }
        let bare: Uri = "/path".parse().unwrap();
        assert_eq!(
            PublicUrl::parse("https://a.example/hooks").unwrap().pieces(&bare).unwrap().concat(),
            "https://a.example/hooks"
        );
        let whole = PublicUrl::parse("https://a.example?y=2").unwrap();
        assert_eq!(whole.pieces(&bare).unwrap().concat(), "https://a.example?y=2");
        assert_eq!(whole.pieces(&target), None, "what was called is not what came");
        for wrong in ["", "a.example", "/hooks", "ftp://a.example", "https://", "https://a.example/#x"] {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_come_and_go() {
        for (without, with) in [
            ("https://a.example/x?y=1:2", "https://a.example:443/x?y=1:2"),
            ("http://a.example", "http://a.example:80"),
            ("https://[::1]/x", "https://[::1]:443/x"),
            ("https://u:p@a.example/x", "https://u:p@a.example:443/x"),
        ] {
            assert_eq!(with_port(without), with);
            assert_eq!(with_port(with), with);
            assert_eq!(without_port(with), without);
            assert_eq!(without_port(without), without);
        }
        assert_eq!(without_port("https://a.example:8443/x"), "https://a.example/x");
    }
}
