//! Groups of events on this machine's kernel, against what is known of the work that they count.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use events::group::{EventGroup, GroupEvent, GroupOptions, GroupReading};
use events::monitor::{MonitorError, RecordBody, Source};
use perf_abi::EventAttr;
use perf_abi::numbers::{event_type, read_format, sample, software};
use rustix::time::{ClockId, clock_gettime};
use sys::gate::GatedChild;
use testkit::{PATIENCE, burn, holds_within};

use crate::permitted::permitted;

fn events(names: &str) -> Vec<GroupEvent> {
    names.split(',').map(|name| GroupEvent::parse(name).unwrap()).collect()
}

fn own() -> GroupOptions {
    GroupOptions::default().source(Source::Pid(std::process::id()))
}

fn values(reading: &GroupReading) -> Vec<u64> {
    assert_eq!(reading.failed_reads, 0);
    reading.sums.iter().map(|sum| sum.value).collect()
}

/// A shell that computes as its `count` says, waiting to be started.
fn shell(script: &str) -> GatedChild {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    GatedChild::spawn(command).unwrap()
}

#[test]
fn a_command_is_counted_from_its_exec_with_all_its_children() {
    let child = shell("for i in 1 2 3 4 5 6 7; do /bin/true; done");
    let options = GroupOptions::default().source(Source::Pid(child.pid())).enable_on_exec(true);
    let names = "sched:sched_process_exec,sched:sched_process_fork,task-clock";
    let group = permitted!(EventGroup::open(&events(names), &options));
    assert!(!group.sources_are_gone());
    assert!(child.release().unwrap().wait().unwrap().success());
    testkit::until("its end is seen", || group.sources_are_gone());
    let reading = group.read();
    // Its own exec comes a moment before counting begins, or with it.
    let [execs, forks, clock] = values(&reading)[..] else { panic!() };
    assert!((execs, forks) == (7, 7) || (execs, forks) == (8, 7), "{reading:?}");
    assert!(clock > 100_000, "{reading:?}");
    for sum in &reading.sums {
        assert!(!sum.is_estimated() && sum.running_ns > 0, "software events are always counted: {sum:?}");
        assert_eq!(sum.scaled(), Ok(sum.value));
    }
}

#[test]
fn counting_goes_on_and_off_and_begins_anew() {
    // Other tests run on other threads.
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let options = GroupOptions::default().source(Source::Tid(tid));
    let mut group = permitted!(EventGroup::open(&events("task-clock,page-faults"), &options));
    compute(5);
    let before = group.read();
    assert!(before.sums.iter().all(|sum| sum.value == 0 && sum.scaled().is_err()), "{before:?}");
    group.enable().unwrap();
    compute(40);
    std::thread::spawn(|| compute(40)).join().unwrap();
    group.disable().unwrap();
    let counted = values(&group.read());
    assert!(counted[0] >= 75_000_000, "{counted:?}");
    compute(5);
    assert_eq!(values(&group.read()), counted, "nothing is counted while it is disabled");
    group.reset().unwrap();
    let reset = group.read();
    assert!(reset.sums.iter().all(|sum| (sum.value, sum.enabled_ns) == (0, 0)), "{reset:?}");
    group.enable().unwrap();
    compute(10);
    group.disable().unwrap();
    let again = values(&group.read());
    // perf's clock keeps running while a hypervisor has the CPU.
    assert!((9_000_000..counted[0]).contains(&again[0]), "{again:?} after {counted:?}");
}

#[test]
fn each_cpu_has_its_part_of_the_system() {
    let mut group =
        permitted!(EventGroup::open(&events("cpu-clock,context-switches"), &GroupOptions::default()));
    group.enable().unwrap();
    burn(Duration::from_millis(50));
    group.disable().unwrap();
    let reading = group.read();
    let cpus: Vec<u32> = reading.parts.iter().filter_map(|part| part.cpu).collect();
    assert_eq!(cpus, events::online_cpus().unwrap());
    let clocks: Vec<u64> = reading.parts.iter().map(|part| part.counts[0].value).collect();
    assert_eq!(clocks.iter().sum::<u64>(), values(&reading)[0]);
    assert!(clocks.iter().all(|ns| *ns >= 40_000_000), "idle time too: {clocks:?}");
    for part in &reading.parts {
        let times: Vec<_> = part.counts.iter().map(|count| (count.enabled_ns, count.running_ns)).collect();
        assert_eq!(times[0], times[1], "they were counted together");
    }
    assert_eq!(group.attrs_by_id().len(), 2 * cpus.len());
}

