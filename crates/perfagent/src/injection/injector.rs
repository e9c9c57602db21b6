//! The trampolines of one capture, from the start to the end.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::engine::Engine;
use super::late::{LateProcesses, Promise};
use super::off_limits::{FIRST, own_line};
use super::outcome::Outcome;
use super::refused::{NOT_PYTHON, OTHER, Refused};
use super::remedy::remedy;
use super::stats::PythonStats;
use crate::processes::ExecInstance;
use crate::{Error, Warning};

/// Generations of forked processes that are looked for at the end.
const GENERATIONS: usize = 8;

/// Switches processes on and, at the end or when it is dropped, off.
pub(crate) struct Injector {
    /// Before the engine: its threads end first.
    late: Option<LateProcesses>,
    engine: Arc<Engine>,
    outcome: Arc<Mutex<Outcome>>,
    own_line: HashSet<u32>,
    /// What ran in the processes that were switched before their interpreters were found.
    switched: HashMap<u32, Arc<ExecInstance>>,
}

impl Injector {
    /// # Errors
    /// [`Error::Unsupported`] on other processors than x86-64; [`Error::System`].
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            late: None,
            engine: Arc::new(Engine::new()?),
            outcome: Arc::default(),
            own_line: own_line(),
            switched: HashMap::new(),
        })
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches on the processes with which a capture begins, until `is_over`. `named`: those that the user gave by number.
    ///
    /// # Errors
    /// [`Error::Inject`] for the first named process that is refused.
    pub(crate) fn begin(
        &mut self,
        named: &[u32],
        others: &[u32],
        instances: HashMap<u32, Arc<ExecInstance>>,
        is_over: impl Fn() -> bool + Sync,
    ) -> Result<(), Error> {
        named.iter().try_for_each(|pid| self.check_named(*pid))?;
        let others: Vec<u32> = others.iter().copied().filter(|pid| !named.contains(pid)).collect();
        let allowed: Vec<u32> = others.iter().copied().filter(|pid| self.may_switch(*pid)).collect();
        self.skip(OTHER, (others.len() - allowed.len()) as u64);
        self.switched = instances;
        let pids = [named, &allowed].concat();
        let mut refused = self.engine.add_all(&pids, is_over);
        let place = |one: &Refused| pids.iter().position(|pid| *pid == one.pid);
        refused.sort_by_key(place);
        if let Some(one) = refused.iter().find(|one| named.contains(&one.pid)) {
            return Err(refusal(one));
        }
        let mut outcome = self.outcome();
        refused.iter().for_each(|one| outcome.refused(one));
        let is_refused = |pid: &u32| refused.iter().any(|one| one.pid == *pid);
        pids.iter().filter(|pid| !is_refused(pid)).for_each(|pid| outcome.is_on(*pid));
        Ok(())
    }

    /// Processes that are known to run no Python were left out.
    pub(crate) fn skip_others(&self, count: u64) {
        self.skip(NOT_PYTHON, count);
    }

    fn skip(&self, token: &'static str, count: u64) {
        self.outcome().skip(token, count);
    }

    fn check_named(&self, pid: u32) -> Result<(), Error> {
        if self.own_line.contains(&pid) {
            let cause = "it is perf-agent itself, or perf-agent descends from it".to_owned();
            return Err(refusal(&Refused { pid, token: OTHER, cause }));
        }
        Ok(())
    }

    fn may_switch(&self, pid: u32) -> bool {
        pid != FIRST && !self.own_line.contains(&pid)
    }

    /// Switches on processes whose interpreter was found now, soon and beside the capture.
    pub(crate) fn add(&mut self, found: Vec<Arc<ExecInstance>>) {
        for instance in found {
            let pid = instance.pid;
            if self.switched.get(&pid).is_some_and(|known| Arc::ptr_eq(known, &instance)) {
                continue;
            }
            if !self.may_switch(pid) {
                self.skip(OTHER, 1);
                continue;
            }
            match self.late() {
                Ok(late) => late.add(pid),
                Err(error) => {
                    self.outcome().refused(&not_started(pid, &error));
                    self.skip(OTHER, 1);
                }
            }
        }
    }

    /// Switches on a process that the user adds by number, before it becomes a target.
    ///
    /// # Errors
    /// [`Error::Inject`] if it may not be switched.
    pub(crate) fn add_named(&mut self, pid: u32) -> Result<Switching, Error> {
        self.check_named(pid)?;
        let late = self.late().map_err(|error| refusal(&not_started(pid, &error)))?;
        Ok(Switching(late.add_named(pid)))
    }

    /// What runs in a process that was switched before it became a target.
    pub(crate) fn is_switched(&mut self, instance: &Arc<ExecInstance>) {
        self.switched.insert(instance.pid, Arc::clone(instance));
    }

    /// The threads for late processes, which begin with the first one.
    fn late(&mut self) -> std::io::Result<&LateProcesses> {
        let late = match self.late.take() {
            Some(late) => late,
            None => LateProcesses::start(&self.engine, &self.outcome)?,
        };
        Ok(self.late.insert(late))
    }

    /// What is to be told since the last call.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        self.outcome().take_warnings()
    }

    /// What was done so far.
    pub(crate) fn stats(&self) -> PythonStats {
        self.stats_of(self.engine.counts(), Vec::new())
    }

    /// Switches off what was switched on.
    pub(crate) fn finish(&mut self) -> PythonStats {
        self.late = None;
        let (mut counts, mut failed) = self.engine.finish();
        let mut known = self.outcome().on.clone();
        // Until it is off, a process forks others that are on. A child of one that was off is off.
        for _ in 0..GENERATIONS {
            let forked = children(&known);
            if forked.is_empty() {
                break;
            }
            (counts, failed) = self.engine.finish_forked(&forked);
            known.extend(forked);
        }
        self.stats_of(counts, failed)
    }

    fn stats_of(&self, counts: recording::TrampolineCounts, failed: Vec<Refused>) -> PythonStats {
        let outcome = self.outcome();
        PythonStats {
            counts: outcome.complete(counts),
            left_on: failed
                .into_iter()
                .map(|one| (one.pid, format!("{}: {}", one.token, one.cause)))
                .collect(),
            maps: outcome.maps.clone(),
        }
    }
}

/// A process that the user has added, while it is being switched on.
pub(crate) struct Switching(Promise);

impl Switching {
    /// None: not yet.
    pub(crate) fn outcome(&self) -> Option<Result<(), Error>> {
        let outcome = self.0.outcome()?;
        Some(outcome.map_err(|refused| refused.map_or(Error::NotRunning, |refused| refusal(&refused))))
    }
}

fn not_started(pid: u32, error: &std::io::Error) -> Refused {
    Refused { pid, token: OTHER, cause: format!("start a thread: {error}") }
}

/// A process that was given by number was refused.
fn refusal(Refused { pid, token, cause }: &Refused) -> Error {
    Error::Inject { pid: *pid, token, cause: cause.clone(), hint: remedy(token).to_owned() }
}

/// The children of processes that are not among these.
fn children(known: &HashSet<u32>) -> Vec<u32> {
    let all = process::task::parents().unwrap_or_default();
    let is_child = |(pid, parent): &(u32, u32)| known.contains(parent) && !known.contains(pid);
    all.into_iter().filter(is_child).map(|(pid, _)| pid).collect()
}
