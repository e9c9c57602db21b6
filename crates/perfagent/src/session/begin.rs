//! The start of a capture: the order in which things are opened, so that nothing that happens meanwhile is missed. If a step fails,
//! dropping what is open undoes everything.

use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use events::{EventSpec, SideBand};
use kernel::{Kernel, KernelProcess};
use recording::Accounting;
use sys::clock::kernel_ns;
use sys::gate::GatedChild;

use super::carry_over::carry_over;
use super::descendants::{self, Descendant};
use super::initial_tables::{self, TableWait};
use super::intake::Intake;
use super::parts::{Interval, Parts, Warnings};
use super::process_places::ProcessPlaces;
use super::python_stacks::PythonStacks;
use super::resolver::Gate;
use super::settings::shows_python;
use super::shared::Shared;
use super::targets::{enter_all, read_all, read_target};
use super::trampolines::{self, Begun};
use super::{live_stats, origin, perf_data, settings};
use crate::child::ChildHandle;
use crate::config::{Callbacks, command as commands};
use crate::error::TargetReason;
use crate::failure::{attach_error, command_error, load_error};
use crate::finished::TargetProcess;
use crate::injection::{Injector, PythonStats};
use crate::naming::Naming;
use crate::processes::{Arrivals, Labeller, Processes, missing, named, resolve, zombie};
use crate::python::Pythons;
use crate::sources::{CpuFollower, Opening, Sources};
use crate::unwinding::TableStore;
use crate::usage::Usage;
use crate::{CancelToken, Config, Error, Targets, Unwind, Warning, WarningKind, export, priority, privilege};

/// What an agent hands over to begin a capture.
pub(crate) struct Order {
    pub(crate) config: Config,
    /// The command, if the target is one.
    pub(crate) command: Option<Command>,
    /// Functions of the host program.
    pub(crate) callbacks: Callbacks,
    pub(crate) shared: Arc<Shared>,
    /// Ends symbolization early.
    pub(crate) abandon: CancelToken,
    pub(crate) usage: Usage,
}

/// Opens everything and begins to sample. If that fails, everything is closed before trampolines are switched off again.
pub(super) fn begin(order: Order, cancel: &CancelToken) -> Result<Parts, Error> {
    let shared = Arc::clone(&order.shared);
    let mut injector = order.config.inject_python.then(Injector::new).transpose()?;
    match open(order, injector.as_mut(), cancel) {
        Ok(parts) => Ok(Parts { injector, ..parts }),
        Err(error) => {
            let stats =
                injector.as_mut().map(Injector::finish).filter(|stats| *stats != PythonStats::default());
            stats.into_iter().for_each(|stats| shared.set_python_stats(stats));
            Err(error)
        }
    }
}

