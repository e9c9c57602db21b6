//! The agent: one capture from configuration to report.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use metrics::MetricsSnapshot;

use crate::config::{Builder, Plan, check_pid};
use crate::export::{Exporters, Exporting};
use crate::output::{Contents, OutputKind, OutputReport, Outputs, Profiles, open_target};
use crate::processes::{resolve, zombie};
use crate::rotation::{Cutting, Rotation, Rotator};
use crate::session::{CaptureResult, NewTarget, Order, Request, Session, Shared};
use crate::timeline::Written;
use crate::usage::Usage;
use crate::{
    CancelToken, ChildHandle, Config, Ended, Error, Ledger, PythonStats, Recording, Report, TargetProcess,
    Targets,
};

/// One capture. Calls may come from any thread.
///
/// ```no_run
/// let agent = perfagent::Agent::builder().pid(4711).cpu_profile("cpu.pb.gz").build()?;
/// agent.start()?;
/// agent.wait(std::time::Duration::from_secs(10));
/// let report = agent.stop()?;
/// println!("{} samples", report.ledgers[0].samples);
/// # Ok::<(), perfagent::Error>(())
/// ```
pub struct Agent {
    config: Config,
    shared: Arc<Shared>,
    abandon: CancelToken,
    state: Mutex<State>,
}

enum State {
    Built(Box<Plan>),
    Running(Running),
    /// A start was cancelled: `stop` writes empty outputs, once.
    StartCancelled(Outputs, Exporters, Usage),
    Stopped,
    Closed,
}

struct Running {
    requests: Sender<Request>,
    thread: JoinHandle<Option<CaptureResult>>,
    outputs: Outputs,
    exporting: Exporting,
    /// Writes the outputs of intervals, if the configuration asks for them.
    rotation: Option<Rotation>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Describes a capture. Setters may come in any order; `build` refuses contradictions.
pub type AgentBuilder = Builder<Agent>;

impl Default for AgentBuilder {
    fn default() -> Self {
        Self::new(Agent::of)
    }
}

impl Agent {
    fn of(plan: Plan) -> Self {
        Self {
            config: plan.config.clone(),
            shared: Arc::default(),
            abandon: CancelToken::new(),
            state: Mutex::new(State::Built(Box::new(plan))),
        }
    }

    /// A builder, which describes what to capture.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// A copy of the effective configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// Starts the capture. Returns when all events are enabled. With [`Unwind::Dwarf`](crate::Unwind::Dwarf) it first waits
    /// until all unwind tables of the targets are compiled, which may take long. Other calls of this agent wait meanwhile.
    /// Use [`Self::start_cancellable`] to be able to cancel the wait.
    ///
    /// # Errors
    /// Any error that prevents the start; everything is undone. [`Error::AlreadyStarted`], [`Error::Closed`].
    pub fn start(&self) -> Result<(), Error> {
        self.start_cancellable(&CancelToken::new())
    }

