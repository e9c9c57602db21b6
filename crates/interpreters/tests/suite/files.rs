//! What is found in the files of interpreters.

use std::process::Command;

use interpreters::python::{Interpreter, InterpreterError, Version, VersionSource};
use profile::Svma;

use testkit::{Python, pythons_of};

use crate::VERSIONS;

/// Address and size of the symbols of a file whose names begin with this, by `readelf`.
fn symbols(path: &std::path::Path, prefix: &str) -> Vec<(String, u64, u64)> {
    let output = Command::new("readelf").args(["-W", "--symbols"]).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, address, size, _, _, _, section, name] = words.get(..8)? else { return None };
        let is_wanted = name.starts_with(prefix) && *section != "UND";
        is_wanted.then(|| (name.to_string(), u64::from_str_radix(address, 16).unwrap(), number(size)))
    };
    let mut found: Vec<_> = text.lines().filter_map(of_line).collect();
    found.sort();
    found.dedup();
    found
}

/// Whether a file has names only for what it exports.
fn is_stripped(file: &[u8]) -> bool {
    elf::Layout::parse(file).unwrap().section(b".symtab").is_none()
}

#[test]
fn builds_are_found_with_their_version_and_evaluator() {
    for python in pythons_of(&VERSIONS) {
        let path = python.file();
        let file = std::fs::read(path).unwrap();
        let interpreter = Interpreter::of_file(&file).unwrap().unwrap();
        let Version { major, minor, micro } = interpreter.version;
        assert_eq!((major, minor, micro), python.version, "{python}");
        let by_number = interpreter.version >= Version { major: 3, minor: 11, micro: 0 };
        let source = if by_number { VersionSource::Number } else { VersionSource::Text };
        assert_eq!(interpreter.version_source, source, "{python}");
        assert_eq!(Some(interpreter.layout.family), interpreter.version.family());

        let runtime = &symbols(path, "_PyRuntime")[0];
        assert_eq!((runtime.0.as_str(), Svma(runtime.1)), ("_PyRuntime", interpreter.runtime));
        let mut ranges: Vec<_> = symbols(path, "_PyEval_EvalFrameDefault")
            .into_iter()
            .map(|(_, address, size)| Svma(address)..Svma(address + size))
            .collect();
        // A cold part of a few bytes is a trap that is never reached by a jump.
        ranges.retain(|range| range.end.0 - range.start.0 > 8);
        ranges.sort_by_key(|range| range.start);
        let mut found = interpreter.evaluator.ranges.clone();
        if is_stripped(&file) {
            // Its cold part has no name.
            found.truncate(1);
        }
        found.sort_by_key(|range| range.start);
        assert_eq!(found, ranges, "{python}");
        // Where opcodes are functions, the evaluator's own function ends before the first of them.
        let Some(before) = interpreter.evaluator.before_dispatch else {
            assert!(python.is_at_least(14), "{python}: {:x?}", interpreter.evaluator);
            continue;
        };
        assert_eq!(before.start, interpreter.evaluator.ranges[0].start);
        assert!((100..2000).contains(&(before.end.0 - before.start.0)), "{python}: {before:?}");
    }
}

/// Debian's 3.11 is stripped, and has a part of the evaluator far from it.
#[test]
fn a_stripped_file_tells_the_cold_part_of_its_evaluator() {
    let mut any = false;
    for python in pythons_of(&[(3, 11)]) {
        let (path, file) = (python.file(), std::fs::read(python.file()).unwrap());
        if !is_stripped(&file) {
            continue;
        }
        any = true;
        let interpreter = Interpreter::of_file(&file).unwrap().unwrap();
        let (_, address, size) = symbols(path, "_PyEval_EvalFrameDefault")[0];
        let [hot, cold] = &interpreter.evaluator.ranges[..] else {
            panic!("{python}: {:x?}", interpreter.evaluator)
        };
        assert_eq!(*hot, Svma(address)..Svma(address + size), "{python}");
        assert!(cold.end.0 - cold.start.0 > 4096 && interpreter.evaluator.contains(Svma(cold.end.0 - 1)));
        // readelf knows the cold part as a description of its own.
        let frames = Command::new("readelf").args(["-W", "--debug-dump=frames"]).arg(path).output().unwrap();
        let wanted = format!("pc={:016x}..{:016x}", cold.start.0, cold.end.0);
        assert!(String::from_utf8_lossy(&frames.stdout).contains(&wanted), "{python}: {wanted}");
    }
    if !any {
        testkit::skip!("no stripped CPython 3.11 (package python3.11 of Debian 12)");
    }
}

