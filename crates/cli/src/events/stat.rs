//! `events stat`: events that are counted together.

use std::io::{self, BufWriter, Write};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use ::events::group::{EventGroup, GatedChild, GroupEvent, GroupOptions, GroupReading};
use ::events::monitor::{MonitorError, Source, read_event};

use super::failure::{failed, tell};
use super::other_files;
use super::stat_printer::{CountLine, Span, StatPrinter};
use crate::event_args::StatArgs;
use crate::exit_status::{ExitStatuses, of_command, of_exec_error};
use crate::messages;
use crate::signals::Interrupts;

/// What is counted unless something is asked for. What the machine lacks of it is left out.
const DEFAULT: &str =
    "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";
/// The end is looked for at least so often.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// A command that gets the same signal has so long to end, and is counted until then.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Printing more often would only measure the printing.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Counts until the end and prints.
pub fn run(args: &StatArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let (interval, duration) = match (
        duration_of("--interval", args.interval.as_ref()),
        duration_of("--duration", args.duration.as_ref()),
    ) {
        (Ok(interval), Ok(duration)) => (interval, duration),
        (Err(error), _) | (_, Err(error)) => {
            messages::error(&error, Some("write it as 10s, 500ms or 2m; at least 1ms"));
            return Ok(ExitCode::from(statuses.rejected));
        }
    };
    let wanted = match wanted(args) {
        Ok(wanted) => wanted,
        Err(error) => {
            tell(&error);
            return Ok(ExitCode::from(statuses.rejected));
        }
    };
    let child = match waiting(&args.command) {
        Ok(child) => child,
        Err((error, errno)) => {
            messages::error(&error, None);
            return Ok(ExitCode::from(of_exec_error(errno)));
        }
    };
    let (mut options, mut whom) = (GroupOptions::default(), Vec::new());
    for pid in &args.pid {
        whom.push(format!("process {pid}"));
        options = options.source(Source::Pid(*pid));
    }
    for cgroup in &args.cgroup {
        whom.push(format!("cgroup {cgroup}"));
        options = options.source(Source::Cgroup(cgroup.clone()));
    }
    let is_of_command = child.is_some() && !args.all && whom.is_empty();
    if let Some(child) = child.as_ref().filter(|_| is_of_command) {
        whom.push(args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "));
        options = options.source(Source::Pid(child.pid())).enable_on_exec(true);
    } else if whom.is_empty() {
        whom.push("the whole system".to_owned());
    }
    let mut lines: Vec<CountLine> = wanted.iter().map(|event| CountLine::of(&event.name())).collect();
    let group = match open(&wanted, &options, &mut lines) {
        Ok(group) => group,
        Err(error) => return Ok(failed(&error, statuses)),
    };
    let listed: Vec<String> = args.events.iter().flat_map(|list| split(list)).collect();
    other_files::warn(listed.iter().map(|text| text.trim()), &args.pid, &args.cgroup);
    let out = match open_output(args) {
        Ok(out) => out,
        Err(error) => {
            messages::error(&error, None);
            return Ok(ExitCode::from(statuses.failed));
        }
    };
    if args.events.is_empty() {
        lines.retain(|line| line.missing.is_none());
    }
    let mut printer = StatPrinter::new(out, args.json, whom.join(", "), lines);
    let mut counting = Counting { group, is_of_command, child: None, interval, duration };
    match counting.run(child, interrupts, &mut printer) {
        Ok(status) => Ok(ExitCode::from(status)),
        Err(Failure::Events(error)) => Ok(failed(&error, statuses)),
        Err(Failure::Command(error)) => {
            let program = args.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
            messages::error(&format!("run {program}: {error}"), None);
            Ok(ExitCode::from(of_exec_error(error.raw_os_error())))
        }
        Err(Failure::Output(error)) => {
            messages::error(&format!("write the counts: {error}"), None);
            Ok(ExitCode::from(statuses.failed))
        }
    }
}

fn duration_of(option: &str, text: Option<&crate::values::Text>) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(None) };
    match perfagent::parse_duration(text.as_ref()) {
        Ok(duration) if duration < SHORTEST_INTERVAL => Err(format!("{option}: {duration:?} is too short")),
        Ok(duration) => Ok(Some(duration)),
        Err(error) => Err(format!("{option}: {error}")),
    }
}

