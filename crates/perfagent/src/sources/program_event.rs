//! The sampler at one event that runs it for each occurrence, whatever the CPU and process: it is attached to begin and detached to end.
//! Not here: which event, and what refuses it.

use std::io;
use std::os::fd::BorrowedFd;

use kernel::Kernel;
use recording::{Accounting, NotRun};
use sys::perf;

use crate::Error;
use crate::failure::load_error;

/// What is known of the sampler while it is attached to such an event.
pub(super) struct ProgramEvent {
    /// The number of the event among the sampled ones.
    number: usize,
    /// Runs of the program that the kernel had skipped before.
    skipped_before: u64,
}

impl ProgramEvent {
    pub(super) fn new(number: usize) -> Self {
        Self { number, skipped_before: 0 }
    }

    /// Attaches the sampler. The inner error is the kernel's refusal.
    pub(super) fn attach(
        &mut self,
        kernel: &mut Kernel,
        event: BorrowedFd<'_>,
    ) -> Result<io::Result<()>, Error> {
        self.skipped_before = kernel.sampler_skipped(self.number);
        kernel.with_sampler(self.number, |program| perf::set_bpf(event, program)).map_err(load_error)
    }

    /// Waits, after the event was closed, for runs that began before.
    pub(super) fn ended(&self, kernel: &mut Kernel) -> Result<(), Error> {
        kernel.wait_for_programs().map_err(load_error)
    }

    /// Tells the samples that the kernel has skipped since the sampler was attached; each is of `period` occurrences.
    pub(super) fn account(&self, kernel: &Kernel, period: u64, accounting: &mut Accounting) {
        let skipped = kernel.sampler_skipped(self.number).saturating_sub(self.skipped_before);
        accounting.note_sampled(self.number, 0, NotRun { periods: skipped / period.max(1), worst: None });
    }
}
