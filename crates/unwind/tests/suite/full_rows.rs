//! Compares steps with all registers with the compact rules, over a stack of distinct words. Steps that compact rules
//! do not support are compared with gimli's rows.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use unwind::Rule;
use unwind::StepError;
use unwind::Table;
use unwind::abi;
use unwind::full::Frame;
use unwind::full::FullUnwinder;

const STACK: u64 = 0x7fff_0000_0000;
const BIAS: u64 = 0x5555_0000_0000;

const SIZE: u64 = 1 << 30;

/// Every word has a distinct value, which is the address of another word.
fn word(address: u64) -> Option<u64> {
    let offset = address.checked_sub(STACK).filter(|offset| *offset < SIZE)?;
    Some(STACK + (offset.wrapping_mul(0x9e37_79b1) + 0x2000_0000) % SIZE)
}

/// Registers with distances of 1 MiB on the stack, rsp the lowest.
fn leaf(svma: u64) -> Frame {
    let mut registers: [u64; 16] = std::array::from_fn(|i| STACK + (i as u64 + 2) * (1 << 20));
    registers[7] = STACK + 0x1000;
    Frame::leaf(&registers, BIAS + svma)
}

#[derive(Debug, Default)]
struct Seen {
    equal: usize,
    more: usize,
    uncovered: usize,
    roots: usize,
    preserved: usize,
}

/// Compares every n-th row.
fn compare(elf: &[u8], nth: usize) -> Seen {
    let table = unwind::compile(elf).unwrap();
    let begun = Instant::now();
    let full = FullUnwinder::new(elf).unwrap();
    let made = begun.elapsed();
    let detached = FullUnwinder::new(elf).unwrap().detached(elf.len()).unwrap();
    assert!(detached.bytes().len() < elf.len());
    assert!(FullUnwinder::new(elf).unwrap().detached(detached.bytes().len() - 1).is_none());
    let (mut seen, begun) = (Seen::default(), Instant::now());
    for svma in rows(&table).step_by(nth) {
        // The padding before a function is no code.
        let Some(rule) = table.lookup(svma).filter(|rule| **rule != Rule::START) else { continue };
        let frame = leaf(svma);
        assert_eq!(detached.step(&frame, BIAS, &word), full.step(&frame, BIAS, &word), "{svma:#x}");
        match (full.step(&frame, BIAS, &word), frame.apply(rule, &word)) {
            (Ok(next), Ok(expected)) => {
                assert_eq!(
                    (next.pc, next.sp(), next.exact),
                    (expected.pc, expected.sp(), expected.exact),
                    "{svma:#x}"
                );
                if expected.fp().is_some() {
                    assert_eq!(next.fp(), expected.fp(), "{svma:#x} {rule:?}");
                }
                seen.preserved +=
                    usize::from([3, 12, 13, 14, 15].iter().all(|&i| next.registers.get(i).is_some()));
                seen.equal += 1;
            }
            (Err(StepError::NoRow(at)), _) => {
                assert_eq!(at, svma);
                seen.uncovered += 1;
            }
            (Ok(_), Err(StepError::UnsupportedRule)) => seen.more += 1,
            (Err(StepError::Root), Err(StepError::Root)) => seen.roots += 1,
            (Err(error), Err(expected)) => assert_eq!(error, expected, "{svma:#x} {rule:?}"),
            (step, expected) => panic!("{svma:#x} {rule:?}: {step:x?}, not {expected:x?}"),
        }
    }
    eprintln!("{seen:?}, made in {made:?}, all steps {:?}", begun.elapsed());
    assert!(seen.preserved * 10 > seen.equal * 9, "{seen:?}");
    seen
}

fn rows(table: &Table) -> impl Iterator<Item = u64> {
    table.pages.iter().enumerate().flat_map(move |(number, page)| {
        let rows = &table.rows[page.first_row as usize..][..page.count as usize];
        rows.iter().map(move |row| (table.first_page + number as u64) << 16 | u64::from(row.offset))
    })
}

#[test]
fn libc() {
    let seen = compare(&std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap(), 1);
    assert!(seen.equal > 15_000 && seen.roots >= 1 && seen.uncovered * 10 < seen.equal, "{seen:?}");
}

