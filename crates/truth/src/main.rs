//! The command line over crate `truth`: each subcommand is one measurement, and prints a table.

mod report;
mod scheduler_report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use truth::blocking::Lab;
use truth::profiler::{PerfMode, Profiler, agent_binary};
use truth::programs::{Program, Scheduling, all};
use truth::run::Plan;

/// Programs with known answers, and what profilers say about them. All but `build` need root.
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
    /// All programs under perf-agent and, in the same run, under `perf record --call-graph dwarf`: one table; shares
    /// and costs below it.
    Table(TableArgs),
    /// Four functions that burn 10, 20, 30 and 40 %: what each profiler says.
    Shares(Length),
    /// Kernel cost per sample, as a ratio to a bare `bpf_get_stack` on a frame-pointer build in the same run.
    Cost(Length),
    /// How much slower a program runs under each profiler, in alternating windows.
    Slowdown(SlowdownArgs),
    /// Time from the start of perf-agent to the first complete stack.
    Startup(StartupArgs),
    /// CPU and memory of perf-agent's own process.
    Footprint(Length),
    /// Time off the CPU by function, against the program's own clocks, beside other tools in the same run.
    Offcpu(OffcpuArgs),
    /// Work left to programs that switch all the time, under each tracer, in alternating windows.
    Switches(SwitchesArgs),
    /// Run-queue latency, switches and counters beside perf's and the kernel's.
    Latency(SecondsArg),
    /// All modes together on a busy machine: memory over time, samples with and without the other modes, losses.
    Endurance(EnduranceArgs),
    /// Real programs: share of complete stacks, next to `perf record --call-graph dwarf` in the same run.
    Real(RealArgs),
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
    /// How often a program is tried before it fails: others may spoil a capture. Each failure is printed.
    #[arg(long, default_value_t = 1)]
    tries: usize,
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
    /// Sampling rate of `perf record` in Hz; perf-agent samples at 999 Hz.
    #[arg(long, default_value_t = 99)]
    perf_rate: u32,
}

#[derive(Debug, Args)]
struct SlowdownArgs {
    /// Number of rounds.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Length of each window in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

#[derive(Debug, Args)]
struct SecondsArg {
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

#[derive(Debug, Args)]
struct OffcpuArgs {
    #[command(flatten)]
    length: SecondsArg,
    /// Without perf-agent: only the programs and the other tools.
    #[arg(long)]
    others_only: bool,
    /// Without the other tools, whose work at each switch is in the times.
    #[arg(long, conflicts_with = "others_only")]
    agent_only: bool,
    /// Pass or fail instead of a table.
    #[arg(long)]
    check: bool,
    /// Only with --check: builds that need no shared library.
    #[arg(long)]
    standalone: bool,
    /// Only with --check: the programs are in the folder already.
    #[arg(long)]
    prebuilt: bool,
    /// Only with --check: allowed difference of times in per cent.
    #[arg(long, default_value_t = 1.0)]
    tolerance: f64,
    /// Only with --check: allowed difference of times in us for each block.
    #[arg(long, default_value_t = 3)]
    per_block_us: u64,
    /// Only with --check: number of threads where there are many.
    #[arg(long, default_value_t = 20_000)]
    crowd: u64,
    /// Only with --check: how often a claim is tried before it fails. Each failure is printed.
    #[arg(long, default_value_t = 1)]
    tries: usize,
}

#[derive(Debug, Args)]
struct EnduranceArgs {
    /// Length of the capture with all modes in seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Pass or fail too.
    #[arg(long)]
    check: bool,
    /// Only with --check: allowed growth of the resident set, from the second quarter to the last, in per cent.
    #[arg(long, default_value_t = 20.0)]
    growth: f64,
}

#[derive(Debug, Args)]
struct SwitchesArgs {
    /// Number of rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Length of each window in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Without perf-agent: only the other tools.
    #[arg(long)]
    others_only: bool,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct StartupArgs {
    /// Measurements per case; the median is shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only targets whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also a crowd of 300 processes with 500 distinct binaries, with -a.
    #[arg(long)]
    crowd: bool,
}

#[derive(Debug, Args)]
struct RealArgs {
    /// Only these programs.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Sampling rate of `perf record` in Hz; perf-agent samples at 999 Hz.
    #[arg(long, default_value_t = 99)]
    perf_rate: u32,
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

fn agent_path() -> Result<PathBuf> {
    agent_binary().context("no perf-agent: build it (cargo build --release -p cli) or name it in $PERF_AGENT")
}

fn agent(more: &[String]) -> Result<Profiler> {
    Ok(Profiler::Agent(agent_path()?, more.to_vec()))
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
                Kind::Agent => agent(&args.more)?,
                Kind::PerfDwarf => Profiler::Perf(PerfMode::Dwarf),
                Kind::PerfFp => Profiler::Perf(PerfMode::FramePointers),
            };
            let plan = Plan { seconds: args.seconds, rate_hz: args.rate, perf_rate_hz: args.rate };
            let (prebuilt, floor, tries) = (args.prebuilt, args.floor, args.tries);
            let check = report::Check { out, prebuilt, profiler: &profiler, plan, floor, tries };
            check.run(&args.which.programs())
        }
        Task::Table(args) => {
            let plan = Plan { seconds: args.seconds, perf_rate_hz: args.perf_rate, ..Plan::default() };
            report::table(&args.which.programs(), out, &agent(&[])?, plan)
        }
        Task::Shares(length) => report::shares(out, &agent(&length.more)?, length.seconds, length.rate),
        Task::Cost(length) => report::cost(out, &agent(&length.more)?, length.seconds, length.rate),
        Task::Slowdown(args) => report::slowdown(out, &agent(&[])?, args.rounds, args.seconds),
        Task::Startup(args) => report::startup(out, &agent(&[])?, args.rounds, &args.only, args.crowd),
        Task::Footprint(length) => report::footprint(out, &agent(&length.more)?, length.seconds, length.rate),
        Task::Offcpu(args) if args.check => {
            let programs =
                Scheduling { standalone: args.standalone, prebuilt: args.prebuilt, ..Scheduling::new(out) };
            let lab = Lab {
                agent: agent_path()?,
                programs,
                tolerance_pct: args.tolerance,
                per_block_ns: args.per_block_us * 1000,
                ms: (args.length.seconds * 1000.0) as u64,
                crowd: args.crowd,
            };
            scheduler_report::check_blocking(&lab, args.tries)
        }
        Task::Offcpu(args) => {
            let agent = (!args.others_only).then(agent_path).transpose()?;
            scheduler_report::off_cpu(out, agent.as_deref(), !args.agent_only, args.length.seconds)
        }
        Task::Switches(args) => {
            let agent = (!args.others_only).then(agent_path).transpose()?;
            scheduler_report::switches(out, agent.as_deref(), &args.more, args.rounds, args.seconds)
        }
        Task::Endurance(args) => {
            let limit = args.check.then_some(args.growth);
            scheduler_report::endurance(out, &agent_path()?, args.seconds, limit)
        }
        Task::Latency(args) => scheduler_report::latency(out, &agent_path()?, args.seconds),
        Task::Real(args) => {
            let plan = Plan { seconds: args.seconds, perf_rate_hz: args.perf_rate, ..Plan::default() };
            report::real(&args.only, &agent(&[])?, plan)
        }
    }
}
