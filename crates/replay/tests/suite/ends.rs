//! The cause that a walk gives for its end, case by case as the specification names them.

use replay::Code;
use replay::End;
use replay::Mapping;
use replay::Registers;
use replay::Replay;
use replay::ReturnProbe;
use replay::Stack;
use replay::Thread;
use unwind::PageSpan;
use unwind::Row;
use unwind::Rule;
use unwind::Table;
use unwind::abi::cfa;
use unwind::abi::fp;

const FILE: u64 = 0x5555_0000_0000;
const JIT: u64 = 0x7f00_0000_0000;
const PENDING: u64 = 0x7f10_0000_0000;
const NOWHERE: u64 = 0x7f20_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
/// In the file: one word of frame by sp, no row, not expressible, a CFA below the frame.
const BY_SP: u64 = FILE + 0x10;
const GAP: u64 = FILE + 0x110;
const UNSUPPORTED: u64 = FILE + 0x210;
const BACKWARDS: u64 = FILE + 0x310;
const ROOT: u64 = FILE + 0x410;
/// By frame pointer.
const BY_FP: u64 = FILE + 0x510;
/// As `BY_SP`, in a function with which a stack may begin.
const ENTRY: u64 = FILE + 0x610;
/// The first byte of a function that follows another one.
const FUNCTION: u64 = FILE + 0x700;
/// The same, but a call of a function in the file ends before it.
const BEHIND_CALL: u64 = FILE + 0x900;
/// In a file of its own: one word of frame by sp.
const OTHER_FILE: u64 = 0x5556_0000_0010;

fn replay() -> Replay {
    let by_sp = Rule { cfa: cfa::SP, cfa_off: 8, ra_off: -8, ..Rule::NONE };
    let backwards = Rule { cfa_off: -8, ..by_sp };
    let by_fp = Rule { cfa: cfa::FP, cfa_off: 16, fp: fp::CFA, fp_off: -16, ..by_sp };
    let entry = Rule { flags: unwind::abi::ENTRY, ..by_sp };
    let own_call = Rule { flags: unwind::abi::START | unwind::abi::ENTRY, ..by_sp };
    let rules = [by_sp, Rule::UNSUPPORTED, backwards, Rule::ROOT, by_fp, entry, Rule::START, own_call];
    let rules = [&[Rule::NONE][..], &rules].concat();
    let rows = [(0, 1), (0x100, 0), (0x200, 2), (0x300, 3), (0x400, 4), (0x500, 5)];
    let rows =
        rows.into_iter().chain([(0x600, 6), (0x6ff, 7), (0x700, 1), (0x8ff, 8), (0x900, 1), (0xa00, 0)]);
    let rows: Vec<Row> = rows.map(|(offset, rule)| Row { offset, rule }).collect();
    let pages = vec![PageSpan { first_row: 0, count: rows.len() as u32 }];
    let mut replay = Replay::new();
    let table = replay.add_table(&Table { pages, rows, rules, ..Table::default() }).unwrap();
    let mapping = |start: u64, code| Mapping { start, end: start + 0x10_0000, bias: start, code };
    let mappings = [
        mapping(FILE, Code::Table(table)),
        mapping(OTHER_FILE & !0xfff, Code::Table(table)),
        mapping(JIT, Code::FramePointers),
        mapping(PENDING, Code::NotReady),
    ];
    replay.set_mappings(&mappings).unwrap();
    replay
}

/// The end of a walk from `pc`, and how many frames it has. Words are from the stack pointer on; `fp` in words.
fn walk(pc: u64, fp: Option<i64>, words: &[u64]) -> (End, usize) {
    let fp = fp.map_or(0, |words| STACK.wrapping_add_signed(8 * words));
    let stack = Stack::of_words(STACK, words);
    let walk = replay().walk_checked(&Thread::default(), &Registers::of(pc, STACK, fp), &stack).unwrap();
    (walk.end, walk.frames.len())
}

