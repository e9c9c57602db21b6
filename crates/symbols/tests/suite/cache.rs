//! Files whose paths are used again, and the bounds of the cache.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use crate::oracle::functions;
use crate::{object, options, run};
use profile::Svma;
use symbols::{ObjectSource, Options, Symbolizer};

fn library(dir: &Path, function: &str) -> PathBuf {
    let source = format!("{function}.c");
    std::fs::write(dir.join(&source), format!("int {function}(int x) {{ return x + 1; }}\n")).unwrap();
    let library = format!("{function}.so");
    run(dir, &["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", &library, &source]).unwrap();
    dir.join(library)
}

fn address(path: &Path, function: &str) -> Svma {
    Svma(functions(path, &[]).into_iter().find(|f| f.2 == function).unwrap().0)
}

#[test]
fn a_reused_descriptor_path_never_gives_names_of_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = [library(dir.path(), "first"), library(dir.path(), "second")];
    let at = address(&files[0], "first");
    assert_eq!(at, address(&files[1], "second"));
    let mut symbolizer = Symbolizer::new(options());
    let mut held = OwnedFd::from(File::open("/dev/null").unwrap());
    let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    for round in 0..6 {
        let (file, name) = (&files[round % 2], ["first", "second"][round % 2]);
        rustix::io::dup2(File::open(file).unwrap(), &mut held).unwrap();
        let lines = symbolizer.object(&object(&path), &[at]).remove(0);
        assert_eq!((lines[0].name.as_str(), lines[0].line), (name, 1));
    }
    assert_eq!(symbolizer.stats().files, 2);
}

#[test]
fn a_path_that_gets_another_file_gives_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let files = [library(dir.path(), "first"), library(dir.path(), "second")];
    let at = address(&files[0], "first");
    let path = dir.path().join("current.so");
    let mut symbolizer = Symbolizer::new(options());
    for (file, name) in [(&files[0], "first"), (&files[1], "second")] {
        let _ = std::fs::remove_file(&path);
        std::fs::copy(file, &path).unwrap();
        assert_eq!(symbolizer.object(&object(&path), &[at])[0][0].name, name);
    }
}

#[test]
fn deleted_files_keep_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(dir.path(), "first");
    let at = address(&path, "first");
    let held = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    let names = Symbolizer::new(options()).object(&object(&by_descriptor), &[at]);
    assert_eq!((names[0][0].name.as_str(), names[0][0].line), ("first", 1));
}

#[test]
fn unused_files_are_dropped_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let files = [library(dir.path(), "first"), library(dir.path(), "second")];
    let at = address(&files[0], "first");
    let mut symbolizer = Symbolizer::new(Options { cache_bytes: 0, ..options() });
    for _ in 0..3 {
        assert_eq!(symbolizer.object(&object(&files[0]), &[at])[0][0].name, "first");
        assert_eq!(symbolizer.object(&object(&files[1]), &[at])[0][0].name, "second");
    }
    assert_eq!((symbolizer.stats().files, symbolizer.stats().evicted), (6, 5));
}

#[test]
fn bytes_in_memory_are_enough_for_symbols() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(dir.path(), "first");
    let mut file = object(&path);
    file.source = ObjectSource::Bytes(std::fs::read(&path).unwrap().into());
    let names = Symbolizer::new(options()).object(&file, &[address(&path, "first")]);
    assert_eq!(names[0][0].name, "first");
}

#[test]
fn released_debug_information_is_read_again_without_the_symbols() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(dir.path(), "first");
    let at = address(&path, "first");
    let mut symbolizer = Symbolizer::new(options());
    for _ in 0..3 {
        let lines = symbolizer.object(&object(&path), &[at]).remove(0);
        assert_eq!((lines[0].name.as_str(), lines[0].line), ("first", 1));
        symbolizer.release_last();
    }
    assert_eq!((symbolizer.stats().files, symbolizer.stats().evicted), (1, 0));
}
