use std::collections::BTreeMap;

use proptest::prelude::*;

use profile::Svma;

use super::*;

/// Memory by words; what has none is 0 within the regions and unreadable outside.
#[derive(Default)]
struct Memory {
    regions: Vec<(u64, u64)>,
    words: BTreeMap<u64, u64>,
}

impl Memory {
    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let Some((start, size)) =
            self.regions.iter().find(|(start, size)| (*start..start + size).contains(&address))
        else {
            return Vec::new();
        };
        let end = (start + size).min(address + len as u64);
        (address..end)
            .step_by(8)
            .flat_map(|at| self.words.get(&at).copied().unwrap_or(0).to_le_bytes())
            .collect()
    }
}

const KEY: u64 = 0x310 + 16 + 8;

fn thread(number: u64) -> u64 {
    0x7f00_0000_0000 + number * 0x10_0000
}

fn state(number: u64) -> ThreadState {
    ThreadState { address: 0x5500_0000_0000 + number * 0x1000, thread_id: thread(number) }
}

/// Threads with a descriptor each, and with their state under a key.
fn glibc(threads: u64) -> (Memory, Vec<ThreadState>) {
    let mut memory = Memory::default();
    for number in 0..threads {
        let base = thread(number);
        memory.regions.push((base, 0x900));
        memory.words.extend([
            (base, base),
            (base + 0x10, base),
            (base + KEY - 8, 1),
            (base + KEY, state(number).address),
        ]);
    }
    (memory, (0..threads).map(state).collect())
}

fn found(memory: &Memory, states: &[ThreadState]) -> Option<Slot> {
    find(states, |address, len| memory.read(address, len))
}

const NEAR: Option<Slot> = Some(Slot::Near { offset: KEY as i32 });

#[test]
fn the_place_that_all_threads_have_is_found() {
    for threads in [1, 2, 100] {
        let (memory, states) = glibc(threads);
        assert_eq!(found(&memory, &states), NEAR, "{threads}");
    }
    assert_eq!(found(&Memory::default(), &[]), None);
}

#[test]
fn a_place_with_the_state_of_another_thread_is_none() {
    let (mut memory, states) = glibc(2);
    memory.words.insert(thread(1) + KEY, states[0].address);
    assert_eq!(found(&memory, &states), None);
}

#[test]
fn a_thread_may_have_several_states_or_none_yet() {
    let (mut memory, mut states) = glibc(4);
    states.push(ThreadState { address: 0x5600_0000_0000, thread_id: thread(2) });
    memory.words.insert(thread(2) + KEY, 0x5600_0000_0000);
    memory.words.insert(thread(3) + KEY, 0);
    assert_eq!(found(&memory, &states), NEAR);
    // A state whose thread has not begun, and one whose thread has gone.
    states.push(ThreadState { address: 0x5700_0000_0000, thread_id: 0 });
    states.push(ThreadState { address: 0x5700_0000_0000, thread_id: 0x6000_0000_0000 });
    assert_eq!(found(&memory, &states), NEAR);
    // Something else is there.
    memory.words.insert(thread(3) + KEY, 8);
    assert_eq!(found(&memory, &states), None);
}

#[test]
fn of_several_places_the_one_of_a_key_is_taken() {
    let (mut memory, states) = glibc(3);
    for number in 0..3 {
        memory.words.insert(thread(number) + 0x680, states[number as usize].address);
    }
    assert_eq!(found(&memory, &states), NEAR);
    for number in 0..3 {
        memory.words.insert(thread(number) + 0x678, 3);
    }
    assert_eq!(found(&memory, &states), None);
}

#[test]
fn a_place_behind_a_table_is_found() {
    let (mut memory, states) = glibc(3);
    for number in 0..3 {
        let table = 0x5800_0000_0000 + number * 0x1000;
        memory.words.insert(thread(number) + KEY, 0);
        memory.words.insert(thread(number) + 0x80, table);
        memory.regions.push((table, 0x400));
        memory.words.insert(table + 24, states[number as usize].address);
    }
    assert_eq!(found(&memory, &states), Some(Slot::Far { table: 0x80, offset: 24 }));
    for number in 0..3 {
        memory.words.insert(thread(number) + 0x88, 0x5800_0000_0000 + number * 0x1000);
    }
    assert_eq!(found(&memory, &states), None, "two places");
}

/// In musl the first thread has its table in the data of libc, which another pointer of its descriptor points to as well, and other threads have
/// it right behind their descriptors.
#[test]
fn the_table_of_musl_is_the_one_with_the_state_nearest_to_its_start() {
    const DATA: u64 = 0x7e00_0000_0000;
    for threads in 1..4 {
        let mut memory = Memory { regions: vec![(DATA, 0x800)], ..Memory::default() };
        for number in 0..threads {
            let base = thread(number);
            let table = if number == 0 { DATA + 0x100 } else { base + 0xc8 };
            let (next, previous) = ((number + 1) % threads, (number + threads - 1) % threads);
            memory.regions.push((base, 0x500));
            memory.words.extend([
                (base, base),
                (base + 0x10, thread(previous)),
                (base + 0x18, thread(next)),
                (base + 0x80, table),
                (base + 0xa8, DATA + 0x80),
                (table + 8, state(number).address),
            ]);
        }
        let states: Vec<ThreadState> = (0..threads).map(state).collect();
        let place = Some(Slot::Far { table: 0x80, offset: 8 });
        assert_eq!(found(&memory, &states), place, "{threads}");
        // Most of the threads are others than the first one.
        memory.words.insert(DATA + 0x108, 0);
        let expected = if threads == 1 { None } else { place };
        assert_eq!(found(&memory, &states), expected, "{threads}");
    }
}

