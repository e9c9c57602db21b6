//! Sums, ranges and bounds of a window.

use super::*;
use crate::export;
use crate::interval::Mode;
use crate::query::{Query, Scope, Selected};
use crate::test_profile::{Thread, second};

fn whole(window: &Window, query: &Query) -> u64 {
    Selected::of(window, query).whole
}

/// Labels, names and values of all samples.
fn stacks(profile: &Profile) -> Vec<String> {
    let place = |id: &LocationId| {
        let location = &profile.locations[id.0 as usize];
        let function = &profile.functions[location.lines[0].function.0 as usize];
        (location.address, function.name.clone())
    };
    let all = profile.samples.iter().map(|sample| {
        let places: Vec<_> = sample.locations.iter().map(place).collect();
        format!("{:?} {places:?} {:?}", sample.labels, sample.values)
    });
    all.collect()
}

fn since_start() -> Query {
    Query { range: Range::Start, ..Query::default() }
}

#[test]
fn ranges_have_their_seconds() {
    let mut window = Window::default();
    for start in 0..100 {
        let stacks = [("f@a", 1)];
        window.add(
            &second(start, &[Thread { comm: "a", pid: 1, tid: 1, stacks: &stacks }]),
            Figures::default(),
        );
    }
    let whole = |range| whole(&window, &Query { range, ..Query::default() }) / 10_000_000;
    assert_eq!([Range::TenSeconds, Range::Minute, Range::Start].map(whole), [10, 60, 100]);
    assert_eq!(window.span(Range::TenSeconds), (90_000_000_000, 10_000_000_000));
    assert_eq!(window.history(|_| true), [0.01; 60]);
}

#[test]
fn the_lightest_stacks_are_merged_and_the_sums_stay() {
    let mut window = Window::with_limits(Limits { stacks: 100, bytes: usize::MAX });
    let mut added = 0;
    for start in 0..50 {
        let names: Vec<String> = (0..40).map(|number| format!("main@a;f{start}_{number}@a")).collect();
        let mut stacks: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        stacks.push(("main@a;hot@a", 50));
        added += 90;
        let thread = Thread { comm: "a", pid: start, tid: start, stacks: &stacks };
        window.add(&second(start, &[thread]), Figures::default());
        assert!(window.stacks.len() <= 100, "{}", window.stacks.len());
    }
    assert_eq!(whole(&window, &since_start()), added * 10_000_000);
    assert_eq!(whole(&window, &Query::default()), 900 * 10_000_000);
    let lighter = Query { filter: "[lighter".to_owned(), ..since_start() };
    let hot = Query { filter: "hot".to_owned(), ..since_start() };
    assert!(whole(&window, &lighter) > 0);
    assert_eq!(whole(&window, &hot), 2_500 * 10_000_000, "the heavy ones are kept");
    assert!(
        window.tables.functions.len() <= 101 && window.tables.frames() <= 300,
        "{}",
        window.tables.frames()
    );
}

#[test]
fn long_names_are_bounded_too() {
    let mut window = Window::with_limits(Limits { stacks: 10_000, bytes: 1 << 17 });
    for start in 0..50 {
        let names: Vec<String> =
            (0..20).map(|number| format!("{}{start}_{number}@a", "x".repeat(1_000))).collect();
        let stacks: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        window.add(
            &second(start, &[Thread { comm: "a", pid: 1, tid: 1, stacks: &stacks }]),
            Figures::default(),
        );
        assert!(window.tables.bytes() <= 1 << 17, "{}", window.tables.bytes());
    }
    assert_eq!(whole(&window, &since_start()), 1000 * 10_000_000);
}

#[test]
fn what_is_seen_becomes_a_profile() {
    let (first, second_stacks) = ([("main@a;f@b", 3), ("main@a;g@b", 4)], [("other@c", 5)]);
    let threads = [
        Thread { comm: "a", pid: 1, tid: 2, stacks: &first },
        Thread { comm: "c", pid: 9, tid: 9, stacks: &second_stacks },
    ];
    let profile = second(7, &threads);
    let mut window = Window::default();
    window.add(&profile, Figures::default());
    let all = export::profile(&window, Mode::OnCpu, &since_start());
    assert_eq!(stacks(&all), stacks(&profile));
    assert_eq!((all.time_ns, all.duration_ns), (7_000_000_000, 1_000_000_000));
    let scope = Scope::Process { pid: Some(1), name: "a (1)".to_owned() };
    let part = Query { scope: Some(scope), filter: "g".to_owned(), ..Query::default() };
    let part = export::profile(&window, Mode::OnCpu, &part);
    let values: Vec<_> = part.samples.iter().map(|sample| sample.values.clone()).collect();
    assert_eq!(values, [[4, 40_000_000]]);
    assert!(part.comments.contains(&"perf-agent.live.only=a (1)".to_owned()), "{:?}", part.comments);
}
