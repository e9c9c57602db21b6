//! Programs that get signals and contend for the lock while they are switched, and what must not change in them.

use std::io::{BufRead as _, BufReader};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sys::ptrace::send_signal;

use super::*;

mod storm;

const BUSY: &str = include_str!("busy.py");
const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
const SIGUSR2: i32 = 12;
/// As Python and the C library number it.
const SIGRTMIN: i32 = 34;

/// What the program says of itself.
#[derive(Debug)]
struct Told(String);

impl Told {
    /// Asks until the program has answered.
    fn by(program: &Program) -> Self {
        let before = program.lines();
        let pid = program.pid();
        testkit::until("it answers", || {
            send_signal(pid, pid, SIGUSR2).unwrap();
            let stat = process::task::stat(pid).unwrap();
            assert_ne!(stat.state, 'Z', "it lives");
            program.lines() > before && program.text().ends_with('\n')
        });
        Self(program.text().lines().last().unwrap().to_owned())
    }

    fn number(&self, name: &str) -> u64 {
        let (_, rest) = self.0.split_once(&format!("\"{name}\": ")).unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    }

    fn is_active(&self) -> bool {
        self.0.contains("\"active\": true")
    }
}

fn busy(python: &PathBuf, words: &[&str]) -> Program {
    Program::run(Command::new(python).args(["-c", BUSY]).args(words))
}

/// Switches a program on and off while it gets signals. All arrive, and it computes what it should.
fn cycles_lose_no_signal(python: &PathBuf, words: &[&str], cycles: u32) {
    let program = busy(python, words);
    let (pid, own) = (program.pid(), Mark::own().unwrap());
    let over = AtomicBool::new(false);
    let (queued, single) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut late = 0;
    std::thread::scope(|scope| {
        // Signals that queue, to each of the threads by turns.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for tid in process::task::threads(pid).unwrap_or_default() {
                    if send_signal(pid, tid, SIGRTMIN).is_ok() {
                        queued.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        // One that does not queue: the next is sent when it has come.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                send_signal(pid, pid, SIGUSR1).unwrap();
                let sent = single.fetch_add(1, Ordering::Relaxed) + 1;
                testkit::until("SIGUSR1 arrives", || Told::by(&program).number("usr1") == sent);
            }
        });
        for _ in 0..cycles {
            // Where signals come faster than the machine handles them, an attempt may be late.
            let mut attempt = |act: &dyn Fn() -> Result<bool, Refusal>| {
                testkit::until("it is switched", || match act() {
                    Ok(is_done) => is_done,
                    Err(refusal) => {
                        assert_eq!(refusal.token, Token::Timeout, "{words:?}: {refusal}");
                        late += 1;
                        false
                    }
                });
            };
            attempt(&|| switch_on(pid, &own).map(|on| on == On::Activated));
            attempt(&|| switch_off(pid, &own).map(|_| true));
        }
        over.store(true, Ordering::Relaxed);
    });
    let sent = queued.into_inner();
    testkit::until("all signals arrive", || Told::by(&program).number("queued") >= sent);
    let told = Told::by(&program);
    assert_eq!(told.number("queued"), sent, "{words:?}: {told:?}");
    assert_eq!(told.number("usr1"), single.into_inner(), "{words:?}: {told:?}");
    assert_eq!(told.number("wrong"), 0, "{words:?}: {told:?}");
    assert!(!told.is_active(), "{words:?}");
    // It computes on, and its timer runs.
    let goes_on = |name: &str| {
        testkit::until(name, || Told::by(&program).number(name) > told.number(name));
    };
    goes_on("rounds");
    if words.contains(&"alarm") {
        goes_on("alrm");
    }
    println!(
        "{} {words:?}: {cycles} cycles, {late} late, {sent} signals that queue: {told:?}",
        python.display()
    );
}

/// Threads that compute and wait for the lock most of the time, and children.
const PROGRAMS: [&[&str]; 3] = [&["alarm", "0"], &["alarm", "spawn", "1"], &["8"]];

#[test]
fn no_signal_is_lost_and_nothing_is_computed_wrongly() {
    let Some(python) = oldest() else { return };
    for words in PROGRAMS {
        cycles_lose_no_signal(&python, words, 4);
    }
}

/// How often the long tests switch each program: `PERFAGENT_CYCLES`, or as often as they do without it.
fn asked_cycles(usual: u32) -> u32 {
    std::env::var("PERFAGENT_CYCLES").ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

#[test]
#[ignore = "takes minutes"]
fn long_no_signal_is_lost_in_many_cycles() {
    for python in &switchable() {
        for words in PROGRAMS {
            for _ in 0..2 {
                cycles_lose_no_signal(python, words, asked_cycles(100));
            }
        }
    }
}

/// About as long as a program is traced.
const TRACED: Duration = Duration::from_millis(20);
const TARGET: &str = "PERFAGENT_TEST_TARGET";

/// The tracer that the tests below kill.
#[test]
#[ignore = "run by tracers_that_are_killed"]
fn tracer_that_is_killed() {
    let Ok(Ok(pid)) = std::env::var(TARGET).map(|pid| pid.parse()) else { return };
    let own = Mark::own().unwrap();
    println!("begin");
    let _ = switch_on(pid, &own);
    let _ = switch_off(pid, &own);
    println!("end");
}

/// Starts a tracer, and kills it some time after it has begun. How long it lived.
fn traced_by_one_that_is_killed(pid: u32, after: Option<Duration>) -> Duration {
    let mut command = testkit::own_test("tests::signals::tracer_that_is_killed");
    command.env(TARGET, pid.to_string());
    let mut tracer = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null())).unwrap();
    let mut lines = BufReader::new(tracer.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("begin")), "it begins");
    let begun = Instant::now();
    match after {
        Some(after) => {
            let is_traced = |tid: &u32| {
                let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
                status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
            };
            while !process::task::threads(pid).unwrap().iter().any(is_traced)
                && tracer.try_wait().unwrap().is_none()
            {}
            std::thread::sleep(after);
            // Once it is known to have ended, its number is another's.
            if tracer.try_wait().unwrap().is_none() {
                send_signal(tracer.pid(), tracer.pid(), SIGKILL).unwrap();
            }
        }
        None => assert!(lines.any(|line| line.ends_with("end")), "it ends"),
    }
    let lived = begun.elapsed();
    tracer.wait().unwrap();
    lived
}

