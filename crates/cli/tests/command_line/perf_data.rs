//! perf.data of whole captures, read by other programs. Without privileges the tests are skipped, and one of them without `perf`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linux_perf_data::linux_perf_event_reader::{CpuMode, EventRecord, Mmap2FileId};
use linux_perf_data::{DsoKey, PerfFile, PerfFileReader, PerfFileRecord};
use testkit::Process;

use crate::capture::{assert_gzip, assert_status, files, privileged, signal, start_in, wait_for_sampler};
use crate::stderr;

/// ns of a sample at 199 Hz.
const PERIOD_NS: u64 = 1_000_000_000 / 199;

/// A sample of a file.
pub struct Sample {
    event: String,
    pid: u32,
    period: u64,
    pub time_ns: u64,
    kernel_leaf: bool,
    chain: Vec<u64>,
}

/// Reads the records of a file, in the order of their times, with the number of their event.
fn read(file: &Path, mut each: impl FnMut(&PerfFile, usize, EventRecord<'_>)) {
    let file = BufReader::new(std::fs::File::open(file).unwrap());
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file).unwrap();
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        each(&perf_file, attr_index, record.parse().unwrap());
    }
}

/// The samples of a file.
pub fn samples(file: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    read(file, |file, event, record| {
        let EventRecord::Sample(sample) = record else { return };
        let chain = sample.callchain.unwrap();
        samples.push(Sample {
            // A file that was left in the middle has no names of events.
            event: file.event_attributes()[event].name.clone().unwrap_or_default(),
            pid: sample.pid.unwrap() as u32,
            period: sample.period.unwrap(),
            time_ns: sample.timestamp.unwrap(),
            kernel_leaf: sample.cpu_mode == CpuMode::Kernel,
            chain: (0..chain.len()).map(|at| chain.get(at).unwrap()).collect(),
        });
    });
    samples
}

/// Sums of what folded stacks tell, in ns.
pub fn folded_ns(file: &Path) -> u64 {
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
    assert_ne!(on_cpu, 0, "CPU time in ns");
    assert_eq!(of("cpu-clock").count() as u64 * PERIOD_NS, on_cpu);
    let other = of("cpu-clock").map(|sample| sample.period).find(|period| *period != PERIOD_NS);
    assert_eq!(other, None, "each period is {PERIOD_NS} ns");
    let waited: u64 = of("off-cpu").map(|sample| sample.period).sum();
    assert_ne!(waited, 0, "time waited in ns");
    assert_eq!(waited, folded_ns(&folder.path().join("x.off-cpu.folded")));
    let pids: BTreeSet<u32> = samples.iter().map(|sample| sample.pid).collect();
    assert!(pids.contains(&target.pid()), "{} is not of {pids:?}", target.pid());
    assert!(samples.is_sorted_by_key(|sample| sample.time_ns));
}

#[test]
fn a_command_has_no_wait_before_its_first_instruction() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["--profile", "--offcpu", "--sample-rate", "199", "--folded-output", "x.folded"];
    let command = ["--perf-data-output", "x.data", "--", "sh", "-c", "sleep 0.1; sleep 0.1"];
    let output = start_in(folder.path(), &[&words[..], &command].concat()).wait_with_output().unwrap();
    assert_status(&output, 0);
    let samples = samples(&folder.path().join("x.data"));
    let waited: u64 =
        samples.iter().filter(|sample| sample.event == "off-cpu").map(|sample| sample.period).sum();
    assert_eq!(folded_ns(&folder.path().join("x.off-cpu.folded")), waited);
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
    testkit::need!("perf");
    let mut script = testkit::perf(folder.path());
    script.args(["script", "-F", "comm,event,ip,sym", "-i", "x.data"]);
    let script = in_folder(&mut script, folder.path()).unwrap();
    assert!(script.status.success(), "{}", stderr(&script));
    assert_eq!(stderr(&script), "");
    // Without kernel frames the kernel is told too: a report without it begins with a warning.
    let mut report = testkit::perf(folder.path());
    let report = in_folder(report.args(["report", "--stdio", "-i", "x.data"]), folder.path()).unwrap();
    assert!(!stderr(&report).contains("Kernel address maps"), "{}", stderr(&report));
    let text = String::from_utf8_lossy(&script.stdout);
    let headings = text.lines().filter(|line| line.contains("cpu-clock")).count();
    assert_eq!(headings, samples(&folder.path().join("x.data")).len());
    assert_ne!(headings, 0, "{text}");
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
        let (stem, extension) = name.strip_prefix("x-").unwrap().split_at("YYYYMMDDTHHMMSS.mmmZ".len());
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
    // The file system exists for this process only.
    let script = "mount -t tmpfs -o size=256k none small || exit 77
        exec $0 --profile --pid $1 --duration 10m --sample-rate 499 --folded-output x.folded \
            --perf-data-output small/x.data";
    std::fs::create_dir(folder.path().join("small")).unwrap();
    let Some(mut command) = testkit::unshare(&["--mount"]) else { return };
    command.args(["sh", "-c", script, env!("CARGO_BIN_EXE_perf-agent"), &target.pid().to_string()]);
    command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let inside = format!("/proc/{}/root{}/small", child.id(), folder.path().display());
    let (file, mut ended) = (Path::new(&inside).join("x.data"), None);
    testkit::until("a round is in the file", || {
        ended = child.try_wait().unwrap();
        ended.is_some() || std::fs::metadata(&file).is_ok_and(|file| file.len() > 8192)
    });
    assert_ne!(ended.and_then(|status| status.code()), Some(77), "the file system is mounted");
    let mut written = std::fs::File::open(&file).unwrap();
    let mut filler = std::fs::File::create(Path::new(&inside).join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    // More samples than the last page of the file takes.
    let enough = cpu_ticks(target.pid()) + 50;
    testkit::until("the target has computed", || cpu_ticks(target.pid()) > enough);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 1);
    let text = stderr(&output);
    assert_eq!(text.matches("No space left on device").count(), 1, "{text}");
    assert!(text.contains("error: write small/x.data: ") && text.contains("free some space"), "{text}");
    assert!(folded_ns(&folder.path().join("x.folded")) > 0, "the other output is there");
    let left = folder.path().join("left.data");
    std::io::copy(&mut written, &mut std::fs::File::create(&left).unwrap()).unwrap();
    assert!(!samples(&left).is_empty());
}

