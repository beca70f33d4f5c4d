//! Signed bytes belong to one event at a time. Every test here runs on every store.

use hookonce::pipeline::identify::EventKey;
use hookonce::store::cells::Cells;
use hookonce::store::{Binder, Bound, Claim, Mark, Store, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{
    ClusterRedis, File, Fixture, LEASE, LONG_LEASE, Memory, RETENTION, Redis, RedisWithLeastRights, RedisWithScriptsOnly,
    SealedMemory, SealedRedis, SentinelRedis, accepted, digest, event_key, first_claim, next_claim, terms,
};

on_every_store! {
    bytes_are_of_whoever_binds_them_first
    bytes_of_a_done_event_make_others_its_duplicates
    bytes_of_an_event_under_way_are_not_given_away
    bytes_of_an_event_that_failed_are_taken_over
    bytes_of_an_event_whose_lease_is_over_are_taken_over
    bytes_of_an_event_that_never_came_are_taken_over_after_a_while
    an_event_keeps_its_bytes_from_one_attempt_to_the_next
    who_looked_before_the_event_was_claimed_anew_is_too_late
    what_an_operator_wants_goes_through
    of_many_that_bind_at_once_one_has_them
    a_foreign_value_gives_the_bytes_to_nobody
    what_bytes_belong_to_is_no_event
}

/// A cell that no other test uses.
fn cell() -> String {
    EventKey::binding("test", "orders", digest(event_key().as_str().as_bytes()))
}

fn binder<'a>(key: &'a EventKey, claim: &'a Claim) -> Binder<'a> {
    Binder { key, claim: Some(claim), life: RETENTION, lease: LONG_LEASE, insists: false }
}

async fn bind<C: Cells>(store: &Store<C>, cell: &str, claim: &Claim) -> Bound {
    store.bind(cell, binder(&claim.key, claim)).await.unwrap()
}

/// An event that holds its claim and the bytes.
async fn bound<C: Cells>(store: &Store<C>, cell: &str) -> Claim {
    let claim = first_claim(store, &event_key(), &terms(LONG_LEASE)).await;
    assert!(matches!(bind(store, cell, &claim).await, Bound::Ours));
    claim
}

async fn bytes_are_of_whoever_binds_them_first<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    assert!(matches!(bind(&store, &cell, &first).await, Bound::Ours), "asked again, since the answer was lost");
    bound(&store, &self::cell()).await;
}

async fn bytes_of_a_done_event_make_others_its_duplicates<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    store.complete(&first, accepted(&first)).await.unwrap();
    let second = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    match bind(&store, &cell, &second).await {
        Bound::Done(done) => assert_eq!((done.status, done.attempt), (200, 1)),
        other => panic!("{other:?}"),
    }
}

async fn bytes_of_an_event_under_way_are_not_given_away<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    let second = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    for _ in 0..2 {
        assert!(matches!(bind(&store, &cell, &second).await, Bound::InFlight { lease_left } if lease_left <= LONG_LEASE));
    }
    assert!(matches!(bind(&store, &cell, &first).await, Bound::Ours));
}

async fn bytes_of_an_event_that_failed_are_taken_over<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    store.fail(&first, Some(500), None).await.unwrap();
    let second = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    assert!(matches!(bind(&store, &cell, &second).await, Bound::Taken));
    // Now the first is the one that has to wait, and is not told that the other was done in its place.
    let (again, _) = next_claim(&store, &first.key, &terms(LONG_LEASE)).await;
    assert!(matches!(bind(&store, &cell, &again).await, Bound::InFlight { .. }));
    store.complete(&second, accepted(&second)).await.unwrap();
    let third = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    assert!(matches!(bind(&store, &cell, &third).await, Bound::Done(_)));
    assert!(matches!(bind(&store, &cell, &again).await, Bound::Regained));
    assert!(matches!(bind(&store, &cell, &third).await, Bound::InFlight { .. }));
    store.fail(&again, Some(500), None).await.unwrap();
    assert!(matches!(bind(&store, &cell, &third).await, Bound::Taken));
    store.complete(&third, accepted(&third)).await.unwrap();
    let (again, _) = next_claim(&store, &first.key, &terms(LONG_LEASE)).await;
    assert!(matches!(bind(&store, &cell, &again).await, Bound::Regained), "however many came after it");
}

