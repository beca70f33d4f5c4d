//! Being seen in the wrong place: no sender makes a series, a log line or an answer say what it must not.

use hookonce::config::{Config, Environment};
use serde_json::Value;

use crate::raw::Recorder;
use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::sender::{Delivery, SECRET, github, github_with, stripe_with};
use crate::support::wire::Wire;

async fn series(proxy: &Proxy) -> Vec<String> {
    let metrics = proxy.metrics().await;
    let lines = metrics.text().lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

#[tokio::test]
async fn thousands_of_paths_ids_and_headers_make_no_series() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("passthrough = [\"/app/*\"]").start();
    assert_eq!(proxy.send(&github("warm")).await.status, 200);
    let before = series(&proxy).await;
    let mut wires = Vec::new();
    for _ in 0..10 {
        wires.push(Wire::to(proxy.listen).await);
    }
    for nth in 0..5_000_usize {
        let wire = &mut wires[nth % 10];
        let bytes = match nth % 10 {
            0 => format!("GET /made-up-{nth} HTTP/1.1\r\nhost: h{nth}\r\n\r\n"),
            1 => format!("M{nth} /github HTTP/1.1\r\nhost: a\r\n\r\n"),
            2 => format!("GET /app/{nth} HTTP/1.1\r\nhost: a\r\nx-{nth}: {nth}\r\n\r\n"),
            3 => format!("POST /github HTTP/1.1\r\nhost: a\r\nx-github-event: t{nth}\r\ncontent-length: 0\r\n\r\n"),
            4 => format!("POST /stripe HTTP/1.1\r\nhost: a\r\nstripe-signature: t={nth},v{nth}=00\r\ncontent-length: 0\r\n\r\n"),
            _ => String::from_utf8(github(&format!("id-{nth}")).with("x-github-event", &format!("t{nth}")).bytes()).unwrap(),
        };
        wire.say(bytes.as_bytes()).await;
        wire.answer().await;
    }
    drop(wires);
    assert_eq!(series(&proxy).await, before);
    assert!(proxy.stop().await);
}

/// Characters that end a line, move a cursor, colour a terminal or close a string.
const ODD: [&str; 12] =
    ["\r\n", "\n", "\r", "\x1b[31m", "\x1b]0;x\x07", "\u{9b}31m", "\x7f", "\x08", "\"", "\\", "\u{2028}", "\u{202e}"];

fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[tokio::test]
async fn a_log_line_is_one_line_whatever_a_sender_writes() {
    for format in ["json", "text"] {
        let consumer = Consumer::deciding(|_, nth| if nth == 1 { Act::Answer(500) } else { Act::Close }).await;
        let setup = in_front_of(&consumer).table(&format!("[log]\nformat = \"{format}\"\nlevel = \"debug\""));
        let mut instance = Instance::start(&setup.both("lease = \"1s\"")).await;
        for odd in ODD {
            let forged_line = format!("x{odd}{{\"level\":\"FORGED\"}}{odd}forged");
            let body = serde_json::json!({ "id": forged_line }).to_string();
            instance.send(&stripe_with(body)).await;
            // Raw in the path, in a header and as a method, as far as they are let in.
            for bytes in [
                format!("GET /forged{odd}x HTTP/1.1\r\nhost: a\r\n\r\n"),
                format!("GET /x HTTP/1.1\r\nhost: a{odd}forged\r\n\r\n"),
                format!(
                    "POST /github HTTP/1.1\r\nhost: a\r\ntraceparent: {odd}forged\r\nx-github-delivery: {odd}forged\r\ncontent-length: 0\r\n\r\n"
                ),
                format!("GET{odd}forged /x HTTP/1.1\r\nhost: a\r\n\r\n"),
            ] {
                let mut wire = Wire::with(instance.listen, bytes.as_bytes()).await;
                wire.heard_or_closed("\r\n\r\n").await;
            }
        }
        instance.send(&Delivery::plain("GET", "/the-last-one")).await;
        eventually("the last line", async || instance.log().contains("the-last-one").then_some(())).await;
        instance.stop().await;
        let log = instance.log();
        assert!(log.contains("forged"), "{log}");
        for line in log.split('\n').filter(|line| !line.is_empty()) {
            assert!(!line.chars().any(is_odd), "{line:?}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
                assert_ne!(line["level"], "FORGED");
            } else {
                assert!(line.starts_with("20"), "{line:?}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_secret_is_in_an_answer_or_in_what_is_shown_of_the_configuration() {
    const TOKEN: &str = "canary-of-the-admin-token";
    const HEADER: &str = "canary-of-a-collector";
    let consumer = Consumer::answering(500).await;
    let trace =
        format!("[trace]\nendpoint = \"http://127.0.0.1:9/v1/traces\"\nheaders = {{ authorization = \"Bearer {HEADER}\" }}");
    let setup = in_front_of(&consumer).top(&format!("admin_token = \"{TOKEN}\"")).table(&trace);
    let with_password = setup.clone().store("redis://user:canary-of-redis@127.0.0.1:1").text();
    let loaded = Config::from_text(&with_password, &Environment::default()).unwrap();
    let debug = format!("{:?}{:#?}", loaded.config, loaded.config);
    let proxy = setup.start();
    let mut told = vec![("Debug", debug)];
    let canary = github_with("e1", "canary-of-the-body");
    let signature = canary.headers["x-hub-signature-256"].to_str().unwrap().to_owned();
    let answers = [
        proxy.send(&canary.clone().with("x-hub-signature-256", &signature.replace("sha256=", "sha256=0"))).await,
        proxy.send(&canary.clone().with_body("canary-of-another-body")).await,
        proxy.send(&stripe_with("{\"id\":\"canary-a\",\"id\":\"canary-b\"}")).await,
        proxy.send(&canary.clone().at("/canary")).await,
        proxy.send(&canary.clone().with("connection", "x-hub-signature-256")).await,
        proxy.admin(&Delivery::plain("GET", "/metrics")).await,
        proxy.admin(&Delivery::plain("GET", "/api/config")).await,
        proxy.admin(&Delivery::plain("GET", "/api/config").with("authorization", "Bearer canary")).await,
        proxy.admin(&Delivery::plain("GET", "/api/config").with("authorization", &format!("Bearer {TOKEN}"))).await,
    ];
    for answer in answers {
        told.push(("an answer", format!("{:?} {}", answer.headers, String::from_utf8_lossy(&answer.body))));
    }
    for (what, text) in told {
        for secret in [SECRET, "canary", signature.trim_start_matches("sha256=")] {
            assert!(!text.contains(secret), "{what} tells {secret}: {text}");
        }
    }
    assert!(proxy.stop().await);
}
