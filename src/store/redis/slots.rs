//! Which of a Cluster's masters has which keys.

/// Ranges of slots, in order, each with the place of its master among the masters.
#[derive(Default, Hash)]
pub(super) struct Slots(Vec<Range>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Range {
    pub first: u16,
    pub last: u16,
    pub master: usize,
}

impl Slots {
    pub fn new(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        Self(ranges)
    }

    /// `None` where nobody has the key's slot.
    pub fn master_of(&self, key: &str) -> Option<usize> {
        let slot = slot_of(key.as_bytes());
        let after = self.0.partition_point(|range| range.first <= slot);
        let range = self.0.get(after.checked_sub(1)?)?;
        (slot <= range.last).then_some(range.master)
    }
}

/// CRC16 (XMODEM) of the key, or of what stands between its first braces if that is not empty.
fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|b| *b == b'{').and_then(|open| {
        let tail = &key[open + 1..];
        tail.iter().position(|b| *b == b'}').filter(|&length| length > 0).map(|length| &tail[..length])
    });
    let checksum = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    checksum % 16384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_the_servers_count_them() {
        // By CLUSTER KEYSLOT.
        for (key, slot) in [
            ("123456789", 12739),
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("x{foo}{bar}", 12182),
            ("{}foo", 9500),
            ("foo{", 7673),
            ("billing:stripe:evt_1", 2471),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_slot_between_ranges_has_no_master() {
        let range = |first, last, master| Range { first, last, master };
        let slots = Slots::new(vec![range(12183, 16383, 1), range(0, 12181, 0)]);
        assert_eq!(slots.master_of("foo"), None);
        assert_eq!(slots.master_of("{}foo"), Some(0));
        assert_eq!(slots.master_of("123456789"), Some(1));
        assert_eq!(Slots::default().master_of("foo"), None);
    }
}
