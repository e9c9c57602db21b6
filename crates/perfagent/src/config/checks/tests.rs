//! Tests of each check, of their order, and of accepted requests.

use std::process::Command;
use std::time::Duration;

use events::counting::CounterSpec;

use super::*;
use crate::config::labels::RESERVED_LABELS;
use crate::config::{
    Config, DEFAULT_HEAP_RING_BYTES, DEFAULT_RING_BYTES, Fetching, HeapMode, Labels, PythonFrames, Targets,
    Unwind,
};
use crate::output::{Drawing, FileTarget, MemorySink, OutputKind, OutputTarget};
use crate::{AgentBuilder, OffCpuState};

fn facts() -> Facts {
    Facts { max_sample_rate: 5_000, online_cpus: Some(vec![0, 1]), path: "/bin:/usr/bin".into() }
}

fn judge(builder: AgentBuilder) -> Result<Plan, Error> {
    check_with(builder.into_request(), &facts())
}

fn refusal(builder: AgentBuilder) -> (String, String) {
    match judge(builder) {
        Err(Error::InvalidConfig { option, reason, hint, .. }) => {
            assert!(!hint.is_empty() && !reason.contains('\n') && !hint.contains('\n'));
            (option, reason)
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("accepted"),
    }
}

fn empty() -> AgentBuilder {
    AgentBuilder::default()
}

fn good() -> AgentBuilder {
    empty().pid(1).with_cpu_profile()
}

#[track_caller]
fn refused(builder: AgentBuilder, option: &str, substrings: &[&str]) {
    let (named, reason) = refusal(builder);
    assert_eq!(named, option, "{reason}");
    for substring in substrings {
        assert!(reason.contains(substring), "{reason} lacks {substring}");
    }
}

#[test]
fn targets() {
    let command = || Command::new("true");
    refused(good().system_wide(), "--pid", &["--pid and -a", "mutually exclusive"]);
    refused(good().command(command()), "--pid", &["mutually exclusive"]);
    refused(empty().system_wide().command(command()), "-a", &["mutually exclusive"]);
    refused(empty().with_cpu_profile(), "--pid", &["required", "--pid", "-a", "-- CMD"]);
    let plan = judge(empty().option("pid", "1,2 3\n4\n").comm("nginx").with_cpu_profile()).ok().unwrap();
    assert_eq!(plan.config.targets, Targets::Pids(vec![1, 2, 3, 4]));
    assert_eq!(plan.config.comms(), ["nginx"]);
    refused(good().option("pid", "2,x"), "--pid", &["`x`"]);
    refused(good().option("pid", ","), "--pid", &["`,`"]);
    refused(empty().comm("nginx").system_wide(), "--comm", &["--comm and -a", "mutually exclusive"]);
    refused(good().comm("a-name-of-16-byt"), "--comm", &["`a-name-of-16-byt`", "1 to 15 bytes"]);
    refused(good().comm(""), "--comm", &["1 to 15"]);
    let system = empty().system_wide().with_cpu_profile();
    refused(system.no_children(true), "--no-children", &["-a", "mutually exclusive"]);
    assert!(judge(good().no_children(true)).ok().unwrap().config.no_children());
    let mut sleep = Command::new("sleep");
    sleep.arg("10");
    let Err(error) = judge(good().command(sleep)) else { panic!("accepted") };
    assert!(error.hint().unwrap().contains("--duration 10 in place"), "{:?}", error.hint());
    let plan = judge(good().pid(7).pids([1, 9])).ok().unwrap();
    assert_eq!(plan.config.targets, Targets::Pids(vec![1, 7, 9]));
    let plan = judge(empty().command(command()).with_cpu_profile()).ok().unwrap();
    assert_eq!(plan.config.targets, Targets::Command("true".into()));
    assert!(plan.command.is_some());
    assert!(judge(empty().option("all", "false").pid(1).with_cpu_profile()).is_ok());
}

#[test]
fn filters_of_samples() {
    assert_eq!(judge(good().option("tid", "5,6").tid(7)).ok().unwrap().config.tids(), [5, 6, 7]);
    refused(good().option("tid", "x"), "--tid", &["`x`", "1..=4194304"]);
    refused(good().tid(0), "--tid", &["`0`"]);
    refused(good().tid(1).pmu(), "--tid", &["--pmu", "mutually exclusive"]);
    refused(good().cgroup("/no/such/group"), "--cgroup", &["`/no/such/group`", "version 2"]);
    refused(good().cgroup("/a").cgroup("/b"), "--cgroup", &["twice"]);
}

#[test]
fn kernel_stacks_of_a_target() {
    let option = "target_kernel_stacks";
    refused(good().target_kernel_stacks(0, true), option, &["0 is not in 1..=4194304"]);
    refused(empty().system_wide().with_cpu_profile().target_kernel_stacks(1, true), option, &["1 is not"]);
    refused(good().target_kernel_stacks(1, true).target_kernel_stacks(1, false), option, &["twice"]);
    // Process 2 may become a target later.
    let plan = judge(good().target_kernel_stacks(2, true).target_kernel_stacks(2, true)).ok().unwrap();
    assert_eq!(plan.config.target_kernel_stacks(), &[(2, true)].into());
}

#[test]
fn modes() {
    refused(empty().pid(1), "--profile", &["required", "--profile", "--offcpu"]);
    refused(empty().pid(1).option("profile", "false"), "--profile", &["required"]);
    let request = empty().pid(1).option("folded-output", "x").into_request();
    let error = outputs_have_their_mode(&request, &facts()).unwrap_err();
    assert_eq!(error.to_string(), "--folded-output requires --profile or --offcpu or --heap or --locks");
    let Err(error) = check_with(request, &facts()) else { panic!("accepted") };
    assert!(
        error
            .hint()
            .unwrap()
            .contains("--folded-output requires --profile or --offcpu or --heap or --locks: add")
    );
    let pmu = || empty().pid(1).pmu();
    refused(
        pmu().option("folded-output", "x"),
        "--folded-output",
        &["requires --profile or --offcpu or --heap or --locks"],
    );
    refused(pmu().option("profile-output", "x"), "--profile-output", &["requires --profile"]);
    let off_cpu = || empty().pid(1).with_off_cpu_profile();
    for (option, value) in
        [("offcpu-output", "x"), ("offcpu-states", "blocked"), ("min-block", "1ms"), ("wakers", "true")]
    {
        let name = format!("--{option}");
        refused(good().option(option, value), &name, &[&format!("{name} requires --offcpu")]);
        assert!(judge(off_cpu().option(option, value)).is_ok(), "{option}");
    }
    refused(off_cpu().single_samples(true), "single_samples", &["single_samples requires --profile"]);
    assert!(judge(good().single_samples(true)).ok().unwrap().config.single_samples());
    refused(good().single_samples(true).single_samples(false), "single_samples", &["twice"]);
    // One profile is enough for either output.
    assert!(judge(off_cpu().option("folded-output", "x")).is_ok());
    refused(off_cpu().option("profile-output", "x"), "--profile-output", &["requires --profile"]);
    for builder in [good(), off_cpu()] {
        refused(builder.option("wall-output", "x"), "--wall-output", &["requires --profile and --offcpu"]);
    }
    assert!(judge(off_cpu().with_cpu_profile().option("wall-output", "x")).is_ok());
    let both = off_cpu().with_cpu_profile().option("wall-output", "x").option("min-block", "1us");
    refused(both, "--wall-output", &["--min-block", "mutually exclusive"]);
}

#[test]
fn metrics() {
    let pmu = || empty().pid(1).pmu();
    for (option, value) in [("pmu-output", "x"), ("pmu-format", "json"), ("pmu-events", "page-faults")] {
        let name = format!("--{option}");
        refused(good().option(option, value), &name, &[&format!("{name} requires --pmu")]);
        assert!(judge(pmu().option(option, value)).is_ok(), "{option}");
    }
    refused(pmu().per_pid(), "--per-pid", &["--per-pid requires"]);
    refused(empty().system_wide().with_cpu_profile().per_pid(), "--per-pid", &["only valid with --pmu"]);
    assert!(judge(empty().system_wide().pmu().per_pid()).is_ok());
    refused(pmu().option("pmu-format", "xml"), "--pmu-format", &["`xml`", "text", "json"]);
    refused(
        pmu().option("pmu-events", "cycles,bogus"),
        "--pmu-events",
        &["bogus", "instructions", "page-faults"],
    );
    for address in ["", "host", "host:", ":70000", "host:-1"] {
        refused(good().option("metrics-listen", address), "--metrics-listen", &[&format!("`{address}`")]);
    }
    let plan = judge(good().option("metrics-listen", ":9101")).ok().unwrap();
    assert_eq!(plan.config.metrics_listen().as_deref(), Some("127.0.0.1:9101"));
    let plan = judge(pmu().option("pmu-format", "json").option("pmu-output", "x")).ok().unwrap();
    assert_eq!(plan.outputs[0].0, OutputKind::PmuJson);
    refused(empty().pid(1), "--profile", &["required", "--profile", "--offcpu", "--pmu"]);
}

#[test]
fn off_cpu_values() {
    let off_cpu = || empty().pid(1).with_off_cpu_profile();
    for states in ["", "sleeping", "blocked,", "Blocked", "blocked iowait"] {
        let known = ["blocked", "iowait", "preempted"];
        refused(off_cpu().option("offcpu-states", states), "--offcpu-states", &known);
    }
    let plan = judge(off_cpu().option("offcpu-states", "preempted,blocked,preempted")).ok().unwrap();
    assert_eq!(plan.config.off_cpu_states, [OffCpuState::Blocked, OffCpuState::Preempted]);
    for length in ["-1ms", "1m30", "soon", ""] {
        refused(off_cpu().option("min-block", length), "--min-block", &[&format!("`{length}`")]);
    }
    for (length, expected) in [("0", 0), ("0s", 0), ("1ms", 1_000_000), ("2", 2_000_000_000)] {
        let plan = judge(off_cpu().option("min-block", length)).ok().unwrap();
        assert_eq!(plan.config.min_block, Duration::from_nanos(expected), "{length}");
    }
}

#[test]
fn values() {
    refused(good().option("unwind", "lbr"), "--unwind", &["lbr", "fp", "dwarf", "auto"]);
    refused(good().option("unwind", "FP"), "--unwind", &["FP"]);
    refused(good().option("python", "on"), "--python", &["`on`", "auto", "off", "all"]);
    for rate in ["0", "5001", "-1", "many", "", "4294967296", "1e3"] {
        refused(good().option("sample-rate", rate), "--sample-rate", &["1..=5000", &format!("`{rate}`")]);
    }
    refused(good().sample_rate(5_001), "--sample-rate", &["5001"]);
    for length in ["0s", "0", "-5s", "1m30", "soon", "", "1h-5m"] {
        let (option, reason) = refusal(good().option("duration", length));
        assert_eq!(option, "--duration", "{length}: {reason}");
    }
    let Err(error) = judge(good().option("duration", "soon")) else { panic!("accepted") };
    assert!(error.hint().unwrap().contains("1m30s"));
    let plan = judge(good().option("duration", "10")).ok().unwrap();
    assert_eq!(plan.config.duration, Some(Duration::from_secs(10)));
    for pid in ["0", "4194305", "-1", "self", ""] {
        refused(good().option("pid", pid), "--pid", &["1..=4194304", &format!("`{pid}`")]);
    }
}

#[test]
fn tags_and_labels() {
    refused(good().option("tag", "novalue"), "--tag", &["novalue", "="]);
    refused(good().option("tag", "=x"), "--tag", &["=x", "empty key"]);
    refused(good().option("tag", "perf-agent.samples=1"), "--tag", &["perf-agent.samples=1", "reserved"]);
    refused(good().tag("a=b", "c"), "--tag", &["a=b"]);
    let plan = judge(good().option("tag", "a=b=c").tag("empty", "").tags([("a", "2")])).ok().unwrap();
    let pairs: Vec<_> = plan.config.tags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(pairs, [("a", "b=c"), ("empty", ""), ("a", "2")]);
    for key in RESERVED_LABELS {
        refused(good().label(key, "x"), "label", &[key]);
    }
    refused(good().label("", "x"), "label", &["empty"]);
    refused(good().label("a", "1").label("a", "2"), "label a", &["twice"]);
    assert!(judge(good().label("a", "1").label("a", "1")).is_ok());
}

#[test]
fn cpu_sets() {
    refused(good().cpus([]), "cpus", &["empty"]);
    refused(good().cpus([0, 9]), "cpus", &["CPU 9"]);
    assert_eq!(judge(good().cpus([1, 0, 1])).ok().unwrap().config.cpus, Some(vec![0, 1]));
}

#[test]
fn map_size_ranges() {
    for stacks in ["0", "4194305", "lots", "-1", "5000000000"] {
        refused(good().option("max-stacks", stacks), "--max-stacks", &[stacks, "1..=4194304"]);
    }
    for ring in ["0", "3M", "2K", "2G", "4m", "8G"] {
        refused(good().option("ring-size", ring), "--ring-size", &[ring, "4K", "1G"]);
    }
    for tables in ["0", "512K", "1T", "4m", "257M"] {
        refused(good().option("table-memory", tables), "--table-memory", &[tables, "1M", "256M"]);
    }
    assert_eq!(judge(good().option("table-memory", "48M")).ok().unwrap().config.table_memory, 48 << 20);
    let plan = judge(good().option("max-stacks", "1K").option("ring-size", "64K")).ok().unwrap();
    assert_eq!((plan.config.max_stacks, plan.config.ring_bytes), (1024, 65_536));
    let ring = |builder: AgentBuilder| judge(builder).ok().unwrap().config.ring_bytes;
    assert_eq!(ring(good()), DEFAULT_RING_BYTES);
    assert_eq!(ring(empty().pid(1).option("heap", "exact")), DEFAULT_HEAP_RING_BYTES);
}

#[test]
fn outputs_and_command() {
    refused(good().cpu_profile("/no/such/x"), "--profile-output", &["/no/such/x", "No such file"]);
    refused(good().folded("/"), "--folded-output", &["Is a directory"]);
    refused(
        good().option("folded-output", "-").option("flamegraph-output", "-"),
        "--flamegraph-output",
        &["--folded-output and --flamegraph-output are one file"],
    );
    let run = |program: &str| empty().with_cpu_profile().command(Command::new(program));
    refused(run("no-such-program-here"), "-- CMD", &["no-such-program-here", "No such file or directory"]);
    refused(run("/etc/passwd"), "-- CMD", &["/etc/passwd", "Permission denied"]);
}

#[test]
fn the_last_value_does_not_replace_an_earlier_one() {
    refused(good().sample_rate(1).sample_rate(2), "--sample-rate", &["twice"]);
    refused(good().option("profile", "false"), "--profile", &["twice"]);
    refused(good().cpu_profile("a").cpu_profile("b"), "--profile-output", &["twice"]);
    refused(good().cpu_profile("a").cpu_profile_to(MemorySink::new()), "--profile-output", &["twice"]);
    refused(good().folded_to(MemorySink::new()).folded_to(MemorySink::new()), "--folded-output", &["twice"]);
    refused(good().no_label_enricher().label_enricher(|_| Labels::new()), "label_enricher", &["twice"]);
    assert!(judge(good().sample_rate(9).option("sample-rate", "9")).is_ok());
}

#[test]
fn unknown_and_malformed_options_are_refused() {
    refused(good().option("samplerate", "9"), "--samplerate", &["no such option"]);
    refused(good().option("per-thread", "yes"), "--per-thread", &["yes", "true"]);
    let bytes: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&b"\xff"[..]);
    refused(good().option("tag", bytes), "--tag", &["UTF-8"]);
}

