//! The memo against the walk without it: threads that call, return, take signals and have words of their stacks
//! changed under them.

use std::collections::HashMap;

use proptest::prelude::*;
use replay::End;
use replay::MAX_FRAMES;
use replay::Replay;
use replay::Thread;
use replay::Walk;

use crate::image::Area;
use crate::reference;
use crate::synthetic::Base;
use crate::synthetic::KINDS;
use crate::synthetic::Kind;
use crate::synthetic::Machine;
use crate::synthetic::OTHER_TOPS;
use crate::synthetic::program;

#[derive(Clone, Debug)]
enum Action {
    Call(usize, u8),
    Return(usize),
    GoOn(u8),
    /// Many frames at once.
    Deep(usize, u16),
    /// A signal on another stack.
    SignalElsewhere(usize),
    /// Code that keeps rbp goes to another stack.
    SwitchByFramePointer(usize),
    /// A word of a frame: set to something else.
    Corrupt {
        frame: usize,
        word: usize,
        to: To,
    },
    Register {
        fp: To,
    },
    NewGeneration,
    NewImage,
    /// Another thread is sampled in between, one that shares the memo's place or not.
    OtherThread(u32),
}

#[derive(Clone, Debug)]
enum To {
    Zero,
    Random(u64),
    /// Its value and a little more.
    Shifted(i8),
    /// Another word of the stack.
    Copied {
        frame: usize,
        word: usize,
    },
    /// An address of the program.
    Code(u16),
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![
        Just(To::Zero),
        any::<u64>().prop_map(To::Random),
        any::<i8>().prop_map(To::Shifted),
        (0..40usize, 0..20usize).prop_map(|(frame, word)| To::Copied { frame, word }),
        (0..300u16).prop_map(To::Code),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (0..KINDS.len(), any::<u8>()).prop_map(|(kind, at)| Action::Call(kind, at)),
        4 => (0..6usize).prop_map(Action::Return),
        2 => any::<u8>().prop_map(Action::GoOn),
        1 => (0..KINDS.len(), 1..600u16).prop_map(|(kind, n)| Action::Deep(kind, n)),
        1 => (0..OTHER_TOPS.len()).prop_map(Action::SignalElsewhere),
        1 => (0..OTHER_TOPS.len()).prop_map(Action::SwitchByFramePointer),
        6 => (0..12usize, 0..20usize, to()).prop_map(|(frame, word, to)| Action::Corrupt { frame, word, to }),
        1 => to().prop_map(|fp| Action::Register { fp }),
        1 => Just(Action::NewGeneration),
        1 => Just(Action::NewImage),
        1 => (0..6u32).prop_map(Action::OtherThread),
    ]
}

struct Test {
    areas: Vec<Area>,
    replay: Replay,
    thread: Thread,
    machine: Machine,
    /// Hash of every stack seen, and stack of every hash.
    hashes: HashMap<Vec<(u64, bool, bool)>, u64>,
    stacks: HashMap<u64, Vec<(u64, bool, bool)>>,
    from_memo: usize,
}

impl Test {
    fn new(base: Base) -> Self {
        let (areas, replay) = program();
        Self {
            areas,
            replay,
            thread: Thread { tid: 1, exec_id: 1, generation: 1 },
            machine: Machine::new(base),
            hashes: HashMap::new(),
            stacks: HashMap::new(),
            from_memo: 0,
        }
    }

    fn value(&self, old: u64, to: &To) -> u64 {
        match to {
            To::Zero => 0,
            To::Random(value) => *value,
            To::Shifted(by) => old.wrapping_add_signed(i64::from(*by)),
            To::Copied { frame, word } => {
                self.machine.stack.word(self.machine.address_of(*frame, *word)).unwrap_or(0)
            }
            To::Code(offset) => self.areas[0].start + u64::from(*offset),
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Call(kind, at) => {
                self.machine.call(KINDS[*kind], *at, None);
            }
            Action::Return(frames) => self.machine.return_from(*frames),
            Action::GoOn(at) => self.machine.go_on(*at),
            Action::Deep(kind, n) => {
                for i in 0..*n {
                    self.machine.call(KINDS[(*kind + usize::from(i % 3)) % 7], i as u8, None);
                }
            }
            Action::SignalElsewhere(which) => {
                self.machine.call(Kind::Trampoline, 0, Some(OTHER_TOPS[*which]));
            }
            Action::SwitchByFramePointer(which) => {
                self.machine.call(Kind::FramePointer, 0, Some(OTHER_TOPS[*which]));
            }
            Action::Corrupt { frame, word, to } => {
                let address = self.machine.address_of(*frame, *word);
                let old = self.machine.stack.word(address).unwrap_or(0);
                self.machine.stack.set_word(address, self.value(old, to));
            }
            Action::Register { fp } => {
                let old = self.machine.registers.by_number[6];
                self.machine.registers.by_number[6] = self.value(old, fp);
            }
            Action::NewGeneration => self.thread.generation += 1,
            Action::NewImage => self.thread.exec_id += 1,
            Action::OtherThread(tid) => self.thread.tid = *tid,
        }
    }

