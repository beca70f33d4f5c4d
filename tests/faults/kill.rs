//! `kill -9` at every step between claim and settlement. Nothing is lost, and only what may have reached the consumer can
//! reach it again; whatever the next process cannot know, it says.

use std::time::Duration;

use hookonce::failpoint::Failpoint;
use tokio::task::JoinSet;

use crate::provider::{Accepted, until_accepted};
use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::program::hookonce;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{github, stripe};

const LEASE: Duration = Duration::from_secs(1);
/// Renewed only after more than a second: a renewal is a write too, and must not be taken for the completion.
const LEASE_ON_FILES: Duration = Duration::from_secs(4);
/// For a machine that has other things to do.
const SLACK: Duration = Duration::from_secs(4);
const MARKED: Option<&str> = Some("unknown");

/// What must have become of an event when its process is killed.
struct Fate {
    /// The marks of its forwards, in order.
    marks: &'static [Option<&'static str>],
    /// Whether the next process has to wait for the lease.
    waits: bool,
    /// Whether the sender had been told success.
    told: bool,
    outcome: &'static str,
}

const NEVER_CLAIMED: Fate = Fate { marks: &[None], waits: false, told: false, outcome: "forwarded" };
/// One effect. The next process cannot know that there was none before, and says so.
const NEVER_SENT: Fate = Fate { marks: &[MARKED], waits: true, told: false, outcome: "forwarded" };
const SENT: Fate = Fate { marks: &[None, MARKED], waits: true, told: false, outcome: "forwarded" };
const RELEASED: Fate = Fate { marks: &[None, None], waits: false, told: false, outcome: "forwarded" };
const DONE: Fate = Fate { marks: &[None], waits: false, told: true, outcome: "duplicate" };

/// The steps of every store, and what follows; none for those of the file store and of the queue.
fn fate(at: Failpoint) -> Option<Fate> {
    match at {
        Failpoint::BeforeClaim => Some(NEVER_CLAIMED),
        Failpoint::AfterClaim | Failpoint::BeforeFirstByte => Some(NEVER_SENT),
        Failpoint::AfterCall | Failpoint::BeforeRelease => Some(SENT),
        // The success is told beside its storing: this sender will not come back by itself.
        Failpoint::BeforeComplete => Some(Fate { told: true, ..SENT }),
        Failpoint::AfterComplete => Some(DONE),
        Failpoint::AfterRelease => Some(RELEASED),
        Failpoint::BeforeWrite | Failpoint::AfterWrite | Failpoint::BeforeSync | Failpoint::AfterSync => None,
        Failpoint::BeforeAppend | Failpoint::AfterAppend | Failpoint::AfterTake => None,
        Failpoint::BeforeBury | Failpoint::AfterBury => None,
    }
}

/// Refuses an event whose name says so the first time, and accepts everything else.
async fn consumer() -> Consumer {
    Consumer::deciding(|seen, nth| Act::Answer(if nth == 1 && seen.event_id().contains("release") { 500 } else { 200 })).await
}

fn setup(consumer: &Consumer, store: &str, lease: Duration) -> Setup {
    let keys = format!("lease = \"{}s\"\nin_flight = \"retry\"", lease.as_secs());
    in_front_of(consumer).store(store).top("workers = 1").stripe(&keys)
}

