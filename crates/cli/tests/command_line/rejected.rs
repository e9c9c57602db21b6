//! Rejected command lines: status 2, one line `error: …`, one line `hint: …`; nothing is attached or created.

use std::os::unix::fs::PermissionsExt;

use crate::{run, run_in, stderr};

/// A valid target and mode. Each test adds an error.
const GOOD: [&str; 3] = ["--profile", "--pid", "1"];

#[track_caller]
fn check(output: &std::process::Output, substrings: &[&str]) {
    check_status(output, 2, substrings);
}

#[track_caller]
fn check_status(output: &std::process::Output, status: i32, substrings: &[&str]) {
    let text = stderr(output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert!(output.stdout.is_empty());
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{text}");
    for substring in substrings {
        assert!(lines[0].contains(substring), "{} lacks {substring}", lines[0]);
    }
}

#[track_caller]
fn rejected(words: &[&str], substrings: &[&str]) -> String {
    let output = run(words);
    let has_command = words.iter().position(|word| *word == "--").is_some_and(|at| at + 1 < words.len());
    check_status(&output, if has_command { 125 } else { 2 }, substrings);
    stderr(&output)
}

#[track_caller]
fn good_with(words: &[&str], substrings: &[&str]) -> String {
    rejected(&[&GOOD[..], words].concat(), substrings)
}

#[test]
fn targets() {
    rejected(&["--profile", "--pid", "1", "-a"], &["mutually exclusive", "--pid", "-a"]);
    rejected(&["--profile", "--pid", "1", "--", "true"], &["mutually exclusive", "--pid", "CMD"]);
    rejected(&["--profile", "-a", "--", "true"], &["mutually exclusive"]);
    rejected(&["--profile", "--all", "--pid=1", "--", "true"], &["mutually exclusive"]);
    rejected(&["--profile"], &["required"]);
    rejected(&[], &["required"]);
    rejected(&["--profile", "--all=false"], &["required"]);
    rejected(&["--profile", "--"], &["required"]);
}

#[test]
fn modes() {
    rejected(&["--pid", "1"], &["required", "--profile"]);
    rejected(&["--pid", "1", "--profile=false"], &["required", "--profile"]);
    let either = "--profile or --offcpu or --heap or --locks";
    for (output, modes) in
        [("--profile-output", "--profile"), ("--folded-output", either), ("--flamegraph-output", either)]
    {
        let text = rejected(&["--pid", "1", output, "x"], &["required", "--profile"]);
        assert!(text.contains(&format!("{output} requires {modes}: add it")), "{text}");
        let text = rejected(&["--pid", "1", "--pmu", output, "x"], &[&format!("{output} requires {modes}")]);
        assert!(text.contains(&format!("hint: add {modes}, or drop {output}")), "{text}");
    }
}

#[test]
fn locks() {
    rejected(&["--pid", "1", "--locks-output", "x"], &["required", "--locks"]);
    rejected(&["--pid", "1", "--pmu", "--locks-output", "x"], &["--locks-output requires --locks"]);
    let short = ["--offcpu", "--locks", "--min-block", "1ms", "--pid", "1"];
    let text = rejected(&short, &["--locks and --min-block are mutually exclusive"]);
    assert!(text.contains("hint: drop --min-block"), "{text}");
    rejected(&["--locks", "--rotate", "1s", "--pid", "1"], &["--locks-output must be a file with --rotate"]);
    rejected(&["--locks", "--offcpu", "-o", "x", "--pid", "1"], &["one mode, and there are 2"]);
    rejected(&["--locks", "--wakers", "--pid", "1"], &["--wakers requires --offcpu"]);
}

#[test]
fn unwind_modes() {
    for mode in ["lbr", "", "FP", "fp,dwarf"] {
        good_with(&["--unwind", mode], &["fp", "dwarf", "auto", mode]);
    }
}

#[test]
fn python_frames() {
    for word in ["on", "", "Auto", "auto,all"] {
        good_with(&["--python", word], &["auto", "off", "all", word]);
    }
}

#[test]
fn sample_rates() {
    let max: u64 = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .map_or(100_000, |text| text.trim().parse().unwrap());
    for rate in ["0", "-1", "99.5", "fast", "", "18446744073709551616", &(max + 1).to_string()] {
        good_with(&["--sample-rate", rate], &[&format!("1..={max}"), rate]);
    }
}

#[test]
fn events() {
    for event in ["", "bogus", "page-faults period=0", "page-faults 2", "tracepoint:"] {
        let text = good_with(&["--event", event], &["--event", event]);
        assert!(text.contains("--event page-faults"), "{text}");
    }
    good_with(&["--event", "page-faults", "--event", "faults"], &["--event page-faults is given twice"]);
    let seven = ["cs", "faults", "migrations", "minor-faults", "major-faults", "cgroup-switches", "a:b"];
    let seven: Vec<&str> = seven.iter().flat_map(|event| ["--event", event]).collect();
    good_with(&seven, &["--event is given 7 times, and 6 events can be sampled at once"]);
    good_with(&["--event", "cs", "-F", "9"], &["--event", "--sample-rate", "mutually exclusive"]);
    rejected(&["--offcpu", "-p", "1", "--event", "cs"], &["--event requires --profile"]);
    let wall = ["--offcpu", "--wall-output", "x", "--event", "cs"];
    good_with(&wall, &["--wall-output", "--event", "mutually exclusive"]);
    rejected(&["live", "-p", "1", "--event", "cs"], &["--event"]);
}

#[test]
fn durations() {
    for length in ["0", "0s", "-5s", "1m30", "ten", "", "5 s", "1.s", "9999999999999h"] {
        let text = good_with(&["--duration", length], &["--duration"]);
        assert!(text.contains("1m30s"), "{text}");
    }
}

#[test]
fn pids_and_tags() {
    for pid in ["0", "4194305", "-1", "1.5", "init", "", "0x1", "99999999999999999999"] {
        rejected(&["--profile", "--pid", pid], &["1..=4194304", &format!("`{pid}`")]);
    }
    good_with(&["--pid", "0"], &["`0`"]);
    good_with(&["--tag", "novalue"], &["novalue"]);
    good_with(&["--tag", "=x"], &["=x"]);
    good_with(&["--tag", "a=1", "--tag", "perf-agent.mode=x"], &["perf-agent.mode=x", "reserved"]);
}

#[test]
fn map_sizes() {
    for stacks in ["0", "-1", "many", "4194305"] {
        good_with(&["--max-stacks", stacks], &[stacks, "1..=4194304"]);
    }
    for ring in ["0", "3M", "1K", "2G", "4MB", ""] {
        good_with(&["--ring-size", ring], &[ring, "power of two"]);
    }
    for memory in ["0", "1023K", "65G", "much", "-1", ""] {
        good_with(&["--max-memory", memory], &[memory, "1M to 64G"]);
    }
    for tables in ["0", "1023K", "512M", "much", ""] {
        good_with(&["--table-memory", tables], &[tables, "from 1M to 256M"]);
    }
}

#[test]
fn outputs() {
    let places = tempfile::tempdir().unwrap();
    let missing = places.path().join("missing/x.pb.gz");
    let missing = missing.to_str().unwrap();
    for option in ["--profile-output", "--folded-output", "--flamegraph-output"] {
        good_with(&[option, missing], &[option, missing, "No such file or directory"]);
        good_with(&[option, "/"], &[option, "Is a directory"]);
        good_with(&[option, ""], &[option, "No such file or directory"]);
        good_with(&[option, "/proc/x"], &[option, "/proc/x", refusal_of_proc()]);
    }
    good_with(&["--profile-output", "-", "--folded-output", "-"], &["--profile-output", "--folded-output"]);
    good_with(&["--profile-output", "x", "--flamegraph-output", "./x"], &["./x", "one file"]);
}

/// How the kernel refuses to make a file in /proc. Root may write to the folder, which makes no files.
fn refusal_of_proc() -> &'static str {
    if rustix::process::geteuid().is_root() { "not permitted" } else { "Permission denied" }
}

