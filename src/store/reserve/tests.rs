//! The store that is down and comes back is one in memory here, behind a breaker that the test opens and closes.

use std::sync::Arc;
use std::time::SystemTime;

use super::*;
use crate::config::Fingerprint;
use crate::pipeline::identify::{EventId, fingerprint};
use crate::store::{Earlier, Mark, StoredReply, done};

const RETENTION: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(15);

fn key(id: &str) -> EventKey {
    EventKey::new("test", "github", &EventId::parse(id).unwrap())
}

fn terms() -> Terms {
    let body = fingerprint(&Fingerprint::Body, b"{}");
    Terms { lease: LEASE, retention: RETENTION, body, body_matters: true, doubt: None }
}

fn other_body() -> Terms {
    Terms { body: fingerprint(&Fingerprint::Body, b"[]"), ..terms() }
}

fn in_memory() -> Store {
    Store::new(AnyCells::Memory(MemoryCells::default()).into())
}

fn reserve() -> Reserve {
    Reserve::new(Size(1 << 20), 100)
}

async fn claim_here(reserve: &Reserve, key: &EventKey) -> Claim {
    claim_for(reserve, key, LEASE).await
}

async fn claim_for(reserve: &Reserve, key: &EventKey, lease: Duration) -> Claim {
    match reserve.claim(key, &Terms { lease, ..terms() }).await.unwrap() {
        ClaimOutcome::Claimed { claim, .. } => claim,
        other => panic!("{other:?}"),
    }
}

async fn complete_here(reserve: &Reserve, key: &EventKey) {
    let claim = claim_here(reserve, key).await;
    reserve.local().complete(&claim, done(&claim, 200, SystemTime::UNIX_EPOCH, None)).await.unwrap();
}

#[tokio::test]
async fn everything_is_written_back_once_and_then_forgotten() {
    let (reserve, store) = (reserve(), in_memory());
    let [accepted, failed, unknown, under_way] = ["accepted", "failed", "unknown", "under-way"].map(key);
    complete_here(&reserve, &accepted).await;
    let claim = claim_here(&reserve, &failed).await;
    reserve.local().fail(&claim, Some(500), None).await.unwrap();
    claim_for(&reserve, &unknown, Duration::ZERO).await;
    claim_here(&reserve, &under_way).await;
    assert_eq!(reserve.write_back(&accepted, &store).await.unwrap(), WrittenBack::Done);
    assert_eq!(reserve.write_back(&failed, &store).await.unwrap(), WrittenBack::Nothing);
    assert_eq!(reserve.write_back(&unknown, &store).await.unwrap(), WrittenBack::Doubt);
    assert_eq!(reserve.write_back(&under_way, &store).await.unwrap(), WrittenBack::ClaimedHere);
    assert_eq!(reserve.unsettled(), 1);
    let claim = store.claim(&unknown, &terms()).await.unwrap();
    assert!(matches!(claim, ClaimOutcome::Claimed { claim, earlier: Earlier::Unknown } if claim.doubt() == Some(Mark::Unknown)));
    assert!(matches!(store.claim(&failed, &terms()).await.unwrap(), ClaimOutcome::Claimed { earlier: Earlier::None, .. }));
    assert!(matches!(store.claim(&accepted, &terms()).await.unwrap(), ClaimOutcome::Done(_)));
    // And it is known here for the next outage.
    assert!(matches!(reserve.recall(&accepted, &terms()), Some(ClaimOutcome::Done(_))));
    assert_eq!(reserve.write_back(&accepted, &store).await.unwrap(), WrittenBack::Nothing);
}

#[tokio::test]
async fn what_changes_while_it_is_written_back_is_written_back_again() {
    let (reserve, store) = (reserve(), in_memory());
    let event = key("e1");
    let claim = claim_here(&reserve, &event).await;
    reserve.local().fail(&claim, Some(500), None).await.unwrap();
    let seen = reserve.cells.read(event.as_str()).await.unwrap().unwrap();
    complete_here(&reserve, &event).await;
    reserve.cells.remove(event.as_str(), &seen.value);
    assert_eq!(reserve.write_back(&event, &store).await.unwrap(), WrittenBack::Done);
}

#[tokio::test]
async fn another_body_is_not_answered_for() {
    let reserve = reserve();
    let claim = claim_here(&reserve, &key("e1")).await;
    let reply = Box::new(StoredReply { content_type: None, body: "hello".into() });
    reserve.recent.put(&key("e1"), done(&claim, 200, SystemTime::UNIX_EPOCH, Some(reply)), RETENTION);
    assert!(matches!(reserve.recall(&key("e1"), &terms()), Some(ClaimOutcome::Done(done)) if done.reply.is_some()));
    assert!(matches!(reserve.recall(&key("e1"), &other_body()), Some(ClaimOutcome::Conflict(_))));
    let same_event = Terms { body_matters: false, ..other_body() };
    assert!(matches!(reserve.recall(&key("e1"), &same_event), Some(ClaimOutcome::Done(_))));
    assert!(reserve.recall(&key("e2"), &terms()).is_none());
}

