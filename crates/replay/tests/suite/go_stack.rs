//! Stacks that go from a goroutine to the thread's own stack, as Go's runtime leaves them in memory.

use replay::Code;
use replay::End;
use replay::Mapping;
use replay::Registers;
use replay::Replay;
use replay::Stack;
use replay::Thread;
use replay::Walk;
use unwind::PageSpan;
use unwind::Row;
use unwind::Rule;
use unwind::Table;
use unwind::abi::cfa;

const FILE: u64 = 0x40_0000;
const CALL: u64 = FILE + 0x10;
const GROW: u64 = FILE + 0x110;
const LEAVE: u64 = FILE + 0x210;
const CALL_OF_C: u64 = FILE + 0x310;
const PLAIN: u64 = FILE + 0x410;
const ROOT: u64 = FILE + 0x510;
const BY_FP: u64 = FILE + 0x610;
const RESUME: u64 = FILE + 0x710;

/// The thread's own stack is above that of the goroutine.
const SYSTEM: u64 = 0x7fff_0000_0000;
const GOROUTINE: u64 = 0xc0_0000_0000;
const RUNTIME: u64 = 0xc0_0100_0000;
const TLS: u64 = 0x7f00_0000_0000;
/// Places in the runtime's memory.
const G: u64 = RUNTIME;
const OTHER_G: u64 = RUNTIME + 0x200;
const G0: u64 = RUNTIME + 0x400;
const M: u64 = RUNTIME + 0x600;
/// Offsets, as in Go 1.20.
const OF_M: u64 = 0x30;
const SP: u64 = 0x38;
const PC: u64 = 0x40;
const FP: u64 = 0x68;
const CURG: u64 = 0xc0;
/// The frame of a call from C, from the sp that `g0` has saved on.
const CALLBACK_WORDS: u8 = 5;

fn replay() -> Replay {
    let go = |kind| Rule {
        cfa: kind,
        cfa_off: -8,
        ra_off: OF_M as i16,
        cfa_add: CURG as i16,
        fp_off: (SP | FP << 16) as i32,
        ..Rule::NONE
    };
    let plain = Rule { cfa: cfa::SP, cfa_off: 16, ra_off: -8, ..Rule::NONE };
    let rules = vec![
        Rule::NONE,
        go(cfa::GO_CALL),
        Rule { flags: CALLBACK_WORDS, ..go(cfa::GO_GROW) },
        Rule { flags: CALLBACK_WORDS, ..go(cfa::GO_LEAVE) },
        Rule { cfa: cfa::GO_CALL_OF_C, cfa_off: 0x30, ra_off: 0x28, cfa_add: 8, ..Rule::NONE },
        plain,
        Rule::ROOT,
        Rule { cfa: cfa::FP, ..plain },
        go(cfa::GO_RESUME),
    ];
    let rows = (0..8).map(|n| Row { offset: n * 0x100, rule: n + 1 }).collect();
    let pages = vec![PageSpan { first_row: 0, count: 8 }];
    let mut replay = Replay::new();
    let table = Table { first_page: FILE >> 16, pages, rows, rules, ..Table::default() };
    let code = Code::Table(replay.add_table(&table).unwrap());
    replay.set_mappings(&[Mapping { start: FILE, end: FILE + 0x1000, bias: 0, code }]).unwrap();
    replay
}

/// A goroutine with two frames: a caller by rbp, and the root.
fn memory() -> Stack {
    let words = |base: u64, count: usize| Stack::of_words(base, &vec![0; count]);
    let mut memory = words(SYSTEM, 64);
    for (base, count) in [(GOROUTINE, 64), (RUNTIME, 512), (TLS - 8, 1)] {
        memory = memory.and(base, vec![0; count * 8]);
    }
    let mut set = |address, word| assert!(memory.set_word(address, word), "{address:#x}");
    set(TLS - 8, G0);
    for g in [G, OTHER_G, G0] {
        set(g + OF_M, M);
    }
    set(M, G0);
    set(M + CURG, G);
    set(G + 8, GOROUTINE + 0x1000);
    set(G + SP, GOROUTINE + 0x40);
    set(G + PC, BY_FP);
    set(G + FP, GOROUTINE + 0x80);
    set(G0 + SP, SYSTEM + 0x100);
    set(G0 + PC, ROOT);
    set(GOROUTINE + 0x40, BY_FP);
    set(GOROUTINE + 0x88, ROOT);
    memory
}

