//! The configuration read anew while the program runs: taken whole or not at all, and no delivery notices.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use tempfile::TempDir;

use crate::support::consumer::{Act, Consumer, Gate};
use crate::support::instance::Instance;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, SECRET, github, now, signed_with, stripe};
use crate::support::wire::Wire;
use crate::support::{PATIENCE, eventually};

const OLD: &str = "an-old-secret-0123456789abcdef";
const NEW: &str = "a-new-secret-0123456789abcdef";

/// Holds its first answer back until the gate is open.
async fn gated(gate: &Gate) -> Consumer {
    let gate = gate.clone();
    Consumer::deciding(move |_, _| Act::Behind(gate.clone(), Box::new(Act::Answer(200)))).await
}

/// GitHub's kind, with a secret of its own.
fn github_by(secret: &str, event: &str) -> Delivery {
    let body = Bytes::from(format!("{{\"event\":\"{event}\"}}"));
    signed_with(secret, "github", "/github", &[("x-github-delivery", event), ("x-github-event", "push")], body, now())
}

/// A setup whose GitHub secrets are in these files, in place of the one that all tests have.
fn with_secrets(setup: &Setup, files: &[&Path]) -> String {
    let files: Vec<String> = files.iter().map(|path| format!("{{ file = \"{}\" }}", path.display())).collect();
    setup.text().replacen(&format!("secret = \"{SECRET}\"\n"), &format!("secrets = [{}]\n", files.join(", ")), 1)
}

#[tokio::test]
async fn a_changed_file_is_taken_up_by_itself_and_what_is_under_way_ends_as_it_began() {
    let gate = Gate::closed();
    let (former, next) = (gated(&gate).await, Consumer::answering(201).await);
    let instance = Instance::start(&in_front_of(&former)).await;
    let (under_way, to) = (github("e1"), instance.listen);
    let sending = tokio::spawn(async move { under_way.send(to).await });
    former.arrived("e1", 1).await;

    instance.rewrite(&in_front_of(&next).text());
    instance.reloaded("ok", 1.0).await;
    assert_eq!(instance.send(&github("e2")).await.status, 201);
    // A copy meets the delivery that is under way by the configuration before.
    let (copy, to) = (github("e1"), instance.listen);
    let copying = tokio::spawn(async move { copy.send(to).await });
    gate.open();
    let (first, copy) = (sending.await.unwrap(), copying.await.unwrap());
    assert_eq!((first.status, first.outcome()), (200, "forwarded"));
    assert!(copy.status == 200 && ["waited", "duplicate"].contains(&copy.outcome()), "{copy:?}");
    assert_eq!((former.count("e1"), next.count("e1"), next.count("e2")), (1, 0, 1));
    instance.logged(&["configuration reloaded", "providers.github.upstream"]).await;
}

#[tokio::test]
async fn sighup_reads_it_anew_and_events_are_known_as_before() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    assert_eq!(instance.send(&github("e1")).await.outcome(), "forwarded");
    instance.program.signal("HUP");
    instance.reloaded("ok", 1.0).await;
    assert_eq!(instance.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!(instance.metrics().await.outcome("github", "forwarded"), 1.0);
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_is_counted_until_it_is_mended() {
    let consumer = Consumer::answering(200).await;
    let good = in_front_of(&consumer);
    let instance = Instance::start(&good).await;
    let stale = async || instance.metrics().await.value("hookonce_config_stale", &[]);
    assert_eq!(stale().await, 0.0);

    let bad = good.clone().github("leese = \"1s\"").stripe("max_body = \"lots\"");
    instance.rewrite(&bad.text().replace("path = \"/github\"", "path = \"/moved\""));
    instance.reloaded("failed", 1.0).await;
    assert_eq!(stale().await, 1.0);
    assert_eq!(instance.send(&github("e1")).await.outcome(), "forwarded");
    let said = instance.logged(&["providers.github.leese", "providers.stripe.max_body", "the one before goes on"]).await;
    assert!(!said.contains(SECRET));

    instance.rewrite(&good.text());
    instance.reloaded("ok", 1.0).await;
    assert_eq!(stale().await, 0.0);
    // The bad one was refused once, not once a second.
    instance.reloaded("failed", 1.0).await;
}

#[tokio::test]
async fn what_needs_a_restart_is_refused_with_all_that_came_with_it() {
    let (consumer, other) = (Consumer::answering(200).await, Consumer::answering(201).await);
    let instance = Instance::start(&in_front_of(&consumer)).await;
    instance.rewrite(&in_front_of(&other).top("workers = 7").table("[limits]\nconnections = 9").text());
    instance.reloaded("failed", 1.0).await;
    assert_eq!(instance.send(&github("e1")).await.status, 200);
    instance.logged(&["workers: cannot change while", "limits.connections: cannot change while"]).await;
}

/// As Kubernetes mounts a Secret: files are links into a folder behind a link, which is replaced as one.
struct Mount(TempDir);

impl Mount {
    fn new(secret: &str) -> Self {
        let mount = Self(tempfile::tempdir().unwrap());
        mount.swap("v1", secret);
        symlink("..data/github", mount.0.path().join("github")).unwrap();
        mount
    }

    fn swap(&self, version: &str, secret: &str) {
        let at = |name: &str| self.0.path().join(name);
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("github"), secret).unwrap();
        symlink(version, at("..data_tmp")).unwrap();
        std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    }
}

