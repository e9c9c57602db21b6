//! Help and version.

use crate::{run, stdout};

/// Widest line of the help, unless a single word is longer.
const WIDTH: usize = 100;

#[test]
fn help_goes_to_standard_output_and_names_everything() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    let text = stdout(&output);
    for word in [
        "--profile",
        "--offcpu",
        "--offcpu-states",
        "--min-block",
        "--wakers",
        "--offcpu-output",
        "--wall-output",
        "--pmu",
        "--pmu-events",
        "--pmu-format",
        "--pmu-output",
        "--per-pid",
        "--metrics-listen",
        "--pid",
        "-a, --all",
        "-- CMD",
        "--duration",
        "--sample-rate",
        "--unwind",
        "--kernel-stacks",
        "--per-thread",
        "--profile-output",
        "--folded-output",
        "--flamegraph-output",
        "--tag",
        "--max-stacks",
        "--ring-size",
        "doctor",
        "--version",
        "Exit status",
        "Signals",
        "cap_bpf,cap_perfmon",
        "PERF_AGENT_LOG",
        "XDG_CACHE_HOME",
        "Examples",
    ] {
        assert!(text.contains(word), "help lacks {word}");
    }
    for word in ["--self-check", "--inject-python"] {
        assert!(!text.contains(word), "help names {word}");
    }
}

#[test]
fn help_is_wrapped() {
    for form in ["--help", "-h"] {
        for line in stdout(&run(&[form])).lines() {
            let one_word = line.trim().split(' ').count() == 1;
            assert!(one_word || line.chars().count() <= WIDTH, "{line}");
        }
    }
    assert!(stdout(&run(&["doctor", "--help"])).contains("--json"));
}

#[test]
fn version() {
    for form in ["--version", "-V"] {
        let output = run(&[form]);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(stdout(&output), concat!("perf-agent ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

#[test]
fn an_invalid_log_filter_is_a_warning() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_perf-agent"))
        .args(["--profile", "--pid", "0"])
        .env("PERF_AGENT_LOG", "perfagent=loud")
        .output()
        .unwrap();
    let text = crate::stderr(&output);
    assert!(text.contains("warning: PERF_AGENT_LOG `perfagent=loud`"), "{text}");
}
