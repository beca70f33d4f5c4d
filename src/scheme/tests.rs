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
    let (errors, _) = problems.into_parts();
    scheme.filter(|_| errors.is_empty()).unwrap_or_else(|| panic!("{errors:?}"))
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A request as it was signed.
struct Request(Draft);

impl Request {
    fn signed(scheme: &Scheme, key: &Key, headers: &[(&'static str, &str)]) -> Self {
        Self::with_body(scheme, key, headers, r#"{"id":"evt_1"}"#)
    }

    fn with_body(scheme: &Scheme, key: &Key, headers: &[(&'static str, &str)], body: &str) -> Self {
        let mut draft = draft(body);
        for (name, value) in headers {
            draft.headers.append(*name, value.parse().unwrap());
        }
        scheme.sign(key, &mut draft, at(NOW)).unwrap();
        Self(draft)
    }

    fn judged(&self, scheme: &Scheme, keys: &[Key], now: u64) -> Result<Proof, Disproof> {
        scheme.verify(keys, &self.0.received(), at(now))
    }

    fn header(&self, name: &str) -> &str {
        self.0.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.0.headers.insert(name, value.parse().unwrap());
    }

    fn body(&self) -> String {
        String::from_utf8(self.0.body.to_vec()).unwrap()
    }
}

fn draft(body: &str) -> Draft {
    let uri = "/hooks?x=1".parse().unwrap();
    Draft { method: Method::POST, uri, headers: HeaderMap::new(), body: Bytes::from(body.to_owned()) }
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
fn every_secret_is_tried_whichever_matches_or_none() {
    let scheme = scheme(PAIRS);
    let keys: Vec<Key> = (0..16).map(|nth| key(&scheme, &format!("secret {nth}"))).collect();
    let compared = |signer: &Key| {
        let mut request = Request::signed(&scheme, signer, &[]);
        let zeros = "0".repeat(64);
        request.set("sig", &format!("{},v1={zeros},v1={zeros}", request.header("sig")));
        let before = key::COMPARED.get();
        let judged = request.judged(&scheme, &keys, NOW).map(|proof| proof.slot);
        (judged, key::COMPARED.get() - before)
    };
    // Sixteen secrets, three signatures.
    assert_eq!(compared(&keys[0]), (Ok(0), 48));
    assert_eq!(compared(&keys[15]), (Ok(15), 48));
    assert_eq!(compared(&key(&scheme, "another")), (Err(Disproof::NoMatch), 48));
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
        request.set("sig", text);
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
        let value = request.header(name).parse().unwrap();
        request.0.headers.append(name.parse::<HeaderName>().unwrap(), value);
        assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::RepeatedValue), "{name}");
    }
    let mut request = Request::signed(&scheme, &keys[0], &[("id", "1")]);
    request.0.headers.remove("id");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignedValue));
    request.set("id", "2");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch));
}

#[test]
fn the_head_alone_tells_what_cannot_hold() {
    let scheme = scheme("signature = { header = \"Sig\" }\nprefix = \"sha256=\"");
    let mut request = Request::signed(&scheme, &key(&scheme, "right"), &[]);
    assert_eq!(scheme.verify_head(&request.0.received()), Ok(()));
    request.set("sig", "sha1=00");
    assert_eq!(scheme.verify_head(&request.0.received()), Err(Disproof::MalformedSignature));
    request.0.headers.clear();
    assert_eq!(scheme.verify_head(&request.0.received()), Err(Disproof::MissingSignature));
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
        request.set("authorization", value);
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
    let error = scheme.sign(&key(&scheme, "right"), &mut draft(""), at(NOW)).unwrap_err();
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

/// A scheme, a request signed with it, and the keys that verify it.
fn signed_by(text: &str, secret: &str, body: &str) -> (Scheme, Vec<Key>, Request) {
    let scheme = scheme(text).at_url(Some(PublicUrl::parse("https://a.example").unwrap()));
    let keys = vec![key(&scheme, secret)];
    let request = Request::with_body(&scheme, &keys[0], &[], body);
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }), "{text}");
    (scheme, keys, request)
}

