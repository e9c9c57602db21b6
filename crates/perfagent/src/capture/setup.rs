//! The start of a capture: in which order things are opened, so that nothing that happens meanwhile is missed, and
//! that everything is undone if a step fails (each thing is released when it is dropped).

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use events::{EventSpec, Options, Set, SideBand};
use kernel::{Kernel, KernelProcess, OffCpu, Settings, State, WalkEnd};
use sys::gate::GatedChild;

use super::cpus::Cpus;
use super::deferred::Waiting;
use super::figures::Figures;
use super::names::Namer;
use super::outcome::new_ledgers;
use super::stacks::{Gate, Stacks};
use super::tables::Tables;
use super::unwinders::Unwinders;
use super::{Capture, Shared, carry_over, first_tables, priority};
use crate::child::ChildHandle;
use crate::config::{Callbacks, command as commands};
use crate::error::{LoadLog, TargetReason};
use crate::processes::{self, Arrivals, Labeller, Processes, monotonic_ns};
use crate::report::{Warning, WarningKind};
use crate::usage::Usage;
use crate::{CancelToken, Config, Error, OffCpuState, Targets, Unwind, export, privilege};

impl Capture {
    /// Opens everything and begins to sample.
    pub(crate) fn start(
        config: Config,
        command: Option<Command>,
        callbacks: Callbacks,
        shared: Arc<Shared>,
        cancel: &CancelToken,
        abandon: CancelToken,
        usage: Usage,
    ) -> Result<Self, Error> {
        let tables_by = first_tables::patience(&config).map(|patience| Instant::now() + patience);
        // A port that is taken is told before anything is attached.
        let endpoint = config.metrics_listen.as_ref().map(export::bind).transpose()?;
        privilege::require()?;
        sys::usage::raise_open_files();
        let mut warnings = Vec::new();
        if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| !endpoint.is_loopback()) {
            let address = endpoint.local_addr();
            warnings.push(Warning::new(
                WarningKind::Metrics,
                format!("whoever reaches {address} can read the metrics: no authentication, plain HTTP"),
                "leave the host out to listen on 127.0.0.1 only",
            ));
        }
        let pids = match &config.targets {
            Targets::Pids(pids) => pids
                .iter()
                .map(|pid| processes::resolve(*pid, &mut warnings))
                .collect::<Result<Vec<_>, _>>()?,
            Targets::System | Targets::Command(_) => Vec::new(),
        };
        warnings.extend(pids.iter().filter_map(|pid| processes::zombie(*pid)));
        let spec = EventSpec::cpu_clock(config.sample_rate_hz.into());
        let all_cpus = events::online_cpus().map_err(|error| event_error(&spec, error))?;
        let cpus = config.cpus.as_deref().unwrap_or(&all_cpus);
        // Before any process is read: mappings made from here on are reported.
        let mut side_band = SideBand::open(&all_cpus, events::DEFAULT_RING_PAGES)
            .map_err(|error| event_error(&spec, error))?;
        let program = command.as_ref().and_then(commands::look_up_here);
        let run_error = |source| command_error(&config.targets, program.as_deref(), source);
        let gated = command.map(GatedChild::spawn).transpose().map_err(run_error)?;
        // After the command's process was made, which must not inherit it.
        priority::go_first();
        let pids: Vec<u32> = gated.as_ref().map(GatedChild::pid).into_iter().chain(pids).collect();

