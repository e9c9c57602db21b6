use profile::{Label, Mapping, Moment};
use recording::{
    CodeMapping, CodeMappingId, Count, Event, EventId, FrameId, MissingStack, Mode, NameLine, OffCpuState,
    Single, Singles, StackSums, State, TaskStackId, ThreadId, Unit, ValueSpec, WalkEnd,
};

use super::profile;
use crate::selection::SCHEDULER;
use crate::test_recording::{PERIOD_NS, TestRecording, samples};

fn of(capture: TestRecording, mode: Mode) -> Vec<String> {
    samples(&profile(&capture.finish(), mode, &[]))
}

#[test]
fn a_sample_stands_for_a_period_and_has_the_labels_of_its_thread() {
    let mut capture = TestRecording::new();
    let (kernel, user) = (capture.kernel_frame("do_work"), capture.frame("main"));
    let thread = Some(ThreadId { tid: 9, name: "worker".to_owned() });
    let labels = vec![Label::str("comm", "target"), Label::str("pod", "p")];
    let thread = capture.builder.task(Some(7), labels, thread).unwrap();
    let of_thread = capture.stack_of(thread, &[kernel], &[user], WalkEnd::Root, State::Sampled);
    capture.add_samples(of_thread, 3);
    let plain = capture.stack(&[], &[user], WalkEnd::Root, State::Sampled);
    capture.add_samples(plain, 1);
    let symbolized = capture.finish();
    let made = profile(&symbolized, Mode::OnCpu, &[("samples".to_owned(), "4".to_owned())]);
    assert_eq!(
        samples(&made),
        [
            "do_work;main pid=7,comm=target,tid=9,thread=worker,pod=p 3,30000000",
            "main pid=7,comm=target,pod=p 1,10000000",
        ]
    );
    assert_eq!(made.comments, ["run=one", "perf-agent.samples=4"]);
    assert_eq!((made.time_ns, made.duration_ns, made.period), (5, 1_000_000_000, PERIOD_NS as i64));
    assert_eq!(made.default_sample_type, "cpu");
    let kernel = made.mappings.iter().find(|mapping| mapping.filename == "[kernel.kallsyms]").unwrap();
    assert_eq!(kernel.build_id.as_ref().map(ToString::to_string).as_deref(), Some("01020304"));
}

#[test]
fn the_value_of_an_event_is_summed_beside_its_samples_and_scaled_as_they_are() {
    let mut capture = TestRecording::new();
    let mut event = Event::sampled("block:block_rq_issue", "block:block_rq_issue", 4, Unit::Count);
    event.values.push(ValueSpec::sum("bytes", Unit::Bytes));
    capture.settings.event = Some(event);
    let user = capture.frame("main");
    let stack = capture.stack(&[], &[user], WalkEnd::Root, State::Sampled);
    capture.builder.add_single(EventId::sampled(0), stack, StackSums { count: 3, value: 4096, waited: 0 });
    let made = profile(&capture.finish(), Mode::Event, &[]);
    assert_eq!(samples(&made), ["main pid=7,comm=target,pod=p 3,12,16384"]);
    let types: Vec<_> = made.sample_types.iter().map(|of| (&*of.kind, &*of.unit)).collect();
    assert_eq!(types, [("samples", "count"), ("block:block_rq_issue", "count"), ("bytes", "bytes")]);
}

#[test]
fn a_sample_of_an_event_stands_for_its_period_in_its_own_unit() {
    let sampled = |unit| {
        let mut capture = TestRecording::new();
        capture.settings.event = Some(Event::sampled("software/page-faults", "page-faults", 16, unit));
        capture.settings.wall_profile = false;
        let user = capture.frame("main");
        let stack = capture.stack(&[], &[user], WalkEnd::Root, State::Sampled);
        capture.add_samples(stack, 3);
        capture.finish()
    };
    let symbolized = sampled(Unit::Count);
    assert_eq!(symbolized.recording.settings.modes(), [Mode::Event, Mode::OffCpu]);
    let made = profile(&symbolized, Mode::Event, &[]);
    assert_eq!(samples(&made), ["main pid=7,comm=target,pod=p 3,48"]);
    let types: Vec<_> = made.sample_types.iter().map(|of| (&*of.kind, &*of.unit)).collect();
    assert_eq!(types, [("samples", "count"), ("page-faults", "count")]);
    assert_eq!((made.period, &*made.default_sample_type), (16, "page-faults"));
    assert_eq!(profile(&sampled(Unit::Nanoseconds), Mode::Event, &[]).period_type.unit, "nanoseconds");
}