#[test]
fn roots() {
    assert_eq!(walk(ROOT, None, &[]), (End::Root, 1));
    assert_eq!(walk(BY_SP, None, &[ROOT]), (End::Root, 2));
    assert_eq!(walk(ENTRY, None, &[0]), (End::Root, 1));
    assert_eq!(walk(BY_SP, None, &[ENTRY, 0]), (End::Root, 2));
}

#[test]
fn zero_where_no_stack_begins() {
    assert_eq!(walk(BY_SP, None, &[0]), (End::ZeroFrame, 1));
    assert_eq!(walk(ENTRY, None, &[BY_SP, 0]), (End::ZeroFrame, 2));
    assert_eq!(walk(JIT, None, &[]), (End::ZeroFrame, 1));
    assert_eq!(walk(JIT, Some(0), &[0, 0]), (End::ZeroFrame, 1));
    assert_eq!(walk(JIT, Some(0), &[0, JIT + 1]), (End::ZeroFrame, 2));
}

#[test]
fn a_return_to_a_function_that_nothing_called() {
    assert_eq!(walk(BY_SP, None, &[FUNCTION]), (End::Root, 1));
    assert_eq!(walk(BY_SP, None, &[BY_SP, FUNCTION, ROOT]), (End::Root, 2));
    // The instruction before it is the end of another function, and may be interrupted there.
    assert_eq!(walk(FUNCTION - 1, None, &[ROOT]), (End::Root, 2));
    assert_eq!(walk(FUNCTION, None, &[ROOT]), (End::Root, 2));
    // Behind its first instruction it is a caller as others are.
    assert_eq!(walk(BY_SP, None, &[FUNCTION + 1, ROOT]), (End::Root, 3));
    // What a frame pointer led to without a row is no proof.
    assert_eq!(walk(GAP, Some(0), &[0, FUNCTION]), (End::NoRow, 1));
}

/// A function may end with a call of one that never returns. The return address is then the next function's first byte.
#[test]
fn a_call_at_the_end_of_a_function() {
    assert_eq!(walk(BY_SP, None, &[BEHIND_CALL, ROOT]), (End::Root, 3));
    assert_eq!(walk(BY_SP, None, &[BEHIND_CALL, 0]), (End::ZeroFrame, 2));
    // The call leads to no other file.
    assert_eq!(walk(OTHER_FILE, None, &[BEHIND_CALL, ROOT]), (End::Root, 1));
    // The rule is found again for each of them.
    let mut replay = replay();
    let stack = Stack::of_words(STACK, &[BEHIND_CALL, ROOT]);
    for (pc, frames) in [(BY_SP, 3), (OTHER_FILE, 1), (BY_SP, 3)] {
        let walk = replay.walk_checked(&Thread::default(), &Registers::of(pc, STACK, 0), &stack).unwrap();
        assert_eq!((walk.end, walk.frames.len()), (End::Root, frames), "{pc:#x}");
    }
}

/// In the page of legacy system calls, as the walker has its addresses: without the bits that hold marks.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0400 & ((1 << 57) - 1);

#[test]
fn a_legacy_system_call_leads_to_its_caller() {
    assert_eq!(walk(VSYSCALL, None, &[BY_SP, ROOT]), (End::Root, 3));
    assert_eq!(walk(VSYSCALL, None, &[NOWHERE]), (End::NoMapping, 1));
    assert_eq!(walk(VSYSCALL, None, &[0]), (End::NoMapping, 1));
    // It calls nobody, so it is no caller.
    assert_eq!(walk(BY_SP, None, &[VSYSCALL, ROOT]), (End::NoMapping, 1));
    assert_eq!(walk(VSYSCALL + 0xc00, None, &[BY_SP, ROOT]), (End::NoMapping, 1));
}