/// CPU time of a process in user code, in ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(11).unwrap().parse().unwrap()
}

/// Makes threads that end at once, until it is dropped.
struct ThreadMaker(Option<std::thread::JoinHandle<()>>, Arc<AtomicBool>);

impl ThreadMaker {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let make = move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::spawn(|| {}).join().unwrap();
            }
        };
        Self(Some(std::thread::spawn(make)), stop)
    }
}

impl Drop for ThreadMaker {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn processes_and_threads_begin_and_end() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shell = Process::start(Command::new("sh").args(["-c", "while :; do /bin/true; done"])).unwrap();
    let threads = ThreadMaker::start();
    let pids = format!("{},{}", shell.pid(), std::process::id());
    let words = ["--profile", "--pid", &pids, "--duration", "1s", "-F", "499", "-o", "x.perf.data"];
    assert_status(&start_in(folder.path(), &words).wait_with_output().unwrap(), 0);
    drop(threads);
    assert_eq!(files(folder.path()), ["x.perf.data"]);
    let (mut made, mut ended, mut executed) = (HashSet::new(), HashSet::new(), HashSet::new());
    read(&folder.path().join("x.perf.data"), |_, _, record| match record {
        EventRecord::Fork(of) => _ = made.insert((of.ppid, of.pid, of.tid)),
        EventRecord::Exit(of) => _ = ended.insert((of.ppid, of.pid, of.tid)),
        EventRecord::Comm(of) if of.is_execve && &*of.name.as_slice() == b"true" => {
            executed.insert(of.pid);
        }
        _ => {}
    });
    let whole: Vec<_> = made.intersection(&ended).collect();
    let shell = shell.pid() as i32;
    let is_child =
        |(ppid, pid, tid): &&(i32, i32, i32)| *ppid == shell && pid == tid && executed.contains(pid);
    assert!(whole.iter().copied().any(|one| is_child(&one)), "{made:?} {ended:?} {executed:?}");
    let own = std::process::id() as i32;
    let is_thread = |(_, pid, tid): &&(i32, i32, i32)| *pid == own && *tid != own;
    let begun: HashSet<i32> = made.iter().filter(is_thread).map(|(_, _, tid)| *tid).collect();
    assert!(ended.iter().filter(is_thread).any(|(_, _, tid)| begun.contains(tid)), "{made:?} {ended:?}");
}

/// Burns CPU for 20 ms of its own time.
const BRIEF: &str = "
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void burn(void) { for (int i = 0; i < 100000; i++) sink += i; }
int main(void) { clock_t begin = clock(); while (clock() - begin < CLOCKS_PER_SEC / 50) burn(); return 0; }
";

