//! The exposed text, read by a strict parser of OpenMetrics 1.0 that shares no code with the writer.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use metrics::{
    ContextSwitches, Counter, CounterState, CounterUnit, DebuginfodHealth, Exposer, Exposition,
    HardwareCounters, Health, Histogram, Incomplete, MetricsSnapshot, ModeHealth, ProcessMetrics, Scheduling,
    Scope, Span, SymbolizeHealth, expose,
};

/// Characters that could break a label: escapes, line ends, and texts that look like the end or like a sample.
const HOSTILE: &str = "a\"b\\c\n# EOF\nx_total{y=\"z\"} 1\n\\n\r\t\0\u{7f}{}=,é\u{202e}💥\\";

type Labels = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: Option<String>,
    has_help: bool,
    samples: Vec<(String, Labels, f64)>,
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A sample: name, labels, value. Panics at everything outside the grammar.
fn sample(line: &str) -> (String, Labels, f64) {
    let name_len = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(name_len);
    assert!(is_name(name), "{line:?}");
    let mut labels = Labels::new();
    if let Some(list) = rest.strip_prefix('{') {
        rest = list;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            assert!(is_name(label) && !label.starts_with("__"), "{line:?}");
            let (mut text, mut characters) = (String::new(), value.chars());
            loop {
                match characters.next().unwrap() {
                    '"' => break,
                    '\\' => text.push(match characters.next().unwrap() {
                        'n' => '\n',
                        same @ ('\\' | '"') => same,
                        other => panic!("\\{other} in {line:?}"),
                    }),
                    other => text.push(other),
                }
            }
            assert!(labels.insert(label.to_owned(), text).is_none(), "{label} twice in {line:?}");
            rest = characters.as_str();
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').unwrap();
    assert!(value.bytes().all(|byte| b"0123456789.+-eEInfNa".contains(&byte)), "{line:?}");
    (name.to_owned(), labels, value.parse().unwrap())
}

/// Splits a text into families. Each must be declared once and in one piece, and the text must end with `# EOF`.
fn families(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("an end");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut series) = (String::new(), BTreeSet::new());
    for line in body.split_terminator('\n') {
        if let Some(comment) = line.strip_prefix('#') {
            let words: Vec<_> = comment.strip_prefix(' ').unwrap().splitn(3, ' ').collect();
            let [what, name, value] = words[..] else { panic!("{line:?}") };
            assert!(is_name(name), "{line:?}");
            if name != current {
                assert!(families.insert(name.to_owned(), Family::default()).is_none(), "{name} comes again");
                name.clone_into(&mut current);
            }
            let family = families.get_mut(name).unwrap();
            assert!(family.samples.is_empty(), "{line:?} behind its samples");
            match what {
                "TYPE" => {
                    assert!(family.kind.is_empty(), "{name} has two types");
                    value.clone_into(&mut family.kind);
                }
                "UNIT" => assert!(family.unit.replace(value.to_owned()).is_none(), "{name} has two units"),
                "HELP" => assert!(!std::mem::replace(&mut family.has_help, true), "{name} has two helps"),
                _ => panic!("{line:?}"),
            }
        } else {
            let (name, labels, value) = sample(line);
            assert!(series.insert((name.clone(), labels.clone())), "{line:?} twice");
            families.get_mut(&current).unwrap().samples.push((name, labels, value));
        }
    }
    families
}

fn check_histogram(name: &str, family: &Family) {
    let mut by_series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    let (mut counts, mut sums) = (BTreeMap::new(), BTreeSet::new());
    for (sample, labels, value) in &family.samples {
        let mut labels = labels.clone();
        match sample.strip_prefix(name) {
            Some("_bucket") => {
                let bound = labels.remove("le").unwrap();
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                by_series.entry(labels).or_default().push((bound, *value));
            }
            Some("_count") => assert!(counts.insert(labels, *value).is_none()),
            Some("_sum") => assert!(sums.insert(labels)),
            _ => panic!("{sample} in {name}"),
        }
    }
    assert!(!by_series.is_empty());
    for (labels, buckets) in &by_series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {labels:?}: {buckets:?}");
        assert_eq!(*buckets.last().unwrap(), (f64::INFINITY, counts[labels]), "{name} {labels:?}");
        assert!(sums.contains(labels));
    }
    assert_eq!((counts.len(), sums.len()), (by_series.len(), by_series.len()));
}