/// Where a row says that no call ends before a function, a description begins there, and it does so nowhere inside of a function.
#[test]
fn functions_begin_where_descriptions_begin() {
    let elf = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let (table, full) = (unwind::compile(&elf).unwrap(), FullUnwinder::new(&elf[..]).unwrap());
    let detached = FullUnwinder::new(&elf[..]).unwrap().detached(elf.len()).unwrap();
    let rows: Vec<_> = rows(&table).collect();
    let functions = rows.windows(2).filter(|rows| table.lookup(rows[0]) == Some(&Rule::START));
    let mut count = 0;
    for function in functions.map(|rows| rows[1]) {
        assert!(full.begins_at(function) && detached.begins_at(function), "{function:#x}");
        assert!(!full.begins_at(function + 1), "{function:#x}");
        count += 1;
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn loader() {
    let elf = std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
    let seen = compare(&elf, 1);
    assert!(seen.equal > 1000 && seen.uncovered * 10 < seen.equal, "{seen:?}");
}

#[test]
fn node() {
    let Some(file) = crate::large_files::node() else { return };
    let elf = std::fs::read(file).unwrap();
    let seen = compare(&elf, 97);
    assert!(seen.equal > 1000 && seen.uncovered * 10 < seen.equal, "{seen:?}");
}

/// With an unreliable table and without a table, the built index gives the same result.
#[test]
fn built_index() {
    let mut elf = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let file = elf.clone();
    let good = FullUnwinder::new(&file[..]).unwrap();
    let header = {
        use object::{Object, ObjectSection};
        let file = object::File::parse(&*file).unwrap();
        file.section_by_name(".eh_frame_hdr").unwrap().file_range().unwrap().0 as usize
    };
    // Another encoding; entries that point to other records.
    for damage in [header + 3, header + 12] {
        elf.copy_from_slice(&file);
        elf[damage] ^= 0x10;
        let begun = Instant::now();
        let indexed = FullUnwinder::new(&elf[..]).unwrap();
        assert!(indexed.step(&leaf(0), BIAS, &word).is_err());
        eprintln!("index made in {:?}", begun.elapsed());
        let detached = FullUnwinder::new(&elf[..]).unwrap().detached(elf.len()).unwrap();
        let table = unwind::compile(&file).unwrap();
        for svma in rows(&table).step_by(29) {
            let frame = leaf(svma);
            assert_eq!(indexed.step(&frame, BIAS, &word), good.step(&frame, BIAS, &word), "{svma:#x}");
            assert_eq!(detached.step(&frame, BIAS, &word), good.step(&frame, BIAS, &word), "{svma:#x}");
        }
    }
}

/// rbx as the base of a frame outside the innermost one: its callee has saved rbx.
#[test]
fn registers_are_followed() {
    let elf = std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
    let table = unwind::compile(&elf).unwrap();
    let full = FullUnwinder::new(&elf[..]).unwrap();
    let by_rbx = |svma: &u64| {
        table.lookup(*svma).is_some_and(|rule| rule.cfa == abi::cfa::REG && rule.flags & 31 == 3)
    };
    let Some(svma) = rows(&table).find(by_rbx) else { testkit::skip!("the C library has no row by rbx") };
    let rule = table.lookup(svma).unwrap();
    let mut frame = Frame::caller(BIAS + svma + 1, STACK + 0x1000, None);
    assert_eq!(full.step(&frame, BIAS, &word), Err(StepError::UnsupportedRule));
    frame.registers.set(3, Some(STACK + 0x2000));
    let next = full.step(&frame, BIAS, &word).unwrap();
    let cfa = STACK + 0x2000 + rule.cfa_off as u64;
    assert_eq!((next.pc, next.sp()), (word(cfa - 8).unwrap(), Some(cfa)));
    // Below the frame: its caller is on another stack.
    frame.registers.set(3, Some(STACK + 8));
    let next = full.step(&frame, BIAS, &word).unwrap();
    assert_eq!(next.sp(), Some(STACK + 8 + rule.cfa_off as u64));
}