#[test]
fn the_first_failing_check_gives_the_error() {
    let all_wrong = || {
        empty()
            .option("pid", "0")
            .option("unwind", "x")
            .option("sample-rate", "0")
            .option("duration", "0")
            .option("tag", "x")
            .option("max-stacks", "0")
            .option("folded-output", "/no/such/x")
    };
    refused(all_wrong().system_wide(), "--pid", &["mutually exclusive"]);
    refused(all_wrong(), "--profile", &["required"]);
    refused(all_wrong().with_cpu_profile(), "--unwind", &[]);
    let next = |builder: AgentBuilder| refusal(builder.with_cpu_profile()).0;
    assert_eq!(
        next(empty().option("pid", "0").option("sample-rate", "0").option("duration", "0")),
        "--sample-rate"
    );
    assert_eq!(next(empty().option("pid", "0").option("duration", "0").option("tag", "x")), "--duration");
    assert_eq!(next(empty().option("pid", "0").option("tag", "x")), "--pid");
    assert_eq!(next(empty().pid(1).option("tag", "x").option("folded-output", "/no/such/x")), "--tag");
    let output = empty().command(Command::new("no-such-program-here")).option("folded-output", "/no/such/x");
    assert_eq!(next(output), "--folded-output");
}

#[test]
fn defaults_equal_those_of_the_command_line() {
    let plan = judge(good()).ok().unwrap();
    assert_eq!(
        plan.config,
        Config {
            targets: Targets::Pids(vec![1]),
            comms: Vec::new(),
            no_children: false,
            tids: Vec::new(),
            cgroup: None,
            duration: None,
            cpu_profile: true,
            events: Vec::new(),
            heap: None,
            off_cpu_profile: false,
            off_cpu_states: vec![OffCpuState::Blocked, OffCpuState::IoWait],
            min_block: Duration::ZERO,
            wakers: false,
            wall_profile: false,
            pmu: false,
            locks: false,
            pmu_events: CounterSpec::defaults(),
            per_pid: false,
            metrics_listen: None,
            metrics_interval: None,
            sample_rate_hz: 99,
            unwind: Unwind::Auto,
            python: PythonFrames::Auto,
            inject_python: false,
            kernel_stacks: false,
            target_kernel_stacks: std::collections::BTreeMap::new(),
            per_thread: false,
            single_samples: false,
            single_intervals: false,
            perf_data: None,
            drawing: Drawing::default(),
            cpus: None,
            tags: Vec::new(),
            labels: Labels::new(),
            max_stacks: 65_536,
            max_memory_bytes: 256 << 20,
            ring_bytes: 4 << 20,
            table_memory: 32 << 20,
            table_cache_dir: None,
            fetching: Fetching::default(),
            rotate: None,
            self_check: false,
            java_perf_map: false,
            dotnet_perf_map: false,
        }
    );
    assert!(plan.outputs.is_empty());
    let plan = judge(good().option("duration", "1m30s").option("profile-output", "-")).ok().unwrap();
    assert_eq!(plan.config.duration, Some(Duration::from_secs(90)));
    assert!(matches!(plan.outputs[..], [(OutputKind::CpuProfile, OutputTarget::File(FileTarget::Stdout))]));
}

