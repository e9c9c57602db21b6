//! Processes with an interpreter of Python, and telling the programs where to find its frames.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use interpreters::python::{Interpreter, InterpreterError, Slot};
use kernel::{Kernel, Python};
use process::{Image, MappedFile, Region, WorkerPool};
use profile::{Avma, Svma};

use super::asleep::{self, Asleep};
use super::calibration::{Found, NotYet, calibrate, thread_states};
use super::files::{InImage, InterpreterFiles, maps_named};
use crate::processes::{ExecInstance, ProcessSnapshot, Processes};
use crate::{Warning, WarningKind};

/// A process whose memory does not come within this time is given up.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time to the second look at an interpreter that is still being set up. It doubles with each look.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest time between two looks.
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How long a caller waits for interpreters to be found. Reading an interpreter's file takes most of it: 0.1 s of CPU time, for which a busy machine
/// may take 2 s. Functions of an interpreter that is found later are missing from earlier stacks.
const FIND: Duration = Duration::from_secs(2);
/// Between two looks at files that are being opened.
const OPENING: Duration = Duration::from_millis(2);

/// Distinct causes that are told.
const MAX_TOLD: usize = 16;

/// A process that maps an interpreter.
struct Process {
    instance: Arc<ExecInstance>,
    /// When its program or its present name began.
    from_ns: u64,
    interpreter: Arc<Interpreter>,
    /// What is added to link-time addresses.
    bias: u64,
    /// It maps a module that switches stacks, each with a chain of functions of its own.
    has_greenlets: bool,
    /// Its interpreters are to be counted again, from then on or by the request of this number.
    recount: Recount,
    state: State,
}

/// Interpreters may be made at any time; they are counted again when a stack looks as if there were several.
enum Recount {
    NotBefore(Instant),
    Wanted(Instant),
    Asked(u64),
}

enum State {
    /// It is being read, by the request of this number.
    Read {
        ticket: u64,
        pause: Duration,
    },
    /// It is read again then.
    Waits {
        until: Instant,
        pause: Duration,
    },
    Found(Found),
    /// Its memory does not come.
    GivenUp,
}

/// The processes with an interpreter, and the files that hold one.
pub(crate) struct Pythons {
    files: InterpreterFiles,
    readers: WorkerPool<Result<Found, NotYet>>,
    /// For the frames of threads that sleep.
    sleepers: WorkerPool<Asleep>,
    processes: HashMap<u32, Process>,
    /// Processes with a file that is still to be read.
    awaiting: HashMap<u32, Arc<ExecInstance>>,
    /// Processes whose interpreter is not supported, while they live.
    unsupported: HashMap<u32, Arc<ExecInstance>>,
    /// How many of these there were.
    unsupported_count: u64,
    /// Causes of these that a warning has told.
    told: Vec<InterpreterError>,
    warnings: Vec<Warning>,
    /// Processes that ran an interpreter and run another program now.
    former: HashSet<u32>,
    /// The programs are told where frames are.
    tells_programs: bool,
    /// Programs whose interpreter is set up, or not supported, since they were last taken; none if nobody asks.
    found: Option<Vec<Arc<ExecInstance>>>,
}

impl Pythons {
    /// `tells_programs`: the programs are told where frames are. `is_asked`: [`Pythons::take_found`] will be called.
    pub(crate) fn new(tells_programs: bool, is_asked: bool) -> Self {
        let spawn =
            |body: Box<dyn FnOnce() + Send>| sys::thread::spawn_quiet_thread("interpreter", body).map(drop);
        Self {
            files: InterpreterFiles::default(),
            readers: WorkerPool::new(Box::new(spawn), PATIENCE),
            sleepers: WorkerPool::new(Box::new(spawn), PATIENCE),
            processes: HashMap::new(),
            awaiting: HashMap::new(),
            unsupported: HashMap::new(),
            unsupported_count: 0,
            told: Vec::new(),
            warnings: Vec::new(),
            former: HashSet::new(),
            tells_programs,
            found: is_asked.then(Vec::new),
        }
    }

