//! Who may ask for what: the token opens everything; where none is set, this machine may read.
//!
//! A browser that is pointed at the page can send a name and a password, and does so by itself from then on, also when
//! another site's page makes it ask. So these open what can be read, and what changes something takes only a header
//! that a script of ours has to set.

use std::net::{IpAddr, SocketAddr};

use data_encoding::BASE64;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Denied;
use crate::config::Secret;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Whether the caller may ask for this.
pub fn admit<B>(token: Option<&Secret>, request: &Request<B>, peer: SocketAddr) -> Result<(), Denied> {
    if is_from_another_site(request) {
        return Err(Denied::new(StatusCode::FORBIDDEN, "the page of another site asks for this"));
    }
    match token {
        Some(token) if has_bearer(request, token) => Ok(()),
        Some(token) if !is_write(request) && has_password(request, token) => Ok(()),
        Some(_) => Err(unauthorized(request)),
        None if is_write(request) => Err(Denied::new(StatusCode::FORBIDDEN, "changes need a token: set `admin_token`")),
        None if !peer.ip().is_loopback() => {
            Err(Denied::new(StatusCode::FORBIDDEN, "without `admin_token` only this machine may ask"))
        }
        // Whoever is behind a proxy on this machine is not on it.
        None if is_passed_on(request) => {
            Err(Denied::new(StatusCode::FORBIDDEN, "without `admin_token` nothing is answered through a proxy"))
        }
        // A site can have its name lead to this machine, and would then be asking in its visitor's place.
        None if !is_asked_by_address(request) => Err(Denied::new(
            StatusCode::FORBIDDEN,
            "without `admin_token` this is asked for by an IP address or as localhost, not by a name",
        )),
        None => Ok(()),
    }
}

pub fn is_write<B>(request: &Request<B>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

/// A person at a browser is asked for the token; a program, or a script of the page, is told.
fn unauthorized<B>(request: &Request<B>) -> Denied {
    let accepts_html = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("text/html"));
    let is_page = request.uri().path() == "/" || request.headers().get(header::ACCEPT).is_some_and(accepts_html);
    let reason = if is_write(request) || !is_page {
        "this needs `Authorization: Bearer ADMIN_TOKEN`"
    } else {
        "this needs the admin token: log in with it as the password, under any user name"
    };
    let denied = Denied::new(StatusCode::UNAUTHORIZED, reason);
    let challenge = "Basic realm=\"hookonce\", charset=\"UTF-8\"";
    if is_page && !is_write(request) { denied.with(header::WWW_AUTHENTICATE, challenge) } else { denied }
}

/// What is given under this scheme, whose name may be written in any case (RFC 9110, 11.1). Of two headers neither counts.
fn authorization<'r, B>(request: &'r Request<B>, scheme: &str) -> Option<&'r [u8]> {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (name, given) = value.split_at_checked(scheme.len())?;
    given.strip_prefix(b" ").filter(|_| name.eq_ignore_ascii_case(scheme.as_bytes()))
}

fn has_bearer<B>(request: &Request<B>, token: &Secret) -> bool {
    let given = authorization(request, "Bearer");
    given.is_some_and(|given| is_token(given, token))
}

/// The token as the password of whatever user.
fn has_password<B>(request: &Request<B>, token: &Secret) -> bool {
    let given = authorization(request, "Basic");
    let plain = given.and_then(|given| BASE64.decode(given).ok()).map(Secret::new);
    let password = plain.as_ref().and_then(|plain| {
        let colon = plain.bytes().iter().position(|byte| *byte == b':')?;
        plain.bytes().get(colon + 1..)
    });
    password.is_some_and(|password| is_token(password, token))
}

/// Compares digests, which are of one length: comparing the tokens themselves would tell how long the right one is.
fn is_token(given: &[u8], token: &Secret) -> bool {
    Sha256::digest(given).ct_eq(&Sha256::digest(token.bytes())).into()
}

/// Browsers say where a request comes from. Following a link is nobody's misuse; what is behind it is not shown to its site.
fn is_from_another_site<B>(request: &Request<B>) -> bool {
    let is =
        |name: &HeaderName, words: &[&[u8]]| request.headers().get(name).is_some_and(|value| words.contains(&value.as_bytes()));
    is(&FETCH_SITE, &[b"cross-site", b"same-site"]) && (is_write(request) || !is(&FETCH_MODE, &[b"navigate"]))
}

fn is_passed_on<B>(request: &Request<B>) -> bool {
    request
        .headers()
        .keys()
        .any(|name| name == header::FORWARDED || name == header::VIA || name.as_str().starts_with("x-forwarded-"))
}

