//! What is promised of letters. Every test here runs on every store.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use hookonce::pipeline::identify::EventKey;
use hookonce::store::backlog::{
    Appended, Backlog, CellOf, Filed, Lane, Letter, LetterId, NewLetter, Over, Revived, Room, Shortage, Slip, TakeTerms, Tally,
};
use hookonce::store::cells::Cells;
use hookonce::store::entry::now;
use hookonce::store::{ClaimOutcome, Completed, Done, Enqueued, Entry, Forgotten, Mark, Queued, Store, ToQueue, Token};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    ClusterRedis, File, Fixture, LEASE, LONG_LEASE, Memory, PATIENCE, RETENTION, Redis, RedisWithLeastRights,
    RedisWithScriptsOnly, SealedMemory, SealedRedis, SentinelRedis, TICK, digest, event_key, first_claim, terms,
};

on_every_store! {
    a_letter_is_taken_with_its_content_and_finished
    a_copy_of_a_queued_event_adds_nothing
    of_64_concurrent_copies_one_is_added
    of_many_takers_each_letter_has_one
    a_letter_that_nobody_settles_is_taken_again_in_doubt
    a_lease_that_is_extended_lasts
    a_postponed_letter_is_due_after_its_pause_and_in_no_doubt
    a_doubt_stays_on_the_slip
    who_has_lost_a_letter_cannot_settle_it_but_can_finish_it
    a_dead_letter_waits_until_it_is_revived
    a_waiting_letter_can_be_hurried
    letters_of_a_line_come_one_at_a_time_in_order
    a_postponed_letter_holds_up_its_line_and_no_other
    a_dead_letter_gives_up_its_place_in_line
    a_dead_letter_that_blocks_keeps_its_place_in_line
    a_letter_in_the_middle_of_a_line_can_be_cleared_away
    there_is_no_room_for_more_than_is_said
    a_take_is_bounded_by_bytes
    the_tally_counts_what_there_is
    letters_are_listed_in_the_order_they_came
    a_letter_whose_event_is_done_is_cleared_away
    an_event_that_failed_is_queued_with_what_is_known_of_it
    an_event_that_is_claimed_is_queued_once_its_lease_is_over
    a_queued_event_is_neither_claimed_nor_forgotten
    another_body_is_a_conflict
    letters_without_a_key_are_all_added
    an_append_that_is_sent_again_is_recognised
    a_finish_that_is_sent_again_is_recognised
    a_dropped_letter_is_gone_and_its_event_done
    a_success_beside_a_drop_is_the_last_word
    a_drop_leaves_alone_what_is_another_letter_s
    lanes_are_apart
}

const ROOM: Room = Room { letters: 1000, bytes: 1 << 20, dead_bytes: 1 << 20 };

/// A lane that no other test uses: some stores are shared.
fn lane() -> Lane {
    let name = event_key();
    Lane::new("test", name.as_str().rsplit(':').next().unwrap())
}

fn key_in(lane: &Lane) -> EventKey {
    lane.beside(&event_key())
}

fn event(key: Option<EventKey>, content: &'static [u8]) -> ToQueue {
    let content = Bytes::from_static(content);
    ToQueue { key, body: digest(b"{}"), body_matters: true, doubt: None, line: None, content }
}

async fn add<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, event: ToQueue) -> LetterId {
    match store.enqueue(lane, event, ROOM).await.unwrap() {
        Enqueued::Added(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn add_to_line<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, line: &str) -> LetterId {
    add(store, lane, ToQueue { line: Some(line.to_owned()), ..event(Some(key_in(lane)), b"x") }).await
}

async fn take<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, lease: Duration) -> Vec<Letter> {
    let terms = TakeTerms { lease, most: 100, bytes: 1 << 20, token: Token::random().unwrap(), trusts_cells: true };
    store.take(lane, terms).await.unwrap().letters
}

/// The only letter that is due now.
async fn take_one<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, lease: Duration) -> Letter {
    let mut letters = take(store, lane, lease).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.remove(0)
}

