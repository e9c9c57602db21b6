//! Allocations: the programs at functions of allocators, what they count, and the table of live objects.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;
use crate::abi::skeleton::types;
use crate::heap_site::HeapSite;

/// Calls of allocators that go on at one moment: threads in them.
pub(crate) const MAX_CALLS: u32 = 16_384;

/// Places where allocators take and free samples.
pub const MAX_HEAP_SITES: u32 = types::heap_site_limit::MAX_HEAP_SITES.0;

/// A program, by the functions that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeapProgram {
    /// `malloc(size)`
    Sized,
    /// `calloc(number, size)`
    Zeroed,
    /// `aligned_alloc(alignment, size)`
    Aligned,
    /// `posix_memalign(place, alignment, size)`
    Placed,
    /// `realloc(old, size)`
    Resized,
    /// `reallocarray(old, number, size)`
    ResizedArray,
    /// The return of each of these, by a return probe: only for functions that no exception leaves.
    Returned,
    /// The same, while frees are not seen: what is in use is not known.
    ReturnedAlone,
    /// The return of each of these, at the instructions that return.
    ReturnedHere,
    /// The same, while frees are not seen.
    ReturnedHereAlone,
    /// `__cxa_begin_catch`: a handler of exceptions begins.
    Caught,
    /// `free(old)`
    Freed,
    /// Where an allocator takes a sample; see [`HeapSite`].
    Sampled,
    /// Where it frees a sampled object.
    SampleFreed,
    /// A function around that one, which is told the object.
    ObjectNoted,
}

impl HeapProgram {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Sized,
        Self::Zeroed,
        Self::Aligned,
        Self::Placed,
        Self::Resized,
        Self::ResizedArray,
        Self::Returned,
        Self::ReturnedAlone,
        Self::ReturnedHere,
        Self::ReturnedHereAlone,
        Self::Caught,
        Self::Freed,
        Self::Sampled,
        Self::SampleFreed,
        Self::ObjectNoted,
    ];

    /// Its name in the object.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sized => "heap_sized",
            Self::Zeroed => "heap_zeroed",
            Self::Aligned => "heap_aligned",
            Self::Placed => "heap_placed",
            Self::Resized => "heap_resized",
            Self::ResizedArray => "heap_resized_array",
            Self::Returned => "heap_returned",
            Self::ReturnedAlone => "heap_returned_alone",
            Self::ReturnedHere => "heap_returned_here",
            Self::ReturnedHereAlone => "heap_returned_here_alone",
            Self::Caught => "heap_caught",
            Self::Freed => "heap_freed",
            Self::Sampled => "heap_sampled",
            Self::SampleFreed => "heap_sample_freed",
            Self::ObjectNoted => "heap_object_noted",
        }
    }
}

/// What the programs have counted on all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapCounts {
    /// Calls of the probed functions.
    pub calls: u64,
    /// Recorded objects that were freed.
    pub freed: u64,
    /// Frees of objects that were not recorded, as of those from before the capture.
    pub unknown: u64,
    /// Allocations that the allocator refused.
    pub failed: u64,
    /// Objects that did not fit into the table of live objects.
    pub untracked: u64,
    /// And their bytes.
    pub untracked_bytes: u64,
    /// Live objects whose address was given out again: their free was not seen.
    pub given_again: u64,
    /// Calls that did not fit into the table of calls that go on.
    pub calls_lost: u64,
    /// Samples of an allocator whose arguments could not be read.
    pub unreadable: u64,
    /// Calls that ended by an exception or a jump.
    pub unreturned: u64,
    /// Objects in the table of live objects.
    pub tracked: u64,
}

/// Counts calls, also on another thread than that of the capture.
#[derive(Debug)]
pub struct HeapCounter(MapHandle);

impl HeapCounter {
    /// Calls of the probed functions so far; 0 where they cannot be read.
    #[must_use]
    pub fn calls(&self) -> u64 {
        at(&self.0, types::heap_count::HEAP_CALLS).unwrap_or(0)
    }
}

/// A count of all CPUs together.
fn at(counts: &MapHandle, which: types::heap_count) -> libbpf_rs::Result<u64> {
    let place = which.0 as usize * size_of::<u64>();
    let by_cpu = counts.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
    let words = by_cpu.iter().flatten().filter_map(|cpu| cpu.get(place..)?.first_chunk());
    Ok(words.map(|word| u64::from_ne_bytes(*word)).fold(0, u64::wrapping_add))
}

/// The maps of these programs.
#[derive(Debug)]
pub(crate) struct HeapMaps {
    objects: MapHandle,
    counts: MapHandle,
    sites: MapHandle,
}

impl HeapMaps {
    pub(crate) fn find(map: impl Fn(&'static str) -> Result<MapHandle, Error>) -> Result<Self, Error> {
        Ok(Self { objects: map("live_objects")?, counts: map("heap_counts")?, sites: map("heap_sites")? })
    }

    pub(crate) fn counts(&self) -> Result<HeapCounts, Error> {
        use types::heap_count as count;
        let failed = |source| Error::Map { action: "read", map: "heap_counts", source };
        let at = |which: types::heap_count| at(&self.counts, which).map_err(failed);
        let removed = at(count::HEAP_REMOVED)?;
        Ok(HeapCounts {
            calls: at(count::HEAP_CALLS)?,
            freed: at(count::HEAP_FREED)?,
            unknown: at(count::HEAP_UNKNOWN)?,
            failed: at(count::HEAP_FAILED)?,
            untracked: at(count::HEAP_UNTRACKED)?,
            untracked_bytes: at(count::HEAP_UNTRACKED_BYTES)?,
            given_again: at(count::HEAP_GIVEN_AGAIN)?,
            calls_lost: at(count::HEAP_CALLS_LOST)?,
            unreadable: at(count::HEAP_UNREADABLE)?,
            unreturned: at(count::HEAP_UNRETURNED)?,
            tracked: at(count::HEAP_ENTERED)?.saturating_sub(removed),
        })
    }

    pub(crate) fn counter(&self) -> Result<HeapCounter, Error> {
        let failed = |source| Error::Map { action: "keep", map: "heap_counts", source };
        MapHandle::try_from(&self.counts).map(HeapCounter).map_err(failed)
    }

    /// Tells where arguments are at a place.
    pub(crate) fn set_site(&self, offset: u64, site: &HeapSite) -> Result<(), Error> {
        let (key, value) = (HeapSite::key(offset), site.encode().ok_or(Error::ValuePlan)?);
        let failed = |source| Error::Map { action: "write", map: "heap_sites", source };
        self.sites.update(&key.to_ne_bytes(), &value, MapFlags::ANY).map_err(failed)
    }

    /// Live objects that the table has room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.objects.max_entries()
    }
}
