//! The options of the command line and their types. Parsing does not touch the system.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::console::ConsoleArgs;
use crate::event_args::EventsAction;
use crate::file_args::FileArgs;
use crate::symbol_args::SymbolArgs;
use crate::values::{OutputPath, Text};
use crate::written_args::{ConvertArgs, DiffArgs, MergeArgs, TopArgs};

const ABOUT: &str =
    "A Linux profiler: complete, named stacks of running processes, as pprof, folded stacks and SVG";

const USAGE: &str = "perf-agent [OPTIONS] --profile|--offcpu|--pmu|--locks --pid PID [--pid PID …]
       perf-agent [OPTIONS] --profile|--offcpu|--pmu|--locks -a
       perf-agent [OPTIONS] --profile|--offcpu|--pmu|--locks -- CMD [ARGS…]
       perf-agent live [OPTIONS] --pid PID|-a|-- CMD
       perf-agent render FILE [OUTPUT OPTIONS]
       perf-agent symbolize IN -o OUT [--symbol-dir DIR …] [--vmlinux FILE] [--system-map FILE]
       perf-agent convert IN -o OUT [--format NAME] [--value NAME]
       perf-agent merge FILE … -o OUT
       perf-agent top FILE [--sort cum] [--function NAME] [--by LABEL]
       perf-agent diff BEFORE AFTER [--fail-above PERCENT]
       perf-agent events list|format|trace|clean …
       perf-agent doctor [--json]
       perf-agent help [COMMAND]";

const AFTER_HELP: &str = "\
Exit status:
  0  the capture ended and every output was written, also after an early stop or without a sample
  1  something failed at run time: a privilege, a target, the kernel, an output
  2  the command line was rejected
  With -- CMD: that of the command, 128 + N if signal N ended it, 0 if it still runs. Failures of perf-agent itself are \
125, a command that cannot be executed 126, one that does not exist 127.

Signals:
  The first SIGINT, SIGTERM or SIGHUP ends the capture early and writes everything. The second ends the search for \
names: the remaining frames are written as addresses, and FIFOs without a reader are given up. The third removes \
temporary files and ends the program with status 1.

Outputs:
  Without --profile-output the on-CPU profile is written to <comm>-<YYYYMMDDHHMM>-on-cpu.pb.gz in the working directory, \
without --offcpu-output the off-CPU profile to …-off-cpu.pb.gz, unless folded stacks, flame graphs or reports are asked for. With -a \
these names have no <comm>. An automatic name \
never replaces a file: -2, -3 … is put before the extension. A PATH that you give replaces a regular file as a \
whole. Devices, FIFOs and - (standard output, for one output) are written directly. All messages go to standard error.
  With --rotate each output has one file for each interval: NAME-YYYYMMDDTHHMMSS.mmmZ.EXT, after the start of the interval in UTC. -2, -3 … \
goes before the extension where a file has that name. With --duration no interval is shorter than half of --rotate.

Privileges:
  root, or once: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,\
cap_checkpoint_restore,cap_ipc_lock+ep PATH. `perf-agent doctor` says what works here and how to fix the rest.

Environment:
  PERF_AGENT_LOG  internal log on standard error: a level (debug) or a filter (perfagent=debug)
  XDG_CACHE_HOME  unwind tables are cached in perf-agent/unwind there, else in $HOME/.cache (HOME); without both, nowhere
  PATH            where the program of -- CMD is searched
  DEBUGINFOD_URLS debuginfod servers, with blanks between them, unless --debuginfod-url is given; empty: none
  DEBUGINFOD_MAXSIZE, DEBUGINFOD_MAXTIME  bytes and seconds that a file may have; 0 is no limit
  DEBUGINFOD_CACHE_PATH  the cache of elfutils' client, which is read too [default: debuginfod_client in the user's cache directory]
  SSL_CERT_FILE   authorities whose certificates are believed, in place of the system's
  NO_COLOR        if set, messages have no colours without --color always