/// Waits until one is due.
async fn take_in_time<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, lease: Duration) -> Letter {
    let taking = async {
        loop {
            if let Some(letter) = take(store, lane, lease).await.pop() {
                return letter;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, taking).await.unwrap()
}

fn ids(letters: &[Letter]) -> Vec<LetterId> {
    letters.iter().map(|letter| letter.holding.id).collect()
}

fn done() -> Done {
    Done { status: 200, body: digest(b"{}"), attempt: 1, at: now(), reply: None }
}

async fn finish<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, letter: &Letter) -> Completed {
    store.finish(lane, &letter.holding, done(), RETENTION).await.unwrap()
}

async fn a_letter_is_taken_with_its_content_and_finished<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let content = b"any\0bytes\r\n\xff|";
    let id = add(&store, &lane, event(Some(key.clone()), content)).await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!((letter.holding.id, &letter.content[..]), (id, &content[..]));
    assert_eq!((letter.slip.attempt, letter.slip.doubt, letter.slip.status), (1, None, None));
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty(), "it is out");
    assert_eq!(finish(&store, &lane, &letter).await, Completed::Own);
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    assert_eq!(store.letter(&lane, id).await.unwrap(), None);
    let left = store.look(&key).await.unwrap().unwrap().left;
    assert!(left <= RETENTION && left > RETENTION / 2, "{left:?}");
    assert!(matches!(store.enqueue(&lane, event(Some(key), b""), ROOM).await.unwrap(), Enqueued::Done(_)));
    assert_eq!(store.tally(&lane).await.unwrap(), Tally::default());
}

async fn a_copy_of_a_queued_event_adds_nothing<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let id = add(&store, &lane, event(Some(key.clone()), b"first")).await;
    for _ in 0..2 {
        match store.enqueue(&lane, event(Some(key.clone()), b"copy"), ROOM).await.unwrap() {
            Enqueued::Queued(queued) => assert_eq!(queued.letter, id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(&take_one(&store, &lane, LONG_LEASE).await.content[..], b"first");
    assert!(matches!(store.enqueue(&lane, event(Some(key), b"copy"), ROOM).await.unwrap(), Enqueued::Queued(_)));
}

async fn of_64_concurrent_copies_one_is_added<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let mut adding = JoinSet::new();
    for _ in 0..64 {
        let (store, lane, key) = (store.clone(), lane.clone(), key.clone());
        adding.spawn(async move { store.enqueue(&lane, event(Some(key), b"x"), ROOM).await.unwrap() });
    }
    let added = adding.join_all().await.into_iter().filter(|outcome| matches!(outcome, Enqueued::Added(_))).count();
    assert_eq!((added, store.tally(&lane).await.unwrap().letters), (1, 1));
}

async fn of_many_takers_each_letter_has_one<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let mut all = BTreeSet::new();
    for _ in 0..50 {
        all.insert(add(&store, &lane, event(Some(key_in(&lane)), b"x")).await);
    }
    let mut taking = JoinSet::new();
    for _ in 0..16 {
        let (store, lane) = (store.clone(), lane.clone());
        taking.spawn(async move {
            let terms =
                TakeTerms { lease: LONG_LEASE, most: 7, bytes: 1 << 20, token: Token::random().unwrap(), trusts_cells: true };
            store.take(&lane, terms).await.unwrap().letters
        });
    }
    let taken: Vec<LetterId> = taking.join_all().await.iter().flat_map(|letters| ids(letters)).collect();
    assert_eq!(taken.len(), 50);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), all);
}

async fn a_letter_that_nobody_settles_is_taken_again_in_doubt<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    let began = Instant::now();
    let first = take_one(&store, &lane, LEASE).await;
    let terms = TakeTerms { lease: LEASE, most: 1, bytes: 1, token: Token::random().unwrap(), trusts_cells: true };
    let next = store.take(&lane, terms).await.unwrap().next.unwrap();
    assert!(next <= LEASE + TICK && next > Duration::ZERO, "{next:?}");
    let second = take_in_time(&store, &lane, LONG_LEASE).await;
    assert!(began.elapsed() >= LEASE, "{:?}", began.elapsed());
    assert_eq!(second.holding.id, first.holding.id);
    assert_eq!((second.slip.attempt, second.slip.doubt), (2, Some(Mark::Unknown)));
}

async fn a_lease_that_is_extended_lasts<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    let letter = take_one(&store, &lane, LEASE).await;
    assert!(store.extend(&lane, &letter.holding, LONG_LEASE).await.unwrap());
    sleep(LEASE * 2).await;
    assert!(take(&store, &lane, LEASE).await.is_empty());
    finish(&store, &lane, &letter).await;
    assert!(!store.extend(&lane, &letter.holding, LONG_LEASE).await.unwrap());
}

