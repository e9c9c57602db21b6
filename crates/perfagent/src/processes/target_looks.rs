//! When to look at targets for ends that no record told of: a target may have passed its exit tracepoint just before the programs were
//! attached there, and not have been a zombie yet when it was read.

/// Time between two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// The targets that the capture began with.
#[derive(Default)]
pub(super) struct TargetLooks {
    pids: Vec<u32>,
    looked_ns: u64,
    /// Those that were found gone, and when.
    gone: Vec<(u32, u64)>,
}

impl TargetLooks {
    /// A target was entered.
    pub(super) fn add(&mut self, pid: u32) {
        self.pids.push(pid);
    }

    /// The targets, if it is time to look at them. Those that are no longer alive are dropped.
    pub(super) fn take_due(&mut self, now_ns: u64, is_alive: impl Fn(u32) -> bool) -> Vec<u32> {
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return Vec::new();
        }
        self.looked_ns = now_ns;
        self.pids.retain(|pid| is_alive(*pid));
        self.pids.clone()
    }

    /// A target was found gone. That is no news of its end yet: records of what it did before, of programs that it executed too, may still be
    /// on their way.
    pub(super) fn add_gone(&mut self, pid: u32, seen_ns: u64) {
        self.gone.push((pid, seen_ns));
    }

    /// The targets that were found gone before this time, up to which all records were taken in.
    pub(super) fn take_gone(&mut self, complete_ns: u64) -> Vec<(u32, u64)> {
        self.gone.extract_if(.., |(_, seen_ns)| *seen_ns < complete_ns).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn living_targets_are_due_once_a_second() {
        let mut looks = TargetLooks::default();
        looks.add(1);
        looks.add(2);
        assert_eq!(looks.take_due(LOOK_NS, |_| true), [1, 2]);
        assert_eq!(looks.take_due(2 * LOOK_NS - 1, |_| true), [0; 0]);
        assert_eq!(looks.take_due(2 * LOOK_NS, |pid| pid == 2), [2]);
        assert_eq!(looks.take_due(3 * LOOK_NS, |_| true), [2]);
    }

    #[test]
    fn a_target_is_gone_when_all_records_of_its_life_are_here() {
        let mut looks = TargetLooks::default();
        looks.add_gone(1, 10);
        looks.add_gone(2, 20);
        assert_eq!(looks.take_gone(10), []);
        assert_eq!(looks.take_gone(11), [(1, 10)]);
        assert_eq!(looks.take_gone(u64::MAX), [(2, 20)]);
    }
}
