//! Where each thread keeps the address of its own thread state, found by looking.
//!
//! The interpreter keeps it under a key of the threading library, which every library stores elsewhere. The state itself tells the thread
//! that it belongs to, so the place is where all threads have one of their own states. Nothing below the thread pointer is searched:
//! the stack of the thread ends there, with copies that stay from earlier calls.
//!
//! Guaranteed: a place is told only if all threads agree on it, and no other place would do as well.

/// The place, by the thread pointer (the base of `fs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The word at `thread pointer + offset`.
    Near {
        /// In bytes.
        offset: u32,
    },
    /// The word at `*(thread pointer + table) + offset`: glibc from the 33rd key on, and musl.
    Far {
        /// In bytes, from the thread pointer.
        table: u32,
        /// In bytes, from the table.
        offset: u32,
    },
}

/// One thread state, as the lists of the interpreter have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Its address.
    pub address: u64,
    /// Its field `thread_id`: the thread pointer of its thread.
    pub thread_id: u64,
}

/// Bytes from the thread pointer on that are searched: the descriptor of a thread in glibc.
const NEAR_BYTES: usize = 0x900;
/// Bytes of a table: in musl 128 words, in glibc 32 entries of two words.
const FAR_BYTES: usize = 1024;
/// Threads that are asked. Others would only confirm them.
const MAX_THREADS: usize = 64;
/// Threads that are asked for a place behind a pointer, which takes a reading per word and thread.
const MAX_FAR_THREADS: usize = 8;
/// States that are looked at.
const MAX_STATES: usize = 4096;
/// User addresses of x86-64 end here.
const MAX_ADDRESS: u64 = 1 << 47;

/// What one thread has at its thread pointer.
struct Thread {
    block: Vec<u8>,
    /// Addresses of its states.
    states: Vec<u64>,
}

/// Finds the place that all threads have in common. `read` gives memory of the process from an address on, as far as it is readable.
///
/// `None` if there is none, or several: while threads begin and end the lists may not fit to what the threads have, so it is worth
/// trying again.
pub fn find(states: &[ThreadState], read: impl Fn(u64, usize) -> Vec<u8>) -> Option<Slot> {
    let threads = threads(states, &read);
    let near: Vec<u32> = common(&threads, |thread| Some(thread.block.clone()));
    match near[..] {
        [] => far(&threads, &read),
        [offset] => Some(Slot::Near { offset }),
        // A key of glibc has an odd number in front that counts its uses.
        _ => only(
            near.iter().filter(|offset| threads.iter().all(|thread| is_numbered(&thread.block, **offset))),
        )
        .map(|offset| Slot::Near { offset: *offset }),
    }
}

fn threads(states: &[ThreadState], read: &impl Fn(u64, usize) -> Vec<u8>) -> Vec<Thread> {
    let states = &states[..states.len().min(MAX_STATES)];
    let mut ids: Vec<u64> = states.iter().map(|state| state.thread_id).filter(|id| is_pointer(*id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(MAX_THREADS);
    let of = |id: u64| {
        let mut block = read(id, NEAR_BYTES);
        block.truncate(NEAR_BYTES);
        let own = states.iter().filter(|state| state.thread_id == id && is_pointer(state.address));
        Thread { block, states: own.map(|state| state.address).collect() }
    };
    ids.into_iter().map(of).filter(|thread| !thread.block.is_empty() && !thread.states.is_empty()).collect()
}

/// The offsets at which each thread has one of its states in the bytes that `bytes_of` gives. A thread that was not yet told its state
/// may have 0 there, if at least half of the threads have one.
fn common(threads: &[Thread], bytes_of: impl Fn(&Thread) -> Option<Vec<u8>>) -> Vec<u32> {
    let blocks: Vec<(Option<Vec<u8>>, &Thread)> =
        threads.iter().map(|thread| (bytes_of(thread), thread)).collect();
    let has_state = |(block, thread): &(Option<Vec<u8>>, &Thread), offset: u32| {
        let value = block.as_ref().and_then(|block| word(block, offset));
        value.is_some_and(|value| thread.states.contains(&value))
    };
    let has_zero = |(block, _): &(Option<Vec<u8>>, &Thread), offset: u32| {
        block.as_ref().is_none_or(|block| word(block, offset) == Some(0))
    };
    let offsets = (0..NEAR_BYTES.max(FAR_BYTES) as u32).step_by(8);
    offsets
        .filter(|offset| {
            let with_state = blocks.iter().filter(|block| has_state(block, *offset)).count();
            let agrees = |block| has_state(block, *offset) || has_zero(block, *offset);
            with_state > 0 && 2 * with_state >= blocks.len() && blocks.iter().all(agrees)
        })
        .collect()
}

/// The place behind one more pointer.
fn far(threads: &[Thread], read: &impl Fn(u64, usize) -> Vec<u8>) -> Option<Slot> {
    let threads = &threads[..threads.len().min(MAX_FAR_THREADS)];
    let mut found = Vec::new();
    for table in (0..NEAR_BYTES as u32).step_by(8) {
        let at = |thread: &Thread| word(&thread.block, table).filter(|address| is_pointer(*address));
        if !threads.iter().any(|thread| at(thread).is_some()) {
            continue;
        }
        let bytes_of = |thread: &Thread| {
            let mut bytes = read(at(thread)?, FAR_BYTES);
            bytes.truncate(FAR_BYTES);
            Some(bytes)
        };
        found.extend(common(threads, bytes_of).into_iter().map(|offset| (table, offset)));
        if found.len() > 1 {
            return None;
        }
    }
    only(found.iter()).map(|(table, offset)| Slot::Far { table: *table, offset: *offset })
}

/// Whether the word before a place is a small odd number.
fn is_numbered(block: &[u8], offset: u32) -> bool {
    let number = offset.checked_sub(8).and_then(|before| word(block, before));
    number.is_some_and(|number| number % 2 == 1 && number < 1 << 32) || word(block, offset) == Some(0)
}

fn is_pointer(value: u64) -> bool {
    value != 0 && value < MAX_ADDRESS && value.is_multiple_of(8)
}

fn word(bytes: &[u8], offset: u32) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(usize::try_from(offset).ok()?..)?.first_chunk()?))
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
