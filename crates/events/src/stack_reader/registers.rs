//! The kernel's numbers of the registers in samples (`arch/*/include/uapi/asm/perf_regs.h`), and those that walks need.

macro_rules! registers {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(#[doc = concat!("Bit ", $number, " of a mask.")] pub const $name: u32 = $number;)*
    };
}

/// x86-64.
pub mod x86_64 {
    registers! {
        AX = 0, BX = 1, CX = 2, DX = 3, SI = 4, DI = 5, BP = 6, SP = 7, IP = 8, FLAGS = 9, CS = 10, SS = 11, DS = 12, ES = 13, FS = 14, GS = 15,
        R8 = 16, R9 = 17, R10 = 18, R11 = 19, R12 = 20, R13 = 21, R14 = 22, R15 = 23,
    }

    /// The general registers and the instruction pointer. No frame information needs flags and segments.
    pub const GENERAL: u64 = 0x1ff | 0xff << R8;
}

/// aarch64: X0 to X29 have the bits 0 to 29.
pub mod aarch64 {
    registers! { X29 = 29, LR = 30, SP = 31, PC = 32 }

    /// The general registers, the stack pointer and the program counter.
    pub const GENERAL: u64 = 0x1_ffff_ffff;
}

#[cfg(target_arch = "aarch64")]
mod own {
    pub use super::aarch64::{GENERAL, PC as IP, SP, X29 as FP};
}
#[cfg(not(target_arch = "aarch64"))]
mod own {
    pub use super::x86_64::{BP as FP, GENERAL, IP, SP};
}

/// Of this machine: the registers that are asked for by default.
pub const GENERAL: u64 = own::GENERAL;

/// The values of some registers, without gaps, in the order of their bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRegisters {
    /// Which registers.
    pub mask: u64,
    /// Their values.
    pub values: Vec<u64>,
}

impl UserRegisters {
    /// The register with the kernel's number, if it was sampled.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number).filter(|bit| self.mask & bit != 0)?;
        self.values.get((self.mask & (bit - 1)).count_ones() as usize).copied()
    }

    /// The instruction pointer.
    #[must_use]
    pub fn ip(&self) -> Option<u64> {
        self.get(own::IP)
    }

    /// The stack pointer.
    #[must_use]
    pub fn sp(&self) -> Option<u64> {
        self.get(own::SP)
    }

    /// The frame pointer: `rbp`, `x29`.
    #[must_use]
    pub fn bp(&self) -> Option<u64> {
        self.get(own::FP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_without_gaps() {
        let mask = 1 << own::FP | 1 << own::SP | 1 << own::IP;
        let mut numbers = [own::FP, own::SP, own::IP];
        numbers.sort_unstable();
        let registers =
            UserRegisters { mask, values: numbers.iter().map(|number| u64::from(*number) + 100).collect() };
        let found = (registers.ip(), registers.sp(), registers.bp());
        let of = |number: u32| Some(u64::from(number) + 100);
        assert_eq!(found, (of(own::IP), of(own::SP), of(own::FP)));
        assert_eq!((registers.get(63), registers.get(64), registers.get(0)), (None, None, None));
        let cut = UserRegisters { mask, values: Vec::new() };
        assert_eq!(cut.ip(), None);
        assert_eq!((x86_64::GENERAL.count_ones(), aarch64::GENERAL.count_ones()), (17, 33));
    }
}