    /// Programs whose interpreter was found to be set up since the last call, or is not supported.
    pub(crate) fn take_found(&mut self) -> Vec<Arc<ExecInstance>> {
        self.found.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The interpreter of a file, if that is known by now.
    pub(crate) fn of_file(&self, file: &MappedFile) -> Option<&Arc<Interpreter>> {
        self.files.of_file(file)
    }

    /// Whether a stack of a process may have several chains of functions: it has several interpreters, each with threads of its own, or
    /// greenlets.
    pub(crate) fn has_several_chains(&self, pid: u32) -> bool {
        let Some(process) = self.processes.get(&pid) else { return false };
        process.has_greenlets || matches!(&process.state, State::Found(found) if found.interpreters > 1)
    }

    /// Processes so far whose interpreter is not supported.
    pub(crate) fn unsupported(&self) -> u64 {
        self.unsupported_count
    }

    /// What is wrong with interpreters, each cause once.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// A stack of a process looks as if another chain of functions were outside of the walked one.
    pub(crate) fn doubt(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if let (State::Found(Found { interpreters: 1, .. }), Recount::NotBefore(then)) =
            (&process.state, &process.recount)
        {
            process.recount = Recount::Wanted(*then);
        }
    }

    /// Looks at a process that is new or has changed.
    pub(crate) fn look_at(&mut self, pid: u32, now: ProcessSnapshot<'_>) {
        let same = |known: &Arc<ExecInstance>| Arc::ptr_eq(known, now.instance);
        if self.unsupported.get(&pid).is_some_and(same) {
            return;
        }
        if let Some(known) = self.processes.get_mut(&pid).filter(|known| same(&known.instance)) {
            // The programs have another number for a process that has another name.
            known.from_ns = now.from_ns;
            known.has_greenlets = has_greenlets(now.image);
            return;
        }
        let was_found = matches!(self.processes.get(&pid), Some(Process { state: State::Found(_), .. }));
        self.forget(pid);
        if was_found {
            self.former.insert(pid);
        }
        match self.files.in_image(now.image) {
            InImage::Nothing => {}
            InImage::NotKnownYet => _ = self.awaiting.insert(pid, Arc::clone(now.instance)),
            InImage::Unsupported(error) => {
                tracing::info!(target: "perfagent", pid, "{error}");
                self.unsupported_count += 1;
                self.found.iter_mut().for_each(|found| found.push(Arc::clone(now.instance)));
                if self.told.len() < MAX_TOLD && !self.told.contains(&error) {
                    self.told.push(error);
                    self.warnings.push(unsupported(pid, error));
                }
                self.unsupported.insert(pid, Arc::clone(now.instance));
            }
            InImage::Interpreter(interpreter, region) => {
                let Some(bias) = bias(region) else { return };
                let interpreter = Arc::clone(interpreter);
                let process = Process {
                    instance: Arc::clone(now.instance),
                    from_ns: now.from_ns,
                    interpreter,
                    bias,
                    has_greenlets: has_greenlets(now.image),
                    recount: Recount::NotBefore(Instant::now()),
                    state: State::Waits { until: Instant::now(), pause: FIRST_PAUSE },
                };
                self.processes.insert(pid, process);
            }
        }
    }

    /// Tells the programs about a process that runs a program since `from_ns`, if its interpreter is known. They may have taken note of the
    /// process only now.
    pub(crate) fn tell(&mut self, pid: u32, from_ns: u64, kernel: &mut Kernel) -> Result<(), kernel::Error> {
        let was_told = self.former.remove(&pid);
        if !self.tells_programs {
            return Ok(());
        }
        match self.processes.get(&pid).map(|process| (process, &process.state)) {
            Some((process, State::Found(found))) => process.tell(pid, found, kernel),
            // What was told while it executed the new program may have come too late.
            _ if was_told => kernel.set_python(pid, from_ns, None).map(drop),
            _ => Ok(()),
        }
    }

    /// Forgets a process: its program has ended.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.awaiting.remove(&pid);
        self.unsupported.remove(&pid);
        self.former.remove(&pid);
    }

    /// Goes on with what can be done by now, after waiting for workers for no longer than `wait`. Whether something is still to be read.
    pub(crate) fn advance(
        &mut self,
        wait: Duration,
        processes: &Processes,
        kernel: &mut Kernel,
    ) -> Result<bool, kernel::Error> {
        if self.files.take_finished(if self.files.is_busy() { wait } else { Duration::ZERO }) {
            let awaiting = std::mem::take(&mut self.awaiting);
            for (pid, instance) in awaiting {
                let present = processes.histories().present(pid).map(|(now, _)| now);
                if let Some(now) = present.filter(|now| Arc::ptr_eq(now.instance, &instance)) {
                    self.look_at(pid, now);
                }
            }
        }
        self.read_due();
        let told = self.take_read(if self.readers.pending() > 0 { wait } else { Duration::ZERO }, kernel);
        let is_read = |process: &Process| matches!(process.state, State::Read { .. });
        let busy = self.files.is_busy() || self.processes.values().any(is_read);
        told.map(|()| busy)
    }