/// The program goes on, computes what it should and can be switched, whenever its tracers are killed.
fn tracers_that_are_killed(python: &PathBuf, words: &[&str], rounds: u32) {
    let program = busy(python, words);
    let pid = program.pid();
    let whole = traced_by_one_that_is_killed(pid, None);
    let mut left_on = 0;
    for round in 0..rounds {
        // Moments that are spread evenly over the time in which it is traced, in no order.
        let share = f64::from(round * 61 % rounds) / f64::from(rounds);
        traced_by_one_that_is_killed(pid, Some(TRACED.mul_f64(share)));
        let before = Told::by(&program);
        left_on += u32::from(before.is_active());
        testkit::until("it goes on", || Told::by(&program).number("rounds") > before.number("rounds"));
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
    }
    let own = Mark::own().unwrap();
    let on = switch_on(pid, &own);
    assert!(matches!(on, Ok(On::Activated | On::Adopted)), "{on:?}");
    assert_eq!(switch_off(pid, &own), Ok(Off::Deactivated));
    let told = Told::by(&program);
    assert_eq!((told.number("wrong"), told.is_active()), (0, false), "{told:?}");
    println!("{words:?}, {rounds} tracers killed within {whole:?}, trampolines on after {left_on}: {told:?}");
}

#[test]
fn a_program_goes_on_when_its_tracer_is_killed() {
    let Some(python) = oldest() else { return };
    tracers_that_are_killed(&python, &["alarm", "1"], 12);
}

#[test]
#[ignore = "takes minutes"]
fn long_a_program_goes_on_when_many_tracers_are_killed() {
    for python in &switchable() {
        for words in [&["alarm", "spawn", "1"][..], &["0"]] {
            tracers_that_are_killed(python, words, 120);
        }
    }
}

/// What must be the same before and after.
struct Surface {
    /// Start, end, rights, file and offset.
    maps: Vec<(u64, u64, String, String)>,
    /// Of each thread: blocked, ignored and handled signals.
    signals: Vec<(u32, Vec<String>)>,
}

impl Surface {
    fn of(pid: u32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let mapping = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next().unwrap().split_once('-').unwrap();
            let rights = words.next().unwrap().to_owned();
            (
                hex(start),
                hex(end),
                rights,
                words.nth(2).is_some().then(|| words.next()).flatten().unwrap_or("").to_owned(),
            )
        };
        let signals = |tid: u32| {
            // Of a thread that has ended meanwhile there is nothing.
            let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
            let is_it =
                |line: &&str| ["SigBlk", "SigIgn", "SigCgt"].iter().any(|name| line.starts_with(name));
            Some((tid, status.lines().filter(is_it).map(str::to_owned).collect()))
        };
        let signals = process::task::threads(pid).unwrap().into_iter().filter_map(signals).collect();
        Self { maps: maps.lines().map(mapping).collect(), signals }
    }

    /// Bytes of executable memory that the other does not have. All else that the other has is there.
    fn more_code_than(&self, before: &Self) -> u64 {
        assert_eq!(self.signals, before.signals);
        for (start, end, rights, file) in &before.maps {
            let mut at = *start;
            for (from, to, now, of) in &self.maps {
                if (*from..*to).contains(&at) && now == rights && of == file {
                    at = *to;
                }
            }
            assert!(at >= *end, "{start:x}-{end:x} {rights} {file} is not as it was from {at:x} on");
        }
        let of_files = |surface: &Self| surface.maps.iter().filter(|map| map.3.starts_with('/')).count();
        assert_eq!(of_files(self), of_files(before), "files that are mapped");
        let code = |surface: &Self| -> u64 {
            surface.maps.iter().filter(|map| map.2.contains('x')).map(|(start, end, ..)| end - start).sum()
        };
        code(self) - code(before)
    }
}

#[test]
fn memory_and_signals_of_a_program_stay_as_they_were() {
    const ARENA: u64 = 64 << 10;
    const CYCLES: u64 = 4;
    let own = Mark::own().unwrap();
    for python in &switchable() {
        for mode in ["sleep", "compute", "join"] {
            let program = Program::start(python, &[], mode);
            // What it does at first is done.
            assert!(!program.says());
            let threads = || process::task::threads(program.pid()).unwrap().len();
            let expected = if mode == "join" { 2 } else { 1 };
            testkit::until("all threads run", || threads() == expected);
            assert!(!program.says());
            let before = Surface::of(program.pid());
            for _ in 0..CYCLES {
                assert_eq!(switch_on(program.pid(), &own), Ok(On::Activated), "{mode}");
                assert_eq!(switch_off(program.pid(), &own), Ok(Off::Deactivated), "{mode}");
            }
            let more = Surface::of(program.pid()).more_code_than(&before);
            assert!(more <= CYCLES * ARENA, "{mode}: {more} bytes of code more");
        }
    }
}
