//! Files that no writer made.

use proptest::prelude::*;
use serde::Serialize;

use super::assemble::{Part, file, parts};
use super::*;
use crate::file::section::{Kind, file_header};

/// The error for the sample with another content of the first section of a kind.
fn refusal(kind: Kind, content: &[u8]) -> ReadError {
    let mut parts = parts(&bytes_of(&sample_6_0()));
    let at = parts.iter().position(|part| part.kind == kind.number()).unwrap();
    parts[at] = Part::plain(kind, content);
    let bytes = file(&parts);
    let error = read_symbolized(&bytes[..]).unwrap_err();
    assert_eq!(error.offset(), file(&parts[..at]).len() as u64 - end_length(&parts[..at]), "{error}");
    error
}

/// Length of the last section of a file of these sections.
fn end_length(parts: &[Part]) -> u64 {
    let length: usize = parts.iter().map(|part| part.stored.len() + 16).sum();
    file(parts).len() as u64 - 16 - length as u64
}

fn encoded(item: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![0; 10_000];
    let length = postcard::to_slice(item, &mut bytes).unwrap().len();
    bytes.truncate(length);
    bytes
}

#[test]
fn each_altered_byte_is_noticed() {
    let mut bytes = bytes_of(&sample());
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            bytes[at] ^= change;
            let error = read_symbolized(&bytes[..]).unwrap_err();
            assert!(error.offset() <= bytes.len() as u64, "{at}: {error}");
            assert!(read(&bytes[..]).is_err(), "{at}");
            bytes[at] ^= change;
        }
    }
}

#[test]
fn each_truncation_is_noticed_where_the_file_ends() {
    let bytes = bytes_of(&sample());
    for length in 0..bytes.len() {
        let error = read_symbolized(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, ReadError::Truncated { offset } if offset == length as u64),
            "{length}: {error}"
        );
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let mut bytes = bytes_of(&sample());
    let length = bytes.len() as u64;
    bytes.push(0);
    assert!(matches!(read(&bytes[..]), Err(ReadError::Trailing { offset }) if offset == length));
}

#[test]
fn other_files_and_other_major_versions_are_refused_and_minor_versions_are_read() {
    assert!(matches!(read(&b"\x7fELF and so on and on"[..]), Err(ReadError::Magic)));
    let mut bytes = bytes_of(&sample());
    bytes[..16].copy_from_slice(&file_header(MAJOR, 9));
    assert!(read(&bytes[..]).is_ok());
    bytes[..16].copy_from_slice(&file_header(7, 3));
    let error = read(&bytes[..]).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("offset 8: format version 7.3, but this program reads version {MAJOR}.{MINOR}")
    );
}

#[test]
fn sections_of_unknown_kinds_are_skipped() {
    let mut parts = parts(&bytes_of(&sample()));
    let unknown = Part { kind: 0x1234, flags: 0xff, content: 100, stored: vec![1; 50] };
    parts.insert(0, unknown.clone());
    parts.insert(3, unknown.clone());
    parts.push(unknown);
    assert_same(&sample(), &read_symbolized(&file(&parts)[..]).unwrap());
}

#[test]
fn missing_exchanged_and_repeated_sections_are_noticed() {
    let whole = parts(&bytes_of(&sample()));
    let bytes = bytes_of(&sample());
    let end = &bytes[bytes.len() - end_length(&whole) as usize..];
    let with_old_end = |parts: &[Part]| {
        let mut file = file(parts);
        file.truncate(file.len() - end_length(parts) as usize);
        file.extend(end);
        read_symbolized(&file[..])
    };
    assert!(with_old_end(&whole).is_ok());
    let position = |kind: Kind| whole.iter().position(|part| part.kind == kind.number()).unwrap();
    let mut exchanged = whole.clone();
    exchanged.swap(position(Kind::ExecInstances), position(Kind::CodeObjects));
    let mut repeated = whole.clone();
    repeated.push(whole[position(Kind::Ledgers)].clone());
    let mut missing = whole.clone();
    missing.remove(position(Kind::Ledgers));
    for parts in [exchanged, repeated, missing] {
        let error = with_old_end(&parts).unwrap_err();
        assert!(matches!(error, ReadError::Malformed { section: "end", .. }), "{error}");
        assert!(read_symbolized(&file(&parts)[..]).is_ok());
    }
    let error = read(&file(&[])[..]).unwrap_err();
    assert!(matches!(error, ReadError::Malformed { section: "capture", .. }), "{error}");
}

