//! Stacks of running programs, at hundreds of instructions: the walker against framehop, the Rust reference and, while
//! the program goes step by step, the calls and returns that were seen.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;

use framehop::FrameAddress;
use framehop::Unwinder;
use framehop::x86_64::UnwindRegsX86_64;
use replay::End;
use replay::Frame;
use replay::Registers;
use replay::Stack;
use replay::Thread;
use replay::Walk;
use unwind::abi::SIGNAL;
use unwind::abi::cfa;

use crate::image::Files;
use crate::image::Image;
use crate::recorder::Recorder;
use crate::reference;

#[derive(Debug, Default)]
struct Seen {
    stops: usize,
    rooted: usize,
    frames: usize,
    from_memo: usize,
    /// Steps of framehop that gave the same caller.
    framehop_equal: usize,
    /// Steps that framehop cannot do, by what the reason is.
    framehop_unable: usize,
    signal_frames: usize,
    /// Walks from stubs of the PLT whose frame depends on the pc.
    plt_leaves: usize,
    /// Frames held against the calls and returns of the stepped program.
    true_frames: usize,
    unrooted: Unrooted,
}

/// A walk that did not reach the root.
#[derive(Clone, Debug)]
struct Cut {
    /// File and link-time address of the leaf.
    leaf: (String, u64),
    /// The same of the frame whose caller was not found.
    last: (String, u64),
    end: End,
}

#[derive(Default)]
struct Unrooted(Vec<Cut>);

/// Their number and a few of them: there may be thousands.
impl std::fmt::Debug for Unrooted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} such as {:x?}", self.0.len(), &self.0[..self.0.len().min(3)])
    }
}

impl Unrooted {
    /// All that were not cut in a way that is known.
    fn but(&self, known: impl Fn(&Cut) -> bool) -> Self {
        Self(self.0.iter().filter(|cut| !known(cut)).cloned().collect())
    }
}

/// Whether framehop has no means for a frame, or guesses: it knows sp, rbp and the pc, reads `.eh_frame`, and does not
/// take notice of trampolines.
fn beyond_framehop(image: &Image, frame: &Frame, innermost: bool) -> bool {
    let address = if frame.exact { frame.pc } else { frame.pc - 1 };
    let Some(rule) = reference::rule_at(&image.areas, address) else { return true };
    matches!(rule.cfa, cfa::REG | cfa::SP_DEREF | cfa::FP_DEREF | cfa::UNSUPPORTED)
        || rule.flags & SIGNAL != 0
        || rule.ra != unwind::abi::ra::CFA
        || rule.fp == unwind::abi::fp::UNDEFINED
        || (frame.exact && !innermost)
        || reference::area_at(&image.areas, address).is_some_and(|area| !area.has_frame_information(address))
}

fn check_framehop(image: &Image, walk: &Walk, stack: &Stack, seen: &mut Seen) {
    let mut cache = framehop::CacheNative::new();
    for (at, pair) in walk.frames.windows(2).enumerate() {
        let (frame, caller) = (&pair[0], &pair[1]);
        let mut registers = UnwindRegsX86_64::new(frame.pc, frame.sp, frame.fp);
        let address = if at == 0 {
            FrameAddress::from_instruction_pointer(frame.pc)
        } else {
            FrameAddress::from_return_address(frame.pc).unwrap()
        };
        let mut read = |address| stack.word(address).ok_or(());
        let theirs = image.framehop.unwind_frame(address, &mut registers, &mut cache, &mut read);
        if theirs == Ok(Some(caller.pc)) && (registers.sp(), registers.bp()) == (caller.sp, caller.fp) {
            seen.framehop_equal += 1;
            continue;
        }
        assert!(
            beyond_framehop(image, frame, at == 0),
            "frame {at} {frame:x?}, caller {caller:x?}: framehop says {theirs:x?} {registers:x?}"
        );
        seen.framehop_unable += 1;
    }
}

