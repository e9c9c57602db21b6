//! The options for files with profiles and recordings. A capture and `render` have the same ones.

use std::ffi::OsStr;

use clap::{Args, ValueEnum};

use crate::values::OutputPath;

#[derive(Debug, Args)]
#[command(next_help_heading = "Outputs")]
pub struct FileArgs {
    /// The on-CPU profile, gzip-compressed pprof; - is standard output [default for a capture: a new
    /// file, unless folded stacks, a flame graph or a report are asked for]
    #[arg(long, value_name = "PATH")]
    pub profile_output: Option<OutputPath>,

    /// The off-CPU profile, likewise
    #[arg(long, value_name = "PATH")]
    pub offcpu_output: Option<OutputPath>,

    /// The profile of --heap, likewise
    #[arg(long, value_name = "PATH")]
    pub heap_output: Option<OutputPath>,

    /// Both profiles as one, with the label `state` (on-cpu, runqueue, blocked, iowait). Its sum is threads x time. Needs
    /// a capture with --profile --offcpu; to be rendered later, one that had this option too
    #[arg(long, value_name = "PATH")]
    pub wall_output: Option<OutputPath>,

    /// The report of --locks: text, or a pprof profile of contentions and their delay if the name ends with .pb.gz [default for a
    /// capture: standard output]
    #[arg(long, value_name = "PATH")]
    pub locks_output: Option<OutputPath>,

    /// Folded stacks. If several profiles are taken, each has a file of its own: stacks.folded becomes
    /// stacks.on-cpu.folded and stacks.off-cpu.folded
    #[arg(long, value_name = "PATH")]
    pub folded_output: Option<OutputPath>,

    /// An SVG flame graph, likewise
    #[arg(long, value_name = "PATH")]
    pub flamegraph_output: Option<OutputPath>,

    /// A report as one HTML file for any browser, likewise: flame graph, callers and callees, table, selection, ledger
    #[arg(long, value_name = "PATH")]
    pub html_output: Option<OutputPath>,

    #[command(flatten)]
    pub drawing: DrawingArgs,

    /// A recording: all stacks and counts with their names and ledger; `perf-agent render` makes every other output
    /// from it
    #[arg(long, value_name = "PATH")]
    pub recording_output: Option<OutputPath>,
}

/// How flame graphs and folded stacks are drawn.
#[derive(Debug, Args)]
#[command(next_help_heading = "Outputs")]
pub struct DrawingArgs {
    /// The towers of flame graphs and folded stacks: pid (one for each process, and with --per-thread for each thread),
    /// comm (one for each program name), all (one) [default: comm]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub merge: Option<Towers>,

    /// Draw flame graphs with the outermost functions at the top
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub inverted: Option<bool>,
}

/// Which samples share a tower of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Towers {
    /// Those of a process.
    Pid,
    /// Those of all processes with the same name.
    Comm,
    /// All.
    All,
}

impl FileArgs {
    /// Whether a picture or a text of every profile is written. Standard output takes that of one profile only.
    pub fn shows_profiles(&self) -> bool {
        let is_file = |path: &OutputPath| AsRef::<OsStr>::as_ref(path) != "-";
        [&self.folded_output, &self.flamegraph_output, &self.html_output].into_iter().flatten().any(is_file)
    }

    /// The outputs with a path: the option's name and the path.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &OutputPath)> {
        let all = [
            ("profile-output", &self.profile_output),
            ("offcpu-output", &self.offcpu_output),
            ("heap-output", &self.heap_output),
            ("wall-output", &self.wall_output),
            ("locks-output", &self.locks_output),
            ("folded-output", &self.folded_output),
            ("flamegraph-output", &self.flamegraph_output),
            ("html-output", &self.html_output),
            ("recording-output", &self.recording_output),
        ];
        all.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)))
    }
}
