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
        "--locks",
        "--locks-output",
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
        "--comm",
        "--no-children",
        "--tid",
        "--cgroup",
        "-- CMD",
        "--duration",
        "--sample-rate",
        "--unwind",
        "--python",
        "--inject-python",
        "--kernel-stacks",
        "--per-thread",
        "--profile-output",
        "--wall-output",
        "--folded-output",
        "--flamegraph-output",
        "--html-output",
        "--merge",
        "--inverted",
        "--recording-output",
        "--rotate",
        "-v, --verbose",
        "-q, --quiet",
        "--color",
        "NO_COLOR",
        "--debuginfod-url",
        "--symbol-cache-dir",
        "--symbol-cache-max",
        "--symbol-fetch-timeout",
        "--symbol-fail-closed",
        "--java-perf-map",
        "--dotnet-perf-map",
        "DEBUGINFOD_URLS",
        "--tag",
        "--max-stacks",
        "--max-memory",
        "--ring-size",
        "--table-memory",
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
    assert!(!text.contains("--self-check"));
}

/// The words about an option: its own line and the indented ones below it. Columns differ between commands.
fn about(help: &str, option: &str) -> String {
    let begin = format!("      {option} ");
    let mut lines = help.lines().skip_while(|line| !line.starts_with(&begin));
    let first = lines.next().unwrap_or_else(|| panic!("help lacks {option}"));
    let more = lines.take_while(|line| line.starts_with("          "));
    std::iter::once(first).chain(more).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_capture_and_render_explain_the_same_outputs_alike() {
    let [capture, render] = [&["--help"][..], &["render", "--help"]].map(|words| stdout(&run(words)));
    for output in ["profile", "offcpu", "wall", "folded", "flamegraph", "html", "recording"] {
        let option = format!("--{output}-output");
        let text = about(&capture, &option);
        assert!(text.len() > option.len() + 20, "{text}");
        assert_eq!(text, about(&render, &option));
    }
    for word in ["<FILE>", "-o, --output", "--format", "--mode", "--resymbolize"] {
        assert!(render.contains(word), "help of render lacks {word}");
    }
}

#[test]
fn help_is_wrapped() {
    for form in [&["--help"][..], &["-h"], &["render", "--help"]] {
        for line in stdout(&run(form)).lines() {
            let one_word = line.trim().split(' ').count() == 1;
            assert!(one_word || line.chars().count() <= WIDTH, "{line}");
        }
    }
    assert!(stdout(&run(&["doctor", "--help"])).contains("--json"));
}

#[test]
fn help_and_version_are_also_words() {
    let full = stdout(&run(&["--help"]));
    let output = run(&["help"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), full));
    assert_eq!(stdout(&run(&["help", "render"])), stdout(&run(&["render", "--help"])));
    for option in
        ["-p, --pid", "-F, --sample-rate", "-d, --duration", "-g, --kernel-stacks", "-o <PATH>", "-a, --all"]
    {
        assert!(stdout(&output).contains(option), "help lacks {option}");
    }
}

#[test]
fn version() {
    for form in ["--version", "-V", "version"] {
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
