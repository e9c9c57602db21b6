use proptest::prelude::*;

use super::*;

const fn version(minor: u8) -> Version {
    Version { major: 3, minor, micro: 0 }
}

#[test]
fn instructions_are_numbered_from_one() {
    for (minor, raw, wanted) in [
        (9, -1, 0),
        (9, 0, 1),
        (9, 6, 4),
        (10, -1, 0),
        (10, 0, 1),
        (10, 6, 7),
        (11, -2, 0),
        (11, 0, 1),
        (11, 6, 4),
        (13, i32::MIN, 0),
        (13, i32::MAX, 1 << 30),
        (10, i32::MAX, 1 << 31),
    ] {
        assert_eq!(instruction(version(minor), raw.cast_unsigned()), wanted, "3.{minor} {raw}");
    }
}

#[test]
fn pairs_tell_where_lines_begin() {
    // Line 10 for 6 bytes, 12 for 2, 300 to the end: long distances take several pairs.
    let table = [6, 2, 2, 127, 0, 127, 0, 34];
    assert_eq!(lines(version(9), 10, &table), [(1, 10), (4, 12), (5, 300)]);
    assert_eq!(lines(version(9), 10, &[0, 1, 4, 255]), [(1, 11), (3, 10)]);
    assert_eq!(lines(version(8), 10, &[]), [(1, 10)]);
}

#[test]
fn ranges_may_have_no_line() {
    let table = [2, 1, 4, 128, 0, 5, 2, 1];
    assert_eq!(lines(version(10), 10, &table), [(1, 11), (2, 10), (4, 17), (5, 10)]);
}

#[test]
fn locations_have_forms() {
    let table = [
        0x80 | 3 << 3 | 1,
        0x05, // two units, no step
        0x80 | 11 << 3,
        0x01,
        0x02,               // one unit, a line on
        0x80 | 15 << 3 | 2, // three units without a line
        0x80 | 13 << 3,
        0x42,
        0x03, // 0b11_000010: 97 lines on
        0x80 | 14 << 3,
        0x07,
        0x00,
        0x01,
        0x01, // 3 lines back
    ];
    assert_eq!(lines(version(11), 10, &table), [(1, 10), (3, 11), (4, 10), (7, 108), (8, 105), (9, 10)]);
}

#[test]
fn lines_that_cannot_be_are_the_first_line() {
    assert_eq!(lines(version(9), 10, &[2, 156]), [(1, 10)]);
    assert_eq!(lines(version(10), 10, &[2, 156]), [(1, 10)]);
    let far = [0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f];
    assert_eq!(lines(version(12), 10, &far), [(1, 10)]);
}

#[test]
fn other_versions_have_no_lines() {
    assert_eq!(lines(version(7), 10, &[2, 1]), []);
}

proptest! {
    #[test]
    fn any_bytes_are_a_bounded_table(
        minor in 8u8..15,
        first_line: u32,
        table in proptest::collection::vec(any::<u8>(), 0..400),
        raw: u32,
    ) {
        let lines = lines(version(minor), first_line, &table);
        prop_assert!(lines.len() <= table.len() + 1);
        prop_assert!(lines.first().is_some_and(|first| first.0 == 1));
        prop_assert!(lines.is_sorted_by(|a, b| a.0 < b.0 && a.1 != b.1));
        let _ = instruction(version(minor), raw);
    }
}
