//! Any bytes as perf.data, as a file and as a stream: no panic, bounded memory; each sample that was read is in the profile of its event.
#![no_main]

#[path = "../allocations.rs"]
mod allocations;

use perf_data_reader::{Error, NoFiles, PerfData};

/// A window of zstd and what it is filled with, records that wait for the end of their round, and tables.
const LIMIT: usize = 512 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocations::bounded(LIMIT, || {
        check(PerfData::read(std::io::Cursor::new(bytes), &mut NoFiles));
        check(PerfData::read_stream(bytes, &mut NoFiles));
    });
});

fn check(read: Result<PerfData, Error>) {
    let Ok(mut data) = read else { return };
    let samples: Vec<u64> = data.events().map(|event| event.samples).collect();
    for (event, samples) in samples.into_iter().enumerate() {
        let profile = data.profile(event, &mut NoFiles).profile;
        assert_eq!(profile.samples.iter().map(|sample| sample.values[0] as u64).sum::<u64>(), samples);
    }
}
