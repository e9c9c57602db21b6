//! Scheduler metrics and counters: the program's own counts are the oracle, so that all holds on a busy machine too.

use truth::blocking::{read_meters, read_number};
use truth::programs::Scheduling;
use truth::scheduler::{COUNTERS, LOADS, Report, Watched, watch};
use truth::session::{Session, Subject};

use crate::Setup;

const MS: u64 = 2000;

fn watched(setup: &Setup, program: &str, options: &[&str]) -> Watched {
    let load = *LOADS.iter().find(|l| l.name == program).unwrap();
    watch(&setup.agent, &Scheduling::new(&setup.out), load, MS, options).unwrap()
}

#[track_caller]
fn near(what: &str, measured: u64, truth: u64, allowed: u64) {
    assert!(measured.abs_diff(truth) <= allowed, "{what}: {measured}, but {truth} are true");
}

#[test]
fn switches_and_slices_are_the_kernels() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    // The number of threads, the first included: each one's end is a switch that its own count does not know.
    for (program, ends) in [("pacer", 1), ("hogs", 3), ("blocking", 11)] {
        let Watched { report, process, .. } = watched(&setup, program, &["--pmu-events", "task-clock"]);
        let (preempted, voluntary, io_wait) = report.switches;
        // Printing and ending may wait once or twice; for the disk, if deleted files are closed.
        let at_the_end = if program == "blocking" { 20 } else { 2 };
        near(&format!("{program}: voluntary"), voluntary + io_wait, process.voluntary + ends, at_the_end);
        near(&format!("{program}: preempted"), preempted, process.involuntary, 2 + process.involuntary / 100);
        let (waits, median, longest) = report.runqueue;
        // Each switch is followed by a wait, but for the ends; new threads and the one that slept before make up for those.
        let switches = preempted + voluntary + io_wait;
        // A kernel that hides a switch may hide the wake-up before it.
        let allowed = 3 + 2 * report.missing + switches / 500;
        near(&format!("{program}: waits, {report:?}"), waits, switches, allowed);
        assert!(median <= longest && longest <= process.wall_ns + 1_000_000_000, "{report:?}");
        let clock = report.counter("task-clock").unwrap();
        near(&format!("{program}: time on the CPU"), report.slices.1, clock, clock / 20 + 20_000_000);
        if program == "hogs" {
            near("hogs: their own clocks", report.slices.1, process.cpu_ns, process.cpu_ns / 20);
        }
    }
}

#[test]
fn the_first_wait_of_a_thread_is_one() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    let path = Scheduling::new(&setup.out).path("mayflies").unwrap();
    let session = Session::start(&setup.agent, &["--pmu"], Subject::Command(&path, &["1000"])).unwrap();
    let finished = session.finish().unwrap();
    let (report, threads) =
        (Report::read(&finished.pmu().unwrap()).unwrap(), read_number(&finished.lines, "threads").unwrap());
    // Each waits when it is new, and after its sleep.
    assert!(report.runqueue.0 + report.missing >= 2 * threads, "{threads} threads, {report:?}");
}

#[test]
fn threads_that_compete_are_preempted_and_wait() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    let Watched { report, process, lines } = watched(&setup, "hogs", &[]);
    let (preempted, voluntary, io_wait) = report.switches;
    assert!(preempted > 10 * (voluntary + io_wait), "{report:?}");
    // Two threads on one CPU: each waits while it does not run. A missing wait is not longer than 20 ms.
    let lives = read_meters(&lines).unwrap().into_iter().filter(|m| m.kind == "life");
    let waited = lives.map(|m| m.off_cpu_ns()).sum::<u64>();
    let missing = 20_000_000 * report.missing;
    // Before its life a thread waits too, where it is new and where it changes its CPU, and so does the one that waits for
    // all, longer where others compute.
    let before = if report.waited_ns > waited { (6 * report.runqueue.2).min(1_000_000_000) } else { 0 };
    near("hogs: waits", report.waited_ns, waited, waited / 50 + missing + before);
    assert!(report.runqueue.2 > 500_000 && report.runqueue.2 < process.wall_ns, "{report:?}");
}

#[test]
fn counters_are_the_programs_own() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    let Watched { report, process, lines } = watched(&setup, "pacer", &["--pmu-events", COUNTERS]);
    let counter = |name: &str| report.counter(name).unwrap();
    near("page faults", counter("page-faults"), read_number(&lines, "faults").unwrap(), 4);
    // Its end is one more.
    near("context switches", counter("context-switches"), process.voluntary + process.involuntary + 1, 2);
    let Watched { report, process, .. } = watched(&setup, "hogs", &["--pmu-events", COUNTERS]);
    // A hypervisor may take 20 ms of what comes before and behind the program's own account.
    let allowed = process.cpu_ns / 100 + 20_000_000;
    near("task clock", report.counter("task-clock").unwrap(), process.cpu_ns, allowed);
}

#[test]
fn the_machine_is_the_sum_of_its_processes() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    let options = ["--pmu", "--per-pid", "--duration", "1500ms"];
    let session = Session::start(&setup.agent, &options, Subject::Machine).unwrap();
    let json = session.finish().unwrap().pmu().unwrap();
    let total = Report::read(&json).unwrap();
    let processes = json["processes"].as_array().unwrap();
    let sum = |path: &str| processes.iter().filter_map(|p| p.pointer(path)?.as_u64()).sum::<u64>();
    assert!(processes.len() > 1 && json["scope"] == "system", "{} processes", processes.len());
    assert_eq!(json["total"]["samples"].as_u64().unwrap(), sum("/samples"));
    assert_eq!(total.runqueue.0, sum("/runqueue/count"));
    assert_eq!(total.slices.1, sum("/on_cpu_ns_total"));
    let (preempted, voluntary, io_wait) = total.switches;
    assert_eq!(preempted + voluntary + io_wait, sum("/samples"));
    // An event that this machine lacks is not available, and no reason to call switches lost.
    let missing = |cause: &str| json["incomplete"][cause].as_u64().unwrap();
    assert!(missing("lost_switches") <= 3 + sum("/samples") / 500, "{}", json["incomplete"]);
    assert_eq!(missing("failed_reads"), 0, "{}", json["incomplete"]);
}

#[test]
fn all_modes_at_once_say_what_each_says_alone() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    let programs = Scheduling::new(&setup.out);
    let (path, folder) = (programs.path("blocking").unwrap(), programs.out.display().to_string());
    let options = ["--profile", "--offcpu", "--offcpu-states=blocked,iowait,preempted", "--pmu"];
    let subject = Subject::Command(&path, &["2000", &folder]);
    let finished = Session::start(&setup.agent, &options, subject).unwrap().finish().unwrap();
    let (on_cpu, off_cpu) = (finished.on_cpu().unwrap(), finished.off_cpu().unwrap());
    let report = Report::read(&finished.pmu().unwrap()).unwrap();
    for capture in [&on_cpu, &off_cpu] {
        assert_eq!(capture.ledger("lost"), Some("0"), "{:?}", capture.comments);
    }
    // Each end of a thread is a switch, but no interval; its wait for the first moment on a CPU is none that a switch began.
    let blocks = off_cpu.sums(|s| s.state != "preempted").0;
    let preemptions = off_cpu.sums(|s| s.state == "preempted" && !s.has("[not_run_yet]")).0;
    near("blocks", blocks + 11, report.switches.1 + report.switches.2, 2);
    near("preemptions", preemptions, report.switches.0, 2);
    assert_ne!(on_cpu.samples(), 0);
}
