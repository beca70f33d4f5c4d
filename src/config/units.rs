//! Numbers with units: durations (`1500ms`, `5m`, `1h30m`) and sizes (`64KiB`, `25MiB`).

use std::fmt;
use std::time::Duration;

/// A number of bytes, written with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const DURATION_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: [(&str, u64); 7] =
    [("B", 1), ("kB", 1_000), ("KiB", 1 << 10), ("MB", 1_000_000), ("MiB", 1 << 20), ("GB", 1_000_000_000), ("GiB", 1 << 30)];

/// Reads `1500ms`, `5m` or `1h30m`. `None` where a unit is missing or unknown.
pub fn duration(text: &str) -> Option<Duration> {
    sum(text, &DURATION_UNITS).map(Duration::from_millis)
}

/// Reads `25MiB`. `None` where the unit is missing or unknown.
pub fn size(text: &str) -> Option<Size> {
    sum(text, &SIZE_UNITS).map(Size)
}

fn sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: Option<u64> = None;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(tail.len());
        let (_, factor) = units.iter().find(|(name, _)| *name == &tail[..unit_end])?;
        total = Some(total.unwrap_or(0).checked_add(number.checked_mul(*factor)?)?);
        rest = tail[unit_end..].trim_start();
    }
    total
}

/// A duration as one would write it in the configuration.
pub struct Written(pub Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            return write!(f, "0s");
        }
        for (unit, factor) in DURATION_UNITS.iter().rev() {
            let count = millis / factor;
            millis %= factor;
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(name, factor): &&(&str, u64)| name.ends_with("iB") && self.0 > 0 && self.0.is_multiple_of(*factor);
        match SIZE_UNITS.iter().rev().find(fits) {
            Some((name, factor)) => write!(f, "{}{name}", self.0 / factor),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_units_and_may_be_sums() {
        assert_eq!(duration("1500ms"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("1d 2h"), Some(Duration::from_secs(26 * 3600)));
        for wrong in ["", "15", "5 m", "m", "-5s", "5x", "99999999999999999999d"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_and_sizes_are_written_as_they_are_read() {
        for text in ["1s500ms", "5m", "3d3h35m", "0s"] {
            assert_eq!(Written(duration(text).unwrap_or_default()).to_string(), text);
        }
        for text in ["64KiB", "25MiB", "100B", "0B"] {
            assert_eq!(size(text).map(|s| s.to_string()).as_deref(), Some(text));
        }
    }
}
