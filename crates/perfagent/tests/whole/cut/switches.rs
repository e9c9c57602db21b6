//! Waits and time on CPUs beside what the kernel counts for a thread and for children by itself: see `switches.c`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use perfagent::{Agent, MemorySink, Mode, Recording};
use recording::State;
use testkit::Process;

use super::sums::{CPU_CLOCK, assert_near, by_thread, check_samples, figure};
use crate::started::started;

const SOURCE: &str = include_str!("switches.c");
const RATE: u32 = 499;
const EVERY: Duration = Duration::from_millis(100);
const ROUNDS: u32 = 150;
const CHILDREN: u32 = 200;

/// The counts of states, of threads that are chosen by process and thread number.
fn counts(recordings: &[Recording], state: State, of: impl Fn(u32, u32) -> bool) -> u64 {
    let all = recordings.iter().map(|recording| &recording.model().recording).flat_map(|recording| {
        recording.counts.iter().filter_map(|count| {
            let at = recording.task_stack(count.stack)?;
            let task = recording.task(at.task)?;
            let is_it = of(task.pid?, task.thread.as_ref()?.tid) && count.event != CPU_CLOCK;
            (at.state == state && is_it).then(|| count.value(0))
        })
    });
    all.sum()
}

/// What was counted, and may be missing as far as events were lost.
#[track_caller]
fn assert_counted(what: &str, recorded: u64, expected: std::ops::RangeInclusive<u64>, lost: u64) {
    println!("{what}: {recorded} of {expected:?}, {lost} lost");
    assert!(recorded <= *expected.end() && recorded + lost >= *expected.start(), "{what}: {recorded}");
}

#[test]
fn waits_are_those_that_the_kernel_counts() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = testkit::need!("cc");
    let (source, program) = (folder.path().join("switches.c"), folder.path().join("switches"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiled = Command::new(compiler).args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success(), "{SOURCE}");
    let mut command = Command::new(program);
    command.args([ROUNDS.to_string(), CHILDREN.to_string()]);
    let mut program = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let builder = Agent::builder().pid(program.pid()).with_cpu_profile().with_off_cpu_profile();
    let builder = builder.per_thread(true).sample_rate(RATE).wall_profile_to(MemorySink::new());
    let agent = builder.build().unwrap();
    if !started(&agent) {
        return;
    }
    let mut input = program.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    let output = BufReader::new(program.stdout.take().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(output.lines().take(2).collect::<Result<Vec<_>, _>>()));
    let mut intervals = Vec::new();
    let lines = loop {
        agent.wait(EVERY);
        intervals.push(agent.cut().unwrap());
        if let Ok(lines) = told.try_recv() {
            break lines.unwrap();
        }
        assert!(intervals.len() < 2000, "the program does not end");
    };
    intervals.push(agent.stop().unwrap().recording().clone());
    intervals.iter().for_each(check_samples);
    let numbers =
        |line: &str| -> Vec<u64> { line.split(' ').skip(1).map(|number| number.parse().unwrap()).collect() };
    let (thread, children) = (numbers(&lines[0]), numbers(&lines[1]));
    let [tid, sleeps, preemptions, cpu_ns] = thread[..] else { panic!("{lines:?}") };
    let total = |mode, key| intervals.iter().map(|interval| figure(interval, mode, key)).sum::<f64>() as u64;
    let lost = total(Mode::OffCpu, "lost") + total(Mode::OffCpu, "skipped.min_block");
    println!("{lines:?} in {} intervals", intervals.len());
    assert!(intervals.len() >= 6 && sleeps >= u64::from(ROUNDS), "{lines:?}");

    let of_thread = |state| counts(&intervals, state, |_, other| u64::from(other) == tid);
    assert_counted("sleeps of a thread", of_thread(State::Blocked), sleeps..=sleeps, lost);
    // The thread may be preempted once more on its way out, after it has asked for its number.
    assert_counted("preemptions", of_thread(State::Preempted), preemptions..=preemptions + 2, lost);
    let main = program.pid();
    let of_children = counts(&intervals, State::Blocked, |pid, _| pid != main);
    assert_counted("sleeps of children", of_children, children[0]..=children[1], lost);
    let begun = counts(&intervals, State::NotRunYet, |pid, _| pid != main);
    assert_counted("children", begun, u64::from(CHILDREN)..=u64::from(CHILDREN), lost);

    let sums = by_thread(&intervals)[&u32::try_from(tid).unwrap()];
    assert_near("time on CPUs", sums.on_cpu_ns as f64, cpu_ns as f64, 0.02, 2e6);
    let expected = f64::from(RATE) * cpu_ns as f64 / 1e9;
    let few = 10.0 + 3.0 * expected.sqrt() + total(Mode::OnCpu, "lost") as f64;
    assert_near("samples", sums.samples as f64, expected, 0.02, few);
}
