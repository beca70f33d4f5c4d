//! `kill -9` at every step of an event in queue mode. Whatever was acknowledged is delivered by the next process, without
//! anybody delivering it again; only what may have reached the consumer is in doubt.

use std::time::Duration;

use hookonce::failpoint::Failpoint;
use tokio::task::JoinSet;

use crate::provider::until_accepted;
use crate::support::consumer::{Act, Consumer};
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::program::hookonce;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::stripe;

const LEASE: Duration = Duration::from_secs(1);
/// Renewed only after more than a second: a renewal is a write too, and must not be taken for another.
const LEASE_ON_FILES: Duration = Duration::from_secs(4);
const MARKED: Option<&str> = Some("unknown");
/// No place in the program: the consumer has the request and does not answer.
const DURING_THE_CALL: &str = "during-the-call";

/// What must have become of an event when its process is killed.
#[derive(Clone, Copy)]
struct Fate {
    /// The marks of its forwards, in order.
    marks: &'static [Option<&'static str>],
    /// Whether the sender had been told success.
    told: bool,
    /// Whether the event was stored: if not, it is for the sender to deliver it again.
    stored: bool,
    /// Whether it ends as a dead letter.
    dead: bool,
    /// Whether the process may have looked for letters just then, as it does twice a second, and gone on with this one.
    may_go_on: bool,
}

const UNHEARD_OF: Fate = Fate { marks: &[None], told: false, stored: false, dead: false, may_go_on: false };
const NEVER_TAKEN: Fate = Fate { stored: true, ..UNHEARD_OF };
const APPENDED: Fate = Fate { may_go_on: true, ..NEVER_TAKEN };
/// One effect. The next process cannot know that there was none before, and says so.
const NEVER_SENT: Fate = Fate { marks: &[MARKED], told: true, ..NEVER_TAKEN };
const SENT: Fate = Fate { marks: &[None, MARKED], ..NEVER_SENT };
const DONE: Fate = Fate { marks: &[None], ..NEVER_SENT };
const POSTPONED: Fate = Fate { marks: &[None, None], ..NEVER_SENT };

/// The steps of every store, and what follows; none for those of the file store and of sync mode.
fn fate(at: Failpoint) -> Option<Fate> {
    match at {
        Failpoint::BeforeAppend => Some(UNHEARD_OF),
        Failpoint::AfterAppend => Some(APPENDED),
        Failpoint::AfterTake | Failpoint::BeforeFirstByte => Some(NEVER_SENT),
        Failpoint::AfterCall | Failpoint::BeforeComplete | Failpoint::BeforeRelease => Some(SENT),
        Failpoint::AfterComplete => Some(DONE),
        Failpoint::AfterRelease => Some(POSTPONED),
        // Tried once more, since nobody knows that it was the last attempt.
        Failpoint::BeforeBury => Some(Fate { marks: &[None, None, MARKED], ..NEVER_SENT }),
        Failpoint::AfterBury => Some(Fate { dead: true, ..POSTPONED }),
        Failpoint::BeforeClaim | Failpoint::AfterClaim => None,
        Failpoint::BeforeWrite | Failpoint::AfterWrite | Failpoint::BeforeSync | Failpoint::AfterSync => None,
    }
}

fn of_all_stores() -> impl Iterator<Item = (&'static str, Fate)> {
    let steps = Failpoint::ALL.into_iter().filter_map(|at| Some((at.as_str(), fate(at)?)));
    steps.chain([(DURING_THE_CALL, SENT)])
}

/// Refuses an event once, or as often as there are attempts, or does not answer, where its name says so.
async fn consumer() -> Consumer {
    Consumer::deciding(|seen, nth| match seen.event_id() {
        event if event.contains("release") && nth == 1 => Act::Answer(500),
        event if event.contains("bury") && nth <= 2 => Act::Answer(422),
        DURING_THE_CALL if nth == 1 => Act::Hang,
        _ => Act::Answer(200),
    })
    .await
}

fn setup(consumer: &Consumer, store: &str, lease: Duration) -> Setup {
    let queue = "[queue]\naccept_loss = true\nschedule = [\"0s\", \"1s\"]";
    let keys = format!("mode = \"queue\"\nlease = \"{}s\"", lease.as_secs());
    in_front_of(consumer).store(store).top("workers = 1").table(queue).stripe(&keys)
}

