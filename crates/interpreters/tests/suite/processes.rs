//! Running interpreters: where their threads keep their states, and the frames of a chain of calls, read from outside.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use interpreters::python::slot::{self, ThreadState};
use interpreters::python::{Family, Interpreter, Layout, Slot, lines};
use testkit::{Process, pythons_of};

use crate::VERSIONS;

/// Three threads sleep; then the main one does, in three functions.
const PROGRAM: &str = "import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
def inner(seconds):
    print('ready', flush=True)
    time.sleep(
        seconds)
def middle():
    return [inner(600)]
class Outer:
    def call(self):

        middle()
Outer().call()
";

/// The name of each function of the chain and the line of its call, the innermost first, without and with qualified names.
const CHAIN: [(&str, &str, u32); 4] = [
    ("inner", "inner", 6),
    ("middle", "middle", 9),
    ("call", "Outer.call", 13),
    ("<module>", "<module>", 14),
];

struct Target {
    _process: Process,
    memory: File,
    /// Where the interpreter's file is mapped.
    bias: u64,
}

impl Target {
    fn start(program: &Path, file: &Path) -> Self {
        let mut process = Process::start(
            Command::new(program).args(["-I", "-c", PROGRAM]).stdin(Stdio::null()).stdout(Stdio::piped()),
        )
        .unwrap();
        assert_eq!(testkit::Lines::of(process.stdout.take().unwrap()).next(), "ready");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid())).unwrap();
        let path = file.canonicalize().unwrap();
        let first = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
        let mapped = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let bytes = std::fs::read(file).unwrap();
        let linked =
            elf::Layout::parse(&bytes).unwrap().load_segments().map(|segment| segment.address).min().unwrap();
        let memory = File::open(format!("/proc/{}/mem", process.pid())).unwrap();
        Self { _process: process, memory, bias: mapped - (linked & !0xfff) }
    }

    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.memory.read_at(&mut bytes, address).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    fn word(&self, address: u64, offset: u32) -> u64 {
        u64::from_le_bytes(self.read(address + u64::from(offset), 8).try_into().unwrap())
    }

    fn int(&self, address: u64, offset: u32) -> u32 {
        self.word(address, offset) as u32
    }

    /// A string of ASCII characters.
    fn text(&self, layout: &Layout, address: u64) -> String {
        let form = self.int(address, layout.str_state) >> layout.str_kind_shift & 31;
        assert_eq!(form, 1 | 1 << 3 | 1 << 4, "one byte, compact, ASCII");
        let len = self.word(address, layout.str_length) as usize;
        String::from_utf8(self.read(address + u64::from(layout.str_ascii_bytes), len)).unwrap()
    }
}

fn thread_states(target: &Target, layout: &Layout, runtime: u64) -> Vec<ThreadState> {
    let interpreter = target.word(runtime, layout.runtime_interpreters_head);
    assert_eq!(target.word(interpreter, layout.interp_next), 0, "one interpreter");
    let mut states = Vec::new();
    let mut address = target.word(interpreter, layout.interp_threads_head);
    while address != 0 {
        assert_eq!(target.word(address, layout.tstate_interp), interpreter);
        states.push(ThreadState { address, thread_id: target.word(address, layout.tstate_thread_id) });
        address = target.word(address, layout.tstate_next);
    }
    states
}

#[derive(Debug)]
struct Frame {
    name: String,
    file: String,
    line: u32,
    mark: u8,
}

