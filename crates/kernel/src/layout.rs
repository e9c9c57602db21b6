//! Preparation of the object before it is loaded: the sizes of its maps, which depend on options and the number of CPUs,
//! and the settings that the programs read.

use std::mem::offset_of;

use libbpf_rs::OpenObject;
use libbpf_rs::libbpf_sys::BPF_F_NO_PREALLOC;

use crate::abi::skeleton::{self, types};
use crate::error::load_error;
use crate::go_locks::MAX_GO_WAITS;
use crate::heap::{MAX_CALLS, MAX_HEAP_SITES};
use crate::python::{MAX_PYTHONS, MAX_SENT_CODES};
use crate::sampler_states::Further;
use crate::settings::{FurtherEvent, SampledIn};
use crate::sum_key::Event;
use crate::{Error, OffCpu, Settings, memory};

/// Entries of the map of threads where the kernel has no task storage for these programs (before Linux 5.12). Twice the
/// number of threads at the start is added.
const MAX_THREADS: u32 = 65_536;
/// Bounds of the statistics of processes between two calls of
/// [`Kernel::take_process_stats`](crate::Kernel::take_process_stats): pairs of process and CPU, and occupied buckets.
const MAX_PROCESS_CPUS: u32 = 32_768;
const MAX_PROCESS_BUCKETS: u32 = 131_072;
/// Pairs of process and event with counts between two such calls.
const MAX_PROCESS_COUNTERS: u32 = 32_768;

/// Records of threads at one seam. Twice the number of threads at the start is added.
const MAX_SEAM_RECORDS: u32 = 16_384;

/// Memory of all memos together. Each possible CPU has its own memos, and a machine may have hundreds of CPUs.
const MEMOS_BYTES: usize = 12 << 20;

/// Threads that wait for a lock of the kernel at one moment.
const MAX_KERNEL_WAITS: u32 = 65_536;

/// Boxes for unwalked stacks, at 70 KiB, if there are so many slots. A program uses one for some microseconds, and few samples need any.
const RAW_BOXES: u32 = 32;

/// States of walks of Python's frames, at 23 KiB, if there are so many slots. A sample of Python has one for some 20 microseconds: with 512 CPUs
/// that all run Python at 999 Hz, 10 of them are in use.
const PYTHON_STATES: u32 = 64;

/// What determines the sizes of the maps.
pub(crate) struct Layout<'a> {
    pub(crate) settings: &'a Settings,
    /// Chunks of the table pool.
    pub(crate) chunks: u32,
    /// Possible CPUs, present or not: the kernel's CPU numbers go up to this.
    pub(crate) cpus: u32,
    /// The kernel has task storage for the programs.
    pub(crate) task_storage: bool,
    /// Tables that are sized for a crowd take memory for what is in them: see [`memory`].
    pub(crate) growing: bool,
    /// The number of the sampled event whose object this is.
    pub(crate) event: usize,
}

/// What is followed besides the sampled events.
#[derive(Clone, Copy, Debug, Default)]
struct Follow {
    threads: bool,
    kernel_locks: bool,
    goroutines: bool,
}

impl Follow {
    fn of(settings: &Settings) -> Self {
        Self {
            threads: settings.follows_threads(),
            kernel_locks: settings.kernel_locks,
            goroutines: settings.go_locks,
        }
    }
}

/// Whether the programs of an event run at probes of programs.
fn is_at_probes(sampled_in: SampledIn) -> bool {
    matches!(sampled_in, SampledIn::Program | SampledIn::Return | SampledIn::Allocator)
}

/// Slots for programs that can be preempted: user space runs one iterator at a time, and no other program claims slots.
const CLAIMABLE: u32 = 1;

/// The slots of `bpf/sampler_state.h`: the first slot of each context, indexed by context, and the number of slots.
#[derive(Debug)]
struct Slots {
    first: [u32; CONTEXTS],
    claimable: u32,
    all: u32,
}

