//! The live page: a few files that are part of the program. They ask this address for everything and no other for anything,
//! and the browser is told to hold them to that.

use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};

use super::{AdminResponse, Denied, reply};

/// Path, type, content.
const FILES: [(&str, &str, &str); 12] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/page/page.css", CSS, include_str!("page/page.css")),
    ("/page/page.js", JS, include_str!("page/page.js")),
    ("/page/dom.js", JS, include_str!("page/dom.js")),
    ("/page/chart.js", JS, include_str!("page/chart.js")),
    ("/page/words.js", JS, include_str!("page/words.js")),
    ("/page/providers.js", JS, include_str!("page/providers.js")),
    ("/page/deliveries.js", JS, include_str!("page/deliveries.js")),
    ("/page/lock.js", JS, include_str!("page/lock.js")),
    ("/page/events.js", JS, include_str!("page/events.js")),
    ("/page/queues.js", JS, include_str!("page/queues.js")),
    ("/page/config.js", JS, include_str!("page/config.js")),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Nothing from elsewhere, nothing inline, no markup made of text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'";

const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub fn is_part(path: &str) -> bool {
    FILES.iter().any(|(its, ..)| *its == path)
}

pub fn answer<B>(request: &Request<B>) -> Result<AdminResponse, Denied> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Denied::method("GET, HEAD"));
    }
    let file = FILES.iter().find(|(path, ..)| *path == request.uri().path());
    let (_, kind, content) = file.ok_or_else(|| Denied::new(StatusCode::NOT_FOUND, "the page has no such part"))?;
    let mut response = reply(StatusCode::OK, kind, *content);
    response.headers_mut().extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    Ok(response)
}
