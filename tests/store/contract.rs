//! The contract. Every test here runs on every store.

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hookonce::pipeline::identify::EventKey;
use hookonce::store::cells::{AtAge, Cells, Change, Held, Swapped};
use hookonce::store::{
    Cast, Claim, ClaimOutcome, Completed, Earlier, Entry, Forgotten, Mark, Recorded, Released, Remembered, Store, StoreErrorKind,
    Terms,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::{
    ClusterRedis, File, Fixture, LEASE, LONG_LEASE, Memory, PATIENCE, RETENTION, Redis, RedisWithLeastRights,
    RedisWithScriptsOnly, SealedMemory, SealedRedis, SentinelRedis, TICK, accepted, accepted_with_reply, digest, event_key,
    first_claim, next_claim, terms,
};

on_every_store! {
    of_64_concurrent_claims_one_is_claimed
    of_64_concurrent_takeovers_one_is_claimed
    a_live_claim_is_in_flight_and_tells_the_lease_left
    a_done_event_is_done_with_all_its_fields
    a_stored_reply_comes_back_byte_for_byte
    after_a_failure_the_next_claim_is_not_in_doubt
    after_the_lease_the_next_claim_is_in_doubt
    doubt_goes_through_a_failure
    a_claimer_in_doubt_stays_so_when_it_takes_over_a_failure
    a_failure_may_bring_doubt
    a_late_success_wins_over_a_newer_claim
    a_late_success_wins_over_a_failure
    a_second_success_is_told
    a_late_failure_leaves_a_newer_claim_alone
    a_late_failure_leaves_a_done_event_alone
    renewing_keeps_a_claim_beyond_its_lease
    renewing_fails_once_the_claim_is_taken
    a_lease_is_as_long_as_its_claimer_said
    a_lease_is_as_short_as_its_claimer_said
    the_retention_of_a_second_claimer_does_not_move_the_lease
    a_retention_is_rounded_up_to_whole_seconds
    an_event_is_new_after_its_retention
    a_success_after_the_retention_is_told
    another_body_is_a_conflict_where_it_matters
    another_body_is_the_same_event_where_it_does_not_matter
    a_done_event_can_be_forgotten
    a_failed_event_can_be_forgotten
    a_live_claim_cannot_be_forgotten
    a_claim_whose_lease_is_over_can_be_forgotten
    a_done_event_is_opened_only_while_it_is_the_one_that_was_seen
    a_bypass_lives_for_its_length_and_can_be_ended
    an_unknown_event_is_absent
    keep_extends_what_was_seen_and_nothing_else
    keep_does_not_renew_a_claim
    look_shows_a_claim_and_its_lease
    find_takes_the_prefix_literally
    find_gives_no_more_than_the_limit
    find_leaves_out_what_is_foreign
    a_foreign_value_is_neither_free_nor_done
    a_claim_that_is_withdrawn_was_never_made
    withdrawing_leaves_others_alone
    a_first_claim_may_be_in_doubt_from_the_start
    a_completion_that_is_recorded_later_wins_and_tells_of_another
    a_doubt_that_is_cast_later_sticks_unless_the_event_is_done
    a_doubt_waits_for_a_claim_to_end
    a_doubt_does_not_wait_for_a_claim_that_nobody_settles
    what_is_written_back_leaves_foreign_values_alone
    the_marker_is_made_once_and_tells_of_changes
    of_concurrent_resets_the_latest_is_dated
    a_repeated_put_new_is_recognised
    a_repeated_swap_is_recognised
    a_swap_compares_and_looks_at_the_age
    put_gives_back_what_was_there
    a_touch_makes_a_value_young_again
    a_cell_may_hold_any_bytes
    the_store_answers_a_ping
}

/// Claims one key 64 times at once, from several threads that have a runtime each.
fn claim_64_times<F: Fixture>(fixture: &F, key: &EventKey, terms: Terms) -> Vec<ClaimOutcome> {
    let claim_16_times = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut claims = JoinSet::new();
            let store = fixture.store();
            for _ in 0..16 {
                let (store, key) = (store.clone(), key.clone());
                claims.spawn(async move { store.claim(&key, &terms).await.unwrap() });
            }
            claims.join_all().await
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim_16_times)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn is_claimed(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Claimed { .. })
}

fn is_in_flight(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::InFlight { .. })
}

async fn remembered<C: Cells>(store: &Store<C>, key: &EventKey) -> Remembered {
    store.look(key).await.unwrap().expect("the store knows the event")
}

/// Waits for a condition that comes with time.
async fn eventually<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let until = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < until, "waited in vain");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A claim that has been taken over, and the one that took it.
async fn overrun<C: Cells>(store: &Store<C>, key: &EventKey) -> (Claim, Claim) {
    let old = first_claim(store, key, &terms(LEASE)).await;
    let (new, _) = next_claim(store, key, &terms(LONG_LEASE)).await;
    (old, new)
}

