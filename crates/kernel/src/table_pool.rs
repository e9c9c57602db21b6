//! The memory of tables and mappings. User space and the programs address it by word numbers. It consists of chunks in a
//! BPF array of maps, which are created on demand and written through `mmap`, without a system call per word. Few
//! chunks are mapped at a time, because mapped chunks count as memory of this process too.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::abi::{CHUNK_BYTES, CHUNK_WORDS};
use crate::extents::Extents;
use crate::memory::TableRoom;

/// Freed words are not used again for this long. A running program, or a child that still shares its parent's mappings,
/// may be reading them.
const QUARANTINE: Duration = Duration::from_secs(2);

/// The largest number of chunks mapped at a time; 1 MiB.
const MAX_WINDOWS: usize = 16;

/// Where chunks are missing, as many after the last one are made with them; 512 KiB. Each making waits some ms for running programs,
/// and tables that become ready one after the other mostly need one chunk.
const AHEAD: u32 = 8;

pub(crate) struct TablePool {
    outer: MapHandle,
    /// The entry after the last chunk, for [`Self::wait_for_programs`].
    spare: MapHandle,
    chunks: Vec<Option<MapHandle>>,
    /// The mapped chunks, most recently used first.
    windows: RefCell<VecDeque<(u32, MmapRaw)>>,
    extents: Extents,
    quarantine: VecDeque<(Instant, u32, u32)>,
    in_use: usize,
}

impl TablePool {
    pub(crate) fn new(outer: MapHandle, max_chunks: u32) -> Result<Self, Error> {
        Ok(Self {
            outer,
            spare: new_chunk()?,
            chunks: (0..max_chunks).map(|_| None).collect(),
            windows: RefCell::default(),
            extents: Extents::new(max_chunks * CHUNK_WORDS),
            quarantine: VecDeque::new(),
            in_use: 0,
        })
    }

