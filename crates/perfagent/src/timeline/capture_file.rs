//! The file of a running capture, or of one interval of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use events::{Mmap, Task};
use kernel::{Life, LifeEvent, SampledAt, SingleSample, StackMessage, State};
use perf_data::{Event, FileBuildId, Process, Record, Sample, Stamp};
use recording::KernelImage;

use super::announced::{Announced, Program};
use super::events::{CLOCK_ID, OFF_CPU_ID, Sampled, of_capture};
use super::mappings::{self, BuildIds};
use super::records::{Records, Written};
use super::scheduler_code::SchedulerCode;
use super::stacks::{Chain, Stacks, TimedSample};
use super::{kernel_code, machine};
use crate::output::InPlace;
use crate::processes::{ProcessSnapshot, Processes};

/// Time between two ends of rounds.
const ROUND: Duration = Duration::from_millis(500);

const KALLSYMS: &str = "/proc/kallsyms";

/// What a file is about.
#[derive(Clone, Debug)]
pub(crate) struct TimelineSettings {
    pub(crate) sampled: Sampled,
    /// Intervals off the CPU are samples too.
    pub(crate) off_cpu: bool,
    /// The kernel. It is told without kernel frames too: a kernel thread was interrupted somewhere, and readers warn where it is missing.
    pub(crate) kernel: KernelImage,
    /// Samples have kernel frames.
    pub(crate) kernel_frames: bool,
}

impl TimelineSettings {
    fn events(&self) -> Vec<Event> {
        of_capture(&self.sampled, self.off_cpu, self.kernel_frames)
    }

    /// Whether samples have such stacks.
    fn shows(&self, state: State) -> bool {
        match state {
            State::Sampled => true,
            State::Blocked | State::IoWait | State::Preempted | State::NotRunYet => self.off_cpu,
            State::OnCpu | State::Waker | State::WakerInSoftirq | State::Freed => false,
        }
    }
}

/// A perf.data file that grows.
#[derive(Debug)]
pub(crate) struct Timeline {
    place: InPlace,
    settings: TimelineSettings,
    records: Records,
    stacks: Stacks,
    /// Samples with their stacks, to be written in the next round.
    ready: Vec<TimedSample>,
    /// The same, of samples that no key stands for: they belong to the interval in which they come.
    walked: Vec<TimedSample>,
    /// Samples with this number of changes of the side, or a later one, belong to the next file.
    seam: Option<u32>,
    announced: Announced,
    /// Not read without kernel frames of waits.
    scheduler: SchedulerCode,
    build_ids: BuildIds,
    /// Samples lost by the programs, as far as the file tells of them.
    told_lost: u64,
    /// Samples that came so late that they would be of the next program with their number.
    late: u64,
    round_ended: Instant,
}

impl Timeline {
    /// Begins a file.
    pub(crate) fn begin(
        place: InPlace,
        started: SystemTime,
        settings: TimelineSettings,
        start_ns: u64,
    ) -> Self {
        let records = Records::begin(&place, started, settings.events(), start_ns);
        let has_kernel_waits = settings.off_cpu && settings.kernel_frames;
        let scheduler = has_kernel_waits.then(|| SchedulerCode::read(Path::new(KALLSYMS)));
        let mut timeline = Self {
            place,
            settings,
            records,
            stacks: Stacks::default(),
            ready: Vec::new(),
            walked: Vec::new(),
            seam: None,
            announced: Announced::default(),
            scheduler: scheduler.unwrap_or_default(),
            build_ids: BuildIds::default(),
            told_lost: 0,
            late: 0,
            round_ended: Instant::now(),
        };
        timeline.tell_kernel();
        timeline
    }

    /// Takes in a stack at its first sight. `once`: no second sample has it.
    pub(crate) fn stack(&mut self, stack: &StackMessage, once: bool) {
        if self.records.is_open() && self.settings.shows(stack.state) {
            self.stacks.enter(stack, once);
        }
    }

    /// Takes in a stack that no profile shows, at its first sight: its samples are left out.
    pub(crate) fn leave_out(&mut self, stack: &StackMessage) {
        if self.records.is_open() {
            self.stacks.leave_out(stack);
        }
    }

    /// Takes in a sample, whose stack may come later.
    pub(crate) fn sample(&mut self, sample: SingleSample) {
        if self.records.is_open() {
            self.stacks.add(sample);
        }
    }

    /// Takes in a sample that no key stands for.
    pub(crate) fn walked(&mut self, stack: &StackMessage, at: SampledAt) {
        if self.records.is_open() && stack.state == State::Sampled {
            let StackMessage { event, time_ns, pid, tid, .. } = *stack;
            let chain = Chain::of(stack).into();
            self.walked.push(TimedSample { event, time_ns, pid, tid, at, pc: 0, value: 1, chain });
        }
    }