Examples:
  perf-agent --profile --pid 4711
  perf-agent live --pid 4711
  perf-agent --profile --comm nginx --duration 30
  perf-agent --profile -a --cgroup 0123456789ab --duration 30
  perf-agent --profile --pid 4711 --duration 1m --flamegraph-output flame.svg
  perf-agent --profile -a --kernel-stacks --duration 30s --html-output report.html
  perf-agent --pmu --pmu-events task-clock,page-faults --pid 4711
  perf-agent --offcpu --wakers --kernel-stacks --pid 4711
  perf-agent --locks --pid 4711
  perf-agent --profile --offcpu --wall-output wall.pb.gz --pid 4711
  perf-agent --profile --sample-rate 999 -- ./server --port 8080
  perf-agent --profile --event page-faults --pid 4711
  perf-agent --profile --event page-faults --event context-switches --pid 4711 --flamegraph-output why.svg
  perf-agent --profile -a --rotate 1m --profile-output /var/tmp/cpu.pb.gz
  perf-agent --profile --pid 4711 --recording-output c.perf-agent && perf-agent render c.perf-agent -o flame.svg
  perf-agent symbolize cpu.pb.gz -o named.pb.gz --symbol-dir /srv/symbols
  perf-agent convert cpu.pb.gz -o cpu.speedscope.json
  perf-agent top cpu.pb.gz --function malloc
  perf-agent events trace -e sched:sched_process_exec --duration 10s
  perf-agent events trace -e 'uprobe:/bin/bash:readline' --pid 4711";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "perf-agent",
    version,
    about = ABOUT,
    override_usage = USAGE,
    after_long_help = AFTER_HELP,
    after_help = "--help explains options, outputs, signals and exit statuses in full.",
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub capture: CaptureArgs,
}

/// What the program does instead of a capture.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Make outputs from a recording that --recording-output wrote. Needs no privileges. Without an output it prints the ledger
    Render(Box<RenderArgs>),
    /// Name the places without a name in a profile or recording that was written already, by build-id. Needs no privileges
    Symbolize(Box<SymbolizeArgs>),
    /// Write a profile of any program in another format. Needs no privileges
    Convert(Box<ConvertArgs>),
    /// Add up profiles with the same values. Needs no privileges
    Merge(Box<MergeArgs>),
    /// Print the functions of a profile, their callers and callees, or the shares of processes, threads and states. Needs no privileges
    Top(Box<TopArgs>),
    /// Tell which functions changed between profiles, beyond chance, and by how much. Needs no privileges
    Diff(Box<DiffArgs>),
    /// Show a running capture on the terminal: the hottest functions, the call tree, processes and threads, each second anew. ? lists the keys
    #[command(
        mut_arg("pmu", |option| option.hide(true)),
        mut_arg("locks", |option| option.hide(true)),
        mut_arg("pmu_events", |option| option.hide(true)),
        mut_arg("per_pid", |option| option.hide(true)),
        mut_arg("per_thread", |option| option.hide(true)),
        mut_arg("rotate", |option| option.hide(true)),
        mut_arg("event", |option| option.hide(true)),
        mut_arg("heap", |option| option.hide(true)),
        mut_arg("duration", |option| option.help("Length of the capture; the screen stays after it [default: until a key or the end of the targets ends it]")),
        mut_arg("profile", |option| option.help("Show on-CPU time [default: both, but with -a on-CPU time only]")),
        mut_arg("offcpu", |option| option.help("Show off-CPU time: where threads wait, and for how long")),
        mut_arg("command", |option| option.help("Start this command and show it and its descendants from the first instruction. It reads nothing and its output to this terminal is dropped: sh -c 'CMD >FILE' keeps it")),
    )]
    Live(Box<LiveArgs>),
    /// List the events of this machine, show the fields of one, print them as they happen
    #[command(subcommand)]
    Events(EventsAction),
    /// Say what works here and how to fix the rest
    Doctor {
        /// Print an array of {check, status, value, affects, fix} instead of text
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
              value_name = "true|false", hide_possible_values = true)]
        json: Option<bool>,
    },
    /// Print the version
    Version,
}