async fn of_64_concurrent_claims_one_is_claimed<F: Fixture>(fixture: &F) {
    let outcomes = claim_64_times(fixture, &event_key(), terms(LONG_LEASE));
    assert_eq!(outcomes.iter().filter(|outcome| is_claimed(outcome)).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| is_in_flight(outcome)).count(), 63);
}

async fn of_64_concurrent_takeovers_one_is_claimed<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.fail(&claim, Some(500), None).await.unwrap();
    let outcomes = claim_64_times(fixture, &key, terms(LONG_LEASE));
    let claimed: Vec<_> = outcomes.iter().filter(|outcome| is_claimed(outcome)).collect();
    assert!(
        matches!(claimed[..], [ClaimOutcome::Claimed { claim, earlier: Earlier::Failed }] if claim.attempt() == 2),
        "{claimed:?}"
    );
    assert_eq!(outcomes.iter().filter(|outcome| is_in_flight(outcome)).count(), 63);
}

async fn a_live_claim_is_in_flight_and_tells_the_lease_left<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let began = Instant::now();
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let outcome = store.claim(&key, &terms(LONG_LEASE)).await.unwrap();
    let ClaimOutcome::InFlight { lease_left } = outcome else { panic!("{outcome:?}") };
    let least = LONG_LEASE.saturating_sub(began.elapsed() + TICK);
    assert!(lease_left <= LONG_LEASE && lease_left >= least, "{lease_left:?}");
}

async fn a_done_event_is_done_with_all_its_fields<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let done = accepted(&claim);
    assert_eq!(store.complete(&claim, done.clone()).await.unwrap(), Completed::Own);
    // Sent again because its answer was lost.
    assert_eq!(store.complete(&claim, done.clone()).await.unwrap(), Completed::Own);
    let outcome = store.claim(&key, &terms(LONG_LEASE)).await.unwrap();
    assert!(matches!(&outcome, ClaimOutcome::Done(found) if *found == done), "{outcome:?}");
    let found = remembered(&store, &key).await;
    assert_eq!((&found.entry, found.lease_left), (&Entry::Done(done), None));
    assert!(found.left <= RETENTION && found.left > RETENTION - PATIENCE, "{:?}", found.left);
}

async fn a_stored_reply_comes_back_byte_for_byte<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    let replies: [(Option<&str>, &'static [u8]); 4] =
        [(Some("text/xml"), b"<a/>"), (None, b"\0\xff\n|\r\n\n"), (Some("a/b; c=d"), b"\n\n"), (None, b"")];
    for (content_type, body) in replies {
        let key = event_key();
        let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
        let done = accepted_with_reply(&claim, content_type, body);
        store.complete(&claim, done.clone()).await.unwrap();
        let outcome = store.claim(&key, &terms(LONG_LEASE)).await.unwrap();
        assert!(matches!(&outcome, ClaimOutcome::Done(found) if *found == done), "{outcome:?}");
    }
}

async fn after_a_failure_the_next_claim_is_not_in_doubt<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let first = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!(store.fail(&first, Some(503), None).await.unwrap(), Released::Released);
    let found = remembered(&store, &key).await;
    let Entry::Failed(failed) = found.entry else { panic!("not failed") };
    assert_eq!((failed.attempt, failed.doubt, failed.status), (1, None, Some(503)));
    assert!(found.left > RETENTION - PATIENCE, "{:?}", found.left);
    let (second, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((earlier, second.attempt(), second.doubt()), (Earlier::Failed, 2, None));
}

async fn a_claimer_in_doubt_stays_so_when_it_takes_over_a_failure<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let first = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!(store.fail(&first, Some(503), None).await.unwrap(), Released::Released);
    // The failure may be all that a store which lost its latest writes has kept of the event.
    let in_doubt = Terms { doubt: Some(Mark::StoreReset), ..terms(LONG_LEASE) };
    let (second, earlier) = next_claim(&store, &key, &in_doubt).await;
    assert_eq!((earlier, second.attempt(), second.doubt()), (Earlier::Unknown, 2, Some(Mark::StoreReset)));
}

async fn after_the_lease_the_next_claim_is_in_doubt<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let began = Instant::now();
    first_claim(&store, &key, &terms(LEASE)).await;
    let (second, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((earlier, second.attempt(), second.doubt()), (Earlier::Unknown, 2, Some(Mark::Unknown)));
    assert!(began.elapsed() + TICK >= LEASE, "taken early: {:?}", began.elapsed());
}

async fn doubt_goes_through_a_failure<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (_, second) = overrun(&store, &key).await;
    assert_eq!(store.fail(&second, Some(500), None).await.unwrap(), Released::Released);
    let (third, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((earlier, third.attempt(), third.doubt()), (Earlier::Unknown, 3, Some(Mark::Unknown)));
}

