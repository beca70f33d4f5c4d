//! Reading a request whole: its raw body, bounded in size, time and total, never decompressed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::refusal::Refusal;
use crate::scheme::Received;
use crate::telemetry::Limit;

/// A request read whole. Nothing of it is believed yet.
#[derive(Debug)]
pub struct Delivery {
    pub parts: Parts,
    pub body: Bytes,
    pub peer: IpAddr,
    /// The body's share of all buffered bytes, given back with the delivery.
    _share: Share,
}

impl Delivery {
    /// The delivery as a scheme looks at it.
    pub fn received(&self) -> Received<'_> {
        Received { method: &self.parts.method, uri: &self.parts.uri, headers: &self.parts.headers, body: &self.body }
    }
}

/// Reads the body. What is certainly too much is refused before its first byte.
pub async fn read(parts: Parts, body: Incoming, peer: IpAddr, bounds: &Bounds<'_>) -> Result<Delivery, Refusal> {
    let announced = body.size_hint().exact();
    if announced.unwrap_or(0) > bounds.body_bytes_max {
        return Err(Refusal::TooLarge);
    }
    let mut share = bounds.buffered.share();
    share.grow(announced.unwrap_or(0))?;
    let collected = timeout(bounds.time, collect(body, announced, bounds.body_bytes_max, &mut share)).await;
    let body = collected.map_err(|_| Refusal::TooSlow)??;
    Ok(Delivery { parts, body, peer, _share: share })
}

#[derive(Debug)]
pub struct Bounds<'a> {
    pub body_bytes_max: u64,
    pub time: Duration,
    pub buffered: &'a Buffered,
}

async fn collect(mut body: Incoming, announced: Option<u64>, max: u64, share: &mut Share) -> Result<Bytes, Refusal> {
    let Some(first) = next_chunk(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() && first.len() as u64 <= max {
        // The usual case: one read, no copy.
        share.grow_to(first.len() as u64)?;
        return Ok(first);
    }
    let capacity = usize::try_from(announced.unwrap_or(0)).unwrap_or(0).max(first.len());
    let mut whole = BytesMut::with_capacity(capacity);
    let mut chunk = Some(first);
    while let Some(bytes) = chunk {
        let size = whole.len() as u64 + bytes.len() as u64;
        if size > max {
            return Err(Refusal::TooLarge);
        }
        share.grow_to(size)?;
        whole.extend_from_slice(&bytes);
        chunk = next_chunk(&mut body).await?;
    }
    Ok(whole.freeze())
}

/// The next piece of data; trailers end a body as its end does.
async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    match body.frame().await {
        Some(Ok(frame)) => Ok(frame.into_data().ok()),
        Some(Err(_)) => Err(Refusal::BrokenBody),
        None => Ok(None),
    }
}

/// The bytes of all bodies held at once, in this process.
#[derive(Clone, Debug)]
pub struct Buffered {
    held: Arc<AtomicU64>,
    max: u64,
}

impl Buffered {
    pub fn new(max: u64) -> Self {
        Self { held: Arc::default(), max }
    }

    fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0 }
    }
}

#[derive(Debug)]
struct Share {
    of: Buffered,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, by: u64) -> Result<(), Refusal> {
        let before = self.of.held.fetch_add(by, Ordering::Relaxed);
        self.bytes += by;
        if before + by > self.of.max { Err(Refusal::Limited(Limit::Buffered)) } else { Ok(()) }
    }

    fn grow_to(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.grow(bytes.saturating_sub(self.bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
