//! Which headers go on to the consumer, and which of its own come back. Pure: no I/O, no clock.

use http::Version;
use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use ipnet::IpNet;

use super::caller::{Caller, has};
use super::refusal::Refusal;
use crate::config::Limits;
use crate::store::Mark;
use crate::telemetry::trace::Onward;
use crate::telemetry::trace::context::{TRACEPARENT, TRACESTATE};

pub const EVENT_ID: HeaderName = HeaderName::from_static("hookonce-event-id");
pub const ATTEMPT: HeaderName = HeaderName::from_static("hookonce-attempt");
pub const MAYBE_DUPLICATE: HeaderName = HeaderName::from_static("hookonce-maybe-duplicate");
pub const OUTCOME: HeaderName = HeaderName::from_static("hookonce-outcome");

pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Headers of one connection, not of the message: RFC 9110, 7.6.1, and `Proxy-Connection`, which clients still send.
/// `HTTP2-Settings` asks for another protocol, as `Upgrade` does, and none is ever switched to.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
];

/// Who sent a request, as far as can be told.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub caller: Caller,
    /// Whether what it says of those before it is believed.
    pub is_trusted: bool,
}

impl Peer {
    pub fn of(caller: Caller, trusted: Option<&[IpNet]>) -> Self {
        Self { caller, is_trusted: trusted.is_none_or(|proxies| has(proxies, caller.address)) }
    }
}

/// What the consumer is told of an event.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    pub event_id: Option<&'a str>,
    pub attempt: Option<u32>,
    pub mark: Option<Mark>,
    pub trace: Option<Onward>,
}

/// Refuses a head that is too large, and gives the size of one that is not. Over HTTP/1.1 the parser has seen to most of it.
pub fn within(parts: &Parts, limits: &Limits) -> Result<u64, Refusal> {
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target as u64 > limits.uri.0 {
        return Err(Refusal::UriTooLong);
    }
    let (is_http2, bytes) = (parts.version == Version::HTTP_2, bytes_in(&parts.headers));
    if parts.headers.len() > limits.headers || is_http2 && bytes > limits.header_bytes.0 {
        return Err(Refusal::HeadersTooLarge);
    }
    Ok(target as u64 + bytes)
}

/// As HTTP/2 counts them (RFC 9113, 6.5.2).
fn bytes_in(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| name.as_str().len() as u64 + value.len() as u64 + 32).sum()
}

/// Makes a received request's headers those of the request to the consumer.
pub fn towards_consumer(headers: &mut HeaderMap, host: Option<HeaderValue>, peer: Peer, told: Told<'_>) {
    end_to_end(headers);
    drop_own(headers);
    // The body has been read: nobody waits for a 100.
    headers.remove(header::EXPECT);
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    forwarded(headers, peer);
    if let Some(value) = told.event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert(EVENT_ID, value);
    }
    if let Some(attempt) = told.attempt {
        headers.insert(ATTEMPT, attempt.into());
    }
    if let Some(mark) = told.mark {
        headers.insert(MAYBE_DUPLICATE, HeaderValue::from_static(mark.as_str()));
    }
    if let Some(onward) = told.trace {
        carry(headers, onward);
    }
}

/// Says which trace a request is part of. What was said of another one goes.
pub fn carry(headers: &mut HeaderMap, onward: Onward) {
    headers.insert(TRACEPARENT, onward.parent);
    if onward.begins {
        headers.remove(TRACESTATE);
    }
}

/// Makes the consumer's headers those of the reply to the sender.
pub fn towards_sender(headers: &mut HeaderMap) {
    end_to_end(headers);
    drop_own(headers);
}

/// Whether `Connection` names a header that is there and is none of a connection's. Removed by its name, an event would
/// reach the consumer without it, its signature for one; and whoever passes it on before us may have looked at it already.
pub fn connection_names_another(headers: &HeaderMap) -> bool {
    named_by_connection(headers).any(|name| {
        let is_of_connection = HOP_BY_HOP.contains(&name) || name == header::TRANSFER_ENCODING || name.as_str() == "close";
        !is_of_connection && headers.contains_key(&name)
    })
}

/// Removes what belongs to the connection the message came on, and the framing, which is made anew.
fn end_to_end(headers: &mut HeaderMap) {
    // Beside a transfer coding a length says nothing (RFC 9112, 6.3), and is often wrong.
    if headers.remove(header::TRANSFER_ENCODING).is_some() {
        headers.remove(header::CONTENT_LENGTH);
    }
    let named: Vec<HeaderName> = named_by_connection(headers).filter(|name| !is_kept(name)).collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
}

/// What no `Connection` takes away: who is asked for what, with which body, by whom.
fn is_kept(name: &HeaderName) -> bool {
    [header::HOST, header::FORWARDED, header::AUTHORIZATION, header::COOKIE].contains(name)
        || ["content-", "x-forwarded-", "hookonce-"].iter().any(|start| name.as_str().starts_with(start))
}

/// Only hookonce says `Hookonce-*`. Consumers that read headers as variables take `_` for `-`.
fn drop_own(headers: &mut HeaderMap) {
    drop_all(headers, |name| name.starts_with("hookonce-") || name.starts_with("hookonce_"));
}

/// Whether a name begins so, for whoever takes `_` for `-`.
fn begins_alike(name: &str, start: &str) -> bool {
    let dashed = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name.len() >= start.len() && dashed.take(start.len()).eq(start.bytes())
}

