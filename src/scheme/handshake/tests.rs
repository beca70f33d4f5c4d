use super::*;
use crate::config::Origin;
use crate::config::problem::Problems;
use crate::config::reader::Environment;
use crate::config::tree;
use crate::scheme::preset;

fn handshake(text: &str) -> Handshake {
    let (problems, environment) = (Problems::default(), Environment::default());
    let table = tree::parse(text, |line| Origin::File { line }, &problems);
    let at = At { key: String::new(), problems: &problems, environment: &environment };
    let read = Handshake::from_node(&Node { origin: Origin::Builtin, value: Value::Table(table) }, &at);
    let (errors, _) = problems.into_parts();
    read.filter(|_| errors.is_empty()).unwrap_or_else(|| panic!("{errors:?}"))
}

fn slack() -> Handshake {
    preset::find("slack").unwrap().compile().unwrap().handshakes.remove(0)
}

struct Asked<'a> {
    method: Method,
    uri: &'a str,
    headers: &'a [(&'static str, &'a str)],
    body: &'a str,
}

const POST: Asked<'static> = Asked { method: Method::POST, uri: "/", headers: &[], body: "" };
const GET: Asked<'static> = Asked { method: Method::GET, ..POST };

fn judge(handshake: &Handshake, asked: &Asked<'_>, proof: Option<Proof>) -> Option<Challenge> {
    let scheme = preset::find("slack").unwrap().compile().unwrap().scheme;
    let keys = [scheme.key(&Secret::new("Jefe")).unwrap()];
    let (uri, body) = (asked.uri.parse().unwrap(), Bytes::from(asked.body.to_owned()));
    let headers = asked.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    let received = Received { method: &asked.method, uri: &uri, headers: &headers, body: &body };
    handshake.challenge(&scheme, &keys, &received, proof.as_ref())
}

fn answered(challenge: Option<Challenge>) -> Option<Response<Bytes>> {
    match challenge {
        Some(Challenge::Answer(response)) => Some(response),
        _ => None,
    }
}

/// The text that is echoed, which no browser takes for more than that.
fn echoed(challenge: Option<Challenge>) -> Option<String> {
    let response = answered(challenge)?;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    Some(String::from_utf8_lossy(response.body()).into_owned())
}

fn json(challenge: Option<Challenge>) -> Option<String> {
    let response = answered(challenge)?;
    assert_eq!(response.headers()["content-type"], "application/json");
    Some(String::from_utf8_lossy(response.body()).into_owned())
}

const PROOF: Option<Proof> = Some(Proof { slot: 0 });

#[test]
fn a_signed_challenge_is_answered_once_it_is_verified() {
    let body = r#"{"token":"x","challenge":"3eZbrw1aB","type":"url_verification"}"#;
    let post = |body: &str, proof| judge(&slack(), &Asked { body, ..POST }, proof);
    assert_eq!(echoed(post(body, PROOF)), Some("3eZbrw1aB".into()));
    assert!(post(body, None).is_none());
    for (from, to) in [
        ("url_verification", "event_callback"),
        ("challenge", "x"),
        ("3eZbrw1aB", "a\\nb"),
        ("3eZbrw1aB", &"x".repeat(1025)),
        ("{", "{\"type\":\"url_verification\","),
    ] {
        assert!(post(&body.replace(from, to), PROOF).is_none(), "{to}");
    }
    assert!(judge(&slack(), &Asked { body, ..GET }, PROOF).is_none());
}

fn hub(answer: &str) -> Handshake {
    handshake(&format!(
        r#"
            signed = false
            when   = {{ query = "hub.mode", is = "subscribe" }}
            reply  = {{ query = "hub.challenge" }}
            token  = {{ query = "hub.verify_token", secret = "the-right-token-of-some-length" }}
            answer = "{answer}"
        "#
    ))
}

const HUB: &str = "/?hub.mode=subscribe&hub.challenge=11%3C58&hub.verify_token=the-right-token-of-some-length";

#[test]
fn an_unsigned_challenge_is_answered_only_in_its_exact_shape() {
    let hub = hub("hookonce");
    assert_eq!(echoed(judge(&hub, &Asked { uri: HUB, ..GET }, None)), Some("11<58".into()));
    assert!(judge(&hub, &Asked { uri: HUB, ..POST }, None).is_none());
    assert!(judge(&hub, &Asked { uri: HUB, body: "body", ..GET }, None).is_none());
    for (from, to) in [
        ("subscribe", "unsubscribe"),
        ("hub.challenge", "challenge"),
        ("the-right", "the-wrong"),
        ("&hub.verify_token=the-right-token-of-some-length", ""),
        ("hub.mode", "hub.challenge=2&hub.mode"),
    ] {
        assert!(judge(&hub, &Asked { uri: &HUB.replace(from, to), ..GET }, None).is_none(), "{to}");
    }
}

#[test]
fn a_challenge_for_the_upstream_is_passed_on() {
    assert!(matches!(judge(&hub("upstream"), &Asked { uri: HUB, ..GET }, None), Some(Challenge::PassOn)));
}

