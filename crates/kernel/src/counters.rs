//! The counters of the programs.

use crate::abi::skeleton::types;
use crate::python_walks::PythonWalks;
use crate::walk_end::{WALK_ENDS, WalkEnd};

/// Number of counters.
pub const COUNTERS: usize = types::counter::COUNTERS.0 as usize;

/// Indices of `struct counters`.
pub(crate) enum Counter {
    Samples = types::counter::COUNT_SAMPLES.0 as isize,
    LostRingFull = types::counter::COUNT_LOST_RING_FULL.0 as isize,
    LostMapFull = types::counter::COUNT_LOST_MAP_FULL.0 as isize,
    LostNoMemory = types::counter::COUNT_LOST_NO_MEMORY.0 as isize,
    OutsideNamespace = types::counter::COUNT_OUTSIDE_NAMESPACE.0 as isize,
    MemoHits = types::counter::COUNT_MEMO_HITS.0 as isize,
    MemoChecked = types::counter::COUNT_MEMO_CHECKED.0 as isize,
    MemoDiffered = types::counter::COUNT_MEMO_DIFFERED.0 as isize,
    Frames = types::counter::COUNT_FRAMES.0 as isize,
    StacksSent = types::counter::COUNT_STACKS_SENT.0 as isize,
    RequestsLost = types::counter::COUNT_REQUESTS_LOST.0 as isize,
    ProcessesLost = types::counter::COUNT_PROCS_LOST.0 as isize,
    Deferred = types::counter::COUNT_DEFERRED.0 as isize,
    FramesWalked = types::counter::COUNT_FRAMES_WALKED.0 as isize,
    SkippedMinBlock = types::counter::COUNT_SKIPPED_MIN_BLOCK.0 as isize,
    SkippedMinBlockNs = types::counter::COUNT_SKIPPED_MIN_BLOCK_NS.0 as isize,
    ThreadsLost = types::counter::COUNT_THREADS_LOST.0 as isize,
    WakersLost = types::counter::COUNT_WAKERS_LOST.0 as isize,
    LostBusy = types::counter::COUNT_LOST_BUSY.0 as isize,
    LostUnseen = types::counter::COUNT_LOST_UNSEEN.0 as isize,
    SwitchesLost = types::counter::COUNT_SWITCHES_LOST.0 as isize,
    CameUnseen = types::counter::COUNT_CAME_UNSEEN.0 as isize,
    ReadsFailed = types::counter::COUNT_READS_FAILED.0 as isize,
    LifetimeNs = types::counter::COUNT_LIFETIME_NS.0 as isize,
    Walks = types::counter::COUNT_WALKS.0 as isize,
    SeamsLost = types::counter::COUNT_SEAMS_LOST.0 as isize,
    SinglesLost = types::counter::COUNT_SINGLES_LOST.0 as isize,
    UnsentOfProcess = types::counter::COUNT_UNSENT_OF_PROCESS.0 as isize,
    UnsentOfMachine = types::counter::COUNT_UNSENT_OF_MACHINE.0 as isize,
    UnsentRingFull = types::counter::COUNT_UNSENT_RING_FULL.0 as isize,
    LockWaits = types::counter::COUNT_LOCK_WAITS.0 as isize,
    LocksLost = types::counter::COUNT_LOCKS_LOST.0 as isize,
    OwnersLost = types::counter::COUNT_OWNERS_LOST.0 as isize,
    LengthsLost = types::counter::COUNT_LENGTHS_LOST.0 as isize,
    ValuesUnreadable = types::counter::COUNT_VALUES_UNREADABLE.0 as isize,
    ValuesNegative = types::counter::COUNT_VALUES_NEGATIVE.0 as isize,
    LeavesUndecided = types::counter::COUNT_LEAVES_UNDECIDED.0 as isize,
    GoHits = types::counter::COUNT_GO_HITS.0 as isize,
}

/// Sums over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Recorded samples.
    pub samples: u64,
    /// Samples lost: an unseen stack did not fit into the ring.
    pub lost_ring_full: u64,
    /// Samples lost: the table of stacks was full.
    pub lost_map_full: u64,
    /// Samples lost: no state for a CPU or process.
    pub lost_no_memory: u64,
    /// Samples lost: the program interrupted another one that was changing the table.
    pub lost_busy: u64,
    /// Off-CPU intervals lost: the kernel did not report their start.
    pub lost_unseen: u64,
    /// Samples of processes that do not exist in the agent's PID namespace.
    pub outside_namespace: u64,
    /// Walks that took their outer frames from a memo.
    pub memo_hits: u64,
    /// Memo hits that were walked again in full.
    pub memo_checked: u64,
    /// Of these, walks with a different result.
    pub memo_differed: u64,
    /// User frames of all samples.
    pub frames: u64,
    /// Of these, frames that needed a search in the tables.
    pub frames_walked: u64,
    /// Stacks sent to user space.
    pub stacks_sent: u64,
    /// Samples sent with their raw stack, which user space walks. No other counter includes them.
    pub deferred: u64,
    /// Requests that did not fit into the ring.
    pub requests_lost: u64,
    /// Switches missing from the statistics of processes because the tables were full, and wake-ups that were not seen.
    pub switches_lost: u64,
    /// Time slices, with the wait before each, whose start the kernel did not report.
    pub came_unseen: u64,
    /// Failed reads of event counters at a switch.
    pub reads_failed: u64,
    /// Processes that could not be followed: the map was full.
    pub processes_lost: u64,
    /// Threads that could not be followed.
    pub threads_lost: u64,
    /// Off-CPU intervals shorter than [`OffCpu::min_block_ns`](crate::OffCpu::min_block_ns).
    pub skipped_min_block: u64,
    /// Their time.
    pub skipped_min_block_ns: u64,
    /// Intervals recorded without their waker.
    pub wakers_lost: u64,
    /// Sum of the lifetimes, within the capture, of followed threads that have ended.
    pub lifetime_ns: u64,
    /// Threads whose time up to a cut is missing from the interval, because the map of seam records was full.
    pub seams_lost: u64,
    /// Single samples that did not fit into the ring. The sums have them.
    pub singles_lost: u64,
    /// Stacks that user space could have walked and that were not sent to it: the process had sent its share.
    pub unsent_of_process: u64,
    /// The same: all processes together had.
    pub unsent_of_machine: u64,
    /// The same: they did not fit into the ring.
    pub unsent_ring_full: u64,
    /// Waits for locks that were recorded.
    pub lock_waits: u64,
    /// Waits for locks that were not recorded for lack of room.
    pub locks_lost: u64,
    /// Owners of locks, of waits or of threads, for which there was no room.
    pub owners_lost: u64,
    /// Waits for locks whose length is missing in the distribution.
    pub lengths_lost: u64,
    /// Samples of an event that has a value whose value could not be read.
    pub values_unreadable: u64,
    /// The same: the value was negative, or too large for a sum.
    pub values_negative: u64,
    /// Walks by frame pointer whose innermost frame may not be set up, and walks at a return whose address cannot be read.
    pub leaves_undecided: u64,
    /// Hits of the probes that follow goroutines.
    pub go_hits: u64,
    /// Walks of Python's frames.
    pub python: PythonWalks,
    walks: [u64; WALK_ENDS],
}