#[test]
fn the_rate_limit_comes_from_the_kernel() {
    let limit: u32 = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .map_or(100_000, |text| text.trim().parse().unwrap());
    assert_eq!(Facts::read().max_sample_rate, limit);
}

#[test]
fn allocations_take_the_place_of_samples() {
    let heap = || empty().pid(1).option("heap", "true");
    let plan = judge(heap().option("heap-output", "/tmp/heap.pb.gz")).ok().unwrap();
    assert_eq!((plan.config.heap, plan.config.cpu_profile), (Some(HeapMode::WhileCheap), true));
    let exact = judge(empty().pid(1).option("heap", "exact")).ok().unwrap();
    assert_eq!(exact.config.heap, Some(HeapMode::Exact));
    assert_eq!(
        refusal(empty().pid(1).option("heap", "false")).1,
        "a kind of capture is required: --profile, --offcpu, --heap, --pmu, --locks"
    );
    for (builder, part) in [
        (empty().pid(1).option("heap", "some"), "`some` is not exact"),
        (heap().with_cpu_profile(), "--profile are mutually exclusive"),
        (empty().system_wide().option("heap", "true"), "-a are mutually exclusive"),
        (heap().kernel_stacks(true), "--kernel-stacks are mutually exclusive"),
        (heap().rotate(Duration::from_secs(1)), "--rotate and --heap are mutually exclusive"),
        (heap().event("page-faults"), "--event requires --profile"),
        (good().option("heap-output", "/tmp/heap.pb.gz"), "--heap-output requires --heap"),
        (heap().option("heap", "exact"), "given twice"),
    ] {
        let (_, reason) = refusal(builder);
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn up_to_six_different_events_are_sampled_at_once() {
    let of = |names: &[&str]| names.iter().fold(good(), |builder, name| builder.event(name));
    let names = ["faults", "cs", "migrations", "minor-faults", "major-faults", "cgroup-switches", "a:b"];
    let plan = judge(of(&names[..6])).ok().unwrap();
    assert!(plan.config.events().map(|(name, _)| name).eq([
        "software/page-faults",
        "software/context-switches",
        "software/cpu-migrations",
        "software/minor-faults",
        "software/major-faults",
        "software/cgroup-switches"
    ]));
    let refusal = |builder| judge(builder).err().unwrap().to_string();
    let seven = refusal(of(&names));
    assert!(seven.contains("given 7 times, and 6 events can be sampled at once"), "{seven}");
    let twice = refusal(of(&["faults", "cs", "page-faults"]));
    assert!(twice.contains("--event page-faults is given twice"), "{twice}");
    // Another period is another event.
    assert!(judge(of(&["faults", "page-faults period=2"])).is_ok());
    let perf_data = refusal(of(&["faults", "cs"]).option("perf-data-output", "x.data"));
    assert!(perf_data.contains("has the samples of one event, and there are 2"), "{perf_data}");
}
