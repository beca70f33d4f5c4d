//! `hookonce verify`: a saved request, judged as a delivery would be.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::support::sender::{Delivery, SECRET, github, stripe};
use crate::{Ended, ended, with};

fn saved(delivery: &Delivery) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&delivery.bytes()).unwrap();
    file
}

async fn verify(preset: &str, secret: &str, words: &[&str], delivery: &Delivery) -> Ended {
    let file = saved(delivery);
    let mut command = with(&["verify", "--preset", preset, "--secret", secret]);
    command.args(words).arg(file.path());
    ended(command).await
}

#[tokio::test]
async fn a_good_request_is_valid_and_a_bad_one_is_not() {
    for (preset, delivery) in [("github", github("e1")), ("stripe", stripe("e1"))] {
        let good = verify(preset, SECRET, &[], &delivery).await;
        assert_eq!((good.code, good.err.as_str()), (Some(0), ""), "{good:?}");
        assert!(good.out.contains("verdict     valid") && good.out.contains("event id    e1"), "{}", good.out);
        let bad = verify(preset, "another-secret-0123456789", &[], &delivery).await;
        assert_eq!(bad.code, Some(1), "{bad:?}");
        assert!(bad.out.contains("verdict     not valid: "), "{}", bad.out);
        let rotated = verify(preset, "another-secret-0123456789", &["--secret", SECRET], &delivery).await;
        assert_eq!(rotated.code, Some(0), "{rotated:?}");
    }
}

#[tokio::test]
async fn a_request_is_read_from_standard_input() {
    let mut command = with(&["verify", "--preset", "github", "--secret", SECRET, "--json", "-"]);
    let file = saved(&github("e1"));
    command.stdin(Stdio::from(file.reopen().unwrap()));
    let end = ended(command).await;
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_eq!(serde_json::from_str::<Value>(&end.out).unwrap()["valid"], true);
}

#[tokio::test]
async fn json_has_its_fixed_shape() {
    let delivery = stripe("e1");
    for (secret, code, valid) in [(SECRET, 0, true), ("another-secret-0123456789", 1, false)] {
        let end = verify("stripe", secret, &["--json"], &delivery).await;
        assert_eq!(end.code, Some(code), "{end:?}");
        assert_eq!(end.out.lines().count(), 1);
        let verdict: Value = serde_json::from_str(&end.out).unwrap();
        let keys: Vec<&String> = verdict.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["event_id", "event_ids", "note", "reason", "valid"]);
        assert_eq!((&verdict["valid"], &verdict["event_id"]), (&Value::from(valid), &Value::from("e1")));
        assert_eq!((verdict["event_ids"].as_array().unwrap().len(), verdict["reason"].is_null()), (1, valid));
    }
}

#[tokio::test]
async fn a_stale_request_is_valid_as_of_its_own_time() {
    let stale = crate::support::sender::signed(
        "stripe",
        "/stripe",
        &[],
        "{\"id\":\"e1\"}".into(),
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000),
    );
    assert_eq!(verify("stripe", SECRET, &[], &stale).await.code, Some(1));
    assert_eq!(verify("stripe", SECRET, &["--at", "1700000010"], &stale).await.code, Some(0));
}

#[tokio::test]
async fn what_cannot_be_judged_is_a_usage_error() {
    let unknown = verify("nobody", SECRET, &[], &github("e1")).await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("nobody"), "{}", unknown.err);
    let absent = ended(with(&["verify", "--preset", "github", "--secret", "x", "/nowhere/request"])).await;
    assert_eq!(absent.code, Some(2), "{absent:?}");
    let secretless = ended(with(&["verify", "--preset", "github", "Cargo.toml"])).await;
    assert_eq!(secretless.code, Some(2), "{secretless:?}");
}

#[tokio::test]
async fn every_recorded_case_is_judged_as_the_sdk_judged_it() {
    let mut files = 0;
    for entry in std::fs::read_dir("tests/fixtures/vectors").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        files += 1;
        let cases: Vec<Value> = parsed(&std::fs::read_to_string(&path).unwrap());
        let end = ended(with(&["verify", "--cases", path.to_str().unwrap()])).await;
        assert_eq!(end.code, Some(0), "{end:?}");
        let verdicts = parsed(&end.out);
        assert_eq!(verdicts.len(), cases.len());
        for (case, verdict) in cases.iter().zip(&verdicts) {
            for key in ["provider", "name", "sdk", "valid"] {
                assert_eq!(case[key], verdict[key], "{key} of {} in {}", case["name"], path.display());
            }
        }
    }
    assert!(files >= 6, "{files}");
}

fn parsed(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