async fn bytes_of_an_event_whose_lease_is_over_are_taken_over<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = first_claim(&store, &event_key(), &terms(LEASE)).await;
    assert!(matches!(bind(&store, &cell, &first).await, Bound::Ours));
    let second = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    loop {
        match bind(&store, &cell, &second).await {
            Bound::InFlight { lease_left } => sleep(lease_left).await,
            Bound::Taken => break,
            other => panic!("{other:?}"),
        }
    }
}

async fn bytes_of_an_event_that_never_came_are_taken_over_after_a_while<F: Fixture>(fixture: &F) {
    let (store, cell, first) = (fixture.store(), cell(), event_key());
    let early = Binder { key: &first, claim: None, life: RETENTION, lease: LEASE, insists: false };
    assert!(matches!(store.bind(&cell, early).await.unwrap(), Bound::Ours));
    let second = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    let late = Binder { lease: LEASE, ..binder(&second.key, &second) };
    match store.bind(&cell, late).await.unwrap() {
        Bound::InFlight { lease_left } => sleep(lease_left + LEASE).await,
        other => panic!("{other:?}"),
    }
    assert!(matches!(store.bind(&cell, late).await.unwrap(), Bound::Taken));
}

async fn an_event_keeps_its_bytes_from_one_attempt_to_the_next<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    store.fail(&first, Some(500), None).await.unwrap();
    let (again, _) = next_claim(&store, &first.key, &terms(LONG_LEASE)).await;
    assert!(matches!(bind(&store, &cell, &again).await, Bound::Ours));
}

/// Between a look that finds the event failed and taking its bytes over, the event may be claimed anew.
async fn who_looked_before_the_event_was_claimed_anew_is_too_late<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    let before = store.cells().read(&cell).await.unwrap().unwrap().value;
    store.fail(&first, Some(500), None).await.unwrap();
    let (again, _) = next_claim(&store, &first.key, &terms(LONG_LEASE)).await;
    bind(&store, &cell, &again).await;
    assert_ne!(store.cells().read(&cell).await.unwrap().unwrap().value, before, "what the look found is not there any more");
}

async fn what_an_operator_wants_goes_through<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    store.complete(&first, accepted(&first)).await.unwrap();
    let second = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    let insisting = Binder { insists: true, ..binder(&second.key, &second) };
    assert!(matches!(store.bind(&cell, insisting).await.unwrap(), Bound::Taken));
    store.complete(&second, accepted(&second)).await.unwrap();
    // The first was forgotten: it goes through though the second is done.
    store.forget(&first.key).await.unwrap();
    let (again, _) = next_claim(&store, &first.key, &terms(LONG_LEASE)).await;
    assert_eq!(again.doubt(), Some(Mark::Forgotten));
    assert!(matches!(bind(&store, &cell, &again).await, Bound::Taken));
}

async fn of_many_that_bind_at_once_one_has_them<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    let first = bound(&store, &cell).await;
    store.fail(&first, Some(500), None).await.unwrap();
    let mut binding = JoinSet::new();
    for _ in 0..16 {
        let (store, cell) = (store.clone(), cell.clone());
        binding.spawn(async move {
            let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
            bind(&store, &cell, &claim).await
        });
    }
    let all = binding.join_all().await;
    assert_eq!(all.iter().filter(|bound| matches!(bound, Bound::Taken)).count(), 1, "{all:?}");
    assert_eq!(all.iter().filter(|bound| matches!(bound, Bound::InFlight { .. })).count(), 15, "{all:?}");
}

async fn a_foreign_value_gives_the_bytes_to_nobody<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    for value in ["", "x", "1s", "1s|token", "1s||x|1|ee", "1s||600|99|test:orders:e", "1d|200|1||1", "2s||600|1|ee"] {
        let cell = cell();
        store.cells().put(&cell, value.into(), RETENTION).await.unwrap();
        let claim = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
        let error = store.bind(&cell, binder(&claim.key, &claim)).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Foreign, "{value}");
    }
}

async fn what_bytes_belong_to_is_no_event<F: Fixture>(fixture: &F) {
    let (store, cell) = (fixture.store(), cell());
    bound(&store, &cell).await;
    assert!(store.find(&cell, 10).await.unwrap().is_empty());
    assert_eq!(store.look(&EventKey::stored(&cell)).await.unwrap_err().kind, StoreErrorKind::Foreign);
}
