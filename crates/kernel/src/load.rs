//! The loaded programs: what user space asks of them, each answered by one of the parts that hold their maps. What is in the object and which
//! of its programs are loaded is in `object.rs`.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use metrics::Scheduling;
use profile::Svma;
use unwind::{Rule, Table};

use crate::abi::{CHUNK_BYTES, control};
use crate::control_words::ControlWords;
use crate::counters::Skipped;
use crate::error::load_error;
use crate::go_locks::{self, GoProgram};
use crate::heap::{HeapCounter, HeapCounts, HeapMaps, HeapProgram};
use crate::heap_site::HeapSite;
use crate::layout::{self, Layout};
use crate::life::{self, LifeCounts};
use crate::memory::{MapMemory, ProcessPlaces, TableRoom, tables_can_grow};
use crate::messages::{Message, Ring};
use crate::processes::{ProcessUse, Processes};
use crate::python::{Python, Pythons};
use crate::room::TableTrial;
use crate::runs::{Runs, runs};
use crate::sampler_states::{SamplerStates, Ticks};
use crate::samplers::Samplers;
use crate::sched_stats::{ProcessId, ProcessStats, StatsMaps};
use crate::sides::{self, Cut, Sides, Sums};
use crate::table_pool::TablePool;
use crate::table_uses::TableUses;
use crate::thread_iter::{self, ThreadIter};
use crate::{
    Counters, Error, KernelProcess, Memory, RecordedProcess, Settings, SingleSample, TableHandle, log,
    object, tables,
};

