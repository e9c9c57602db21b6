//! The trait of all sources.

use events::{Followed, Mmap, Present};
use kernel::{Kernel, Life, Message, ValuePlan};
use recording::Accounting;

use crate::{Error, Warning};

/// What a source needs to open its events.
pub(crate) struct Opening<'a> {
    pub(crate) kernel: &'a mut Kernel,
    /// Process numbers of the targets; empty if the whole system is the target.
    pub(crate) targets: &'a [u32],
    /// The same, and those of their descendants.
    pub(crate) pids: &'a [u32],
    /// Those of them that live now.
    pub(crate) living: &'a dyn Fn() -> Vec<u32>,
    /// All online CPUs.
    pub(crate) cpus: &'a [u32],
}

/// Something that makes the capture take stacks or counts.
pub(crate) trait Source {
    /// Where the programs read the value of the event, if it has one. Asked before they are loaded.
    fn value_plan(&mut self) -> Result<Option<ValuePlan>, Error> {
        Ok(None)
    }

    /// Opens the events, disabled.
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error>;

    /// Begins to take stacks or counts. `start_ns`: begin of the capture, `CLOCK_MONOTONIC`.
    fn enable(&mut self, kernel: &mut Kernel, start_ns: u64) -> Result<(), Error>;

    /// One more target, which the kernel side records from `now_ns` on.
    fn add_target(&mut self, kernel: &mut Kernel, pid: u32, now_ns: u64) -> Result<(), Error> {
        let _ = (kernel, pid, now_ns);
        Ok(())
    }

    /// A living descendant of such a target.
    fn add_descendant(&mut self, kernel: &mut Kernel, pid: u32, now_ns: u64) -> Result<(), Error> {
        self.add_target(kernel, pid, now_ns)
    }

    /// Something has happened to a recorded process.
    fn follow(&mut self, life: &Life) {
        let _ = life;
    }

    /// A recorded process has mapped a file with code.
    fn mapped(&mut self, mapping: &Mmap) {
        let _ = mapping;
    }

    /// Does what mappings have made due. Called often; nothing is to be waited for.
    fn advance(&mut self, kernel: &mut Kernel) -> Result<(), Error> {
        let _ = kernel;
        Ok(())
    }

    /// Stacks that exist already when the source is enabled, as those of threads that sleep.
    fn initial_stacks(&mut self) -> Vec<Message> {
        Vec::new()
    }

    /// Opens events on CPUs that came online and closes those of CPUs that went offline. An error in `missing` is told to the user; a
    /// CPU there is tried again.
    fn follow_cpus(&mut self, kernel: &mut Kernel, now: &Present) -> Followed {
        let _ = (kernel, now);
        Followed::default()
    }

    /// CPUs on which the source could not be opened at the start.
    fn skipped_cpus(&self) -> &[u32] {
        &[]
    }

    /// Ends taking stacks or counts. Intervals that are open at `end_ns` are added with their time so far.
    fn disable(&mut self, kernel: &mut Kernel, end_ns: u64) -> Result<(), Error>;

    /// Adds what the source knows about losses since the start of the capture.
    fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        let _ = (kernel, accounting);
    }

    /// What went less well since the last call.
    fn take_warnings(&mut self) -> Vec<Warning> {
        Vec::new()
    }
}
