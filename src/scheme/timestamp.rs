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
    /// `None`: it is signed, and nobody asks how old it is.
    pub tolerance: Option<Duration>,
}

choices!(
    /// How a time is written: counted since 1970, or spelt out.
    Unit { Seconds = "s", Milliseconds = "ms", Rfc3339 = "rfc3339", IsoUtc = "iso-utc", HttpDate = "http-date" }
);

impl Unit {
    /// The time since 1970 that a text tells. Counted ones are plain ASCII digits, without sign, space or fraction, and
    /// no more of them than thousands of years need.
    #[inline]
    pub fn read(self, text: &[u8]) -> Option<Duration> {
        let count = |digits_max: usize| {
            let digit = |count: u64, byte: &u8| Some(count * 10 + u64::from(byte.is_ascii_digit().then(|| byte - b'0')?));
            if (1..=digits_max).contains(&text.len()) { text.iter().try_fold(0, digit) } else { None }
        };
        match self {
            Self::Seconds => count(12).map(Duration::from_secs),
            Self::Milliseconds => count(15).map(Duration::from_millis),
            Self::Rfc3339 => rfc3339(std::str::from_utf8(text).ok()?),
            // Without a zone it is that of Greenwich.
            Self::IsoUtc => {
                let text = std::str::from_utf8(text).ok()?;
                rfc3339(text).or_else(|| rfc3339(&format!("{text}Z")))
            }
            Self::HttpDate => {
                let moment = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
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
            Self::IsoUtc => humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string().trim_end_matches('Z').to_owned(),
            Self::HttpDate => httpdate::fmt_http_date(UNIX_EPOCH + since),
        }
    }

    /// Time since 1970, cut down to what a timestamp can tell.
    pub(super) fn since_epoch(self, now: SystemTime) -> Duration {
        let exact = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Seconds | Self::HttpDate => Duration::from_secs(exact.as_secs()),
            Self::Milliseconds | Self::Rfc3339 | Self::IsoUtc => {
                Duration::from_millis(u64::try_from(exact.as_millis()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// A time that is spelt out, in any zone: `2026-11-15T12:08:20Z`, `2026-11-15T14:08:20.5+02:00`.
fn rfc3339(text: &str) -> Option<Duration> {
    let since = |text: &str| humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok();
    if text.ends_with('Z') {
        return since(text);
    }
    let (local, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (sign, hours, minutes) = (zone.get(..1)?, zone.get(1..3)?, zone.strip_prefix(|_| true)?.get(3..)?);
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    let offset = Duration::from_secs(number(hours)? * 3600 + number(minutes)? * 60);
    let local = since(&format!("{local}Z")).filter(|_| zone.get(3..4) == Some(":"))?;
    match sign {
        "+" => local.checked_sub(offset),
        "-" => local.checked_add(offset),
        _ => None,
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
    #[inline]
    pub fn judge(&self, moment: Duration, now: SystemTime) -> Result<(), Disproof> {
        let (now, Some(tolerance)) = (self.unit.since_epoch(now), self.tolerance) else { return Ok(()) };
        if now.saturating_sub(moment) > tolerance {
            Err(Disproof::Stale)
        } else if moment.saturating_sub(now) > tolerance {
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
        Timestamp { at: Site::Part("t".into()), unit, tolerance: Some(Duration::from_secs(300)) }
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
    fn without_a_tolerance_every_age_is_right() {
        let patient = Timestamp { tolerance: None, ..timestamp(Unit::Seconds) };
        assert_eq!(patient.judge(Duration::ZERO, UNIX_EPOCH + Duration::from_secs(1_794_787_700)), Ok(()));
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
        for unit in [Unit::Seconds, Unit::Milliseconds, Unit::Rfc3339, Unit::IsoUtc, Unit::HttpDate] {
            let (read, written) = (unit.since_epoch(now), unit.write(now));
            assert_eq!(unit.read(written.as_bytes()), Some(read), "{written}");
        }
    }

    #[test]
    fn a_time_that_is_spelt_out_is_read_with_its_fraction() {
        let read = |text: &str| Unit::Rfc3339.read(text.as_bytes());
        assert_eq!(read("2026-11-15T12:08:20Z"), Some(Duration::from_secs(1_794_744_500)));
        assert_eq!(read("2026-11-15T12:08:20.877041743Z"), Some(Duration::new(1_794_744_500, 877_041_743)));
        for zoned in ["2026-11-15T14:08:20+02:00", "2026-11-15T06:38:20-05:30", "2026-11-15T12:08:20+00:00"] {
            assert_eq!(read(zoned), Some(Duration::from_secs(1_794_744_500)), "{zoned}");
        }
        for wrong in [
            "",
            "2026-11-15",
            "2026-11-15 12:08:20",
            "1794744500",
            "2026-13-15T12:08:20Z",
            "2026-11-15T12:08:20",
            "2026-11-15T12:08:20+0200",
            "2026-11-15T12:08:20+02.00",
            "2026-11-15T12:08:20+ 2:00",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
