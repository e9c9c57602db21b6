//! One sample: what the kernel copied of a thread.

use perf_abi::Sample;

use super::registers::UserRegisters;

/// `PERF_CONTEXT_KERNEL`, and the lowest mark of a context in call chains (`PERF_CONTEXT_MAX`).
const KERNEL_MARK: u64 = -128i64 as u64;
const FIRST_MARK: u64 = -4095i64 as u64;

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
    /// The parts of a sample of the kernel. Without an instruction pointer of its own it has that of the registers.
    #[must_use]
    pub fn of(sample: &Sample<'_>) -> Self {
        let registers = sample.regs_user.as_ref().filter(|registers| registers.abi != 0);
        let user = registers.map_or_else(UserRegisters::default, |registers| UserRegisters {
            mask: registers.mask,
            values: registers.values.iter().collect(),
        });
        Self {
            ip: sample.ip.or(user.ip()).unwrap_or(0),
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

    /// The addresses in the kernel, innermost first.
    pub fn kernel_addresses(&self) -> impl Iterator<Item = u64> {
        let mut in_kernel = false;
        self.callchain.iter().copied().filter(move |address| {
            if *address >= FIRST_MARK {
                in_kernel = *address == KERNEL_MARK;
                return false;
            }
            in_kernel
        })
    }

    /// A word of the copy.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.stack_addr)?).ok()?;
        let bytes = self.stack.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_kernel_stand_behind_its_mark() {
        let mark = |number: i64| number as u64;
        let callchain = vec![mark(-128), 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020, mark(-512), 0x40_0000];
        let sample = StackSample { callchain, ..StackSample::default() };
        let kernel: Vec<u64> = sample.kernel_addresses().collect();
        assert_eq!(kernel, [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020]);
        assert_eq!(StackSample::default().kernel_addresses().count(), 0);
    }
}