async fn a_postponed_letter_is_due_after_its_pause_and_in_no_doubt<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    let began = Instant::now();
    let slip = Slip { status: Some(503), ..letter.slip.clone() };
    assert!(store.postpone(&lane, &letter.holding, slip, LEASE).await.unwrap());
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    let again = take_in_time(&store, &lane, LONG_LEASE).await;
    assert!(began.elapsed() >= LEASE, "{:?}", began.elapsed());
    assert_eq!((again.slip.attempt, again.slip.doubt, again.slip.status), (2, None, Some(503)));
    assert_eq!((again.slip.queued_at, again.content), (letter.slip.queued_at, letter.content));
}

async fn a_doubt_stays_on_the_slip<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    add(&store, &lane, ToQueue { doubt: Some(Mark::StoreReset), ..event(Some(key_in(&lane)), b"x") }).await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!(letter.slip.doubt, Some(Mark::StoreReset));
    assert!(store.postpone(&lane, &letter.holding, letter.slip, Duration::ZERO).await.unwrap());
    assert_eq!(take_in_time(&store, &lane, LONG_LEASE).await.slip.doubt, Some(Mark::StoreReset));
}

async fn who_has_lost_a_letter_cannot_settle_it_but_can_finish_it<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    add(&store, &lane, event(Some(key.clone()), b"x")).await;
    let late = take_one(&store, &lane, LEASE).await;
    let holder = take_in_time(&store, &lane, LONG_LEASE).await;
    assert!(!store.extend(&lane, &late.holding, LONG_LEASE).await.unwrap());
    assert!(!store.postpone(&lane, &late.holding, late.slip.clone(), Duration::ZERO).await.unwrap());
    assert!(!store.bury(&lane, &late.holding, late.slip.clone(), false).await.unwrap());
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty(), "it is still out");
    assert_eq!(finish(&store, &lane, &late).await, Completed::Own);
    assert!(!store.postpone(&lane, &holder.holding, holder.slip.clone(), Duration::ZERO).await.unwrap());
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    assert!(matches!(store.look(&key).await.unwrap().unwrap().entry, Entry::Done(_)));
    let other = Done { status: 201, ..done() };
    assert_eq!(store.finish(&lane, &holder.holding, other, RETENTION).await.unwrap(), Completed::Again);
}

async fn a_dead_letter_waits_until_it_is_revived<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let id = add(&store, &lane, event(Some(key.clone()), b"content")).await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    let slip = Slip { status: Some(422), ..letter.slip.clone() };
    assert!(store.bury(&lane, &letter.holding, slip, false).await.unwrap());
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    assert!(matches!(store.enqueue(&lane, event(Some(key), b"x"), ROOM).await.unwrap(), Enqueued::Queued(_)), "still ours");
    let dead = store.letters(&lane, true, None, 10).await.unwrap().remove(0);
    assert_eq!((dead.id, dead.is_dead, dead.is_out, dead.due_in, dead.slip.status), (id, true, false, None, Some(422)));
    assert!(store.letters(&lane, false, None, 10).await.unwrap().is_empty());
    assert_eq!(&store.letter(&lane, id).await.unwrap().unwrap().content[..], b"content");
    assert_eq!(store.revive(&lane, &dead).await.unwrap(), Revived::Revived);
    assert!(store.letters(&lane, true, None, 10).await.unwrap().is_empty());
    let again = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!((again.slip.attempt, again.slip.doubt), (1, Some(Mark::Replay)));
    assert_eq!(store.revive(&lane, &dead).await.unwrap(), Revived::Out);
    finish(&store, &lane, &again).await;
    assert_eq!(store.revive(&lane, &dead).await.unwrap(), Revived::Absent);
    assert_eq!(store.tally(&lane).await.unwrap(), Tally::default());
}

async fn a_waiting_letter_can_be_hurried<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert!(store.postpone(&lane, &letter.holding, letter.slip, LONG_LEASE).await.unwrap());
    let filed = store.letters(&lane, false, None, 10).await.unwrap().remove(0);
    assert!(filed.due_in.unwrap() > LONG_LEASE / 2 && !filed.is_out, "{filed:?}");
    assert_eq!(store.revive(&lane, &filed).await.unwrap(), Revived::Revived);
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.slip.doubt, Some(Mark::Replay));
}

