//! Reports of scheduler metrics and counters, and the endpoint: streams, names, contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use testkit::Process;

use crate::capture::{assert_gzip, assert_status, files, privileged, signal, start_in};
use crate::{run, run_in, stderr, stdout};

/// A command that sleeps a few times.
const NAPS: [&str; 4] = ["--", "sh", "-c", "for i in 1 2 3 4 5; do sleep 0.01; done"];

fn with_naps<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().chain(&NAPS).copied().collect()
}

/// A capture that serves metrics at a port chosen by the kernel.
struct Served {
    child: Process,
    port: u16,
    stderr: BufReader<ChildStderr>,
    /// What it printed before the address.
    printed: String,
}

impl Served {
    fn start_in(directory: &Path, words: &[&str]) -> Self {
        let mut child = start_in(directory, &[words, &["--metrics-listen", ":0"]].concat());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (port, printed) = announced(&mut stderr);
        Self { child, port, stderr, printed }
    }

    fn get(&self, path: &str, accept: &str) -> (String, String) {
        get(self.port, path, accept).unwrap()
    }

    fn stop(mut self) -> Output {
        signal(&self.child, "TERM");
        let mut output = self.child.wait_with_output().unwrap();
        self.stderr.read_to_string(&mut self.printed).unwrap();
        output.stderr = self.printed.into_bytes();
        output
    }
}

/// The announced port, and everything printed before it.
fn announced(stderr: &mut impl BufRead) -> (u16, String) {
    let mut printed = String::new();
    loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "nothing is served: {printed}");
        printed.push_str(&line);
        let address = line.strip_prefix("metrics are served at http://127.0.0.1:");
        if let Some(port) = address.and_then(|rest| rest.strip_suffix("/metrics\n")) {
            return (port.parse().unwrap(), printed);
        }
    }
}

/// Status line, head and body of an answer; none without an answer.
fn get(port: u16, path: &str, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

#[test]
fn standard_output_has_only_the_text() {
    if !privileged() {
        return;
    }
    let output = run(&with_naps(&["--pmu"]));
    assert_status(&output, 0);
    let text = stdout(&output);
    let latency = ["  Min: ", "  Max: ", "  Mean: ", "  P50: ", "  P95: ", "  P99: ", "  P99.9: "];
    let mut expected =
        vec!["=== PMU Metrics (PID: ", "Samples: ", "On-CPU Time (time slice per context switch):"];
    expected.extend(latency);
    expected.push("Runqueue Latency (time waiting for CPU):");
    expected.extend(latency);
    expected.extend([
        "Context Switch Reasons:",
        "  Preempted (running): ",
        "  Voluntary (sleep/mutex): ",
        "  I/O Wait (D state): ",
    ]);
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > expected.len(), "{text}");
    for (line, beginning) in lines.iter().zip(&expected) {
        assert!(line.starts_with(beginning), "{beginning:?} expected in {text}");
    }
    let rest = &lines[expected.len()..];
    assert!(rest.iter().any(|line| line.starts_with("Hardware Counters:")), "{text}");
    assert!(!text.contains("warning"), "{text}");
    assert!(stderr(&output).contains("command exited with status 0"), "{}", stderr(&output));
}

#[test]
fn an_unusable_cache_is_a_warning_only_where_tables_are_needed() {
    if !privileged() {
        return;
    }
    for (mode, expected) in [("--pmu", false), ("--profile", true)] {
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_perf-agent"))
            .args(with_naps(&[mode]))
            .current_dir(directory.path())
            .env("XDG_CACHE_HOME", "/dev/null")
            .output()
            .unwrap();
        assert_status(&output, 0);
        let text = stderr(&output);
        let warned = text.lines().any(|line| line.starts_with("warning: ") && line.contains("/dev/null"));
        assert_eq!(warned, expected, "{mode}: {text}");
    }
}

