//! The library from outside: the command's handle, why a capture ended, ledgers of processes, the cache. Without privileges they
//! skip and say so.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perfagent::{
    Agent, CancelToken, CommandStatus, Ended, Error, Ledger, MemorySink, Mode, Unwind, WarningKind,
};
use testkit::Process;

use crate::started::started;

/// More than any of these takes.
const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; exit 3";

#[test]
fn the_command_is_had_and_its_process_has_a_ledger() {
    let builder = Agent::builder().command(shell(BURN)).sample_rate(499);
    let agent = builder.cpu_profile_to(MemorySink::new()).build().unwrap();
    assert!(agent.child().is_none(), "not before the start");
    if !started(&agent) {
        return;
    }
    let child = agent.child().unwrap();
    assert_eq!(agent.wait(LONG), Ended::TargetsExited);
    let report = agent.stop().unwrap();
    assert_eq!(report.ended_by, Ended::TargetsExited);
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), child.wait().unwrap().code()), ("done\n", Some(3)));
    assert!(matches!(report.command_status, Some(CommandStatus::Exited(status)) if status.code() == Some(3)));
    let ledger = report.ledger(Mode::OnCpu).unwrap();
    let process = ledger.process(child.id()).unwrap();
    assert!(ledger.samples > 0 && process.samples == ledger.samples, "{ledger:?}");
    assert_eq!(process.walks.iter().sum::<u64>() + process.no_user_stack, process.samples);
    assert!(process.rooted_pct().is_some_and(|percent| percent > 50.0), "{process:?}");
    assert!(ledger.process(u32::MAX).is_none());
}

#[test]
fn the_report_says_why_the_capture_ended() {
    let sleeper = || Agent::builder().command(shell("exec sleep 60")).with_cpu_profile();
    let agent = sleeper().build().unwrap();
    if !started(&agent) {
        return;
    }
    let kill = |agent: &Agent| agent.child().unwrap().kill().unwrap();
    let report = agent.stop().unwrap();
    assert_eq!(report.ended_by, Ended::Stopped);
    kill(&agent);

    let agent = sleeper().build().unwrap();
    agent.start().unwrap();
    assert_eq!(agent.wait(Duration::from_millis(10)), Ended::Duration);
    assert_eq!(agent.stop().unwrap().ended_by, Ended::Duration);
    kill(&agent);

    let agent = sleeper().build().unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    assert!(matches!(agent.start_cancellable(&cancel), Err(Error::Cancelled)));
    let report = agent.stop().unwrap();
    assert_eq!(report.ended_by, Ended::Cancelled);
    let kinds: Vec<_> = report.warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::NoSamples]);
}

#[test]
fn every_location_of_a_profile_is_that_of_a_sample() {
    let script = "for i in 1 2 3 4 5 6 7 8; do /bin/true | /bin/true & (:) | cat & done; wait";
    let builder = Agent::builder().command(shell(script)).sample_rate(999);
    let builder = builder.cpu_profile_to(MemorySink::new()).off_cpu_profile_to(MemorySink::new());
    let agent = builder.wall_profile_to(MemorySink::new()).wakers(true).build().unwrap();
    if !started(&agent) {
        return;
    }
    assert_eq!(agent.wait(LONG), Ended::TargetsExited);
    let report = agent.stop().unwrap();
    for profile in [report.cpu_profile(), report.off_cpu_profile(), report.wall_profile()] {
        let profile = profile.unwrap();
        let used: HashSet<_> =
            profile.samples.iter().flat_map(|sample| &sample.locations).map(|location| location.0).collect();
        let unused = profile.locations.iter().enumerate().filter(|(at, _)| !used.contains(&(*at as u32)));
        assert_eq!(unused.count(), 0, "of {} in {:?}", profile.locations.len(), profile.sample_types);
    }
}

#[test]
fn unwind_tables_are_kept_where_the_program_says() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    let builder = Agent::builder().command(shell(BURN)).with_cpu_profile().table_cache_dir(&tables);
    let agent = builder.build().unwrap();
    assert!(!tables.exists(), "building touches nothing");
    assert_eq!(agent.config().table_cache_dir(), Some(tables.as_path()));
    if !started(&agent) {
        return;
    }
    agent.wait(LONG);
    let report = agent.stop().unwrap();
    assert!(std::fs::read_dir(&tables).unwrap().count() > 0, "{:?}", report.warnings);
}

/// A compiler that waits for its text: it maps large libraries, and its stack runs through them. None: there is none here.
fn compiler(folder: &Path) -> Option<Process> {
    let mut command = Command::new("rustc");
    command.args(["--crate-type=lib", "--emit=metadata", "-"]).current_dir(folder).stdin(Stdio::piped());
    let mut compiler = Process::start(&mut command).ok()?;
    let begun = Instant::now();
    let maps = format!("/proc/{}/maps", compiler.pid());
    while !std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("librustc_driver")) {
        if compiler.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(begun.elapsed() < LONG, "it does not map its library");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(compiler)
}

#[test]
fn each_table_is_told_with_its_file_and_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("tables");
    let run = || {
        let told = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&told);
        let builder = Agent::builder().command(shell(BURN)).with_cpu_profile().table_cache_dir(&cache);
        let builder = builder.on_table_compiled(|_| panic!("a panic of the test"));
        let agent = builder.on_table_compiled(move |table| theirs.lock().unwrap().push(table.clone()));
        let agent = agent.build().unwrap();
        started(&agent).then(|| {
            agent.wait(LONG);
            let report = agent.stop().unwrap();
            let panicked = report.warnings.iter().filter(|warning| warning.message.contains("panicked for"));
            assert_eq!(panicked.count(), 1, "{:?}", report.warnings);
            std::mem::take(&mut *told.lock().unwrap())
        })
    };
    let Some(compiled) = run() else { return };
    let libc = compiled.iter().find(|table| table.path.contains("libc")).unwrap();
    assert!(libc.rows > 1000 && !libc.cached && !libc.compile_time.is_zero(), "{compiled:?}");
    let cached = run().unwrap();
    assert!(cached.iter().any(|table| table.path == libc.path && table.cached), "{cached:?}");
}

#[test]
fn dwarf_has_all_tables_before_the_first_interval() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut compiler) = compiler(folder.path()) else {
        testkit::skip!("no rustc that runs");
    };
    // Far more intervals than a process may send unwalked.
    let mut text = compiler.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        while text.write_all(b"\n").is_ok() {
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    let builder = Agent::builder().pid(compiler.pid()).with_off_cpu_profile().unwind(Unwind::Dwarf);
    let agent = builder.table_cache_dir(folder.path().join("tables")).build().unwrap();
    if !started(&agent) {
        return;
    }
    // Both may wait long for a CPU.
    let (begun, enough) = (Instant::now(), 200);
    while agent.ledger().samples < enough && begun.elapsed() < LONG {
        if agent.wait(Duration::from_secs(1)) == Ended::TargetsExited {
            testkit::skip!("rustc has ended");
        }
    }
    let report = agent.stop().unwrap();
    drop(compiler);
    writer.join().unwrap();
    assert_eq!(agent.tables_left(), 0);
    let ledger = report.ledger(Mode::OffCpu).unwrap();
    let not_ready = Ledger::walk_names().position(|name| name == "table_not_ready").unwrap();
    assert_eq!(ledger.walks[not_ready], 0, "{ledger:?}");
    // A few for other reasons: what slept at the start is walked there, too.
    assert!(ledger.samples > 100 && ledger.deferred < 10, "{ledger:?}");
}
