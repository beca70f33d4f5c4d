//! Idle connections to one consumer, for one runtime.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body::{Body, Frame};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, timeout};

use super::line::Line;

/// Consumers close idle connections after 2 to 5 seconds. Ours are gone before, so that none is closed under a request.
pub(super) const IDLE: Duration = Duration::from_millis(1500);
/// Idle connections kept for one consumer.
const IDLE_MAX: usize = 256;
/// For how long a consumer that has answered already may read what it answered to, for its connection to be used again.
const READ_ON: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct Pool {
    // A std mutex: held to take or put one connection, never across an await. Those used last are at the end.
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    line: Line,
    since: Instant,
}

impl Pool {
    /// The idle connection used last, if it can take a request.
    pub fn take(&self) -> Option<Line> {
        while let Some(mut line) = self.newest() {
            // It was ready when it was put back, so one that is not has been closed meanwhile, or has got what nobody asked for.
            if line.poll_ready(&mut Context::from_waker(Waker::noop())) == Poll::Ready(true) {
                return Some(line);
            }
        }
        None
    }

    fn newest(&self) -> Option<Line> {
        let mut idle = self.idle();
        let newest = idle.pop()?;
        if newest.since.elapsed() < IDLE {
            return Some(newest.line);
        }
        // All others are older.
        idle.clear();
        None
    }

    fn put(&self, line: Line) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(Idle { line, since: Instant::now() });
        }
    }

    /// Closes those that have been idle too long.
    pub fn reap(&self) {
        let now = Instant::now();
        self.idle().retain(|idle| now - idle.since < IDLE);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that has taken a request. It goes back to its pool once the answer has been read whole.
#[derive(Debug)]
pub struct Used {
    pub(super) pool: Arc<Pool>,
    pub(super) line: Line,
}

impl Used {
    /// The next piece of the answer's body, which comes as the connection is driven.
    pub fn poll_frame(&mut self, body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut body = Pin::new(body);
        match body.as_mut().poll_frame(cx) {
            Poll::Pending => {
                self.line.drive(cx);
                body.poll_frame(cx)
            }
            ready => ready,
        }
    }

    /// The answer has been read to its end. Dropped without this, the connection is closed.
    pub fn put_back(self) {
        let Self { pool, mut line } = self;
        if line.is_ready() {
            return pool.put(line);
        }
        line.let_go();
        tokio::spawn(async move {
            let written = timeout(READ_ON, std::future::poll_fn(|cx| line.poll_ready(cx)));
            if written.await == Ok(true) {
                pool.put(line);
            }
        });
    }
}
