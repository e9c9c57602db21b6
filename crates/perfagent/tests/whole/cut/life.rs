//! When a capture can be cut, and when it cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use perfagent::{Agent, Ended, Error};
use testkit::Process;

use crate::started::started;

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn of(target: &Process) -> Agent {
    Agent::builder().pid(target.pid()).with_cpu_profile().with_off_cpu_profile().build().unwrap()
}

/// Fails if it takes too long; the thread then goes on.
fn within_time<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = channel();
    std::thread::spawn(move || done.send(body()));
    is_done.recv_timeout(LONG).unwrap_or_else(|_| panic!("hangs: {what}"))
}

#[test]
fn only_a_running_capture_is_cut() {
    let target = Process::asleep();
    let agent = of(&target);
    assert!(matches!(agent.cut(), Err(Error::NotStarted)));
    assert!(matches!(agent.rotate(LONG, |_| {}), Err(Error::NotStarted)));
    if !started(&agent) {
        return;
    }
    assert!(agent.cut().is_ok());
    drop(agent.stop().unwrap());
    assert!(matches!(agent.cut(), Err(Error::NotRunning)));
    agent.close();
    assert!(matches!(agent.cut(), Err(Error::Closed)));
    assert!(matches!(agent.rotate(LONG, |_| {}), Err(Error::Closed)));
}

#[test]
fn a_capture_whose_targets_have_ended_is_not_cut() {
    let mut target = Process::asleep();
    let agent = of(&target);
    if !started(&agent) {
        return;
    }
    target.kill().unwrap();
    target.wait().unwrap();
    // Also while it is cut all the time, the end is noticed.
    let agent = within_time("cuts after the end of the targets", move || {
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| while agent.cut().is_ok() {}));
        });
        agent
    });
    assert!(matches!(agent.cut(), Err(Error::NotRunning)));
    assert_eq!(agent.wait(LONG), Ended::TargetsExited);
    assert_eq!(agent.stop().unwrap().ended_by, Ended::TargetsExited);
}

#[test]
fn several_threads_cut_while_another_one_stops() {
    let target = Process::computing();
    let agent = Arc::new(of(&target));
    if !started(&agent) {
        return;
    }
    let cutters: Vec<_> = (0..3)
        .map(|_| {
            let agent = Arc::clone(&agent);
            std::thread::spawn(move || {
                let mut cuts = 0;
                loop {
                    match agent.cut() {
                        Ok(_) => cuts += 1,
                        Err(Error::NotRunning) => return cuts,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    agent.wait(Duration::from_millis(500));
    let theirs = Arc::clone(&agent);
    drop(within_time("stop while others cut", move || theirs.stop().unwrap()));
    for cutter in cutters {
        let cuts: u32 = within_time("cut after the stop", move || cutter.join().unwrap());
        assert!(cuts > 0);
    }
}

#[test]
fn a_rotation_ends_with_the_capture_or_with_its_handle() {
    let target = Process::computing();
    let agent = Arc::new(of(&target));
    if !started(&agent) {
        return;
    }
    let handed = Arc::new(AtomicU64::new(0));
    let count = |handed: &Arc<AtomicU64>| {
        let handed = Arc::clone(handed);
        move |_| _ = handed.fetch_add(1, Ordering::Relaxed)
    };
    let rotation = agent.rotate(Duration::from_millis(50), count(&handed)).unwrap();
    testkit::until("two intervals", || handed.load(Ordering::Relaxed) >= 2);
    drop(rotation);
    let before = handed.load(Ordering::Relaxed);
    agent.wait(Duration::from_millis(300));
    assert_eq!(handed.load(Ordering::Relaxed), before);
    let rotation = agent.rotate(Duration::from_millis(50), count(&handed)).unwrap();
    let theirs = Arc::clone(&agent);
    drop(within_time("stop during a rotation", move || theirs.stop().unwrap()));
    within_time("the end of the handle", move || drop(rotation));
    let before = handed.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(handed.load(Ordering::Relaxed), before);
}
