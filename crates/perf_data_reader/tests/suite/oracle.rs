//! The same file beside the crate `linux-perf-data`.

use std::io::Cursor;

use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{AttributeDescription, DsoKey, PerfFileReader, PerfFileRecord};

use crate::file::example;

#[test]
fn another_reader_finds_the_same_in_the_file_made_by_hand() {
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(Cursor::new(example())).unwrap();
    let names: Vec<_> = perf_file.event_attributes().iter().filter_map(AttributeDescription::name).collect();
    assert_eq!(names, ["cpu-clock:u", "page-faults"]);
    assert_eq!(perf_file.hostname().unwrap(), Some("host"));
    let build_ids = perf_file.build_ids().unwrap();
    assert_eq!(build_ids[&DsoKey::Kernel].build_id, [1; 20]);
    let (mut samples, mut times, mut others) = ([0; 2], Vec::new(), 0);
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        times.extend(record.timestamp());
        // Samples are not parsed by it: it reads values of counter groups as those of single counters.
        if record.record_type.0 == 9 {
            samples[attr_index] += 1;
            continue;
        }
        others += 1;
        if let EventRecord::Mmap2(mapped) = record.parse().unwrap() {
            assert!([7, 8].contains(&mapped.pid));
        }
    }
    assert_eq!((samples, others), ([4, 1], 9));
    assert!(times.is_sorted(), "{times:?}");
}
