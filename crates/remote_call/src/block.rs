//! The bytes that are written to the stack of a stopped thread, and where each part of them is.
//!
//! From low to high addresses: the lower way back, which may first call the function of the way out, the upper way back, which does not,
//! the vector state that both frames share, a word for results, and data for arguments. Functions begin at the lower way: what lies below is
//! overwritten by them. The function of the way out begins at the upper way, when the lower one is no longer needed. A way back is the address of code that stores the result, words that it drops,
//! the address of code that executes `rt_sigreturn`, and the frame that this restores.

use sys::ptrace::Registers;

use crate::error::CallError;
use crate::gadgets::{Kept, Store};

/// Bytes below the stack pointer that a function may use without telling.
const RED_ZONE: u64 = 128;
/// `struct ucontext` of the kernel.
const FRAME: usize = 304;
/// `UC_FP_XSTATE`, `UC_SIGCONTEXT_SS`, `UC_STRICT_RESTORE_SS`.
const FRAME_FLAGS: u64 = 7;
/// The kernel refuses this state of a signal stack, and leaves the thread's as it is.
const NO_SIGNAL_STACK: u32 = 4;
/// Where the software's part of the legacy area begins, with the mask of features that the kernel enables.
const SOFTWARE: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Legacy area and header.
const LEAST_VECTOR_STATE: usize = 576;
/// Direction of string instructions and single steps.
const FLAGS_OF_NO_FUNCTION: u64 = 0x500;
/// Results of interrupted system calls: the call is made again, or ends with `EINTR`.
const MADE_AGAIN: [i64; 3] = [-512, -513, -514];
const RESTARTED: i64 = -516;
const EINTR: i64 = -4;
/// The `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// Where a function leads to when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayBack {
    /// The stack pointer with which a function is entered.
    pub(crate) entry: u64,
    /// The stack pointer at the system call behind it.
    pub(crate) frame: u64,
}

/// What a block is made from.
pub(crate) struct Parts<'a> {
    pub(crate) registers: &'a Registers,
    pub(crate) vector: &'a [u8],
    /// Bytes of the vector state that a frame may have.
    pub(crate) vector_in_frame: usize,
    pub(crate) mask: u64,
    /// Addresses of code.
    pub(crate) store: (u64, Store),
    pub(crate) sigreturn: u64,
    /// Data for arguments.
    pub(crate) data: &'a [u8],
}

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) lower: WayBack,
    pub(crate) upper: WayBack,
    pub(crate) result: u64,
    pub(crate) data: u64,
    vector: u64,
}

