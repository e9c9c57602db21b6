use std::collections::HashSet;

use profile::{Avma, FileOffset, Label, Svma};

use super::*;
use crate::count::{Link, Object, Role};
use crate::event::{Event, Fold, Unit, ValueSpec};
use crate::module::{FileIdentity, ModuleKind};
use crate::values::StackSums;
use crate::walk_end::WalkEnd;

const SCHEDULER: EventId = EventId(1);

fn module(path: &str) -> Module {
    Module { path: path.to_owned(), build_id: None, kind: ModuleKind::Elf, identity: FileIdentity::default() }
}

fn context() -> Context {
    let events = vec![Event::cpu_clock("software/cpu-clock", 10), Event::scheduler("sched:sched_switch")];
    Context { events, ..Context::default() }
}

/// A stack of one frame in a module of its own.
fn stack_in(builder: &mut Builder, path: &str, address: u64) -> TaskStackId {
    let module = builder.module(module(path)).unwrap();
    let mapping = CodeMapping { module, start: Svma(0), limit: Svma(0x1000), file_offset: FileOffset(0) };
    let mapping = builder.mapping(mapping).unwrap();
    let frame = builder.frame(Frame::Native { mapping, svma: Svma(address), exact: true }).unwrap();
    let task = builder.task(Some(7), vec![Label::str("comm", path)], None).unwrap();
    let stack = Stack { frames: [frame].into(), kernel_frames: 0, end: WalkEnd::Root, missing: None };
    builder.task_stack(task, stack, State::Blocked).unwrap()
}

fn key(stack: TaskStackId) -> Key {
    Key { event: SCHEDULER, stack, pid: 7, exec_id: 1, once: false }
}

fn path_of(recording: &Recording, count: usize) -> &str {
    let stack = recording.task_stack(recording.counts[count].stack).unwrap();
    let frame = recording.stack(stack.stack).unwrap().frames[0];
    let Some(Frame::Native { mapping, .. }) = recording.frame(frame) else { panic!("{frame:?}") };
    &recording.mapping(*mapping).unwrap().1.path
}

#[test]
fn a_cut_gives_the_interval_and_the_next_one_has_only_what_is_in_use() {
    let mut builder = Builder::new(Limits::default());
    for (hash, path) in [(1, "/a"), (2, "/b"), (3, "/c")] {
        let stack = stack_in(&mut builder, path, hash);
        builder.enter(hash, key(stack));
        builder.add(hash, SCHEDULER, State::Blocked, StackSums { count: 1, value: 10 * hash, waited: 1 });
    }
    builder.begin_cut();
    builder.add_open(2, StackSums { count: 0, value: 5, waited: 0 });
    let (first, renumbering) = builder.cut(context(), &HashSet::from([2]));
    assert_eq!(first.counts.len(), 3);
    let values: Vec<_> = (0..3).map(|at| (path_of(&first, at), first.counts[at].values.clone())).collect();
    assert_eq!(values, [("/a", vec![1, 10, 1]), ("/b", vec![1, 25, 1]), ("/c", vec![1, 30, 1])]);
    assert_eq!(renumbering.modules, [(ModuleId(1), ModuleId(0))]);

    builder.add(2, SCHEDULER, State::Blocked, StackSums { count: 1, value: 3, waited: 0 });
    let second = builder.finish(context());
    assert_eq!((second.modules.len(), second.stacks.len(), second.tasks.len()), (1, 1, 1));
    assert_eq!((path_of(&second, 0), &second.counts[0].values), ("/b", &vec![1, 3, 0]));
}

#[test]
fn values_follow_the_schema_of_the_event() {
    let mut builder = Builder::new(Limits::default());
    let stack = stack_in(&mut builder, "/a", 1);
    builder.add_single(EventId(0), stack, StackSums { count: 2, value: 2, waited: 0 });
    let recording = builder.finish(context());
    assert_eq!(recording.counts[0].values, [2]);
}

#[test]
fn what_exceeds_a_limit_is_counted() {
    let mut builder = Builder::new(Limits { items: 1, keys: 1, ..Limits::default() });
    assert!(builder.module(module("/a")).is_some() && builder.module(module("/b")).is_none());
    builder.count_not_kept(EventId(0), State::Sampled);
    builder.add(1, SCHEDULER, State::Blocked, StackSums { count: 1, value: 5, waited: 0 });
    builder.add(2, SCHEDULER, State::Blocked, StackSums { count: 4, value: 5, waited: 0 });
    let recording = builder.finish(context());
    let (not_kept, without_stack) = (recording.accounting.not_kept, recording.accounting.without_stack);
    let of = |counts: [u64; State::ALL.len()]| {
        [State::Sampled, State::Blocked].map(|state| counts[state as usize])
    };
    // A module found no place: sums whose stack is missing may be for that.
    assert_eq!((of(not_kept), of(without_stack)), ([1, 5], [0, 0]));
}

