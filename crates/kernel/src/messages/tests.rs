use super::*;
use crate::abi::skeleton::types::{self, section_kind};
use crate::headers::REGISTERS;
use crate::{
    Attached, CodeMessage, InterpretedFrame, InterpretedWalk, LinkedStack, PythonEnd, Role, SampledAt,
};

/// A `struct message` before its sections.
fn head(kind: u32, sections: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for half in [kind, 10, 11, WalkEnd::Root as u32] {
        bytes.extend(half.to_ne_bytes());
    }
    // A hash of an off-CPU stack, and the exec_id.
    bytes.extend([0x1111_1111_1111_1111u64, 99].map(u64::to_ne_bytes).concat());
    bytes.extend((sections.len() as u32).to_ne_bytes());
    bytes.extend([State::Blocked as u16, Event::Scheduler as u16].map(u16::to_ne_bytes).concat());
    bytes.extend(b"a thread\0\0\0\0\0\0\0\0");
    bytes.extend(1234u64.to_ne_bytes());
    bytes.extend(sections);
    bytes
}

fn section(kind: section_kind, count: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = (kind.0 as u16).to_ne_bytes().to_vec();
    bytes.extend(count.to_ne_bytes());
    bytes.extend((8 * words.len() as u32).to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

fn attached() -> Vec<u8> {
    [
        section(section_kind::SECTION_KERNEL_FRAMES, 1, &[0xffff_ffff_8100_0000]),
        section(section_kind::SECTION_NATIVE_FRAMES, 2, &[0x1000, 0x2000 | 1 << 63]),
        section(section_kind::SECTION_INTERPRETED_FRAMES, 1, &[0xc0de, 3 | 1 << 32]),
        section(section_kind::SECTION_INTERPRETED_WALK, 0, &[6 | 1 << 8]),
        section(section_kind::SECTION_LINKED_STACKS, 1, &[77, 2]),
        section(section_kind::SECTION_OBJECT, 0, &[0x7f00_0010]),
        section(section_kind::SECTION_TIME_BIN, 0, &[4]),
    ]
    .concat()
}

#[test]
fn a_stack_has_what_its_sections_tell() {
    let Some(Message::Stack(stack)) = decode_message(&head(MESSAGE_STACK, &attached())) else { panic!() };
    assert_eq!((stack.pid, stack.tid, stack.exec_id, stack.time_ns), (10, 11, 99, 1234));
    assert_eq!(
        (stack.state, stack.event, stack.thread.as_str()),
        (State::Blocked, Event::Scheduler, "a thread")
    );
    assert_eq!(stack.kernel, [0xffff_ffff_8100_0000]);
    let pcs: Vec<_> = stack.user.iter().map(|frame| (frame.pc, frame.exact)).collect();
    assert_eq!(pcs, [(0x2000, true), (0x1000, false)], "leaf first");
    let Attached { interpreted, interpreted_walk, links, object, time_bin } = *stack.attached;
    assert_eq!(interpreted_walk, Some(InterpretedWalk { end: PythonEnd::Open, half_linked: true }));
    assert_eq!(interpreted, [InterpretedFrame { code: 0xc0de, instruction: 3, outermost: true, stamp: 0 }]);
    assert_eq!(links, [LinkedStack { role: Role::Owner, key: 77 }]);
    assert_eq!((object, time_bin), (Some(0x7f00_0010), Some(4)));
}

#[test]
fn a_stack_may_be_interpreted_alone_and_an_unknown_section_is_skipped() {
    let frames = section(section_kind::SECTION_INTERPRETED_FRAMES, 2, &[1, 2, 3, 4]);
    let sections = [frames, section(section_kind(99), 7, &[5])].concat();
    let (message, skipped) = decode_one(&head(MESSAGE_STACK, &sections)).unwrap();
    let Message::Stack(stack) = message else { panic!() };
    assert_eq!((stack.user.len(), stack.attached.interpreted.len(), skipped), (0, 2, 1));
}

#[test]
fn a_message_is_refused_if_a_length_or_a_number_is_wrong() {
    let whole = head(MESSAGE_STACK, &attached());
    for length in 0..whole.len() {
        assert_eq!(decode_message(&whole[..length]), None, "{length}");
    }
    let unknown_role = section(section_kind::SECTION_LINKED_STACKS, 1, &[77, 9]);
    assert_eq!(decode_message(&head(MESSAGE_STACK, &unknown_role)), None);
    let unknown_end = section(section_kind::SECTION_INTERPRETED_WALK, 0, &[7]);
    assert_eq!(decode_message(&head(MESSAGE_STACK, &unknown_end)), None);
    assert_eq!(decode_message(&head(999, &attached())), None);
    assert_eq!(decode_all(&[whole.clone(), whole.clone()].concat()).map(|all| all.len()), Some(2));
    assert_eq!(decode_all(&[&whole[..], &[0]].concat()), None);
}

#[test]
fn a_single_sample_tells_when_and_where_it_was_taken() {
    let at = section(section_kind::SECTION_SAMPLED_AT, 0, &[3 | 6 << 32]);
    let values = section(section_kind::SECTION_VALUES, 1, &[9]);
    let message = head(MESSAGE_SAMPLE, &[at.clone(), values.clone()].concat());
    let Some(Message::Sample(sample)) = decode_message(&message) else { panic!() };
    assert_eq!((sample.pid, sample.tid, sample.time_ns, sample.hash), (10, 11, 1234, 0x1111_1111_1111_1111));
    assert_eq!((sample.at, sample.values), (SampledAt { cpu: 3, side_changes: 6 }, [9, 0, 0]));
    for part in [at, values] {
        assert_eq!(decode_message(&head(MESSAGE_SAMPLE, &part)), None, "a part is missing");
    }
    // It does not wait behind the other messages.
    let mut received = Received::default();
    received.take_in(&message);
    received.take_in(&head(MESSAGE_STACK, &attached()));
    assert_eq!((received.samples, received.messages.len()), (vec![sample], 1));
}

#[test]
fn a_part_of_a_stack_joins_the_stack_that_it_belongs_to() {
    let registers = section(section_kind::SECTION_REGISTERS, 0, &[0; REGISTERS + 1]);
    let bytes = section(section_kind::SECTION_STACK, 0, &[0, 7, 8]);
    let of_thread = |kind: u32, tid: u32, sections: &[u8]| {
        let mut message = head(kind, sections);
        message[std::mem::offset_of!(types::message, tid)..][..4].copy_from_slice(&tid.to_ne_bytes());
        message
    };
    let part = |tid| of_thread(MESSAGE_STACK_PART, tid, &bytes);
    let mut received = Received::default();
    // Of another CPU; one whose rest did not fit into the ring; and its own.
    for message in [part(5), part(6), part(7), of_thread(MESSAGE_RAW, 7, &registers)] {
        received.take_in(&message);
    }
    let [Message::Raw(raw)] = &received.messages[..] else { panic!() };
    let start = 0x1111_1111_1111_1111;
    assert_eq!((raw.word(start), raw.word(start + 8), raw.word(start + 16)), (Some(7), Some(8), None));
    received.take_in(&of_thread(MESSAGE_RAW, 7, &registers));
    let Some(Message::Raw(raw)) = received.messages.last() else { panic!() };
    assert_eq!(raw.word(start), None, "a part belongs to one stack");
    (0..2 * MAX_PARTS as u32).for_each(|tid| received.take_in(&part(tid)));
    assert_eq!(received.parts.len(), MAX_PARTS);
}

#[test]
fn interpreted_frames_join_the_stack_that_is_sent_unwalked() {
    let registers = section(section_kind::SECTION_REGISTERS, 0, &[0; REGISTERS + 1]);
    let frames = section(section_kind::SECTION_INTERPRETED_FRAMES, 1, &[0xc0de, 3 | 1 << 32]);
    let walk = section(section_kind::SECTION_INTERPRETED_WALK, 0, &[0]);
    let mut received = Received::default();
    received.take_in(&head(MESSAGE_INTERPRETED, &[walk, frames].concat()));
    received.take_in(&head(MESSAGE_RAW, &registers));
    let [Message::Raw(raw)] = &received.messages[..] else { panic!() };
    assert_eq!(raw.stack.attached.interpreted.len(), 1);
    let root = InterpretedWalk { end: PythonEnd::Root, half_linked: false };
    assert_eq!(raw.stack.attached.interpreted_walk, Some(root));
}

#[test]
fn a_code_object_has_its_name_file_and_line_table() {
    // Lengths 3, 4 and 5; kinds 1 and 1; the line table is cut.
    let lengths = 3 | 4 << 16 | 5 << 32 | 1 << 48 | 1 << 56;
    let texts = [*b"runa.py\x01", *b"\x02\x03\x04\x05\0\0\0\0"].map(u64::from_ne_bytes);
    let words = [0xc0de, 17 | 42 << 32, lengths, 4, texts[0], texts[1]];
    let message = head(MESSAGE_CODE, &section(section_kind::SECTION_CODE_OBJECT, 0, &words));
    let code = CodeMessage {
        pid: 10,
        exec_id: 99,
        address: 0xc0de,
        stamp: 17,
        first_line: 42,
        name: "run".into(),
        file: "a.py".into(),
        line_table: vec![1, 2, 3, 4, 5],
        truncated: true,
    };
    assert_eq!(decode_message(&message), Some(Message::Code(code)));
    let too_long = [0xc0de, 0, 3 | 40 << 16, 0];
    let refused = head(MESSAGE_CODE, &section(section_kind::SECTION_CODE_OBJECT, 0, &too_long));
    assert_eq!(decode_message(&refused), None);
}
