//! Maps: whole, growing, written anew, hostile.

use super::*;
use proptest::prelude::*;
use std::io::Write as _;

fn map(text: &[u8]) -> (PerfMap, File) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text).unwrap();
    (PerfMap::over(file.try_clone().unwrap(), None), file)
}

fn name(map: &mut PerfMap, address: u64) -> Option<String> {
    let found = map.lookup(Avma(address));
    let found = found.or_else(|| map.refresh().then(|| map.lookup(Avma(address)))?);
    found.map(|e| e.line.name.into())
}

#[test]
fn entries_with_and_without_prefix_and_blanks() {
    let (mut m, _) = map(b"1000 20 plain\n0x2000 0x10 a b  c \n3000 10 \xff\xfe\n");
    assert_eq!(name(&mut m, 0x1000).as_deref(), Some("plain"));
    assert_eq!(name(&mut m, 0x101f).as_deref(), Some("plain"));
    assert_eq!(name(&mut m, 0x1020), None);
    assert_eq!(name(&mut m, 0x200f).as_deref(), Some("a b  c "));
    assert_eq!(name(&mut m, 0x3000).as_deref(), Some("\u{fffd}\u{fffd}"));
    assert_eq!(m.malformed_lines(), 0);
}

#[test]
fn malformed_lines_are_counted_and_skipped() {
    let (mut m, _) =
        map(b"x 1 a\n10\n10 20\n10 20 \n+10 20 a\n10 0 a\nffffffffffffffff 2 a\n11111111111111111 1 a\n\n40 1 ok\n");
    assert_eq!(m.malformed_lines(), 8);
    assert_eq!(name(&mut m, 0x40).as_deref(), Some("ok"));
    assert_eq!(name(&mut m, 0x10), None);
}

#[test]
fn the_latest_entry_wins() {
    let (mut m, _) = map(b"100 100 old\n140 20 middle\n1f0 100 next\n");
    for (address, expected) in [
        (0x100, "old"),
        (0x13f, "old"),
        (0x140, "middle"),
        (0x15f, "middle"),
        (0x160, "old"),
        (0x1ef, "old"),
        (0x1f0, "next"),
        (0x2ef, "next"),
    ] {
        assert_eq!(name(&mut m, address).as_deref(), Some(expected), "{address:#x}");
    }
    let (mut m, _) = map(b"100 10 a\n110 10 b\n120 10 c\n0 1000 all\n");
    assert_eq!(name(&mut m, 0x115).as_deref(), Some("all"));
    assert_eq!(m.entries.len(), 1);
}

/// A regular expression whose source looks like an entry, in the map of a JIT.
#[test]
fn text_that_looks_like_entries_renames_nothing() {
    // Longer than a function.
    let (mut m, _) =
        map(b"7f0000001000 10 leaf\n7f0000002000 20 RegExp:x\n7f0000000000 ffffffffff hijacked\n");
    assert_eq!(name(&mut m, 0x7f00_0000_1000).as_deref(), Some("leaf"));
    assert_eq!((name(&mut m, 0x7f00_0000_3000), m.misplaced_entries()), (None, 1));
    let (m, _) = map(b"1000 4000000 longest\n10000000 4000001 longer\n");
    assert_eq!((m.entries.len(), m.misplaced_entries()), (1, 1));
    // Beyond the mapping, which is known after the map was read.
    let text = b"1000 10 leaf\n1800 10 second\n800 1000 hijacked\n1ff0 100 hijacked\n";
    let (mut m, _) = map(text);
    m.within(code([(0x1000, 0x2000)]));
    assert_eq!(name(&mut m, 0x1000).as_deref(), Some("leaf"));
    assert_eq!(name(&mut m, 0x1800).as_deref(), Some("second"));
    assert_eq!((name(&mut m, 0x1ff8), m.misplaced_entries()), (None, 2));
    // A mapping that grows: an entry that was left out counts.
    m.within(code([(0x1000, 0x3000)]));
    assert_eq!((name(&mut m, 0x1ff8).as_deref(), m.misplaced_entries()), (Some("hijacked"), 1));
    assert_eq!(name(&mut m, 0x1000).as_deref(), Some("leaf"));
    // In two mappings that do not touch, and in none.
    let (mut m, _) = map(b"1000 10 leaf\n1008 3000 hijacked\n8000 10 other\n");
    m.within(code([(0x1000, 0x2000), (0x3000, 0x5000)]));
    assert_eq!(name(&mut m, 0x100f).as_deref(), Some("leaf"));
    assert_eq!((name(&mut m, 0x1010), name(&mut m, 0x3000), name(&mut m, 0x8000)), (None, None, None));
}

