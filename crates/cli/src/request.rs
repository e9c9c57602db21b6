//! Converts the options into the library's builder.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use perfagent::{AgentBuilder, AutoName, OutputKind, Subject, auto_name};

use crate::args::{CaptureArgs, LiveArgs, ModeArgs, OutputArgs, SettingArgs, TargetArgs};
use crate::library_types;
use crate::symbol_args::SymbolArgs;
use crate::values::Text;

/// What the command line asks for. The library checks it when it builds the agent.
pub fn builder(args: &CaptureArgs) -> AgentBuilder {
    let CaptureArgs { modes, target, settings, outputs, symbols, advanced, .. } = args;
    let builder = texts(modes, target, settings, symbols).chain(further_texts(args));
    let builder = builder.fold(AgentBuilder::default(), |builder, (name, text)| builder.option(name, text));
    let single = outputs.output.iter().map(|path| ("output", path));
    let builder = single.fold(builder, |builder, (name, path)| builder.option(name, path));
    let files = args.outputs.files.given();
    let perf_data = args.outputs.perf_data_output.as_ref().map(|path| ("perf-data-output", path));
    let builder = files.chain(perf_data).fold(builder, |builder, (name, path)| builder.option(name, path));
    let builder = builder.debuginfod_from_env(true);
    let builder = flags(modes, target, settings, symbols, builder)
        .drawing(library_types::drawing(&outputs.files.drawing));
    let builder = if advanced.self_check == Some(true) { builder.self_check(true) } else { builder };
    let builder = with_command(&target.command, builder);
    let timestamp = jiff::Zoned::now().strftime("%Y%m%d%H%M").to_string();
    let automatic_name = |kind| automatic_name(&args.target, &timestamp, kind);
    with_report(args, with_profiles(args, builder, automatic_name), automatic_name)
}

/// What `live` asks for. Without a kind of capture it is both kinds of profiles, but of the whole system on-CPU time only: there, each wait of
/// each thread would cost the machine something.
pub fn live_builder(args: &LiveArgs) -> AgentBuilder {
    let LiveArgs { modes, target, settings, symbols, .. } = args;
    let builder = texts(modes, target, settings, symbols);
    let builder = builder.fold(AgentBuilder::default(), |builder, (name, text)| builder.option(name, text));
    let builder = flags(modes, target, settings, symbols, builder).debuginfod_from_env(true).per_thread(true);
    let builder = match (modes.profile, modes.offcpu) {
        (Some(true), _) | (_, Some(true)) => builder,
        _ if target.all == Some(true) => builder.with_cpu_profile(),
        _ => builder.with_cpu_profile().with_off_cpu_profile(),
    };
    let Some((program, arguments)) = target.command.split_first() else { return builder };
    let mut command = Command::new(program);
    // The terminal is the view's.
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    if std::io::stderr().is_terminal() {
        command.stderr(Stdio::null());
    }
    builder.command(command)
}

/// An option of captures that `live` has no use for, if it was given.
pub fn of_no_use_for_live(args: &LiveArgs) -> Option<&'static str> {
    let LiveArgs { modes, settings, .. } = args;
    let given = [
        ("--pmu", modes.pmu == Some(true)),
        ("--locks", modes.locks == Some(true)),
        ("--pmu-events", settings.pmu_events.is_some()),
        ("--per-pid", settings.per_pid == Some(true)),
        ("--rotate", settings.rotate.is_some()),
        ("--event", !settings.event.is_empty()),
        ("--heap", modes.heap.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}

/// The options of captures and of `live` whose value the library reads.
fn texts<'a>(
    modes: &'a ModeArgs,
    target: &'a TargetArgs,
    settings: &'a SettingArgs,
    symbols: &'a SymbolArgs,
) -> impl Iterator<Item = (&'static str, &'a Text)> {
    let single = [
        ("duration", &settings.duration),
        ("rotate", &settings.rotate),
        ("sample-rate", &settings.sample_rate),
        ("heap", &modes.heap),
        ("unwind", &settings.unwind),
        ("python", &settings.python),
        ("offcpu-states", &settings.offcpu_states),
        ("min-block", &settings.min_block),
        ("pmu-events", &settings.pmu_events),
        ("cgroup", &target.cgroup),
    ];
    let single = single.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    let events = settings.event.iter().map(|event| ("event", event));
    let pids = target.pid.iter().map(|pid| ("pid", pid));
    let comms = target.comm.iter().map(|name| ("comm", name));
    let tids = target.tid.iter().map(|tid| ("tid", tid));
    single.chain(symbols.texts()).chain(events).chain(pids).chain(comms).chain(tids)
}

/// The other options whose value the library reads.
fn further_texts(args: &CaptureArgs) -> impl Iterator<Item = (&'static str, &Text)> {
    let CaptureArgs { outputs, advanced, .. } = args;
    let single = [
        ("pmu-format", &outputs.pmu_format),
        ("metrics-listen", &outputs.metrics_listen),
        ("max-stacks", &advanced.max_stacks),
        ("ring-size", &advanced.ring_size),
        ("max-memory", &advanced.max_memory),
        ("table-memory", &advanced.table_memory),
    ];
    let single = single.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    single.chain(outputs.tag.iter().map(|tag| ("tag", tag)))
}

