//! What a reader samples, and what is refused before the kernel is asked.

use std::io;

use super::registers;

/// The kernel's limit for a copy of a stack.
pub const MAX_STACK_BYTES: u32 = 65_528;

/// What to sample, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackConfig {
    /// The thread; none for all threads of a CPU.
    pub tid: Option<u32>,
    /// The CPU; none for a thread wherever it runs.
    pub cpu: Option<u32>,
    /// Samples per second of CPU time.
    pub sample_freq: u64,
    /// Bytes of each stack, from the stack pointer on: a multiple of 8.
    pub stack_bytes: u32,
    /// Pages of the ring: a power of two.
    pub ring_pages: usize,
    /// The registers, by the kernel's numbers ([`registers`]).
    pub registers: u64,
}

impl StackConfig {
    /// Samples a thread: 99 times per second, 8 KiB of stack, 64 pages.
    #[must_use]
    pub fn of_thread(tid: u32) -> Self {
        Self { tid: Some(tid), cpu: None, ..Self::new() }
    }

    /// Samples all threads of a CPU.
    #[must_use]
    pub fn of_cpu(cpu: u32) -> Self {
        Self { tid: None, cpu: Some(cpu), ..Self::new() }
    }

    fn new() -> Self {
        let (stack_bytes, ring_pages, registers) = (8192, 64, registers::GENERAL);
        Self { tid: None, cpu: None, sample_freq: 99, stack_bytes, ring_pages, registers }
    }

    /// Whether the kernel can take it.
    pub(super) fn check(&self) -> Result<(), StackReaderError> {
        let refuse = |option, reason| Err(StackReaderError::Config { option, reason });
        if self.tid.is_none() && self.cpu.is_none() {
            return refuse("cpu", "any CPU is possible for a thread only: give a thread or a CPU");
        }
        if self.sample_freq == 0 {
            return refuse("sample_freq", "it is 0");
        }
        if self.stack_bytes == 0 || !self.stack_bytes.is_multiple_of(8) || self.stack_bytes > MAX_STACK_BYTES
        {
            return refuse("stack_bytes", "it is no multiple of 8 from 8 to 65528");
        }
        if !self.ring_pages.is_power_of_two() {
            return refuse("ring_pages", "it is no power of two");
        }
        if self.registers == 0 {
            return refuse("registers", "there are none; walks need registers::GENERAL");
        }
        Ok(())
    }
}

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackReaderError {
    /// A value of the configuration.
    #[error("read stacks: {option}: {reason}")]
    Config {
        /// The field.
        option: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The kernel refuses the event.
    #[error("sample the stack of {target}: {source}{}", hint(source))]
    Open {
        /// The thread or CPU.
        target: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel refuses the ring.
    #[error(
        "map a ring of {pages} pages: {source}; raise kernel.perf_event_mlock_kb, ask for fewer pages, or grant cap_ipc_lock"
    )]
    Ring {
        /// Its pages.
        pages: usize,
        /// The cause.
        source: io::Error,
    },
    /// The reader was closed.
    #[error("read stacks: the reader is closed")]
    Closed,
}

impl StackReaderError {
    /// Whether a missing privilege is the likely reason.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

fn hint(source: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "; needs cap_perfmon, or a thread of your own and kernel.perf_event_paranoid at most 2"
        }
        Some(Errno::SRCH) => "; the thread has ended",
        Some(Errno::NODEV) => "; the CPU is offline",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_cannot_take_is_refused_by_name() {
        let good = StackConfig::of_thread(1);
        assert!(good.check().is_ok() && StackConfig::of_cpu(0).check().is_ok());
        assert!(StackConfig { stack_bytes: MAX_STACK_BYTES, ring_pages: 1, ..good }.check().is_ok());
        for (config, option) in [
            (StackConfig { tid: None, ..good }, "cpu"),
            (StackConfig { sample_freq: 0, ..good }, "sample_freq"),
            (StackConfig { stack_bytes: 0, ..good }, "stack_bytes"),
            (StackConfig { stack_bytes: 100, ..good }, "stack_bytes"),
            (StackConfig { stack_bytes: 65_536, ..good }, "stack_bytes"),
            (StackConfig { ring_pages: 0, ..good }, "ring_pages"),
            (StackConfig { ring_pages: 3, ..good }, "ring_pages"),
            (StackConfig { registers: 0, ..good }, "registers"),
        ] {
            let error = config.check().unwrap_err();
            assert!(
                matches!(error, StackReaderError::Config { option: told, .. } if told == option),
                "{error}"
            );
        }
    }
}
