//! A share of a whole, in percent: `"10%"`, `"0.5%"`.

use super::reader::{At, FromNode};
use super::scalar::{Fault, from_text};
use super::tree::Node;
use super::written::{AsWritten, quoted};

/// In millionths: four digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    pub const ALL: Self = Self(WHOLE);
    #[cfg(test)]
    pub const NOTHING: Self = Self(0);

    /// Whether what was drawn by chance belongs to it.
    pub fn has(self, drawn: u64) -> bool {
        drawn % u64::from(WHOLE) < u64::from(self.0)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let wrong =
            || Fault::new(format!("is not a share: {}", quoted(text)), "write it in percent, in quotes: \"100%\", \"0.5%\"");
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?;
        let (whole, behind) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(behind) || whole.len() > 3 || behind.len() > DIGITS {
            return Err(wrong());
        }
        let millionths = format!("{whole}{behind:0<DIGITS$}").parse().map_err(|_| wrong())?;
        if millionths > WHOLE { Err(wrong()) } else { Ok(Self(millionths)) }
    }
}

const DIGITS: usize = 4;
const WHOLE: u32 = 1_000_000;

impl FromNode for Share {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, Self::parse)
    }
}

impl AsWritten for Share {
    fn as_written(&self) -> String {
        let (whole, behind) = (self.0 / 10_000, format!("{:04}", self.0 % 10_000));
        match behind.trim_end_matches('0') {
            "" => quoted(&format!("{whole}%")),
            behind => quoted(&format!("{whole}.{behind}%")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_as_they_are_read() {
        for text in ["0%", "100%", "0.5%", "12.3456%"] {
            assert_eq!(Share::parse(text).unwrap().as_written(), quoted(text));
        }
        for wrong in ["", "%", "10", "0.1", "-1%", "101%", "1e2%", ".5%", "5.%", "0.00001%", "+5%"] {
            assert!(Share::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_has_as_many_as_it_says() {
        let count = |text: &str| (0..1_000_000).filter(|drawn| Share::parse(text).unwrap().has(*drawn)).count();
        assert_eq!((count("0%"), count("0.5%"), count("100%")), (0, 5_000, 1_000_000));
    }
}
