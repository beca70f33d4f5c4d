use super::*;
use crate::config::Origin;
use crate::config::problem::{Problem, Problems};
use crate::config::reader::Environment;
use crate::config::tree;
use crate::scheme::{Handshake, HeaderNames, IdRule, Pointer};

/// Reads `value = TEXT` as a `T`, with the problems and warnings on the way.
fn read<T: FromNode>(text: &str) -> (Option<T>, Vec<Problem>, Vec<Problem>) {
    let (problems, environment) = (Problems::default(), Environment::default());
    let table = tree::parse(text, |line| Origin::File { line }, &problems);
    let at = At { key: "it".to_owned(), problems: &problems, environment: &environment };
    let value = match table.get("value") {
        Some(node) => T::from_node(node, &at),
        None => T::from_node(&Node { origin: table.origin.clone(), value: Value::Table(table) }, &at),
    };
    let (errors, warnings) = problems.into_parts();
    (value, errors, warnings)
}

/// The problems of a text that must have some, each as "line: key: what".
fn problems<T: FromNode>(text: &str) -> Vec<String> {
    let (_, errors, _) = read::<T>(text);
    assert!(!errors.is_empty(), "no problem in {text}");
    assert!(errors.iter().all(|problem| !problem.help.is_empty()), "{errors:?}");
    errors
        .iter()
        .map(|problem| {
            let line = problem.origin.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{line}: {}: {}", problem.key, problem.what)
        })
        .collect()
}

#[track_caller]
fn refuses(text: &str, expected: &[&str]) {
    let found = problems::<Scheme>(text);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found} is not about {expected}");
    }
}

#[test]
fn a_scheme_of_one_line_has_its_defaults() {
    let (scheme, errors, warnings) = read::<Scheme>("signature = { header = \"X-Signature\" }");
    assert!(errors.is_empty() && warnings.is_empty(), "{errors:?}");
    let scheme = scheme.unwrap();
    let [way] = scheme.ways.as_slice() else { panic!("{scheme:?}") };
    assert_eq!((way.algorithm, way.encoding), (Algorithm::HmacSha256, Encoding::Hex));
    assert_eq!(way.signed, [Template::body()]);
    assert!(way.timestamp.is_none() && way.when.is_none() && way.agreements.is_empty());
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    refuses(
        r#"
            prefix = 5
            algorithm = "hmac-md4"
            encoding = "base32"
            signed = "{bod}"
            timestamp = { unit = "minutes" }
            secret_encoding = "rot13"
            colour = "red"
        "#,
        &[
            "line 1: it.signature: is missing",
            "line 2: it.prefix: must be a string",
            "line 3: it.algorithm: \"hmac-md4\" is not a choice here",
            "line 4: it.encoding: \"base32\" is not a choice here",
            "line 5: it.signed: has an unknown placeholder: `{bod}`",
            "line 6: it.timestamp.at: is missing",
            "line 6: it.timestamp.unit: \"minutes\" is not a choice here",
            "line 7: it.secret_encoding: \"rot13\" is not a choice here",
            "line 8: it.colour: is not a known key",
        ],
    );
}

#[test]
fn a_timestamp_must_be_said_and_signed() {
    let signature = "signature = { header = \"S\" }\n";
    refuses(&format!("{signature}signed = \"{{timestamp}}.{{body}}\""), &["line 2: it.signed: uses {timestamp}"]);
    let timestamp = "timestamp = { at = { header = \"T\" } }";
    refuses(&format!("{signature}{timestamp}"), &["line 2: it.timestamp: is not among the signed bytes"]);
    for signed in ["{timestamp}.{body}", "{header:t}.{body}"] {
        let (scheme, errors, _) = read::<Scheme>(&format!("{signature}{timestamp}\nsigned = \"{signed}\""));
        assert!(scheme.is_some() && errors.is_empty(), "{signed}: {errors:?}");
    }
    let in_body = "timestamp = { at = { json = \"/sent_at\" }, unit = \"ms\", tolerance = \"1h\" }";
    assert!(read::<Scheme>(&format!("{signature}{in_body}")).0.is_some());
    refuses(&format!("{signature}timestamp = {{ at = {{ json = \"/t\" }}, tolerance = \"0s\" }}"), &["tolerance: is nought"]);
}

#[test]
fn parts_need_a_header_that_has_them() {
    let plain = "signature = { header = \"S\" }\n";
    refuses(&format!("{plain}signed = \"{{part:n}}.{{body}}\""), &["it.signed: names the part \"n\""]);
    let stamped = "signed = \"{timestamp}.{body}\"\ntimestamp = { at = { part = \"t\" } }";
    refuses(&format!("{plain}{stamped}"), &["it.timestamp: names the part \"t\""]);
    let pairs = "signature = { header = \"S\", layout = \"pairs\", pick = \"t\" }\n";
    refuses(&format!("{pairs}{stamped}"), &["which is the signature itself"]);
}