/// Two threads that start others without pause: whatever is inherited when, nothing is counted twice.
#[test]
fn threads_that_start_while_it_is_opened_count_once() {
    let stop = Arc::new(AtomicBool::new(false));
    let storm: Vec<_> = (0..2)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::spawn(|| burn(Duration::from_millis(1))).join().unwrap();
                }
            })
        })
        .collect();
    let (mut clocks, mut mosts) = (0, 0);
    for _ in 0..10 {
        let opened = EventGroup::open(&events("task-clock,context-switches,page-faults"), &own());
        let Ok(mut group) = opened else {
            stop.store(true, Ordering::Relaxed);
            permitted!(opened.map(drop));
            return;
        };
        // This thread may wait for a CPU while it switches the group; the others run meanwhile.
        let before_all = clock_ns(ClockId::ProcessCPUTime);
        group.enable().unwrap();
        let before = clock_ns(ClockId::ProcessCPUTime);
        std::thread::sleep(Duration::from_millis(60));
        let least = clock_ns(ClockId::ProcessCPUTime) - before;
        group.disable().unwrap();
        let most = clock_ns(ClockId::ProcessCPUTime) - before_all;
        let reading = group.read();
        let clock = values(&reading)[0];
        assert!(group.uncounted() > 0 || clock * 4 >= least, "{clock} of {least}: {reading:?}");
        (clocks, mosts) = (clocks + clock, mosts + most);
    }
    // perf's clock goes on while a hypervisor has the CPU; the scheduler's does not. That is much of single rounds only.
    assert!(clocks as f64 <= mosts as f64 * 1.5 + 20_000_000.0, "{clocks} of {mosts}");
    stop.store(true, Ordering::Relaxed);
    storm.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Uses so many ms of a CPU.
fn compute(ms: u64) {
    let begun = clock_ns(ClockId::ThreadCPUTime);
    while clock_ns(ClockId::ThreadCPUTime) - begun < ms * 1_000_000 {}
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[test]
fn samples_have_the_values_of_the_whole_group() {
    let attr = EventAttr {
        kind: event_type::SOFTWARE,
        config: software::CPU_CLOCK,
        sample_period: 1_000_000,
        sample_type: sample::READ,
        read_format: read_format::GROUP,
        ..EventAttr::default()
    };
    let unchanged = attr.clone();
    let members = [GroupEvent::from(attr.clone()), GroupEvent::parse("context-switches").unwrap()];
    let mut group = permitted!(EventGroup::open(&members, &GroupOptions::default()));
    assert_eq!(attr, unchanged);
    let ids: Vec<u64> = group.attrs_by_id().into_keys().collect();
    let stopper = group.stopper();
    let (samples, others) = (AtomicU64::new(0), AtomicU64::new(0));
    let reaches =
        |count: &AtomicU64, least| holds_within(PATIENCE, || count.load(Ordering::Relaxed) >= least);
    let (run, seen, told) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let seen = reaches(&samples, 50);
            assert!(Command::new("/bin/true").status().unwrap().success());
            let told = reaches(&others, 2);
            stopper.stop();
            (seen, told)
        });
        let mut last = 0;
        let run = group.run(|record| {
            assert!(record.late || record.time_ns >= last);
            last = record.time_ns;
            let RecordBody::Sample(sample) = &record.record.body else {
                others.fetch_add(1, Ordering::Relaxed);
                return;
            };
            samples.fetch_add(1, Ordering::Relaxed);
            assert_eq!(record.event, Some(0));
            let read = sample.read.as_ref().unwrap();
            assert_eq!(read.values.len(), 2, "{read:?}");
            assert!(read.values.iter().all(|value| value.id.is_some_and(|id| ids.contains(&id))));
            assert!(read.values[0].value > 0 && read.time_enabled > Some(0));
        });
        let (seen, told) = worker.join().unwrap();
        (run.unwrap(), seen, told)
    });
    let (samples, others) = (samples.into_inner(), others.into_inner());
    assert!(seen, "{samples} samples of all CPUs");
    assert!(told, "the child's begin and end");
    assert_eq!((run.delivered, run.malformed, run.corrupt_bytes), (samples + others, 0, 0), "{run:?}");
    assert!(values(&group.read())[0] >= samples * 1_000_000);
    let mut unsampled = EventGroup::open(&events("page-faults"), &own()).unwrap();
    assert!(matches!(unsampled.run(|_| {}), Err(MonitorError::NotSampled)));
}

