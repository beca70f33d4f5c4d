//! What a process takes of the machine.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::support::PATIENCE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    pub files: usize,
    pub threads: usize,
    pub resident: u64,
}

/// Memory that an allocator may keep for later, after a storm in a program of this size.
const KEPT: u64 = 48 << 20;

impl Footprint {
    pub fn of(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        Self { files, threads: usize::try_from(number("Threads:")).unwrap(), resident: number("VmRSS:") * 1024 }
    }

    /// Waits until a process takes no more than this again.
    pub async fn is_back(self, process: u32) {
        let began = Instant::now();
        loop {
            let now = Self::of(process);
            if now.files <= self.files && now.threads <= self.threads && now.resident <= self.resident + KEPT {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{now:?} after {self:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}