/// One event, whose name is the place: a process is killed there, the next one is given the event again.
async fn killed_at(place: String, fate: Fate, (store, lease): (String, Duration), consumer: Consumer) {
    let setup = setup(&consumer, &store, lease);
    let mut command = hookonce();
    command.env("HOOKONCE_FAILPOINT", &place);
    let mut first = Instance::start_as(command, &setup).await;
    // The marker, which is no event's, is written in the first turn of the watch: over when the second begins.
    eventually("a second look at the store", async || {
        let looks = first.metrics().await.value("hookonce_store_seconds_count", &[("op", "pulse")]);
        (looks >= 2.0).then_some(())
    })
    .await;
    let event = place.replace(':', "-");
    let mut sender = stripe(&event).begin(first.listen).await;
    eventually(&place, async || first.log().contains("failpoint").then_some(())).await;
    if fate.told {
        assert!(sender.answer().await.is_success(), "{place}");
    }
    first.kill();
    if !fate.told {
        let heard = sender.rest().await.unwrap_or_default();
        assert!(!heard.starts_with("HTTP/1.1 2"), "{place}: {heard}");
    }

    let second = Instance::start(&setup).await;
    let Accepted { refused, answer, took } = until_accepted(&stripe(&event), second.listen).await;
    assert_eq!(answer.outcome(), fate.outcome, "{place}");
    // A busy machine may need as long to start a process as the lease lasts.
    assert!(fate.waits || refused.is_empty(), "{place}: {refused:?}");
    assert!(refused.iter().all(|status| *status == 503), "{place}: {refused:?}");
    assert!(took < lease + SLACK, "{place}: {took:?}");
    let seen: Vec<_> = consumer.seen().into_iter().filter(|seen| seen.event_id() == event).collect();
    assert_eq!(seen.iter().map(|seen| seen.mark()).collect::<Vec<_>>(), fate.marks, "{place}");
    let marks = fate.marks.iter().flatten().count();
    assert_eq!(second.metrics().await.marked("stripe", "unknown"), marks as f64, "{place}");
    second.in_state("stripe", &event, "done").await;
    assert_eq!(second.send(&stripe(&event)).await.outcome(), "duplicate", "{place}");
}

async fn all(kills: JoinSet<()>, count: usize) {
    assert_eq!(kills.join_all().await.len(), count);
}

#[tokio::test]
async fn at_each_step_nothing_is_lost_and_only_what_may_have_been_sent_is_sent_again() {
    let (consumer, redis, mut kills) = (consumer().await, RedisProcess::start(), JoinSet::new());
    for (at, fate) in Failpoint::ALL.into_iter().filter_map(|at| Some((at, fate(at)?))) {
        kills.spawn(killed_at(at.as_str().to_owned(), fate, (redis.url(), LEASE), consumer.clone()));
    }
    all(kills, 8).await;
}

#[tokio::test]
async fn at_each_step_of_one_instance_on_files() {
    let (consumer, mut kills) = (consumer().await, JoinSet::new());
    let folder = tempfile::tempdir().unwrap();
    // The first write is the claim, the second the completion.
    let of_files = [
        ("before-write:1", NEVER_CLAIMED),
        ("after-write:1", NEVER_SENT),
        ("before-write:2", Fate { told: true, ..SENT }),
        ("after-write:2", DONE),
        ("before-sync", DONE),
        ("after-sync", DONE),
    ];
    let of_all = Failpoint::ALL.into_iter().filter_map(|at| Some((at.as_str(), fate(at)?)));
    for (place, fate) in of_all.chain(of_files) {
        let store = format!("file:{}", folder.path().join(place).display());
        kills.spawn(killed_at(place.to_owned(), fate, (store, LEASE_ON_FILES), consumer.clone()));
    }
    all(kills, 14).await;
}

/// The claim is there, and what is signed belongs to nobody yet: whoever comes with it is forwarded, and nobody twice.
#[tokio::test]
async fn between_the_claim_and_the_binding_of_what_is_signed() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let setup = setup(&consumer, &redis.url(), LEASE).github("replay_guard = \"enforce\"\nlease = \"1s\"");
    let mut command = hookonce();
    command.env("HOOKONCE_FAILPOINT", Failpoint::AfterClaim.as_str());
    let mut first = Instance::start_as(command, &setup).await;
    let _sender = github("real").begin(first.listen).await;
    eventually("the claim", async || first.log().contains("failpoint").then_some(())).await;
    first.kill();
    let second = Instance::start(&setup).await;
    let captured = github("real").with("x-github-delivery", "fresh");
    assert_eq!(second.send(&captured).await.outcome(), "forwarded");
    second.in_state("github", "fresh", "done").await;
    let Accepted { answer, .. } = until_accepted(&github("real"), second.listen).await;
    assert_eq!((answer.outcome(), consumer.seen().len()), ("duplicate", 1));
}
