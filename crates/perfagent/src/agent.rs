//! The agent: one capture from configuration to report, with the states of the specification.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use metrics::{MetricsSnapshot, json_report, text_report};

use crate::capture::{Capture, Outcome, Shared};
use crate::config::Plan;
use crate::export::{Exporters, Exporting};
use crate::output::{Finished, OutputFile, OutputTarget, publish_all};
use crate::report::{OutputReport, Profiles};
use crate::usage::Usage;
use crate::{
    AgentBuilder, CancelToken, ChildHandle, Config, Ended, Error, Ledger, OutputKind, Report, TemporaryFiles,
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
    stop: Sender<()>,
    thread: JoinHandle<Option<Outcome>>,
    outputs: Outputs,
    exporting: Exporting,
}

struct Outputs {
    targets: Vec<(OutputKind, OutputTarget)>,
    temporary_files: TemporaryFiles,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("config", &self.config).finish_non_exhaustive()
    }
}

impl AgentBuilder {
    /// Checks everything, touches nothing.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] for the first thing that is wrong.
    pub fn build(self) -> Result<Agent, Error> {
        let plan = self.plan()?;
        Ok(Agent {
            config: plan.config.clone(),
            shared: Arc::default(),
            abandon: CancelToken::new(),
            state: Mutex::new(State::Built(Box::new(plan))),
        })
    }
}

impl Agent {
    /// What to capture is said to the builder.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// A copy of the effective configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// Returns when all events are enabled. With [`Unwind::Dwarf`](crate::Unwind::Dwarf) that is after all unwind tables of the
    /// targets are made, however long it takes; until then other calls of this agent wait too, and [`Self::start_cancellable`]
    /// can be cancelled.
    ///
    /// # Errors
    /// Whatever kept the capture from starting; everything is undone. [`Error::AlreadyStarted`], [`Error::Closed`].
    pub fn start(&self) -> Result<(), Error> {
        self.start_cancellable(&CancelToken::new())
    }