    /// Bytes of the existing chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.in_use * CHUNK_BYTES
    }

    /// Allocates words at a multiple of `align`, and creates their chunks.
    pub(crate) fn take(&mut self, words: u32, align: u32, in_one_chunk: bool) -> Result<u32, Error> {
        let start = self.reserve(words, align, in_one_chunk)?;
        match self.back(&[(start, words)]) {
            Ok(()) => Ok(start),
            Err(error) => {
                self.extents.give(start, words);
                Err(error)
            }
        }
    }

    /// Allocates words at a multiple of `align`. Pass them to [`Self::back`] before writing them.
    pub(crate) fn reserve(&mut self, words: u32, align: u32, in_one_chunk: bool) -> Result<u32, Error> {
        self.end_quarantine();
        let full = Error::TablePoolFull { words, limit_mib: (self.limit_bytes() >> 20) as u32 };
        self.extents.take(words, align, in_one_chunk).ok_or(full)
    }

    fn end_quarantine(&mut self) {
        while let Some(&(since, start, length)) = self.quarantine.front() {
            if since.elapsed() < QUARANTINE {
                break;
            }
            self.extents.give(start, length);
            self.quarantine.pop_front();
        }
    }

    /// Bytes that tables and mappings may have.
    fn limit_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// What there is of it, and what is left.
    pub(crate) fn room(&mut self) -> TableRoom {
        self.end_quarantine();
        TableRoom {
            limit_bytes: self.limit_bytes(),
            free_bytes: self.extents.words() as usize * 4,
            soon_free_bytes: self.quarantine.iter().map(|(_, _, words)| *words as usize * 4).sum(),
        }
    }

    /// A copy of the words that are free, or will be soon.
    pub(crate) fn free_extents(&mut self, soon: bool) -> Extents {
        self.end_quarantine();
        let mut extents = self.extents.clone();
        if soon {
            self.quarantine.iter().for_each(|(_, start, words)| extents.give(*start, *words));
        }
        extents
    }

    /// Creates the chunks of reserved words, given as (start, words), and some ahead of need. One call for many is faster: each call
    /// waits for running programs.
    pub(crate) fn back(&mut self, parts: &[(u32, u32)]) -> Result<(), Error> {
        let missing = to_make(parts, self.chunks.len() as u32, |index| self.chunks[index as usize].is_some());
        let made = missing.into_iter().map(|index| Ok((index, new_chunk()?)));
        let made: Vec<(u32, MapHandle)> = made.collect::<Result<_, Error>>()?;
        let entries: Vec<(u32, i32)> =
            made.iter().map(|(index, map)| (*index, map.as_fd().as_raw())).collect();
        enter(&self.outer, &entries)?;
        self.in_use += made.len();
        for (index, map) in made {
            self.chunks[index as usize] = Some(map);
        }
        Ok(())
    }

    /// Frees words; they can be allocated again after [`QUARANTINE`].
    pub(crate) fn give(&mut self, start: u32, words: u32) {
        self.quarantine.push_back((Instant::now(), start, words));
    }

    /// Writes words from `start` on, into allocated words.
    pub(crate) fn write(&mut self, start: u32, words: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        let mut at = start;
        let mut words = words.into_iter().peekable();
        while words.peek().is_some() {
            let taken = self.with_chunk(at / CHUNK_WORDS, |chunk| {
                let rest = &chunk[(at % CHUNK_WORDS) as usize..];
                // The programs read at the same time, hence the atomic store.
                rest.iter().zip(&mut words).map(|(place, word)| place.store(word, Ordering::Relaxed)).count()
            })?;
            let Some(taken) = taken else {
                debug_assert!(false, "write outside of allocated words");
                return Ok(());
            };
            at += taken as u32;
        }
        Ok(())
    }

    /// The word at an address; none if its chunk does not exist.
    pub(crate) fn read(&self, at: u32) -> Option<u32> {
        let word = |chunk: &[AtomicU32]| chunk[(at % CHUNK_WORDS) as usize].load(Ordering::Relaxed);
        self.with_chunk(at / CHUNK_WORDS, word).ok()?
    }

    /// Whether these words stand from `start` on.
    pub(crate) fn holds(&self, start: u32, words: impl IntoIterator<Item = u32>) -> bool {
        let mut at = start;
        let mut words = words.into_iter().peekable();
        while words.peek().is_some() {
            let compared = self.with_chunk(at / CHUNK_WORDS, |chunk| {
                let rest = &chunk[(at % CHUNK_WORDS) as usize..];
                let mut pairs = rest.iter().zip(&mut words);
                pairs.all(|(place, word)| place.load(Ordering::Relaxed) == word).then_some(rest.len())
            });
            let Ok(Some(Some(length))) = compared else { return false };
            at += length as u32;
        }
        true
    }

    /// Calls `action` with the words of a chunk, if it exists.
    fn with_chunk<T>(&self, index: u32, action: impl FnOnce(&[AtomicU32]) -> T) -> Result<Option<T>, Error> {
        let Some(map) = self.chunks.get(index as usize).and_then(Option::as_ref) else { return Ok(None) };
        let mut windows = self.windows.borrow_mut();
        let known = windows.iter().position(|(chunk, _)| *chunk == index);
        let window = match known.and_then(|at| windows.remove(at)) {
            Some(window) => window,
            None => {
                windows.truncate(MAX_WINDOWS - 1);
                let memory = MmapOptions::new().len(CHUNK_BYTES).map_raw(map.as_fd().as_raw());
                (index, memory.map_err(|source| Error::Mmap { map: "table_pool", source })?)
            }
        };
        let base = window.1.as_mut_ptr().cast::<AtomicU32>();
        // SAFETY: the mapping is CHUNK_WORDS words long, page aligned, and lives at least until the end of this
        // function; all access to it is atomic.
        let result = action(unsafe { std::slice::from_raw_parts(base, CHUNK_WORDS as usize) });
        windows.push_front(window);
        Ok(Some(result))
    }

    /// Waits until all program runs that were active at the call have ended.
    ///
    /// An update of an array of maps does that: `maybe_wait_bpf_programs` in kernel/bpf/syscall.c calls
    /// `synchronize_rcu` (5.10 to 6.18 read).
    pub(crate) fn wait_for_programs(&mut self) -> Result<(), Error> {
        let key = (self.chunks.len() as u32).to_ne_bytes();
        self.outer
            .update(&key, &self.spare.as_fd().as_raw_bytes(), MapFlags::ANY)
            .map_err(map_error("update"))
    }
}