#[tokio::test]
async fn a_secret_that_is_swapped_behind_its_link_is_read_anew() {
    let (consumer, mount) = (Consumer::answering(200).await, Mount::new(OLD));
    let file = mount.0.path().join("github");
    let instance = Instance::configured(&with_secrets(&in_front_of(&consumer), &[&file])).await;
    assert_eq!(instance.send(&github_by(OLD, "e1")).await.status, 200);
    assert_eq!(instance.send(&github_by(NEW, "e2")).await.status, 401);
    mount.swap("v2", NEW);
    instance.reloaded("ok", 1.0).await;
    assert_eq!(instance.send(&github_by(NEW, "e2")).await.outcome(), "forwarded");
    assert_eq!(instance.send(&github_by(OLD, "e3")).await.status, 401);
    assert_eq!(instance.send(&github_by(NEW, "e1")).await.outcome(), "duplicate");
    assert!(!instance.log().contains(NEW));
}

#[tokio::test]
async fn a_secret_that_is_gone_for_a_moment_changes_nothing() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let file = folder.path().join("secret");
    std::fs::write(&file, OLD).unwrap();
    let instance = Instance::configured(&with_secrets(&in_front_of(&consumer), &[&file])).await;
    std::fs::remove_file(&file).unwrap();
    instance.reloaded("failed", 1.0).await;
    assert_eq!(instance.send(&github_by(OLD, "e1")).await.status, 200);
    std::fs::write(&file, NEW).unwrap();
    instance.reloaded("ok", 1.0).await;
    assert_eq!(instance.send(&github_by(NEW, "e2")).await.status, 200);
}