/// Whether the host it was asked for by is an address, `localhost`, or not said: browsers always say it.
fn is_asked_by_address<B>(request: &Request<B>) -> bool {
    let named = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
    let target = request.uri().authority().map(http::uri::Authority::as_str);
    named.chain(target).all(|authority| is_address(host_of(authority)))
}

/// Without port and brackets.
fn host_of(authority: &str) -> &str {
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn is_address(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:5000";
    const TOKEN: &str = "0123456789abcdef";

    fn admitted(token: Option<&str>, peer: &str, method: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri("/api/config");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let token = token.map(Secret::new);
        let admitted = admit(token.as_ref(), &request.body(()).unwrap(), peer.parse().unwrap());
        admitted.map_or_else(|denied| denied.status.as_u16(), |()| 200)
    }

    #[test]
    fn without_a_token_this_machine_reads_by_address() {
        for host in ["127.0.0.1:9090", "127.0.0.1", "[::1]:9090", "[::1]", "localhost:9090", "LOCALHOST", "10.0.0.7:9090"] {
            assert_eq!(admitted(None, HERE, "GET", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example", "", ":9090", "a]b"]
        {
            assert_eq!(admitted(None, HERE, "GET", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(admitted(None, HERE, "GET", &[("host", "localhost"), ("host", "evil.example")]), 403);
        assert_eq!(admitted(None, HERE, "GET", &[]), 200);
        for name in ["x-forwarded-for", "forwarded", "via"] {
            assert_eq!(admitted(None, HERE, "GET", &[("host", "127.0.0.1"), (name, "203.0.113.9")]), 403, "{name}");
        }
        assert_eq!(admitted(None, "10.0.0.9:5000", "GET", &[("host", "127.0.0.1")]), 403);
        assert_eq!(admitted(None, HERE, "DELETE", &[("host", "127.0.0.1")]), 403);
    }

    #[test]
    fn a_password_reads_and_only_the_bearer_writes() {
        let basic = |text: &str| format!("Basic {}", BASE64.encode(text.as_bytes()));
        let (right, bearer) = (basic(&format!("me:{TOKEN}")), format!("Bearer {TOKEN}"));
        let ask =
            |method, value: &str| admitted(Some(TOKEN), "10.0.0.9:1", method, &[("authorization", value), ("host", "a.example")]);
        assert_eq!((ask("GET", &bearer), ask("DELETE", &bearer)), (200, 200));
        assert_eq!((ask("GET", &right), ask("HEAD", &right)), (200, 200));
        assert_eq!(ask("GET", &basic(&format!(":{TOKEN}"))), 200);
        for method in ["DELETE", "POST", "PUT", "PATCH"] {
            assert_eq!(ask(method, &right), 401, "{method}");
        }
        let wrong = [TOKEN, "me", "", "me:", &format!("{TOKEN}:"), &format!("me:{TOKEN}x"), &format!("a:b:{TOKEN}")];
        for text in wrong {
            assert_eq!(ask("GET", &basic(text)), 401, "{text}");
        }
        assert_eq!(ask("GET", "Basic ???"), 401);
        for value in ["bearer", "BEARER", "bEaReR"].map(|scheme| format!("{scheme} {TOKEN}")) {
            assert_eq!((ask("GET", &value), ask("DELETE", &value)), (200, 200), "{value}");
        }
        assert_eq!((ask("GET", &right.replace("Basic", "basic")), ask("DELETE", &right.replace("Basic", "BASIC"))), (200, 401));
        for value in ["Bearer", "Bearer ", "Bearer  ", TOKEN, "Bearers", "Token"].map(|start| format!("{start} {TOKEN} ")) {
            assert_eq!(ask("GET", &value), 401, "{value}");
        }
        let twice = [("authorization", bearer.as_str()), ("authorization", "Bearer x")];
        assert_eq!(admitted(Some(TOKEN), HERE, "GET", &twice), 401);
        let colons = basic("me:a:b");
        assert_eq!(admitted(Some("a:b"), HERE, "GET", &[("authorization", &colons)]), 200);
    }

    #[test]
    fn another_site_has_nothing_to_ask() {
        let ask = |method, site, mode| {
            let headers = [("host", "127.0.0.1"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            admitted(None, HERE, method, &headers)
        };
        assert_eq!((ask("GET", "same-origin", "cors"), ask("GET", "none", "navigate")), (200, 200));
        assert_eq!((ask("GET", "cross-site", "cors"), ask("GET", "same-site", "no-cors")), (403, 403));
        assert_eq!(ask("GET", "cross-site", "navigate"), 200);
    }
}
