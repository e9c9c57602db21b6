//! Rows, rules and page spans exactly as the in-kernel walker reads them.
//!
//! The layouts and the numbers of the kinds are an interface: the same table is in `bpf/abi/tables.h`.

/// The rule from one address on: 4 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Row {
    /// Low 16 bits of the link-time address where the rule begins.
    pub offset: u16,
    /// Index into the rules of the file; 0: no unwind information from here on.
    pub rule: u16,
}

/// How to get from a frame to its caller: 16 bytes.
///
/// The canonical frame address (CFA) is the caller's stack pointer. The kinds are those of [`cfa`], [`ra`] and [`fp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Rule {
    /// How the CFA is found, one of [`cfa`].
    pub cfa: u8,
    /// How the return address is found, one of [`ra`].
    pub ra: u8,
    /// How the caller's frame pointer is found, one of [`fp`].
    pub fp: u8,
    /// [`SIGNAL`], [`START`], [`ENTRY`] and, in [`REGISTER_MASK`], for [`cfa::REG`] the register number, for [`cfa::GO_GROW`] and
    /// [`cfa::GO_LEAVE`] a number of words.
    pub flags: u8,
    /// Offset added to the base register of the CFA.
    pub cfa_off: i32,
    /// Added after the dereference; for [`cfa::PLT`] the threshold.
    pub cfa_add: i16,
    /// Offset of the return address.
    pub ra_off: i16,
    /// Offset of the saved frame pointer. For the Go kinds, these offsets have other meanings: `bpf/abi.h`.
    pub fp_off: i32,
}

/// The rows of one 64 KiB page of text: `rows[first_row..first_row + count]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageSpan {
    /// Index of the first row of the page.
    pub first_row: u32,
    /// Number of rows; 0: the page has no unwind information.
    pub count: u32,
}

const _: () = assert!(size_of::<Row>() == 4);
const _: () = assert!(size_of::<Rule>() == 16);
const _: () = assert!(size_of::<PageSpan>() == 8);

/// Text is split into pages of `1 << PAGE_SHIFT` bytes.
pub const PAGE_SHIFT: u32 = 16;
/// A page with more rows than this is dropped and counted.
pub const MAX_ROWS_PER_PAGE: usize = 16_384;
/// In [`Rule::flags`]: signal trampoline; the caller's pc is looked up exactly, not at pc − 1.
pub const SIGNAL: u8 = 0x80;
/// In [`Rule::flags`]: the byte before a function, where no call ends. A return address behind it was written by other
/// means than a call, so the frame that has it is the outermost. At the address of an instruction the rule holds. With
/// [`ENTRY`] a call of a function of the same file does end there, as a function's last instruction that never returns: it
/// is the caller of a frame in this file, and of no other.
pub const START: u8 = 0x40;
/// In [`Rule::flags`]: the function may be the first of a stack, and a return address of 0 says that it is.
pub const ENTRY: u8 = 0x20;
/// In [`Rule::flags`]: the DWARF register number of [`cfa::REG`].
pub const REGISTER_MASK: u8 = 0x1f;

/// Kinds of CFA.
pub mod cfa {
    /// No rule: a gap.
    pub const NONE: u8 = 0;
    /// `sp + cfa_off`
    pub const SP: u8 = 1;
    /// `fp + cfa_off`
    pub const FP: u8 = 2;
    /// `reg[flags & 0x1f] + cfa_off`; the registers are known only in the innermost frame.
    pub const REG: u8 = 3;
    /// `*(sp + cfa_off) + cfa_add`
    pub const SP_DEREF: u8 = 4;
    /// `*(fp + cfa_off) + cfa_add`
    pub const FP_DEREF: u8 = 5;
    /// `sp + cfa_off + (((pc & 15) >= cfa_add) << 3)`
    pub const PLT: u8 = 6;
    /// The unwind information needs a rule that the walker does not support.
    pub const UNSUPPORTED: u8 = 7;
    /// The function called on another stack, and nothing tells where its own frame is.
    pub const SWITCH: u8 = 8;
    /// Go: the frame is on the stack of the goroutine that runs on this thread. Its saved sp points to the return address.
    pub const GO_CALL: u8 = 9;
    /// Go: the caller's pc, sp and frame pointer are saved in that goroutine. Without a goroutine: in `g0`. If `g0` has no pc,
    /// its sp is that of a frame of [`super::REGISTER_MASK`] words, with rbp and the return address at the end.
    pub const GO_GROW: u8 = 10;
    /// As [`GO_GROW`]; the word at sp is the goroutine, which may no longer be the one that runs.
    pub const GO_LEAVE: u8 = 11;
    /// Go: sp points to a frame with the goroutine and the distance of its sp from the end of its stack.
    pub const GO_CALL_OF_C: u8 = 12;
    /// Go: sp is already that of the current goroutine, which goes on at its saved pc.
    pub const GO_RESUME: u8 = 13;
}

