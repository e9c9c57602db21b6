//! `--rotate`: the files of the intervals, and the summary of all of them at the end.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use testkit::Process;

use crate::capture::{assert_status, files, privileged, signal, start_in, wait_for_sampler};
use crate::perf_data::folded_ns;
use crate::{run_in, stderr};

/// ns of a sample at 499 Hz.
const PERIOD_NS: u64 = 1_000_000_000 / 499;

/// As the names of files have it.
fn now() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ").to_string()
}

/// The times in the names of the files, each `x-TIME.folded`.
fn times(folder: &Path) -> Vec<String> {
    let time = |name: String| {
        name.strip_prefix("x-").and_then(|name| name.strip_suffix(".folded")).map(str::to_owned)
    };
    files(folder).into_iter().map(|name| time(name.clone()).unwrap_or_else(|| panic!("{name}"))).collect()
}

#[test]
fn no_stub_is_left_at_the_end_of_the_duration_and_all_intervals_are_summed_up() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Process::computing();
    let pid = target.pid().to_string();
    let words = ["--profile", "--pid", &pid, "--sample-rate", "499", "--folded-output", "x.folded"];
    let before = now();
    let rotated = ["--duration", "4500ms", "--rotate", "2s"];
    let output = run_in(folder.path(), &[&words[..], &rotated].concat());
    assert_status(&output, 0);
    let text = stderr(&output);
    assert!(!text.contains("warning: no samples"), "{text}");
    let times = times(folder.path());
    assert_eq!(times.len(), 2, "a third interval would be shorter than half of the others: {times:?}");
    assert!(times.iter().all(|time| *time >= before && *time <= now()), "{times:?} of {before} and later");
    let sum: u64 = files(folder.path()).iter().map(|name| folded_ns(&folder.path().join(name))).sum();
    let facts = text.lines().find(|line| line.starts_with("on-CPU: pid ") && line.contains(" samples, "));
    let facts = facts.unwrap_or_else(|| panic!("{text}"));
    assert!(facts.contains(&format!(" {} samples, ", sum / PERIOD_NS)), "{sum}: {facts}");
    let seconds: f64 = facts.split(", ").nth(1).unwrap().trim_end_matches(" s").parse().unwrap();
    assert!(seconds >= 4.4, "{facts}");
}

#[test]
fn the_rest_after_a_signal_is_a_file_of_its_own() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Process::computing();
    let pid = target.pid().to_string();
    let words = ["--profile", "--pid", &pid, "--folded-output", "x.folded", "--rotate", "300ms"];
    let child = start_in(folder.path(), &words);
    wait_for_sampler(&child);
    testkit::until("two intervals", || files(folder.path()).len() >= 2);
    let before = times(folder.path());
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 0);
    let after = times(folder.path());
    assert!(after.len() > before.len() && after[..before.len()] == before[..], "{before:?} {after:?}");
}

#[test]
fn diff_leaves_out_profiles_without_samples() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("full.folded"), "main;f 5000\nmain;g 5000\n").unwrap();
    fs::write(at("idle.folded"), "").unwrap();
    let words = ["diff", "--base", "full.folded", "--base", "idle.folded", "full.folded"];
    let output = run_in(folder.path(), &words);
    assert_status(&output, 0);
    let text = stderr(&output);
    assert!(text.contains("warning: idle.folded has no samples: it is left out"), "{text}");
    let output = run_in(folder.path(), &["diff", "idle.folded", "full.folded"]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("idle.folded has no samples"), "{}", stderr(&output));
}