/// Checks the text against the rules and returns its families.
fn checked(text: &str) -> BTreeMap<String, Family> {
    let families = families(text);
    for (name, family) in &families {
        assert!(family.has_help && !family.samples.is_empty(), "{name}");
        if let Some(unit) = &family.unit {
            assert!(name.ends_with(&format!("_{unit}")), "{name} is in {unit}");
        } else {
            assert!(!["_seconds", "_bytes"].iter().any(|unit| name.ends_with(unit)), "{name} lacks its unit");
        }
        assert!(!["_total", "_info", "_bucket", "_count", "_sum"].iter().any(|end| name.ends_with(end)));
        let only = |suffix: &str| {
            for (sample, labels, value) in &family.samples {
                assert_eq!(*sample, format!("{name}{suffix}"));
                assert!(!labels.contains_key("le") && value.is_finite() && *value >= 0.0, "{sample}");
            }
        };
        match family.kind.as_str() {
            "counter" => only("_total"),
            "gauge" => only(""),
            "info" => {
                only("_info");
                assert!(family.unit.is_none() && family.samples.iter().all(|(.., value)| *value == 1.0));
            }
            "histogram" => check_histogram(name, family),
            other => panic!("{name} is a {other}"),
        }
        let label_names =
            |labels: &Labels| labels.keys().filter(|label| *label != "le").cloned().collect::<Vec<_>>();
        let first = label_names(&family.samples[0].1);
        assert!(family.samples.iter().all(|(_, labels, _)| label_names(labels) == first), "{name}");
    }
    families
}

fn counter(name: &str, value: u64, enabled_ns: u64, running_ns: u64) -> Counter {
    Counter::new(name, CounterUnit::Events, CounterState::read(value, enabled_ns, running_ns))
}

fn health() -> Health {
    let mut health = Health::new(HOSTILE);
    let mut mode = ModeHealth::new(HOSTILE);
    mode.samples = 990;
    mode.lost = vec![("ring_full".to_owned(), 0), (HOSTILE.to_owned(), 2)];
    mode.walks = vec![("root".to_owned(), u64::MAX), (HOSTILE.to_owned(), 10)];
    health.modes = vec![mode, ModeHealth::new("off-cpu")];
    let user = Histogram::from_iter([0, 1, 500, 2_000_000, u64::MAX]);
    health.symbolize = Some({
        let mut symbolize = SymbolizeHealth::default();
        symbolize.user = user;
        symbolize
    });
    health.debuginfod = Some({
        let mut debuginfod = DebuginfodHealth::default();
        debuginfod.fetches = vec![("hit".to_owned(), 4), (HOSTILE.to_owned(), 1)];
        debuginfod
    });
    health.agent_cpu = Duration::from_nanos(1);
    health.bpf_cpu = vec![(HOSTILE.to_owned(), Duration::MAX), ("cpu_sample".to_owned(), Duration::ZERO)];
    health.resident_bytes = Some(u64::MAX);
    health.bpf_memory_bytes = Some(0);
    health
}

fn snapshot(counters: Vec<Counter>) -> MetricsSnapshot {
    let scheduling = Scheduling {
        context_switches: ContextSwitches { preempted: 1, voluntary: 2, io_wait: 3 },
        migrations: 4,
        on_cpu_ns_total: 5,
        on_cpu: Histogram::from_iter([1, 4_000, 1 << 41]),
        runqueue: Histogram::new(),
    };
    let processes = (1..50).map(|pid| {
        ProcessMetrics::new(pid, format!("hidden-{HOSTILE}"), scheduling.clone(), HardwareCounters::default())
    });
    let span = Span { start: SystemTime::UNIX_EPOCH, duration: Duration::from_secs(10) };
    let scope = Scope::SystemWide { per_pid: true };
    MetricsSnapshot::new(scope, span, processes, HardwareCounters::new(counters), Incomplete::default())
}