    /// Walks with memo, without, and in Rust: all the same, and the hash tells stacks apart.
    fn walk(&mut self) -> Walk {
        let machine = &self.machine;
        let walk = self.replay.walk_checked(&self.thread, &machine.registers, &machine.stack);
        let walk = walk.unwrap_or_else(|differs| panic!("{differs}"));
        let (frames, end) = reference::walk(&self.areas, &machine.registers, &machine.stack);
        assert_eq!((&walk.frames, walk.end), (&frames, end));
        let stack: Vec<_> = frames.iter().map(|frame| (frame.pc, frame.exact, frame.by_fp)).collect();
        assert_eq!(
            *self.hashes.entry(stack.clone()).or_insert(walk.hash),
            walk.hash,
            "one stack, two hashes"
        );
        assert_eq!(*self.stacks.entry(walk.hash).or_insert(stack.clone()), stack, "one hash, two stacks");
        self.from_memo += walk.matched_from_memo;
        walk
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn memo_equals_walk(
        base in prop_oneof![Just(Base::Rule), Just(Base::ZeroFp), Just(Base::ZeroReturn)],
        actions in prop::collection::vec(action(), 1..40),
    ) {
        let mut test = Test::new(base);
        test.walk();
        for action in &actions {
            test.act(action);
            test.walk();
        }
    }
}

/// A thread this deep in functions of the kinds that can be callers.
fn deep(frames: usize) -> Test {
    let mut test = Test::new(Base::Rule);
    for i in 0..frames {
        assert!(test.machine.call(KINDS[i % 7], i as u8, None));
    }
    test
}

#[test]
fn memo_is_used() {
    let mut test = deep(100);
    assert_eq!(test.walk().matched_from_memo, 0);
    assert_eq!(test.walk().matched_from_memo, 101);
    test.machine.go_on(77);
    assert_eq!(test.walk().matched_from_memo, 100);
    test.machine.return_from(10);
    test.machine.call(Kind::Plain, 3, None);
    assert_eq!(test.walk().matched_from_memo, 91);
}

#[test]
fn memo_is_of_one_thread_image_and_generation() {
    let all: [fn(&mut Thread); 3] =
        [|thread| thread.tid += 4, |thread| thread.exec_id += 1, |thread| thread.generation += 1];
    for change in all {
        let mut test = deep(10);
        test.walk();
        change(&mut test.thread);
        assert_eq!(test.walk().matched_from_memo, 0);
        assert_eq!(test.walk().matched_from_memo, 11);
    }
}

#[test]
fn every_changed_word_is_noticed() {
    let mut test = deep(70);
    let clean = test.walk();
    let mut changed = 0;
    for frame in 0..70 {
        for word in 0..20 {
            let address = test.machine.address_of(frame, word);
            let old = test.machine.stack.word(address).unwrap();
            test.machine.stack.set_word(address, old ^ 0x40);
            changed += usize::from(!test.walk().same_stack(&clean));
            test.machine.stack.set_word(address, old);
            assert!(test.walk().same_stack(&clean));
        }
    }
    // The return address of each, and of most the saved rbp or the word with the CFA.
    assert!(changed > 120, "{changed}");
}

#[test]
fn limit_of_frames_keeps_the_leaf() {
    for (depth, end) in [(510, End::Root), (511, End::Root), (512, End::FrameLimit), (700, End::FrameLimit)] {
        let mut test = deep(depth);
        for _ in 0..3 {
            let walk = test.walk();
            assert_eq!((walk.frames.len(), walk.end), ((depth + 1).min(MAX_FRAMES), end));
            assert_eq!(walk.frames[0].pc, test.machine.registers.pc);
        }
        test.machine.return_from(depth - 300);
        assert_eq!(test.walk().end, End::Root);
        // The memo of 301 frames and more than fit on top of it.
        for i in 0..300 {
            test.machine.call(Kind::Plain, i as u8, None);
        }
        assert_eq!(test.walk().end, End::FrameLimit);
    }
}

#[test]
fn signal_stacks_below_and_above() {
    for top in OTHER_TOPS {
        let mut test = deep(50);
        test.walk();
        assert!(test.machine.call(Kind::Trampoline, 0, Some(top)));
        assert!(test.machine.call(Kind::Plain, 9, None));
        let walk = test.walk();
        assert_eq!((walk.frames.len(), walk.end), (53, End::Root));
        assert!(walk.frames[2].exact && !walk.frames[1].exact);
        test.walk();
        test.machine.return_from(2);
        assert_eq!(test.walk().frames.len(), 51);
    }
}

/// A function that saves rbp and calls on another stack, as Go's runtime does.
#[test]
fn stacks_entered_by_frame_pointer_below_and_above() {
    for top in OTHER_TOPS {
        let mut test = deep(50);
        test.walk();
        assert!(test.machine.call(Kind::FramePointer, 3, Some(top)));
        assert!(test.machine.call(Kind::Plain, 9, None));
        for _ in 0..2 {
            let walk = test.walk();
            assert_eq!((walk.frames.len(), walk.end), (53, End::Root));
        }
        test.machine.return_from(2);
        assert_eq!(test.walk().frames.len(), 51);
    }
}
