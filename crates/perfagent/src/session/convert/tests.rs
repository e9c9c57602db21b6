//! Every counter of the programs is visible in an output.

use std::time::{Duration, SystemTime};

use kernel::COUNTERS;
use metrics::{Exposition, HardwareCounters, MetricsSnapshot, ProcessMetrics, Scheduling, Scope, Span};
use recording::{Accounting, Recording, Settings, SymbolizedRecording};
use report::EndedBy;

use super::counters;
use crate::health;
use crate::sources::sched_stats::incomplete;

const NONE: [u64; COUNTERS] = [0; COUNTERS];
/// A count that no other figure has.
const MANY: u64 = 7_654_321;

/// The counters of the programs by name and number, as their source has them.
fn all_counters() -> Vec<(&'static str, usize)> {
    let source = include_str!("../../../../../bpf/abi/counters.h");
    let body = source.split_once("\nenum counter {").unwrap().1.split_once("};").unwrap().0;
    let entries = body.lines().filter_map(|line| line.trim().split_once(" = "));
    let entry = |(name, rest): (&'static str, &str)| (name, rest.split_once(',').unwrap().0.parse().unwrap());
    let mut counters: Vec<_> = entries.map(entry).filter(|(name, _)| *name != "COUNTERS").collect();
    let walks = counters.iter().find(|(name, _)| *name == "COUNT_WALKS").unwrap().1;
    counters.extend((1..kernel::WalkEnd::ALL.len()).map(|end| ("an end of a walk", walks + end)));
    assert!(counters.len() > 25 && counters.iter().all(|(_, number)| *number < COUNTERS), "{counters:?}");
    counters
}

/// All texts that users and programs get of a capture with these counters of the sampler and of the programs that follow threads, while
/// it goes on and at its end.
fn shown(sampler: [u64; COUNTERS], scheduler: [u64; COUNTERS]) -> Vec<(String, String)> {
    let [sampler, scheduler] = [sampler, scheduler].map(|sums| kernel::Counters::from_sums(&sums));
    let settings = Settings {
        cpu_profile: true,
        off_cpu_profile: true,
        wall_profile: true,
        locks: true,
        off_cpu_states: crate::OffCpuState::NAMES.map(|(_, state)| state).to_vec(),
        ..Settings::default()
    };
    let accounting =
        Accounting { sampler: counters(&sampler), scheduler: counters(&scheduler), ..Accounting::default() };
    let running = report::running(&settings, &accounting);
    let health = health::of(&running);
    let recording = Recording { settings, accounting, ..Recording::default() };
    let symbolized = SymbolizedRecording { recording, ..SymbolizedRecording::default() };
    let complete = report::Report::of(&symbolized, EndedBy::Request).ledgers;
    let span = Span { start: SystemTime::UNIX_EPOCH, duration: Duration::ZERO };
    let all = ProcessMetrics::of_all(Scheduling::default(), HardwareCounters::default());
    let missing = incomplete(&sampler, &scheduler);
    let scope = Scope::Pids(vec![1]);
    let snapshot = MetricsSnapshot::new(scope, span, [all], HardwareCounters::default(), missing);
    let ledger = |when: &str, ledger: &crate::Ledger| {
        (format!("{when} {} ledger", ledger.mode.name()), format!("{:?}", ledger.entries()))
    };
    let mut places: Vec<_> = running.iter().map(|one| ledger("running", one)).collect();
    places.extend(complete.iter().map(|one| ledger("complete", one)));
    places.extend([
        ("report".to_owned(), metrics::text_report(&snapshot)),
        ("JSON".to_owned(), metrics::json_report(&snapshot)),
        ("endpoint".to_owned(), metrics::expose(Exposition::OpenMetrics, &health, Some(&snapshot))),
    ]);
    places
}

#[test]
fn whatever_the_programs_count_is_shown() {
    let nothing = shown(NONE, NONE);
    // The recording counts lost single samples beside the others; a test of the ledger covers them.
    // The hits of goroutines are what the price of following them is reckoned from.
    let elsewhere = ["COUNT_SINGLES_LOST", "COUNT_GO_HITS"];
    for (name, number) in all_counters().into_iter().filter(|(name, _)| !elsewhere.contains(name)) {
        let mut sums = NONE;
        sums[number] = MANY;
        let (by_sampler, by_scheduler) = (shown(sums, NONE), shown(NONE, sums));
        let changed = |all: &[(String, String)]| {
            all.iter().zip(&nothing).any(|((_, now), (_, before))| now != before && now.contains("7654321"))
        };
        // Only the programs that follow threads count these.
        let of_threads = [
            "WAKERS",
            "LIFETIME",
            "UNSEEN",
            "SWITCHES",
            "READS",
            "SKIPPED_MIN_BLOCK",
            "SEAMS",
            "LOCK",
            "OWNERS",
            "LENGTHS",
        ];
        assert!(changed(&by_scheduler), "{name}, of the programs that follow threads, is shown nowhere");
        assert!(
            changed(&by_sampler) || of_threads.iter().any(|what| name.contains(what)),
            "{name}, of the sampler, is shown nowhere"
        );
    }
}

#[test]
fn children_that_are_lost_are_told_in_every_mode() {
    let (_, number) = all_counters().into_iter().find(|(name, _)| *name == "COUNT_PROCS_LOST").unwrap();
    let mut sums = NONE;
    sums[number] = MANY;
    for (place, text) in shown(sums, NONE) {
        let expected = if place == "report" { "7654321 processes not followed" } else { "7654321" };
        assert!(text.contains(expected), "{place}: {text}");
    }
}

#[test]
fn losses_besides_the_counters_are_told_in_every_ledger() {
    let settings = Settings { cpu_profile: true, off_cpu_profile: true, ..Settings::default() };
    for key in ["life_lost", "side_band_lost", "renames_skipped", "tables_failed", "unreadable_processes"] {
        let mut accounting = Accounting::default();
        *match key {
            "life_lost" => &mut accounting.life_lost,
            "side_band_lost" => &mut accounting.side_band_lost,
            "renames_skipped" => &mut accounting.renames_skipped,
            "tables_failed" => &mut accounting.tables_failed,
            _ => &mut accounting.unreadable_processes,
        } = MANY;
        for ledger in report::running(&settings, &accounting) {
            assert!(ledger.entries().contains(&(key.to_owned(), MANY.to_string())), "{key}: {ledger:?}");
        }
    }
}
