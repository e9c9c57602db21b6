//! The ledger of one profile, and its keys and values.

use std::collections::BTreeMap;
use std::time::Duration;

use recording::{Event, Fetches, HeapCounts, Mode, PythonCounter, PythonWalks, TrampolineCounts, WalkEnd};

use super::entries::Entries;
use super::frames::FrameCounts;
use super::process::ProcessLedger;
use super::walks::{self, Walks};
use super::wall_clock::WallClock;
use crate::figures::sum;

/// What a profile contains and what it lacks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Ledger {
    /// Version of the agent that recorded; if empty, the version of this one.
    pub version: String,
    /// Which profile.
    pub mode: Mode,
    /// The event that was sampled, as `software/cpu-clock`.
    pub event: String,
    /// Samples per second and CPU; 0 off-CPU, where every interval counts, and of other events than the clock.
    pub rate_hz: u32,
    /// The event, if another one was sampled than time on CPUs.
    pub sampled: Option<Event>,
    /// The CPUs that were sampled, in ascending order, if sampling was restricted.
    pub cpus: Option<Vec<u32>>,
    /// Name of the unwind mode.
    pub unwind: String,
    /// Samples recorded.
    pub samples: u64,
    /// Samples lost because unseen stacks did not fit into the ring.
    pub lost_ring_full: u64,
    /// Samples lost because there was no room for another distinct stack.
    pub lost_map_full: u64,
    /// Samples lost for lack of memory elsewhere.
    pub lost_no_memory: u64,
    /// Samples that did not fit into the memory that the capture may take.
    pub lost_memory_limit: u64,
    /// Samples lost because the program interrupted one that was changing the same table.
    pub lost_busy: u64,
    /// Off-CPU intervals lost because the kernel did not report their begin.
    pub lost_unseen: u64,
    /// Estimate of the samples that the kernel's throttling cost; in no other figure.
    pub throttled: u64,
    /// Estimate of the periods in which the kernel did not run the sampler; in no other figure.
    pub not_run: u64,
    /// Samples of an event that has a value that were recorded without it, because it could not be read.
    pub values_unreadable: u64,
    /// The same: it was negative, or too large for a sum.
    pub values_negative: u64,
    /// Samples of processes that do not exist in the agent's PID namespace.
    pub outside_namespace: u64,
    /// Off-CPU intervals shorter than asked for.
    pub skipped_min_block: u64,
    /// The time of these intervals.
    pub skipped_min_block_ns: u64,
    /// Off-CPU intervals recorded without their waker, though wakers were asked for.
    pub wakers_lost: u64,
    /// Off-CPU: the time recorded.
    pub off_cpu_ns: u64,
    /// Locks: the time of the recorded waits.
    pub lock_ns: u64,
    /// Locks: waits of which the owner at their begin is known. Known at the end.
    pub owners_seen: u64,
    /// Locks: waits that ended by a call on the same lock. Known at the end.
    pub released: u64,
    /// Locks: owners, of waits or of threads, for which there was no room.
    pub owners_lost: u64,
    /// Locks: waits whose length is missing in the distribution.
    pub lengths_lost: u64,
    /// The sums of the wall-clock profile, if there is one.
    pub wall_clock: Option<WallClock>,
    /// Samples by the end of the walk of their user stack, in the order of [`Ledger::walk_names`]. While the capture goes on: all
    /// walks so far, also those whose samples no profile will show.
    pub walks: Walks,
    /// The time of these samples, in profiles of time: off-CPU, wall-clock, locks. Known at the end.
    pub walk_ns: Walks,
    /// Samples without a walk: of kernel threads, and of threads that have released their memory on their way out.
    pub no_user_stack: u64,
    /// Off-CPU intervals without a stack, of threads that waited for their first moment on a CPU. Known at the end.
    pub not_run_yet: u64,
    /// Off-CPU intervals without a stack, of threads that slept at the start and ran before their stack was read. Known at the end.
    pub asleep_before: u64,
    /// Walks by frame pointer, in code without unwind information, whose innermost frame may not be set up: its caller may be missing. Also
    /// walks at a return whose address cannot be read.
    pub leaves_undecided: u64,
    /// Stacks that were walked in user space, because their unwind tables were not ready.
    pub deferred: u64,
    /// Stacks that were sent to user space for that and have not been walked yet; in no other figure.
    pub deferred_pending: u64,
    /// Stacks that were recorded as far as the programs walked them and that user space could have walked further: the process had
    /// sent its share of unwalked stacks.
    pub unsent_of_process: u64,
    /// The same: all processes together had.
    pub unsent_of_machine: u64,
    /// The same: they did not fit into the ring.
    pub unsent_ring_full: u64,
    /// Walks of Python frames, by number of [`PythonCounter`]. Off-CPU: of all switches.
    pub python_walks: PythonWalks,
    /// Distinct stacks whose Python frames could not be put into their places among the native ones; they show the native frames.
    pub python_merge_failed: u64,
    /// Processes with an interpreter of Python that is not supported; their stacks show the native frames.
    pub python_unsupported: u64,
    /// Processes whose perf trampolines of CPython were switched on and off, if that was asked for.
    pub trampolines: Option<TrampolineCounts>,
    /// Windows in which allocations were recorded; 0: all of them were.
    pub heap_windows: u64,
    /// What was counted of allocations, if they were recorded.
    pub heap: Option<HeapCounts>,
    /// User frames of all samples; while the capture goes on, of the walks so far.
    pub frames: u64,
    /// Frames whose rule the programs looked up in tables rather than took from the memo.
    pub frames_walked: u64,
    /// Memo hits that were walked again in full, with `self_check`.
    pub memo_checked: u64,
    /// Of these, those that gave another stack: always 0 unless the walker is defective.
    pub memo_differed: u64,
    /// Walks whose outer part came from the memo.
    pub memo_hits: u64,
    /// All frames that are shown, weighted by samples, by what is known of their functions.
    pub shown: FrameCounts,
    /// All frames that are shown, weighted by time, in profiles of time. Known at the end.
    pub shown_ns: FrameCounts,
    /// What was fetched for names, if debuginfod servers were configured. Known at the end.
    pub fetches: Option<Fetches>,
    /// Stacks that were sent to user space.
    pub stacks_sent: u64,
    /// Requests for mappings that did not fit into the ring: stacks of a process stayed incomplete for longer.
    pub requests_lost: u64,
    /// Threads that could not be followed for lack of memory; each is in `lost_no_memory` too.
    pub threads_lost: u64,
    /// Children of targets that could not be followed for lack of room: none of their samples is recorded.
    pub processes_lost: u64,
    /// Threads whose time up to the end of the interval is missing for lack of room.
    pub seams_lost: u64,
    /// Recorded samples that are missing among the single samples, if the recording has single samples. Known at the end.
    pub singles_lost: u64,
    /// Records of process life that were lost: what they may have told was read again.
    pub life_lost: u64,
    /// Records of mappings that were lost: what they may have told was read again.
    pub side_band_lost: u64,
    /// Files whose unwind table could not be made (frame pointers are followed there) or did not fit into the kernel's memory.
    pub tables_failed: u64,
    /// Unwind rules that the programs did not get, as their files have more different ones than a file may have. Walks that need them
    /// are made in user space, within the allowances for unwalked stacks, or end with `unsupported_rule`.
    pub rules_left_out: u64,
    /// How often an unwind table left the kernel's memory for one that was needed more.
    pub tables_evicted: u64,
    /// How often a process that was not sampled for long left the kernel's memory. It comes back with its next sample.
    pub processes_evicted: u64,
    /// Names that processes had for too short a time to be shown: samples of that time have the name before.
    pub renames_skipped: u64,
    /// Targets. Of the whole system: all processes that there were, kernel threads too.
    pub processes: u64,
    /// Processes of which mappings, or files with code, could not be read, also because they had ended.
    pub unreadable_processes: u64,
    /// The capture was cancelled before it began: there is little to tell.
    pub never_began: bool,
    /// CPU time of the agent from its start on, that for names included.
    pub agent_cpu: Duration,
    /// The time in which it was used.
    pub agent_elapsed: Duration,
    /// Length of the capture so far.
    pub elapsed: Duration,
    /// Time in BPF programs, where the kernel counts it.
    pub bpf_cpu: Option<Duration>,
    /// Largest resident set of the agent in KiB.
    pub agent_rss_peak_kib: u64,
    /// Kernel memory of BPF maps in KiB.
    pub bpf_memory_kib: u64,
    /// Distinct stacks seen.
    pub stacks: u64,
    pub(crate) by_process: BTreeMap<u32, ProcessLedger>,
}

