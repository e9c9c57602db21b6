//! The sampler at one event that runs it for each occurrence, whatever the CPU and process: it is attached to begin and detached to end.
//! Not here: which event, and what refuses it.

use std::io;
use std::os::fd::BorrowedFd;

use kernel::Kernel;
use recording::NotRun;
use sys::perf;

use crate::Error;
use crate::failure::load_error;

/// What is known of the sampler while it is attached to such an event.
#[derive(Default)]
pub(super) struct ProgramEvent {
    /// Runs of the program that the kernel had skipped before.
    skipped_before: u64,
}

impl ProgramEvent {
    /// Attaches the sampler. The inner error is the kernel's refusal.
    pub(super) fn attach(
        &mut self,
        kernel: &mut Kernel,
        event: BorrowedFd<'_>,
    ) -> Result<io::Result<()>, Error> {
        self.skipped_before = kernel.sampler_skipped();
        kernel.with_sampler(|program| perf::set_bpf(event, program)).map_err(load_error)
    }

    /// Waits, after the event was closed, for runs that began before.
    pub(super) fn ended(&self, kernel: &mut Kernel) -> Result<(), Error> {
        kernel.wait_for_programs().map_err(load_error)
    }

    /// The samples that the kernel has skipped since the sampler was attached; each is of `period` occurrences.
    pub(super) fn not_run(&self, kernel: &Kernel, period: u64) -> NotRun {
        let skipped = kernel.sampler_skipped().saturating_sub(self.skipped_before);
        NotRun { periods: skipped / period.max(1), worst: None }
    }
}
