//! Files whose tables declare more than a program has: sparse files of any length take hardly any room on a disk.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use profile::Svma;
use symbols::Symbolizer;

use crate::{names, object, options, symbolize};

const TEXT: u64 = 0x1000;
const SYMBOLS: u64 = 0x10000;
const SYMBOL: u64 = 24;
/// Bytes of the longest text of an answer.
const MAX_TEXT: usize = 4096;

/// A library whose symbol table has entries `[index]` with a position in `strings` and an address; the others are zero.
fn library(dir: &Path, entries: u64, symbols: &[(u64, u32, u64)], strings: &[u8]) -> PathBuf {
    let path = dir.join("library.so");
    let file = File::create(&path).unwrap();
    let strings_at = SYMBOLS + entries * SYMBOL;
    let section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
    let mut header = [0u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // A shared library for x86-64 with five sections, described at 0x200.
    for (at, value) in
        [(16, 3u16), (18, 62), (20, 1), (41, 2), (52, 64), (54, 56), (58, 64), (60, 5), (62, 4)]
    {
        header[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    file.write_all_at(&header, 0).unwrap();
    file.write_all_at(section_names, 0x800).unwrap();
    // Name, type, flags, address, position, size, link, size of an entry.
    let sections: [[u64; 8]; 4] = [
        [1, 1, 6, TEXT, TEXT, 0x1000, 0, 0],
        [7, 2, 0, 0, SYMBOLS, entries * SYMBOL, 3, SYMBOL],
        [15, 3, 0, 0, strings_at, strings.len() as u64, 0, 0],
        [23, 3, 0, 0, 0x800, section_names.len() as u64, 0, 0],
    ];
    for (number, [name, kind, flags, address, position, size, link, entry_size]) in (1..).zip(sections) {
        let mut section = [0u8; 64];
        section[..4].copy_from_slice(&(name as u32).to_le_bytes());
        section[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
        section[40..44].copy_from_slice(&(link as u32).to_le_bytes());
        for (at, value) in [(8, flags), (16, address), (24, position), (32, size), (56, entry_size)] {
            section[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        file.write_all_at(&section, 0x200 + 64 * number).unwrap();
    }
    for (index, name, address) in symbols {
        let mut symbol = [0u8; SYMBOL as usize];
        symbol[..4].copy_from_slice(&name.to_le_bytes());
        // A global function of one byte, in the first section.
        symbol[4..8].copy_from_slice(&[0x12, 0, 1, 0]);
        symbol[8..16].copy_from_slice(&address.to_le_bytes());
        symbol[16] = 1;
        file.write_all_at(&symbol, SYMBOLS + index * SYMBOL).unwrap();
    }
    file.write_all_at(strings, strings_at).unwrap();
    path
}

/// KiB of a file that are in the memory of this process.
fn resident_kib(path: &Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let of_file = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let mut resident = of_file.filter_map(|line| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB"));
    resident.next().unwrap().parse().unwrap()
}

#[test]
fn a_sparse_symbol_table_is_read_in_part_and_does_not_stay_in_memory() {
    const ENTRIES: u64 = 20 << 20;
    let dir = tempfile::tempdir().unwrap();
    let symbols = [(1, 1, TEXT), (ENTRIES - 1, 7, TEXT + 8)];
    let path = library(dir.path(), ENTRIES, &symbols, b"\0first\0last\0");
    let mut symbolizer = Symbolizer::new(options());
    let names = symbolizer.object(&object(&path), &[Svma(TEXT), Svma(TEXT + 8)]);
    assert_eq!((names[0][0].name.as_str(), &names[1]), ("first", &Vec::new()));
    assert_eq!(symbolizer.stats().cut_symbol_tables, 1);
    let resident = resident_kib(&path);
    assert!(resident < 4096, "{resident} KiB");
}

#[test]
fn a_table_that_is_not_too_long_is_read_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(dir.path(), 3, &[(1, 1, TEXT), (2, 7, TEXT + 8)], b"\0first\0last\0");
    let mut symbolizer = Symbolizer::new(options());
    let names = symbolizer.object(&object(&path), &[Svma(TEXT), Svma(TEXT + 8)]);
    assert_eq!((names[0][0].name.as_str(), names[1][0].name.as_str()), ("first", "last"));
    assert_eq!(symbolizer.stats().cut_symbol_tables, 0);
}

#[test]
fn long_names_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut strings = vec![b'A'; 100_000];
    strings[0] = 0;
    strings.push(0);
    let path = library(dir.path(), 3, &[(1, 1, TEXT), (2, 99_000, TEXT + 8)], &strings);
    let names = Symbolizer::new(options()).object(&object(&path), &[Svma(TEXT), Svma(TEXT + 8)]);
    let lengths = names.iter().map(|lines| (lines[0].name.len(), lines[0].system_name.len()));
    assert_eq!(lengths.collect::<Vec<_>>(), [(MAX_TEXT, MAX_TEXT), (1000, 1000)]);
}

#[test]
fn many_symbols_at_one_address_are_compared_quickly() {
    const ENTRIES: u32 = 30_000;
    let dir = tempfile::tempdir().unwrap();
    let symbols: Vec<_> = (1..ENTRIES).map(|index| (index.into(), index, TEXT)).collect();
    let mut strings = vec![b'A'; ENTRIES as usize + 60_000];
    strings.push(0);
    let path = library(dir.path(), ENTRIES.into(), &symbols, &strings);
    let begun = Instant::now();
    let names = Symbolizer::new(options()).object(&object(&path), &[Svma(TEXT)]);
    assert_eq!(names[0][0].name.len(), MAX_TEXT);
    // Longer by a factor of 1000 if each step of the sort reads two names of 64 KiB.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Code of 3 GiB under one symbol, and more than 4 GiB under another one.
#[test]
fn long_symbols_have_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(dir.path(), 3, &[(1, 1, TEXT), (2, 6, TEXT + (3 << 30))], b"\0long\0longer\0");
    let file = File::options().write(true).open(&path).unwrap();
    for (symbol, size) in [(1, 3u64 << 30), (2, 5 << 30)] {
        file.write_all_at(&size.to_le_bytes(), SYMBOLS + symbol * SYMBOL + 16).unwrap();
    }
    // The size of `.text`.
    file.write_all_at(&(8u64 << 30).to_le_bytes(), 0x200 + 64 + 32).unwrap();
    let addresses = [TEXT, TEXT + (3 << 30) - 1, TEXT + (3 << 30), TEXT + (7 << 30) - 2];
    let names: Vec<_> = symbolize(&path, &addresses).iter().map(|lines| names(lines).join(" ")).collect();
    assert_eq!(names, ["long", "long", "longer", "longer"]);
}
