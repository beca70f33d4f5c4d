//! Gives out the numbers of deliveries: when they are due, or as fast as connections ask.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use tokio::sync::Notify;

use crate::alarm::Alarm;
use crate::schedule::Schedule;

/// One delivery, and when it should be sent.
pub struct Ticket {
    pub number: u64,
    pub due: Instant,
}

pub enum Desk {
    Open(Line),
    Closed { next: Cell<u64>, count: u64, end: Instant },
}

/// Deliveries that are due and that no connection has taken yet.
#[derive(Default)]
pub struct Line {
    due: RefCell<VecDeque<Ticket>>,
    bell: Notify,
    is_over: Cell<bool>,
}

impl Desk {
    /// The next delivery, when it is due; `None` when there are no more.
    pub async fn next(&self) -> Option<Ticket> {
        match self {
            Self::Open(line) => line.next().await,
            Self::Closed { next, count, end } => {
                let (number, now) = (next.get(), Instant::now());
                next.set(number + 1);
                (number < *count && now < *end).then_some(Ticket { number, due: now })
            }
        }
    }
}

impl Line {
    /// Puts deliveries into the line as they become due, whatever became of those before.
    pub async fn follow(&self, schedule: Schedule, count: u64) -> io::Result<()> {
        let alarm = Alarm::new()?;
        for number in 0..count {
            let due = schedule.due(number);
            alarm.until(due).await?;
            self.due.borrow_mut().push_back(Ticket { number, due });
            self.bell.notify_one();
        }
        self.is_over.set(true);
        self.bell.notify_waiters();
        Ok(())
    }

    /// How many nobody has taken.
    pub fn left(&self) -> u64 {
        self.due.borrow().len() as u64
    }

    async fn next(&self) -> Option<Ticket> {
        loop {
            if let Some(ticket) = self.due.borrow_mut().pop_front() {
                return Some(ticket);
            }
            if self.is_over.get() {
                return None;
            }
            self.bell.notified().await;
        }
    }
}