/// Turns a mode or setting on.
type Setter = fn(AgentBuilder) -> AgentBuilder;

fn flags(
    modes: &ModeArgs,
    target: &TargetArgs,
    settings: &SettingArgs,
    symbols: &SymbolArgs,
    builder: AgentBuilder,
) -> AgentBuilder {
    let setters: [(Option<bool>, Setter); 14] = [
        (modes.profile, AgentBuilder::with_cpu_profile),
        (modes.offcpu, AgentBuilder::with_off_cpu_profile),
        (modes.pmu, AgentBuilder::pmu),
        (modes.locks, AgentBuilder::with_locks),
        (target.all, AgentBuilder::system_wide),
        (target.no_children, |builder| builder.no_children(true)),
        (settings.per_pid, AgentBuilder::per_pid),
        (settings.kernel_stacks, |builder| builder.kernel_stacks(true)),
        (settings.per_thread, |builder| builder.per_thread(true)),
        (settings.wakers, |builder| builder.wakers(true)),
        (symbols.symbol_fail_closed, |builder| builder.symbol_fail_closed(true)),
        (settings.inject_python, |builder| builder.inject_python(true)),
        (settings.java_perf_map, |builder| builder.java_perf_map(true)),
        (settings.dotnet_perf_map, |builder| builder.dotnet_perf_map(true)),
    ];
    setters
        .into_iter()
        .filter(|(flag, _)| *flag == Some(true))
        .fold(builder, |builder, (_, set)| set(builder))
}

fn with_command(words: &[OsString], builder: AgentBuilder) -> AgentBuilder {
    let Some((program, arguments)) = words.split_first() else { return builder };
    let mut command = Command::new(program);
    command.args(arguments);
    builder.command(command)
}

/// Gives an automatic name to each profile without a path, unless pictures or texts of all profiles are asked for instead. The report of
/// `--locks` goes to standard output without a path.
fn with_profiles(
    args: &CaptureArgs,
    mut builder: AgentBuilder,
    automatic_name: impl Fn(OutputKind) -> AutoName,
) -> AgentBuilder {
    let CaptureArgs { modes, outputs, .. } = args;
    if outputs.output.is_some() {
        return builder;
    }
    if modes.locks == Some(true) && outputs.files.locks_output.is_none() {
        builder = builder.option("locks-output", "-");
    }
    if outputs.files.shows_profiles() {
        return builder;
    }
    if modes.profile == Some(true) && outputs.files.profile_output.is_none() {
        builder = builder.cpu_profile(automatic_name(OutputKind::CpuProfile));
    }
    if modes.heap.as_ref().is_some_and(|how| AsRef::<str>::as_ref(how) != "false")
        && outputs.files.heap_output.is_none()
    {
        builder = builder.heap_output(automatic_name(OutputKind::HeapProfile));
    }
    if modes.offcpu == Some(true) && outputs.files.offcpu_output.is_none() {
        builder = builder.off_cpu_profile(automatic_name(OutputKind::OffCpuProfile));
    }
    builder
}

/// The report of `--pmu` goes to standard output, to a path, or to an automatic name for the word `auto`.
fn with_report(
    args: &CaptureArgs,
    builder: AgentBuilder,
    automatic_name: impl Fn(OutputKind) -> AutoName,
) -> AgentBuilder {
    let OutputArgs { pmu_output, pmu_format, .. } = &args.outputs;
    match pmu_output.as_ref().map(AsRef::<OsStr>::as_ref) {
        None if args.modes.pmu != Some(true) || args.outputs.output.is_some() => builder,
        None => builder.option("pmu-output", "-"),
        Some(word) if word == "auto" => {
            let json = pmu_format.as_ref().is_some_and(|format| AsRef::<str>::as_ref(format) == "json");
            let kind = if json { OutputKind::PmuJson } else { OutputKind::PmuReport };
            builder.pmu_output(automatic_name(kind))
        }
        Some(path) => builder.option("pmu-output", path),
    }
}

/// The name of an output without a path.
fn automatic_name(target: &TargetArgs, timestamp: &str, kind: OutputKind) -> AutoName {
    let named = |name: &[u8], pid| auto_name(Subject::Process { name, pid }, timestamp, kind);
    if let Some(program) = target.command.first() {
        let base = Path::new(program).file_name().unwrap_or(program);
        return named(base.as_bytes(), std::process::id());
    }
    let pids = target.pid.first().map(AsRef::<str>::as_ref).unwrap_or_default();
    let first = pids.split(|c: char| c == ',' || c.is_whitespace()).find(|word| !word.is_empty());
    if let Some(number) = first.and_then(|word| word.parse().ok()) {
        let pid = process_of(number);
        return named(&comm(pid), pid);
    }
    match target.comm.first() {
        Some(name) => named(AsRef::<str>::as_ref(name).as_bytes(), std::process::id()),
        None => auto_name(Subject::System, timestamp, kind),
    }
}

/// The process that a number given by `--pid` selects; a thread id selects its process. A missing process keeps its number,
/// and the start of the capture reports it.
fn process_of(number: u32) -> u32 {
    perfagent::process_of(number).unwrap_or(number)
}

/// The name of a process; empty for a missing process.
fn comm(pid: u32) -> Vec<u8> {
    let mut name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    name
}
