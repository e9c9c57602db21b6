//! Waits of goroutines, with `--locks`: probes where Go's runtime parks goroutines and makes them ready again.
//!
//! In: finding the places ([`sites`]), the probes, and an end of them when they cost too much. Guaranteed: only the targets and what they start have
//! breakpoints; they are gone when this is dropped, and when the agent dies. What fails here is told, and the capture goes on without it.
//! Not here: what is recorded (`bpf/go_locks.h`), and how it is shown (crate `report`).

mod sites;

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use events::monitor::{FunctionProbe, MonitorError, Tracefs, remove_stale};
use kernel::{GoProgram, Kernel, probes_may_sample};
use sys::perf;

use self::sites::{Found, Sites};
use super::heap::family::Family;
use super::heap::price::{Bill, CpuTime, Work};
use super::source::{Opening, Source};
use crate::config::command as commands;
use crate::failure::load_error;
use crate::{Config, Error, Targets, Warning, WarningKind};

/// How long the start waits for the files of the targets.
const LOOK_FOR: Duration = Duration::from_secs(5);
/// What a hit of a probe costs with its walk, on average. Measured; see docs/benchmarks.md.
const OF_A_HIT: Duration = Duration::from_nanos(2_700);
/// Time between two looks at the price.
const LOOK: Duration = Duration::from_millis(100);

/// The waits of goroutines of the targets.
pub(crate) struct GoLocks {
    /// The file of the command, if the target is one.
    program: Option<PathBuf>,
    sites: Sites,
    family: Family,
    probes: Vec<(GoProgram, FunctionProbe)>,
    price: Price,
    /// The probes are being taken out, because they cost too much.
    closing: Option<JoinHandle<()>>,
    warnings: Vec<Warning>,
}

/// What the probes have cost.
#[derive(Default)]
struct Price {
    times: CpuTime,
    before: Work,
    bill: Bill,
    looked: Option<Instant>,
}

impl Price {
    fn look(&mut self, kernel: &Kernel, living: &[u32]) {
        let now = Work { calls: kernel.off_cpu_counters().go_hits, cpu_ns: self.times.look(living) };
        if self.looked.is_some() {
            self.bill.add(now.since(self.before), OF_A_HIT);
        }
        (self.before, self.looked) = (now, Some(Instant::now()));
    }
}

impl GoLocks {
    pub(crate) fn new(config: &Config) -> Self {
        let program = match &config.targets {
            Targets::Command(program) => commands::look_up_here(&std::process::Command::new(program)),
            _ => None,
        };
        Self {
            program,
            sites: Sites::new(),
            family: Family::new(&[], !config.no_children),
            probes: Vec::new(),
            price: Price::default(),
            closing: None,
            warnings: Vec::new(),
        }
    }

    fn warn(&mut self, reason: &str) {
        let message = format!("locks: waits of goroutines are not recorded: {reason}");
        self.warnings.push(Warning::new(
            WarningKind::Capture,
            message,
            "those of threads are; `go tool pprof` reads /debug/pprof/mutex and /block of programs that serve them",
        ));
    }