    /// As [`Self::start`]; the token cancels it.
    ///
    /// # Errors
    /// As [`Self::start`]; [`Error::Cancelled`]. After that, one call of `stop` writes empty outputs.
    pub fn start_cancellable(&self, cancel: &CancelToken) -> Result<(), Error> {
        let usage = Usage::begin();
        let mut state = self.lock();
        let plan = match std::mem::replace(&mut *state, State::Stopped) {
            State::Built(plan) => *plan,
            State::Closed => {
                *state = State::Closed;
                return Err(Error::Closed);
            }
            other => {
                *state = other;
                return Err(Error::AlreadyStarted);
            }
        };
        let Plan { config, outputs: targets, command, exporters, callbacks, temporary_files } = plan;
        let open = |(kind, target)| Ok((kind, open_target(target)?));
        let opened = targets.into_iter().map(open).collect::<Result<_, Error>>()?;
        let outputs = Outputs::new(opened, config.drawing, temporary_files);
        let (metrics_interval, rotate, duration) =
            (config.metrics_interval, config.rotate, config.duration());
        let (requests, requested) = channel();
        let (ready, started) = channel();
        let (shared, cancel, abandon) = (Arc::clone(&self.shared), cancel.clone(), self.abandon.clone());
        let order = Order { config, command, callbacks, shared, abandon, usage };
        // The session is created on its own thread, because some of its parts cannot move between threads.
        let thread = sys::thread::spawn_quiet_thread("main", move || match Session::begin(order, &cancel) {
            Ok(session) => {
                let _ = ready.send(Ok(()));
                Some(session.run(requested))
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                None
            }
        });
        let failed = |source| Error::System { attempt: "start the thread of the capture".to_owned(), source };
        let thread = thread.map_err(failed)?;
        match started.recv() {
            Ok(Ok(())) => {
                let beside = exporters.start(metrics_interval, &self.shared).and_then(|exporting| {
                    let rotation = rotate.map(|every| {
                        let rotator = Rotator::new(requests.clone());
                        let until = duration.and_then(|length| Instant::now().checked_add(length));
                        let cutting = Cutting { every, until };
                        Rotation::of_outputs(rotator, cutting, outputs.of_intervals(), self.abandon.clone())
                    });
                    Ok((exporting, rotation.transpose()?))
                });
                match beside {
                    Ok((exporting, rotation)) => {
                        *state = State::Running(Running { requests, thread, outputs, exporting, rotation });
                    }
                    Err(error) => {
                        drop(requests);
                        let _ = thread.join();
                        return Err(error);
                    }
                }
                Ok(())
            }
            Ok(Err(error)) => {
                let _ = thread.join();
                if matches!(error, Error::Cancelled) {
                    self.shared.set_metrics(self.nothing(usage).metrics);
                    *state = State::StartCancelled(outputs, exporters, usage);
                }
                Err(error)
            }
            Err(_) => Err(failed(std::io::Error::other("it panicked"))),
        }
    }

    /// Waits until the time is over or all targets have ended.
    pub fn wait(&self, timeout: Duration) -> Ended {
        self.shared.wait(timeout)
    }

    /// The process of the command, from the start of the capture on; none if the target is not a command.
    #[must_use]
    pub fn child(&self) -> Option<ChildHandle> {
        self.shared.child()
    }

    /// The processes that the capture found as its targets when it started, in the order given; for a command its process. Empty
    /// before the start, and if the whole system is the target.
    #[must_use]
    pub fn targets(&self) -> Vec<TargetProcess> {
        self.shared.targets()
    }

    /// The current ledger.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.shared.ledger()
    }

    /// What was done with the perf trampolines of CPython, as of a moment ago, and complete after the end, or after a start that failed; none
    /// without [`AgentBuilder::inject_python`](crate::Builder::inject_python).
    #[must_use]
    pub fn python_stats(&self) -> Option<PythonStats> {
        self.shared.python_stats()
    }

    /// The current metrics, at most a second old. The first call waits some milliseconds for the next round of the
    /// capture.
    ///
    /// # Errors
    /// [`Error::PmuNotEnabled`] without [`AgentBuilder::pmu`](crate::Builder::pmu); [`Error::NotStarted`], [`Error::Closed`].
    pub fn metrics(&self) -> Result<MetricsSnapshot, Error> {
        match &*self.lock() {
            State::Built(_) => return Err(Error::NotStarted),
            State::Closed => return Err(Error::Closed),
            State::Running(_) | State::StartCancelled(..) | State::Stopped => {}
        }
        if !self.config.pmu() {
            return Err(Error::PmuNotEnabled);
        }
        self.shared.metrics().map(Arc::unwrap_or_clone).ok_or(Error::NotStarted)
    }

