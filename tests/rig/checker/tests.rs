//! A checker that cannot fail proves nothing: each broken promise, in the smallest history that has it.

use super::super::history::{Answer, Service, digest};
use super::*;

const BODY: &[u8] = b"{}";

fn ms(millis: u64) -> At {
    Duration::from_millis(millis)
}

fn event(has_time: bool) -> Event {
    Event { id: "e1".to_owned(), provider: "stripe", has_time, body: digest(BODY), is_queued: false, line: None }
}

fn delivery(began: u64, ended: u64, status: Option<u16>) -> Delivery {
    let answer = status.map(|status| Answer { status, outcome: "forwarded".to_owned() });
    Delivery { event: 0, is_sent: true, began: ms(began), ended: ms(ended), answer }
}

fn forward(began: u64, effect: Option<u64>, mark: Option<&str>) -> Forward {
    let (id, mark, body) = (Some("e1".to_owned()), mark.map(str::to_owned), digest(BODY));
    Forward { event: 0, id, mark, body, began: ms(began), is_clear: true, effect: effect.map(ms) }
}

fn trouble(part: Part, from: u64, until: u64) -> Trouble {
    Trouble { what: "a trouble", part, from: ms(from), until: ms(until) }
}

/// One event, delivered, forwarded and accepted.
fn good() -> History {
    History {
        events: vec![event(false)],
        deliveries: vec![delivery(10, 20, Some(200))],
        forwards: vec![forward(12, Some(15), None)],
        ..History::default()
    }
}

/// The good history with a second delivery that was forwarded too, each a second after the other.
fn doubled(mark: Option<&str>) -> History {
    let mut history = good();
    history.deliveries.push(delivery(1010, 1020, Some(200)));
    history.forwards.push(forward(1012, Some(1015), mark));
    history
}

fn broken(history: &History) -> Vec<Broken> {
    check(history).1.iter().map(|violation| violation.broken).collect()
}

#[test]
fn a_good_history_has_nothing_against_it() {
    let (tally, violations) = check(&good());
    assert!(violations.is_empty(), "{violations:?}");
    let expected = Tally { events: 1, deliveries: 1, forwards: 1, untouched: 1, ..Tally::default() };
    assert_eq!(tally, expected);
}

#[test]
fn an_accepted_event_without_an_effect_is_lost() {
    let mut history = good();
    history.forwards[0].effect = None;
    history.forwards[0].is_clear = false;
    assert_eq!(broken(&history), [Broken::Lost]);
    assert_eq!(check(&history).0.lost, 1);
    history.forwards.clear();
    assert!(broken(&history).contains(&Broken::Lost));
}

#[test]
fn an_effect_after_the_sender_was_told_is_a_loss_that_went_well() {
    let mut history = good();
    history.forwards[0].effect = Some(ms(21));
    assert_eq!(broken(&history), [Broken::Lost]);
}

#[test]
fn an_event_that_is_never_accepted_is_found() {
    let mut history = good();
    for answer in [None, Some(503)] {
        history.deliveries = vec![delivery(10, 20, answer)];
        assert_eq!(broken(&history), [Broken::NeverAccepted]);
        assert_eq!(check(&history).0.never_accepted, 1);
    }
    history.deliveries.clear();
    assert!(broken(&history).contains(&Broken::NeverAccepted));
}

#[test]
fn a_forward_that_no_delivery_asked_for_is_found() {
    let mut history = good();
    history.forwards.push(forward(13, None, None));
    assert_eq!(broken(&history), [Broken::Unasked]);
    assert_eq!(check(&history).0.unasked, 1);
    // A delivery that never reached anybody asks for nothing.
    history.deliveries.push(Delivery { is_sent: false, ..delivery(5, 6, None) });
    assert_eq!(broken(&history), [Broken::Unasked]);
}

#[test]
fn a_second_effect_needs_a_mark() {
    let mut history = doubled(None);
    history.troubles.push(trouble(Part::Upstream, 0, 900));
    assert_eq!(broken(&history), [Broken::Unmarked]);
    assert_eq!(check(&history).0.unmarked, 1);
    history.forwards.push(forward(1013, Some(1016), None));
    history.deliveries.push(delivery(1010, 1020, Some(200)));
    assert_eq!(check(&history).0.unmarked, 2);
}

