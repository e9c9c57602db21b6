//! User frames in messages.

/// A user frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Address in the process; the return address for callers.
    pub pc: u64,
    /// The pc is the instruction itself, not a return address.
    pub exact: bool,
    /// The caller was found by frame pointer.
    pub by_frame_pointer: bool,
}

impl Frame {
    /// Decodes a word with the marks FRAME_EXACT, FRAME_BY_FP and FRAME_PC of `bpf/abi/frame.h`.
    pub(crate) fn from_raw(word: u64) -> Self {
        Self { pc: address(word), exact: word >> 63 == 1, by_frame_pointer: word >> 62 & 1 == 1 }
    }
}

/// The address in a word with marks. On x86-64 the highest address bit is that of all bits above: addresses of processes are lower, but
/// for the page of legacy system calls, `[vsyscall]`, at the top of the address space.
pub(crate) fn address(word: u64) -> u64 {
    let address = word & FRAME_PC;
    if cfg!(target_arch = "aarch64") || address <= FRAME_PC / 2 { address } else { address | !FRAME_PC }
}

/// The address bits, as `USER_ADDRESS_BITS` of `bpf/abi/frame.h`; the bits above are marks.
const FRAME_PC: u64 = (1 << if cfg!(target_arch = "aarch64") { 48 } else { 57 }) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_page_of_legacy_system_calls_keeps_its_address() {
        let word = |pc: u64| (pc & FRAME_PC) | 1 << 63;
        for pc in [0xffff_ffff_ff60_0400, 0x7fff_ffff_f000, 0x00ff_ffff_ffff_f000] {
            let frame = Frame { pc, exact: true, by_frame_pointer: false };
            assert_eq!(Frame::from_raw(word(pc)), frame);
        }
    }
}
