//! Allocations, in place of the clock: probes at the functions of the allocators that the targets have mapped.
//!
//! In: finding the allocators ([`allocators`]), which function needs which program ([`functions`]), the probes ([`probe_set`]), what they cost ([`price`]), and recording
//! less when that is too much ([`watch`]). Guaranteed: only the targets and what they start have breakpoints; they are gone when this is dropped, and when the
//! agent dies.
//! Not here: what is counted (`bpf/heap.h`), and how it is shown (crate `report`).

mod allocators;
pub(super) mod family;
mod functions;
pub(super) mod price;
mod probe_set;
mod programs;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use events::Mmap;
use events::monitor::{MonitorError, Tracefs, remove_stale};
use kernel::{Kernel, probes_may_sample};
use recording::{Accounting, HeapCounts};

use self::allocators::{Allocators, Found, Places};
use self::family::Family;
use self::price::{Bill, CpuTime, Work};
use self::probe_set::ProbeSet;
use self::watch::Watch;
use super::source::{Opening, Source};
use crate::config::{HeapMode, command as commands};
use crate::failure::load_error;
use crate::{Config, Error, Targets, Warning, WarningKind, privilege};

/// How long the start waits for the files of the targets.
const LOOK_FOR: Duration = Duration::from_secs(5);

/// The allocations of the targets.
pub(crate) struct Heap {
    mode: HeapMode,
    /// The file of the command, if the target is one.
    program: Option<PathBuf>,
    allocators: Option<Allocators>,
    family: Family,
    /// The probes, before they are watched.
    sets: Vec<ProbeSet>,
    /// Recording for as long as it is cheap.
    watch: Option<Watch>,
    of_a_call: Duration,
    /// CPU time of the targets when the capture began, and its calls' price at the end.
    times: CpuTime,
    cpu_before_ns: u64,
    cost_percent: Option<f64>,
    warnings: Vec<Warning>,
}

impl Heap {
    pub(crate) fn new(config: &Config) -> Self {
        let program = match &config.targets {
            Targets::Command(program) => commands::look_up_here(&std::process::Command::new(program)),
            _ => None,
        };
        Self {
            mode: config.heap.unwrap_or_default(),
            program,
            allocators: None,
            family: Family::new(&[], !config.no_children),
            sets: Vec::new(),
            watch: None,
            of_a_call: price::of_a_call(false),
            times: CpuTime::default(),
            cpu_before_ns: 0,
            cost_percent: None,
            warnings: Vec::new(),
        }
    }

    fn failed(&self, error: &MonitorError) -> Error {
        if error.is_permission()
            && let Err(missing) = privilege::require(false)
        {
            return missing;
        }
        let hint = match error {
            MonitorError::Tracefs { .. } => "mount -t tracefs tracefs /sys/kernel/tracing",
            _ => "defining probes takes root, or cap_dac_override beside the capabilities of a capture",
        };
        Error::invalid("--heap", format!("--heap: {error}"), hint)
    }

    /// All that was found, as one set of probes.
    fn add_set(&mut self, found: Vec<Found>, living: &dyn Fn() -> Vec<u32>) -> Result<bool, Error> {
        let mut places = Places::new();
        for (program, more) in found.into_iter().flat_map(|found| found.places) {
            places.entry(program).or_default().extend(more);
        }
        if places.is_empty() {
            return Ok(false);
        }
        let mut set = ProbeSet::define(&places).map_err(|error| self.failed(&error))?;
        set.open(living).map_err(|error| self.failed(&error))?;
        self.sets.push(set);
        Ok(true)
    }
}

impl Heap {
    /// Begins to record at the probes that were defined last.
    fn begin_last_set(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let Some(mut set) = self.sets.pop() else { return Ok(()) };
        match &self.watch {
            // The next window opens it.
            Some(watch) if watch.windows() > 0 => {
                set.close();
                watch.add_set(set);
            }
            Some(watch) => {
                set.attach(kernel)?;
                watch.add_set(set);
            }
            None => {
                set.attach(kernel)?;
                self.sets.push(set);
            }
        }
        Ok(())
    }

    /// What the calls have cost of the CPU time of the targets that still live.
    fn settle_price(&mut self, kernel: &Kernel) {
        let calls = kernel.heap_counts().map_or(0, |counts| counts.calls);
        let cpu_ns = self.times.look(&self.family.living()).saturating_sub(self.cpu_before_ns);
        let mut bill = Bill::default();
        bill.add(Work { calls, cpu_ns }, self.of_a_call);
        self.cost_percent = (cpu_ns > 0).then(|| bill.percent());
    }
}

