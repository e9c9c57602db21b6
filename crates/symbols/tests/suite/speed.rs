//! The target of the specification: 10,000 distinct addresses in one large binary with DWARF in under 3 s.
//!
//! Ignored by default: it needs a release build and a large file, named by `SYMBOLS_LARGE_FILE`.

use std::path::PathBuf;
use std::time::Instant;

use crate::oracle::functions;
use crate::{object, options};
use profile::Svma;
use symbols::Symbolizer;

fn resident_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "measures; needs a release build and a large file"]
fn ten_thousand_addresses() {
    let path = std::env::var_os("SYMBOLS_LARGE_FILE")
        .map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from);
    let all: Vec<u64> =
        functions(&path, &[]).iter().flat_map(|f| (0..f.1).step_by(7).map(move |o| f.0 + o)).collect();
    let step = (all.len() / 10_000).max(1);
    let svmas: Vec<Svma> = all.iter().step_by(step).take(10_000).map(|a| Svma(*a)).collect();
    let before = resident_kib("RssAnon");
    let started = Instant::now();
    let mut symbolizer = Symbolizer::new(options());
    let names = symbolizer.object(&object(&path), &svmas);
    let elapsed = started.elapsed();
    let named = names.iter().filter(|n| !n.is_empty()).count();
    let with_lines = names.iter().filter(|n| n.iter().any(|l| l.line != 0)).count();
    eprintln!(
        "{} addresses, {named} named, {with_lines} with lines: {elapsed:?}; anonymous memory {} KiB before, {} KiB after; file pages {} KiB",
        svmas.len(),
        before,
        resident_kib("RssAnon"),
        resident_kib("RssFile"),
    );
    assert!(elapsed.as_secs_f64() < 3.0);
    assert!(named * 10 > svmas.len() * 9);
}
