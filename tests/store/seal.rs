//! A store that somebody else can write to: what that one writes is never taken for ours.

use bytes::Bytes;
use hookonce::config::Secret;
use hookonce::store::backlog::{Backlog, Lane, Room, TakeTerms};
use hookonce::store::cells::Cells;
use hookonce::store::memory::MemoryCells;
use hookonce::store::redis::RedisCells;
use hookonce::store::seal::{Seal, Sealed};
use hookonce::store::{Bound, ClaimOutcome, Completed, Enqueued, Entry, Store, StoreError, StoreErrorKind, ToQueue, Token};
use std::sync::Arc;

use crate::support::redis::RedisProcess;
use crate::support::{BUDGET, LONG_LEASE, RETENTION, accepted, digest, event_key, first_claim, seal, server_at, terms};

const ROOM: Room = Room { letters: 100, bytes: 1 << 20, dead_bytes: 1 << 20 };

fn sealed<C>(cells: C) -> Store<Sealed<C>>
where
    Sealed<C>: Cells,
{
    Store::new(Sealed::new(cells, Some(seal())))
}

fn is_foreign(error: &StoreError) -> bool {
    error.kind == StoreErrorKind::Foreign && error.to_string().contains("store.seal")
}

#[tokio::test]
async fn a_forged_completion_suppresses_nothing() {
    let cells = MemoryCells::default();
    let (store, key) = (sealed(cells.clone()), event_key());
    let forged = format!("1d|200|1|{}|1794787700123", digest(b"{}"));
    cells.put(key.as_str(), forged.into(), RETENTION).await.unwrap();
    let error = store.claim(&key, &terms(LONG_LEASE)).await.unwrap_err().error;
    assert!(is_foreign(&error), "{error}");
    assert!(is_foreign(&store.look(&key).await.unwrap_err()));
    assert!(store.find(key.as_str(), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_completion_holds_in_its_own_place_alone() {
    let cells = MemoryCells::default();
    let (store, done, other) = (sealed(cells.clone()), event_key(), event_key());
    let claim = first_claim(&store, &done, &terms(LONG_LEASE)).await;
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
    let value = cells.read(done.as_str()).await.unwrap().unwrap().value;
    assert!(value.starts_with(b"2|") && Entry::decode(&value).is_none(), "{value:?}");
    cells.put(other.as_str(), value, RETENTION).await.unwrap();
    assert!(is_foreign(&store.claim(&other, &terms(LONG_LEASE)).await.unwrap_err().error));
    assert!(matches!(store.claim(&done, &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
}

#[tokio::test]
async fn who_has_no_seal_or_another_one_takes_nothing_for_done_and_nothing_for_free() {
    let cells = MemoryCells::default();
    let another = Arc::new(Seal::new(&Secret::new("a secret of somebody else")).unwrap());
    let stores = [None, Some(seal()), Some(another)].map(|seal| Store::new(Sealed::new(cells.clone(), seal)));
    for (writer, store) in stores.iter().enumerate() {
        let key = event_key();
        let claim = first_claim(store, &key, &terms(LONG_LEASE)).await;
        store.complete(&claim, accepted(&claim)).await.unwrap();
        for (reader, other) in stores.iter().enumerate().filter(|(reader, _)| *reader != writer) {
            let error = other.claim(&key, &terms(LONG_LEASE)).await.unwrap_err().error;
            assert!(is_foreign(&error), "written by {writer}, read by {reader}: {error}");
        }
    }
    for (writer, store) in stores.iter().enumerate() {
        let marker = format!("test:marker-{writer}");
        store.mark(&marker, None, "").await.unwrap();
        for other in stores.iter().enumerate().filter(|(reader, _)| *reader != writer).map(|(_, other)| other) {
            assert!(is_foreign(&other.pulse(&marker).await.unwrap_err()));
            assert!(is_foreign(&other.mark(&marker, None, "").await.unwrap_err()));
        }
    }
}

#[tokio::test]
async fn a_success_is_stored_over_what_somebody_else_has_put_there() {
    let cells = MemoryCells::default();
    let (store, key) = (sealed(cells.clone()), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    cells.put(key.as_str(), "1d|200|1".into(), RETENTION).await.unwrap();
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Overrun);
    assert!(matches!(store.claim(&key, &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
}

#[tokio::test]
async fn a_forged_binding_gives_the_bytes_to_nobody() {
    let cells = MemoryCells::default();
    let (store, key) = (sealed(cells.clone()), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    cells.put("test:orders:=x:event", "1s||600|17|test:orders:othertest:orders:other".into(), RETENTION).await.unwrap();
    let binder = hookonce::store::Binder { key: &key, claim: Some(&claim), life: RETENTION, lease: LONG_LEASE, insists: false };
    assert!(is_foreign(&store.bind("test:orders:=x:event", binder).await.unwrap_err()));
    assert!(matches!(store.bind("test:orders:=y:event", binder).await.unwrap(), Bound::Ours));
}

/// A lane in Redis with one letter in it, and whoever else can write there.
struct Scene {
    process: RedisProcess,
    store: Store<Sealed<RedisCells>>,
    lane: Lane,
    letter: String,
    cell: String,
}

async fn scene() -> Scene {
    let process = RedisProcess::start();
    let store = sealed(server_at(&process.url(), BUDGET).connect());
    let lane = Lane::new("test", "orders");
    let key = lane.beside(&event_key());
    let cell = key.as_str().to_owned();
    let (body, content) = (digest(b"{}"), Bytes::from_static(b"the event"));
    let event = ToQueue { key: Some(key), body, body_matters: true, doubt: None, line: None, content };
    let Enqueued::Added(id) = store.enqueue(&lane, event, ROOM).await.unwrap() else { panic!("it is new") };
    let letter = format!("{}:letter:{id}", lane.prefix());
    Scene { process, store, lane, letter, cell }
}

impl Scene {
    /// What is given out for delivery.
    async fn taken(&self) -> Vec<Bytes> {
        let terms =
            TakeTerms { lease: LONG_LEASE, most: 10, bytes: 1 << 20, token: Token::random().unwrap(), trusts_cells: true };
        let taken = self.store.take(&self.lane, terms).await.unwrap();
        taken.letters.into_iter().map(|letter| letter.content).collect()
    }

    async fn stored(&self, field: &str) -> String {
        self.process.ask(&["HGET", &self.letter, field]).await
    }
}

#[tokio::test]
async fn a_letter_of_ours_is_given_out() {
    let scene = scene().await;
    assert!(scene.stored("content").await.starts_with("2|"));
    assert_eq!(scene.taken().await, ["the event"]);
}

#[tokio::test]
async fn a_forged_completion_does_not_clear_a_letter_away() {
    let scene = scene().await;
    let forged = format!("1d|200|1|{}|1794787700123", digest(b"{}"));
    let () = scene.process.ask(&["SET", &scene.cell, &forged]).await;
    assert_eq!(scene.taken().await, ["the event"]);
}

#[tokio::test]
async fn a_true_completion_clears_its_letter_away() {
    let scene = scene().await;
    let value = accepted(&first_claim(&scene.store, &event_key(), &terms(LONG_LEASE)).await);
    let key = hookonce::pipeline::identify::EventKey::stored(&scene.cell);
    scene.store.record(&key, value, RETENTION).await.unwrap();
    assert_eq!(scene.taken().await, [""; 0]);
    assert_eq!(scene.store.tally(&scene.lane).await.unwrap().letters, 0);
}

#[tokio::test]
async fn a_forged_letter_is_not_given_out_and_not_cleared_away() {
    for (field, value) in [("content", "a forged event"), ("cell", "test:orders:{q01}:another"), ("line", "another")] {
        let scene = scene().await;
        let () = scene.process.ask(&["HSET", &scene.letter, field, value]).await;
        assert_eq!(scene.taken().await, [""; 0], "{field}");
        assert_eq!(scene.store.cells().inner().tally(&scene.lane).await.unwrap().letters, 1, "{field}");
    }
    // The content of one letter, true as it is, in another.
    let scene = scene().await;
    let (content, cell) = (scene.stored("content").await, scene.stored("cell").await);
    let other = format!("{}:letter:{}", scene.lane.prefix(), "0".repeat(28));
    let fields = ["content", &content, "cell", &cell, "line", "", "attempt", "0", "doubt", "", "status", "", "queued", "1"];
    let rest = ["token", "", "bytes", "1"];
    let () = scene.process.ask(&[&["HSET", &other][..], &fields, &rest].concat()).await;
    let () = scene.process.ask(&["ZADD", &format!("{}:due", scene.lane.prefix()), "0", &"0".repeat(28)]).await;
    assert_eq!(scene.taken().await, ["the event"]);
}

#[tokio::test]
async fn letters_under_a_seal_wait_for_who_has_it() {
    let scene = scene().await;
    let unsealed: Store<Sealed<RedisCells>> = Store::new(server_at(&scene.process.url(), BUDGET).connect().into());
    let terms = TakeTerms {
        lease: std::time::Duration::from_millis(1),
        most: 10,
        bytes: 1 << 20,
        token: Token::random().unwrap(),
        trusts_cells: true,
    };
    assert!(unsealed.take(&scene.lane, terms).await.unwrap().letters.is_empty());
    let taken = loop {
        let taken = scene.taken().await;
        if !taken.is_empty() {
            break taken;
        }
    };
    assert_eq!(taken, ["the event"]);
}