/// The options of a capture.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    #[command(flatten)]
    pub modes: ModeArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub settings: SettingArgs,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    #[command(flatten)]
    pub outputs: OutputArgs,
    #[command(flatten)]
    pub console: ConsoleArgs,
    #[command(flatten)]
    pub advanced: AdvancedArgs,
}

/// The options of `live`.
#[derive(Debug, Args)]
pub struct LiveArgs {
    #[command(flatten)]
    pub modes: ModeArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub settings: SettingArgs,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    #[command(flatten)]
    pub console: ConsoleArgs,
}

/// The options of `render`.
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub recording: PathBuf,

    /// Write one profile to this file, in the format of its extension: .pb.gz, .folded, .svg, .html, .ndjson,
    /// .speedscope.json, .firefox.json; - is standard output
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<OutputPath>,

    /// The format of --output, whatever its extension: pprof, folded, flamegraph, html, ndjson, speedscope, firefox
    #[arg(long, value_name = "NAME", requires = "output")]
    pub format: Option<String>,

    /// The profile that --output writes: on-cpu, event, off-cpu, wall, locks; of several events its name, as in the names of files
    /// [default: the first one of the recording]
    #[arg(long, value_name = "MODE", requires = "output")]
    pub mode: Option<String>,

    #[command(flatten)]
    pub files: FileArgs,

    /// Look up all names anew in the files of this machine; frames that cannot be named here keep the names of the live
    /// run. A recording written by --recording-output then has the new names
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub resymbolize: Option<bool>,

    #[command(flatten)]
    pub symbols: SymbolArgs,

    #[command(flatten)]
    pub console: ConsoleArgs,
}

/// The options of `symbolize`.
#[derive(Debug, Args)]
pub struct SymbolizeArgs {
    /// A pprof file (.pb.gz), or a recording that --recording-output wrote
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// The file to write: of the kind of IN, with the names; - is standard output. It may be IN itself
    #[arg(short, long, value_name = "OUT")]
    pub output: OutputPath,

    /// A directory with files or debug files of the machine of the capture: .build-id/NN/REST and .build-id/NN/REST.debug below it,
    /// as in /usr/lib/debug, or NAME and NAME.debug. A file is used if it has the build-id that is looked for. Repeatable
    #[arg(long, value_name = "DIR")]
    pub symbol_dir: Vec<PathBuf>,

    /// Name kernel frames from the ELF file of the kernel of the capture, which has a symbol table: functions, and lines and inlined calls
    /// if it has debug information. IN tells where that kernel was loaded
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,

    /// Name kernel frames from a list of symbols of the kernel of the capture: its System.map, or a copy of /proc/kallsyms, which names
    /// modules too if it is of the same start of the machine
    #[arg(long, value_name = "FILE")]
    pub system_map: Option<PathBuf>,

    #[command(flatten)]
    pub symbols: SymbolArgs,

    #[command(flatten)]
    pub console: ConsoleArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What to capture")]
pub struct ModeArgs {
    /// Take an on-CPU profile: where CPU time goes
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub profile: Option<bool>,

    /// Take an off-CPU profile: where threads wait, and for how long
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub offcpu: Option<bool>,

    /// Take a profile of allocations: which stacks allocate memory, and what of it is in use at the end. Of an allocator that samples itself (Go, jemalloc with
    /// prof, otel_memory) the samples are recorded, else all calls; where that costs the target more than 5 % of its CPU time, only short windows, which show shares;
    /// --heap=exact records all calls at any price
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "exact")]
    pub heap: Option<Text>,

    /// Report how the scheduler treats the target (time slices, waits for a CPU, switches), and count events
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub pmu: Option<bool>,

    /// Report which locks threads and goroutines wait for (mutexes, conditions, semaphores, joins, channels, locks of the kernel …), how
    /// often and how long, who held them and who ended the waits
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub locks: Option<bool>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Target: exactly one of --pid and --comm, -a, -- CMD")]
pub struct TargetArgs {
    /// Profile this process: all its threads, and every descendant, living at the start or forked later. Repeatable; takes
    /// several numbers with commas or blanks between them
    #[arg(short, long, value_name = "PID", allow_hyphen_values = true)]
    pub pid: Vec<Text>,

