//! Which headers go on to the consumer, and which of its own come back. Pure: no I/O, no clock.

use std::net::IpAddr;

use http::Version;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use ipnet::IpNet;
use smallvec::SmallVec;

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

/// Whether it is a header of one connection, not of the message: RFC 9110, 7.6.1, and `Proxy-Connection`, which clients still
/// send. `HTTP2-Settings` asks for another protocol, as `Upgrade` does, and none is ever switched to.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "upgrade"
    )
}

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

/// What the consumer is told beside what was sent. Not put among that: a map would have to grow, for what is only written.
pub type Beside = SmallVec<[(HeaderName, HeaderValue); 8]>;

/// Makes a received request's headers those of the request to the consumer, and adds what goes beside them.
pub fn towards_consumer(headers: &mut HeaderMap, beside: &mut Beside, host: Option<HeaderValue>, peer: Peer, told: Told<'_>) {
    // The body has been read: nobody waits for a 100.
    strip(headers, |name| name == "expect" || !peer.is_trusted && is_of_those_before(name));
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    forwarded(headers, beside, peer);
    if let Some(value) = told.event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        beside.push((EVENT_ID, value));
    }
    if let Some(attempt) = told.attempt {
        let value = if attempt == 1 { HeaderValue::from_static("1") } else { attempt.into() };
        beside.push((ATTEMPT, value));
    }
    if let Some(mark) = told.mark {
        beside.push((MAYBE_DUPLICATE, HeaderValue::from_static(mark.as_str())));
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
    strip(headers, |_| false);
}

/// Whether `Connection` names a header that is there and is none of a connection's. Removed by its name, an event would
/// reach the consumer without it, its signature for one; and whoever passes it on before us may have looked at it already.
pub fn connection_names_another(headers: &HeaderMap) -> bool {
    named_by_connection(headers).any(|name| {
        let is_of_connection = is_hop_by_hop(name.as_str()) || matches!(name.as_str(), "transfer-encoding" | "close");
        !is_of_connection && headers.contains_key(&name)
    })
}

/// Removes what belongs to the connection the message came on, the framing, which is made anew, what only hookonce says, and
/// what `is_unwanted` beside. All names are looked at once: a look-up for each of these costs more, and few are ever there.
fn strip(headers: &mut HeaderMap, is_unwanted: impl Fn(&str) -> bool) {
    // Beside a transfer coding a length says nothing (RFC 9112, 6.3), and is often wrong.
    let is_coded = headers.contains_key(header::TRANSFER_ENCODING);
    let is_framing = |name: &str| is_coded && matches!(name, "transfer-encoding" | "content-length");
    let is_gone = |name: &str| is_hop_by_hop(name) || is_framing(name) || is_own(name) || is_unwanted(name);
    let mut gone: SmallVec<[HeaderName; 4]> = named_by_connection(headers).filter(|name| !is_kept(name)).collect();
    gone.extend(headers.keys().filter(|name| is_gone(name.as_str())).cloned());
    for name in gone {
        headers.remove(name);
    }
}

/// Without `keep-alive`, which nearly everybody says and which goes anyway.
fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    names.filter(|name| !name.eq_ignore_ascii_case(b"keep-alive")).filter_map(|name| HeaderName::from_bytes(name).ok())
}

/// What no `Connection` takes away: who is asked for what, with which body, by whom.
fn is_kept(name: &HeaderName) -> bool {
    [header::HOST, header::FORWARDED, header::AUTHORIZATION, header::COOKIE].contains(name)
        || ["content-", "x-forwarded-", "hookonce-"].iter().any(|start| name.as_str().starts_with(start))
}

/// Only hookonce says `Hookonce-*`. Consumers that read headers as variables take `_` for `-`.
fn is_own(name: &str) -> bool {
    name.strip_prefix("hookonce").is_some_and(|rest| rest.starts_with(['-', '_']))
}

/// Whether it says who the message came from before, to whomever takes `_` for `-`.
fn is_of_those_before(name: &str) -> bool {
    let start = "x-forwarded-";
    let dashed = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name == "forwarded" || name.len() >= start.len() && dashed.take(start.len()).eq(start.bytes())
}