    /// A known process made a mapping.
    pub(crate) fn mapping(&mut self, time_ns: u64, mmap: &Mmap) {
        if self.announced.knows(mmap.pid) && mmap.executable {
            self.build_ids.look_at(mmap.pid);
            self.push(Process { pid: mmap.pid, tid: mmap.tid }, time_ns, &mappings::made(mmap));
        }
    }

    /// A thread began or ended. What happens to whole processes is told by [`life`](Self::life).
    pub(crate) fn thread(&mut self, time_ns: u64, task: &Task) {
        let Task { pid, parent_pid, tid, parent_tid, ended } = *task;
        if pid == tid || !self.announced.knows(pid) {
            return;
        }
        let of = Process { pid, tid };
        let parent = Process { pid: parent_pid, tid: parent_tid };
        if ended {
            self.announced.forget_thread(pid, tid);
            self.push(of, time_ns, &Record::Exit { parent });
        } else {
            self.push(of, time_ns, &Record::Fork { parent });
        }
    }

    /// Something happened to a process.
    pub(crate) fn life(&mut self, life: &Life, processes: &Processes) {
        let Life { pid, time_ns, event } = life;
        let of = Process { pid: *pid, tid: *pid };
        match event {
            LifeEvent::Fork { parent } => {
                if let Some((snapshot, _)) = processes.histories().present(*parent) {
                    self.announce(*parent, *time_ns, snapshot);
                }
                self.program_begins(*pid, *parent, *time_ns, processes);
                self.build_ids.look_at(*pid);
                let parent = Process { pid: *parent, tid: *parent };
                self.push(of, *time_ns, &Record::Fork { parent });
            }
            LifeEvent::Exec { comm } => {
                // Samples of the program before may still be written.
                let before_ns = time_ns.saturating_sub(1);
                if let Some(before) = processes.histories().at(*pid, before_ns) {
                    self.announce(*pid, before_ns, before);
                }
                // It has one thread from here on.
                self.program_begins(*pid, self.announced.parent(*pid), *time_ns, processes);
                self.push(of, *time_ns, &Record::Comm { name: comm.as_bytes(), exec: true });
                if let Some((snapshot, _)) = processes.histories().present(*pid) {
                    self.mappings(*pid, *time_ns, snapshot);
                }
            }
            LifeEvent::Rename { comm } if self.announced.knows(*pid) => {
                self.push(of, *time_ns, &Record::Comm { name: comm.as_bytes(), exec: false });
            }
            LifeEvent::Exit { parent, .. } if self.announced.knows(*pid) => {
                let parent = if *parent == 0 { self.announced.parent(*pid) } else { *parent };
                self.push(of, *time_ns, &Record::Exit { parent: Process { pid: parent, tid: parent } });
                self.announced.end(*pid);
            }
            _ => {}
        }
    }