#[test]
fn all_tables_share_a_bound_in_bytes_and_what_is_known_needs_none() {
    let limits = Limits { bytes: 10_000, ..Limits::default() };
    let mut builder = Builder::new(limits);
    let first = builder.frame(Frame::Unknown { address: Avma(0) }).unwrap();
    let taken = (1..).take_while(|n| builder.frame(Frame::Unknown { address: Avma(*n) }).is_some()).count();
    assert!((100..300).contains(&taken), "{taken}");
    assert_eq!(builder.task(Some(1), vec![Label::str("comm", "a")], None), None);
    assert_eq!(builder.frame(Frame::Unknown { address: Avma(0) }), Some(first));
    // What a target makes long is charged.
    let long = |builder: &mut Builder| builder.module(module(&"x".repeat(9_000)));
    let mut builder = Builder::new(limits);
    assert!(long(&mut builder).is_some() && builder.module(module(&"y".repeat(1_000))).is_none());
    // The next interval has the bound for itself.
    let _ = builder.cut(context(), &HashSet::new());
    assert!(long(&mut builder).is_some());
}

#[test]
fn the_executable_of_the_target_is_named_even_if_no_stack_goes_through_it() {
    let main =
        CodeMapping { module: ModuleId(0), start: Svma(1), limit: Svma(2), file_offset: FileOffset(0) };
    let context = Context { main: Some((module("/main"), main)), ..context() };
    let recording = Builder::new(Limits::default()).finish(context);
    assert_eq!(recording.mapping(recording.main.unwrap()).unwrap().1.path, "/main");
}

fn occurrence(time_ns: u64, interval: u32) -> Occurrence {
    Occurrence { time_ns, cpu: 3, tid: 8, interval, waker: None, values: vec![1, 1, 0] }
}

/// Time, stack and values of the single samples.
fn singles(recording: &Recording) -> Vec<(i64, &str, &[u64])> {
    let samples = &recording.singles.as_ref().unwrap().samples;
    let path = |single: &crate::Single| {
        let count = recording.counts.iter().position(|count| count.stack == single.stack).unwrap();
        path_of(recording, count)
    };
    samples.iter().map(|single| (single.at_ns, path(single), &single.values[..])).collect()
}

#[test]
fn a_single_sample_is_in_the_interval_of_its_sum() {
    let clock = |stack| Key { event: EventId(0), ..key(stack) };
    let one = StackSums { count: 1, value: 1, waited: 0 };
    let mut builder = Builder::new(Limits::default()).with_single_samples();
    let stack = stack_in(&mut builder, "/a", 1);
    builder.add_sample(1, occurrence(130, 0));
    builder.enter(1, clock(stack));
    builder.add_sample(1, occurrence(110, 0));
    builder.add(1, SCHEDULER, State::Blocked, one);
    builder.add(1, SCHEDULER, State::Blocked, one);
    // The stack of the third one comes after the seam, and so does its sum.
    builder.add_sample(2, occurrence(120, 0));
    builder.add(2, SCHEDULER, State::Blocked, one);
    builder.begin_cut();
    builder.set_seam(1);
    builder.enter(1, clock(stack));
    builder.add_sample(1, occurrence(210, 1));
    builder.add_sample(1, occurrence(199, 0));
    builder.add(1, SCHEDULER, State::Blocked, one);
    let (first, _) = builder.cut(Context { start_ns: 100, ..context() }, &HashSet::new());
    assert_eq!(singles(&first), [(10, "/a", &[1][..]), (30, "/a", &[1]), (99, "/a", &[1])]);
    assert_eq!(first.counts[0].values, [3]);

    builder.add(1, SCHEDULER, State::Blocked, one);
    let stack = stack_in(&mut builder, "/b", 2);
    builder.enter(2, clock(stack));
    let stack = stack_in(&mut builder, "/c", 3);
    builder.add_single(EventId(0), stack, one);
    builder.add_walked_sample(EventId(0), stack, occurrence(220, 1));
    builder.add_sample(4, occurrence(230, 1));
    builder.count_lost_samples(5);
    let second = builder.finish(Context { start_ns: 200, ..context() });
    assert_eq!(singles(&second), [(-80, "/b", &[1][..]), (10, "/a", &[1]), (20, "/c", &[1])]);
    assert_eq!(second.counts.iter().map(|count| count.value(0)).sum::<u64>(), 3);
    assert_eq!(second.singles.unwrap().lost, 6, "one has no stack");
}

/// The waker's stack may become known after the wait, and the wait may be in the interval after that of the stack.
#[test]
fn a_single_wait_has_the_stack_that_ended_it() {
    let woken = |time_ns, interval| Occurrence { waker: Some(9), ..occurrence(time_ns, interval) };
    let wakers = |recording: &Recording| -> Vec<Option<u64>> {
        let singles = recording.singles.as_ref().unwrap();
        let address = |waker: crate::TaskStackId| {
            let frames = &recording.stack(recording.task_stack(waker).unwrap().stack).unwrap().frames;
            match recording.frames[frames[0].0 as usize] {
                Frame::Native { svma, .. } => svma.0,
                ref other => panic!("{other:?}"),
            }
        };
        singles.samples.iter().map(|single| single.waker.map(address)).collect()
    };
    let mut builder = Builder::new(Limits::default()).with_single_samples();
    let blocked = stack_in(&mut builder, "/blocked", 1);
    builder.enter(1, key(blocked));
    builder.add_sample(1, woken(110, 0));
    builder.add_sample(1, occurrence(120, 0));
    builder.add_sample(1, Occurrence { waker: Some(8), ..occurrence(130, 0) });
    let waker = stack_in(&mut builder, "/waker", 2);
    builder.enter(9, key(waker));
    builder.begin_cut();
    builder.set_seam(1);
    builder.add_sample(1, woken(210, 1));
    let (first, _) = builder.cut(Context { start_ns: 100, ..context() }, &HashSet::from([1, 9]));
    assert_eq!(wakers(&first), [Some(2), None, None], "no stack is known under the last one's key");
    let second = builder.finish(Context { start_ns: 200, ..context() });
    assert_eq!(wakers(&second), [Some(2)]);
}

