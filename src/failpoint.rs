//! Places between an event's claim, or its way into the queue, and its settlement where a test stops the program, to kill
//! it there.
//!
//! They are built with the feature `failpoints` only: without it every call is empty and the variable is not read.
//! `HOOKONCE_FAILPOINT=after-claim` names the place; `after-write:2` means the second time that anybody comes there since the
//! first event came, and `before-sync:1:error` fails the call as a broken disk would, rather than stop. What is written before
//! any event is not counted: it may be one write or two.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::telemetry::outcome::words;

words!(
    /// A step, named by what has just happened or is about to.
    Failpoint {
        BeforeClaim = "before-claim",
        AfterClaim = "after-claim",
        BeforeFirstByte = "before-first-byte",
        AfterCall = "after-call",
        BeforeComplete = "before-complete",
        AfterComplete = "after-complete",
        BeforeRelease = "before-release",
        AfterRelease = "after-release",
        BeforeAppend = "before-append",
        AfterAppend = "after-append",
        AfterTake = "after-take",
        BeforeBury = "before-bury",
        AfterBury = "after-bury",
        BeforeWrite = "before-write",
        AfterWrite = "after-write",
        BeforeSync = "before-sync",
        AfterSync = "after-sync",
    }
);

impl Failpoint {
    /// In a task, which stays here for ever if this is the place.
    pub async fn reach(self) {
        if self.is_here() {
            std::future::pending::<()>().await;
        }
    }

    /// The same where nothing can be awaited: the whole thread stays.
    pub fn block(self) {
        if self.is_here() {
            stay()
        }
    }

    /// The same for a call to the disk, which fails if that is asked for.
    pub fn pass(self) -> io::Result<()> {
        match order() {
            Some(order) if self.is_here() => {
                if order.is_error {
                    Err(io::Error::other("a failpoint"))
                } else {
                    stay()
                }
            }
            _ => Ok(()),
        }
    }

    /// Says so on standard error, where the test reads it.
    fn is_here(self) -> bool {
        static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
        static ARRIVALS: AtomicUsize = AtomicUsize::new(0);
        let Some(order) = order() else { return false };
        if matches!(self, Self::BeforeClaim | Self::BeforeAppend) {
            HAS_BEGUN.store(true, Ordering::Relaxed);
        }
        if order.place != self.as_str() || !HAS_BEGUN.load(Ordering::Relaxed) {
            return false;
        }
        let is_here = ARRIVALS.fetch_add(1, Ordering::Relaxed) + 1 == order.arrival;
        if is_here {
            eprintln!("failpoint {}", self.as_str());
        }
        is_here
    }
}

fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

struct Order {
    place: String,
    arrival: usize,
    is_error: bool,
}

#[expect(clippy::disallowed_methods, reason = "no setting: nothing that is shipped reads it")]
fn order() -> Option<&'static Order> {
    static ORDER: OnceLock<Option<Order>> = OnceLock::new();
    let read = || {
        let text = std::env::var("HOOKONCE_FAILPOINT").ok()?;
        let mut words = text.split(':');
        let place = words.next()?.to_owned();
        let arrival = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
        Some(Order { place, arrival, is_error: words.next() == Some("error") })
    };
    if cfg!(feature = "failpoints") { ORDER.get_or_init(read).as_ref() } else { None }
}
