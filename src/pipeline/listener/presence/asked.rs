//! A request on a connection, from its head to the last byte of its reply that was taken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::Presence;
use crate::pipeline::body::{BodyError, ReplyBody};
use crate::pipeline::refusal::Refusal;
use crate::telemetry::Limit;

/// A request that is being answered. Dropped before its reply, its sender has given it up.
#[derive(Debug)]
pub struct Asked {
    presence: Option<Arc<Presence>>,
    is_proven: bool,
    /// What it holds of its address's measure.
    bytes: u64,
}

impl Asked {
    pub(super) fn of(presence: Arc<Presence>) -> Self {
        Self { presence: Some(presence), is_proven: false, bytes: 0 }
    }

    /// Its body has been read to its end.
    pub fn read_whole(&self) {
        if let Some(presence) = &self.presence {
            presence.is_between.store(true, Relaxed);
        }
    }

    /// It holds more memory, by the word of nobody but its sender. Its body becomes this large by it.
    pub fn holds(&mut self, by: u64, body: u64) -> Result<(), Refusal> {
        let Some(unproven) = self.presence.as_ref().and_then(|presence| presence.unproven.as_ref()) else { return Ok(()) };
        let is_within = unproven.add(by, self.bytes, body);
        self.bytes += by;
        if is_within { Ok(()) } else { Err(Refusal::Limited(Limit::BufferedPerAddress)) }
    }

    /// It is known to be genuine, or need not be.
    pub fn vouched_for(&mut self) {
        let (Some(presence), false) = (&self.presence, self.is_proven) else { return };
        self.is_proven = true;
        presence.doubtful.fetch_sub(1, Relaxed);
        if let Some(unproven) = &presence.unproven {
            unproven.give_back(self.bytes);
        }
    }

    /// There is a reply, to be taken from now on.
    pub fn replied(mut self, body: ReplyBody, is_success: bool) -> Taken {
        self.vouched_for();
        let presence = self.presence.take();
        let mut period = 0;
        if let Some(presence) = &presence {
            period = presence.moved();
            presence.taking_in(period).fetch_add(1, Relaxed);
            presence.asking.fetch_sub(1, Relaxed);
            if is_success {
                presence.is_welcome.store(true, Relaxed);
                presence.abandoned.store(0, Relaxed);
            }
        }
        Taken { body, presence, counted: Counted::Taking { period } }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.vouched_for();
        if let Some(presence) = &self.presence {
            presence.asking.fetch_sub(1, Relaxed);
            presence.moved();
            presence.abandoned();
        }
    }
}

/// A reply's body, watched as it is taken.
#[derive(Debug)]
pub struct Taken {
    body: ReplyBody,
    presence: Option<Arc<Presence>>,
    counted: Counted,
}

/// Among what a reply is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// What there was has been taken, and the consumer has not sent more: nobody waits for the sender.
    Asking,
    /// The sender is waited for, since it took something in this period.
    Taking { period: u64 },
}

impl Presence {
    fn count(&self, counted: Counted) -> &AtomicU32 {
        match counted {
            Counted::Asking => &self.asking,
            Counted::Taking { period } => self.taking_in(period),
        }
    }
}

impl Taken {
    fn note(&mut self, is_to_come: bool) {
        let Some(presence) = &self.presence else { return };
        let period = presence.moved();
        let counted = if is_to_come { Counted::Asking } else { Counted::Taking { period } };
        if counted != self.counted {
            presence.count(counted).fetch_add(1, Relaxed);
            presence.count(self.counted).fetch_sub(1, Relaxed);
            self.counted = counted;
        }
    }
}

impl Body for Taken {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        // What was the last of it is noted when it is dropped, which is next.
        if !this.body.is_end_stream() {
            this.note(frame.is_pending());
        }
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
        if let Some(presence) = &self.presence {
            presence.moved();
            presence.count(self.counted).fetch_sub(1, Relaxed);
        }
    }
}