#[test]
fn single_samples_are_bounded_and_only_recorded_on_request() {
    let mut builder = Builder::new(Limits { singles: 2, ..Limits::default() }).with_single_samples();
    let stack = stack_in(&mut builder, "/a", 1);
    builder.add_sample(9, occurrence(1, 0));
    builder.add_walked_sample(EventId(0), stack, occurrence(2, 0));
    builder.add_walked_sample(EventId(0), stack, occurrence(3, 0));
    let (first, _) = builder.cut(context(), &HashSet::new());
    let first = first.singles.unwrap();
    assert_eq!((first.samples.len(), first.lost), (1, 1));
    let stack = stack_in(&mut builder, "/a", 1);
    builder.add_walked_sample(EventId(0), stack, occurrence(4, 0));
    builder.add_walked_sample(EventId(0), stack, occurrence(5, 0));
    let second = builder.finish(context()).singles.unwrap();
    assert_eq!((second.samples.len(), second.lost), (1, 2));
    let mut builder = Builder::new(Limits::default());
    builder.add_sample(1, occurrence(1, 0));
    assert_eq!(builder.finish(context()).singles, None);
}

/// An event of a test: waits for locks, as a source could tell them: their number, the sum of the squares of their times, the longest.
fn locks() -> Event {
    let value = |name, fold| ValueSpec { fold, ..ValueSpec::sum(name, Unit::Nanoseconds) };
    let values = vec![
        ValueSpec::sum("waits", Unit::Count),
        value("squares", Fold::SumOfSquares),
        value("longest", Fold::Max),
    ];
    Event { values, ..Event::scheduler("test/locks") }
}

#[test]
fn a_source_can_tell_squares_and_maxima_of_an_object_and_its_owner_by_time() {
    let (events, lock_waits) = ([context().events, vec![locks()]].concat(), EventId(2));
    let mut builder = Builder::new(Limits::default()).with_events(&events);
    let [waiting, owner] = [("/waits", 1), ("/owns", 2)].map(|(path, at)| stack_in(&mut builder, path, at));
    let attached = |object, time_bin| Attached {
        links: vec![(Role::Owner, 2)],
        object: Some(Object { address: object, lock: None }),
        time_bin: Some(time_bin),
    };
    let key = |stack| Key { event: lock_waits, ..key(stack) };
    let add = |builder: &mut Builder, hash, values| {
        builder.add(hash, lock_waits, State::Blocked, Values(values));
    };
    // Sums before their stack, before the stack of the owner, and after both.
    add(&mut builder, 10, [1, 25, 5]);
    add(&mut builder, 10, [1, 9, 3]);
    builder.enter_attached(10, key(waiting), &attached(0x7f00, 4));
    builder.enter_attached(11, key(waiting), &attached(0x7f00, 5));
    add(&mut builder, 11, [1, 1, 1]);
    builder.enter(2, key(owner));
    add(&mut builder, 10, [1, 49, 7]);
    let counts = |recording: &Recording| {
        let of = |count: &crate::Count| {
            let linked: Vec<_> = count.links.iter().map(|Link { role, stack }| (*role, *stack)).collect();
            assert_eq!((count.event, linked), (lock_waits, vec![(Role::Owner, TaskStackId(1))]));
            let address = count.object.map(|object| object.address);
            (path_of(recording, 0).to_owned(), address, count.time_bin, count.values.clone())
        };
        recording.counts.iter().map(of).collect::<Vec<_>>()
    };
    builder.begin_cut();
    // The second key is in use when the interval ends.
    let context = || Context { events: events.clone(), ..Context::default() };
    let (first, _) = builder.cut(context(), &HashSet::from([11]));
    let told = |bin, values: &[u64]| ("/waits".to_owned(), Some(0x7f00), Some(bin), values.to_vec());
    assert_eq!(counts(&first), [told(4, &[3, 83, 7]), told(5, &[1, 1, 1])]);
    add(&mut builder, 11, [1, 4, 2]);
    let second = builder.finish(context());
    assert_eq!(counts(&second), [told(5, &[1, 4, 2])]);
    let mut bytes = Vec::new();
    crate::file::write(&second, &mut bytes).unwrap();
    assert_eq!(crate::file::read(&bytes[..]).unwrap(), second);
}
