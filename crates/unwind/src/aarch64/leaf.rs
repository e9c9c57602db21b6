//! Functions that never change the stack pointer, the frame pointer and the link register: throughout such a function,
//! the return address is in the link register.
//!
//! The result is exact: a function with an instruction that might change one of the three is left out.

use std::ops::Range;

use elf::constants::{SHT_DYNSYM, SHT_SYMTAB};

use crate::image::Image;
use crate::layer::Layer;
use crate::reader::Reader;

const STT_FUNC: u8 = 2;
/// Larger functions are not analysed.
const MAX_SIZE: u64 = 64 << 10;
/// Limit of all analysed bytes.
const MAX_BYTES: u64 = 4 << 20;

/// The leaf functions among those that have a symbol and that `covered` does not cover at all.
pub(super) fn functions(image: &Image<'_>, covered: &Layer) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut left = MAX_BYTES;
    for (_, data) in image.tables(&[SHT_SYMTAB, SHT_DYNSYM]) {
        let mut r = Reader::at(data, 0);
        while let (Some(_name), Some(info), Some(_index), Some(value), Some(size)) =
            (r.u32(), r.u8(), r.u8().and_then(|_| r.u16()), r.u64(), r.u64())
        {
            if info & 0xf != STT_FUNC || !(4..=MAX_SIZE.min(left)).contains(&size) || covered.covers(value) {
                continue;
            }
            let Some(end) = value.checked_add(size) else { continue };
            left -= size;
            if is_leaf(image, value..end) {
                found.push(value..end);
            }
        }
    }
    found
}

fn is_leaf(image: &Image<'_>, function: Range<u64>) -> bool {
    let inside = image.code_at(function.start).is_some_and(|code| function.end <= code.end);
    let len = (function.end - function.start) as usize;
    let code = image.bytes_at(function.start).and_then(|code| code.get(..len)).filter(|_| inside);
    code.is_some_and(|code| code.as_chunks::<4>().0.iter().all(|word| keeps(u32::from_le_bytes(*word))))
}

/// Whether an instruction keeps sp, x29 and the address in x30. False also for some instructions that do.
fn keeps(word: u32) -> bool {
    let field = |low: u32| word >> low & 31;
    let is_kept = |register: u32| register == 29 || register == 30;
    // The main group of the instruction (Arm ARM, C4.1).
    match word >> 25 & 15 {
        // Data processing with an immediate.
        0b1000 | 0b1001 => {
            // For additions and logic operations without flags, destination 31 is sp.
            let sum = matches!(word >> 23 & 7, 2 | 3) && word >> 29 & 1 == 0;
            let logic = word >> 23 & 7 == 4 && word >> 29 & 3 != 3;
            match field(0) {
                31 => !(sum || logic),
                register => !is_kept(register),
            }
        }
        // Branches, exceptions, system instructions: no calls.
        0b1010 | 0b1011 => match word >> 26 {
            0b10_0101 => false,
            // Only br and ret; all forms of blr are calls.
            0b11_0101 if word >> 25 & 1 == 1 => {
                matches!(word & 0xffff_fc1f, 0xd61f_0000 | 0xd65f_0000)
            }
            // mrs and sysl write their register.
            0b11_0101 => word >> 21 & 1 == 0 || !is_kept(field(0)),
            _ => true,
        },
        // Loads and stores: not through sp, which some of them change. A loaded or exchanged register can be in any of
        // three fields.
        0b0100 | 0b0110 | 0b1100 | 0b1110 => {
            field(5) != 31 && !is_kept(field(5)) && ![0, 10, 16].iter().any(|low| is_kept(field(*low)))
        }
        // Data processing with registers.
        0b0101 | 0b1101 => {
            let extended_sum = word >> 21 & 0xff == 0b0101_1001 && word >> 29 & 1 == 0;
            match field(0) {
                31 => !extended_sum,
                register => !is_kept(register),
            }
        }
        // Vectors: results in general registers are treated the same.
        0b0111 | 0b1111 => !is_kept(field(0)),
        // SVE, SME, and invalid instructions.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_keep_the_three_registers() {
        for (word, what) in [
            (0xd65f_03c0, "ret"),
            (0xd503_201f, "nop"),
            (0x8b25_63e5, "add x5, sp, x5"),
            (0xf100_00bf, "cmp x5, #0"),
            (0x5400_02cd, "b.le"),
            (0x1400_0010, "b"),
            (0x3700_0386, "tbnz w6, #0"),
            (0xd53b_e045, "mrs x5, cntvct_el0"),
            (0xf940_0020, "ldr x0, [x1]"),
            (0xa900_0c02, "stp x2, x3, [x0]"),
            (0xd400_0001, "svc #0"),
            (0x9bc4_7c21, "umulh x1, x1, x4"),
            (0xd61f_0220, "br x17"),
            (0x1e62_0000, "scvtf d0, w0"),
            (0xd503_237f, "pacibsp: signs x30, which leaves it the same address"),
        ] {
            assert!(keeps(word), "{what}");
        }
        for (word, what) in [
            (0x9400_00a2, "bl"),
            (0xd63f_0000, "blr x0"),
            (0xa9be_7bfd, "stp x29, x30, [sp, #-32]!"),
            (0xf840_001d, "ldur x29, [x0]"),
            (0xa8c2_7bfd, "ldp x29, x30, [sp], #32"),
            (0xd100_83ff, "sub sp, sp, #32"),
            (0x9100_03bf, "mov sp, x29"),
            (0x9100_03fd, "mov x29, sp"),
            (0xcb21_63ff, "sub sp, sp, x1"),
            (0x927c_ec3f, "and sp, x1, #-16"),
            (0xaa00_03fe, "mov x30, x0"),
            (0xf81f_0ffe, "str x30, [sp, #-16]!"),
            (0xf800_0ffe, "str x30, [sp, #0]!"),
            (0x0400_0000, "an instruction of SVE"),
            (0x0000_0000, "udf"),
        ] {
            assert!(!keeps(word), "{what}");
        }
    }
}
