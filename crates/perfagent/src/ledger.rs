//! The completeness ledger: what was recorded, what was lost and why, what it cost.

mod content;
mod entries;
mod process;

pub(crate) use content::StackOf;

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::{Counters, WalkEnd};

pub use self::process::ProcessLedger;

/// The names under which ends of walks are shown, in the order of the specification.
const WALKS: [(&str, WalkEnd); 9] = [
    ("root", WalkEnd::Root),
    ("no_mapping", WalkEnd::NoMapping),
    ("no_row", WalkEnd::NoRow),
    ("unsupported_rule", WalkEnd::UnsupportedRule),
    ("fp_chain", WalkEnd::FpChain),
    ("fault", WalkEnd::Fault),
    ("frame_limit", WalkEnd::FrameLimit),
    ("table_not_ready", WalkEnd::TableNotReady),
    ("no_registers", WalkEnd::NoRegisters),
];

/// What is no walk.
const NO_WALKS: [WalkEnd; 2] = [WalkEnd::NoUserStack, WalkEnd::Exiting];

/// Which profile a ledger is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Where threads use CPUs.
    #[default]
    OnCpu,
    /// Where threads wait.
    OffCpu,
    /// Both in one profile.
    Wall,
    /// No profile, but figures of the scheduler and counters alone.
    Pmu,
}

impl Mode {
    /// As in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::OffCpu => "off-cpu",
            Self::Wall => "wall",
            Self::Pmu => "pmu",
        }
    }

    /// Whether there are stacks in what is recorded.
    pub(crate) fn has_stacks(self) -> bool {
        self != Self::Pmu
    }
}

/// The sums of a wall-clock profile, all in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WallClock {
    /// Time on CPUs.
    pub on_cpu_ns: u64,
    /// Time in which threads could have run, but had no CPU.
    pub run_queue_ns: u64,
    /// Time asleep.
    pub blocked_ns: u64,
    /// Time in uninterruptible sleep that adds to load.
    pub io_wait_ns: u64,
    /// What they should add up to: the time that each thread existed inside of the capture.
    pub threads_ns: u64,
}

impl WallClock {
    /// All states together.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.on_cpu_ns + self.run_queue_ns + self.blocked_ns + self.io_wait_ns
    }
}

/// What a profile contains and what it lacks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Ledger {
    /// Which profile it is of.
    pub mode: Mode,
    /// The event that was sampled, as `software/cpu-clock`.
    pub event: String,
    /// Samples per second and CPU; 0 off-CPU, where every interval counts.
    pub rate_hz: u32,
    /// The CPUs that were sampled, in ascending order, if that was restricted.
    pub cpus: Option<Vec<u32>>,
    /// Name of the unwind mode.
    pub unwind: String,
    /// Samples recorded.
    pub samples: u64,
    /// Samples lost because unseen stacks did not fit into the ring.
    pub lost_ring_full: u64,
    /// Samples lost because there was no room for another distinct stack.
    pub lost_map_full: u64,
    /// Samples lost for want of memory elsewhere.
    pub lost_no_memory: u64,
    /// Samples lost because the program had interrupted one that was changing the same table.
    pub lost_busy: u64,
    /// Off-CPU intervals lost because the kernel did not report their begin.
    pub lost_unseen: u64,
    /// Samples that the kernel's throttling is estimated to have cost; not part of the other figures.
    pub throttled: u64,
    /// Samples of processes that do not exist in the agent's PID namespace.
    pub outside_namespace: u64,
    /// Off-CPU intervals that were shorter than asked for.
    pub skipped_min_block: u64,
    /// Their time.
    pub skipped_min_block_ns: u64,
    /// Off-CPU intervals recorded without who ended them, though that was asked for.
    pub wakers_lost: u64,
    /// Threads whose waits could not be split between two intervals: the time before the end of the first is missing from it.
    pub seams_lost: u64,
    /// Off-CPU: the time recorded.
    pub off_cpu_ns: u64,
    /// The sums of the wall-clock profile, if there is one.
    pub wall_clock: Option<WallClock>,
    /// Samples by the end of the walk of their user stack, in the order of [`Ledger::walk_names`]. While the capture goes on, all
    /// walks so far, also for what will be in no profile.
    pub walks: [u64; 9],
    /// Samples without a walk: of kernel threads, and of threads that have given back their memory on their way out.
    pub no_user_stack: u64,
    /// Off-CPU intervals without a stack: threads that waited for their first moment on a CPU. Known at the end.
    pub not_run_yet: u64,
    /// Off-CPU intervals without a stack: threads that were asleep at the start and ran before their stack was read. Known at the end.
    pub asleep_before: u64,
    /// Stacks that were walked in user space, because their tables were still on their way.
    pub deferred: u64,
    /// Stacks that crossed to user space for that and were not walked yet; in no other figure.
    pub deferred_pending: u64,
    /// User frames of all samples; while the capture goes on, of the walks so far.
    pub frames: u64,
    /// Frames that the programs searched in tables rather than found in a memo.
    pub frames_walked: u64,
    /// Memo hits that were walked again in full, with `self_check`.
    pub memo_checked: u64,
    /// Of these, those that gave another stack: always 0 unless the walker is defective.
    pub memo_differed: u64,
    /// Walks that took their outer part from a memo.
    pub memo_hits: u64,
    /// Frames with a function name and all frames, both weighted by samples.
    pub frames_named: u64,
    /// See `frames_named`.
    pub frames_shown: u64,
    /// Stacks that crossed to user space, and messages about mappings that found no room on that way, so that the stacks of
    /// a process were cut for longer.
    pub stacks_sent: u64,
    /// See `stacks_sent`.
    pub requests_lost: u64,
    /// Threads that could not be followed for want of memory; each is in `lost_no_memory` too.
    pub threads_lost: u64,
    /// Children of targets that could not be followed, for want of room: none of their samples is recorded.
    pub processes_lost: u64,
    /// Files whose unwind table could not be made (frame pointers are followed there) or found no room in the kernel.
    pub tables_failed: u64,
    /// Names that processes gave themselves for too short a time to be shown: samples of that time have the name before.
    pub renames_skipped: u64,
    /// Records of forks, execs, exits and names of processes that did not fit into the ring; the processes were read again.
    pub life_lost: u64,
    /// Records of new executable mappings that the kernel could not write; the mappings of all processes were read again.
    pub side_band_lost: u64,
    /// Targets: of the whole system, all processes that there were, kernel threads too.
    pub processes: u64,
    /// Processes of which mappings, or files with code, could not be read, also because they had ended.
    pub unreadable_processes: u64,
    /// It was cancelled before sampling began: of most there is nothing to tell.
    pub never_began: bool,
    /// CPU time of the agent from the start on, names included.
    pub agent_cpu: Duration,
    /// How long that took.
    pub agent_elapsed: Duration,
    /// Length of the capture so far.
    pub elapsed: Duration,
    /// Time in BPF programs, where the kernel counts it.
    pub bpf_cpu: Option<Duration>,
    /// Largest resident set of the agent in KiB.
    pub agent_rss_peak_kib: u64,
    /// Kernel memory of maps, in KiB.
    pub bpf_memory_kib: u64,
    /// Distinct stacks seen.
    pub stacks: u64,
    pub(crate) by_process: BTreeMap<u32, ProcessLedger>,
}