/// The loaded programs and their maps.
pub struct Kernel {
    object: Object,
    links: Vec<Link>,
    pool: TablePool,
    processes: Processes,
    pythons: Pythons,
    sides: Sides,
    /// Skipped runs up to the last cut.
    skipped: Skipped,
    /// Intervals of threads are recorded, and split at a cut.
    splits: bool,
    /// Kernel frames are taken by default.
    kernel_stacks: bool,
    ring: Ring,
    life_counts: MapHandle,
    /// Links of the programs that follow threads. They are detached before the others.
    scheduler_links: Vec<Link>,
    /// The link of the program that sees threads exit, which is detached after those.
    exits_link: Vec<Link>,
    words: ControlWords,
    table_uses: TableUses,
    epoch: u32,
    cpus: u32,
    scheduler_programs: Vec<&'static str>,
    follows_exits: bool,
    samplers: Samplers,
    sched_stats: StatsMaps,
    heap: HeapMaps,
    memory: MapMemory,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("memory", &self.memory()).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads the programs. Nothing is attached yet.
    ///
    /// # Errors
    /// [`Error::Privilege`] without CAP_BPF and CAP_PERFMON; [`Error::Load`] with libbpf's log if the kernel refuses
    /// a program; [`Error::Mmap`], [`Error::Map`] if a map cannot be set up.
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        log::install();
        Self::load_for(settings, libbpf_rs::num_possible_cpus().map_err(load_error)? as u32)
    }

    /// For a machine with so many possible CPUs.
    fn load_for(settings: &Settings, cpus: u32) -> Result<Self, Error> {
        if !settings.follows_threads() {
            return Self::load_with(settings, cpus, false);
        }
        match Self::load_with(settings, cpus, true) {
            // Before Linux 5.12 these programs cannot use task storage.
            Err(Error::Load { .. } | Error::Map { .. }) => Self::load_with(settings, cpus, false),
            loaded => loaded,
        }
    }

    fn load_with(settings: &Settings, cpus: u32, task_storage: bool) -> Result<Self, Error> {
        let chunks = (settings.table_pool_bytes / CHUNK_BYTES).clamp(1, 4096) as u32;
        let mut object = object::open()?;
        let growing = tables_can_grow();
        let layout = Layout { settings, chunks, cpus, task_storage, growing, event: 0 };
        layout.apply(&mut object)?;
        object::choose_programs(&mut object, settings);
        let object = object.load().map_err(load_error)?;
        let map = |name| object::find_map(&object, name);
        let memory = object::map_memory(&object, growing)?;
        let chosen = map("chosen_threads")?;
        for tid in &settings.tids {
            chosen.update(&tid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).map_err(|source| {
                Error::Map { action: "enter a thread into", map: "chosen_threads", source }
            })?;
        }
        let words = ControlWords::new(&map(ControlWords::MAP)?)?;
        let tables = [map("totals_a")?, map("totals_b")?];
        let further = layout::further_slots(settings, cpus);
        let states = SamplerStates::new(&map("sampler_states")?, further)?;
        Ok(Self {
            links: Vec::new(),
            pool: TablePool::new(map("table_pool")?, chunks)?,
            pythons: Pythons::new(map("pythons")?),
            processes: Processes::new(map("procs")?, words.clone()),
            skipped: Skipped::default(),
            splits: settings.splits_intervals(),
            kernel_stacks: settings.kernel_stacks,
            sides: Sides::new(tables, map("seam_records")?, states, words.clone()),
            ring: Ring::new(&map("ring")?)?,
            life_counts: map("life_counts")?,
            scheduler_links: Vec::new(),
            exits_link: Vec::new(),
            cpus,
            scheduler_programs: thread_iter::programs(settings),
            follows_exits: thread_iter::follows_exits(settings),
            samplers: Samplers::load(&object, &layout)?,
            sched_stats: StatsMaps::find(map, words.clone())?,
            table_uses: TableUses::new(&map(TableUses::MAP)?)?,
            epoch: 0,
            heap: HeapMaps::find(map)?,
            words,
            memory,
            object,
        })
    }

    /// Attaches the programs that report fork, exec, exit and new names of recorded processes as [`Message::Life`].
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn follow_processes(&mut self) -> Result<(), Error> {
        self.links.extend(object::attach(&mut self.object, &object::FOLLOWERS)?);
        Ok(())
    }

    /// Whether forks and exits of processes that are not recorded are reported too.
    pub fn tell_all_lives(&self, on: bool) {
        self.words.set(control::TELLS_ALL_LIVES, on.into());
    }

    /// Waits for the end of all runs of programs that began before this call.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn wait_for_programs(&mut self) -> Result<(), Error> {
        self.pool.wait_for_programs()
    }

    /// Attaches the programs that follow threads through the scheduler. Until [`Self::enter_threads`] they know new
    /// threads only.
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn follow_threads(&mut self) -> Result<(), Error> {
        self.scheduler_links.extend(object::attach(&mut self.object, &self.scheduler_programs)?);
        if self.follows_exits {
            self.exits_link = object::attach(&mut self.object, &[thread_iter::EXITS])?;
        }
        Ok(())
    }

    /// Follows all existing threads from `start_ns` (CLOCK_MONOTONIC) on, except those that are followed already. Returns the new ones that
    /// are off CPU now as [`Message::Raw`] without stack bytes; their sums come under the hashes of these messages.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    pub fn enter_threads(&mut self, start_ns: u64) -> Result<Vec<Message>, Error> {
        self.words.set(control::FOLLOWED_FROM_NS, start_ns);
        thread_iter::run(&mut self.object, thread_iter::BEGIN)
    }

    /// The threads that have not run since [`Self::enter_threads`], as [`Message::StillAsleep`].
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    pub fn still_asleep(&mut self) -> Result<Vec<Message>, Error> {
        thread_iter::run(&mut self.object, thread_iter::STILL_ASLEEP)
    }

    /// Stops following threads, and adds the intervals that are still open up to `end_ns`.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    pub fn leave_threads(&mut self, end_ns: u64) -> Result<(), Error> {
        if self.scheduler_links.is_empty() {
            return Ok(());
        }
        self.scheduler_links.clear();
        self.pool.wait_for_programs()?;
        self.words.set(control::FOLLOWED_TO_NS, end_ns.max(self.sides.seam_ns()));
        let ended = thread_iter::run(&mut self.object, thread_iter::END).map(drop);
        // Until here: of a thread that exits before the iterator comes, no other program counts the lifetime.
        self.exits_link.clear();
        ended
    }

    /// The program to attach to the events that are sampled, which must happen where the settings say. `event`: 0, or the number of a further
    /// event, from 1 on.
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub fn with_sampler<T>(
        &self,
        event: usize,
        attach: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        self.samplers.with_program(event, &self.object, attach)
    }

    /// A program for functions of allocators, with [`crate::SampledIn::Allocator`].
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub fn with_heap_program<T>(
        &self,
        which: HeapProgram,
        attach: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        let name = which.name();
        let program = self.object.progs().find(|program| program.name() == name);
        program.map(|program| attach(program.as_fd())).ok_or(Error::Missing { kind: "program", name })
    }

    /// A program for waits of goroutines, with [`Settings::go_locks`].
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub fn with_go_program<T>(
        &self,
        which: GoProgram,
        attach: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        go_locks::with_program(&self.object, which, attach)
    }

    /// What the programs at functions of allocators have counted.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn heap_counts(&self) -> Result<HeapCounts, Error> {
        self.heap.counts()
    }

    /// Tells the programs where arguments are at the place of a probe at this offset of its file. Places whose offsets have the same
    /// [`HeapSite::key`] share it.
    ///
    /// # Errors
    /// [`Error::ValuePlan`], [`Error::Map`].
    pub fn set_heap_site(&mut self, offset: u64, site: &HeapSite) -> Result<(), Error> {
        self.heap.set_site(offset, site)
    }

    /// What counts calls on another thread.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn heap_counter(&self) -> Result<HeapCounter, Error> {
        self.heap.counter()
    }

    /// Live objects that are known at most.
    #[must_use]
    pub fn live_object_capacity(&self) -> u32 {
        self.heap.capacity()
    }

    /// Makes room in the table of live objects: takes out those of some processes. In the sums they stay in use.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn forget_objects(&mut self, of: impl FnMut(u32) -> bool) -> Result<(), Error> {
        self.heap.forget(of)
    }

    /// Installs an unwind table, so that mappings can refer to it.
    ///
    /// # Errors
    /// [`Error::TablePoolFull`] at the limit of [`Settings::table_pool_bytes`]; [`Error::Map`], [`Error::Mmap`].
    pub fn install_table(&mut self, table: &Table) -> Result<TableHandle, Error> {
        tables::install(&mut self.pool, table, self.table_uses.number(self.epoch))
    }

    /// Begins the next epoch, and gives its number. Programs note from now on which tables and processes they use in it; each thread's
    /// next walk finds nothing that is remembered from an earlier epoch. At first the epoch is 0, and nothing is noted.
    pub fn begin_epoch(&mut self) -> u32 {
        self.epoch = self.processes.begin_epoch();
        self.epoch
    }

    /// The last epoch in which a walk used a table, or in which it was installed.
    #[must_use]
    pub fn last_use(&self, table: &TableHandle) -> u32 {
        self.table_uses.last(table.use_number)
    }

    /// A copy of what is free for tables and mappings, to try what would find room. `soon`: with what was freed and is used again soon.
    pub fn table_trial(&mut self, soon: bool) -> TableTrial {
        TableTrial(self.pool.free_extents(soon))
    }

    /// Whether the table behind a handle is equal to this one.
    #[must_use]
    pub fn is_same_table(&self, handle: &TableHandle, table: &Table) -> bool {
        tables::is_same(&self.pool, handle, table)
    }

    /// The rule for a link-time address, as the programs would find it.
    #[must_use]
    pub fn lookup(&self, table: &TableHandle, address: Svma) -> Option<Rule> {
        tables::lookup(&self.pool, table, address)
    }

    /// What tables and mappings may take, and what is left of it.
    #[must_use]
    pub fn table_room(&mut self) -> TableRoom {
        TableRoom {
            limit_bytes: self.pool.limit_bytes(),
            free_bytes: self.pool.free_bytes(),
            soon_free_bytes: self.pool.soon_free_bytes(),
        }
    }

    /// Frees a table. No mapping of any process may refer to it.
    pub fn remove_table(&mut self, table: TableHandle) {
        tables::remove(&mut self.pool, table);
    }

    /// Starts recording a process.
    ///
    /// # Errors
    /// [`Error::TablePoolFull`], [`Error::Map`].
    pub fn add_process(&mut self, process: &KernelProcess<'_>) -> Result<(), Error> {
        self.processes.set(&mut self.pool, process, true).map(drop)
    }

    /// Updates a recorded process. Returns false if the programs do not record it, or no longer do.
    ///
    /// # Errors
    /// [`Error::TablePoolFull`], [`Error::Map`].
    pub fn update_process(&mut self, process: &KernelProcess<'_>) -> Result<bool, Error> {
        self.processes.set(&mut self.pool, process, false)
    }

    /// Chooses whether kernel frames are taken of a recorded process, of its later programs and of its future children. False: the
    /// programs do not record it. It has no effect without [`Settings::kernel_stacks_by_process`].
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_kernel_stacks(&mut self, pid: u32, on: bool) -> Result<bool, Error> {
        self.processes.set_other_kernel_stacks(pid, on != self.kernel_stacks)
    }

    /// Tells the interpreter of Python in a recorded process, whose frames are walked from now on, in its later children too; or that
    /// there is none. `exec_id` is that of the program: an exec ends it. False: the frames are not walked, because the process runs
    /// another program, the programs cannot follow the interpreter, or no room is left. It has no effect without
    /// [`Settings::python`].
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_python(&mut self, pid: u32, exec_id: u64, python: Option<&Python>) -> Result<bool, Error> {
        self.processes.set_python(&mut self.pythons, pid, exec_id, python)
    }

    /// Forgets a process that ended before `ended_ns` (CLOCK_MONOTONIC). A later process with the same number stays.
    pub fn remove_process(&mut self, pid: u32, ended_ns: u64) {
        self.processes.remove(&mut self.pool, pid, ended_ns);
    }

    /// The places for processes.
    #[must_use]
    pub fn process_places(&self) -> ProcessPlaces {
        self.processes.places()
    }

    /// When each process was last used.
    #[must_use]
    pub fn last_uses_of_processes(&self) -> Vec<ProcessUse> {
        self.processes.last_uses()
    }

    /// Forgets a process that lives and of which no program took a stack after this epoch. With the whole system as target the programs
    /// meet it again at its next sample. False: a program took a stack of it meanwhile.
    pub fn forget_process(&mut self, pid: u32, epoch: u32) -> bool {
        self.processes.forget(&mut self.pool, pid, epoch)
    }

    /// The `exec_id` under which the programs now record a process; none if they do not record it.
    #[must_use]
    pub fn process_exec_id(&self, pid: u32) -> Option<u64> {
        self.processes.exec_id(pid)
    }

    /// Whether the programs record this process.
    #[must_use]
    pub fn is_recorded(&self, pid: u32) -> bool {
        self.processes.is_recorded(pid)
    }

    /// The processes that the programs know now.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn recorded_processes(&self) -> Result<Vec<RecordedProcess>, Error> {
        self.processes.all()
    }

    /// The programs' counts of process life.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn life_counts(&self) -> Result<LifeCounts, Error> {
        life::counts(&self.life_counts)
    }

    /// All messages of the programs since the last call.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn receive(&mut self) -> Result<Vec<Message>, Error> {
        self.ring.receive()
    }

    /// All single samples since the last call, if the settings ask for them. The stack of a sample is sent before it. After
    /// [`Self::drain`] and [`Self::cut`] all samples of the sums that these took are here.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn take_samples(&self) -> Result<Vec<SingleSample>, Error> {
        self.ring.samples()
    }

    /// Distinct stacks that fit between two drains.
    #[must_use]
    pub fn stack_capacity(&self) -> u32 {
        self.sides.capacity()
    }

    /// Takes the sums so far, while the programs go on. Calls `each` with each hash and its sums.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn drain(&mut self, each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        self.memory.note();
        self.sides.drain(&mut self.pool, each)
    }

    /// Ends an interval: takes its sums as [`Self::drain`] does, its counters, and the time up to now of the threads'
    /// intervals that are still open. Sampling goes on; everything from now on belongs to the next interval.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`]. The interval then goes on: the next cut has its counters and the time of the
    /// threads' intervals.
    pub fn cut(&mut self, each: impl FnMut(u64, Sums)) -> Result<Cut, Error> {
        let skipped = self.skipped();
        self.memory.note();
        let Self { sides, pool, object, .. } = self;
        // What may fail comes before the seam.
        let splits = self.splits.then(|| ThreadIter::prepare(object, thread_iter::SEAM)).transpose()?;
        let gather = splits.map(|mut iter| move || iter.run().or_else(|_| iter.run()).map(drop));
        let mut cut = sides.cut(pool, gather, each)?;
        skipped.since(self.skipped).add_to(&mut cut.off_cpu);
        self.skipped = skipped;
        Ok(cut)
    }

    /// Takes all sums. Call it at the end, when the events are disabled.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn drain_all(&mut self, each: impl FnMut(u64, Sums)) -> Result<(), Error> {
        self.memory.note();
        self.sides.drain_all(each)
    }

    /// The counters of the sampler so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.sides.sampler_counters()
    }

    /// The counters of further sampled events so far, in their order.
    #[must_use]
    pub fn further_counters(&self) -> Vec<Counters> {
        self.sides.further_counters()
    }

    /// Single samples of all events so far that did not fit into the ring.
    #[must_use]
    pub fn singles_lost(&self) -> u64 {
        sides::singles_lost(&self.counters(), &self.further_counters())
    }

    /// How often the program of a sampled event ran on a CPU. `event`: as of [`Self::with_sampler`].
    #[must_use]
    pub fn ticks(&self, event: usize, cpu: u32) -> Ticks {
        self.sides.ticks(self.samplers.slot(event, cpu))
    }

    /// How often the kernel did not run the program of a sampled event, because another one of that sort ran on the CPU. Of tracepoints,
    /// since Linux 6.7; 0 before. `event`: as of [`Self::with_sampler`].
    #[must_use]
    pub fn sampler_skipped(&self, event: usize) -> u64 {
        let skipped = self.with_sampler(event, |program| runs(program).map(|runs| runs.skipped));
        skipped.ok().flatten().unwrap_or(0)
    }

    /// The counters of the programs that follow threads so far.
    #[must_use]
    pub fn off_cpu_counters(&self) -> Counters {
        let mut counters = self.sides.thread_counters();
        self.skipped().add_to(&mut counters);
        counters
    }

    /// Splits the counts of an event on this CPU by process. `event` is the event's number, `descriptor` its descriptor.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn split_event(&self, event: usize, cpu: u32, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        self.sched_stats.split_event(event as u32 * self.cpus + cpu, descriptor)
    }

    /// Does the same for the events of a CPU that came online. They count from 0 again.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn split_events_again(&mut self, cpu: u32, events: &[(usize, BorrowedFd<'_>)]) -> Result<(), Error> {
        // Remove the events first: a running program could note a last reading of the old event.
        self.no_split_events(cpu)?;
        self.pool.wait_for_programs()?;
        self.sched_stats.forget_readings(cpu)?;
        events.iter().try_for_each(|(event, descriptor)| self.split_event(*event, cpu, *descriptor))
    }

    /// Releases the events of a CPU. The kernel keeps them open as long as they are split.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn no_split_events(&self, cpu: u32) -> Result<(), Error> {
        let places = (cpu..self.sched_stats.events.max_entries()).step_by(self.cpus as usize);
        places.map(|place| self.sched_stats.no_event(place)).fold(Ok(()), Result::and)
    }

    /// The scheduler's statistics so far, of all followed threads.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn sched_stats(&self) -> Result<Scheduling, Error> {
        self.sched_stats.all()
    }

    /// Takes the statistics of each process since the last call, if the settings ask for them. Call it regularly: when the
    /// tables are full, switches are lost and counted as lost.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn take_process_stats(&mut self) -> Result<BTreeMap<ProcessId, ProcessStats>, Error> {
        self.memory.note();
        self.sched_stats.take(&mut self.pool)
    }

    /// Kernel memory of the maps; of tables that grow, the most that they had when they were emptied.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory { table_pool_bytes: self.pool.bytes(), fixed_bytes: self.memory.bytes() }
    }

    /// Run time of each program in ns, if the kernel counts it (sysctl kernel.bpf_stats_enabled).
    #[must_use]
    pub fn run_times_ns(&self) -> Option<BTreeMap<String, u64>> {
        let mut times = BTreeMap::new();
        self.runs().for_each(|(name, runs)| *times.entry(name).or_default() += runs.time_ns);
        times.values().any(|time| *time > 0).then_some(times)
    }

    /// Runs of programs that the kernel has skipped so far.
    fn skipped(&self) -> Skipped {
        let mut skipped = Skipped::default();
        self.runs().for_each(|(program, runs)| skipped.note(&program, runs.skipped));
        skipped
    }

    /// The kernel's counts for each loaded program, by name. Programs of several events may have one.
    fn runs(&self) -> impl Iterator<Item = (String, Runs)> {
        let objects = std::iter::once(&self.object).chain(self.samplers.further());
        let loaded = objects.flat_map(|object| object.progs().filter(|program| program.autoload()));
        loaded.filter_map(|program| {
            Some((program.name().to_string_lossy().into_owned(), runs(program.as_fd())?))
        })
    }

    /// Run time of all programs in ns, if the kernel counts it.
    #[must_use]
    pub fn run_time_ns(&self) -> Option<u64> {
        Some(self.run_times_ns()?.values().sum())
    }
}

#[cfg(test)]
mod tests;
