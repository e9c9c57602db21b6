//! Whole captures: exit statuses, files, streams, signals. Without privileges the tests are skipped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::Process;

use crate::{run, run_in, stderr, stdout};

/// Whether captures are possible here; if not, prints the reason of the skip.
pub fn privileged() -> bool {
    let checks: Vec<serde_json::Value> = serde_json::from_str(&stdout(&run(&["doctor", "--json"]))).unwrap();
    let failed = checks.into_iter().find(|check| check["status"] == "fail");
    if let Some(check) = &failed {
        testkit::skipped(format_args!("{}: {}", check["check"], check["value"]));
    }
    failed.is_none()
}

pub fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn start_in(directory: &Path, words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_perf-agent"))
        .args(words)
        .current_dir(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until main handles signals.
fn wait_for_handlers(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    let (int, term) = (1 << 1, 1 << 14);
    let handles = |line: &str| {
        let caught = line.strip_prefix("SigCgt:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & (int | term) == int | term)
    };
    testkit::until("signals are handled", || std::fs::read_to_string(&path).unwrap().lines().any(handles));
}

/// Waits until a capture takes samples. A target that ends earlier may be refused as missing.
fn wait_for_sampler(child: &Child) {
    testkit::until("the sampler is there", || testkit::has_sampler(child.id()));
}

pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

#[track_caller]
pub fn assert_status(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}", stderr(output));
}

#[track_caller]
pub fn assert_gzip(path: PathBuf) {
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() > 30, "{}", path.display());
}

fn ledger(output: &Output, key: &str) -> Option<String> {
    let text = stderr(output);
    let mut pairs = text.lines().filter_map(|line| line.trim().split_once("  "));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value.trim().to_owned())
}

#[test]
fn a_process_gives_an_automatically_named_profile_and_a_ledger() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let words = ["--profile", "--pid", &burner.pid().to_string(), "--duration", "1s", "--verbose"];
    let first = run_in(directory.path(), &words);
    assert_status(&first, 0);
    assert!(first.stdout.is_empty());
    let text = stderr(&first);
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.contains(&burner.pid().to_string()) && line.contains("99 Hz")),
        "{text}"
    );
    assert!(!text.contains('\r'), "a progress line without a terminal: {text:?}");
    let samples: u64 = ledger(&first, "samples").unwrap().parse().unwrap();
    assert!(samples > 0, "{text}");
    assert_eq!(ledger(&first, "rate_hz").as_deref(), Some("99"));
    let names = files(directory.path());
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].ends_with("-on-cpu.pb.gz") && text.contains(&names[0]), "{names:?} {text}");
    assert_gzip(directory.path().join(&names[0]));
}

#[test]
fn short_options_and_bare_seconds() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let words = ["--profile", "-p", &pid, "-F", "199", "-g", "-d", "0.5", "-o", "flame.svg"];
    let output = run_in(directory.path(), &words);
    assert_status(&output, 0);
    assert!(stderr(&output).contains("199 Hz, for 500ms"), "{}", stderr(&output));
    assert_eq!(files(directory.path()), ["flame.svg"]);
    assert!(std::fs::read_to_string(directory.path().join("flame.svg")).unwrap().contains("<svg"));
}

#[test]
fn targets_are_told_by_name_with_their_children() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let name = format!("pa{}", std::process::id());
    let program = directory.path().join(&name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let parent = format!("{} 300 & exec {} 301", program.display(), program.display());
    let parent = Process::start(Command::new("sh").args(["-c", &parent])).unwrap();
    let other = Process::start(Command::new(&program).arg("302")).unwrap();
    let comm = |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let children = format!("/proc/{0}/task/{0}/children", parent.pid());
    let child = || std::fs::read_to_string(&children).unwrap().trim().to_owned();
    testkit::until("all have the name", || {
        [parent.pid().to_string(), other.pid().to_string(), child()]
            .iter()
            .all(|pid| comm(pid).trim() == name)
    });
    let both = format!("{} {}\n", parent.pid(), other.pid());
    let by_number = stderr(&run(&["--pmu", "--pid", &both, "-d", "10ms"]));
    let by_name = stderr(&run(&["--pmu", "--comm", &name, "-d", "10ms"]));
    let alone = stderr(&run(&["--pmu", "-p", &parent.pid().to_string(), "--no-children", "-d", "10ms"]));
    let missing = run(&["--pmu", "--comm", "no-such-name"]);
    assert!(Command::new("kill").arg(child()).status().unwrap().success());
    let (parent, other) = (parent.pid(), other.pid());
    assert!(
        by_number.contains(&format!("pid {parent} ({name}) and 1 child, pid {other} ({name}), ")),
        "{by_number}"
    );
    for pid in [parent, other] {
        assert!(by_name.contains(&format!("pid {pid} ({name})")), "{by_name}");
    }
    assert!(alone.contains(&format!("pid {parent} ({name}), ")), "{alone}");
    assert_status(&missing, 1);
    assert!(stderr(&missing).starts_with("error: no process is named `no-such-name`\nhint: "), "{missing:?}");
}

