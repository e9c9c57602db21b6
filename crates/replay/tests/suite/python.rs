//! The walk of Python's frames over built memory: chains of every kind, how they end, and the frames of a call that has not begun.

use replay::{MAX_PYTHON_FRAMES, PythonEnd, Replay, Thread};

use crate::python_image::{
    CFRAME, CODES, COUNTER, FRAMES, Frame, INTERPRETER, Image, Kind, RING, SHIM, STATE, THREAD_POINTER, shown,
};
use crate::synthetic::{self, Base, Machine, program};

const NEWER: [Kind; 2] = [Kind::Shims, Kind::Direct];

/// Frames of five functions, each at another instruction; `mark` gives `is_entry` or `owner`.
fn calls(image: &mut Image, count: u32, mark: impl Fn(u32) -> u8) -> Vec<Frame> {
    let codes: Vec<u64> = (0..5).map(|number| image.code(number)).collect();
    let frame = |i: u32| Frame { code: codes[i as usize % 5], instruction: 2 * i, mark: mark(i) };
    (0..count).map(frame).collect()
}

#[test]
fn frames_that_lie_side_by_side_are_read_through_windows() {
    for first in (0..96).step_by(8) {
        let mut image = Image::new(Kind::Direct);
        let mut frames = calls(&mut image, 500, |_| 0);
        frames.push(SHIM);
        // The outermost frame lies where memory begins, others across the ends of pages.
        image.chain(&frames, FRAMES + first);
        let mut replay = Replay::new();
        for round in 0..2 {
            let walk = image.walk_with(&mut replay);
            assert_eq!((walk.end, walk.frames.len()), (PythonEnd::Root, 500), "{first}");
            let expected: Vec<_> = (0..500).map(|i| (i % 5, 2 * i as u32, i == 499)).collect();
            assert_eq!(shown(&walk), expected);
            // 500 frames of 88 bytes are 11 pages; a frame across two pages takes a window of its own.
            assert!(round == 0 || walk.reads < 50, "{} reads", walk.reads);
        }
    }
}

#[test]
fn marks_tell_where_evaluators_began() {
    let mut image = Image::new(Kind::Entry);
    let frames = calls(&mut image, 6, |i| u8::from(i == 2 || i == 5));
    image.chain(&frames, FRAMES + 8);
    let outermost = |image: &Image| image.walk().frames.iter().map(|f| f.outermost).collect::<Vec<_>>();
    assert_eq!(outermost(&image), [false, false, true, false, false, true]);
    assert_eq!(image.walk().end, PythonEnd::Root);

    let mut image = Image::new(Kind::Heap);
    let frames = calls(&mut image, 3, |_| 0);
    // Objects of the heap lie anywhere.
    let at = [FRAMES + 0x9008, FRAMES + 0x40, FRAMES + 0x9088];
    for (i, frame) in frames.iter().enumerate() {
        image.place(at[i], *frame, at.get(i + 1).copied().unwrap_or(0));
    }
    image.begin(at[0]);
    assert_eq!(shown(&image.walk()), [(0, 0, true), (1, 2, true), (2, 4, true)]);
    assert_eq!(image.walk().end, PythonEnd::Root);
}

#[test]
fn an_evaluator_without_frames_has_an_empty_one() {
    for kind in NEWER {
        let mut image = Image::new(kind);
        let frames = calls(&mut image, 3, |_| 0);
        image.chain(&[SHIM, frames[0], SHIM, SHIM, frames[1], frames[2], SHIM], FRAMES);
        let walk = image.walk();
        let empty = (u64::MAX, 0, true);
        assert_eq!(shown(&walk), [empty, (0, 0, true), empty, (1, 2, false), (2, 4, true)], "{kind:?}");
        assert_eq!(walk.end, PythonEnd::Root);

        image.chain(&[frames[0], SHIM, frames[1]], FRAMES);
        assert_eq!(image.walk().end, PythonEnd::Open, "{kind:?}: no evaluator began with the last frame");
    }
}

#[test]
fn a_chain_of_any_length_ends() {
    for kind in [Kind::Heap, Kind::Entry, Kind::Shims, Kind::Direct] {
        for (count, end) in [(512, PythonEnd::Root), (513, PythonEnd::Limit)] {
            let mut image = Image::new(kind);
            let mut frames = calls(&mut image, count, |i| u8::from(kind == Kind::Entry && i + 1 == count));
            frames.extend(NEWER.contains(&kind).then_some(SHIM));
            image.chain(&frames, FRAMES + 16);
            let walk = image.walk();
            assert_eq!((walk.frames.len(), walk.end), (MAX_PYTHON_FRAMES, end), "{kind:?}");
        }
    }
}