#[test]
fn single_samples_tell_their_times() {
    let mut capture = TestRecording::new();
    let [outer, inner] = ["outer", "inner"].map(|name| capture.frame(name));
    let stacks = [&[outer][..], &[inner, outer]].map(|frames| {
        let stack = capture.stack(&[], frames, WalkEnd::Root, State::Sampled);
        capture.add_samples(stack, 2);
        stack
    });
    let blocked = capture.stack(&[], &[outer], WalkEnd::Root, State::Blocked);
    let mut symbolized = capture.finish();
    let single =
        |at_ns, event, stack| Single { at_ns, cpu: 0, tid: 7, event, stack, values: vec![1], waker: None };
    let samples = vec![
        single(-3, EventId::sampled(0), stacks[1]),
        single(4, SCHEDULER, blocked),
        single(5, EventId::sampled(0), stacks[0]),
        single(6, EventId::sampled(0), stacks[1]),
    ];
    assert_eq!(profile(&symbolized, Mode::OnCpu, &[]).moments, []);
    symbolized.recording.singles = Some(Singles { samples, lost: 0 });
    let made = profile(&symbolized, Mode::OnCpu, &[]);
    let leaf = |moment: &Moment| {
        let leaf = made.samples[moment.sample as usize].locations[0];
        let line = made.locations[leaf.0 as usize].lines[0];
        (moment.at_ns, made.functions[line.function.0 as usize].name.as_str())
    };
    assert_eq!(
        made.moments.iter().map(leaf).collect::<Vec<_>>(),
        [(-3, "inner"), (5, "outer"), (6, "inner")]
    );
    assert_eq!(profile(&symbolized, Mode::OffCpu, &[]).moments, [], "no interval was counted");
}

#[test]
fn single_intervals_tell_when_they_ended_how_long_they_lasted_and_who_ended_them() {
    let moments = |told: bool| {
        let mut capture = TestRecording::new();
        let [read, wait, wake] = ["read", "wait", "wake"].map(|name| capture.frame(name));
        let stacks = [read, wait].map(|frame| {
            let stack = capture.stack(&[], &[frame], WalkEnd::Root, State::Blocked);
            capture.add_intervals(stack, 2, 50, 10);
            stack
        });
        let waker = capture.stack(&[], &[wake], WalkEnd::Root, State::Waker);
        capture.add_woken(stacks[0], waker, 1, 5);
        let mut symbolized = capture.finish();
        let single = |at_ns, stack, ns| Single {
            at_ns,
            cpu: 0,
            tid: 7,
            event: SCHEDULER,
            stack,
            values: vec![1, ns],
            waker: None,
        };
        let woken = Single { waker: told.then_some(waker), ..single(80, stacks[0], 5) };
        let samples = vec![single(9, stacks[1], 40), single(70, stacks[0], 50), woken];
        symbolized.recording.singles = Some(Singles { samples, lost: 0 });
        let made = profile(&symbolized, Mode::OffCpu, &[]);
        let sample = |moment: &Moment| {
            let sample = &made.samples[moment.sample as usize];
            (moment.at_ns, moment.lasted_ns, sample.locations.len(), sample.values[1])
        };
        made.moments.iter().map(sample).collect::<Vec<_>>()
    };
    // The stack with a waker has `[woken by]` and the frame of the waker besides.
    assert_eq!(moments(true), [(9, 40, 1, 50), (70, 50, 1, 50), (80, 5, 3, 5)]);
    assert_eq!(moments(false), [], "recordings of earlier versions do not tell which of the wakers it was");
}

#[test]
fn samples_are_in_the_order_of_the_counts() {
    let mut capture = TestRecording::new();
    let names = ["e", "dd", "ccc", "bbbb", "aaaaa"];
    for name in names {
        let frame = capture.frame(name);
        let stack = capture.stack(&[], &[frame], WalkEnd::Root, State::Sampled);
        capture.add_samples(stack, 1);
    }
    let made = of(capture, Mode::OnCpu);
    let leaves: Vec<_> = made.iter().map(|sample| sample.split_once(' ').unwrap().0).collect();
    assert_eq!(leaves, names);
}