#[test]
fn every_output_is_written_and_standard_output_has_only_the_one_for_it() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let output = run_in(
        directory.path(),
        &[
            "--profile",
            "--pid",
            &burner.pid().to_string(),
            "--duration",
            "300ms",
            "--profile-output",
            "-",
            "--folded-output",
            "f",
            "--flamegraph-output",
            "f.svg",
        ],
    );
    assert_status(&output, 0);
    assert!(output.stdout.starts_with(&[0x1f, 0x8b]));
    assert!(!stderr(&output).contains("standard output"), "{}", stderr(&output));
    assert_eq!(files(directory.path()), ["f", "f.svg"]);
    assert!(std::fs::read_to_string(directory.path().join("f.svg")).unwrap().contains("<svg"));
}

#[test]
fn the_ledger_and_the_report_agree_on_the_number_of_processes() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let child = start_in(
        directory.path(),
        &[
            "--profile",
            "--pmu",
            "-a",
            "--sample-rate",
            "999",
            "--duration",
            "1s",
            "--pmu-output",
            "report",
            "-v",
        ],
    );
    // Most of them end before /proc can be read.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        assert!(Command::new("true").status().unwrap().success());
    }
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 0);
    let report = std::fs::read_to_string(directory.path().join("report")).unwrap();
    let processes = ledger(&output, "processes").unwrap();
    assert!(report.contains(&format!("Processes profiled: {processes}\n")), "{processes}: {report}");
    let number = |key: &str| ledger(&output, key).unwrap().parse::<u64>().unwrap();
    assert!(number("unreadable_processes") <= number("processes"), "{}", stderr(&output));
    let warned = stderr(&output).contains("of the targets");
    assert!(warned || number("unreadable_processes") == 0, "{}", stderr(&output));
}

#[test]
fn the_whole_system() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = run_in(directory.path(), &["--profile", "-a", "--duration", "300ms"]);
    assert_status(&output, 0);
    assert!(stderr(&output).contains("system-wide"));
    let names = files(directory.path());
    assert!(names.len() == 1 && names[0].starts_with(|c: char| c.is_ascii_digit()), "{names:?}");
}

#[test]
fn metrics_alone_have_a_ledger_with_the_agents_cpu_time() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    let output = run(&["--pmu", "--pid", &burner.pid().to_string(), "--duration", "10ms", "--verbose"]);
    assert_status(&output, 0);
    assert_eq!(ledger(&output, "mode").as_deref(), Some("pmu"), "{}", stderr(&output));
    assert_eq!(ledger(&output, "processes").as_deref(), Some("1"));
    assert_eq!(ledger(&output, "samples"), None);
    let number = |key: &str| ledger(&output, key).unwrap().parse::<f64>().unwrap();
    assert!(number("agent_rss_peak_kib") > 0.0 && number("bpf_memory_kib") > 0.0, "{}", stderr(&output));
    // The upper bound is all CPUs for that time; the capture is a small part of it.
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    assert!(number("agent_cpu_pct") <= 100.0 * cpus, "{}", stderr(&output));
    let seconds = number("agent_cpu_ms") / (10.0 * number("agent_cpu_pct"));
    assert!(seconds > 0.01, "{}", stderr(&output));
}

#[test]
fn a_command_is_followed_to_its_end() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo out; exit 3";
    let output = run_in(directory.path(), &["--profile", "--sample-rate", "499", "--", "sh", "-c", script]);
    assert_status(&output, 3);
    assert_eq!(stdout(&output), "out\n");
    assert!(stderr(&output).contains("command exited with status 3"), "{}", stderr(&output));
    assert!(files(directory.path())[0].starts_with("sh-"));
    let output = run_in(directory.path(), &["--profile", "--", "sh", "-c", "kill -9 $$"]);
    assert_status(&output, 137);
    assert!(stderr(&output).contains("killed by signal SIGKILL"), "{}", stderr(&output));
}

