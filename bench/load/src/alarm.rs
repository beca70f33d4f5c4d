//! Waits to the microsecond. The runtime's own timer counts milliseconds, which is longer than most of what is measured here.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};
use tokio::io::unix::AsyncFd;

pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe: the caller promises to keep the descriptor open, as an OwnedFd does"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { timer })
    }

    /// Returns at once if that is over.
    pub async fn until(&self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let once = Itimerspec { it_interval: timespec(Duration::ZERO)?, it_value: timespec(left)? };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut rings = [0; 8];
            if let Ok(read) = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut rings)?)) {
                return read.map(drop);
            }
        }
    }
}

fn timespec(duration: Duration) -> io::Result<Timespec> {
    Timespec::try_from(duration).map_err(|_| io::Error::other("too far away for a timer"))
}
