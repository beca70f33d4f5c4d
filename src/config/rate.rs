//! So many in a time: `"100/s"`, `"6000/m"`.

use std::num::NonZeroU32;
use std::time::Duration;

use super::reader::{At, FromNode};
use super::scalar::{Fault, from_text};
use super::tree::Node;
use super::written::{AsWritten, quoted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: NonZeroU32,
    pub per: Duration,
}

const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

impl Rate {
    pub const fn per_second(count: NonZeroU32) -> Self {
        Self { count, per: Duration::from_secs(1) }
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            let help = "write how many in which time, in quotes: \"100/s\", \"6000/m\", \"1000/h\"";
            Fault::new(format!("is not a rate: {}", quoted(text)), help)
        };
        let (count, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let is_number = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
        let count = count.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        Ok(Self { count, per: Duration::from_secs(*seconds) })
    }
}

impl FromNode for Rate {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, Self::parse)
    }
}

impl AsWritten for Rate {
    fn as_written(&self) -> String {
        let unit = UNITS.iter().find(|(_, seconds)| *seconds == self.per.as_secs()).map_or("s", |(name, _)| name);
        quoted(&format!("{}/{unit}", self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_they_are_read() {
        for text in ["1/s", "100/s", "6000/m", "1000/h"] {
            assert_eq!(Rate::parse(text).unwrap().as_written(), quoted(text));
        }
        for wrong in ["", "/s", "0/s", "10", "10/", "10/d", "-1/s", "+1/s", "1.5/s", "1e3/s", "10 /s", "99999999999/s"] {
            assert!(Rate::parse(wrong).is_err(), "{wrong}");
        }
    }
}