    /// As [`Self::start`], until cancelled.
    ///
    /// # Errors
    /// As [`Self::start`]; [`Error::Cancelled`], after which `stop` once writes empty outputs.
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
        let outputs = Outputs { targets, temporary_files };
        let interval = config.metrics_interval;
        let (stop, stopped) = channel();
        let (ready, started) = channel();
        let (shared, cancel, abandon) = (Arc::clone(&self.shared), cancel.clone(), self.abandon.clone());
        // The capture is made on its thread: parts of it must not leave the thread that made them.
        let thread = sys::thread::spawn_quiet_thread("main", move || {
            match Capture::start(config, command, callbacks, shared, &cancel, abandon, usage) {
                Ok(capture) => {
                    let _ = ready.send(Ok(()));
                    Some(capture.run(&stopped))
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    None
                }
            }
        });
        let failed = |source| Error::System { attempt: "start the thread of the capture".to_owned(), source };
        let thread = thread.map_err(failed)?;
        match started.recv() {
            Ok(Ok(())) => {
                let exporting = exporters.start(interval, &self.shared);
                match exporting {
                    Ok(exporting) => *state = State::Running(Running { stop, thread, outputs, exporting }),
                    Err(error) => {
                        drop(stop);
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

    /// The command's process, since the start of the capture; none if the target is another one.
    #[must_use]
    pub fn child(&self) -> Option<ChildHandle> {
        self.shared.child()
    }

    /// The ledger as it stands.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.shared.ledger()
    }

    /// The metrics as they stand; not older than a second. The first call waits for the next round of the capture, which is
    /// a matter of milliseconds.
    ///
    /// # Errors
    /// [`Error::PmuNotEnabled`] without [`AgentBuilder::pmu`]; [`Error::NotStarted`], [`Error::Closed`].
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

    /// Where metrics can be fetched: the address that was bound, while it is. None without
    /// [`AgentBuilder::metrics_listen`], before the start and after the end.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.shared.metrics_address()
    }

    /// Unwind tables that a start still waits for before the first sample.
    #[must_use]
    pub fn tables_left(&self) -> u64 {
        self.shared.tables_left()
    }

    /// Places in code whose names are still to be looked up, once the capture has ended and nothing stays attached. None
    /// before.
    #[must_use]
    pub fn names_left(&self) -> Option<u64> {
        self.shared.names_left()
    }

    /// Gives up on names that are not found yet: those places are written as addresses.
    pub fn abandon_symbolization(&self) {
        self.abandon.cancel();
    }

    /// Ends the capture and writes every output it can.
    ///
    /// # Errors
    /// [`Error::NotStarted`], [`Error::NotRunning`], [`Error::Closed`]. An output that could not be written is an error
    /// in the report.
    pub fn stop(&self) -> Result<Report, Error> {
        self.stop_with(&self.abandon)
    }

    /// As [`Self::stop`]; cancelling abandons symbolization.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub fn stop_with(&self, cancel: &CancelToken) -> Result<Report, Error> {
        let mut state = self.lock();
        let (outcome, outputs, exporting) = match std::mem::replace(&mut *state, State::Stopped) {
            State::Running(running) => {
                drop(running.stop);
                while !running.thread.is_finished() {
                    if cancel.is_cancelled() {
                        self.abandon.cancel();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                (join(running.thread)?, running.outputs, running.exporting)
            }
            State::StartCancelled(outputs, exporters, usage) => {
                (self.nothing(usage), outputs, exporters.start(None, &self.shared)?)
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
        let ended_by = self.ended_by(&outcome);
        // Before exporters are waited for.
        let contents = Contents { profiles: &outcome.profiles, metrics: outcome.metrics.as_ref() };
        let outputs = write_all(outputs.targets, &contents, &outputs.temporary_files, cancel);
        let mut warnings = outcome.warnings;
        warnings.extend(exporting.finish(outcome.metrics.as_ref()));
        Ok(Report {
            start: outcome.start,
            duration: outcome.duration,
            outputs,
            ledgers: outcome.ledgers,
            warnings,
            pmu: outcome.metrics,
            ended_by,
            command_status: outcome.command_status,
            profiles: outcome.profiles,
        })
    }

    /// Ends a running capture and discards its data. May be called again.
    pub fn close(&self) {
        let state = std::mem::replace(&mut *self.lock(), State::Closed);
        if let State::Running(running) = state {
            tracing::warn!(target: "perfagent", "a running capture was closed: its data are discarded");
            self.abandon.cancel();
            drop(running.stop);
            let _ = running.thread.join();
            running.exporting.finish(None);
        }
    }

    /// Why a capture ended: it does not know for what it was stopped.
    fn ended_by(&self, outcome: &Outcome) -> Ended {
        let is_over = match self.config.duration() {
            Some(length) => outcome.duration >= length,
            None => self.shared.has_waited(),
        };
        if outcome.ended_by == Ended::Stopped && is_over { Ended::Duration } else { outcome.ended_by }
    }

    /// What a capture gives that was cancelled before it began.
    fn nothing(&self, usage: Usage) -> Outcome {
        Outcome::empty(&self.config, SystemTime::now(), usage)
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

fn join(thread: JoinHandle<Option<Outcome>>) -> Result<Outcome, Error> {
    let panicked = || Error::System {
        attempt: "run the capture".to_owned(),
        source: std::io::Error::other("its thread panicked; please report this"),
    };
    thread.join().ok().flatten().ok_or_else(panicked)
}

/// Writes what can be written. `give_up`: no longer waits for those who are to read it.
fn write_all(
    targets: Vec<(OutputKind, OutputTarget)>,
    contents: &Contents<'_>,
    temporary: &TemporaryFiles,
    give_up: &CancelToken,
) -> Vec<OutputReport> {
    let names: Vec<_> = targets.iter().map(|(kind, target)| (*kind, target.describe())).collect();
    let written = targets.into_iter().map(|(kind, target)| {
        let mut file = OutputFile::open(target, temporary, give_up)?;
        encode(kind, contents, &mut file)?;
        file.finish()
    });
    let finished = publish_all(written.collect());
    let report = |((kind, which), finished): ((OutputKind, String), std::io::Result<Finished>)| match finished
    {
        Ok(finished) => OutputReport { kind, path: finished.path, bytes: finished.bytes, result: Ok(()) },
        Err(source) => {
            OutputReport { kind, path: None, bytes: 0, result: Err(Error::Output { which, source }) }
        }
    };
    names.into_iter().zip(finished).map(report).collect()
}

/// What outputs are made of.
struct Contents<'a> {
    profiles: &'a Profiles,
    metrics: Option<&'a MetricsSnapshot>,
}

fn encode(kind: OutputKind, contents: &Contents<'_>, out: &mut impl Write) -> std::io::Result<()> {
    // Of (count, time), the time is what stacks are drawn by.
    const TIME: usize = 1;
    let Profiles { cpu, off_cpu, wall } = contents.profiles;
    let drawn = match (cpu, off_cpu) {
        (Some(cpu), _) => Some((cpu, "On-CPU time")),
        (None, Some(off_cpu)) => Some((off_cpu, "Off-CPU time")),
        (None, None) => None,
    };
    // Validation lets no output pass without its profile.
    let missing = || std::io::Error::other("the profile was not taken");
    match kind {
        OutputKind::CpuProfile => out.write_all(&formats::pprof::encode(cpu.as_ref().ok_or_else(missing)?)),
        OutputKind::OffCpuProfile => {
            out.write_all(&formats::pprof::encode(off_cpu.as_ref().ok_or_else(missing)?))
        }
        OutputKind::WallProfile => out.write_all(&formats::pprof::encode(wall.as_ref().ok_or_else(missing)?)),
        OutputKind::PmuReport => out.write_all(text_report(contents.metrics.ok_or_else(missing)?).as_bytes()),
        OutputKind::PmuJson => out.write_all(json_report(contents.metrics.ok_or_else(missing)?).as_bytes()),
        OutputKind::Folded => formats::folded::write(drawn.ok_or_else(missing)?.0, TIME, out),
        OutputKind::FlameGraph => {
            let (profile, title) = drawn.ok_or_else(missing)?;
            formats::flamegraph::write(profile, TIME, title, out)
        }
    }
}
