//! What only a store in files promises: it outlives its process, however that ends, and has one at a time.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hookonce::pipeline::identify::EventKey;
use hookonce::store::cells::{Cells, Change, Swapped};
use hookonce::store::file::FileCells;
use hookonce::store::{ClaimOutcome, Completed, Earlier, Entry, Forgotten, Mark, Released, Store, StoreErrorKind};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::support::child::{Child, is_child, say, say_and_stay};
use crate::support::{
    LEASE, LONG_LEASE, PATIENCE, RETENTION, TICK, accepted, accepted_with_reply, event_key, first_claim, key_named, next_claim,
    terms,
};

/// Long enough for the child to be killed and its store to be opened again.
const CHILD_LEASE: Duration = Duration::from_millis(1500);

fn open(directory: &TempDir) -> Store<FileCells> {
    Store::new(FileCells::open(directory.path()).unwrap())
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// What the parent and its child both know the event by.
fn shared_key() -> EventKey {
    key_named("test:orders:evt_shared")
}

#[tokio::test]
async fn everything_is_there_after_opening_again() {
    let (directory, keys) = (tempfile::tempdir().unwrap(), [event_key(), event_key(), event_key(), event_key()]);
    let store = open(&directory);
    let claim = first_claim(&store, &keys[0], &terms(LONG_LEASE)).await;
    let failed = first_claim(&store, &keys[1], &terms(LONG_LEASE)).await;
    store.fail(&failed, Some(502), None).await.unwrap();
    let completed = first_claim(&store, &keys[2], &terms(LONG_LEASE)).await;
    let done = accepted_with_reply(&completed, Some("text/plain"), b"\0ok\n");
    store.complete(&completed, done.clone()).await.unwrap();
    let forgotten = first_claim(&store, &keys[3], &terms(LONG_LEASE)).await;
    store.complete(&forgotten, accepted(&forgotten)).await.unwrap();
    assert_eq!(store.forget(&keys[3]).await.unwrap(), Forgotten::Forgotten);
    store.cells().close().await.unwrap();

    let store = open(&directory);
    // The lease goes on counting, and the claim is still its holder's.
    let outcome = store.claim(&keys[0], &terms(LONG_LEASE)).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::InFlight { lease_left } if lease_left < LONG_LEASE), "{outcome:?}");
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
    assert_eq!(next_claim(&store, &keys[1], &terms(LONG_LEASE)).await.1, Earlier::Failed);
    assert_eq!(store.look(&keys[2]).await.unwrap().unwrap().entry, Entry::Done(done));
    assert_eq!(next_claim(&store, &keys[3], &terms(LONG_LEASE)).await.0.doubt(), Some(Mark::Forgotten));
    store.cells().close().await.unwrap();
}

/// The child: claims, and says so.
async fn child_claims(store: Store<FileCells>) {
    first_claim(&store, &shared_key(), &terms(CHILD_LEASE)).await;
    say_and_stay("claimed");
}