#[test]
fn a_signature_may_stand_in_query_form_or_json() {
    let (scheme, keys, mut request) = signed_by("signature = { query = \"sig\" }", "right", "{}");
    request.0.uri = request.0.uri.to_string().replace("sig=", "gis=").parse().unwrap();
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignature));
    assert_eq!(scheme.verify_head(&request.0.received()), Ok(()), "nothing can be said before the body is there");

    let json = "signature = { json = \"/sig\" }\nsigned = \"{json:/id}.{raw:/list}\"";
    let (scheme, keys, mut request) = signed_by(json, "right", r#"{"id":5,"list":[1, 2]}"#);
    // What was sent is signed as it was sent; written again it is another list.
    assert!(request.judged(&scheme, &keys, NOW).is_ok());
    request.0.body = request.body().replace("\"id\":5", "\"id\":6").into();
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch));

    let form = "signature = { form = \"sig\" }\nsigned = \"{form:a}\"\nalgorithm = \"hmac-sha1\"\nencoding = \"base64\"";
    let (_, _, request) = signed_by(form, "right", "a=1%202");
    assert!(request.body().starts_with("a=1%202&sig="));
}

#[test]
fn several_headers_may_hold_signatures_of_which_one_is_right() {
    let every = "signature = { every = [\"Sig-A\", \"Sig-B\"] }";
    let (scheme, keys, mut request) = signed_by(every, "right", "{}");
    let good = request.header("sig-a").to_owned();
    request.set("sig-a", &"0".repeat(64));
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch));
    request.set("sig-b", &good);
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }));
    request.0.headers.append("sig-b", good.parse().unwrap());
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::RepeatedValue));

    let (scheme, keys, mut request) = signed_by("signature = { numbered = \"Sig-\" }", "right", "{}");
    let good = request.header("sig-1").to_owned();
    request.0.headers.clear();
    request.set("sig-7", &good);
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }));
    request.0.headers.clear();
    request.set("sig-101", &good);
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignature));
}

#[test]
fn a_digest_needs_its_secret() {
    let text = "signature = { header = \"S\" }\nalgorithm = \"digest-sha256\"\nsigned = \"{secret}{method}{url}{body}\"";
    let (scheme, _, mut request) = signed_by(text, "right", "{}");
    assert_eq!(request.judged(&scheme, &[key(&scheme, "wrong")], NOW), Err(Disproof::NoMatch));
    request.0.uri = "/hooks?x=2".parse().unwrap();
    assert_eq!(request.judged(&scheme, &[key(&scheme, "right")], NOW), Err(Disproof::NoMatch));
}

#[test]
fn the_url_is_the_configured_one_and_one_of_several_templates_may_hold() {
    let text = "signature = { header = \"S\" }\nsigned = [\"{url}{body}\", \"{with_port(url)}{body}\"]";
    let scheme = scheme(text);
    let at_url = |url: &str| scheme.clone().at_url(Some(PublicUrl::parse(url).unwrap()));
    let keys = [key(&scheme, "right")];
    assert!(scheme.signs_url());
    let request = Request::signed(&at_url("https://a.example:443"), &keys[0], &[("host", "evil.example")]);
    assert!(request.judged(&at_url("https://a.example"), &keys, NOW).is_ok());
    assert!(request.judged(&at_url("https://a.example/hooks"), &keys, NOW).is_ok());
    for other in ["https://b.example", "http://a.example", "https://a.example/other"] {
        assert_eq!(request.judged(&at_url(other), &keys, NOW), Err(Disproof::NoMatch), "{other}");
    }
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignedValue), "nobody knows the URL");
    assert!(at_url("https://a.example").covers(&Place::Query("x".into())));
}

#[test]
fn a_form_is_signed_sorted_and_cannot_be_taken_for_something_else() {
    let text = "signature = { header = \"S\" }\nsigned = \"{url}{sorted_form}\"";
    let (scheme, keys, mut request) = signed_by(text, "right", "b=2&a=1");
    request.0.body = Bytes::from_static(b"a=1&b=2");
    assert!(request.judged(&scheme, &keys, NOW).is_ok(), "order does not count");
    for other in ["a=1&b=3", "a=1", "", "{\"a\":1}"] {
        request.0.body = Bytes::from(other.to_owned());
        assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch), "{other}");
    }
}

