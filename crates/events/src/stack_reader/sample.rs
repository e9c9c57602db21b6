//! One sample: what the kernel copied of a thread.

use perf_abi::Sample;

use super::registers::UserRegisters;

/// A sample. Parts that the kernel skipped are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackSample {
    /// The instruction that was interrupted.
    pub ip: u64,
    /// Its process.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// ns of the monotonic clock.
    pub time_ns: u64,
    /// What the kernel walked by frame pointers, with its marks of contexts.
    pub callchain: Vec<u64>,
    /// 0: no registers; 1: those of a 32-bit program; 2: of a 64-bit one.
    pub abi: u64,
    /// The registers in user mode.
    pub registers: UserRegisters,
    /// The address of the first byte of `stack`: the stack pointer.
    pub stack_addr: u64,
    /// The bytes that could be copied.
    pub stack: Vec<u8>,
}

impl StackSample {
    pub(super) fn of(sample: &Sample<'_>) -> Self {
        let registers = sample.regs_user.as_ref().filter(|registers| registers.abi != 0);
        let user = registers.map_or_else(UserRegisters::default, |registers| UserRegisters {
            mask: registers.mask,
            values: registers.values.iter().collect(),
        });
        Self {
            ip: sample.ip.unwrap_or(0),
            pid: sample.id.pid.unwrap_or(0),
            tid: sample.id.tid.unwrap_or(0),
            time_ns: sample.id.time.unwrap_or(0),
            callchain: sample.callchain.iter().flat_map(|chain| chain.iter()).collect(),
            abi: registers.map_or(0, |registers| registers.abi),
            stack_addr: user.sp().unwrap_or(0),
            stack: sample.stack_user.map_or(Vec::new(), |stack| stack.bytes.to_vec()),
            registers: user,
        }
    }

    /// A word of the copy.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.stack_addr)?).ok()?;
        let bytes = self.stack.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }
}
