//! The interpreter's own trampolines, by native frames alone.

use std::process::{Command, Stdio};

use perfagent::{Agent, Mode, PythonFrames};
use testkit::{Lines, Process, pythons_with_trampolines};

use super::captured::stacks;
use crate::started::started;

/// Switches its trampolines on when it gets a signal, fills several arenas, and calls functions that were not called before.
const PROGRAM: &str = "
import signal, sys

def spin(rounds):
    total = 0
    for number in range(rounds):
        total += number * number
    return total

def descend(depth, rounds):
    return spin(rounds) if depth == 0 else descend(depth - 1, rounds)

def late_spin(rounds):
    total = 0
    for number in range(rounds):
        total += number * number
    return total

def late_descend(depth, rounds):
    return late_spin(rounds) if depth == 0 else late_descend(depth - 1, rounds)

def late(rounds):
    return late_descend(20, rounds)

is_on = False
def switch_on(*_):
    global is_on
    sys.activate_stack_trampoline('perf')
    is_on = True

def main():
    signal.signal(signal.SIGUSR1, switch_on)
    print('ready', flush=True)
    while not is_on:
        descend(20, 20000)
    many = {}
    for number in range(10000):
        exec(f'def f{number}(): pass\\nf{number}()', many)
    while True:
        late(20000)

main()
";

/// Stacks of late functions that a capture has at least.
const SAMPLES: u64 = 400;

#[test]
fn functions_have_names_when_trampolines_are_switched_on_during_the_capture() {
    let _alone = super::captured::alone();
    for python in pythons_with_trampolines() {
        let mut command = Command::new(&python.program);
        command.args(["-c", PROGRAM]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command).unwrap();
        let _map = testkit::PerfMap::of(process.pid());
        assert_eq!(Lines::of(process.stdout.take().unwrap()).next(), "ready");
        let builder = Agent::builder().pid(process.pid()).sample_rate(499).python(PythonFrames::Off);
        let agent = builder.with_cpu_profile().build().unwrap();
        if !started(&agent) {
            return;
        }
        testkit::until("it is sampled", || agent.ledger().samples > 20);
        let pid = process.pid().to_string();
        assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
        let map = format!("/tmp/perf-{pid}.map");
        let is_named = || std::fs::read_to_string(&map).is_ok_and(|map| map.contains("late_spin"));
        testkit::until("the late functions have trampolines", is_named);
        let before = agent.ledger().samples;
        testkit::until("it is sampled", || agent.ledger().samples > before + SAMPLES);
        let found = stacks(agent.stop().unwrap().recording(), Mode::OnCpu);
        let (mut whole, mut all) = (0, 0);
        let mut example = None;
        for stack in &found.all {
            let names: Vec<&str> = stack.lines.iter().map(|line| line.name.as_str()).collect();
            if !names.contains(&"py::late_spin") {
                continue;
            }
            all += stack.count;
            let depth = names.iter().filter(|name| **name == "py::late_descend").count();
            if depth == 21 && names.contains(&"py::late") && names.last() == Some(&"_start") {
                whole += stack.count;
            } else {
                example = Some(names.join("\n"));
            }
        }
        assert!(all > SAMPLES / 2, "{python}: {all}");
        assert!(whole * 100 >= all * 99, "{python}: {whole} of {all}: {}", example.unwrap_or_default());
    }
}
