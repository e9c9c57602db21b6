//! Dumps: whole, growing, hostile.

use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;

use super::*;

fn header(flags: u64) -> Vec<u8> {
    let words = [0x4A69_5444u32, 1, 40, 62, 0, 1].map(u32::to_ne_bytes).concat();
    [&words[..], &[0; 8], &flags.to_ne_bytes()].concat()
}

fn record(kind: u32, time: u64, body: &[u8]) -> Vec<u8> {
    let length = (PREFIX + body.len()) as u32;
    [&kind.to_ne_bytes()[..], &length.to_ne_bytes(), &time.to_ne_bytes(), body].concat()
}

fn load(time: u64, start: u64, size: u64, name: &[u8]) -> Vec<u8> {
    let numbers = [0, start, start, size, 1].map(u64::to_ne_bytes).concat();
    // Code follows the name.
    record(0, time, &[&numbers, name, b"\0", &vec![0x90; size.min(64) as usize]].concat())
}

fn moved(time: u64, from: u64, to: u64, size: u64) -> Vec<u8> {
    record(1, time, &[0, to, from, to, size, 1].map(u64::to_ne_bytes).concat())
}

fn lines(code: u64, all: &[(u64, u32, u32, &[u8])]) -> Vec<u8> {
    let mut body = [code.to_ne_bytes(), (all.len() as u64).to_ne_bytes()].concat();
    for (address, line, column, file) in all {
        let numbers = [line.to_ne_bytes(), column.to_ne_bytes()].concat();
        body.extend([&address.to_ne_bytes()[..], &numbers, file, b"\0"].concat());
    }
    record(2, 0, &body)
}

fn read(code: &mut JitCode, bytes: &[u8]) -> Result<bool, JitDumpError> {
    code.read(bytes.len() as u64, |buffer, at| {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    })
}

fn of(records: &[Vec<u8>]) -> JitCode {
    let mut code = JitCode::default();
    read(&mut code, &[header(0), records.concat()].concat()).unwrap();
    code
}

fn name(code: &JitCode, address: u64, at: u64) -> Option<String> {
    code.lookup(Avma(address), at).map(|line| line.name.into())
}

#[test]
fn code_is_named_by_what_was_newest_at_a_time() {
    let records = [load(10, 0x100, 0x20, b"old"), record(4, 0, &[0; 24]), load(20, 0x110, 0x20, b"new")];
    let code = of(&records);
    assert_eq!(name(&code, 0x118, 20).as_deref(), Some("new"));
    assert_eq!(name(&code, 0x118, 19).as_deref(), Some("old"));
    assert_eq!(name(&code, 0x108, 30).as_deref(), Some("old"));
    assert_eq!(name(&code, 0x130, 30), None);
    let mut unclocked = JitCode::default();
    read(&mut unclocked, &[header(1), records.concat()].concat()).unwrap();
    assert_eq!(name(&unclocked, 0x118, 5).as_deref(), Some("new"), "its times are of no clock");
}

#[test]
fn code_that_is_moved_keeps_its_name_and_lines() {
    let code = of(&[
        lines(0x100, &[(0x100, 7, 1, b"a.c")]),
        load(10, 0x100, 0x20, b"f"),
        moved(20, 0x100, 0x400, 0x20),
        load(30, 0x100, 0x20, b"g"),
        moved(40, 0x999, 0x800, 0x20),
    ]);
    let at = code.lookup(Avma(0x410), 25).unwrap();
    assert_eq!((&*at.name, &*at.file, at.line), ("f", "a.c", 7));
    assert_eq!(name(&code, 0x110, 35).as_deref(), Some("g"));
    assert_eq!(name(&code, 0x110, 25).as_deref(), Some("f"));
    assert_eq!((name(&code, 0x800, 50), code.counts().malformed), (None, 1), "nothing was there");
}

#[test]
fn lines_are_those_of_the_next_code_at_their_address() {
    let at = |code: &JitCode, address| {
        let line = code.lookup(Avma(address), 99).unwrap();
        (line.file.to_string(), line.line, line.column)
    };
    let code = of(&[
        lines(0x100, &[(0x108, 3, 4, b"/m.java"), (0x104, 1, 2, b"\xff"), (0x110, 5, 6, b"\xff")]),
        load(10, 0x100, 0x20, b"class f"),
        lines(0x300, &[(0x300, 9, 9, b"/m.java")]),
        load(10, 0x200, 0x20, b"class g"),
    ]);
    assert_eq!(at(&code, 0x100), (String::new(), 0, 0));
    assert_eq!(at(&code, 0x108), ("/m.java".to_owned(), 3, 4));
    assert_eq!(at(&code, 0x11f), ("/m.java".to_owned(), 5, 6));
    assert_eq!(at(&code, 0x210), (String::new(), 0, 0), "they are of other code");
}

#[test]
fn lines_of_v8_are_behind_a_header_and_of_inlined_files_are_not_taken() {
    let all: [(u64, u32, u32, &[u8]); 3] =
        [(0x140, 5, 1, b"file:///a.mjs"), (0x148, 6, 2, b"file:///a.mjs"), (0x150, 70, 3, b"node:util")];
    let code = of(&[lines(0x100, &all), load(10, 0x100, 0x40, b"JS:*f file:///a.mjs:4:9")]);
    let at = |address| {
        let line = code.lookup(Avma(address), 99).unwrap();
        (line.name.to_string(), line.file.to_string(), line.line, line.column, line.start_line)
    };
    let f = |line, column| ("JS:*f".to_owned(), "/a.mjs".to_owned(), line, column, 4);
    assert_eq!(at(0x107), f(5, 1));
    assert_eq!(at(0x108), f(6, 2));
    assert_eq!(at(0x110), f(4, 9));
}

