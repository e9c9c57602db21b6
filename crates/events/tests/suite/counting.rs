//! Counters on this machine's kernel, against what it says elsewhere about the same threads. A test without the right to open
//! events is skipped.
#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use events::counting::{CountOutcome, CounterSpec, CpuCounters, Reading, Start, ThreadCounters};
use events::{Present, online_cpus};
use rustix::time::{ClockId, clock_gettime};
use sys::gate::GatedChild;
use testkit::{burn, until};

fn specs(names: &str) -> Vec<CounterSpec> {
    CounterSpec::parse_list(names).unwrap()
}

/// None if nothing can be counted here; the reason is printed.
fn values(readings: &[Reading]) -> Option<Vec<u64>> {
    let value = |reading: &Reading| match &reading.outcome {
        CountOutcome::Counted { value, .. } => Some(*value),
        outcome => {
            testkit::skipped(format_args!("{}: {outcome:?}", reading.name));
            None
        }
    };
    readings.iter().map(value).collect()
}

/// What a hypervisor took so far while somebody wanted to run: perf's clocks go on meanwhile, those of the scheduler do not.
fn stolen_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.unwrap_or(0) * 1_000_000_000 / rustix::param::clock_ticks_per_second()
}

fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Threads that exist, threads that start while the counters are opened and afterwards, threads that end: their sum
/// equals the kernel's clock of the process, so no thread is missing or counted twice.
#[test]
fn each_thread_counts_once_while_threads_start_and_end() {
    let (stop, generations) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let births = {
        let (stop, generations) = (Arc::clone(&stop), Arc::clone(&generations));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let born: Vec<_> =
                    (0..2).map(|_| std::thread::spawn(|| burn(Duration::from_millis(2)))).collect();
                born.into_iter().for_each(|thread| thread.join().unwrap());
                generations.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let early = std::thread::spawn(|| burn(Duration::from_millis(100)));
    let open = || {
        ThreadCounters::open(&specs("task-clock,context-switches"), &[std::process::id()], Start::Disabled)
    };
    let mut counters = open();
    // On a busy machine a thread may begin during each attempt.
    until("a moment without new threads", || {
        let is_whole = counters.uncounted() == 0;
        if !is_whole {
            counters = open();
        }
        is_whole
    });
    let (stolen_before, before_all) = (stolen_ns(), process_cpu_ns());
    counters.enable().unwrap();
    let (born_before, before) = (generations.load(Ordering::Relaxed), process_cpu_ns());
    let born = || generations.load(Ordering::Relaxed) - born_before;
    until("100 generations", || born() >= 100);
    // This thread may wait for a CPU while it switches the counters; the others run meanwhile.
    let (least, born) = (process_cpu_ns() - before, born());
    counters.disable().unwrap();
    let most = process_cpu_ns() - before_all;
    // The unit is hundredths of a second.
    let stolen = stolen_ns() - stolen_before + 20_000_000;
    early.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    births.join().unwrap();
    let Some(values) = values(&counters.read()) else { return };
    let counted = values[0];
    let (from, to) = (least - least / 20, most + most / 20 + stolen);
    assert!((from..=to).contains(&counted), "counted {counted} ns, used {least} to {most}, {stolen} stolen");
    assert!(values[1] + 1 >= born, "{values:?}, but {born} sleeps of who starts them");
    assert_eq!(Some(values), self::values(&counters.read()), "disabled counters stand still");
}

const EVENTS: &str = "page-faults,minor-faults,context-switches,cpu-migrations,task-clock";

fn is_waiting(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// Runs perf stat on a process, from now until the process ends. None if perf stat does not work here.
struct PerfStat(Child);

impl PerfStat {
    /// `None` if it does not run here: then the reason of the skip is printed.
    fn attach(pid: u32) -> Option<Self> {
        let mut command = Command::new(testkit::needed("perf")?);
        command.args(["stat", "-x,", "-e", EVENTS, "-p", &pid.to_string()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let folder = format!("/proc/{}/fd", child.id());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let links = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let paths = links.filter_map(|link| std::fs::read_link(link.path()).ok());
            let events = paths.filter(|path| path.to_string_lossy().contains("perf_event")).count();
            if events >= EVENTS.split(',').count() {
                // perf stat enables its counters right after it opened the last one: then it only waits.
                let mut waits = 0;
                while waits < 10 && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(20));
                    waits = if is_waiting(child.id()) { waits + 1 } else { 0 };
                }
                return Some(Self(child));
            }
            if child.try_wait().ok()?.is_some() || Instant::now() > deadline {
                let _ = child.kill();
                testkit::skipped("perf stat does not run here");
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn read(self) -> Vec<f64> {
        let output = self.0.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().filter_map(|line| line.split(',').next()?.parse().ok()).collect()
    }
}

/// Both tools count the same run of a command and of its children.
#[test]
fn a_command_counts_what_perf_stat_counts() {
    let script = "for i in 1 2 3 4 5; do sort /etc/passwd > /dev/null; done; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::null());
    let child = GatedChild::spawn(command).unwrap();
    let counters = ThreadCounters::open(&specs(EVENTS), &[child.pid()], Start::Disabled);
    let from_exec = ThreadCounters::open(&specs(EVENTS), &[child.pid()], Start::OnExec);
    let Some(theirs) = PerfStat::attach(child.pid()) else { return };
    counters.enable().unwrap();
    child.release().unwrap().wait().unwrap();
    let theirs = theirs.read();
    let (Some(ours), Some(from_exec)) = (values(&counters.read()), values(&from_exec.read())) else { return };
    println!("ours {ours:?}, from exec {from_exec:?}, of perf stat {theirs:?}");
    assert_eq!([ours[0] as f64, ours[1] as f64], theirs[..2], "page faults");
    assert!((ours[2] as f64 - theirs[2]).abs() <= 2.0, "context switches {ours:?} {theirs:?}");
    assert!((ours[3] as f64 - theirs[3]).abs() <= 2.0, "migrations {ours:?} {theirs:?}");
    let clock_ms = ours[4] as f64 / 1e6;
    assert!((clock_ms - theirs[4]).abs() <= 0.01 * theirs[4], "task clock {ours:?} {theirs:?}");
    assert!(from_exec[0] < ours[0] && from_exec[0] > ours[0] / 2, "the waiting child faults too");
    assert!(ours[2] >= 5, "each sort is waited for");
}

#[test]
fn clocks_of_all_cpus_agree_and_survive_an_offline_cpu() {
    let cpus = online_cpus().unwrap();
    let mut counters = CpuCounters::open(&specs("cpu-clock,context-switches"), &cpus, Start::Disabled);
    if values(&counters.read()).is_none() {
        return;
    }
    let mapped: Vec<u32> = counters.fds(1).map(|(cpu, _)| cpu).collect();
    assert_eq!(mapped, cpus);
    assert_eq!(counters.uncounted(), 0);
    let start = Instant::now();
    counters.enable().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // As if all CPUs except the first had gone offline and come back.
    let followed = counters.follow(&Present { online: cpus[..1].to_vec(), ended: vec![] });
    assert_eq!((followed.closed, counters.fds(0).count()), (cpus[1..].to_vec(), 1));
    let kept = values(&counters.read()).unwrap()[0];
    assert!(kept >= 45_000_000 * cpus.len() as u64, "what was counted on CPUs that left stays: {kept} ns");
    let followed = counters.follow(&Present { online: cpus.clone(), ended: vec![] });
    assert_eq!(followed.opened, cpus[1..]);
    assert_eq!(counters.fds(0).map(|(cpu, _)| cpu).collect::<Vec<_>>(), cpus);
    assert_eq!(counters.uncounted(), 0);
    std::thread::sleep(Duration::from_millis(50));
    counters.disable().unwrap();
    let elapsed = start.elapsed().as_nanos() as u64;
    let CountOutcome::Counted { value, enabled_ns, running_ns } = counters.read()[0].outcome.clone() else {
        panic!("counted before");
    };
    assert_eq!(enabled_ns, running_ns);
    // The clocks of CPUs differ a little.
    let (least, most) = (90_000_000 * cpus.len() as u64, (elapsed + elapsed / 100) * cpus.len() as u64);
    assert!((least..=most).contains(&value), "{value} ns in {elapsed} ns");
}

#[test]
fn hardware_events_count_or_have_a_reason() {
    let counters = ThreadCounters::open(&CounterSpec::defaults(), &[std::process::id()], Start::Enabled);
    burn(Duration::from_millis(20));
    for reading in counters.read() {
        match reading.outcome {
            CountOutcome::Counted { value, enabled_ns, running_ns } => {
                assert!(running_ns <= enabled_ns && enabled_ns > 0);
                assert!(running_ns == 0 || value > 0, "{}", reading.name);
            }
            CountOutcome::NotAvailable { reason } => assert!(reason.starts_with('E'), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn missing_hardware_does_not_affect_software_events() {
    let specs = specs("cycles,task-clock,instructions,r1a8,page-faults");
    let counters = ThreadCounters::open(&specs, &[std::process::id()], Start::Enabled);
    // Only of this thread: other tests of this process start threads that may be missing.
    let before = cpu_ns(ClockId::ThreadCPUTime);
    burn(Duration::from_millis(20));
    let used = cpu_ns(ClockId::ThreadCPUTime) - before;
    let readings = counters.read();
    assert_eq!(readings.len(), specs.len());
    let Some(values) = values(&[readings[1].clone(), readings[4].clone()]) else { return };
    assert!(values[0] as f64 >= 0.9 * used as f64 && used > 0, "{values:?}, used {used} ns");
}
