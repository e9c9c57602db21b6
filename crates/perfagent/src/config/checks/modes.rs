//! Checks that a kind of capture is chosen, and that each output and setting belongs to a chosen kind.

use crate::config::facts::Facts;
use crate::config::request::{Destination, Request};
use crate::error::Error;
use crate::output::OutputKind;

/// A kind of capture.
struct Mode {
    option: &'static str,
    is_on: fn(&Request) -> bool,
    outputs: &'static [OutputKind],
}

/// The kinds of capture. A request needs at least one of them.
const MODES: &[Mode] = &[
    Mode {
        option: "--profile",
        is_on: |request| request.profile.is_on(),
        outputs: &[
            OutputKind::CpuProfile,
            OutputKind::Folded,
            OutputKind::FlameGraph,
            OutputKind::Html,
            OutputKind::Recording,
            OutputKind::PerfData,
        ],
    },
    Mode {
        option: "--offcpu",
        is_on: |request| request.off_cpu.is_on(),
        outputs: &[
            OutputKind::OffCpuProfile,
            OutputKind::Folded,
            OutputKind::FlameGraph,
            OutputKind::Html,
            OutputKind::Recording,
        ],
    },
    Mode {
        option: "--heap",
        is_on: Request::takes_heap,
        outputs: &[
            OutputKind::HeapProfile,
            OutputKind::Folded,
            OutputKind::FlameGraph,
            OutputKind::Html,
            OutputKind::Recording,
        ],
    },
    Mode { option: "--pmu", is_on: |request| request.pmu.is_on(), outputs: &[OutputKind::PmuReport] },
    Mode {
        option: "--locks",
        is_on: |request| request.locks.is_on(),
        outputs: &[
            OutputKind::LockReport,
            OutputKind::Folded,
            OutputKind::FlameGraph,
            OutputKind::Html,
            OutputKind::Recording,
        ],
    },
];

pub(super) fn some_mode(request: &Request, _: &Facts) -> Result<(), Error> {
    if MODES.iter().any(|mode| (mode.is_on)(request)) {
        return Ok(());
    }
    let names: Vec<_> = MODES.iter().map(|mode| mode.option).collect();
    let hint = match output_without_mode(request) {
        Some((output, modes)) => format!("{output} requires {modes}: add it"),
        None => format!("add {}", names.join(" or ")),
    };
    Err(Error::invalid(names[0], format!("a kind of capture is required: {}", names.join(", ")), hint))
}

pub(super) fn outputs_have_their_mode(request: &Request, _: &Facts) -> Result<(), Error> {
    match output_without_mode(request) {
        None => Ok(()),
        Some((output, modes)) => Err(Error::invalid(
            output,
            format!("{output} requires {modes}"),
            format!("add {modes}, or drop {output}"),
        )),
    }
}

/// An output without a kind of capture that fills it, and the kinds that would.
pub(super) fn output_without_mode(request: &Request) -> Option<(&'static str, String)> {
    let filled =
        |kind: &OutputKind| MODES.iter().any(|mode| (mode.is_on)(request) && mode.outputs.contains(kind));
    MODES.iter().find_map(|mode| {
        let given = |kind: &&OutputKind| request.outputs.get(kind).is_some_and(Destination::is_given);
        let lacking = mode.outputs.iter().filter(|kind| !filled(kind)).find(given);
        lacking.map(|kind| {
            let fill = MODES.iter().filter(|mode| mode.outputs.contains(kind));
            (kind.option(), fill.map(|mode| mode.option).collect::<Vec<_>>().join(" or "))
        })
    })
}

pub(super) fn settings_have_their_mode(request: &Request, _: &Facts) -> Result<(), Error> {
    let (off_cpu, pmu) = (("--offcpu", request.off_cpu.is_on()), ("--pmu", request.pmu.is_on()));
    let profile = ("--profile", request.profile.is_on());
    let has_stacks = request.profile.is_on() || request.off_cpu.is_on() || request.locks.is_on();
    let stacks = ("--profile, --offcpu or --locks", has_stacks);
    let settings = [
        ("--event", !request.events.is_empty(), profile),
        ("--inject-python", request.inject_python.is_on(), profile),
        ("--java-perf-map", request.java_perf_map.is_on(), stacks),
        ("--dotnet-perf-map", request.dotnet_perf_map.is_on(), stacks),
        ("--offcpu-states", request.off_cpu_states.is_given(), off_cpu),
        ("--min-block", request.min_block.is_given(), off_cpu),
        ("--wakers", request.wakers.is_on(), off_cpu),
        ("--pmu-format", request.pmu_format.is_given(), pmu),
        ("--pmu-events", request.pmu_events.is_given(), pmu),
        ("single_samples", request.single_samples.is_on(), profile),
        ("metrics_exporter", !request.exporters.is_empty(), pmu),
    ];
    match settings.into_iter().find(|(_, given, (_, is_on))| *given && !is_on) {
        None => Ok(()),
        Some((option, _, (mode, _))) => Err(Error::invalid(
            option,
            format!("{option} requires {mode}"),
            format!("add {mode}, or drop {option}"),
        )),
    }
}

pub(super) fn per_pid(request: &Request, _: &Facts) -> Result<(), Error> {
    const PER_PID: &str = "--per-pid";
    if !request.per_pid.is_on() {
        return Ok(());
    }
    if !request.system_wide.is_on() {
        let message =
            "--per-pid requires -a: with --pid or a command, the figures are already those of the target";
        return Err(Error::invalid(PER_PID, message, "add -a, or drop --per-pid"));
    }
    if !request.pmu.is_on() {
        return Err(Error::invalid(
            PER_PID,
            "--per-pid is only valid with --pmu",
            "add --pmu, or drop --per-pid",
        ));
    }
    Ok(())
}

/// Every wait for a lock counts: short ones are what contention consists of.
pub(super) fn locks(request: &Request, _: &Facts) -> Result<(), Error> {
    let is_cut = request.min_block.value().is_some_and(|length| !length.is_zero());
    if !request.locks.is_on() || !is_cut {
        return Ok(());
    }
    let reason = "--locks and --min-block are mutually exclusive: contention consists of many short waits";
    Err(Error::invalid("--min-block", reason, "drop --min-block, or take the off-CPU profile alone"))
}

/// A wall-clock profile needs both other profiles, without `--min-block`.
pub(super) fn wall_clock(request: &Request, _: &Facts) -> Result<(), Error> {
    const WALL: &str = "--wall-output";
    if !request.outputs.get(&OutputKind::WallProfile).is_some_and(Destination::is_given) {
        return Ok(());
    }
    if !request.profile.is_on() || !request.off_cpu.is_on() {
        return Err(Error::invalid(
            WALL,
            "--wall-output requires --profile and --offcpu",
            "it is made of both: add them",
        ));
    }
    if !request.events.is_empty() {
        let reason = "--wall-output and --event are mutually exclusive: a wall-clock profile needs the clock of each CPU";
        return Err(Error::invalid(WALL, reason, "drop one of them"));
    }
    match request.min_block.value() {
        Some(length) if !length.is_zero() => Err(Error::invalid(
            WALL,
            "--wall-output and --min-block are mutually exclusive: a wall-clock profile leaves no time out",
            "drop one of them",
        )),
        _ => Ok(()),
    }
}
