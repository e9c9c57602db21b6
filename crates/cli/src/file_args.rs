//! The options for files with profiles and recordings. A capture and `render` have the same ones.

use clap::Args;
use perfagent::OutputKind;

use crate::values::OutputPath;

#[derive(Debug, Args)]
#[command(next_help_heading = "Outputs")]
pub struct FileArgs {
    /// The on-CPU profile, gzip-compressed pprof; - is standard output [default for a capture: a new file]
    #[arg(long, value_name = "PATH")]
    pub profile_output: Option<OutputPath>,

    /// The off-CPU profile, likewise
    #[arg(long, value_name = "PATH")]
    pub offcpu_output: Option<OutputPath>,

    /// Both profiles as one, with the label `state` (on-cpu, runqueue, blocked, iowait). Its sum is threads x time. Needs
    /// a capture with --profile --offcpu; to be rendered later, one that had this option too
    #[arg(long, value_name = "PATH")]
    pub wall_output: Option<OutputPath>,

    /// Folded stacks of the on-CPU profile; without one, of the off-CPU profile
    #[arg(long, value_name = "PATH")]
    pub folded_output: Option<OutputPath>,

    /// An SVG flame graph, likewise
    #[arg(long, value_name = "PATH")]
    pub flamegraph_output: Option<OutputPath>,

    /// A recording: all stacks and counts with their names and ledger; `perf-agent render` makes every other output
    /// from it
    #[arg(long, value_name = "PATH")]
    pub recording_output: Option<OutputPath>,
}

impl FileArgs {
    /// The outputs with a path: the option's name, the kind, the path.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, OutputKind, &OutputPath)> {
        let all = [
            ("profile-output", OutputKind::CpuProfile, &self.profile_output),
            ("offcpu-output", OutputKind::OffCpuProfile, &self.offcpu_output),
            ("wall-output", OutputKind::WallProfile, &self.wall_output),
            ("folded-output", OutputKind::Folded, &self.folded_output),
            ("flamegraph-output", OutputKind::FlameGraph, &self.flamegraph_output),
            ("recording-output", OutputKind::Recording, &self.recording_output),
        ];
        all.into_iter().filter_map(|(name, kind, path)| Some((name, kind, path.as_ref()?)))
    }
}
