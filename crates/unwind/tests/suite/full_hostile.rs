//! Steps with all registers over damaged files: truncated files, replaced bytes, expressions of random bytes. No step
//! panics, and every step ends.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use proptest::prelude::*;
use unwind::StepError;
use unwind::full::Frame;
use unwind::full::FullUnwinder;

use crate::seeds;

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    seeds::read(&["eh_frame", "assembly", "debug_frame_zlib", "debug_frame_zstd", "shared", "go1_20"])
});

/// Addresses with rows in the undamaged file.
fn places(seed: &[u8]) -> Vec<u64> {
    let table = unwind::compile(seed).unwrap();
    let mut places = Vec::new();
    for (number, page) in table.pages.iter().enumerate() {
        let rows = &table.rows[page.first_row as usize..][..page.count as usize];
        places
            .extend(rows.iter().map(|row| (table.first_page + number as u64) << 16 | u64::from(row.offset)));
    }
    places
}

fn memory(address: u64) -> Option<u64> {
    (!address.is_multiple_of(3)).then(|| address.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Steps at every address; returns the number of steps with a caller.
fn steps(elf: &[u8], places: &[u64]) -> usize {
    let Ok(full) = FullUnwinder::new(elf) else { return 0 };
    let registers = std::array::from_fn(|i| u64::MAX - 64 * i as u64);
    places.iter().filter(|&&svma| full.step(&Frame::leaf(&registers, svma), 0, &memory).is_ok()).count()
}

#[test]
fn seeds_are_understood() {
    for (i, seed) in SEEDS.iter().enumerate() {
        let full = FullUnwinder::new(&**seed).unwrap();
        let registers = std::array::from_fn(|i| 0x7000 + 0x100 * i as u64);
        let known = |address: u64| Some(address + 1);
        let walked = |svma: &&u64| full.step(&Frame::leaf(&registers, **svma), 0, &known).is_ok();
        let places = places(seed);
        let count = places.iter().filter(walked).count();
        // The compact rules use Go's own table.
        assert!(count * 3 > places.len() || (i == 5 && count == 0), "seed {i}: {count} of {}", places.len());
    }
}

#[test]
fn truncated_anywhere() {
    for seed in SEEDS.iter() {
        let places = places(seed);
        (0..seed.len())
            .step_by(if seed.len() > 1000 { 7 } else { 1 })
            .for_each(|len| _ = steps(&seed[..len], &places));
    }
}

/// An executable with one function and the given frame instructions.
fn program(cie: &[u8], fde: &[u8]) -> Vec<u8> {
    let record = |id: u32, body: &[u8]| {
        let mut record = (body.len() as u32 + 4).to_le_bytes().to_vec();
        record.extend(id.to_le_bytes());
        record.extend(body);
        record
    };
    // Version 1, no augmentation, factors 1 and -8, return address in 16.
    let common = record(0, &[&[1, 0, 1, 0x78, 16], cie].concat());
    let function = [&0x1000u64.to_le_bytes()[..], &0x100u64.to_le_bytes(), fde].concat();
    let frame = [&common[..], &record(common.len() as u32 + 4, &function), &[0; 4]].concat();
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    let mut put = |bytes: &[u8]| elf.extend(bytes);
    put(&[3, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0x1000u64, 64, 0] {
        put(&word.to_le_bytes());
    }
    put(&[0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    // The whole file is code, and the search table is before the frames.
    let header = 64 + 2 * 56;
    let size = header + 8 + frame.len() as u64;
    for (kind, flags, offset, address, len) in
        [(1u32, 5u32, 0, 0x1000u64, size), (0x6474_e550, 4, header, 0x1000 + header, 8)]
    {
        put(&kind.to_le_bytes());
        put(&flags.to_le_bytes());
        for word in [offset, address, address, len, len, 8] {
            put(&word.to_le_bytes());
        }
    }
    put(&[1, 0x1b, 0xff, 0xff, 4, 0, 0, 0]);
    elf.extend(frame);
    elf
}

/// `DW_CFA_def_cfa_expression`
fn cfa_by(expression: &[u8]) -> Vec<u8> {
    [&[0x0f, expression.len() as u8], expression].concat()
}

fn step_by(cie: &[u8], fde: &[u8]) -> Result<Frame, StepError> {
    let elf = program(cie, fde);
    let full = FullUnwinder::new(&elf[..]).unwrap();
    let registers = std::array::from_fn(|i| 0x7000 + 0x100 * i as u64);
    full.step(&Frame::leaf(&registers, 0x9_1010), 0x9_0000, &|address| Some(address ^ 0xabcd_0000_0000))
}

/// Each kind of rule, computed by hand.
#[test]
fn rules() {
    // CFA = rsp + 8, return address at CFA - 8.
    let cie = [0x0c, 7, 8, 0x90, 1];
    let at = |address: u64| Some(address ^ 0xabcd_0000_0000);
    let next = step_by(&cie, &[]).unwrap();
    assert_eq!((Some(next.pc), next.sp(), next.exact), (at(0x7700), Some(0x7708), false));
    let registers = |next: &Frame| -> Vec<_> { (0..16).map(|i| next.registers.get(i)).collect() };
    let mut plain = vec![None; 16];
    for preserved in [3, 6, 12, 13, 14, 15] {
        plain[preserved] = Some(0x7000 + 0x100 * preserved as u64);
    }
    plain[7] = Some(0x7708);
    assert_eq!(registers(&next), plain);
    // undefined rbx, same rax, r12 at CFA - 16, r13 = CFA - 24, rcx = rdx, r14 at *(r15 + 5), r15 = *(u16 *)(r8 + 1)
    let fde =
        [7, 3, 8, 0, 0x8c, 2, 0x14, 13, 3, 9, 2, 1, 0x10, 14, 2, 0x7f, 5, 0x16, 15, 4, 0x78, 1, 0x94, 2];
    let next = step_by(&cie, &fde).unwrap();
    let mut expected = plain.clone();
    expected[3] = None;
    expected[0] = Some(0x7000);
    expected[12] = at(0x76f8);
    expected[13] = Some(0x76f0);
    expected[2] = Some(0x7100);
    expected[14] = at(0x7f05);
    expected[15] = Some(0x7801);
    assert_eq!(registers(&next), expected);
    // CFA = rbx + 0x800, and rbx lies below rsp.
    let next = step_by(&cie, &[0x0c, 3, 0x80, 0x10]).unwrap();
    assert_eq!((Some(next.pc), next.sp()), (at(0x7af8), Some(0x7b00)));
    assert_eq!(step_by(&cie, &[0x0c, 3, 8]).map(|next| next.sp()), Ok(Some(0x7308)));
    assert_eq!(step_by(&cie, &[0x12, 7, 1]), Err(StepError::NotAbove(0x76f8)));
    // CFA = the address 0x1234 of the file.
    let next = step_by(&cie, &cfa_by(&[0x03, 0x34, 0x12, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(next.sp(), Some(0x9_1234));
    // Return address in rdi, with the stack pointer where the caller has it.
    let next = step_by(&cie, &[0x0e, 0, 9, 16, 5]).unwrap();
    assert_eq!((next.pc, next.sp()), (0x7500, Some(0x7700)));
    assert_eq!(step_by(&cie, &[7, 16]), Err(StepError::Root));
    // No CFA, no return address, an endless expression, an operation that needs more than registers.
    assert_eq!(step_by(&[0x90, 1], &[]), Err(StepError::UnsupportedRule));
    assert_eq!(step_by(&[0x0c, 7, 8], &[]), Err(StepError::UnsupportedRule));
    assert_eq!(step_by(&cie, &cfa_by(&[0x77, 0, 0x2f, 0xfd, 0xff])), Err(StepError::UnsupportedRule));
    assert_eq!(step_by(&cie, &cfa_by(&[0x9c])), Err(StepError::UnsupportedRule));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged(seed in 0..SEEDS.len(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut elf = SEEDS[seed].to_vec();
        let places = places(&elf);
        for (at, byte) in damage {
            let at = at.index(elf.len());
            elf[at] = byte;
        }
        steps(&elf, &places);
    }

    #[test]
    fn random_instructions(cie in prop::collection::vec(any::<u8>(), 0..20), fde in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = step_by(&cie, &fde);
    }

    #[test]
    fn random_expressions(expression in prop::collection::vec(prop_oneof![any::<u8>(), 0x06..0x40u8, 0x70..0x98u8], 0..60)) {
        let _ = step_by(&[0x0c, 7, 8, 0x90, 1], &cfa_by(&expression));
    }
}

#[test]
fn records_above_the_limit_are_not_run() {
    // CFA = rsp + 8, the return address below it; then nothing, many times.
    let rules = [0x0c, 7, 8, 0x90, 1];
    let padded = |nops: usize| [&rules[..], &vec![0; nops]].concat();
    assert!(step_by(&rules, &[]).is_ok());
    assert!(step_by(&padded(900), &[0; 60_000]).is_ok());
    for (common, function) in [(2000, 0), (0, 70_000)] {
        let refused = step_by(&padded(common), &vec![0; function]);
        assert!(matches!(refused, Err(StepError::NoRow(_))), "{common} and {function}: {refused:?}");
    }
}
