//! When each table was last used by a walk: the variable `table_uses` of the programs, whose section is a map that is mapped into memory.
//! Time is told in epochs, see `CONTROL_EPOCH` of `bpf/abi/control.h`.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::abi::TABLE_USES;

/// The last uses of tables, by number. There are more numbers than most captures have tables; beyond that, some tables share one.
pub(crate) struct TableUses {
    epochs: MmapRaw,
    next: u32,
}

impl TableUses {
    /// The map of the section.
    pub(crate) const MAP: &str = ".data.uses";

    pub(crate) fn new(map: &MapHandle) -> Result<Self, Error> {
        let size = TABLE_USES as usize * size_of::<u32>();
        if map.value_size() as usize != size {
            return Err(Error::Missing { kind: "map", name: Self::MAP });
        }
        let epochs = MmapOptions::new()
            .len(size)
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|source| Error::Mmap { map: Self::MAP, source })?;
        Ok(Self { epochs, next: 0 })
    }

    /// A number for a table that is used from this epoch on.
    pub(crate) fn number(&mut self, epoch: u32) -> u32 {
        let number = self.next % TABLE_USES;
        self.next = self.next.wrapping_add(1);
        self.at(number).store(epoch, Ordering::Relaxed);
        number
    }

    /// The last epoch in which a walk used the table with this number.
    pub(crate) fn last(&self, number: u32) -> u32 {
        self.at(number).load(Ordering::Relaxed)
    }

    fn at(&self, number: u32) -> &AtomicU32 {
        let epochs = self.epochs.as_mut_ptr().cast::<AtomicU32>();
        // SAFETY: the mapping has `TABLE_USES` words, is page aligned and lives as long as `self`; all access is atomic.
        let epochs = unsafe { std::slice::from_raw_parts(epochs, TABLE_USES as usize) };
        &epochs[(number % TABLE_USES) as usize]
    }
}