        let system = matches!(config.targets, Targets::System);
        // Figures alone need no stacks.
        let disabled = config.unwind == Unwind::Fp || !(config.cpu_profile || config.off_cpu_profile);
        let eager = !system || config.unwind == Unwind::Dwarf;
        let Callbacks { enrichment, table_hooks } = callbacks;
        let mut tables =
            Tables::new(eager, disabled, config.table_cache_dir.as_deref(), table_hooks.start()?)?;
        let mut processes = Processes::new(Labeller::new(enrichment, config.labels.clone()), system);
        let from_ns = monotonic_ns();
        // Before any process is read too: the life of the targets, and of their children, is told from here on.
        let mut kernel = Kernel::load(&settings(&config, &pids)).map_err(load_error)?;
        kernel.follow_processes().map_err(load_error)?;
        for pid in &pids {
            let unread = KernelProcess { pid: *pid, image: from_ns, mappings: &[], waker_only: false };
            kernel.add_process(&unread).map_err(load_error)?;
        }
        for pid in &pids {
            processes.enter_target(read_target(&processes, *pid)?, from_ns);
        }
        if system {
            read_all(&mut processes, from_ns);
        }
        first_tables::request(&processes, &mut tables, !eager);
        check(cancel)?;
        // A child inherits from a parent that the kernel knows; of the whole system it knows whoever runs.
        if !system {
            enter_all(&processes, &mut tables, &mut kernel)?;
        }
        let mut arrivals = Arrivals::default();
        let mut opened = first_tables::Opened {
            kernel: &mut kernel,
            side_band: &mut side_band,
            arrivals: &mut arrivals,
            processes: &mut processes,
            tables: &mut tables,
        };
        let ready = opened.wait(tables_by, &shared, cancel)?;
        if system {
            enter_all(&processes, &mut tables, &mut kernel)?;
        } else {
            processes.touch(ready);
            carry_over::carry_over(&mut processes, &mut kernel, &mut tables).map_err(load_error)?;
        }
        let namer = Namer::start(abandon)?;
        let mut events = None;
        if config.cpu_profile {
            let set = Set::open_all(&spec, cpus, Options { deferred_enable: true });
            let mut set = set.map_err(|error| event_error(&spec, error))?;
            let attached = kernel.with_sampler(|program| set.attach(program)).map_err(load_error)?;
            attached.map_err(|error| event_error(&spec, error))?;
            events = Some(set);
        }
        check(cancel)?;

        let follows_threads = config.off_cpu_profile || config.pmu;
        let mut figures = config.pmu.then(|| Figures::open(&config, &pids, &all_cpus));
        if let Some(figures) = &mut figures
            && config.per_pid
        {
            figures.split_by_process(&kernel).map_err(load_error)?;
        }
        if follows_threads {
            kernel.follow_threads().map_err(load_error)?;
        }
        if let Some(events) = &mut events {
            events.enable().map_err(|error| event_error(&spec, error))?;
        }
        let started = SystemTime::now();
        let start_ns = monotonic_ns();
        let mut asleep = Vec::new();
        if let Some(figures) = &mut figures
            && let Err(error) = figures.enable(&config)
        {
            warnings.push(Warning::bare(WarningKind::Metrics, error.to_string()));
        }
        if follows_threads {
            asleep = kernel.enter_threads(start_ns).map_err(load_error)?;
        }
        let ledgers = new_ledgers(&config);
        let gate = gated.as_ref().map(|gated| Gate { pid: gated.pid(), image: from_ns });
        let mut covered: Vec<u32> = side_band.cpus().collect();
        covered.retain(|cpu| !events.as_ref().is_some_and(|events| events.skipped().contains(cpu)));
        let mut capture = Self {
            stacks: Stacks::new(config.per_thread, gate),
            first_target: pids.first().copied(),
            deferred: Waiting::default(),
            deferring: HashSet::new(),
            renewed: Instant::now(),
            asleep,
            start_ns,
            deferred_ends: [[0; WalkEnd::ALL.len()]; 2],
            named: Instant::now(),
            undrained: 0,
            config,
            shared,
            kernel,
            figures,
            server: None,
            events,
            side_band,
            arrivals,
            cpus: Cpus::new(covered),
            processes,
            tables,
            unwinders: Unwinders::default(),
            namer,
            command: None,
            warnings,
            ledgers,
            started,
            usage,
        };
        if let Some(endpoint) = endpoint {
            // From the first moment on there are metrics to be asked for.
            capture.shared.want_metrics();
            capture.share_metrics(Duration::ZERO);
            capture.share_health();
            let server = export::serve(endpoint, Arc::clone(&capture.shared))?;
            capture.shared.set_metrics_address(Some(server.local_addr()));
            capture.server = Some(server);
        }
        if let Some(gated) = gated {
            let released = gated.release();
            let failed = |source| command_error(&capture.config.targets, program.as_deref(), source);
            let child = released.map_err(failed)?;
            let child = ChildHandle::new(child);
            capture.shared.set_child(child.clone());
            capture.command = Some(child);
        }
        Ok(capture)
    }
}