#[test]
fn layouts_need_what_they_are_told_apart_by() {
    refuses("signature = { header = \"S\", layout = \"pairs\" }", &["it.signature.pick: is missing"]);
    refuses("signature = { header = \"S\", pick = \"v1\" }", &["it.signature.pick: means nothing in a plain header"]);
    refuses(
        "signature = { header = \"S\", layout = \"tagged\", pick = \"v1\", separator = \",\" }",
        &["it.signature.separator: is the same as `assign`"],
    );
    refuses("signature = { header = \"S\", layout = \"list\", pick = \"v1\" }", &["it.signature.pick: means nothing in a list"]);
    refuses("signature = { header = \"S\", layout = \"positional\" }", &["\"positional\" is not a choice here"]);
    refuses("signature = { numbered = \"X Y\" }", &["it.signature.numbered: is not what a header name begins with"]);
    refuses("signature = { every = [] }", &["it.signature.every: is not a list of header names"]);
    refuses("signature = { part = \"v1\" }", &["it.signature: is a part of itself"]);
    refuses("signature = { json = \"/a/*/b\" }", &["it.signature: names every item"]);
    refuses("signature = \"S\"", &["it.signature: must be a place, not a string"]);
}

#[test]
fn a_token_signs_nothing() {
    let token = "signature = { header = \"Authorization\" }\nprefix = \"Bearer \"\nalgorithm = \"token\"\n";
    assert!(read::<Scheme>(token).0.unwrap().ways[0].signed.is_empty());
    refuses(
        &format!("{token}signed = \"{{body}}\"\nfor_each = \"/a\"\ntimestamp = {{ at = {{ header = \"T\" }} }}"),
        &[
            "line 4: it.signed: means nothing",
            "line 5: it.for_each: signs each item",
            "line 6: it.timestamp: means nothing",
            "line 6: it.timestamp: is not among the signed bytes",
        ],
    );
}

#[test]
fn a_signature_that_leaves_out_the_body_is_worth_a_warning() {
    let (scheme, errors, warnings) = read::<Scheme>("signature = { header = \"S\" }\nsigned = \"{header:X-Id}\"");
    assert!(scheme.is_some() && errors.is_empty());
    assert!(warnings[0].what.contains("does not cover the whole body"));
}

#[test]
fn places_are_written_one_way() {
    let names = |list: &[&str]| HeaderNames::parse(list.iter().copied()).unwrap();
    for (text, place) in [
        ("{ header = \"X-Id\" }", Place::Header(names(&["x-id"]))),
        ("{ headers = [\"A\", \"B\"] }", Place::Header(names(&["a", "b"]))),
        ("{ query = \"id\" }", Place::Query("id".into())),
        ("{ form = \"id\" }", Place::Form("id".into())),
        ("{ json = \"/a/0\" }", Place::Json(Pointer::parse("/a/0").unwrap())),
        ("{ body = true }", Place::Body),
    ] {
        assert_eq!(read::<Place>(&format!("value = {text}")).0, Some(place), "{text}");
    }
    for (text, what) in [
        ("{}", "does not say where it is"),
        ("{ header = \"a\", json = \"/a\" }", "names more than one place"),
        ("{ header = \"a b\" }", "\"a b\" is not a header name"),
        ("{ headers = [] }", "\"\" is not a header name"),
        ("{ json = \"id\" }", "must begin with a slash"),
        ("{ query = \"\" }", "is empty"),
        ("{ body = false }", "cannot be false"),
        ("{ part = \"t\", header = \"a\" }", "it.part: is not a known key"),
        ("\"X-Id\"", "must be a place, not a string"),
    ] {
        let found = problems::<Place>(&format!("value = {text}"));
        assert!(found.iter().any(|problem| problem.contains(what)), "{text}: {found:?}");
    }
}

#[test]
fn id_rules_are_places_composites_and_fallbacks() {
    let rule = |text: &str| read::<IdRule>(&format!("value = {text}")).0.unwrap();
    let shape = |text: &str| rule(text).alternatives().iter().map(|composite| composite.parts().len()).collect::<Vec<_>>();
    assert_eq!(shape("{ json = \"/id\" }"), [1]);
    assert_eq!(shape("[{ json = \"/id\" }, { header = \"T\", optional = true }]"), [2]);
    assert_eq!(shape("{ any = [{ header = \"T\" }, [{ form = \"a\" }, { form = \"b\" }]] }"), [1, 2]);
    for (text, what) in [
        ("[]", "is an empty list"),
        ("{ any = [] }", "is an empty list"),
        ("[{ json = \"/id\", optional = true }]", "has only optional parts"),
        ("{ json = \"/id\", per_item = \"/items\" }", "per_item: is not a known key"),
        ("{ any = [{ json = \"/id\" }], also = 1 }", "also: is not a known key"),
        ("\"/id\"", "must say where the id is, not a string"),
    ] {
        let found = problems::<IdRule>(&format!("value = {text}"));
        assert!(found.iter().any(|problem| problem.contains(what)), "{text}: {found:?}");
    }
    let many = ["{ json = \"/id\" }"; 9].join(", ");
    assert!(problems::<IdRule>(&format!("value = [{many}]"))[0].contains("more than 8"));
}

