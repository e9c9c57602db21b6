//! Code objects of Python: what is sent of them, how often, and what hostile ones cause.

use proptest::prelude::*;
use replay::{MAX_PYTHON_FRAMES, Python, PythonEnd, Registers, Replay, Stack, Thread};

use crate::python_image::{COUNTER, FRAMES, Frame, INTERPRETER, Image, Kind, RING, SHIM};

fn one_frame(kind: Kind) -> (Image, u64) {
    let mut image = Image::new(kind);
    let code = image.code(1);
    let frame = Frame { code, instruction: 2, mark: u8::from(kind == Kind::Entry) };
    let frames = if kind == Kind::Direct { vec![frame, SHIM] } else { vec![frame] };
    image.chain(&frames, FRAMES);
    (image, code)
}

#[test]
fn a_code_object_is_sent_once() {
    for kind in [Kind::Heap, Kind::Entry, Kind::Direct] {
        let (image, code) = one_frame(kind);
        let mut replay = Replay::new();
        let walk = image.walk_with(&mut replay);
        let [sent] = &walk.sent[..] else { panic!("{kind:?}: {:?}", walk.sent) };
        assert_eq!((sent.address, sent.stamp, sent.first_line), (code, walk.frames[0].stamp, 11));
        assert_eq!((&sent.name, &sent.file), (&(b"f1".to_vec(), 1), &(b"/m1.py".to_vec(), 1)));
        assert_eq!((&sent.table[..], sent.cut), (&b"lines1"[..], 0));
        let again = image.walk_with(&mut replay);
        assert_eq!((again.sent.len(), again.frames == walk.frames, again.hash), (0, true, walk.hash));
    }
}

#[test]
fn another_object_at_the_address_has_another_stamp() {
    let (mut image, code) = one_frame(Kind::Direct);
    image.python.interp_code_counter = COUNTER;
    let mut replay = Replay::new();
    let first = image.walk_with(&mut replay);
    let other = image.text(30, "other", 5);
    image.set(code + u64::from(image.python.code_name), other);
    // Without a counter, or with one that has overflowed, each walk looks.
    let second = image.walk_with(&mut replay);
    assert_eq!((second.sent.len(), &second.sent[0].name.0[..]), (1, &b"other"[..]));
    assert!(second.frames[0].stamp != first.frames[0].stamp && second.hash != first.hash);
    // While it stands still, no object is new.
    image.set(INTERPRETER + u64::from(COUNTER), 7);
    let counted = image.walk_with(&mut replay);
    let still = image.walk_with(&mut replay);
    assert_eq!((counted.sent.len(), still.frames == counted.frames), (0, true));
    assert!(still.reads < counted.reads);
    let third = image.text(33, "third", 5);
    image.set(code + u64::from(image.python.code_name), third);
    image.set(INTERPRETER + u64::from(COUNTER), 8);
    assert_eq!(image.walk_with(&mut replay).sent[0].name.0, b"third");
}

#[test]
fn what_does_not_fit_into_the_ring_is_sent_by_the_next_walk() {
    let (image, _) = one_frame(Kind::Direct);
    let mut replay = Replay::new();
    let full = replay.walk_python(&Thread::default(), &image.registers, &image.memory, &image.python, 16);
    assert_eq!((full.end, full.sent.len(), full.unsent), (PythonEnd::Root, 0, 1));
    let next = image.walk_with(&mut replay);
    assert_eq!((next.sent.len(), next.unsent, next.hash), (1, 0, full.hash));
}

#[test]
fn strings_without_end_are_cut_and_unreadable_ones_are_empty() {
    let (mut image, code) = one_frame(Kind::Direct);
    let (name, file) = (image.text(3, "f", 1 << 20), image.text(4, "/m", u64::MAX));
    let table = image.text(5, "", 1 << 40);
    let walk = image.walk();
    let [sent] = &walk.sent[..] else { panic!("{:?}", walk.sent) };
    assert_eq!((sent.name.0.len(), sent.file.0.len(), sent.table.len()), (512, 1024, 8192));
    assert_eq!((sent.cut, sent.name.0[0], sent.file.0[0]), (7, b'f', b'/'));

    // A form that no string has; a name behind the end of memory; a table of which only the beginning is there.
    let python = image.python;
    image.set(name + u64::from(python.str_state), 7 << python.str_kind_shift | 0xff00);
    image.set(code + u64::from(python.code_filename), 0x1000);
    let near_end = FRAMES + (64 << 12) - 40;
    image.set(near_end + u64::from(python.bytes_length), 100);
    image.set(code + u64::from(python.code_line_table), near_end);
    let walk = image.walk();
    let sent = &walk.sent[0];
    assert_eq!((sent.name.0.len(), sent.file.0.len(), sent.table.len(), sent.cut), (0, 0, 0, 7));
    assert_ne!((file, table), (0, 0));

    image.chain(&[Frame { code: 0x2000, instruction: 0, mark: 0 }, SHIM], FRAMES);
    let walk = image.walk();
    assert_eq!((walk.end, walk.frames.len(), walk.unreadable, walk.sent.len()), (PythonEnd::Root, 1, 1, 0));
}

