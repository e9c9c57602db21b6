//! The program from outside: arguments in; exit status, standard output and standard error out.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod capture;
mod commands;
mod confined;
mod debuginfod;
mod difference_page;
mod doctor;
mod ending;
mod event_values;
mod events;
mod events_beside_perf;
mod events_stat;
mod help;
mod inject_python;
mod limits;
mod live;
mod memory;
mod metrics;
mod perf_data;
mod perf_data_input;
mod pgo;
mod rejected;
mod render;
mod rotation;
mod symbolize;
mod targets;
mod time_namespace;
mod timelines;
mod written;

use std::process::{Command, Output};

/// Runs the program in `directory` with these arguments.
fn run_in(directory: &std::path::Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perf-agent")).args(words).current_dir(directory).output().unwrap()
}

/// Runs the program in a new directory, and checks that it leaves no file there.
fn run(words: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let output = run_in(directory.path(), words);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{words:?} left something behind");
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
