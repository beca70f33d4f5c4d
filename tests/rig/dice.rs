//! Chance that can be repeated: everything random in a round comes from its seed.

use std::ops::Range;
use std::time::Duration;

/// SplitMix64: small, quick, and any seed is a good one.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for one part of a round, which no other part's throws can change.
    pub fn aside(&self, part: u64) -> Self {
        let mut own = Self(self.0 ^ part.wrapping_mul(0xa076_1d64_78bd_642f));
        Self(own.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub fn within(&mut self, range: Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    /// Between two times in milliseconds.
    pub fn millis(&mut self, range: Range<usize>) -> Duration {
        Duration::from_millis(self.within(range) as u64)
    }

    pub fn up_to(&mut self, time: Duration) -> Duration {
        self.millis(0..usize::try_from(time.as_millis()).unwrap() + 1)
    }

    /// True so many times in a thousand.
    pub fn permille(&mut self, times: usize) -> bool {
        self.below(1000) < times
    }

    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
}
