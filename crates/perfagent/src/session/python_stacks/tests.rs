//! Merged stacks in recordings, with a real interpreter.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kernel::{Attached, Event, InterpretedWalk, State};
use process::Files;
use recording::Limits;

use super::*;
use crate::session::resolver::Resolver;

#[test]
fn trampolines_of_shown_functions_are_left_out() {
    use Position::{Evaluator, Native, Python};
    // Two calls through trampolines (2 and 5), code of a JIT (3), and a call that has not begun (0) with its trampoline (1).
    let mut positions = vec![
        Native(0),
        Native(1),
        Python(0),
        Evaluator(1),
        Native(2),
        Native(3),
        Python(1),
        Evaluator(4),
        Native(5),
        Native(6),
    ];
    without_trampolines(&mut positions, |native| [1, 2, 3, 5].contains(&native));
    let expected =
        [Native(0), Native(1), Python(0), Evaluator(1), Native(3), Python(1), Evaluator(4), Native(6)];
    assert_eq!(positions, expected);
}

/// A sleeping interpreter, its image, and the address of its evaluator. `None`: there is no interpreter here, and the test is skipped.
fn interpreter() -> Option<(testkit::Process, Image, u64)> {
    let mut command = Command::new(&testkit::supported_pythons().last()?.program);
    command.args(["-c", "print('ready', flush=True)\nimport time\ntime.sleep(600)"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = testkit::Process::start(&mut command).unwrap();
    std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
    let image = process::read_image(process.pid(), &Files::new()).unwrap();
    let pythons = known(&image);
    let evaluator = image.regions().iter().find_map(|region| {
        let file = region.file()?;
        let start = pythons.of_file(file)?.evaluator.ranges.first()?.start;
        Some(region.start.0.wrapping_sub(file.svma_of(region.offset)?.0).wrapping_add(start.0))
    });
    Some((process, image, evaluator.expect("an interpreter is found")))
}

/// What is known when the files of an image have been read.
fn known(image: &Image) -> Pythons {
    let mut pythons = Pythons::new(true, false);
    let begun = Instant::now();
    while pythons.reads_files_of(image) && begun.elapsed() < Duration::from_secs(60) {}
    pythons
}

/// Frames at unknown addresses 8, 16 and 24, and between them calls of the evaluator.
fn message(evaluator: u64, python: &[(u64, u32)]) -> StackMessage {
    let frame = |pc, exact| kernel::Frame { pc, exact, by_frame_pointer: false };
    let mut attached = Attached::default();
    let python = python.iter().map(|(code, stamp)| InterpretedFrame {
        code: *code,
        instruction: 0,
        outermost: true,
        stamp: *stamp,
    });
    attached.interpreted = python.collect();
    attached.interpreted_walk = Some(InterpretedWalk { end: PythonEnd::Root, half_linked: false });
    let caller = frame(evaluator + 64, false);
    StackMessage {
        hash: 1 << 8,
        pid: 1,
        tid: 1,
        exec_id: 1,
        end: WalkEnd::Root,
        event: Event::ALL[0],
        state: State::Sampled,
        thread: "python3".to_owned(),
        time_ns: 1,
        kernel: Vec::new(),
        user: vec![frame(8, true), caller, frame(16, false), caller, frame(24, false)],
        attached: Box::new(attached),
    }
}

fn code(address: u64, name: &str) -> CodeMessage {
    CodeMessage {
        pid: 1,
        exec_id: 1,
        address,
        stamp: 7,
        first_line: 5,
        name: name.to_owned(),
        file: "/app.py".to_owned(),
        line_table: Vec::new(),
        truncated: false,
    }
}

/// The frames of the one stack that was resolved, leaf first: names of functions, `evaluator`, and numbers of unknown addresses.
fn shown(builder: Builder) -> Vec<String> {
    let recording = builder.finish(recording::Context::default());
    let [stack] = &recording.stacks[..] else { panic!("{:?}", recording.stacks) };
    let frames = stack.frames.iter().map(|frame| recording.frame(*frame).unwrap());
    frames
        .map(|frame| match frame {
            Frame::Interpreted { code, .. } => recording.code_objects[code.0 as usize].name.clone(),
            Frame::Native { .. } => "evaluator".to_owned(),
            Frame::Unknown { address } => address.0.to_string(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn functions_stand_in_the_places_of_their_evaluators() {
    let Some((_process, image, evaluator)) = interpreter() else { return };
    let (image, instance) = (Arc::new(image), Arc::new(ExecInstance::begun(1, 0, 1)));
    let snapshot = ProcessSnapshot {
        image: &image,
        instance: &instance,
        comm: "python3",
        labels: &[],
        from_ns: 1,
        before: None,
    };
    let config = crate::AgentBuilder::default().pid(1).with_cpu_profile().effective_config().unwrap();
    let resolved = |python: &[(u64, u32)], frames, is_known: bool| {
        let mut stacks = PythonStacks::new(known(&image), frames);
        stacks.add_code(code(0x1000, "inner"), Some(snapshot));
        stacks.add_code(code(0x2000, "outer"), Some(snapshot));
        let mut resolver = Resolver::new(&config, None, Some(stacks));
        let mut builder = Builder::new(Limits::default());
        let snapshot = is_known.then_some(snapshot);
        resolver.resolve(&mut builder, &message(evaluator, python), snapshot, None).unwrap();
        (shown(builder), resolver.python.unwrap().merge_failed())
    };
    let frames = |frames: &[&str]| frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>();
    let both = [(0x1000, 7), (0x2000, 7)];
    assert_eq!(resolved(&both, PythonFrames::Auto, true), (frames(&["8", "inner", "16", "outer", "24"]), 0));
    let with_evaluators = frames(&["8", "inner", "evaluator", "16", "outer", "evaluator", "24"]);
    assert_eq!(resolved(&both, PythonFrames::All, true), (with_evaluators, 0));
    // The innermost call has not begun; and a function with another stamp has no name.
    assert_eq!(
        resolved(&[(0x2000, 7)], PythonFrames::Auto, true),
        (frames(&["8", "evaluator", "16", "outer", "24"]), 0)
    );
    assert_eq!(
        resolved(&[(0x1000, 8), (0x2000, 7)], PythonFrames::Auto, true),
        (frames(&["8", "", "16", "outer", "24"]), 0)
    );
    // More functions than evaluators, though both walks came to their ends; and a process of which nothing is known.
    let three = [(0x1000, 7), (0x2000, 7), (0x2000, 7)];
    assert_eq!(
        resolved(&three, PythonFrames::Auto, true),
        (frames(&["8", "evaluator", "16", "evaluator", "24"]), 1)
    );
    let evaluator = (evaluator + 64).to_string();
    assert_eq!(
        resolved(&both, PythonFrames::Auto, false),
        (frames(&["8", &evaluator, "16", &evaluator, "24"]), 1)
    );
}