    /// Goes on until nothing is left to be read, but for no longer than [`FIND`].
    pub(crate) fn find_all(
        &mut self,
        processes: &Processes,
        kernel: &mut Kernel,
    ) -> Result<(), kernel::Error> {
        let deadline = Instant::now() + FIND;
        while self.advance(deadline.saturating_duration_since(Instant::now()), processes, kernel)?
            && Instant::now() < deadline
        {}
        Ok(())
    }

    /// Looks at those of these processes that map a file named like an interpreter, and goes on until the interpreters are known, but for no
    /// longer than [`FIND`]. Nobody may have looked at them yet, and their files may still have to be opened.
    pub(crate) fn find_named(
        &mut self,
        pids: &[u32],
        processes: &Processes,
        kernel: &mut Kernel,
    ) -> Result<(), kernel::Error> {
        let deadline = Instant::now() + FIND;
        let mut left: Vec<u32> = pids.to_vec();
        loop {
            left.retain(|pid| {
                let Some((now, false)) = processes.histories().present(*pid) else { return false };
                if !maps_named(now.image) {
                    return false;
                }
                self.look_at(*pid, now);
                self.is_in_doubt(*pid)
            });
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(());
            }
            self.advance(OPENING, processes, kernel)?;
            std::thread::sleep(OPENING);
        }
    }

    /// Whether it may soon be known where the interpreter of a process keeps its frames.
    fn is_in_doubt(&self, pid: u32) -> bool {
        let is_read = |process: &Process| match process.state {
            State::Read { .. } => true,
            State::Waits { pause, .. } => pause == FIRST_PAUSE,
            State::Found(_) | State::GivenUp => false,
        };
        self.awaiting.contains_key(&pid) || self.processes.get(&pid).is_some_and(is_read)
    }

    /// Whether a process runs an interpreter, as far as that is known.
    pub(crate) fn runs(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| matches!(process.state, State::Found(_)))
    }

    /// The frames of threads of a process that sleep, by their numbers in the innermost PID namespace. `None`: the process runs no interpreter, or that is
    /// not known yet, or its memory does not come.
    pub(crate) fn read_asleep(&mut self, pid: u32, tids: HashSet<u32>) -> Option<Asleep> {
        let process = self.processes.get(&pid)?;
        let State::Found(found) = &process.state else { return None };
        let (slot, interpreter) = (found.slot, Arc::clone(&process.interpreter));
        let runtime = interpreter.runtime.0.wrapping_add(process.bias);
        let read = move || {
            let read = |address, len| memory(pid, address, len);
            let layout = &interpreter.layout;
            let (states, _) = thread_states(layout, runtime, asleep::MAX_THREADS, &read);
            asleep::read_asleep(layout, &states, &slot, &tids, read)
        };
        let ticket = self.sleepers.ask((u32::MAX, pid), read);
        let taken = self.sleepers.take(PATIENCE);
        taken.finished.into_iter().find(|(finished, _)| *finished == ticket).map(|(_, asleep)| asleep)
    }

    /// Reads the processes that are due.
    fn read_due(&mut self) {
        let now = Instant::now();
        for (pid, process) in &mut self.processes {
            let pause = match (&process.state, &process.recount) {
                (State::Waits { until, pause }, _) if *until <= now => Some(*pause),
                (State::Found(_), Recount::Wanted(then)) if *then <= now => None,
                _ => continue,
            };
            let (pid, interpreter) = (*pid, Arc::clone(&process.interpreter));
            let bias = process.bias;
            let read = move || calibrate(&interpreter, bias, |address, len| memory(pid, address, len));
            // Each process may have a page that does not come: it counts as a device.
            let ticket = self.readers.ask((u32::MAX, pid), read);
            match pause {
                Some(pause) => process.state = State::Read { ticket, pause },
                None => process.recount = Recount::Asked(ticket),
            }
        }
    }

    /// Takes in how many interpreters a process has now.
    fn take_count(&mut self, ticket: u64, found: Option<&Result<Found, NotYet>>) {
        let is_it =
            |process: &&mut Process| matches!(process.recount, Recount::Asked(other) if other == ticket);
        let Some(process) = self.processes.values_mut().find(is_it) else { return };
        process.recount = Recount::NotBefore(Instant::now() + LAST_PAUSE);
        if let (State::Found(known), Some(Ok(now))) = (&mut process.state, found) {
            known.interpreters = now.interpreters;
        }
    }

    fn take_read(&mut self, wait: Duration, kernel: &mut Kernel) -> Result<(), kernel::Error> {
        let taken = self.readers.take(wait);
        let given_up = taken.given_up.into_iter().map(|ticket| (ticket, None));
        let finished = taken.finished.into_iter().map(|(ticket, found)| (ticket, Some(found)));
        let mut result = Ok(());
        for (ticket, found) in given_up.chain(finished) {
            self.take_count(ticket, found.as_ref());
            let is_it = |(_, process): &(&u32, &mut Process)| matches!(process.state, State::Read { ticket: other, .. } if other == ticket);
            let Some((pid, process)) = self.processes.iter_mut().find(is_it) else { continue };
            let State::Read { pause, .. } = process.state else { continue };
            process.state = match found {
                Some(Ok(found)) => {
                    tracing::debug!(target: "perfagent", pid, version = %process.interpreter.version, ?found, "Python");
                    if self.tells_programs {
                        result = result.and(process.tell(*pid, &found, kernel));
                    }
                    self.found.iter_mut().for_each(|found| found.push(Arc::clone(&process.instance)));
                    State::Found(found)
                }
                Some(Err(why)) => {
                    tracing::debug!(target: "perfagent", pid, ?why, "Python is not ready");
                    State::Waits { until: Instant::now() + pause, pause: (2 * pause).min(LAST_PAUSE) }
                }
                None => State::GivenUp,
            };
        }
        result
    }

    /// Forgets files that nothing maps any more.
    pub(crate) fn prune(&mut self) {
        self.files.prune();
    }
}