    /// Profile every process that has exactly this name at the start, with its descendants. Repeatable
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub comm: Vec<Text>,

    /// Only samples of this thread of a target. Repeatable; takes several numbers with commas or blanks between them
    #[arg(long, value_name = "TID", allow_hyphen_values = true)]
    pub tid: Vec<Text>,

    /// Only samples of this control group of version 2 and of those below it: a directory, a path as in
    /// /proc/PID/cgroup, or a container id
    #[arg(long, value_name = "GROUP")]
    pub cgroup: Option<Text>,

    /// Leave out the descendants of the targets
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub no_children: Option<bool>,

    /// Profile every process, and kernel threads
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub all: Option<bool>,

    /// Start this command and profile it and its descendants from the first instruction, until the last of them exits
    /// or the capture ends; the exit status is then the command's
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How to capture")]
pub struct SettingArgs {
    /// Length of the capture: NUMBER UNIT pairs without blanks, units ns us µs ms s m h (500ms, 10s, 1m30s, 1.5h); a
    /// number alone is seconds [default: 10s; with a command: until it ends]
    #[arg(short, long, value_name = "DUR", allow_hyphen_values = true)]
    pub duration: Option<Text>,

    /// Cut the capture into intervals of this length (100ms or longer) and write one set of outputs for each. Without
    /// --duration the capture goes on until it is stopped
    #[arg(long, value_name = "DUR", allow_hyphen_values = true)]
    pub rotate: Option<Text>,

    /// Samples per second and CPU, from 1 to kernel.perf_event_max_sample_rate [default: 99]
    #[arg(short = 'F', long, value_name = "HZ", allow_hyphen_values = true)]
    pub sample_rate: Option<Text>,

    /// With --profile: sample this event instead of time on CPUs, with the stack of the thread that causes it: page-faults, minor-faults,
    /// major-faults, context-switches, cpu-migrations, task-clock …, a tracepoint as GROUP:NAME, calls of a function as uprobe:PATH:FUNCTION, or, where there is a PMU, cycles, cache-misses …; as
    /// 'EVENT period=N' at each Nth occurrence [default: each one; of clocks and hardware less often]. May be given up to six times: each
    /// event has a profile of its own, and a file of its own where an option makes one: NAME.EVENT.EXT
    #[arg(long, value_name = "EVENT")]
    pub event: Vec<Text>,

    /// How stacks are unwound: fp (frame pointers only; stacks through code without them are cut, and the ledger counts
    /// these), dwarf (tables from unwind information, all compiled before the first sample; for a command, when it maps a
    /// file), auto (as dwarf, but with -a the tables are compiled in order of use, and with --pid the capture starts
    /// after at most 5s with --offcpu or --locks, else 100ms) [default: auto]
    #[arg(long, value_name = "MODE")]
    pub unwind: Option<Text>,

    /// What stacks show of programs in Python: auto (their functions, in the places of the interpreter's frames), all (their functions
    /// and these frames), off (the interpreter's frames only) [default: auto]
    #[arg(long, value_name = "WHAT")]
    pub python: Option<Text>,

    /// Switch the perf trampoline of CPython 3.12 and later on for the time of the capture, so that functions in Python have addresses and
    /// a perf map of their own. It stops each process for a moment, and needs cap_sys_ptrace and --profile. With --pid, a process that
    /// cannot be switched ends the start; others are counted
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub inject_python: Option<bool>,

    /// Add kernel frames. Without this, a sample in a system call shows only its user stack, and a kernel thread (-a
    /// only) the single frame [kernel thread]
    #[arg(short = 'g', long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub kernel_stacks: Option<bool>,

    /// Keep threads apart by the labels `tid` and `thread`
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub per_thread: Option<bool>,

    /// Name Java code: ask each recorded JVM (HotSpot, JDK 17 and later) through its attach socket for its perf map, as jcmd PID
    /// Compiler.perfmap does, at the begin, while new code is seen, and at the end. The map stays in the JVM's /tmp
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub java_perf_map: Option<bool>,