#[test]
fn any_names_give_valid_openmetrics() {
    let snapshot = snapshot(vec![counter("cycles", 7, 10, 10), counter(HOSTILE, 8, 10, 5)]);
    let text = expose(Exposition::OpenMetrics, &health(), Some(&snapshot));
    let families = checked(&text);
    assert!(families.len() > 15, "{:?}", families.keys());
    let label = |family: &str, label: &str| {
        let samples = families[family].samples.iter();
        samples.map(|(_, labels, _)| labels[label].clone()).collect::<BTreeSet<_>>()
    };
    for (family, name) in [
        ("perf_agent_build", "version"),
        ("perf_agent_samples", "mode"),
        ("perf_agent_lost", "cause"),
        ("perf_agent_counter", "event"),
        ("perf_agent_bpf_seconds", "program"),
    ] {
        assert!(label(family, name).contains(HOSTILE), "{family} is read as it was meant");
    }
    assert!(!text.contains("hidden-"), "no process is named");
    checked(&expose(Exposition::OpenMetrics, &Health::new(""), None));
}

#[test]
fn no_counter_ever_falls() {
    let exposer = Exposer::new();
    let mut last: BTreeMap<(String, Labels), f64> = BTreeMap::new();
    // Scaled to 2000, 1111, 2222; the values of the profiler shrink meanwhile.
    let rounds = [(1000, 10, 5, 9), (1000, 10, 9, 5), (2000, 10, 9, 12)];
    let mut seen = Vec::new();
    for (round, (value, enabled, running, number)) in rounds.into_iter().enumerate() {
        let mut health = health();
        health.modes[0].samples = number;
        health.agent_cpu = Duration::from_millis(number);
        health.resident_bytes = Some(number);
        health.symbolize.as_mut().unwrap().user = (0..number).map(|ns| ns * 1000).collect();
        let snapshot = snapshot(vec![counter("cycles", value, enabled, running)]);
        let text = exposer.expose(Exposition::OpenMetrics, &health, Some(&snapshot));
        let families = checked(&text);
        for (name, family) in &families {
            for (sample, labels, value) in &family.samples {
                let before = last.insert((sample.clone(), labels.clone()), *value);
                let may_fall = family.kind == "gauge";
                assert!(may_fall || before.is_none_or(|before| before <= *value), "{name} falls in {round}");
            }
        }
        let of = |family: &str| families[family].samples[0].2;
        seen.push([of("perf_agent_counter"), of("perf_agent_samples"), of("perf_agent_resident_bytes")]);
        let prometheus = exposer.expose(Exposition::Prometheus, &health, Some(&snapshot));
        let line = format!("perf_agent_counter_total{{event=\"cycles\"}} {}", of("perf_agent_counter"));
        assert!(prometheus.lines().any(|found| found == line), "{line} is not in {prometheus}");
    }
    assert_eq!(seen, [[2000.0, 9.0, 9.0], [2000.0, 9.0, 5.0], [2222.0, 12.0, 12.0]]);
}

#[test]
fn the_parser_is_strict() {
    let good = "# TYPE a counter\n# HELP a A.\na_total{x=\"1\"} 1\n# EOF\n";
    checked(good);
    for bad in [
        "# TYPE a counter\n# HELP a A.\na_total 1\n",
        "# TYPE a counter\n# HELP a A.\na 1\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total 1\na_total 2\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total{x=\"1\",x=\"2\"} 2\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total{x=\"\\t\"} 2\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total{x=\"1\"\n# EOF\n",
        "# TYPE a counter\na_total 1\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total 1\n# TYPE b gauge\n# HELP b B.\nb 1\n# HELP a A.\n# EOF\n",
        "# TYPE a_seconds counter\n# HELP a_seconds A.\na_seconds_total 1\n# EOF\n",
        "# TYPE a counter\n# UNIT a bytes\n# HELP a A.\na_total 1\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\n\na_total 1\n# EOF\n",
    ] {
        assert!(std::panic::catch_unwind(|| checked(bad)).is_err(), "{bad}");
    }
}