#[test]
fn each_frame_may_have_an_evaluator_of_its_own() {
    let mut image = Image::new(Kind::Direct);
    let frames = calls(&mut image, 500, |_| 0);
    let frames: Vec<_> = frames.iter().flat_map(|frame| [*frame, SHIM]).collect();
    image.chain(&frames, FRAMES);
    let walk = image.walk();
    assert_eq!((walk.frames.len(), walk.end), (500, PythonEnd::Root));
    assert!(walk.frames.iter().all(|frame| frame.outermost));
}

#[test]
fn circles_end_at_the_limit() {
    let circle = |kind, frame, second| {
        let mut image = Image::new(kind);
        image.code(0);
        image.place(FRAMES + 8, frame, second);
        image.place(FRAMES + 0x5008, frame, FRAMES + 8);
        image.begin(FRAMES + 8);
        let walk = image.walk();
        assert_eq!((walk.frames.len(), walk.end), (MAX_PYTHON_FRAMES, PythonEnd::Limit), "{kind:?}");
        assert!(walk.reads < 600, "{} reads", walk.reads);
    };
    for kind in [Kind::Heap, Kind::Entry, Kind::Shims, Kind::Direct] {
        for second in [FRAMES + 8, FRAMES + 0x5008] {
            circle(kind, Frame { code: CODES, instruction: 2, mark: 0 }, second);
            circle(kind, Frame { mark: 1, code: CODES, instruction: 2 }, second);
        }
    }
    circle(Kind::Direct, SHIM, FRAMES + 0x5008);
}

#[test]
fn each_cause_of_an_early_end_is_told() {
    let walk = |change: fn(&mut Image)| {
        let mut image = Image::new(Kind::Direct);
        let frames = calls(&mut image, 3, |_| 0);
        image.chain(&frames, FRAMES);
        change(&mut image);
        let walk = image.walk();
        (walk.end, walk.frames.len())
    };
    assert_eq!(walk(|image| image.registers.thread_pointer = 0), (PythonEnd::NoState, 0));
    assert_eq!(walk(|image| image.set(THREAD_POINTER + 0x318, 0)), (PythonEnd::NoState, 0));
    assert_eq!(walk(|image| image.python.slot = 0x10_0000), (PythonEnd::Fault, 0));
    assert_eq!(walk(|image| image.set(THREAD_POINTER + 0x318, 0x10)), (PythonEnd::Fault, 0));
    assert_eq!(walk(|image| image.set(STATE + 152, 1)), (PythonEnd::OtherThread, 0));
    assert_eq!(walk(|image| image.begin(0)), (PythonEnd::NoFrame, 0));
    assert_eq!(walk(|image| image.begin(u64::MAX - 20)), (PythonEnd::Fault, 0));
    assert_eq!(walk(|image| image.begin(FRAMES - 8)), (PythonEnd::Fault, 0));
    assert_eq!(walk(|image| image.set(FRAMES + 88 + 8, 0x1234_5678)), (PythonEnd::Fault, 2));
}

#[test]
fn the_slot_may_be_behind_a_pointer() {
    let mut image = Image::new(Kind::Direct);
    let frames = calls(&mut image, 1, |_| 0);
    image.chain(&[frames[0], SHIM], FRAMES);
    (image.python.slot_table, image.python.slot) = (0x80, 0x28);
    assert_eq!(image.walk().end, PythonEnd::NoState, "the thread has no table yet");
    image.set(THREAD_POINTER + 0x80, CODES + 0x8000);
    image.set(CODES + 0x8028, STATE);
    assert_eq!(shown(&image.walk()), [(0, 0, true)]);
}

#[test]
fn the_slot_may_be_below_the_thread_pointer_or_in_the_block_of_a_library() {
    let mut image = Image::new(Kind::Direct);
    let frames = calls(&mut image, 1, |_| 0);
    image.chain(&[frames[0], SHIM], FRAMES);
    // The thread pointer is in the middle of its page.
    image.registers.thread_pointer = THREAD_POINTER + 0x800;
    image.set(STATE + 152, THREAD_POINTER + 0x800);
    image.python.slot = -0x28;
    assert_eq!(image.walk().end, PythonEnd::NoState);
    image.set(THREAD_POINTER + 0x800 - 0x28, STATE);
    assert_eq!(shown(&image.walk()), [(0, 0, true)]);

    let (vector, block) = (CODES + 0x8000, CODES + 0x9000);
    (image.python.slot_table, image.python.slot_block, image.python.slot) = (8, 0x30, 0x18);
    image.set(THREAD_POINTER + 0x808, vector);
    for none in [0, u64::MAX] {
        image.set(vector + 0x30, none);
        assert_eq!(image.walk().end, PythonEnd::NoState, "the thread has no block yet");
    }
    image.set(vector + 0x30, block);
    image.set(block + 0x18, STATE);
    assert_eq!(shown(&image.walk()), [(0, 0, true)]);
    image.set(vector + 0x30, 0x10);
    assert_eq!(image.walk().end, PythonEnd::Fault);
}