pub(super) fn check(cancel: &CancelToken) -> Result<(), Error> {
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

fn settings(config: &Config, pids: &[u32]) -> Settings {
    Settings {
        // Keyed at random by the standard library; a target cannot know it.
        seed: RandomState::new().build_hasher().finish(),
        whole_system: matches!(config.targets, Targets::System),
        off_cpu: config.off_cpu_profile.then(|| off_cpu_settings(config)),
        figures: config.pmu.then_some(kernel::Figures {
            each_process: config.per_pid,
            split_events: config.pmu_events.len().min(kernel::MAX_SPLIT_EVENTS) as u8,
        }),
        kernel_stacks: config.kernel_stacks,
        per_thread: config.per_thread,
        check_memo: config.self_check,
        pid_namespace: processes::own_namespace(),
        threads: processes::count_threads(&config.targets, pids),
        max_stacks: config.max_stacks,
        ring_bytes: config.ring_bytes,
        ..Settings::default()
    }
}

fn off_cpu_settings(config: &Config) -> OffCpu {
    let state = |state: &OffCpuState| match state {
        OffCpuState::Blocked => State::Blocked,
        OffCpuState::IoWait => State::IoWait,
        OffCpuState::Preempted => State::Preempted,
    };
    OffCpu {
        states: config.off_cpu_states.iter().map(state).collect(),
        min_block_ns: u64::try_from(config.min_block.as_nanos()).unwrap_or(u64::MAX),
        wall_clock: config.wall_profile,
        wakers: config.wakers,
    }
}

fn read_target(processes: &Processes, pid: u32) -> Result<process::Image, Error> {
    processes.read(pid).map_err(|error| match error {
        process::Error::Gone { .. } => Error::Target { pid, reason: TargetReason::Gone },
        process::Error::Permission { .. } => Error::Target { pid, reason: TargetReason::NotPermitted },
        process::Error::Io { path, source, .. } => Error::System { attempt: format!("read {path}"), source },
        other => {
            Error::System { attempt: format!("read process {pid}"), source: std::io::Error::other(other) }
        }
    })
}

/// Reads every process, so that the first sample of each meets its mappings.
fn read_all(processes: &mut Processes, from_ns: u64) {
    let pids = process::task::list_processes().unwrap_or_default();
    processes.enter_listed(&pids);
    for pid in pids {
        if !process::task::is_kernel_thread(pid).unwrap_or(true) {
            match processes.read(pid) {
                Ok(image) => processes.enter(image, from_ns),
                Err(error) => {
                    tracing::debug!(target: "perfagent", pid, "{error}");
                    processes.count_unread(pid, &error);
                }
            }
        }
    }
}

/// Makes the processes known to the kernel, with the tables that there are.
fn enter_all(processes: &Processes, tables: &mut Tables, kernel: &mut Kernel) -> Result<(), Error> {
    for (pid, snapshot) in processes.current() {
        let mappings = tables.mappings(snapshot.image);
        let process = KernelProcess { pid, image: snapshot.from_ns, mappings: &mappings, waker_only: false };
        match kernel.add_process(&process) {
            // It is known without mappings, until there is room.
            Err(error @ kernel::Error::ArenaFull { .. }) => {
                let message = format!("mappings of process {pid}: {error}; its stacks are truncated");
                tables.warn_of_room(message);
            }
            added => added.map_err(load_error)?,
        }
    }
    Ok(())
}

fn command_error(targets: &Targets, file: Option<&Path>, source: std::io::Error) -> Error {
    let program = match targets {
        Targets::Command(program) => program.to_string_lossy().into_owned(),
        _ => String::new(),
    };
    Error::Command { program, hint: file.and_then(|file| commands::hint(file, &source)), source }
}

fn event_error(spec: &EventSpec, error: events::Error) -> Error {
    if error.is_permission() && privilege::require().is_err() {
        return privilege::require().err().unwrap_or(Error::Cancelled);
    }
    let source = error
        .errno()
        .map_or_else(|| std::io::Error::other(error.to_string()), std::io::Error::from_raw_os_error);
    Error::Attach { event: spec.name(), cpu: None, source }
}

pub(super) fn load_error(error: kernel::Error) -> Error {
    let program = "perf_agent".to_owned();
    match error {
        kernel::Error::Privilege { .. } => Error::Privilege {
            missing: vec!["cap_bpf".into(), "cap_perfmon".into()],
            setcap_line: privilege::setcap_line(),
        },
        error if error.is_for_want_of_descriptors() => Error::System {
            attempt: "set up the BPF programs".to_owned(),
            source: error
                .errno()
                .map_or_else(|| std::io::Error::other(error), std::io::Error::from_raw_os_error),
        },
        kernel::Error::Load { errno: Some(errno), log, .. } => {
            let source = std::io::Error::from_raw_os_error(errno);
            Error::Load { program, log: LoadLog::new(log), source }
        }
        kernel::Error::Load { source, log, .. } => {
            let source = std::io::Error::other(format!("{source:#}"));
            Error::Load { program, log: LoadLog::new(log), source }
        }
        other => Error::System {
            attempt: "set up the BPF programs".to_owned(),
            source: std::io::Error::other(other),
        },
    }
}
