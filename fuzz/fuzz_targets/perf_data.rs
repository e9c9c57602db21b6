//! Any bytes as perf.data: no panic; each sample that was read is in the profile of its event.
#![no_main]

use perf_data_reader::{NoFiles, PerfData};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mut data) = PerfData::read(std::io::Cursor::new(bytes), &mut NoFiles) else { return };
    let samples: Vec<u64> = data.events().map(|event| event.samples).collect();
    for (event, samples) in samples.into_iter().enumerate() {
        let profile = data.profile(event, &mut NoFiles).profile;
        assert_eq!(profile.samples.iter().map(|sample| sample.values[0] as u64).sum::<u64>(), samples);
    }
});
