//! Interrupted instructions of code without a table: what the code at the pc says of the frame. Small functions as JIT
//! compilers make them are interrupted at each of their instructions.

use replay::Code;
use replay::End;
use replay::Mapping;
use replay::Registers;
use replay::Replay;
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
/// The stack pointer at the entry of the function.
const ENTRY_SP: u64 = 0x7fff_0000_0100;
/// The frame pointer of its caller, which has a row.
const CALLER_FP: u64 = ENTRY_SP + 0x20;
const CALLER: u64 = FILE + 0x10;
const ROOT: u64 = FILE + 0x110;

/// An instruction, and registers before it: how far sp is below its value at entry, and how far rbp is, if it is not the
/// caller's.
type Step<'a> = (&'a [u8], u64, Option<u64>);

/// `push`, as most compilers do it, and the poll of HotSpot before the return.
const BY_PUSH: [Step<'_>; 9] = [
    (&[0x55], 0, None),                               // push %rbp
    (&[0x48, 0x89, 0xe5], 8, None),                   // mov %rsp, %rbp
    (&[0x48, 0x83, 0xec, 0x10], 8, Some(8)),          // sub $0x10, %rsp
    (&[0x48, 0x0f, 0xaf, 0xc7], 0x18, Some(8)),       // imul %rdi, %rax
    (&[0x48, 0x83, 0xc4, 0x10], 0x18, Some(8)),       // add $0x10, %rsp
    (&[0x5d], 8, Some(8)),                            // pop %rbp
    (&[0x49, 0x3b, 0x67, 0x28], 0, None),             // cmp 0x28(%r15), %rsp
    (&[0x0f, 0x87, 0x01, 0x00, 0x00, 0x00], 0, None), // ja
    (&[0xc3], 0, None),                               // ret
];

/// Small frames of HotSpot with `-XX:+PreserveFramePointer`.
const BY_STORE: [Step<'_>; 10] = [
    (&[0x48, 0x83, 0xec, 0x18], 0, None),             // sub $0x18, %rsp
    (&[0x48, 0x89, 0x6c, 0x24, 0x10], 0x18, None),    // mov %rbp, 0x10(%rsp)
    (&[0x48, 0x8b, 0xec], 0x18, None),                // mov %rsp, %rbp
    (&[0x48, 0x83, 0xc5, 0x10], 0x18, Some(0x18)),    // add $0x10, %rbp
    (&[0x48, 0x03, 0xc7], 0x18, Some(8)),             // add %rdi, %rax
    (&[0x48, 0x83, 0xc4, 0x10], 0x18, Some(8)),       // add $0x10, %rsp
    (&[0x5d], 8, Some(8)),                            // pop %rbp
    (&[0x49, 0x3b, 0xa7, 0x68, 4, 0, 0], 0, None),    // cmp 0x468(%r15), %rsp
    (&[0x0f, 0x87, 0x01, 0x00, 0x00, 0x00], 0, None), // ja
    (&[0xc3], 0, None),                               // ret
];

/// The check of the stack's size before a larger frame, and `leave`.
const WITH_CHECK: [Step<'_>; 6] = [
    (&[0x89, 0x84, 0x24, 0x00, 0xc0, 0xfe, 0xff], 0, None), // mov %eax, -0x14000(%rsp)
    (&[0x55], 0, None),                                     // push %rbp
    (&[0x48, 0x8b, 0xec], 8, None),                         // mov %rsp, %rbp
    (&[0xb8, 1, 0, 0, 0], 8, Some(8)),                      // mov $1, %eax
    (&[0xc9], 8, Some(8)),                                  // leave
    (&[0xc3], 0, None),                                     // ret
];

/// A function without a frame.
const WITHOUT: [Step<'_>; 4] = [
    (&[0xf3, 0x0f, 0x1e, 0xfa], 0, None),       // endbr64
    (&[0x48, 0x8d, 0x44, 0x37, 0x01], 0, None), // lea 1(%rdi,%rsi), %rax
    (&[0x48, 0xc1, 0xe0, 0x02], 0, None),       // shl $2, %rax
    (&[0xf3, 0xc3], 0, None),                   // rep ret
];

fn replay() -> Replay {
    let by_fp = Rule { cfa: cfa::FP, cfa_off: 16, ra_off: -8, fp: fp::CFA, fp_off: -16, ..Rule::NONE };
    let rows = [(0, 1), (0x100, 2), (0x200, 0)].map(|(offset, rule)| Row { offset, rule });
    let pages = vec![PageSpan { first_row: 0, count: rows.len() as u32 }];
    let rules = vec![Rule::NONE, by_fp, Rule::ROOT];
    let mut replay = Replay::new();
    let table = replay.add_table(&Table { pages, rows: rows.into(), rules, ..Table::default() }).unwrap();
    let mapping = |start: u64, code| Mapping { start, end: start + 0x10_0000, bias: start, code };
    replay.set_mappings(&[mapping(FILE, Code::Table(table)), mapping(JIT, Code::FramePointers)]).unwrap();
    replay
}