/// The frame that ends each chain from 3.15 on is no evaluator of its own.
#[test]
fn the_chain_may_end_with_a_frame_of_the_thread_itself() {
    let mut image = Image::new(Kind::Direct);
    image.python.tstate_base_frame = 80;
    let frames = calls(&mut image, 2, |_| 0);
    image.chain(&[frames[0], frames[1], SHIM, SHIM], FRAMES);
    image.set(STATE + 80, FRAMES);
    let walk = image.walk();
    assert_eq!((shown(&walk), walk.end), (vec![(0, 0, false), (1, 2, true)], PythonEnd::Root));
    image.chain(&[frames[0], SHIM], FRAMES);
    let walk = image.walk();
    assert_eq!((shown(&walk), walk.end), (vec![(0, 0, false)], PythonEnd::Open), "no evaluator began");
    image.begin(FRAMES);
    let walk = image.walk();
    assert_eq!((shown(&walk), walk.end), (vec![], PythonEnd::NoFrame));
}

/// Without a global lock, threads run copies of instructions.
#[test]
fn the_instruction_is_counted_from_the_beginning_of_the_copy_that_runs() {
    const COPIES: u32 = 0x98;
    let (array, copy) = (CODES + 0x8000, CODES + 0x9000);
    let mut image = Image::new(Kind::Direct);
    (image.python.code_copies, image.python.frame_copy) = (COPIES as u16, 80);
    image.python.frame_bytes = 84;
    image.python.interp_code_counter = COUNTER;
    let frames = calls(&mut image, 1, |_| 0);
    image.chain(&[frames[0], SHIM], FRAMES);
    let frame = FRAMES + 88;
    image.set(INTERPRETER + u64::from(COUNTER), 1);
    image.set(CODES + u64::from(COPIES), array);
    image.set(array, 3);
    image.set(array + 8 * 3, copy);
    let of_copy = |image: &mut Image, number: u64, replay: &mut Replay| {
        let word = image.memory.word(frame + 80).unwrap() & !0xffff_ffff;
        image.set(frame + 80, word | number);
        image.set(frame + 56, copy + 6);
        image.walk_with(replay)
    };
    let mut replay = Replay::new();
    let first = of_copy(&mut image, 2, &mut replay);
    assert_eq!(shown(&first), [(0, 6, true)]);
    let again = of_copy(&mut image, 2, &mut replay);
    assert_eq!(shown(&again), [(0, 6, true)]);
    assert!(again.reads < first.reads, "where the copy begins is remembered");
    // Another thread has the copy of this number now.
    image.python.interp_copies_counter = COUNTER + 8;
    image.set(INTERPRETER + u64::from(COUNTER) + 8, 1);
    image.set(array + 8 * 3, copy + 4);
    assert_eq!(shown(&of_copy(&mut image, 2, &mut replay)), [(0, 2, true)]);
    // There is no such copy: the first line of the function.
    for number in [3, u64::from(u32::MAX)] {
        let walk = of_copy(&mut image, number, &mut replay);
        assert_eq!((shown(&walk), walk.end), (vec![(0, -2_i32 as u32, true)], PythonEnd::Root));
    }
}

#[test]
fn the_running_state_of_this_thread_goes_before_the_one_in_the_slot() {
    let (runtime, other) = (CODES + 0x8000, CODES + 0x9000);
    let mut image = Image::new(Kind::Heap);
    let frames = calls(&mut image, 2, |_| 0);
    image.chain(&frames[..1], FRAMES);
    image.place(FRAMES + 0x800, frames[1], 0);
    image.set(other + 24, FRAMES + 0x800);
    image.set(runtime + 568, other);
    (image.python.runtime, image.python.runtime_tstate_current) = (runtime, 568);
    image.set(other + 176, THREAD_POINTER + 1);
    assert_eq!(shown(&image.walk()), [(0, 0, true)], "it is that of another thread");
    image.set(other + 176, THREAD_POINTER);
    assert_eq!(shown(&image.walk()), [(1, 2, true)]);
    image.set(THREAD_POINTER + 0x318, 0);
    assert_eq!(shown(&image.walk()), [(1, 2, true)], "the slot is empty");
    image.set(other + 176, THREAD_POINTER + 1);
    assert_eq!(image.walk().end, PythonEnd::NoState, "another thread runs");
}

