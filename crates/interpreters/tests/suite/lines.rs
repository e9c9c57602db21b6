//! Line tables of the standard library, against what each interpreter says itself.

use std::process::{Command, Stdio};

use interpreters::python::{Interpreter, lines};
use testkit::{Python, pythons_of};

use crate::VERSIONS;

/// One file of so many is read; all of them take minutes.
const EVERY: &str = "60";

/// The next number of four bytes.
fn number(bytes: &mut &[u8]) -> u32 {
    let (number, rest) = bytes.split_first_chunk::<4>().unwrap();
    *bytes = rest;
    u32::from_le_bytes(*number)
}

/// What the interpreter says, as `lines.py` writes it.
fn answers(python: &Python) -> Vec<u8> {
    let output = Command::new(&python.program)
        .args(["-W", "ignore", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/lines.py"), EVERY])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn each_instruction_of_the_standard_library_has_its_line() {
    for python in pythons_of(&VERSIONS) {
        let version = Interpreter::of_file(&std::fs::read(python.file()).unwrap()).unwrap().unwrap().version;
        let answers = answers(python);
        let mut rest = &answers[..];
        let (mut objects, mut instructions) = (0, 0u64);
        while !rest.is_empty() {
            let [first_line, table_len, units] = [(); 3].map(|()| number(&mut rest));
            let (table, behind) = rest.split_at(table_len as usize);
            rest = behind;
            let code = lines::lines(version, first_line, table);
            for unit in 0..units {
                let wanted = i32::try_from(number(&mut rest)).map_or(first_line, i32::cast_unsigned);
                // The field of a frame counts bytes, but units in 3.10.
                let raw = if version.minor == 10 { unit } else { 2 * unit };
                let instruction = lines::instruction(version, raw);
                let after = code.partition_point(|(first, _)| *first <= instruction);
                assert_eq!(code[after - 1].1, wanted, "{version} line {first_line} unit {unit}: {code:?}");
            }
            objects += 1;
            instructions += u64::from(units);
        }
        println!("{version}: {objects} code objects, {instructions} instructions");
        assert!(objects > 100 && instructions > 5_000, "{version}: {objects} {instructions}");
    }
}
