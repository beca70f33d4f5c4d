use clap::Parser;

use super::letter::{Letter, whole_url};
use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    sign: Args,
}

fn letter(words: &[&str], to: &str) -> Letter {
    let words = [&["sign", "--secret", "a-secret-of-some-length"][..], words].concat();
    Program::try_parse_from(words).unwrap().sign.letter.letter(to).unwrap()
}

const TO: &str = "http://127.0.0.1:8080/webhooks/x";

#[test]
fn a_command_line_holds_the_text_as_it_is() {
    let text = curl(TO, &letter(&["--preset", "GitHub", "--data", "@it's", "-H", "X-Empty:"], TO).draft).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.ends_with("--data-raw '@it'\\''s'\n") && text.contains("-H 'x-empty;'"), "{text}");
}

#[test]
fn what_no_command_line_can_hold_is_refused() {
    for body in [&b"\xff"[..], b"a\0b"] {
        let mut draft = letter(&["--preset", "github"], TO).draft;
        draft.body = bytes::Bytes::from_static(body);
        assert!(curl(TO, &draft).unwrap_err().contains("not UTF-8 text"));
    }
}

#[test]
fn what_was_asked_for_in_vain_is_told() {
    let own = ["--event-id", "evt_2", "--data", "{\"id\":\"evt_1\"}"];
    let remarks = |preset: &str, more: &[&str]| letter(&[&["--preset", preset], more].concat(), TO).remarks;
    assert!(remarks("stripe", &own)[0].contains("which is evt_1"));
    assert!(remarks("stripe", &["--event-id", "evt_2", "--data", "{}"])[0].contains("which has none"));
    assert!(remarks("stripe", &["--event-id", "evt_2"]).is_empty());
    assert!(remarks("github", &own).is_empty());
    assert!(remarks("square", &[])[0].contains(&format!("{TO} was signed")));
    assert!(remarks("square", &["--public-url", "https://hooks.example.com"]).is_empty());
}

#[test]
fn a_url_is_whole_or_told_how_to_be() {
    assert!(whole_url(TO).is_ok());
    for wrong in ["localhost:8080/x", "localhost", "/x", "ftp://a.example/x", "http://", "a b"] {
        assert!(whole_url(wrong).unwrap_err().contains("write http://127.0.0.1:8080/webhooks/NAME"), "{wrong}");
    }
}
