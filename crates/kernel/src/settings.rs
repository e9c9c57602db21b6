//! The settings with which the programs are loaded.

use std::time::Duration;

use crate::sum_key::{Event, State};
use crate::value_plan::ValuePlan;

/// Off-CPU recording.
#[derive(Clone, Debug)]
pub struct OffCpu {
    /// The states of the off-CPU profile. Intervals in these states are recorded.
    pub states: Vec<State>,
    /// Intervals shorter than this are only counted.
    pub min_block_ns: u64,
    /// Record all states, and the time on CPUs.
    pub wall_clock: bool,
    /// Record the waker that ends each interval.
    pub wakers: bool,
}

/// A control group of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenCgroup {
    /// Its id, which is the inode number of its directory.
    pub id: u64,
    /// The lowest and the highest level in the hierarchy that it may have.
    pub levels: (u32, u32),
}

/// Statistics of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct SchedStats {
    /// Also take statistics of each process.
    pub each_process: bool,
    /// With `each_process`: the number of events to split by process, at most [`MAX_SPLIT_EVENTS`]; see
    /// [`Kernel::split_event`](crate::Kernel::split_event).
    pub split_events: u8,
}

/// The largest number of events that can be split by process.
pub const MAX_SPLIT_EVENTS: usize = 8;

/// The largest number of events that can be sampled beside the first one.
pub const MAX_FURTHER_EVENTS: usize = Event::SAMPLED.len() - 1;

impl OffCpu {
    /// Bit masks of the states in the profile, and of the recorded states.
    pub(crate) fn masks(&self) -> (u8, u8) {
        // A new thread that waits for its first CPU is runnable, as a preempted one.
        let bits = |state: &State| match state {
            State::Preempted => State::Preempted.bit() | State::NotRunYet.bit(),
            state => state.bit(),
        };
        let profiled = self.states.iter().fold(0, |mask, state| mask | bits(state));
        let all = [State::Blocked, State::IoWait, State::Preempted].iter().fold(0, |mask, s| mask | bits(s));
        (profiled, if self.wall_clock { all } else { profiled })
    }
}

/// Where in the kernel the sampling event happens, which decides its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampledIn {
    /// In the interrupt of a timer: the clocks.
    #[default]
    Timer,
    /// In the thread itself: the events that the kernel counts, such as page faults.
    Task,
    /// In the interrupt of a hardware counter, which may be an NMI. Only where [`nmi_may_sample`](crate::nmi_may_sample).
    Hardware,
    /// At a tracepoint, which may be anywhere: only there too.
    Tracepoint,
    /// At a probe of a program. Only where [`probes_may_sample`](crate::probes_may_sample).
    Program,
    /// At the instructions of a program's function that return: the sample has the stack of the caller. Else as `Program`.
    Return,
    /// At a probe of a function of the kernel, which may be anywhere: as at a tracepoint.
    Function,
    /// At functions of an allocator: there are several programs, see [`HeapProgram`](crate::HeapProgram). As at a probe of a program.
    Allocator,
}

/// An event that is sampled beside the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherEvent {
    /// Where it happens. Not at functions of an allocator.
    pub sampled_in: SampledIn,
    /// As [`Settings::sample_every`].
    pub sample_every: u64,
    /// As [`Settings::value`].
    pub value: Option<ValuePlan>,
}