impl Ledger {
    /// Samples lost for any cause.
    #[must_use]
    pub fn lost(&self) -> u64 {
        sum([
            self.lost_ring_full,
            self.lost_map_full,
            self.lost_no_memory,
            self.lost_memory_limit,
            self.lost_busy,
            self.lost_unseen,
        ])
    }

    /// What it is the ledger of, in few words: the event if one was sampled, else the mode.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.sampled.as_ref().map_or(self.mode.name(), Event::kind)
    }

    /// Names of the ends in `walks`.
    pub fn walk_names() -> impl Iterator<Item = &'static str> {
        WalkEnd::WALKS.iter().map(|(name, _)| *name)
    }

    /// Walks as the profile shows them: by their time where the widths of the picture are time, else by their number.
    #[must_use]
    pub fn weighted_walks(&self) -> &Walks {
        walks::weighted(&self.walks, &self.walk_ns)
    }

    /// Frames as the profile shows them, weighted as [`Self::weighted_walks`].
    #[must_use]
    pub fn weighted_frames(&self) -> FrameCounts {
        if self.shown_ns.shown() > 0 { self.shown_ns } else { self.shown }
    }

    /// Walks that reached the outermost frame, in percent of all; in profiles of time, their time. `None` if there was no walk.
    #[must_use]
    pub fn rooted_pct(&self) -> Option<f64> {
        walks::rooted_pct(self.weighted_walks())
    }

    /// Frames with a name in percent of all, weighted by samples or time; `None` if there are no frames.
    #[must_use]
    pub fn symbolized_pct(&self) -> Option<f64> {
        self.weighted_frames().named_pct()
    }

    /// Frames whose function is known by its start only, in percent of all, weighted by samples or time; `None` if there are no frames.
    #[must_use]
    pub fn function_start_pct(&self) -> Option<f64> {
        self.weighted_frames().by_start_pct()
    }

    /// What the profile contains of one process, once the capture is over; `None` if that is nothing.
    #[must_use]
    pub fn process(&self, pid: u32) -> Option<&ProcessLedger> {
        self.by_process.get(&pid)
    }

    /// All processes in the profile by number, once the capture is over.
    pub fn each_process(&self) -> impl Iterator<Item = (u32, &ProcessLedger)> {
        self.by_process.iter().map(|(pid, ledger)| (*pid, ledger))
    }

    /// Keys and values in the order of the specification, for terminal and profile comments. Unknown values are left out.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut entries = Entries::default();
        self.put_request(&mut entries);
        if self.mode.has_stacks() {
            entries.put("samples", self.samples);
            entries.put("lost", self.lost());
        }
        self.put_losses(&mut entries);
        self.put_heap(&mut entries);
        if self.mode.has_stacks() {
            self.put_walks(&mut entries);
            self.put_times(&mut entries);
            if !self.never_began {
                self.put_work(&mut entries);
            }
        }
        self.put_costs(&mut entries);
        for (key, count) in self.trampolines.iter().flat_map(TrampolineCounts::entries) {
            entries.put(&key, count);
        }
        for (key, value) in self.fetches.iter().flat_map(Fetches::entries) {
            entries.put(&format!("debuginfod.{key}"), value);
        }
        entries.into_vec()
    }

    fn put_request(&self, entries: &mut Entries) {
        let version = if self.version.is_empty() { env!("CARGO_PKG_VERSION") } else { &self.version };
        entries.put("version", version);
        entries.put("mode", self.mode.name());
        entries.put("event", &self.event);
        if matches!(self.mode, Mode::OnCpu | Mode::Wall) {
            entries.put("rate_hz", self.rate_hz);
        }
        if let Some(period) = self.sampled.as_ref().and_then(|event| event.period) {
            entries.put("period", period);
        }
        if let Some(summed) = self.sampled.as_ref().and_then(Event::summed) {
            entries.put("value", &summed.name);
        }
        if let Some(cpus) = &self.cpus {
            let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
            entries.put("cpus", cpus.join(","));
        }
        if self.mode.has_stacks() {
            entries.put("unwind", &self.unwind);
        }
    }

    fn put_losses(&self, entries: &mut Entries) {
        entries.put_unless_zero([
            ("lost.ring_full", self.lost_ring_full),
            ("lost.map_full", self.lost_map_full),
            ("lost.no_memory", self.lost_no_memory),
            ("lost.memory_limit", self.lost_memory_limit),
            ("lost.busy", self.lost_busy),
            ("lost.unseen", self.lost_unseen),
            ("throttled", self.throttled),
            ("not_run", self.not_run),
            ("bad_value", self.values_unreadable),
            ("negative_value", self.values_negative),
            ("skipped.min_block", self.skipped_min_block),
            ("skipped.min_block_ns", self.skipped_min_block_ns),
            ("skipped.outside_namespace", self.outside_namespace),
            ("wakers_lost", self.wakers_lost),
            ("owners_lost", self.owners_lost),
            ("lengths_lost", self.lengths_lost),
            ("threads_lost", self.threads_lost),
            ("processes_lost", self.processes_lost),
            ("requests_lost", self.requests_lost),
            ("seams_lost", self.seams_lost),
            ("singles_lost", self.singles_lost),
            ("life_lost", self.life_lost),
            ("side_band_lost", self.side_band_lost),
            ("tables_failed", self.tables_failed),
            ("rules_left_out", self.rules_left_out),
            ("tables_evicted", self.tables_evicted),
            ("processes_evicted", self.processes_evicted),
            ("renames_skipped", self.renames_skipped),
        ]);
    }

    fn put_heap(&self, entries: &mut Entries) {
        if self.mode == Mode::Heap {
            let samplers = self.heap.as_ref().map_or(String::new(), |heap| heap.samplers.join(", "));
            let shows = match (self.heap_windows, samplers.is_empty()) {
                (1.., _) => "shares, not totals",
                (0, true) => "totals",
                (0, false) => "totals, estimated from samples",
            };
            entries.put("heap.shows", shows);
            if !samplers.is_empty() {
                entries.put("heap.sampler", samplers);
            }
            entries.put_unless_zero([("heap.windows", self.heap_windows)]);
        }
        for (key, count) in self.heap.iter().flat_map(HeapCounts::entries) {
            entries.put(key, count);
        }
    }

    fn put_walks(&self, entries: &mut Entries) {
        for (name, count) in Self::walk_names().zip(self.walks).filter(|(name, n)| *n > 0 || *name == "root")
        {
            entries.put(&format!("walks.{name}"), count);
        }
        entries.put_percent("rooted_pct", self.rooted_pct());
        entries.put_percent("symbolized_pct", self.symbolized_pct());
        entries.put_percent("function_start_pct", self.function_start_pct());
        entries.put_unless_zero(self.shown.nameless());
        entries.put_unless_zero([
            ("no_user_stack", self.no_user_stack),
            ("not_run_yet", self.not_run_yet),
            ("asleep_before", self.asleep_before),
            ("leaf_undecided", self.leaves_undecided),
            ("walks_deferred", self.deferred),
            ("walks_pending", self.deferred_pending),
            ("unsent.process_limit", self.unsent_of_process),
            ("unsent.machine_limit", self.unsent_of_machine),
            ("unsent.ring_full", self.unsent_ring_full),
        ]);
        for ((name, _), count) in PythonCounter::NAMES.into_iter().zip(self.python_walks) {
            entries.put_unless_zero([(format!("python.{name}").as_str(), count)]);
        }
        entries.put_unless_zero([
            ("python.merge_failed", self.python_merge_failed),
            ("python.unsupported_version", self.python_unsupported),
        ]);
    }

    fn put_times(&self, entries: &mut Entries) {
        if self.mode == Mode::OffCpu {
            entries.put("offcpu_ms", self.off_cpu_ns / 1_000_000);
        }
        if self.mode == Mode::Locks {
            entries.put("locks_ms", self.lock_ns / 1_000_000);
            entries.put("owners_seen", self.owners_seen);
            entries.put("released", self.released);
        }
        if let Some(wall) = &self.wall_clock {
            wall.put_into(entries);
        }
    }

    fn put_work(&self, entries: &mut Entries) {
        entries.put("frames", self.frames);
        entries.put("frames_walked", self.frames_walked);
        entries.put("stacks", self.stacks);
        entries.put("stacks_sent", self.stacks_sent);
        entries.put("memo.hits", self.memo_hits);
        if self.memo_checked > 0 || self.memo_differed > 0 {
            entries.put("memo.checked", self.memo_checked);
            entries.put("memo.differed", self.memo_differed);
        }
    }

    fn put_costs(&self, entries: &mut Entries) {
        if !self.never_began {
            entries.put("processes", self.processes);
            entries.put("unreadable_processes", self.unreadable_processes);
        }
        entries.put("agent_cpu_ms", self.agent_cpu.as_millis());
        let (used, of) = (self.agent_cpu.as_nanos() as u64, self.agent_elapsed.as_nanos() as u64);
        entries.put_share("agent_cpu_pct", used, of);
        if let Some(time) = self.bpf_cpu {
            entries.put("bpf_cpu_ms", format!("{:.1}", time.as_secs_f64() * 1e3));
        }
        if !self.never_began {
            entries.put("bpf_memory_kib", self.bpf_memory_kib);
        }
        entries.put("agent_rss_peak_kib", self.agent_rss_peak_kib);
    }
}
