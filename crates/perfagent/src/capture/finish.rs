//! The end of a capture: the last round, the last names, the profiles, and what is to be said about them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use symbols::KernelNames;

use super::outcome::{Outcome, profiles, since_epoch_ns};
use super::{BUSY, Capture, assemble, nameless, names, shown};
use crate::child::ChildHandle;
use crate::report::{CommandStatus, Ended, Warning, WarningKind};
use crate::{Config, Ledger, Mode, Targets, privilege};

/// How long tables are waited for at the end.
const LAST_TABLES: Duration = Duration::from_secs(2);
/// Whoever ran for so many periods of the clock would have been met by it.
const IDLE_PERIODS: f64 = 10.0;

impl Capture {
    /// The last round, the names, the profile.
    pub(super) fn finish(mut self, ended_by: Ended, duration: Duration) -> Outcome {
        let begun = Instant::now();
        let done =
            |what| tracing::debug!(target: "perfagent", elapsed = ?begun.elapsed(), "end of capture: {what}");
        // Tables that samples wait for are worth a moment.
        let deadline = Instant::now() + LAST_TABLES;
        while !self.deferred.is_empty() && self.tables.pending() > 0 && Instant::now() < deadline {
            let ready = self.tables.install_finished(&mut self.kernel, BUSY);
            self.processes.touch(ready);
            self.round(false);
        }
        done("waited for tables");
        self.round(true);
        // With the last names of processes.
        self.share_metrics(duration);
        self.namer.send_rest(&self.stacks);
        let book = &mut self.stacks.book;
        let drained = self.kernel.drain_all(|hash, sums| book.add(hash, sums));
        book.settle();
        self.checked(drained);
        done("drained");
        self.update_ledgers();
        let threads_ns = self.kernel.off_cpu_counters().lifetime_ns;
        let bpf_cpu = self.kernel.run_time_ns().map(Duration::from_nanos);
        self.warnings.extend(self.tables.take_warnings());
        let hooks = self.tables.take_hooks();
        self.warnings.extend(self.processes.take_warnings());
        let shared = Arc::clone(&self.shared);
        let Self { config, kernel, events, side_band, processes, tables, stacks, namer, mut ledgers, .. } =
            self;
        // Nothing stays attached while names are looked up.
        drop((events, kernel, side_band, tables));
        done("detached");
        let names = namer.finish(|left| shared.set_names_left(left));
        done("named");
        let mut warnings = self.warnings;
        warnings.extend(hooks.finish());
        warnings.extend(name_warnings(&names));
        warnings.extend(names.shortfalls.iter().map(|message| Warning::bare(WarningKind::Names, message)));
        if names.abandoned > 0 {
            let message = format!(
                "symbolization was abandoned: {} places in code were not looked up and stay addresses",
                names.abandoned
            );
            warnings.push(Warning::bare(WarningKind::Names, message));
        }
        // Of the profile that comes first.
        if let Some(ledger) = ledgers.first().filter(|_| names.abandoned == 0) {
            warnings.extend(nameless::warning(&stacks, &names, ledger.mode, &config));
        }
        shown::complete(&config, &stacks, &mut ledgers, threads_ns);
        for ledger in &mut ledgers {
            ledger.elapsed = duration;
            ledger.bpf_cpu = bpf_cpu;
            self.usage.tell(ledger);
            // Of both at once nothing is to be said that was not said of each.
            if !matches!(ledger.mode, Mode::OnCpu | Mode::OffCpu) {
                continue;
            }
            warnings.extend(no_room(ledger));
            if ledger.samples == 0 {
                warnings.push(no_samples(&config, ledger.mode, ended_by, duration));
            }
        }
        let snapshot = self.first_target.and_then(|pid| processes.at(pid, u64::MAX));
        let material = assemble::Material {
            config: &config,
            stacks: &stacks,
            names: &names,
            main: snapshot.and_then(assemble::main_mapping),
            times: assemble::Times {
                start_ns: since_epoch_ns(self.started),
                duration_ns: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX),
            },
        };
        let (profiles, ledgers) = profiles(&material, ledgers);
        let command_status = self.command.as_ref().map(command_status);
        let metrics = self.shared.last_metrics().map(Arc::unwrap_or_clone);
        Outcome {
            start: self.started,
            duration,
            profiles,
            ledgers,
            metrics,
            warnings,
            ended_by,
            command_status,
        }
    }
}

fn command_status(child: &ChildHandle) -> CommandStatus {
    match child.try_wait() {
        Ok(Some(status)) => CommandStatus::Exited(status),
        _ => CommandStatus::Running(child.id()),
    }
}

fn name_warnings(names: &names::Names) -> Option<Warning> {
    match &names.kernel {
        Some(KernelNames::Hidden) => Some(Warning::new(
            WarningKind::Names,
            "kernel frames stay addresses: the kernel hides them from this process",
            privilege::kernel_addresses_fix(privilege::kptr_restrict()),
        )),
        Some(KernelNames::Unreadable(reason)) => Some(Warning::bare(
            WarningKind::Names,
            format!("kernel frames stay addresses: /proc/kallsyms could not be read: {reason}"),
        )),
        _ => None,
    }
}

fn no_room(ledger: &Ledger) -> Vec<Warning> {
    let causes = [
        (ledger.lost_map_full, "there were more distinct stacks than fit", "raise --max-stacks"),
        (ledger.lost_ring_full, "more new stacks came at once than fit into the ring", "raise --ring-size"),
    ];
    let told = causes.iter().filter(|(lost, ..)| *lost > 0).map(|(lost, cause, hint)| {
        Warning::new(
            WarningKind::Lost,
            format!("{}: {lost} samples are lost: {cause}", ledger.mode.name()),
            *hint,
        )
    });
    told.collect()
}

fn no_samples(config: &Config, mode: Mode, ended_by: Ended, duration: Duration) -> Warning {
    let periods = duration.as_secs_f64() * f64::from(config.sample_rate_hz);
    let (reason, hint) = match ended_by {
        _ if mode == Mode::OffCpu && !config.min_block.is_zero() => {
            ("no off-CPU interval was as long as --min-block", "lower --min-block")
        }
        _ if mode == Mode::OffCpu => {
            ("the targets were never off their CPUs in the states asked for", "add states to --offcpu-states")
        }
        Ended::TargetsExited if periods >= IDLE_PERIODS => (
            "the targets ended and had used hardly any CPU time: they slept or waited",
            "an off-CPU profile (--offcpu) tells where they wait",
        ),
        Ended::TargetsExited if matches!(config.targets, Targets::Command(_)) => {
            ("the command ended before the first sample", "raise --sample-rate, or run it for longer")
        }
        Ended::TargetsExited => (
            "all targets ended before the first sample",
            "profile them while they run, or start them with -- CMD; raise --sample-rate for short ones",
        ),
        _ if config.sample_rate_hz < 10 => {
            ("the rate is low for the length of the capture", "raise --sample-rate")
        }
        _ => (
            "the targets used hardly any CPU time: they slept or waited",
            "profile for longer, or while there is load; an off-CPU profile (--offcpu) tells where they wait",
        ),
    };
    Warning::new(WarningKind::NoSamples, format!("no samples: {reason}"), hint)
}
