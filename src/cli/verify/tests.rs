use std::io::Write as _;

use clap::Parser;

use super::*;
use crate::scheme::Draft;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    verify: VerifyArgs,
}

fn parse(args: &[&str]) -> Result<VerifyArgs, clap::Error> {
    Program::try_parse_from(std::iter::once("verify").chain(args.iter().copied())).map(|program| program.verify)
}

const SECRET: &str = "a-secret-of-some-length";
const SIGNED_AT: u64 = 1_794_787_700;

/// A Stripe-like delivery, signed over `body` and saved with `saved` in its place.
fn saved_request(body: &'static str, saved: &str) -> tempfile::NamedTempFile {
    let scheme = crate::scheme::preset::find("stripe").unwrap().compile().unwrap().scheme;
    let key = scheme.key(&Secret::new(SECRET)).unwrap();
    let (method, uri, headers) = (http::Method::POST, http::Uri::default(), http::HeaderMap::new());
    let mut draft = Draft { method, uri, headers, body: bytes::Bytes::from_static(body.as_bytes()) };
    scheme.sign(&key, &mut draft, since_epoch(SIGNED_AT)).unwrap();
    let signature = draft.headers["stripe-signature"].to_str().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "POST /hooks HTTP/1.1\r\nHost: x\r\nStripe-Signature: {signature}\r\n\r\n{saved}").unwrap();
    file
}

fn judged(file: &tempfile::NamedTempFile, secret: &str, more: &[&str]) -> (bool, String) {
    let path = file.path().to_str().unwrap();
    let args = [&["--preset", "stripe", "--secret", secret][..], more, &[path]].concat();
    let mut out = Vec::new();
    let valid = judge_one(&parse(&args).unwrap(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    (valid, text)
}

const BODY: &str = r#"{"id":"evt_1","object":"event"}"#;
const AT: [&str; 2] = ["--at", "1794787702"];

/// A delivery signed by a preset and saved, for one that is verified with something else.
fn explained(preset: &str, signed: &[&str], verified: &[&str]) -> String {
    use crate::cli::sign::letter::LetterArgs;
    #[derive(Debug, Parser)]
    struct Signing {
        #[command(flatten)]
        letter: LetterArgs,
    }
    let words = [&["sign", "--preset", preset, "--at", "1794787700"][..], signed].concat();
    let draft = Signing::try_parse_from(words).unwrap().letter.letter("https://hooks.example.com/x").unwrap().draft;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut head = format!("POST {} HTTP/1.1\r\n", draft.uri.path_and_query().unwrap());
    draft.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap())));
    write!(file, "{head}\r\n").unwrap();
    file.write_all(&draft.body).unwrap();
    let args = [&["--preset", preset, "--at", "1794787700"][..], verified, &[file.path().to_str().unwrap()]].concat();
    let mut out = Vec::new();
    assert!(!judge_one(&parse(&args).unwrap(), &mut out).unwrap());
    String::from_utf8(out).unwrap()
}

#[test]
fn a_url_that_differs_by_what_gateways_change_is_recognised() {
    for (url, what) in [
        ("http://hooks.example.com/x", "its scheme"),
        ("https://hooks.example.com:8443/x", "its port"),
        ("https://hooks.example.com/x/", "a slash"),
        ("https://hooks.example.com/x?a=1", "its query"),
    ] {
        let text = explained("square", &["--secret", SECRET], &["--secret", SECRET, "--url", url]);
        assert!(text.contains(&format!("differs by {what}")) && text.contains("with https://hooks.example.com/x the"), "{text}");
    }
}

#[test]
fn a_secret_in_another_form_is_recognised() {
    let (base64, plain) = ("c2VjcmV0LW9mLXNvbWUtbGVuZ3Ro", "secret-of-some-length");
    let text = explained("stripe", &["--secret", plain], &["--secret", base64]);
    assert!(text.contains("used decoded from base64"), "{text}");
}

#[test]
fn a_signature_that_holds_tells_whose_it_is_and_what_does_not_agree() {
    let at = |url| explained("qstash", &["--secret", SECRET], &["--secret", "another", "--secret", SECRET, "--public-url", url]);
    let text = at("http://hooks.example.com/x");
    assert!(text.contains("not valid: altered") && text.contains("secret      number 2 of 2 made the signature"), "{text}");
    assert!(text.contains("differs by its scheme"), "{text}");
    let text = at("https://elsewhere.example.com/x");
    assert!(text.contains("likely      The body was changed in a way that was not tried, or the URL is another."), "{text}");
}

#[test]
fn what_is_left_where_nothing_helps_names_the_url_where_it_is_signed() {
    let url = ["--secret", "another", "--url", "https://hooks.example.com/x"];
    let text = explained("square", &["--secret", SECRET], &url);
    assert!(text.contains("in a way that was not tried, or the URL is another."), "{text}");
}

#[test]
fn public_keys_are_called_so() {
    let pair = tempfile::NamedTempFile::new().unwrap();
    let pkcs8 = ring::signature::Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    std::fs::write(pair.path(), pkcs8.as_ref()).unwrap();
    let signed = ["--private-key", pair.path().to_str().unwrap()];
    let text = explained("discord", &signed, &["--public-key", &"0".repeat(64)]);
    assert!(text.contains("public key  none of 1 verified it") && text.contains("The public key is another one"), "{text}");
    let text = explained("discord", &signed, &["--public-key", "0123"]);
    assert!(text.contains("No public key is one that can be used.") && !text.contains("likely"), "{text}");
}