async fn a_failure_may_bring_doubt<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let first = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.fail(&first, None, Some(Mark::Unknown)).await.unwrap();
    let (second, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((earlier, second.doubt()), (Earlier::Unknown, Some(Mark::Unknown)));
}

async fn a_late_success_wins_over_a_newer_claim<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (old, _) = overrun(&store, &key).await;
    assert_eq!(store.complete(&old, accepted(&old)).await.unwrap(), Completed::Overrun);
    let outcome = store.claim(&key, &terms(LONG_LEASE)).await.unwrap();
    assert!(matches!(&outcome, ClaimOutcome::Done(done) if done.attempt == 1), "{outcome:?}");
}

async fn a_late_success_wins_over_a_failure<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (old, new) = overrun(&store, &key).await;
    store.fail(&new, Some(500), None).await.unwrap();
    assert_eq!(store.complete(&old, accepted(&old)).await.unwrap(), Completed::Overrun);
    assert!(matches!(store.claim(&key, &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
}

async fn a_second_success_is_told<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (old, new) = overrun(&store, &key).await;
    store.complete(&old, accepted(&old)).await.unwrap();
    assert_eq!(store.complete(&new, accepted(&new)).await.unwrap(), Completed::Again);
}

async fn a_late_failure_leaves_a_newer_claim_alone<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (old, new) = overrun(&store, &key).await;
    assert_eq!(store.fail(&old, Some(500), None).await.unwrap(), Released::LeaseLost);
    assert!(is_in_flight(&store.claim(&key, &terms(LONG_LEASE)).await.unwrap()));
    assert_eq!(store.complete(&new, accepted(&new)).await.unwrap(), Completed::Own);
}

async fn a_late_failure_leaves_a_done_event_alone<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (old, new) = overrun(&store, &key).await;
    let done = accepted(&new);
    store.complete(&new, done.clone()).await.unwrap();
    assert_eq!(store.fail(&old, Some(500), None).await.unwrap(), Released::Done(done.clone()));
    assert_eq!(remembered(&store, &key).await.entry, Entry::Done(done));
}

async fn renewing_keeps_a_claim_beyond_its_lease<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let began = Instant::now();
    let claim = first_claim(&store, &key, &terms(LEASE)).await;
    while began.elapsed() < LEASE * 2 {
        assert!(store.renew(&claim).await.unwrap());
        assert!(is_in_flight(&store.claim(&key, &terms(LONG_LEASE)).await.unwrap()));
        sleep(LEASE / 10).await;
    }
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
}

async fn renewing_fails_once_the_claim_is_taken<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (old, new) = overrun(&store, &key).await;
    assert!(!store.renew(&old).await.unwrap());
    assert!(store.renew(&new).await.unwrap());
    store.complete(&new, accepted(&new)).await.unwrap();
    assert!(!store.renew(&new).await.unwrap(), "a done event has no lease");
}

async fn a_lease_is_as_long_as_its_claimer_said<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let outcome = store.claim(&key, &terms(Duration::from_millis(1))).await.unwrap();
    let ClaimOutcome::InFlight { lease_left } = outcome else { panic!("{outcome:?}") };
    assert!(lease_left > LONG_LEASE - PATIENCE, "{lease_left:?}");
}

async fn a_lease_is_as_short_as_its_claimer_said<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LEASE)).await;
    let outcome = store.claim(&key, &terms(LONG_LEASE)).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::InFlight { lease_left } if lease_left <= LEASE), "{outcome:?}");
}

async fn the_retention_of_a_second_claimer_does_not_move_the_lease<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    for retention in [Duration::from_secs(1), RETENTION / 2, RETENTION * 1000] {
        let outcome = store.claim(&key, &Terms { retention, ..terms(LONG_LEASE) }).await.unwrap();
        let ClaimOutcome::InFlight { lease_left } = outcome else { panic!("{outcome:?}") };
        assert!(lease_left <= LONG_LEASE && lease_left > LONG_LEASE - PATIENCE, "{lease_left:?} with {retention:?}");
    }
}

async fn a_retention_is_rounded_up_to_whole_seconds<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let terms = Terms { retention: Duration::from_millis(599_001), ..terms(LONG_LEASE) };
    first_claim(&store, &key, &terms).await;
    let found = remembered(&store, &key).await;
    assert!(found.left > Duration::from_secs(600) - PATIENCE && found.left <= Duration::from_secs(600), "{:?}", found.left);
    assert!(found.lease_left.is_some_and(|left| left <= LONG_LEASE), "{:?}", found.lease_left);
}

async fn an_event_is_new_after_its_retention<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let brief = Terms { retention: Duration::from_secs(1), ..terms(LEASE) };
    let began = Instant::now();
    let claim = first_claim(&store, &key, &brief).await;
    store.complete(&claim, accepted(&claim)).await.unwrap();
    eventually(|| async { store.look(&key).await.unwrap().is_none() }).await;
    assert!(began.elapsed() + TICK >= brief.retention, "forgotten early: {:?}", began.elapsed());
    assert!(store.find(key.as_str(), 10).await.unwrap().is_empty());
    first_claim(&store, &key, &brief).await;
}