fn drop_all(headers: &mut HeaderMap, is_it: impl Fn(&str) -> bool) {
    let named: Vec<HeaderName> = headers.keys().filter(|name| is_it(name.as_str())).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

fn forwarded(headers: &mut HeaderMap, peer: Peer) {
    if !peer.is_trusted {
        drop_all(headers, |name| name == header::FORWARDED.as_str() || begins_alike(name, "x-forwarded-"));
    }
    // What was said is passed on as it is: whoever cannot be read must not make those behind it unseen.
    let mut chain: Vec<&[u8]> = headers.get_all(&FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    let address = peer.caller.address.to_string();
    chain.retain(|line| !line.is_empty());
    chain.push(address.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&chain.join(&b", "[..])) {
        headers.insert(FORWARDED_FOR, value);
    }
    if let Entry::Vacant(vacant) = headers.entry(FORWARDED_PROTO) {
        vacant.insert(HeaderValue::from_static(if peer.caller.is_tls { "https" } else { "http" }));
    }
    if !headers.contains_key(&FORWARDED_HOST)
        && let Some(host) = headers.get(header::HOST).cloned()
    {
        headers.insert(FORWARDED_HOST, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        fields.iter().map(field).collect()
    }

    fn sent(fields: &[(&str, &str)], peer: Peer) -> HeaderMap {
        let mut headers = map(fields);
        let told = Told { event_id: Some("evt_1"), attempt: Some(2), mark: Some(Mark::Unknown), trace: None };
        towards_consumer(&mut headers, None, peer, told);
        headers
    }

    fn peer(is_trusted: bool) -> Peer {
        Peer { caller: Caller::new([192, 0, 2, 7].into(), false), is_trusted }
    }

    #[test]
    fn headers_of_the_connection_stay_behind_and_the_rest_goes_on() {
        let headers = sent(
            &[
                ("host", "a"),
                ("connection", "close, X-Gone"),
                ("x-gone", "1"),
                ("te", "trailers"),
                ("x-kept", "1"),
                ("x-kept", "2"),
            ],
            peer(true),
        );
        assert!(!headers.contains_key("x-gone") && !headers.contains_key("te") && !headers.contains_key("connection"));
        assert_eq!(headers.get_all("x-kept").iter().count(), 2);
    }

    #[test]
    fn a_connection_names_its_own_headers_and_no_others() {
        let names = |value, others: &[(&'static str, &'static str)]| {
            connection_names_another(&map(&[&[("connection", value)], others].concat()))
        };
        for of_connection in
            ["close", "Keep-Alive", "Upgrade, HTTP2-Settings", "TE, close", "transfer-encoding", ", ,", "x-absent"]
        {
            let others = [("keep-alive", "1"), ("upgrade", "h2c"), ("http2-settings", "AA"), ("te", "trailers"), ("close", "1")];
            assert!(!names(of_connection, &others), "{of_connection}");
        }
        for another in
            ["X-Signature", "close,x-signature", "close,\tX-SIGNATURE ,", "content-length", "Host", "Hookonce-Event-Id"]
        {
            let others = [("x-signature", "1"), ("host", "a"), ("content-length", "2"), ("hookonce-event-id", "1")];
            assert!(names(another, &others), "{another}");
        }
    }

    #[test]
    fn what_says_who_is_asked_for_what_is_not_taken_away_by_its_name() {
        let fields = [
            ("connection", "host, content-type, x-forwarded-for, forwarded, authorization, cookie, content-length"),
            ("host", "a"),
            ("content-type", "b"),
            ("x-forwarded-for", "198.51.100.1"),
            ("forwarded", "for=198.51.100.1"),
            ("authorization", "c"),
            ("cookie", "d"),
            ("content-length", "3"),
        ];
        let headers = sent(&fields, peer(true));
        assert!(fields[1..].iter().all(|(name, _)| headers.contains_key(*name)), "{headers:?}");
        let coded = sent(&[("connection", "transfer-encoding"), ("transfer-encoding", "x"), ("content-length", "3")], peer(true));
        assert!(!coded.contains_key("content-length") && !coded.contains_key("transfer-encoding"));
    }

    #[test]
    fn nobody_else_speaks_for_hookonce() {
        let headers = sent(&[("hookonce-event-id", "forged"), ("hookonce-anything", "x")], peer(true));
        assert_eq!(headers[EVENT_ID], "evt_1");
        assert_eq!(headers[ATTEMPT], "2");
        assert_eq!(headers[MAYBE_DUPLICATE], "unknown");
        assert!(!headers.contains_key("hookonce-anything"));
    }

    #[test]
    fn forwarded_is_appended_to_for_a_trusted_peer_and_replaced_for_another() {
        let fields =
            [("host", "a"), ("x-forwarded-for", "198.51.100.1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "h")];
        let kept = sent(&fields, peer(true));
        assert_eq!(kept[FORWARDED_FOR], "198.51.100.1, 192.0.2.7");
        assert_eq!(
            (&kept[FORWARDED_PROTO], &kept[FORWARDED_HOST]),
            (&HeaderValue::from_static("https"), &HeaderValue::from_static("h"))
        );
        let replaced = sent(&fields, peer(false));
        assert_eq!(replaced[FORWARDED_FOR], "192.0.2.7");
        assert_eq!(
            (&replaced[FORWARDED_PROTO], &replaced[FORWARDED_HOST]),
            (&HeaderValue::from_static("http"), &HeaderValue::from_static("a"))
        );
    }
}
