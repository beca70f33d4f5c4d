use std::time::UNIX_EPOCH;

use http::HeaderName;

use super::*;
use crate::config::Origin;
use crate::config::problem::Problems;
use crate::config::reader::{At, Environment, FromNode};
use crate::config::tree::{self, Node, Value};

const NOW: u64 = 1_794_787_700;

fn scheme(text: &str) -> Scheme {
    let (problems, environment) = (Problems::default(), Environment::default());
    let table = tree::parse(text, |line| Origin::File { line }, &problems);
    let at = At { key: String::new(), problems: &problems, environment: &environment };
    let scheme = Scheme::from_node(&Node { origin: Origin::Builtin, value: Value::Table(table) }, &at);
    scheme.unwrap_or_else(|| panic!("{:?}", problems.into_parts().0))
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A request in the making.
struct Request {
    headers: HeaderMap,
    body: Bytes,
}

impl Request {
    fn signed(scheme: &Scheme, key: &Key, headers: &[(&'static str, &str)]) -> Self {
        let mut request = Self { headers: HeaderMap::new(), body: Bytes::from_static(b"{\"id\":\"evt_1\"}") };
        for (name, value) in headers {
            request.headers.append(*name, value.parse().unwrap());
        }
        scheme.sign(key, &mut request.headers, &request.body, at(NOW)).unwrap();
        request
    }

    fn judged(&self, scheme: &Scheme, keys: &[Key], now: u64) -> Result<Proof, Disproof> {
        let received = Received { method: &Method::POST, uri: &Uri::default(), headers: &self.headers, body: &self.body };
        scheme.verify(keys, &received, at(now))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

const PAIRS: &str = r#"
    signature = { header = "Sig", layout = "pairs", pick = "v1" }
    signed    = "{timestamp}.{body}"
    timestamp = { at = { part = "t" } }
"#;

fn key(scheme: &Scheme, secret: &str) -> Key {
    scheme.key(&Secret::new(secret)).unwrap()
}

#[test]
fn a_signature_names_the_first_secret_that_made_it() {
    let scheme = scheme(PAIRS);
    let keys = [key(&scheme, "new"), key(&scheme, "old"), key(&scheme, "old")];
    let request = Request::signed(&scheme, &keys[1], &[]);
    assert!(request.header("sig").starts_with("t=1794787700,v1="));
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 1 }));
    assert_eq!(request.judged(&scheme, &keys[..1], NOW), Err(Disproof::NoMatch));
    assert_eq!(request.judged(&scheme, &[], NOW), Err(Disproof::NoMatch));
}

#[test]
fn age_is_judged_only_of_signatures_that_hold() {
    let scheme = scheme(PAIRS);
    let (right, wrong) = (key(&scheme, "right"), key(&scheme, "wrong"));
    let request = Request::signed(&scheme, &right, &[]);
    let keys = std::slice::from_ref(&right);
    assert_eq!(request.judged(&scheme, keys, NOW + 301), Err(Disproof::Stale));
    assert_eq!(request.judged(&scheme, keys, NOW - 301), Err(Disproof::Future));
    assert_eq!(request.judged(&scheme, &[wrong], NOW + 301), Err(Disproof::NoMatch));
}

#[test]
fn signatures_under_other_names_prove_nothing() {
    let scheme = scheme(PAIRS);
    let keys = [key(&scheme, "right")];
    let mut request = Request::signed(&scheme, &keys[0], &[]);
    let good = request.header("sig").to_owned();
    let mut judge = |text: &str| {
        request.headers.insert("sig", text.parse().unwrap());
        request.judged(&scheme, &keys, NOW)
    };
    assert_eq!(judge(&good.replace("v1", "v0")), Err(Disproof::OtherVersion));
    assert_eq!(judge(&good.replace("t=1794787700,", "")), Err(Disproof::MissingTimestamp));
    assert_eq!(judge(&good.replace("t=1794787700", "t=17947877e2")), Err(Disproof::MalformedTimestamp));
    assert_eq!(judge(&format!("t=1794787700,{good}")), Err(Disproof::MalformedSignature));
    assert_eq!(judge(&good.to_uppercase().replace("T=", "t=").replace("V1", "v1")), Err(Disproof::MalformedSignature));
    assert_eq!(judge(&good[..good.len() - 2]), Err(Disproof::MalformedSignature));
    assert_eq!(judge(&"x".repeat(17 * 1024)), Err(Disproof::MalformedSignature));
    assert_eq!(judge(""), Err(Disproof::MissingSignature));
    let many = vec![good.split_once(',').unwrap().1; 65].join(",");
    assert_eq!(judge(&format!("t=1794787700,{many}")), Err(Disproof::TooManySignatures));
    assert_eq!(judge(&good), Ok(Proof { slot: 0 }));
}

#[test]
fn repeated_headers_are_refused_whichever_is_right() {
    let scheme = scheme(
        "signature = { header = \"Sig\" }\nsigned = \"{header:Id}.{timestamp}.{body}\"\ntimestamp = { at = { header = \"T\" } }",
    );
    let keys = [key(&scheme, "right")];
    for name in ["sig", "id", "t"] {
        let mut request = Request::signed(&scheme, &keys[0], &[("id", "1")]);
        assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }));
        request.headers.append(name.parse::<HeaderName>().unwrap(), request.header(name).parse().unwrap());
        assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::RepeatedHeader), "{name}");
    }
    let mut request = Request::signed(&scheme, &keys[0], &[("id", "1")]);
    request.headers.remove("id");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignedValue));
    request.headers.insert("id", "2".parse().unwrap());
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch));
}

