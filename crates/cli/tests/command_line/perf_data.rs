//! perf.data of whole captures, read by other programs. Without privileges the tests are skipped, and one of them without `perf`.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use testkit::Process;

use crate::capture::{assert_gzip, assert_status, files, privileged, signal, start_in, wait_for_sampler};
use crate::stderr;

/// ns of a sample at 199 Hz.
const PERIOD_NS: u64 = 1_000_000_000 / 199;

/// A sample of a file.
struct Sample {
    event: String,
    pid: u32,
    period: u64,
    time_ns: u64,
}

/// The samples of a file.
fn samples(file: &Path) -> Vec<Sample> {
    let file = BufReader::new(std::fs::File::open(file).unwrap());
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file).unwrap();
    let names: Vec<String> =
        perf_file.event_attributes().iter().map(|event| event.name.clone().unwrap_or_default()).collect();
    let mut samples = Vec::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let EventRecord::Sample(sample) = record.parse().unwrap() else { continue };
        samples.push(Sample {
            event: names[attr_index].clone(),
            pid: sample.pid.unwrap() as u32,
            period: sample.period.unwrap(),
            time_ns: sample.timestamp.unwrap(),
        });
    }
    samples
}

/// Sums of what folded stacks tell, in ns.
fn folded_ns(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn each_sample_and_each_wait_of_the_profiles_is_in_the_file() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let loop_ = "while :; do i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; sleep 0.01; done";
    let target = Process::start(Command::new("sh").args(["-c", loop_])).unwrap();
    let pid = target.pid().to_string();
    let words = ["--profile", "--offcpu", "--pid", &pid, "--duration", "1s", "--sample-rate", "199"];
    let outputs = ["--folded-output", "x.folded", "--perf-data-output", "x.data"];
    let output = start_in(folder.path(), &[&words[..], &outputs].concat()).wait_with_output().unwrap();
    assert_status(&output, 0);
    let samples = samples(&folder.path().join("x.data"));
    let of = |event: &'static str| samples.iter().filter(move |sample| sample.event == event);
    let on_cpu = folded_ns(&folder.path().join("x.on-cpu.folded"));
    assert!(on_cpu > 0);
    assert_eq!(of("cpu-clock").count() as u64 * PERIOD_NS, on_cpu);
    assert!(of("cpu-clock").all(|sample| sample.period == PERIOD_NS));
    let waited: u64 = of("off-cpu").map(|sample| sample.period).sum();
    assert!(waited > 0);
    assert_eq!(waited, folded_ns(&folder.path().join("x.off-cpu.folded")));
    assert!(samples.iter().any(|sample| sample.pid == target.pid()));
    assert!(samples.is_sorted_by_key(|sample| sample.time_ns));
}

#[test]
fn perf_names_the_stacks_and_has_nothing_to_say_against_the_file() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Process::computing();
    let pid = target.pid().to_string();
    let words = ["--profile", "--pid", &pid, "--duration", "1s", "--sample-rate", "199"];
    let output = start_in(folder.path(), &[&words[..], &["--perf-data-output", "x.data"]].concat());
    assert_status(&output.wait_with_output().unwrap(), 0);
    let names = files(folder.path());
    let profile = names.iter().find(|name| name.ends_with("-on-cpu.pb.gz"));
    assert_gzip(folder.path().join(profile.expect("the profile is written as without perf.data")));
    let mut script = Command::new("perf");
    script.args(["script", "-F", "comm,event,ip,sym", "-i", "x.data"]);
    let Ok(script) = in_folder(&mut script, folder.path()) else {
        testkit::skipped(format_args!("perf is not installed"));
        return;
    };
    assert!(script.status.success(), "{}", stderr(&script));
    assert_eq!(stderr(&script), "");
    let text = String::from_utf8_lossy(&script.stdout);
    let headings = text.lines().filter(|line| line.contains("cpu-clock")).count();
    assert_eq!(headings, samples(&folder.path().join("x.data")).len());
    assert!(headings > 0);
}

fn in_folder(command: &mut Command, folder: &Path) -> std::io::Result<std::process::Output> {
    command.current_dir(folder).output()
}

#[test]
fn a_killed_agent_leaves_a_file_that_can_be_read() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Process::computing();
    let pid = target.pid().to_string();
    let words = ["--profile", "--pid", &pid, "--duration", "1m", "--sample-rate", "199"];
    let mut child = start_in(folder.path(), &[&words[..], &["--perf-data-output", "x.data"]].concat());
    wait_for_sampler(&child);
    let file = folder.path().join("x.data");
    testkit::until("a round is in the file", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 8192));
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(!samples(&file).is_empty());
}

#[test]
fn each_interval_has_a_file_with_the_samples_of_its_profile() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Process::computing();
    let pid = target.pid().to_string();
    let words = ["--profile", "--pid", &pid, "--duration", "2s", "--sample-rate", "199", "--rotate", "300ms"];
    let outputs = ["--folded-output", "x.folded", "--perf-data-output", "x.perf.data"];
    let output = start_in(folder.path(), &[&words[..], &outputs].concat()).wait_with_output().unwrap();
    assert_status(&output, 0);
    let mut intervals = BTreeMap::<String, [Option<u64>; 2]>::new();
    for name in files(folder.path()) {
        let (stem, extension) = name.strip_prefix("x-").unwrap().split_at("YYYYMMDDTHHMMSS.mmm".len());
        let path = folder.path().join(&name);
        let (which, ns) = match extension {
            ".folded" => (0, folded_ns(&path)),
            ".perf.data" => (1, samples(&path).len() as u64 * PERIOD_NS),
            _ => panic!("{name}"),
        };
        intervals.entry(stem.to_owned()).or_default()[which] = Some(ns);
    }
    assert!(intervals.len() > 2, "{intervals:?}");
    for (time, [folded, perf_data]) in &intervals {
        assert!(folded.is_some() && folded == perf_data, "{time}: {intervals:?}");
    }
    assert!(intervals.values().filter(|[folded, _]| *folded > Some(0)).count() > 1, "{intervals:?}");
}

#[test]
fn a_full_disk_is_told_once_and_leaves_a_file_that_can_be_read() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Process::computing();
    // The file system exists for this command only.
    let script = "mount -t tmpfs -o size=32k none small 2>/dev/null || exit 77
        $0 --profile --pid $1 --duration 3s --sample-rate 499 --kernel-stacks --folded-output x.folded \
            --perf-data-output small/x.data
        status=$?; cp small/x.data .; exit $status";
    std::fs::create_dir(folder.path().join("small")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_perf-agent"), &target.pid().to_string()]);
    let output = in_folder(&mut command, folder.path()).unwrap();
    if output.status.code() == Some(77) {
        testkit::skipped(format_args!("a file system cannot be mounted here"));
        return;
    }
    assert_status(&output, 1);
    let text = stderr(&output);
    assert_eq!(text.matches("No space left on device").count(), 1, "{text}");
    assert!(text.contains("error: write small/x.data: ") && text.contains("free some space"), "{text}");
    assert!(folded_ns(&folder.path().join("x.folded")) > 0, "the other output is there");
    assert!(!samples(&folder.path().join("x.data")).is_empty());
}
