//! Files of intervals, and outputs that are made from recordings later.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use perfagent::{Agent, FileTarget, MemorySink, Mode, OutputKind, Recording, TemporaryFiles};
use testkit::Process;

use super::program::Program;
use super::sums::check_samples;
use crate::started::started;

fn files_in(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect()
}

#[test]
fn a_rotated_capture_writes_a_set_of_files_for_each_interval() {
    let target = Process::computing();
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    let builder = Agent::builder().pid(target.pid()).cpu_profile(path("on.pb.gz")).folded(path("on.folded"));
    let builder = builder.option("recording-output", path("all.perf-agent"));
    let agent = builder.rotate(Duration::from_millis(300)).build().unwrap();
    if !started(&agent) {
        return;
    }
    // Files of four intervals, however long a busy machine takes.
    testkit::until("four intervals", || files_in(folder.path()).len() >= 12);
    let report = agent.stop().unwrap();
    assert!(report.intervals >= 4, "{}", report.intervals);
    assert!(report.outputs.iter().all(|output| output.result.is_ok()), "{:?}", report.outputs);
    let files = files_in(folder.path());
    assert_eq!(files.len() as u64, 3 * report.intervals, "{:?}", files.keys());
    let mut end_ns = None;
    for (name, bytes) in &files {
        let name = name.to_str().unwrap();
        let (stem, extension) = [("on-", ".pb.gz"), ("on-", ".folded"), ("all-", ".perf-agent")]
            .into_iter()
            .find(|(stem, extension)| name.starts_with(stem) && name.ends_with(extension))
            .unwrap_or_else(|| panic!("{name}"));
        let time = &name[stem.len()..name.len() - extension.len()];
        let digits: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(digits, "00000000T000000.000Z", "{name}");
        // An interval may be without samples.
        assert!(!bytes.is_empty() || extension == ".folded", "{name}");
        if extension == ".perf-agent" {
            let recording = Recording::read_from(&bytes[..]).unwrap();
            let span = recording.model().recording.span;
            let millis = span.start_ns / 1_000_000 % 1000;
            assert_eq!(time[16..], format!("{millis:03}Z"), "{name}");
            if let Some(end_ns) = end_ns {
                assert!(i64::abs(span.start_ns - end_ns) < 1_000_000, "{name}: {end_ns}");
            }
            end_ns = Some(span.start_ns + span.duration_ns as i64);
            assert!(recording.profile(Mode::OnCpu).is_some());
        }
    }
    let all = report.recording().model().recording.span;
    assert_eq!(end_ns, Some(all.start_ns + all.duration_ns as i64), "the last interval is written, too");
}

#[test]
fn outputs_made_from_a_recording_are_those_of_the_live_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), Duration::from_secs(1)) else { return };
    let live = folder.path().join("live");
    fs::create_dir(&live).unwrap();
    let (off_cpu, recorded) = (MemorySink::new(), live.join("all.perf-agent"));
    let builder = Agent::builder().pid(program.pid()).per_thread(true).sample_rate(499);
    let builder = builder.cpu_profile(live.join("on.pb.gz")).off_cpu_profile_to(off_cpu.clone());
    let builder = builder.wall_profile(live.join("wall.pb.gz")).folded(live.join("on.folded"));
    let builder = builder.flamegraph(live.join("on.svg")).wakers(true).tag("a", "b");
    let agent = builder.option("recording-output", &recorded).build().unwrap();
    if !started(&agent) {
        return;
    }
    program.begin();
    agent.wait(Duration::from_secs(60));
    let report = agent.stop().unwrap();
    assert!(report.outputs.iter().all(|output| output.result.is_ok()), "{:?}", report.outputs);
    // The target is gone, and its file too.
    drop(program);
    fs::remove_file(folder.path().join("threads")).unwrap();
    let bytes = fs::read(&recorded).unwrap();
    let recording = Recording::read_from(&bytes[..]).unwrap();
    check_samples(&recording);
    let later = folder.path().join("later");
    fs::create_dir(&later).unwrap();
    let file = |name: &str| FileTarget::from(later.join(name));
    let outputs = [
        (OutputKind::CpuProfile, file("on.pb.gz")),
        (OutputKind::WallProfile, file("wall.pb.gz")),
        (OutputKind::Folded, file("on.folded")),
        (OutputKind::FlameGraph, file("on.svg")),
        (OutputKind::Recording, file("all.perf-agent")),
    ];
    let written = recording.write_outputs(outputs, &TemporaryFiles::new());
    assert!(written.iter().all(|output| output.result.is_ok()), "{written:?}");
    let (live, later_files) = (files_in(&live), files_in(&later));
    let sizes: BTreeMap<_, _> = live.iter().map(|(name, bytes)| (name, bytes.len())).collect();
    println!("sizes: {sizes:?}");
    assert_eq!(live.keys().collect::<Vec<_>>(), later_files.keys().collect::<Vec<_>>());
    for (name, bytes) in &live {
        assert!(*bytes == later_files[name], "{} differs", name.display());
    }
    recording.write_profile(Mode::OffCpu, "pprof", file("off.pb.gz"), &TemporaryFiles::new()).unwrap();
    assert!(off_cpu.take() == fs::read(later.join("off.pb.gz")).unwrap(), "the off-CPU profile differs");
}

#[test]
fn an_altered_recording_is_refused_with_its_position() {
    let mut target = Command::new("sh");
    target.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]).stdout(Stdio::null());
    let agent = Agent::builder().command(target).with_cpu_profile().sample_rate(499).build().unwrap();
    if !started(&agent) {
        return;
    }
    agent.wait(Duration::from_secs(60));
    let mut bytes = Vec::new();
    agent.stop().unwrap().recording().write_to(&mut bytes).unwrap();
    assert!(Recording::read_from(&bytes[..]).is_ok());
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        let error = Recording::read_from(&bytes[..cut]).unwrap_err().to_string();
        assert!(error.bytes().any(|byte| byte.is_ascii_digit()), "{cut}: {error}");
    }
    for at in (0..bytes.len()).step_by(bytes.len() / 50 + 1) {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(Recording::read_from(&altered[..]).is_err(), "byte {at}");
    }
}