impl Counters {
    /// User stack walks that ended this way.
    #[must_use]
    pub fn walks(&self, end: WalkEnd) -> u64 {
        self.walks[end as usize]
    }

    /// All samples lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_ring_full + self.lost_map_full + self.lost_no_memory + self.lost_busy + self.lost_unseen
    }

    /// Builds the counters from sums indexed by `enum counter` of `bpf/abi/counters.h`.
    #[must_use]
    pub fn from_sums(sums: &[u64; COUNTERS]) -> Self {
        let at = |counter: Counter| sums[counter as usize];
        let mut walks = [0; WALK_ENDS];
        walks.copy_from_slice(&sums[Counter::Walks as usize..][..WALK_ENDS]);
        Self {
            samples: at(Counter::Samples),
            lost_ring_full: at(Counter::LostRingFull),
            lost_map_full: at(Counter::LostMapFull),
            lost_no_memory: at(Counter::LostNoMemory),
            lost_busy: at(Counter::LostBusy),
            switches_lost: at(Counter::SwitchesLost),
            came_unseen: at(Counter::CameUnseen),
            reads_failed: at(Counter::ReadsFailed),
            lost_unseen: at(Counter::LostUnseen),
            outside_namespace: at(Counter::OutsideNamespace),
            memo_hits: at(Counter::MemoHits),
            memo_checked: at(Counter::MemoChecked),
            memo_differed: at(Counter::MemoDiffered),
            frames: at(Counter::Frames),
            frames_walked: at(Counter::FramesWalked),
            stacks_sent: at(Counter::StacksSent),
            deferred: at(Counter::Deferred),
            requests_lost: at(Counter::RequestsLost),
            processes_lost: at(Counter::ProcessesLost),
            threads_lost: at(Counter::ThreadsLost),
            skipped_min_block: at(Counter::SkippedMinBlock),
            skipped_min_block_ns: at(Counter::SkippedMinBlockNs),
            wakers_lost: at(Counter::WakersLost),
            lifetime_ns: at(Counter::LifetimeNs),
            leaves_undecided: at(Counter::LeavesUndecided),
            seams_lost: at(Counter::SeamsLost),
            singles_lost: at(Counter::SinglesLost),
            unsent_of_process: at(Counter::UnsentOfProcess),
            unsent_of_machine: at(Counter::UnsentOfMachine),
            unsent_ring_full: at(Counter::UnsentRingFull),
            lock_waits: at(Counter::LockWaits),
            locks_lost: at(Counter::LocksLost),
            owners_lost: at(Counter::OwnersLost),
            lengths_lost: at(Counter::LengthsLost),
            values_unreadable: at(Counter::ValuesUnreadable),
            values_negative: at(Counter::ValuesNegative),
            go_hits: at(Counter::GoHits),
            python: PythonWalks::from_sums(sums),
            walks,
        }
    }
}

/// How often the kernel skipped a program that follows threads, because an interrupt had stopped the same program on that
/// CPU. It is an upper bound of what is missing, since the skipped run may have been for any thread. Only these programs
/// count: a missed switch is noticed at the next switch of its threads, and the remaining programs are never
/// interrupted by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    wakeups: u64,
    wakers: u64,
    kernel_locks: u64,
}

impl Skipped {
    /// Adds the skipped runs of one program.
    pub(crate) fn note(&mut self, program: &str, times: u64) {
        match program {
            "thread_wakeup" | "thread_wakeup_new" => self.wakeups += times,
            "thread_waking" => self.wakers += times,
            "kernel_lock_begins" | "kernel_lock_ends" => self.kernel_locks += times,
            _ => {}
        }
    }

    /// The difference to `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            wakeups: self.wakeups.saturating_sub(before.wakeups),
            wakers: self.wakers.saturating_sub(before.wakers),
            kernel_locks: self.kernel_locks.saturating_sub(before.kernel_locks),
        }
    }

    pub(crate) fn add_to(self, counters: &mut Counters) {
        counters.switches_lost += self.wakeups;
        counters.wakers_lost += self.wakers;
        counters.locks_lost += self.kernel_locks;
    }
}