async fn a_success_after_the_retention_is_told<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &Terms { retention: Duration::from_secs(1), ..terms(LEASE) }).await;
    eventually(|| async { store.look(&key).await.unwrap().is_none() }).await;
    assert_eq!(store.fail(&claim, Some(500), None).await.unwrap(), Released::LeaseLost);
    assert!(!store.renew(&claim).await.unwrap());
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Lost);
    assert!(matches!(store.claim(&key, &terms(LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
}

async fn another_body_is_a_conflict_where_it_matters<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let other = Terms { body: digest(b"[]"), ..terms(LONG_LEASE) };
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let outcome = store.claim(&key, &other).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Conflict(Entry::Claimed(_))), "{outcome:?}");
    store.fail(&claim, Some(500), None).await.unwrap();
    let outcome = store.claim(&key, &other).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Conflict(Entry::Failed(_))), "{outcome:?}");
    store.complete(&claim, accepted(&claim)).await.unwrap();
    let outcome = store.claim(&key, &other).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Conflict(Entry::Done(_))), "{outcome:?}");
}

async fn another_body_is_the_same_event_where_it_does_not_matter<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let other = Terms { body: digest(b"[]"), body_matters: false, ..terms(LONG_LEASE) };
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert!(is_in_flight(&store.claim(&key, &other).await.unwrap()));
    store.complete(&claim, accepted(&claim)).await.unwrap();
    assert!(matches!(store.claim(&key, &other).await.unwrap(), ClaimOutcome::Done(_)));
}

/// What a forgotten event is: free for the next delivery, which is marked, through failures too.
async fn is_forgotten<C: Cells>(store: &Store<C>, key: &EventKey, attempt: u32) {
    let (claim, earlier) = next_claim(store, key, &terms(LONG_LEASE)).await;
    assert_eq!((earlier, claim.attempt(), claim.doubt()), (Earlier::Unknown, attempt, Some(Mark::Forgotten)));
    store.fail(&claim, Some(500), None).await.unwrap();
    let (claim, earlier) = next_claim(store, key, &terms(LONG_LEASE)).await;
    assert_eq!((earlier, claim.attempt(), claim.doubt()), (Earlier::Unknown, attempt + 1, Some(Mark::Forgotten)));
}

async fn a_done_event_can_be_forgotten<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.complete(&claim, accepted(&claim)).await.unwrap();
    assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Forgotten);
    is_forgotten(&store, &key, 2).await;
}

async fn a_failed_event_can_be_forgotten<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.fail(&claim, Some(500), None).await.unwrap();
    assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Forgotten);
    // Twice is the same.
    assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Forgotten);
    is_forgotten(&store, &key, 2).await;
}

async fn a_live_claim_cannot_be_forgotten<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let forgotten = store.forget(&key).await.unwrap();
    let Forgotten::InFlight { lease_left } = forgotten else { panic!("{forgotten:?}") };
    assert!(lease_left <= LONG_LEASE && lease_left > LONG_LEASE - PATIENCE, "{lease_left:?}");
    assert_eq!(store.complete(&claim, accepted(&claim)).await.unwrap(), Completed::Own);
}

async fn a_claim_whose_lease_is_over_can_be_forgotten<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LEASE)).await;
    eventually(|| async { store.forget(&key).await.unwrap() == Forgotten::Forgotten }).await;
    is_forgotten(&store, &key, 2).await;
}

async fn a_done_event_is_opened_only_while_it_is_the_one_that_was_seen<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let done = accepted_with_reply(&claim, Some("text/plain"), b"a\nreply");
    assert!(!store.reopen(&key, &done, Mark::Replay, RETENTION).await.unwrap(), "it is claimed");
    store.complete(&claim, done.clone()).await.unwrap();
    let other = hookonce::store::Done { attempt: 7, ..done.clone() };
    assert!(!store.reopen(&key, &other, Mark::Replay, RETENTION).await.unwrap());
    assert!(store.reopen(&key, &done, Mark::Replay, RETENTION).await.unwrap());
    let (again, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((again.attempt(), again.doubt(), earlier), (2, Some(Mark::Replay), Earlier::Unknown));
    assert!(!store.reopen(&key, &done, Mark::Replay, RETENTION).await.unwrap(), "it is claimed again");
}