#[test]
fn an_answer_gives_no_secret_away() {
    let signing = handshake("signed = false\nwhen = { query = \"x\" }\nreply = \"{sign(query:x)}\"");
    let scheme = |name: &str| preset::find(name).unwrap().compile().unwrap().scheme;
    assert!(signing.misfit(&scheme("twitter")).is_none());
    assert!(signing.misfit(&scheme("slack")).is_some(), "more than the body is signed, and could be asked for");
    assert!(signing.misfit(&scheme("qstash")).is_some(), "a token could be asked for");
    let (uri, body, headers) = ("/?x=1".parse().unwrap(), Bytes::new(), http::HeaderMap::new());
    let received = Received { method: &Method::GET, uri: &uri, headers: &headers, body: &body };
    // Tokens, plain digests, public keys.
    for (name, key) in [("gitlab", "a-token-of-some-length"), ("hubspot-v1", "a-secret-of-some-length")] {
        let scheme = scheme(name);
        let keys = [scheme.key(&Secret::new(key)).unwrap()];
        assert!(signing.misfit(&scheme).is_some() && signing.challenge(&scheme, &keys, &received, None).is_none(), "{name}");
    }
    assert!(signing.misfit(&scheme("discord")).is_some());
    assert!(signing.challenge(&scheme("discord"), &[], &received, None).is_none());
}

#[test]
fn the_patterns_that_providers_have_can_all_be_said() {
    // A parameter of a POST.
    let post = handshake(
        "signed = false\nmethod = \"POST\"\nwhen = { query = \"validationToken\" }\nreply = { query = \"validationToken\" }",
    );
    assert_eq!(echoed(judge(&post, &Asked { uri: "/?validationToken=a%20b", ..POST }, None)), Some("a b".into()));
    // A header as a header, or as JSON.
    let header = "signed = false\nmethod = \"POST\"\nwhen = { header = \"X-Hook-Secret\" }\n\
                  reply_headers = { \"X-Hook-Secret\" = \"{header:X-Hook-Secret}\" }\nstatus = 204";
    let response = answered(judge(&handshake(header), &Asked { headers: &[("x-hook-secret", "s")], ..POST }, None)).unwrap();
    assert_eq!(
        (response.status(), &response.headers()["x-hook-secret"]),
        (StatusCode::NO_CONTENT, &HeaderValue::from_static("s"))
    );
    let okta = handshake(
        "signed = false\nwhen = { header = \"X-Challenge\" }\nreply_json = { verification = \"{header:X-Challenge}\" }",
    );
    let asked = Asked { headers: &[("x-challenge", "a\"b")], ..GET };
    assert_eq!(json(judge(&okta, &asked, None)), Some("{\"verification\":\"a\\\"b\"}".into()));
    // A body that is not signed.
    let monday =
        "signed = false\nmethod = \"POST\"\nwhen = { json = \"/challenge\" }\nreply_json = { challenge = \"{json:/challenge}\" }";
    assert_eq!(
        json(judge(&handshake(monday), &Asked { body: "{\"challenge\":\"c\"}", ..POST }, None)),
        Some("{\"challenge\":\"c\"}".into())
    );
    assert!(judge(&handshake(monday), &Asked { body: "{\"event\":{}}", ..POST }, None).is_none());
    // A constant.
    let ping = handshake("when = { json = \"/type\", is = \"1\" }\nreply_json = { type = 1 }");
    assert_eq!(json(judge(&ping, &Asked { body: "{\"type\":1}", ..POST }, PROOF)), Some("{\"type\":1}".into()));
    // Computed.
    let zoom =
        handshake("when = { json = \"/event\", is = \"url\" }\nreply_json = { a = \"{json:/t}\", b = \"v={sign(json:/t)}\" }");
    let body = r#"{"event":"url","t":"what-do-ya-want-for"}"#;
    let mac = "af584df6cfe32faf2db1179b5303438ae01e58c2f6ec6de9114b270ad0265196";
    let expected = format!("{{\"a\":\"what-do-ya-want-for\",\"b\":\"v={mac}\"}}");
    assert_eq!(json(judge(&zoom, &Asked { body, ..POST }, PROOF)), Some(expected));
    // What could be a delivery is signed for nobody.
    for t in ["null", "a b of some length", "{of-some-length-too}", "a=b-of-some-length", "<a-of-some-length>", &"x".repeat(129)]
    {
        let body = format!(r#"{{"event":"url","t":"{t}"}}"#);
        assert!(judge(&zoom, &Asked { body: &body, ..POST }, PROOF).is_none(), "{t}");
    }
    // Nothing but a success.
    let head = handshake("signed = false\nmethod = \"HEAD\"\nwhen = { header = \"User-Agent\" }");
    let asked = Asked { method: Method::HEAD, headers: &[("user-agent", "x")], ..POST };
    assert!(answered(judge(&head, &asked, None)).unwrap().body().is_empty());
}