/// No allocator was found.
fn no_allocator(is_go: bool) -> Error {
    let (feature, since) = match is_go {
        true => (
            "--heap of a program in Go",
            "a later version of perf-agent; `go tool pprof` reads /debug/pprof/heap of programs that serve it",
        ),
        false => (
            "--heap of a target that maps no known allocator with names",
            "a dynamically linked libc, or a static program whose symbol table has malloc and free; docs/heap.md lists the names",
        ),
    };
    Error::Unsupported { feature: feature.to_owned(), since: since.to_owned() }
}

impl Source for Heap {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        if !probes_may_sample() {
            return Err(Error::Unsupported {
                feature: "--heap, where a program at a probe may be preempted,".to_owned(),
                since: "Linux 6.15, or 6.12 and before, with CONFIG_DEBUG_INFO_BTF".to_owned(),
            });
        }
        if let Ok(tracefs) = Tracefs::find(None) {
            // What a killed agent has left. Where it cannot be removed, it does no harm.
            let _removed = remove_stale(&tracefs);
        }
        let mut allocators = Allocators::start()?;
        opening.pids.iter().for_each(|pid| allocators.ask_for_process(*pid));
        if let Some(program) = &self.program {
            allocators.ask_for_file(program);
        }
        let found = allocators.take(LOOK_FOR);
        self.allocators = Some(allocators);
        opening.targets.iter().for_each(|pid| self.family.add(*pid));
        let is_go = found.iter().any(|found| found.is_go);
        if found.iter().any(|found| found.is_dear) {
            self.of_a_call = price::of_a_call(true);
            self.warnings.push(Warning::new(
                WarningKind::Capture,
                "a function of an allocator has no instruction near its entry that the kernel emulates: its calls cost ten times as much as others",
                "docs/heap.md tells what that costs",
            ));
        }
        match self.add_set(found, opening.living)? {
            true => Ok(()),
            false => Err(no_allocator(is_go)),
        }
    }

    fn enable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        self.cpu_before_ns = self.times.look(&self.family.living());
        self.sets.iter().try_for_each(|set| set.attach(kernel))?;
        if self.mode == HeapMode::WhileCheap {
            let programs = programs::of(kernel)?;
            let counter = kernel.heap_counter().map_err(load_error)?;
            let (sets, family) = (std::mem::take(&mut self.sets), self.family.clone());
            self.watch = Some(Watch::start(sets, programs, counter, family, self.of_a_call)?);
        }
        Ok(())
    }

    fn add_target(&mut self, kernel: &mut Kernel, pid: u32, _: u64) -> Result<(), Error> {
        self.family.add(pid);
        if let Some(watch) = &self.watch {
            watch.add_process(pid);
        }
        let added = self.sets.iter_mut().try_for_each(|set| set.add(pid));
        added.map_err(|error| self.failed(&error))?;
        let Some(allocators) = &mut self.allocators else { return Ok(()) };
        allocators.ask_for_process(pid);
        let found = allocators.take(LOOK_FOR);
        match self.add_set(found, &|| vec![pid])? {
            true => self.begin_last_set(kernel),
            false => Ok(()),
        }
    }

    fn mapped(&mut self, mapping: &Mmap) {
        if let Some(allocators) = &mut self.allocators {
            allocators.ask_for_mapping(mapping);
        }
    }

    fn advance(&mut self, kernel: &mut Kernel) -> Result<(), Error> {
        let Some(allocators) = &mut self.allocators else { return Ok(()) };
        let found = allocators.take(Duration::ZERO);
        if found.iter().all(|found| found.places.is_empty()) {
            return Ok(());
        }
        let living = self.family.living();
        if self.add_set(found, &|| living.clone())? {
            self.begin_last_set(kernel)?;
            self.warnings.push(Warning::bare(
                WarningKind::Capture,
                "heap: a target has loaded an allocator while it ran: its calls in the first moments are not recorded",
            ));
        }
        Ok(())
    }

    fn disable(&mut self, kernel: &mut Kernel, _: u64) -> Result<(), Error> {
        if let Some(watch) = &mut self.watch {
            watch.stop();
        }
        self.settle_price(kernel);
        self.sets.iter_mut().for_each(ProbeSet::close);
        self.sets.clear();
        kernel.wait_for_programs().map_err(load_error)
    }

    fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        let Ok(counts) = kernel.heap_counts() else { return };
        accounting.heap_windows = self.watch.as_ref().map_or(0, Watch::windows);
        accounting.heap = Some(HeapCounts {
            cost_permille: self.cost_percent.map(|percent| (10.0 * percent) as u64),
            calls: counts.calls,
            freed: counts.freed,
            frees_unknown: counts.unknown,
            failed: counts.failed,
            untracked: counts.untracked,
            untracked_bytes: counts.untracked_bytes,
            frees_unseen: counts.given_again,
            calls_lost: counts.calls_lost,
        });
    }

    fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.watch.iter().flat_map(Watch::take_warnings));
        warnings
    }
}
