//! Copies of stacks of programs whose calls are known, walked in both ways.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use events::stack_reader::{
    ProcessCode, StackConfig, StackItem, StackReader, StackReaderError, StackSample, Walk, WalkEnd,
};
use testkit::Process;

/// Opens what needs rights, or skips the test.
macro_rules! permitted {
    ($result:expr) => {
        match $result {
            Err(error) if error.is_permission() => testkit::skip!("{error}"),
            result => result.unwrap(),
        }
    };
}

/// `main` calls `one`, which calls `two`, which calls `three`, which computes. Each has a frame of another size.
const PROGRAM: &str = r#"
volatile unsigned long sum, is_there;
#define APART __attribute__((noinline, noclone))
APART void three(volatile char *place) { volatile long own[8]; is_there = 1; do own[sum & 7] = *place | 2; while (own[3] != 1); }
APART void two(int n) { volatile char place[40]; place[n & 7] = n; three(place); sum++; }
APART void one(int n) { volatile char place[3000]; place[n & 7] = n; two(n + place[1]); sum++; }
int main(int count, char **words) { one(count); sum++; return (int)sum; }
"#;

/// The lines of `nm`: address, kind and name.
fn symbols(program: &Path) -> Vec<(u64, String, String)> {
    let listed = Command::new("nm").arg("-n").arg(program).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, kind, name] = words[..] else { return None };
        Some((u64::from_str_radix(address, 16).unwrap(), kind.to_owned(), name.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn address_of(program: &Path, variable: &str) -> u64 {
    symbols(program).into_iter().find(|(_, _, name)| name == variable).unwrap().0
}

/// The functions of a program, by address.
struct Functions(Vec<(u64, String)>);

impl Functions {
    fn of(program: &Path) -> Self {
        let functions = symbols(program).into_iter().filter(|(_, kind, _)| kind.eq_ignore_ascii_case("t"));
        Self(functions.map(|(address, _, name)| (address, name)).collect())
    }

    /// The name at an address of a program that is not moved; none for those of libraries.
    fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.0.get(after.checked_sub(1)?)?;
        (address - start < 0x1000).then_some(name.as_str())
    }
}

/// The program, compiled with these options, while it runs.
fn start(folder: &Path, options: &[&str]) -> Option<(Process, Functions)> {
    let (source, program) = (folder.join("p.c"), folder.join("p"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compiler = Command::new(testkit::needed("gcc")?);
    compiler
        .args(["-O2", "-no-pie", "-fno-optimize-sibling-calls", "-mno-red-zone"])
        .args(options)
        .arg("-o")
        .args([&program, &source]);
    assert!(compiler.status().unwrap().success());
    let functions = Functions::of(&program);
    let process = Process::start(&mut Command::new(&program)).unwrap();
    let code = || {
        ProcessCode::of(process.pid()).is_ok()
            && std::fs::read_link(format!("/proc/{}/exe", process.pid())).is_ok_and(|exe| exe == program)
    };
    testkit::until("it runs", code);
    let place = address_of(&program, "is_there");
    testkit::until("it has come to the function where it stays", || {
        let mut value = [0; 8];
        sys::memory::read(process.pid(), place, &mut value).is_ok_and(|read| read == 8) && value[0] == 1
    });
    Some((process, functions))
}

fn samples(reader: &mut StackReader, count: usize) -> Vec<StackSample> {
    let samples = reader.events().filter_map(|item| match item {
        StackItem::Sample(sample) => Some(*sample),
        StackItem::Lost { .. } => None,
    });
    samples.take(count).collect()
}

#[test]
fn both_walks_give_the_calls_that_were_made() {
    for (options, has_frame_pointers) in
        [("-mno-omit-leaf-frame-pointer", true), ("-fomit-frame-pointer", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let Some((process, functions)) = start(folder.path(), &["-fno-omit-frame-pointer", options]) else {
            return;
        };
        let pid = process.pid();
        let mut reader =
            permitted!(StackReader::open(&StackConfig { sample_freq: 500, ..StackConfig::of_thread(pid) }));
        let code = ProcessCode::of(pid).unwrap();
        let sampled = samples(&mut reader, 200);
        assert_eq!((sampled.len(), reader.malformed()), (200, 0));
        assert!(sampled.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
        for sample in &sampled {
            assert_eq!((sample.pid, sample.tid, sample.abi), (pid, pid, 2));
            assert_eq!(
                (sample.registers.ip(), sample.registers.sp()),
                (Some(sample.ip), Some(sample.stack_addr))
            );
            let walk = Walk::by_unwind_rules(sample, &code);
            // Return addresses are behind their calls.
            let exact = walk.addresses.iter().take(1).copied();
            let calls = walk.addresses.iter().skip(1).map(|address| address - 1);
            let names: Vec<_> = exact.chain(calls).filter_map(|address| functions.name(address)).collect();
            assert_eq!(names, ["three", "two", "one", "main", "_start"], "{walk:x?}");
            assert_eq!(walk.end, WalkEnd::Root, "{walk:x?}");
            if has_frame_pointers {
                let chain = Walk::by_frame_pointers(sample).addresses;
                assert_eq!(chain[..4], walk.addresses[..4], "{chain:x?}");
                assert!(
                    sample.callchain.starts_with(&[(-512i64).cast_unsigned(), sample.ip]),
                    "{:x?}",
                    sample.callchain
                );
                assert_eq!(
                    sample.callchain[1..5],
                    walk.addresses[..4],
                    "the kernel walks frame pointers too"
                );
            }
        }
    }
}

#[test]
fn a_walk_that_leaves_the_copy_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some((process, functions)) = start(folder.path(), &["-fomit-frame-pointer"]) else { return };
    // The frame of `one` is larger.
    let config = StackConfig { stack_bytes: 1024, ..StackConfig::of_thread(process.pid()) };
    let mut reader = permitted!(StackReader::open(&config));
    let code = ProcessCode::of(process.pid()).unwrap();
    for sample in samples(&mut reader, 5) {
        assert_eq!(sample.stack.len(), 1024);
        let walk = Walk::by_unwind_rules(&sample, &code);
        let names: Vec<_> = walk.addresses.iter().map(|address| functions.name(*address)).collect();
        assert_eq!((names, walk.end), (vec![Some("three"), Some("two"), Some("one")], WalkEnd::EndOfCopy));
    }
}

#[test]
fn what_finds_no_room_is_told_and_the_end_is_seen() {
    let process = Process::computing();
    let config = StackConfig {
        sample_freq: 5000,
        stack_bytes: 1024,
        ring_pages: 1,
        ..StackConfig::of_thread(process.pid())
    };
    let mut reader = permitted!(StackReader::open(&config));
    let (mut sampled, mut lost) = (0, 0);
    // The kernel tells of losses with the next record that fits.
    testkit::until("samples and many losses", || {
        std::thread::sleep(Duration::from_millis(20));
        let read = reader.read_next(|item| match item {
            StackItem::Sample(_) => sampled += 1,
            StackItem::Lost { lost: more, .. } => lost += more,
        });
        read.unwrap();
        sampled > 0 && lost > 10
    });
    let closer = reader.closer();
    drop(process);
    assert!(reader.events().count() < 10_000, "the end of the thread ends it");
    closer.close();
    assert_eq!(reader.events().next(), None);
    reader.close();
    reader.close();
    assert!(reader.event().is_none());
    assert!(matches!(reader.read_next(|_| {}), Err(StackReaderError::Closed)));
    let gone = StackReader::open(&StackConfig::of_thread(0x3f_ffff)).unwrap_err();
    assert!(gone.to_string().contains("thread 4194303") && gone.to_string().contains("has ended"), "{gone}");
}