#[test]
fn ids_without_an_item_are_refused() {
    let stack = Stack {
        frames: [FrameId(2), FrameId(99)].into(),
        kernel_frames: 0,
        end: WalkEnd::Root,
        missing: None,
    };
    let count = |event, stack, link| {
        let links = vec![Link { role: Role::Waker, stack: TaskStackId(link) }];
        let (event, stack) = (EventId(event), TaskStackId(stack));
        encoded(&Count { event, stack, links, object: None, time_bin: None, values: Vec::new() })
    };
    let mapping = CodeMapping {
        module: ModuleId(99),
        start: profile::Svma(0),
        limit: profile::Svma(0),
        file_offset: profile::FileOffset(0),
    };
    let frame = |frame: Frame| encoded(&frame);
    let (svma, address, exact) = (profile::Svma(0), profile::Avma(0), true);
    let all = sample().recording;
    let build_id = &all.kernel.build_id;
    let capture = (&all.settings, all.span, build_id, Some(CodeMappingId(99)), &all.accounting);
    let task_stack = |task, stack| {
        encoded(&TaskStack { task: TaskId(task), stack: StackId(stack), state: State::Sampled })
    };
    let single = |event, stack| {
        let (event, stack) = (EventId(event), TaskStackId(stack));
        encoded(&Single { at_ns: 0, cpu: 0, tid: 0, event, stack, values: Vec::new(), waker: None })
    };
    let cases = [
        (Kind::Mappings, encoded(&mapping), "module"),
        (Kind::Capture, encoded(&capture), "mapping"),
        (Kind::Frames, frame(Frame::Native { mapping: CodeMappingId(99), svma, exact }), "mapping"),
        (Kind::Frames, frame(Frame::Jit { program: ExecInstanceId(99), address, exact }), "exec instance"),
        (Kind::Frames, frame(Frame::Interpreted { code: CodeObjectId(99), instruction: 0 }), "code object"),
        (Kind::Stacks, encoded(&stack), "frame"),
        (Kind::Tasks, encoded(&Task { pid: None, labels: LabelSetId(99), thread: None }), "label set"),
        (Kind::TaskStacks, task_stack(99, 0), "task"),
        (Kind::TaskStacks, task_stack(0, 99), "stack"),
        (Kind::Counts, count(0, 99, 0), "task stack"),
        (Kind::Counts, count(0, 0, 99), "task stack"),
        (Kind::Counts, count(99, 0, 0), "event"),
        (Kind::Singles, single(99, 0), "event"),
        (Kind::Singles, single(0, 99), "task stack"),
        (Kind::SingleWakers, encoded(&(99u32, TaskStackId(0))), "single sample"),
        (Kind::LineLists, encoded(&vec![(0u32, 0u32, 0u32, 1u32, 1u32, 1u32); 99]), "text"),
        (Kind::NamedFrames, encoded(&(99u32, 0u32)), "frame"),
    ];
    for (section, content, expected) in cases {
        let error = refusal(section, &content);
        let ReadError::Dangling { kind, section: named, at: 0, .. } = error else { panic!("{error:?}") };
        assert_eq!((kind, named), (expected, section.name()));
    }
    let more_than_lists = refusal(Kind::NamedFrames, &[0; 400]);
    assert!(
        matches!(more_than_lists, ReadError::Dangling { kind: "list of lines", .. }),
        "{more_than_lists}"
    );
}