#[test]
fn what_cannot_be_opened_leaves_nothing_open() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    permitted!(EventGroup::open(&events("page-faults"), &own()).map(drop));
    // Other tests of this process open descriptors meanwhile, so it is looked at in a process of its own.
    if !testkit::is_alone("group::what_cannot_be_opened_leaves_nothing_open") {
        return;
    }
    let before = descriptors();
    assert!(matches!(EventGroup::open(&[], &own()), Err(MonitorError::EmptyGroup)));
    let missing = GroupOptions::default().source(Source::Pid(0x3f_ffff));
    let refused = EventGroup::open(&events("task-clock"), &missing);
    assert!(matches!(refused, Err(MonitorError::NoSuchProcess { number: 0x3f_ffff, .. })), "{refused:?}");
    let absent = EventAttr { kind: event_type::SOFTWARE, config: 4711, ..EventAttr::default() };
    let refused = EventGroup::open(&[events("task-clock").remove(0), absent.into()], &own());
    assert!(matches!(refused, Err(MonitorError::Unsupported { .. })), "{refused:?}");
    // The kernel takes a pinned event as a leader only.
    let pinned = EventAttr { kind: event_type::SOFTWARE, config: 2, pinned: true, ..EventAttr::default() };
    let refused = EventGroup::open(&[events("task-clock").remove(0), pinned.into()], &own());
    let Err(MonitorError::DoesNotFit { leader, .. }) = &refused else { panic!("{refused:?}") };
    assert_eq!(leader, "task-clock");
    assert!(refused.unwrap_err().to_string().contains("fewer events"));
    assert_eq!(descriptors(), before);
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let (sampled, counted) =
        (events("cpu-clock period=1000000,page-faults"), events("task-clock,page-faults"));
    let cycle = |events: &[GroupEvent]| {
        let mut group = EventGroup::open(events, &own()).unwrap();
        group.enable().unwrap();
        assert_eq!(group.read().failed_reads, 0);
    };
    cycle(&sampled);
    let mapped = mappings();
    for _ in 0..250 {
        cycle(&sampled);
        cycle(&counted);
    }
    assert!(
        descriptors() == before && mappings() <= mapped + 2,
        "{before} descriptors, {mapped} mappings before"
    );
}

#[test]
fn a_filter_counts_what_passes() {
    let own_pid = std::process::id();
    let filtered = |filter: &str| GroupEvent::parse("raw_syscalls:sys_enter").unwrap().filter(filter);
    let getpgid = if cfg!(target_arch = "x86_64") { 121 } else { 155 };
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let members = [filtered(&format!("id == {getpgid} && common_pid == {tid}")), filtered("id == 4711")];
    let mut group =
        permitted!(EventGroup::open(&members, &GroupOptions::default().source(Source::Pid(own_pid))));
    group.enable().unwrap();
    for _ in 0..1000 {
        let _ = rustix::process::getpgid(None);
    }
    group.disable().unwrap();
    assert_eq!(values(&group.read()), [1000, 0]);
    let refused = EventGroup::open(&[filtered("no_such_field == 1")], &own());
    assert!(matches!(refused, Err(MonitorError::Filter { .. })), "{refused:?}");
}
