//! Flights under a scheduler that decides at every step of theirs who goes next.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use http::{HeaderMap, StatusCode};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::*;
use crate::config::Fingerprint;
use crate::pipeline::identify::{EventId, fingerprint};

/// The primitives of a flight, each use of which is a point where another thread may go on.
pub mod schedule {
    pub use shuttle::sync::{Mutex, MutexGuard};

    pub mod watch {
        use std::sync::atomic::Ordering;

        use shuttle::sync::atomic::AtomicBool;
        use tokio::sync::watch;
        pub use tokio::sync::watch::Receiver;

        #[derive(Debug)]
        pub struct Sender<T> {
            inner: watch::Sender<T>,
            turn: AtomicBool,
        }

        impl<T> Sender<T> {
            pub fn new(value: T) -> Self {
                Self { inner: watch::Sender::new(value), turn: AtomicBool::new(false) }
            }

            pub fn subscribe(&self) -> Receiver<T> {
                self.turn().subscribe()
            }

            pub fn borrow(&self) -> watch::Ref<'_, T> {
                self.turn().borrow()
            }

            /// No turn: a leader asks while it holds the value, and whoever went on would wait for that.
            pub fn receiver_count(&self) -> usize {
                self.inner.receiver_count()
            }

            pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
                self.turn().send_if_modified(modify)
            }

            fn turn(&self) -> &watch::Sender<T> {
                self.turn.load(Ordering::SeqCst);
                &self.inner
            }
        }
    }
}

const FOLLOWERS_MAX: usize = 2;

/// What has come of an event's deliveries.
#[derive(Debug, Default)]
struct Ledger {
    /// How far each leader has come, in the order in which they led.
    leaders: Mutex<Vec<Fate>>,
    followers: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    owns_key: bool,
    is_accepted: bool,
    is_ended: bool,
    is_over: bool,
}

impl Ledger {
    /// A new leader; there must be no other.
    fn open(&self) -> usize {
        let mut fates = self.leaders.lock().unwrap();
        assert!(fates.iter().all(|fate| fate.is_over), "two leaders of one event: {fates:?}");
        fates.push(Fate::default());
        fates.len() - 1
    }

    fn note(&self, leader: usize, change: impl FnOnce(&mut Fate)) {
        change(&mut self.leaders.lock().unwrap()[leader]);
    }

    fn has(&self, is_so: impl Fn(&Fate) -> bool) -> bool {
        self.leaders.lock().unwrap().iter().any(is_so)
    }
}

fn key() -> EventKey {
    EventKey::new("test", "github", &EventId::parse("evt_1").unwrap())
}

fn body(text: &[u8]) -> BodyDigest {
    fingerprint(&Fingerprint::Body, text)
}

/// An ending that tells whose it is.
fn ending_of(leader: usize) -> Ending {
    let attempt = u32::try_from(leader).unwrap();
    Ending::Done(Arc::new(Done { status: 200, body: body(b""), attempt, at: UNIX_EPOCH, reply: None }))
}

/// Steps of a leader; one that panics does so before one of them.
const STEPS: usize = 4;

/// Leads the event to its end, or into a panic.
fn lead(lead: Lead, ledger: &Ledger, panics_at: usize) {
    let leader = ledger.open();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let lead = lead;
        for step in 0..STEPS {
            if step == panics_at {
                // What a copy may see of the drop that follows is noted before it.
                ledger.note(leader, |fate| fate.is_over = true);
                resume_unwind(Box::new(()));
            }
            match step {
                0 => {
                    ledger.note(leader, |fate| fate.owns_key = true);
                    lead.owns_key();
                }
                1 => {
                    ledger.note(leader, |fate| fate.is_accepted = true);
                    lead.accepted();
                }
                2 => {
                    ledger.note(leader, |fate| fate.is_ended = true);
                    // As an audience ends: an answer is kept for those who wait, and somebody may come once it was looked.
                    let is_shared = lead.has_followers();
                    lead.end(if is_shared { ending_of(leader) } else { Ending::Accepted });
                }
                _ => ledger.note(leader, |fate| fate.is_over = true),
            }
        }
    }));
    drop(unwound);
}