#[test]
fn an_unsigned_challenge_with_a_body_never_goes_upstream() {
    let get = r#"
        signed = false
        when   = { query = "hub.mode", is = "subscribe" }
        reply  = { query = "hub.challenge" }
        token  = { query = "hub.verify_token", secret = "a-token-of-some-length" }
    "#;
    let (handshake, errors, _) = read::<Handshake>(get);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(handshake.unwrap().method, http::Method::GET);
    let get = get.trim_end();
    for more in ["method = \"PATCH\"", "answer = \"nobody\"", "reply_json = { a = \"b\" }", "status = 99"] {
        assert_eq!(problems::<Handshake>(&format!("{get}\n{more}")).len(), 1, "{more}");
    }
    let in_body = "signed = false\nmethod = \"POST\"\nwhen = { json = \"/challenge\" }\nreply = { json = \"/challenge\" }";
    assert!(read::<Handshake>(in_body).0.unwrap().is_unsigned_body());
    let upstream = format!("{in_body}\nanswer = \"upstream\"");
    assert!(problems::<Handshake>(&upstream)[0].contains("must not reach the upstream"));
    assert!(problems::<Handshake>("signed = false\nreply = \"ok\"")[0].contains("says nothing by which it is known"));
}

#[test]
fn what_does_not_fit_together_is_said() {
    let header = "signature = { header = \"S\" }\n";
    for (text, what) in [
        ("signed = \"{secret}{body}\"", "it.signed: has a {secret}"),
        ("algorithm = \"digest-md5\"", "has no {secret}"),
        ("signed = \"{sign(body)}\"", "signs inside of what is signed"),
        ("key_id = { claim = \"iss\" }", "it.key_id: names a claim"),
        ("signed = \"{item:/id}\"", "it.signature: names an item"),
        ("for_each = \"/items\"", "it.for_each: signs each item"),
        ("signed = []", "it.signed: holds 0 templates"),
        ("signed = \"hello\"", "may hold nothing of the request"),
        ("signed = \"[{header:Y}]\"", "may hold nothing of the request"),
        ("signed = \"{body?}\"", "may hold nothing of the request"),
        ("algorithm = \"digest-sha256\"\nsigned = \"{lower(secret+body)}\"", "is not plain text of a digest"),
        ("match = [{ header = \"X\", is = \"{secret}\" }]", "it.match: has a {secret}"),
        ("match = [{ header = \"X\", is = \"{sign(body)}\" }]", "it.match: signs inside"),
        ("match = [{ header = \"X\", is = \"{timestamp}\" }]", "it.match: uses {timestamp}"),
        ("leeway = \"5s\"", "it.leeway: is for tokens"),
        ("encoding = \"text\"", "it.encoding: is for tokens alone"),
        ("timestamp = { at = { json = \"/a/*/t\" } }", "it.timestamp: names a value in every item"),
        ("match = [{ query = \"d\" }]", "it.match.is: is missing"),
        ("algorithm = \"jwt-hs256\"\nsigned = \"{body}\"", "means nothing with algorithm = \"jwt-hs256\""),
        ("key_id = { header = \"A\", part = \"b\" }", "it.key_id.part: is not a known key"),
    ] {
        let found = problems::<Scheme>(&format!("{header}{text}"));
        assert!(found.iter().any(|problem| problem.contains(what)), "{text}: {found:?}");
    }
}

#[test]
fn variants_are_read_over_what_they_share() {
    let text = "signature = { header = \"S\" }\n[[variants]]\nwhen = { query = \"v\", is = \"2\" }\nalgorithm = \"hmac-sha512\"\n[[variants]]";
    let (scheme, errors, _) = read::<Scheme>(text);
    assert!(errors.is_empty(), "{errors:?}");
    let ways = scheme.unwrap().ways;
    assert_eq!(ways.iter().map(|way| way.algorithm).collect::<Vec<_>>(), [Algorithm::HmacSha512, Algorithm::HmacSha256]);
    refuses("[[variants]]\nwhen = { header = \"V\" }", &["signature: is missing"]);
    refuses("signature = { header = \"S\" }\n[[variants]]\ncolour = \"red\"", &["it.variants.0.colour: is not a known key"]);
    let shadowed = "signature = { header = \"S\" }\n[[variants]]\n[[variants]]\nwhen = { header = \"V\" }";
    refuses(shadowed, &["it.variants: has a way without `when` that is not the last"]);
}
