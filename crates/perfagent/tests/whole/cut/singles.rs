//! Single samples: each sample by itself, in the interval of its sum.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use perfagent::{Agent, Mode, Recording};
use recording::Singles;

use super::program::Program;
use super::seams::cut_to_the_end;
use super::sums::{CPU_CLOCK, check_samples, figure};
use crate::started::started;

/// A sample may lie this much outside of its interval: programs that run at a seam end in the interval in which they began.
const SEAM_NS: i64 = 20_000_000;

/// Fails unless the single samples of an interval are the samples that its counts tell.
fn check(interval: &Recording, threads: &BTreeMap<u32, String>, pid: u32) {
    let model = &interval.model().recording;
    let Some(Singles { samples, lost }) = &model.singles else { panic!("there are no single samples") };
    assert_eq!(*lost, 0);
    assert_eq!(samples.len() as u64, figure(interval, Mode::OnCpu, "samples") as u64);
    let mut left: HashMap<_, _> = model
        .counts
        .iter()
        .filter(|count| count.event == CPU_CLOCK)
        .map(|count| (count.stack, count.value(0)))
        .collect();
    let mut last = HashMap::new();
    for single in samples {
        assert_eq!((single.event, &single.values[..]), (CPU_CLOCK, &[1][..]));
        *left.get_mut(&single.stack).unwrap() -= 1;
        let task = model.task(model.task_stack(single.stack).unwrap().task).unwrap();
        assert_eq!(task.thread.as_ref().unwrap().tid, single.tid);
        assert!(single.tid == pid || threads.contains_key(&single.tid), "{single:?}, {threads:?}");
        assert!(single.at_ns < model.span.duration_ns as i64 + SEAM_NS, "{single:?} {:?}", model.span);
        if single.at_ns >= 0 {
            let last = last.insert(single.cpu, single.at_ns);
            assert!(last.is_none_or(|last| last < single.at_ns), "one CPU takes one sample at a time");
        }
    }
    assert!(left.values().all(|left| *left == 0), "{left:?}");
    let online = events::online_cpus().unwrap();
    // An interval on a busy machine may have few samples. At a seam each CPU takes one at most.
    let before = samples.iter().filter(|single| single.at_ns < 0).count();
    assert!(before <= online.len().max(samples.len() / 10), "{before} of {}", samples.len());
    assert!(last.keys().all(|cpu| online.contains(cpu)), "{last:?} {online:?}");
    let mut bytes = Vec::new();
    interval.write_to(&mut bytes).unwrap();
    let again = Recording::read_from(&bytes[..]).unwrap();
    assert_eq!(again.model().recording.singles, model.singles);
}

#[test]
fn each_sample_is_there_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), Duration::from_secs(3)) else { return };
    let builder = Agent::builder().pid(program.pid()).with_cpu_profile().with_off_cpu_profile();
    let agent = builder.per_thread(true).sample_rate(997).single_samples(true).build().unwrap();
    if !started(&agent) {
        return;
    }
    let threads = program.begin();
    let intervals = cut_to_the_end(&agent, Duration::from_millis(300));
    for interval in &intervals {
        check_samples(interval);
        check(interval, &threads, program.pid());
    }
    let all = |interval: &Recording| interval.model().recording.singles.as_ref().unwrap().samples.len();
    let all: usize = intervals.iter().map(all).sum();
    println!("{all} single samples in {} intervals", intervals.len());
    // How many there are depends on the CPU time that the program gets.
    assert!(intervals.len() >= 5 && all > 0, "{all} in {}", intervals.len());
}

#[test]
fn without_being_asked_for_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), Duration::from_millis(300)) else { return };
    let agent = Agent::builder().pid(program.pid()).with_cpu_profile().sample_rate(997).build().unwrap();
    if !started(&agent) {
        return;
    }
    program.begin();
    agent.wait(Duration::from_secs(20));
    let report = agent.stop().unwrap();
    assert_eq!(report.recording().model().recording.singles, None);
}
