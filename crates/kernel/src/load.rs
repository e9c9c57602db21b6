//! The kernel side as a whole: what user space asks of it, each answered by the part that holds the programs or maps.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use metrics::Scheduling;
use profile::Svma;
use unwind::{Rule, Table};

use crate::abi::CHUNK_BYTES;
use crate::control_words::ControlWords;
use crate::error::load_error;
use crate::followed_threads::FollowedThreads;
use crate::go_locks::GoProgram;
use crate::heap::{HeapCounter, HeapCounts, HeapMaps, HeapProgram};
use crate::heap_site::HeapSite;
use crate::layout;
use crate::life::LifeCounts;
use crate::memory::{MapMemory, ProcessPlaces, TableRoom};
use crate::messages::{Message, Ring};
use crate::processes::{KernelProcess, ProcessUse, Processes};
use crate::programs::Programs;
use crate::python::Python;
use crate::room::TableTrial;
use crate::sampler_states::Ticks;
use crate::sched_stats::{ProcessId, ProcessStats, StatsMaps};
use crate::sides::{self, Cut, Sides, Sums};
use crate::table_pool::TablePool;
use crate::table_uses::TableUses;
use crate::tables::{self, TableHandle};
use crate::{Counters, Error, Memory, RecordedProcess, Settings, SingleSample, log};