#[test]
fn what_must_agree_is_checked_once_the_signature_holds() {
    let text = r#"
        signature = { header = "S" }
        signed    = "{url}"
        match     = [{ query = "digest", is = "{sha256_hex(body)}" }]
    "#;
    let (scheme, keys, mut request) = signed_by(text, "right", "{}");
    assert!(scheme.covers(&Place::Body) && scheme.covers(&Place::Json(Pointer::parse("/id").unwrap())));
    request.0.body = Bytes::from_static(b"{ }");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::Altered));
}

#[test]
fn an_absent_value_agrees_with_an_empty_template_alone() {
    let text = r#"
        signature = { header = "S" }
        algorithm = "jwt-hs256"
        match     = [{ claim = "hash", is = "{sha256_hex(body?)}" }]
    "#;
    let (scheme, keys, mut request) = signed_by(text, "right", "");
    assert!(
        !String::from_utf8_lossy(
            &data_encoding::BASE64URL_NOPAD.decode(request.header("s").split('.').nth(1).unwrap().as_bytes()).unwrap()
        )
        .contains("hash")
    );
    request.0.body = Bytes::from_static(b"{}");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::Altered));
    let (scheme, keys, mut request) = signed_by(text, "right", "{}");
    request.0.body = Bytes::new();
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::Altered));
}

#[test]
fn groups_are_left_out_with_their_value() {
    let text = "signature = { json = \"/sig\" }\nsigned = \"{json:/id}\n[Subject\n{json:/subject}\n]\"".replace('\n', "\\n");
    let text = text.replacen("\\n", "\n", 1);
    let (scheme, keys, mut request) = signed_by(&text, "right", r#"{"id":"1"}"#);
    request.0.body = request.body().replace("\"id\"", "\"subject\":\"x\",\"id\"").into();
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch), "what was left out cannot be added");
}

#[test]
fn every_item_of_a_batch_must_be_signed() {
    let text = r#"
        signature = { item = "/inner/sig" }
        for_each  = "/items"
        signed    = "{item:/id}:{item:/note?}"
    "#;
    let (scheme, keys, mut request) = signed_by(text, "right", r#"{"items":[{"id":"a"},{"id":"b","note":"n"}]}"#);
    let good = request.body();
    for (from, to, reason) in [
        ("\"b\"", "\"c\"", Disproof::NoMatch),
        ("\"note\":\"n\"", "\"note\":\"m\"", Disproof::NoMatch),
        ("\"items\"", "\"stems\"", Disproof::MissingSignature),
        ("{\"items\":[", "{\"items\":[{\"id\":\"forged\"},", Disproof::MissingSignature),
    ] {
        request.0.body = good.replace(from, to).into();
        assert_eq!(request.judged(&scheme, &keys, NOW), Err(reason), "{to}");
    }
    request.0.body = Bytes::from_static(b"{\"items\":[]}");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignature));
}

#[test]
fn every_item_of_a_batch_must_hold_the_token() {
    let text = "algorithm = \"token\"\nsignature = { item = \"/state\" }\nfor_each = \"/value\"";
    let (scheme, keys, mut request) = signed_by(text, "right", r#"{"value":[{"id":"a"},{"id":"b"}]}"#);
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }), "one token is in all of them");
    let good = request.body();
    for (from, to, reason) in [
        ("{\"id\":\"b\",\"state\":\"right\"}", "{\"id\":\"b\",\"state\":\"wrong\"}", Disproof::NoMatch),
        ("{\"id\":\"b\",\"state\":\"right\"}", "{\"id\":\"b\",\"state\":\"\"}", Disproof::MissingSignature),
        ("{\"id\":\"b\",\"state\":\"right\"}", "{\"id\":\"b\"}", Disproof::MissingSignature),
        ("\"value\"", "\"other\"", Disproof::MissingSignature),
    ] {
        request.0.body = good.replace(from, to).into();
        assert_eq!(request.judged(&scheme, &keys, NOW), Err(reason), "{to} in {good}");
    }
}

