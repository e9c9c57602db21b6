//! Whether memory for tables or places for processes are scarce. While they are, an epoch begins each second, so that it is known when
//! each table and each process was last used. Otherwise programs note nothing, and what they remember stays valid.

use std::time::{Duration, Instant};

use kernel::{Kernel, ProcessPlaces, TableRoom};

/// Length of an epoch.
const EPOCH: Duration = Duration::from_secs(1);

/// The present epoch.
#[derive(Default)]
pub(super) struct Scarcity {
    epoch: u32,
    looked: Option<Instant>,
}

impl Scarcity {
    /// The number of the present epoch; 0: nothing has been scarce so far.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Begins the next epoch if it is time and something is scarce. `waits`: something has found no room.
    pub(super) fn look(&mut self, kernel: &mut Kernel, waits: bool, now: Instant) {
        if self.looked.is_some_and(|looked| now.saturating_duration_since(looked) < EPOCH) {
            return;
        }
        self.looked = Some(now);
        if waits || is_scarce(kernel.table_room(), kernel.process_places()) {
            self.epoch = kernel.begin_epoch();
        }
    }
}

/// Half of what there is is in use, or mappings take a quarter of the memory.
fn is_scarce(room: TableRoom, places: ProcessPlaces) -> bool {
    let free = room.free_bytes + room.soon_free_bytes;
    2 * free < room.limit_bytes
        || 2 * places.taken > places.all
        || 4 * places.mapping_bytes > room.limit_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_in_use_is_scarce() {
        let room = |free_bytes, soon_free_bytes| TableRoom { limit_bytes: 100, free_bytes, soon_free_bytes };
        let places = |taken| ProcessPlaces { all: 10, taken, mapping_bytes: 0 };
        assert!(!is_scarce(room(50, 0), places(5)) && !is_scarce(room(20, 30), places(0)));
        assert!(is_scarce(room(49, 0), places(0)) && is_scarce(room(100, 0), places(6)));
        assert!(is_scarce(room(70, 0), ProcessPlaces { mapping_bytes: 26, ..places(1) }));
    }
}
