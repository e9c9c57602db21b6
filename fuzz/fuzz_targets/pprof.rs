//! Any bytes as pprof file: what is read can be written and read again, and nothing panics.
#![no_main]

use formats::pprof::{decode, encode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(profile) = decode(bytes) {
        assert_eq!(decode(&encode(&profile)).expect("it was written here"), profile);
    }
});