impl Slots {
    /// Gives slots to the contexts in which a program runs. The others begin where there are no slots. Programs that only count use those
    /// of the timer, which are always there; those of the sampler do not depend on `threads`.
    fn of(cpus: u32, follow: Follow, sampled_in: SampledIn) -> Self {
        use types::sampler_context as contexts;
        let mut slots = Self { first: [u32::MAX - cpus; CONTEXTS], claimable: 0, all: 0 };
        let mut add = |context: contexts, number| {
            slots.first[context.0 as usize] = slots.all;
            slots.all += number;
        };
        add(contexts::CONTEXT_HARDIRQ, cpus);
        match sampled_in {
            SampledIn::Hardware | SampledIn::Tracepoint | SampledIn::Function => {
                add(contexts::CONTEXT_ANY, cpus);
            }
            SampledIn::Program | SampledIn::Return | SampledIn::Allocator => {
                add(contexts::CONTEXT_PROBE, cpus)
            }
            SampledIn::Timer | SampledIn::Task => {}
        }
        let threads = follow.threads;
        if threads || sampled_in == SampledIn::Task {
            add(contexts::CONTEXT_TASK, cpus);
        }
        if threads {
            add(contexts::CONTEXT_CLAIMED, CLAIMABLE);
            slots.claimable = CLAIMABLE;
        }
        if follow.kernel_locks {
            add(contexts::CONTEXT_KERNEL_LOCK, cpus);
        }
        if follow.goroutines && !is_at_probes(sampled_in) {
            add(contexts::CONTEXT_PROBE, cpus);
        }
        slots
    }
}

/// Whether this map has the settings of an object.
pub(crate) fn has_settings(map: &str) -> bool {
    map.ends_with(".rodata")
}

/// The context in which the program of an event runs.
fn context_of(sampled_in: SampledIn) -> usize {
    let context = match sampled_in {
        SampledIn::Timer => types::sampler_context::CONTEXT_HARDIRQ,
        SampledIn::Task => types::sampler_context::CONTEXT_TASK,
        SampledIn::Hardware | SampledIn::Tracepoint | SampledIn::Function => {
            types::sampler_context::CONTEXT_ANY
        }
        SampledIn::Program | SampledIn::Return | SampledIn::Allocator => {
            types::sampler_context::CONTEXT_PROBE
        }
    };
    context.0 as usize
}

/// The slots of further sampled events, behind all others.
pub(crate) fn further_slots(settings: &Settings, cpus: u32) -> Further {
    let first = Slots::of(cpus, Follow::of(settings), settings.sampled_in).all;
    Further { first, of_each: cpus, events: settings.further.len() }
}

/// The slot in which the program of a sampled event runs on the first CPU, by the number of the event. That of the first event is the same
/// with and without other programs.
pub(crate) fn sampler_slot(settings: &Settings, cpus: u32, event: usize) -> u32 {
    match event {
        0 => Slots::of(cpus, Follow::default(), settings.sampled_in).first[context_of(settings.sampled_in)],
        _ => further_slots(settings, cpus).slots_of(event).start,
    }
}

const CONTEXTS: usize = types::sampler_context::CONTEXTS.0 as usize;

/// Memos for each CPU: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memos {
    /// Sampled events.
    sampled: u32,
    /// Memos of the sampler, for each of them.
    sampler: u32,
    /// Memos of the programs that follow threads; 0 without those programs. They need more: threads alternate on a CPU and
    /// block at the same places again and again.
    scheduler: u32,
    /// Memos of the programs at waits of goroutines, and of those at waits for locks of the kernel; 0 without locks.
    locks: u32,
}

impl Memos {
    /// The useful number of memos, reduced until they fit into [`MEMOS_BYTES`] or one of each kind is left.
    fn of(cpus: u32, threads: bool, locks: bool, sampled: u32) -> Self {
        let scheduler = if threads { 16 } else { 0 };
        let mut memos = Self { sampled, sampler: 4, scheduler, locks: if locks { 2 } else { 0 } };
        while memos.bytes(cpus) > MEMOS_BYTES && memos.sampler.max(memos.scheduler) > 1 {
            memos.locks = memos.locks.min(1);
            if memos.scheduler > 2 * memos.sampler || memos.sampler == 1 {
                memos.scheduler /= 2;
            } else {
                memos.sampler /= 2;
            }
        }
        memos
    }

    fn bytes(self, cpus: u32) -> usize {
        (cpus * self.of_a_cpu()) as usize * size_of::<types::memo>()
    }

    fn of_a_cpu(self) -> u32 {
        self.sampled * self.sampler + self.scheduler + 2 * self.locks
    }

    /// The first one for locks. They come last.
    fn first_for_locks(self, cpus: u32) -> u32 {
        cpus * (self.sampled * self.sampler + self.scheduler)
    }

    /// The first memo of a sampled event. Those of the scheduler follow on those of the first one.
    fn first_of(self, cpus: u32, event: usize) -> u32 {
        match event as u32 {
            0 => 0,
            event => cpus * (event * self.sampler + self.scheduler),
        }
    }
}

