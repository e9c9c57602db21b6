use std::io::Write as _;
use std::process::Command;

use crate::example;
use flate2::write::GzEncoder;
use formats::pprof::{DecodeError, MAX_MESSAGE_BYTES, decode, encode};
use profile::LabelValue;
use proptest::prelude::*;

#[test]
fn what_was_written_is_read_back() {
    let profile = example();
    assert_eq!(decode(&encode(&profile)).unwrap(), profile);
}

#[test]
fn equal_profiles_give_equal_bytes() {
    assert_eq!(encode(&example()), encode(&example()));
}

#[test]
fn go_tool_pprof_reads_it() {
    let bytes = encode(&example());
    let file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    file.as_file().write_all(&bytes).unwrap();
    let mut go = Command::new(testkit::need!("go"));
    let output = go.args(["tool", "pprof", "-raw"]).arg(file.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "PeriodType: cpu nanoseconds",
        "Period: 10101010",
        "Comment: run=1",
        "Comment: ledger.samples=6",
        "samples/count cpu/nanoseconds[dflt]",
        "          3         30: 1 2 ",
        "                comm:[app]",
        "                pid:[7]",
        "     1: 0x1234 M=1 inner a.c:12:5 s=10(_Zinner)",
        "             middle a.c:30:2 s=28(_Zmiddle)",
        "             outer(int; char) a.c:44:2 s=42(_Zouter(int; char))",
        "     4: 0x40 M=3 ",
        "1: 0x1000/0x9000/0x1000 /opt/my app/bin 00ffa0b1 [FN][FL][LN][IN]",
        "2: 0x0/0xffffffffffffffff/0x0 [kernel.kallsyms]  [FN]",
        "3: 0x0/0x1000/0x0 /lib/libz.so.1  ",
    ] {
        assert!(text.lines().any(|l| l.trim_end() == line.trim_end()), "{line:?} is missing in\n{text}");
    }
}

#[test]
fn one_location_without_a_name_takes_the_flags_away() {
    let mut profile = example();
    profile.locations[1].lines.clear();
    let bytes = encode(&profile);
    let file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    file.as_file().write_all(&bytes).unwrap();
    let mut go = Command::new(testkit::need!("go"));
    let output = go.args(["tool", "pprof", "-raw"]).arg(file.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().any(|l| l.trim_end() == "1: 0x1000/0x9000/0x1000 /opt/my app/bin 00ffa0b1"),
        "{text}"
    );
}

#[test]
fn references_that_lead_nowhere_are_errors() {
    let mut profile = example();
    profile.samples[0].locations[0].0 = 77;
    assert!(matches!(decode(&encode(&profile)), Err(DecodeError::Reference { kind: "location", id: 78 })));
    let mut profile = example();
    profile.locations[0].lines[0].function.0 = 77;
    assert!(matches!(decode(&encode(&profile)), Err(DecodeError::Reference { kind: "function", id: 78 })));
    let mut profile = example();
    profile.samples[0].values.pop();
    assert!(matches!(decode(&encode(&profile)), Err(DecodeError::Values { found: 1, expected: 2 })));
}

#[test]
fn a_bomb_is_refused() {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 1 << 20]).unwrap();
    let bomb = gzip.finish().unwrap().repeat((MAX_MESSAGE_BYTES >> 20) as usize + 1);
    assert!(bomb.len() < 8 << 20);
    assert!(matches!(decode(&bomb), Err(DecodeError::TooLong)));
}

/// An input that fuzzing found: the empty text stands twice in the table of texts, and a label refers to the second one.
#[test]
fn a_label_with_another_empty_text_survives() {
    let found = include_bytes!("../../../../fuzz/corpus/pprof/empty-text");
    let profile = decode(found).unwrap();
    assert!(profile.samples[0].labels.iter().any(|label| label.value == LabelValue::Num(0)));
    assert_eq!(decode(&encode(&profile)).unwrap(), profile);
}

proptest! {
    #[test]
    fn damaged_messages_do_no_harm(at in 0usize..10_000, byte: u8, cut in 0usize..10_000, plain: bool) {
        let mut bytes = encode(&example());
        if plain {
            bytes = {
                let mut out = Vec::new();
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut out).unwrap();
                out
            };
        }
        let length = bytes.len();
        bytes[at % length] = byte;
        let _ = decode(&bytes);
        bytes.truncate(cut % length);
        let _ = decode(&bytes);
    }

    #[test]
    fn noise_does_no_harm(bytes: Vec<u8>) {
        let _ = decode(&bytes);
    }

    #[test]
    fn any_labels_and_values_survive(key in "\\PC*", text in "\\PC+", num: i64, value: i64) {
        let mut profile = example();
        profile.samples[0].labels[0].value = LabelValue::Num(num);
        profile.samples[0].labels[1].key = key;
        profile.samples[0].labels[1].value = LabelValue::Str(text);
        profile.samples[0].values[1] = value;
        prop_assert_eq!(decode(&encode(&profile)).unwrap(), profile);
    }
}
