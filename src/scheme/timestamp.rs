//! Signed timestamps: how they are written, and how far from now they may lie, in the past and in the future.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::disproof::Disproof;
use super::place::Site;
use crate::config::reader::choices;

/// Where the timestamp stands and how old it may be.
#[derive(Clone, Debug)]
pub(super) struct Timestamp {
    pub at: Site,
    pub unit: Unit,
    pub tolerance: Duration,
}

choices!(
    /// What a timestamp counts since 1970.
    Unit { Seconds = "s", Milliseconds = "ms" } pending { "rfc3339", "http-date" }
);

impl Unit {
    fn length(self) -> Duration {
        match self {
            Self::Seconds => Duration::from_secs(1),
            Self::Milliseconds => Duration::from_millis(1),
        }
    }

    /// The most digits that a timestamp of this unit can have for thousands of years.
    fn digits_max(self) -> usize {
        match self {
            Self::Seconds => 12,
            Self::Milliseconds => 15,
        }
    }

    /// Time since 1970, cut down to whole units: a timestamp cannot tell more.
    fn since_epoch(self, now: SystemTime) -> Duration {
        let exact = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Seconds => Duration::from_secs(exact.as_secs()),
            Self::Milliseconds => Duration::from_millis(u64::try_from(exact.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl Timestamp {
    /// The time that a timestamp tells: plain ASCII digits, without sign, space or fraction.
    pub fn read(&self, text: &[u8]) -> Result<Duration, Disproof> {
        let is_plain = (1..=self.unit.digits_max()).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
        if !is_plain {
            return Err(Disproof::MalformedTimestamp);
        }
        let count = text.iter().fold(0_u64, |count, digit| count * 10 + u64::from(digit - b'0'));
        Ok(match self.unit {
            Unit::Seconds => Duration::from_secs(count),
            Unit::Milliseconds => Duration::from_millis(count),
        })
    }

    /// The timestamp of this moment.
    pub fn write(&self, now: SystemTime) -> String {
        (self.unit.since_epoch(now).as_millis() / self.unit.length().as_millis()).to_string()
    }

    /// Whether a moment is near enough to now.
    pub fn judge(&self, moment: Duration, now: SystemTime) -> Result<(), Disproof> {
        let now = self.unit.since_epoch(now);
        if now.saturating_sub(moment) > self.tolerance {
            Err(Disproof::Stale)
        } else if moment.saturating_sub(now) > self.tolerance {
            Err(Disproof::Future)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(unit: Unit) -> Timestamp {
        Timestamp { at: Site::Part("t".into()), unit, tolerance: Duration::from_secs(300) }
    }

    #[test]
    fn only_plain_digits_are_a_timestamp() {
        assert_eq!(timestamp(Unit::Seconds).read(b"1794787700"), Ok(Duration::from_secs(1_794_787_700)));
        assert_eq!(timestamp(Unit::Milliseconds).read(b"1794787700123"), Ok(Duration::from_millis(1_794_787_700_123)));
        for wrong in ["", "-5", "+1", " 1", "1 ", "0x1", "1.0", "abc", "123abc", "1234567890123", "\u{0661}"] {
            assert_eq!(timestamp(Unit::Seconds).read(wrong.as_bytes()), Err(Disproof::MalformedTimestamp), "{wrong}");
        }
    }

    #[test]
    fn the_tolerance_holds_on_both_sides_and_ends_sharply() {
        let seconds = timestamp(Unit::Seconds);
        let now = UNIX_EPOCH + Duration::from_millis(10_000_900);
        let judge = |moment: u64| seconds.judge(Duration::from_secs(moment), now);
        assert_eq!(judge(9_700), Ok(()));
        assert_eq!(judge(9_699), Err(Disproof::Stale));
        assert_eq!(judge(10_300), Ok(()));
        assert_eq!(judge(10_301), Err(Disproof::Future));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let now = UNIX_EPOCH + Duration::from_millis(1_794_787_700_123);
        assert_eq!(timestamp(Unit::Seconds).write(now), "1794787700");
        assert_eq!(timestamp(Unit::Milliseconds).write(now), "1794787700123");
    }
}
