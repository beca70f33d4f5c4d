//! Secrets that are none, proofs that are missing, and what a captured or made-up delivery costs.

use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use hookonce::config::{Config, Environment};
use sha2::Sha256;

use crate::raw::Recorder;
use crate::support::consumer::Consumer;
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, SECRET, github, now, signed, signed_with, stripe};
use crate::support::wire::Wire;

fn configured(secret: &str, variables: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
    let text = format!("upstream = \"http://c:1\"\n[providers.github]\npath = \"/github\"\n{secret}");
    let environment = Environment::from(<[(&str, &str); 1]>::try_from(variables).unwrap_or([("UNUSED", "x")]));
    match Config::from_text(&text, &environment) {
        Ok(loaded) => Ok(loaded.warnings.iter().map(|warning| warning.key.clone()).collect()),
        Err(problems) => Err(problems.iter().map(|problem| problem.key.clone()).collect()),
    }
}

#[test]
fn no_start_without_a_secret_that_is_one() {
    for (secret, variables) in [
        ("", &[][..]),
        ("secret = \"\"", &[]),
        ("secrets = []", &[]),
        ("secrets = [\"0123456789abcdef\", \"\"]", &[]),
        ("secret = \"${GITHUB_SECRET}\"", &[]),
        ("secret = { env = \"GITHUB_SECRET\" }", &[]),
        ("secret = { env = \"GITHUB_SECRET\" }", &[("GITHUB_SECRET", "")]),
        ("secret = { env = \"GITHUB_SECRET\" }", &[("GITHUB_SECRET", "\n")]),
        ("secret = { env = \"GITHUB_SECRET\" }", &[("GITHUB_SECRET", "${OTHER}")]),
        ("secret = { file = \"/dev/null\" }", &[]),
    ] {
        assert!(configured(secret, variables).is_err(), "{secret} {variables:?}");
    }
    // A short one is warned of.
    let is_warned_of = |secret| configured(secret, &[]).unwrap().iter().any(|key| key.ends_with("secret"));
    assert!(!is_warned_of("secret = \"0123456789abcdef\"") && is_warned_of("secret = \"0123456789abcde\""));
}

#[tokio::test]
async fn a_signature_by_an_empty_secret_or_a_missing_one_holds_nowhere() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let body = github("e1").body;
    let mac = |key: &[u8], message: &[u8]| {
        let mut state = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
        state.update(message);
        HEXLOWER.encode(&state.finalize().into_bytes())
    };
    let seconds = now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().to_string();
    for key in [&b""[..], b"\0", b"\n", b"null", b"undefined", b"None", b"secret", b"${SECRET}"] {
        let forged = github("e1").with("x-hub-signature-256", &format!("sha256={}", mac(key, &body)));
        assert_eq!(proxy.send(&forged).await.status, 401, "{key:?}");
        let signed = [seconds.as_bytes(), b".", &stripe("e1").body].concat();
        let forged = stripe("e1").with("stripe-signature", &format!("t={seconds},v1={}", mac(key, &signed)));
        assert_eq!(proxy.send(&forged).await.status, 401, "{key:?}");
    }
    for (delivery, name) in [(github("e1"), "x-hub-signature-256"), (stripe("e1"), "stripe-signature")] {
        let missing = proxy.send(&delivery.clone().without(name)).await;
        let mut shapes = vec![(missing.status, missing.headers.len(), missing.body.clone())];
        for empty in ["", " ", "\t"] {
            let head = String::from_utf8(delivery.clone().without(name).bytes()).unwrap();
            let bytes = head.replacen("host: localhost\r\n", &format!("host: localhost\r\n{name}:{empty}\r\n"), 1);
            let answer = Wire::with(proxy.listen, bytes.as_bytes()).await.answer().await;
            shapes.push((answer.status, answer.headers.len(), answer.body));
        }
        assert!(shapes.iter().all(|shape| *shape == shapes[0] && shape.0 == 401), "{shapes:?}");
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
}

#[tokio::test]
async fn a_delivery_that_is_replayed_a_hundred_times_takes_effect_once() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    for delivery in [github("e1"), stripe("e1")] {
        let first = proxy.send(&delivery).await;
        assert_eq!((first.status, first.outcome()), (200, "forwarded"));
        let bytes = delivery.bytes();
        let mut wire = Wire::to(proxy.listen).await;
        for _ in 0..100 {
            wire.say(&bytes).await;
            let answer = wire.answer().await;
            assert_eq!((answer.status, answer.outcome()), (200, "duplicate"));
        }
    }
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 2);
}

