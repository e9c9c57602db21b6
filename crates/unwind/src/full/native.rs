//! The registers of the machine that this crate is compiled for, by DWARF number.

use crate::machine::Machine;

#[cfg(not(target_arch = "aarch64"))]
mod numbers {
    /// Number of the general registers, from 0 on.
    pub const REGISTERS: usize = 16;
    pub(in crate::full) const FRAME_POINTER: u8 = 6;
    pub(in crate::full) const STACK_POINTER: u8 = 7;
    pub(in crate::full) const LINK_REGISTER: Option<u8> = None;
    /// rbx, rbp, r12 to r15: a function keeps them unless its rows say otherwise (psABI).
    pub(in crate::full) const PRESERVED: &[u8] = &[3, 6, 12, 13, 14, 15];
    pub(super) const ADDRESS: u64 = u64::MAX;
}

#[cfg(target_arch = "aarch64")]
mod numbers {
    /// Number of the general registers, from 0 on.
    pub const REGISTERS: usize = 32;
    pub(in crate::full) const FRAME_POINTER: u8 = 29;
    pub(in crate::full) const STACK_POINTER: u8 = 31;
    pub(in crate::full) const LINK_REGISTER: Option<u8> = Some(30);
    /// x19 to x29 (AAPCS64).
    pub(in crate::full) const PRESERVED: &[u8] = &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];
    /// The bits of an address without pointer authentication; `USER_ADDRESS_BITS` of `bpf/abi/frame.h`.
    pub(super) const ADDRESS: u64 = (1 << 48) - 1;
}

pub use numbers::REGISTERS;
pub(super) use numbers::{FRAME_POINTER, LINK_REGISTER, PRESERVED, STACK_POINTER};

/// The pc of a frame; on x86-64 also the column of the return address.
pub(super) const PC: u8 = REGISTERS as u8;

pub(super) const VENDOR: gimli::Vendor = match Machine::NATIVE {
    Machine::X86_64 => gimli::Vendor::Default,
    Machine::Aarch64 => gimli::Vendor::AArch64,
};

/// A return address without the signature that some machines add.
pub(super) fn code_address(return_address: u64) -> u64 {
    return_address & numbers::ADDRESS
}

/// The registers by bit of a mask (`arch/*/include/uapi/asm/perf_regs.h`): their DWARF numbers, the pc as [`PC`].
#[cfg(not(target_arch = "aarch64"))]
pub(super) const PERF_NUMBERS: [Option<u8>; 24] = {
    let mut numbers = [None; 24];
    let dwarf = [0, 3, 2, 1, 4, 5, 6, 7, REGISTERS as u8];
    let mut bit = 0;
    while bit < dwarf.len() {
        numbers[bit] = Some(dwarf[bit]);
        bit += 1;
    }
    let mut register = 8;
    while register < 16 {
        numbers[register + 8] = Some(register as u8);
        register += 1;
    }
    numbers
};
#[cfg(target_arch = "aarch64")]
pub(super) const PERF_NUMBERS: [Option<u8>; 33] = {
    let mut numbers = [None; 33];
    let mut bit = 0;
    while bit < 33 {
        numbers[bit] = Some(bit as u8);
        bit += 1;
    }
    numbers
};
