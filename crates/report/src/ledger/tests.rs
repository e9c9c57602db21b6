use std::time::Duration;

use profile::{Location, Sample, Svma};
use recording::{
    Accounting, Counters, Event, MissingStack, Mode, Settings, Single, Singles, State, TaskStackId, Unit,
    WalkEnd,
};

use super::complete::{complete, of_both};
use super::model::Ledger;
use super::process::ProcessLedger;
use super::running::running;
use super::wall_clock::WallClock;
use crate::profiles::profile;
use crate::selection::SCHEDULER;
use crate::test_recording::TestRecording;

fn value(ledger: &Ledger, key: &str) -> Option<String> {
    ledger.entries().into_iter().find(|(k, _)| k == key).map(|(_, value)| value)
}

fn all_profiles() -> Settings {
    TestRecording::new().settings
}

#[test]
fn one_miss_in_a_million_is_not_a_hundred_percent() {
    let mut ledger = Ledger { samples: 1_000_000, ..Ledger::default() };
    assert_eq!(ledger.rooted_pct(), None);
    ledger.walks[0] = 999_999;
    ledger.walks[5] = 1;
    assert_eq!(ledger.rooted_pct(), Some(99.99));
    let shown = ["rooted_pct", "walks.fault", "walks.no_row", "tables_failed", "lost"];
    let shown = shown.map(|key| value(&ledger, key));
    assert_eq!(shown.each_ref().map(Option::as_deref), [Some("99.99"), Some("1"), None, None, Some("0")]);
}

#[test]
fn files_without_a_table_are_told() {
    let ledger = Ledger { tables_failed: 3, ..Ledger::default() };
    assert_eq!(value(&ledger, "tables_failed").as_deref(), Some("3"));
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
    let wall = of_both(&on_cpu, &off_cpu);
    assert_eq!((wall.samples, wall.lost(), wall.processes), (12, 7, 3));
    assert_eq!(["mode", "rate_hz"].map(|key| value(&wall, key).unwrap()), ["wall", "99"]);
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
    let statistics = Ledger { mode: Mode::Pmu, threads_lost: 2, ..begun };
    assert_eq!((value(&statistics, "samples"), value(&statistics, "walks.root")), (None, None));
    assert_eq!(value(&statistics, "threads_lost").as_deref(), Some("2"));
}