fn code(ranges: impl IntoIterator<Item = (u64, u64)>) -> Arc<CodeRanges> {
    let mut code = CodeRanges::default();
    ranges.into_iter().for_each(|(start, end)| _ = code.add(Avma(start)..Avma(end)));
    Arc::new(code)
}

#[test]
fn a_map_is_read_again_only_for_mappings_that_make_an_entry_valid() {
    let text = b"1000 10 leaf\n1ff0 20 refused\n7f0000000000 ffffffffff long\n";
    let (mut m, _) = map(text);
    let length = text.len() as u64;
    m.within(code([(0x1000, 0x2000)]));
    assert_eq!((name(&mut m, 0x1ff8), m.misplaced_entries()), (None, 2));
    assert_eq!(m.bytes_read(), 2 * length, "it was an entry before");
    // A thousand mappings elsewhere.
    for number in 1..1000 {
        m.within(code((0..number).map(|at| (0x10_0000 * at + 0x1000, 0x10_0000 * at + 0x2000))));
        assert_eq!(name(&mut m, 0x1000).as_deref(), Some("leaf"));
        assert_eq!(name(&mut m, 0x10_0000 * number + 0x1800), None);
    }
    assert_eq!((m.bytes_read(), m.misplaced_entries()), (2 * length, 2));
    m.within(code([(0x1000, 0x3000)]));
    assert_eq!((name(&mut m, 0x1ff8).as_deref(), m.bytes_read()), (Some("refused"), 3 * length));
    // Outside of all mappings: another look shows the same.
    m.within(code([(0x9000, 0xa000)]));
    for _ in 0..10 {
        assert_eq!(name(&mut m, 0x1000), None);
    }
    assert_eq!(m.bytes_read(), 3 * length);
}

#[test]
fn names_stay_when_a_map_may_not_be_read_again() {
    let whole: fn(&mut PerfMap) = |m| m.budget = 9;
    let of_doubts: fn(&mut PerfMap) = |m| m.budget_for_doubts = 9;
    let full: fn(&mut PerfMap) = |m| m.beyond_limit = 1;
    for spend in [whole, of_doubts, full] {
        let (mut m, _) = map(b"1000 10 leaf\n1ff0 20 refused\n");
        spend(&mut m);
        m.within(code([(0x1000, 0x2000)]));
        assert_eq!((name(&mut m, 0x1ff8), m.is_left_in_doubt()), (None, true));
        assert_eq!(name(&mut m, 0x1000).as_deref(), Some("leaf"));
        let shortfall = crate::perf_map_shortfall(&m, 7).unwrap();
        assert!(
            shortfall.contains("names beneath entries that do not lie within one mapping may be missing"),
            "{shortfall}"
        );
    }
    // Another program writes the file by now.
    let (mut m, file) = map(b"1000 10 leaf\n1ff0 20 refused\n");
    m.end(file.metadata().unwrap().modified().unwrap());
    file.write_all_at(b"9999", 0).unwrap();
    file.set_modified(SystemTime::now() + std::time::Duration::from_secs(9)).unwrap();
    m.within(code([(0x1000, 0x2000)]));
    assert_eq!((name(&mut m, 0x1ff8), name(&mut m, 0x1000).as_deref()), (None, Some("leaf")));
}