    /// The address of the metrics endpoint while it is open. None without [`AgentBuilder::metrics_listen`](crate::Builder::metrics_listen), before the start
    /// and after the end.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.shared.metrics_address()
    }

    /// Number of unwind tables for which the start still waits before the first sample.
    #[must_use]
    pub fn tables_left(&self) -> u64 {
        self.shared.tables_left()
    }

    /// Number of code locations without a name yet, once the capture has ended and all events are detached. None before
    /// that.
    #[must_use]
    pub fn names_left(&self) -> Option<u64> {
        self.shared.names_left()
    }

    /// Stops the search for names. Code locations without a name are written as addresses.
    pub fn abandon_symbolization(&self) {
        self.abandon.cancel();
    }

    /// Ends the capture and writes all outputs.
    ///
    /// # Errors
    /// [`Error::NotStarted`], [`Error::NotRunning`], [`Error::Closed`]. An output that could not be written is an error
    /// in the report.
    pub fn stop(&self) -> Result<Report, Error> {
        self.stop_with(&self.abandon)
    }

    /// As [`Self::stop`]; the token abandons symbolization.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub fn stop_with(&self, cancel: &CancelToken) -> Result<Report, Error> {
        let mut state = self.lock();
        let (result, outputs, exporting, rotated) = match std::mem::replace(&mut *state, State::Stopped) {
            State::Running(mut running) => {
                let heed_cancel = || {
                    if cancel.is_cancelled() {
                        self.abandon.cancel();
                    }
                };
                if let Some(rotation) = &mut running.rotation {
                    rotation.stop_cutting(heed_cancel);
                }
                // Not by dropping this end alone: threads that cut hold others. It fails if the targets have ended.
                let _ = running.requests.send(Request::Stop);
                while !running.thread.is_finished() {
                    heed_cancel();
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The names of earlier intervals are found before those of the last one.
                let rotated = running.rotation.map(|rotation| rotation.finish(heed_cancel));
                (join(running.thread)?, running.outputs, running.exporting, rotated)
            }
            State::StartCancelled(outputs, exporters, usage) => {
                (self.nothing(usage), outputs, exporters.start(None, &self.shared)?, None)
            }
            State::Stopped => return Err(Error::NotRunning),
            State::Built(plan) => {
                *state = State::Built(plan);
                return Err(Error::NotStarted);
            }
            State::Closed => {
                *state = State::Closed;
                return Err(Error::Closed);
            }
        };
        let ended_by = self.ended_by(&result);
        let recording = Recording::new(result.recording).drawn(outputs.drawing());
        // Write the outputs before the wait for exporters.
        let profiles = Profiles::of(recording.model());
        let contents =
            Contents { profiles: &profiles, metrics: result.metrics.as_ref(), drawing: outputs.drawing() };
        let (mut warnings, mut ledgers) = (result.warnings, result.ledgers);
        let (mut sums, mut whole) = (None, None);
        let (intervals, mut outputs) = match rotated {
            None => (0, outputs.write(&contents, cancel)),
            Some(mut rotated) => {
                rotated.sum_up(&profiles, &ledgers);
                rotated.judge_samples(&mut warnings, &recording, result.ended_by);
                warnings.extend(rotated.take_warnings());
                (sums, whole) = (rotated.sums, rotated.last);
                if let Some(sums) = &sums {
                    ledgers = sums.ledgers().to_vec();
                }
                let mut reports = rotated.failed;
                reports.extend(outputs.of_intervals().write(&profiles, cancel));
                reports.extend(outputs.of_capture().write(&contents, cancel));
                (rotated.intervals + 1, reports)
            }
        };
        outputs.extend(result.perf_data.map(perf_data_report));
        outputs.sort_by_key(|output| output.kind);
        warnings.extend(exporting.finish(result.metrics.as_ref()));
        Ok(Report {
            start: result.start,
            duration: result.duration,
            outputs,
            intervals,
            ledgers,
            warnings,
            pmu: result.metrics,
            ended_by,
            command_status: result.command_status,
            recording,
            sums,
            whole,
        })
    }

    /// Ends the current interval of a running capture and returns it as a recording. Sampling goes on, and nothing is lost or counted twice at
    /// the cut. [`Self::stop`] then covers the time since the last cut.
    ///
    /// The time of a wait is split at the cut; the wait is counted in the interval in which it ends. This call does not wait for names: they
    /// are found while the capture goes on, the oldest interval first, and the methods of [`Recording`] that show names wait for them. Names
    /// of an interval that nobody holds any more are not looked up. [`Self::abandon_symbolization`] and [`Self::close`] end the search for
    /// all intervals.
    ///
    /// # Errors
    /// [`Error::NotStarted`], [`Error::NotRunning`] (also if all targets have ended), [`Error::Closed`]; [`Error::System`] if the sums
    /// of the interval could not be taken.
    pub fn cut(&self) -> Result<Recording, Error> {
        self.rotator()?.cut()
    }

    /// Cuts a running capture every `every`, until the capture ends or the returned handle is dropped. Calls `each` with each recording when
    /// its names are complete, in the order of the intervals, on a separate thread.
    ///
    /// If names take longer than the intervals, up to 64 intervals and 64 MiB wait for them. Beyond that the oldest recording is handed out
    /// with the names that it has; the number of code locations that were not looked up is in
    /// [`names.outcome.abandoned`](Recording::model). If `each` is so slow that 128 intervals wait, the next cut comes later.
    ///
    /// # Errors
    /// As [`Self::cut`]; [`Error::System`] if a thread could not be started.
    pub fn rotate(
        &self,
        every: Duration,
        each: impl FnMut(Recording) + Send + 'static,
    ) -> Result<Rotation, Error> {
        Rotation::start(self.rotator()?, Cutting { every, until: None }, each)
    }

    fn rotator(&self) -> Result<Rotator, Error> {
        self.requests().map(Rotator::new)
    }

    /// Adds a process to the targets of a running capture: all its threads, and every descendant, living now or forked later. Its time counts
    /// from the return of this call, which waits, as the start does, until its unwind tables are compiled, up to 5 s with an off-CPU
    /// profile. The capture goes on meanwhile, and then ends when all targets have ended. A process that is a target already is one still.
    ///
    /// With [`inject_python`](AgentBuilder::inject_python) the trampolines of the process are switched on before it is a target; of its
    /// descendants those that can be. They are switched off at the end of the capture.
    ///
    /// # Errors
    /// [`Error::NotStarted`], [`Error::NotRunning`] (also if all targets have ended), [`Error::Closed`]; [`Error::InvalidConfig`] if the
    /// number cannot be that of a process, or if the whole system is the target; [`Error::Target`] if there is no such process or it may not be
    /// inspected; [`Error::Inject`] if its trampolines cannot be switched on. Then it is no target, and the capture goes on as before.
    pub fn add_pid(&self, pid: u32) -> Result<(), Error> {
        let requests = self.requests()?;
        if matches!(self.config.targets, Targets::System) {
            let reason = "a process cannot be added: the whole system is the target";
            return Err(Error::invalid("--pid", reason, "its processes are all profiled already"));
        }
        check_pid(pid)?;
        let kernel_stacks = self.config.target_kernel_stacks().get(&pid).copied();
        let mut notes = Vec::new();
        let pid = resolve(pid, &mut notes)?;
        notes.extend(zombie(pid));
        let (reply, answer) = channel();
        let target = NewTarget { pid, kernel_stacks, notes, reply };
        requests.send(Request::AddTarget(target)).map_err(|_| Error::NotRunning)?;
        answer.recv().map_err(|_| Error::NotRunning)?
    }

    /// The way to ask the running capture for something.
    fn requests(&self) -> Result<Sender<Request>, Error> {
        match &*self.lock() {
            State::Built(_) => Err(Error::NotStarted),
            State::Closed => Err(Error::Closed),
            State::Running(running) => Ok(running.requests.clone()),
            State::StartCancelled(..) | State::Stopped => Err(Error::NotRunning),
        }
    }

    /// Ends a running capture and discards its data. Further calls do nothing.
    pub fn close(&self) {
        let state = std::mem::replace(&mut *self.lock(), State::Closed);
        if let State::Running(running) = state {
            tracing::warn!(target: "perfagent", "a running capture was closed: its data are discarded");
            self.abandon.cancel();
            let _ = running.requests.send(Request::Stop);
            drop(running.rotation);
            let _ = running.thread.join();
            running.exporting.finish(None);
        }
    }

    /// Why a capture ended. The session does not know whether a stop came at the end of the configured duration.
    fn ended_by(&self, result: &CaptureResult) -> Ended {
        let is_over = match self.config.duration() {
            Some(length) => result.duration >= length,
            None => self.shared.has_waited(),
        };
        if result.ended_by == Ended::Stopped && is_over { Ended::Duration } else { result.ended_by }
    }

    /// The result of a capture that was cancelled before it began.
    fn nothing(&self, usage: Usage) -> CaptureResult {
        let trampolines = self.python_stats().map(|stats| stats.counts);
        CaptureResult::empty(&self.config, SystemTime::now(), usage, trampolines)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.close();
    }
}

fn panicked() -> Error {
    Error::System {
        attempt: "run the capture".to_owned(),
        source: std::io::Error::other("its thread panicked; please report this"),
    }
}

fn join(thread: JoinHandle<Option<CaptureResult>>) -> Result<CaptureResult, Error> {
    thread.join().ok().flatten().ok_or_else(panicked)
}

/// What became of the perf.data file.
fn perf_data_report((path, written): Written) -> OutputReport {
    let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let result = written.map_err(|source| Error::Output { which: path.display().to_string(), source });
    OutputReport { kind: OutputKind::PerfData, path: Some(path), bytes, result }
}
