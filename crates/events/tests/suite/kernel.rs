//! Events of this machine's kernel. A test without the right to open them is skipped.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use events::{
    DEFAULT_RING_PAGES, Error, EventKind, EventSpec, Followed, Mmap, Options, PerfEventSet, Present, Rate,
    Record, SideBand, TimedRecord, online_cpus, probe_hardware_cycles,
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

/// A child whose dynamic loader has finished, and that waits for the end of its input.
fn loaded_child(program: &Path) -> Process {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Process::start(&mut command).unwrap();
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

fn mappings(records: &[TimedRecord], of: u32) -> Vec<&Mmap> {
    let mapped = records.iter().filter_map(|one| match &one.record {
        Record::Mmap(mmap) if mmap.pid == of => Some(mmap),
        _ => None,
    });
    mapped.collect()
}

#[test]
fn the_mappings_of_a_program_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("a program");
    std::fs::copy("/bin/cat", &program).unwrap();
    // Others may start so many programs that the rings overflow; not always.
    for _ in 0..10 {
        let side_band = SideBand::open(&online_cpus().unwrap(), DEFAULT_RING_PAGES);
        let Some(mut side_band) = permitted(side_band) else { return };
        if mappings_are_recorded(&mut side_band, &program) {
            return;
        }
    }
    panic!("records are lost each time");
}

/// False if some of the records were lost.
fn mappings_are_recorded(side_band: &mut SideBand, program: &Path) -> bool {
    let mut child = loaded_child(program);
    let pid = child.pid();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let ended_ns = now_ns();
    let mut records = Vec::new();
    while side_band.drain(&mut records) < ended_ns {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(records.is_sorted_by_key(|record| record.time_ns));
    assert_eq!(side_band.counts().malformed, 0);
    if side_band.counts().lost > 0 {
        return false;
    }
    let mapped = mappings(&records, pid);
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

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Runs a program of some mappings on a CPU, if that is allowed.
fn run_on(cpu: u32) -> bool {
    let Some(taskset) = testkit::needed("taskset") else { return false };
    let run = Command::new(taskset).args(["-c", &cpu.to_string(), "true"]).status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn a_full_ring_reports_the_number_of_lost_records() {
    let cpus = online_cpus().unwrap();
    let Some(mut side_band) = permitted(SideBand::open(&cpus, 1)) else { return };
    for _ in 0..20 * cpus.len() {
        assert!(Command::new("true").status().unwrap().success());
    }
    let mut records = Vec::new();
    side_band.drain_all(&mut records);
    assert!(side_band.counts().full > 0, "before the kernel says so");
    // A lost record is reported with the next one that fits.
    assert!(Command::new("true").status().unwrap().success());
    for cpu in cpus {
        run_on(cpu);
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
    let program = folder.path().join("side-band-pid");
    std::fs::copy("/bin/true", &program).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut records: Vec<TimedRecord> = Vec::new();
    loop {
        let Some(mut command) = testkit::unshare(&["--pid", "--fork"]) else { return };
        assert!(command.arg(&program).status().unwrap().success());
        side_band.drain_all(&mut records);
        let found = records.iter().find_map(|one| match &one.record {
            Record::Mmap(mmap) if mmap.path.ends_with(b"side-band-pid") => Some(mmap.pid),
            _ => None,
        });
        if let Some(pid) = found {
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
        assert!(matches!(
            PerfEventSet::open_all(&spec, &[last], Options::default()),
            Err(Error::NoCpu { .. })
        ));
    }
    let Some(set) = permitted(PerfEventSet::open_all(&spec, &cpus, Options::default())) else { return };
    assert_eq!(set.cpus().count(), online);
    assert_eq!(set.skipped().len(), cpus.len() - online);
    assert!(matches!(
        PerfEventSet::open_all(&spec, &[], Options::default()),
        Err(Error::NoCpu { cpus: 0, .. })
    ));
}

#[test]
fn the_clock_or_cycles_can_be_opened() {
    let cpus = online_cpus().unwrap();
    let Some(spec) = permitted(probe_hardware_cycles(99, &cpus)) else { return };
    assert!(["software/cpu-clock", "hardware/cpu-cycles"].contains(&&*spec.name()));
    let options = Options { deferred_enable: true };
    let Some(mut set) = permitted(PerfEventSet::open_all(&spec, &cpus, options)) else { return };
    set.enable().unwrap();
    set.disable().unwrap();
    assert_eq!((set.close().is_ok(), set.close().is_ok(), set.fds().count()), (true, true, 0));
}

#[test]
fn events_and_records_follow_their_cpu() {
    let cpus = online_cpus().unwrap();
    let all = PerfEventSet::open_all(&EventSpec::cpu_clock(99), &cpus, Options::default());
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
    if !run_on(last) {
        testkit::skipped(format_args!("in part: nothing may run on CPU {last}"));
        return;
    }
    side_band.drain_all(&mut records);
    assert!(records.iter().any(|record| record.cpu == last), "no record of CPU {last}");
}

#[test]
fn a_rate_beyond_the_limit_is_refused_with_a_hint() {
    let cpus = online_cpus().unwrap();
    let error =
        PerfEventSet::open_all(&EventSpec::cpu_clock(u64::MAX >> 1), &cpus, Options::default()).unwrap_err();
    if !error.is_permission() {
        assert!(error.to_string().contains("perf_event_max_sample_rate"), "{error}");
    }
}

#[test]
fn only_programs_can_be_attached() {
    let cpus = online_cpus().unwrap();
    let options = Options { deferred_enable: true };
    let Some(mut set) = permitted(PerfEventSet::open_all(&EventSpec::cpu_clock(99), &cpus, options)) else {
        return;
    };
    let file = tempfile::tempfile().unwrap();
    assert!(matches!(set.attach(file.as_fd()), Err(Error::Attach { .. })));
}

#[test]
fn throttled_time_is_measured() {
    let cpus = online_cpus().unwrap();
    let calm = permitted(PerfEventSet::open_all(&EventSpec::cpu_clock(99), &cpus, Options::default()));
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
    let mut set = PerfEventSet::open_all(&spec, &cpus, Options::default()).unwrap();
    let start = Instant::now();
    let mut throttled = 0;
    // Without a program, samples share the ring with throttle records.
    testkit::until("the clock is throttled", || {
        throttled = set.throttled_ns().unwrap();
        throttled > 0
    });
    let most = start.elapsed().as_nanos() as u64 * cpus.len() as u64;
    assert!(throttled < most, "{throttled} of {most}");
}
