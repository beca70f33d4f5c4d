//! The life of a claim, gone through in full: one event, deliveries that overlap, two instances, and every order in
//! which faults can befall them. The store's transitions and the table of settlements are the program's own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attempt;
mod cell;
mod event;
mod one_cell;
mod search;
mod state;

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use event::{Broken, Event, Fault, Flaw};
use hookonce::config::{Config, Environment, Flags, Provider};
use search::{Explored, Violation, explore};

const CLOSED: &str = "on_store_down = 'closed'";

/// All that can happen while the store keeps its data.
const FAULTS: [Fault; 9] = [
    Fault::Failure,
    Fault::SenderLeaves,
    Fault::Redelivery,
    Fault::Crash,
    Fault::LeaseEnds,
    Fault::Unknown,
    Fault::LostSettlement,
    Fault::StoreFails,
    Fault::Forget,
];

/// A provider with these settings and defaults for the rest.
fn provider(settings: &str) -> Arc<Provider> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "upstream = 'http://127.0.0.1:1'\n[store]\nurl = 'memory:'\nnamespace = 'model'\n\
         [providers.stripe]\npath = '/'\nsecret = 'whsec_0123456789abcdef'\n{settings}\n"
    );
    fs::write(file.path(), text).unwrap();
    let flags = Flags { config: Some(file.path().into()), ..Flags::default() };
    let loaded = Config::load(&flags, &Environment::from([])).unwrap_or_else(|problems| panic!("{problems:?}"));
    Arc::clone(&loaded.config.providers[0])
}

fn search(settings: &str, flaw: Flaw, faults: &[Fault], overlap: usize) -> Result<Explored, Violation> {
    let began = Instant::now();
    let mut event = Event::new(provider(settings), flaw, faults, overlap);
    let found = explore(&mut event);
    if let Ok(Explored { states, steps, .. }) = &found {
        let (calls, took) = (event.shop.calls(), began.elapsed());
        println!("{settings}, {overlap} at once: {states} states, {steps} steps, {calls} calls of the store, {took:.1?}");
    }
    found
}

/// Nothing is broken, the event comes through from everywhere, and every fault was tried.
#[track_caller]
fn holds(settings: &str, faults: &[Fault], overlap: usize) {
    match search(settings, Flaw::None, faults, overlap) {
        Ok(explored) => {
            assert_eq!(explored.stuck, None, "no 2xx is possible any more");
            let untried: Vec<_> = faults.iter().filter(|fault| !explored.faults.contains(fault)).collect();
            assert!(untried.is_empty(), "{untried:?}");
        }
        Err(Violation { broken, trace }) => panic!("{broken:?}{trace}"),
    }
}

#[track_caller]
fn breaks(settings: &str, flaw: Flaw, expected: Broken) {
    let Err(Violation { broken, trace }) = search(settings, flaw, &FAULTS, 3) else {
        panic!("{flaw:?} with {settings} goes unnoticed")
    };
    println!("{flaw:?} with {settings}: {broken:?}{trace}");
    assert_eq!(broken, expected);
}

#[test]
fn on_calm_days_there_is_one_effect_and_no_mark() {
    holds(CLOSED, &Fault::EVERYDAY, 4);
}

#[test]
fn no_order_of_faults_loses_an_event_or_hides_a_second_forward() {
    holds(CLOSED, &FAULTS, 4);
}

#[test]
fn an_unknown_end_may_be_released() {
    holds(&format!("{CLOSED}\nambiguous = 'release'"), &FAULTS, 3);
}

#[test]
fn a_claim_may_arrive_after_it_was_given_up() {
    holds(CLOSED, &[FAULTS.as_slice(), &[Fault::LateWrite]].concat(), 2);
}

#[test]
fn events_from_before_a_loss_of_data_are_marked_once_it_is_noticed() {
    assert!(provider(CLOSED).event_time.is_some());
    holds(CLOSED, &[FAULTS.as_slice(), &[Fault::Reset]].concat(), 2);
}

#[test]
fn events_may_be_claimed_in_the_process_while_the_store_is_down() {
    holds("on_store_down = 'local'", &[Fault::Failure, Fault::Redelivery, Fault::StoreFails, Fault::Unknown], 2);
    holds("on_store_down = 'local'", &[Fault::StoreFails, Fault::Crash, Fault::LostSettlement, Fault::Forget], 2);
}

#[test]
fn events_may_be_forwarded_without_a_claim_while_the_store_is_down() {
    holds("on_store_down = 'open'", &FAULTS, 2);
}

#[test]
fn every_flaw_is_noticed() {
    breaks(CLOSED, Flaw::NoFence, Broken::Unmarked);
    breaks(CLOSED, Flaw::SettlementErrorTold, Broken::HiddenSuccess);
    breaks(CLOSED, Flaw::TakeoverUnmarked, Broken::Unmarked);
    breaks(CLOSED, Flaw::DoubtForgotten, Broken::Unmarked);
    breaks(CLOSED, Flaw::OwnRetry, Broken::MoreForwards);
}

#[test]
fn settings_that_can_lose_are_seen_to_lose() {
    breaks(&format!("{CLOSED}\nin_flight = 'ack'"), Flaw::None, Broken::Loss);
    breaks(&format!("{CLOSED}\nambiguous = 'keep'"), Flaw::None, Broken::Loss);
}

#[test]
fn a_lease_without_an_end_is_seen_to_hold_its_event_for_ever() {
    let explored = search(CLOSED, Flaw::LeaseForEver, &[Fault::Crash], 2).unwrap_or_else(|found| panic!("{:?}", found.broken));
    let stuck = explored.stuck.expect("an event that is never let go");
    println!("{stuck}");
}