#[test]
fn malformed_items_are_refused_with_their_byte() {
    let all = sample().recording;
    let stack = Stack { frames: [FrameId(0)].into(), kernel_frames: 0, end: WalkEnd::Root, missing: None };
    let good = encoded(&stack);
    let behind_good = |bad: &[u8]| [&good, bad].concat();
    let event = all.counts[0].event;
    let values = vec![1; all.events[event.0 as usize].values.len() + 1];
    let stack_id = TaskStackId(0);
    let single =
        Single { at_ns: 0, cpu: 0, tid: 0, event, stack: stack_id, values: values.clone(), waker: None };
    let count = Count { event, stack: stack_id, links: Vec::new(), object: None, time_bin: None, values };
    let cases = [
        (
            Kind::Stacks,
            behind_good(&encoded(&Stack { kernel_frames: 2, ..stack.clone() })),
            good.len(),
            "more kernel frames",
        ),
        (Kind::Stacks, behind_good(&[0, 0, 99, 0]), good.len(), ""),
        (Kind::Stacks, behind_good(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3]), good.len(), ""),
        (Kind::Counts, encoded(&count), 0, "more values"),
        (Kind::Singles, encoded(&single), 0, "more values"),
        (Kind::Modules, encoded(&("path", Some([1u8, 2, 3].as_slice()), 0u32)), 0, ""),
        (Kind::Texts, vec![2, 0xff, 0xff], 0, ""),
        (Kind::Texts, vec![1, b'a', 1, b'a'], 2, "a text comes twice"),
        (Kind::LineLists, vec![0], 0, "a list without lines"),
        (Kind::LineLists, vec![1, 0, 1, 1, 0, 0, 0, 1, 0, 4, 4, 0, 0, 0], 7, "before the first"),
        (Kind::Ledgers, vec![1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 0, ""),
    ];
    for (section, content, expected, words) in cases {
        let error = refusal(section, &content);
        let ReadError::Malformed { section: named, at, reason, .. } = error else { panic!("{error:?}") };
        assert_eq!((named, at), (section.name(), expected), "{reason}");
        assert!(reason.contains(words), "{reason}");
    }
    let KernelImage { build_id, release, boot_id, text, stext, .. } = &all.kernel;
    let capture = encoded(&(&all.settings, all.span, build_id, all.main, &all.accounting));
    let kernel = encoded(&(release, boot_id, text, stext));
    let origin = encoded(&all.origin);
    let early = encoded(&([1u64; 3], [1u64; 3]));
    let part = |kind: Kind, stored: &[u8]| Part {
        kind: kind.number(),
        flags: 0,
        content: stored.len() as u32,
        stored: stored.to_vec(),
    };
    let error = read_symbolized(&file(&[part(Kind::Unsent, &early)])[..]).unwrap_err();
    assert!(error.to_string().ends_with("before the capture"), "{error}");
    for (kind, item) in [(Kind::Capture, capture), (Kind::Kernel, kernel), (Kind::Origin, origin)] {
        let twice = refusal(kind, &[item.clone(), item].concat());
        assert!(twice.to_string().ends_with("it comes twice"), "{twice}");
    }
}

#[test]
fn lengths_that_are_not_true_are_refused_before_anything_is_allocated() {
    let read_parts = |parts: &[Part]| read_symbolized(&file(parts)[..]).unwrap_err();
    let part = |flags, content, stored: &[u8]| Part { kind: 1, flags, content, stored: stored.to_vec() };
    let too_large = [part(1, MAX_CONTENT as u32 + 1, b"abc"), part(0, u32::MAX, b"abc"), part(0, 2, b"abc")];
    for part in too_large {
        let error = read_parts(&[part]);
        assert!(matches!(error, ReadError::TooLarge { offset: 16, .. }), "{error}");
    }
    let mut deflated = Vec::new();
    let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
    deflated.resize(10_000, 0);
    deflate.compress(&[0; MAX_CONTENT], &mut deflated, flate2::FlushCompress::Finish).unwrap();
    deflated.truncate(deflate.total_out() as usize);
    let label_sets = |content| Part { kind: Kind::LabelSets.number(), ..part(1, content, &deflated) };
    for content in [MAX_CONTENT as u32 - 1, 50_000] {
        let error = read_parts(&[label_sets(content)]);
        assert!(matches!(error, ReadError::Malformed { section: "label sets", at: 0, .. }), "{error}");
    }
    let with_garbage = Part { stored: [&deflated[..], b"!"].concat(), ..label_sets(MAX_CONTENT as u32) };
    for part in [with_garbage, part(0, 4, b"abc"), part(2, 3, b"abc")] {
        let error = read_parts(&[part]);
        assert!(matches!(error, ReadError::Malformed { at: 0, .. }), "{error}");
    }
    // One section may be as dense as it likes; after that the content may have only so much for each byte of the file.
    let error = read_parts(&[label_sets(MAX_CONTENT as u32), label_sets(MAX_CONTENT as u32)]);
    assert!(matches!(error, ReadError::TooLarge { section: "label sets", .. }), "{error}");
}

proptest! {
    #[test]
    fn any_content_is_refused_or_can_be_written_and_read_again(
        seed in any::<u64>(),
        changes in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, u8)>(), 1..6),
    ) {
        let symbolized = Tape(numbers(seed)).symbolized();
        let mut sections: Vec<_> = parts(&bytes_of(&symbolized)).iter().map(Part::inflated).collect();
        for (section, at, byte) in &changes {
            let section = section.get_mut(&mut sections);
            let at = at.index(section.stored.len());
            section.stored[at] = *byte;
        }
        if let Ok(read) = read_symbolized(&file(&sections)[..]) {
            assert_same(&read, &read_symbolized(&bytes_of(&read)[..]).unwrap());
        }
    }

    #[test]
    fn any_bytes_are_no_danger(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0..22u16,
    ) {
        prop_assert!(read_symbolized(&bytes[..]).is_err());
        let part = Part { kind, flags: 0, content: bytes.len() as u32, stored: bytes.clone() };
        let _ = read_symbolized(&file(&[part])[..]);
        bytes.splice(..0, file_header(MAJOR, MINOR));
        prop_assert!(read_symbolized(&bytes[..]).is_err());
    }
}
