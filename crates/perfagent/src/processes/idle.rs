//! Which processes leave the kernel side when places for processes, or memory for their mappings, are scarce: those that were not sampled for
//! longest. With the whole system as target, the kernel side meets them again at their next sample.

/// A process leaves if it was not sampled for so many epochs.
const IDLE: u32 = 10;
/// If hardly a place is left, after so many.
const IDLE_WHEN_FULL: u32 = 2;

/// A process that the kernel side knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownProcess {
    pub(crate) pid: u32,
    /// The last epoch in which it was sampled.
    pub(crate) last: u32,
    pub(crate) mapping_bytes: usize,
}

/// What the kernel side has for processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessRoom {
    pub(crate) places: usize,
    pub(crate) taken: usize,
    /// Of the mappings of all processes.
    pub(crate) mapping_bytes: usize,
    /// What mappings may take: the rest is for tables.
    pub(crate) most_bytes: usize,
}

impl ProcessRoom {
    /// Whether processes should leave: an eighth of the places, and some memory, is kept free.
    pub(crate) fn is_scarce(&self) -> bool {
        8 * self.taken > 7 * self.places || self.mapping_bytes > self.most_bytes
    }

    fn is_full(&self) -> bool {
        16 * self.taken > 15 * self.places || self.mapping_bytes > 2 * self.most_bytes
    }

    fn is_enough(&self) -> bool {
        4 * self.taken <= 3 * self.places && 4 * self.mapping_bytes <= 3 * self.most_bytes
    }
}

/// The processes that leave, until there is enough room. `epoch`: the present one.
pub(crate) fn that_leave(
    mut known: Vec<KnownProcess>,
    mut room: ProcessRoom,
    epoch: u32,
) -> Vec<KnownProcess> {
    let idle = if room.is_full() { IDLE_WHEN_FULL } else { IDLE };
    known.retain(|process| process.last.saturating_add(idle) <= epoch);
    known.sort_unstable_by_key(|process| (process.last, process.pid));
    let leave = known.into_iter().take_while(|process| {
        let leaves = !room.is_enough();
        room.taken = room.taken.saturating_sub(1);
        room.mapping_bytes = room.mapping_bytes.saturating_sub(process.mapping_bytes);
        leaves
    });
    leave.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, last: u32) -> KnownProcess {
        KnownProcess { pid, last, mapping_bytes: 10 }
    }

    fn room(taken: usize, mapping_bytes: usize) -> ProcessRoom {
        ProcessRoom { places: 160, taken, mapping_bytes, most_bytes: 1000 }
    }

    fn pids(known: Vec<KnownProcess>, room: ProcessRoom) -> Vec<u32> {
        that_leave(known, room, 20).iter().map(|process| process.pid).collect()
    }

    #[test]
    fn an_eighth_of_the_places_is_kept_free() {
        assert!(!room(140, 1000).is_scarce());
        assert!(room(141, 0).is_scarce() && room(1, 1001).is_scarce());
    }

    #[test]
    fn those_leave_that_were_not_sampled_for_longest_until_a_quarter_is_free() {
        let known: Vec<_> = (0..141).map(|at| process(at, at / 2)).collect();
        let leave = pids(known, room(141, 0));
        assert_eq!(leave, (0..21).collect::<Vec<u32>>(), "the last of them was idle for ten epochs");
        let known: Vec<_> = (0..141).map(|at| process(at, (at / 40).min(3))).collect();
        assert_eq!(pids(known, room(141, 0)), (0..21).collect::<Vec<u32>>());
    }

    #[test]
    fn those_that_are_sampled_stay() {
        let known: Vec<_> = (0..145).map(|at| process(at, 11 + at % 10)).collect();
        assert_eq!(pids(known.clone(), room(145, 0)), [0; 0]);
        // Hardly a place is left.
        let leave = that_leave(known, room(155, 0), 20);
        assert!(leave.len() == 35 && leave.iter().all(|process| process.last <= 18));
    }

    #[test]
    fn memory_of_mappings_counts_too() {
        let known: Vec<_> = (0..110).map(|at| process(at, 1)).collect();
        assert_eq!(pids(known, room(110, 1100)).len(), 35);
    }
}