/// The events to count, without repetitions.
fn wanted(args: &StatArgs) -> Result<Vec<GroupEvent>, String> {
    let lists = if args.events.is_empty() { vec![DEFAULT.to_owned()] } else { args.events.clone() };
    let mut wanted: Vec<GroupEvent> = Vec::new();
    for text in lists.iter().flat_map(|list| split(list)) {
        let read = read_event(text.trim()).map_err(|error| error.to_string())?;
        if read.period.is_some() {
            return Err(format!(
                "event {text:?}: all are counted, so there is no period; `perf-agent events trace` has it"
            ));
        }
        let event = GroupEvent::parse(text.trim()).map_err(|error| error.to_string())?;
        if !wanted.contains(&event) {
            wanted.push(event);
        }
    }
    Ok(wanted)
}

/// The parts of a list. Commas between the terms of a PMU's event belong to it.
fn split(list: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut pieces = list.split(',').peekable();
    while let Some(piece) = pieces.next() {
        let mut part = piece.to_owned();
        if piece.contains('/') && !piece.contains(':') && !piece.trim_end().ends_with('/') {
            let rest: Vec<&str> = pieces.clone().collect();
            let is_end = |piece: &&str| piece.trim_end().ends_with('/') && piece.matches('/').count() == 1;
            let taken = rest
                .iter()
                .position(is_end)
                .filter(|end| !rest[..*end].iter().any(|piece| piece.contains(['/', ':'])));
            for piece in rest.iter().take(taken.map_or(0, |end| end + 1)) {
                part = format!("{part},{piece}");
                pieces.next();
            }
        }
        parts.push(part);
    }
    parts
}

fn open_output(args: &StatArgs) -> Result<Box<dyn Write>, String> {
    Ok(match &args.output {
        Some(path) => {
            let file = std::fs::File::create(path);
            Box::new(BufWriter::new(file.map_err(|error| format!("write {}: {error}", path.display()))?))
        }
        None if args.command.is_empty() => Box::new(BufWriter::new(io::stdout())),
        None => Box::new(BufWriter::new(io::stderr())),
    })
}

/// The command, waiting for its start.
fn waiting(words: &[std::ffi::OsString]) -> Result<Option<GatedChild>, (String, Option<i32>)> {
    let Some((program, rest)) = words.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(rest);
    let failed =
        |error: io::Error| (format!("run {}: {error}", program.to_string_lossy()), error.raw_os_error());
    GatedChild::spawn(command).map(Some).map_err(failed)
}

/// Opens the events that this machine has, and notes which it lacks.
fn open(
    wanted: &[GroupEvent],
    options: &GroupOptions,
    lines: &mut [CountLine],
) -> Result<EventGroup, MonitorError> {
    loop {
        let there = wanted.iter().zip(lines.iter()).filter(|(_, line)| line.missing.is_none());
        let there: Vec<GroupEvent> = there.map(|(event, _)| event.clone()).collect();
        match EventGroup::open(&there, options) {
            Err(MonitorError::Unsupported { event, source }) if there.len() > 1 => {
                let known = lines.iter_mut().find(|line| line.name == event);
                match known {
                    Some(line) => line.missing = Some("not on this machine"),
                    None => return Err(MonitorError::Unsupported { event, source }),
                }
            }
            opened => return opened,
        }
    }
}

/// Why counting ended early.
enum Failure {
    Events(MonitorError),
    Command(io::Error),
    Output(io::Error),
}

impl From<MonitorError> for Failure {
    fn from(error: MonitorError) -> Self {
        Self::Events(error)
    }
}

/// Events that are counted for a time.
struct Counting {
    group: EventGroup,
    /// Counting begins with the command's exec.
    is_of_command: bool,
    child: Option<Child>,
    interval: Option<Duration>,
    duration: Option<Duration>,
}