async fn a_bypass_lives_for_its_length_and_can_be_ended<F: Fixture>(fixture: &F) {
    let (store, minute) = (fixture.store(), Duration::from_secs(60));
    assert_eq!(store.bypass("n:bypass-p").await.unwrap(), None);
    assert!(!store.set_bypass("n:bypass-p", Some(minute)).await.unwrap());
    let left = store.bypass("n:bypass-p").await.unwrap().unwrap();
    assert!(left <= minute && left > minute - PATIENCE, "{left:?}");
    assert!(store.set_bypass("n:bypass-p", None).await.unwrap());
    assert_eq!(store.bypass("n:bypass-p").await.unwrap(), None);
    assert!(!store.set_bypass("n:bypass-p", None).await.unwrap(), "it was ended before");
    store.set_bypass("n:bypass-p", Some(Duration::from_secs(1))).await.unwrap();
    eventually(|| async { store.bypass("n:bypass-p").await.unwrap().is_none() }).await;
}

async fn an_unknown_event_is_absent<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Absent);
    assert!(store.look(&key).await.unwrap().is_none());
    first_claim(&store, &key, &terms(LEASE)).await;
}

async fn keep_extends_what_was_seen_and_nothing_else<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &Terms { retention: Duration::from_secs(100), ..terms(LONG_LEASE) }).await;
    let done = accepted_with_reply(&claim, None, b"\n");
    store.complete(&claim, done.clone()).await.unwrap();
    let other = Entry::Done(hookonce::store::Done { status: 299, ..done.clone() });
    assert!(!store.keep(&key, &other, RETENTION).await.unwrap());
    assert!(remembered(&store, &key).await.left <= Duration::from_secs(100));
    let seen = remembered(&store, &key).await.entry;
    assert!(store.keep(&key, &seen, RETENTION).await.unwrap());
    let kept = remembered(&store, &key).await;
    assert_eq!(kept.entry, Entry::Done(done));
    assert!(kept.left > RETENTION - PATIENCE, "{:?}", kept.left);
    assert!(!store.keep(&event_key(), &seen, RETENTION).await.unwrap(), "of another event");
}

async fn keep_does_not_renew_a_claim<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let seen = remembered(&store, &key).await.entry;
    assert!(!store.keep(&key, &seen, RETENTION * 2).await.unwrap());
    assert!(remembered(&store, &key).await.left <= RETENTION);
}

async fn look_shows_a_claim_and_its_lease<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LEASE)).await;
    let found = remembered(&store, &key).await;
    let Entry::Claimed(claimed) = found.entry else { panic!("{:?}", found.entry) };
    assert_eq!((claimed.attempt, claimed.lease, claimed.retention), (1, LEASE, RETENTION));
    assert_eq!((claimed.body, found.key.as_str()), (digest(b"{}"), key.as_str()));
    assert!(found.lease_left.is_some_and(|left| left <= LEASE), "{:?}", found.lease_left);
    eventually(|| async { remembered(&store, &key).await.lease_left == Some(Duration::ZERO) }).await;
}

async fn find_takes_the_prefix_literally<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    let names = ["a*b:1", "a*b:2", "axb:1", "a?b:1", "[ab]:1", "a:1", "b:1", "a\\b:1", "a", "ä:1", "^a:1", "[^a]:1"];
    // No event has such a key; the search must not rely on that.
    let key = event_key();
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    let entry = store.cells().read(key.as_str()).await.unwrap().unwrap().value;
    for name in names {
        assert_eq!(store.cells().put_new(name, entry.clone(), RETENTION).await.unwrap(), None);
    }
    let names = names.into_iter().chain([key.as_str()]);
    for prefix in ["a*b:", "a?b", "[ab]:", "a:", "a\\b", "a\\", "ä", "[^", "a", "", "c"] {
        let mut found: Vec<_> = store.find(prefix, 10_000).await.unwrap().into_iter().map(|found| found.key).collect();
        // The store may be shared with other tests.
        found.retain(|key| names.clone().any(|name| name == key));
        let mut expected: Vec<_> = names.clone().filter(|name| name.starts_with(prefix)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{prefix}");
    }
}

async fn find_gives_no_more_than_the_limit<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    // More than any store looks at in one step.
    for number in 0..600 {
        let value = Bytes::from_static(b"1d|200|1|44136fa355b3678a1146ad16f7e8649e|0");
        store.cells().put_new(&format!("many:{number}"), value, RETENTION).await.unwrap();
    }
    for (limit, expected) in [(0, 0), (1, 1), (257, 257), (599, 599), (600, 600), (1000, 600)] {
        let mut keys: Vec<_> = store.find("many:", limit).await.unwrap().into_iter().map(|found| found.key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), expected, "of {limit}");
    }
}

async fn find_leaves_out_what_is_foreign<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.cells().put(&format!("{}:x", key.as_str()), Bytes::from_static(b"x"), RETENTION).await.unwrap();
    let found = store.find(key.as_str(), 10).await.unwrap();
    assert_eq!(found.into_iter().map(|found| found.key).collect::<Vec<_>>(), [key.as_str()]);
}