/// The loaded programs and their maps.
pub struct Kernel {
    programs: Programs,
    pool: TablePool,
    processes: Processes,
    sides: Sides,
    ring: Ring,
    threads: FollowedThreads,
    table_uses: TableUses,
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
        let chunks = (settings.table_pool_bytes / CHUNK_BYTES).clamp(1, 4096) as u32;
        let programs = Programs::load(settings, cpus, chunks)?;
        let map = |name| programs.map(name);
        let words = ControlWords::new(&map(ControlWords::MAP)?)?;
        Ok(Self {
            pool: TablePool::new(map("table_pool")?, chunks)?,
            processes: Processes::find(map, words.clone(), settings.kernel_stacks)?,
            sides: Sides::find(map, layout::further_slots(settings, cpus), words.clone())?,
            ring: Ring::new(&map("ring")?)?,
            sched_stats: StatsMaps::find(map, cpus, words.clone())?,
            threads: FollowedThreads::new(settings, words),
            table_uses: TableUses::new(&map(TableUses::MAP)?)?,
            heap: HeapMaps::find(map)?,
            memory: programs.map_memory()?,
            programs,
        })
    }

    /// Attaches the programs that report fork, exec, exit and new names of recorded processes as [`Message::Life`].
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn follow_processes(&mut self) -> Result<(), Error> {
        self.programs.follow_processes()
    }

    /// Whether forks and exits of processes that are not recorded are reported too.
    pub fn tell_all_lives(&self, on: bool) {
        self.processes.tell_all_lives(on);
    }

    /// Waits for the end of all runs of programs that began before this call.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn wait_for_programs(&mut self) -> Result<(), Error> {
        self.pool.wait_for_programs()
    }

    /// Attaches the programs that follow threads through the scheduler. Until [`Self::enter_threads`] they know new threads only.
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn follow_threads(&mut self) -> Result<(), Error> {
        self.threads.attach(&mut self.programs)
    }

    /// Follows all existing threads from `start_ns` (CLOCK_MONOTONIC) on, except those that are followed already. Returns the new ones that
    /// are off CPU now as [`Message::Raw`] without stack bytes; their sums come under the hashes of these messages.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    pub fn enter_threads(&mut self, start_ns: u64) -> Result<Vec<Message>, Error> {
        self.threads.enter(&mut self.programs, start_ns)
    }

    /// The threads that have not run since [`Self::enter_threads`], as [`Message::StillAsleep`].
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    pub fn still_asleep(&mut self) -> Result<Vec<Message>, Error> {
        self.threads.still_asleep(&mut self.programs)
    }

    /// Stops following threads, and adds the intervals that are still open up to `end_ns`.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    pub fn leave_threads(&mut self, end_ns: u64) -> Result<(), Error> {
        self.threads.leave(&mut self.programs, &mut self.pool, end_ns.max(self.sides.seam_ns()))
    }

    /// The program of a sampled event, to be attached where the settings say. `event`: 0, or the number of a further event, from 1 on.
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub fn with_sampler<T>(&self, event: usize, with: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T, Error> {
        self.programs.with_sampler(event, with)
    }

    /// A program for functions of allocators, with [`crate::SampledIn::Allocator`].
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub fn with_heap_program<T>(
        &self,
        which: HeapProgram,
        with: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        self.programs.with(which.name(), with)
    }

    /// A program for waits of goroutines, with [`Settings::go_locks`].
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub fn with_go_program<T>(
        &self,
        which: GoProgram,
        with: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        self.programs.with(which.name(), with)
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

    /// Installs an unwind table, so that mappings can refer to it.
    ///
    /// # Errors
    /// [`Error::TablePoolFull`] at the limit of [`Settings::table_pool_bytes`]; [`Error::Map`], [`Error::Mmap`].
    pub fn install_table(&mut self, table: &Table) -> Result<TableHandle, Error> {
        tables::install(&mut self.pool, table, self.table_uses.number(self.processes.epoch()))
    }

    /// Begins the next epoch, and gives its number. Programs note from now on which tables and processes they use in it; each thread's
    /// next walk finds nothing that is remembered from an earlier epoch. At first the epoch is 0, and nothing is noted.
    pub fn begin_epoch(&mut self) -> u32 {
        self.processes.begin_epoch()
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
        self.pool.room()
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
        self.processes.set_kernel_stacks(pid, on)
    }

    /// Tells the interpreter of Python in a recorded process, whose frames are walked from now on, in its later children too; or that there
    /// is none. `exec_id` is that of the program: an exec ends it. False: the frames are not walked, because the process runs another
    /// program, the programs cannot follow the interpreter, or no room is left. It has no effect without [`Settings::python`].
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_python(&mut self, pid: u32, exec_id: u64, python: Option<&Python>) -> Result<bool, Error> {
        self.processes.set_python(pid, exec_id, python)
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
        self.processes.life_counts()
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
    /// [`Error::Attach`], [`Error::Map`]. The interval then goes on: the next cut has its counters and the time of the threads' intervals.
    pub fn cut(&mut self, each: impl FnMut(u64, Sums)) -> Result<Cut, Error> {
        self.memory.note();
        // What may fail comes before the seam.
        let gather = self.threads.begin_cut(&mut self.programs)?;
        let mut cut = self.sides.cut(&mut self.pool, gather, each)?;
        self.threads.end_cut(&mut cut.off_cpu);
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
        self.sides.ticks(self.programs.sampler_slot(event, cpu))
    }

    /// How often the kernel did not run the program of a sampled event, because another one of that sort ran on the CPU. Of tracepoints,
    /// since Linux 6.7; 0 before. `event`: as of [`Self::with_sampler`].
    #[must_use]
    pub fn sampler_skipped(&self, event: usize) -> u64 {
        self.programs.sampler_skipped(event)
    }

    /// The counters of the programs that follow threads so far.
    #[must_use]
    pub fn off_cpu_counters(&self) -> Counters {
        let mut counters = self.sides.thread_counters();
        self.programs.skipped().add_to(&mut counters);
        counters
    }

    /// Splits the counts of an event on this CPU by process. `event` is the event's number, `descriptor` its descriptor.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn split_event(&self, event: usize, cpu: u32, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        self.sched_stats.split_event(event, cpu, descriptor)
    }

    /// Does the same for the events of a CPU that came online. They count from 0 again.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn split_events_again(&mut self, cpu: u32, events: &[(usize, BorrowedFd<'_>)]) -> Result<(), Error> {
        self.sched_stats.split_events_again(&mut self.pool, cpu, events)
    }

    /// Releases the events of a CPU. The kernel keeps them open as long as they are split.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn no_split_events(&self, cpu: u32) -> Result<(), Error> {
        self.sched_stats.no_split_events(cpu)
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
        self.programs.run_times_ns()
    }

    /// Run time of all programs in ns, if the kernel counts it.
    #[must_use]
    pub fn run_time_ns(&self) -> Option<u64> {
        Some(self.run_times_ns()?.values().sum())
    }
}

#[cfg(test)]
mod tests;
