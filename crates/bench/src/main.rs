//! The command line over crate `bench`: each subcommand is one measurement, and prints a table.

mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use bench::record::Setting;
use clap::{Args, Parser, Subcommand};
use truth::profiler::{Profiler, agent_path};
use truth::run::Plan;

/// Measures perf-agent beside other profilers. All but `symbolize`, `symbol-table`, `wrong` and `report` need root.
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
    /// Kernel cost per sample, as a ratio to a bare `bpf_get_stack` on a frame-pointer build in the same run.
    Cost(CostArgs),
    /// Kernel cost per sample that the frames of Python add, as a ratio to the sample of 40 native frames in the same run.
    Python(PythonArgs),
    /// How much slower a program runs under each profiler, in alternating windows.
    Slowdown(SlowdownArgs),
    /// CPU time that a profile of events adds to each event, beside bpftrace's `@[ustack] = count()`.
    EventCost(EventCostArgs),
    /// Time from the start of perf-agent to the first complete stack.
    Startup(StartupArgs),
    /// CPU and memory of perf-agent's own process.
    Footprint(Length),
    /// Time off the CPU by function, against the program's own clocks, beside other tools in the same run.
    Offcpu(OffcpuArgs),
    /// Work left to programs that switch all the time, under each tracer, in alternating windows.
    Switches(SwitchesArgs),
    /// CPU time of a pair of malloc and free under --heap, beside heaptrack, bpftrace and jemalloc's own profiler.
    Heap(HeapArgs),
    /// Run-queue latency, switches and counters beside perf's and the kernel's.
    Latency(SecondsArg),
    /// All modes together on a busy machine: memory over time, samples with and without the other modes, losses.
    Endurance(EnduranceArgs),
    /// Memory of perf-agent each 10 s while short processes come and go.
    Churn(ChurnArgs),
    /// Start, end, CPU and memory of perf-agent with -a beside a crowd of processes, threads, programs and mapped code.
    Scale(ScaleArgs),
    /// The first seconds of builds: share of complete stacks, with and without tables on disk.
    Build(BuildArgs),
    /// Real programs: share of complete stacks, next to `perf record --call-graph dwarf` in the same run.
    Real(RealArgs),
    /// Pass or fail: pairs of frames in profiles that cannot be true by the machine code of their files. Needs no root.
    Wrong(WrongArgs),
    /// Shares of CPU time in Go programs of several versions, beside Go's own CPU profile of the same seconds.
    GoProfile(GoProfileArgs),
    /// Start-up of the library over a synthetic fleet, with the time for each binary's unwind table: a JSON file for each
    /// run.
    Scenario(ScenarioArgs),
    /// Names, lines and inlined calls of addresses of one file, beside the crate addr2line and llvm-symbolizer: CPU time, memory, and how many
    /// answers are those of llvm-symbolizer. Needs no root.
    Symbolize(SymbolizeArgs),
    /// The first name of a file with many functions and no debug information, beside llvm-symbolizer. Needs gcc and no root.
    SymbolTable(SymbolTableArgs),
    /// Runs a command and prints its CPU time and memory. Used by `symbolize`.
    #[command(hide = true)]
    SymbolizeMeasured(MeasuredArgs),
    /// Answers addresses with one of the tools of `symbolize`. Used by `symbolize`.
    #[command(hide = true)]
    SymbolizeWith(WithArgs),
    /// One markdown document of several JSON files of `scenario`: medians and spreads.
    Report(ReportArgs),
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
struct CostArgs {
    #[command(flatten)]
    length: Length,
    /// What fills the caches: the program and the profilers themselves, a sweep by the program, or compilers on all CPUs.
    #[arg(long, value_enum, default_value = "own")]
    caches: table::cost::Caches,
    /// Measurements of each case; medians are shown.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

#[derive(Debug, Args)]
struct PythonArgs {
    /// The interpreters.
    #[arg(required = true)]
    interpreters: Vec<PathBuf>,
    /// Length of all captures of one line in seconds.
    #[arg(long, default_value_t = 12.0)]
    seconds: f64,
    /// Sampling rate in Hz: caches are warm at 4999, cold at 99.
    #[arg(long, default_value_t = 999)]
    rate: u32,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct SlowdownArgs {
    /// Number of rounds.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Length of each window in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// On a program in Python, by this interpreter, instead of one in C.
    #[arg(long, value_name = "INTERPRETER")]
    python: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct EventCostArgs {
    /// Number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of each window in seconds.
    #[arg(long, default_value_t = 2.0)]
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
struct ChurnArgs {
    /// Length of the capture in seconds.
    #[arg(long, default_value_t = 120.0)]
    seconds: f64,
    /// Processes per second.
    #[arg(long, default_value_t = 220.0)]
    rate: f64,
    /// Length of an interval, as for perf-agent; without it the capture is one.
    #[arg(long)]
    rotate: Option<String>,
    /// Fail if the anonymous memory grows by more, from the second quarter to the last, in per cent.
    #[arg(long)]
    growth: Option<f64>,
}

#[derive(Debug, Args)]
struct ScaleArgs {
    /// Processes of the crowd.
    #[arg(long, default_value_t = 5000)]
    processes: usize,
    /// Threads of all of them together. Their number has limits: `kernel.pid_max`, `kernel.threads-max`.
    #[arg(long, default_value_t = 100_000)]
    threads: usize,
    /// Distinct programs.
    #[arg(long, default_value_t = 2000)]
    binaries: usize,
    /// GiB of mapped code, in sparse files.
    #[arg(long, default_value_t = 50)]
    text_gib: usize,
    /// Wake-ups of all threads together in a second.
    #[arg(long, default_value_t = 2500)]
    wakeups: usize,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
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
struct HeapArgs {
    /// Number of rounds; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of each window in seconds, which begins when the tool has attached.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

#[derive(Debug, Args)]
struct StartupArgs {
    /// Measurements per case; the median is shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only targets whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also with -a beside a fleet of 300 processes with 500 distinct binaries.
    #[arg(long)]
    fleet: bool,
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// Builds of each case.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only cases whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct RealArgs {
    /// Only these programs.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Sampling rate of both profilers in Hz. At 999 Hz the stacks that `perf record` copies fill 64 MB/s.
    #[arg(long, default_value_t = 199)]
    rate: u32,
}

#[derive(Debug, Args)]
struct GoProfileArgs {
    /// Only programs whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
    /// Sampling rate of both profilers in Hz. Go's cannot be higher than the kernel's clock ticks, 250 Hz on many systems.
    #[arg(long, default_value_t = 199)]
    rate: u32,
    /// Further arguments for perf-agent.
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct ScenarioArgs {
    #[command(flatten)]
    setting: Setting,
    /// Number of runs.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Length of each capture in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Folder of the JSON files.
    #[arg(long, default_value = "target/bench")]
    json: PathBuf,
}

#[derive(Debug, Args)]
struct SymbolizeArgs {
    /// A file with debug information.
    file: PathBuf,
    /// Number of distinct addresses, spread over its code.
    #[arg(long, default_value_t = 100_000)]
    addresses: usize,
    /// Alternating rounds; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Prints this number of answers that are not those of llvm-symbolizer.
    #[arg(long, default_value_t = 0)]
    differences: usize,
}

#[derive(Debug, Args)]
struct SymbolTableArgs {
    /// Functions of the file.
    #[arg(long, default_value_t = 500_000)]
    functions: usize,
    /// Alternating rounds; medians are shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Debug, Args)]
struct MeasuredArgs {
    /// File of the standard input.
    input: PathBuf,
    /// File of the standard output.
    output: PathBuf,
    /// The command.
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct WithArgs {
    tool: String,
    file: PathBuf,
    /// Where perf-agent keeps names for later runs.
    names: PathBuf,
}

#[derive(Debug, Args)]
struct WrongArgs {
    /// Profiles in the format of pprof, of files that are still where they were.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// The JSON files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
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
        Task::Cost(args) => {
            let setting = table::cost::Setting {
                seconds: args.length.seconds,
                rate_hz: args.length.rate,
                caches: args.caches,
                rounds: args.rounds,
            };
            table::cost::cost(out, &Profiler::agent(&args.length.more)?, setting)
        }
        Task::Python(args) => {
            let agent = (agent_path()?, args.more.clone());
            table::python::python(out, &agent, &args.interpreters, args.seconds, args.rate)
        }
        Task::Slowdown(args) => {
            let python = args.python.as_deref();
            table::slowdown::slowdown(out, &agent_path()?, python, args.rounds, args.seconds)
        }
        Task::EventCost(args) => {
            table::event_cost::event_cost(out, &agent_path()?, args.rounds, args.seconds)
        }
        Task::Startup(args) => {
            table::startup::startup(out, &Profiler::agent(&[])?, args.rounds, &args.only, args.fleet)
        }
        Task::Footprint(length) => {
            table::footprint::footprint(out, &Profiler::agent(&length.more)?, length.seconds, length.rate)
        }
        Task::Offcpu(args) => {
            let agent = (!args.others_only).then(agent_path).transpose()?;
            table::offcpu::off_cpu(out, agent.as_deref(), !args.agent_only, args.length.seconds)
        }
        Task::Switches(args) => {
            let agent = (!args.others_only).then(agent_path).transpose()?;
            table::switches::switches(out, agent.as_deref(), &args.more, args.rounds, args.seconds)
        }
        Task::Heap(args) => table::heap::heap(out, &agent_path()?, args.rounds, args.seconds),
        Task::Latency(args) => table::latency::latency(out, &agent_path()?, args.seconds),
        Task::Endurance(args) => {
            let limit = args.check.then_some(args.growth);
            table::endurance::endurance(out, &agent_path()?, args.seconds, limit)
        }
        Task::Churn(args) => {
            table::churn::churn(&agent_path()?, args.seconds, args.rate, args.rotate.as_deref(), args.growth)
        }
        Task::Scale(args) => {
            let ScaleArgs { processes, threads, binaries, text_gib, wakeups, seconds, ref more } = *args;
            let size = bench::crowd::Size { processes, threads, binaries, text_gib, wakeups };
            table::scale::scale(out, &agent_path()?, size, seconds, more)
        }
        Task::Build(args) => {
            table::build::build(&(agent_path()?, args.more.clone()), args.rounds, &args.only)
        }
        Task::Real(args) => {
            let plan = Plan { seconds: args.seconds, rate_hz: args.rate };
            table::real::real(&args.only, &Profiler::agent(&[])?, plan)
        }
        Task::Wrong(args) => table::wrong::wrong(&args.files),
        Task::GoProfile(args) => {
            let plan = Plan { seconds: args.seconds, rate_hz: args.rate };
            table::go_profile::go_profile(out, &Profiler::agent(&args.more)?, plan, &args.only)
        }
        Task::Scenario(args) => {
            table::scenario::scenario(out, &args.setting, args.runs, args.seconds, &args.json)
        }
        Task::Symbolize(args) => {
            table::symbolize::symbolize(&args.file, args.addresses, args.rounds, args.differences)
        }
        Task::SymbolTable(args) => table::symbolize::symbol_table(args.functions, args.rounds),
        Task::SymbolizeMeasured(args) => bench::symbolize::measured(&args.input, &args.output, &args.command),
        Task::SymbolizeWith(args) => bench::symbolize::answer(&args.tool, &args.file, &args.names),
        Task::Report(args) => table::scenario::report(&args.files),
    }
}