#[test]
fn a_key_is_chosen_by_the_name_that_the_delivery_gives() {
    let text = "signature = { header = \"S\" }\nkey_id = { header = \"Key\" }";
    let scheme = scheme(text);
    let named = |secret: &str, id: &str| key(&scheme, secret).with_id(Some(id.to_owned()));
    let keys = [named("one", "k1"), named("two", "k2")];
    let mut request = Request::signed(&scheme, &keys[1], &[]);
    assert_eq!(request.header("key"), "k2");
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 1 }));
    request.set("key", "k1");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch), "the other key is not asked");
    request.set("key", "k3");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::UnknownKey));
    assert_eq!(request.judged(&scheme, &[key(&scheme, "two")], NOW), Ok(Proof { slot: 0 }), "a key without a name is for all");
}

#[test]
fn the_first_variant_that_counts_judges_alone() {
    let text = r#"
        signature = { header = "S" }
        [[variants]]
        when      = { header = "V", is = "2" }
        algorithm = "hmac-sha512"
        [[variants]]
        when      = { header = "V", is = "1" }
    "#;
    let scheme = scheme(text);
    let keys = [key(&scheme, "right")];
    let mut request = Request::signed(&scheme, &keys[0], &[("v", "2")]);
    assert_eq!(request.header("s").len(), 128);
    assert_eq!(request.judged(&scheme, &keys, NOW), Ok(Proof { slot: 0 }));
    request.set("v", "1");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MalformedSignature));
    request.set("v", "3");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::OtherVersion));
    assert_eq!(Request::signed(&scheme, &keys[0], &[("v", "1")]).header("s").len(), 64);
}

const TOKEN: &str = r#"
    signature = { header = "Authorization" }
    prefix    = "Bearer "
    algorithm = "jwt-hs256"
    match     = [{ claim = "iss", is = "us" }, { claim = "sub", is = "{url}" }, { claim = "body", is = "{sha256_base64url(body)}" }]
"#;

#[test]
fn a_token_vouches_for_what_it_claims() {
    let (scheme, keys, mut request) = signed_by(TOKEN, "right", "{}");
    assert!(scheme.covers(&Place::Body));
    let jti = Place::Within(Box::new(place::Within {
        outer: Place::Header(HeaderNames::parse(["authorization"]).unwrap()),
        document: place::Document::Jwt,
        pointer: Pointer::of_step("jti"),
    }));
    assert!(scheme.covers(&jti));
    assert_eq!(request.judged(&scheme, &[key(&scheme, "wrong")], NOW), Err(Disproof::NoMatch));
    assert_eq!(request.judged(&scheme, &keys, NOW + 299), Ok(Proof { slot: 0 }));
    assert_eq!(request.judged(&scheme, &keys, NOW + 300), Err(Disproof::Stale));
    assert_eq!(request.judged(&scheme, &keys, NOW - 1), Err(Disproof::Future));
    request.0.body = Bytes::from_static(b"{ }");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::Altered));
    let (_, _, mut elsewhere) = signed_by(TOKEN, "right", "{}");
    elsewhere.0.uri = "/other".parse().unwrap();
    assert_eq!(elsewhere.judged(&scheme, &keys, NOW), Err(Disproof::Altered));
}

#[test]
fn a_token_of_another_algorithm_proves_nothing() {
    let (scheme, keys, mut request) = signed_by(TOKEN, "right", "{}");
    let good = request.header("authorization").to_owned();
    let claims = good.split('.').nth(1).unwrap().to_owned();
    for head in ["{\"alg\":\"none\"}", "{\"alg\":\"HS512\"}", "{\"alg\":\"hs256\"}", "{}", "[]"] {
        let head = data_encoding::BASE64URL_NOPAD.encode(head.as_bytes());
        request.set("authorization", &format!("Bearer {head}.{claims}."));
        assert!(request.judged(&scheme, &keys, NOW).is_err(), "{head}");
        assert!(scheme.verify_head(&request.0.received()).is_err(), "{head}");
    }
    request.set("authorization", good.strip_prefix("Bearer ").unwrap());
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MalformedSignature));
}

