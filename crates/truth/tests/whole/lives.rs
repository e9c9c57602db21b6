//! Unusual lives of processes and threads: PIDs that are used again, threads without a user stack,
//! processes that use a CPU after they have released their memory.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use truth::compile::{Build, Compiler};
use truth::frame::{Capture, Stack};
use truth::leftovers::BpfObjects;
use truth::profiler::read_pprof;
use truth::programs::{Scheduling, sources};
use truth::session::{Session, Subject};

use crate::Setup;

/// The PID that two programs get, one after the other, in a PID namespace of their own.
const PID: u32 = 700;

/// Runs two programs with one PID, when the capture has begun: then its metrics are served. In a PID namespace of its own no other process takes PIDs, so the next one can be chosen.
fn one_pid_twice(setup: &Setup, folder: &Path) -> Option<String> {
    let mut command = testkit::unshare(&["--pid", "--fork", "--mount-proc"])?;
    let programs = Scheduling::new(&setup.out);
    let (hogs, mayflies) = (programs.path("hogs").unwrap(), programs.path("mayflies").unwrap());
    let at = folder.display();
    let script = format!(
        "'{agent}' --profile --profile-output {at}/on.pb.gz --offcpu --offcpu-output {at}/off.pb.gz -a --sample-rate 999 \
         --duration 1h --metrics-listen :0 > {at}/log 2>&1 & agent=$!\n\
         while kill -0 $agent && ! grep -qs 'metrics are served' {at}/log; do sleep 0.05; done\n\
         for program in '{hogs}' '{mayflies}'; do\n\
         echo {before} > /proc/sys/kernel/ns_last_pid\n\
         \"$program\" 1000 > /dev/null & echo number $!; wait $!\n\
         done\n\
         kill -TERM $agent; wait $agent; echo status $?; cat {at}/log",
        agent = setup.agent.display(),
        hogs = hogs.display(),
        mayflies = mayflies.display(),
        before = PID - 1,
    );
    let output = command.args(["sh", "-c", &script]).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

fn comms(capture: &Capture, function: &str) -> Vec<String> {
    let mut comms: Vec<_> =
        capture.stacks.iter().filter(|s| s.has(function)).map(|s| format!("{} {}", s.pid, s.comm)).collect();
    comms.sort();
    comms.dedup();
    comms
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(output) = one_pid_twice(&setup, folder.path()) else { return };
    let number = format!("number {PID}");
    assert!(
        output.lines().filter(|line| *line == number).count() == 2 && output.contains("status 0"),
        "{output}"
    );
    let read = |name: &str| read_pprof(&folder.path().join(name)).unwrap();
    let (on_cpu, off_cpu) = (read("on.pb.gz"), read("off.pb.gz"));
    assert_eq!(comms(&on_cpu, "hog_one"), [format!("{PID} hogs")], "{output}");
    assert_eq!(comms(&off_cpu, "site_nap"), [format!("{PID} mayflies")], "{output}");
    // No stack of one program is under the name of the other.
    let foreign =
        |s: &Stack| s.comm == "mayflies" && s.has("hog_one") || s.comm == "hogs" && s.has("site_nap");
    for capture in [&on_cpu, &off_cpu] {
        assert_eq!(capture.sums(foreign).0, 0, "{:?}", capture.stacks);
        // The rest of the machine is outside of the namespace, and counted.
        let outside = capture.ledger("skipped.outside_namespace").unwrap_or("0");
        assert!(outside.parse::<u64>().unwrap() > 0, "{:?}", capture.comments);
    }
}

#[test]
fn a_thread_of_the_kernels_inside_of_a_process_has_no_user_stack() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = Scheduling::new(&setup.out).path("uring").unwrap();
    let subject = Subject::Command(&program, &["500"]);
    let finished = Session::start(&setup.agent, &["--offcpu"], subject).unwrap().finish().unwrap();
    if finished.lines.iter().any(|line| line == "refused") {
        testkit::skip!("io_uring is refused here");
    }
    let capture = finished.off_cpu().unwrap();
    let (intervals, ns) = capture.sums(|s| s.has("[kernel_thread]"));
    assert!(intervals > 0 && ns > 100_000_000, "{:?}", capture.stacks);
    assert_eq!(capture.ledger("walks.no_registers"), None, "{:?}", capture.comments);
    assert_eq!(capture.sums(|s| s.has("[exiting]")).1 / 100_000_000, 0, "{:?}", capture.stacks);
}