#[test]
fn a_closed_standard_output_takes_no_profile() {
    let script = r#""$0" --profile --pid 1 --profile-output - >&-"#;
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_perf-agent")])
        .output()
        .unwrap();
    check(&output, &["standard output", "Bad file descriptor"]);
}

#[test]
fn a_directory_that_is_read_only() {
    let places = tempfile::tempdir().unwrap();
    std::fs::set_permissions(places.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(places.path().join("probe"), "").is_ok() {
        testkit::skip!("this user writes to read-only directories");
    }
    check(&run_in(places.path(), &GOOD), &["Permission denied", "-on-cpu.pb.gz"]);
}

#[test]
fn commands() {
    for (status, command, reason) in [
        (127, "no-such-program-here", "No such file or directory"),
        (127, "/no/such/program", "No such file or directory"),
        (127, "", "No such file or directory"),
        (126, "/etc/passwd", "Permission denied"),
        (126, "/", "Permission denied"),
    ] {
        check_status(&run(&["--profile", "--", command]), status, &[command, reason]);
    }
    check_status(&run(&["--profile", "--nosuch", "--", "true"]), 125, &["--nosuch"]);
}

#[test]
fn unknown_options_get_a_similar_one_as_hint() {
    let text = good_with(&["--sampel-rate", "9"], &["no option --sampel-rate"]);
    assert!(text.contains("--sample-rate"), "{text}");
    let text = good_with(&["--flamegraf-output=x"], &["no option --flamegraf-output"]);
    assert!(text.contains("--flamegraph-output"), "{text}");
    good_with(&["-x"], &["no option -x"]);
    let text = good_with(&["make"], &["make"]);
    assert!(text.contains("-- make"), "{text}");
    let text = good_with(&["--kernel-stacks", "true"], &["true"]);
    assert!(text.contains("--kernel-stacks=true"), "{text}");
}

#[test]
fn words_of_other_tools_lead_to_the_option_here() {
    for (word, option) in [
        ("--frequency=99", "--sample-rate (-F)"),
        ("--pids", "--pid (-p)"),
        ("--output", "-o PATH"),
        ("--call-graph", "--unwind"),
        ("-e", "--event"),
        ("-U", "--kernel-stacks (-g)"),
        ("--subprocesses", "--no-children"),
    ] {
        let text = good_with(&[word], &["this version has no option"]);
        assert!(text.contains(option), "{text}");
    }
    assert!(rejected(&["record", "-a"], &["no subcommand record"]).contains("needs no subcommand"));
    let text = rejected(&["--profile", "-a", "-g", "-F", "99", "--", "sleep", "10"], &["mutually exclusive"]);
    assert!(text.contains("--duration 10"), "{text}");
}

#[test]
fn one_output_is_for_one_mode() {
    let text = rejected(&["--profile", "--offcpu", "-p", "1", "-o", "x"], &["-o", "one mode"]);
    assert!(text.contains("--profile-output, --offcpu-output"), "{text}");
    rejected(&["-p", "1", "-o", "x"], &["required", "--profile"]);
    good_with(&["-o", "x", "--profile-output", "y"], &["--profile-output was given twice"]);
    good_with(&["-o", "x.ndjson"], &["-o x.ndjson", "format"]);
    good_with(&["-o", "/"], &["--profile-output /", "Is a directory"]);
}

#[test]
fn perf_data_goes_beside_an_on_cpu_profile_into_a_file() {
    good_with(&["--perf-data-output", "-"], &["--perf-data-output", "regular file", "standard output"]);
    good_with(&["--perf-data-output", "/dev/null"], &["regular file", "/dev/null"]);
    good_with(&["--perf-data-output", "/no/such/x"], &["/no/such/x", "No such file"]);
    good_with(&["--perf-data-output", "x", "--profile-output", "x"], &["are one file: x"]);
    rejected(&["--offcpu", "-p", "1", "--perf-data-output", "x"], &["--perf-data-output requires --profile"]);
    rejected(&["--pmu", "-p", "1", "--perf-data-output", "x"], &["--perf-data-output requires --profile"]);
}

#[test]
fn options_of_other_versions_do_not_exist() {
    rejected(&["why"], &["this version has no subcommand", "why"]);
}

#[test]
fn forms() {
    good_with(&["--duration"], &["--duration needs a value"]);
    good_with(&["--duration", "1s", "--duration", "2s"], &["--duration was given twice"]);
    good_with(&["--per-thread=maybe"], &["--per-thread", "maybe"]);
    good_with(&["--per-thread="], &["--per-thread"]);
    rejected(&["doctor", "--profile"], &["doctor"]);
    rejected(&["--profile", "doctor"], &["doctor"]);
    rejected(&["doctor", "--json=maybe"], &["--json"]);
}

#[test]
fn the_first_error_is_the_one_that_is_printed() {
    rejected(&["--unwind", "x", "--nosuch", "--pid", "0", "-a"], &["--nosuch"]);
    rejected(&["--unwind", "x", "--pid", "0", "-a"], &["mutually exclusive"]);
    rejected(&["--unwind", "x", "--pid", "0"], &["required", "--profile"]);
    rejected(&["--profile", "--unwind", "x", "--pid", "0", "--sample-rate", "0"], &["--unwind"]);
    rejected(&["--profile", "--duration", "0", "--pid", "0", "--sample-rate", "0"], &["--sample-rate"]);
    rejected(&["--profile", "--duration", "0", "--pid", "0", "--tag", "x"], &["--duration"]);
    rejected(&["--profile", "--folded-output", "/", "--pid", "0", "--tag", "x"], &["--pid"]);
    let words = ["--profile", "--folded-output", "/", "--", "no-such-program-here"];
    check_status(&run(&words), 125, &["--folded-output"]);
}

#[test]
fn control_characters_in_values_are_escaped() {
    let text = good_with(&["--tag", "a\nerror: forged\u{1b}[2J"], &["forged"]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_value_that_is_not_utf8_is_rejected() {
    use std::os::unix::ffi::OsStrExt;
    let bytes = std::ffi::OsStr::from_bytes(b"a=\xff");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_perf-agent"))
        .args(GOOD)
        .arg("--tag")
        .arg(bytes)
        .output()
        .unwrap();
    check(&output, &["--tag", "UTF-8"]);
}

#[test]
fn hints_suggest_only_accepted_values() {
    let refusal = |words: &[&str]| stderr(&run(&[&["--profile", "-a"], words].concat()));
    for word in ["0", "00"] {
        let text = refusal(&["--duration", word]);
        assert!(text.contains("longer than zero") && text.contains("1m30s"), "{text}");
    }
    let text = refusal(&["--profile-output", ""]);
    assert!(text.contains("--profile-output") && !text.contains("mkdir"), "{text}");
}
