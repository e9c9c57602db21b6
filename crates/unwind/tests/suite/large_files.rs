//! Large programs in C++ that packages of the table of needs bring.

use std::fs;
use std::path::PathBuf;

/// Node: one large program, or, as Debian builds it, a small program over a large library.
pub(crate) fn node() -> Option<PathBuf> {
    let program = testkit::needed("node")?;
    Some(library("libnode.so.").unwrap_or(program))
}

/// The library that clang consists of.
pub(crate) fn llvm() -> Option<PathBuf> {
    let clang = testkit::needed("clang")?;
    Some(library("libLLVM").unwrap_or(clang))
}

/// The largest system library whose name starts like that.
fn library(start: &str) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH)).ok()?;
    let files = files.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
    files.map(|entry| entry.path()).max_by_key(|path| fs::metadata(path).map_or(0, |data| data.len()))
}