async fn a_foreign_value_is_neither_free_nor_done<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    for value in ["", "1", "x", "1d|200", "2d|200|1|44136fa355b3678a1146ad16f7e8649e|0"] {
        let key = event_key();
        store.cells().put(key.as_str(), Bytes::from_static(value.as_bytes()), RETENTION).await.unwrap();
        assert_eq!(store.claim(&key, &terms(LEASE)).await.unwrap_err().error.kind, StoreErrorKind::Foreign, "{value}");
        assert_eq!(store.look(&key).await.unwrap_err().kind, StoreErrorKind::Foreign, "{value}");
        assert_eq!(store.forget(&key).await.unwrap_err().kind, StoreErrorKind::Foreign, "{value}");
        let held = store.cells().read(key.as_str()).await.unwrap().unwrap();
        assert_eq!(held.value, value, "left as it was");
    }
}

fn bytes(value: &'static str) -> Bytes {
    Bytes::from_static(value.as_bytes())
}

fn change(from: &'static str, to: &'static str) -> Change {
    Change { from: bytes(from), to: bytes(to), life: RETENTION, at_age: None }
}

async fn a_repeated_put_new_is_recognised<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (cells, key) = (store.cells(), key.as_str());
    assert_eq!(cells.put_new(key, bytes("one"), RETENTION).await.unwrap(), None);
    assert_eq!(cells.put_new(key, bytes("one"), RETENTION).await.unwrap(), None);
    assert_eq!(cells.put_new(key, bytes("two"), RETENTION).await.unwrap(), Some(bytes("one")));
    assert_eq!(cells.put_new(key, bytes("one"), RETENTION).await.unwrap(), None, "not overwritten");
}

async fn a_repeated_swap_is_recognised<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (cells, key) = (store.cells(), key.as_str());
    cells.put(key, bytes("one"), RETENTION).await.unwrap();
    assert_eq!(cells.swap(key, change("one", "two")).await.unwrap(), Swapped::Written);
    assert_eq!(cells.swap(key, change("one", "two")).await.unwrap(), Swapped::Written);
    // Also where it was made at an age: the new value is young.
    let aged = Change { at_age: Some(AtAge { life: RETENTION, least: LONG_LEASE }), ..change("one", "two") };
    assert_eq!(cells.swap(key, aged).await.unwrap(), Swapped::Written);
}

async fn a_swap_compares_and_looks_at_the_age<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (cells, key) = (store.cells(), key.as_str());
    assert_eq!(cells.swap(key, change("one", "two")).await.unwrap(), Swapped::Differs(None));
    cells.put(key, bytes("three"), RETENTION).await.unwrap();
    assert_eq!(cells.swap(key, change("one", "two")).await.unwrap(), Swapped::Differs(Some(bytes("three"))));
    let aged = |least| Change { at_age: Some(AtAge { life: RETENTION, least }), ..change("three", "four") };
    let swapped = cells.swap(key, aged(LONG_LEASE)).await.unwrap();
    assert!(matches!(swapped, Swapped::Young(missing) if missing > LONG_LEASE - PATIENCE), "{swapped:?}");
    eventually(|| async { cells.swap(key, aged(LEASE)).await.unwrap() == Swapped::Written }).await;
    let held = cells.read(key).await.unwrap();
    assert!(held.is_some_and(|Held { value, left }| value == "four" && left > RETENTION - LEASE));
}

async fn put_gives_back_what_was_there<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (cells, key) = (store.cells(), key.as_str());
    assert_eq!(cells.put(key, bytes("one"), RETENTION).await.unwrap(), None);
    assert_eq!(cells.put(key, bytes("two"), RETENTION).await.unwrap(), Some(bytes("one")));
    assert_eq!(cells.put(key, bytes("two"), RETENTION).await.unwrap(), Some(bytes("two")));
}

async fn a_touch_makes_a_value_young_again<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (cells, key) = (store.cells(), key.as_str());
    assert!(!cells.touch(key, bytes("one"), RETENTION).await.unwrap(), "nothing there");
    cells.put(key, bytes("one"), LONG_LEASE).await.unwrap();
    assert!(!cells.touch(key, bytes("two"), RETENTION).await.unwrap(), "another value");
    assert!(cells.read(key).await.unwrap().is_some_and(|held| held.left <= LONG_LEASE));
    for _ in 0..2 {
        assert!(cells.touch(key, bytes("one"), RETENTION).await.unwrap());
        assert!(cells.read(key).await.unwrap().is_some_and(|held| held.left > RETENTION - PATIENCE));
    }
}

async fn a_cell_may_hold_any_bytes<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let (cells, key) = (store.cells(), key.as_str());
    let values = [Bytes::new(), (0..=255).collect(), vec![0xff; 100_000].into()];
    for value in &values {
        cells.put(key, value.clone(), RETENTION).await.unwrap();
        assert_eq!(cells.put_new(key, bytes("other"), RETENTION).await.unwrap().as_ref(), Some(value));
        assert!(cells.touch(key, value.clone(), RETENTION).await.unwrap());
        let there_and_back = [(value.clone(), bytes("between")), (bytes("between"), value.clone())];
        for (from, to) in there_and_back {
            let swapped = cells.swap(key, Change { from, to, life: RETENTION, at_age: None }).await.unwrap();
            assert_eq!(swapped, Swapped::Written);
        }
        assert_eq!(cells.read(key).await.unwrap().map(|held| held.value).as_ref(), Some(value));
    }
}

