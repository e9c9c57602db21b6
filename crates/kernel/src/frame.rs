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
        Self { pc: word & FRAME_PC, exact: word >> 63 == 1, by_frame_pointer: word >> 62 & 1 == 1 }
    }
}

/// The address bits, as `USER_ADDRESS_BITS` of `bpf/abi/frame.h`; the bits above are marks.
const FRAME_PC: u64 = (1 << if cfg!(target_arch = "aarch64") { 48 } else { 57 }) - 1;