/// Kinds of return address.
pub mod ra {
    /// `*(CFA + ra_off)`
    pub const CFA: u8 = 0;
    /// `*(sp + ra_off)`
    pub const SP: u8 = 1;
    /// Undefined: the root of the stack.
    pub const UNDEFINED: u8 = 2;
    /// `*(fp + ra_off)`
    pub const FP: u8 = 3;
    /// In the register with DWARF number `ra_off`; only in the innermost frame.
    pub const REG: u8 = 4;
}

/// Kinds of frame pointer.
pub mod fp {
    /// Unchanged.
    pub const SAME: u8 = 0;
    /// `*(CFA + fp_off)`
    pub const CFA: u8 = 1;
    /// `*(sp + fp_off)`
    pub const SP: u8 = 2;
    /// `*(fp + fp_off)`
    pub const FP: u8 = 3;
    /// The value is lost and becomes 0.
    pub const UNDEFINED: u8 = 4;
}

impl Rule {
    /// The gap: index 0 of every table.
    pub const NONE: Self = Self {
        cfa: cfa::NONE,
        ra: ra::CFA,
        fp: fp::SAME,
        flags: 0,
        cfa_off: 0,
        cfa_add: 0,
        ra_off: 0,
        fp_off: 0,
    };
    /// See [`cfa::SWITCH`].
    pub const SWITCH: Self = Self { cfa: cfa::SWITCH, ..Self::NONE };
    /// The unwind information cannot be expressed as a rule.
    pub const UNSUPPORTED: Self = Self { cfa: cfa::UNSUPPORTED, ..Self::NONE };
    /// The root of a stack. A walker stops here and does not use the CFA.
    pub const ROOT: Self =
        Self { cfa: cfa::SP, ra: ra::UNDEFINED, fp: fp::UNDEFINED, cfa_off: 8, ..Self::NONE };

    /// See [`START`]. This is for padding, which is never interrupted.
    pub const START: Self =
        Self { cfa: cfa::SP, ra: ra::CFA, flags: START, cfa_off: 8, ra_off: -8, ..Self::NONE };

    /// Whether the rule leads to a caller by registers and words of the stack.
    pub(crate) fn has_caller(&self) -> bool {
        matches!(self.cfa, cfa::SP..=cfa::PLT) && self.ra != ra::UNDEFINED
    }

    /// The rule as 32-bit words, in the order in which they lie in memory.
    #[must_use]
    pub fn words(&self) -> [u32; 4] {
        let kinds = u32::from_ne_bytes([self.cfa, self.ra, self.fp, self.flags]);
        let [add, ra] = [self.cfa_add.to_ne_bytes(), self.ra_off.to_ne_bytes()];
        let offsets = u32::from_ne_bytes([add[0], add[1], ra[0], ra[1]]);
        [kinds, self.cfa_off.cast_unsigned(), offsets, self.fp_off.cast_unsigned()]
    }

    /// The rule of such words.
    #[must_use]
    pub fn of_words([kinds, cfa_off, offsets, fp_off]: [u32; 4]) -> Self {
        let [cfa, ra, fp, flags] = kinds.to_ne_bytes();
        let [add_low, add_high, ra_low, ra_high] = offsets.to_ne_bytes();
        Self {
            cfa,
            ra,
            fp,
            flags,
            cfa_off: cfa_off.cast_signed(),
            cfa_add: i16::from_ne_bytes([add_low, add_high]),
            ra_off: i16::from_ne_bytes([ra_low, ra_high]),
            fp_off: fp_off.cast_signed(),
        }
    }

    /// Whether every field holds a value that [`crate::step`] knows.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let uses_mask = matches!(self.cfa, cfa::REG | cfa::GO_GROW | cfa::GO_LEAVE);
        let register_ok = self.flags & REGISTER_MASK == 0 || uses_mask;
        self.cfa <= cfa::GO_RESUME && self.ra <= ra::REG && self.fp <= fp::UNDEFINED && register_ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_its_words() {
        let rule = Rule {
            cfa: 1,
            ra: 2,
            fp: 3,
            flags: SIGNAL,
            cfa_off: -5,
            cfa_add: -6,
            ra_off: 0x1234,
            fp_off: -0x0102_0304,
        };
        assert_eq!(Rule::of_words(rule.words()), rule);
        if cfg!(target_endian = "little") {
            assert_eq!(rule.words(), [0x8003_0201, 0xffff_fffb, 0x1234_fffa, 0xfefd_fcfc]);
        }
    }
}
