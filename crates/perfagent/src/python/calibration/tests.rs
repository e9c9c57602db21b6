//! Interpreters of this machine: the place is found, and leads each thread to the frames that it has.

use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use interpreters::python::{Family, Interpreter, lines};
use process::{Files, Image};

use super::*;
use crate::python::asleep::read_asleep;
use crate::python::files::{InImage, InterpreterFiles};

/// Three threads and the main one, each asleep in functions of its own.
const PROGRAM: &str = "
import threading, time
def asleep():
    time.sleep(1000)
def descend(depth):
    if depth:
        descend(depth - 1)
    else:
        asleep()
def run(depth):
    descend(depth)
for depth in (1, 2, 3):
    threading.Thread(target=run, args=(depth,), daemon=True).start()
time.sleep(0.3)
print('ready', flush=True)
run(4)
";

/// A word of the process.
fn word(pid: u32, address: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(sys::memory::read(pid, address, &mut bytes).unwrap(), 8, "{address:#x}");
    u64::from_le_bytes(bytes)
}

/// A text of the process in ASCII.
fn text(pid: u32, address: u64, layout: &Layout) -> String {
    let len = word(pid, address + u64::from(layout.str_length));
    let mut bytes = vec![0; len as usize];
    sys::memory::read(pid, address + u64::from(layout.str_ascii_bytes), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The names of the functions of a thread, innermost first.
fn functions(pid: u32, state: u64, interpreter: &Interpreter) -> Vec<String> {
    let layout = &interpreter.layout;
    let at = |address: u64, offset: u32| word(pid, address + u64::from(offset));
    let mut frame = at(state, layout.tstate_frame);
    if matches!(layout.family, Family::EntryFrames | Family::Shims) {
        frame = at(frame, layout.cframe_current_frame);
    }
    let end = if layout.tstate_base_frame == 0 { 0 } else { at(state, layout.tstate_base_frame) };
    let mut names = Vec::new();
    while frame != end {
        let entry = if layout.frame_entry == 0 { 0 } else { at(frame, layout.frame_entry) as u8 };
        // The frame of a shim belongs to no function.
        let is_shim = matches!(layout.family, Family::Shims | Family::DebugOffsets) && entry >= 3;
        if !is_shim {
            let code = at(frame, layout.frame_code) & if layout.tagged_pointers { !3 } else { !0 };
            names.push(text(pid, at(code, layout.code_name), layout));
        }
        frame = at(frame, layout.frame_previous);
    }
    names
}

fn found(image: &Image) -> (std::sync::Arc<Interpreter>, u64) {
    let mut files = InterpreterFiles::default();
    let begun = std::time::Instant::now();
    loop {
        match files.in_image(image) {
            InImage::Interpreter(interpreter, region) => {
                let svma = region.file().unwrap().svma_of(region.offset).unwrap();
                return (std::sync::Arc::clone(interpreter), region.start.0 - svma.0);
            }
            InImage::NotKnownYet if begun.elapsed() < Duration::from_secs(60) => {}
            other => panic!("{other:?}"),
        }
        files.take_finished(Duration::from_secs(1));
    }
}

#[test]
fn the_place_leads_each_thread_to_its_frames() {
    for python in testkit::supported_pythons() {
        let mut command = Command::new(&python.program);
        command.args(["-c", PROGRAM]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = testkit::Process::start(&mut command).unwrap();
        let mut ready = [0; 5];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let pid = process.pid();
        let image = process::read_image(pid, &Files::new()).unwrap();
        let (interpreter, bias) = found(&image);
        let runtime = interpreter.runtime.0 + bias;
        let read = |address, len| crate::python::pythons::memory(pid, address, len);
        let asleep = |depth: usize| {
            let mut names = vec!["asleep".to_owned()];
            names.extend(vec!["descend".to_owned(); depth + 1]);
            names.extend(["run".to_owned()]);
            names
        };
        // The main thread may still be on its way to sleep.
        testkit::until("all threads sleep", || {
            let Ok(Found { slot, .. }) = calibrate(&interpreter, bias, read) else { return false };
            let states = thread_states(&interpreter.layout, runtime, MAX_THREADS, &read).0;
            let mut stacks: Vec<Vec<String>> = states
                .into_iter()
                .map(|state| functions(pid, slot.value(state.thread_id, &read).unwrap(), &interpreter))
                .collect();
            stacks.sort_by_key(|stack| stack.iter().position(|name| name == "run"));
            println!("{}: {slot:?}", interpreter.version);
            stacks.len() == 4
                && stacks.iter().zip(1..).all(|(stack, depth)| stack.starts_with(&asleep(depth)))
        });
        let asleep_in = |tids: &HashSet<u32>| {
            let Found { slot, .. } = calibrate(&interpreter, bias, read).unwrap();
            let states = thread_states(&interpreter.layout, runtime, MAX_THREADS, &read).0;
            read_asleep(&interpreter.layout, &states, &slot, tids, read)
        };
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let tids: HashSet<u32> =
            tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        assert!(asleep_in(&HashSet::from([1])).threads.is_empty(), "another thread's number");
        let read = asleep_in(&tids);
        let mut stacks: Vec<Vec<(&str, u32)>> = read
            .threads
            .values()
            .map(|(frames, is_whole)| {
                assert!(is_whole, "{}: {read:#?}", interpreter.version);
                let shown = frames.iter().filter(|frame| frame.code != 0).map(|frame| {
                    let code = read.codes.iter().find(|code| code.address == frame.code).unwrap();
                    let lines = lines::lines(interpreter.version, code.first_line, &code.line_table);
                    let instruction = lines::instruction(interpreter.version, frame.instruction);
                    let lines =
                        recording::CodeObject { first_line: code.first_line, lines, ..Default::default() };
                    (code.name.as_str(), lines.line_of(instruction))
                });
                shown.collect()
            })
            .collect();
        stacks.sort_by_key(|stack| stack.iter().position(|(name, _)| *name == "run"));
        let expected = |depth: usize| {
            let mut lines = vec![("asleep", 4), ("descend", 9)];
            lines.extend(vec![("descend", 7); depth]);
            lines.push(("run", 11));
            lines
        };
        let [one, two, three, main] = &stacks[..] else { panic!("{}: {stacks:?}", interpreter.version) };
        for (depth, stack) in (1..).zip([one, two, three, main]) {
            // Outside of it are the functions of `threading`, or the module.
            assert!(stack.starts_with(&expected(depth)), "{}: {stack:?}", interpreter.version);
        }
    }
}
