//! A made-up program with a function for every kind of rule, and stacks of it, built frame by frame.

use std::rc::Rc;

use replay::Code;
use replay::Mapping;
use replay::Registers;
use replay::Replay;
use replay::Stack;
use unwind::PageSpan;
use unwind::Row;
use unwind::Rule;
use unwind::Table;
use unwind::abi::SIGNAL;
use unwind::abi::cfa;
use unwind::abi::fp;
use unwind::abi::ra;

use crate::image::Area;

/// Where the file with the table lies, and the code without one.
const FILE: u64 = 0x5555_5555_0000;
const BIAS: u64 = FILE - 0x1_0000;
const CODE_WITHOUT_TABLE: u64 = 0x7f00_0000_0000;
/// The thread's stack, and one for signal handlers below or above it.
pub const STACK_TOP: u64 = 0x7fff_ffff_0000;
pub const OTHER_TOPS: [u64; 2] = [0x5556_0000_8000, 0x7fff_ffff_f000];
pub const STACK_WORDS: usize = 16 << 10;
pub const OTHER_WORDS: usize = 1 << 10;

/// Kinds of functions. Each has 32 bytes of code; a frame has 20 words of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By sp; leaves rbp alone.
    Plain,
    /// By sp; saves rbp and uses it for something else.
    SavesFp,
    /// By rbp.
    FramePointer,
    /// By a word on the stack.
    Realigned,
    /// A signal trampoline: everything of the interrupted frame is on the stack.
    Trampoline,
    /// Code that the table does not cover; keeps frame pointers.
    Gap,
    /// Code of a mapping without table; keeps frame pointers.
    NoTable,
    /// By another register: can be the leaf only.
    OtherRegister,
}

pub const KINDS: [Kind; 8] = [
    Kind::Plain,
    Kind::SavesFp,
    Kind::FramePointer,
    Kind::Realigned,
    Kind::Trampoline,
    Kind::Gap,
    Kind::NoTable,
    Kind::OtherRegister,
];
const WORDS: u64 = 20;
const SIZE: u64 = WORDS * 8;

fn rule(kind: Kind) -> Rule {
    let plain = Rule { cfa: cfa::SP, cfa_off: SIZE as i32, ra_off: -8, ..Rule::NONE };
    match kind {
        Kind::Plain => plain,
        Kind::SavesFp => Rule { fp: fp::CFA, fp_off: -16, ..plain },
        Kind::FramePointer => Rule { cfa: cfa::FP, cfa_off: 16, fp: fp::CFA, fp_off: -16, ..plain },
        Kind::Realigned => {
            Rule { cfa: cfa::SP_DEREF, cfa_off: 24, cfa_add: -8, fp: fp::SP, fp_off: 32, ..plain }
        }
        Kind::Trampoline => Rule {
            cfa: cfa::SP_DEREF,
            cfa_off: 120,
            ra: ra::SP,
            ra_off: 128,
            fp: fp::SP,
            fp_off: 112,
            flags: SIGNAL,
            cfa_add: 0,
        },
        Kind::Gap | Kind::NoTable => Rule::NONE,
        Kind::OtherRegister => Rule { cfa: cfa::REG, cfa_off: 0, flags: 10, ..plain },
    }
}

/// Where the code of a kind starts.
fn code(kind: Kind) -> u64 {
    if kind == Kind::NoTable { CODE_WITHOUT_TABLE } else { FILE + 32 * kind as u64 }
}

/// The code of the thread's start: a root by rule.
const START: u64 = FILE + 32 * KINDS.len() as u64;

/// The program's code: for the reference and for the walker.
pub fn program() -> (Vec<Area>, Replay) {
    let mut table = Table { first_page: 1, rules: vec![Rule::NONE], ..Table::default() };
    let mut place = |offset: u64, rule: Rule| {
        let rule = if rule == Rule::NONE {
            0
        } else {
            table.rules.push(rule);
            table.rules.len() as u16 - 1
        };
        table.rows.push(Row { offset: offset as u16, rule });
    };
    for kind in KINDS {
        place(code(kind).wrapping_sub(FILE).min(32 * kind as u64), rule(kind));
    }
    place(START - FILE, Rule::ROOT);
    place(START - FILE + 32, Rule::NONE);
    table.pages = vec![PageSpan { first_row: 0, count: table.rows.len() as u32 }];

    let mut replay = Replay::new();
    let code = Code::Table(replay.add_table(&table).unwrap());
    let with_table = Mapping { start: FILE, end: FILE + 0x1000, bias: BIAS, code };
    let (start, end) = (CODE_WITHOUT_TABLE, CODE_WITHOUT_TABLE + 0x1000);
    let without = Mapping { start, end, bias: 0, code: Code::FramePointers };
    replay.set_mappings(&[without, with_table]).unwrap();
    let areas =
        vec![Area::new(FILE, FILE + 0x1000, BIAS, Some(Rc::new(table))), Area::new(start, end, 0, None)];
    (areas, replay)
}

