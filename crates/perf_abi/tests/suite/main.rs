//! Records from bytes: known layouts, and any bytes at all.
#![allow(clippy::unwrap_used)]

use perf_abi::numbers::{record, sample};
use perf_abi::{EventAttr, FileIdentity, Layout, Malformed, Record, RecordBody, Sample};
use proptest::prelude::*;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn halves(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn record_of(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len()).unwrap();
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
}

fn all_ids() -> Layout {
    let ids = sample::TID | sample::TIME | sample::ID | sample::STREAM_ID | sample::CPU | sample::IDENTIFIER;
    Layout { sample_type: ids, sample_id_all: true, ..Layout::default() }
}

/// pid 2, tid 3, time 4, id 5, stream 6, CPU 7, identifier 8
const TRAILER: [u64; 6] = [2 | 3 << 32, 4, 5, 6, 7, 8];

#[test]
fn the_trailer_of_every_type_is_read() {
    for kind in (1..record::MAX).filter(|kind| *kind != record::SAMPLE) {
        let body = [words(&[0; 20]), words(&TRAILER)].concat();
        let bytes = record_of(kind, 0, &body);
        let parsed = Record::parse(&bytes, &all_ids()).unwrap();
        let id = parsed.id;
        assert_eq!((id.pid, id.tid, id.time, id.id), (Some(2), Some(3), Some(4), Some(5)), "type {kind}");
        assert_eq!((id.stream_id, id.cpu, id.identifier), (Some(6), Some(7), Some(8)));
        assert_eq!(all_ids().time(&bytes), Some(4));
        assert_eq!(Layout::identifier(&bytes), Some(8));
        assert!(!matches!(parsed.body, RecordBody::Other(_)), "type {kind} is known");
        let short = record_of(kind, 0, &words(&TRAILER[1..]));
        assert_eq!(Record::parse(&short, &all_ids()), Err(Malformed));
    }
}

#[test]
fn a_type_that_is_not_known_keeps_its_bytes() {
    let bytes = record_of(77, 5, &[9; 16]);
    let parsed = Record::parse(&bytes, &all_ids()).unwrap();
    assert_eq!((parsed.header.kind, parsed.header.misc), (77, 5));
    assert_eq!(parsed.body, RecordBody::Other(&[9; 16]));
    for (at, byte) in [(0, 0), (6, 16), (6, 0)] {
        let mut wrong = bytes.clone();
        wrong[at] = byte;
        assert_eq!(Record::parse(&wrong, &all_ids()), Err(Malformed), "byte {at} is {byte}");
    }
}

#[test]
fn side_band_records_have_all_their_fields() {
    let layout = Layout::default();
    let body = |kind: u32, misc: u16, bytes: &[u8]| {
        format!("{:?}", Record::parse(&record_of(kind, misc, bytes), &layout).unwrap().body)
    };
    let named = |front: &[u64], name: &[u8; 8]| [words(front), name.to_vec()].concat();
    assert_eq!(
        body(record::COMM, 1 << 13, &named(&[halves(3, 2)], b"cat\0\0\0\0\0")),
        "Comm { pid: 2, tid: 3, comm: [99, 97, 116], exec: true }"
    );
    assert_eq!(
        body(record::FORK, 0, &words(&[halves(3, 2), halves(5, 4), 6])),
        "Fork(Task { pid: 2, ppid: 3, tid: 4, ptid: 5, time: 6 })"
    );
    assert_eq!(body(record::SWITCH, 3 << 13, &[]), "Switch { out: true, preempted: true }");
    assert_eq!(
        body(record::TEXT_POKE, 0, &[words(&[7]), vec![1, 0, 2, 0, 8, 9, 10, 0]].concat()),
        "TextPoke { addr: 7, old: [8], new: [9, 10] }"
    );
    let front = [halves(3, 2), 0x1000, 0x2000, 0x3000];
    let inode = [halves(9, 8), 10, 11, halves(13, 12)];
    let bytes = record_of(record::MMAP2, 0, &named(&[front, inode].concat(), b"/bin/ls\0"));
    let RecordBody::Mmap2 { file, identity, prot, flags } = Record::parse(&bytes, &layout).unwrap().body
    else {
        panic!()
    };
    assert_eq!(
        (file.pid, file.tid, file.addr, file.len, file.pgoff, file.filename),
        (2, 3, 0x1000, 0x2000, 0x3000, &b"/bin/ls"[..])
    );
    assert_eq!(identity, FileIdentity::Inode { major: 8, minor: 9, inode: 10, generation: 11 });
    assert_eq!((prot, flags), (12, 13));
    let bytes = record_of(
        record::MMAP2,
        1 << 14,
        &named(&[front, [2, u64::MAX, 1, halves(13, 12)]].concat(), b"/bin/ls\0"),
    );
    let RecordBody::Mmap2 { identity, .. } = Record::parse(&bytes, &layout).unwrap().body else { panic!() };
    assert_eq!(identity, FileIdentity::BuildId(&[0, 0]));
    let mut wrong = bytes.clone();
    wrong[40] = 21;
    assert_eq!(Record::parse(&wrong, &layout), Err(Malformed), "a build-id of 21 bytes");
}