#[tokio::test]
async fn a_claim_survives_kill_9_and_is_held_to_the_end_of_its_lease() {
    if let Some(directory) = is_child() {
        return child_claims(Store::new(FileCells::open(&directory).unwrap())).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let mut child = Child::run("file::a_claim_survives_kill_9_and_is_held_to_the_end_of_its_lease", directory.path());
    assert_eq!(child.says(), "claimed");
    child.kill();

    let store = open(&directory);
    let outcome = store.claim(&shared_key(), &terms(LONG_LEASE)).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
    let (claim, earlier) = next_claim(&store, &shared_key(), &terms(LONG_LEASE)).await;
    assert_eq!((earlier, claim.attempt(), claim.doubt()), (Earlier::Unknown, 2, Some(Mark::Unknown)));
    assert!(began.elapsed() + TICK >= CHILD_LEASE, "taken early: {:?}", began.elapsed());
    store.cells().close().await.unwrap();
}

/// The child: completes one event and fails another, and says so.
async fn child_settles(store: Store<FileCells>) {
    let claim = first_claim(&store, &shared_key(), &terms(LONG_LEASE)).await;
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
    let claim = first_claim(&store, &key_named("test:orders:evt_failed"), &terms(LONG_LEASE)).await;
    assert_eq!(store.fail(&claim, Some(500), None).await.unwrap(), Released::Released);
    say_and_stay("settled");
}

#[tokio::test]
async fn what_was_settled_survives_kill_9() {
    if let Some(directory) = is_child() {
        return child_settles(Store::new(FileCells::open(&directory).unwrap())).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut child = Child::run("file::what_was_settled_survives_kill_9", directory.path());
    assert_eq!(child.says(), "settled");
    child.kill();

    let store = open(&directory);
    assert!(matches!(store.claim(&shared_key(), &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
    let (_, earlier) = next_claim(&store, &key_named("test:orders:evt_failed"), &terms(LONG_LEASE)).await;
    assert_eq!(earlier, Earlier::Failed);
    store.cells().close().await.unwrap();
}

/// The child: claims without end, and says the key of each claim that it was given.
async fn child_claims_without_end(store: Store<FileCells>) {
    let claim_without_end = async |task: u64| {
        for number in 0.. {
            let key = key_named(&format!("test:orders:evt_{task}_{number}"));
            first_claim(&store, &key, &terms(LONG_LEASE)).await;
            say(key.as_str());
        }
    };
    tokio::join!(claim_without_end(0), claim_without_end(1), claim_without_end(2));
}

#[tokio::test]
async fn every_claim_that_was_given_survives_kill_9_in_the_middle_of_more() {
    if let Some(directory) = is_child() {
        return child_claims_without_end(Store::new(FileCells::open(&directory).unwrap())).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut child = Child::run("file::every_claim_that_was_given_survives_kill_9_in_the_middle_of_more", directory.path());
    let mut given: Vec<_> = (0..500).map(|_| child.says()).collect();
    child.kill();
    given.extend(child.said());

    let store = open(&directory);
    for key in given {
        let outcome = store.claim(&key_named(&key), &terms(LONG_LEASE)).await.unwrap();
        assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{key}: {outcome:?}");
    }
    store.cells().close().await.unwrap();
}

/// The child: has opened the store, and says so.
async fn child_opens(_store: Store<FileCells>) {
    say_and_stay("opened");
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_is_gone() {
    if let Some(directory) = is_child() {
        return child_opens(Store::new(FileCells::open(&directory).unwrap())).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut child = Child::run("file::a_second_process_is_refused_until_the_first_is_gone", directory.path());
    assert_eq!(child.says(), "opened");
    let error = FileCells::open(directory.path()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Local);
    let text = error.to_string();
    assert!(text.contains(&directory.path().display().to_string()) && text.contains("single instance"), "{text}");
    child.kill();
    open(&directory).cells().close().await.unwrap();
}

#[tokio::test]
async fn the_directory_is_made_for_its_user_alone() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b");
    let cells = FileCells::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    cells.close().await.unwrap();
}

#[test]
fn what_is_not_a_directory_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = FileCells::open(file.path()).unwrap_err().to_string();
    assert!(text.contains("is not a directory") && text.contains(&file.path().display().to_string()), "{text}");
    let text = FileCells::open(Path::new("/proc/no-such-place")).unwrap_err().to_string();
    assert!(text.contains("/proc/no-such-place"), "{text}");
}

#[tokio::test]
async fn a_closed_store_answers_with_errors() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let clone = store.clone();
    let (first, second) = tokio::join!(store.cells().close(), clone.cells().close());
    first.unwrap();
    second.unwrap();
    store.cells().close().await.unwrap();
    let error = clone.claim(&event_key(), &terms(LEASE)).await.unwrap_err().error;
    assert_eq!(error.kind, StoreErrorKind::Local);
    assert!(error.to_string().contains("closed"), "{error}");
}

#[tokio::test]
async fn dropping_the_last_clone_frees_the_directory_without_waiting() {
    let (directory, key) = (tempfile::tempdir().unwrap(), event_key());
    let store = open(&directory);
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let began = Instant::now();
    drop(store);
    assert!(began.elapsed() < Duration::from_millis(50), "dropping took {:?}", began.elapsed());
    // Opening waits a little for the lock by itself; on a busy machine that may not be enough.
    let store = loop {
        match FileCells::open(directory.path()) {
            Ok(cells) => break Store::new(cells),
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert!(matches!(store.claim(&key, &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::InFlight { .. }));
    store.cells().close().await.unwrap();
}

const COUNTERS: u64 = 16;
const TASKS: u64 = 100;
const ROUNDS: u64 = 25;

#[test]
fn ten_thousand_operations_from_two_runtimes_stay_atomic() {
    let directory = tempfile::tempdir().unwrap();
    let cells = FileCells::open(directory.path()).unwrap();
    runtime().block_on(async {
        for counter in 0..COUNTERS {
            cells.put(&format!("counter:{counter}"), "0 nobody".into(), RETENTION).await.unwrap();
        }
    });
    let half = |tasks: Range<u64>| {
        runtime().block_on(async {
            tasks.map(|task| mixed_operations(cells.clone(), task)).collect::<JoinSet<u64>>().join_all().await
        })
    };
    let first_ones: Vec<u64> = thread::scope(|scope| {
        let halves = [0..TASKS / 2, TASKS / 2..TASKS].map(|tasks| scope.spawn(|| half(tasks)));
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert_eq!(first_ones.into_iter().sum::<u64>(), ROUNDS, "each round's cell was new to one task alone");
    runtime().block_on(async {
        let mut counted = 0;
        for counter in 0..COUNTERS {
            counted += number_in(&cells.read(&format!("counter:{counter}")).await.unwrap().unwrap().value);
        }
        assert_eq!(counted, TASKS * ROUNDS, "nobody's turn was lost");
        cells.close().await.unwrap();
    });
}

/// Four operations a round at least. Tells how often this task was the first at a round's cell.
async fn mixed_operations(cells: FileCells, task: u64) -> u64 {
    let (own, mut first) = (format!("own:{task}"), 0);
    for round in 0..ROUNDS {
        let name = Bytes::from(format!("{task}-{round}"));
        first += u64::from(cells.put_new(&format!("round:{round}"), name.clone(), RETENTION).await.unwrap().is_none());
        count_up(&cells, &format!("counter:{}", (task + round) % COUNTERS), &name).await;
        let before = round.checked_sub(1).map(|before| Bytes::from(format!("{task}-{before}")));
        assert_eq!(cells.put(&own, name.clone(), RETENTION).await.unwrap(), before);
        assert!(cells.touch(&own, name, RETENTION).await.unwrap());
    }
    first
}

/// Adds one by compare-and-set, as often as it takes. The name tells this turn from others that count as far.
async fn count_up(cells: &FileCells, key: &str, name: &Bytes) {
    loop {
        let from = cells.read(key).await.unwrap().unwrap().value;
        let to = format!("{} {}", number_in(&from) + 1, name.escape_ascii()).into();
        if cells.swap(key, Change { from, to, life: RETENTION, at_age: None }).await.unwrap() == Swapped::Written {
            return;
        }
    }
}

fn number_in(value: &Bytes) -> u64 {
    std::str::from_utf8(value).unwrap().split(' ').next().unwrap().parse().unwrap()
}