async fn the_store_answers_a_ping<F: Fixture>(fixture: &F) {
    fixture.store().pulse("marker").await.unwrap();
}

async fn a_claim_that_is_withdrawn_was_never_made<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    for _ in 0..2 {
        store.withdraw(&claim).await.unwrap();
    }
    // The next one is a first one again.
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.fail(&claim, Some(500), None).await.unwrap();
    let (second, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((second.attempt(), earlier), (2, Earlier::Failed));
    store.withdraw(&second).await.unwrap();
    let (again, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((again.attempt(), again.doubt(), earlier), (2, None, Earlier::Failed));
    // Doubt is not taken back with the claim that carried it.
    store.fail(&again, None, Some(Mark::Unknown)).await.unwrap();
    let (third, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.withdraw(&third).await.unwrap();
    assert!(remembered(&store, &key).await.left > RETENTION - PATIENCE);
    let (again, earlier) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((again.attempt(), again.doubt(), earlier), (3, Some(Mark::Unknown), Earlier::Unknown));
}

async fn withdrawing_leaves_others_alone<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &key, &terms(LEASE)).await;
    let (newer, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.withdraw(&claim).await.unwrap();
    assert!(store.renew(&newer).await.unwrap(), "the newer claim is there");
    store.complete(&newer, accepted(&newer)).await.unwrap();
    store.withdraw(&newer).await.unwrap();
    assert!(matches!(store.claim(&key, &terms(LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
}

async fn a_first_claim_may_be_in_doubt_from_the_start<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let doubtful = Terms { doubt: Some(Mark::StoreReset), ..terms(LONG_LEASE) };
    let (claim, earlier) = next_claim(&store, &key, &doubtful).await;
    assert_eq!((claim.attempt(), claim.doubt(), earlier), (1, Some(Mark::StoreReset), Earlier::Unknown));
    store.fail(&claim, Some(500), None).await.unwrap();
    let (second, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!(second.doubt(), Some(Mark::StoreReset));
}

async fn a_completion_that_is_recorded_later_wins_and_tells_of_another<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    let [absent, failed, claimed, done] = [event_key(), event_key(), event_key(), event_key()];
    let pattern = first_claim(&store, &event_key(), &terms(LONG_LEASE)).await;
    let ours = accepted(&pattern);
    let theirs = first_claim(&store, &failed, &terms(LONG_LEASE)).await;
    store.fail(&theirs, Some(500), None).await.unwrap();
    first_claim(&store, &claimed, &terms(LONG_LEASE)).await;
    let theirs = first_claim(&store, &done, &terms(LONG_LEASE)).await;
    store.complete(&theirs, accepted_with_reply(&theirs, None, b"theirs")).await.unwrap();
    let expected = [(absent, Recorded::New), (failed, Recorded::New), (claimed, Recorded::New), (done, Recorded::Again)];
    for (key, expected) in expected {
        assert_eq!(store.record(&key, ours.clone(), RETENTION).await.unwrap(), expected);
        // Told twice, it is still the same success.
        assert_eq!(store.record(&key, ours.clone(), RETENTION).await.unwrap(), Recorded::New);
        let seen = store.look(&key).await.unwrap().unwrap();
        assert_eq!(seen.entry, Entry::Done(ours.clone()));
        assert!(seen.left > RETENTION - PATIENCE);
    }
}

async fn a_doubt_that_is_cast_later_sticks_unless_the_event_is_done<F: Fixture>(fixture: &F) {
    let store = fixture.store();
    let lost = first_claim(&store, &event_key(), &terms(LEASE)).await;
    let ended = store.look(&lost.key).await.unwrap().unwrap().entry;
    let [absent, failed, done] = [event_key(), event_key(), event_key()];
    let claim = first_claim(&store, &failed, &terms(LONG_LEASE)).await;
    store.fail(&claim, Some(500), None).await.unwrap();
    let claim = first_claim(&store, &done, &terms(LONG_LEASE)).await;
    store.complete(&claim, accepted(&claim)).await.unwrap();
    for (key, expected) in [(&absent, Cast::Cast), (&failed, Cast::Cast), (&done, Cast::Done)] {
        for _ in 0..2 {
            assert_eq!(store.cast_doubt(key, &ended, RETENTION).await.unwrap(), expected);
        }
    }
    for key in [&absent, &failed] {
        assert!(remembered(&store, key).await.left > RETENTION - PATIENCE);
        let (claim, earlier) = next_claim(&store, key, &terms(LONG_LEASE)).await;
        assert_eq!((claim.attempt(), claim.doubt(), earlier), (2, Some(Mark::Unknown), Earlier::Unknown));
    }
    assert!(matches!(store.claim(&done, &terms(LEASE)).await.unwrap(), ClaimOutcome::Done(_)));
}

async fn a_doubt_waits_for_a_claim_to_end<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let lost = first_claim(&store, &event_key(), &terms(LEASE)).await;
    let ended = store.look(&lost.key).await.unwrap().unwrap().entry;
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!(store.cast_doubt(&key, &ended, RETENTION).await.unwrap(), Cast::Claimed);
    assert!(store.renew(&claim).await.unwrap(), "the claim is untouched");
    store.fail(&claim, Some(500), None).await.unwrap();
    assert_eq!(store.cast_doubt(&key, &ended, RETENTION).await.unwrap(), Cast::Cast);
    assert_eq!(next_claim(&store, &key, &terms(LONG_LEASE)).await.0.doubt(), Some(Mark::Unknown));
}

async fn a_doubt_does_not_wait_for_a_claim_that_nobody_settles<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let lost = first_claim(&store, &event_key(), &terms(LEASE)).await;
    let ended = store.look(&lost.key).await.unwrap().unwrap().entry;
    first_claim(&store, &key, &terms(LEASE)).await;
    let began = Instant::now();
    while store.cast_doubt(&key, &ended, RETENTION).await.unwrap() != Cast::Cast {
        assert!(began.elapsed() < LEASE + PATIENCE, "its lease has been over for long");
        sleep(TICK).await;
    }
    let (claim, _) = next_claim(&store, &key, &terms(LONG_LEASE)).await;
    assert_eq!((claim.attempt(), claim.doubt()), (2, Some(Mark::Unknown)));
}

async fn what_is_written_back_leaves_foreign_values_alone<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let claim = first_claim(&store, &event_key(), &terms(LEASE)).await;
    let ended = store.look(&claim.key).await.unwrap().unwrap().entry;
    store.cells().put(key.as_str(), bytes("theirs"), RETENTION).await.unwrap();
    assert_eq!(store.record(&key, accepted(&claim), RETENTION).await.unwrap(), Recorded::Again);
    assert_eq!(store.cast_doubt(&key, &ended, RETENTION).await.unwrap_err().kind, StoreErrorKind::Foreign);
    assert_eq!(store.cells().read(key.as_str()).await.unwrap().unwrap().value, "theirs");
}

async fn the_marker_is_made_once_and_tells_of_changes<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    let key = key.as_str();
    assert_eq!(store.pulse(key).await.unwrap(), None);
    assert!(store.announce(key).await.is_err(), "there is none");
    let made = store.mark(key, None, "").await.unwrap();
    assert_eq!((made.reset, made.edition), (None, 0));
    assert_eq!(store.mark(key, None, "").await.unwrap(), made);
    assert_eq!(store.announce(key).await.unwrap().edition, 1);
    let later = accepted(&first_claim(&store, &event_key(), &terms(LEASE)).await).at;
    let amended = store.mark(key, Some(later), "").await.unwrap();
    assert_eq!((amended.reset, amended.edition), (Some(later), 1));
    // An earlier loss does not replace a later one.
    assert_eq!(store.mark(key, Some(std::time::UNIX_EPOCH), "").await.unwrap(), amended);
    assert_eq!(store.pulse(key).await.unwrap().unwrap(), amended);
    assert!(amended.is_of_same_store(&made));
    let served = store.mark(key, None, "aa+bb").await.unwrap();
    assert_eq!((served.reset, served.edition, served.servers.as_str()), (Some(later), 1, "aa+bb"));
    assert_eq!(store.mark(key, None, "").await.unwrap(), served, "nobody has asked the servers");
    assert_eq!(store.pulse(key).await.unwrap().unwrap(), served);
    assert!(served.is_bereft_by("aa+cc") && !served.is_bereft_by("bb+aa+cc"));
    assert!(!served.is_bereft_by("") && !amended.is_bereft_by("aa"), "nobody knows");
    assert!(!amended.is_of_same_store(&store.mark(event_key().as_str(), None, "").await.unwrap()));
    store.cells().put(key, bytes("theirs"), RETENTION).await.unwrap();
    assert_eq!(store.pulse(key).await.unwrap_err().kind, StoreErrorKind::Foreign);
}

async fn of_concurrent_resets_the_latest_is_dated<F: Fixture>(fixture: &F) {
    let (store, key) = (fixture.store(), event_key());
    store.mark(key.as_str(), None, "").await.unwrap();
    let [early, late] = [1, 2].map(|seconds| Some(std::time::UNIX_EPOCH + Duration::from_secs(seconds)));
    let marked = tokio::join!(store.mark(key.as_str(), late, ""), store.mark(key.as_str(), early, ""));
    assert!(marked.0.is_ok() && marked.1.is_ok());
    assert_eq!(store.pulse(key.as_str()).await.unwrap().unwrap().reset, late);
}