/// One event, whose name is the place: a process is killed there, and the next one finds what it has left.
async fn killed_at(place: String, fate: Fate, (store, lease): (String, Duration), consumer: Consumer) {
    let setup = setup(&consumer, &store, lease);
    let mut command = hookonce();
    command.env("HOOKONCE_FAILPOINT", &place);
    let mut first = Instance::start_as(command, &setup).await;
    // The marker and the trace, which are no event's, are written in the first turn of the watch: over when the second begins.
    eventually("a second look at the store", async || {
        let looks = first.metrics().await.value("hookonce_store_seconds_count", &[("op", "pulse")]);
        (looks >= 2.0).then_some(())
    })
    .await;
    let event = place.replace(':', "-");
    let mut sender = stripe(&event).begin(first.listen).await;
    if fate.told {
        assert_eq!(sender.answer().await.outcome(), "queued", "{place}");
    }
    if place == DURING_THE_CALL {
        consumer.arrived(&event, 1).await;
    } else {
        eventually(&place, async || first.log().contains("failpoint").then_some(())).await;
    }
    first.kill();
    if !fate.told {
        let heard = sender.rest().await.unwrap_or_default();
        assert!(!heard.starts_with("HTTP/1.1 2"), "{place}: {heard}");
    }

    let second = Instance::start(&setup).await;
    if !fate.stored {
        assert_eq!(until_accepted(&stripe(&event), second.listen).await.answer.outcome(), "queued", "{place}");
    }
    second.in_state("stripe", &event, if fate.dead { "queued" } else { "done" }).await;
    let held = [("hookonce_queue_events", 0.0), ("hookonce_dead_letters", f64::from(u8::from(fate.dead)))];
    eventually(&format!("{place}: nothing is left to do"), async || {
        let metrics = second.metrics().await;
        held.iter().all(|(name, count)| metrics.value(name, &[("provider", "stripe")]) == *count).then_some(())
    })
    .await;
    assert_eq!(second.send(&stripe(&event)).await.outcome(), "duplicate", "{place}");
    let seen: Vec<_> = consumer.seen().into_iter().filter(|seen| seen.event_id() == event).collect();
    let marks: Vec<_> = seen.iter().map(|seen| seen.mark()).collect();
    let as_if_taken = [NEVER_SENT.marks, SENT.marks].contains(&&marks[..]);
    assert!(marks == fate.marks || (fate.may_go_on && as_if_taken), "{place}: {marks:?}");
    assert_eq!(second.metrics().await.marked("stripe", "unknown"), marks.iter().flatten().count() as f64, "{place}");
}

async fn all(kills: JoinSet<()>, count: usize) {
    assert_eq!(kills.join_all().await.len(), count);
}

#[tokio::test]
async fn at_each_step_what_was_acknowledged_is_delivered_and_only_what_may_have_been_sent_is_in_doubt() {
    let (consumer, redis, mut kills) = (consumer().await, RedisProcess::start(), JoinSet::new());
    for (index, (place, fate)) in of_all_stores().enumerate() {
        // All share the server, each has events of its own: one of them must not deliver what another has left.
        let store = format!("{}/{index}", redis.url());
        kills.spawn(killed_at(place.to_owned(), fate, (store, LEASE), consumer.clone()));
    }
    all(kills, 12).await;
}

#[tokio::test]
async fn at_each_step_of_a_queue_on_files() {
    let (consumer, mut kills) = (consumer().await, JoinSet::new());
    let folder = tempfile::tempdir().unwrap();
    // Cells are written by the append and the end; commits are those, and the taking between them. The flush of the append
    // keeps nobody from writing.
    let of_files = [
        ("before-write:1", UNHEARD_OF),
        ("after-write:1", NEVER_TAKEN),
        ("before-sync:1", APPENDED),
        ("after-sync:1", APPENDED),
        ("after-write:2", NEVER_SENT),
        ("before-write:2", SENT),
        ("after-write:3", DONE),
    ];
    for (place, fate) in of_all_stores().chain(of_files) {
        let store = format!("file:{}", folder.path().join(place).display());
        kills.spawn(killed_at(place.to_owned(), fate, (store, LEASE_ON_FILES), consumer.clone()));
    }
    all(kills, 19).await;
}
