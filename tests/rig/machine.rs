//! A watch over the machine itself: what stands still for long enough misses its deadlines without anybody's fault.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::history::{Clock, Part, Trouble};

const TICK: Duration = Duration::from_millis(20);
/// A quarter of what the store may take: others that wanted the machine may have stood still for longer.
const STALL: Duration = Duration::from_millis(100);

/// Watches until dropped.
pub struct Machine {
    stalls: Arc<Mutex<Vec<Trouble>>>,
    watching: AbortHandle,
}

impl Machine {
    pub fn watch(clock: Clock) -> Self {
        let stalls: Arc<Mutex<Vec<Trouble>>> = Arc::default();
        let watching = tokio::spawn(watch(clock, Arc::clone(&stalls))).abort_handle();
        Self { stalls, watching }
    }

    pub fn stalls(&self) -> Vec<Trouble> {
        self.stalls.lock().unwrap().clone()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

async fn watch(clock: Clock, stalls: Arc<Mutex<Vec<Trouble>>>) {
    let mut before = clock.now();
    loop {
        sleep(TICK).await;
        let now = clock.now();
        if now - before > TICK + STALL {
            stalls.lock().unwrap().push(Trouble {
                what: "the machine stands still",
                part: Part::Machine,
                from: before,
                until: now,
            });
        }
        before = now;
    }
}
