//! Programs that check themselves print and end under perf-agent as without it, in each mode.

mod programs;

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use programs::{ALL, Checked};
use truth::session::{Session, Subject};

use crate::Setup;

/// Modes that one capture can have together.
const TOGETHER: &[&[&str]] =
    &[&["--profile", "--offcpu", "--wakers", "--locks", "--locks-output", "locks"], &["--heap=exact"]];
/// Each mode by itself.
const EACH: &[&[&str]] = &[
    &["--profile", "--sample-rate", "4999"],
    &["--profile", "--unwind", "dwarf"],
    &["--profile", "--inject-python"],
    &["--offcpu"],
    &["--offcpu", "--wakers"],
    &["--locks", "--locks-output", "locks"],
    &["--heap"],
    &["--heap=exact"],
    &["--pmu", "--pmu-output", "counters"],
    &["--profile", "--event", "page-faults"],
];

/// Programs that run at the same time.
const AT_A_TIME: usize = 4;

/// How a program ended, and what it printed.
#[derive(Debug, PartialEq, Eq)]
struct End {
    status: i32,
    printed: String,
}

impl End {
    fn new(status: ExitStatus, printed: &[u8]) -> Self {
        let status = status.code().or_else(|| Some(128 + status.signal()?)).unwrap();
        Self { status, printed: String::from_utf8_lossy(printed).into_owned() }
    }

    fn of(output: &Output) -> Self {
        Self::new(output.status, &output.stdout)
    }
}

/// A command in a folder of its own. Its parent ignores SIGHUP and SIGXFSZ.
fn run(words: &[PathBuf], folder: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP XFSZ; exec \"$@\"", "sh"]).args(words);
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("TMPDIR", folder);
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs a program without perf-agent, and as its command in each of these modes and with a probe where its function returns. Returns what differs.
fn differences(setup: &Setup, program: &Checked, modes: &[&[&str]]) -> Vec<String> {
    let words = match program.command(&setup.out) {
        Ok(words) => words,
        Err(reason) => {
            testkit::skipped(format_args!("{}: {reason}", program.name));
            return Vec::new();
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let alone = End::of(&run(&words, folder.path()));
    assert!(!alone.printed.contains(": not "), "{}: {alone:?}", program.name);
    let mut found = Vec::new();
    let program_path = words[0].display();
    let returns = program.probed.map(|function| format!("uretprobe:{program_path}:{function}"));
    let of_returns = returns.iter().map(|event| vec!["--profile", "--event", event]);
    for mode in modes.iter().map(|mode| mode.to_vec()).chain(of_returns) {
        let mut profiled = vec![setup.agent.clone()];
        profiled.extend(mode.iter().chain(&["--quiet", "--"]).map(PathBuf::from));
        profiled.extend(words.iter().cloned());
        let output = run(&profiled, folder.path());
        let under = End::of(&output);
        if under != alone {
            let messages = String::from_utf8_lossy(&output.stderr);
            found.push(format!("{} {}: {under:?}, not {alone:?}\n{messages}", program.name, mode.join(" ")));
        }
    }
    found
}

/// Checks all programs, several at a time: most of the time goes into waiting for the kernel, as for the end of probes.
fn check(modes: &[&[&str]]) {
    let Some(setup) = Setup::beside_others() else { return };
    let next = AtomicUsize::new(0);
    let some = || {
        let programs = std::iter::from_fn(|| ALL.get(next.fetch_add(1, Ordering::Relaxed)));
        programs.flat_map(|program| differences(&setup, program, modes)).collect::<Vec<String>>()
    };
    let found: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn programs_that_check_themselves_run_as_without_us() {
    check(TOGETHER);
}

#[test]
#[ignore = "takes minutes"]
fn long_programs_that_check_themselves_run_as_without_us_in_each_mode() {
    check(EACH);
}

/// The same with perf-agent attached to the process before it executes the program.
#[test]
#[ignore = "takes minutes"]
fn long_programs_that_check_themselves_run_as_without_us_when_it_attaches() {
    let Some(setup) = Setup::beside_others() else { return };
    for program in ALL {
        let Ok(words) = program.command(&setup.out) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let alone = End::of(&run(&words, folder.path()));
        for mode in EACH {
            let under = attached(&setup, &words, folder.path(), mode);
            assert_eq!(under, alone, "{} {mode:?}", program.name);
        }
    }
}

fn attached(setup: &Setup, words: &[PathBuf], folder: &Path, mode: &[&str]) -> End {
    let printed = folder.join("printed");
    let script = "trap '' HUP XFSZ; read -r _; exec \"$@\" < /dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(words).current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("TMPDIR", folder);
    command.stdin(Stdio::piped()).stdout(fs::File::create(&printed).unwrap()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let options = [mode, &["--duration", "1h"]].concat();
    let mut session = Session::start(&setup.agent, &options, Subject::Process(process.id())).unwrap();
    session.until_attached().unwrap();
    process.stdin.take().unwrap().write_all(b"\n").unwrap();
    let status = process.wait().unwrap();
    session.finish().unwrap();
    End::new(status, &fs::read(&printed).unwrap())
}
