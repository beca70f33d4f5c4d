//! A consumer that is away for as long as a schedule has attempts: two hours, in milliseconds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::consumer::{Act, Consumer, Seen};
use crate::support::eventually;
use crate::support::proxy::{Proxy, in_front_of};
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, stripe_with};

const LINES: usize = 12;
const EVENTS: usize = 360;
const CONCURRENT: usize = 8;
/// What the consumer needs for an event.
const WORK: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(100);
/// Of the event that the consumer never accepts; others of its line wait for its end.
const POISONED: usize = 3;
/// Attempts that fail before the consumer is back: as many as may be under way, and then one at a time.
const AWAY: usize = CONCURRENT + 3;
const ATTEMPTS: usize = 50;

fn event(index: usize) -> Delivery {
    stripe_with(format!("{{\"id\":\"{}\",\"customer\":\"c{}\"}}", id(index), index % LINES))
}

fn id(index: usize) -> String {
    format!("e{index:03}")
}

/// Its place among all events, and its line.
fn place(seen: &Seen) -> (usize, usize) {
    let index = seen.event_id()[1..].parse::<usize>().unwrap();
    (index, index % LINES)
}

async fn attempts(proxy: &Proxy, result: &str) -> f64 {
    proxy.metrics().await.value("hookonce_queue_attempts_total", &[("provider", "stripe"), ("result", result)])
}

async fn all_is_delivered_in_order(store: &str) {
    let nobody = Consumer::absent();
    let upstream = format!("http://{}", nobody.local_addr().unwrap());
    let schedule = vec![format!("\"{}ms\"", PAUSE.as_millis()); ATTEMPTS - 1].join(", ");
    let queue = format!("[queue]\naccept_loss = true\nschedule = [\"0s\", {schedule}]");
    let keys = format!("mode = \"queue\"\nmax_concurrent = {CONCURRENT}\norder_by = {{ json = \"/customer\" }}");
    let setup = in_front_of(&Consumer::answering(200).await).upstream(&upstream).store(store).table(&queue).stripe(&keys);
    let proxy = setup.start();
    let (went, mut sending) = (Instant::now(), JoinSet::new());
    for line in 0..LINES {
        let to = proxy.listen;
        sending.spawn(async move {
            for index in (line..EVENTS).step_by(LINES) {
                assert_eq!(event(index).send(to).await.outcome(), "queued");
            }
        });
    }
    sending.join_all().await;
    eventually("many attempts in vain", async || (attempts(&proxy, "failed").await >= AWAY as f64).then_some(())).await;
    // All lines are tried before anybody knows that nobody is there; from then on one of them, once a second.
    let (in_vain, away) = (attempts(&proxy, "failed").await, went.elapsed());
    let most = (LINES + CONCURRENT) as f64 + away.as_secs_f64() + 1.0;
    assert!(in_vain <= most, "{in_vain} attempts in {away:?}");

    let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (written, poison) = (Arc::clone(&arrivals), id(POISONED));
    let consumer = Consumer::on(nobody.listen(1024).unwrap(), move |seen, _| {
        written.lock().unwrap().push(Instant::now());
        Act::After(WORK, Box::new(Act::Answer(if seen.event_id() == poison { 422 } else { 200 })))
    });
    for index in (EVENTS - LINES)..EVENTS {
        proxy.in_state("stripe", &id(index), "done").await;
    }
    proxy.counted("hookonce_queue_events", &[("provider", "stripe")], 0.0).await;
    proxy.counted("hookonce_dead_letters", &[("provider", "stripe")], 1.0).await;
    proxy.in_state("stripe", &id(POISONED), "queued").await;

    let seen = consumer.seen();
    assert!(seen.iter().all(|seen| seen.mark().is_none()), "nothing was sent while nobody was there");
    let places: Vec<_> = seen.iter().map(place).collect();
    let (poison, others): (Vec<_>, Vec<_>) = places.iter().partition(|(index, _)| *index == POISONED);
    assert_eq!(others.len(), EVENTS - 1, "each once");
    for line in 0..LINES {
        let order: Vec<_> = others.iter().filter(|(_, own)| *own == line).map(|(index, _)| *index).collect();
        assert!(order.is_sorted() && order.len() >= EVENTS / LINES - 1, "{order:?}");
    }
    // The last attempt at the poison comes after the last of every other line, and before what is behind it in its own.
    let died = places.iter().rposition(|(index, _)| *index == POISONED).unwrap();
    let behind = places.iter().position(|(index, line)| *line == POISONED && *index != POISONED).unwrap();
    let elsewhere = places.iter().rposition(|(_, line)| *line != POISONED).unwrap();
    assert!(elsewhere < died && died < behind, "{elsewhere} {died} {behind}");
    // Each holds its place while the consumer works on it: so many come in that time, and no more.
    let arrivals = arrivals.lock().unwrap().clone();
    let soonest = arrivals.windows(CONCURRENT + 1).map(|some| some[CONCURRENT] - some[0]).min().unwrap();
    assert!(soonest >= WORK, "{soonest:?}");
    println!("away for {away:?}: {in_vain} attempts in vain; {} of the poison afterwards", poison.len());
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_consumer_that_was_away_gets_everything_in_order_without_a_storm() {
    let redis = RedisProcess::start();
    all_is_delivered_in_order(&redis.url()).await;
}

#[tokio::test]
async fn a_consumer_that_was_away_gets_everything_in_order_from_files() {
    let folder = tempfile::tempdir().unwrap();
    all_is_delivered_in_order(&format!("file:{}/store", folder.path().display())).await;
}
