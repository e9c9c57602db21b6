mod assemble;
mod generate;
mod hostile;

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::*;

use self::generate::{Tape, numbers, recordings, sample, sample_6_0};

/// Where files are that earlier versions wrote.
const OLD_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recording");

fn bytes_of(symbolized: &SymbolizedRecording) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert_eq!(write_symbolized(symbolized, &mut bytes).unwrap(), bytes.len() as u64);
    bytes
}

fn assert_same(one: &SymbolizedRecording, other: &SymbolizedRecording) {
    assert_eq!(one.recording, other.recording);
    assert_eq!(one.ledgers, other.ledgers);
    assert_eq!((one.names.len(), &one.names.outcome), (other.names.len(), &other.names.outcome));
    for frame in one.names.frames() {
        assert!(one.names.of(frame).eq(other.names.of(frame)), "{frame:?}");
    }
    let starts = |of: &SymbolizedRecording| -> Vec<_> {
        let frames = 0..of.recording.frames.len() as u32;
        frames.map(|frame| of.names.start(FrameId(frame))).collect()
    };
    assert_eq!(starts(one), starts(other));
}

proptest! {
    #[test]
    fn a_recording_is_read_as_it_was_written(symbolized in recordings()) {
        let bytes = bytes_of(&symbolized);
        let back = read_symbolized(&bytes[..]).unwrap();
        assert_same(&symbolized, &back);
        prop_assert_eq!(bytes_of(&back), bytes.clone());
        prop_assert_eq!(&read(&bytes[..]).unwrap(), &symbolized.recording);

        let mut bare = Vec::new();
        prop_assert_eq!(write(&symbolized.recording, &mut bare).unwrap(), bare.len() as u64);
        prop_assert_eq!(&read(&bare[..]).unwrap(), &symbolized.recording);
        let back = read_symbolized(&bare[..]).unwrap();
        prop_assert_eq!((back.recording, back.names.len(), back.ledgers.len()), (symbolized.recording, 0, 0));
    }
}

/// A file of an earlier version is a [`sample`] and has a file beside it with the contents of its sections, as the fuzz target reads them.
///
/// If this fails, files that exist already cannot be read any more: a type of the model was changed, for example. Such a change needs
/// a new major version and new files: run the test with `PERFAGENT_WRITE_SAMPLE=1`. A change of `generate` alone needs only the files. A
/// new minor version needs a file more.
#[test]
fn files_of_earlier_versions_are_read() {
    let files = [("sample-6-0", "contents-6-0", (6, 0), sample_6_0())];
    for (file, contents, (major, minor), symbolized) in files {
        let path = |name: &str| Path::new(OLD_FILES).join(name);
        if std::env::var_os("PERFAGENT_WRITE_SAMPLE").is_some() && (major, minor) == (MAJOR, MINOR) {
            let bytes = bytes_of(&symbolized);
            let parts = assemble::parts(&bytes);
            let inputs: Vec<u8> = parts.iter().flat_map(assemble::Part::fuzz_input).collect();
            std::fs::write(path(file), bytes).unwrap();
            std::fs::write(path(contents), inputs).unwrap();
        }
        let bytes = std::fs::read(path(file)).unwrap();
        assert_eq!(bytes[8..12], section::file_header(major, minor)[8..12], "{file}");
        assert_same(&symbolized, &read_symbolized(&bytes[..]).unwrap());
    }
}

#[test]
fn the_order_in_which_names_were_found_does_not_matter() {
    let lines = |frame: u32| {
        let name = ["main", "run", "step"][frame as usize % 3];
        [NameLine { name, system_name: name, file: "/src/main.c", line: frame / 4, ..NameLine::default() }]
    };
    let with_names = |order: &mut dyn Iterator<Item = u32>| {
        let mut names = Names::default();
        order.for_each(|frame| names.enter(FrameId(frame), lines(frame)));
        let frames = (0..100).map(|address| Frame::Kernel { address, exact: true }).collect();
        SymbolizedRecording {
            recording: Recording { frames, ..Recording::default() },
            names,
            ..SymbolizedRecording::default()
        }
    };
    assert_eq!(bytes_of(&with_names(&mut (0..100))), bytes_of(&with_names(&mut (0..100).rev())));
}

#[test]
fn a_long_table_has_several_sections() {
    let mut numbers = numbers(7);
    let frames = (0..200_000).map(|_| numbers.next().unwrap());
    let frames = frames.map(|address| Frame::Kernel { address, exact: address % 2 == 0 }).collect();
    let recording = Recording { frames, ..Recording::default() };
    let mut bytes = Vec::new();
    write(&recording, &mut bytes).unwrap();
    let sections = assemble::parts(&bytes);
    assert!(sections.len() > 3 && sections.iter().all(|section| section.content as usize <= MAX_CONTENT));
    assert!(read(&bytes[..]).unwrap() == recording);
}

#[test]
fn content_that_compresses_too_well_is_stored_in_part_and_can_be_read() {
    let stack = Stack { frames: [].into(), kernel_frames: 0, end: WalkEnd::Root, missing: None };
    let recording = Recording { stacks: vec![stack; 600_000], ..Recording::default() };
    let mut bytes = Vec::new();
    write(&recording, &mut bytes).unwrap();
    let flags: Vec<_> = assemble::parts(&bytes).iter().map(|section| section.flags).collect();
    assert!(flags.contains(&0) && flags.contains(&1), "{flags:?}");
    assert!(bytes.len() < 2 * MAX_CONTENT, "{}", bytes.len());
    assert!(read(&bytes[..]).unwrap() == recording);
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let refused = |change: &dyn Fn(&mut SymbolizedRecording), message: &str| {
        let mut symbolized = sample();
        change(&mut symbolized);
        let error = write_symbolized(&symbolized, io::sink()).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, message));
    };
    refused(
        &|all| {
            all.recording.frames[1] =
                Frame::Jit { program: ExecInstanceId(77), address: profile::Avma(1), exact: true }
        },
        "cannot write item 1 of the frames: exec instance 77 does not exist",
    );
    refused(
        &|all| all.recording.settings.agent_version = "1".repeat(MAX_CONTENT),
        "cannot write item 0 of the capture: it cannot be encoded within the limit of a section",
    );
    refused(
        &|all| all.names.enter(FrameId(77), [NameLine { name: "main", ..NameLine::default() }]),
        "cannot write names: frame 77 does not exist",
    );
}

/// Gives one byte at a time, interrupted by signals, and fails at the end of the bytes if told so.
struct Dribble<'a>(&'a [u8], bool, Option<ErrorKind>);

impl Read for Dribble<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        match self.2 {
            _ if self.1 => Err(ErrorKind::Interrupted.into()),
            Some(kind) if self.0.is_empty() => Err(kind.into()),
            _ => self.0.read(&mut to[..1]),
        }
    }
}

#[test]
fn a_slow_source_is_read_and_a_failing_one_is_an_error_with_its_offset() {
    let (sample, bytes) = (sample(), bytes_of(&sample()));
    assert_same(&sample, &read_symbolized(Dribble(&bytes, false, None)).unwrap());
    let error = read(Dribble(&bytes[..100], false, Some(ErrorKind::ConnectionReset))).unwrap_err();
    assert!(matches!(&error, ReadError::Io { source, .. } if source.kind() == ErrorKind::ConnectionReset));
    assert_eq!(error.offset(), 100);
}