#[test]
fn a_legacy_system_call_is_left_where_its_stack_pointer_moved_first() {
    // The return address is below the stack pointer, where the caller's own frame begins.
    let after = |below: u64, words: &[u64]| {
        let stack = Stack::of_words(STACK - 8, &[&[below], words].concat());
        let walk = replay().walk(&Thread::default(), &Registers::of(VSYSCALL, STACK, 0), &stack);
        (walk.end, walk.frames.len())
    };
    assert_eq!(
        after(BY_SP, &[NOWHERE]),
        (End::NoMapping, 2),
        "BY_SP is the caller, and its caller is nowhere"
    );
    assert_eq!(after(ROOT, &[NOWHERE]), (End::Root, 2));
    assert_eq!(after(ROOT, &[0]), (End::Root, 2));
    assert_eq!(after(NOWHERE, &[NOWHERE]), (End::NoMapping, 1));
}

#[test]
fn no_mapping() {
    assert_eq!(walk(NOWHERE, None, &[]), (End::NoMapping, 1));
    // What a rule gives as the caller, and lies nowhere, is not a frame.
    assert_eq!(walk(BY_SP, None, &[NOWHERE]), (End::NoMapping, 1));
    // A return address is looked up before it: the end of a mapping belongs to it, its start does not.
    assert_eq!(walk(BY_SP, None, &[JIT]), (End::NoMapping, 1));
    assert_eq!(walk(BY_SP, None, &[JIT + 0x10_0000]), (End::ZeroFrame, 2));
    assert_eq!(walk(JIT + 0x10_0000, None, &[]), (End::NoMapping, 1));
}

#[test]
fn a_stack_of_its_own_above_the_callers() {
    // By frame pointer to a caller whose frame lies below; then to a frame that is its own caller.
    assert_eq!(walk(BY_FP, Some(-4), &[]), (End::Fault, 1));
    let stack = Stack::of_words(STACK - 64, &[0, ROOT]);
    let registers = Registers::of(BY_FP, STACK, STACK - 64);
    let walk_of = |registers: &Registers, stack: &Stack| {
        let walk = replay().walk_checked(&Thread::default(), registers, stack).unwrap();
        (walk.end, walk.frames.len())
    };
    assert_eq!(walk_of(&registers, &stack), (End::Root, 2));
    let stack = Stack::of_words(STACK - 16, &[STACK - 16, BY_FP]);
    assert_eq!(walk_of(&Registers::of(BY_FP, STACK, STACK - 16), &stack), (End::FpChain, 1));
    // Two frames that are each other's callers.
    let stack = Stack::of_words(STACK, &[STACK + 16, BY_FP, STACK, BY_FP]);
    assert_eq!(walk_of(&Registers::of(BY_FP, STACK, STACK), &stack), (End::FrameLimit, 512));
}

/// The return address of a probed function is the first byte of a page that is in no mapping.
#[test]
fn probed_returns() {
    let stack = Stack::of_words(STACK, &[BY_SP, NOWHERE, BY_SP, ROOT]);
    let registers = Registers::of(BY_SP, STACK, 0);
    let mut replay = replay();
    let walk = |replay: &mut Replay| {
        let walk = replay.walk_checked(&Thread::default(), &registers, &stack).unwrap();
        let frames: Vec<_> = walk.frames.iter().map(|frame| (frame.pc, frame.exact)).collect();
        (walk.end, frames)
    };
    let cut = vec![(BY_SP, true), (BY_SP, false)];
    assert_eq!(walk(&mut replay), (End::NoMapping, cut.clone()));
    replay.probe_return(ReturnProbe { page: NOWHERE, at: STACK + 8, to: BY_SP + 1 });
    let whole = [&cut[..], &[(BY_SP + 1, false), (BY_SP, false), (ROOT, false)]].concat();
    // Also with what is known from the walk before.
    assert_eq!(walk(&mut replay), (End::Root, whole.clone()));
    assert_eq!(walk(&mut replay), (End::Root, whole));
    // Not the pending return of this frame.
    replay.probe_return(ReturnProbe { page: NOWHERE, at: STACK, to: BY_SP + 1 });
    assert_eq!(walk(&mut replay), (End::NoMapping, cut));
}