#[test]
fn the_stacks_of_32_bit_code_have_a_cause_of_their_own() {
    let Some(setup) = Setup::beside_others() else { return };
    let flags = "-m32 -O2 -nostdlib -static -fno-pie -no-pie";
    let program = Build::new("code32", Compiler::Gcc, "code32.c", flags).run(&sources(), &setup.out).unwrap();
    let options = ["--profile", "--offcpu", "--sample-rate", "499", "--duration", "1s"];
    let session = Session::start(&setup.agent, &options, Subject::Command(&program, &[])).unwrap();
    let finished = session.finish().unwrap();
    for capture in [finished.on_cpu().unwrap(), finished.off_cpu().unwrap()] {
        let number = |key: &str| capture.ledger(key).map_or(0, |value| value.parse::<u64>().unwrap());
        // The first moments are those of perf-agent's own child, which executes the program.
        assert!(10 * number("walks.code_32_bit") > 9 * number("samples"), "{:?}", capture.comments);
        assert_eq!(number("walks.no_registers"), 0, "{:?}", capture.comments);
        let (shown, _) = capture.sums(|stack| stack.truncated.as_deref() == Some("[truncated: 32-bit code]"));
        assert_eq!(shown, number("walks.code_32_bit"), "{:?}", capture.stacks);
    }
    assert!(finished.messages.contains("profile a 64-bit build"), "{}", finished.messages);
}

/// Code made at run time that uses rbp for something else: 0 in it says nothing of the stack.
#[test]
fn a_frame_pointer_of_zero_is_no_root() {
    let Some(setup) = Setup::beside_others() else { return };
    let program =
        Build::new("zero_rbp", Compiler::Gcc, "zero_rbp.c", "-O2").run(&sources(), &setup.out).unwrap();
    let options = ["--profile", "--sample-rate", "499", "--duration", "1s"];
    let session = Session::start(&setup.agent, &options, Subject::Command(&program, &[])).unwrap();
    let finished = session.finish().unwrap();
    let capture = finished.on_cpu().unwrap();
    let number = |key: &str| capture.ledger(key).map_or(0, |value| value.parse::<u64>().unwrap());
    assert!(10 * number("walks.zero_frame") > 9 * number("samples"), "{:?}", capture.comments);
    let (shown, _) =
        capture.sums(|stack| stack.truncated.as_deref() == Some("[truncated: frame pointer is zero]"));
    assert_eq!(shown, number("walks.zero_frame"), "{:?}", capture.stacks);
}

/// The loader calls each audited function from a frame that only rbx locates. The kernel does not follow rbx, so all these
/// samples are walked in user space: more than a process may have sent otherwise.
#[test]
fn samples_below_audited_calls_are_all_walked() {
    let Some(setup) = Setup::beside_others() else { return };
    let out = &setup.out;
    let build = |output, source, flags: &str, libraries: &str| {
        Build::new(output, Compiler::Gcc, source, flags).with(libraries).run(&sources(), out).unwrap()
    };
    build("libhop.so", "hop.c", "-O2 -fomit-frame-pointer -shared -fPIC", "");
    let audit = build("libaudit.so", "audit.c", "-O2 -shared -fPIC", "");
    let libraries = "-L{out} -lhop -Wl,-rpath,{out}";
    let program = build("audited", "audited.c", "-O2 -fomit-frame-pointer -Wl,-z,lazy", libraries);
    let audit = format!("LD_AUDIT={}", audit.display());
    let arguments = [audit.as_str(), program.to_str().unwrap()];
    let options = ["--profile", "--sample-rate", "999", "--duration", "8s"];
    let subject = Subject::Command(Path::new("/usr/bin/env"), &arguments);
    let finished = Session::start(&setup.agent, &options, subject).unwrap().finish().unwrap();
    let capture = finished.on_cpu().unwrap();
    let number = |key: &str| capture.ledger(key).map_or(0.0, |value| value.parse::<f64>().unwrap());
    assert!(number("samples") > 1000.0 && number("rooted_pct") >= 99.0, "{:?}", capture.comments);
    assert_eq!(number("unsent.process_limit"), 0.0, "{:?}", capture.comments);
    let (all, _) = capture.sums(|stack| stack.has("spin"));
    let (whole, _) =
        capture.sums(|stack| ["main", "work", "hop", "back", "spin"].iter().all(|name| stack.has(name)));
    assert!(whole * 100 >= all * 99, "{whole} of {all}: {:?}", capture.stacks);
}