/// A thread with two evaluators, each with a `_PyCFrame` at the same place of its native frame, and something between them. The
/// inner one is at an instruction before the first opcode, and its `_PyCFrame` has words of an earlier call.
struct HalfLinked {
    image: Image,
    machine: Machine,
    replay: Replay,
}

const PLACE: u64 = 0x40;

impl HalfLinked {
    fn new(kind: Kind, evaluators: &[synthetic::Kind]) -> Self {
        let (_, replay) = program();
        let mut machine = Machine::new(Base::Rule);
        let mut image = Image::new(kind);
        let frames = calls(&mut image, 3, |i| u8::from(kind == Kind::Entry && i > 0));
        let (outer, stale) = (FRAMES + 0x100, FRAMES + 0x800);
        image.place(outer, frames[0], outer + 0x100);
        image.place(outer + 0x100, if kind == Kind::Entry { frames[1] } else { SHIM }, 0);
        image.place(stale, frames[2], outer);
        for kind in evaluators {
            assert!(machine.call(*kind, 4, None));
            let sp = machine.registers.by_number[7];
            let current = u64::from(image.python.cframe_current_frame);
            assert!(machine.stack.set_word(sp + PLACE + current, outer));
        }
        let sp = machine.registers.by_number[7];
        let current = u64::from(image.python.cframe_current_frame);
        assert!(machine.stack.set_word(sp + PLACE + current, stale));
        image.set(STATE + u64::from(image.python.tstate_frame), sp + PLACE);
        let evaluator = machine.registers.pc & !31;
        image.python.evaluator[1] = [evaluator, evaluator + 32];
        image.python.before_dispatch = [evaluator, evaluator + 8];
        Self { image, machine, replay }
    }

    /// The numbers of the functions, and whether the call was told not to have begun.
    fn walk(&mut self) -> (Vec<u64>, bool, PythonEnd) {
        let mut registers = self.machine.registers;
        registers.thread_pointer = THREAD_POINTER;
        let bottom = synthetic::STACK_TOP - 8 * synthetic::STACK_WORDS as u64;
        let words = (bottom..synthetic::STACK_TOP).step_by(8);
        let bytes = words.flat_map(|at| self.machine.stack.word(at).unwrap().to_le_bytes()).collect();
        let memory = self.image.memory.clone().and(bottom, bytes);
        let python = self.image.python;
        let walk = self.replay.walk_python(&Thread::default(), &registers, &memory, &python, RING);
        let codes = shown(&walk).iter().map(|(code, ..)| *code).collect();
        (codes, walk.half_linked, walk.end)
    }
}

#[test]
fn a_call_that_has_not_begun_leaves_the_frames_of_the_outer_evaluator() {
    use synthetic::Kind::{FramePointer, Plain};
    for kind in [Kind::Entry, Kind::Shims] {
        let outer = if kind == Kind::Entry { vec![0, 1] } else { vec![0] };
        let stale = [&[2], &outer[..]].concat();
        let mut thread = HalfLinked::new(kind, &[FramePointer, Plain, FramePointer]);
        assert_eq!(thread.walk(), (outer, true, PythonEnd::Root), "{kind:?}");
        // After its first opcode the call has begun: what its _PyCFrame has is true.
        thread.machine.go_on(9);
        assert_eq!(thread.walk(), (stale.clone(), false, PythonEnd::Root), "{kind:?}");

        let mut alone = HalfLinked::new(kind, &[Plain, FramePointer]);
        assert_eq!(alone.walk(), (vec![], true, PythonEnd::Root), "{kind:?}: no other evaluator runs");

        // The chain does not begin in the own native frame: it is not of this call.
        let mut thread = HalfLinked::new(kind, &[FramePointer, Plain, FramePointer]);
        let current = u64::from(thread.image.python.cframe_current_frame);
        thread.image.set(STATE + u64::from(thread.image.python.tstate_frame), CFRAME);
        thread.image.set(CFRAME + current, FRAMES + 0x800);
        assert_eq!(thread.walk(), (stale, false, PythonEnd::Root), "{kind:?}");
    }
}