/// The settings with which the programs are loaded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the sampling event happens.
    pub sampled_in: SampledIn,
    /// Of a tracepoint or probe, take a sample at each Nth event of a CPU that is to be recorded. The kernel counts the other events itself.
    pub sample_every: u64,
    /// Where the sampling event has a value to be summed up beside the number of its occurrences: see [`Schema::of_values`](crate::Schema::of_values).
    pub value: Option<ValuePlan>,
    /// Events that are sampled too, at most [`MAX_FURTHER_EVENTS`]. Each takes [`Kernel::memory`](crate::Kernel::memory) for each possible CPU.
    pub further: Vec<FurtherEvent>,
    /// Secret of the stack hash.
    pub seed: u64,
    /// Record every process.
    pub whole_system: bool,
    /// Do not record the children of recorded processes.
    pub without_children: bool,
    /// Record time off the CPUs.
    pub off_cpu: Option<OffCpu>,
    /// Record waits for locks, with their owners and wakers.
    pub locks: bool,
    /// The same for locks of the kernel. Only where [`kernel_locks_may_be_followed`](crate::kernel_locks_may_be_followed), and with `locks`.
    pub kernel_locks: bool,
    /// The same for waits of goroutines, at probes: see [`GoProgram`](crate::GoProgram). Only where
    /// [`probes_may_sample`](crate::probes_may_sample), and with `locks`.
    pub go_locks: bool,
    /// Take statistics of the scheduler.
    pub sched_stats: Option<SchedStats>,
    /// Also take kernel stacks.
    pub kernel_stacks: bool,
    /// [`Kernel::set_kernel_stacks`](crate::Kernel::set_kernel_stacks) chooses for single processes.
    pub kernel_stacks_by_process: bool,
    /// Send each sample of the clock as a message of its own too: see [`Kernel::take_samples`](crate::Kernel::take_samples).
    pub single_samples: bool,
    /// The same for each interval of the off-CPU profile that lasts at least so long; none without. Its value is its whole time, also if a seam split it; its key is that of the
    /// blocked stack, also with wakers.
    pub single_intervals: Option<Duration>,
    /// Take samples of these threads only, by their numbers in the agent's PID namespace. Empty: of all.
    pub tids: Vec<u32>,
    /// Take samples of this control group and of those below it only.
    pub cgroup: Option<ChosenCgroup>,
    /// Walk the frames of Python, in processes for which [`Kernel::set_python`](crate::Kernel::set_python) has told the interpreter.
    pub python: bool,
    /// Count each thread separately.
    pub per_thread: bool,
    /// Walk each memo hit again in full, and compare the results.
    pub check_memo: bool,
    /// Walk without memos; for measurements.
    pub without_memo: bool,
    /// Inode number of the agent's PID namespace; 0 in the initial namespace.
    pub pid_namespace: u32,
    /// Number of threads at the start. The table of sums has an entry for each of them besides `max_stacks`.
    pub threads: u32,
    /// Distinct stacks that the kernel holds between two drains.
    pub max_stacks: u32,
    /// Bytes of the ring; a power of two and a multiple of the page size.
    pub ring_bytes: u32,
    /// The largest number of processes recorded at one time.
    pub max_processes: u32,
    /// Bytes of unwind tables and mappings.
    pub table_pool_bytes: usize,
    /// With [`SampledIn::Allocator`]: live objects that are known at one time.
    pub live_objects: u32,
}

impl Settings {
    /// Whether threads are followed through the scheduler.
    pub(crate) fn follows_threads(&self) -> bool {
        self.splits_intervals() || self.sched_stats.is_some()
    }

    /// Whether intervals of threads are recorded, and split at a cut.
    pub(crate) fn splits_intervals(&self) -> bool {
        self.off_cpu.is_some() || self.locks
    }

    /// The states in which stacks are walked, as a mask. What the owner of a lock waits for tells why others wait for it.
    pub(crate) fn walked_states(&self) -> u8 {
        let (_, recorded) = self.off_cpu.as_ref().map_or((0, 0), OffCpu::masks);
        let of_locks = if self.locks { State::Blocked.bit() | State::IoWait.bit() } else { 0 };
        recorded | of_locks
    }

    /// Sums that the kernel holds between two drains.
    pub(crate) fn sums(&self) -> u32 {
        let sleepers = if self.splits_intervals() { self.threads } else { 0 };
        self.max_stacks.saturating_add(sleepers)
    }

    pub(crate) fn each_process(&self) -> bool {
        self.sched_stats.is_some_and(|stats| stats.each_process)
    }

    pub(crate) fn split_events(&self) -> u8 {
        self.sched_stats.filter(|stats| stats.each_process).map_or(0, |stats| stats.split_events)
    }

    /// Whether the time at which a thread becomes runnable is needed.
    pub(crate) fn follows_wakeups(&self) -> bool {
        self.sched_stats.is_some() || self.off_cpu.as_ref().is_some_and(|off_cpu| off_cpu.wall_clock)
    }

    pub(crate) fn follows_wakers(&self) -> bool {
        self.locks || self.off_cpu.as_ref().is_some_and(|off_cpu| off_cpu.wakers)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sampled_in: SampledIn::Timer,
            sample_every: 1,
            value: None,
            further: Vec::new(),
            seed: 0,
            whole_system: false,
            without_children: false,
            off_cpu: None,
            locks: false,
            kernel_locks: false,
            go_locks: false,
            sched_stats: None,
            kernel_stacks: false,
            kernel_stacks_by_process: false,
            single_samples: false,
            single_intervals: None,
            tids: Vec::new(),
            cgroup: None,
            python: false,
            per_thread: false,
            check_memo: false,
            without_memo: false,
            pid_namespace: 0,
            threads: 0,
            max_stacks: 65_536,
            ring_bytes: 4 << 20,
            max_processes: 16_384,
            table_pool_bytes: 32 << 20,
            live_objects: 1 << 18,
        }
    }
}
