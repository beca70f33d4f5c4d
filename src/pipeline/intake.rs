//! Reading a request whole: its raw body, bounded in size, time and total, never decompressed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header;
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::body::Outgoing;
use super::caller::Caller;
use super::listener::presence::Asked;
use super::refusal::Refusal;
use crate::config::Limits;
use crate::scheme::Received;
use crate::telemetry::Limit;

/// A request read whole. Nothing of it is believed yet.
#[derive(Debug)]
pub struct Delivery {
    /// Boxed, here and on its way: every future that it goes through would have room for it, twice.
    pub parts: Box<Parts>,
    pub body: Bytes,
    pub caller: Caller,
    /// Its share of all buffered bytes, given back with the delivery.
    _share: Share,
}

impl Delivery {
    /// A delivery that was kept.
    pub fn kept(parts: impl Into<Box<Parts>>, body: Bytes, caller: Caller) -> Self {
        let share = Share::default();
        Self { parts: parts.into(), body, caller, _share: share }
    }

    /// The delivery as a scheme looks at it.
    pub fn received(&self) -> Received<'_> {
        Received { method: &self.parts.method, uri: &self.parts.uri, headers: &self.parts.headers, body: &self.body }
    }
}

/// Memory that is taken on the word of a sender.
const CAPACITY_MAX: usize = 64 << 10;
/// By how many times of what has come a body's room grows, as far as more was announced. Twice would be to copy it more often, megabytes
/// at a time, while everybody else on this core waits; as much as was announced, to take a sender at its word.
const GROWTH: usize = 4;

/// How much of a refused body is still read, and for how long.
const DISCARD_BYTES_MAX: usize = 32 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// A request's body. Dropped before its end, the rest is read for a while and thrown away: a sender that says everything
/// before it listens would otherwise see a reset instead of the answer.
#[derive(Debug)]
pub struct Inbound {
    body: Option<Incoming>,
    /// The sender listens first, and sends nothing that was refused.
    is_asked_for: bool,
}

impl Inbound {
    pub fn new(parts: &Parts, body: Incoming) -> Self {
        Self { body: Some(body), is_asked_for: parts.headers.contains_key(header::EXPECT) }
    }

    pub fn is_at_end(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    /// To be passed through as it comes.
    pub fn stream(mut self) -> Outgoing {
        self.body.take().map_or_else(|| Outgoing::Whole(Bytes::new()), Outgoing::Stream)
    }

    fn announced(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().exact())
    }