#[test]
fn unsupported_versions_are_told_with_their_version() {
    for python in pythons_of(&[(2, 7), (3, 6), (3, 7)]) {
        match Interpreter::of_file(&std::fs::read(python.file()).unwrap()) {
            Err(InterpreterError::Version(found)) => {
                assert_eq!((found.major, found.minor), (python.version.0, python.version.1));
            }
            other => panic!("{python}: {other:?}"),
        }
    }
}

#[test]
fn other_programs_have_no_interpreter() {
    for path in ["/bin/sh", "/proc/self/exe"] {
        assert_eq!(Interpreter::of_file(&std::fs::read(path).unwrap()), Ok(None), "{path}");
    }
    // The program of a shared build uses the library and is none.
    let shared = |python: &&&Python| python.library.is_some();
    for python in pythons_of(&[(3, 9), (3, 13)]).iter().filter(shared) {
        assert_eq!(Interpreter::of_file(&std::fs::read(&python.program).unwrap()), Ok(None), "{python}");
    }
    assert_eq!(Interpreter::of_file(b""), Ok(None));
}

/// Names that tell why an interpreter is not walked, in place of names that it has.
#[test]
fn other_builds_are_told_apart() {
    let Some(python) = pythons_of(&[(3, 9)]).pop() else { return };
    let file = std::fs::read(python.file()).unwrap();
    let layout = elf::Layout::parse(&file).unwrap();
    // A stripped build has no names in `.strtab`.
    let sections =
        [".dynstr", ".strtab", ".rodata"].into_iter().filter_map(|name| layout.section(name.as_bytes()));
    let sections: Vec<_> = sections.collect();
    let renamed = |from: &[u8], to: &[u8]| {
        let mut file = file.clone();
        let mut count = 0;
        for section in &sections {
            let bytes = &mut file[section.file_range(usize::MAX).unwrap()];
            let places = bytes.windows(from.len()).enumerate().filter(|(_, text)| *text == from);
            for at in places.map(|(at, _)| at).collect::<Vec<_>>() {
                bytes[at..][..to.len()].copy_from_slice(to);
                count += 1;
            }
        }
        assert!(count > 0);
        Interpreter::of_file(&file)
    };
    let version = Interpreter::of_file(&file).unwrap().unwrap().version;
    let text = format!("{version}\0");
    let missing = |symbol| Err(InterpreterError::Symbol { version, symbol });
    assert_eq!(renamed(b"\0_PyRuntime\0", b"\0_PyAnother\0"), missing("_PyRuntime"));
    let evaluator = (b"\0_PyEval_EvalFrameDefault\0", b"\0_PyEval_EvalFrameAnother\0");
    assert_eq!(renamed(evaluator.0, evaluator.1), missing("_PyEval_EvalFrameDefault"));
    assert_eq!(renamed(b"\0Py_GetVersion\0", b"\0Py_GetAnother\0"), Err(InterpreterError::NoVersion));
    assert_eq!(renamed(text.as_bytes(), b"3.9.x"), Err(InterpreterError::NoVersion));
    let counted = renamed(b"\0PyUnicode_AsEncodedString\0", b"\0_Py_NegativeRefcount\0\0\0\0");
    assert_eq!(counted, Err(InterpreterError::DebugBuild(version)));
    let pypy = renamed(b"\0PyUnicode_AsEncodedString\0", b"\0rpython_startup_code\0\0\0\0");
    assert_eq!(pypy, Err(InterpreterError::PyPy));
    let mut other = file.clone();
    other[18] = 183;
    assert_eq!(Interpreter::of_file(&other), Err(InterpreterError::Machine(183)));
}

/// While the counter stands still, the programs believe that a code object is the one that they have seen at its address.
#[test]
fn the_counter_moves_when_a_code_object_is_made() {
    let script = "import ctypes, sys
state = ctypes.pythonapi.PyInterpreterState_Get
state.restype = ctypes.c_void_p
count = ctypes.c_uint32.from_address(state() + int(sys.argv[1]))
before = count.value
compile('x = 1', '', 'exec')
print(count.value - before)";
    for python in pythons_of(&VERSIONS) {
        let file = std::fs::read(python.file()).unwrap();
        let offset = Interpreter::of_file(&file).unwrap().unwrap().layout.interp_code_counter;
        if offset == 0 {
            continue;
        }
        let mut command = Command::new(&python.program);
        let output = command.args(["-c", script, &offset.to_string()]).output().unwrap();
        let moved = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(moved, "1", "{python}: {output:?}");
    }
}