#[tokio::test]
async fn one_that_cannot_be_written_back_does_not_hold_up_the_others() {
    let (reserve, store) = (reserve(), in_memory());
    let (theirs, ours) = (key("theirs"), key("ours"));
    store.cells().put(theirs.as_str(), "of somebody else".into(), RETENTION).await.unwrap();
    claim_for(&reserve, &theirs, Duration::ZERO).await;
    complete_here(&reserve, &ours).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = |result| told.lock().unwrap().push(result);
    tokio::select! {
        never = reserve.keep_writing_back(&store, note) => never,
        () = reserve.settled() => {}
    }
    let mut told = told.lock().unwrap().clone();
    told.sort_by_key(|result| *result as u8);
    assert_eq!(told, [WrittenBack::Done, WrittenBack::Conflict]);
    assert_eq!(store.cells().read(theirs.as_str()).await.unwrap().unwrap().value, "of somebody else");
}

#[tokio::test]
async fn one_that_is_refused_is_kept_and_does_not_hold_up_the_others() {
    let (reserve, full) = (reserve(), Store::new(AnyCells::Memory(MemoryCells::bounded(1)).into()));
    reserve.withdraw(unsure(&full, &key("unsure")).await);
    claim_for(&reserve, &key("unknown"), Duration::ZERO).await;
    reserve.write_all_back(&full, &|_| ()).await.unwrap();
    assert_eq!(reserve.unsettled(), 1);
    assert!(matches!(full.claim(&key("unsure"), &terms()).await.unwrap(), ClaimOutcome::Claimed { earlier: Earlier::None, .. }));
}

#[tokio::test]
async fn claims_that_may_have_been_stored_are_withdrawn() {
    let (reserve, store) = (reserve(), in_memory());
    let keys: Vec<_> = (0..AT_ONCE + 10).map(|n| key(&format!("e{n}"))).collect();
    for key in &keys {
        match store.claim(key, &terms()).await.unwrap() {
            ClaimOutcome::Claimed { claim, .. } => reserve.withdraw(claim),
            other => panic!("{other:?}"),
        }
    }
    let all_free = async {
        while !reserve.is_settled() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        never = reserve.keep_writing_back(&store, |_| ()) => never,
        () = all_free => {}
    }
    for key in &keys {
        assert!(matches!(store.claim(key, &terms()).await.unwrap(), ClaimOutcome::Claimed { earlier: Earlier::None, .. }));
    }
}

#[tokio::test]
async fn a_claim_that_nobody_settles_does_not_keep_a_doubt_from_the_store() {
    let (reserve, store) = (reserve(), in_memory());
    let [live, left] = ["live", "left"].map(key);
    for (key, lease) in [(&live, LEASE), (&left, Duration::ZERO)] {
        store.claim(key, &Terms { lease, ..terms() }).await.unwrap();
        claim_for(&reserve, key, Duration::ZERO).await;
    }
    assert_eq!(reserve.write_back(&live, &store).await.unwrap(), WrittenBack::ClaimedThere);
    assert_eq!(reserve.write_back(&left, &store).await.unwrap(), WrittenBack::Doubt);
    assert_eq!(reserve.unsettled(), 1);
    let claim = store.claim(&left, &terms()).await.unwrap();
    assert!(matches!(claim, ClaimOutcome::Claimed { claim, .. } if (claim.attempt(), claim.doubt()) == (2, Some(Mark::Unknown))));
}

#[tokio::test]
async fn one_that_is_settled_after_all_is_written_back_too() {
    let (reserve, store) = (reserve(), in_memory());
    let claim = claim_for(&reserve, &key("e1"), Duration::ZERO).await;
    assert_eq!(reserve.write_back(&key("e1"), &store).await.unwrap(), WrittenBack::Doubt);
    reserve.write_all_back(&store, &|_| ()).await.unwrap();
    reserve.local().complete(&claim, done(&claim, 200, SystemTime::UNIX_EPOCH, None)).await.unwrap();
    tokio::select! {
        never = reserve.keep_writing_back(&store, |_| ()) => never,
        () = reserve.settled() => {}
    }
    assert!(matches!(store.claim(&key("e1"), &terms()).await.unwrap(), ClaimOutcome::Done(_)));
}