/// The processes in the BPF map of an agent, as `bpftool` shows them.
fn known_processes(bpftool: &Path, agent: u32) -> Option<Vec<u32>> {
    let json = |arguments: &[&str]| -> Option<serde_json::Value> {
        let output = Command::new(bpftool).arg("-j").args(arguments).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    };
    let held = BpfObjects::held_by(agent).maps;
    let maps = json(&["map", "show"])?;
    let is_ours = |map: &&serde_json::Value| {
        map["name"] == "procs"
            && map["id"].as_u64().is_some_and(|id| held.iter().any(|h| u64::from(*h) == id))
    };
    let id = maps.as_array()?.iter().find(is_ours)?["id"].to_string();
    let entries = json(&["map", "dump", "id", &id])?;
    let key = |entry: &serde_json::Value| {
        let bytes = entry["key"].as_array()?.iter();
        let bytes = bytes.map(|byte| u8::from_str_radix(byte.as_str()?.trim_start_matches("0x"), 16).ok());
        Some(u32::from_ne_bytes(bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()?))
    };
    entries.as_array()?.iter().map(key).collect()
}

#[test]
fn a_process_that_works_on_after_its_end_is_forgotten() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let bpftool = testkit::need!("bpftool");
    let options = ["--profile", "--sample-rate", "4999", "--duration", "1h"];
    let mut session = Session::start(&setup.agent, &options, Subject::Machine).unwrap();
    session.until_attached().unwrap();
    assert!(known_processes(&bpftool, session.pid()).is_some(), "bpftool shows the map");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut ended = Vec::new();
    for _ in 0..3 {
        // The process that closes the file last also releases its pages, after those of its own memory.
        let file = folder.path().join("large");
        let script = format!(
            "head -c 300000000 /dev/zero > {0}; exec sh -c 'exec 3< {0}; rm {0}; exec sleep 0'",
            file.display()
        );
        let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        ended.push(child.id());
        child.wait().unwrap();
    }
    let mut left = Vec::new();
    let is_forgotten = testkit::holds_within(testkit::PATIENCE, || {
        let known = known_processes(&bpftool, session.pid()).unwrap();
        left = ended.iter().filter(|pid| known.contains(pid)).collect();
        left.is_empty()
    });
    assert!(is_forgotten, "{left:?} are still known");
    session.stop().unwrap();
    let capture = session.finish().unwrap().on_cpu().unwrap();
    let (exiting, _) = capture.sums(|s| s.has("[exiting]"));
    assert!(exiting > 0, "no sample shows a process that ends");
}

/// A shell waits in vfork, whose return address is only in a register, for programs that end after a millisecond.
#[test]
fn a_shell_that_starts_programs_has_whole_stacks() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let script = "for i in $(seq 300); do /bin/true; done";
    let shell = Path::new("/bin/sh");
    let options =
        ["--profile", "--sample-rate", "4999", "--offcpu", "--offcpu-states", "blocked,iowait,preempted"];
    let finished = Session::start(&setup.agent, &options, Subject::Command(shell, &["-c", script])).unwrap();
    let finished = finished.finish().unwrap();
    for (capture, floor_pct) in [(finished.off_cpu().unwrap(), 95.0), (finished.on_cpu().unwrap(), 90.0)] {
        let number = |key: &str| capture.ledger(key).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        let (samples, rooted_pct) = (number("samples"), number("rooted_pct"));
        assert!(samples > 100.0 && rooted_pct >= floor_pct, "{:?}", capture.comments);
        assert!(number("walks.unsupported_rule") <= samples / 100.0, "{:?}", capture.comments);
    }
}