#[test]
fn a_marked_second_effect_is_counted_and_no_violation() {
    let mut history = doubled(Some("unknown"));
    history.troubles.push(trouble(Part::Upstream, 0, 900));
    assert_eq!(broken(&history), []);
    assert_eq!(check(&history).0.doubled_marked, 1);
    // The first may be the marked one: which of two claims came first is the store's to say.
    history.forwards.swap(0, 1);
    history.forwards[0].began = ms(11);
    assert_eq!((broken(&history), check(&history).0.doubled_marked), (vec![], 1));
    history.forwards.iter_mut().for_each(|forward| forward.mark = Some("store-down".to_owned()));
    assert_eq!((broken(&history), check(&history).0.doubled_marked), (vec![], 1));
}

/// A second effect without a mark five seconds after the store lost its data, which an instance saw and counted.
fn after_a_loss(has_time: bool) -> History {
    let mut history = doubled(None);
    history.events = vec![event(has_time)];
    history.deliveries.push(delivery(11_900, 12_100, Some(200)));
    history.forwards[1] = forward(12_000, Some(12_010), None);
    history.troubles = vec![trouble(Part::Memory, 6_800, 7_000)];
    history.services = vec![Service { from: ms(0), until: At::MAX }];
    history.are_resets_counted = true;
    history
}

#[test]
fn a_counted_loss_of_the_store_excuses_an_event_without_a_time_of_its_own() {
    let history = after_a_loss(false);
    assert_eq!((broken(&history), check(&history).0.excused), (vec![], 1));
    let uncounted = History { are_resets_counted: false, ..history.clone() };
    assert_eq!(broken(&uncounted), [Broken::Unmarked]);
    for other in [trouble(Part::Memory, 2, 5), trouble(Part::Memory, 12_100, 12_200), trouble(Part::Store, 6_800, 7_000)] {
        let history = History { troubles: vec![trouble(Part::Upstream, 0, 13_000), other], ..history.clone() };
        assert_eq!(broken(&history), [Broken::Unmarked]);
    }
}

#[test]
fn an_event_with_a_time_of_its_own_is_excused_only_while_nobody_can_know() {
    let mut history = after_a_loss(true);
    assert_eq!(broken(&history), [Broken::Unmarked]);
    let mut at_once = history.clone();
    at_once.forwards[1].began = ms(8_900);
    // Whoever has lost its connection asks whom it meets; whoever comes to the store only then cannot.
    assert_eq!(broken(&at_once), [Broken::Unmarked]);
    at_once.services.push(Service { from: ms(6_900), until: At::MAX });
    assert_eq!((broken(&at_once), check(&at_once).0.unaware), (vec![], 1));
    // A store that is emptied tells nobody.
    history.troubles[0].part = Part::Contents;
    assert_eq!(broken(&history), [Broken::Unmarked]);
    let mut at_once = history.clone();
    at_once.forwards[1].began = ms(8_900);
    assert_eq!((broken(&at_once), check(&at_once).0.unaware), (vec![], 1));
    // Whoever was frozen meanwhile, or cut off from the store, knows a moment later; one trouble may follow another.
    let mut blind = history.clone();
    blind.troubles.extend([trouble(Part::Instance, 6_900, 9_000), trouble(Part::Store, 10_500, 11_500)]);
    assert_eq!((broken(&blind), check(&blind).0.unaware), (vec![], 1));
    blind.troubles[2] = trouble(Part::Store, 11_500, 11_600);
    assert_eq!(broken(&blind), [Broken::Unmarked]);
}

#[test]
fn a_loss_that_nobody_lived_to_see_can_be_counted_by_nobody() {
    for has_time in [true, false] {
        let mut history = History { are_resets_counted: false, ..after_a_loss(has_time) };
        for (from, until, is_excused) in [(0, 6_900, true), (7_000, u64::MAX, true), (6_500, u64::MAX, true), (0, 9_500, false)] {
            history.services = vec![Service { from: ms(from), until: ms(until) }];
            assert_eq!(broken(&history).is_empty(), is_excused, "{from} {until}");
        }
    }
}

