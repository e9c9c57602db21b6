//! The frames of real interpreters, walked in the kernel when a thread leaves its CPU. The program is known, so the functions are. Without
//! privileges or interpreters these skip and say so.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use interpreters::python::{Interpreter, Slot, lines, slot};
use kernel::{
    Attached, CodeMessage, Error, Kernel, KernelProcess, Message, OffCpu, Python, PythonEnd, Settings, State,
};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use profile::Avma;

use crate::following::now_ns;

/// A recursion that sleeps, with a call of C between: `sorted` calls `key`, which begins another evaluator.
const PROGRAM: &str = "
import time
def leaf(n):
    time.sleep(0.005)
    return n
def key(n):
    return leaf(n)
def down(n):
    if n == 0:
        return sorted([1], key=key)
    return down(n - 1)
def main():
    print('ready', flush=True)
    while True:
        down(20)
main()
";

/// A process that runs the program; killed when dropped.
struct Target(Child);

impl Target {
    fn start(python: &Path) -> Self {
        let mut child = Command::new(python)
            .args(["-c", PROGRAM])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", python.display()));
        assert_eq!(testkit::Lines::of(child.stdout.take().unwrap()).next(), "ready");
        Self(child)
    }

    fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let memory = File::open(format!("/proc/{}/mem", self.0.id())).unwrap();
        let mut bytes = vec![0; length];
        let read = memory.read_at(&mut bytes, address).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    fn word(&self, address: u64) -> u64 {
        self.read(address, 8).first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// The interpreter's file in the process, and its bias.
    fn interpreter(&self) -> (Interpreter, u64) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.id())).unwrap();
        for line in maps.lines().filter(|line| line.contains("python")) {
            let mut words = line.split_whitespace();
            let start = words.next().unwrap().split('-').next().unwrap();
            let path = line.split_whitespace().last().unwrap();
            let Ok(bytes) = std::fs::read(path) else { continue };
            let Ok(Some(found)) = Interpreter::of_file(&bytes) else { continue };
            // A program at a fixed address has type 2, ET_EXEC.
            let is_fixed = bytes.get(16) == Some(&2);
            let bias = if is_fixed { 0 } else { u64::from_str_radix(start, 16).unwrap() };
            return (found, bias);
        }
        panic!("no interpreter in\n{maps}");
    }

    /// Makes the process and its interpreter known to the programs.
    fn enter(&self, kernel: &mut Kernel) -> Interpreter {
        let (python, bias) = self.interpreter();
        let in_process = Python {
            layout: python.layout,
            runtime: Avma(python.runtime.0.wrapping_add(bias)),
            slot: self.slot(&python, bias),
            evaluator: python.evaluator.ranges.iter().map(|of| range(of, bias)).collect(),
            before_dispatch: python.evaluator.before_dispatch.as_ref().map(|of| range(of, bias)),
        };
        let (pid, exec_id) = (self.0.id(), now_ns());
        kernel.follow_processes().unwrap();
        let process = KernelProcess { pid, exec_id, mappings: &[], waker_only: false };
        kernel.add_process(&process).unwrap();
        assert!(!kernel.set_python(pid, exec_id + 1, Some(&in_process)).unwrap(), "another program");
        assert!(kernel.set_python(pid, exec_id, Some(&in_process)).unwrap());
        // An update of the mappings keeps it.
        assert!(kernel.update_process(&process).unwrap());
        python
    }

    fn slot(&self, python: &Interpreter, bias: u64) -> Slot {
        let (runtime, layout) = (python.runtime.0.wrapping_add(bias), &python.layout);
        let interpreter = self.word(runtime + u64::from(layout.runtime_interpreters_head));
        let state = self.word(interpreter + u64::from(layout.interp_threads_head));
        let thread_id = self.word(state + u64::from(layout.tstate_thread_id));
        let states = [slot::ThreadState { address: state, thread_id }];
        let read = |address, length| self.read(address, length);
        let found = match &python.thread_variable {
            Some(variable) => slot::of_variable(variable, bias, &states, read),
            None => slot::find(&states, read),
        };
        found.expect("a place of the thread state")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn loaded() -> Option<Kernel> {
    let off_cpu = OffCpu { states: vec![State::Blocked], min_block_ns: 0, wall_clock: false, wakers: false };
    let settings = Settings { off_cpu: Some(off_cpu), python: true, seed: 7, ..Settings::default() };
    testkit::has_btf().map_err(testkit::skipped).ok()?;
    match Kernel::load(&settings) {
        Ok(kernel) => Some(kernel),
        Err(Error::Privilege { .. }) => {
            testkit::skipped("no privileges to load BPF programs");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// The names of the frames with their lines, innermost first; `|` behind the outermost one of an evaluator.
fn shown(walk: &Attached, codes: &HashMap<(u64, u32), CodeMessage>, python: &Interpreter) -> String {
    let mut text = String::new();
    for frame in &walk.interpreted {
        let outermost = if frame.outermost { "|" } else { "" };
        let Some(code) = codes.get(&(frame.code, frame.stamp)) else {
            text += &format!("?{outermost} ");
            continue;
        };
        let table = lines::lines(python.version, code.first_line, &code.line_table);
        let unit = lines::instruction(python.version, frame.instruction);
        let line = table.iter().take_while(|(from, _)| *from <= unit).last().map_or(0, |(_, line)| *line);
        assert_eq!(code.file, "<string>");
        text += &format!("{}:{line}{outermost} ", code.name);
    }
    text
}

fn range(of: &Range<profile::Svma>, bias: u64) -> Range<Avma> {
    Avma(of.start.0.wrapping_add(bias))..Avma(of.end.0.wrapping_add(bias))
}

/// The whole chain at the sleep, with the marks of this version.
fn expected(python: &Interpreter) -> String {
    let each = python.version.minor <= 10;
    let inner = if each { "|" } else { "" };
    let down = format!("down:11{inner} ").repeat(20);
    format!("leaf:4{inner} key:7| down:10{inner} {down}main:15{inner} <module>:16| ")
}

#[test]
fn the_frames_of_a_sleeping_recursion_are_those_of_the_program() {
    let _alone = crate::alone();
    for installed in testkit::supported_pythons() {
        let path = &installed.program;
        let Some(mut kernel) = loaded() else { return };
        let target = Target::start(path);
        let python = target.enter(&mut kernel);
        kernel.follow_threads().unwrap();
        kernel.enter_threads(now_ns()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        kernel.leave_threads(now_ns()).unwrap();

        let (mut codes, mut stacks) = (HashMap::new(), Vec::new());
        for message in kernel.receive().unwrap() {
            match message {
                Message::Code(code) => drop(codes.insert((code.address, code.stamp), code)),
                Message::Stack(stack) => stacks.push(*stack.attached),
                Message::Raw(raw) => stacks.push(*raw.stack.attached),
                _ => {}
            }
        }
        let ends = stacks.iter().filter_map(|stack| stack.interpreted_walk);
        assert!(ends.clone().count() > 3, "{}: {} stacks", path.display(), stacks.len());
        assert!(
            ends.clone().all(|walk| walk.end == PythonEnd::Root && !walk.half_linked),
            "{}",
            path.display()
        );
        let counted = kernel.off_cpu_counters().python;
        assert!(counted.walks(PythonEnd::Root) > 3 && counted.codes_sent >= 5, "{counted:?}");
        let asleep = |stack: &&Attached| stack.interpreted_walk.is_some();
        for stack in stacks.iter().filter(asleep) {
            assert_eq!(shown(stack, &codes, &python), expected(&python), "{}", path.display());
        }
    }
}

/// The map of this name that this process holds: other agents may run here.
fn own_map(name: &str) -> MapHandle {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = descriptors.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let id = |text: String| text.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok());
    let own: Vec<u32> = texts.filter_map(id).collect();
    let mut maps = MapInfoIter::default().filter(|map| map.name == *name && own.contains(&map.id));
    MapHandle::from_map_id(maps.next().unwrap().id).unwrap()
}

#[test]
fn a_thread_whose_functions_find_no_room_is_counted_and_keeps_its_own_stack() {
    let _alone = crate::alone();
    let Some(python) = testkit::supported_pythons().pop() else { return };
    let Some(mut kernel) = loaded() else { return };
    // The claims come first in a state: as if programs on other CPUs had all states.
    let states = own_map("python_walks");
    let mut taken = vec![0; states.value_size() as usize];
    taken[..8].copy_from_slice(&1_u64.to_ne_bytes());
    for index in 0..states.max_entries() {
        states.update(&index.to_ne_bytes(), &taken, MapFlags::ANY).unwrap();
    }
    let target = Target::start(&python.program);
    target.enter(&mut kernel);
    kernel.follow_threads().unwrap();
    kernel.enter_threads(now_ns()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kernel.leave_threads(now_ns()).unwrap();

    let messages = kernel.receive().unwrap();
    let stacks = messages.iter().filter_map(|message| match message {
        Message::Stack(stack) => Some(&stack.attached),
        Message::Raw(raw) => Some(&raw.stack.attached),
        _ => None,
    });
    let walks: Vec<_> = stacks.map(|stack| stack.interpreted_walk).collect();
    assert!(walks.len() > 3 && walks.iter().all(Option::is_none), "{walks:?}");
    let counted = kernel.off_cpu_counters().python;
    assert!(counted.walks(PythonEnd::Fault) > 3 && counted.walks(PythonEnd::Root) == 0, "{counted:?}");
}