    /// The next piece of data; trailers end a body as its end does.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Refusal> {
        let Some(body) = &mut self.body else { return Ok(None) };
        match body.frame().await {
            Some(Ok(frame)) => Ok(frame.into_data().ok()),
            Some(Err(_)) => Err(Refusal::BrokenBody),
            None => Ok(None),
        }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        let is_coming = !self.is_asked_for && !self.is_at_end();
        // Without a runtime the connection is gone too.
        if let (Some(body), Ok(runtime)) = (self.body.take_if(|_| is_coming), Handle::try_current()) {
            runtime.spawn(timeout(DISCARD_TIME, discard(body)));
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut left = DISCARD_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(size) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// Reads the body. What is certainly too much is refused before its first byte.
pub async fn read(
    parts: Box<Parts>,
    body: Inbound,
    caller: Caller,
    mut room: Room<'_>,
    bounds: &Bounds,
) -> Result<Delivery, Refusal> {
    let announced = body.announced();
    if announced.unwrap_or(0) > bounds.body_bytes_max {
        return Err(Refusal::TooLarge);
    }
    // What is only announced takes no room: a few heads would shut everybody else out.
    let body = collect(body, announced, bounds, &mut room).await?;
    Ok(Delivery { parts, body, caller, _share: room.share })
}

#[derive(Debug)]
pub struct Bounds {
    pub body_bytes_max: u64,
    pub time: Duration,
    /// Bytes a second, over any stretch.
    pub rate: u64,
    /// Long enough for what was lost on the way to be sent again.
    pub stretch: Duration,
}

async fn collect(mut body: Inbound, announced: Option<u64>, bounds: &Bounds, room: &mut Room<'_>) -> Result<Bytes, Refusal> {
    let max = bounds.body_bytes_max;
    let mut haste = Haste::new(bounds);
    let Some(first) = haste.within(body.next_chunk(), 0).await? else { return Ok(Bytes::new()) };
    if body.is_at_end() && first.len() as u64 <= max {
        // The usual case: one read, no copy.
        room.grow(first.len() as u64, first.len() as u64)?;
        return Ok(first);
    }
    let announced = usize::try_from(announced.unwrap_or(0)).unwrap_or(0);
    let mut whole = BytesMut::with_capacity(announced.clamp(first.len(), CAPACITY_MAX.max(first.len())));
    let mut chunk = Some(first);
    while let Some(bytes) = chunk {
        let size = whole.len() as u64 + bytes.len() as u64;
        if size > max {
            return Err(Refusal::TooLarge);
        }
        room.grow(bytes.len() as u64, size)?;
        if whole.capacity() - whole.len() < bytes.len() {
            whole.reserve(announced.saturating_sub(whole.len()).min(GROWTH * whole.len()).max(bytes.len()));
        }
        whole.extend_from_slice(&bytes);
        chunk = haste.within(body.next_chunk(), size).await?;
    }
    Ok(whole.freeze())
}

/// When a body is given up: at the end of its whole time, or of a stretch in which it brought too little.
struct Haste {
    end: Instant,
    /// What a stretch has to bring.
    least: u64,
    stretch: Duration,
    stretch_end: Instant,
    /// How much there must be for another stretch to begin.
    wanted: u64,
}

impl Haste {
    fn new(bounds: &Bounds) -> Self {
        let (now, stretch) = (Instant::now(), bounds.stretch);
        let least = (u128::from(bounds.rate) * stretch.as_millis() / 1000) as u64;
        let end = now + bounds.time;
        let stretch_end = if least == 0 { end } else { now + stretch };
        Self { end, least, stretch, stretch_end, wanted: least }
    }

    /// Waits for more, where there are `size` bytes already.
    async fn within<T>(&mut self, more: impl Future<Output = Result<T, Refusal>>, size: u64) -> Result<T, Refusal> {
        if self.least > 0 && size >= self.wanted {
            self.stretch_end = Instant::now() + self.stretch;
            self.wanted = size.saturating_add(self.least);
        }
        timeout_at(self.end.min(self.stretch_end), more).await.map_err(|_| Refusal::TooSlow)?
    }
}

/// What a request takes beside its bytes: its task, and its place in the books of the HTTP library.
const REQUEST_BYTES: u64 = 8 << 10;

/// The bytes of all requests held at once, in this process.
#[derive(Clone, Debug)]
pub struct Buffered {
    held: Arc<AtomicU64>,
    max: u64,
    max_of_large: u64,
}

impl Buffered {
    pub fn new(limits: &Limits) -> Self {
        Self { held: Arc::default(), max: limits.buffered.0, max_of_large: limits.buffered_large().0 }
    }

    /// Room for a request whose head is this large. Its body has taken none yet.
    pub fn room<'a>(&self, head: u64, asked: &'a mut Asked) -> Result<Room<'a>, Refusal> {
        let mut room = Room { share: Share { of: Some(self.clone()), bytes: 0 }, asked };
        room.grow(REQUEST_BYTES + head, 0)?;
        Ok(room)
    }
}

/// What a request takes while it comes: of all that is buffered, and of what its address may hold unproven.
#[derive(Debug)]
pub struct Room<'a> {
    share: Share,
    pub asked: &'a mut Asked,
}

impl Room<'_> {
    /// Takes more, by which the body becomes this large.
    fn grow(&mut self, by: u64, body: u64) -> Result<(), Refusal> {
        self.share.grow(by, body)?;
        self.asked.holds(by, body)
    }
}

/// What one request holds of them. What was kept holds none.
#[derive(Debug, Default)]
struct Share {
    of: Option<Buffered>,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, by: u64, body: u64) -> Result<(), Refusal> {
        let Some(of) = &self.of else { return Ok(()) };
        let before = of.held.fetch_add(by, Ordering::Relaxed);
        self.bytes += by;
        let max = if body > Limits::SMALL_BODY.0 { of.max_of_large } else { of.max };
        if before + by > max { Err(Refusal::Limited(Limit::Buffered)) } else { Ok(()) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}