#[test]
fn what_no_fault_came_near_takes_effect_once_without_a_mark() {
    assert_eq!(broken(&doubled(Some("unknown"))), [Broken::NotOnce]);
    let mut history = good();
    history.forwards[0].mark = Some("unknown".to_owned());
    assert_eq!(broken(&history), [Broken::NotOnce]);
    // A fault that was over long before is no excuse, one that is still felt is, and so is a consumer that was not clear.
    history.deliveries[0] = delivery(9_000, 9_020, Some(200));
    history.troubles = vec![trouble(Part::Upstream, 0, 1_000)];
    assert_eq!(broken(&history), [Broken::NotOnce]);
    history.troubles = vec![trouble(Part::Upstream, 0, 8_000)];
    assert_eq!(broken(&history), []);
    history.troubles.clear();
    history.stalls = vec![trouble(Part::Machine, 0, 8_000)];
    assert_eq!(broken(&history), []);
    history.stalls.clear();
    history.forwards[0].is_clear = false;
    assert_eq!(broken(&history), []);
}

#[test]
fn nothing_is_forgiven_in_a_calm_round() {
    let mut history = History { is_calm: true, ..good() };
    assert_eq!(broken(&history), []);
    history.forwards[0].mark = Some("store-down".to_owned());
    history.forwards[0].is_clear = false;
    history.troubles = vec![trouble(Part::Upstream, 0, 8_000)];
    history.stalls = vec![trouble(Part::Machine, 10, 150)];
    assert_eq!(broken(&history), [Broken::NotOnce]);
    // But a machine that stands still is not calm.
    history.stalls = vec![trouble(Part::Machine, 10, 600)];
    assert_eq!(broken(&history), []);
}

/// The good history in queue mode: told before it takes effect, and tried once in vain.
fn queued() -> History {
    let mut history = good();
    history.events[0] = Event { is_queued: true, line: Some("a".to_owned()), ..event(false) };
    history.forwards = vec![forward(22, None, None), forward(30, Some(35), None)];
    history
}

#[test]
fn an_event_from_a_queue_is_lost_if_it_never_takes_effect() {
    let mut history = queued();
    assert_eq!(broken(&history), []);
    history.forwards[1].effect = None;
    assert!(broken(&history).contains(&Broken::Lost));
    assert_eq!(check(&history).0.lost, 1);
}

#[test]
fn an_event_that_passes_another_of_its_line_is_found() {
    let mut history = queued();
    history.events.push(Event { id: "e2".to_owned(), ..history.events[0].clone() });
    history.deliveries.push(Delivery { event: 1, ..delivery(25, 28, Some(200)) });
    history.forwards.push(Forward { event: 1, id: Some("e2".to_owned()), ..forward(40, Some(45), None) });
    assert_eq!(broken(&history), []);
    history.forwards[2].effect = Some(ms(34));
    assert_eq!(broken(&history), [Broken::Disorder]);
    // Who comes before the other is accepted may be before it, and lines do not wait for each other.
    let mut at_once = history.clone();
    at_once.deliveries[1].began = ms(19);
    assert_eq!(broken(&at_once), []);
    history.events[1].line = Some("b".to_owned());
    assert_eq!(broken(&history), []);
}

#[test]
fn what_was_altered_on_the_way_is_found() {
    let mut history = good();
    history.forwards[0].body = digest(b"{ }");
    assert_eq!(broken(&history), [Broken::Altered]);
    let mut history = good();
    for id in [None, Some("e2".to_owned())] {
        history.forwards[0].id = id;
        assert_eq!(broken(&history), [Broken::Altered]);
    }
}

#[test]
fn each_event_is_judged_by_its_own_history() {
    let mut history = good();
    history.events.push(Event { id: "e2".to_owned(), ..event(false) });
    assert_eq!(broken(&history), [Broken::NeverAccepted]);
    history.deliveries.push(Delivery { event: 1, ..delivery(30, 40, Some(200)) });
    assert!(broken(&history).contains(&Broken::Lost));
    history.forwards.push(Forward { event: 1, id: Some("e2".to_owned()), ..forward(32, Some(35), None) });
    assert_eq!(broken(&history), []);
}