/// A sample with every part, and the numbers 1, 2, 3 … in them.
#[test]
fn a_sample_with_all_parts_is_read_in_order() {
    let attr = EventAttr {
        sample_type: (1 << 25) - 1 - sample::WEIGHT_STRUCT,
        read_format: 1 | 2 | 4 | 16,
        sample_regs_user: 0b101,
        sample_regs_intr: 0b1,
        ..EventAttr::default()
    };
    let mut bytes = words(&[1, 2, halves(4, 3), 5, 6, 7, 8, 9, 10]);
    bytes.extend(words(&[11, 12, 13, 14, 15]));
    bytes.extend(words(&[2, 16, 17]));
    bytes.extend([4, 0, 0, 0, 18, 19, 20, 21]);
    bytes.extend(words(&[1, 22, 23, 1 | 5 << 4 | 3 << 20]));
    bytes.extend(words(&[2, 24, 25]));
    bytes.extend(words(&[16, 26, 27, 8]));
    bytes.extend(words(&[28, 29, 30, 2, 31, 32, 33, 34, 35, 8, 36]));
    let sample = Sample::parse(&bytes, &Layout::of(&attr)).unwrap();
    let id = sample.id;
    assert_eq!((id.identifier, id.pid, id.tid, id.time), (Some(1), Some(3), Some(4), Some(5)));
    assert_eq!(
        (sample.ip, sample.addr, id.id, id.stream_id, id.cpu, sample.period),
        (Some(2), Some(6), Some(7), Some(8), Some(9), Some(10))
    );
    let read = sample.read.unwrap();
    assert_eq!((read.time_enabled, read.time_running), (Some(12), Some(13)));
    assert_eq!((read.values[0].value, read.values[0].id, read.values[0].lost), (11, Some(14), Some(15)));
    assert_eq!(sample.callchain.unwrap().iter().collect::<Vec<_>>(), [16, 17]);
    assert_eq!(sample.raw, Some(&[18, 19, 20, 21][..]));
    let branch = sample.branches.unwrap()[0];
    assert_eq!((branch.from, branch.to, branch.cycles(), branch.kind()), (22, 23, 5, 3));
    assert!(branch.mispredicted() && !branch.predicted());
    let registers = sample.regs_user.unwrap();
    assert_eq!(
        (registers.get(0), registers.get(1), registers.get(2), registers.get(64)),
        (Some(24), None, Some(25), None)
    );
    let stack = sample.stack_user.unwrap();
    assert_eq!((stack.asked, stack.bytes), (16, &words(&[26])[..]));
    assert_eq!((sample.weight, sample.data_src, sample.transaction), (Some(28), Some(29), Some(30)));
    assert_eq!(sample.regs_intr.unwrap().get(0), Some(31));
    assert_eq!(
        (sample.phys_addr, sample.cgroup, sample.data_page_size, sample.code_page_size),
        (Some(32), Some(33), Some(34), Some(35))
    );
    assert_eq!(sample.aux, Some(&words(&[36])[..]));
    for cut in 0..bytes.len() {
        assert_eq!(Sample::parse(&bytes[..cut], &Layout::of(&attr)), Err(Malformed), "cut to {cut} bytes");
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    (0..1u64 << 25, 0..1u64 << 5, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
        |(sample_type, read_format, regs, branch, all)| Layout {
            sample_type,
            read_format,
            branch_sample_type: branch,
            regs_user: regs,
            regs_intr: regs.rotate_left(7),
            sample_id_all: all,
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_a_record_or_malformed(
        layout in layouts(),
        kind in 0u32..24,
        misc in any::<u16>(),
        body in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..400),
    ) {
        let len = body.len() / 8 * 8;
        let bytes = record_of(kind, misc, &body[..len]);
        let time = layout.time(&bytes);
        let _ = Layout::identifier(&bytes);
        if let Ok(parsed) = Record::parse(&bytes, &layout)
            && !matches!(parsed.body, RecordBody::Other(_))
        {
            prop_assert_eq!(parsed.id.time, time, "the short way to the time equals the long one");
        }
        let _ = Record::parse(&body, &layout);
    }
}