#[tokio::test]
async fn what_has_outlived_its_retention_is_not_waited_for() {
    let (reserve, store) = (reserve(), in_memory());
    claim_here(&reserve, &key("e1")).await;
    let held = reserve.cells.read(key("e1").as_str()).await.unwrap().unwrap();
    reserve.cells.put(key("e1").as_str(), held.value, Duration::ZERO).await.unwrap();
    let settling = async {
        tokio::select! {
            never = reserve.keep_writing_back(&store, |_| ()) => never,
            () = reserve.settled() => {}
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(5), settling).await.is_ok());
}

#[tokio::test]
async fn a_claim_that_comes_after_it_was_withdrawn_is_too_late() {
    let (elsewhere, store) = (in_memory(), in_memory());
    let ClaimOutcome::Claimed { claim, .. } = elsewhere.claim(&key("e1"), &terms()).await.unwrap() else { panic!() };
    store.withdraw(&claim).await.unwrap();
    let found = store.cells().put_new(key("e1").as_str(), claim.stored, RETENTION).await.unwrap();
    assert!(found.is_some());
    let next = store.claim(&key("e1"), &terms()).await.unwrap();
    assert!(matches!(next, ClaimOutcome::Claimed { claim, earlier: Earlier::None } if claim.attempt() == 1));
}

/// Claims an event in the store, as somebody does who will never hear of it.
async fn unsure(store: &Store, key: &EventKey) -> Claim {
    match store.claim(key, &terms()).await.unwrap() {
        ClaimOutcome::Claimed { claim, .. } => claim,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_the_store_does_not_take_is_kept_until_it_does() {
    let (reserve, store) = (reserve(), in_memory());
    let [accepted, unknown, lost] = ["accepted", "unknown", "lost"].map(key);
    complete_here(&reserve, &accepted).await;
    claim_for(&reserve, &unknown, Duration::ZERO).await;
    reserve.withdraw(unsure(&store, &lost).await);
    for _ in 0..3 {
        store.breaker().heard(&Err::<(), _>(StoreError::new(StoreErrorKind::Timeout, "")));
    }
    assert!(reserve.write_back(&accepted, &store).await.is_err());
    assert!(reserve.write_back(&unknown, &store).await.is_err());
    assert!(reserve.withdraw_all(&store).await.is_err());
    assert_eq!(reserve.unsettled(), 2);
    store.breaker().heard(&Ok(()));
    reserve.write_all_back(&store, &|_| ()).await.unwrap();
    assert!(reserve.is_settled());
    assert!(matches!(store.claim(&accepted, &terms()).await.unwrap(), ClaimOutcome::Done(_)));
    assert!(matches!(store.claim(&unknown, &terms()).await.unwrap(), ClaimOutcome::Claimed { earlier: Earlier::Unknown, .. }));
    assert!(matches!(store.claim(&lost, &terms()).await.unwrap(), ClaimOutcome::Claimed { earlier: Earlier::None, .. }));
}

#[tokio::test]
async fn a_claim_that_may_be_stored_keeps_others_out_while_its_event_is_under_way_here() {
    let (reserve, store) = (reserve(), in_memory());
    let event = key("e1");
    reserve.withdraw(unsure(&store, &event).await);
    let claim = claim_here(&reserve, &event).await;
    reserve.write_all_back(&store, &|_| ()).await.unwrap();
    assert!(matches!(store.claim(&event, &terms()).await.unwrap(), ClaimOutcome::InFlight { .. }));
    assert_eq!(reserve.write_back(&event, &store).await.unwrap(), WrittenBack::ClaimedHere);
    reserve.local().fail(&claim, Some(500), None).await.unwrap();
    reserve.write_all_back(&store, &|_| ()).await.unwrap();
    assert!(matches!(store.claim(&event, &terms()).await.unwrap(), ClaimOutcome::Claimed { earlier: Earlier::None, .. }));
}

#[tokio::test]
async fn a_doubt_here_outlives_a_failure_and_a_claim_elsewhere() {
    let (reserve, store) = (reserve(), in_memory());
    let [failed, taken] = ["failed", "taken"].map(key);
    let claim = claim_here(&reserve, &failed).await;
    reserve.local().fail(&claim, None, Some(Mark::Unknown)).await.unwrap();
    claim_for(&reserve, &taken, Duration::ZERO).await;
    let elsewhere = unsure(&store, &taken).await;
    assert_eq!(reserve.write_back(&failed, &store).await.unwrap(), WrittenBack::Doubt);
    assert_eq!(reserve.write_back(&taken, &store).await.unwrap(), WrittenBack::ClaimedThere);
    store.fail(&elsewhere, Some(500), None).await.unwrap();
    assert_eq!(reserve.write_back(&taken, &store).await.unwrap(), WrittenBack::Doubt);
    for event in [&failed, &taken] {
        let outcome = store.claim(event, &terms()).await.unwrap();
        assert!(matches!(outcome, ClaimOutcome::Claimed { earlier: Earlier::Unknown, .. }), "{outcome:?}");
    }
}
