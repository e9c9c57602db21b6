//! Filters of samples: by thread, and by control group.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use perfagent::{Agent, AgentBuilder, Ended, Mode, Report};
use testkit::{ControlGroup, Process};

use crate::started::started;

const LENGTH: Duration = Duration::from_secs(1);

/// A capture of both kinds; none if it is not possible here.
fn captured(builder: AgentBuilder) -> Option<Report> {
    let builder = builder.with_cpu_profile().with_off_cpu_profile().per_thread(true).sample_rate(499);
    let agent = builder.build().unwrap();
    if !started(&agent) {
        return None;
    }
    assert_eq!(agent.wait(LENGTH), Ended::Duration);
    Some(agent.stop().unwrap())
}

/// The processes and threads in a report: those on a CPU, and those off.
fn seen(report: &Report) -> [BTreeSet<(u32, u32)>; 2] {
    let model = &report.recording().model().recording;
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for count in &model.counts {
        let at = model.task_stack(count.stack).unwrap();
        let task = model.task(at.task).unwrap();
        let tid = task.thread.as_ref().map_or(0, |thread| thread.tid);
        seen[usize::from(at.state.off_cpu().is_some())].insert((task.pid.unwrap(), tid));
    }
    seen
}

/// A thread that computes and sleeps by turns until `end`; its number.
fn busy(end: &Arc<AtomicBool>) -> (u32, thread::JoinHandle<()>) {
    let (tell, told) = mpsc::channel();
    let end = Arc::clone(end);
    let thread = thread::spawn(move || {
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(own.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
        while !end.load(Ordering::Relaxed) {
            testkit::burn(Duration::from_millis(5));
            thread::sleep(Duration::from_millis(5));
        }
    });
    (told.recv().unwrap(), thread)
}

#[test]
fn only_the_chosen_thread_is_sampled() {
    let end = Arc::new(AtomicBool::new(false));
    let [(one, first), (_, second)] = [busy(&end), busy(&end)];
    let own = std::process::id();
    let report = captured(Agent::builder().pid(own).tid(one));
    end.store(true, Ordering::Relaxed);
    first.join().unwrap();
    second.join().unwrap();
    let Some(report) = report else { return };
    assert_eq!(seen(&report), [BTreeSet::from([(own, one)]), BTreeSet::from([(own, one)])]);
    assert_eq!(report.ledger(Mode::OnCpu).unwrap().lost(), 0);
}

/// A file system of cgroup version 2, mounted until it is dropped.
struct Hierarchy(tempfile::TempDir);

impl Hierarchy {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "cgroup2", "none"]).arg(folder.path()).output().ok()?;
        mounted.status.success().then_some(Self(folder))
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn only_the_chosen_control_group_is_sampled() {
    let Some(hierarchy) = Hierarchy::mount() else {
        testkit::skip!("no control groups of version 2 can be mounted here");
    };
    let path = format!("perf-agent-test-{}", std::process::id());
    let make = |path: &str| ControlGroup::make(hierarchy.0.path(), path);
    let [Some(group), Some(below)] = [make(&path), make(&format!("{path}/inner"))] else {
        testkit::skip!("no control group of version 2 can be made");
    };
    let command = || Process::start(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"])).unwrap();
    let [inside, inner, outside] = [command(), command(), command()];
    assert!(group.add(inside.pid()) && below.add(inner.pid()));
    let pids = [inside.pid(), inner.pid(), outside.pid()];
    let name = group.path().to_owned();
    let of = |builder: AgentBuilder| captured(builder.no_children(true).cgroup(name.to_str().unwrap()));
    let Some(report) = of(Agent::builder().pids(pids)) else { return };
    let expected = BTreeSet::from([inside.pid(), inner.pid()]);
    let [_, off] = seen(&report);
    assert_eq!(off.iter().map(|(pid, _)| *pid).collect::<BTreeSet<_>>(), expected);
    // One that is moved out counts no more, one that is moved in counts.
    assert!(group.add(outside.pid()));
    std::fs::write(hierarchy.0.path().join("cgroup.procs"), inside.pid().to_string()).unwrap();
    let [_, off] = seen(&of(Agent::builder().pids(pids)).unwrap());
    let expected = BTreeSet::from([outside.pid(), inner.pid()]);
    assert_eq!(off.iter().map(|(pid, _)| *pid).collect::<BTreeSet<_>>(), expected);
    drop([inside, inner, outside]);
}
