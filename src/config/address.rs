//! Addresses: where we listen, whom we trust, where the consumer is.

use std::net::{IpAddr, SocketAddr};

use http::Uri;
use http::uri::Scheme;
use ipnet::IpNet;

use super::reader::{At, FromNode};
use super::scalar::{Fault, from_text};
use super::tree::Node;
use super::written::{AsWritten, quoted};

/// The consumer's address. `http` or `https`, host, port; the path counts only without `preserve_path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upstream(pub Uri);

impl Upstream {
    /// Whether a path was written, other than `/`.
    pub fn has_path(&self) -> bool {
        self.0.path() != "/"
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        // What stands before `@` may be a password: such a text is never repeated.
        if text.contains('@') {
            return Err(Fault::new("holds credentials, which would not be sent", "write it without what stands before the @"));
        }
        let wanted = "write \"http://HOST:PORT\" or \"https://HOST\"";
        let Ok(uri) = text.parse::<Uri>() else {
            return Err(Fault::new(format!("is not a URL: {}", quoted(text)), wanted));
        };
        let is_http = uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        if !is_http || uri.host().is_none_or(str::is_empty) {
            let help = if text.contains("://") { wanted.to_owned() } else { format!("did you mean \"http://{text}\"?") };
            return Err(Fault::new(format!("is not an http or https URL: {}", quoted(text)), help));
        }
        if uri.port_u16() == Some(0) || uri.port_u16().is_none() && uri.authority().is_some_and(|a| a.as_str().ends_with(':')) {
            return Err(Fault::new(format!("has no usable port: {}", quoted(text)), wanted));
        }
        if uri.query().is_some() {
            return Err(Fault::new("has a query, which each delivery brings along itself", "write it without the ?"));
        }
        Ok(Self(uri))
    }
}

impl FromNode for Upstream {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, Self::parse)
    }
}

impl AsWritten for Upstream {
    fn as_written(&self) -> String {
        let text = self.0.to_string();
        quoted(if self.has_path() { &text } else { text.trim_end_matches('/') })
    }
}

impl FromNode for SocketAddr {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, |text| {
            let wrong = |_| Fault::new(format!("is not an address: {}", quoted(text)), address_help(text));
            text.parse().map_err(wrong)
        })
    }
}

/// `:8080`, `8080` and `localhost:8080` are what people write: each has one address it stands for.
fn address_help(text: &str) -> String {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let address = match (host, port.parse::<u16>()) {
        ("" | "*", Ok(port)) => SocketAddr::from(([0, 0, 0, 0], port)),
        ("localhost", Ok(port)) => SocketAddr::from(([127, 0, 0, 1], port)),
        _ => return "write an IP address and a port: \"127.0.0.1:8080\"".to_owned(),
    };
    format!("did you mean \"{address}\"?")
}

impl AsWritten for SocketAddr {
    fn as_written(&self) -> String {
        quoted(&self.to_string())
    }
}

/// A network, or a single address.
impl FromNode for IpNet {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, |text| {
            let single = || text.parse::<IpAddr>().map(Self::from);
            let wrong = |_| Fault::new(format!("is not a network: {}", quoted(text)), "write \"10.0.0.0/8\" or one address");
            text.parse().or_else(|_| single()).map_err(wrong)
        })
    }
}

impl AsWritten for IpNet {
    fn as_written(&self) -> String {
        quoted(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_is_http_with_a_host() {
        for text in ["http://127.0.0.1:3000", "https://app.internal", "http://[::1]:80", "http://app/hooks"] {
            assert_eq!(Upstream::parse(text).unwrap().as_written(), quoted(text));
        }
        assert!(Upstream::parse("http://app/hooks").unwrap().has_path());
        assert!(!Upstream::parse("http://app/").unwrap().has_path());
        for wrong in ["", "/", "app", "localhost:3000", "ftp://app", "http://", "http://app:0", "http://app:", "http://app/?a=b"]
        {
            assert!(Upstream::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn upstream_without_a_scheme_is_given_one() {
        assert_eq!(Upstream::parse("localhost:3000").unwrap_err().help, "did you mean \"http://localhost:3000\"?");
    }

    #[test]
    fn upstream_with_credentials_is_not_repeated() {
        let fault = Upstream::parse("http://user:canary@app").unwrap_err();
        assert!(!format!("{fault:?}").contains("canary"));
    }

    #[test]
    fn shorthand_for_an_address_is_spelt_out() {
        assert_eq!(address_help(":8080"), "did you mean \"0.0.0.0:8080\"?");
        assert_eq!(address_help("8080"), "did you mean \"0.0.0.0:8080\"?");
        assert_eq!(address_help("localhost:80"), "did you mean \"127.0.0.1:80\"?");
        assert!(address_help("example.com:80").starts_with("write "));
    }
}