#[test]
fn public_keys_verify_what_private_keys_sign() {
    let private = |kind| rcgen::KeyPair::generate_for(kind).unwrap();
    for (algorithm, pair) in [
        ("ed25519", private(&rcgen::PKCS_ED25519)),
        ("ecdsa-p256-sha256", private(&rcgen::PKCS_ECDSA_P256_SHA256)),
        ("jwt-es256", private(&rcgen::PKCS_ECDSA_P256_SHA256)),
    ] {
        let is_token = algorithm.starts_with("jwt");
        let text = format!(
            "signature = {{ header = \"S\" }}\nalgorithm = \"{algorithm}\"\n{}",
            if is_token { "match = [{ claim = \"b\", is = \"{sha256_hex(body)}\" }]" } else { "encoding = \"base64\"" }
        );
        let scheme = scheme(&text);
        let signing = scheme.signing_key(&Secret::new(pair.serialize_pem())).unwrap();
        let public = [scheme.key(&Secret::new(pair.public_key_pem())).unwrap()];
        let mut request = Request::signed(&scheme, &signing, &[]);
        assert_eq!(request.judged(&scheme, &public, NOW), Ok(Proof { slot: 0 }), "{algorithm}");
        assert_eq!(request.judged(&scheme, &[signing], NOW), Ok(Proof { slot: 0 }), "{algorithm}");
        request.0.body = Bytes::from_static(b"{}");
        assert!(request.judged(&scheme, &public, NOW).is_err(), "{algorithm}");
        assert!(scheme.takes_public_keys());
        let error = scheme.sign(&public[0], &mut draft("{}"), at(NOW)).unwrap_err();
        assert!(error.contains("private key"), "{error}");
    }
}

#[test]
fn headers_that_a_list_names_are_signed_in_its_order() {
    let text = "signature = { header = \"S\" }\nsigned = \"{header_lines(header:Signed)}.{body}\"";
    let scheme = scheme(text);
    let keys = [key(&scheme, "right")];
    let mut request = Request::signed(&scheme, &keys[0], &[("signed", "X-B,x-a"), ("x-a", "1"), ("x-b", "2")]);
    assert!(request.judged(&scheme, &keys, NOW).is_ok());
    request.set("x-a", "3");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::NoMatch));
    request.0.headers.remove("x-a");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MissingSignedValue));
}

