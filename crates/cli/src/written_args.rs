//! The options of `convert`, `merge`, `top` and `diff`, which work on profiles that were written already.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::console::ConsoleArgs;
use crate::file_args::DrawingArgs;
use crate::values::OutputPath;

/// The options of `convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// A profile of any program: pprof (.pb.gz), folded stacks or perf.data. Or a recording that --recording-output wrote. - is standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// The file to write, in the format of its extension: .pb.gz, .folded, .svg, .html, .ndjson, .speedscope.json,
    /// .firefox.json; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: OutputPath,

    /// The format of OUT, whatever its extension: pprof, folded, flamegraph, html, ndjson, speedscope, firefox
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// The value that formats with one value for each stack show, by its name: samples, cpu, offcpu, inuse_space … [default: the one
    /// that the profile names]
    #[arg(long, value_name = "NAME")]
    pub value: Option<String>,

    /// Of a recording: the profile, on-cpu, off-cpu or wall [default: its first one]. Of perf.data: the event, by its name [default: the first
    /// one with samples]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,

    /// Of perf.data: a directory with files or debug files of the machine of the recording: .build-id/NN/REST below it, or NAME. A file is used
    /// if it has the build-id that is looked for. Repeatable
    #[arg(long, value_name = "DIR")]
    pub symbol_dir: Vec<PathBuf>,

    #[command(flatten)]
    pub drawing: DrawingArgs,

    #[command(flatten)]
    pub console: ConsoleArgs,
}

/// The options of `merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Profiles with the same values: pprof (.pb.gz), folded stacks, perf.data, recordings
    #[arg(value_name = "FILE", required = true)]
    pub inputs: Vec<PathBuf>,

    /// The pprof file to write; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: OutputPath,

    /// Of recordings: the profile, on-cpu, off-cpu or wall [default: their first one]. Of perf.data: the event, by its name
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,

    #[command(flatten)]
    pub console: ConsoleArgs,
}

/// The options of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// A profile of any program: pprof (.pb.gz), folded stacks or perf.data. Or a recording that --recording-output wrote. - is standard input
    #[arg(value_name = "FILE")]
    pub input: PathBuf,

    /// Print at most this many functions [default: 30]
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,

    /// The functions that come first: flat (most was spent in themselves), cum (most was spent in them and in what they called)
    /// [default: flat]
    #[arg(long, value_name = "ORDER", hide_possible_values = true)]
    pub sort: Option<Sort>,

    /// Print the callers and callees of this function; if none has that name, of all whose name contains it
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    pub function: Option<String>,

    /// Print the shares of the values of this label instead: comm, pid, thread, state …
    #[arg(long, value_name = "LABEL")]
    pub by: Option<String>,

    /// The value to show, by its name: samples, cpu, offcpu, inuse_space … [default: the one that the profile names]
    #[arg(long, value_name = "NAME")]
    pub value: Option<String>,

    /// Of a recording: the profile, on-cpu, off-cpu or wall [default: its first one]. Of perf.data: the event, by its name [default: the first
    /// one with samples]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,

    #[command(flatten)]
    pub console: ConsoleArgs,
}

/// Which functions come first, in the words of `go tool pprof`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Those in which most was spent themselves.
    #[default]
    Flat,
    /// Those in which most was spent, with what they called.
    Cum,
}

/// The options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// BEFORE and AFTER: profiles of any program with a value that counts samples: pprof (.pb.gz), folded stacks, perf.data, recordings. With
    /// --base all of these are AFTER
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// A profile of the side BEFORE. Repeatable: with several profiles on a side, as runs or the files of --rotate, the scatter of each function between
    /// them is measured, and widens its interval
    #[arg(long, value_name = "FILE")]
    pub base: Vec<PathBuf>,

    /// What the samples of a function are measured against: samples (all of its side, for services whose load differs), time (the duration
    /// of the captures: samples per second), runs (the number of profiles, for runs of the same work: samples per run) [default: samples]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub against: Option<Against>,

    /// The samples of a function: flat (those in itself), cum (those in it and in what it called) [default: flat]
    #[arg(long, value_name = "WHICH", hide_possible_values = true)]
    pub sort: Option<Sort>,

    /// Print at most this many functions [default: 30]
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,

    /// Also draw the difference into this file: .svg, a flame graph; .html, a page to explore. Orange grew, blue shrank, grey may be chance
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<OutputPath>,

    /// The side that gives the frames of the graph their widths: before, after. What it does not have is not drawn [default: after]
    #[arg(long, value_name = "SIDE", hide_possible_values = true, requires = "output")]
    pub widths: Option<WidthsOf>,

    /// End with status 3 if a function grew significantly and the lower end of its interval is above this many percent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_above: Option<f64>,

    /// Of recordings: the profile, on-cpu, off-cpu or wall [default: their first one]. Of perf.data: the event, by its name
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,

    #[command(flatten)]
    pub console: ConsoleArgs,
}

/// What samples are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// All samples of the side.
    #[default]
    Samples,
    /// The duration of its captures.
    Time,
    /// The number of its profiles.
    Runs,
}

/// The side that gives frames their widths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WidthsOf {
    /// The profiles before.
    Before,
    /// The profiles after.
    #[default]
    After,
}

/// `5` or `5%`.
fn percent(word: &str) -> Result<f64, String> {
    let number = word.strip_suffix('%').unwrap_or(word).trim();
    let value: f64 = number.parse().map_err(|_| "it is no number of percent".to_owned())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("it is not in 0…".to_owned()) }
}