/// The frames of a thread, the innermost first.
fn frames(target: &Target, found: &Interpreter, state: u64) -> Vec<Frame> {
    let layout = &found.layout;
    let untag = |pointer: u64| if layout.tagged_pointers { pointer & !3 } else { pointer };
    let mut frame = target.word(state, layout.tstate_frame);
    if layout.cframe_previous != 0 {
        frame = target.word(frame, layout.cframe_current_frame);
    }
    let base = if layout.tstate_base_frame == 0 { 0 } else { target.word(state, layout.tstate_base_frame) };
    let mut frames = Vec::new();
    while frame != base {
        let bytes = target.read(frame, layout.frame_bytes as usize);
        let mark = bytes[layout.frame_entry as usize];
        let code = untag(target.word(frame, layout.frame_code));
        let is_shim = matches!(layout.family, Family::Shims | Family::DebugOffsets) && mark >= 3;
        if !is_shim {
            let raw = match layout.family {
                Family::HeapFrames => target.int(frame, layout.frame_instruction),
                _ => target
                    .word(frame, layout.frame_instruction)
                    .wrapping_sub(code + u64::from(layout.code_first_unit)) as u32,
            };
            let table = target.word(code, layout.code_line_table);
            let len = target.word(table, layout.bytes_length) as usize;
            let table = target.read(table + u64::from(layout.bytes_bytes), len);
            let all = lines::lines(found.version, target.int(code, layout.code_first_line), &table);
            let instruction = lines::instruction(found.version, raw);
            let after = all.partition_point(|(first, _)| *first <= instruction);
            let name = target.text(layout, target.word(code, layout.code_name));
            let file = target.text(layout, target.word(code, layout.code_filename));
            frames.push(Frame { name, file, line: all[after - 1].1, mark });
        }
        frame = target.word(frame, layout.frame_previous);
    }
    frames
}

fn check(program: &Path, file: &Path) {
    let found = Interpreter::of_file(&std::fs::read(file).unwrap()).unwrap().unwrap();
    let target = Target::start(program, file);
    let runtime = target.bias + found.runtime.0;
    let states = thread_states(&target, &found.layout, runtime);
    assert_eq!(states.len(), 4, "{}", found.version);
    // A thread may not have begun yet when the main one is ready.
    let mut slot = None;
    let read = |address, len| target.read(address, len);
    testkit::until("all threads have a state", || {
        let states = thread_states(&target, &found.layout, runtime);
        slot = match &found.thread_variable {
            Some(variable) => slot::of_variable(variable, target.bias, &states, read),
            None => slot::find(&states, read),
        };
        slot.is_some()
    });
    let slot = slot.unwrap();
    if found.thread_variable.is_none() {
        let Slot::Near { offset } = slot else { panic!("{}: {slot:?}", found.version) };
        // The first keys of glibc, each with a number in front.
        assert!((0x318..0x518).contains(&offset) && offset % 16 == 8, "{}: {offset:#x}", found.version);
        if found.layout.runtime_auto_tss_key != 0 {
            let key = target.int(runtime, found.layout.runtime_auto_tss_key + 4);
            assert_eq!(i64::from(offset), 0x310 + 16 * i64::from(key) + 8, "{}", found.version);
        }
    }

    // The program sleeps a moment after it has told that it is ready.
    let mut chains = Vec::new();
    testkit::until("the program sleeps", || {
        chains = states
            .iter()
            .filter_map(|state| slot.value(state.thread_id, &read))
            .filter(|state| *state != 0)
            .map(|state| frames(&target, &found, state))
            .filter(|frames| frames.last().is_some_and(|frame| frame.name == "<module>"))
            .collect();
        let innermost = chains.first().and_then(|chain: &Vec<_>| chain.first()).map(|frame| frame.line);
        innermost == Some(CHAIN[0].2)
    });
    let [chain] = &chains[..] else { panic!("{}: {chains:?}", found.version) };
    let has_qualified_names = found.layout.family != Family::HeapFrames;
    let wanted = CHAIN.map(|(name, qualified, line)| {
        (if has_qualified_names { qualified } else { name }.to_string(), line)
    });
    let names: Vec<_> = chain.iter().map(|frame| (frame.name.clone(), frame.line)).collect();
    assert_eq!(names, wanted, "{}", found.version);
    assert!(chain.iter().all(|frame| frame.file == "<string>"), "{chain:?}");
    if found.layout.family == Family::EntryFrames {
        let entries: Vec<_> = chain.iter().map(|frame| frame.mark).collect();
        assert_eq!(entries, [0, 0, 0, 1], "{}: one evaluator runs all", found.version);
    }
}

#[test]
fn threads_and_frames_are_found() {
    for python in pythons_of(&VERSIONS) {
        check(&python.program, python.file());
    }
}