#[test]
fn the_json_has_the_keys_of_its_schema() {
    if !privileged() {
        return;
    }
    let words = ["--pmu", "--pmu-format", "json", "--pmu-events", "page-faults,task-clock"];
    let output = run(&with_naps(&words));
    assert_status(&output, 0);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["schema"], "perf-agent.pmu/1");
    assert_eq!((&report["version"], &report["scope"]), (&env!("CARGO_PKG_VERSION").into(), &"pid".into()));
    let [start, duration] = ["start_ns", "duration_ns"].map(|key| report[key].as_u64());
    assert!(start > Some(0) && duration > Some(40_000_000), "{start:?} {duration:?}");
    assert_eq!(report["pids"].as_array().map(Vec::len), Some(1), "{report}");
    assert!(report.get("processes").is_none() && report["incomplete"].is_object(), "{report}");
    let total = &report["total"];
    let reasons = &total["context_switches"];
    let sum: u64 =
        ["preempted", "voluntary", "io_wait"].map(|key| reasons[key].as_u64().unwrap()).iter().sum();
    // Five naps, and as many children that end.
    assert!(total["samples"].as_u64() == Some(sum) && sum >= 10, "{report}");
    for histogram in ["on_cpu", "runqueue"] {
        let value = |key: &str| total[histogram][key].as_f64().unwrap();
        let keys = ["min_ns", "p50_ns", "p95_ns", "p99_ns", "p999_ns", "max_ns"];
        // A percentile is exact within one percent.
        assert!(keys.windows(2).all(|pair| value(pair[0]) <= value(pair[1]) * 1.02), "{report}");
        assert!(value("count") > 0.0 && value("mean_ns") <= value("max_ns"), "{report}");
    }
    assert!(total["on_cpu_ns_total"].as_u64() > Some(0), "{total}");
    assert!(total.get("ipc").is_some() && total.get("cache_misses_per_1k").is_some(), "{report}");
    let counters = total["counters"].as_array().unwrap();
    for (counter, (name, unit)) in counters.iter().zip([("page-faults", "events"), ("task-clock", "ns")]) {
        assert_eq!((&counter["name"], &counter["unit"]), (&name.into(), &unit.into()), "{report}");
        assert!(counter["value"].as_u64() > Some(0) && counter["scaled"] == false, "{report}");
    }
    let machine = ["--pmu", "--pmu-format=json", "--per-pid", "-a", "--duration", "300ms"];
    let report: Value = serde_json::from_str(&stdout(&run(&machine))).unwrap();
    assert_eq!(report["scope"], "system");
    let processes = report["processes"].as_array().unwrap();
    assert!(
        processes.iter().all(|process| process["pid"].is_u64() && process["comm"].is_string()),
        "{report}"
    );
}

#[test]
fn automatic_names_of_one_run_have_one_number() {
    if !privileged() {
        return;
    }
    let words = with_naps(&["--profile", "--pmu", "--pmu-output", "auto", "--pmu-format", "json"]);
    for attempt in 0.. {
        let directory = tempfile::tempdir().unwrap();
        assert_status(&run_in(directory.path(), &words), 0);
        let names = files(directory.path());
        let minute = names[0].strip_suffix("-on-cpu.pb.gz").unwrap_or_else(|| panic!("{names:?}")).to_owned();
        assert!(minute.starts_with("sh-"), "{minute}");
        assert_eq!(names, [names[0].clone(), format!("{minute}-pmu.json")]);
        // Only one of the two names exists when the second run starts.
        std::fs::remove_file(directory.path().join(&names[0])).unwrap();
        assert_status(&run_in(directory.path(), &words), 0);
        let names = files(directory.path());
        if attempt < 3 && names.iter().any(|name| !name.starts_with(&minute)) {
            continue;
        }
        let expected = ["-on-cpu-2.pb.gz", "-pmu-2.json", "-pmu.json"].map(|end| format!("{minute}{end}"));
        assert_eq!(names, expected);
        return;
    }
}

#[test]
fn metrics_are_served_as_long_as_the_capture_goes_on() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let words = ["--pmu", "--pmu-output", "report", "--duration", "300s", "--pid", &pid];
    let served = Served::start_in(directory.path(), &words);
    let begun = Instant::now();
    let open_metrics = "application/openmetrics-text; version=1.0.0";
    loop {
        assert!(begun.elapsed() < Duration::from_secs(90), "no switch is served");
        std::thread::sleep(Duration::from_millis(50));
        let (head, body) = served.get("/metrics", open_metrics);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        assert!(body.ends_with("# EOF\n") && body.contains("perf_agent_build_info{"), "{body}");
        assert!(!body.contains(&pid) || !body.contains("pid="), "{body}");
        if body.contains("perf_agent_context_switches_total{reason=") {
            break;
        }
    }
    let (head, body) = served.get("/metrics", "text/plain");
    assert!(head.contains("text/plain; version=0.0.4") && !body.contains("# EOF"), "{head}");
    assert!(served.get("/healthz", "*/*").0.starts_with("HTTP/1.1 200"));
    assert!(served.get("/other", "*/*").0.starts_with("HTTP/1.1 404"));
    let port = served.port;
    let output = served.stop();
    assert_status(&output, 0);
    assert!(get(port, "/healthz", "*/*").is_none());
    assert!(!stderr(&output).contains("no authentication"), "{}", stderr(&output));
}

/// The values of an OpenMetrics answer by series, and the names of its counters.
fn series(body: &str) -> (BTreeMap<String, f64>, BTreeSet<String>) {
    let values = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    let counters = body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
    (values.collect(), counters.map(str::to_owned).collect())
}

