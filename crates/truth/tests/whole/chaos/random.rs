//! Numbers that follow from a seed.

use std::time::Duration;

/// A sequence of numbers; the same for the same seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    /// A number below `count`.
    pub(super) fn one_of(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// A time below `limit`.
    pub(super) fn time(&mut self, limit: Duration) -> Duration {
        limit.mul_f64(self.next() as f64 / u64::MAX as f64)
    }
}