#[test]
fn nothing_may_stand_beside_a_signed_value_that_a_parser_could_take_for_it() {
    let of_parts = scheme(
        r#"
        signature = { header = "Sig" }
        signed    = "{json:/Amount}:{json:/Note?}"
    "#,
    );
    let of_items = scheme(
        r#"
        for_each  = "/Items"
        signature = { item = "/Sig" }
        signed    = "{item:/Amount}"
    "#,
    );
    let of_all = scheme(r#"signature = { header = "Sig" }"#);
    let keys = |scheme: &Scheme| [key(scheme, "right")];
    for (scheme, body, from, to) in [
        (&of_parts, r#"{"Amount":1}"#, "}", r#","amount":9}"#),
        (&of_parts, r#"{"Amount":1}"#, "}", r#","note":"x"}"#),
        (&of_items, r#"{"Items":[{"Amount":1}]}"#, "1", r#"1,"AMOUNT":9"#),
        (&of_items, r#"{"Items":[{"Amount":1}]}"#, r#"{"Items"#, r#"{"items":[],"Items"#),
    ] {
        let keys = keys(scheme);
        let mut request = Request::with_body(scheme, &keys[0], &[], body);
        assert_eq!(request.judged(scheme, &keys, NOW), Ok(Proof { slot: 0 }));
        request.0.body = request.body().replacen(from, to, 1).into();
        assert_eq!(request.judged(scheme, &keys, NOW), Err(Disproof::RepeatedValue), "{}", request.body());
    }
    let keys = keys(&of_all);
    let request = Request::with_body(&of_all, &keys[0], &[], r#"{"Amount":1,"amount":9}"#);
    assert_eq!(request.judged(&of_all, &keys, NOW), Ok(Proof { slot: 0 }), "all of it is the sender's");
}

#[test]
fn a_signature_under_the_id_of_its_key_is_held_to_that_key() {
    let scheme = scheme(r#"signature = { header = "Sig", layout = "keyed", separator = "&", assign = "|" }"#);
    let keys = [key(&scheme, "first").with_id(Some("a".into())), key(&scheme, "second").with_id(Some("b".into()))];
    let first = Request::signed(&scheme, &keys[0], &[]);
    let second = Request::signed(&scheme, &keys[1], &[]);
    assert!(first.header("sig").starts_with("a|"));
    let judged = |text: &str, keys: &[Key]| {
        let mut request = Request::signed(&scheme, &keys[0], &[]);
        request.set("sig", text);
        request.judged(&scheme, keys, NOW)
    };
    let both = format!("{}&{}", first.header("sig"), second.header("sig"));
    assert_eq!(judged(&both, &keys), Ok(Proof { slot: 0 }));
    assert_eq!(judged(&both, &keys[1..]), Ok(Proof { slot: 0 }));
    assert_eq!(judged(second.header("sig"), &keys), Ok(Proof { slot: 1 }));
    assert_eq!(judged(&first.header("sig").replace("a|", "b|"), &keys), Err(Disproof::NoMatch));
    assert_eq!(judged(&first.header("sig").replace("a|", "c|"), &keys), Err(Disproof::UnknownKey));
    assert_eq!(judged(&format!("{0}&{0}", first.header("sig")), &keys), Err(Disproof::MalformedSignature));
    let nameless = [key(&scheme, "second")];
    let mut request = second;
    assert_eq!(request.judged(&scheme, &nameless, NOW), Ok(Proof { slot: 0 }), "a key without an id is for any");
    request.set("sig", "b|");
    assert_eq!(request.judged(&scheme, &keys, NOW), Err(Disproof::MalformedSignature));
    assert!(scheme.sign(&nameless[0], &mut draft("{}"), at(NOW)).is_err());
}

/// The digest of what was signed, where it is not the body alone.
fn digest_of(scheme: &Scheme, keys: &[Key], request: &Request) -> Option<[u8; 32]> {
    match scheme.verify_signed(keys, &request.0.received(), at(NOW)).unwrap().1 {
        Signed::Body => None,
        Signed::Digest(digest) => Some(digest),
    }
}

#[test]
fn what_is_signed_is_known_again_whatever_else_is_changed() {
    let text = "signature = { header = \"S\" }\nsigned = [\"{header:A}.{body}\", \"{header:B}.{body}\"]";
    let scheme = scheme(text);
    let keys = [key(&scheme, "one"), key(&scheme, "two")];
    let headers = [("a", "1"), ("b", "2"), ("id", "x")];
    let mut request = Request::signed(&scheme, &keys[0], &headers);
    let first = digest_of(&scheme, &keys, &request).unwrap();
    // The template that does not hold says nothing, nor does what no template has.
    request.set("b", "3");
    request.set("id", "y");
    assert_eq!(digest_of(&scheme, &keys, &request), Some(first));
    let other_secret = Request::signed(&scheme, &keys[1], &headers);
    assert_eq!(digest_of(&scheme, &keys, &other_secret), Some(first));
    let other_value = Request::signed(&scheme, &keys[0], &[("a", "2"), ("b", "2")]);
    assert_ne!(digest_of(&scheme, &keys, &other_value), Some(first));
}

#[test]
fn a_signature_over_the_body_alone_needs_no_digest_of_its_own() {
    for text in ["signature = { header = \"S\" }", "signature = { header = \"S\" }\nalgorithm = \"token\""] {
        let scheme = scheme(text);
        let keys = [key(&scheme, "right")];
        assert_eq!(digest_of(&scheme, &keys, &Request::signed(&scheme, &keys[0], &[])), None, "{text}");
    }
}

#[test]
fn a_body_counts_where_no_signature_tells_it_from_another() {
    let timestamp = "timestamp = { at = { header = \"T\" } }";
    let digest = |text: &str, body: &str, altered: &str| {
        let (scheme, keys, mut request) = signed_by(text, "right", body);
        let before = digest_of(&scheme, &keys, &request).unwrap();
        request.0.body = Bytes::from(altered.to_owned());
        (before, digest_of(&scheme, &keys, &request).unwrap())
    };
    let (before, after) = digest(&format!("signature = {{ header = \"S\" }}\nsigned = \"{{timestamp}}\"\n{timestamp}"), "a", "b");
    assert_ne!(before, after, "two events of one second are two");
    let (before, after) = digest("signature = { header = \"S\" }\nsigned = \"{url}{sorted_form}\"", "b=2&a=1", "a=1&b=2");
    assert_eq!(before, after, "another order is not another event");
    let (scheme, keys, request) = signed_by(TOKEN, "right", "{}");
    assert!(scheme.tells_bodies_apart() && digest_of(&scheme, &keys, &request).is_some());
}
