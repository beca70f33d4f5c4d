//! Signed timestamps: how they are written, and how far from now they may lie, in the past and in the future.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::disproof::Disproof;
use super::place::{Place, Site};
use super::{Received, locate};
use crate::config::reader::choices;

/// Where the timestamp stands and how old it may be.
#[derive(Clone, Debug)]
pub(super) struct Timestamp {
    pub at: Site,
    pub unit: Unit,
    pub tolerance: Duration,
}

choices!(
    /// How a time is written: counted since 1970, or spelt out.
    Unit { Seconds = "s", Milliseconds = "ms", Rfc3339 = "rfc3339" } pending { "http-date" }
);

impl Unit {
    /// The time since 1970 that a text tells. Counted ones are plain ASCII digits, without sign, space or fraction, and
    /// no more of them than thousands of years need.
    pub fn read(self, text: &[u8]) -> Option<Duration> {
        let count = |digits_max: usize| {
            let is_plain = (1..=digits_max).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
            is_plain.then(|| text.iter().fold(0_u64, |count, digit| count * 10 + u64::from(digit - b'0')))
        };
        match self {
            Self::Seconds => count(12).map(Duration::from_secs),
            Self::Milliseconds => count(15).map(Duration::from_millis),
            Self::Rfc3339 => {
                let moment = humantime::parse_rfc3339(std::str::from_utf8(text).ok()?).ok()?;
                moment.duration_since(UNIX_EPOCH).ok()
            }
        }
    }

    /// A moment as it is written.
    fn write(self, moment: SystemTime) -> String {
        let since = self.since_epoch(moment);
        match self {
            Self::Seconds => since.as_secs().to_string(),
            Self::Milliseconds => since.as_millis().to_string(),
            Self::Rfc3339 => humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string(),
        }
    }

    /// Time since 1970, cut down to what a timestamp can tell.
    fn since_epoch(self, now: SystemTime) -> Duration {
        let exact = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Seconds => Duration::from_secs(exact.as_secs()),
            Self::Milliseconds | Self::Rfc3339 => Duration::from_millis(u64::try_from(exact.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Where an event's own time stands: when it came to be, whenever it is delivered.
#[derive(Clone, Debug)]
pub struct EventTime {
    pub(super) at: Place,
    pub(super) unit: Unit,
}

impl EventTime {
    /// The event's time; `None` where it is not there, or not written as it should be.
    pub fn read(&self, received: &Received<'_>) -> Option<SystemTime> {
        let text = locate::find(&self.at, received).ok()??;
        UNIX_EPOCH.checked_add(self.unit.read(&text)?)
    }
}

impl Timestamp {
    /// The time that a timestamp tells.
    pub fn read(&self, text: &[u8]) -> Result<Duration, Disproof> {
        self.unit.read(text).ok_or(Disproof::MalformedTimestamp)
    }

    /// The timestamp of this moment.
    pub fn write(&self, now: SystemTime) -> String {
        self.unit.write(now)
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
        for unit in [Unit::Seconds, Unit::Milliseconds, Unit::Rfc3339] {
            let (read, written) = (unit.since_epoch(now), unit.write(now));
            assert_eq!(unit.read(written.as_bytes()), Some(read), "{written}");
        }
    }

    #[test]
    fn a_time_that_is_spelt_out_is_read_with_its_fraction() {
        let read = |text: &str| Unit::Rfc3339.read(text.as_bytes());
        assert_eq!(read("2026-11-15T12:08:20Z"), Some(Duration::from_secs(1_794_744_500)));
        assert_eq!(read("2026-11-15T12:08:20.877041743Z"), Some(Duration::new(1_794_744_500, 877_041_743)));
        for wrong in ["", "2026-11-15", "2026-11-15 12:08:20", "1794744500", "2026-13-15T12:08:20Z"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
