//! The sums by stack: two tables, of which one is written to while the other is emptied.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::abi;
use crate::arena::Arena;
use crate::{Error, batch, globals};

pub(crate) struct Totals {
    tables: [MapHandle; 2],
    /// What each CPU has still to add to either table: `struct recent_sums` at `2 * cpu + table`.
    recent: MapHandle,
    /// One of its words names the table in use.
    signals: MapHandle,
    /// How often the table was changed; the last bit names the one in use.
    changes: u64,
}

/// The sums of one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sums {
    /// Samples or intervals.
    pub count: u64,
    /// Sum of their values.
    pub value: u64,
    /// Off-CPU: of the value, the time in which the thread could have run.
    pub waited: u64,
}

impl Totals {
    pub(crate) fn new(tables: [MapHandle; 2], recent: MapHandle, signals: MapHandle) -> Self {
        Self { tables, recent, signals, changes: 0 }
    }

    /// Distinct stacks that one table holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.tables[0].max_entries()
    }

    /// Empties the table in use, while the programs go on with the other. `each` gets the hash and the sums.
    pub(crate) fn drain(&mut self, arena: &mut Arena, each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        let full = (self.changes & 1) as usize;
        self.changes = self.changes.wrapping_add(1);
        globals::signal(&self.signals, abi::SIGNAL_TABLE_CHANGES, self.changes)?;
        arena.wait_for_programs()?;
        self.empty(full, each)
    }

    /// Empties both tables; for the end, when no program runs any more.
    pub(crate) fn drain_all(&mut self, mut each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        self.empty(0, &mut each)?;
        self.empty(1, &mut each)
    }

    fn empty(&self, which: usize, mut each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        self.empty_recent(which, &mut each)?;
        let table = &self.tables[which];
        batch::empty(table, |[hash], [count, value, waited]| each(hash, Sums { count, value, waited }))
            .map_err(|source| Error::Map { action: "empty", map: "totals", source: source.into() })
    }

    /// Samples that the CPUs have not added to the table yet. Their keys go too: the table will not have them either.
    fn empty_recent(&self, which: usize, each: &mut impl FnMut(u64, Sums)) -> Result<(), Error> {
        let failed = |source| Error::Map { action: "empty", map: "recent", source };
        for index in (which as u32..self.recent.max_entries()).step_by(2) {
            let key = index.to_ne_bytes();
            let mut sums = self.recent.lookup(&key, MapFlags::ANY).map_err(failed)?.unwrap_or_default();
            if sums.iter().all(|byte| *byte == 0) {
                continue;
            }
            for (hash, count) in abi::recent_sums(&sums).filter(|(_, count)| *count > 0) {
                each(hash, Sums { count, value: count, waited: 0 });
            }
            sums.fill(0);
            self.recent.update(&key, &sums, MapFlags::ANY).map_err(failed)?;
        }
        Ok(())
    }
}
