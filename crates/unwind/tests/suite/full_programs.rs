//! Stacks of a program that single-steps its own code: through the resolver of lazy binding, whose CFA depends on rbx,
//! and through vfork, which keeps its return address in rdi for a while. At each instruction, the callers of `main` and
//! their stack pointers must be the same.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use object::Object;
use object::ObjectSegment;
use object::ObjectSymbol;
use unwind::StepError;
use unwind::Table;
use unwind::full::Frame;
use unwind::full::FullUnwinder;

const STACK_BYTES: usize = 8192;
/// The red zone belongs to the function. Epilogues leave rows of registers at slots that they have already popped.
const RED_ZONE: usize = 128;
const STEP_BYTES: usize = 17 * 8 + RED_ZONE + STACK_BYTES;

struct Module {
    start: u64,
    end: u64,
    bias: u64,
    table: Table,
    full: FullUnwinder<Vec<u8>>,
}

fn modules(maps: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
        let fields: Vec<_> = line.split_whitespace().collect();
        let Some(path) = fields.get(5).filter(|path| path.starts_with('/')) else { continue };
        let (start, end) = fields[0].split_once('-').unwrap();
        let [start, end, offset] = [start, end, fields[2]].map(|text| u64::from_str_radix(text, 16).unwrap());
        let elf = std::fs::read(path).unwrap();
        let table = unwind::compile(&elf).unwrap();
        let file = object::File::parse(&*elf).unwrap();
        let segment = file.segments().find(|s| s.file_range().0 & !0xfff == offset).unwrap();
        let bias = start - (segment.address() & !0xfff);
        modules.push(Module { start, end, bias, table, full: FullUnwinder::new(elf).unwrap() });
    }
    modules
}

/// {pc, sp} of all frames, and the end of the walk.
fn walk(modules: &[Module], step: &[u8], with_full: bool) -> (Vec<(u64, u64)>, StepError) {
    let (registers, stack) = step.split_at(17 * 8);
    let words = registers.as_chunks::<8>().0;
    let general: [u64; 16] = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
    let memory = |address: u64| {
        let at = usize::try_from(address.checked_sub(general[7] - RED_ZONE as u64)?).ok()?;
        Some(u64::from_le_bytes(*stack.get(at..)?.first_chunk()?))
    };
    let mut frame = Frame::leaf(&general, u64::from_le_bytes(words[16]));
    let mut frames = Vec::new();
    while frames.len() < 100 {
        frames.push((frame.pc, frame.sp().unwrap()));
        let address = frame.lookup_address();
        let Some(module) = modules.iter().find(|module| (module.start..module.end).contains(&address)) else {
            return (frames, StepError::NoRow(address));
        };
        let full = match module.full.step(&frame, module.bias, &memory) {
            Err(StepError::NoRow(_)) => None,
            result => Some(result).filter(|_| with_full),
        };
        let next = full.unwrap_or_else(|| {
            let rule = module.table.lookup(address - module.bias).ok_or(StepError::NoRow(address))?;
            frame.apply(rule, &memory)
        });
        match next {
            Ok(next) => frame = next,
            Err(end) => return (frames, end),
        }
    }
    panic!("no end of {frames:x?}");
}

/// The steps of a program, and its files.
struct Steps {
    modules: Vec<Module>,
    bytes: Vec<u8>,
}

/// Runs the program in one of its modes. `None`: there is no compiler.
fn run(mode: &str) -> Option<Steps> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stepped.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stepped-{mode}"));
    let flags = ["-O1", "-fno-omit-frame-pointer", "-Wl,-z,lazy", "-o"];
    let gcc = testkit::needed("gcc")?;
    assert!(Command::new(gcc).args(flags).arg(&program).arg(source).status().unwrap().success());
    // Space above main's frame, so that a whole window can be read there.
    let output =
        Command::new(program).args([mode, "1"]).env("ROOM", "x".repeat(4 * STACK_BYTES)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (size, rest) = output.stdout.split_first_chunk::<8>().unwrap();
    let (maps, steps) = rest.split_at(u64::from_le_bytes(*size) as usize);
    Some(Steps { modules: modules(std::str::from_utf8(maps).unwrap()), bytes: steps.to_vec() })
}

/// Walks at every step of the program. Returns the number of walks, and of those that end early with compact rules.
fn check(mode: &str) -> (usize, usize) {
    let Some(Steps { modules, bytes: steps }) = run(mode) else { return (usize::MAX, usize::MAX) };
    let (mut count, mut lost, mut tail) = (0, 0, None);
    let begun = Instant::now();
    let mut frames_walked = 0;
    for step in steps.chunks_exact(STEP_BYTES) {
        let (frames, end) = walk(&modules, step, true);
        assert_eq!(end, StepError::Root, "step {count}: {frames:x?}");
        assert!((4..60).contains(&frames.len()), "step {count}: {frames:x?}");
        let callers_of_main = frames[frames.len() - 3..].to_vec();
        let expected = tail.get_or_insert_with(|| callers_of_main.clone());
        assert_eq!(&callers_of_main, expected, "step {count}: {frames:x?}");
        count += 1;
        frames_walked += frames.len();
        lost += usize::from(walk(&modules, step, false).1 == StepError::UnsupportedRule);
    }
    eprintln!(
        "{mode}: {count} steps, {lost} not by compact rules, {frames_walked} frames, {:?}",
        begun.elapsed()
    );
    (count, lost)
}

#[test]
fn lazily_bound_calls() {
    let (steps, lost) = check("lazy");
    assert!(steps > 300 && lost > 100, "{steps} {lost}");
}

#[test]
fn vfork() {
    let (steps, lost) = check("vfork");
    assert!(steps > 500 && lost > 100, "{steps} {lost}");
}

/// At each instruction of a function that realigns its stack, all callers are found, with all registers and by compact
/// rules.
#[test]
fn a_realigned_function_hides_no_caller() {
    const CHAIN: [&str; 5] = ["main", "outer", "inner", "realigned", "innermost"];
    let Some(Steps { modules, bytes }) = run("realigned") else { return };
    let file = object::File::parse(&**modules[0].full.bytes()).unwrap();
    let functions: Vec<_> = CHAIN
        .iter()
        .map(|name| file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap())
        .map(|symbol| symbol.address()..symbol.address() + symbol.size())
        .collect();
    let mut deepest = 0;
    for (count, step) in bytes.chunks_exact(STEP_BYTES).enumerate() {
        for with_full in [true, false] {
            let (frames, end) = walk(&modules, step, with_full);
            let mut found: Vec<usize> = frames
                .iter()
                .enumerate()
                .map(|(at, (pc, _))| pc.wrapping_sub(u64::from(at > 0) + modules[0].bias))
                .filter_map(|svma| functions.iter().position(|range| range.contains(&svma)))
                .collect();
            found.reverse();
            assert_eq!(end, StepError::Root, "step {count}, full {with_full}: {frames:x?}");
            let all: Vec<usize> = (0..found.len()).collect();
            assert_eq!(found, all, "step {count}, full {with_full}: {frames:x?}");
            deepest = deepest.max(found.len());
        }
    }
    assert_eq!(deepest, CHAIN.len());
}
