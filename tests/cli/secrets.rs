//! No secret, no signature and nothing of a body is ever written, on whatever path and at whatever level.

use std::io::Write;

use tempfile::NamedTempFile;

use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::redis::{RedisProcess, quiet_port};
use crate::support::sender::{Delivery, SECRET, github, github_with, stripe_with};
use crate::{ended, with};

const TOKEN: &str = "canary-of-the-admin-token";
const PASSWORD: &str = "canary-of-the-redis-password";
const BODY: &str = "canary-of-the-body";

/// Fails where a text holds anything that must stay inside.
fn assert_silent(what: &str, text: &str) {
    for canary in [SECRET, TOKEN, PASSWORD, BODY, "canary"] {
        assert!(!text.contains(canary), "{what} tells {canary}: {text}");
    }
}

fn with_canary(event: &str) -> Delivery {
    stripe_with(format!("{{\"id\":\"{event}\",\"object\":\"event\",\"secret\":\"{BODY}\"}}"))
}

/// What proves a delivery: whoever has it can send it again.
fn signature(delivery: &Delivery) -> Option<String> {
    let value = delivery.headers.get("stripe-signature").or_else(|| delivery.headers.get("x-hub-signature-256"))?;
    Some(value.to_str().unwrap().rsplit('=').next().unwrap().to_owned())
}

#[tokio::test]
async fn nothing_secret_is_logged_at_debug_level_on_any_path() {
    for format in ["json", "text"] {
        let redis = RedisProcess::start_with(&["--requirepass", PASSWORD]);
        let consumer = Consumer::deciding(|seen, nth| match (seen.event_id(), nth) {
            ("fails", _) => Act::Respond(500, vec![("x-canary", "canary")], BODY.into()),
            ("breaks", _) => Act::Close,
            ("hangs", _) => Act::Hang,
            _ => Act::Respond(200, vec![("set-cookie", "session=canary")], BODY.into()),
        })
        .await;
        let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port());
        let setup = in_front_of(&consumer).store(&url).top(&format!("admin_token = \"{TOKEN}\""));
        let setup = setup.table(&format!("[log]\nformat = \"{format}\"\nlevel = \"debug\""));
        let mut instance = Instance::start(&setup.github("on_duplicate = \"replay\"")).await;

        let forged = with_canary("forged").with("stripe-signature", "t=1,v1=canary");
        let deliveries = [
            with_canary("e1"),
            with_canary("e1"),
            with_canary("fails"),
            with_canary("breaks"),
            forged,
            with_canary("unsigned").without("stripe-signature"),
            stripe_with(format!("{{\"secret\":\"{BODY}\"}}")),
            github_with("g1", BODY),
            github_with("g1", BODY),
            github_with("g1", format!("{BODY} of another kind")),
            github("g2"),
            Delivery { path: format!("/nowhere/{BODY}?token={TOKEN}"), ..with_canary("e2") },
        ];
        for delivery in &deliveries {
            instance.send(delivery).await;
        }
        let hung_up = with_canary("hangs").begin(instance.listen).await;
        consumer.arrived("hangs", 1).await;
        drop(hung_up);
        for token in [TOKEN, "canary"] {
            let bearer = format!("Bearer {token}");
            Delivery::plain("GET", "/api/events?provider=stripe").with("authorization", &bearer).send(instance.admin).await;
            Delivery::plain("DELETE", "/api/events/stripe/e1").with("authorization", &bearer).send(instance.admin).await;
        }
        assert_silent("metrics", instance.metrics().await.text());
        drop(redis);
        instance.send(&with_canary("store-down")).await;
        eventually("a word about the store", async || instance.log().contains("the store does not answer").then_some(())).await;
        instance.program.signal("TERM");
        instance.program.signal("TERM");
        instance.ended().await;

        let (out, log) = (instance.program.out(), instance.log());
        assert_silent("standard output", &out);
        assert_silent("the log", &log);
        for signature in deliveries.iter().filter_map(signature) {
            assert!(!log.contains(&signature), "a signature: {log}");
        }
        // It did have something to say.
        assert!(log.lines().filter(|line| line.contains("outcome") && line.contains("provider")).count() > 10, "{log}");
    }
}

#[tokio::test]
async fn nothing_secret_is_told_by_check_or_by_a_start_that_fails() {
    let consumer = Consumer::answering(200).await;
    let redis = RedisProcess::start_with(&["--requirepass", PASSWORD]);
    let good = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port());
    let wrong = format!("redis://:canary@127.0.0.1:{}", redis.port());
    let down = format!("redis://user:{PASSWORD}@127.0.0.1:{}", quiet_port());
    let no_port = format!("redis://:{PASSWORD}@127.0.0.1:port");
    for (store, code) in [(good, 0), (wrong, 1), (down, 1), (no_port, 2)] {
        let mut file = NamedTempFile::new().unwrap();
        let setup = in_front_of(&consumer).store(&store).top(&format!("admin_token = \"{TOKEN}\""));
        write!(file, "{}", setup.text()).unwrap();
        let end = ended(with(&["check", "--config", file.path().to_str().unwrap()])).await;
        assert_eq!(end.code, Some(code), "{end:?}");
        assert_silent("check", &(end.out + &end.err));
    }
    // Secrets where they do not belong: a message that names the value would repeat them.
    for mistake in [
        format!("secret = {{ env = \"{SECRET}\" }}"),
        format!("secret = {{ file = \"{SECRET}\" }}"),
        format!("secret = [\"{SECRET}\"]"),
        format!("secret = \"{SECRET}\"\nsecrets = [\"{SECRET}\"]"),
        format!("secret = {{ evn = \"{SECRET}\" }}"),
    ] {
        let mut file = NamedTempFile::new().unwrap();
        writeln!(file, "upstream = \"{}\"\n[providers.stripe]\npath = \"/stripe\"\n{mistake}", consumer.url()).unwrap();
        let end = ended(with(&["run", "--config", file.path().to_str().unwrap()])).await;
        assert_eq!(end.code, Some(2), "{mistake}: {end:?}");
        assert_silent(&mistake, &(end.out + &end.err));
    }
}

#[tokio::test]
async fn nothing_secret_is_told_by_verify() {
    let (mut file, delivery) = (NamedTempFile::new().unwrap(), with_canary("e1"));
    file.write_all(&delivery.bytes()).unwrap();
    let signature = signature(&delivery).unwrap();
    for (secret, code) in [(SECRET, 0), ("canary-of-another-secret", 1)] {
        for json in [&[][..], &["--json"]] {
            let mut command = with(&["verify", "--preset", "stripe", "--secret", secret]);
            command.args(json).arg(file.path());
            let end = ended(command).await;
            assert_eq!(end.code, Some(code), "{end:?}");
            let told = end.out + &end.err;
            assert!(!told.contains(secret) && !told.contains(BODY) && !told.contains(&signature), "{told}");
        }
    }
}