#[tokio::test]
async fn a_delivery_that_is_replayed_after_its_time_is_refused_and_no_event_is_forgotten_before() {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.start();
    let old = signed("stripe", "/stripe", &[], "{\"id\":\"e1\"}".into(), now() - Duration::from_secs(301));
    assert_eq!(proxy.send(&old).await.json()["code"], "stale");
    assert!(proxy.stop().await);
    assert_eq!(recorder.text(), "");
    // Forgotten sooner than it is refused, a captured delivery would be new once more.
    let text =
        "upstream = \"http://c:1\"\n[providers.stripe]\npath = \"/s\"\nsecret = \"0123456789abcdef\"\nretention = \"299s\"";
    let problems = Config::from_text(text, &Environment::default()).unwrap_err();
    assert!(problems.iter().any(|problem| problem.key.contains("retention")), "{problems:?}");
}

#[tokio::test]
async fn two_thousand_forgeries_cost_the_store_no_command() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup =
        in_front_of(&consumer).store(&redis.url()).top("workers = 1").stripe("missing_id = \"hash\"\nreject_status = 400");
    let instance = Instance::start(&setup).await;
    let mut keys = Keys::of(&redis);
    assert_eq!(instance.send(&stripe("warm")).await.status, 200);
    keys.done("stripe", "warm").await;
    let names = keys.names();
    keys.reset_commands();
    let mut wire = Wire::to(instance.listen).await;
    let zeros = format!("sha256={}", "0".repeat(64));
    for nth in 0..500 {
        let event = format!("forged-{nth}");
        let forged: [Delivery; 4] = [
            github(&event).with("x-hub-signature-256", &zeros),
            github(&event).without("x-hub-signature-256"),
            stripe(&event).with_body(format!("{{\"id\":\"{event}-other\"}}")),
            signed("stripe", "/stripe", &[], format!("{{\"id\":\"{event}\"}}").into(), now() - Duration::from_secs(3600)),
        ];
        for delivery in forged {
            wire.say(&delivery.bytes()).await;
            assert!(matches!(wire.answer().await.status, 400 | 401));
        }
    }
    assert_eq!((keys.commands(), keys.names()), (std::collections::BTreeMap::new(), names));
    assert_eq!(consumer.seen().len(), 1);
}

/// Whether these bytes are anywhere in the memory that a process has written to.
fn is_in_memory(process: u32, sought: &[u8]) -> bool {
    use std::io::{Read, Seek, SeekFrom};
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let mut memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let mut seen = 0;
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        let mut bytes = Vec::new();
        // What goes away while it is looked at holds nothing.
        let _ = memory.seek(SeekFrom::Start(from)).and_then(|_| memory.by_ref().take(to - from).read_to_end(&mut bytes));
        seen += bytes.len();
        if memchr::memmem::find(&bytes, sought).is_some() {
            return true;
        }
    }
    assert!(seen > 1 << 20, "{seen} bytes were looked at");
    false
}

#[tokio::test]
async fn a_secret_is_in_memory_no_more_once_its_key_is_made() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let (file, kept) = (folder.path().join("secret"), "canary-of-what-is-kept-0123456789");
    let [first, second] = ["canary-before-the-change-0123456789", "canary-after-the-change-9876543210"];
    std::fs::write(&file, first).unwrap();
    let text = in_front_of(&consumer).top(&format!("admin_token = \"{kept}\"")).text();
    let text = text.replacen(&format!("secret = \"{SECRET}\""), &format!("secret = {{ file = \"{}\" }}", file.display()), 1);
    let instance = Instance::configured(&text).await;
    let delivery =
        |secret: &str, event: &str| signed_with(secret, "github", "/github", &[("x-github-delivery", event)], "{}".into(), now());
    let process = instance.program.process();
    assert_eq!(instance.send(&delivery(first, "e1")).await.status, 200);
    assert!(is_in_memory(process, kept.as_bytes()), "what has to be kept is found");
    assert!(!is_in_memory(process, first.as_bytes()));
    std::fs::write(&file, second).unwrap();
    instance.reloaded("ok", 1.0).await;
    assert_eq!(instance.send(&delivery(second, "e2")).await.status, 200);
    assert!(!is_in_memory(process, first.as_bytes()) && !is_in_memory(process, second.as_bytes()));
}