const MEMORY: u64 = 0x7000_0000_0000;
const WORDS: usize = 512;

/// Addresses that mean something, small numbers, and others.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0..WORDS as u64).prop_map(|at| MEMORY + 8 * at),
        1 => (0..8 * WORDS as u64).prop_map(|at| MEMORY + at),
        2 => 0..16_u64,
        1 => Just((1 | 1 << 3 | 1 << 4) << 2),
        1 => any::<u64>(),
    ]
}

fn interpreter() -> impl Strategy<Value = Python> {
    let offsets =
        prop::collection::vec(prop_oneof![9 => (0..25_u16).prop_map(|word| 8 * word), 1 => any::<u16>()], 27);
    let ranges = prop::collection::vec((word(), word()), 4);
    (offsets, ranges, 0..5_u16, any::<bool>(), prop_oneof![Just(0), any::<u32>()]).prop_map(
        |(at, ranges, family, is_far, counter)| Python {
            runtime: MEMORY,
            evaluator: [0, 1, 2].map(|i| [ranges[i].0, ranges[i].1]),
            before_dispatch: [0, if family % 2 == 0 { u64::MAX } else { ranges[3].1 }],
            slot_table: if is_far { 8 } else { 0 },
            slot_block: if is_far && family % 2 == 0 { at[23].into() } else { 0 },
            slot: at[0].into(),
            interp_code_counter: counter,
            interp_copies_counter: if family % 2 == 0 { counter } else { 0 },
            runtime_tstate_current: at[1],
            family,
            tagged: family / 3,
            tstate_interp: at[2],
            // The state of the thread may be anywhere, so that most walks reach frames.
            tstate_thread_id: 0,
            tstate_frame: at[3],
            tstate_base_frame: if family % 2 == 0 { at[26] } else { 0 },
            cframe_current_frame: at[4],
            frame_previous: at[5],
            frame_code: at[6],
            frame_instruction: at[7],
            frame_entry: at[8],
            frame_copy: at[24],
            frame_bytes: at[9],
            code_first_unit: at[10],
            code_copies: if family > 2 { at[25] } else { 0 },
            code_from: at[11],
            code_first_line: at[11],
            code_version: at[12],
            code_filename: at[13],
            code_name: at[14],
            code_line_table: at[15],
            str_length: at[16],
            str_state: at[17],
            str_kind_shift: at[18],
            str_ascii_bytes: at[19],
            str_wide_bytes: at[20],
            bytes_length: at[21],
            bytes_bytes: at[22],
            unused: 0,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn walks_end_within_limits(
        python in interpreter(),
        words in prop::collection::vec(word(), WORDS),
        thread in 0..WORDS as u64,
        sp in word(),
    ) {
        let mut memory = Stack::of_words(MEMORY, &words);
        let mut registers = Registers::of(1, sp, 0);
        registers.thread_pointer = MEMORY + 8 * thread;
        // The state is where the slot says, and names its thread.
        let state = MEMORY + 8 * (thread / 2);
        memory.set_word(registers.thread_pointer.wrapping_add_signed(python.slot.into()), state);
        memory.set_word(state, registers.thread_pointer);
        let mut replay = Replay::new();
        for _ in 0..2 {
            let walk = replay.walk_python(&Thread::default(), &registers, &memory, &python, RING);
            prop_assert!(walk.frames.len() <= MAX_PYTHON_FRAMES);
            // At most two reads for the window of a frame, 9 for a code object, and 3 for the copy of its instructions.
            prop_assert!(walk.reads < 100 + MAX_PYTHON_FRAMES as u64 * 16, "{} reads", walk.reads);
        }
    }
}
