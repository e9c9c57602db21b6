//! Several events in one capture, with known answers for each: every one has its own counts, whole stacks, ledger and files.

use std::collections::BTreeMap;
use std::path::Path;

use perfagent::{AgentBuilder, Mode, Recording};

use super::{captured_of, folded_of, has_tracepoint, rooted};

const SOURCE: &str = include_str!("several.c");
const CALLS: u64 = 4000;
const NAPS: u64 = CALLS / 8;
const PERIOD: u64 = 5;

/// All events that can be sampled at once, of the program at this path.
fn events(program: &Path) -> [String; 6] {
    let program = program.display();
    [
        "page-faults".to_owned(),
        "context-switches".to_owned(),
        format!("uprobe:{program}:work n=%di:u64 value=n:bytes"),
        "minor-faults".to_owned(),
        "syscalls:sys_enter_clock_nanosleep".to_owned(),
        format!("uprobe:{program}:nap period={PERIOD}"),
    ]
}

fn sampling(builder: AgentBuilder, program: &Path) -> AgentBuilder {
    events(program).iter().fold(builder, |builder, event| builder.event(event))
}

fn flags() -> [String; 1] {
    [format!("-DCALLS={CALLS}")]
}

/// Sums of the stacks through `one`, `two` and both that go on as given.
fn by_caller(recording: &Recording, mode: Mode, then: &str) -> [u64; 2] {
    let stacks = folded_of(recording, mode);
    ["one", "two"].map(|caller| rooted(&stacks, &format!("{caller};work{then}")))
}

#[test]
fn six_events_at_once_are_counted_each_by_itself_with_whole_stacks() {
    if !has_tracepoint("syscalls/sys_enter_clock_nanosleep") {
        testkit::skip!("the kernel has no tracepoints of system calls here");
    }
    let captured = captured_of(SOURCE, &flags(), sampling);
    let Some((report, switches)) = captured else { return };
    let recording = report.recording();
    let further = |number| Mode::FurtherEvent(number);
    assert_eq!(recording.modes(), [Mode::Event, further(1), further(2), further(3), further(4), further(5)]);
    let ledger = |mode| report.ledger(mode).unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    // Those that the kernel counts may happen while a preempted thread changes a map of BPF: see `is_all`.
    let is_all = |found: u64, expected: u64, mode| {
        let unseen = ledger(mode).not_run + 2 * cpus;
        // A probe changes a page of code, which is then met anew.
        let expected = expected.saturating_sub(unseen)..=expected + 2;
        assert!(expected.contains(&found), "{found} of {expected:?}");
    };
    for mode in [Mode::Event, further(3)] {
        // Without those in the first nap, whose code is not in memory yet.
        let stacks: Vec<_> = folded_of(recording, mode);
        let stacks: Vec<_> = stacks.into_iter().filter(|(stack, _)| stack.ends_with(";work")).collect();
        let [one, two] = ["one;work", "two;work"].map(|end| rooted(&stacks, end));
        is_all(one, CALLS * 3 / 4, mode);
        is_all(two, CALLS / 4, mode);
    }
    // Naps are those of each second call from `two`. A thread may also be preempted.
    let [from_one, from_two] = by_caller(recording, further(1), "");
    let [none, naps] = by_caller(recording, further(1), ";nap");
    is_all(from_one + from_two, switches, further(1));
    assert!(none == 0 && naps + 2 * cpus >= NAPS, "{naps} of {NAPS}");
    // The value of a call is its number.
    let sum = |from_two: bool| (0..CALLS).filter(|call| call.is_multiple_of(4) == from_two).sum::<u64>();
    let [one, two] = by_caller(recording, further(2), "");
    let all: u64 = folded_of(recording, further(2)).iter().map(|(_, value)| value).sum();
    assert_eq!((ledger(further(2)).samples, all), (CALLS, sum(false) + sum(true)));
    assert!(one >= sum(false) * 99 / 100 && two >= sum(true) * 99 / 100, "{one} {two}");
    assert_eq!(by_caller(recording, further(4), ";nap").iter().sum::<u64>(), NAPS);
    assert_eq!(ledger(further(4)).samples, NAPS);
    let each_nth = by_caller(recording, further(5), ";nap").iter().sum::<u64>();
    assert!(each_nth.is_multiple_of(PERIOD) && each_nth + PERIOD * cpus >= NAPS, "{each_nth} of {NAPS}");
    for mode in recording.modes() {
        assert_eq!(ledger(mode).lost(), 0, "{mode:?}");
        let profile = recording.profile(mode).unwrap();
        let event = ledger(mode).sampled.as_ref().unwrap();
        assert_eq!(profile.period_type.kind, event.kind());
        let told = format!("perf-agent.event={}", event.name);
        assert!(profile.comments.contains(&told), "{:?}", profile.comments);
    }
}

