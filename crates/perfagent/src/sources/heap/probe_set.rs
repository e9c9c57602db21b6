//! The probes of some allocators: one event for each program.

use std::os::fd::AsFd as _;

use events::monitor::{FunctionPlace, FunctionProbe, MonitorError};
use kernel::{HeapProgram, Kernel};
use sys::perf;

use super::allocators::Places;
use super::programs::Programs;
use crate::Error;
use crate::failure::load_error;

/// In the order in which they are opened and attached: a call whose entry is seen must have its return seen, and an object whose allocation is
/// seen, its free. They are closed in the opposite order.
const ORDER: [HeapProgram; 13] = [
    HeapProgram::Returned,
    HeapProgram::ReturnedHere,
    HeapProgram::Caught,
    HeapProgram::Freed,
    HeapProgram::Sized,
    HeapProgram::Zeroed,
    HeapProgram::Aligned,
    HeapProgram::Placed,
    HeapProgram::Resized,
    HeapProgram::ResizedArray,
    HeapProgram::ObjectNoted,
    HeapProgram::SampleFreed,
    HeapProgram::Sampled,
];

/// Those of `malloc` and `free`, which most programs call more often than all others.
const MOST_HIT: [HeapProgram; 5] = [
    HeapProgram::Sampled,
    HeapProgram::Returned,
    HeapProgram::ReturnedHere,
    HeapProgram::Sized,
    HeapProgram::Freed,
];

/// The probes of some allocators.
pub(super) struct ProbeSet {
    probes: Vec<(HeapProgram, FunctionProbe)>,
}

impl ProbeSet {
    /// Makes the kernel know the probes. They are in no process yet.
    pub(super) fn define(places: &Places) -> Result<Self, MonitorError> {
        let mut probes = Vec::new();
        for program in ORDER {
            let is_return = program == HeapProgram::Returned;
            let places: &[FunctionPlace] = places.get(&program).map_or(&[], Vec::as_slice);
            if !places.is_empty() {
                probes.push((program, FunctionProbe::define(name(program), places, is_return)?));
            }
        }
        Ok(Self { probes })
    }

    /// Inserts the breakpoints into the processes that `living` tells, and into what they start.
    pub(super) fn open(&mut self, living: &dyn Fn() -> Vec<u32>) -> Result<(), MonitorError> {
        self.probes.iter_mut().try_for_each(|(_, probe)| probe.open(living))
    }

    /// Whether a process that has inherited the probes may lose them when another one ends.
    pub(super) fn may_lose_children(&self) -> bool {
        self.probes.iter().any(|(_, probe)| probe.may_lose_children())
    }

    /// Inserts them into one more process.
    pub(super) fn add(&mut self, pid: u32) -> Result<(), MonitorError> {
        self.probes.iter_mut().try_for_each(|(_, probe)| probe.add(&[pid]).map(drop))
    }

    /// Begins to record.
    pub(super) fn attach(&self, kernel: &Kernel) -> Result<(), Error> {
        for (program, probe) in &self.probes {
            let Some(event) = probe.event() else { continue };
            let attached = kernel.with_heap_program(*program, |program| perf::set_bpf(event, program));
            attached.map_err(load_error)?.map_err(|source| Error::Attach {
                event: name(*program).to_owned(),
                cpu: None,
                source,
            })?;
        }
        Ok(())
    }

    /// Records what allocates from now on, and not what frees. False: no process is left, or the kernel refuses.
    pub(super) fn open_window(&mut self, living: &dyn Fn() -> Vec<u32>, programs: &Programs) -> bool {
        let mut is_open = true;
        for (program, probe) in self.probes.iter_mut().filter(|(program, _)| *program != HeapProgram::Freed) {
            let program = match program {
                HeapProgram::Returned => HeapProgram::ReturnedAlone,
                HeapProgram::ReturnedHere => HeapProgram::ReturnedHereAlone,
                other => *other,
            };
            let opened = probe.open(living).is_ok();
            let attached = probe
                .event()
                .zip(programs.get(&program))
                .is_some_and(|(event, program)| perf::set_bpf(event, program.as_fd()).is_ok());
            is_open &= opened && attached;
        }
        is_open
    }

    /// Takes the breakpoints out, first those that are hit most: the kernel takes up to 100 ms for each, in which the targets go on to hit the others.
    pub(super) fn close_soon(&mut self) {
        for hot in MOST_HIT {
            self.probes
                .iter_mut()
                .filter(|(program, _)| *program == hot)
                .for_each(|(_, probe)| probe.close());
        }
        self.close();
    }

    /// Takes the breakpoints out, in the order that keeps what was recorded complete.
    pub(super) fn close(&mut self) {
        self.probes.iter_mut().rev().for_each(|(_, probe)| probe.close());
    }
}

/// What messages call the probes of a program.
fn name(program: HeapProgram) -> &'static str {
    match program {
        HeapProgram::Sized => "malloc",
        HeapProgram::Zeroed => "calloc",
        HeapProgram::Aligned => "aligned_alloc",
        HeapProgram::Placed => "posix_memalign",
        HeapProgram::Resized => "realloc",
        HeapProgram::ResizedArray => "reallocarray",
        HeapProgram::Returned | HeapProgram::ReturnedAlone => "returns of malloc",
        HeapProgram::ReturnedHere | HeapProgram::ReturnedHereAlone => "returns of operator new",
        HeapProgram::Caught => "__cxa_begin_catch",
        HeapProgram::Freed => "free",
        HeapProgram::Sampled => "allocations of Go, or samples of an allocator",
        HeapProgram::SampleFreed | HeapProgram::ObjectNoted => "frees of an allocator's samples",
    }
}
