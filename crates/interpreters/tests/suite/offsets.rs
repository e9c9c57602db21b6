//! The offsets of each layout against those that a C compiler finds in the headers of the same Python.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use interpreters::python::{Interpreter, Layout};
use testkit::{Python, pythons_of};

use crate::VERSIONS;

/// Name and value of each offset, as the headers of a Python tell them.
fn by_headers(headers: &Path) -> BTreeMap<String, u32> {
    let output = Command::new("cc")
        .args(["-w", "-S", "-o", "-", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/offsets.c"), "-I"])
        .arg(headers)
        .arg("-I")
        .arg(headers.join("internal"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines =
        text.lines().filter_map(|line| line.trim().strip_prefix(".ascii \"offset ")?.strip_suffix('"'));
    let told = lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, value)| (name.to_string(), value.parse().unwrap()));
    let told: BTreeMap<_, _> = told.collect();
    assert!(told.len() > 20, "{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// Name and value of each offset of a layout.
fn of_layout(layout: &Layout) -> BTreeMap<String, u32> {
    let text = format!("{layout:?}");
    let fields = text.split_once('{').unwrap().1.trim_end_matches('}').split(',');
    fields
        .filter_map(|field| field.trim().split_once(": "))
        .filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?)))
        .collect()
}

#[test]
fn each_offset_is_that_of_the_headers() {
    let pythons = pythons_of(&VERSIONS);
    let (with_headers, without): (Vec<&Python>, Vec<&Python>) =
        pythons.into_iter().partition(|python| python.headers().is_some());
    for python in without {
        if with_headers.iter().all(|other| other.minor() != python.minor()) {
            let minor = python.minor();
            testkit::skipped(format_args!(
                "in part: no headers of CPython {minor} (package libpython{minor}-dev)"
            ));
        }
    }
    for python in with_headers {
        let headers = python.headers().unwrap();
        let file = std::fs::read(python.file()).unwrap();
        let layout = Interpreter::of_file(&file).unwrap().unwrap().layout;
        let (told, known) = (by_headers(&headers), of_layout(&layout));
        for (name, value) in &told {
            let known = known.get(name).unwrap();
            // Absent for a release is right as well.
            let is_absent =
                ["interp_code_counter", "runtime_auto_tss_key"].contains(&name.as_str()) && *known == 0;
            assert!(known == value || is_absent, "{python} {name}: {known}, by the headers {value}");
        }
        // What the headers do not tell is absent, or follows from what they tell.
        let derived = ["frame_bytes", "str_kind_shift"];
        for (name, value) in known.iter().filter(|(name, _)| !told.contains_key(*name)) {
            assert!(*value == 0 || derived.contains(&name.as_str()), "{python} {name}: {value}");
        }
    }
}