async fn letters_of_a_line_come_one_at_a_time_in_order<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let mut pairs = Vec::new();
    for _ in 0..5 {
        pairs.push([add_to_line(&store, &lane, "a").await, add_to_line(&store, &lane, "b").await]);
    }
    for pair in pairs {
        let out = take(&store, &lane, LONG_LEASE).await;
        assert_eq!(ids(&out).into_iter().collect::<BTreeSet<_>>(), pair.into());
        assert!(take(&store, &lane, LONG_LEASE).await.is_empty(), "the others wait for these");
        for letter in out {
            finish(&store, &lane, &letter).await;
        }
    }
    assert_eq!(store.tally(&lane).await.unwrap().letters, 0);
}

async fn a_postponed_letter_holds_up_its_line_and_no_other<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let first = add_to_line(&store, &lane, "a").await;
    let second = add_to_line(&store, &lane, "a").await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert!(store.postpone(&lane, &letter.holding, letter.slip, LEASE).await.unwrap());
    let other = add_to_line(&store, &lane, "b").await;
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, other);
    let again = take_in_time(&store, &lane, LONG_LEASE).await;
    assert_eq!(again.holding.id, first);
    finish(&store, &lane, &again).await;
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, second);
}

async fn a_dead_letter_gives_up_its_place_in_line<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let first = add_to_line(&store, &lane, "a").await;
    let second = add_to_line(&store, &lane, "a").await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert!(store.bury(&lane, &letter.holding, letter.slip, false).await.unwrap());
    let next = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!(next.holding.id, second);
    let dead = store.letter(&lane, first).await.unwrap().unwrap();
    assert_eq!(store.revive(&lane, &dead).await.unwrap(), Revived::Revived);
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty(), "its turn is over: it waits for the one that is out");
    finish(&store, &lane, &next).await;
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, first);
}

async fn a_dead_letter_that_blocks_keeps_its_place_in_line<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let first = add_to_line(&store, &lane, "a").await;
    let second = add_to_line(&store, &lane, "a").await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert!(store.bury(&lane, &letter.holding, letter.slip, true).await.unwrap());
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    let dead = store.letter(&lane, first).await.unwrap().unwrap();
    assert_eq!(store.revive(&lane, &dead).await.unwrap(), Revived::Revived);
    let again = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!(again.holding.id, first);
    assert!(store.bury(&lane, &again.holding, again.slip.clone(), true).await.unwrap());
    // Cleared away, it no longer blocks.
    finish(&store, &lane, &again).await;
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, second);
}

async fn a_letter_in_the_middle_of_a_line_can_be_cleared_away<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let first = add_to_line(&store, &lane, "a").await;
    let middle = add_to_line(&store, &lane, "a").await;
    let last = add_to_line(&store, &lane, "a").await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!(letter.holding.id, first);
    let filed = store.letter(&lane, middle).await.unwrap().unwrap();
    assert_eq!((filed.due_in, filed.line.as_deref()), (None, Some("a")));
    let holding = hookonce::store::backlog::Holding { id: middle, cell: filed.cell, ..letter.holding.clone() };
    assert_eq!(store.finish(&lane, &holding, done(), RETENTION).await.unwrap(), Completed::Own);
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    finish(&store, &lane, &letter).await;
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, last);
}

async fn there_is_no_room_for_more_than_is_said<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let full = async |room: Room| match store.enqueue(&lane, event(Some(key_in(&lane)), b"12345"), room).await.unwrap() {
        Enqueued::Full(shortage) => Some(shortage),
        Enqueued::Added(_) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(full(Room { letters: 2, ..ROOM }).await, None);
    assert_eq!(full(Room { letters: 2, ..ROOM }).await, None);
    assert_eq!(full(Room { letters: 2, ..ROOM }).await, Some(Shortage::Letters));
    assert_eq!(full(Room { bytes: 14 + 3 * F::SEAL_BYTES, ..ROOM }).await, Some(Shortage::Bytes));
    assert_eq!(full(Room { bytes: 15 + 3 * F::SEAL_BYTES, ..ROOM }).await, None);
    let letter = take(&store, &lane, LONG_LEASE).await.remove(0);
    assert_eq!(full(Room { dead_bytes: 0, ..ROOM }).await, None, "there is no dead letter");
    store.bury(&lane, &letter.holding, letter.slip.clone(), false).await.unwrap();
    assert_eq!(full(Room { dead_bytes: 5 + F::SEAL_BYTES, ..ROOM }).await, Some(Shortage::DeadBytes));
    assert_eq!(full(Room { dead_bytes: 6 + F::SEAL_BYTES, ..ROOM }).await, None);
    finish(&store, &lane, &letter).await;
    assert_eq!(full(Room { letters: 5, dead_bytes: 0, ..ROOM }).await, None);
}

