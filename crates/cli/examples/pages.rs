//! Writes the manual pages and the shell completions of perf-agent into a folder: `pages FOLDER`. `make build` runs it.
//!
//! The definition of the command line is compiled in from the program's own files, so that pages and program cannot differ.
#![forbid(unsafe_code)]
#![allow(dead_code, missing_docs, reason = "only the definition of the command line is used")]

#[path = "../src/args.rs"]
mod args;
#[path = "../src/console.rs"]
mod console;
#[path = "../src/event_args.rs"]
mod event_args;
#[path = "../src/file_args.rs"]
mod file_args;
#[path = "../src/symbol_args.rs"]
mod symbol_args;
#[path = "../src/values.rs"]
mod values;
#[path = "../src/written_args.rs"]
mod written_args;

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

const PROGRAM: &str = "perf-agent";

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: pages FOLDER"))?;
    let folder = Path::new(&folder);
    let (manual, completions) = (folder.join("man"), folder.join("completions"));
    std::fs::create_dir_all(&manual)?;
    std::fs::create_dir_all(&completions)?;
    // A page about each form of `help` tells nothing.
    let command = args::CommandLine::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, manual)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut args::CommandLine::command(), PROGRAM, &completions)?;
    }
    Ok(())
}