#[test]
fn the_version_is_that_of_the_agent_that_recorded() {
    let settings = Settings { agent_version: "0.0.7".to_owned(), ..all_profiles() };
    let ledgers = running(&settings, &Accounting::default());
    assert_eq!(value(&ledgers[0], "version").as_deref(), Some("0.0.7"));
    assert_eq!(value(&Ledger::default(), "version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_event_is_told_with_its_period_and_without_a_rate() {
    let of = |unit| {
        let event = Some(Event::sampled("software/task-clock", "task-clock", 1_000_000, unit));
        let settings = Settings { event, wall_profile: false, ..all_profiles() };
        let accounting = Accounting { throttled_ns: 5_000_000, ..Accounting::default() };
        running(&settings, &accounting).swap_remove(0)
    };
    let clock = of(Unit::Nanoseconds);
    let keys = ["mode", "event", "period", "rate_hz", "throttled"].map(|key| value(&clock, key));
    let keys = keys.each_ref().map(|value| value.as_deref());
    assert_eq!(keys, [Some("event"), Some("software/task-clock"), Some("1000000"), None, Some("5")]);
    assert_eq!(value(&of(Unit::Count), "throttled"), None);
}

/// Everything that the ledgers of a capture with these figures show.
fn shown(accounting: Accounting) -> String {
    let mut capture = TestRecording::new();
    capture.accounting = accounting;
    let ledgers = complete(&capture.finish());
    let entries: Vec<_> = ledgers.iter().map(Ledger::entries).collect();
    format!("{entries:?}")
}

/// A counter of the programs, by name.
type Counter = (&'static str, fn(&mut Counters) -> &mut u64);

#[test]
fn every_counter_of_the_programs_is_shown() {
    let counters: [Counter; 25] = [
        ("samples", |c| &mut c.samples),
        ("lost_ring_full", |c| &mut c.lost_ring_full),
        ("lost_map_full", |c| &mut c.lost_map_full),
        ("lost_no_memory", |c| &mut c.lost_no_memory),
        ("lost_busy", |c| &mut c.lost_busy),
        ("lost_unseen", |c| &mut c.lost_unseen),
        ("outside_namespace", |c| &mut c.outside_namespace),
        ("memo_hits", |c| &mut c.memo_hits),
        ("memo_checked", |c| &mut c.memo_checked),
        ("memo_differed", |c| &mut c.memo_differed),
        ("frames_walked", |c| &mut c.frames_walked),
        ("stacks_sent", |c| &mut c.stacks_sent),
        ("deferred", |c| &mut c.deferred),
        ("requests_lost", |c| &mut c.requests_lost),
        ("processes_lost", |c| &mut c.processes_lost),
        ("threads_lost", |c| &mut c.threads_lost),
        ("skipped_min_block", |c| &mut c.skipped_min_block),
        ("skipped_min_block_ns", |c| &mut c.skipped_min_block_ns),
        ("wakers_lost", |c| &mut c.wakers_lost),
        ("unsent_of_process", |c| &mut c.unsent_of_process),
        ("unsent_of_machine", |c| &mut c.unsent_of_machine),
        ("unsent_ring_full", |c| &mut c.unsent_ring_full),
        ("python.root", |c| &mut c.python[0]),
        ("python.open", |c| &mut c.python[7]),
        ("lifetime_ns", |c| &mut c.lifetime_ns),
    ];
    for (name, of) in counters {
        let (mut sampler, mut scheduler) = (Accounting::default(), Accounting::default());
        *of(&mut sampler.sampler) = 7_654_321;
        *of(&mut scheduler.scheduler) = 7_654_321;
        assert!(shown(scheduler).contains("7654321"), "{name} of the scheduler");
        // The sampler does not follow threads.
        let by_sampler = shown(sampler).contains("7654321") || name == "lifetime_ns";
        assert!(by_sampler, "{name} of the sampler");
    }
}

#[test]
fn the_figures_of_the_capture_as_a_whole_are_in_every_ledger() {
    let mut accounting = Accounting {
        processes: 1,
        unreadable_processes: 2,
        renames_skipped: 3,
        tables_failed: 4,
        elapsed_ns: 5,
        ..Accounting::default()
    };
    accounting.cost.agent_cpu_ns = 6;
    accounting.cost.agent_elapsed_ns = 7;
    accounting.cost.agent_rss_peak_kib = 8;
    accounting.cost.bpf_cpu_ns = Some(9);
    accounting.cost.bpf_memory_kib = 10;
    accounting.sampler.processes_lost = 11;
    for settings in [all_profiles(), Settings::default()] {
        for ledger in running(&settings, &accounting) {
            let whole = [
                ledger.processes,
                ledger.unreadable_processes,
                ledger.renames_skipped,
                ledger.tables_failed,
                ledger.elapsed.as_nanos() as u64,
                ledger.agent_cpu.as_nanos() as u64,
                ledger.agent_elapsed.as_nanos() as u64,
                ledger.agent_rss_peak_kib,
                ledger.bpf_cpu.unwrap().as_nanos() as u64,
                ledger.bpf_memory_kib,
                ledger.processes_lost,
            ];
            assert_eq!(whole, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], "{:?}", ledger.mode);
        }
    }
}

#[test]
fn samples_walked_in_user_space_are_counted_there_and_intervals_where_they_end() {
    let mut accounting = Accounting { throttled_ns: 500_000_000, ..Accounting::default() };
    (accounting.sampler.samples, accounting.scheduler.samples) = (100, 100);
    (accounting.sampler.deferred, accounting.scheduler.deferred) = (9, 9);
    for ends in &mut accounting.deferred_walks {
        (ends[WalkEnd::Root as usize], ends[WalkEnd::Exiting as usize]) = (3, 2);
    }
    let ledgers = running(&all_profiles(), &accounting);
    let figures = ledgers.iter().map(|ledger| {
        [ledger.samples, ledger.deferred, ledger.deferred_pending, ledger.walks[0], ledger.no_user_stack]
    });
    assert_eq!(figures.collect::<Vec<_>>(), [[105, 5, 4, 3, 2], [100, 5, 4, 3, 2]]);
    assert_eq!((ledgers[0].throttled, ledgers[1].throttled), (50, 0));
}

#[test]
fn what_exceeded_a_limit_is_lost_in_the_profiles_that_would_show_it() {
    let mut accounting = Accounting { wakers_not_kept: 6, ..Accounting::default() };
    (accounting.sampler.samples, accounting.scheduler.samples) = (100, 100);
    accounting.not_kept[State::Sampled as usize] = 5;
    accounting.not_kept[State::Blocked as usize] = 7;
    accounting.not_kept[State::Preempted as usize] = 11;
    let mut capture = TestRecording::new();
    capture.settings.off_cpu_states = vec![recording::OffCpuState::Blocked];
    let mut symbolized = capture.finish();
    symbolized.recording.accounting = accounting;
    let ledgers = complete(&symbolized);
    let figures = ledgers.iter().map(|ledger| (ledger.samples, ledger.lost_memory_limit, ledger.wakers_lost));
    assert_eq!(figures.collect::<Vec<_>>(), [(95, 5, 0), (93, 7, 6), (188, 23, 6)]);
}

#[test]
fn a_sample_whose_stack_never_came_is_lost_for_another_cause() {
    let mut symbolized = TestRecording::new().finish();
    let accounting = &mut symbolized.recording.accounting;
    accounting.sampler.samples = 100;
    accounting.without_stack[State::Sampled as usize] = 5;
    let ledgers = complete(&symbolized);
    let figures = (ledgers[0].samples, ledgers[0].lost_memory_limit, ledgers[0].lost_no_memory);
    assert_eq!(figures, (95, 0, 5));
}

#[test]
fn without_a_profile_there_is_one_ledger_of_what_is_missing() {
    let mut accounting = Accounting::default();
    (accounting.scheduler.threads_lost, accounting.scheduler.requests_lost) = (2, 3);
    accounting.scheduler.samples = 5;
    // A wall-clock profile consists of both others: alone it is none.
    for wall_profile in [false, true] {
        let ledgers = running(&Settings { wall_profile, ..Settings::default() }, &accounting);
        assert_eq!(ledgers.len(), 1);
        let ledger = &ledgers[0];
        assert_eq!((ledger.mode, ledger.event.as_str()), (Mode::Pmu, "sched:sched_switch"));
        assert_eq!((ledger.threads_lost, ledger.requests_lost, ledger.samples), (2, 3, 0));
    }
}

#[test]
fn every_sample_is_in_one_figure_of_its_stack() {
    let mut capture = TestRecording::new();
    // The programs walked other stacks besides.
    (capture.accounting.scheduler.walks, capture.accounting.scheduler.frames) =
        ([100; WalkEnd::ALL.len()], 100);
    let frames = ["a", "b"].map(|name| capture.frame(name));
    for (samples, end) in WalkEnd::ALL.into_iter().enumerate() {
        let stack = capture.stack(&[], &frames, end, State::Blocked);
        capture.add_intervals(stack, samples as u64 + 1, 10, 0);
    }
    let not_run = capture.missing(MissingStack::NotRunYet, State::NotRunYet);
    capture.add_intervals(not_run, 100, 1, 1);
    let asleep = capture.missing(MissingStack::AsleepBefore, State::Blocked);
    capture.add_intervals(asleep, 1000, 1, 0);
    let ledgers = complete(&capture.finish());
    let ledger = &ledgers[1];
    let walked: u64 = (1..=WalkEnd::ALL.len() as u64).sum();
    let all =
        ledger.walks.iter().sum::<u64>() + ledger.no_user_stack + ledger.not_run_yet + ledger.asleep_before;
    assert_eq!((all, ledger.frames), (walked + 1100, 2 * walked));
    assert_eq!((ledger.stacks, ledger.no_user_stack), (WalkEnd::ALL.len() as u64 + 2, 10 + 11));
    assert_eq!((ledger.not_run_yet, ledger.asleep_before), (100, 1000));
    assert_eq!(ledger.off_cpu_ns, WalkEnd::ALL.len() as u64 * 10 + 2);
}

#[test]
fn samples_that_are_missing_among_the_single_samples_are_told_and_are_not_lost() {
    let mut symbolized = TestRecording::new().finish();
    symbolized.recording.singles = Some(Singles { samples: Vec::new(), lost: 5 });
    let ledgers = complete(&symbolized);
    let told = ledgers.iter().map(|ledger| (value(ledger, "singles_lost"), ledger.lost()));
    assert_eq!(told.collect::<Vec<_>>(), [(Some("5".to_owned()), 0), (None, 0), (None, 0)]);
    // Where single intervals are recorded, they may be missing too.
    let wait = Single {
        at_ns: 1,
        cpu: 0,
        tid: 7,
        event: SCHEDULER,
        stack: TaskStackId(0),
        values: vec![1, 9],
        waker: None,
    };
    symbolized.recording.singles = Some(Singles { samples: vec![wait], lost: 5 });
    let told: Vec<_> = complete(&symbolized).iter().map(|ledger| value(ledger, "singles_lost")).collect();
    assert_eq!(told, [Some("5".to_owned()), Some("5".to_owned()), None]);
}

#[test]
fn frames_are_weighted_by_samples_and_those_of_wakers_count_too() {
    let mut capture = TestRecording::new();
    let (named, nameless) = (capture.frame("named"), capture.nameless("/lib/x", 1));
    let by_start = capture.nameless("/lib/x", 2);
    capture.names.enter_start(by_start, Svma(1));
    let sampled = capture.stack(&[], &[nameless, by_start, named], WalkEnd::Root, State::Sampled);
    capture.add_samples(sampled, 3);
    let blocked = capture.stack(&[], &[named], WalkEnd::Root, State::Blocked);
    let waker = capture.waker(1, "w");
    let waker = capture.stack_of(waker, &[], &[nameless], WalkEnd::Root, State::Waker);
    capture.add_woken(blocked, waker, 5, 50);
    let ledgers = complete(&capture.finish());
    let frames: Vec<_> = ledgers.iter().map(|ledger| (ledger.shown.named, ledger.shown.shown())).collect();
    // No time on CPUs was accounted, so the wall-clock profile does not show the samples.
    assert_eq!(frames, [(3, 9), (5, 10), (5, 10)]);
    let unnamed: Vec<_> =
        ledgers.iter().map(|ledger| (ledger.shown.by_start, ledger.shown.no_start)).collect();
    assert_eq!(unnamed, [(3, 3), (0, 5), (0, 5)]);
    assert_eq!(value(&ledgers[0], "function_start_pct").as_deref(), Some("33.33"));
    assert_eq!(value(&ledgers[0], "no_function_start").as_deref(), Some("3"));
}

#[test]
fn each_frame_without_a_name_is_counted_under_one_cause() {
    let mut capture = TestRecording::new();
    let by_start = capture.nameless("/lib/x", 1);
    capture.names.enter_start(by_start, Svma(1));
    let kernel = [capture.kernel_frame("schedule"), capture.nameless_kernel(1), capture.nameless_kernel(2)];
    let user = [
        capture.nameless("/lib/x", 2),
        by_start,
        capture.unread("/lib/gone", 3),
        capture.jit_frame(4),
        capture.interpreted_frame("f"),
        capture.unmapped(5),
        capture.unmapped(6),
        capture.frame("main"),
    ];
    // What states a fact is no frame.
    let cut = capture.stack(&kernel, &user, WalkEnd::Fault, State::Sampled);
    capture.add_samples(cut, 10);
    let whole = capture.stack(&[], &user[6..], WalkEnd::Root, State::Sampled);
    capture.add_samples(whole, 1);
    let symbolized = capture.finish();
    let ledger = &complete(&symbolized)[0];
    let counted = |key| value(ledger, key).map_or(0, |count| count.parse().unwrap());
    let causes = ledger.shown.nameless().map(|(key, _)| (key, counted(key)));
    let expected = [
        ("no_function_start", 10),
        ("nameless.other_file", 10),
        ("nameless.kernel", 20),
        ("nameless.jit", 10),
        ("nameless.interpreted", 10),
        ("nameless.unmapped", 21),
    ];
    assert_eq!(causes, expected);
    // Counted another way: the places of the profile that show no function.
    let profile = profile(&symbolized, Mode::OnCpu, &[]);
    let is_nameless = |location: &Location| {
        let first = location.lines.first().map(|line| &profile.functions[line.function.0 as usize]);
        first.is_none_or(|function| ["[unknown]", "[jit]", "[interpreted]"].contains(&&*function.name))
    };
    let of_sample = |sample: &Sample| {
        let locations = sample.locations.iter().map(|id| &profile.locations[id.0 as usize]);
        sample.values[0] * locations.filter(|location| is_nameless(location)).count() as i64
    };
    let unnamed: i64 = profile.samples.iter().map(of_sample).sum();
    assert_eq!(causes.iter().map(|(_, count)| count).sum::<i64>(), unnamed);
    assert_eq!((ledger.shown.named, ledger.shown.by_start), (10 + 11, 10));
}

#[test]
fn the_states_of_all_threads_add_up_to_their_lifetime() {
    let mut capture = TestRecording::new();
    let leaf = ["a", "b", "c"].map(|name| capture.frame(name));
    let sampled = [0, 1].map(|at| capture.stack(&[], &leaf[at..=at], WalkEnd::Root, State::Sampled));
    capture.add_samples(sampled[0], 1);
    capture.add_samples(sampled[1], 2);
    let accounted = capture.stack(&[], &[], WalkEnd::NoUserStack, State::OnCpu);
    capture.add_intervals(accounted, 1, 300, 0);
    let blocked = capture.stack(&[], &leaf, WalkEnd::Root, State::Blocked);
    capture.add_intervals(blocked, 2, 500, 100);
    let io = capture.stack(&[], &leaf, WalkEnd::Root, State::IoWait);
    capture.add_intervals(io, 2, 70, 20);
    let other = capture.builder.task(Some(8), Vec::new(), None).unwrap();
    let unsampled = capture.stack_of(other, &[], &[], WalkEnd::NoUserStack, State::OnCpu);
    capture.add_intervals(unsampled, 1, 7, 0);
    let gate = capture.missing(MissingStack::Gate, State::OnCpu);
    capture.add_intervals(gate, 1, 23, 0);
    let gate = capture.missing(MissingStack::Gate, State::Sampled);
    capture.add_samples(gate, 4);
    capture.accounting.scheduler.lifetime_ns = 900;
    capture.accounting.sampler.samples = 7;
    capture.accounting.scheduler.samples = 4;
    let ledgers = complete(&capture.finish());
    assert_eq!(ledgers.iter().map(|ledger| ledger.samples).collect::<Vec<_>>(), [3, 4, 7]);
    let expected =
        WallClock { on_cpu_ns: 307, run_queue_ns: 120, blocked_ns: 400, io_wait_ns: 50, threads_ns: 877 };
    assert_eq!(ledgers[2].wall_clock, Some(expected));
    assert_eq!(value(&ledgers[2], "wall.identity_pct").as_deref(), Some("100.00"));
    assert_eq!(ledgers[2].each_process().count(), 0);
    assert_eq!((ledgers[0].stacks, ledgers[1].stacks, ledgers[2].stacks), (2, 2, 4));
}

#[test]
fn each_process_has_its_own_part() {
    let mut capture = TestRecording::new();
    for (end, state) in [(WalkEnd::Root, State::Blocked), (WalkEnd::Fault, State::Blocked)] {
        let stack = capture.stack(&[], &[], end, state);
        capture.add_intervals(stack, 3, 500, 0);
    }
    let asleep = capture.missing(MissingStack::AsleepBefore, State::Blocked);
    capture.add_intervals(asleep, 3, 500, 0);
    let other = capture.builder.task(Some(8), Vec::new(), None).unwrap();
    let stack = capture.stack_of(other, &[], &[], WalkEnd::NoUserStack, State::Sampled);
    capture.add_samples(stack, 3);
    let ledgers = complete(&capture.finish());
    let seven = ledgers[1].process(7).unwrap();
    assert_eq!((seven.samples, seven.off_cpu_ns, seven.no_user_stack), (9, 1500, 3));
    assert_eq!((seven.walks[0], seven.walks[5], seven.rooted_pct()), (3, 3, Some(50.0)));
    let eight = ProcessLedger { samples: 3, no_user_stack: 3, ..ProcessLedger::default() };
    assert_eq!((ledgers[0].process(8), eight.rooted_pct()), (Some(&eight), None));
    assert_eq!(ledgers[0].process(9), None);
    assert_eq!(ledgers[1].each_process().map(|(pid, _)| pid).collect::<Vec<_>>(), [7]);
}

/// 999 short waits and a long one: what a picture of time shows is the long one.
#[test]
fn rooted_and_named_are_by_time_where_the_profile_is_of_time() {
    let mut capture = TestRecording::new();
    let (named, nameless) = (capture.frame("wait"), capture.nameless("/lib/x", 2));
    let whole = capture.stack(&[], &[named], WalkEnd::Root, State::Blocked);
    capture.add_intervals(whole, 999, 710, 0);
    let cut = capture.stack(&[], &[nameless], WalkEnd::ZeroFrame, State::Blocked);
    capture.add_intervals(cut, 1, 290, 0);
    let ledger = &complete(&capture.finish())[1];
    assert_eq!((ledger.rooted_pct(), ledger.symbolized_pct()), (Some(71.0), Some(71.0)));
    assert_eq!(value(ledger, "rooted_pct").as_deref(), Some("71.00"));
    assert_eq!(value(ledger, "walks.root").as_deref(), Some("999"));
    assert_eq!(value(ledger, "walks.zero_frame").as_deref(), Some("1"));
    assert_eq!(value(ledger, "no_function_start").as_deref(), Some("1"));
    assert_eq!(ledger.process(7).unwrap().rooted_pct(), Some(71.0));
}

#[test]
fn figures_of_any_size_saturate() {
    let most = Counters {
        samples: u64::MAX,
        lost_busy: u64::MAX,
        walks: [u64::MAX; WalkEnd::ALL.len()],
        ..Counters::default()
    };
    let accounting = Accounting {
        sampler: Counters { threads_lost: u64::MAX, lost_no_memory: 1, lost_ring_full: u64::MAX, ..most },
        scheduler: Counters { processes_lost: u64::MAX, ..most },
        deferred_walks: [[u64::MAX; WalkEnd::ALL.len()]; 2],
        not_kept: [u64::MAX; State::ALL.len()],
        without_stack: [u64::MAX; State::ALL.len()],
        wakers_not_kept: u64::MAX,
        throttled_ns: u64::MAX,
        ..Accounting::default()
    };
    let mut capture = TestRecording::new();
    let frame = capture.frame("a");
    for state in [State::Sampled, State::Blocked, State::OnCpu] {
        let stack = capture.stack(&[], &[frame, frame], WalkEnd::Root, state);
        capture.add_samples(stack, u64::MAX);
        capture.add_intervals(stack, u64::MAX, u64::MAX, 1);
    }
    let mut symbolized = capture.finish();
    symbolized.recording.accounting = accounting;
    for ledger in complete(&symbolized) {
        assert_eq!(ledger.lost(), u64::MAX);
        assert!(!ledger.entries().is_empty());
    }
}
