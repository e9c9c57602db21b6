//! Captures under limits of resources (setrlimit(2)).

use std::path::Path;
use std::process::{Command, Output};

use testkit::Process;

use crate::capture::{assert_status, files, privileged};
use crate::{stderr, stdout};

/// Runs the program by a shell that first executes `before`.
fn run_after(before: &str, directory: &Path, words: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_perf-agent"))
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn an_output_beyond_the_limit_of_file_sizes_fails_alone() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let words = [
        "--profile",
        "--pid",
        &pid,
        "--duration",
        "300ms",
        "--flamegraph-output",
        "a.html",
        "-o",
        "a.folded",
    ];
    // Blocks of 512 bytes: a page of HTML has more than 4 KiB, the few stacks of this target have less.
    let output = run_after("ulimit -f 8", directory.path(), &words);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("error: write a.html: File too large"), "{}", stderr(&output));
    assert_eq!(files(directory.path()), ["a.folded"]);
}

#[test]
fn a_command_starts_with_the_disposition_of_sigxfsz_that_perf_agent_was_given() {
    const SIGXFSZ: u32 = 25;
    if !privileged() {
        return;
    }
    for (before, ignored) in [("trap - XFSZ", 0), ("trap '' XFSZ", 1)] {
        let directory = tempfile::tempdir().unwrap();
        let words = ["--profile", "-o", "/dev/null", "--", "grep", "SigIgn", "/proc/self/status"];
        let output = run_after(before, directory.path(), &words);
        assert_status(&output, 0);
        let text = stdout(&output);
        let mask = u64::from_str_radix(text.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        assert_eq!(mask >> (SIGXFSZ - 1) & 1, ignored, "{before}: {text}");
    }
}
