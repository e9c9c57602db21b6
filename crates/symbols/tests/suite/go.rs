//! Go programs: the names of stripped programs must equal those of programs with DWARF.

use std::path::{Path, PathBuf};

use crate::oracle::{addresses, go_addr2line};
use crate::{names, run, symbolize};
use tempfile::TempDir;

const GO: &str = r#"package main

import (
	"fmt"
	"os"
	"strings"
)

type shape interface{ area() int }
type square struct{ side int }

func (s square) area() int { return s.side * s.side }

func add(a, b int) int { return a + b }

func inner(x int) int {
	y := add(x, 3)
	if y > 10 {
		y = add(y, len(os.Args))
	}
	return y
}

//go:noinline
func outer(x int) int {
	sum := 0
	for i := 0; i < x; i++ {
		sum += inner(i)
	}
	return sum
}

func generic[T any](items []T) int { return len(items) + outer(len(items)) }

func main() {
	var s shape = square{len(os.Args)}
	fmt.Println(outer(10), s.area(), strings.Repeat("x", 3), generic(os.Args))
}
"#;

fn build(dir: &TempDir, name: &str, options: &[&str]) -> Option<PathBuf> {
    std::fs::write(dir.path().join("main.go"), GO).unwrap();
    let mut command = vec!["go", "build", "-o", name];
    command.extend(options);
    command.push("main.go");
    run(dir.path(), &command)?;
    Some(dir.path().join(name))
}

fn compare(plain: &Path, stripped: &Path) {
    let wanted = ["main.", "fmt.(*pp)", "strings.Repeat", "runtime.mallocgc"];
    let addresses = addresses(plain, |name| wanted.iter().any(|prefix| name.starts_with(prefix)), 4000);
    let (full, bare) = (symbolize(plain, &addresses), symbolize(stripped, &addresses));
    let expected = go_addr2line(plain, &addresses);
    let mut inlined = 0;
    for (((address, full), bare), expected) in addresses.iter().zip(&full).zip(&bare).zip(&expected) {
        let outermost = bare.last().unwrap_or_else(|| panic!("{address:#x} has no name"));
        let innermost = &bare[0];
        assert_eq!(outermost.name, expected.0, "{address:#x}");
        assert_eq!((&*innermost.file, innermost.line), (&*expected.1, expected.2), "{address:#x}");
        // DWARF leaves the instantiation out of the names of generic functions, and wrappers of methods too.
        let plain_name = |name: &str| name.split('[').next().unwrap().to_owned();
        let chain = |lines: &[symbols::SourceLine]| -> Vec<(String, u32)> {
            lines.iter().map(|l| (plain_name(&l.name), l.line)).collect()
        };
        if full.len() == bare.len() {
            assert_eq!(chain(bare), chain(full), "{address:#x}");
            inlined += usize::from(full.len() > 1);
        }
    }
    assert!(inlined > 50, "{inlined} inlined calls");
    let same_depth = full.iter().zip(&bare).filter(|(a, b)| a.len() == b.len()).count();
    assert!(same_depth * 100 > addresses.len() * 98, "{same_depth} of {}", addresses.len());
    let chain = bare.iter().find(|l| l.len() == 3 && l[2].name == "main.outer").unwrap();
    assert_eq!(names(chain), ["main.add", "main.inner", "main.outer"]);
    let starts: Vec<u32> = chain.iter().map(|l| l.start_line).collect();
    assert_eq!(starts, [14, 16, 25]);
}

#[test]
fn stripped_programs_keep_functions_files_lines_and_inlined_calls() {
    let dir = tempfile::tempdir().unwrap();
    let Some(plain) = build(&dir, "plain", &[]) else { return };
    let stripped = build(&dir, "stripped", &["-ldflags=-s -w"]).unwrap();
    // Both have the same code at the same addresses up to the build-id.
    let start = |path: &Path| run(Path::new("/"), &["readelf", "-hW", path.to_str().unwrap()]).unwrap();
    let entry = |text: String| text.lines().find(|l| l.contains("Entry point")).unwrap().to_owned();
    assert_eq!(entry(start(&plain)), entry(start(&stripped)));
    compare(&plain, &stripped);
}

#[test]
fn position_independent_and_stripped_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("internal", &["-buildmode=pie"][..]),
        ("external", &["-buildmode=pie", "-ldflags=-linkmode=external"]),
        ("static", &["-ldflags=-linkmode=external -extldflags=-static"]),
    ] {
        let Some(plain) = build(&dir, name, options) else { return };
        let stripped = dir.path().join("stripped");
        std::fs::copy(&plain, &stripped).unwrap();
        run(dir.path(), &["strip", "stripped"]).unwrap();
        compare(&plain, &stripped);
    }
}