#[test]
fn a_signature_in_no_header_is_said_to_be_where_it_is() {
    let text = explained("mailgun", &["--secret", SECRET], &["--secret", "another"]);
    assert!(text.contains("signature   /signature/signature in the body: found"), "{text}");
}

#[test]
fn a_secret_may_stand_in_a_variable() {
    let file = saved_request(BODY, BODY);
    let args = ["--preset", "stripe", "--secret-env", "HOOKONCE_TEST_NOT_SET", file.path().to_str().unwrap()];
    let error = judge_one(&parse(&args).unwrap(), &mut Vec::new()).unwrap_err();
    assert_eq!(error, "the variable HOOKONCE_TEST_NOT_SET is not set");
}

#[test]
fn arguments_have_the_form_that_is_fixed() {
    let args = parse(&["--preset", "github", "--secret", "-dash", "--secret", " padded ", "--json", "-"]).unwrap();
    assert_eq!(args.secrets.iter().map(Secret::bytes).collect::<Vec<_>>(), [&b"-dash"[..], b" padded "]);
    assert!(!format!("{args:?}").contains("padded"));
    let all = ["--preset", "x", "--secret", "s", "--public-key", "k", "--key-id", "i", "--url", "u", "--at", "5", "f"];
    assert_eq!(parse(&all).unwrap().at, Some(5));
    assert!(parse(&["--cases", "f"]).is_ok());
    for wrong in [&["--preset", "x"][..], &["f"], &["--cases", "f", "g"], &["--preset", "x", "--at", "now", "f"]] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_valid_request_is_told_step_by_step() {
    let (valid, text) = judged(&saved_request(BODY, BODY), SECRET, &AT);
    assert!(valid);
    assert_eq!(
        text,
        "preset      stripe\n\
         request     POST /hooks, 31 bytes of body\n\
         signature   header stripe-signature: found\n\
         timestamp   2s old; 5m are tolerated\n\
         secret      number 1 of 1 made the signature\n\
         event id    evt_1\n\
         verdict     valid\n"
    );
}

#[test]
fn json_holds_the_verdict_and_the_id() {
    let file = saved_request(BODY, BODY);
    let (valid, text) = judged(&file, SECRET, &["--json", AT[0], AT[1]]);
    assert!(valid);
    assert_eq!(text, "{\"valid\":true,\"reason\":null,\"event_id\":\"evt_1\",\"event_ids\":[\"evt_1\"],\"note\":null}\n");
    let (valid, text) = judged(&file, "another-secret", &["--json", AT[0], AT[1]]);
    assert!(!valid);
    assert!(text.starts_with("{\"valid\":false,\"reason\":\"no_match\",\"event_id\":\"evt_1\""), "{text}");
}

#[test]
fn the_usual_causes_are_found_by_trying() {
    let secret_causes = [
        (format!("{SECRET}\n"), "spaces or a newline around it"),
        (format!("\"{SECRET}\""), "in quotes"),
        (format!("whsec_{SECRET}"), "a prefix that is no part of it"),
        ("another".to_owned(), "The secret is another one, or the body was changed in a way that was not tried."),
    ];
    for (secret, cause) in secret_causes {
        let file = saved_request(BODY, BODY);
        let path = file.path().to_str().unwrap().to_owned();
        let mut out = Vec::new();
        let args = ["--preset", "stripe", "--secret", &secret, AT[0], AT[1], &path];
        assert!(!judge_one(&parse(&args).unwrap(), &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("not valid: no_match") && text.contains(cause), "{text}");
    }
    for (signed, saved, cause) in [
        (BODY, "{\"id\":\"evt_1\",\"object\":\"event\"}\n", "A newline was added"),
        ("{}\n", "{}", "lost a newline"),
        (BODY, "{\n  \"id\": \"evt_1\",\n  \"object\": \"event\"\n}", "parsed and written again"),
        ("{\r\n}", "{\n}", "changed to LF"),
        ("{\n}", "{\r\n}", "changed to CRLF"),
    ] {
        let (valid, text) = judged(&saved_request(signed, saved), SECRET, &AT);
        assert!(!valid && text.contains(cause) && text.matches("likely").count() == 1, "{text}");
    }
}

#[test]
fn an_old_request_can_be_judged_as_of_then() {
    let (valid, text) = judged(&saved_request(BODY, BODY), SECRET, &["--at", "1794790000"]);
    assert!(!valid);
    assert!(text.contains("38m20s old") && text.contains("not valid: stale") && text.contains("--at 1794787700"), "{text}");
}

#[test]
fn usage_errors_say_what_is_wrong() {
    let file = saved_request(BODY, BODY);
    let path = file.path().to_str().unwrap();
    for (args, what) in [
        (["--preset", "strip", "--secret", "x", path], "did you mean `stripe`?"),
        (["--preset", "stripe", "--key-id", "x", path], "--secret is needed"),
        (["--preset", "stripe", "--secret", "x", "/nowhere"], "/nowhere"),
    ] {
        let error = judge_one(&parse(&args).unwrap(), &mut Vec::new()).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
}