impl Block {
    pub(crate) fn new(parts: &Parts<'_>) -> Result<Self, CallError> {
        if parts.vector.len() < LEAST_VECTOR_STATE || parts.vector_in_frame > parts.vector.len() {
            return Err(CallError::Unfit("the vector registers cannot be saved"));
        }
        let back = 8 * (2 + parts.store.1.dropped as usize);
        let way = (back + FRAME).next_multiple_of(16);
        let vector_bytes = (parts.vector_in_frame + 4).next_multiple_of(16);
        // The vector state is at a multiple of 64. Both ways begin 8 bytes below a multiple of 16, as a function wants it.
        let vector_at = (8 + 2 * way).next_multiple_of(64);
        let ways_at = vector_at - 2 * way - 8;
        let result_at = vector_at + vector_bytes;
        let data_at = result_at + 16;
        let size = (data_at + parts.data.len()).next_multiple_of(64);
        let top = parts.registers.rsp.checked_sub(RED_ZONE).ok_or(CallError::Unfit("it has no stack"))?;
        let start = top.checked_sub(size as u64).ok_or(CallError::Unfit("it has no stack"))? & !63;
        let at = |offset: usize| start + offset as u64;
        let way_at = |offset: usize| WayBack { entry: at(offset), frame: at(offset + back) };
        let mut block = Self {
            start,
            bytes: vec![0; size],
            lower: way_at(ways_at),
            upper: way_at(ways_at + way),
            result: at(result_at),
            data: at(data_at),
            vector: at(vector_at),
        };
        for way in [block.lower, block.upper] {
            block.put(way.entry, &parts.store.0.to_le_bytes());
            block.put(way.frame - 8, &parts.sigreturn.to_le_bytes());
        }
        let mut vector = parts.vector[..parts.vector_in_frame].to_vec();
        let (length, features) = (parts.vector_in_frame as u32, vector[SOFTWARE..SOFTWARE + 8].to_vec());
        let software = [
            &MAGIC_1.to_le_bytes()[..],
            &(length + 4).to_le_bytes(),
            &features,
            &length.to_le_bytes(),
            &[0; 28],
        ];
        vector[SOFTWARE..SOFTWARE + 48].copy_from_slice(&software.concat());
        vector.extend_from_slice(&MAGIC_2.to_le_bytes());
        block.put(block.vector, &vector);
        block.put(block.data, parts.data);
        block.put(block.upper.frame, &block.frame(&resumed(parts.registers), parts.mask));
        // Until there is a way out, both ways lead to the same.
        block.put(block.lower.frame, &block.frame(&resumed(parts.registers), parts.mask));
        Ok(block)
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - self.start) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A frame that restores these registers.
    pub(crate) fn frame(&self, registers: &Registers, mask: u64) -> Vec<u8> {
        let r = registers;
        let mut frame = Vec::with_capacity(FRAME);
        let mut put = |value: u64| frame.extend_from_slice(&value.to_le_bytes());
        [FRAME_FLAGS, 0, 0, NO_SIGNAL_STACK.into(), 0].into_iter().for_each(&mut put);
        [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15].into_iter().for_each(&mut put);
        [r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.eflags]
            .into_iter()
            .for_each(&mut put);
        put(r.cs & 0xffff | (r.ss & 0xffff) << 48);
        [0, 0, 0, 0, self.vector].into_iter().for_each(&mut put);
        [0; 8].into_iter().for_each(&mut put);
        put(mask);
        frame
    }
}

/// The registers with which a thread goes on if the kernel has forgotten that it was in a system call.
pub(crate) fn resumed(registers: &Registers) -> Registers {
    let mut resumed = *registers;
    if registers.orig_rax.cast_signed() >= 0 {
        match registers.rax.cast_signed() {
            result if MADE_AGAIN.contains(&result) => {
                resumed.rax = registers.orig_rax;
                resumed.rip = registers.rip.wrapping_sub(SYSCALL_BYTES);
            }
            RESTARTED => resumed.rax = EINTR.cast_unsigned(),
            _ => {}
        }
    }
    resumed
}

/// Whether a system call was interrupted in a way that only the kernel remembers how it goes on. It remembers one for each thread.
pub(crate) fn is_restarted(registers: &Registers) -> bool {
    registers.orig_rax.cast_signed() >= 0 && registers.rax.cast_signed() == RESTARTED
}

/// The registers with which a function begins. `base`: those of the stopped thread.
pub(crate) fn entering(
    base: &Registers,
    function: u64,
    arguments: &[u64],
    stack: u64,
    store: &Store,
    result: u64,
) -> Registers {
    let mut registers = *base;
    let given = [
        &mut registers.rdi,
        &mut registers.rsi,
        &mut registers.rdx,
        &mut registers.rcx,
        &mut registers.r8,
        &mut registers.r9,
    ];
    for (register, argument) in given.into_iter().zip(arguments) {
        *register = *argument;
    }
    let address = result.wrapping_sub(i64::from(store.offset).cast_unsigned());
    match store.register {
        Kept::Rbx => registers.rbx = address,
        Kept::Rbp => registers.rbp = address,
        Kept::R12 => registers.r12 = address,
        Kept::R13 => registers.r13 = address,
        Kept::R14 => registers.r14 = address,
        Kept::R15 => registers.r15 = address,
    }
    registers.rip = function;
    registers.rsp = stack;
    registers.rax = 0;
    registers.eflags &= !FLAGS_OF_NO_FUNCTION;
    // No system call that was interrupted is made again.
    registers.orig_rax = u64::MAX;
    registers
}