proptest! {
    #[test]
    fn any_memory_is_searched_without_harm(
        states in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        words in proptest::collection::vec(any::<u64>(), 1..400),
        len in 0usize..0x2000,
    ) {
        let states: Vec<_> =
            states.into_iter().map(|(address, thread_id)| ThreadState { address: address & !7, thread_id: thread_id >> 17 & !7 }).collect();
        let bytes: Vec<u8> = words.iter().cycle().take(0x400).flat_map(|word| word.to_le_bytes()).collect();
        let _ = find(&states, |_, _| bytes[..len].to_vec());
    }
}

const BIAS: u64 = 0x5600_0000_0000;
const WORDS: u64 = 0x4000;

fn of(variable: ThreadVariable, memory: &Memory, states: &[ThreadState]) -> Option<Slot> {
    of_variable(&variable, BIAS, states, |address, len| memory.read(address, len))
}

/// Threads with their state in a variable below their thread pointer.
fn with_variable(threads: u64, offset: i64) -> (Memory, Vec<ThreadState>) {
    let (mut memory, states) = glibc(threads);
    memory.regions.push((BIAS + WORDS, 0x100));
    for state in &states {
        memory.regions.push((state.thread_id - 0x1000, 0x1000));
        memory.words.insert(state.thread_id.wrapping_add_signed(offset), state.address);
    }
    (memory, states)
}

#[test]
fn a_variable_of_the_program_is_where_the_code_says() {
    let (mut memory, states) = with_variable(3, -0x28);
    let at = |offset| ThreadVariable::At { offset };
    assert_eq!(of(at(-0x28), &memory, &states), Some(Slot::Near { offset: -0x28 }));
    assert_eq!(of(at(-0x30), &memory, &states), None, "no thread has a state there");
    // A thread that was not told its state yet.
    memory.words.insert(thread(2) - 0x28, 0);
    assert_eq!(of(at(-0x28), &memory, &states), Some(Slot::Near { offset: -0x28 }));
    // A thread has the state of another one there.
    memory.words.insert(thread(2) - 0x28, state(1).address);
    assert_eq!(of(at(-0x28), &memory, &states), None);
    // Most of the threads have none there: it is the variable of threads that hold the lock.
    memory.words.extend([(thread(1) - 0x28, 0), (thread(2) - 0x28, 0)]);
    assert_eq!(of(at(-0x28), &memory, &states), None);
}

#[test]
fn the_word_that_the_loader_has_set_tells_the_distance() {
    let (mut memory, states) = with_variable(3, -0x28);
    let (told, described) =
        (ThreadVariable::Told { word: Svma(WORDS) }, ThreadVariable::Described { words: Svma(WORDS + 0x10) });
    assert_eq!(of(told, &memory, &states), None, "it has not set the word");
    memory.words.extend([(BIAS + WORDS, -0x28_i64 as u64), (BIAS + WORDS + 0x18, -0x28_i64 as u64)]);
    assert_eq!(of(told, &memory, &states), Some(Slot::Near { offset: -0x28 }));
    assert_eq!(of(described, &memory, &states), Some(Slot::Near { offset: -0x28 }));
    memory.words.extend([(BIAS + WORDS, 1 << 40), (BIAS + WORDS + 0x18, 1 << 40)]);
    assert_eq!((of(told, &memory, &states), of(described, &memory, &states)), (None, None));
}

#[test]
fn a_variable_of_a_library_is_in_the_block_that_each_thread_has_for_it() {
    for words in [1, 2] {
        let (mut memory, states) = glibc(3);
        let variable = ThreadVariable::OfModule { words: Svma(WORDS), more: 0x10 };
        memory.regions.push((BIAS + WORDS, 0x100));
        memory.words.extend([(BIAS + WORDS, 3), (BIAS + WORDS + 8, 0x20)]);
        for (number, state) in (0..).zip(&states) {
            let (vector, block) =
                (0x7000_0000_0000 + number * 0x10_0000, 0x7100_0000_0000 + number * 0x10_0000);
            memory.regions.extend([(vector, 0x100), (block, 0x100)]);
            memory.words.extend([
                (state.thread_id + 8, vector),
                (vector + 24 * words, block),
                (block + 0x30, state.address),
            ]);
        }
        let found = Some(Slot::Block { entry: 24 * words as u32, offset: 0x30 });
        assert_eq!(of(variable, &memory, &states), found);
        // A thread that has not used the library yet.
        memory.words.insert(0x7000_0020_0000 + 24 * words, u64::MAX);
        assert_eq!(of(variable, &memory, &states), found);
        memory.words.insert(BIAS + WORDS, 4);
        assert_eq!(of(variable, &memory, &states), None, "it is another module");
        memory.words.insert(BIAS + WORDS, u64::MAX);
        assert_eq!(of(variable, &memory, &states), None);
    }
}