#[test]
fn served_counters_are_filled_and_only_grow() {
    if !privileged() {
        return;
    }
    let always = [
        "perf_agent_samples_total{mode=\"pmu\"}",
        "perf_agent_cpu_seconds_total",
        "perf_agent_resident_bytes",
        "perf_agent_bpf_memory_bytes",
        "perf_agent_context_switches_total{reason=\"voluntary\"}",
        "perf_agent_on_cpu_seconds_count",
        "perf_agent_runqueue_latency_seconds_count",
        "perf_agent_counter_total{event=\"task-clock\"}",
    ];
    let with_profiles = [
        "perf_agent_samples_total{mode=\"on-cpu\"}",
        "perf_agent_samples_total{mode=\"off-cpu\"}",
        "perf_agent_walks_total{mode=\"on-cpu\",cause=\"root\"}",
        "perf_agent_frames_total{symbolized=\"true\"}",
        "perf_agent_symbolize_kernel_batches_total",
        "perf_agent_symbolize_kernel_input_ips_total",
        "perf_agent_symbolize_seconds_count{kind=\"user\"}",
        "perf_agent_symbolize_seconds_count{kind=\"kernel\"}",
    ];
    let profiles = "--profile --profile-output - --offcpu --offcpu-output off --kernel-stacks -a --per-pid";
    for (modes, filled) in [("-a", &always[..]), (profiles, &[always, with_profiles].concat())] {
        let directory = tempfile::tempdir().unwrap();
        let _burner = Process::computing();
        let mut words =
            vec!["--pmu", "--pmu-output", "r", "--pmu-format", "json", "--pmu-events", "task-clock"];
        words.extend(["--duration", "300s"]);
        words.extend(modes.split(' '));
        let served = Served::start_in(directory.path(), &words);
        let (begun, mut before) = (Instant::now(), BTreeMap::<String, f64>::new());
        loop {
            assert!(begun.elapsed() < Duration::from_secs(90), "{modes}: {before:#?}");
            std::thread::sleep(Duration::from_millis(300));
            let (_, body) = served.get("/metrics", "application/openmetrics-text");
            let (now, counters) = series(&body);
            for (series, value) in &before {
                let counter = counters.iter().any(|family| series.starts_with(&format!("{family}_total")));
                let histogram = series.contains("_bucket{") || series.ends_with("_count");
                if counter || histogram {
                    assert!(now.get(series) >= Some(value), "{series} was {value}, is {:?}", now.get(series));
                }
            }
            assert!(!body.contains("debuginfod"), "there are no servers to fetch from: {body}");
            assert_eq!(body.contains("perf_agent_frames"), modes == profiles, "{body}");
            before = now;
            if filled.iter().all(|series| before.get(*series) > Some(&0.0)) {
                break;
            }
        }
        assert_status(&served.stop(), 0);
        // The report has the samples that were served: none is lost or counted twice.
        let report = std::fs::read(directory.path().join("r")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        let total = report["total"]["samples"].as_f64().unwrap();
        assert!(before[always[0]] <= total, "{total} samples, but {} were served", before[always[0]]);
        if let Some(processes) = report["processes"].as_array() {
            let sum: f64 = processes.iter().map(|process| process["samples"].as_f64().unwrap()).sum();
            assert!((sum - total).abs() < 0.5, "{sum} of {total}");
        }
    }
}

#[test]
fn an_address_that_cannot_be_bound_is_an_error_before_the_capture() {
    let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = held.local_addr().unwrap().to_string();
    let output = run(&["--pmu", "--pmu-output", "r", "--metrics-listen", &address, "--", "touch", "begun"]);
    assert_status(&output, 125);
    let text = stderr(&output);
    assert!(
        text.contains(&format!("error: listen for metrics on {address}: Address already in use")),
        "{text}"
    );
    assert_eq!(text.matches(&address).count(), 1, "{text}");
    assert!(text.contains("hint: another program listens on this port: choose another port"), "{text}");
    assert_eq!(stdout(&output), "");
    let output = run(&["--pmu", "-a", "--metrics-listen", "192.0.2.7:9101"]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("hint: no interface of this machine"), "{}", stderr(&output));
}

#[test]
fn a_warning_names_an_address_that_other_machines_reach() {
    if !privileged() {
        return;
    }
    let output = run(&with_naps(&["--pmu", "--metrics-listen", "0.0.0.0:0"]));
    assert_status(&output, 0);
    let text = stderr(&output);
    let warning =
        text.lines().find(|line| line.starts_with("warning: ") && line.contains("no authentication"));
    assert!(warning.is_some_and(|line| line.contains("0.0.0.0:")), "{text}");
}

#[test]
fn an_empty_capture_gives_valid_outputs_of_every_mode() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut sleeper = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().unwrap();
    let (begun, stat) = (Instant::now(), Path::new("/proc").join(sleeper.id().to_string()).join("stat"));
    while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not sleep");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = sleeper.id().to_string();
    let words = [
        "--profile --profile-output on --offcpu --offcpu-output off --offcpu-states iowait --wakers",
        "--pmu --pmu-output pmu --pmu-format json --wall-output wall --duration 300ms --pid",
    ];
    let words: Vec<_> = words.iter().flat_map(|line| line.split(' ')).chain([pid.as_str()]).collect();
    let output = run_in(directory.path(), &words);
    let text = run(&["--pmu", "--duration", "300ms", "--pid", &pid]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("warning: no samples"), "{}", stderr(&output));
    assert_eq!(files(directory.path()), ["off", "on", "pmu", "wall"]);
    for profile in ["on", "off", "wall"] {
        assert_gzip(directory.path().join(profile));
    }
    let report: Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("pmu")).unwrap()).unwrap();
    assert_eq!(report["total"]["samples"], 0, "{report}");
    assert!(report["total"]["on_cpu"].is_null() && report["total"]["runqueue"].is_null(), "{report}");
    assert_status(&text, 0);
    let text = stdout(&text);
    assert!(text.starts_with(&format!("=== PMU Metrics (PID: {pid}) ===\n")), "{text}");
    assert!(text.contains("no data") || text.contains("No PMU metrics collected"), "{text}");
}