#[test]
fn records_are_read_once_complete_and_zeros_are_not_written_yet() {
    let whole = [header(0), load(10, 0x100, 0x20, b"f")].concat();
    let mut code = JitCode::default();
    for end in HEADER..whole.len() {
        read(&mut code, &whole[..end]).unwrap();
        assert_eq!(name(&code, 0x100, 99), None);
    }
    assert!(read(&mut code, &[&whole[..], &[0; 64]].concat()).unwrap());
    assert!(name(&code, 0x100, 99).is_some() && !code.counts().is_damaged);
    let more = [&whole[..], &load(20, 0x200, 0x20, b"g")].concat();
    assert!(read(&mut code, &more).unwrap());
    assert!(name(&code, 0x200, 99).is_some());
}

#[test]
fn what_makes_no_sense_is_counted_and_the_rest_is_read() {
    let code = of(&[
        load(10, u64::MAX, 2, b"too far"),
        load(10, 0x100, 0, b"empty"),
        record(0, 10, &[1; 20]),
        record(1, 10, &[1; 20]),
        record(2, 10, &[1; 15]),
        record(99, 10, &[1; 15]),
        load(10, 0x100, 0x20, &[b'x'; 10_000]),
        load(10, 0x200, 0x20, b"\xff\n\x1b[2J"),
    ]);
    assert_eq!(code.counts().malformed, 5);
    assert_eq!(name(&code, 0x100, 99).unwrap().len(), MAX_NAME);
    assert_eq!(name(&code, 0x200, 99).as_deref(), Some("\u{fffd}\n\u{1b}[2J"));
    let long = |end: &[u8]| [&[b'x'; 10_000], end].concat();
    let code = of(&[load(10, 0x100, 0x20, &long(b"1")), load(10, 0x200, 0x20, &long(b"2"))]);
    assert_ne!(name(&code, 0x100, 99), name(&code, 0x200, 99));
    let mut short = load(10, 0x300, 0x20, b"g");
    short[4..8].copy_from_slice(&15u32.to_ne_bytes());
    let mut code = of(&[load(10, 0x100, 0x20, b"f"), short.clone(), load(10, 0x400, 0x20, b"h")]);
    assert!(code.counts().is_damaged && name(&code, 0x100, 99).is_some());
    assert!(!read(&mut code, &[header(0), load(10, 0, 1, b"x")].concat()).unwrap(), "it is read no more");
}

#[test]
fn a_large_file_is_skipped_over_and_memory_is_bounded() {
    // 1 GB of code in records of 1 MB, in a file with holes: only their beginnings are read.
    let (mut one, size) = (load(10, 0x1000, 0x100, b"f"), 1u64 << 30);
    one[4..8].copy_from_slice(&(1u32 << 20).to_ne_bytes());
    let file = tempfile::tempfile().unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(&header(0), 0).unwrap();
    (0..1024).for_each(|number| file.write_all_at(&one, 40 + (number << 20)).unwrap());
    let mut code = JitCode::default();
    assert!(code.read(size, |buffer, at| file.read_at(buffer, at)).unwrap());
    assert!(code.bytes_read() <= size / 3 && !code.counts().is_spent, "{}", code.bytes_read());
    assert_eq!(code.pieces.len(), 1023);
    assert!(code.heap_bytes() < 1 << 20, "{}", code.heap_bytes());
}

#[test]
fn names_and_pieces_are_kept_up_to_their_limits() {
    let mut code = JitCode::default();
    let name = [b'n'; MAX_NAME];
    for number in 0..(MAX_TEXT / MAX_NAME + 5) as u64 {
        code.load(number * 16, 16, number, &name);
    }
    assert_eq!((code.pieces.len(), code.counts().beyond_limits), (MAX_TEXT / MAX_NAME, 5));
    let mut code = JitCode::default();
    (0..MAX_PIECES as u64 + 7).for_each(|number| code.load(number % 1000, 16, number, b"n"));
    assert_eq!((code.pieces.len(), code.counts().beyond_limits), (MAX_PIECES, 7));
}

proptest! {
    #[test]
    fn any_bytes_after_a_header(bytes in prop::collection::vec(any::<u8>(), 0..600), step in 1usize..200) {
        let all = [header(0), bytes].concat();
        let mut code = JitCode::default();
        for end in (HEADER..=all.len()).step_by(step).chain([all.len()]) {
            prop_assert!(read(&mut code, &all[..end]).is_ok());
        }
        for address in 0..64 {
            let _ = code.lookup(Avma(address), 0);
        }
    }

    #[test]
    fn records_with_any_numbers(
        numbers in prop::collection::vec((0u32..4, any::<u8>(), any::<u8>(), any::<u8>()), 0..60),
    ) {
        let records: Vec<Vec<u8>> = numbers
            .iter()
            .map(|(kind, a, b, c)| match kind {
                0 => load(u64::from(*a), u64::from(*b), u64::from(*c), b"JS:*f a.js:1:2"),
                1 => moved(u64::from(*a), u64::from(*b), u64::from(*c), 8),
                2 => lines(u64::from(*b), &[(u64::from(*a), 1, 2, b"a.js"), (u64::from(*c), 3, 4, b"\xff")]),
                _ => record(*kind, 0, &vec![*a; usize::from(*b)]),
            })
            .collect();
        let code = of(&records);
        prop_assert_eq!(code.read as usize, HEADER + records.concat().len());
        for address in 0..600 {
            let _ = code.lookup(Avma(address), u64::from(u8::MAX / 2));
        }
    }
}