    /// Writes the samples whose stacks are known, and ends the round if it is time. `lost`: the samples that the programs have lost so
    /// far. `last`: nothing more comes.
    pub(crate) fn round(&mut self, processes: &Processes, lost: impl FnOnce() -> u64, last: bool) {
        self.ready.append(&mut self.stacks.take_ready(last));
        let seam = self.seam;
        let is_later = |sample: &TimedSample| {
            seam.is_some_and(|seam| sample.at.side_changes.wrapping_sub(seam) < u32::MAX / 2)
        };
        let (later, mut samples): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ready).into_iter().partition(is_later);
        self.ready = later;
        samples.append(&mut self.walked);
        samples.sort_by_key(|sample| sample.time_ns);
        for sample in samples {
            self.write_sample(&sample, processes);
        }
        if last || self.round_ended.elapsed() >= ROUND {
            self.end_round(processes, lost());
        }
    }

    /// The sums of the kernel side were taken, and with them all samples so far: drops stacks that cannot come again.
    pub(crate) fn drained(&mut self, may_come: impl FnMut(u32, u64) -> bool) {
        self.ready.append(&mut self.stacks.take_ready(false));
        self.stacks.drained(may_come);
    }

    /// A cut began: samples with this number of changes of the side, or a later one, are of the next interval.
    pub(crate) fn set_seam(&mut self, side_changes: u32) {
        self.seam = Some(side_changes);
    }

    /// Ends the file, and begins the next one. If the file could not be written, no other one is begun.
    pub(crate) fn next_file(
        &mut self,
        started: SystemTime,
        kernel: KernelImage,
        processes: &Processes,
        lost: u64,
        start_ns: u64,
    ) {
        self.end_round(processes, lost);
        self.seam = None;
        let features = machine::features(self.all_build_ids());
        self.settings.kernel = kernel;
        let events = self.settings.events();
        let place = &self.place;
        if self.records.next(features, || Records::begin(place, started, events, start_ns)) {
            self.announced = Announced::default();
            self.build_ids = BuildIds::default();
            self.tell_kernel();
        }
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Written {
        let features = machine::features(self.all_build_ids());
        self.records.finish(features)
    }

    fn all_build_ids(&self) -> Vec<FileBuildId> {
        kernel_code::build_ids(&self.settings.kernel).chain(self.build_ids.files()).collect()
    }

    fn end_round(&mut self, processes: &Processes, lost: u64) {
        self.round_ended = Instant::now();
        self.announced.end_round();
        self.build_ids.settle(|pid| processes.histories().at(pid, u64::MAX));
        let more = lost.saturating_sub(self.told_lost);
        self.told_lost = self.told_lost.max(lost);
        let late = std::mem::take(&mut self.late);
        self.records.end_round(more + self.stacks.take_lost() + late, CLOCK_ID);
    }

    fn write_sample(&mut self, sample: &TimedSample, processes: &Processes) {
        let TimedSample { event, time_ns, pid, tid, at, pc, value, chain } = sample;
        let snapshot = processes.histories().at(*pid, chain.exec_id);
        if let Some(snapshot) = snapshot {
            self.announce(*pid, *time_ns, snapshot);
        }
        if !self.announced.may_write(*pid, *time_ns, self.records.floor_ns()) {
            self.late += 1;
            return;
        }
        let of = Process { pid: *pid, tid: *tid };
        // A thread that ended meanwhile has the name of its process, as it had at its beginning.
        let is_present = self.announced.is_present(*pid, *time_ns);
        let present = || is_present.then(|| process::task::comm(*tid).ok()).flatten();
        let name = || present().or_else(|| snapshot.map(|of| of.comm.to_owned()));
        if self.announced.tell(*pid, *tid, *time_ns)
            && let Some(name) = name()
        {
            // Not earlier: a reader that meets a thread before its process executed a program keeps the mappings of the one before.
            self.push(of, *time_ns, &Record::Comm { name: name.as_bytes(), exec: false });
        }
        let (kernel, user) = chain.frames();
        let (id, period, kernel) = match event {
            kernel::Event::Scheduler => (OFF_CPU_ID, *value, self.scheduler.strip(kernel)),
            _ => (CLOCK_ID, self.settings.sampled.period, kernel),
        };
        let record = Record::Sample(Sample { period, kernel, user, interrupted: *pc });
        self.records.push(Stamp { of, time_ns: *time_ns, cpu: at.cpu, id }, &record);
    }

    fn tell_kernel(&mut self) {
        let Self { records, settings, .. } = self;
        let stamp = Stamp { id: CLOCK_ID, ..Stamp::default() };
        kernel_code::mappings(&settings.kernel, |record| records.push(stamp, record));
    }

    /// A program begins in a process.
    fn program_begins(&mut self, pid: u32, parent: u32, time_ns: u64, processes: &Processes) {
        let instance = processes.histories().at(pid, time_ns).map(|snapshot| Arc::clone(snapshot.instance));
        let written_ns = time_ns.max(self.records.floor_ns());
        self.announced.begin(pid, parent, Program { instance, begin_ns: time_ns, written_ns });
    }

    /// Tells the name and the mappings of the program that a process ran at a time, once.
    fn announce(&mut self, pid: u32, time_ns: u64, snapshot: ProcessSnapshot<'_>) {
        let is_new = !self.announced.knows(pid);
        // Its name may be a later one than itself.
        let begin_ns = snapshot.from_ns.min(time_ns);
        let floor_ns = self.records.floor_ns();
        let Some(at_ns) = self.announced.enter(pid, snapshot.instance, begin_ns, floor_ns) else { return };
        if is_new {
            self.announced.set_parent(pid, process::task::stat(pid).map_or(0, |stat| stat.parent));
        }
        let comm = Record::Comm { name: snapshot.comm.as_bytes(), exec: true };
        self.push(Process { pid, tid: pid }, at_ns, &comm);
        self.mappings(pid, at_ns, snapshot);
    }

    fn mappings(&mut self, pid: u32, time_ns: u64, snapshot: ProcessSnapshot<'_>) {
        self.build_ids.look_at(pid);
        for region in snapshot.image.regions().iter() {
            self.push(Process { pid, tid: pid }, time_ns, &mappings::present(region));
        }
    }

    /// Writes a record of a process, unless it came so late that it would be of the next program with the number.
    fn push(&mut self, of: Process, time_ns: u64, record: &Record<'_>) {
        if !self.announced.may_write(of.pid, time_ns, self.records.floor_ns()) {
            return;
        }
        self.records.push(Stamp { of, time_ns, cpu: 0, id: CLOCK_ID }, record);
    }
}
