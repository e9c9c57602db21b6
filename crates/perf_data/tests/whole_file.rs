//! A whole file, walked from its header.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Cursor;

use perf_data::{Attr, Event, Features, FileIdentity, Process, Rate, Record, Sample, Stamp, Writer};

fn event(name: &str, id: u64) -> Event {
    let attr = Attr { kind: 1, config: 0, rate: Rate::PerSecond(99), kernel_frames: true };
    Event { name: name.to_owned(), id, attr }
}

fn u64_at(bytes: &[u8], at: u64) -> u64 {
    u64::from_ne_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap())
}

/// The kinds of the records of a file, whose sizes add up to the size that the header tells.
fn kinds(bytes: &[u8]) -> Vec<u32> {
    let (mut at, size) = (u64_at(bytes, 40), u64_at(bytes, 48));
    let end = at + size;
    let mut kinds = Vec::new();
    while at < end {
        let word = u64_at(bytes, at);
        kinds.push(word as u32);
        let length = word >> 48;
        assert!(length >= 8 && length.is_multiple_of(8), "{length}");
        at += length;
    }
    assert_eq!(at, end);
    kinds
}

fn fill(writer: &mut Writer<Cursor<Vec<u8>>>) {
    let of = Process { pid: 7, tid: 7 };
    let stamp = Stamp { of, time_ns: 5, cpu: 0, id: 11 };
    let sample = Sample { period: 1, kernel: &[], user: &[0x1010, 0x1020], interrupted: 0 };
    let mapping = Record::Mapping {
        address: 0x1000,
        len: 0x1000,
        offset: 0,
        file: FileIdentity::BuildId(&[1; 20]),
        protection: 5,
        flags: 2,
        path: b"/bin/x",
    };
    let parent = Process::default();
    let all = [
        Record::Comm { name: b"x", exec: true },
        mapping,
        Record::Fork { parent },
        Record::Sample(sample),
        Record::Lost { lost: 1 },
        Record::Exit { parent },
    ];
    all.iter().for_each(|record| writer.push(&stamp, record).unwrap());
}

const ROUND: [u32; 7] = [3, 10, 7, 9, 2, 4, 68];

#[test]
fn the_sizes_of_all_records_add_up_and_features_lie_behind_them() {
    let mut writer =
        Writer::begin(Cursor::new(Vec::new()), vec![event("cpu-clock", 11), event("off-cpu", 12)]).unwrap();
    fill(&mut writer);
    writer.end_round().unwrap();
    writer.end_round().unwrap();
    fill(&mut writer);
    let features = Features { hostname: Some("here".to_owned()), ..Features::default() };
    let bytes = writer.finish(&features).unwrap().into_inner();
    assert_eq!(&bytes[..8], b"PERFILE2");
    assert_eq!(kinds(&bytes), [ROUND, ROUND].concat());
    // Two attributes behind two ids, and each tells where its id lies.
    assert_eq!((u64_at(&bytes, 24), u64_at(&bytes, 32)), (120, 256));
    for (entry, id) in [(120, 11), (248, 12)] {
        assert_eq!((u64_at(&bytes, u64_at(&bytes, entry + 112)), u64_at(&bytes, entry + 120)), (id, 8));
    }
    assert_eq!(u64_at(&bytes, 72), 1 << 3 | 1 << 12);
    let index = u64_at(&bytes, 40) + u64_at(&bytes, 48);
    let (first, first_bytes) = (u64_at(&bytes, index), u64_at(&bytes, index + 8));
    let (second, second_bytes) = (u64_at(&bytes, index + 16), u64_at(&bytes, index + 24));
    assert_eq!((first, first_bytes), (index + 32, 68));
    assert_eq!(second, first + first_bytes);
    assert_eq!(second + second_bytes, bytes.len() as u64);
}

#[test]
fn a_file_that_is_left_reads_up_to_the_last_round() {
    let to = tempfile::tempfile().unwrap();
    let mut writer = Writer::begin(to.try_clone().unwrap(), vec![event("cpu-clock", 11)]).unwrap();
    let read = || {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; to.metadata().unwrap().len() as usize];
        to.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    assert_eq!(kinds(&read()), [0; 0]);
    let stamp = Stamp { id: 11, ..Stamp::default() };
    for rounds in 1..4 {
        for _ in 0..10_000 {
            writer.push(&stamp, &Record::Comm { name: b"name", exec: false }).unwrap();
        }
        assert_eq!(kinds(&read()).len(), (rounds - 1) * 10_001, "what is not complete does not count");
        writer.end_round().unwrap();
        assert_eq!(kinds(&read()).len(), rounds * 10_001);
    }
}