fn walk_from(replay: &mut Replay, pc: u64, memory: &Stack) -> Walk {
    let mut registers = Registers::of(pc, SYSTEM + 0x20, GOROUTINE + 0x80);
    registers.thread_pointer = TLS;
    replay.walk_checked(&Thread { tid: 1, exec_id: 1, generation: 1 }, &registers, memory).unwrap()
}

fn pcs(walk: &Walk) -> Vec<u64> {
    walk.frames.iter().map(|frame| frame.pc).collect()
}

fn walked(pc: u64, memory: &Stack) -> (End, Vec<u64>) {
    let walk = walk_from(&mut replay(), pc, memory);
    (walk.end, pcs(&walk))
}

#[test]
fn the_goroutine_is_found() {
    let mut memory = memory();
    let rooted = |pc| (End::Root, vec![pc, BY_FP, ROOT]);
    assert_eq!(walked(CALL, &memory), rooted(CALL));
    assert_eq!(walked(GROW, &memory), rooted(GROW));
    memory.set_word(SYSTEM + 0x20, G);
    assert_eq!(walked(LEAVE, &memory), rooted(LEAVE));
    memory.set_word(SYSTEM + 0x50, G);
    memory.set_word(SYSTEM + 0x48, 0x1000 - 0x40);
    assert_eq!(walked(CALL_OF_C, &memory), rooted(CALL_OF_C));
    // asmcgocall on the thread's own stack: no goroutine, and sp itself.
    memory.set_word(SYSTEM + 0x50, 0);
    memory.set_word(SYSTEM + 0x48, SYSTEM + 0x80);
    memory.set_word(SYSTEM + 0x80, ROOT);
    assert_eq!(walked(CALL_OF_C, &memory), (End::Root, vec![CALL_OF_C, ROOT]));
    // In a signal handler `g` is another one of the same thread.
    memory.set_word(TLS - 8, OTHER_G);
    assert_eq!(walked(CALL, &memory), rooted(CALL));
}

#[test]
fn a_goroutine_that_left_is_not_blamed() {
    let mut memory = memory();
    let scheduler = |pc| (End::Root, vec![pc, ROOT]);
    assert_eq!(walked(LEAVE, &memory), scheduler(LEAVE));
    memory.set_word(SYSTEM + 0x20, OTHER_G);
    assert_eq!(walked(LEAVE, &memory), scheduler(LEAVE));
    memory.set_word(M + CURG, 0);
    assert_eq!(walked(GROW, &memory), scheduler(GROW));
    assert_eq!(walked(CALL, &memory), (End::StackSwitch, vec![CALL]));
}

/// C called into Go on a thread of its own, so `g0` has no pc: the scheduler stands below the function of C.
#[test]
fn the_scheduler_on_a_thread_of_c() {
    let mut memory = memory();
    memory.set_word(M + CURG, 0);
    memory.set_word(G0 + PC, 0);
    memory.set_word(SYSTEM + 0x100 + 24, GOROUTINE + 0x80);
    memory.set_word(SYSTEM + 0x100 + 32, BY_FP);
    for pc in [GROW, LEAVE] {
        assert_eq!(walked(pc, &memory), (End::Root, vec![pc, BY_FP, ROOT]));
    }
    // A goroutine that runs has a pc.
    memory.set_word(M + CURG, G);
    memory.set_word(G + PC, 0);
    assert_eq!(walked(GROW, &memory), (End::StackSwitch, vec![GROW]));
    // Not code.
    memory.set_word(M + CURG, 0);
    memory.set_word(SYSTEM + 0x100 + 32, 0x1234);
    assert_eq!(walked(GROW, &memory), (End::StackSwitch, vec![GROW]));
}