async fn a_take_is_bounded_by_bytes<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    for _ in 0..5 {
        add(&store, &lane, event(Some(key_in(&lane)), b"1234567890")).await;
    }
    let taken = async |bytes| {
        let terms = TakeTerms { lease: LONG_LEASE, most: 100, bytes, token: Token::random().unwrap(), trusts_cells: true };
        let taken = store.take(&lane, terms).await.unwrap();
        (taken.letters.len(), taken.next)
    };
    assert_eq!(taken(1).await, (1, Some(Duration::ZERO)));
    assert_eq!(taken(11 + F::SEAL_BYTES).await, (2, Some(Duration::ZERO)));
    assert_eq!(taken(1000).await.0, 2);
}

async fn the_tally_counts_what_there_is<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let before = now() - Duration::from_millis(1);
    add(&store, &lane, event(Some(key_in(&lane)), b"123")).await;
    sleep(Duration::from_millis(5)).await;
    add(&store, &lane, event(None, b"4567")).await;
    let tally = store.tally(&lane).await.unwrap();
    assert_eq!((tally.letters, tally.bytes, tally.dead, tally.dead_bytes), (2, 7 + 2 * F::SEAL_BYTES, 0, 0));
    let oldest = tally.oldest.unwrap();
    assert!(oldest >= before && oldest <= now(), "{tally:?}");
    let letters = take(&store, &lane, LONG_LEASE).await;
    store.bury(&lane, &letters[0].holding, letters[0].slip.clone(), false).await.unwrap();
    let tally = store.tally(&lane).await.unwrap();
    assert_eq!((tally.letters, tally.bytes, tally.dead, tally.dead_bytes), (1, 4 + F::SEAL_BYTES, 1, 3 + F::SEAL_BYTES));
    assert!(tally.oldest.unwrap() > oldest);
    for letter in &letters {
        finish(&store, &lane, letter).await;
    }
    assert_eq!(store.tally(&lane).await.unwrap(), Tally::default());
}

async fn letters_are_listed_in_the_order_they_came<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(add(&store, &lane, event(Some(key_in(&lane)), b"x")).await);
        sleep(Duration::from_millis(2)).await;
    }
    let page = async |after, most| {
        let letters = store.letters(&lane, false, after, most).await.unwrap();
        assert!(letters.iter().all(|letter| letter.content.is_empty() && letter.bytes == 1 + F::SEAL_BYTES));
        letters.iter().map(|letter| letter.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 3).await, all[..3]);
    assert_eq!(page(Some(all[2]), 3).await, all[3..]);
    assert!(page(Some(all[4]), 3).await.is_empty());
}

async fn a_letter_whose_event_is_done_is_cleared_away<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let id = add(&store, &lane, event(Some(key.clone()), b"x")).await;
    store.record(&key, done(), RETENTION).await.unwrap();
    assert!(take(&store, &lane, LONG_LEASE).await.is_empty());
    assert_eq!(store.letter(&lane, id).await.unwrap(), None);
    assert_eq!(store.tally(&lane).await.unwrap(), Tally::default());
}

async fn an_event_that_failed_is_queued_with_what_is_known_of_it<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let claim = first_claim(&store, &key, &terms(LONG_LEASE)).await;
    store.fail(&claim, Some(500), Some(Mark::Unknown)).await.unwrap();
    add(&store, &lane, event(Some(key), b"x")).await;
    let letter = take_one(&store, &lane, LONG_LEASE).await;
    assert_eq!((letter.slip.attempt, letter.slip.doubt), (1, Some(Mark::Unknown)));
}

