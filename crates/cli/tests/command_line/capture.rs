//! Whole captures: exit statuses, files, streams, signals. Without privileges the tests are skipped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::Process;

use crate::{run, run_in, stderr, stdout};

/// Whether captures are possible here; if not, prints the reason of the skip.
pub fn privileged() -> bool {
    testkit::may_profile(Path::new(env!("CARGO_BIN_EXE_perf-agent"))).map_err(testkit::skipped).is_ok()
}

pub fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn start_in(directory: &Path, words: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perf-agent"));
    command.args(words).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::start(&mut command).unwrap()
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
pub fn wait_for_sampler(child: &Child) {
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

pub fn ledger(output: &Output, key: &str) -> Option<String> {
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
    let svg = std::fs::read_to_string(directory.path().join("flame.svg")).unwrap();
    assert!(svg.contains("<svg"), "no image: {svg}");
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
    let svg = std::fs::read_to_string(directory.path().join("f.svg")).unwrap();
    assert!(svg.contains("<svg"), "no image: {svg}");
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
fn a_binary_output_is_not_for_a_terminal() {
    let script = testkit::need!("script");
    let on_terminal = |words: &str| {
        let line = format!("NO_COLOR=1 {} {words}", env!("CARGO_BIN_EXE_perf-agent"));
        Command::new(&script).args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap()
    };
    let output = on_terminal("--profile --pid 1 --profile-output -");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("standard output is a terminal") && text.contains("hint: redirect"), "{text}");
    let text = stdout(&on_terminal("--profile --pid 0 --folded-output -"));
    assert!(!text.contains("is a terminal"), "{text}");
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
fn without_privileges_the_hint_is_the_setcap_line() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("perf-agent");
    std::fs::copy(env!("CARGO_BIN_EXE_perf-agent"), &binary).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let output = Command::new(testkit::need!("setpriv"))
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"])
        .arg(&binary)
        .args(["--profile", "--pid", "1", "--profile-output", "/dev/null"])
        .output()
        .unwrap();
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
fn a_fifo_without_a_reader_is_given_up_and_the_first_signal_ends_the_wait() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let words = ["--profile", "--pid", &pid, "--duration", "100ms", "--folded-output", "f", "-o", "fifo"];
    let output = run_in(directory.path(), &words);
    assert_status(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("error: write fifo: nobody has opened this FIFO for reading in 5 s"), "{text}");
    assert_eq!(files(directory.path()), ["f", "fifo"], "the other output is written");
    let child = start_in(directory.path(), &words);
    wait_for_sampler(&child);
    testkit::until("the capture has ended", || !testkit::has_sampler(child.id()));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 1);
    assert!(stderr(&output).contains("error: write fifo: nobody reads this FIFO"), "{}", stderr(&output));
}
