use std::time::SystemTime;

use kernel::COUNTERS;
use metrics::{Exposition, HardwareCounters, MetricsSnapshot, ProcessMetrics, Scheduling, Scope, Span};

use super::*;
use crate::health;

#[test]
fn one_miss_in_a_million_is_not_a_hundred_percent() {
    let mut ledger = Ledger { samples: 1_000_000, ..Ledger::default() };
    assert_eq!(ledger.rooted_pct(), None);
    ledger.walks[0] = 999_999;
    ledger.walks[5] = 1;
    assert_eq!(ledger.rooted_pct(), Some(99.99));
    let entries = ledger.entries();
    let value = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    assert_eq!(value("rooted_pct"), Some("99.99"));
    assert_eq!(value("walks.fault"), Some("1"));
    assert_eq!(value("walks.no_row"), None);
    assert_eq!(value("tables_failed"), None);
    assert_eq!(value("lost"), Some("0"));
}

#[test]
fn files_without_a_table_are_told() {
    let ledger = Ledger { tables_failed: 3, ..Ledger::default() };
    assert!(ledger.entries().contains(&("tables_failed".to_owned(), "3".to_owned())));
}

/// The counters of the programs by name and number, as their source has them.
fn all_counters() -> Vec<(&'static str, usize)> {
    let source = include_str!("../../../../bpf/abi.h");
    let body = source.split_once("\nenum counter {").unwrap().1.split_once("};").unwrap().0;
    let entries = body.lines().filter_map(|line| line.trim().split_once(" = "));
    let entry = |(name, rest): (&'static str, &str)| (name, rest.split_once(',').unwrap().0.parse().unwrap());
    let mut counters: Vec<_> = entries.map(entry).filter(|(name, _)| *name != "COUNTERS").collect();
    let walks = counters.iter().find(|(name, _)| *name == "COUNT_WALKS").unwrap().1;
    counters.extend((1..WalkEnd::ALL.len()).map(|end| ("an end of a walk", walks + end)));
    assert!(counters.len() > 25 && counters.iter().all(|(_, number)| *number < COUNTERS), "{counters:?}");
    counters
}

/// All that people and programs see of a capture, in which the programs of the sampler, and those that follow threads, have
/// counted so much.
fn shown(sampler: [u64; COUNTERS], scheduler: [u64; COUNTERS]) -> Vec<(String, String)> {
    let (sampler, scheduler) = (Counters::from_sums(&sampler), Counters::from_sums(&scheduler));
    let mut on_cpu = Ledger::default();
    on_cpu.take(&sampler, &scheduler);
    let mut off_cpu = Ledger { mode: Mode::OffCpu, ..Ledger::default() };
    off_cpu.take(&scheduler, &sampler);
    let mut wall = Ledger::of_wall_clock(&on_cpu, &off_cpu);
    wall.wall_clock = Some(WallClock { threads_ns: scheduler.lifetime_ns, ..WallClock::default() });
    let incomplete = crate::capture::incomplete(&sampler, &scheduler);
    let span = Span { start: SystemTime::UNIX_EPOCH, duration: Duration::ZERO };
    let all = ProcessMetrics::of_all(Scheduling::default(), HardwareCounters::default());
    let scope = Scope::Pids(vec![1]);
    let snapshot = MetricsSnapshot::new(scope, span, [all], HardwareCounters::default(), incomplete);
    let health = health::of(&[on_cpu.clone(), off_cpu.clone()]);
    let [on_cpu, off_cpu, wall] = [on_cpu, off_cpu, wall].map(|ledger| format!("{:?}", ledger.entries()));
    vec![
        ("on-CPU ledger".to_owned(), on_cpu),
        ("off-CPU ledger".to_owned(), off_cpu),
        ("wall-clock ledger".to_owned(), wall),
        ("report".to_owned(), metrics::text_report(&snapshot)),
        ("JSON".to_owned(), metrics::json_report(&snapshot)),
        ("endpoint".to_owned(), metrics::expose(Exposition::OpenMetrics, &health, Some(&snapshot))),
    ]
}

#[test]
fn whatever_the_programs_count_is_shown() {
    const NONE: [u64; COUNTERS] = [0; COUNTERS];
    let nothing = shown(NONE, NONE);
    for (name, number) in all_counters() {
        let mut sums = NONE;
        sums[number] = 7_654_321;
        let (by_sampler, by_scheduler) = (shown(sums, NONE), shown(NONE, sums));
        let changed = |all: &[(String, String)]| {
            all.iter().zip(&nothing).any(|((_, now), (_, before))| now != before && now.contains("7654321"))
        };
        // What only those count that follow threads.
        let of_threads = ["WAKERS", "LIFETIME", "UNSEEN", "SWITCHES", "READS", "SKIPPED_MIN_BLOCK", "SEAMS"];
        assert!(changed(&by_scheduler), "{name}, of those that follow threads, is shown nowhere");
        assert!(
            changed(&by_sampler) || of_threads.iter().any(|what| name.contains(what)),
            "{name}, of the sampler, is shown nowhere"
        );
    }
}

#[test]
fn children_that_are_lost_are_told_in_every_mode() {
    let mut sums = [0; COUNTERS];
    let (_, number) = all_counters().into_iter().find(|(name, _)| *name == "COUNT_PROCS_LOST").unwrap();
    sums[number] = 7_654_321;
    for (place, text) in shown(sums, [0; COUNTERS]) {
        let expected = if place == "report" { "7654321 processes not followed" } else { "7654321" };
        assert!(text.contains(expected), "{place}: {text}");
    }
}

fn value(ledger: &Ledger, key: &str) -> Option<String> {
    ledger.entries().into_iter().find(|(k, _)| k == key).map(|(_, value)| value)
}

#[test]
fn every_sample_is_in_one_figure_of_its_stack() {
    let mut ledger = Ledger { mode: Mode::OffCpu, ..Ledger::default() };
    // What the programs have walked besides.
    (ledger.walks, ledger.no_user_stack, ledger.frames) = ([100; 9], 100, 100);
    ledger.begin_content();
    for (samples, end) in WalkEnd::ALL.iter().enumerate() {
        ledger.add_content(StackOf::Walk(*end), samples as u64, 2);
    }
    ledger.add_content(StackOf::NotRunYet, 100, 0);
    ledger.add_content(StackOf::AsleepBefore, 1000, 0);
    let all =
        ledger.walks.iter().sum::<u64>() + ledger.no_user_stack + ledger.not_run_yet + ledger.asleep_before;
    let walked: u64 = (0..WalkEnd::ALL.len() as u64).sum();
    assert_eq!((all, ledger.frames), (walked + 1100, 2 * walked));
    assert_eq!(ledger.stacks, WalkEnd::ALL.len() as u64 + 2);
    assert_eq!(
        (value(&ledger, "not_run_yet"), value(&ledger, "asleep_before")),
        (Some("100".into()), Some("1000".into()))
    );
}

#[test]
fn all_time_lacks_what_either_profile_lacks() {
    let on_cpu = Ledger { samples: 5, rate_hz: 99, lost_ring_full: 1, processes: 3, ..Ledger::default() };
    let off_cpu = Ledger {
        mode: Mode::OffCpu,
        samples: 7,
        lost_ring_full: 2,
        lost_unseen: 4,
        processes: 3,
        ..Ledger::default()
    };
    let wall = Ledger::of_wall_clock(&on_cpu, &off_cpu);
    assert_eq!((wall.samples, wall.lost(), wall.processes), (12, 7, 3));
    let shown = ["mode", "rate_hz"].map(|key| value(&wall, key).unwrap());
    assert_eq!(shown, ["wall", "99"]);
}

#[test]
fn what_was_not_measured_is_not_told() {
    let begun = Ledger {
        agent_cpu: Duration::from_millis(30),
        agent_elapsed: Duration::from_millis(40),
        ..Ledger::default()
    };
    assert_eq!(value(&begun, "agent_cpu_pct").as_deref(), Some("75.00"));
    assert_eq!(value(&begun, "bpf_memory_kib").as_deref(), Some("0"));
    let never = Ledger { never_began: true, ..begun.clone() };
    for key in ["bpf_memory_kib", "processes", "unreadable_processes", "frames", "stacks"] {
        assert_eq!(value(&never, key), None, "{key}");
    }
    let figures = Ledger { mode: Mode::Pmu, threads_lost: 2, ..begun };
    assert_eq!((value(&figures, "samples"), value(&figures, "walks.root")), (None, None));
    assert_eq!(value(&figures, "threads_lost").as_deref(), Some("2"));
}