/// The frames of a walk from an instruction of the code, and its end.
fn walk(replay: &mut Replay, code: &[u8], at: u64, sp: u64, fp: u64) -> (Vec<u64>, End) {
    // Below the frame of the caller everything is what the function may leave there.
    let mut stack = Stack::of_words(ENTRY_SP - 0x80, &[0xdead_0000; 48]);
    for (place, word) in
        [(ENTRY_SP, CALLER), (ENTRY_SP - 8, CALLER_FP), (CALLER_FP, 0), (CALLER_FP + 8, ROOT)]
    {
        assert!(stack.set_word(place, word));
    }
    let mut bytes = code.to_vec();
    bytes.resize(code.len() + 64, 0xcc);
    let stack = stack.and(JIT, bytes);
    let walk = replay.walk_checked(&Thread::default(), &Registers::of(JIT + at, sp, fp), &stack).unwrap();
    (walk.frames.iter().map(|frame| frame.pc).collect(), walk.end)
}

#[test]
fn each_instruction_of_a_small_function_has_its_caller() {
    let mut replay = replay();
    for steps in [&BY_PUSH[..], &BY_STORE, &WITH_CHECK, &WITHOUT] {
        let code: Vec<u8> = steps.iter().flat_map(|(bytes, ..)| bytes.iter().copied()).collect();
        let mut at = 0;
        for (bytes, below, fp) in steps {
            let fp = fp.map_or(CALLER_FP, |fp| ENTRY_SP - fp);
            let walked = walk(&mut replay, &code, at, ENTRY_SP - below, fp);
            assert_eq!(walked, (vec![JIT + at, CALLER, ROOT], End::Root), "{bytes:x?} at {at:#x}");
            at += bytes.len() as u64;
        }
    }
}

/// Where the code does not show it, the frame is taken as set up.
#[test]
fn other_code_is_walked_by_frame_pointer() {
    let mut replay = replay();
    for code in [
        // A jump, a call, an unknown instruction, a push of another register.
        &[0xeb, 0x00, 0xc3][..],
        &[0xe8, 0, 0, 0, 0, 0xc3],
        &[0xc5, 0xf8, 0x77, 0xc3],
        &[0x53, 0x55, 0xc3],
        // More than is read.
        &[0x90; 40],
        // Another use of rbp, or of sp.
        &[0x48, 0x8b, 0x28, 0xc3],
        &[0x48, 0x8d, 0x64, 0x24, 0x08, 0xc3],
        &[0x48, 0x89, 0xec, 0x5d, 0xc3],
    ] {
        let walked = walk(&mut replay, code, 0, ENTRY_SP - 8, ENTRY_SP - 8);
        assert_eq!(walked, (vec![JIT, CALLER, ROOT], End::Root), "{code:x?}");
    }
}

/// A function that uses rbp as any other register may spill it without a frame of its own.
#[test]
fn a_spill_of_rbp_is_no_frame() {
    let mut replay = replay();
    for code in [
        // mov %rbp, 0x10(%rsp); mov 0x10(%rsp), %rax; add $0x18, %rsp; pop %rbp; ret
        &[0x48, 0x89, 0x6c, 0x24, 0x10, 0x48, 0x8b, 0x44, 0x24, 0x10, 0x48, 0x83, 0xc4, 0x18, 0x5d, 0xc3][..],
        // mov %rbp, 0x10(%rsp) with four bytes of displacement
        &[0x48, 0x89, 0xac, 0x24, 0x10, 0, 0, 0, 0x48, 0x8b, 0x44, 0x24, 0x10, 0x5d, 0xc3],
        // sub $0x18, %rsp; mov %rbp, 0x10(%rsp); nop; pop %rbp; ret
        &[0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x90, 0x5d, 0xc3],
    ] {
        let walked = walk(&mut replay, code, 0, ENTRY_SP - 0x20, ENTRY_SP - 8);
        assert_eq!(walked, (vec![JIT, CALLER, ROOT], End::Root), "{code:x?}");
    }
}

/// A register of the 64-bit extension is neither rsp nor rbp.
#[test]
fn extended_registers_are_others() {
    let mut replay = replay();
    // mov %rax, %r12; mov (%rax), %r13; mov $1, %r13; pop %r13 is a use of the stack.
    let code = [0x49, 0x89, 0xc4, 0x4c, 0x8b, 0x28, 0x49, 0xc7, 0xc5, 1, 0, 0, 0, 0xc3];
    let walked = walk(&mut replay, &code, 0, ENTRY_SP, CALLER_FP);
    assert_eq!(walked, (vec![JIT, CALLER, ROOT], End::Root));
}
