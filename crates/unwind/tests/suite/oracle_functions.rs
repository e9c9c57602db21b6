//! Starts of functions in stripped programs, beside the symbols that were stripped.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use unwind::FunctionIndex;

use crate::programs::build;

/// A function or a part of one.
struct Symbol {
    start: u64,
    size: u64,
    names: Vec<String>,
}

/// The symbols of code with a size, by address.
fn symbols(elf: &[u8]) -> Vec<Symbol> {
    let file = object::File::parse(elf).unwrap();
    let is_code = |at: u64| {
        let has = |section: &object::Section<'_, '_>| {
            section.kind() == SectionKind::Text
                && (section.address()..section.address() + section.size()).contains(&at)
        };
        file.sections().any(|section| has(&section))
    };
    let mut all: BTreeMap<u64, Symbol> = BTreeMap::new();
    for symbol in
        file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0 && is_code(s.address()))
    {
        let new = || Symbol { start: symbol.address(), size: 0, names: Vec::new() };
        let known = all.entry(symbol.address()).or_insert_with(new);
        known.size = known.size.max(symbol.size());
        known.names.push(symbol.name().unwrap().to_owned());
    }
    all.into_values().collect()
}

#[derive(Debug, Default)]
struct Verdict {
    functions: usize,
    wrong: Vec<String>,
    unknown: Vec<String>,
    parts_tied: usize,
    parts_apart: usize,
    parts_wrong: Vec<String>,
}

/// The name of a function, if this is the name of a part of it.
fn parent(name: &str) -> Option<&str> {
    name.strip_suffix(".cold").or_else(|| name.split_once(".cold.").map(|(parent, _)| parent))
}

fn judge(elf: &[u8], stripped: &[u8]) -> Verdict {
    let mut index = FunctionIndex::read(stripped, &|| {}).unwrap();
    let symbols = symbols(elf);
    let by_name: BTreeMap<&str, u64> =
        symbols.iter().flat_map(|s| s.names.iter().map(|name| (name.as_str(), s.start))).collect();
    let mut verdict = Verdict::default();
    for symbol in &symbols {
        let places = [symbol.start, symbol.start + symbol.size / 2, symbol.start + symbol.size - 1];
        let found = index.starts(stripped, &places, &|| {});
        let told = || format!("{:?} {:#x}: {found:x?}", symbol.names, symbol.start);
        let is = |start: u64| found.iter().all(|found| *found == Some(start));
        if let Some(parent) = symbol.names.iter().find_map(|name| parent(name)) {
            match by_name.get(parent) {
                Some(parent) if is(*parent) => verdict.parts_tied += 1,
                _ if is(symbol.start) => verdict.parts_apart += 1,
                _ => verdict.parts_wrong.push(told()),
            }
            continue;
        }
        verdict.functions += 1;
        if found.iter().any(Option::is_none) {
            verdict.unknown.push(told());
        } else if !is(symbol.start) {
            verdict.wrong.push(told());
        }
    }
    verdict
}

fn strip(path: &Path) -> Vec<u8> {
    let stripped = path.with_extension("stripped");
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(path).status().unwrap();
    assert!(status.success());
    std::fs::read(stripped).unwrap()
}

/// `max_unknown`: the share of functions with places whose start may be unknown.
fn check(path: &Path, least: usize, max_unknown: f64) -> Verdict {
    let verdict = judge(&std::fs::read(path).unwrap(), &strip(path));
    println!(
        "{}: {} functions, {} wrong, {} unknown; parts: {} tied, {} apart",
        path.display(),
        verdict.functions,
        verdict.wrong.len(),
        verdict.unknown.len(),
        verdict.parts_tied,
        verdict.parts_apart
    );
    assert!(verdict.functions >= least, "{verdict:?}");
    assert!(verdict.wrong.len() * 1000 <= verdict.functions, "{verdict:#?}");
    assert!(verdict.unknown.len() as f64 <= max_unknown * verdict.functions as f64, "{verdict:#?}");
    assert!(verdict.parts_wrong.is_empty(), "{verdict:#?}");
    verdict
}

#[test]
fn functions_of_a_rust_program() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("functions-rust");
    std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    check(&path, 1000, 0.001);
}

#[test]
fn functions_and_parts_of_c_and_its_library() {
    let Some(path) = build("functions-c", "gcc", &["-O2", "-static"]) else { return };
    let verdict = check(&path, 1000, 0.02);
    assert!(verdict.parts_tied >= 10, "{verdict:#?}");
}

#[test]
fn functions_and_parts_of_cpp_and_its_library() {
    let Some(path) = build("functions-cpp", "g++", &["-O2", "-static", "-x", "c++", "-fpermissive"]) else {
        return;
    };
    let verdict = check(&path, 1000, 0.02);
    assert!(verdict.parts_tied >= 10, "{verdict:#?}");
}

#[test]
fn functions_without_descriptions() {
    let Some(path) = build("functions-musl", "musl-gcc", &["-O2", "-static"]) else { return };
    // Large functions have gaps.
    let verdict = check(&path, 50, 0.7);
    assert!(verdict.wrong.is_empty(), "{verdict:#?}");
}