/// Kills its process when the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two processes that rename themselves in a loop fill every queue of names, while the target forks between
/// floods of executable mappings.
#[test]
fn children_forked_in_a_flood_of_records_are_named() {
    let Some(setup) = Setup::beside_others() else { return };
    let siege = Scheduling::new(&setup.out).path("siege").unwrap();
    let start = |role: &str| {
        let mut command = Command::new(&siege);
        command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Killed(command.spawn().unwrap());
        // It prints that it is ready.
        child.0.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        child
    };
    let _floods = [start("flood"), start("flood")];
    let mut family = start("family");
    let parent = family.0.id();
    let options = ["--profile", "--sample-rate", "499", "--duration", "1h"];
    let mut session = Session::start(&setup.agent, &options, Subject::Process(parent)).unwrap();
    session.until_attached().unwrap();
    family.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    // It ends with its target, whose end must be noticed too.
    let capture = session.finish().unwrap().on_cpu().unwrap();
    let of_child = |s: &Stack| s.pid != parent;
    let (all, _) = capture.sums(of_child);
    let (named, _) = capture.sums(|s: &Stack| of_child(s) && s.has("main"));
    let lost = ["life_lost", "side_band_lost"].map(|key| capture.ledger(key));
    let mut children: Vec<_> = capture.stacks.iter().filter(|s| of_child(s)).map(|s| s.pid).collect();
    children.sort_unstable();
    children.dedup();
    println!("{named} of {all} samples of {} children are named; {lost:?}", children.len());
    assert_eq!(children.len(), 8, "{:?}", capture.comments);
    assert!(all > 1000 && named * 100 >= all * 99, "{named} of {all}: {:?}", capture.comments);
}

/// While perf-agent does not read the ring, stacks fill it, but not the part for process life.
#[test]
fn a_flood_of_stacks_leaves_room_for_process_life() {
    let Some(setup) = Setup::beside_others() else { return };
    let mayflies = Scheduling::new(&setup.out).path("mayflies").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [begin, done] = ["begin", "done"].map(|name| folder.path().join(name));
    // The shell waits and marks the end without starting a process.
    let script = format!(
        "while ! [ -e '{}' ]; do :; done; '{}' 3000 > /dev/null & sleep 2; for i in $(seq 40); do /bin/true; done; : > '{}'; wait",
        begin.display(),
        mayflies.display(),
        done.display()
    );
    let options = ["--offcpu", "--per-thread", "--ring-size", "256K"];
    let shell = Path::new("/bin/sh");
    let mut session =
        Session::start(&setup.agent, &options, Subject::Command(shell, &["-c", &script])).unwrap();
    session.until_attached().unwrap();
    let agent = Pid::from_raw(i32::try_from(session.pid()).unwrap()).unwrap();
    // All of the flood and of the processes come while perf-agent is stopped.
    kill_process(agent, Signal::STOP).unwrap();
    fs::write(&begin, "").unwrap();
    testkit::until("all processes have ended", || done.exists());
    kill_process(agent, Signal::CONT).unwrap();
    let capture = session.finish().unwrap().off_cpu().unwrap();
    assert!(capture.ledger("lost.ring_full").is_some(), "there was no flood: {:?}", capture.comments);
    assert_eq!(capture.ledger("life_lost"), None, "{:?}", capture.comments);
    // The shell, the mayflies, sleep, seq and the others.
    assert_eq!(capture.ledger("processes"), Some("44"), "{:?}", capture.comments);
}

/// A process renames itself faster than names are sent: its last name is shown, and the others are counted.
#[test]
fn the_last_of_many_names_is_shown() {
    let Some(setup) = Setup::beside_others() else { return };
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); printf name-$i > /proc/$$/comm; done; \
                  printf last-name > /proc/$$/comm; i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done";
    let subject = Subject::Command(Path::new("/bin/sh"), &["-c", script]);
    let options = ["--profile", "--sample-rate", "999"];
    let capture =
        Session::start(&setup.agent, &options, subject).unwrap().finish().unwrap().on_cpu().unwrap();
    let samples = |is_it: &dyn Fn(&str) -> bool| capture.sums(|s: &Stack| is_it(&s.comm)).0;
    let (all, last) = (samples(&|_| true), samples(&|comm| comm == "last-name"));
    assert!(last > 300, "{last} of {all}: {:?}", capture.comments);
    let number = |key: &str| capture.ledger(key).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let mut comms: Vec<_> =
        capture.stacks.iter().map(|s| &s.comm).filter(|comm| comm.contains("name")).collect();
    comms.sort_unstable();
    comms.dedup();
    // A name that was sent and has no sample is in neither. A name that was not sent, and that perf-agent has read when it first looked at
    // the process, is in both. Both are few.
    let (skipped, shown) = (number("renames_skipped"), comms.len() as u64);
    assert!((19_000..=20_005).contains(&(skipped + shown)), "{skipped} + {shown}: {:?}", capture.comments);
    assert_eq!(number("life_lost"), 0, "{:?}", capture.comments);
    assert!(shown < 200, "{comms:?}");
}