#[test]
fn the_outermost_line_tells_how_the_walk_ended() {
    let root_of = |kernel: bool, user: bool, end: WalkEnd| {
        let mut capture = TestRecording::new();
        let (in_kernel, in_user) = (capture.kernel_frame("kernel"), capture.frame("user"));
        let kernel: &[_] = if kernel { &[in_kernel] } else { &[] };
        let user: &[_] = if user { &[in_user] } else { &[] };
        let stack = capture.stack(kernel, user, end, State::Sampled);
        capture.add_samples(stack, 1);
        let made = of(capture, Mode::OnCpu);
        made[0].split(" pid=").next().unwrap().rsplit(';').next().unwrap().to_owned()
    };
    let expected = [
        "user",
        "[truncated: unknown mapping]",
        "[truncated: no unwind info]",
        "[truncated: unsupported unwind rule]",
        "[truncated: broken frame pointers]",
        "[truncated: unreadable stack]",
        "[truncated: frame limit]",
        "[truncated: unwind table not ready]",
        "[truncated: no user registers]",
        "user",
        "[in exec]",
        "[truncated: stack switch]",
        "[truncated: 32-bit code]",
        "[truncated: frame pointer is zero]",
    ];
    assert_eq!(WalkEnd::ALL.map(|end| root_of(true, true, end)), expected);
    let without_user = [WalkEnd::NoUserStack, WalkEnd::Exiting];
    assert_eq!(without_user.map(|end| root_of(true, false, end)), ["kernel", "kernel"]);
    assert_eq!(without_user.map(|end| root_of(false, false, end)), ["[kernel thread]", "[exiting]"]);
}

#[test]
fn a_missing_stack_is_one_line_and_the_gate_is_not_shown() {
    let mut capture = TestRecording::new();
    for (missing, state) in [
        (MissingStack::AsleepBefore, State::Blocked),
        (MissingStack::NotRunYet, State::NotRunYet),
        (MissingStack::Gate, State::Blocked),
    ] {
        let stack = capture.missing(missing, state);
        capture.add_intervals(stack, 1, 10, 0);
    }
    assert_eq!(
        of(capture, Mode::OffCpu),
        [
            "[asleep since before the capture] pid=7,comm=target,pod=p,state=blocked 1,10",
            "[not run yet] pid=7,comm=target,pod=p,state=preempted 1,10",
        ]
    );
}

#[test]
fn off_cpu_shows_the_states_that_were_asked_for() {
    let mut capture = TestRecording::new();
    capture.settings.off_cpu_states = vec![OffCpuState::IoWait];
    let frame = capture.frame("read");
    for state in State::ALL {
        let stack = capture.stack(&[], &[frame], WalkEnd::Root, state);
        capture.add_intervals(stack, 2, 50, 10);
    }
    assert_eq!(of(capture, Mode::OffCpu), ["read pid=7,comm=target,pod=p,state=iowait 2,50"]);
}

#[test]
fn frames_of_the_tracing_and_of_the_scheduler_are_left_out_off_cpu() {
    let leaving =
        ["bpf_prog_1", "bpf_trace_run4", "__traceiter_sched_switch", "__schedule", "schedule", "pipe_read"];
    let made_of = |kernel: &[&str], state, mode, kernel_stacks| {
        let mut capture = TestRecording::new();
        capture.settings.kernel_stacks = kernel_stacks;
        let kernel: Vec<_> = kernel.iter().map(|name| capture.kernel_frame(name)).collect();
        let user = capture.frame("main");
        let stack = capture.stack(&kernel, &[user], WalkEnd::Root, state);
        capture.add_intervals(stack, 1, 1, 0);
        capture.add_samples(stack, 1);
        of(capture, mode).remove(0).split(' ').next().unwrap().to_owned()
    };
    let made = |state, mode, kernel_stacks| made_of(&leaving, state, mode, kernel_stacks);
    assert_eq!(made(State::Blocked, Mode::OffCpu, true), "pipe_read;main");
    assert_eq!(made(State::Blocked, Mode::OffCpu, false), "main");
    let sampled = "bpf_prog_1;bpf_trace_run4;__traceiter_sched_switch;__schedule;schedule;pipe_read;main";
    assert_eq!(made(State::Sampled, Mode::OnCpu, true), sampled);
    // As the kernel tells the stack of a thread that sleeps already, and as it is if no frame is of the tracing.
    for alike in [&leaving[5..], &leaving[3..]] {
        assert_eq!(made_of(alike, State::Blocked, Mode::OffCpu, true), "pipe_read;main");
    }
}

