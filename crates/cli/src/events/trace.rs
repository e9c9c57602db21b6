//! `events trace`: events as they happen.

use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ::events::monitor::{Body, EventId, EventMonitor, MonitorBuilder, MonitorError, Source, parse_event};

use perfagent::EventStacks;

use super::failure::{failed, tell};
use super::other_files;
use super::printer::{PrintedEvent, Printer};
use crate::event_args::TraceArgs;
use crate::exit_status::ExitStatuses;
use crate::messages;
use crate::signals::Interrupts;

/// How often the end is looked for, and what was printed is passed on.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Bytes that are copied of each stack unless something else is asked for.
const STACK_BYTES: u32 = 16 << 10;
/// Pages of the ring of each CPU for events with their stacks.
const RING_PAGES_OF_STACKS: u32 = 1024;

/// Prints events until the end.
pub fn run(args: &TraceArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> anyhow::Result<ExitCode> {
    let duration =
        match args.duration.as_ref().map(|text| perfagent::parse_duration(text.as_ref())).transpose() {
            Ok(duration) => duration,
            Err(error) => {
                messages::error(&format!("--duration: {error}"), Some("write it as 10s, 500ms or 2m"));
                return Ok(ExitCode::from(statuses.rejected));
            }
        };
    let mut requests = Vec::new();
    for event in &args.events.0 {
        match parse_event(&event.text) {
            Ok(request) => {
                let request = match &event.filter {
                    Some(filter) => request.filter(filter),
                    None => request,
                };
                let stack_bytes = args.stack_bytes.unwrap_or(STACK_BYTES) & !7;
                requests.push(if args.stacks { request.stacks(stack_bytes) } else { request });
            }
            Err(error) => {
                tell(&error.to_string());
                return Ok(ExitCode::from(statuses.rejected));
            }
        }
    }
    let opened = || -> Result<(EventMonitor, BTreeMap<EventId, PrintedEvent>), MonitorError> {
        let pids = args.pid.iter().map(|pid| Source::Pid(*pid));
        let cgroups = args.cgroup.iter().map(|path| Source::Cgroup(path.clone()));
        let ring_pages = if args.stacks { RING_PAGES_OF_STACKS } else { 0 };
        let builder = pids.chain(cgroups).fold(MonitorBuilder::default(), MonitorBuilder::source);
        let monitor = builder.ring_pages(args.ring_pages.unwrap_or(ring_pages) as usize).build()?;
        let mut names = BTreeMap::new();
        for request in requests {
            let printed = PrintedEvent { name: request.name(), is_return: request.is_return_of_program() };
            names.insert(monitor.register(request)?, printed);
        }
        Ok((monitor, names))
    };
    let (monitor, names) = match opened() {
        Ok(opened) => opened,
        Err(error) => return Ok(failed(&error, statuses)),
    };
    other_files::warn(args.events.0.iter().map(|event| event.text.as_str()), &args.pid, &args.cgroup);
    let printed = print(args, &monitor, names, duration, interrupts);
    let stats = monitor.stats();
    if stats.events.values().any(|stats| stats.lost > 0) {
        messages::warning(
            "some events are lost: nobody read them in time",
            Some("filter them (--filter), or give larger rings (--ring-pages 1024)"),
        );
    }
    if stats.corrupt_bytes + stats.unknown_id > 0 {
        let what = format!(
            "{} records of unknown events and {} bytes without sense were left out",
            stats.unknown_id, stats.corrupt_bytes
        );
        messages::warning(
            &what,
            Some("another user of the same software event takes its number; end that one"),
        );
    }
    match printed {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(error)) => Ok(failed(&error, statuses)),
        Err(error) => {
            messages::error(&format!("write events to standard output: {error}"), None);
            Ok(ExitCode::from(statuses.failed))
        }
    }
}

fn print(
    args: &TraceArgs,
    monitor: &EventMonitor,
    names: BTreeMap<EventId, PrintedEvent>,
    duration: Option<Duration>,
    interrupts: &Interrupts,
) -> io::Result<Result<(), MonitorError>> {
    let printer = Arc::new(Mutex::new(Printer::new(BufWriter::new(io::stdout()), args.json, names)));
    let mut stacks = args.stacks.then(EventStacks::default);
    if let Some(stacks) = &mut stacks {
        args.pid.iter().for_each(|pid| stacks.expect(*pid));
    }
    let (mut written, ended) = (Ok(()), AtomicBool::new(false));
    let most = args.max_events.unwrap_or(u64::MAX);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| watch(monitor, &printer, duration, interrupts, &ended));
        let ran = monitor.run(|item| {
            let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
            let is_event = matches!(item.body, Body::Event(_));
            if written.is_err() || is_event && printer.printed >= most {
                return;
            }
            written = printer.item(item, stacks.as_mut());
            if written.is_err() || printer.printed >= most {
                // It ends with the next round; the rest is not printed.
                let _it_stops_nevertheless = monitor.stop(false);
            }
        });
        ended.store(true, Ordering::Release);
        ran
    });
    written?;
    let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
    printer.totals(&monitor.stats())?.iter().for_each(|line| messages::note(line));
    Ok(ran)
}

/// Ends the run when its time is over or a signal came, and passes on what was printed.
fn watch<W: io::Write>(
    monitor: &EventMonitor,
    printer: &Mutex<Printer<W>>,
    duration: Option<Duration>,
    interrupts: &Interrupts,
    ended: &AtomicBool,
) {
    let mut began = None;
    while !ended.load(Ordering::Acquire) {
        if began.is_none() && monitor.is_running() {
            began = Some(Instant::now());
        }
        let is_over = began.zip(duration).is_some_and(|(began, duration)| began.elapsed() >= duration);
        if is_over || interrupts.stop.is_cancelled() {
            let _it_stops_nevertheless = monitor.stop(false);
        }
        // A failure is seen at the next event.
        let _seen_later = printer.lock().unwrap_or_else(PoisonError::into_inner).flush();
        std::thread::sleep(LOOK_EVERY);
    }
}