#[tokio::test]
async fn a_rotation_under_load_fails_no_delivery_and_doubles_none() {
    let consumer = Consumer::answering(200).await;
    let (redis, folder) = (RedisProcess::start(), tempfile::tempdir().unwrap());
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    std::fs::write(&old, OLD).unwrap();
    std::fs::write(&new, NEW).unwrap();
    let setup = in_front_of(&consumer).store(&redis.url()).top("workers = 2");
    let instance = Instance::configured(&with_secrets(&setup, &[&old])).await;

    // The provider signs with the old secret until it is told to change, and delivers each event twice.
    let (is_new, is_over, sent) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = (0..16).map(|_| {
        let (to, is_new, is_over, sent) = (instance.listen, Arc::clone(&is_new), Arc::clone(&is_over), Arc::clone(&sent));
        tokio::spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let event = format!("e{}", sent.fetch_add(1, Ordering::SeqCst));
                let secret = if is_new.load(Ordering::SeqCst) { NEW } else { OLD };
                let delivery = github_by(secret, &event);
                for expected in ["forwarded", "duplicate"] {
                    let answer = delivery.send(to).await;
                    assert_eq!((answer.status, answer.outcome()), (200, expected), "{event}");
                }
            }
        })
    });
    let load: Vec<_> = load.collect();
    let busy = async || {
        let before = sent.load(Ordering::SeqCst);
        eventually("more deliveries", async || (sent.load(Ordering::SeqCst) > before + 200).then_some(())).await;
    };
    busy().await;
    instance.rewrite(&with_secrets(&setup, &[&new, &old]));
    instance.reloaded("ok", 1.0).await;
    is_new.store(true, Ordering::SeqCst);
    busy().await;
    let matches =
        async |slot| instance.metrics().await.value("hookonce_secret_matches_total", &[("provider", "github"), ("slot", slot)]);
    // The old secret is out of use before it goes: those who had begun to sign with it have been answered.
    let (mut before, mut used) = (-1.0, matches("1").await);
    while used != before {
        busy().await;
        (before, used) = (used, matches("1").await);
    }
    instance.rewrite(&with_secrets(&setup, &[&new]));
    instance.reloaded("ok", 2.0).await;
    for times in 3..8 {
        instance.program.signal("HUP");
        instance.reloaded("ok", f64::from(times)).await;
        busy().await;
    }
    is_over.store(true, Ordering::SeqCst);
    for sender in load {
        sender.await.unwrap();
    }
    let events = sent.load(Ordering::SeqCst);
    assert_eq!(consumer.seen().len(), events);
    assert!(consumer.seen().iter().all(|seen| seen.mark().is_none()));
    let metrics = instance.metrics().await;
    assert_eq!(metrics.outcome("github", "forwarded"), events as f64);
    assert_eq!(metrics.outcome("github", "rejected"), 0.0);
}

#[tokio::test]
async fn providers_come_and_go() {
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer);
    let proxy = setup.start();
    let third = format!("[providers.third]\npath = \"/third\"\npreset = \"github\"\nsecret = \"{SECRET}\"\n");
    assert_eq!(proxy.send(&github("e1").at("/third")).await.status, 404);
    assert_eq!(proxy.reload(&setup.clone().table(&third)).await, Ok(vec!["providers.third (new)".to_owned()]));
    assert_eq!(proxy.send(&github("e1").at("/third")).await.outcome(), "forwarded");
    assert_eq!(proxy.metrics().await.outcome("third", "duplicate"), 0.0);
    assert_eq!(proxy.reload(&setup).await, Ok(vec!["providers.third (gone)".to_owned()]));
    assert_eq!(proxy.send(&github("e1").at("/third")).await.status, 404);
    // Nobody is to be woken for who has gone.
    assert!(!proxy.metrics().await.text().contains("third"));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_admin_side_goes_by_the_new_configuration() {
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer).top("admin_token = \"the-former-token-0123\"");
    let proxy = setup.start();
    let asked = |token: &str| Delivery::plain("GET", "/api/bypass").with("authorization", &format!("Bearer {token}"));
    assert_eq!(proxy.admin(&asked("the-former-token-0123")).await.status, 200);
    let stream = Delivery::plain("GET", "/api/stream").with("authorization", "Bearer the-former-token-0123");
    let mut page = Wire::with(proxy.admin, &stream.bytes()).await;
    page.heard("event: snapshot").await;
    let next = in_front_of(&consumer).top("admin_token = \"another-token-0123456\"");
    proxy.reload(&next).await.unwrap();
    assert_eq!(proxy.admin(&asked("the-former-token-0123")).await.status, 401);
    assert_eq!(proxy.admin(&asked("another-token-0123456")).await.status, 200);
    // Whoever looked on by the former token is shown out.
    tokio::time::timeout(PATIENCE, page.closed()).await.unwrap();
    assert!(proxy.stop().await);
}

const QUEUE: &str =
    "[queue]\naccept_loss = true\nschedule = [\"0s\", \"200ms\", \"200ms\", \"200ms\", \"200ms\", \"200ms\", \"200ms\"]";

