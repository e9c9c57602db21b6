//! When to look whether a process has ended.

/// It is looked at again after so long, then after twice as long, and so on to the
/// last: the kernel tells of the end before it shows in /proc, and a machine under load takes its time.
const FIRST_LOOK_NS: u64 = 10_000_000;
const LAST_LOOK_NS: u64 = 20_000_000_000;

/// A process of which a thread has ended.
pub(super) struct Leaving {
    pub(super) look_ns: u64,
    wait_ns: u64,
}

impl Leaving {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { look_ns: now_ns + FIRST_LOOK_NS, wait_ns: FIRST_LOOK_NS }
    }

    /// The next look; false: that was the last.
    pub(super) fn later(&mut self, now_ns: u64) -> bool {
        self.wait_ns *= 2;
        self.look_ns = now_ns + self.wait_ns;
        self.wait_ns <= LAST_LOOK_NS
    }
}