impl Layout<'_> {
    /// Sizes the maps and writes the settings.
    ///
    /// # Errors
    /// [`Error::Load`]; [`Error::Missing`] if the object differs from the one at build time.
    pub(crate) fn apply(&self, object: &mut OpenObject) -> Result<(), Error> {
        let Layout { settings, chunks, cpus, task_storage, growing, .. } = *self;
        let threads = settings.follows_threads();
        let memos = Memos::of(cpus, threads, settings.locks, 1 + settings.further.len() as u32);
        let slots = self.slots();
        for mut map in object.maps_mut() {
            if growing && memory::grows(&map.name().to_string_lossy()) {
                map.set_map_flags(BPF_F_NO_PREALLOC).map_err(load_error)?;
            }
            let entries = match map.name().to_string_lossy().as_ref() {
                "sampler_states" => slots.all,
                "rawboxes" => slots.all.min(RAW_BOXES),
                "python_walks" if settings.python => slots.all.min(PYTHON_STATES),
                "pythons" if settings.python => MAX_PYTHONS,
                "sent_codes" if settings.python => MAX_SENT_CODES,
                "memos" => cpus * memos.of_a_cpu(),
                "lock_holders" if settings.locks => {
                    MAX_THREADS.saturating_add(settings.threads.saturating_mul(2))
                }
                "seam_records" if settings.splits_intervals() => {
                    MAX_SEAM_RECORDS.saturating_add(settings.threads.saturating_mul(2))
                }
                "threads" => {
                    map.set_autocreate(threads && task_storage).map_err(load_error)?;
                    continue;
                }
                "threads_by_id" => {
                    map.set_autocreate(threads && !task_storage).map_err(load_error)?;
                    MAX_THREADS.saturating_add(settings.threads.saturating_mul(2))
                }
                "schedules" if settings.sched_stats.is_some() => cpus,
                "process_schedules_a" | "process_schedules_b" if settings.each_process() => MAX_PROCESS_CPUS,
                "process_buckets_a" | "process_buckets_b" if settings.each_process() => MAX_PROCESS_BUCKETS,
                "split_events" => cpus * u32::from(settings.split_events().max(1)),
                "split_last" if settings.split_events() > 0 => cpus,
                "process_counters_a" | "process_counters_b" if settings.split_events() > 0 => {
                    MAX_PROCESS_COUNTERS
                }
                // TablePool::wait_for_programs needs one more entry.
                "table_pool" => chunks + 1,
                "live_objects" if settings.sampled_in == SampledIn::Allocator => settings.live_objects,
                "kernel_waits" if settings.kernel_locks => MAX_KERNEL_WAITS,
                "go_waits" if settings.go_locks => MAX_GO_WAITS,
                "heap_calls" | "noted_objects" if settings.sampled_in == SampledIn::Allocator => MAX_CALLS,
                "heap_sites" if settings.sampled_in == SampledIn::Allocator => MAX_HEAP_SITES,
                "chosen_threads" => settings.tids.len().max(1) as u32,
                "procs" => settings.max_processes,
                "totals_a" | "totals_b" => settings.sums(),
                "ring" => settings.ring_bytes,
                name if has_settings(name) => {
                    self.write_settings(&mut map, memos)?;
                    continue;
                }
                _ => continue,
            };
            map.set_max_entries(entries).map_err(load_error)?;
        }
        Ok(())
    }

    /// The slots of all programs of this object.
    fn slots(&self) -> Slots {
        let settings = self.settings;
        let mut slots = Slots::of(self.cpus, Follow::of(settings), settings.sampled_in);
        if let Some(of_event) = self.further_event() {
            let first = further_slots(settings, self.cpus).slots_of(self.event).start;
            slots.first[context_of(of_event.sampled_in)] = first;
        }
        slots.all += settings.further.len() as u32 * self.cpus;
        slots
    }

    /// The event whose object this is, unless it is the first one.
    fn further_event(&self) -> Option<&FurtherEvent> {
        self.settings.further.get(self.event.checked_sub(1)?)
    }

    fn write_settings(&self, map: &mut libbpf_rs::OpenMapMut<'_>, memos: Memos) -> Result<(), Error> {
        let settings = self.settings;
        let off_cpu = settings.off_cpu.as_ref();
        let (profiled_states, recorded_states) = off_cpu.map_or((0, 0), OffCpu::masks);
        let bytes = map.initial_value_mut().unwrap_or_default();
        // The map ends after the last setting; the struct has padding after it.
        let end = offset_of!(skeleton::types::rodata, pid_namespace) + size_of::<u32>();
        if bytes.len() != end {
            return Err(Error::Missing { kind: "map", name: ".rodata" });
        }
        let slots = self.slots();
        let (sample_every, value) = match self.further_event() {
            Some(event) => (event.sample_every, &event.value),
            None => (settings.sample_every, &settings.value),
        };
        let value_plan = value.as_ref().map(|plan| plan.encode().ok_or(Error::ValuePlan)).transpose()?;
        let value_plan = value_plan.unwrap_or_default();
        let values = skeleton::types::rodata {
            first_slot: slots.first,
            raw_boxes: slots.all.min(RAW_BOXES),
            python_states: slots.all.min(PYTHON_STATES),
            claimable_slots: slots.claimable,
            seed: settings.seed,
            min_block_ns: off_cpu.map_or(0, |off_cpu| off_cpu.min_block_ns),
            sched_stats: settings.sched_stats.is_some(),
            each_process: settings.each_process(),
            split_by_process: settings.split_events(),
            wall_clock: off_cpu.is_some_and(|off_cpu| off_cpu.wall_clock),
            wakers: off_cpu.is_some_and(|off_cpu| off_cpu.wakers),
            locks: settings.locks,
            kernel_locks: settings.kernel_locks,
            // As below, a mask is made of it.
            lock_memos: memos.locks.max(1),
            first_lock_memo: memos.first_for_locks(self.cpus),
            task_storage: self.task_storage,
            recorded_states,
            walked_states: settings.walked_states(),
            profiled_states,
            possible_cpus: self.cpus,
            sampler_memos: memos.sampler,
            first_memo: memos.first_of(self.cpus, self.event),
            sampled_event: Event::SAMPLED.get(self.event).map_or(0, |event| *event as u32),
            // The programs use this number minus one as a mask, so it must not be 0.
            sched_memos: memos.scheduler.max(1),
            whole_system: settings.whole_system,
            without_children: settings.without_children,
            kernel_stacks: settings.kernel_stacks,
            kernel_stacks_by_process: settings.kernel_stacks_by_process,
            single_samples: settings.single_samples,
            single_intervals: settings.single_intervals.is_some(),
            single_min_ns: settings.single_intervals.unwrap_or_default().as_nanos() as u64,
            per_thread: settings.per_thread,
            chooses_threads: !settings.tids.is_empty(),
            chosen_cgroup: settings.cgroup.map_or(0, |cgroup| cgroup.id),
            chosen_first_level: settings.cgroup.map_or(0, |cgroup| cgroup.levels.0),
            chosen_last_level: settings.cgroup.map_or(0, |cgroup| cgroup.levels.1),
            sample_every: sample_every.max(1),
            value_plan,
            python: settings.python,
            check_memo: settings.check_memo,
            without_memo: settings.without_memo,
            pid_namespace: settings.pid_namespace,
        };
        // SAFETY: `values` is a live local of plain data, and at least as long as `bytes`, whose length is checked above.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const values).cast::<u8>(), bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::map_bytes;
    use crate::object::OBJECT;

    #[test]
    fn memos_shrink_with_the_number_of_possible_cpus_down_to_one() {
        let both = |cpus| Memos::of(cpus, true, false, 1);
        let memos = |sampler, scheduler| Memos { sampled: 1, sampler, scheduler, locks: 0 };
        assert_eq!(both(2), memos(4, 16));
        assert_eq!(both(24), memos(4, 16));
        assert_eq!(both(128), memos(1, 2));
        assert_eq!(Memos::of(64, false, false, 1), memos(4, 0));
        assert_eq!(Memos::of(2, true, true, 1), Memos { locks: 2, ..memos(4, 16) });
        assert_eq!(Memos::of(256, true, true, 1).locks, 1);
        for cpus in 1..=8192 {
            for (threads, locks) in [(false, false), (true, false), (true, true)] {
                let sampled = 1 + cpus % 6;
                let memos = Memos::of(cpus, threads, locks, sampled);
                let least =
                    Memos { sampled, sampler: 1, scheduler: u32::from(threads), locks: u32::from(locks) };
                assert!(memos.bytes(cpus) <= MEMOS_BYTES || memos == least, "{cpus} {memos:?}");
                assert!(memos.sampler.is_power_of_two() && memos.scheduler.max(1).is_power_of_two());
                assert!(memos.scheduler >= least.scheduler);
            }
        }
    }

    #[test]
    fn each_context_with_programs_has_slots_of_its_own() {
        use types::sampler_context as contexts;
        let none = Follow::default();
        let threads = Follow { threads: true, ..none };
        let all = Follow { kernel_locks: true, goroutines: true, ..threads };
        let timer = [(1, none), (1, threads), (2, threads), (128, all), (8192, none)];
        let timer = timer.map(|(cpus, follow)| (cpus, follow, SampledIn::Timer));
        let others = [(1, none), (2, threads), (3, all)].into_iter().flat_map(|(cpus, follow)| {
            [
                SampledIn::Task,
                SampledIn::Hardware,
                SampledIn::Tracepoint,
                SampledIn::Program,
                SampledIn::Return,
                SampledIn::Function,
                SampledIn::Allocator,
            ]
            .map(|sampled_in| (cpus, follow, sampled_in))
        });
        for (cpus, follow, sampled_in) in timer.into_iter().chain(others) {
            let slots = Slots::of(cpus, follow, sampled_in);
            let mut used = vec![false; slots.all as usize];
            let per_cpu = [
                contexts::CONTEXT_TASK,
                contexts::CONTEXT_HARDIRQ,
                contexts::CONTEXT_ANY,
                contexts::CONTEXT_PROBE,
                contexts::CONTEXT_KERNEL_LOCK,
            ];
            let per_cpu = per_cpu.iter().map(|context| (slots.first[context.0 as usize], cpus));
            let claimed = (slots.first[contexts::CONTEXT_CLAIMED.0 as usize], slots.claimable);
            for (first, number) in per_cpu.chain([claimed]) {
                for slot in first..first + number {
                    // The slots of a context without programs are in no map.
                    if let Some(used) = used.get_mut(slot as usize) {
                        assert!(!std::mem::replace(used, true), "slot {slot} of {slots:?}");
                    } else {
                        assert!(first > slots.all, "{slots:?}");
                    }
                }
            }
            assert!(used.iter().all(|used| *used), "{slots:?}");
            let settings = Settings { sampled_in, ..Settings::default() };
            assert_eq!(sampler_slot(&settings, cpus, 0), slots.first[context_of(sampled_in)]);
        }
    }

    #[test]
    fn further_events_have_slots_and_memos_behind_all_others() {
        let event = |sampled_in| FurtherEvent { sampled_in, sample_every: 1, value: None };
        let further = vec![event(SampledIn::Task), event(SampledIn::Program)];
        let off_cpu = OffCpu { states: Vec::new(), min_block_ns: 0, wall_clock: false, wakers: false };
        let settings = Settings { off_cpu: Some(off_cpu), further, ..Settings::default() };
        let layout = |event| Layout {
            settings: &settings,
            chunks: 1,
            cpus: 3,
            task_storage: true,
            growing: true,
            event,
        };
        let [first, second, third] = [0, 1, 2].map(|event| layout(event).slots());
        let base = further_slots(&settings, 3).first;
        assert_eq!([first.all, second.all, third.all], [base + 6; 3]);
        let task = types::sampler_context::CONTEXT_TASK.0 as usize;
        let probe = types::sampler_context::CONTEXT_PROBE.0 as usize;
        assert!(first.first[task] < base, "the programs that follow threads have their own");
        assert_eq!((second.first[task], third.first[probe]), (base, base + 3));
        assert_eq!([1, 2].map(|event| sampler_slot(&settings, 3, event)), [base, base + 3]);
        let memos = Memos { sampled: 3, sampler: 4, scheduler: 16, locks: 2 };
        assert_eq!([0, 1, 2].map(|event| memos.first_of(3, event)), [0, 60, 72]);
        assert_eq!((memos.first_for_locks(3), 3 * memos.of_a_cpu()), (84, 96));
    }

    /// Bytes of all maps, without the chunks that the table pool allocates on demand.
    fn bytes(settings: &Settings, cpus: u32) -> usize {
        let mut object =
            libbpf_rs::ObjectBuilder::default().open_memory(&OBJECT.0).expect("the object can be read");
        let layout = Layout { settings, chunks: 512, cpus, task_storage: true, growing: false, event: 0 };
        layout.apply(&mut object).expect("every map takes its size");
        let maps = object.maps().filter(|map| map.autocreate());
        maps.map(|map| map_bytes(map.map_type(), map.key_size(), map.value_size(), map.max_entries())).sum()
    }

    #[test]
    fn a_profile_has_bounded_memory_on_a_machine_with_many_cpus() {
        let off_cpu = OffCpu { states: Vec::new(), min_block_ns: 0, wall_clock: false, wakers: false };
        let on = Settings::default();
        let both = Settings { off_cpu: Some(off_cpu), ..Settings::default() };
        let mib = |settings: &Settings, cpus| bytes(settings, cpus) >> 20;
        assert!(mib(&on, 2) < 20, "{}", mib(&on, 2));
        assert!(mib(&on, 128) < 36, "{}", mib(&on, 128));
        assert!(mib(&both, 128) < 48, "{}", mib(&both, 128));
        assert!(mib(&on, 128) > mib(&on, 2), "every CPU has its own");
    }
}
