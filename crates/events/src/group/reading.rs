//! What a group has counted.

use std::collections::BTreeMap;

/// The event was never counted, although it may have happened: the processor had no counter for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not counted: the processor had no counter for it")]
pub struct NotCounted;

/// The count of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Occurrences while it was counted; ns for clocks.
    pub value: u64,
    /// ns for which it was enabled.
    pub enabled_ns: u64,
    /// ns for which it was counted.
    pub running_ns: u64,
}

impl Counted {
    /// The occurrences while it was enabled: estimated if it was not counted all the time.
    ///
    /// # Errors
    /// [`NotCounted`] if it was not counted at any time.
    pub fn scaled(&self) -> Result<u64, NotCounted> {
        if self.running_ns == 0 {
            return Err(NotCounted);
        }
        if !self.is_estimated() {
            return Ok(self.value);
        }
        let scaled = u128::from(self.value) * u128::from(self.enabled_ns) / u128::from(self.running_ns);
        Ok(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Whether it was not counted all the time.
    #[must_use]
    pub fn is_estimated(&self) -> bool {
        self.running_ns < self.enabled_ns
    }

    /// What came since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            value: self.value.saturating_sub(before.value),
            enabled_ns: self.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: self.running_ns.saturating_sub(before.running_ns),
        }
    }

    /// This and `other` together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }
}

/// The counts at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartReading {
    /// Index of its source in the options.
    pub source: usize,
    /// The CPU, unless a thread is counted on all of them.
    pub cpu: Option<u32>,
    /// The thread that the events were opened for. What it has started since is in its counts.
    pub thread: Option<u32>,
    /// The counts, in the order of the events.
    pub counts: Vec<Counted>,
}

/// The sum of what was counted for each thread or CPU.
pub(super) fn summed(parts: &[PartReading], events: usize) -> Vec<Counted> {
    let mut sums = vec![Counted::default(); events];
    let mut by_thread: BTreeMap<(usize, u32), Vec<Counted>> = BTreeMap::new();
    for part in parts {
        let PartReading { source, cpu, thread, counts } = part;
        let sums = match thread.filter(|_| cpu.is_some()) {
            Some(thread) => {
                by_thread.entry((*source, thread)).or_insert_with(|| vec![Counted::default(); events])
            }
            None => &mut sums,
        };
        for (sum, count) in sums.iter_mut().zip(counts) {
            // A thread's events of all CPUs are enabled at the same time, and one of them is counted.
            let enabled_ns = sum.enabled_ns.max(count.enabled_ns);
            *sum = sum.plus(count);
            if thread.is_some() && cpu.is_some() {
                sum.enabled_ns = enabled_ns;
            }
        }
    }
    for counts in by_thread.values() {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.plus(count));
    }
    sums
}

/// The counts of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReading {
    /// By place.
    pub parts: Vec<PartReading>,
    /// Summed over all places, in the order of the events.
    pub sums: Vec<Counted>,
    /// Places that could not be read: their counts are missing.
    pub failed_reads: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_all_the_time_is_scaled_up() {
        let counted = |value, enabled_ns, running_ns| Counted { value, enabled_ns, running_ns };
        assert_eq!(counted(5, 0, 0).scaled(), Err(NotCounted));
        assert_eq!(counted(0, 9, 0).scaled(), Err(NotCounted));
        assert_eq!((counted(7, 100, 100).scaled(), counted(7, 100, 100).is_estimated()), (Ok(7), false));
        // Clocks of different CPUs may differ by some ns.
        assert_eq!(counted(7, 99, 100).scaled(), Ok(7));
        assert_eq!((counted(7, 100, 50).scaled(), counted(7, 100, 50).is_estimated()), (Ok(14), true));
        assert_eq!(counted(u64::MAX, u64::MAX, 1).scaled(), Ok(u64::MAX));
        assert_eq!(counted(7, 100, 50).since(&counted(3, 40, 60)), counted(4, 60, 0));
        assert_eq!(counted(7, 100, 50).plus(&counted(u64::MAX, 1, 2)), counted(u64::MAX, 101, 52));
    }

    #[test]
    fn a_thread_that_is_counted_on_each_cpu_is_enabled_once() {
        let counted = |value, enabled_ns, running_ns| Counted { value, enabled_ns, running_ns };
        let part = |cpu, thread, count| PartReading { source: 0, cpu, thread, counts: vec![count] };
        let threads = [
            part(Some(0), Some(7), counted(3, 100, 40)),
            part(Some(1), Some(7), counted(4, 100, 60)),
            part(Some(0), Some(8), counted(1, 30, 30)),
        ];
        assert_eq!(summed(&threads, 1), [counted(8, 130, 130)]);
        let cpus = [part(Some(0), None, counted(3, 100, 40)), part(Some(1), None, counted(4, 100, 60))];
        assert_eq!(summed(&cpus, 1), [counted(7, 200, 100)]);
        let anywhere = [part(None, Some(7), counted(3, 100, 100)), part(None, Some(8), counted(4, 50, 50))];
        assert_eq!(summed(&anywhere, 1), [counted(7, 150, 150)]);
    }
}