#[test]
fn the_head_alone_tells_what_cannot_hold() {
    let scheme = scheme("signature = { header = \"Sig\" }\nprefix = \"sha256=\"");
    let mut request = Request::signed(&scheme, &key(&scheme, "right"), &[]);
    assert_eq!(scheme.verify_head(&request.headers), Ok(()));
    request.headers.insert("sig", "sha1=00".parse().unwrap());
    assert_eq!(scheme.verify_head(&request.headers), Err(Disproof::MalformedSignature));
    request.headers.clear();
    assert_eq!(scheme.verify_head(&request.headers), Err(Disproof::MissingSignature));
}

#[test]
fn tokens_are_compared_and_cover_nothing() {
    let scheme = scheme("signature = { header = \"Authorization\" }\nprefix = \"Bearer \"\nalgorithm = \"token\"");
    let keys = [key(&scheme, "t0ken")];
    let mut request = Request::signed(&scheme, &keys[0], &[]);
    assert_eq!(request.header("authorization"), "Bearer t0ken");
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }));
    assert!(!scheme.covers(&Place::Body));
    for (value, reason) in [
        ("t0ken", Disproof::MalformedSignature),
        ("Bearer ", Disproof::MalformedSignature),
        ("Bearer t0kem", Disproof::NoMatch),
        ("Bearer t0ken ", Disproof::NoMatch),
    ] {
        request.headers.insert("authorization", value.parse().unwrap());
        assert_eq!(request.judged(&scheme, &keys, NOW), Err(reason), "{value}");
    }
}

#[test]
fn sha512_and_milliseconds_work_as_well() {
    let scheme = scheme(
        "signature = { header = \"Sig\" }\nalgorithm = \"hmac-sha512\"\nencoding = \"base64\"\nsigned = \"{body}{timestamp}\"\n\
         timestamp = { at = { header = \"T\" }, unit = \"ms\", tolerance = \"1s\" }\nsecret_encoding = \"hex\"",
    );
    let keys = [key(&scheme, "00ff00ff")];
    let request = Request::signed(&scheme, &keys[0], &[]);
    assert_eq!(request.header("t"), "1794787700000");
    assert_eq!(request.judged(&scheme, &keys, NOW + 1), Ok(Proof { slot: 0 }));
    assert_eq!(request.judged(&scheme, &keys, NOW + 2), Err(Disproof::Stale));
    assert!(scheme.key(&Secret::new("xyz")).is_err());
}

#[test]
fn signing_needs_the_headers_that_the_signature_covers() {
    let scheme = scheme("signature = { header = \"Sig\" }\nsigned = \"{header:webhook-id}.{body}\"");
    let error = scheme.sign(&key(&scheme, "right"), &mut HeaderMap::new(), &Bytes::new(), at(NOW)).unwrap_err();
    assert_eq!(error, "the signature covers the header webhook-id, which is not there");
}

#[test]
fn signing_anew_replaces_what_was_there_under_the_name_it_had() {
    let scheme = scheme(
        "signature = { headers = [\"A-Sig\", \"B-Sig\"] }\nsigned = \"{timestamp}.{body}\"\n\
         timestamp = { at = { headers = [\"A-T\", \"B-T\"] } }",
    );
    let keys = [key(&scheme, "right")];
    let request = Request::signed(&scheme, &keys[0], &[("b-sig", "stale"), ("b-t", "1")]);
    assert_eq!(request.header("b-t"), "1794787700");
    assert_eq!((request.header("a-sig"), request.header("a-t")), ("", ""));
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }));
}

#[test]
fn an_empty_secret_is_never_a_key() {
    let scheme = scheme(PAIRS);
    assert!(scheme.key(&Secret::new("")).is_err());
}