/// The scheduler loads sp, then rbp, and clears what is saved.
#[test]
fn a_goroutine_that_goes_on() {
    let at = |memory: &Stack, sp, fp| {
        let mut registers = Registers::of(RESUME, sp, fp);
        registers.thread_pointer = TLS;
        let thread = Thread { tid: 1, exec_id: 1, generation: 1 };
        let walk = replay().walk_checked(&thread, &registers, memory).unwrap();
        (walk.end, pcs(&walk), walk.frames.iter().map(|frame| frame.exact).collect::<Vec<_>>())
    };
    let rooted = (End::Root, vec![RESUME, BY_FP, ROOT], vec![true, true, false]);
    let mut memory = memory();
    memory.set_word(TLS - 8, G);
    assert_eq!(at(&memory, GOROUTINE + 0x40, 7), rooted);
    memory.set_word(G + SP, 0);
    memory.set_word(G + FP, 0);
    assert_eq!(at(&memory, GOROUTINE + 0x40, GOROUTINE + 0x80), rooted);
    // A new goroutine: its function has not begun, the return address is at sp.
    memory.set_word(G + PC, FILE + 0x400);
    memory.set_word(GOROUTINE + 0x48, ROOT);
    assert_eq!(at(&memory, GOROUTINE + 0x40, 0).1, [RESUME, FILE + 0x400, ROOT]);
    memory.set_word(G + PC, 0);
    assert_eq!(at(&memory, GOROUTINE + 0x40, 0).0, End::StackSwitch);
}

#[test]
fn what_cannot_be_read_is_a_cause_of_its_own() {
    let cut = |pc| (End::StackSwitch, vec![pc]);
    for (address, word) in [
        (TLS - 8, 0),
        (TLS - 8, 8),
        (G0 + OF_M, 0),
        (M + CURG, 8),
        (G + SP, 0),
        (G + SP, 8),
        // Not code.
        (GOROUTINE + 0x40, 0x1234),
    ] {
        let mut memory = memory();
        memory.set_word(address, word);
        assert_eq!(walked(CALL, &memory), cut(CALL), "{address:#x}");
    }
    let mut memory = memory();
    memory.set_word(G + PC, 0);
    assert_eq!(walked(GROW, &memory), cut(GROW));
    let registers = Registers::of(CALL, SYSTEM + 0x20, 0);
    let walk = replay().walk_checked(&Thread::default(), &registers, &memory).unwrap();
    assert_eq!(walk.end, End::StackSwitch);
}

/// What is read of the runtime is not on the stack. A changed goroutine is noticed with unchanged stacks.
#[test]
fn the_memo_ends_at_a_switch() {
    let mut replay = replay();
    let mut memory = memory();
    memory.set_word(SYSTEM + 0x28, GROW);
    assert_eq!(pcs(&walk_from(&mut replay, PLAIN, &memory)), [PLAIN, GROW, BY_FP, ROOT]);
    memory.set_word(SYSTEM + 0x30, G);
    assert_eq!(walk_from(&mut replay, PLAIN, &memory).frames.len(), 4);
    memory.set_word(M + CURG, 0);
    assert_eq!(pcs(&walk_from(&mut replay, PLAIN, &memory)), [PLAIN, GROW, ROOT]);
    memory.set_word(M + CURG, OTHER_G);
    memory.set_word(OTHER_G + SP, GOROUTINE + 0x40);
    memory.set_word(OTHER_G + PC, ROOT);
    memory.set_word(G0 + PC, PLAIN);
    assert_eq!(pcs(&walk_from(&mut replay, PLAIN, &memory)), [PLAIN, GROW, ROOT]);
    memory.set_word(OTHER_G + PC, PLAIN);
    memory.set_word(GOROUTINE + 0x48, ROOT);
    assert_eq!(pcs(&walk_from(&mut replay, PLAIN, &memory)), [PLAIN, GROW, PLAIN, ROOT]);
}
