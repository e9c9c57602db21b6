//! Signals and dying targets at any moment: nothing stays behind, and what is written can be read.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::PATIENCE;
use truth::leftovers::BpfObjects;
use truth::profiler::read_pprof;
use truth::programs::{Program, all, sources};
use truth::target::Target;

use crate::Setup;

fn recursion(setup: &Setup) -> Program {
    let program = all().into_iter().find(|p| p.name == "recurse-gcc-O2-dynamic-36").unwrap();
    program.build(&sources(), &setup.out).unwrap();
    program
}

fn start_agent(setup: &Setup, pid: u32, folder: &Path, duration: &str) -> Child {
    Command::new(&setup.agent)
        .args(["--profile", "--pid", &pid.to_string(), "--duration", duration, "--profile-output"])
        .arg(folder.join("p.pb.gz"))
        .current_dir(folder)
        .env("XDG_CACHE_HOME", setup.out.join("cache"))
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Whether a process has a handler for a signal; before the first statements of main it has none.
fn handles(child: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
}

/// A moment in the life of an agent.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This long after its start.
    After(Duration),
    /// When it takes samples, however long that takes.
    Sampling,
}

/// Watches what the agent holds until `moment`.
fn watch(agent: &Child, moment: Moment) -> BpfObjects {
    let (begun, mut held) = (Instant::now(), BpfObjects::default());
    let is_over = || match moment {
        Moment::After(time) => begun.elapsed() >= time,
        Moment::Sampling => testkit::has_sampler(agent.id()) || begun.elapsed() >= PATIENCE,
    };
    while !is_over() {
        held.add(BpfObjects::held_by(agent.id()));
        thread::sleep(Duration::from_millis(5));
    }
    held.add(BpfObjects::held_by(agent.id()));
    held
}

fn wait(agent: &mut Child, limit: Duration) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = agent.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < limit, "perf-agent does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

fn messages(agent: Child) -> String {
    String::from_utf8_lossy(&agent.wait_with_output().unwrap().stderr).into_owned()
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Moments from "before main" to "well into the capture", in an order without system. The last one is in the capture on
/// every machine.
fn moments() -> impl Iterator<Item = Moment> {
    let times = (0..12_u64).map(|i| [0, 1, 3, 8, 15, 30, 60, 90, 150, 250, 500, 900][(i * 7 % 12) as usize]);
    times.map(|ms| Moment::After(Duration::from_millis(ms))).chain([Moment::Sampling])
}

#[test]
fn an_early_stop_writes_a_profile_and_leaves_nothing() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let target = Target::start(&recursion(&setup), &setup.out).unwrap();
    let mut stopped = 0;
    for (moment, number) in moments().zip([Signal::INT, Signal::TERM].into_iter().cycle()) {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = start_agent(&setup, target.pid(), folder.path(), "1h");
        let held = watch(&agent, moment);
        let handled = handles(&agent, number);
        signal(&agent, number);
        let status = wait(&mut agent, PATIENCE);
        if !handled && !status.success() {
            assert_eq!(names_in(folder.path()), Vec::<String>::new());
            continue;
        }
        assert!(status.success(), "{number:?} after {moment:?}: {status}: {}", messages(agent));
        assert_eq!(names_in(folder.path()), ["p.pb.gz"], "{number:?} after {moment:?}");
        read_pprof(&folder.path().join("p.pb.gz")).unwrap();
        let left = held.remaining(PATIENCE);
        assert!(left.is_empty(), "{number:?} after {moment:?}: {left:?}");
        stopped += 1;
    }
    assert!(stopped > 0, "no signal came when there was a handler");
}

#[test]
fn a_kill_leaves_nothing() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let target = Target::start(&recursion(&setup), &setup.out).unwrap();
    let mut seen = false;
    for moment in moments() {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = start_agent(&setup, target.pid(), folder.path(), "1h");
        let held = watch(&agent, moment);
        seen |= !held.programs.is_empty() && !held.maps.is_empty();
        signal(&agent, Signal::KILL);
        wait(&mut agent, PATIENCE);
        let left = held.remaining(PATIENCE);
        assert!(left.is_empty(), "after {moment:?}: {left:?}");
        assert_eq!(names_in(folder.path()), Vec::<String>::new(), "files after {moment:?}");
    }
    assert!(seen, "at no moment did perf-agent hold a BPF program");
}

#[test]
fn a_target_may_die_at_any_moment() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = recursion(&setup);
    let mut captured = false;
    for moment in moments() {
        let target = Target::start(&program, &setup.out).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut agent = start_agent(&setup, target.pid(), folder.path(), "1h");
        let held = watch(&agent, moment);
        drop(target);
        let status = wait(&mut agent, PATIENCE);
        let code = status.code();
        let text = messages(agent);
        // Gone before anything was attached is an error that names the process; later it is the capture's end.
        assert!(code == Some(0) || code == Some(1), "{moment:?}: {status}: {text}");
        if code == Some(0) {
            read_pprof(&folder.path().join("p.pb.gz")).unwrap();
            captured = true;
        } else {
            assert!(text.contains("error:"), "{moment:?}: {text}");
        }
        let left = held.remaining(PATIENCE);
        assert!(left.is_empty(), "{moment:?}: {left:?}");
    }
    assert!(captured, "the target always died before samples were taken");
}
