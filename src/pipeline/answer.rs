//! The consumer's answer: read as far as it is kept in memory, so that several copies can be given it.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{header, response};
use tokio::time::{Instant, timeout_at};

use super::body::{Measure, ReplyBody};
use super::reply::Shared;
use super::upstream::Heard;
use crate::store::StoredReply;

/// Replies up to this size are kept for duplicates.
const REPLAY_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug)]
pub struct Answer {
    pub parts: Box<response::Parts>,
    pub body: ReplyBody,
    /// The whole body, unless it was too large to keep or broke off.
    whole: Option<Bytes>,
}

impl Answer {
    /// Reads up to `kept_max` bytes of the body; what is beyond is streamed to the one sender that has the connection, as far as
    /// `measure` allows.
    pub async fn read(heard: Box<Heard>, kept_max: usize, measure: impl FnOnce(usize) -> Measure, deadline: Instant) -> Self {
        let Heard { mut parts, mut used } = *heard;
        let mut kept = Kept::default();
        while !used.is_at_end() {
            if kept.len() > kept_max {
                let measure = measure(kept.len());
                return Self { parts, body: ReplyBody::streaming(kept.freeze(), used, Some(measure)), whole: None };
            }
            match timeout_at(deadline, poll_fn(|cx| used.poll_piece(cx))).await {
                Ok(None) => break,
                Ok(Some(Ok(piece))) => kept.push(piece),
                // The head decides; a body that breaks off, or does not end, is passed on as far as it came.
                Ok(Some(Err(_))) | Err(_) => {
                    parts.headers.remove(header::CONTENT_LENGTH);
                    return Self { parts, body: ReplyBody::whole(kept.freeze()), whole: None };
                }
            }
        }
        used.put_back();
        let whole = kept.freeze();
        Self { parts, body: ReplyBody::whole(whole.clone()), whole: Some(whole) }
    }

    /// The answer for copies that wait.
    pub fn shared(&self, is_success: bool) -> Arc<Shared> {
        Arc::new(Shared { status: self.parts.status, headers: self.parts.headers.clone(), body: self.whole.clone(), is_success })
    }

    /// The reply to keep for duplicates, if it is small enough.
    pub fn to_store(&self) -> Option<Box<StoredReply>> {
        // An encoded body means nothing without its encoding, which is not kept.
        let is_plain = !self.parts.headers.contains_key(header::CONTENT_ENCODING);
        let body = self.whole.clone().filter(|body| is_plain && body.len() <= REPLAY_BYTES_MAX)?;
        let content_type = self.parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Some(Box::new(StoredReply { content_type: content_type.map(str::to_owned), body }))
    }
}

/// Chunks put together. The usual answer is one chunk and is not copied.
#[derive(Default)]
struct Kept {
    first: Bytes,
    more: BytesMut,
}

impl Kept {
    fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.more.is_empty() {
            self.first = chunk;
            return;
        }
        self.more.extend_from_slice(&std::mem::take(&mut self.first));
        self.more.extend_from_slice(&chunk);
    }

    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    fn freeze(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}
