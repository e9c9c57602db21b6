//! The rules of a small program for aarch64, `programs/aarch64.s`: from its frame information, and from its code
//! without any.
#![allow(clippy::unwrap_used)]

use unwind::Registers;
use unwind::Rule;
use unwind::StepError;
use unwind::Table;
use unwind::abi::SIGNAL;
use unwind::abi::cfa;
use unwind::abi::fp;
use unwind::abi::ra;
use unwind::step;

const START: u64 = 0x40_0080;
const SIGNED: u64 = 0x40_0090;
const LARGE: u64 = 0x40_00b0;
const LEAF: u64 = 0x40_00d0;
const PUSHES: u64 = 0x40_00e0;
const TRAMPOLINE: u64 = 0x40_00f0;

const IN_LINK_REGISTER: Rule = Rule { cfa: cfa::SP, ra: ra::REG, ra_off: 30, ..Rule::NONE };

fn table() -> Table {
    unwind::compile(include_bytes!("../../../../fuzz/corpus/compile/aarch64")).unwrap()
}

#[test]
fn by_frame_information() {
    let table = table();
    assert_eq!((table.stats.eh_frame_functions, table.stats.bad_fdes), (2, 0));
    let saved = Rule { cfa: cfa::SP, cfa_off: 32, ra_off: -24, fp: fp::CFA, fp_off: -32, ..Rule::NONE };
    for (at, rule) in [
        (SIGNED, IN_LINK_REGISTER),
        (SIGNED + 4, IN_LINK_REGISTER),
        (SIGNED + 8, saved),
        (SIGNED + 0x10, saved),
        (SIGNED + 0x14, IN_LINK_REGISTER),
        (LARGE, IN_LINK_REGISTER),
    ] {
        assert_eq!(table.lookup(at), Some(&rule), "{at:#x}");
    }
    // The return address is too far from the CFA for a rule.
    let rule = table.lookup(LARGE + 8).unwrap();
    assert_eq!((rule.cfa_off, rule.ra, rule.ra_off), (81_920, ra::SP, 8));
    assert_eq!((rule.fp, rule.fp_off), (fp::CFA, -81_920));
}

#[test]
fn by_code() {
    let table = table();
    for at in [START, START + 0xc] {
        assert_eq!(table.lookup(at), Some(&Rule::ROOT), "{at:#x}");
    }
    for at in [LEAF, LEAF + 4, LEAF + 0xc] {
        assert_eq!(table.lookup(at), Some(&IN_LINK_REGISTER), "{at:#x}");
    }
    // The stack pointer changes, and no information says where.
    assert_eq!(table.lookup(PUSHES), None);
    // A handler returns to the trampoline's first instruction, and return addresses are looked up one byte before.
    for at in [TRAMPOLINE - 1, TRAMPOLINE, TRAMPOLINE + 4] {
        assert_eq!(table.lookup(at).map(|rule| rule.flags), Some(SIGNAL), "{at:#x}");
    }
    assert_eq!(table.lookup(TRAMPOLINE - 4), None);
}

/// From `leaf` through both frames to the root.
#[test]
fn a_whole_walk() {
    let table = table();
    let (sp, large, outer) = (0x7000u64, 0x8000u64, 0x7000 + 81_920);
    // The frames of large_frame and signed_frame: {frame pointer, return address} each.
    let memory = |address: u64| match address {
        0x7000 => Some(outer),
        0x7008 => Some(SIGNED + 0x10),
        _ if address == outer => Some(0),
        _ if address == outer + 8 => Some(START + 0xc),
        _ => None,
    };
    let link = |register: u8| (register == 30).then_some(LARGE + 0xc);
    let leaf = Registers { pc: LEAF + 4, sp, fp: large, exact: true };
    let in_large = step(&table, &leaf, link, &memory).unwrap();
    assert_eq!(in_large, Registers { pc: LARGE + 0xc, sp, fp: large, exact: false });
    let in_signed = step(&table, &in_large, |_| None, &memory).unwrap();
    assert_eq!(in_signed, Registers { pc: SIGNED + 0x10, sp: outer, fp: outer, exact: false });
    let in_start = step(&table, &in_signed, |_| None, &memory).unwrap();
    assert_eq!(in_start, Registers { pc: START + 0xc, sp: outer + 32, fp: 0, exact: false });
    assert_eq!(step(&table, &in_start, |_| None, &memory), Err(StepError::Root));
}
