//! Idle connections to one consumer, for one runtime.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::fault::Fault;
use super::line::Line;

/// Consumers close idle connections after 2 to 5 seconds. Ours are gone before, so that none is closed under a request.
pub(super) const IDLE: Duration = Duration::from_millis(1500);
/// Idle connections kept for one consumer.
const IDLE_MAX: usize = 256;

#[derive(Debug)]
pub struct Pool {
    // A std mutex: held to take or put one connection, never across an await. Those used last are at the end.
    idle: Mutex<Vec<Idle>>,
    /// Rings when something comes on an idle connection, which is its end, or a word of TLS.
    bell: Waker,
}

#[derive(Debug)]
struct Idle {
    line: Box<Line>,
    since: Instant,
}

impl Pool {
    pub fn new(bell: Waker) -> Self {
        Self { idle: Mutex::default(), bell }
    }

    /// The idle connection used last that was not closed meanwhile.
    pub fn take(&self) -> Option<Box<Line>> {
        while let Some(mut line) = self.newest() {
            if line.is_quiet(&self.bell) {
                return Some(line);
            }
        }
        None
    }

    fn newest(&self) -> Option<Box<Line>> {
        let mut idle = self.idle();
        let newest = idle.pop()?;
        if newest.since.elapsed() < IDLE {
            return Some(newest.line);
        }
        // All others are older.
        idle.clear();
        None
    }

    fn put(&self, mut line: Box<Line>) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX && line.is_quiet(&self.bell) {
            idle.push(Idle { line, since: Instant::now() });
        }
    }

    /// Closes those that have been idle too long, or that the consumer has closed.
    pub fn reap(&self) {
        let now = Instant::now();
        self.idle().retain_mut(|idle| now - idle.since < IDLE && idle.line.is_quiet(&self.bell));
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that has taken a request. It goes back to its pool once the answer has been read whole.
#[derive(Debug)]
pub struct Used {
    pub(super) pool: Arc<Pool>,
    pub(super) line: Box<Line>,
}

impl Used {
    /// The next piece of the answer's body.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        self.line.poll_piece(cx)
    }

    /// Whether the answer's body is known to be at its end.
    pub fn is_at_end(&self) -> bool {
        self.line.is_at_end()
    }

    /// How much of it is still to come, where that is known.
    pub fn left(&self) -> Option<u64> {
        self.line.left()
    }

    /// The answer has been read to its end. Dropped without this, the connection is closed.
    pub fn put_back(self) {
        if self.line.is_free() {
            self.pool.put(self.line);
        }
    }
}