#[test]
fn each_of_several_events_has_its_files_and_a_recording_keeps_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let captured = captured_of(SOURCE, &flags(), |builder, _| {
        let builder = builder.event("page-faults").event("context-switches").with_off_cpu_profile();
        let output = |builder: AgentBuilder, name: &str, file: &str| builder.option(name, at(file));
        let builder = output(builder, "profile-output", "x.pb.gz");
        let builder = output(builder, "folded-output", "x.folded");
        output(builder, "recording-output", "x.perf-agent")
    });
    let Some((report, _)) = captured else { return };
    let mut files: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_unstable();
    let expected = [
        "x.context-switches.folded",
        "x.context-switches.pb.gz",
        "x.off-cpu.folded",
        "x.page-faults.folded",
        "x.page-faults.pb.gz",
        "x.perf-agent",
    ];
    assert_eq!(files, expected);
    let read = Recording::read_from(std::fs::File::open(at("x.perf-agent")).unwrap()).unwrap();
    let words: Vec<_> = read.named_modes().into_iter().map(|(_, word)| word).collect();
    assert_eq!(words, ["page-faults", "context-switches", "off-cpu"]);
    for (mode, word) in read.named_modes() {
        let folded = folded_of(&read, mode);
        assert_eq!(folded, folded_of(report.recording(), mode), "{word}");
        let text = std::fs::read_to_string(at(&format!("x.{word}.folded"))).unwrap();
        assert_eq!(text.lines().count(), folded.len(), "{word}");
        assert_eq!(read.ledger(mode), report.recording().ledger(mode), "{word}");
    }
}

#[test]
fn intervals_of_several_events_sum_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let captured = captured_of(SOURCE, &flags(), |builder, program| {
        let work = format!("uprobe:{}:work", program.display());
        let builder = builder.event("page-faults").event(&work).option("rotate", "100ms");
        builder.option("recording-output", folder.path().join("x.perf-agent"))
    });
    if captured.is_none() {
        return;
    }
    let mut sums = BTreeMap::new();
    let mut intervals = 0;
    for entry in folder.path().read_dir().unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        let recording = Recording::read_from(file).unwrap();
        intervals += 1;
        for (mode, word) in recording.named_modes() {
            let stacks = folded_of(&recording, mode);
            let figure = |key: &str| {
                let ledger = recording.ledger(mode);
                ledger.iter().find(|(name, _)| name == key).map_or(0, |(_, value)| value.parse().unwrap())
            };
            let all: u64 = stacks.iter().map(|(_, value)| value).sum();
            assert_eq!(all, figure("samples"), "{word}");
            let of_mode: &mut [u64; 2] = sums.entry(mode).or_default();
            of_mode[0] += rooted(&stacks, "");
            of_mode[1] += figure("lost");
        }
    }
    assert!(intervals > 1, "{intervals} intervals");
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    assert_eq!(sums[&Mode::FurtherEvent(1)], [CALLS, 0]);
    // Also the few faults elsewhere in the program.
    let [faults, lost] = sums[&Mode::Event];
    assert!(lost == 0 && faults + 2 * cpus >= CALLS && faults < CALLS + 100, "{faults} of {CALLS}");
}
