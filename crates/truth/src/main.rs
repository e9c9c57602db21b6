//! The command line over crate `truth`: builds the programs, checks them under a profiler, prints the table.

mod claims;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use truth::blocking::Lab;
use truth::profiler::{PerfMode, Profiler, agent_path};
use truth::programs::{Program, Scheduling, all};
use truth::run::Plan;

/// Programs with known answers, and profiles of them. All but `build` need root.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Folder of the built programs.
    #[arg(long, global = true, default_value = "target/truth")]
    out: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the known-answer programs.
    Build(Which),
    /// Pass or fail: profile each program and compare with its answer.
    Check(CheckArgs),
    /// All programs under perf-agent and, in the same run, under `perf record --call-graph dwarf`: one table, and shares
    /// below it.
    Table(TableArgs),
    /// Four functions that burn 10, 20, 30 and 40 %, compared with profiles.
    Shares(Length),
    /// Pass or fail: off-CPU profiles of programs that know how long they were off the CPU.
    Offcpu(OffcpuArgs),
}

#[derive(Debug, Args)]
struct Which {
    /// Only programs whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The full matrix, not only each kind once.
    #[arg(long)]
    matrix: bool,
    /// Only programs that need no shared library.
    #[arg(long)]
    standalone: bool,
}

#[derive(Debug, Args)]
struct Length {
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Sampling rate in Hz.
    #[arg(long, default_value_t = 999)]
    rate: u32,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    which: Which,
    /// Which profiler.
    #[arg(long, value_enum, default_value = "agent")]
    profiler: Kind,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Sampling rate in Hz.
    #[arg(long, default_value_t = 999)]
    rate: u32,
    /// The programs are in the folder already.
    #[arg(long)]
    prebuilt: bool,
    /// Demand no more than this, in per cent.
    #[arg(long)]
    floor: Option<f64>,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct TableArgs {
    #[command(flatten)]
    which: Which,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Sampling rate of both profilers in Hz. At 999 Hz the stacks that `perf record` copies fill 64 MB/s.
    #[arg(long, default_value_t = 199)]
    rate: u32,
}

#[derive(Debug, Args)]
struct OffcpuArgs {
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Builds that need no shared library.
    #[arg(long)]
    standalone: bool,
    /// The programs are in the folder already.
    #[arg(long)]
    prebuilt: bool,
    /// Allowed difference of times in per cent.
    #[arg(long, default_value_t = 1.0)]
    tolerance: f64,
    /// Allowed difference of times in us for each block.
    #[arg(long, default_value_t = 3)]
    per_block_us: u64,
    /// Number of threads where there are many.
    #[arg(long, default_value_t = 20_000)]
    crowd: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Agent,
    PerfDwarf,
    PerfFp,
}

impl Which {
    fn programs(&self) -> Vec<Program> {
        let wanted =
            |p: &Program| self.only.is_empty() || self.only.iter().any(|w| p.name.contains(w.as_str()));
        all()
            .into_iter()
            .filter(|p| wanted(p) && (self.matrix || !self.only.is_empty() || !p.matrix_only))
            .filter(|p| !self.standalone || p.standalone)
            .collect()
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let out = cli.out.as_path();
    match &cli.task {
        Task::Build(which) => {
            report::build(&which.programs(), out)?;
            Scheduling { standalone: which.standalone, ..Scheduling::new(out) }.build()
        }
        Task::Check(args) => {
            let profiler = match args.profiler {
                Kind::Agent => Profiler::agent(&args.more)?,
                Kind::PerfDwarf => Profiler::Perf(PerfMode::Dwarf),
                Kind::PerfFp => Profiler::Perf(PerfMode::FramePointers),
            };
            let plan = Plan { seconds: args.seconds, rate_hz: args.rate };
            let (prebuilt, floor) = (args.prebuilt, args.floor);
            let check = report::Check { out, prebuilt, profiler: &profiler, plan, floor };
            check.run(&args.which.programs())
        }
        Task::Table(args) => {
            let plan = Plan { seconds: args.seconds, rate_hz: args.rate };
            report::table(&args.which.programs(), out, &Profiler::agent(&[])?, plan)
        }
        Task::Shares(length) => {
            report::shares(out, &Profiler::agent(&length.more)?, length.seconds, length.rate)
        }
        Task::Offcpu(args) => {
            let programs =
                Scheduling { standalone: args.standalone, prebuilt: args.prebuilt, ..Scheduling::new(out) };
            let lab = Lab {
                agent: agent_path()?,
                programs,
                tolerance_pct: args.tolerance,
                per_block_ns: args.per_block_us * 1000,
                ms: (args.seconds * 1000.0) as u64,
                crowd: args.crowd,
            };
            claims::check(&lab)
        }
    }
}