    /// Name .NET code: ask each recorded .NET process (.NET 8 and later) through its diagnostics socket to write its perf map, from when
    /// its code is first seen until the end. The map stays in the /tmp of the process
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub dotnet_perf_map: Option<bool>,

    /// The off-CPU time to record, a comma-separated list of blocked, iowait (uninterruptible sleep that adds to the
    /// load) and preempted (waiting for a CPU) [default: blocked,iowait]
    #[arg(long, value_name = "LIST")]
    pub offcpu_states: Option<Text>,

    /// Count shorter off-CPU intervals instead of recording them [default: 0]
    #[arg(long, value_name = "DUR", allow_hyphen_values = true)]
    pub min_block: Option<Text>,

    /// Record the thread that ends each off-CPU interval: beyond the leaf of the blocked stack stands a frame [woken by],
    /// then process, thread and stack of the waker, its outermost frame last
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub wakers: Option<bool>,

    /// Events to count: hardware (cycles, instructions, cache-misses, …), cache (LLC-load-misses, …), software
    /// (task-clock, page-faults, context-switches, …), rHEX [default: cycles,instructions,cache-misses]
    #[arg(long, value_name = "LIST")]
    pub pmu_events: Option<Text>,

    /// With -a --pmu: report each process too
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", hide_possible_values = true)]
    pub per_pid: Option<bool>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Outputs")]
pub struct OutputArgs {
    /// The output of the one mode that runs: its profile in the format of the extension (.pb.gz, .folded, .svg, .html, .perf.data,
    /// any other is pprof), or the report of --pmu or --locks; - is standard output
    #[arg(short = 'o', value_name = "PATH")]
    pub output: Option<OutputPath>,

    /// Beside the profile: every sample with its time, thread and CPU as perf.data, for perf report, perf script and
    /// others that read it; with --offcpu every wait too. A regular file, which grows while the capture runs
    #[arg(long, value_name = "PATH")]
    pub perf_data_output: Option<OutputPath>,

    #[command(flatten)]
    pub files: FileArgs,

    /// The report of --pmu; the word auto stands for a new file, named as the profile's is [default: standard output]
    #[arg(long, value_name = "PATH")]
    pub pmu_output: Option<OutputPath>,

    /// Format of that report: text or json [default: text]
    #[arg(long, value_name = "FMT")]
    pub pmu_format: Option<Text>,

    /// Serve metrics over HTTP during the capture, at HOST:PORT/metrics (OpenMetrics); :PORT listens on this machine
    /// only
    #[arg(long, value_name = "ADDR")]
    pub metrics_listen: Option<Text>,

    /// A comment in the profile; V may be empty. Repeatable. Keys that start with `perf-agent.` are reserved
    #[arg(long, value_name = "K=V", allow_hyphen_values = true)]
    pub tag: Vec<Text>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Advanced")]
pub struct AdvancedArgs {
    /// Distinct stacks that the kernel holds between two drains; a sample beyond them is counted as lost.map_full
    /// [default: 65536]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub max_stacks: Option<Text>,

    /// Size of the ring that carries new stacks, a power of two, suffix K, M or G; a stack that does not fit is counted as
    /// lost.ring_full [default: 4M; with --heap 32M]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub ring_size: Option<Text>,

    /// Memory of all stacks of the capture, or of one interval with --rotate, suffix K, M or G; a sample whose stack finds no room is
    /// counted as lost.memory_limit [default: 256M]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub max_memory: Option<Text>,
    /// Kernel memory for unwind tables and the mappings of processes, suffix K, M or G; it is taken as it is needed. The table of processes
    /// has one place for each 2 KiB of it, at least 16384. Under pressure, tables that most samples need come first [default: 32M]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub table_memory: Option<Text>,

    /// Test mode: walk each reuse of a remembered walk again in full and compare
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true,
          value_name = "true|false", hide_possible_values = true)]
    pub self_check: Option<bool>,
}
