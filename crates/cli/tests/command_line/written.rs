//! `perf-agent convert`, `merge` and `top`: work on profiles that were written already.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::capture::assert_status;
use crate::{run_in, stderr, stdout};

const STACKS: &str = "main;load;read 70\nmain;load 20\nmain;draw 9\nmain 1\n";

/// A folder with the stacks as `a.folded`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.folded"), STACKS).unwrap();
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

fn done(folder: &Path, words: &[&str]) -> Output {
    let output = run_in(folder, words);
    assert_status(&output, 0);
    output
}

#[test]
fn folded_stacks_survive_the_way_through_pprof() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["convert", "a.folded", "-o", "a.pb.gz"]);
    done(folder, &["convert", "a.pb.gz", "-o", "again.folded"]);
    let mut lines: Vec<_> = STACKS.lines().collect();
    lines.sort_unstable();
    assert_eq!(read(folder, "again.folded").lines().collect::<Vec<_>>(), lines);
    let Some(text) = testkit::run_tool(folder, ["go", "tool", "pprof", "-top", "a.pb.gz"]) else { return };
    let read = text.lines().find(|line| line.ends_with("  read")).unwrap_or_default();
    assert!(read.contains("70.00%"), "{text}");
}

#[test]
fn each_format_is_chosen_by_extension_or_name() {
    let folder = folder();
    let folder = folder.path();
    for (file, begin) in [
        ("a.svg", "<?xml"),
        ("a.ndjson", "{\"frames\""),
        ("a.firefox.json", "{\"meta\":"),
        ("a.speedscope.json", "{\"$schema\":\"https://www.speedscope.app/"),
    ] {
        done(folder, &["convert", "a.folded", "-o", file]);
        assert!(read(folder, file).starts_with(begin), "{}", read(folder, file));
    }
    assert!(read(folder, "a.svg").contains("100 samples"), "the subtitle tells the sum");
    done(folder, &["convert", "a.folded", "--format", "folded", "-o", "noname"]);
    assert_eq!(read(folder, "noname").lines().count(), 4);
    let unknown = run_in(folder, &["convert", "a.folded", "-o", "a.xyz"]);
    assert_status(&unknown, 2);
    assert!(stderr(&unknown).contains("no format has this extension"), "{}", stderr(&unknown));
    assert!(stderr(&unknown).contains("speedscope"), "the formats are named: {}", stderr(&unknown));
}

#[test]
fn standard_input_and_output_are_files_too() {
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_perf-agent"));
    command.args(["convert", "-", "--format", "folded", "-o", "-"]);
    let stacks = fs::File::open(folder.path().join("a.folded")).unwrap();
    let output = command.stdin(Stdio::from(stacks)).output().unwrap();
    assert_status(&output, 0);
    assert_eq!(stdout(&output).lines().count(), 4);
}

#[test]
fn merged_profiles_add_up_and_others_are_refused() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["merge", "a.folded", "a.folded", "a.folded", "-o", "all.pb.gz"]);
    done(folder, &["convert", "all.pb.gz", "-o", "all.folded"]);
    let all = read(folder, "all.folded");
    assert!(all.contains("main;load;read 210\n"), "three times 70: {all}");
    let damaged = run_in(folder, &["merge", "a.folded", "missing.pb.gz", "-o", "none.pb.gz"]);
    assert_status(&damaged, 1);
    assert!(stderr(&damaged).contains("missing.pb.gz: "), "{}", stderr(&damaged));
    assert!(!folder.join("none.pb.gz").exists());
}

#[test]
fn files_that_are_no_profiles_are_refused_with_the_place() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("cut.folded"), "main;f 1\nmain;g\n").unwrap();
    fs::write(folder.join("noise"), [0xff; 100]).unwrap();
    done(folder, &["convert", "a.folded", "-o", "a.pb.gz"]);
    let whole = fs::read(folder.join("a.pb.gz")).unwrap();
    fs::write(folder.join("cut.pb.gz"), &whole[..whole.len() / 2]).unwrap();
    for (file, told) in [
        ("cut.folded", "line 2 of the folded stacks, at offset 9"),
        ("cut.pb.gz", "decompress the pprof file at offset"),
        ("noise", "decode the pprof message at offset 0: "),
        ("no such file", "No such file"),
    ] {
        let output = run_in(folder, &["top", file]);
        assert_status(&output, 1);
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_hottest_functions_and_their_neighbours_are_printed() {
    let folder = folder();
    let folder = folder.path();
    let text = stdout(&done(folder, &["top", "a.folded"]));
    let functions: Vec<_> = text.lines().skip(2).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(functions, ["read", "load", "draw", "main"]);
    let text = stdout(&done(folder, &["top", "a.folded", "--function", "load"]));
    assert!(text.contains("called by main") && text.contains("calls read"), "{text}");
    let none = run_in(folder, &["top", "a.folded", "--by", "comm"]);
    assert_status(&none, 2);
    assert!(stderr(&none).contains("has no such label"), "{}", stderr(&none));
    let mixed = run_in(folder, &["top", "a.folded", "--by", "comm", "--function", "f"]);
    assert_status(&mixed, 2);
}

#[test]
fn a_change_beyond_chance_is_told_and_can_fail_a_build() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("before.folded"), "main;f 5000\nmain;g 5000\n").unwrap();
    fs::write(folder.join("after.folded"), "main;f 6000\nmain;g 4000\n").unwrap();
    let text = stdout(&done(folder, &["diff", "before.folded", "before.folded", "--fail-above", "5"]));
    assert!(text.contains("no function of 2 changed significantly"), "{text}");
    let grown = run_in(folder, &["diff", "before.folded", "after.folded", "--fail-above", "5%"]);
    assert_status(&grown, 3);
    assert!(stdout(&grown).contains("+20.0 %"), "{}", stdout(&grown));
    assert!(stdout(&grown).ends_with("grew by more than 5 %: f\n"), "{}", stdout(&grown));
    assert_status(&run_in(folder, &["diff", "before.folded", "after.folded"]), 0);
    done(folder, &["diff", "before.folded", "after.folded", "-o", "change.svg"]);
    let graph = read(folder, "change.svg");
    let figures = |name: &str| graph.split(&format!("<title>{name}\n")).nth(1).unwrap_or_default().to_owned();
    assert!(figures("f").contains(": +20.0 % (95 %: ") && figures("f").contains("hsl(28,"), "{graph}");
    assert!(!figures("f").split("</title>").next().unwrap().contains("not significant"), "{graph}");
    assert!(graph.contains("before.folded → after.folded"), "{graph}");
    // `main` is in all samples of all profiles.
    let sides = ["--base", "before.folded", "--base", "before.folded", "after.folded", "after.folded"];
    let several =
        [&["diff", "-o", "several.svg", "--widths", "before", "--sort", "cum"][..], &sides].concat();
    done(folder, &several);
    let svg = read(folder, "several.svg");
    assert!(svg.contains("before 50.00 % (10000 samples)"), "{svg}");
    for refused in ["change.txt", "-"] {
        let refused = run_in(folder, &["diff", "before.folded", "after.folded", "-o", refused]);
        assert_status(&refused, 2);
        assert!(stderr(&refused).contains("ends in .svg or .html"), "{}", stderr(&refused));
    }
    let one = run_in(folder, &["diff", "before.folded"]);
    assert_status(&one, 2);
    assert!(stderr(&one).contains("--base"), "{}", stderr(&one));
}