    /// Looks for places in the programs of processes. Whether there are any, and waits will be recorded.
    pub(crate) fn look_for(&mut self, pids: &[u32]) -> bool {
        let candidates = sites::candidates(pids, self.program.as_ref());
        let number = candidates.len();
        let (answer, answers) = channel();
        let look = move || {
            for path in candidates {
                if answer.send(sites::of_file(&path)).is_err() {
                    break;
                }
            }
        };
        // A file system may not answer.
        let Ok(_thread) = sys::thread::spawn_quiet_thread("go", look) else { return false };
        let by = Instant::now() + LOOK_FOR;
        let mut is_unknown = false;
        for _ in 0..number {
            match answers.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(Found::Sites(found)) => {
                    found
                        .into_iter()
                        .for_each(|(program, places)| self.sites.entry(program).or_default().extend(places));
                }
                Ok(Found::Unknown) => is_unknown = true,
                Ok(Found::NotGo) => {}
                Err(_) => break,
            }
        }
        if is_unknown {
            self.warn("the runtime of a target is not one of Go 1.18 or later on x86-64");
        }
        if !self.sites.is_empty() && !probes_may_sample() {
            self.warn("on this kernel a program at a probe may be preempted; Linux 6.15 is needed, or 6.12 and before");
            self.sites.clear();
        }
        !self.sites.is_empty()
    }

    fn define(&mut self, living: &dyn Fn() -> Vec<u32>) -> Result<(), MonitorError> {
        if let Ok(tracefs) = Tracefs::find(None) {
            // What a killed agent has left. Where it cannot be removed, it does no harm.
            let _removed = remove_stale(&tracefs);
        }
        for program in GoProgram::ALL {
            let Some(places) = self.sites.get(&program) else { continue };
            let mut probe = FunctionProbe::define(name(program), places, false)?;
            probe.open(living)?;
            self.probes.push((program, probe));
        }
        Ok(())
    }
}

/// What messages call the probes of a program.
fn name(program: GoProgram) -> &'static str {
    match program {
        GoProgram::ParkForFirst | GoProgram::ParkForAny => "runtime.gopark",
        GoProgram::Ready => "runtime.ready",
    }
}

/// Takes the breakpoints out: those that begin waits first.
fn close(probes: &mut Vec<(GoProgram, FunctionProbe)>) {
    while let Some((_, mut probe)) = probes.pop() {
        probe.close();
    }
}

impl Source for GoLocks {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        opening.targets.iter().for_each(|pid| self.family.add(*pid));
        if let Err(error) = self.define(opening.living) {
            close(&mut self.probes);
            self.warn(&error.to_string());
        }
        Ok(())
    }

    fn enable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        for (program, probe) in &self.probes {
            let Some(event) = probe.event() else { continue };
            let attached = kernel.with_go_program(*program, |program| perf::set_bpf(event, program));
            attached.map_err(load_error)?.map_err(|source| Error::Attach {
                event: name(*program).to_owned(),
                cpu: None,
                source,
            })?;
        }
        Ok(())
    }

    fn add_target(&mut self, _: &mut Kernel, pid: u32, _: u64) -> Result<(), Error> {
        self.family.add(pid);
        let added = self.probes.iter_mut().try_for_each(|(_, probe)| probe.add(&[pid]).map(drop));
        if let Err(error) = added {
            self.warn(&error.to_string());
        }
        Ok(())
    }

    fn advance(&mut self, kernel: &mut Kernel) -> Result<(), Error> {
        if self.probes.is_empty() || self.price.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return Ok(());
        }
        self.price.look(kernel, &self.family.living());
        if !self.price.bill.is_too_dear() {
            return Ok(());
        }
        let mut probes = std::mem::take(&mut self.probes);
        // The kernel takes its time, and the ring must be read meanwhile.
        let thread = sys::thread::spawn_quiet_thread("go", move || close(&mut probes));
        self.closing = thread.ok();
        self.warnings.push(Warning::new(
            WarningKind::Capture,
            format!(
                "locks: following the goroutines has taken the targets about {} ms of CPU time, more than 5 %: from now on their waits are not \
                 recorded",
                self.price.bill.cost_ms()
            ),
            "a capture of a second or less has the waits of its first moments; those of threads are all recorded",
        ));
        Ok(())
    }

    fn disable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        if !self.probes.is_empty() {
            self.price.look(kernel, &self.family.living());
        }
        close(&mut self.probes);
        if let Some(closing) = self.closing.take() {
            let _panicked = closing.join();
        }
        kernel.wait_for_programs().map_err(load_error)
    }

    fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}

impl Drop for GoLocks {
    fn drop(&mut self) {
        close(&mut self.probes);
    }
}
