//! Targets that are added while the capture goes on.

use std::time::{Duration, Instant};

use perfagent::{Agent, CounterState, Ended, Error, MemorySink, Mode, Recording};
use recording::MissingStack;
use testkit::Process;

use super::program::Program;
use super::sums::{assert_near, by_thread, check_samples, figure};
use crate::started::started;

const LENGTH: Duration = Duration::from_secs(4);
/// More than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Whether the recording has a walked stack of a thread that is off its CPU.
fn has_wait_with_stack(recording: &Recording, tid: u32) -> bool {
    let model = &recording.model().recording;
    model.counts.iter().any(|count| {
        let at = model.task_stack(count.stack).unwrap();
        let stack = model.stack(at.stack).unwrap();
        let thread = model.task(at.task).and_then(|task| task.thread.as_ref());
        let is_it = at.state.off_cpu().is_some() && thread.is_some_and(|thread| thread.tid == tid);
        is_it && stack.missing != Some(MissingStack::AsleepBefore) && !stack.frames.is_empty()
    })
}

#[test]
fn a_target_that_is_added_has_its_share_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), LENGTH) else { return };
    let mut first = Process::computing();
    let builder = Agent::builder().pid(first.pid()).with_cpu_profile().with_off_cpu_profile().wakers(true);
    let builder = builder.per_thread(true).sample_rate(499).wall_profile_to(MemorySink::new());
    let agent = builder.build().unwrap();
    if !started(&agent) {
        return;
    }
    assert_eq!(agent.wait(Duration::from_secs(1)), Ended::Duration);
    let alone = agent.cut().unwrap();
    agent.add_pid(program.pid()).unwrap();
    let added = Instant::now();
    // Its only thread sleeps, and goes on sleeping: the stack was read when it became a target.
    assert_eq!(agent.wait(Duration::from_millis(100)), Ended::Duration);
    let asleep = agent.cut().unwrap();
    assert!(has_wait_with_stack(&asleep, program.pid()));
    let threads = program.begin();
    assert_eq!(agent.wait(Duration::from_millis(500)), Ended::Duration);
    let both = agent.cut().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    // The end of the first target alone ends nothing.
    assert_eq!(agent.wait(Duration::from_secs(1)), Ended::Duration);
    assert_eq!(agent.wait(LONG), Ended::TargetsExited);
    let length = added.elapsed();
    let last = agent.stop().unwrap().recording().clone();

    let intervals = [alone, asleep, both, last];
    for interval in &intervals {
        check_samples(interval);
        let [sum, expected] = ["wall.sum_ns", "wall.threads_ns"].map(|key| figure(interval, Mode::Wall, key));
        assert_near("time of all threads", sum, expected, 0.01, 10e6);
    }
    let [alone, _, both, _] = &intervals;
    let main = program.pid();
    let before = by_thread(std::slice::from_ref(alone));
    assert_eq!(before.keys().copied().collect::<Vec<_>>(), [first.pid()]);
    let sums = by_thread(&intervals);
    println!("{sums:?} of {threads:?} in {length:?}");
    let (of_first, of_main) = (sums[&first.pid()], sums[&main]);
    assert_near("first", of_first.samples as f64 / 499.0, of_first.on_cpu_ns as f64 / 1e9, 0.1, 0.05);
    // It slept when it was added; its end is noticed a moment later.
    let time = (of_main.on_cpu_ns + of_main.off_cpu_ns) as f64;
    assert_near("main thread", time, length.as_nanos() as f64, 0.02, 0.2e9);
    assert!(has_wait_with_stack(both, main));
    for (tid, what) in &threads {
        let sums = sums[tid];
        let time = (sums.on_cpu_ns + sums.off_cpu_ns) as f64;
        match what.as_str() {
            "spins" => assert_near(what, sums.samples as f64 / 499.0, sums.on_cpu_ns as f64 / 1e9, 0.1, 0.05),
            "blocked" => assert_near(what, time, LENGTH.as_nanos() as f64, 0.05, 0.1e9),
            _ => assert!(sums.waits > 0, "{what}: {sums:?}"),
        }
    }
}

#[test]
fn counters_and_statistics_cover_a_target_that_is_added() {
    let (idle, computing) = (Process::asleep(), Process::computing());
    let agent = Agent::builder().pid(idle.pid()).pmu().pmu_events(["task-clock"]).build().unwrap();
    if !started(&agent) {
        return;
    }
    agent.add_pid(computing.pid()).unwrap();
    agent.wait(Duration::from_secs(1));
    let pmu = agent.stop().unwrap().pmu.unwrap();
    let all = &pmu.aggregate;
    let [counter] = all.counters.events.as_slice() else { panic!("{:?}", all.counters) };
    let CounterState::Counted { value, .. } = counter.state else { panic!("{counter:?}") };
    // The other target sleeps.
    println!("task clock {value} ns, on CPUs {} ns", all.on_cpu_ns_total);
    assert!(value > 10_000_000, "{counter:?}");
    assert_near("time on CPUs", all.on_cpu_ns_total as f64, value as f64, 0.05, 5e6);
}

#[test]
fn a_target_can_be_added_to_a_running_capture_of_processes_alone() {
    let (first, second) = (Process::asleep(), Process::asleep());
    let agent = Agent::builder().pid(first.pid()).with_cpu_profile().build().unwrap();
    assert!(matches!(agent.add_pid(second.pid()), Err(Error::NotStarted)));
    if !started(&agent) {
        return;
    }
    // Of no process and of none that is possible; again, and of a target.
    assert!(matches!(agent.add_pid(4_000_000), Err(Error::Target { pid: 4_000_000, .. })));
    assert!(matches!(agent.add_pid(0), Err(Error::InvalidConfig { .. })));
    for pid in [first.pid(), second.pid(), second.pid()] {
        agent.add_pid(pid).unwrap();
    }
    drop(first);
    assert_eq!(agent.wait(Duration::from_millis(300)), Ended::Duration);
    drop(second);
    assert_eq!(agent.wait(LONG), Ended::TargetsExited);
    assert!(matches!(agent.add_pid(1), Err(Error::NotRunning)));
    let report = agent.stop().unwrap();
    assert_eq!(report.ledgers[0].processes, 2);
    assert!(matches!(agent.add_pid(1), Err(Error::NotRunning)));
    agent.close();
    assert!(matches!(agent.add_pid(1), Err(Error::Closed)));

    let system = Agent::builder().system_wide().with_cpu_profile().build().unwrap();
    system.start().unwrap();
    assert!(matches!(system.add_pid(1), Err(Error::InvalidConfig { .. })));
}