/// One delivery, until it has led or knows how it ended.
fn deliver(flights: &Arc<Flights>, ledger: &Ledger, body: BodyDigest, panics_at: usize) {
    loop {
        match flights.join(&key(), body, true) {
            Joined::Lead(leads) => return lead(leads, ledger, panics_at),
            Joined::Follow(follower) => {
                assert!(ledger.followers.fetch_add(1, Ordering::SeqCst) < FOLLOWERS_MAX, "too many follow");
                hear(follower, ledger);
                ledger.followers.fetch_sub(1, Ordering::SeqCst);
                return;
            }
            Joined::Accepted(follower) => {
                assert!(ledger.has(|fate| fate.is_accepted), "nobody was accepted");
                return hear(follower, ledger);
            }
            Joined::OtherBody(rival) => {
                if block_on(rival.is_another_event()) {
                    assert!(ledger.has(|fate| fate.owns_key), "nobody owns the key");
                    return;
                }
            }
            Joined::Full => return,
        }
    }
}

/// Follows to the end, which is one that a leader told, or that of one who said nothing.
fn hear(follower: Follower, ledger: &Ledger) {
    match block_on(follower.ending()) {
        Ending::Done(done) => {
            let leader = usize::try_from(done.attempt).unwrap();
            assert!(ledger.leaders.lock().unwrap()[leader].is_ended, "told of before it came");
        }
        Ending::Accepted => assert!(ledger.has(|fate| fate.is_accepted && fate.is_ended), "nobody was accepted"),
        Ending::Refused(Refusal::Panicked) => assert!(ledger.has(|fate| fate.is_over && !fate.is_ended), "nobody has panicked"),
        other => panic!("nobody said {other:?}"),
    }
}

/// Some deliveries at once, each with its body and the step at which it panics if it leads; afterwards nothing is left.
fn crowd(deliveries: Vec<(&'static [u8], usize)>) {
    let (flights, ledger) = (Arc::new(Flights::new(FOLLOWERS_MAX)), Arc::new(Ledger::default()));
    let start = |(text, panics_at)| {
        let (flights, ledger) = (Arc::clone(&flights), Arc::clone(&ledger));
        thread::spawn(move || deliver(&flights, &ledger, body(text), panics_at))
    };
    let deliveries: Vec<_> = deliveries.into_iter().map(start).collect();
    deliveries.into_iter().for_each(|delivery| delivery.join().unwrap());
    assert!(matches!(flights.join(&key(), body(b"c"), true), Joined::Lead(_)), "an entry is left behind");
}

/// The same, with panics by chance.
fn by_chance(bodies: &[&'static [u8]]) {
    crowd(bodies.iter().map(|text| (*text, thread_rng().gen_range(0..STEPS + 2))).collect());
}

#[test]
fn copies_have_one_leader_at_a_time_and_always_hear_of_its_end() {
    shuttle::check_random(|| by_chance(&[b"a", b"a", b"a", b"a"]), 5_000);
    shuttle::check_pct(|| by_chance(&[b"a", b"a", b"a", b"a"]), 5_000, 3);
}

#[test]
fn other_bodies_always_hear_whose_the_key_is() {
    shuttle::check_random(|| by_chance(&[b"a", b"b", b"a"]), 5_000);
    shuttle::check_pct(|| by_chance(&[b"a", b"b", b"a", b"b"]), 5_000, 3);
}

#[test]
fn two_deliveries_agree_in_every_order() {
    // At once, between acceptance and the end, never.
    for (panics_at, other) in [0, 2, STEPS].into_iter().flat_map(|panics_at| [(panics_at, b"a"), (panics_at, b"b")]) {
        shuttle::check_dfs(move || crowd(vec![(b"a", panics_at), (other, STEPS)]), None);
    }
}

#[test]
fn a_copy_is_a_duplicate_only_of_what_the_consumer_has_accepted() {
    let answered = |is_success| {
        Ending::Answered(Arc::new(Shared { status: StatusCode::OK, headers: HeaderMap::new(), body: None, is_success }))
    };
    let alone = move || {
        let flights = Arc::new(Flights::new(8));
        let join = || flights.join(&key(), body(b"{}"), true);
        let Joined::Lead(lead) = join() else { panic!("the first leads") };
        for ending in [answered(false), Ending::Refused(Refusal::LeaseLost), Ending::Acked, Ending::Moved] {
            lead.end(ending);
            assert!(matches!(join(), Joined::Follow(_)));
        }
        lead.accepted();
        assert!(matches!(join(), Joined::Accepted(_)));
        lead.end(answered(true));
        assert!(matches!(join(), Joined::Accepted(_)));
        drop(lead);
        assert!(matches!(join(), Joined::Lead(_)));
    };
    shuttle::check_random(alone, 1);
}