fn check(image: &mut Image, registers: &Registers, stack: &Stack, seen: &mut Seen) -> Walk {
    let thread = Thread { tid: 1, exec_id: 1, generation: 1 };
    let walk =
        image.replay.walk_checked(&thread, registers, stack).unwrap_or_else(|differs| panic!("{differs:x?}"));
    let (frames, end) = reference::walk(&image.areas, registers, stack);
    if (&walk.frames, walk.end) != (&frames, end) {
        let at = walk.frames.iter().zip(&frames).take_while(|(ours, theirs)| ours == theirs).count();
        let (ours, theirs) = (walk.frames.get(at), frames.get(at));
        panic!("frame {at}: {ours:x?}, {:?}, not {theirs:x?}, {end:?}; from {registers:x?}", walk.end);
    }
    check_framehop(image, &walk, stack, seen);
    seen.stops += 1;
    seen.frames += frames.len();
    seen.plt_leaves +=
        usize::from(reference::rule_at(&image.areas, registers.pc).is_some_and(|rule| rule.cfa == cfa::PLT));
    seen.from_memo += walk.matched_from_memo;
    seen.signal_frames += frames.iter().skip(1).filter(|frame| frame.exact).count();
    if end == End::Root {
        seen.rooted += 1;
    } else {
        let place = |pc: u64| {
            let area = reference::area_at(&image.areas, pc);
            area.map_or((String::new(), pc), |area| (area.name.clone(), pc.wrapping_sub(area.bias)))
        };
        let last = place(frames.last().map_or(registers.pc, |frame| frame.pc));
        seen.unrooted.0.push(Cut { leaf: place(registers.pc), last, end });
    }
    walk
}

/// Whether calls and returns are followed as the program is stepped, and held against rooted walks.
#[derive(Clone, Copy, PartialEq)]
enum Truth {
    Unknown,
    Stepped,
}

/// The callers as (pc, sp), outermost first, kept up to date by what single instructions do.
struct Calls(Vec<(u64, u64)>);

impl Calls {
    fn of(walk: &Walk) -> Self {
        Self(walk.frames[1..].iter().rev().map(|frame| (frame.pc, frame.sp)).collect())
    }

    fn instruction(&mut self, before: (&Registers, &Stack), after: (&Registers, &Stack)) {
        let (pc, sp) = (before.0.pc, before.0.by_number[7]);
        let (next_pc, next_sp) = (after.0.pc, after.0.by_number[7]);
        if next_sp == sp.wrapping_sub(8)
            && let Some(word) = after.1.word(next_sp)
            && (pc + 1..=pc + 8).contains(&word)
            && word != next_pc
        {
            self.0.push((word, sp));
        } else if next_sp == sp + 8
            && before.1.word(sp) == Some(next_pc)
            && self.0.last() == Some(&(next_pc, next_sp))
        {
            self.0.pop();
        }
    }

    fn check(&self, walk: &Walk, registers: &Registers) -> usize {
        let found = Self::of(walk).0;
        if found != self.0 {
            let same = found.iter().zip(&self.0).take_while(|(found, called)| found == called).count();
            let (found, called) = (&found[same..], &self.0[same..]);
            panic!("after {same} outer callers {found:x?}, not {called:x?}, at {registers:x?}");
        }
        found.len()
    }
}

/// Stops a program `rounds` times at random and follows it for `steps` instructions each time.
fn record(command: &mut Command, rounds: u64, steps: usize, truth: Truth) -> Seen {
    record_until(command, rounds..=rounds, steps, truth, |_| true)
}

/// The same for as many more rounds as it takes to see what is rare.
fn record_until(
    command: &mut Command,
    rounds: RangeInclusive<u64>,
    steps: usize,
    truth: Truth,
    enough: impl Fn(&Seen) -> bool,
) -> Seen {
    let mut files = Files::default();
    let mut process = Recorder::start(command);
    process.run_for(150_000);
    let mut image = files.image(&process);
    let mut seen = Seen::default();
    for round in 0..*rounds.end() {
        if round >= *rounds.start() && enough(&seen) {
            break;
        }
        process.run_for(200 + round * 7919 % 3000);
        if !image.is_current(&process) {
            image = files.image(&process);
        }
        let mut registers = process.registers();
        let mut stack = process.stack(registers.by_number[7]);
        let mut walk = check(&mut image, &registers, &stack, &mut seen);
        let may_be_judged = |walk: &Walk| truth == Truth::Stepped && walk.end == End::Root;
        let mut calls = may_be_judged(&walk).then(|| Calls::of(&walk));
        for _ in 0..steps {
            let quiet = process.step();
            if !image.is_current(&process) {
                image = files.image(&process);
            }
            let next_registers = process.registers();
            let next_stack = process.stack(next_registers.by_number[7]);
            if let Some(calls) = &mut calls {
                assert!(quiet, "a signal");
                calls.instruction((&registers, &stack), (&next_registers, &next_stack));
            }
            (registers, stack) = (next_registers, next_stack);
            walk = check(&mut image, &registers, &stack, &mut seen);
            if let Some(calls) = &calls
                && may_be_judged(&walk)
            {
                seen.true_frames += calls.check(&walk, &registers);
            }
        }
    }
    println!("{command:?}: {seen:x?}");
    seen
}