#[test]
fn an_empty_profile_of_a_command_has_a_warning_with_the_reason() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The clock of a CPU fires at any time, so a sample of the command is possible.
    let reason = |rate: &str, command: &[&str]| {
        let words = [&["--profile", "--sample-rate", rate, "--"], command].concat();
        let run = || {
            let output = run_in(directory.path(), &words);
            assert_status(&output, 0);
            stderr(&output)
        };
        let mut texts = std::iter::repeat_with(run).take(3);
        texts.find(|text| text.contains("no samples")).expect("each of three runs has samples")
    };
    let text = reason("1", &["true"]);
    assert!(text.contains("no samples: the command ended before the first sample"), "{text}");
    assert!(!text.contains("-- CMD"), "{text}");
    let text = reason("5", &["sleep", "2.5"]);
    assert!(text.contains("they slept or waited"), "{text}");
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter -x\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    let output = run_in(directory.path(), &["--profile", "--", "./script"]);
    assert_status(&output, 127);
    let text = stderr(&output);
    assert!(text.contains("error: run ./script: No such file or directory"), "{text}");
    let hint = text.lines().find(|line| line.starts_with("hint: "));
    assert!(hint.is_some_and(|hint| hint.contains("`/no/such/interpreter`")), "{text}");
    assert!(!files(directory.path()).iter().any(|name| name.ends_with(".pb.gz")), "{text}");
}

#[test]
fn an_output_that_fails_hides_the_status_of_the_command() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "rm -r \"$0\"; exit 3";
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let path = gone.join("x.pb.gz");
    let words = ["--profile", "-o", path.to_str().unwrap(), "--", "sh", "-c", script, gone.to_str().unwrap()];
    let output = run_in(directory.path(), &words);
    assert_status(&output, 125);
    assert!(stderr(&output).contains("command exited with status 3"), "{}", stderr(&output));
}

#[test]
fn a_binary_output_is_not_for_a_terminal() {
    let on_terminal = |words: &str| {
        let line = format!("NO_COLOR=1 {} {words}", env!("CARGO_BIN_EXE_perf-agent"));
        Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output()
    };
    let Ok(output) = on_terminal("--profile --pid 1 --profile-output -") else {
        testkit::skip!("no script(1)");
    };
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("standard output is a terminal") && text.contains("hint: redirect"), "{text}");
    let text = stdout(&on_terminal("--profile --pid 0 --folded-output -").unwrap());
    assert!(!text.contains("is a terminal"), "{text}");
}

#[test]
fn a_command_outlives_a_capture_that_ends_earlier() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The rate is so low that the start of the command gives no sample. The command closes its pipes, which are read to
    // their end.
    let sleeper = "exec sleep 300 > /dev/null 2>&1";
    let capture = ["--profile", "--duration", "200ms", "--sample-rate", "1", "--", "sh", "-c", sleeper];
    let output = run_in(directory.path(), &capture);
    assert_status(&output, 0);
    let text = stderr(&output);
    let pid = text.split("still running (pid ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    assert!(Path::new("/proc").join(pid).exists(), "{text}");
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    assert!(text.contains("warning: no samples"), "{text}");
}

#[test]
fn the_capture_ends_with_its_targets() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let begun = Instant::now();
    let child =
        start_in(directory.path(), &["--profile", "--pid", &burner.pid().to_string(), "--duration", "600s"]);
    wait_for_sampler(&child);
    drop(burner);
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 0);
    assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
    let text = stderr(&output);
    assert!(text.contains("ended early: all targets have exited"), "{text}");
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn the_first_signal_ends_the_capture_and_writes_everything() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    for (name, delay_ms) in [("INT", 600), ("TERM", 600), ("HUP", 600), ("TERM", 30), ("INT", 100)] {
        let directory = tempfile::tempdir().unwrap();
        let child = start_in(
            directory.path(),
            &["--profile", "--pid", &burner.pid().to_string(), "--duration", "60s"],
        );
        std::thread::sleep(Duration::from_millis(delay_ms));
        wait_for_handlers(&child);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_status(&output, 0);
        let names = files(directory.path());
        assert_eq!(names.len(), 1, "{name} after {delay_ms} ms: {names:?}");
        assert_gzip(directory.path().join(&names[0]));
    }
}

