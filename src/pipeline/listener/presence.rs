//! What goes on on one connection, and who owes whom: a head, an answer, the taking of a reply, or nothing at all.
//!
//! One timer a connection looks at it now and then. It is set by what it sees and not by every request, so that a busy
//! connection pays for its bounds with a few stores to memory of its own.

mod asked;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use http::Version;
use tokio::time::{Instant, sleep_until};

use super::crowd::Unproven;
pub use asked::{Asked, Taken};

/// How long a sender is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a head, from its first byte on; for the first one, from the connection's beginning on.
    pub head: Duration,
    /// While nothing moves: between requests, or while a reply is not taken.
    pub idle: Duration,
}

/// Requests that were given up by their sender on one connection within this time, with none between them that was answered
/// with success. Whoever does that so often does nothing else.
const ABANDONED_MAX: u32 = 256;
const ABANDONED_WITHIN: u64 = 10_000;

/// Replies are counted by the period they moved in last, so that one that is not taken is seen among others that are, and no
/// reply needs a clock of its own. This many periods are an idle time.
const PERIODS_OF_IDLE: u64 = 4;
/// More than those that a reply may have moved in last: the one that is not over, the idle time's, and one to be found in.
const PERIODS: usize = 8;

/// How long a connection that was told to end may take to do so once nothing is under way on it.
const FAREWELL: Duration = Duration::from_secs(1);

/// From when on a connection that nobody uses is kept without the buffers of the HTTP library.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Long enough for a request to come whole from far away.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// Why a connection is ended from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A head did not come in time.
    Head,
    /// A reply was not taken in time.
    Reply,
    /// Request after request was given up.
    Abandoned,
    /// There is no room, and nothing was under way on it that anybody had vouched for.
    Crowded,
    /// Nothing has been asked for a while.
    Idle,
}

#[derive(Debug)]
pub struct Presence {
    began: Instant,
    patience: Patience,
    /// Where the bytes of its address are counted, if they are.
    unproven: Option<Arc<Unproven>>,
    /// Requests that are being answered, and those among them that nobody has vouched for yet.
    asking: AtomicU32,
    doubtful: AtomicU32,
    /// Replies that are being taken, by the period in which they moved last.
    taking: [AtomicU32; PERIODS],
    /// Requests that were given up, and since when they are counted.
    abandoned: AtomicU32,
    abandoned_since: AtomicU64,
    /// When something moved last, in milliseconds since the beginning.
    moved: AtomicU64,
    /// When the first byte came that no request has been made of yet; nought where none did.
    speaking: AtomicU64,
    /// When it was asked to end; nought where it was not.
    closing: AtomicU64,
    has_asked: AtomicBool,
    /// Whether the last request has been read to its end: what comes next is the beginning of another one.
    is_between: AtomicBool,
    /// Whether something that was written has not been taken by the kernel yet.
    is_blocked: AtomicBool,
    is_http2: AtomicBool,
    /// Whether a request on it was answered with success.
    is_welcome: AtomicBool,
    is_shown_out: AtomicBool,
    is_shut: AtomicBool,
    waker: AtomicWaker,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    End(Over),
    /// Nothing has been under way for a while, neither read nor written in part.
    Rest,
}

/// When to look again, or that it is over.
enum Look {
    Again(Instant),
    Over(Over),
}