#[tokio::test]
async fn letters_that_wait_go_where_the_new_configuration_says() {
    let (failing, next) = (Consumer::answering(503).await, Consumer::answering(200).await);
    let queueing = |consumer: &Consumer| in_front_of(consumer).github("mode = \"queue\"").table(QUEUE);
    let proxy = queueing(&failing).start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "queued");
    failing.arrived("e1", 1).await;
    proxy.reload(&queueing(&next)).await.unwrap();
    next.arrived("e1", 1).await;
    proxy.in_state("github", "e1", "done").await;
    assert_eq!(next.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_event_is_known_when_a_reload_changes_the_mode() {
    let redis = RedisProcess::start();
    let consumer = Consumer::answering(200).await;
    let sync = in_front_of(&consumer).store(&redis.url()).table(QUEUE);
    let queue = sync.clone().both("mode = \"queue\"");
    let proxy = sync.start();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "forwarded");
    proxy.reload(&queue).await.unwrap();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "queued");
    consumer.arrived("e2", 1).await;
    proxy.in_state("stripe", "e2", "done").await;
    proxy.reload(&sync).await.unwrap();
    assert_eq!(proxy.send(&stripe("e2")).await.outcome(), "duplicate");
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate");
    assert_eq!((consumer.count("e1"), consumer.count("e2")), (1, 1));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn letters_that_are_left_when_the_mode_goes_back_are_delivered() {
    let gate = Gate::closed();
    let consumer = gated(&gate).await;
    let sync = in_front_of(&consumer).table(QUEUE);
    let proxy = sync.clone().github("mode = \"queue\"\nmax_concurrent = 1").start();
    for event in ["e1", "e2", "e3"] {
        assert_eq!(proxy.send(&github(event)).await.outcome(), "queued");
    }
    consumer.arrived("e1", 1).await;
    proxy.reload(&sync).await.unwrap();
    // More may be out at once now, and those that waited are.
    consumer.arrived("e2", 1).await;
    consumer.arrived("e3", 1).await;
    gate.open();
    for event in ["e1", "e2", "e3"] {
        proxy.in_state("github", event, "done").await;
        assert_eq!(consumer.count(event), 1);
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn places_are_counted_over_a_reload() {
    let gate = Gate::closed();
    let consumer = gated(&gate).await;
    let setup = in_front_of(&consumer).github("max_concurrent = 1");
    let proxy = setup.start();
    let first = proxy.sending(&github("e1"));
    consumer.arrived("e1", 1).await;
    proxy.reload(&setup.clone().stripe("lease = \"20s\"")).await.unwrap();
    assert_eq!(proxy.send(&github("e2")).await.outcome(), "limited");
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(proxy.send(&github("e2")).await.status, 200);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_delivery_under_way_over_a_change_of_the_mode_finds_what_the_queue_has_taken() {
    let (redis, consumer) = (RedisProcess::start(), Consumer::answering(200).await);
    let sync = in_front_of(&consumer).store(&redis.url()).table(QUEUE);
    let proxy = sync.start();
    let delivery = github("e1");
    // The 100 says that its body is waited for: it has begun.
    let bytes = delivery.clone().with("expect", "100-continue").with("connection", "close").bytes();
    let (begin, rest) = bytes.split_at(bytes.len() - 3);
    let mut slow = Wire::with(proxy.listen, begin).await;
    slow.heard("100 Continue").await;
    proxy.reload(&sync.clone().both("mode = \"queue\"")).await.unwrap();
    assert_eq!(proxy.send(&delivery).await.outcome(), "queued");
    proxy.in_state("github", "e1", "done").await;
    slow.say(rest).await;
    let said = slow.rest().await.unwrap();
    assert!(said.contains("hookonce-outcome: duplicate"), "{said}");
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_instance_that_is_still_in_sync_mode_learns_soon_that_another_one_queues() {
    let (redis, consumer) = (RedisProcess::start(), Consumer::answering(200).await);
    let sync = in_front_of(&consumer).store(&redis.url()).table(QUEUE);
    let (first, second) = (sync.start(), sync.start());
    assert_eq!(second.send(&github("e0")).await.outcome(), "forwarded");
    // It has looked whether there are queues, and found none.
    eventually("a few pulses", async || {
        let pulses = second.metrics().await.value("hookonce_store_seconds_count", &[("op", "pulse")]);
        (pulses >= 4.0).then_some(())
    })
    .await;
    first.reload(&sync.clone().both("mode = \"queue\"")).await.unwrap();
    assert_eq!(first.send(&github("e1")).await.outcome(), "queued");
    first.in_state("github", "e1", "done").await;
    // It is told by the edition of the marker, and looks then: a second, at the longest two.
    eventually("an instance that looks at queues", async || {
        let event = format!("e{}", consumer.seen().len() + 10);
        first.send(&github(&event)).await;
        first.in_state("github", &event, "done").await;
        (second.send(&github(&event)).await.outcome() == "duplicate").then_some(())
    })
    .await;
    assert_eq!(second.send(&github("e1")).await.outcome(), "duplicate");
    assert!(first.stop().await && second.stop().await);
}

#[tokio::test]
async fn a_provider_that_comes_back_in_the_other_mode_is_known_from_its_first_delivery_on() {
    let (redis, consumer) = (RedisProcess::start(), Consumer::answering(200).await);
    let rest = in_front_of(&consumer).store(&redis.url()).table(QUEUE);
    let third = |mode: &str| {
        let text =
            format!("[providers.third]\npath = \"/third\"\npreset = \"github\"\nsecret = \"{SECRET}\"\nmode = \"{mode}\"\n");
        rest.clone().table(&text)
    };
    let proxy = third("queue").start();
    assert_eq!(proxy.send(&github("e1").at("/third")).await.outcome(), "queued");
    proxy.in_state("third", "e1", "done").await;
    proxy.reload(&rest).await.unwrap();
    proxy.reload(&third("sync")).await.unwrap();
    assert_eq!(proxy.send(&github("e1").at("/third")).await.outcome(), "duplicate");
    assert_eq!(consumer.count("e1"), 1);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn the_first_delivery_into_a_queue_is_taken_like_every_other() {
    let dir = tempfile::tempdir().unwrap();
    let consumer = Consumer::answering(200).await;
    let url = format!("file:{}", dir.path().join("data").display());
    let queue = QUEUE.replace("accept_loss = true\n", "");
    let sync = in_front_of(&consumer).store(&url).table(&queue);
    let proxy = sync.start();
    assert_eq!(proxy.send(&github("e0")).await.outcome(), "forwarded");
    proxy.reload(&sync.clone().both("mode = \"queue\"")).await.unwrap();
    assert_eq!(proxy.send(&github("e1")).await.outcome(), "queued");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_provider_whose_queue_holds_events_cannot_go() {
    let consumer = Consumer::answering(503).await;
    let rest = in_front_of(&consumer).table(&QUEUE.replace("200ms", "1h"));
    let third = format!("[providers.third]\npath = \"/third\"\npreset = \"github\"\nsecret = \"{SECRET}\"\nmode = \"queue\"\n");
    let proxy = rest.clone().table(&third).start();
    assert_eq!(proxy.send(&github("e1").at("/third")).await.outcome(), "queued");
    consumer.arrived("e1", 1).await;
    assert_eq!(proxy.reload(&rest).await, Err(vec!["providers.third".to_owned()]));
    assert_eq!(proxy.send(&github("e1").at("/third")).await.outcome(), "duplicate");
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_file_that_hangs_is_said_and_the_next_one_is_taken_up() {
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer);
    let instance = Instance::start(&setup).await;
    let pipe = instance.config().with_extension("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::rename(&pipe, instance.config()).unwrap();
    instance.program.signal("HUP");
    instance.reloaded("failed", 1.0).await;
    assert_eq!(instance.send(&github("e1")).await.status, 200);
    instance.rewrite(&setup.stripe("lease = \"20s\"").text());
    instance.reloaded("ok", 1.0).await;
}

#[tokio::test]
async fn a_secret_in_the_place_of_a_path_is_not_logged() {
    let consumer = Consumer::answering(200).await;
    let instance = Instance::start(&in_front_of(&consumer)).await;
    instance.rewrite(&with_secrets(&in_front_of(&consumer), &[Path::new("a-secret-in-the-wrong-place")]));
    instance.reloaded("failed", 1.0).await;
    assert!(!instance.log().contains("wrong-place"), "{}", instance.log());
}