/// Two processes with the same PID, one after the other, in a PID namespace where the next PID can be chosen.
const REUSE: &str = r#"
"$AGENT" --pmu -a --per-pid --pmu-format json --pmu-output out.json --pmu-events task-clock --duration 60s \
    --metrics-listen :0 &
agent=$!
while kill -0 $agent && ! grep -qs perfagent-http /proc/$agent/task/*/comm; do sleep 0.02; done
for name in one two; do
    # A thread of perf-agent may get the number first.
    while echo 4999 > /proc/sys/kernel/ns_last_pid; do
        ./$name -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done' &
        wait $!
        [ $! != 5000 ] || break
    done
    echo $!
done
kill -TERM $agent
wait $agent
"#;

#[test]
fn processes_with_the_same_pid_are_kept_apart() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        std::os::unix::fs::symlink("/bin/sh", directory.path().join(name)).unwrap();
    }
    let Some(mut command) = testkit::unshare(&["--pid", "--fork", "--mount-proc"]) else { return };
    // The endpoint answers once the capture has begun.
    let output = command
        .args(["sh", "-c", REUSE])
        .env("AGENT", env!("CARGO_BIN_EXE_perf-agent"))
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "5000\n5000\n", "the next number in a PID namespace is chosen");
    let report = std::fs::read(directory.path().join("out.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let processes = report["processes"].as_array().unwrap();
    let mut of_that_number: Vec<_> = processes.iter().filter(|process| process["pid"] == 5000).collect();
    of_that_number.sort_by_key(|process| process["comm"].as_str());
    let names: Vec<_> = of_that_number.iter().map(|process| &process["comm"]).collect();
    assert_eq!(names, ["one", "two"], "{report}");
    let value = |process: &Value| process["on_cpu_ns_total"].as_u64().unwrap();
    let (one, two) = (value(of_that_number[0]), value(of_that_number[1]));
    assert!(one > 1_000_000 && two > 1_000_000, "{one} {two}");
    for process in of_that_number {
        // Both counters are split at the same switches.
        let clock = process["counters"][0]["value"].as_u64().unwrap();
        assert!(clock.abs_diff(value(process)) < value(process) / 2, "{process}");
    }
    let sum: u64 = processes.iter().map(|process| process["samples"].as_u64().unwrap()).sum();
    assert_eq!(report["total"]["samples"], sum);
    assert_eq!(report["processes_profiled"], processes.len());
}

#[test]
fn metrics_are_served_at_the_announced_address() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let own = std::process::id().to_string();
    let served = Served::start_in(directory.path(), &["--pmu", "--pid", &own, "--duration", "300s"]);
    let (head, body) = served.get("/metrics", "*/*");
    assert!(head.starts_with("HTTP/1.1 200") && !body.is_empty(), "{head}");
    assert_status(&served.stop(), 0);
}

#[test]
fn a_port_that_is_taken_is_not_announced() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["--pmu", "-a", "--duration", "1s", "--metrics-listen", &address]);
    assert_status(&output, 1);
    let text = stderr(&output);
    assert!(!text.contains("served at") && text.contains(&address), "{text}");
}