fn forwarded(headers: &mut HeaderMap, beside: &mut Beside, peer: Peer) {
    let mut chain: SmallVec<[u8; 64]> = SmallVec::new();
    // What was said is passed on as it is: whoever cannot be read must not make those behind it unseen.
    for line in headers.get_all(&FORWARDED_FOR).iter().filter(|line| !line.is_empty()) {
        chain.extend_from_slice(line.as_bytes());
        chain.extend_from_slice(b", ");
    }
    append_address(peer.caller.address, &mut chain);
    if let Ok(value) = HeaderValue::from_bytes(&chain) {
        headers.remove(&FORWARDED_FOR);
        beside.push((FORWARDED_FOR, value));
    }
    if !headers.contains_key(&FORWARDED_PROTO) {
        beside.push((FORWARDED_PROTO, HeaderValue::from_static(if peer.caller.is_tls { "https" } else { "http" })));
    }
    if let Some(host) = headers.get(header::HOST).filter(|_| !headers.contains_key(&FORWARDED_HOST)) {
        beside.push((FORWARDED_HOST, host.clone()));
    }
}

/// Most addresses are four numbers, for which a formatter is a long way round.
fn append_address(address: IpAddr, text: &mut SmallVec<[u8; 64]>) {
    let IpAddr::V4(address) = address else { return text.extend_from_slice(address.to_string().as_bytes()) };
    for (position, number) in address.octets().into_iter().enumerate() {
        if position > 0 {
            text.push(b'.');
        }
        text.extend(itoa::Buffer::new().format(number).bytes());
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
        let mut beside = Beside::new();
        towards_consumer(&mut headers, &mut beside, None, peer, told);
        assert!(beside.iter().all(|(name, _)| !headers.contains_key(name)), "{beside:?} beside {headers:?}");
        headers.extend(beside);
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
        let only_named = sent(&[("connection", "transfer-encoding"), ("content-length", "3")], peer(true));
        assert!(only_named.contains_key("content-length"));
    }

    #[test]
    fn every_header_of_the_connection_stays_behind_on_both_ways() {
        let fields = [
            ("connection", "Keep-Alive, close"),
            ("close", "1"),
            ("http2-settings", "AA"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authenticate", "Basic"),
            ("proxy-authorization", "Basic AA"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("hookonce-outcome", "forwarded"),
            ("hookonce_attempt", "1"),
            ("expect", "100-continue"),
            ("x-kept", "1"),
        ];
        let mut back = map(&fields);
        towards_sender(&mut back);
        assert_eq!(back, map(&[("expect", "100-continue"), ("x-kept", "1")]));
        let on = sent(&fields, peer(true));
        assert!(fields[..15].iter().all(|(name, _)| !on.contains_key(*name)), "{on:?}");
        assert_eq!(on["x-kept"], "1");
    }

    #[test]
    fn those_before_are_passed_on_as_they_were_said() {
        let fields = [("x-forwarded-for", "odd one"), ("x-forwarded-for", ""), ("x-forwarded-for", "198.51.100.1, 10.0.0.255")];
        let six = Caller::new("2001:db8::7".parse().unwrap(), true);
        let kept = sent(&fields, Peer { caller: six, is_trusted: true });
        assert_eq!(kept.get_all(FORWARDED_FOR).iter().collect::<Vec<_>>(), ["odd one, 198.51.100.1, 10.0.0.255, 2001:db8::7"]);
        assert_eq!(kept[FORWARDED_PROTO], "https");
        assert!(!kept.contains_key(FORWARDED_HOST), "there is no host");
        let fields = [("x_forwarded_for", "a"), ("X-Forwarded_Port", "b"), ("forwarded", "c"), ("x-forward", "d")];
        let foreign = sent(&fields, peer(false));
        assert_eq!(foreign[FORWARDED_FOR], "192.0.2.7");
        assert!(fields[..3].iter().all(|(name, _)| !foreign.contains_key(*name)), "{foreign:?}");
        assert_eq!(foreign["x-forward"], "d");
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