#[test]
fn our_frames_are_searched_near_the_leaf_only() {
    let mut capture = TestRecording::new();
    let mut kernel: Vec<_> = (0..8).map(|at| capture.kernel_frame(&format!("f{at}"))).collect();
    kernel.push(capture.kernel_frame("bpf_trampoline_1"));
    let stack = capture.stack(&kernel, &[], WalkEnd::NoUserStack, State::Blocked);
    capture.add_intervals(stack, 1, 1, 0);
    assert!(of(capture, Mode::OffCpu)[0].starts_with("f0;f1;f2;f3;f4;f5;f6;f7;bpf_trampoline_1 "));
}

/// The lines beyond `[woken by]` for a waker with these kernel frames, the line after it first.
fn woken_by(tid: u32, state: State, end: WalkEnd, kernel: &[&str], kernel_stacks: bool) -> String {
    let mut capture = TestRecording::new();
    capture.settings.kernel_stacks = kernel_stacks;
    let (wait, wake) = (capture.frame("wait"), capture.frame("wake_up"));
    let kernel: Vec<_> = kernel.iter().map(|name| capture.kernel_frame(name)).collect();
    let blocked = capture.stack(&[], &[wait], WalkEnd::Root, State::Blocked);
    let task = capture.waker(tid, "w");
    let waker = capture.stack_of(task, &kernel, &[wake], end, state);
    capture.add_woken(blocked, waker, 2, 30);
    let made = of(capture, Mode::OffCpu);
    assert_eq!(made.len(), 1);
    assert!(made[0].ends_with(" pid=7,comm=target,pod=p,state=blocked 2,30"), "{made:?}");
    let (waker, own) = made[0].split_once(";[woken by];").unwrap();
    assert_eq!(own.split(" pid=").next(), Some("wait"));
    waker.split(';').rev().collect::<Vec<_>>().join(";")
}

#[test]
fn a_waker_is_shown_beyond_the_leaf_with_process_thread_and_stack() {
    let kernel = ["bpf_prog_1", "try_to_wake_up"];
    let by_thread = |state, shown| woken_by(1, state, WalkEnd::Root, &kernel, shown);
    let expected = "process w-process;thread w;try_to_wake_up;wake_up";
    assert_eq!(by_thread(State::Waker, true), expected);
    assert_eq!(by_thread(State::WakerInSoftirq, true), expected);
    assert_eq!(by_thread(State::Waker, false), "process w-process;thread w;wake_up");
    assert_eq!(
        woken_by(1, State::Waker, WalkEnd::NoMapping, &[], true),
        "process w-process;thread w;wake_up;[truncated: unknown mapping]"
    );
}

#[test]
fn an_interrupt_is_shown_with_its_own_kernel_frames_alone() {
    let kernel = ["bpf_trace_run1", "wake", "irq_exit", "asm_sysvec_apic_timer_interrupt", "interrupted"];
    let by = |tid, state, shown| woken_by(tid, state, WalkEnd::Root, &kernel, shown);
    let expected = "[interrupt];wake;irq_exit;asm_sysvec_apic_timer_interrupt";
    assert_eq!(by(1, State::WakerInSoftirq, true), expected);
    assert_eq!(by(0, State::Waker, true), expected);
    assert_eq!(by(1, State::WakerInSoftirq, false), "[interrupt]");
    // A thread that is interrupted while it wakes another one is still the waker.
    assert!(by(1, State::Waker, true).starts_with("process w-process;thread w;wake;"));
    assert_eq!(woken_by(0, State::Waker, WalkEnd::Root, &["wake"], true), "[interrupt];wake");
}

#[test]
fn a_waker_of_another_namespace_has_no_name() {
    let waker = woken_by(0, State::Waker, WalkEnd::NoRegisters, &["wake"], true);
    assert_eq!(waker, "[outside of this PID namespace]");
}

