//! What it costs a delivery to be kept among the latest: cargo bench --bench latest

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hookonce::telemetry::latest::{Ended, Latest};
use hookonce::telemetry::{Closing, Facts, Outcome};
use http::StatusCode;
use tokio::time::Instant;

const DELIVERIES: u32 = 1_000_000;

/// A delivery as the pipeline leaves it: its id and its reason are its own.
fn ended(provider: &Arc<str>, at: Instant) -> Ended {
    Ended {
        provider: Arc::clone(provider),
        event: Some(Arc::from("evt_1OqW2jLkdIwHu7ixZ8Yx3k4b")),
        slot: Some(0),
        closing: Closing {
            outcome: Outcome::Forwarded,
            status: StatusCode::OK,
            reason: format!("the consumer answered {}", 200).into(),
        },
        facts: Facts::default(),
        at,
        total: Duration::from_millis(3),
    }
}

/// Nanoseconds a delivery, made and then given to `end`.
fn time(end: impl Fn(Ended)) -> f64 {
    let (provider, began) = (Arc::from("stripe"), Instant::now());
    for _ in 0..DELIVERIES {
        end(black_box(ended(&provider, began)));
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(DELIVERIES)
}

fn main() {
    for round in 1..=5 {
        let latest = Latest::default();
        let dropped = time(drop);
        let alone = time(|ended| latest.note(ended));
        let together: Vec<f64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| time(|ended| latest.note(ended)))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let worst = together.into_iter().fold(0.0, f64::max);
        println!(
            "round {round}: {:.0} ns a delivery kept by one thread, {:.0} ns while two do nothing else",
            alone - dropped,
            worst - dropped
        );
    }
}
