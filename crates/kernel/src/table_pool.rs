//! The memory that both sides address by word numbers: chunks of a BPF array of maps, made on demand and written
//! through `mmap`, without a system call per word. Few chunks are mapped at a time: what is mapped counts as memory of
//! this process, too.

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

/// Words given back are not used again for this long: a program that runs at that moment, or a child that still
/// shares its parent's mappings, may be reading them.
const QUARANTINE: Duration = Duration::from_secs(2);

/// Chunks mapped at a time; 1 MiB.
const MAX_WINDOWS: usize = 16;

pub(crate) struct TablePool {
    outer: MapHandle,
    chunks: Vec<Option<MapHandle>>,
    /// Chunks that are mapped here, the last used in front.
    windows: RefCell<VecDeque<(u32, MmapRaw)>>,
    extents: Extents,
    quarantine: VecDeque<(Instant, u32, u32)>,
    in_use: usize,
}

impl TablePool {
    pub(crate) fn new(outer: MapHandle, max_chunks: u32) -> Self {
        Self {
            outer,
            chunks: (0..max_chunks).map(|_| None).collect(),
            windows: RefCell::default(),
            extents: Extents::new(max_chunks * CHUNK_WORDS),
            quarantine: VecDeque::new(),
            in_use: 0,
        }
    }

    /// Bytes of the chunks that exist.
    pub(crate) fn bytes(&self) -> usize {
        self.in_use * CHUNK_BYTES
    }

    /// Words at a multiple of `align`, backed by chunks.
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

    /// Words at a multiple of `align`, to be given to [`Self::back`] before they are written.
    pub(crate) fn reserve(&mut self, words: u32, align: u32, in_one_chunk: bool) -> Result<u32, Error> {
        while let Some(&(since, start, length)) = self.quarantine.front() {
            if since.elapsed() < QUARANTINE {
                break;
            }
            self.extents.give(start, length);
            self.quarantine.pop_front();
        }
        let full =
            Error::TablePoolFull { words, limit_mib: ((self.chunks.len() * CHUNK_BYTES) >> 20) as u32 };
        self.extents.take(words, align, in_one_chunk).ok_or(full)
    }

    /// Makes the chunks behind (start, words) of what was reserved, all at once: each call waits for running programs.
    pub(crate) fn back(&mut self, parts: &[(u32, u32)]) -> Result<(), Error> {
        let range =
            |&(start, words): &(u32, u32)| start / CHUNK_WORDS..=(start + words.max(1) - 1) / CHUNK_WORDS;
        let missing = parts.iter().flat_map(range).filter(|index| self.chunks[*index as usize].is_none());
        let missing: BTreeSet<u32> = missing.collect();
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

    /// Gives words back, after a while.
    pub(crate) fn give(&mut self, start: u32, words: u32) {
        self.quarantine.push_back((Instant::now(), start, words));
    }

    /// Writes words from `start` on; all of them were taken.
    pub(crate) fn write(&mut self, start: u32, words: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        let mut at = start;
        let mut words = words.into_iter().peekable();
        while words.peek().is_some() {
            let taken = self.with_chunk(at / CHUNK_WORDS, |chunk| {
                let rest = &chunk[(at % CHUNK_WORDS) as usize..];
                // The kernel side reads concurrently, hence the atomic store.
                rest.iter().zip(&mut words).map(|(place, word)| place.store(word, Ordering::Relaxed)).count()
            })?;
            let Some(taken) = taken else {
                debug_assert!(false, "write outside of what was taken");
                return Ok(());
            };
            at += taken as u32;
        }
        Ok(())
    }

    /// The word at an address; none if there is no chunk.
    pub(crate) fn read(&self, at: u32) -> Option<u32> {
        let word = |chunk: &[AtomicU32]| chunk[(at % CHUNK_WORDS) as usize].load(Ordering::Relaxed);
        self.with_chunk(at / CHUNK_WORDS, word).ok()?
    }

    /// Does something with the words of a chunk, if there is one.
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
        // SAFETY: the mapping is CHUNK_WORDS words long, page aligned, and lives until the end of this function at
        // least; all access to it is atomic.
        let result = action(unsafe { std::slice::from_raw_parts(base, CHUNK_WORDS as usize) });
        windows.push_front(window);
        Ok(Some(result))
    }

    /// Waits until every program that was running when this was called has ended.
    ///
    /// Updating an array of maps does that: `maybe_wait_bpf_programs` in kernel/bpf/syscall.c calls
    /// `synchronize_rcu` (5.10 to 6.18 read).
    pub(crate) fn wait_for_programs(&mut self) -> Result<(), Error> {
        let spare = new_chunk()?;
        let key = (self.chunks.len() as u32).to_ne_bytes();
        self.outer.update(&key, &spare.as_fd().as_raw_bytes(), MapFlags::ANY).map_err(map_error("update"))
    }
}

/// Updates at a time. Each waits until all programs that run have ended, for which the kernel takes some ms; those
/// that wait at the same time wait for the same.
const AT_A_TIME: usize = 8;

/// Enters chunks, by their descriptors, into the array of maps.
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

/// With one system call where the kernel knows it for arrays of maps (5.15), else one by one.
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

/// The forms in which file descriptors are wanted here.
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
