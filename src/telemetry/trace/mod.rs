//! Traces: one span a delivery, one for each of its steps. A trace goes on where the sender's left off, and the consumer is told
//! where it is.
//!
//! Spans are kept with their delivery and given away as one when the last of its tasks has ended. Those of a delivery that did not
//! verify are thrown away: nobody shall fill our memory, or somebody's traces, with what we have not asked for.

pub mod context;
pub mod export;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::Share;
use context::{Context, SpanId, TraceId};

/// Deliveries whose spans wait to be exported. Those beyond are dropped, and counted.
const WAITING_MAX: usize = 1024;

/// Begins traces.
#[derive(Debug)]
pub struct Tracer {
    sample: Share,
    ended: mpsc::Sender<Vec<Span>>,
    dropped: IntCounter,
}

impl Tracer {
    /// One that records this share of the traces it begins, and where spans come out.
    pub fn new(sample: Share, dropped: IntCounter) -> (Self, mpsc::Receiver<Vec<Span>>) {
        let (ended, spans) = mpsc::channel(WAITING_MAX);
        (Self { sample, ended, dropped }, spans)
    }

    /// Begins with a request: where it is part of a trace, as its sender wishes.
    pub fn begin(self: &Arc<Self>, kind: Kind, headers: &HeaderMap, now: SystemTime) -> Trace {
        let parent = Context::of(headers);
        let mut random = [0; 24];
        // Without chance there would be no telling traces apart.
        if getrandom::fill(&mut random).is_err() {
            return Trace::default();
        }
        let (high, low) = random.split_at(16);
        // Nought means nothing to others.
        let fresh = u128::from_ne_bytes(high.try_into().unwrap_or_default()) | 1;
        let own = SpanId(u64::from_ne_bytes(low.try_into().unwrap_or_default()) | 1);
        let trace = parent.map_or(TraceId(fresh), |parent| parent.trace);
        let is_sampled = parent.map_or_else(|| self.sample.has(fresh as u64), |parent| parent.is_sampled);
        Trace(Some(Arc::new(Inner {
            tracer: Arc::clone(self),
            kind,
            own: Context { trace, span: own, is_sampled },
            parent: parent.map(|parent| parent.span),
            began: now,
            since: Instant::now(),
            last: AtomicU64::new(own.0),
            is_genuine: AtomicBool::new(false),
            spans: Mutex::default(),
        })))
    }
}

/// What a span says of those at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A step within.
    Internal = 1,
    /// A delivery that came in.
    Server = 2,
    /// A call to the consumer.
    Client = 3,
    /// A letter from the queue.
    Consumer = 5,
}

