//! `hookonce sign`, `send` and `providers`: playing the provider, and knowing it.

use std::io::Write;

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::support::consumer::Consumer;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::sender::SECRET;
use crate::{ended, with};

#[tokio::test]
async fn what_is_sent_is_deduped_and_a_refusal_says_why() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    let to = format!("http://{}/stripe", instance.listen);
    let sent = ended(with(&["send", "--preset", "Stripe", "--secret", SECRET, "--times", "3", "--to", &to])).await;
    assert_eq!((sent.code, sent.err.as_str()), (Some(0), ""), "{sent:?}");
    assert!(sent.out.ends_with("3 deliveries of one event: 2 x 200 duplicate, 1 x 200 forwarded\n"), "{}", sent.out);
    let refused = ended(with(&["send", "--preset", "stripe", "--secret", "another", "--to", &to])).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.out.contains("\nrefused (") && refused.out.contains("secret"), "{}", refused.out);
}

#[tokio::test]
async fn what_cannot_be_sent_is_a_usage_error() {
    let partial = ended(with(&["send", "--preset", "github", "--secret", "x", "--to", "localhost:8080/x"])).await;
    assert_eq!(partial.code, Some(2));
    assert!(partial.err.contains("is not a whole URL: write http://127.0.0.1:8080/webhooks/NAME"), "{}", partial.err);
    let mut body = NamedTempFile::new().unwrap();
    body.write_all(b"\xff").unwrap();
    let path = body.path().to_str().unwrap();
    let words = ["sign", "--preset", "github", "--secret", "x", "--body", path, "--curl", "http://127.0.0.1:1/x"];
    let binary = ended(with(&words)).await;
    assert_eq!((binary.code, binary.out.as_str()), (Some(2), ""));
    assert!(binary.err.contains("not UTF-8"), "{}", binary.err);
}

#[tokio::test]
async fn a_request_is_signed_for_where_the_provider_sends_it() {
    let url = "https://hooks.example.com/square?a=1";
    let signed = ended(with(&["sign", "--preset", "square", "--secret", SECRET, "--public-url", url])).await;
    assert_eq!((signed.code, signed.err.as_str()), (Some(0), ""));
    assert!(signed.out.starts_with("POST /square?a=1 HTTP/1.1\r\n"), "{}", signed.out);
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(signed.out.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let mut command = with(&["verify", "--preset", "square", "--secret-env", "SQUARE_SECRET", "--public-url", url, path]);
    command.env("SQUARE_SECRET", SECRET);
    assert_eq!(ended(command).await.code, Some(0));
}

#[tokio::test]
async fn providers_are_listed_by_name_and_told_to_scripts() {
    let listed = ended(with(&["providers", "--json"])).await;
    let all: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let names: Vec<&str> = all.iter().map(|provider| provider["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
    for provider in &all {
        let name = &provider["name"];
        assert!(provider["signature"].as_array().is_some_and(|ways| !ways.is_empty()), "{name}");
        assert!(provider.get("unsigned").is_none_or(Value::is_string), "{name}");
        for key in ["event_id_signed", "disables_on_failure", "challenge", "reply_matters"] {
            assert!(provider[key].is_boolean(), "{name}: {key}");
        }
    }
    let one = ended(with(&["providers", "standardwebhook"])).await;
    assert!(one.out.contains("\n1 provider. "), "{}", one.out);
}

#[tokio::test]
async fn no_example_is_broken_by_a_narrow_terminal() {
    for command in ["send", "sign", "providers"] {
        let mut helps = Vec::new();
        for columns in ["80", "100"] {
            let mut help = with(&[command, "--help"]);
            help.env("COLUMNS", columns);
            let help = ended(help).await.out;
            helps.push(help[help.find("\n  hookonce ").unwrap()..].to_owned());
        }
        assert_eq!(helps[0], helps[1], "{command}");
    }
}