impl Presence {
    pub fn new(patience: Patience, unproven: Option<Arc<Unproven>>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            patience,
            unproven,
            asking: AtomicU32::default(),
            doubtful: AtomicU32::default(),
            taking: Default::default(),
            abandoned: AtomicU32::default(),
            abandoned_since: AtomicU64::default(),
            moved: AtomicU64::default(),
            speaking: AtomicU64::default(),
            closing: AtomicU64::default(),
            has_asked: AtomicBool::default(),
            is_between: AtomicBool::default(),
            is_blocked: AtomicBool::default(),
            is_http2: AtomicBool::default(),
            is_welcome: AtomicBool::default(),
            is_shown_out: AtomicBool::default(),
            is_shut: AtomicBool::default(),
            waker: AtomicWaker::new(),
        })
    }

    /// A request has come whole, but for its body where it has one.
    pub fn asked(self: &Arc<Self>, version: Version, has_body: bool) -> Asked {
        self.is_between.store(!has_body, Relaxed);
        self.asking.fetch_add(1, Relaxed);
        self.doubtful.fetch_add(1, Relaxed);
        self.speaking.store(0, Relaxed);
        self.has_asked.store(true, Relaxed);
        self.is_http2.store(version == Version::HTTP_2, Relaxed);
        Asked::of(Arc::clone(self))
    }

    /// Bytes have come. While nothing is under way they are the beginning of a request.
    pub fn spoke(&self) {
        if self.is_quiet() && self.speaking.load(Relaxed) == 0 {
            self.speaking.store(self.millis().max(1), Relaxed);
        }
    }

    /// The kernel has taken what was written, or it has not.
    pub fn wrote(&self, is_taken: bool) {
        self.is_blocked.store(!is_taken, Relaxed);
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.asking.load(Relaxed) == 0 && !self.is_taking()
    }

    /// Whether nothing is under way but requests that nobody has vouched for yet, as a rule since they have not come whole.
    pub fn is_doubtful(&self) -> bool {
        self.asking.load(Relaxed) == self.doubtful.load(Relaxed) && !self.is_taking()
    }

    fn is_taking(&self) -> bool {
        self.taking.iter().any(|count| count.load(Relaxed) > 0)
    }

    /// Whether it has had the time that a request takes.
    pub fn is_old(&self) -> bool {
        self.began.elapsed() >= REQUEST_TIME
    }

    pub fn is_welcome(&self) -> bool {
        self.is_welcome.load(Relaxed)
    }

    /// It has been told to end: nothing more is waited for than what is under way.
    pub fn close(&self) {
        self.closing.store(self.millis().max(1), Relaxed);
    }

    /// Asks it to go: its place is needed.
    pub fn show_out(&self) {
        self.is_shown_out.store(true, Relaxed);
        self.waker.wake();
    }

    /// The door is closed: what is under way on it goes on, and nothing more is waited for.
    pub fn shut(&self) {
        self.is_shut.store(true, Relaxed);
        self.waker.wake();
    }

    pub fn is_asked_to_go(&self) -> bool {
        self.is_shown_out.load(Relaxed)
    }

    #[cfg(test)]
    pub fn stays(&self) {
        self.is_shown_out.store(false, Relaxed);
    }

    /// Waits until it is over for one of the reasons there are.
    pub async fn over(&self) -> Over {
        loop {
            if let Due::End(over) = self.due(false).await {
                return over;
            }
        }
    }

    /// Waits until it is over, or may rest.
    pub async fn due(&self, may_rest: bool) -> Due {
        let mut has_waited = false;
        loop {
            let mut until = match self.look() {
                Look::Over(over) => return Due::End(over),
                Look::Again(until) => until,
            };
            if may_rest {
                let rested = self.at(&self.moved) + REST_AFTER;
                let now = Instant::now();
                // Never at once: whoever is woken by something else than a request would go round and round.
                if has_waited && rested <= now && self.is_still() {
                    return Due::Rest;
                }
                until = until.min(rested.max(now + REST_AFTER / 2));
            }
            let mut sleep = pin!(sleep_until(until));
            std::future::poll_fn(|cx| {
                self.waker.register(cx.waker());
                let is_called = self.is_shown_out.load(Relaxed) || self.is_shut.load(Relaxed);
                if is_called { Poll::Ready(()) } else { sleep.as_mut().poll(cx) }
            })
            .await;
            has_waited = true;
        }
    }

    /// Whether nothing is under way, and nothing is half read or half written.
    fn is_still(&self) -> bool {
        let is_silent = self.speaking.load(Relaxed) == 0 && self.is_between.load(Relaxed);
        is_silent && self.is_quiet() && !self.is_blocked.load(Relaxed)
    }

    fn at(&self, millis: &AtomicU64) -> Instant {
        self.began + Duration::from_millis(millis.load(Relaxed))
    }

    fn look(&self) -> Look {
        let Patience { head, idle } = self.patience;
        let is_closing = self.closing.load(Relaxed) > 0;
        let head = if is_closing { FAREWELL } else { head };
        let is_busy = self.asking.load(Relaxed) > 0;
        let (due, over) = if self.abandoned.load(Relaxed) >= ABANDONED_MAX {
            return Look::Over(Over::Abandoned);
        } else if self.is_shown_out.swap(false, Relaxed) && self.is_doubtful() {
            return Look::Over(Over::Crowded);
        } else if self.is_shut.swap(false, Relaxed) && !is_closing {
            return Look::Over(Over::Idle);
        } else if let Some(due) = self.reply_due() {
            match is_busy {
                false => (due, Over::Reply),
                // The others on it are no worse than they were: it is told to end, and they have time for that.
                true if is_closing => (due.max(self.at(&self.closing) + idle), Over::Reply),
                true => (due, Over::Idle),
            }
        } else if is_busy {
            return Look::Again(Instant::now() + head.min(idle));
        } else if is_closing {
            (self.at(&self.closing).max(self.at(&self.moved)) + FAREWELL, Over::Idle)
        } else if !self.has_asked.load(Relaxed) {
            (self.began + head, Over::Head)
        } else if self.speaking.load(Relaxed) > 0 && !self.is_http2.load(Relaxed) {
            (self.at(&self.speaking) + head, Over::Head)
        } else {
            (self.at(&self.moved) + idle, Over::Idle)
        };
        let now = Instant::now();
        if due <= now { Look::Over(over) } else { Look::Again(due.min(now + head)) }
    }

    /// When the reply that has not moved for the longest is given up.
    fn reply_due(&self) -> Option<Instant> {
        let now = self.period();
        let earliest = (now + 1).saturating_sub(PERIODS as u64);
        let oldest = (earliest..=now).find(|period| self.taking_in(*period).load(Relaxed) > 0)?;
        Some(self.began + Duration::from_millis((oldest + PERIODS_OF_IDLE + 1) * self.period_millis()))
    }

    fn period(&self) -> u64 {
        self.millis() / self.period_millis()
    }

    fn period_millis(&self) -> u64 {
        let idle = u64::try_from(self.patience.idle.as_millis()).unwrap_or(u64::MAX);
        (idle / PERIODS_OF_IDLE).max(1)
    }

    fn taking_in(&self, period: u64) -> &AtomicU32 {
        &self.taking[(period % PERIODS as u64) as usize]
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Something moves. Gives the period it does so in.
    fn moved(&self) -> u64 {
        let now = self.millis();
        self.moved.store(now, Relaxed);
        now / self.period_millis()
    }

    /// A request was given up.
    fn abandoned(&self) {
        let now = self.moved.load(Relaxed);
        if now.saturating_sub(self.abandoned_since.load(Relaxed)) > ABANDONED_WITHIN {
            self.abandoned_since.store(now, Relaxed);
            self.abandoned.store(0, Relaxed);
        }
        if self.abandoned.fetch_add(1, Relaxed) + 1 == ABANDONED_MAX {
            self.show_out();
        }
    }
}