fn open(order: Order, injector: Option<&mut Injector>, cancel: &CancelToken) -> Result<Parts, Error> {
    let Order { config, command, callbacks, shared, abandon, usage } = order;
    let tables_by = initial_tables::patience(&config).map(|patience| Instant::now() + patience);
    // A port that is taken is told before anything is attached.
    let endpoint = config.metrics_listen.as_ref().map(export::bind).transpose()?;
    privilege::require(config.inject_python)?;
    sys::usage::raise_open_files();
    let mut warnings = Vec::new();
    if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| !endpoint.is_loopback()) {
        let address = endpoint.local_addr();
        warnings.push(Warning::new(
            WarningKind::Metrics,
            format!(
                "everybody who can connect to {address} can read the metrics: plain HTTP, no authentication"
            ),
            "leave the host out to listen on 127.0.0.1 only",
        ));
    }
    let given = match &config.targets {
        Targets::Pids(pids) => {
            pids.iter().map(|pid| resolve(*pid, &mut warnings)).collect::<Result<Vec<_>, _>>()?
        }
        Targets::System | Targets::Command(_) => Vec::new(),
    };
    let pids = with_names(given.clone(), &config.comms)?;
    warnings.extend(pids.iter().filter_map(|pid| zombie(*pid)));
    warnings.extend(config.fetching.warnings.iter().map(|text| Warning::bare(WarningKind::Names, text)));
    let spec = EventSpec::cpu_clock(config.sample_rate_hz.into());
    let cpus = events::online_cpus().map_err(|error| attach_error(&spec, error))?;
    // Before any process is read: mappings that are made from here on are reported.
    let open = if config.perf_data.is_some() { SideBand::open_with_threads } else { SideBand::open };
    let mut side_band =
        open(&cpus, events::DEFAULT_RING_PAGES).map_err(|error| attach_error(&spec, error))?;
    let program = command.as_ref().and_then(commands::look_up_here);
    let run_error = |source| command_error(&config.targets, program.as_deref(), source);
    let gated = command.map(GatedChild::spawn).transpose().map_err(run_error)?;
    // After the command's process was made, which must not inherit the priority.
    priority::go_first();
    let pids: Vec<u32> = gated.as_ref().map(GatedChild::pid).into_iter().chain(pids).collect();
    for tid in &config.tids {
        process::task::tgid_of(*tid).map_err(|_| Error::Target { pid: *tid, reason: missing(*tid) })?;
    }
    let takes_descendants = matches!(config.targets, Targets::Pids(_)) && !config.no_children;
    let expected = if takes_descendants { descendants::living(&pids) } else { Vec::new() };
    let expected = [&pids[..], &expected].concat();

    let system = matches!(config.targets, Targets::System);
    // Scheduler statistics alone need no stacks.
    let without_tables = config.unwind == Unwind::Fp || !config.takes_stacks();
    let eager = !system || config.unwind == Unwind::Dwarf;
    let Callbacks { enrichment, table_hooks, exec_hooks, symbol_sources } = callbacks;
    let (table_hooks, exec_hooks) = (table_hooks.start()?, exec_hooks.start()?);
    let mut tables = TableStore::new(eager, without_tables, config.table_cache_dir.as_deref(), table_hooks)?;
    let mut processes = Processes::new(Labeller::new(enrichment, config.labels.clone()), system)?;
    sys::clock::time_namespace().map_err(|source| {
        let attempt = "compare the clock of this time namespace with the kernel's".to_owned();
        Error::System { attempt, source }
    })?;
    let from_ns = kernel_ns();
    // Workers open files and compile tables while the programs are loaded.
    initial_tables::request_early(&mut processes, &mut tables, &expected);
    // Before any target is read: its life, and that of its children, is reported from here on.
    let mut sources = Sources::of(&config);
    let (values, go_locks) = (sources.value_plans()?, sources.follow_goroutines(&expected));
    let for_kernel = settings::for_kernel(&config, &expected, values, go_locks)?;
    let mut kernel = Kernel::load(&for_kernel).map_err(load_error)?;
    kernel.follow_processes().map_err(load_error)?;
    for pid in &pids {
        let unread = KernelProcess { pid: *pid, exec_id: from_ns, mappings: &[], waker_only: false };
        kernel.add_process(&unread).map_err(load_error)?;
    }
    let mut arrivals = Arrivals::default();
    let followed = match takes_descendants {
        true => descendants::follow(&mut kernel, &mut side_band, &mut arrivals, &pids, None)?,
        false => Vec::new(),
    };
    for (target, on) in settings::target_kernel_stacks(&config, &pids) {
        let of_target = followed.iter().filter(|one| one.root == target).map(|one| one.pid);
        for pid in of_target.chain([target]) {
            kernel.set_kernel_stacks(pid, on).map_err(load_error)?;
        }
    }
    let by_number = |pid: u32| given.contains(&pid) || gated.as_ref().is_some_and(|one| one.pid() == pid);
    let mut read = Vec::with_capacity(pids.len());
    for pid in pids {
        match read_target(&mut processes, pid) {
            Ok(image) => processes.enter_target(image, from_ns),
            // A process that was found by its name is no target if it ends before it is read.
            Err(Error::Target { reason: TargetReason::Gone, .. }) if !by_number(pid) => {
                kernel.remove_process(pid, kernel_ns());
                continue;
            }
            Err(error) => return Err(error),
        }
        read.push(pid);
    }
    let pids = read;
    if let (true, Some(name)) = (pids.is_empty(), config.comms.first()) {
        return Err(Error::NoSuchName { name: name.clone() });
    }
    descendants::read(&mut processes, &mut kernel, &pids, &followed);
    shared.set_targets(targets_of(&processes, &pids, &followed));
    if system {
        read_all(&mut processes, from_ns);
    }
    initial_tables::request(&mut processes, &mut tables, !eager);
    cancel.check()?;
    // A child is followed only if the kernel side knows its parent. With the whole system as target, every process is followed.
    if !system {
        enter_all(&processes, &mut tables, &mut kernel, usize::MAX)?;
    }
    let (shows_python, injects) = (shows_python(&config), injector.is_some());
    let mut python = (shows_python || injects)
        .then(|| PythonStacks::new(Pythons::new(shows_python, injects), config.python));
    let mut wait = TableWait {
        kernel: &mut kernel,
        side_band: &mut side_band,
        processes: &mut processes,
        arrivals: &mut arrivals,
        tables: &mut tables,
    };
    let ready = wait.wait(tables_by, &shared, cancel)?;
    if system {
        // The programs meet the others at their first sample.
        let most = kernel.process_places().all / 2;
        enter_all(&processes, &mut tables, &mut kernel, most)?;
    }
    if !system || injects {
        processes.touch(ready);
        let pythons = python.as_mut().map(|python| &mut python.pythons);
        carry_over(&mut processes, &mut kernel, &mut tables, pythons).map_err(load_error)?;
        if let Some(python) = &mut python {
            python.pythons.find_all(&processes, &mut kernel).map_err(load_error)?;
        }
    }
    cancel.check()?;
    if let (Some(injector), Some(python)) = (injector, &mut python) {
        let begun = Begun { targets: &config.targets, given: &given, pids: &pids, followed: &followed };
        trampolines::switch_on(injector, &mut python.pythons, &processes, &begun, cancel)?;
        warnings.extend(injector.take_warnings());
    }
    cancel.check()?;
    let naming = Naming::start(&abandon, symbol_sources, &config.fetching)?;
    let all: Vec<u32> = pids.iter().copied().chain(followed.iter().map(|one| one.pid)).collect();
    let living = || match takes_descendants {
        true => [&all[..], &descendants::living(&pids)].concat(),
        false => all.clone(),
    };
    sources.open(&mut Opening {
        kernel: &mut kernel,
        targets: &pids,
        pids: &all,
        living: &living,
        cpus: &cpus,
    })?;
    cancel.check()?;

    let (started, start_ns) = (SystemTime::now(), kernel_ns());
    sources.enable(&mut kernel, start_ns)?;
    let gate = gated.as_ref().map(|gated| Gate { pid: gated.pid(), exec_id: from_ns });
    let mut covered: Vec<u32> = side_band.cpus().collect();
    covered.retain(|cpu| !sources.is_skipped(*cpu));
    let settings = settings::for_recording(&config);
    let origin = origin::origin(&config, &pids);
    let mut parts = Parts {
        intake: Intake::new(&config, gate, python),
        first_target: pids.first().copied(),
        ledgers: report::running(&settings, &Accounting::default()),
        settings,
        origin,
        config,
        shared,
        kernel,
        sources,
        side_band,
        cpus: CpuFollower::new(covered),
        processes,
        arrivals,
        tables,
        process_places: ProcessPlaces::new(system),
        naming,
        injector: None,
        exec_hooks,
        server: None,
        command: None,
        warnings: Warnings::default(),
        started,
        start_ns,
        interval: Interval::first(started, start_ns),
        usage,
        named: Instant::now(),
    };
    parts.warnings.extend(warnings);
    perf_data::begin(&mut parts);
    if let Some(endpoint) = endpoint {
        // Metrics can be asked for from the first moment on.
        parts.shared.want_metrics();
        live_stats::share_metrics(&mut parts, Duration::ZERO);
        live_stats::share_health(&mut parts);
        let server = export::serve(endpoint, Arc::clone(&parts.shared))?;
        parts.shared.set_metrics_address(Some(server.local_addr()));
        parts.server = Some(server);
    }
    if let Some(gated) = gated {
        let failed = |source| command_error(&parts.config.targets, program.as_deref(), source);
        let child = ChildHandle::new(gated.release().map_err(failed)?);
        parts.shared.set_child(child.clone());
        parts.command = Some(child);
    }
    Ok(parts)
}

/// The targets by number and those by name, each once.
fn with_names(mut pids: Vec<u32>, comms: &[String]) -> Result<Vec<u32>, Error> {
    for comm in comms {
        let named = named(comm);
        if named.is_empty() {
            return Err(Error::NoSuchName { name: comm.clone() });
        }
        pids.extend(named);
    }
    let mut seen = HashSet::new();
    pids.retain(|pid| seen.insert(*pid));
    Ok(pids)
}

/// The targets as the user is told of them.
fn targets_of(processes: &Processes, pids: &[u32], followed: &[Descendant]) -> Vec<TargetProcess> {
    let own = |pid: u32| {
        let comm = processes.histories().present(pid).map(|(now, _)| now.comm.to_owned());
        let descendants = followed.iter().filter(|one| one.root == pid).count();
        TargetProcess { pid, comm: comm.unwrap_or_default(), descendants: descendants as u64 }
    };
    pids.iter().map(|pid| own(*pid)).collect()
}
