//! What goes on on one connection, and who owes whom: a head, an answer, the taking of a reply, or nothing at all.
//!
//! One timer a connection looks at it now and then. It is set by what it sees and not by every request, so that a busy
//! connection pays for its bounds with a few stores to memory of its own.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::pipeline::body::{BodyError, ReplyBody};

/// How long a sender is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a head, from its first byte on; for the first one, from the connection's beginning on.
    pub head: Duration,
    /// While nothing moves: between requests, or while a reply is not taken.
    pub idle: Duration,
}

/// Requests that were given up by their sender on one connection since the last that was answered with success. Whoever does
/// that so often does nothing else.
const ABANDONED_MAX: u32 = 256;

/// How long a connection that was told to end may take to do so once nothing is under way on it.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a connection is ended from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A head did not come in time.
    Head,
    /// A reply was not taken in time.
    Reply,
    /// Request after request was given up.
    Abandoned,
    /// There is no room, and nothing was under way on it.
    Crowded,
    /// Nothing has been asked for a while.
    Idle,
}

#[derive(Debug)]
pub struct Presence {
    began: Instant,
    patience: Patience,
    /// Requests that are being answered, and replies that are being taken.
    asking: AtomicU32,
    taking: AtomicU32,
    abandoned: AtomicU32,
    /// When something moved last, in milliseconds since the beginning.
    moved: AtomicU64,
    /// When the first byte came that no request has been made of yet; nought where none did.
    speaking: AtomicU64,
    /// When it was asked to end; nought where it was not.
    closing: AtomicU64,
    has_asked: AtomicBool,
    is_http2: AtomicBool,
    /// Whether a request on it was answered with success.
    is_welcome: AtomicBool,
    is_shown_out: AtomicBool,
    waker: AtomicWaker,
}

/// When to look again, or that it is over.
enum Look {
    Again(Instant),
    Over(Over),
}

impl Presence {
    pub fn new(patience: Patience) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            patience,
            asking: AtomicU32::default(),
            taking: AtomicU32::default(),
            abandoned: AtomicU32::default(),
            moved: AtomicU64::default(),
            speaking: AtomicU64::default(),
            closing: AtomicU64::default(),
            has_asked: AtomicBool::default(),
            is_http2: AtomicBool::default(),
            is_welcome: AtomicBool::default(),
            is_shown_out: AtomicBool::default(),
            waker: AtomicWaker::new(),
        })
    }

    /// A request has come whole, but for its body.
    pub fn asked(self: &Arc<Self>, version: Version) -> Asked {
        self.asking.fetch_add(1, Relaxed);
        self.speaking.store(0, Relaxed);
        self.has_asked.store(true, Relaxed);
        self.is_http2.store(version == Version::HTTP_2, Relaxed);
        Asked { presence: Some(Arc::clone(self)) }
    }

    /// Bytes have come. While nothing is under way they are the beginning of a request.
    pub fn spoke(&self) {
        if self.is_quiet() && self.speaking.load(Relaxed) == 0 {
            self.speaking.store(self.millis().max(1), Relaxed);
        }
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.asking.load(Relaxed) == 0 && self.taking.load(Relaxed) == 0
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
            let until = match self.look() {
                Look::Over(over) => return over,
                Look::Again(until) => until,
            };
            let mut sleep = pin!(sleep_until(until));
            std::future::poll_fn(|cx| {
                self.waker.register(cx.waker());
                if self.is_shown_out.load(Relaxed) { Poll::Ready(()) } else { sleep.as_mut().poll(cx) }
            })
            .await;
        }
    }

    fn look(&self) -> Look {
        let Patience { head, idle } = self.patience;
        let at = |millis: &AtomicU64| self.began + Duration::from_millis(millis.load(Relaxed));
        let is_closing = self.closing.load(Relaxed) > 0;
        let head = if is_closing { FAREWELL } else { head };
        let (due, over) = if self.abandoned.load(Relaxed) >= ABANDONED_MAX {
            return Look::Over(Over::Abandoned);
        } else if self.is_shown_out.swap(false, Relaxed) && self.is_quiet() {
            return Look::Over(Over::Crowded);
        } else if self.asking.load(Relaxed) > 0 {
            return Look::Again(Instant::now() + head);
        } else if self.taking.load(Relaxed) > 0 {
            (at(&self.moved) + idle, Over::Reply)
        } else if is_closing {
            (at(&self.closing).max(at(&self.moved)) + FAREWELL, Over::Idle)
        } else if !self.has_asked.load(Relaxed) {
            (self.began + head, Over::Head)
        } else if self.speaking.load(Relaxed) > 0 && !self.is_http2.load(Relaxed) {
            (at(&self.speaking) + head, Over::Head)
        } else {
            (at(&self.moved) + idle, Over::Idle)
        };
        let now = Instant::now();
        if due <= now { Look::Over(over) } else { Look::Again(due.min(now + head)) }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn moved(&self) {
        self.moved.store(self.millis(), Relaxed);
    }
}

/// A request that is being answered. Dropped before its reply, its sender has given it up.
#[derive(Debug)]
pub struct Asked {
    presence: Option<Arc<Presence>>,
}

impl Asked {
    /// There is a reply, to be taken from now on.
    pub fn replied(mut self, body: ReplyBody, is_success: bool) -> Taken {
        let presence = self.presence.take();
        if let Some(presence) = &presence {
            presence.taking.fetch_add(1, Relaxed);
            presence.asking.fetch_sub(1, Relaxed);
            presence.moved();
            if is_success {
                presence.is_welcome.store(true, Relaxed);
                presence.abandoned.store(0, Relaxed);
            }
        }
        Taken { body, presence, is_to_come: false }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(presence) = &self.presence {
            presence.asking.fetch_sub(1, Relaxed);
            presence.moved();
            if presence.abandoned.fetch_add(1, Relaxed) + 1 == ABANDONED_MAX {
                presence.show_out();
            }
        }
    }
}

/// A reply's body, watched as it is taken.
#[derive(Debug)]
pub struct Taken {
    body: ReplyBody,
    presence: Option<Arc<Presence>>,
    /// What there was has been taken, and the consumer has not sent more: nobody waits for the sender.
    is_to_come: bool,
}

impl Taken {
    fn note(&mut self, is_to_come: bool) {
        let Some(presence) = &self.presence else { return };
        presence.moved();
        match (std::mem::replace(&mut self.is_to_come, is_to_come), is_to_come) {
            (false, true) => {
                presence.asking.fetch_add(1, Relaxed);
                presence.taking.fetch_sub(1, Relaxed);
            }
            (true, false) => {
                presence.taking.fetch_add(1, Relaxed);
                presence.asking.fetch_sub(1, Relaxed);
            }
            _ => {}
        }
    }
}

impl Body for Taken {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        this.note(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.note(false);
        if let Some(presence) = &self.presence {
            presence.taking.fetch_sub(1, Relaxed);
        }
    }
}