async fn an_event_that_is_claimed_is_queued_once_its_lease_is_over<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    first_claim(&store, &key, &terms(LEASE)).await;
    let lease_left = match store.enqueue(&lane, event(Some(key.clone()), b"x"), ROOM).await.unwrap() {
        Enqueued::InFlight { lease_left } => lease_left,
        other => panic!("{other:?}"),
    };
    assert!(lease_left <= LEASE);
    sleep(LEASE + Duration::from_millis(5)).await;
    add(&store, &lane, event(Some(key), b"x")).await;
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.slip.doubt, Some(Mark::Unknown));
}

async fn a_queued_event_is_neither_claimed_nor_forgotten<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let id = add(&store, &lane, event(Some(key.clone()), b"x")).await;
    assert!(matches!(store.claim(&key, &terms(LEASE)).await.unwrap(), ClaimOutcome::Queued(queued) if queued.letter == id));
    assert_eq!(store.forget(&key).await.unwrap(), Forgotten::Queued);
    let seen = store.look(&key).await.unwrap().unwrap();
    assert!(seen.left > Duration::from_secs(3600 * 24 * 365), "{:?}", seen.left);
}

async fn another_body_is_a_conflict<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    add(&store, &lane, event(Some(key.clone()), b"x")).await;
    let other = ToQueue { body: digest(b"other"), ..event(Some(key), b"y") };
    assert!(matches!(store.enqueue(&lane, other.clone(), ROOM).await.unwrap(), Enqueued::Conflict(Entry::Queued(_))));
    let alike = ToQueue { body_matters: false, ..other };
    assert!(matches!(store.enqueue(&lane, alike, ROOM).await.unwrap(), Enqueued::Queued(_)));
}

async fn letters_without_a_key_are_all_added<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    for _ in 0..3 {
        add(&store, &lane, event(None, b"same")).await;
    }
    let letters = take(&store, &lane, LONG_LEASE).await;
    assert_eq!(letters.len(), 3);
    for letter in &letters {
        assert_eq!(finish(&store, &lane, letter).await, Completed::Own);
    }
    assert_eq!(store.tally(&lane).await.unwrap().letters, 0);
}

async fn an_append_that_is_sent_again_is_recognised<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    for cell in [None, Some(CellOf { key: key_in(&lane), value: "1q|any".into(), over: None })] {
        let slip = Slip { attempt: 0, doubt: None, status: None, queued_at: now() };
        let letter = NewLetter { id: LetterId::new(now()).unwrap(), cell, line: None, slip, content: "x".into() };
        let before = store.tally(&lane).await.unwrap().letters;
        for _ in 0..2 {
            assert_eq!(store.cells().append(&lane, letter.clone(), ROOM).await.unwrap(), Appended::Added);
        }
        assert_eq!(store.tally(&lane).await.unwrap().letters, before + 1);
    }
}

async fn a_finish_that_is_sent_again_is_recognised<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    let (letter, done) = (take_one(&store, &lane, LONG_LEASE).await, done());
    for _ in 0..2 {
        assert_eq!(store.finish(&lane, &letter.holding, done.clone(), RETENTION).await.unwrap(), Completed::Own);
    }
    assert_eq!(store.tally(&lane).await.unwrap(), Tally::default());
}

async fn filed<C: Cells + Backlog>(store: &Store<C>, lane: &Lane, id: LetterId) -> Filed {
    store.letter(lane, id).await.unwrap().unwrap()
}

async fn known<C: Cells + Backlog>(store: &Store<C>, key: &EventKey) -> Entry {
    store.look(key).await.unwrap().unwrap().entry
}

async fn a_dropped_letter_is_gone_and_its_event_done<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let (key, lost) = (key_in(&lane), key_in(&lane));
    let dropped = add(&store, &lane, event(Some(key.clone()), b"x")).await;
    let letter = filed(&store, &lane, dropped).await;
    store.discard(&lane, &letter, None, RETENTION).await.unwrap();
    assert_eq!((store.letter(&lane, dropped).await.unwrap(), store.tally(&lane).await.unwrap()), (None, Tally::default()));
    let Entry::Done(done) = known(&store, &key).await else { panic!("it is not done") };
    assert!(done.is_dropped() && done.body == digest(b"{}"), "{done:?}");
    assert!(store.look(&key).await.unwrap().unwrap().left <= RETENTION);
    assert!(matches!(store.enqueue(&lane, event(Some(key), b""), ROOM).await.unwrap(), Enqueued::Done(_)));
    // The store may have lost the cell: copies are known all the same afterwards.
    let letter = Filed { cell: Some(lost.clone()), ..letter };
    store.discard(&lane, &letter, Some(digest(b"other")), RETENTION).await.unwrap();
    assert!(matches!(known(&store, &lost).await, Entry::Done(done) if done.is_dropped() && done.body == digest(b"other")));
}