impl Process {
    fn tell(&self, pid: u32, found: &Found, kernel: &mut Kernel) -> Result<(), kernel::Error> {
        // A process that the programs do not know has ended or, with the whole system as target, was not sampled yet.
        kernel.set_python(pid, self.from_ns, Some(&self.python(&found.slot))).map(drop)
    }

    /// What the programs need.
    fn python(&self, slot: &Slot) -> Python {
        let at = |svma: Svma| Avma(svma.0.wrapping_add(self.bias));
        let range = |range: &std::ops::Range<Svma>| at(range.start)..at(range.end);
        let evaluator = &self.interpreter.evaluator;
        Python {
            layout: self.interpreter.layout,
            runtime: at(self.interpreter.runtime),
            slot: *slot,
            evaluator: evaluator.ranges.iter().map(range).collect(),
            before_dispatch: evaluator.before_dispatch.as_ref().map(range),
        }
    }
}

/// The warning about an interpreter whose functions are not shown.
fn unsupported(pid: u32, error: InterpreterError) -> Warning {
    let message = format!("stacks of process {pid} and its like show no functions in Python: {error}");
    let hint = match error {
        InterpreterError::PyPy => "run it with CPython 3.8 to 3.15",
        _ => "run CPython 3.8 to 3.15; from 3.12 on `python3 -X perf` names functions in any build",
    };
    Warning::new(WarningKind::Names, message, hint)
}

/// Whether a process maps greenlet's module, with which gevent and others switch stacks.
fn has_greenlets(image: &Image) -> bool {
    let of_module = |region: &Region| {
        let path = region.file().map(|file| file.path()).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("_greenlet.") || name.starts_with("greenlet.")
    };
    image.regions().iter().any(of_module)
}

/// What is added to link-time addresses of the file of a region.
fn bias(region: &Region) -> Option<u64> {
    let svma = region.file()?.svma_of(region.offset)?;
    Some(region.start.0.wrapping_sub(svma.0))
}

/// Memory of a process, as far as it is readable.
pub(super) fn memory(pid: u32, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let read = sys::memory::read(pid, address, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

#[cfg(test)]
impl Pythons {
    /// Reads the files of an image. Whether some are still to be read.
    pub(crate) fn reads_files_of(&mut self, image: &process::Image) -> bool {
        let is_busy = matches!(self.files.in_image(image), InImage::NotKnownYet);
        self.files.take_finished(Duration::from_millis(100));
        is_busy
    }
}