/// How a thread's outermost frame is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Its rule says so.
    Rule,
    /// Its frame pointer is zero.
    ZeroFp,
    /// Its return address is zero.
    ZeroReturn,
}

/// A thread of the program, with its memory.
#[derive(Clone, Debug)]
pub struct Machine {
    pub registers: Registers,
    pub stack: Stack,
    /// What was before each call, signal or jump.
    before: Vec<Registers>,
}

impl Machine {
    pub fn new(base: Base) -> Self {
        let bytes = |words: usize| vec![0; words * 8];
        let bottom = |top: u64, words: usize| top - 8 * words as u64;
        let stack = Stack::new(bottom(STACK_TOP, STACK_WORDS), bytes(STACK_WORDS))
            .and(bottom(OTHER_TOPS[0], OTHER_WORDS), bytes(OTHER_WORDS))
            .and(bottom(OTHER_TOPS[1], OTHER_WORDS), bytes(OTHER_WORDS));
        let sp = STACK_TOP - 2 * SIZE;
        let pc = match base {
            Base::Rule => START,
            Base::ZeroFp => CODE_WITHOUT_TABLE,
            Base::ZeroReturn => code(Kind::Plain),
        };
        Self { registers: Registers::of(pc + 8, sp, 0), stack, before: Vec::new() }
    }

    /// A call of a function of this kind; a signal, if the kind is a trampoline. False: no room, nothing is done.
    pub fn call(&mut self, kind: Kind, at: u8, on: Option<u64>) -> bool {
        let old = self.registers;
        let (sp, fp) = (old.by_number[7], old.by_number[6]);
        let mut new = old;
        new.pc = code(kind) + 1 + u64::from(at) % 31;
        let frame = on.map_or(sp, |top| top - 16).wrapping_sub(SIZE);
        new.by_number[7] = frame;
        let words = match kind {
            Kind::Plain | Kind::OtherRegister => vec![(sp - 8, old.pc)],
            Kind::SavesFp => vec![(sp - 8, old.pc), (sp - 16, fp)],
            Kind::FramePointer | Kind::Gap | Kind::NoTable => vec![(sp - 8, old.pc), (sp - 16, fp)],
            Kind::Realigned => vec![(frame + 24, sp + 8), (frame + 32, fp), (sp - 8, old.pc)],
            Kind::Trampoline => vec![(frame + 120, sp), (frame + 128, old.pc), (frame + 112, fp)],
        };
        new.by_number[6] = match kind {
            Kind::FramePointer | Kind::Gap | Kind::NoTable => sp - 16,
            Kind::SavesFp => u64::from(at),
            _ => fp,
        };
        new.by_number[10] = sp;
        // The memory of a frame is there as a whole, or the call is not made.
        if (frame..frame + SIZE).step_by(8).any(|word| self.stack.word(word).is_none()) {
            return false;
        }
        for (address, word) in words {
            self.stack.set_word(address, word);
        }
        self.before.push(old);
        self.registers = new;
        true
    }

    /// Returns from so many frames.
    pub fn return_from(&mut self, frames: usize) {
        let left = self.before.len().saturating_sub(frames);
        if left < self.before.len() {
            self.registers = self.before[left];
            self.before.truncate(left);
        }
    }

    /// Goes to another instruction of the same function.
    pub fn go_on(&mut self, at: u8) {
        self.registers.pc = (self.registers.pc & !31) + u64::from(at) % 31 + 1;
    }

    /// A word of a frame at some depth, counted from the leaf.
    pub fn address_of(&self, frame: usize, word: usize) -> u64 {
        let all: Vec<u64> = self.before.iter().chain([&self.registers]).map(|r| r.by_number[7]).collect();
        let sp = all[all.len() - 1 - frame % all.len()];
        sp + 8 * (word as u64 % WORDS)
    }
}
