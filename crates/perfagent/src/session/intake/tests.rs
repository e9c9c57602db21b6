//! From the bytes of a message to a recording and its file.

use kernel::{Message, decode_message};
use profile::Avma;
use recording::file;
use recording::{Context, Frame as Place, Recording};

use super::*;
use crate::config::Enrichment;
use crate::processes::Labeller;
use crate::{AgentBuilder, Labels};

/// Numbers of `bpf/abi/messages.h`.
const MESSAGE_STACK: u32 = 1;
const MESSAGE_RAW: u32 = 3;
const KERNEL_FRAMES: u16 = 1;
const NATIVE_FRAMES: u16 = 2;
const REGISTERS: u16 = 3;
const INTERPRETED_FRAMES: u16 = 6;

const HASH: u64 = 0xabcd_ef00;
const EXACT: u64 = 1 << 63;

/// A section of `count` items.
fn section(kind: u16, count: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = [kind.to_ne_bytes(), count.to_ne_bytes()].concat();
    bytes.extend((8 * words.len() as u32).to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// A message of the sampler, as it lies in the ring.
fn message(kind: u32, hash: u64, sections: &[Vec<u8>]) -> Vec<u8> {
    let sections = sections.concat();
    // Kind, process, thread, end of the walk.
    let mut bytes: Vec<u8> = [kind, 70, 71, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    // Key of the sums, exec_id.
    bytes.extend([hash, 99].into_iter().flat_map(u64::to_ne_bytes));
    bytes.extend((sections.len() as u32).to_ne_bytes());
    // State and event.
    bytes.extend([0; 4]);
    bytes.extend(b"python\0\0\0\0\0\0\0\0\0\0");
    bytes.extend(1234u64.to_ne_bytes());
    [bytes, sections].concat()
}

/// Two frames: instruction 3 of the code object at 0xc0de, which instruction 7 of the one at 0xc0da called.
fn interpreted() -> Vec<u8> {
    section(INTERPRETED_FRAMES, 2, &[0xc0de, 3, 0xc0da, 7 | 1 << 32])
}

fn config() -> Config {
    AgentBuilder::default().pid(70).with_cpu_profile().effective_config().unwrap()
}

/// The recording after it was written and read.
fn recorded(intake: Intake) -> Recording {
    let context = Context { events: settings::events(&config()), ..Context::default() };
    let recording = intake.builder.finish(context);
    let mut bytes = Vec::new();
    file::write(&recording, &mut bytes).unwrap();
    let read = file::read(&bytes[..]).unwrap();
    assert_eq!(read, recording);
    read
}

/// The frames of the only stack, leaf first, how many of them are kernel frames, and how often it was sampled.
fn only_stack(recording: &Recording) -> (Vec<Place>, u32, u64) {
    let [count] = recording.counts.as_slice() else { panic!("{:?}", recording.counts) };
    let stack = recording.stack(recording.task_stack(count.stack).unwrap().stack).unwrap();
    let frames = stack.frames.iter().map(|frame| *recording.frame(*frame).unwrap()).collect();
    (frames, stack.kernel_frames, count.value(0))
}

fn unknown(address: u64) -> Place {
    Place::Unknown { address: Avma(address) }
}

#[test]
fn a_stack_of_an_unknown_interpreter_has_its_native_frames() {
    let kernel = section(KERNEL_FRAMES, 1, &[0xffff_ffff_8100_0000]);
    let native = section(NATIVE_FRAMES, 2, &[0x1000, 0x2000 | EXACT]);
    let bytes = message(MESSAGE_STACK, HASH, &[kernel, native, interpreted()]);
    let Some(Message::Stack(stack)) = decode_message(&bytes) else { panic!() };
    let mut intake = Intake::new(&config(), None, None);
    intake.enter(&stack, None, false, None);
    let five = StackSums { count: 5, value: 5, waited: 0 };
    intake.builder.add(HASH, EventId::sampled(0), recording::State::Sampled, five);
    let recording = recorded(intake);
    let kernel = Place::Kernel { address: 0xffff_ffff_8100_0000, exact: true };
    assert_eq!(only_stack(&recording), (vec![kernel, unknown(0x2000), unknown(0x1000)], 1, 5));
    assert_eq!(recording.code_objects.len(), 0);
}

#[test]
fn a_sample_that_is_walked_in_user_space_is_in_the_recording() {
    let registers = vec![0x5000; unwind::full::REGISTERS + 1];
    let bytes = message(MESSAGE_RAW, 0, &[section(REGISTERS, 0, &registers), interpreted()]);
    let Some(Message::Raw(raw)) = decode_message(&bytes) else { panic!() };
    let mut intake = Intake::new(&config(), None, None);
    let labeller = Labeller::new(Enrichment::default(), Labels::default());
    let processes = Processes::new(labeller, false).unwrap();
    intake.record_walked(
        raw,
        Walked { frames: Vec::new(), end: WalkEnd::TableNotReady, left_the_copy: false, nowhere: None },
        &processes,
    );
    let recording = recorded(intake);
    assert_eq!(only_stack(&recording), (vec![unknown(0x5000)], 0, 1));
}