/// Something that took its time.
#[derive(Clone, Debug)]
pub struct Span {
    pub context: Context,
    pub parent: Option<SpanId>,
    pub name: Cow<'static, str>,
    pub kind: Kind,
    pub start: SystemTime,
    pub end: SystemTime,
    pub notes: Vec<(&'static str, Note)>,
    /// Why it failed, where it did.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Text(String),
    Number(i64),
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u16> for Note {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for Note {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// The trace of one delivery, or of one attempt at a letter. Without a tracer it is empty and costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    tracer: Arc<Tracer>,
    kind: Kind,
    own: Context,
    parent: Option<SpanId>,
    began: SystemTime,
    since: Instant,
    /// The id that was given out last.
    last: AtomicU64,
    /// Whether the delivery has verified.
    is_genuine: AtomicBool,
    // A std mutex: held to add a span, never across an await.
    spans: Mutex<Vec<Span>>,
}

/// How the consumer is told.
#[derive(Clone, Debug)]
pub struct Onward {
    pub parent: HeaderValue,
    /// Whether the trace begins here: what the sender said of another one is not passed on.
    pub begins: bool,
}

impl Trace {
    /// The trace's id, where it is recorded.
    pub fn id(&self) -> Option<TraceId> {
        self.0.as_ref().filter(|inner| inner.own.is_sampled).map(|inner| inner.own.trace)
    }

    /// The delivery is its sender's: its spans may be kept.
    pub fn is_genuine(&self) {
        if let Some(inner) = &self.0 {
            inner.is_genuine.store(true, Ordering::Relaxed);
        }
    }

    /// A step that begins now, and ends when it is dropped.
    pub fn step(&self, name: &'static str) -> Step {
        self.open(name, Kind::Internal)
    }

    /// A call to the consumer, the same way.
    pub fn call(&self, name: &'static str) -> Step {
        self.open(name, Kind::Client)
    }

    fn open(&self, name: &'static str, kind: Kind) -> Step {
        let recorded = self.0.as_ref().filter(|inner| inner.own.is_sampled);
        Step(recorded.map(|inner| {
            let span = SpanId(inner.last.fetch_add(2, Ordering::Relaxed).wrapping_add(2));
            let open =
                Open { trace: Arc::clone(inner), span, name, kind, began: inner.since.elapsed(), notes: Vec::new(), error: None };
            Box::new(open)
        }))
    }

    /// What the consumer is told of a call. A trace that nobody records is passed on as it came.
    pub fn onward(&self, call: &Step) -> Option<Onward> {
        let inner = self.0.as_ref()?;
        let begins = inner.parent.is_none();
        let span = match &call.0 {
            Some(open) => open.span,
            None if begins => inner.own.span,
            None => return None,
        };
        Some(Onward { parent: Context { span, ..inner.own }.header()?, begins })
    }

    /// The same for whoever goes on later with what this was begun for.
    pub fn onward_from_here(&self) -> Option<Onward> {
        let inner = self.0.as_ref().filter(|inner| inner.own.is_sampled || inner.parent.is_none())?;
        Some(Onward { parent: inner.own.header()?, begins: inner.parent.is_none() })
    }

    /// Ends what it was begun for. Its steps may go on.
    pub fn end(&self, name: impl FnOnce() -> String, notes: impl FnOnce() -> Vec<(&'static str, Note)>, error: Option<&str>) {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.own.is_sampled) else { return };
        inner.add(Span {
            context: inner.own,
            parent: inner.parent,
            name: name().into(),
            kind: inner.kind,
            start: inner.began,
            end: inner.at(inner.since.elapsed()),
            notes: notes(),
            error: error.map(str::to_owned),
        });
    }
}

impl Inner {
    fn at(&self, since: Duration) -> SystemTime {
        self.began.checked_add(since).unwrap_or(self.began)
    }

    fn add(&self, span: Span) {
        self.spans().push(span);
    }

    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let spans = std::mem::take(&mut *self.spans());
        if spans.is_empty() || !self.is_genuine.load(Ordering::Relaxed) {
            return;
        }
        let count = spans.len() as u64;
        if self.tracer.ended.try_send(spans).is_err() {
            self.tracer.dropped.inc_by(count);
        }
    }
}

/// A step under way.
#[derive(Debug, Default)]
pub struct Step(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    trace: Arc<Inner>,
    span: SpanId,
    name: &'static str,
    kind: Kind,
    began: Duration,
    notes: Vec<(&'static str, Note)>,
    error: Option<String>,
}

impl Step {
    pub fn note(&mut self, key: &'static str, value: impl Into<Note>) {
        if let Some(open) = &mut self.0 {
            open.notes.push((key, value.into()));
        }
    }

    pub fn failed(&mut self, why: impl std::fmt::Display) {
        if let Some(open) = &mut self.0 {
            open.error = Some(why.to_string());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let Open { trace, span, name, kind, began, notes, error } = *open;
        trace.add(Span {
            context: Context { span, ..trace.own },
            parent: Some(trace.own.span),
            name: name.into(),
            kind,
            start: trace.at(began),
            end: trace.at(trace.since.elapsed()),
            notes,
            error,
        });
    }
}

#[cfg(test)]
mod tests;
