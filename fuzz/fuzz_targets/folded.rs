//! Any bytes as folded stacks: what is read can be written, and read again with the same sum; nothing panics.
#![no_main]

use formats::folded::{decode, is_folded, write};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let is_folded = is_folded(bytes);
    let Ok(profile) = decode(bytes) else { return };
    assert!(is_folded || profile.samples.is_empty(), "the first stack tells what the file is");
    let sum = |profile: &profile::Profile| {
        profile.samples.iter().fold(0i64, |sum, sample| sum.saturating_add(sample.values[0]))
    };
    let mut again = Vec::new();
    write(&profile, 0, formats::Merge::All, &mut again).expect("memory takes it");
    assert_eq!(sum(&decode(&again).expect("it was written here")), sum(&profile));
});