/// Two programs take turns with one number. Each sample is of the program that its code is of.
#[test]
fn samples_are_of_their_program_where_a_number_is_used_again() {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("brief.c"), BRIEF).unwrap();
    let compile = ["gcc", "-O1", "-o", "one_brief", "brief.c"];
    let (Some(_), Some(_)) = (testkit::needed("perf"), testkit::run_tool(folder, compile)) else { return };
    std::fs::copy(folder.join("one_brief"), folder.join("two_brief")).unwrap();
    let words = ["--profile", "-a", "--duration", "5s", "--sample-rate", "499"];
    let outputs = ["--folded-output", "x.folded", "--perf-data-output", "x.data"];
    let mut agent = start_in(folder, &[&words[..], &outputs].concat());
    wait_for_sampler(&agent);
    let (mut number, mut used) = (None, 0);
    while agent.try_wait().unwrap().is_none() {
        for name in ["one_brief", "two_brief"] {
            if let Some(number) = number {
                // Without the right to choose the number it is not used again.
                let _ = std::fs::write(LAST, format!("{}", number - 1));
            }
            let mut program = Process::start(&mut Command::new(folder.join(name))).unwrap();
            used += u32::from(number == Some(program.pid()));
            number.get_or_insert(program.pid());
            program.wait().unwrap();
        }
    }
    assert_status(&agent.wait_with_output().unwrap(), 0);
    if used == 0 {
        return testkit::skipped("the number of the next process cannot be chosen");
    }
    let script = ["script", "-i", "x.data", "-F", "comm,ip,dso"];
    let output = testkit::perf(folder).args(script).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (mut right, mut wrong) = (0, Vec::new());
    for sample in text.split("\n\n") {
        let (comm, frames) = sample.trim().split_once('\n').unwrap_or_default();
        for name in ["one_brief", "two_brief"] {
            if frames.contains(&format!("/{name})")) {
                if comm.trim() == name { right += 1 } else { wrong.push(sample.to_owned()) }
            }
        }
    }
    assert!(right > 100 && wrong.is_empty(), "{right} are right, {} are not: {wrong:#?}", wrong.len());
}

#[test]
fn the_code_of_samples_is_told_with_its_build_id() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("gone");
    std::fs::copy("/bin/sh", &program).unwrap();
    let loop_ = "while :; do i=0; while [ $i -lt 999 ]; do i=$((i+1)); done; sleep 0.002; done";
    let target = Process::start(Command::new(&program).args(["-c", loop_])).unwrap();
    testkit::until("it runs its program", || {
        std::fs::read_link(format!("/proc/{}/exe", target.pid())).is_ok_and(|exe| exe == program)
    });
    std::fs::remove_file(&program).unwrap();
    let pid = target.pid().to_string();
    let words = ["--profile", "--offcpu", "-g", "--pid", &pid, "--duration", "1s", "--sample-rate", "199"];
    let output = start_in(folder.path(), &[&words[..], &["--perf-data-output", "x.data"]].concat());
    assert_status(&output.wait_with_output().unwrap(), 0);
    let file = folder.path().join("x.data");
    let (mut mapped, mut kernel, mut feature) = (BTreeMap::new(), None, 0);
    read(&file, |file, _, record| match record {
        EventRecord::Mmap2(of) if of.pid == target.pid() as i32 => {
            let id = if let Mmap2FileId::BuildId(id) = of.file_id { id } else { Vec::new() };
            mapped.insert(String::from_utf8_lossy(&of.path.as_slice()).into_owned(), id);
        }
        EventRecord::Mmap(of) if kernel.is_none() => {
            let build_ids = file.build_ids().unwrap();
            feature = build_ids.get(&DsoKey::Kernel).map_or(0, |of_kernel| of_kernel.build_id.len());
            kernel = Some(of.address);
        }
        _ => {}
    });
    let id_of = |name: &str| {
        let found = mapped.iter().find(|(path, _)| path.ends_with(name)).map(|(_, id)| id.len());
        found.unwrap_or_else(|| panic!("{name} is not among {mapped:?}"))
    };
    assert!(id_of("/gone") > 0 && id_of("[vdso]") > 0, "{mapped:?}");
    assert!(kernel.is_some(), "the kernel's text is told");
    assert!(feature > 0, "the kernel's build-id is told");
    let samples = samples(&file);
    assert!(samples.iter().any(|sample| sample.kernel_leaf));
    let scheduler = scheduler_code();
    let waits = samples.iter().filter(|sample| sample.event == "off-cpu" && sample.kernel_leaf);
    let frames: Vec<u64> = waits.flat_map(|sample| sample.chain.iter().copied()).collect();
    assert!(frames.iter().any(|frame| !scheduler.contains(frame)), "{scheduler:x?}: {frames:x?}");
    assert!(!frames.iter().any(|frame| scheduler.contains(frame)), "what took the stack is before that");
}

/// Where the scheduler's section of the kernel lies.
fn scheduler_code() -> std::ops::Range<u64> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let at = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(name)).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    at(" __sched_text_start")..at(" __sched_text_end")
}
