//! Names for addresses against the binutils and the Go tools, on programs compiled here.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod beside_all_symbols;
mod cache;
mod debug_files;
mod declared_lengths;
mod differential;
mod go;
mod hostile;
mod kernel;
mod mini;
mod namespaces;
mod native;
mod oracle;
mod package;
mod records;
mod sizeless;
mod speed;
mod split;
mod tables;
mod variables;

use std::path::{Path, PathBuf};

use profile::Svma;
use symbols::{ObjectFile, ObjectSource, Options, SourceLine, Symbolizer};

/// Runs a tool in a directory. `None` if it is not installed; then the reason of the skip is printed.
fn run(dir: &Path, command: &[&str]) -> Option<String> {
    testkit::run_tool(dir, command.iter().copied())
}

fn object(path: &Path) -> ObjectFile {
    ObjectFile {
        source: ObjectSource::Path(path.into()),
        display_path: path.to_str().unwrap().into(),
        root: None,
        build_id: None,
    }
}

/// Options without the debug directories of this machine.
fn options() -> Options {
    Options { debug_dirs: vec![PathBuf::from("/nonexistent")], ..Options::default() }
}

fn symbolize(path: &Path, addresses: &[u64]) -> Vec<Vec<SourceLine>> {
    let svmas: Vec<Svma> = addresses.iter().map(|a| Svma(*a)).collect();
    Symbolizer::new(options()).object(&object(path), &svmas)
}

fn names(lines: &[SourceLine]) -> Vec<&str> {
    lines.iter().map(|l| l.name.as_str()).collect()
}
