//! Events of this machine's kernel. A test without the right to open them is skipped.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use events::{
    DEFAULT_RING_PAGES, Error, EventKind, EventSpec, Followed, Options, Present, Rate, Record, Set, SideBand,
    TimedRecord, online_cpus, probe_hardware_cycles,
};
use testkit::{PATIENCE, Process, burn};

fn permitted<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.is_permission() => {
            testkit::skipped(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// All records of `pid` up to its exit, unless some are lost.
fn until_exit(side_band: &mut SideBand, pid: u32) -> Vec<TimedRecord> {
    let deadline = Instant::now() + PATIENCE;
    let mut records = Vec::new();
    let ended = |records: &[TimedRecord]| {
        records
            .iter()
            .any(|one| matches!(one.record, Record::Exit { pid: of, tid, .. } if of == pid && tid == pid))
    };
    while !ended(&records) && side_band.counts().lost == 0 && Instant::now() < deadline {
        side_band.drain(&mut records);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(records.is_sorted_by_key(|record| record.time_ns));
    records.retain(|one| one.record.pid() == Some(pid));
    records
}

#[test]
fn a_process_is_recorded_from_fork_to_exit() {
    let Some(mut side_band) = permitted(SideBand::open(&online_cpus().unwrap(), DEFAULT_RING_PAGES)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("a program");
    std::fs::copy("/bin/cat", &program).unwrap();
    // Other programs can overflow the rings, but not at every attempt.
    for _ in 0..10 {
        if records_of_a_life(&mut side_band, &program) {
            return;
        }
        side_band = SideBand::open(&online_cpus().unwrap(), DEFAULT_RING_PAGES).unwrap();
    }
    panic!("records are lost each time");
}

/// False if some of the records were lost.
fn records_of_a_life(side_band: &mut SideBand, program: &Path) -> bool {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Process::start(&mut command).unwrap();
    let pid = child.pid();
    // The dynamic loader has finished when the program answers.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    drop(stdin);
    child.wait().unwrap();
    let records = until_exit(side_band, pid);
    assert_eq!(side_band.counts().malformed, 0);
    if side_band.counts().lost > 0 {
        return false;
    }

    assert!(matches!(records[0].record, Record::Fork { parent_pid, tid, .. }
        if parent_pid == std::process::id() && tid == pid));
    assert!(matches!(records.last().unwrap().record, Record::Exit { .. }));
    let exec = records
        .iter()
        .position(|one| matches!(&one.record, Record::Comm { exec: true, comm, .. } if comm == b"a program"));
    let mapped: Vec<_> = records[exec.unwrap()..]
        .iter()
        .filter_map(|one| if let Record::Mmap(mmap) = &one.record { Some(mmap) } else { None })
        .collect();
    let mut files = 0;
    for line in maps.lines().filter(|line| line.contains("r-xp") && line.contains('/')) {
        let fields: Vec<&str> = line.splitn(6, ' ').collect();
        let start = u64::from_str_radix(fields[0].split_once('-').unwrap().0, 16).unwrap();
        let (major, minor) = fields[3].split_once(':').unwrap();
        let mmap =
            mapped.iter().find(|mmap| mmap.address == start).unwrap_or_else(|| panic!("{line}: {mapped:?}"));
        assert!(mmap.executable);
        assert_eq!(mmap.path, &line.as_bytes()[line.find('/').unwrap()..]);
        assert_eq!(mmap.inode.to_string(), fields[4]);
        assert_eq!(mmap.dev_major, u32::from_str_radix(major, 16).unwrap());
        assert_eq!(mmap.dev_minor, u32::from_str_radix(minor, 16).unwrap());
        assert_eq!(mmap.file_offset, u64::from_str_radix(fields[2], 16).unwrap());
        files += 1;
    }
    assert!(files >= 3, "{maps}");
    true
}

#[test]
fn threads_and_their_names_are_recorded() {
    let Some(mut side_band) = permitted(SideBand::open(&online_cpus().unwrap(), 1)) else { return };
    let own = std::process::id();
    let deadline = Instant::now() + PATIENCE;
    let mut records: Vec<TimedRecord> = Vec::new();
    let forked = |tid| {
        move |one: &TimedRecord| {
            matches!(one.record, Record::Fork { pid, tid: new, parent_pid, .. }
                if (pid, new, parent_pid) == (own, tid, own))
        }
    };
    // These small rings overflow if other programs start: one thread of many is enough.
    loop {
        let thread = std::thread::Builder::new().name("side-band-test".to_owned()).spawn(|| ()).unwrap();
        thread.join().unwrap();
        side_band.drain_all(&mut records);
        let mut named = records.iter().filter_map(|one| match &one.record {
            Record::Comm { pid, tid, exec: false, comm } if *pid == own && comm == b"side-band-test" => {
                Some(*tid)
            }
            _ => None,
        });
        if named.any(|tid| tid != own && records.iter().any(forked(tid))) {
            return;
        }
        assert!(Instant::now() < deadline, "{records:?}");
    }
}

#[test]
fn a_full_ring_reports_the_number_of_lost_records() {
    let cpus = online_cpus().unwrap();
    let Some(mut side_band) = permitted(SideBand::open(&cpus, 1)) else { return };
    for _ in 0..100 * cpus.len() {
        std::thread::spawn(|| ()).join().unwrap();
    }
    let mut records = Vec::new();
    side_band.drain_all(&mut records);
    // A lost record is reported with the next one that fits.
    std::thread::spawn(|| ()).join().unwrap();
    for cpu in cpus {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu as usize);
        let _ = rustix::thread::sched_setaffinity(None, &set);
        std::thread::spawn(|| ()).join().unwrap();
    }
    side_band.drain_all(&mut records);
    assert!(side_band.counts().lost > 0);
    let lost: u64 =
        records.iter().map(|one| if let Record::Lost(lost) = one.record { lost } else { 0 }).sum();
    assert_eq!(lost, side_band.counts().lost);
}

#[test]
fn pids_of_another_namespace_are_translated() {
    let Some(mut side_band) = permitted(SideBand::open(&online_cpus().unwrap(), DEFAULT_RING_PAGES)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.path().join("side-band-pid")).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut records: Vec<TimedRecord> = Vec::new();
    loop {
        let mut inside = Command::new("unshare");
        let output = inside.args(["-p", "-f"]).arg(folder.path().join("side-band-pid")).output().unwrap();
        if !output.status.success() {
            testkit::skip!("no PID namespace without CAP_SYS_ADMIN");
        }
        side_band.drain_all(&mut records);
        let exec = records.iter().find_map(|one| match &one.record {
            Record::Comm { pid, exec: true, comm, .. } if comm == b"side-band-pid" => Some(*pid),
            _ => None,
        });
        if let Some(pid) = exec {
            assert!(pid > 1, "1 would be its number inside");
            return;
        }
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn offline_cpus_are_left_out() {
    let mut cpus = online_cpus().unwrap();
    let online = cpus.len();
    let offline = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = offline.trim().rsplit(['-', ',']).next().unwrap().parse::<u32>().unwrap();
    let spec = EventSpec::cpu_clock(99);
    if cpus.contains(&last) {
        testkit::skipped("in part: no CPU of this machine is offline");
    } else {
        cpus.push(last);
        assert!(matches!(Set::open_all(&spec, &[last], Options::default()), Err(Error::NoCpu { .. })));
    }
    let Some(set) = permitted(Set::open_all(&spec, &cpus, Options::default())) else { return };
    assert_eq!(set.cpus().count(), online);
    assert_eq!(set.skipped().len(), cpus.len() - online);
    assert!(matches!(Set::open_all(&spec, &[], Options::default()), Err(Error::NoCpu { cpus: 0, .. })));
}

#[test]
fn the_clock_or_cycles_can_be_opened() {
    let cpus = online_cpus().unwrap();
    let spec = probe_hardware_cycles(99, &cpus).unwrap();
    assert!(["software/cpu-clock", "hardware/cpu-cycles"].contains(&&*spec.name()));
    let options = Options { deferred_enable: true };
    let Some(mut set) = permitted(Set::open_all(&spec, &cpus, options)) else { return };
    set.enable().unwrap();
    set.disable().unwrap();
}

#[test]
fn events_and_records_follow_their_cpu() {
    let cpus = online_cpus().unwrap();
    let all = Set::open_all(&EventSpec::cpu_clock(99), &cpus, Options::default());
    let Some(mut set) = permitted(all) else { return };
    let opened = |followed: Followed| {
        assert!(followed.missing.is_empty(), "{followed:?}");
        (followed.closed, followed.opened)
    };
    let now = |online: &[u32], ended: &[u32]| Present { online: online.to_vec(), ended: ended.to_vec() };
    assert_eq!(opened(set.follow(&now(&cpus, &[]))), (vec![], vec![]), "nothing is opened twice");
    let before = set.fds().count();
    // As if all CPUs except the first had gone offline and come back.
    assert_eq!(opened(set.follow(&now(&cpus[..1], &[]))), (cpus[1..].to_vec(), vec![]));
    assert_eq!(set.cpus().collect::<Vec<_>>(), cpus[..1]);
    assert_eq!(opened(set.follow(&now(&cpus, &[]))), (vec![], cpus[1..].to_vec()));
    assert_eq!(set.cpus().collect::<Vec<_>>(), cpus);
    // As if all CPUs except the first had done so between two calls.
    assert_eq!(opened(set.follow(&now(&cpus, &cpus[1..]))), (cpus[1..].to_vec(), cpus[1..].to_vec()));
    assert_eq!(set.fds().count(), before, "what has ended does not stay open");
    assert_eq!(set.throttled_ns(), Some(0));

    let Some(mut side_band) = permitted(SideBand::open(&cpus[..1], 1)) else { return };
    assert_eq!(opened(side_band.follow(&now(&cpus, &[]))), (vec![], cpus[1..].to_vec()));
    assert_eq!(side_band.cpus().collect::<Vec<_>>(), cpus);
    let mut records = Vec::new();
    let last = *cpus.last().unwrap();
    let run_there = || std::process::Command::new("taskset").args(["-c", &last.to_string(), "true"]).status();
    if !run_there().is_ok_and(|status| status.success()) {
        testkit::skipped(format_args!("in part: nothing may run on CPU {last}"));
        return;
    }
    side_band.drain_all(&mut records);
    assert!(records.iter().any(|record| record.cpu == last), "no record of CPU {last}");
}

#[test]
fn a_rate_beyond_the_limit_is_refused_with_a_hint() {
    let cpus = online_cpus().unwrap();
    let error = Set::open_all(&EventSpec::cpu_clock(u64::MAX >> 1), &cpus, Options::default()).unwrap_err();
    if !error.is_permission() {
        assert!(error.to_string().contains("perf_event_max_sample_rate"), "{error}");
    }
}

#[test]
fn only_programs_can_be_attached() {
    let cpus = online_cpus().unwrap();
    let options = Options { deferred_enable: true };
    let Some(mut set) = permitted(Set::open_all(&EventSpec::cpu_clock(99), &cpus, options)) else { return };
    let file = tempfile::tempfile().unwrap();
    assert!(matches!(set.attach(file.as_fd()), Err(Error::Attach { .. })));
}

#[test]
fn throttled_time_is_measured() {
    let cpus = online_cpus().unwrap();
    let calm = permitted(Set::open_all(&EventSpec::cpu_clock(99), &cpus, Options::default()));
    let Some(mut calm) = calm else { return };
    burn(Duration::from_millis(50));
    assert_eq!(calm.throttled_ns(), Some(0));
    drop(calm);
    // The timer fires at most every 10 us. The kernel throttles only below that rate limit.
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap();
    if limit.trim().parse::<u64>().unwrap() > 50_000 {
        testkit::skipped("in part: kernel.perf_event_max_sample_rate allows for any rate of the clock");
        return;
    }
    let spec = EventSpec::new(EventKind::CpuClock, Rate::Period(1));
    let mut set = Set::open_all(&spec, &cpus, Options::default()).unwrap();
    let start = Instant::now();
    let mut throttled = 0;
    // Without a program, samples share the ring with throttle records.
    while start.elapsed() < Duration::from_millis(200) {
        throttled = set.throttled_ns().unwrap();
    }
    assert!(throttled > 0);
    let most = start.elapsed().as_nanos() as u64 * cpus.len() as u64;
    assert!(throttled < most, "{throttled} of {most}");
}
