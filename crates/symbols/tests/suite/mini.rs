//! Symbols in `.gnu_debugdata`, made as the manual of gdb says under "MiniDebugInfo".

use std::path::{Path, PathBuf};

use crate::oracle::functions;
use crate::{names, run, symbolize};

/// A stripped program with its symbols in the compressed section, and addresses in its functions. None if a tool is missing.
fn program(dir: &Path, section: Option<&[u8]>) -> Option<(PathBuf, Vec<(u64, String)>)> {
    let text = "static __attribute__((noinline)) int secret(int x) { return x * 7; }\n\
                static __attribute__((noinline)) int hidden(int x) { return secret(x) + 9; }\n\
                int main(int argc, char **argv) { return hidden(argc) + secret(argc); }\n";
    std::fs::write(dir.join("app.c"), text).unwrap();
    run(dir, &["gcc", "-O1", "-o", "app", "app.c"])?;
    let wanted = ["secret", "hidden", "main"];
    let addresses = functions(&dir.join("app"), &[]);
    let addresses =
        addresses.into_iter().filter(|f| wanted.contains(&f.2.as_str())).map(|f| (f.0, f.2)).collect();
    run(dir, &["objcopy", "--only-keep-debug", "app", "debug"])?;
    let symbols = run(dir, &["nm", "app", "--format=posix", "--defined-only"])?;
    let is_code = |line: &&str| matches!(line.split(' ').nth(1), Some("T" | "t"));
    let keep: Vec<&str> = symbols.lines().filter(is_code).filter_map(|line| line.split(' ').next()).collect();
    std::fs::write(dir.join("keep"), keep.join("\n") + "\n").unwrap();
    run(dir, &["objcopy", "-S", "--remove-section", ".comment", "--keep-symbols=keep", "debug", "mini"])?;
    run(dir, &["strip", "--strip-all", "app"])?;
    match section {
        Some(bytes) => std::fs::write(dir.join("mini.xz"), bytes).unwrap(),
        None => drop(run(dir, &["xz", "mini"])?),
    }
    run(dir, &["objcopy", "--add-section", ".gnu_debugdata=mini.xz", "app"])?;
    Some((dir.join("app"), addresses))
}

#[test]
fn compressed_symbols_name_a_stripped_program() {
    let dir = tempfile::tempdir().unwrap();
    let Some((path, wanted)) = program(dir.path(), None) else { return };
    assert_eq!(wanted.len(), 3);
    let addresses: Vec<u64> = wanted.iter().map(|(address, _)| address + 1).collect();
    for (found, (_, name)) in symbolize(&path, &addresses).iter().zip(&wanted) {
        assert_eq!(names(found), [name.as_str()]);
    }
}

#[test]
fn a_section_that_is_no_xz_file_only_loses_names() {
    let dir = tempfile::tempdir().unwrap();
    let Some((path, wanted)) = program(dir.path(), Some(b"\xfd7zXZ\0\0\x04 and no more")) else { return };
    assert!(symbolize(&path, &[wanted[0].0]).iter().all(Vec::is_empty));
}
