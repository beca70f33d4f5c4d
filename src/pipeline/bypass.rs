//! Until when a provider's done events are forwarded again: an operator's wish, which ends by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Asked only about events that are done, so that all others pay nothing for it.
#[derive(Debug, Default)]
pub struct Bypass {
    // A std mutex: held for a look, never across an await.
    until: Mutex<Option<Instant>>,
}

impl Bypass {
    pub fn is_on(&self) -> bool {
        self.left().is_some()
    }

    /// How long it goes on; `None` where there is none.
    pub fn left(&self) -> Option<Duration> {
        let left = self.until().as_ref().map(|until| until.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero())
    }

    /// From now on for this long, whatever was before; `None` ends it.
    pub fn set(&self, length: Option<Duration>) {
        *self.until() = length.and_then(|length| Instant::now().checked_add(length));
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bypass_ends_by_itself_or_when_it_is_told_to() {
        let (bypass, hour) = (Bypass::default(), Duration::from_secs(3600));
        assert_eq!((bypass.is_on(), bypass.left()), (false, None));
        bypass.set(Some(hour));
        assert!(bypass.is_on() && bypass.left() <= Some(hour));
        bypass.set(None);
        assert!(!bypass.is_on());
        bypass.set(Some(Duration::from_millis(20)));
        assert!(bypass.is_on());
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!bypass.is_on());
    }
}