async fn a_success_beside_a_drop_is_the_last_word<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let of_status = |entry: Entry| if let Entry::Done(done) = entry { done.status } else { panic!("{entry:?}") };
    for turn in ["at once", "before", "after"] {
        let key = key_in(&lane);
        let id = add(&store, &lane, event(Some(key.clone()), b"x")).await;
        let letter = take_one(&store, &lane, LONG_LEASE).await;
        let seen = filed(&store, &lane, id).await;
        let dropping = store.discard(&lane, &seen, None, RETENTION);
        match turn {
            "at once" => {
                let (dropped, completed) = tokio::join!(dropping, finish(&store, &lane, &letter));
                dropped.unwrap();
                assert_eq!(completed, Completed::Own);
            }
            "before" => {
                assert_eq!(finish(&store, &lane, &letter).await, Completed::Own);
                dropping.await.unwrap();
            }
            _ => {
                dropping.await.unwrap();
                assert_eq!(finish(&store, &lane, &letter).await, Completed::Own);
            }
        }
        assert_eq!(of_status(known(&store, &key).await), 200, "{turn}");
    }
    assert_eq!(store.tally(&lane).await.unwrap(), Tally::default());
}

async fn a_drop_leaves_alone_what_is_another_letter_s<F: Fixture>(fixture: &F) {
    let (store, lane) = (fixture.store(), lane());
    let key = key_in(&lane);
    let first = add(&store, &lane, event(Some(key.clone()), b"x")).await;
    // As where the store has lost the cell, and a copy has come since.
    let over = Some(Over { value: known(&store, &key).await.encode(), at_age: None });
    let letter = filed(&store, &lane, first).await;
    let id = LetterId::new(now()).unwrap();
    let value = Queued { letter: id, body: digest(b"{}"), at: now() }.encode();
    let cell = Some(CellOf { key: key.clone(), value, over });
    let second = NewLetter { id, cell, line: None, slip: letter.slip.clone(), content: Bytes::from_static(b"y") };
    assert_eq!(store.cells().append(&lane, second, ROOM).await.unwrap(), Appended::Added);
    store.discard(&lane, &letter, Some(digest(b"{}")), RETENTION).await.unwrap();
    assert!(matches!(known(&store, &key).await, Entry::Queued(queued) if queued.letter == id));
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, id);
}

async fn lanes_are_apart<F: Fixture>(fixture: &F) {
    let (store, lane, other) = (fixture.store(), lane(), lane());
    let id = add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    assert!(take(&store, &other, LONG_LEASE).await.is_empty());
    assert_eq!(store.letter(&other, id).await.unwrap(), None);
    assert_eq!(store.tally(&other).await.unwrap(), Tally::default());
    assert_eq!(take_one(&store, &lane, LONG_LEASE).await.holding.id, id);
}

/// Where answers can be lost on their way.
#[tokio::test]
async fn a_take_that_is_sent_again_gives_the_same_letters() {
    let fixture = Redis::open().await;
    let (store, lane) = (fixture.store(), lane());
    for _ in 0..4 {
        add(&store, &lane, event(Some(key_in(&lane)), b"x")).await;
    }
    let terms = TakeTerms { lease: LONG_LEASE, most: 2, bytes: 1 << 20, token: Token::random().unwrap(), trusts_cells: true };
    let first = store.take(&lane, terms).await.unwrap().letters;
    let again = store.take(&lane, terms).await.unwrap().letters;
    assert_eq!((first.len(), ids(&first)), (2, ids(&again)));
    assert!(again.iter().all(|letter| letter.slip.attempt == 1 && letter.slip.doubt.is_none()));
    finish(&store, &lane, &first[0]).await;
    assert_eq!(ids(&store.take(&lane, terms).await.unwrap().letters), [first[1].holding.id]);
    assert_eq!(take(&store, &lane, LONG_LEASE).await.len(), 2);
}