/// Reading again for a mapping keeps what a map named before it was written anew.
#[test]
fn known_entries_stay_when_a_map_is_read_again() {
    let (mut m, file) = map(b"1000 10 before_it_was_written_anew\n1100 10 and_longer\n");
    file.set_len(0).unwrap();
    file.write_all_at(b"1200 10 now\n1ff0 20 refused\n", 0).unwrap();
    assert_eq!(name(&mut m, 0x1200).as_deref(), Some("now"));
    m.within(code([(0x1000, 0x2000)]));
    assert_eq!(name(&mut m, 0x1ff8), None);
    assert_eq!(name(&mut m, 0x1000).as_deref(), Some("before_it_was_written_anew"));
    assert_eq!(name(&mut m, 0x1200).as_deref(), Some("now"));
}

#[test]
fn appended_lines_are_found_once_complete() {
    let (mut m, mut file) = map(b"10 10 a\n20 1");
    assert_eq!(name(&mut m, 0x20), None);
    file.write_all(b"0 b").unwrap();
    assert_eq!(name(&mut m, 0x20), None);
    file.write_all(b"\n").unwrap();
    assert_eq!(name(&mut m, 0x2f).as_deref(), Some("b"));
    assert!(!m.refresh());
    file.set_len(0).unwrap();
    file.write_all_at(b"70 1 z\n", 0).unwrap();
    assert_eq!(name(&mut m, 0x70).as_deref(), Some("z"));
    assert_eq!(m.malformed_lines(), 0);
}

#[test]
fn lines_longer_than_a_chunk() {
    let mut text = b"10 10 ".to_vec();
    text.resize(3 * CHUNK, b'x');
    text.extend_from_slice(b"\n30 1 y\n");
    let (mut m, _) = map(&text);
    assert_eq!(name(&mut m, 0x10).unwrap().len(), MAX_NAME);
    assert_eq!(name(&mut m, 0x30).as_deref(), Some("y"));
    let long = "x".repeat(5000);
    let (mut m, _) = map(format!("10 10 {long}1\n20 10 {long}2\n").as_bytes());
    assert_ne!(name(&mut m, 0x10), name(&mut m, 0x20));
}

#[test]
fn a_map_without_an_end_of_line_is_read_once() {
    let (mut m, mut file) = map(&vec![b'x'; 3 * CHUNK]);
    let whole = 3 * CHUNK as u64;
    assert_eq!((m.bytes_read(), m.malformed_lines()), (whole, 1));
    assert!(!m.refresh() && m.lookup(Avma(0x10)).is_none());
    assert_eq!(m.bytes_read(), whole);
    file.write_all(b"xx").unwrap();
    assert!(m.refresh());
    assert_eq!((m.bytes_read(), m.malformed_lines()), (whole + 2, 1));
    file.write_all(b"x\n10 10 a\n").unwrap();
    assert_eq!(name(&mut m, 0x10).as_deref(), Some("a"));
    assert_eq!((m.bytes_read(), m.malformed_lines()), (whole + 12, 1));
}

#[test]
fn lines_around_the_limit() {
    for length in [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1] {
        let mut text = b"10 10 ".to_vec();
        text.resize(length, b'x');
        text.extend_from_slice(b"\n30 1 y\n");
        let (mut m, _) = map(&text);
        assert_eq!(name(&mut m, 0x10).unwrap().len(), MAX_NAME, "{length}");
        assert_eq!(name(&mut m, 0x30).as_deref(), Some("y"), "{length}");
        assert_eq!((m.entries.len(), m.malformed_lines()), (2, 0), "{length}");
    }
}

#[test]
fn what_is_written_anew_for_ever_is_read_up_to_a_limit() {
    let (mut m, file) = map(b"10 10 a\n");
    assert_eq!(m.bytes_read(), 8);
    m.budget = 4;
    file.write_all_at(b"10 10 ab\n", 0).unwrap();
    assert!(!m.refresh() && m.is_spent());
    assert_eq!(m.bytes_read(), PerfMap::MAX_READ);
    assert_eq!(name(&mut m, 0x10).as_deref(), Some("a"));
}

