//! Allocations, in place of the clock: probes at the functions of the allocators that the targets have mapped.
//!
//! In: finding the allocators ([`allocators`]), which function needs which program ([`functions`]), how returns are seen ([`returns`]), allocators that sample themselves ([`samplers`]), which of both is
//! recorded ([`choice`]), the probes ([`probe_set`]), what they cost ([`price`]), and recording less when that is too much ([`watch`]). Guaranteed: only the targets and what they start have breakpoints; they are gone when this is dropped, and when the
//! agent dies.
//! Not here: what is counted (`bpf/heap.h`), and how it is shown (crate `report`).

mod allocators;
mod choice;
pub(super) mod family;
mod functions;
pub(super) mod price;
mod probe_set;
mod programs;
mod returns;
mod samplers;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use events::Mmap;
use events::monitor::{FunctionPlace, MonitorError, Tracefs, remove_stale};
use kernel::{HeapProgram, Kernel, probes_may_sample, return_probes_pass_filters};
use recording::{Accounting, HeapCounts};

use self::allocators::{Allocators, Found};
use self::choice::{Choice, KnownSites, Recorded};
use self::family::Family;
use self::price::{Bill, CpuTime, Work};
use self::probe_set::ProbeSet;
use self::samplers::SamplerKind;
use self::watch::Watch;
use super::source::{Opening, Source};
use crate::config::{HeapMode, command as commands};
use crate::failure::{load_error, refused_event};
use crate::{Config, Error, Targets, Warning, WarningKind};

/// How long the start waits for the files of the targets.
const LOOK_FOR: Duration = Duration::from_secs(5);

/// The allocations of the targets.
pub(crate) struct Heap {
    mode: HeapMode,
    /// The file of the command, if the target is one.
    program: Option<PathBuf>,
    allocators: Option<Allocators>,
    family: Family,
    recorded: Recorded,
    /// Who takes the samples that are recorded.
    samplers: BTreeSet<SamplerKind>,
    sites: KnownSites,
    /// Where handlers of exceptions begin: not probed yet.
    catches: Vec<FunctionPlace>,
    /// Returns are seen at instructions that return, which are not reached where an exception leaves the function.
    sees_returns_here: bool,
    /// The probes, before they are watched.
    sets: Vec<ProbeSet>,
    /// Recording for as long as it is cheap.
    watch: Option<Watch>,
    of_a_call: Duration,
    /// CPU time of the targets when the capture began, and its calls' price at the end.
    times: CpuTime,
    cpu_before_ns: u64,
    cost_percent: Option<f64>,
    /// The kernel may take the probes out of a process when another one ends.
    may_lose_children: bool,
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
            recorded: Recorded::Calls,
            samplers: BTreeSet::new(),
            sites: KnownSites::default(),
            catches: Vec::new(),
            sees_returns_here: false,
            sets: Vec::new(),
            watch: None,
            of_a_call: price::of_a_call(false, false),
            times: CpuTime::default(),
            cpu_before_ns: 0,
            cost_percent: None,
            may_lose_children: false,
            warnings: Vec::new(),
        }
    }

    fn failed(&self, error: &MonitorError) -> Error {
        if let Some(refused) = refused_event("--heap", error) {
            return refused;
        }
        let hint = match error {
            MonitorError::Tracefs { .. } => "mount -t tracefs tracefs /sys/kernel/tracing",
            _ => "defining probes takes root, or cap_dac_override beside the capabilities of a capture",
        };
        Error::invalid("--heap", format!("--heap: {error}"), hint)
    }

    /// All of what was found that is to be recorded, as one set of probes.
    fn add_set(
        &mut self,
        kernel: &mut Kernel,
        found: Vec<Found>,
        living: &dyn Fn() -> Vec<u32>,
    ) -> Result<Added, Error> {
        let unusable: Vec<String> = found.iter().filter_map(|found| found.unusable.clone()).collect();
        let mut choice = Choice::of(found, self.recorded, &mut self.sites);
        self.tell(&choice, &unusable);
        let added = if choice.places.is_empty() { Added::Catches } else { Added::Allocators };
        self.sees_returns_here |= choice.places.contains_key(&HeapProgram::ReturnedHere);
        self.catches.append(&mut choice.catches);
        if self.sees_returns_here && !self.catches.is_empty() {
            choice.places.insert(HeapProgram::Caught, std::mem::take(&mut self.catches));
        }
        if choice.places.is_empty() {
            return Ok(Added::Nothing);
        }
        for (offset, site) in &choice.sites {
            kernel.set_heap_site(*offset, site).map_err(load_error)?;
        }
        let mut set = ProbeSet::define(&choice.places).map_err(|error| self.failed(&error))?;
        set.open(living).map_err(|error| self.failed(&error))?;
        self.may_lose_children |= set.may_lose_children();
        self.sets.push(set);
        Ok(added)
    }

    /// Tells what a choice means.
    fn tell(&mut self, choice: &Choice, unusable: &[String]) {
        let mut note = |message: String, hint: &str| {
            self.warnings.push(Warning::new(WarningKind::Capture, message, hint));
        };
        for kind in choice.kinds.iter().filter(|kind| self.samplers.insert(**kind)) {
            let message = format!("heap: {}: those are recorded, and values are estimates", kind.described());
            note(message, "--heap=exact records every call at any price");
        }
        if choice.leaves_calls && !choice.kinds.is_empty() {
            let message = "heap: targets have another allocator too, which takes no samples: its allocations are not recorded";
            note(message.to_owned(), "--heap=exact records the calls of all; or record its processes alone");
        }
        if choice.has_go_calls {
            let message = "heap: of a program in Go, calls of the allocator are recorded, and not what is in use: nothing in it asks for a heap profile, or exact numbers were asked for";
            note(message.to_owned(), "import _ \"net/http/pprof\" into the program, or leave out =exact");
        }
        if choice.mistakable > 0 {
            let message = format!(
                "heap: {} files with allocators are not recorded: their functions lie at the same places in a page as those of others",
                choice.mistakable
            );
            note(message, "record their processes alone");
        }
        for why in &choice.left_out {
            note(
                format!(
                    "heap: calls of a function are not recorded, only those of functions that it calls: {why}"
                ),
                "docs/heap.md tells which functions are affected",
            );
        }
        for why in unusable {
            note(
                format!("heap: samples are told, but cannot be read: {why}"),
                "calls of malloc are recorded instead",
            );
        }
    }
}

