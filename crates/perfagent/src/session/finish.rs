//! The end of a capture: the last round, the last sums, then the names, when nothing is attached any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cut::context;
use super::parts::Parts;
use super::result::{CaptureResult, Finished};
use super::round::round;
use super::{accounting, live_stats, perf_data};
use crate::child::ChildHandle;
use crate::finished::{CommandStatus, Ended};
use crate::{Warning, WarningKind};

/// How long the end waits for tables that stacks wait for.
const LAST_TABLES: Duration = Duration::from_secs(2);
/// Time between two rounds meanwhile.
const ROUND_INTERVAL: Duration = Duration::from_millis(10);

/// Ends a capture whose sources are disabled: the result of its last interval. `duration`: of the whole capture.
pub(super) fn finish(mut parts: Parts, ended_by: Ended, duration: Duration, end_ns: u64) -> CaptureResult {
    let begun = Instant::now();
    let done =
        |what| tracing::debug!(target: "perfagent", elapsed = ?begun.elapsed(), "end of capture: {what}");
    let deadline = Instant::now() + LAST_TABLES;
    while parts.intake.has_waiting() && parts.tables.pending() > 0 && Instant::now() < deadline {
        let ready = parts.tables.install_finished(&mut parts.kernel, ROUND_INTERVAL);
        parts.processes.touch(ready);
        round(&mut parts, false);
    }
    done("waited for tables");
    round(&mut parts, true);
    // With the last names of processes.
    live_stats::share_metrics(&mut parts, duration);
    let drained = parts.intake.drain_all(&mut parts.kernel);
    parts.warnings.checked(drained);
    let perf_data = perf_data::finish(&mut parts);
    done("drained");
    if let Some(mut injector) = parts.injector.take() {
        parts.warnings.extend(injector.take_warnings());
        let stats = injector.finish();
        parts.warnings.extend(injector.take_warnings());
        parts.shared.set_python_stats(stats);
        done("switched trampolines off");
    }
    let mut figures = accounting::of_interval(&mut parts);
    figures.elapsed_ns = end_ns.saturating_sub(parts.interval.start_ns);
    let mut warnings = parts.warnings.take();
    let hooks = parts.tables.take_hooks();
    warnings.extend(parts.tables.take_warnings());
    let stacks = parts.config.takes_stacks();
    warnings.extend(parts.processes.take_warnings(stacks));
    if let Some(python) = &mut parts.intake.resolver.python {
        warnings.extend(python.take_warnings());
    }
    let still_on = parts.intake.resolver.end_capture();
    warnings.extend(still_on.into_iter().map(|told| Warning::bare(WarningKind::Names, told)));
    let cost_before = parts.interval.before.cost;
    let names = parts.end_naming();
    let context = context(&parts, figures);
    let Parts { intake, kernel, sources, side_band, tables, naming, exec_hooks, shared, usage, .. } = parts;
    let recording = intake.builder.finish(context);
    // Nothing stays attached while names are looked up.
    drop((sources, side_band, kernel, tables));
    done("detached");
    let names = naming.finish(&names, |left| shared.set_names_left(left));
    shared.set_names_left(0);
    done("named");
    warnings.extend(hooks.finish());
    warnings.extend(exec_hooks.finish());
    CaptureResult::of(Finished {
        start: parts.started,
        duration,
        recording,
        names,
        usage,
        cost_before,
        metrics: shared.last_metrics().map(Arc::unwrap_or_clone),
        warnings,
        perf_data,
        ended_by,
        command_status: parts.command.as_ref().map(|child| command_status(child, ended_by)),
    })
}

/// A process that has passed its exit tracepoint has a status a moment later.
const LAST_STATUS: Duration = Duration::from_secs(1);

fn command_status(child: &ChildHandle, ended_by: Ended) -> CommandStatus {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return CommandStatus::Exited(status),
            Ok(None) if ended_by == Ended::TargetsExited && begun.elapsed() < LAST_STATUS => {
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => return CommandStatus::Running(child.id()),
        }
    }
}