impl Counting {
    /// Counts and prints. Returns the exit status.
    fn run<W: Write>(
        &mut self,
        child: Option<GatedChild>,
        interrupts: &Interrupts,
        printer: &mut StatPrinter<W>,
    ) -> Result<u8, Failure> {
        if !self.is_of_command {
            self.group.enable()?;
        }
        let began = Instant::now();
        self.child = child.map(GatedChild::release).transpose().map_err(Failure::Command)?;
        let (mut before, mut from, mut status) = (GroupReading::default(), Duration::ZERO, None);
        let (mut due, mut stopped) = (self.interval, None);
        loop {
            let elapsed = began.elapsed();
            if interrupts.stop.is_cancelled() {
                stopped = stopped.or(Some(elapsed));
            }
            status = status.or(self
                .child
                .as_mut()
                .map(Child::try_wait)
                .transpose()
                .map_err(Failure::Command)?
                .flatten());
            let is_over = status.is_some()
                || stopped.is_some_and(|at| self.child.is_none() || elapsed >= at + LAST_WORDS)
                || self.duration.is_some_and(|duration| elapsed >= duration)
                || self.child.is_none() && self.group.sources_are_gone();
            if is_over {
                self.group.disable()?;
            }
            if is_over || due.is_some_and(|due| elapsed >= due) {
                let (now, until) = (self.group.read(), began.elapsed());
                printer.counts(Span { from, until }, &now, &before).map_err(Failure::Output)?;
                (before, from) = (now, until);
                due = self
                    .interval
                    .and_then(|interval| due.map(|due| due.max(elapsed.saturating_sub(interval)) + interval));
            }
            if is_over {
                break;
            }
            // A command that ends soon is not measured longer than it lasts.
            let sleep = (elapsed / 50).clamp(Duration::from_micros(500), LONGEST_SLEEP);
            let next = [due, self.duration].into_iter().flatten().map(|at| at.saturating_sub(elapsed)).min();
            std::thread::sleep(next.map_or(sleep, |next| next.min(sleep)));
        }
        self.warn(&before);
        Ok(status.map_or(0, of_command))
    }

    fn warn(&self, last: &GroupReading) {
        if self.group.uncounted() > 0 {
            let text = format!(
                "{} threads began while counting began, and may be counted twice or not at all",
                self.group.uncounted()
            );
            messages::warning(&text, Some("-a or --cgroup counts all of them"));
        }
        if last.failed_reads > 0 {
            let text =
                format!("{} CPUs or threads could not be read: their counts are missing", last.failed_reads);
            messages::warning(&text, Some("CPUs that went offline cannot be read; count again"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(events: &[&str]) -> StatArgs {
        use clap::{Args as _, FromArgMatches as _};
        let command = StatArgs::augment_args(clap::Command::new("x").no_binary_name(true));
        let words = events.iter().flat_map(|event| ["-e", event]);
        StatArgs::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn commas_between_terms_are_no_ends() {
        let parts = |list: &str| split(list).join(" ");
        assert_eq!(
            parts("cs,cpu/event=0x3c,umask=1,inv/,msr/tsc/"),
            "cs cpu/event=0x3c,umask=1,inv/ msr/tsc/"
        );
        assert_eq!(parts("sched/sched_switch,cs,msr/tsc/"), "sched/sched_switch cs msr/tsc/");
        assert_eq!(parts("uprobe:/bin/sh:main,cs,a/b"), "uprobe:/bin/sh:main cs a/b");
    }

    #[test]
    fn lists_are_split_and_repetitions_dropped() {
        let names = |events: &[&str]| {
            let wanted = wanted(&args(events));
            wanted.map(|wanted| wanted.iter().map(GroupEvent::name).collect::<Vec<_>>())
        };
        let two = names(&["page-faults, cs", "page-faults,sched:sched_switch"]).unwrap();
        assert_eq!(two.len(), 3, "{two:?}");
        assert_eq!(names(&[]).unwrap().len(), 8);
        assert!(names(&["page-faults,,cs"]).is_err() && names(&["no-such-event"]).is_err());
        assert!(names(&["sched:sched_switch period=5"]).unwrap_err().contains("no period"));
    }
}
