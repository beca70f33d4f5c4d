//! Where log lines go: one thread writes them to standard error, many at a time, so that no delivery waits for a
//! terminal, a pipe or a disk.
//!
//! Lines wait in a bounded buffer. When nobody reads them fast enough, lines are dropped and their number is logged:
//! a log that is stuck must not stop deliveries.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Some five thousand lines.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// From one write to the next, at least.
const GATHER: Duration = Duration::from_millis(5);
/// The end of the program waits this long for its last lines to be taken.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

static OUTLET: OnceLock<Outlet> = OnceLock::new();
/// Whether the thread could be started.
static THREAD: OnceLock<bool> = OnceLock::new();

#[derive(Debug, Default)]
pub struct Outlet {
    // A std mutex: held to append a line or to swap two buffers, never while something is written.
    pending: Mutex<Pending>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    dropped: u64,
    is_writing: bool,
}

impl Outlet {
    /// The one outlet of the process, its thread started. `None` where a thread cannot be had.
    pub fn open() -> Option<&'static Self> {
        let outlet = OUTLET.get_or_init(Self::default);
        let spawn = || thread::Builder::new().name("hookonce-log".to_owned()).spawn(|| outlet.drain()).is_ok();
        THREAD.get_or_init(spawn).then_some(outlet)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, line: &[u8]) {
        let mut pending = self.pending();
        if pending.lines.len() + line.len() > PENDING_BYTES_MAX {
            pending.dropped += 1;
            return;
        }
        let was_empty = pending.lines.is_empty();
        pending.lines.extend_from_slice(line);
        drop(pending);
        if was_empty {
            self.filled.notify_one();
        }
    }

    /// Writes whatever comes, for the rest of the process.
    fn drain(&self) -> ! {
        let mut lines = Vec::new();
        loop {
            let mut pending =
                self.filled.wait_while(self.pending(), |p| p.lines.is_empty()).unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut pending.lines, &mut lines);
            let dropped = std::mem::take(&mut pending.dropped);
            pending.is_writing = true;
            drop(pending);
            let mut stderr = io::stderr().lock();
            // There is nobody left to tell that standard error is gone.
            let _ = stderr.write_all(&lines);
            if dropped > 0 {
                let _ = writeln!(stderr, "hookonce: {dropped} log lines were dropped: nobody reads them fast enough");
            }
            drop(stderr);
            lines.clear();
            self.pending().is_writing = false;
            self.emptied.notify_all();
            // Lines that come meanwhile are written together, without being waited for one by one.
            thread::park_timeout(GATHER);
        }
    }

    fn flush(&self) {
        let is_busy = |pending: &mut Pending| pending.is_writing || !pending.lines.is_empty();
        drop(self.emptied.wait_timeout_while(self.pending(), FLUSH_WAIT, is_busy));
    }
}

/// Waits for what was logged to be written. The last thing a command does.
pub fn flush() {
    if let Some(outlet) = OUTLET.get() {
        outlet.flush();
    }
}

/// One line on its way.
#[derive(Debug)]
pub struct LineWriter(&'static Outlet);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for &'static Outlet {
    type Writer = LineWriter;

    fn make_writer(&self) -> LineWriter {
        LineWriter(self)
    }
}