#[test]
fn wall_time_is_distributed_by_samples_and_states() {
    let mut capture = TestRecording::new();
    let frames = ["a", "bb", "ccc", "dddd"].map(|name| capture.frame(name));
    for (at, count) in [(0, 1), (1, 2)] {
        let stack = capture.stack(&[], &[frames[at]], WalkEnd::Root, State::Sampled);
        capture.add_samples(stack, count);
    }
    let accounted = capture.stack(&[], &[], WalkEnd::NoUserStack, State::OnCpu);
    capture.add_intervals(accounted, 1, 300, 0);
    let blocked = capture.stack(&[], &[frames[2]], WalkEnd::Root, State::Blocked);
    capture.add_intervals(blocked, 2, 500, 100);
    let preempted = capture.stack(&[], &[frames[3]], WalkEnd::Root, State::Preempted);
    capture.add_intervals(preempted, 2, 40, 40);
    let other = capture.builder.task(Some(8), Vec::new(), None).unwrap();
    let unsampled = capture.stack_of(other, &[], &[], WalkEnd::NoUserStack, State::OnCpu);
    capture.add_intervals(unsampled, 1, 7, 0);
    // Samples of a task without time on CPUs have no place here.
    let idle = capture.builder.task(Some(9), Vec::new(), None).unwrap();
    let idle = capture.stack_of(idle, &[], &[], WalkEnd::NoUserStack, State::Sampled);
    capture.add_samples(idle, 1);
    capture.settings.off_cpu_states = vec![OffCpuState::Blocked];
    assert_eq!(
        of(capture, Mode::Wall),
        [
            "a pid=7,comm=target,pod=p,state=on-cpu 100",
            "bb pid=7,comm=target,pod=p,state=on-cpu 200",
            "ccc pid=7,comm=target,pod=p,state=blocked 400",
            "ccc pid=7,comm=target,pod=p,state=runqueue 100",
            "dddd pid=7,comm=target,pod=p,state=runqueue 40",
            "[on CPU between two samples] pid=8,state=on-cpu 7",
        ]
    );
}

#[test]
fn every_kind_of_frame_has_its_location() {
    let mut capture = TestRecording::new();
    let jit = [0x10, 0x20].map(|address| capture.jit_frame(address));
    capture.name(jit[1], "compiled");
    let interpreted = ["run", "other"].map(|name| capture.interpreted_frame(name));
    let line =
        NameLine { name: "run", system_name: "run", file: "/app/x.py", line: 12, ..NameLine::default() };
    capture.names.enter(interpreted[0], [line]);
    let unknown = recording::Frame::Unknown { address: profile::Avma(0x30) };
    let unknown = capture.builder.frame(unknown).unwrap();
    let legacy = recording::Frame::Unknown { address: profile::Avma(0xffff_ffff_ff60_0400) };
    let legacy = capture.builder.frame(legacy).unwrap();
    let nameless = capture.nameless("/lib/x", 0x40);
    let inlined = capture.nameless("/lib/x", 0x50);
    capture.names.enter(inlined, ["inner", "outer"].map(|name| NameLine { name, ..NameLine::default() }));
    let by_start = capture.nameless("/lib/x", 0x60);
    capture.names.enter_start(by_start, profile::Svma(0x5c));
    let leaf = capture.exact("/lib/x", 0x3f);
    let frames =
        [jit[0], jit[1], interpreted[0], interpreted[1], unknown, legacy, nameless, inlined, by_start, leaf];
    let stack = capture.stack(&[], &frames, WalkEnd::Root, State::Sampled);
    capture.add_samples(stack, 1);
    let made = profile(&capture.finish(), Mode::OnCpu, &[]);
    assert!(
        samples(&made)[0].starts_with(
            "[jit];compiled;run;[interpreted];[unknown];[vsyscall];0x3f;inner<outer;x!fn_0x5c;0x3f pid="
        ),
        "{:?}",
        samples(&made)
    );
    let of = |at: usize| &made.locations[made.samples[0].locations[at].0 as usize];
    let mapping = |at| of(at).mapping.map(|id| made.mappings[id.0 as usize].filename.as_str());
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6].map(mapping),
        [Some("[jit]"), Some("[jit]"), None, None, None, None, Some("/lib/x")]
    );
    assert_eq!([0, 1, 2, 4, 6, 8, 9].map(|at| of(at).address), [0xf, 0, 0, 0x30, 0x3f, 0x5f, 0x3f]);
    let locations = &made.samples[0].locations;
    assert_eq!(locations[6], locations[9], "an instruction and a return address behind it are one location");
    let line = of(2).lines[0];
    let function = &made.functions[line.function.0 as usize];
    assert_eq!((function.filename.as_str(), line.line), ("/app/x.py", 12));
}

