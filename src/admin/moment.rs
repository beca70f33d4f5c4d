//! A moment as operators write it: RFC 3339, seconds since 1970, or how long ago.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::units;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(SystemTime),
    Ago(Duration),
}

impl Moment {
    /// `None` before the beginning of time.
    pub fn at(self, now: SystemTime) -> Option<SystemTime> {
        match self {
            Self::At(at) => Some(at),
            Self::Ago(ago) => now.checked_sub(ago),
        }
    }
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ago = || units::duration(text).map(Self::Ago);
        let at = || seconds(text).or_else(|| rfc3339(text)).map(Self::At);
        ago().or_else(at).ok_or("write 2026-11-16T05:20:00Z, seconds since 1970, or how long ago: 2h")
    }
}

fn seconds(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(number(text)?))
}

/// Digits alone: a sign would be taken too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// With any offset, which the parser itself does not know.
fn rfc3339(text: &str) -> Option<SystemTime> {
    if text.ends_with('Z') {
        return humantime::parse_rfc3339(text).ok();
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let ahead = (hours < 24 && minutes < 60).then(|| Duration::from_secs((hours * 60 + minutes) * 60))?;
    let local = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    match offset.as_bytes()[0] {
        b'+' => local.checked_sub(ahead),
        b'-' => local.checked_add(ahead),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<u64> {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let at = text.parse::<Moment>().ok()?.at(now)?;
        at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
    }

    #[test]
    fn a_moment_can_be_written_in_three_ways() {
        assert_eq!(at("2h"), Some(1_000_000_000 - 7200));
        assert_eq!(at("1d2h30m"), Some(1_000_000_000 - 95_400));
        assert_eq!(at("1234567890"), Some(1_234_567_890));
        for same in [
            "2009-02-13T23:31:30Z",
            "2009-02-13T23:31:30.5Z",
            "2009-02-14T01:31:30+02:00",
            "2009-02-13T18:01:30.25-05:30",
            "2009-02-13T23:31:30+00:00",
        ] {
            assert_eq!(at(same), Some(1_234_567_890), "{same}");
        }
    }

    #[test]
    fn what_leaves_room_for_doubt_is_refused() {
        for wrong in [
            "",
            "yesterday",
            "-2h",
            "2 hours",
            "2009-02-13",
            "2009-02-13T23:31:30",
            "2009-02-13 23:31:30Z",
            "2009-02-13T23:31:30+0200",
            "2009-02-13T23:31:30+24:00",
            "2009-02-13T23:31:30*02:00",
            "2009-02-13T23:31:30++2:00",
            "+1234567890",
            "2009-02-13T23:31:30+\u{e9}:00",
            "2009-13-13T23:31:30Z",
            "99999999999999999999",
        ] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
        assert_eq!(at("9000000000000d"), None);
    }
}
