//! The two bodies that leave the program: towards the consumer, and towards the sender.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use prometheus::IntCounter;

use super::upstream::{Fault, Used};

/// A request's body towards the consumer.
#[derive(Debug)]
pub enum Outgoing {
    /// A delivery: read and verified whole.
    Whole(Bytes),
    /// A request that is passed through.
    Stream(Incoming),
}

/// A reply's body: what has been read of it, then the rest as it comes.
#[derive(Debug, Default)]
pub struct ReplyBody {
    ready: Bytes,
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    used: Used,
    measure: Option<Measure>,
}

/// How much more is passed on, and what counts whoever sends more.
#[derive(Clone, Debug)]
pub struct Measure {
    pub left: u64,
    pub exceeded: IntCounter,
}

impl Measure {
    /// Takes off what is passed on. Tells whether it was too much.
    fn is_exceeded_by(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes as u64);
        self.left = left.unwrap_or(0);
        if left.is_none() {
            self.exceeded.inc();
        }
        left.is_none()
    }
}

/// Why a reply breaks off.
#[derive(Debug)]
pub enum BodyError {
    /// The consumer's own does.
    Broken(Fault),
    /// It is longer than what is passed on.
    TooLong,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(error) => write!(f, "the consumer's answer broke off: {error}"),
            Self::TooLong => f.write_str("the consumer's answer is longer than what is passed on"),
        }
    }
}

impl std::error::Error for BodyError {}

impl ReplyBody {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { ready: bytes.into(), rest: None }
    }

    /// Passes on no more than is allowed, where it is measured.
    pub fn streaming(ready: Bytes, used: Used, measure: Option<Measure>) -> Self {
        let mut streaming = Self { ready, rest: Some(Rest { used, measure }) };
        streaming.put_back_at_end();
        streaming
    }

    /// A body that is at its end may not be asked again, so that its connection is put back as soon as that is known.
    fn put_back_at_end(&mut self) {
        if let Some(rest) = self.rest.take_if(|rest| rest.used.is_at_end()) {
            rest.used.put_back();
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if !this.ready.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.ready)))));
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        let piece = ready!(rest.used.poll_piece(cx)).map(|piece| piece.map_err(BodyError::Broken));
        match &piece {
            Some(Ok(piece)) if rest.measure.as_mut().is_some_and(|measure| measure.is_exceeded_by(piece.len())) => {
                this.rest = None;
                return Poll::Ready(Some(Err(BodyError::TooLong)));
            }
            Some(Ok(_)) => this.put_back_at_end(),
            Some(Err(_)) => this.rest = None,
            None => {
                if let Some(rest) = this.rest.take() {
                    rest.used.put_back();
                }
            }
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let ready = self.ready.len() as u64;
        match self.rest.as_ref().map(|rest| rest.used.left()) {
            None => SizeHint::with_exact(ready),
            Some(Some(left)) => SizeHint::with_exact(ready + left),
            Some(None) => SizeHint::default(),
        }
    }
}
