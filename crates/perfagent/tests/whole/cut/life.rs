//! When a capture can be cut, and when it cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use perfagent::{Agent, Ended, Error, Recording};
use recording::Span;
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
    // The end is noticed although there is always a request for a cut.
    let cuts = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&cuts);
    let cutting = std::thread::spawn(move || {
        let cut = || while agent.cut().is_ok_and(|_| theirs.fetch_add(1, Ordering::Relaxed) < u64::MAX) {};
        std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(cut)));
        agent
    });
    testkit::until("cuts", || cuts.load(Ordering::Relaxed) > 20);
    target.kill().unwrap();
    target.wait().unwrap();
    let agent = within_time("cuts after the end of the targets", move || cutting.join().unwrap());
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
    let cuts: Arc<[AtomicU64; 3]> = Arc::default();
    let cutters: Vec<_> = (0..3)
        .map(|number| {
            let (agent, cuts) = (Arc::clone(&agent), Arc::clone(&cuts));
            std::thread::spawn(move || {
                let mut intervals = Vec::new();
                loop {
                    match agent.cut() {
                        Ok(interval) => intervals.push(interval),
                        Err(Error::NotRunning) => return intervals,
                        Err(error) => panic!("{error}"),
                    }
                    cuts[number].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    testkit::until("two cuts of each", || cuts.iter().all(|cuts| cuts.load(Ordering::Relaxed) >= 2));
    let theirs = Arc::clone(&agent);
    let report = within_time("stop while others cut", move || theirs.stop().unwrap());
    let mut intervals = vec![report.recording().clone()];
    for cutter in cutters {
        let theirs: Vec<Recording> = within_time("cut after the stop", move || cutter.join().unwrap());
        assert!(theirs.len() >= 2, "{} intervals", theirs.len());
        intervals.extend(theirs);
    }
    // Together they are the whole capture: each interval was handed to one of them.
    let mut spans: Vec<Span> = intervals.iter().map(|interval| interval.model().recording.span).collect();
    spans.sort_by_key(|span| span.start_ns);
    for pair in spans.windows(2) {
        let end_ns = pair[0].start_ns + pair[0].duration_ns as i64;
        assert!((end_ns - pair[1].start_ns).abs() < 1_000_000, "{spans:?}");
    }
    let length: u64 = spans.iter().map(|span| span.duration_ns).sum();
    assert_eq!(u128::from(length), report.duration.as_nanos(), "{spans:?}");
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