/// Compiles a program of `fixtures/`, for one test: others that run at the same time may do the same.
fn fixture(compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let test = std::thread::current().name().unwrap_or_default().replace(':', "-");
    let name = format!("replay-{test}-{source}{}", flags.concat());
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(source);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-fomit-frame-pointer", "-w"]).args(flags).arg(path).arg("-o").arg(&out).arg("-lm");
    assert!(command.status().unwrap().success(), "{command:?}");
    out
}

#[test]
fn calls_of_many_shapes() {
    for flags in [&["-fno-plt"][..], &["-fcf-protection=full", "-Wl,-z,lazy"], &["-O1", "-mavx2"]] {
        let seen = record(&mut Command::new(fixture("gcc", "calls.c", flags)), 60, 60, Truth::Stepped);
        assert!(seen.unrooted.0.is_empty(), "{flags:?}: {seen:?}");
        assert!(seen.true_frames > 10_000 && seen.from_memo * 2 > seen.frames, "{seen:?}");
        assert!(seen.framehop_equal > 50 * seen.framehop_unable, "{seen:?}");
    }
}

/// Every call through the PLT goes through the resolver: the stubs push before they jump. What the resolver calls, such as
/// the functions of libc that choose by processor, cannot be left, because the resolver finds its frame by rbx, which
/// the walker does not follow.
#[test]
fn unresolved_calls() {
    let flags = ["-fcf-protection=none", "-Wl,-z,lazy", "-Wl,-z,norelro"];
    let mut command = Command::new(fixture("gcc", "calls.c", &flags));
    command.env("LD_BIND_NOT", "1");
    // A stop meets a stub about once in five rounds.
    let seen = record_until(&mut command, 100..=1000, 80, Truth::Stepped, |seen| seen.plt_leaves > 10);
    let others = seen.unrooted.but(|cut| cut.last.0.contains("ld-linux") && cut.end == End::UnsupportedRule);
    assert!(others.0.is_empty(), "{others:?}");
    assert!(seen.true_frames > 10_000, "{seen:?}");
    assert!(seen.plt_leaves > 10, "{seen:?}");
}

/// With the stubs in front of functions that a static program chooses by processor, which have no frame information.
#[test]
fn static_program() {
    let seen = record(&mut Command::new(fixture("gcc", "calls.c", &["-static"])), 60, 60, Truth::Stepped);
    assert!(seen.unrooted.0.is_empty(), "{seen:?}");
    assert!(seen.true_frames > 10_000, "{seen:?}");
}

#[test]
fn signal_handlers_on_either_stack() {
    let seen = record(&mut Command::new(fixture("gcc", "signals.c", &[])), 200, 20, Truth::Unknown);
    assert!(seen.unrooted.0.is_empty(), "{seen:?}");
    assert!(seen.signal_frames > 1000, "{seen:?}");
}

/// While the landing pad's frame is being installed, libgcc has overwritten its own frame, and no unwinder gets out.
#[test]
fn exceptions() {
    testkit::need!("g++");
    let seen = record(&mut Command::new(fixture("g++", "exceptions.cpp", &[])), 100, 60, Truth::Unknown);
    let others = seen.unrooted.but(|cut| cut.leaf.0.contains("libgcc_s"));
    assert!(others.0.is_empty(), "{others:?}");
    assert!(seen.unrooted.0.len() * 20 < seen.stops, "{seen:?}");
    assert!(seen.framehop_equal > 10_000, "{seen:?}");
}

/// A program of a package, with arguments that keep it busy.
fn installed(name: &str, arguments: &[&str]) {
    let path = testkit::need!(name);
    let seen = record(Command::new(path).args(arguments), 30, 30, Truth::Unknown);
    assert!(seen.rooted * 100 >= seen.stops * 99, "{seen:?}");
}

#[test]
fn python() {
    let program = "def f(n): return sorted([str(i * n) for i in range(50)], key=len) if n < 1 else f(n - 1)\nwhile True: f(20)";
    installed("python3", &["-c", program]);
}

#[test]
fn sqlite() {
    let query = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(printf('%d', i) like '%7%') from n";
    installed("sqlite3", &[":memory:", query]);
}

#[test]
fn node() {
    let program = "const f = n => n ? [n, ...f(n - 1)].sort() : []; for (;;) JSON.stringify(f(40))";
    installed("node", &["-e", program]);
}
