//! Any pprof file to each format, and what `top`, `merge` and `diff` tell of it: no panic, whatever its values are; text is text.
#![no_main]

use formats::registry::ENCODERS;
use formats::{EncodeOptions, Merge};
use profile::Profile;
use report::{Against, Order, Part};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(profile) = formats::pprof::decode(bytes) {
        encode(&profile);
        tell(profile);
    }
});

fn encode(profile: &Profile) {
    for encoder in ENCODERS {
        for (merge, inverted) in [(Merge::Pid, false), (Merge::Comm, true), (Merge::All, false)] {
            for value in [None, Some(0), Some(usize::MAX)] {
                let options = EncodeOptions {
                    title: "title".to_owned(),
                    value,
                    merge,
                    inverted,
                    ..EncodeOptions::default()
                };
                let mut out = Vec::new();
                let written = encoder.encode(profile, &options, &mut out);
                let is_text = !matches!(encoder.name(), "pprof");
                assert!(
                    written.is_err() || !is_text || std::str::from_utf8(&out).is_ok(),
                    "{}",
                    encoder.name()
                );
            }
        }
    }
}

fn tell(mut profile: Profile) {
    for value in [0, profile.default_value(), profile.sample_types.len()] {
        for order in [Order::Own, Order::Total] {
            for function in report::ranked(&profile, value, order).functions.iter().take(3) {
                let _ = report::neighbours(&profile, value, &function.name);
            }
        }
        for key in report::label_keys(&profile) {
            let _ = report::label_shares(&profile, value, &key);
        }
    }
    let _ = recording::kernel_comments::read(&profile.comments, None);
    let sides = [("one".to_owned(), profile.clone()), ("other".to_owned(), profile.clone())];
    let _ = report::merge(&sides);
    for against in [Against::Samples, Against::Time, Against::Runs] {
        for part in [Part::Own, Part::Total] {
            let _ = report::compare(&sides[..1], &sides, against, part);
        }
    }
    report::correct_name_shares(&mut profile);
}