#[test]
fn names_of_a_map_written_anew_are_freed() {
    let (mut m, _) = map(b"1 2000 around\n");
    let long = "n".repeat(4000);
    let lines: Vec<String> = (0..100).map(|i| format!("{:x} 8 {i}_{long}", 0x100 + i * 0x10)).collect();
    for _ in 0..200 {
        lines.iter().for_each(|line| m.add(line));
    }
    assert!(m.names.len() < MIN_GROWTH + (1 << 20), "{}", m.names.len());
    m.compact();
    assert!((400_000..410_000).contains(&m.names.len()), "{}", m.names.len());
    assert_eq!(m.entries_beyond_limit(), 0);
    for i in 0..100 {
        assert!(name(&mut m, 0x107 + i * 0x10).unwrap().starts_with(&format!("{i}_n")));
        assert_eq!(name(&mut m, 0x108 + i * 0x10).as_deref(), Some("around"));
    }
}

proptest! {
    #[test]
    fn compaction_changes_nothing(entries in prop::collection::vec((0u64..300, 1u64..80), 0..60)) {
        let text: String =
            entries.iter().enumerate().map(|(i, (start, size))| format!("{start:x} {size:x} f{i}\n")).collect();
        let (mut m, _) = map(text.as_bytes());
        let before: Vec<_> = (0..400).map(|address| m.lookup(Avma(address))).collect();
        m.compact();
        let after: Vec<_> = (0..400).map(|address| m.lookup(Avma(address))).collect();
        prop_assert_eq!(before, after);
    }

    #[test]
    fn equals_a_scan_from_the_end(entries in prop::collection::vec((0u64..300, 1u64..80), 0..60)) {
        let text: String =
            entries.iter().enumerate().map(|(i, (start, size))| format!("{start:x} {size:x} f{i}\n")).collect();
        let (mut m, _) = map(text.as_bytes());
        for address in 0..400 {
            let covering = |(start, size): &(u64, u64)| (*start..start + size).contains(&address);
            let expected = entries.iter().rposition(covering).map(|i| format!("f{i}"));
            prop_assert_eq!(name(&mut m, address), expected);
        }
    }

    #[test]
    fn noise_does_no_harm(bytes: Vec<u8>, address: u64) {
        let _ = map(&bytes).0.lookup(Avma(address));
    }

    #[test]
    fn lines_of_noise_do_no_harm(lines in prop::collection::vec("(0x)?[0-9a-f]{0,17} [0-9a-f]{0,17} ?\\PC{0,9}", 0..20)) {
        let (m, _) = map(lines.join("\n").as_bytes());
        let _ = m.lookup(Avma(0x10));
    }
}

#[test]
fn what_is_written_after_the_end_is_not_read() {
    let (mut m, mut file) = map(b"10 10 own\n");
    let end = file.metadata().unwrap().modified().unwrap();
    m.end(end);
    file.write_all(b"20 10 late\n").unwrap();
    let later = end + std::time::Duration::from_secs(1);
    file.set_modified(later).unwrap();
    assert_eq!((name(&mut m, 0x10).as_deref(), name(&mut m, 0x20)), (Some("own"), None));
    // Read before the end was known, which was before it was written.
    let mut m = PerfMap::over(file, None);
    assert_eq!(name(&mut m, 0x20).as_deref(), Some("late"));
    m.end(end);
    assert_eq!((name(&mut m, 0x10), name(&mut m, 0x20)), (None, None));
}

#[test]
fn a_file_written_anew_is_read_anew_though_it_is_longer() {
    let (mut m, file) = map(b"10 10 a\n");
    file.write_all_at(b"1000 10 another\n20 10 b\n", 0).unwrap();
    assert_eq!(name(&mut m, 0x1000).as_deref(), Some("another"));
    assert_eq!(name(&mut m, 0x20).as_deref(), Some("b"));
    assert_eq!(name(&mut m, 0x10).as_deref(), Some("a"));
    assert_eq!(m.malformed_lines(), 0);
}