#[test]
fn the_executable_of_the_target_is_the_first_mapping() {
    let mut capture = TestRecording::new();
    let frame = capture.frame("main");
    let stack = capture.stack(&[], &[frame], WalkEnd::Root, State::Sampled);
    capture.add_samples(stack, 1);
    let mut symbolized = capture.finish();
    let recording = &mut symbolized.recording;
    let first = recording.mappings[0];
    recording.mappings.push(CodeMapping { limit: profile::Svma(0x77), ..first });
    recording.main = Some(CodeMappingId(1));
    let made = profile(&symbolized, Mode::OnCpu, &[]);
    let limits: Vec<_> = made.mappings.iter().map(|mapping: &Mapping| mapping.limit.0).collect();
    assert_eq!(limits, [0x77, 0x10000]);
}

#[test]
fn statistics_alone_have_no_samples() {
    let mut capture = TestRecording::new();
    let stack = capture.stack(&[], &[], WalkEnd::NoUserStack, State::Sampled);
    capture.add_samples(stack, 1);
    assert!(of(capture, Mode::Pmu).is_empty());
}

#[test]
fn ids_that_refer_to_nothing_do_no_harm() {
    let mut capture = TestRecording::new();
    let frame = capture.frame("main");
    let stack = capture.stack(&[], &[frame], WalkEnd::Root, State::Sampled);
    capture.add_samples(stack, 1);
    let mut symbolized = capture.finish();
    let recording = &mut symbolized.recording;
    let count = |stack| Count {
        event: EventId(77),
        stack: TaskStackId(stack),
        links: Vec::new(),
        object: None,
        time_bin: None,
        values: Vec::new(),
    };
    recording.counts.extend([count(0), count(77)]);
    recording.stacks[0].frames = [FrameId(0), FrameId(77)].into();
    recording.stacks[0].kernel_frames = 77;
    recording.main = Some(CodeMappingId(77));
    recording.modules.clear();
    for mode in [Mode::OnCpu, Mode::OffCpu, Mode::Wall, Mode::Pmu] {
        let _ = profile(&symbolized, mode, &[]);
    }
    let made = profile(&symbolized, Mode::OnCpu, &[]);
    assert_eq!(samples(&made), ["[unknown];[unknown] pid=7,comm=target,pod=p 1,10000000"]);
    let report = crate::Report::of(&symbolized, crate::EndedBy::Request);
    assert_eq!(report.ledgers.len(), 3);
}

#[test]
fn what_was_allocated_and_not_freed_is_in_use() {
    let capture = |windows| {
        let mut capture = TestRecording::new();
        (capture.settings.heap_profile, capture.settings.off_cpu_profile, capture.settings.wall_profile) =
            (true, false, false);
        capture.accounting.heap_windows = windows;
        let (keeps, frees) = (capture.frame("keeps"), capture.frame("frees"));
        for (frame, state, count, bytes) in
            [(keeps, State::Sampled, 3, 300), (frees, State::Sampled, 5, 50), (frees, State::Freed, 4, 40)]
        {
            let stack = capture.stack(&[], &[frame], WalkEnd::Root, state);
            capture.builder.add_single(
                EventId::sampled(0),
                stack,
                StackSums { count, value: bytes, waited: 0 },
            );
        }
        capture.finish()
    };
    let symbolized = capture(0);
    assert_eq!(symbolized.recording.settings.modes(), [Mode::Heap]);
    let made = profile(&symbolized, Mode::Heap, &[]);
    assert_eq!(
        samples(&made),
        ["keeps pid=7,comm=target,pod=p 3,300,3,300", "frees pid=7,comm=target,pod=p 5,50,1,10"]
    );
    let types: Vec<_> = made.sample_types.iter().map(|of| format!("{}/{}", of.kind, of.unit)).collect();
    assert_eq!(
        types,
        ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"]
    );
    assert_eq!(
        (&*made.default_sample_type, &*made.period_type.kind, &*made.period_type.unit),
        ("inuse_space", "space", "bytes")
    );
    // Windows miss allocations and frees: what is in use is not known.
    let made = profile(&capture(7), Mode::Heap, &[]);
    assert_eq!(samples(&made), ["keeps pid=7,comm=target,pod=p 3,300", "frees pid=7,comm=target,pod=p 5,50"]);
    assert_eq!(made.default_sample_type, "alloc_space");
}
