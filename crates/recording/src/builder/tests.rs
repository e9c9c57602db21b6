use std::collections::HashSet;

use profile::{FileOffset, Label, Svma};

use super::*;
use crate::event::Event;
use crate::module::{FileIdentity, ModuleKind};
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
        builder.add(hash, State::Blocked, StackSums { count: 1, value: 10 * hash, waited: 1 });
    }
    builder.begin_cut();
    builder.add_open(2, StackSums { count: 0, value: 5, waited: 0 });
    let (first, renumbering) = builder.cut(context(), &HashSet::from([2]));
    assert_eq!(first.counts.len(), 3);
    let values: Vec<_> = (0..3).map(|at| (path_of(&first, at), first.counts[at].values.clone())).collect();
    assert_eq!(values, [("/a", vec![1, 10, 1]), ("/b", vec![1, 25, 1]), ("/c", vec![1, 30, 1])]);
    assert_eq!(renumbering.modules, [(ModuleId(1), ModuleId(0))]);

    builder.add(2, State::Blocked, StackSums { count: 1, value: 3, waited: 0 });
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
    let mut builder = Builder::new(Limits { items: 1, keys: 1 });
    assert!(builder.module(module("/a")).is_some() && builder.module(module("/b")).is_none());
    builder.count_not_kept(State::Sampled);
    builder.add(1, State::Blocked, StackSums { count: 1, value: 5, waited: 0 });
    builder.add(2, State::Blocked, StackSums { count: 4, value: 5, waited: 0 });
    let recording = builder.finish(context());
    let not_kept = recording.accounting.not_kept;
    assert_eq!((not_kept[State::Sampled as usize], not_kept[State::Blocked as usize]), (1, 5));
}

#[test]
fn the_executable_of_the_target_is_named_even_if_no_stack_goes_through_it() {
    let main =
        CodeMapping { module: ModuleId(0), start: Svma(1), limit: Svma(2), file_offset: FileOffset(0) };
    let context = Context { main: Some((module("/main"), main)), ..context() };
    let recording = Builder::new(Limits::default()).finish(context);
    assert_eq!(recording.mapping(recording.main.unwrap()).unwrap().1.path, "/main");
}
