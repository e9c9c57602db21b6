//! Where each thread keeps the address of its own thread state, found by looking.
//!
//! The interpreter keeps it under a key of the threading library, which every library stores elsewhere. The state itself tells the thread
//! that it belongs to, so the place is where all threads have one of their own states. Nothing below the thread pointer is searched:
//! the stack of the thread ends there, with copies that stay from earlier calls.
//!
//! From 3.15 on it is a thread-local variable instead, whose place the code tells ([`ThreadVariable`]); then the threads only confirm it.
//!
//! Guaranteed: a place is told only if all threads agree on it, and no other place would do as well.

use super::thread_variable::ThreadVariable;

/// The place, by the thread pointer (the base of `fs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The word at `thread pointer + offset`.
    Near {
        /// In bytes; below 0 for variables of the program, and of libraries that are there from the start.
        offset: i32,
    },
    /// The word at `*(thread pointer + table) + offset`: glibc from the 33rd key on, and musl.
    Far {
        /// In bytes, from the thread pointer.
        table: u32,
        /// In bytes, from the table.
        offset: u32,
    },
    /// The word at `*(*(thread pointer + 8) + entry) + offset`: a thread-local variable of a library. The block of the library is -1 in
    /// threads that have none.
    Block {
        /// In bytes, from the vector of blocks.
        entry: u32,
        /// In bytes, from the block.
        offset: u32,
    },
}

/// Where a thread keeps the vector of its blocks, from its thread pointer on.
pub const VECTOR: u32 = 8;

impl Slot {
    /// What a thread has at the place; 0: nothing. `None`: it cannot be read. `read` gives memory of the process, as far as it is readable.
    pub fn value(&self, thread_pointer: u64, read: &impl Fn(u64, usize) -> Vec<u8>) -> Option<u64> {
        let at = |address: u64, offset: u32| word(&read(address.wrapping_add(offset.into()), 8), 0);
        match *self {
            Self::Near { offset } => at(thread_pointer.wrapping_add_signed(offset.into()), 0),
            Self::Far { table, offset } => match at(thread_pointer, table)? {
                0 => Some(0),
                table => at(table, offset),
            },
            Self::Block { entry, offset } => match at(at(thread_pointer, VECTOR)?, entry)? {
                0 | u64::MAX => Some(0),
                block => at(block, offset),
            },
        }
    }
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
    if !threads.is_empty() && threads.iter().all(is_of_musl) {
        // Behind other pointers of the descriptor there may be libc's data with the table of the first thread in it. None points into a table
        // itself, so the state is nearest to the right one.
        let nearest = far(&threads, &read).into_iter().min_by_key(|(table, offset)| (*offset, *table));
        return nearest.map(far_place);
    }
    let near: Vec<u32> = common(&threads, |thread| Some(thread.block.clone()));
    match near[..] {
        [] => only(far(&threads, &read).into_iter()).map(far_place),
        [offset] => near_place(offset),
        // A key of glibc has an odd number in front that counts its uses.
        _ => only(
            near.iter().filter(|offset| threads.iter().all(|thread| is_numbered(&thread.block, **offset))),
        )
        .and_then(|offset| near_place(*offset)),
    }
}

/// The place of a thread-local variable, if the threads have their states there. `bias` is added to link-time addresses, `read` as in [`find`].
///
/// `None`: the process has not set it up yet, or it is not there.
pub fn of_variable(
    variable: &ThreadVariable,
    bias: u64,
    states: &[ThreadState],
    read: impl Fn(u64, usize) -> Vec<u8>,
) -> Option<Slot> {
    let at = |address: u64| word(&read(address.wrapping_add(bias), 8), 0);
    let static_place =
        |distance: u64| i32::try_from(distance.cast_signed()).ok().map(|offset| Slot::Near { offset });
    // The vector has two words for each block in glibc, and one in musl.
    let blocks = |module: u64, distance: u64| {
        let offset = u32::try_from(distance).ok()?;
        let entry = |words: u64| u32::try_from(module.checked_mul(words)?).ok();
        Some([16, 8].map(|words| entry(words).map(|entry| Slot::Block { entry, offset })))
    };
    let places = match *variable {
        ThreadVariable::At { offset } => [Some(Slot::Near { offset }), None],
        ThreadVariable::Told { word } => [static_place(at(word.0)?), None],
        ThreadVariable::OfModule { words, more } => {
            blocks(at(words.0)?, at(words.0.wrapping_add(8))?.checked_add(more.into())?)?
        }
        ThreadVariable::Described { words } => [static_place(at(words.0.wrapping_add(8))?), None],
    };
    places.into_iter().flatten().find(|place| is_place(place, states, &read))
}

/// Whether each thread has one of its states at a place, or nothing, and at least half of them one.
fn is_place(place: &Slot, states: &[ThreadState], read: &impl Fn(u64, usize) -> Vec<u8>) -> bool {
    let states = &states[..states.len().min(MAX_THREADS)];
    let (mut with_state, mut all) = (0, 0);
    for state in states.iter().filter(|state| is_pointer(state.thread_id)) {
        let value = place.value(state.thread_id, read).unwrap_or(0);
        let is_own = |other: &ThreadState| other.thread_id == state.thread_id && other.address == value;
        match value {
            0 => {}
            _ if states.iter().any(is_own) => with_state += 1,
            _ => return false,
        }
        all += 1;
    }
    with_state > 0 && 2 * with_state >= all
}

fn near_place(offset: u32) -> Option<Slot> {
    i32::try_from(offset).ok().map(|offset| Slot::Near { offset })
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

/// Where musl's descriptor of a thread has that of the next thread. glibc has two small numbers there.
const MUSL_NEXT: u32 = 0x18;
const FIRST_POINTER: u64 = 1 << 16;

/// Whether a thread is one of musl. Its table of keys lies right behind the descriptor, but for the first thread, which has it
/// elsewhere; so no place in the descriptor itself may be taken.
fn is_of_musl(thread: &Thread) -> bool {
    word(&thread.block, MUSL_NEXT).is_some_and(|next| is_pointer(next) && next >= FIRST_POINTER)
}

/// Places behind one more pointer, as table and offset.
fn far(threads: &[Thread], read: &impl Fn(u64, usize) -> Vec<u8>) -> Vec<(u32, u32)> {
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
    }
    found
}

fn far_place((table, offset): (u32, u32)) -> Slot {
    Slot::Far { table, offset }
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