/// What a set of probes is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    Nothing,
    /// Handlers of exceptions, for allocators of other sets.
    Catches,
    Allocators,
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
            "--heap of a program in Go without a symbol table, or made by a Go before 1.17",
            "a build without -ldflags=-s; `go tool pprof` reads /debug/pprof/heap of programs that serve it",
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
        let mut allocators = Allocators::start(return_probes_pass_filters())?;
        opening.pids.iter().for_each(|pid| allocators.ask_for_process(*pid));
        if let Some(program) = &self.program {
            allocators.ask_for_file(program);
        }
        let found = allocators.take(LOOK_FOR);
        self.allocators = Some(allocators);
        opening.targets.iter().for_each(|pid| self.family.add(*pid));
        let is_go = found.iter().any(|found| found.is_go);
        let (entries, returns) =
            (found.iter().any(|found| found.is_dear), found.iter().any(|found| found.returns_are_dear));
        self.of_a_call = price::of_a_call(entries, returns);
        if entries {
            self.warnings.push(Warning::new(
                WarningKind::Capture,
                "a function of an allocator has no instruction near its entry that the kernel emulates: its calls cost ten times as much as others",
                "docs/heap.md tells what that costs",
            ));
        }
        self.recorded = Recorded::by(self.mode, &found);
        match self.add_set(opening.kernel, found, opening.living)? {
            Added::Allocators => Ok(()),
            Added::Nothing | Added::Catches => Err(no_allocator(is_go)),
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
        match self.add_set(kernel, found, &|| vec![pid])? {
            Added::Nothing => Ok(()),
            Added::Catches | Added::Allocators => self.begin_last_set(kernel),
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
        if found.is_empty() {
            return Ok(());
        }
        let living = self.family.living();
        let added = self.add_set(kernel, found, &|| living.clone())?;
        if added != Added::Nothing {
            self.begin_last_set(kernel)?;
        }
        if added == Added::Allocators {
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
        if self.may_lose_children && self.family.living().len() > 1 {
            self.warnings.push(Warning::new(
                WarningKind::Capture,
                "heap: allocations of processes that the targets have started may be missing: before Linux 6.13, the kernel may take the \
                 probes out of one process when another one ends",
                "record each process alone, from its start on: --no-children",
            ));
        }
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
            unreturned: counts.unreturned,
            unreadable: counts.unreadable,
            samplers: self.samplers.iter().map(|kind| kind.name()).collect(),
        });
    }

    fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.watch.iter().flat_map(Watch::take_warnings));
        warnings
    }
}