impl Ledger {
    /// Samples lost for any cause.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_ring_full + self.lost_map_full + self.lost_no_memory + self.lost_busy + self.lost_unseen
    }

    /// Names of the causes in `walks`.
    pub fn walk_names() -> impl Iterator<Item = &'static str> {
        WALKS.iter().map(|(name, _)| *name)
    }

    /// Walks that reached the outermost frame, in percent of all; none if there was no walk.
    #[must_use]
    pub fn rooted_pct(&self) -> Option<f64> {
        percent(self.walks[0], self.walks.iter().sum())
    }

    /// Frames with a name in percent of all, weighted by samples; none if there are no frames.
    #[must_use]
    pub fn symbolized_pct(&self) -> Option<f64> {
        percent(self.frames_named, self.frames_shown)
    }

    /// Takes in what the programs of this mode have counted, and those of the other: processes are followed by
    /// whichever runs where they are made.
    pub(crate) fn take(&mut self, counters: &Counters, others: &Counters) {
        self.take_losses(counters, others);
        self.stacks_sent = counters.stacks_sent;
        self.no_user_stack = NO_WALKS.iter().map(|end| counters.walks(*end)).sum();
        self.deferred_pending = counters.deferred;
        self.samples = counters.samples;
        self.lost_ring_full = counters.lost_ring_full;
        self.lost_map_full = counters.lost_map_full;
        self.lost_no_memory = counters.lost_no_memory + counters.threads_lost;
        self.lost_busy = counters.lost_busy;
        self.lost_unseen = counters.lost_unseen;
        self.outside_namespace = counters.outside_namespace;
        self.walks = WALKS.map(|(_, end)| counters.walks(end));
        self.frames = counters.frames;
        self.frames_walked = counters.frames_walked;
        self.memo_hits = counters.memo_hits;
        self.memo_checked = counters.memo_checked;
        self.memo_differed = counters.memo_differed;
        self.skipped_min_block = counters.skipped_min_block;
        self.skipped_min_block_ns = counters.skipped_min_block_ns;
        self.wakers_lost = counters.wakers_lost;
        self.seams_lost = counters.seams_lost;
    }

    /// Takes in what is missing from figures too.
    pub(crate) fn take_losses(&mut self, counters: &Counters, others: &Counters) {
        self.processes_lost = counters.processes_lost + others.processes_lost;
        self.requests_lost = counters.requests_lost;
        self.threads_lost = counters.threads_lost;
    }

    /// Adds walks that were made in user space, by number of their end.
    pub(crate) fn add_deferred(&mut self, ends: &[u64]) {
        for (walks, (_, end)) in self.walks.iter_mut().zip(WALKS) {
            *walks += ends[end as usize];
        }
        self.deferred = ends.iter().sum();
        self.no_user_stack += NO_WALKS.iter().map(|end| ends[*end as usize]).sum::<u64>();
        // Those that slept at the start were not asked for by the programs.
        self.deferred_pending = self.deferred_pending.saturating_sub(self.deferred);
        // An off-CPU interval is counted when it ends, whoever walks its stack.
        if self.mode == Mode::OnCpu {
            self.samples += self.deferred;
        }
    }
}

/// Rounded down in the second decimal: 100.00 means all.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (10_000.0 * part as f64 / whole as f64).floor() / 100.0)
}

#[cfg(test)]
mod tests;
