//! Nanoseconds per walk and per frame of the walker compiled natively, with and without the memo.
//!
//! Functions are spread over the text as in a real program, frames are of 6 to 40 words; the leaf moves on between walks.

use std::time::Instant;

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

const TEXT: u64 = 0x5555_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
const PAGES: u64 = 64;
const ROWS: u64 = 4096;

/// 64 pages of 4096 rows: eight frame sizes in turn, and the root at the very start.
fn table() -> Table {
    let by_size = |words: i32| Rule { cfa: cfa::SP, cfa_off: 8 * words, ra_off: -8, ..Rule::NONE };
    let mut rules = vec![Rule::NONE, Rule::ROOT];
    rules.extend([6, 8, 10, 12, 16, 20, 28, 40].map(by_size));
    let row = |n: u64| Row {
        offset: (n * 16 % 0x1_0000) as u16,
        rule: if n == 0 { 1 } else { (2 + n % 8) as u16 },
    };
    let rows = (0..PAGES * ROWS).map(row).collect();
    let pages =
        (0..PAGES).map(|page| PageSpan { first_row: (page * ROWS) as u32, count: ROWS as u32 }).collect();
    Table { pages, rows, rules, ..Table::default() }
}

/// A stack of this depth, and the pc of its leaf.
fn stack(table: &Table, frames: u64) -> (Stack, u64) {
    let mut words = Vec::new();
    let mut pc = TEXT + 16 * (7919 * frames % (PAGES * ROWS)) + 9;
    let leaf = pc;
    for left in (0..frames - 1).rev() {
        let size = table.lookup(pc - 1 - TEXT).map_or(0, |rule| rule.cfa_off / 8);
        words.extend((1..size).map(|n| n as u64));
        pc = if left == 0 { TEXT + 9 } else { TEXT + 16 * (1 + 104_729 * left % (PAGES * ROWS - 1)) + 9 };
        words.push(pc);
    }
    (Stack::of_words(STACK, &words), leaf)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let table = table();
    let mut replay = Replay::new();
    let code = Code::Table(replay.add_table(&table)?);
    replay.set_mappings(&[Mapping { start: TEXT, end: TEXT + (PAGES << 16), bias: TEXT, code }])?;
    println!("{:>7} {:>9} {:>12} {:>12} {:>12}", "frames", "memo", "ns/walk", "ns/frame", "from memo");
    for frames in [16, 36, 125, 209] {
        let (stack, leaf) = stack(&table, frames);
        for memo in [false, true] {
            replay.use_memo(memo);
            let rounds = 2_000_000 / frames;
            let mut from_memo = 0;
            let start = Instant::now();
            for round in 0..rounds {
                let registers = Registers::of(leaf + round % 2, STACK, 0);
                let walk = replay.walk(&Thread::default(), &registers, &stack);
                assert_eq!((walk.frames.len() as u64, walk.end), (frames, End::Root));
                from_memo += walk.matched_from_memo;
            }
            let per_walk = start.elapsed().as_nanos() as f64 / rounds as f64;
            let share = 100.0 * from_memo as f64 / (rounds * frames) as f64;
            println!(
                "{frames:>7} {memo:>9} {per_walk:>12.0} {:>12.1} {share:>10.1} %",
                per_walk / frames as f64
            );
        }
    }
    Ok(())
}