/// The chunks to make for reserved words, of `all` chunks. `exists`: whether a chunk was made already.
fn to_make(parts: &[(u32, u32)], all: u32, exists: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    let range = |&(start, words): &(u32, u32)| start / CHUNK_WORDS..=(start + words.max(1) - 1) / CHUNK_WORDS;
    let mut missing: BTreeSet<u32> = parts.iter().flat_map(range).filter(|index| !exists(*index)).collect();
    if let Some(last) = missing.last().copied() {
        let ahead = last + 1..all.min(last + 1 + AHEAD);
        missing.extend(ahead.filter(|index| !exists(*index)));
    }
    missing
}

/// Number of updates at the same time. Each waits some ms until all running programs have ended; updates at the same
/// time share that wait.
const AT_A_TIME: usize = 8;

/// Enters chunks into the array of maps. Each entry is an index and the descriptor of a chunk.
fn enter(outer: &MapHandle, entries: &[(u32, i32)]) -> Result<(), Error> {
    let share = entries.len().div_ceil(AT_A_TIME).max(1);
    let mut shares = entries.chunks(share);
    let Some(first) = shares.next() else { return Ok(()) };
    std::thread::scope(|scope| {
        let others: Vec<_> = shares.map(|share| scope.spawn(|| enter_share(outer, share))).collect();
        let mut result = enter_share(outer, first);
        for other in others {
            let panicked = || Err(libbpf_rs::Error::from(io::Error::other("a thread panicked")));
            result = result.and(other.join().unwrap_or_else(|_| panicked()));
        }
        result.map_err(map_error("extend"))
    })
}

/// Uses one system call if the kernel has batch updates for arrays of maps (since 5.15), else one for each entry.
fn enter_share(outer: &MapHandle, entries: &[(u32, i32)]) -> Result<(), libbpf_rs::Error> {
    let keys: Vec<u8> = entries.iter().flat_map(|(index, _)| index.to_ne_bytes()).collect();
    let values: Vec<u8> = entries.iter().flat_map(|(_, map)| map.to_ne_bytes()).collect();
    let count = entries.len() as u32;
    if count > 1 && outer.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY).is_ok() {
        return Ok(());
    }
    let mut each = keys.chunks_exact(4).zip(values.chunks_exact(4));
    each.try_for_each(|(key, value)| outer.update(key, value, MapFlags::ANY))
}

fn map_error(action: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| Error::Map { action, map: "table_pool", source }
}

fn new_chunk() -> Result<MapHandle, Error> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: libbpf_rs::libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    MapHandle::create(MapType::Array, Some("chunk"), 4, CHUNK_BYTES as u32, 1, &options)
        .map_err(map_error("extend"))
}

/// The forms of a file descriptor that maps take.
trait RawForms {
    fn as_raw(&self) -> i32;
    fn as_raw_bytes(&self) -> [u8; 4];
}

impl RawForms for std::os::fd::BorrowedFd<'_> {
    fn as_raw(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(self)
    }

    fn as_raw_bytes(&self) -> [u8; 4] {
        self.as_raw().to_ne_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_made_for_several_tables_at_once() {
        let made = |parts: &[(u32, u32)], exists: fn(u32) -> bool| {
            to_make(parts, 32, exists).into_iter().collect::<Vec<u32>>()
        };
        assert_eq!(made(&[(0, 1)], |_| false), (0..9).collect::<Vec<u32>>(), "one, and those ahead");
        assert!(made(&[(3 * CHUNK_WORDS, 5)], |index| index < 9).is_empty(), "it exists");
        assert_eq!(made(&[(9 * CHUNK_WORDS - 1, 2)], |index| index < 9), (9..18).collect::<Vec<u32>>());
        assert_eq!(made(&[(0, 1), (4 * CHUNK_WORDS, 1)], |index| index == 5), [0, 4, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(made(&[(30 * CHUNK_WORDS, 1)], |_| false), [30, 31], "no more than there are");
        assert!(made(&[], |_| false).is_empty());
    }
}
