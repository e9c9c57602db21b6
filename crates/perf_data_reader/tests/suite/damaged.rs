//! Files that are cut off, changed, or made to take time and memory.

use perf_data_reader::{NoFiles, PerfData, is_perf_data};
use proptest::prelude::*;

use crate::file::{Data, USER, example, read, u32s, u64s};

fn refused(file: Vec<u8>) -> String {
    let error = read(file, &mut NoFiles).unwrap_err();
    error.to_string()
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused_with_the_offset() {
    let file = example();
    assert!(is_perf_data(&file));
    for length in 0..file.len() {
        let told = refused(file[..length].to_vec());
        assert!(told.contains("offset "), "{length}: {told}");
    }
}

#[test]
fn sizes_that_the_file_does_not_have_are_refused_before_memory_is_taken() {
    let whole = example();
    let with = |at: usize, value: u64| {
        let mut file = whole.clone();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        refused(file)
    };
    // Size of an entry, of the events, of the data; position of the data; size of the ids of the first event.
    for at in [16, 32, 40, 48, 120 + 128 + 8] {
        for value in [1 << 33, u64::MAX, u64::MAX - 7] {
            let told = with(at, value);
            assert!(told.contains("offset "), "{at}: {told}");
        }
    }
    let index = 120 + 2 * 144 + u64::from_le_bytes(whole[48..56].try_into().unwrap()) as usize;
    assert!(
        with(index + 8, 1 << 40).starts_with("the perf.data file is cut off: a feature begins at offset ")
    );
    assert!(with(32, 0).contains("0 entries"));
    let mut data = Data::default();
    data.record(71, 0, &u64s(&[u64::MAX - 100]));
    assert!(refused(data.file()).contains("bytes of trace follow it"));
    let mut data = Data::default();
    data.record(9, 2, &[u64s(&[11, 1]), u32s(&[1, 1]), u64s(&[1, 0, 1, 0, u64::MAX / 8])].concat());
    assert!(refused(data.file()).starts_with("a sample of the perf.data file, at offset 408: it is shorter"));
}

#[test]
fn files_of_other_kinds_are_refused_by_what_they_are() {
    let mut stream = b"PERFILE2".to_vec();
    stream.extend(u64s(&[16]));
    assert!(refused(stream).contains("the list of events of the perf.data file, at offset 16"));
    let file = PerfData::read_stream(&example()[..], &mut NoFiles).unwrap_err();
    assert!(file.to_string().contains("give the file itself"), "{file}");
    assert!(refused(b"2ELIFREP0123456789".to_vec()).contains("byte order"));
    assert!(refused(vec![7; 200]).contains("at offset 0: it does not begin as perf.data files do"));
}

#[test]
fn what_is_no_compressed_record_is_refused_with_the_offset() {
    let packed = |body: &[u8]| {
        let mut data = Data::default();
        data.record(81, 0, body);
        refused(data.file())
    };
    let zstd = |body: &[u8]| packed(&[&[0x28, 0xb5, 0x2f, 0xfd][..], body].concat());
    for (told, expected) in [
        (packed(&[0; 16]), "compressed records of the perf.data file, at offset 408: it is no zstd"),
        (zstd(&[0, 0, 9, 9]), "at offset 408: 2 bytes at their end are no whole block"),
        (zstd(&[1, 0, 7]), "need a dictionary"),
        (zstd(&[0, 0xff]), "record with a lower level"),
        (zstd(&[0, 0, 6, 0, 0]), "of no known type"),
        // 1000 bytes, all zero.
        (zstd(&[0, 0, 0x42, 0x1f, 0, 0]), "a record in it says that it has 0 bytes"),
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let mut data = Data::default();
    data.record(83, 0, &u64s(&[9, 0]));
    assert!(refused(data.file()).contains("it has less than it says"));
}

#[test]
fn a_bomb_of_zstd_is_refused_before_it_takes_long() {
    // A record of 64 KiB, 128 KiB at a time, as blocks that repeat one byte: 8, so that each record is 0x0808 bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    let block = [0x02 | (0x2_0000u32 << 3) as u8, (0x2_0000u32 << 3 >> 8) as u8, 0x10, 8];
    frame.extend(block.repeat(10_000));
    let mut data = Data::default();
    for piece in frame.chunks(60_000) {
        data.record(81, 0, piece);
    }
    let told = refused(data.file());
    assert!(told.contains("which no recording does"), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn changed_bytes_end_in_a_profile_or_in_an_error(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut file = example();
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Ok(mut data) = read(file, &mut NoFiles) {
            for event in 0..2 {
                data.profile(event, &mut NoFiles);
            }
        }
    }

    #[test]
    fn any_records_end_in_a_profile_or_in_an_error(records in prop::collection::vec((0u32..14, 0u16..4, prop::collection::vec(any::<u64>(), 0..12)), 0..12)) {
        let mut data = Data::default();
        for (kind, misc, body) in records {
            data.record(kind, misc | misc << 13, &u64s(&body));
        }
        data.sample(0, 1, (1, 1), &[USER, 1]);
        if let Ok(mut data) = read(data.file(), &mut NoFiles) {
            data.profile(0, &mut NoFiles);
        }
    }
}