#[test]
fn no_unfinished_file_is_left_after_any_number_of_signals() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    for gap_ms in [0, 2, 10] {
        let directory = tempfile::tempdir().unwrap();
        let child = start_in(
            directory.path(),
            &["--profile", "--pid", &burner.pid().to_string(), "--duration", "60s"],
        );
        wait_for_sampler(&child);
        for _ in 0..3 {
            // The process may have ended; then there is nothing to signal.
            let _ = Command::new("kill")
                .args(["-s", "TERM", &child.id().to_string()])
                .stderr(Stdio::null())
                .status();
            std::thread::sleep(Duration::from_millis(gap_ms));
        }
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        assert!(files(directory.path()).iter().all(|name| name.ends_with(".pb.gz")));
    }
    let directory = tempfile::tempdir().unwrap();
    let child =
        start_in(directory.path(), &["--profile", "--pid", &burner.pid().to_string(), "--duration", "60s"]);
    wait_for_sampler(&child);
    signal(&child, "KILL");
    child.wait_with_output().unwrap();
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn an_output_that_fails_does_not_stop_the_others() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let words = [
        "--profile",
        "--pid",
        &burner.pid().to_string(),
        "--duration",
        "200ms",
        "--profile-output",
        "/dev/full",
        "--folded-output",
        "f",
    ];
    let output = run_in(directory.path(), &words);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("error: write /dev/full: No space left"), "{}", stderr(&output));
    assert_eq!(files(directory.path()), ["f"]);
}

#[test]
fn a_missing_target_is_an_error() {
    if !privileged() {
        return;
    }
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id().to_string();
    let output = run(&["--profile", "--pid", &pid]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains(&format!("error: target pid {pid}")), "{}", stderr(&output));
}

#[test]
fn without_privileges_the_hint_is_the_setcap_line() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("perf-agent");
    std::fs::copy(env!("CARGO_BIN_EXE_perf-agent"), &binary).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"])
        .arg(&binary)
        .args(["--profile", "--pid", "1", "--profile-output", "/dev/null"])
        .output();
    let Ok(output) = output else {
        testkit::skip!("setpriv is not installed");
    };
    if stderr(&output).starts_with("setpriv:") {
        testkit::skip!("this user cannot change to another: {}", stderr(&output));
    }
    assert_status(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("cap_bpf") && text.contains("cap_perfmon"), "{text}");
    assert!(
        text.contains("setcap cap_bpf,cap_perfmon,") && text.contains(binary.to_str().unwrap()),
        "{text}"
    );
}

#[test]
fn a_thread_id_selects_its_process() {
    if !privileged() {
        return;
    }
    let (tell, tid) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("some-thread".to_owned()).spawn(move || {
        // PID/task/TID
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(own.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
        let _ = ended.recv();
    });
    let (thread, tid) = (thread.unwrap(), tid.recv().unwrap());
    let process = std::process::id();
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output = run_in(directory.path(), &["--profile", "--pid", &tid, "--duration", "200ms"]);
    drop(end);
    thread.join().unwrap();
    assert_status(&output, 0);
    let text = stderr(&output);
    assert!(text.starts_with(&format!("on-CPU profile: pid {process} ({})", name.trim_end())), "{text}");
    assert!(text.contains(&format!("{tid} is a thread of process {process}")), "{text}");
    assert!(!files(directory.path())[0].contains("thread"), "{:?}", files(directory.path()));
}

#[test]
fn too_few_descriptors_are_named_as_the_cause() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 70; exec \"$0\" --profile -a --duration 100ms"])
        .arg(env!("CARGO_BIN_EXE_perf-agent"))
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_status(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("Too many open files") && text.contains("ulimit -n"), "{text}");
}

#[test]
fn a_target_that_has_ended_is_named_so() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut zombie = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", zombie.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let words = ["--profile", "--pid", &zombie.id().to_string(), "--duration", "10s"];
    let output = run_in(directory.path(), &words);
    zombie.wait().unwrap();
    let text = stderr(&output);
    assert!(text.contains(&format!("process {} has ended", zombie.id())), "{text}");
    assert!(!text.contains("hint: raise --sample-rate"), "{text}");
}
