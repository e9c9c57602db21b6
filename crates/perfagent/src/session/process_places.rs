//! Processes that were not sampled for long leave the kernel side when room for processes is scarce.

use std::time::{Duration, Instant};

use kernel::Kernel;

use crate::processes::{KnownProcess, ProcessRoom, Processes, that_leave};
use crate::unwinding::TableStore;

/// Time between two looks.
const EACH: Duration = Duration::from_secs(1);
/// After a look, the next one pauses for so many times as long as that took: it looks at each process.
const PAUSE: u32 = 99;

/// Mappings of processes may take this part of the memory for tables.
const PART_FOR_MAPPINGS: usize = 4;

/// Looks after the places for processes.
pub(super) struct ProcessPlaces {
    /// All processes are targets: the programs meet a process again at its next sample.
    system: bool,
    evicted: u64,
    due: Instant,
}

impl ProcessPlaces {
    pub(super) fn new(system: bool) -> Self {
        Self { system, evicted: 0, due: Instant::now() }
    }

    /// How often a process left, so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Lets processes leave, if it is time and room is scarce. Others than targets may leave in any case: they only wake targets.
    pub(super) fn make_room(&mut self, kernel: &mut Kernel, processes: &Processes, tables: &mut TableStore) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + EACH;
        let places = kernel.process_places();
        let room = ProcessRoom {
            places: places.all,
            taken: places.taken,
            mapping_bytes: places.mapping_bytes,
            most_bytes: kernel.table_room().limit_bytes / PART_FOR_MAPPINGS,
        };
        if !room.is_scarce() {
            return;
        }
        let may_leave =
            |pid: u32| self.system || processes.histories().present(pid).is_some_and(|(_, waker)| waker);
        let known = kernel.last_uses_of_processes().into_iter().filter(|used| may_leave(used.pid));
        let known = known.map(|used| KnownProcess {
            pid: used.pid,
            last: used.epoch,
            mapping_bytes: used.mapping_bytes,
        });
        for process in that_leave(known.collect(), room, tables.epoch()) {
            if kernel.forget_process(process.pid, process.last) {
                tables.forget(process.pid);
                self.evicted += 1;
            }
        }
        self.due = now + EACH.max(PAUSE * now.elapsed());
    }
}