#[test]
fn no_row() {
    assert_eq!(walk(GAP, Some(-1), &[ROOT]), (End::NoRow, 1));
    assert_eq!(walk(GAP, Some(99), &[ROOT]), (End::NoRow, 1));
    assert_eq!(walk(GAP, Some(0), &[0, NOWHERE]), (End::NoRow, 1));
    // A page that the table does not have is no row, too.
    assert_eq!(walk(FILE + 0x2_0000, Some(-1), &[]), (End::NoRow, 1));
    assert_eq!(walk(GAP, Some(0), &[0, ROOT]), (End::Root, 2));
}

#[test]
fn zero_without_a_row_is_no_root() {
    assert_eq!(walk(GAP, None, &[]), (End::NoRow, 1));
    assert_eq!(walk(GAP, Some(0), &[0, 0]), (End::NoRow, 1));
}

#[test]
fn others() {
    assert_eq!(walk(UNSUPPORTED, None, &[ROOT]), (End::UnsupportedRule, 1));
    assert_eq!(walk(BACKWARDS, None, &[ROOT]), (End::FpChain, 1));
    assert_eq!(walk(JIT, Some(-1), &[]), (End::FpChain, 1));
    assert_eq!(walk(JIT, Some(0), &[0, NOWHERE]), (End::FpChain, 1));
    assert_eq!(walk(JIT, Some(9), &[]), (End::Fault, 1));
    assert_eq!(walk(BY_SP, None, &[]), (End::Fault, 1));
    assert_eq!(walk(PENDING, None, &[]), (End::TableNotReady, 1));
    assert_eq!(walk(BY_SP, None, &[PENDING + 1]), (End::TableNotReady, 2));
    assert_eq!(walk(BY_SP, None, &[BY_SP; 600]), (End::FrameLimit, 512));
}

/// Around the limits of the window through which the stack is read.
#[test]
fn reads_at_every_distance() {
    let mut replay = replay();
    for start in 0..16 {
        for words in 500..530 {
            let base = STACK + 8 * start;
            let mut stack = vec![BY_SP; words];
            stack.push(ROOT);
            let stack = Stack::of_words(base, &stack);
            let walk =
                replay.walk_checked(&Thread::default(), &Registers::of(BY_SP, base, 0), &stack).unwrap();
            let end = if words + 2 > 512 { End::FrameLimit } else { End::Root };
            assert_eq!((walk.frames.len(), walk.end), ((words + 2).min(512), end));
        }
    }
}

/// Another file at the same place: with the next generation, its rules hold.
#[test]
fn rules_are_of_one_generation() {
    let mut replay = replay();
    let stack = Stack::of_words(STACK, &[ROOT]);
    let mut thread = Thread::default();
    let registers = Registers::of(BY_SP, STACK, 0);
    assert_eq!(replay.walk_checked(&thread, &registers, &stack).unwrap().end, End::Root);
    let by_two_words = Rule { cfa: cfa::SP, cfa_off: 16, ra_off: -8, ..Rule::NONE };
    let pages = vec![PageSpan { first_row: 0, count: 1 }];
    let (rows, rules) = (vec![Row { offset: 0, rule: 1 }], vec![Rule::NONE, by_two_words]);
    let table = replay.add_table(&Table { pages, rows, rules, ..Table::default() }).unwrap();
    let code = Code::Table(table);
    replay.set_mappings(&[Mapping { start: FILE, end: FILE + 0x1000, bias: FILE, code }]).unwrap();
    thread.generation += 1;
    assert_eq!(replay.walk_checked(&thread, &registers, &stack).unwrap().end, End::Fault);
}
