//! The arguments as words. Parsing never touches the system, and judges nothing but the form.

use std::ffi::OsString;

use clap::builder::OsStringValueParser;
use clap::{Args, Parser, Subcommand};

const ABOUT: &str =
    "A Linux profiler: complete, named stacks of running processes, as pprof, folded stacks and SVG";

const USAGE: &str = "perf-agent [OPTIONS] --profile|--offcpu|--pmu --pid PID [--pid PID …]
       perf-agent [OPTIONS] --profile|--offcpu|--pmu -a
       perf-agent [OPTIONS] --profile|--offcpu|--pmu -- CMD [ARGS…]
       perf-agent doctor [--json]";

const AFTER_HELP: &str = "\
Exit status:
  0  the capture is done and every output is written, also if it was stopped early or is empty
  1  something failed at run time: a privilege, a target, the kernel, an output
  2  the command line was rejected

Signals:
  The first SIGINT, SIGTERM or SIGHUP stops the capture early and writes everything. The second gives up on names and \
writes addresses instead, and on FIFOs that nobody reads. The third removes temporary files and ends with status 1.

Outputs:
  Without --profile-output the profile goes to <comm>-<YYYYMMDDHHMM>-on-cpu.pb.gz in the working directory (without \
<comm> for -a), without --offcpu-output the off-CPU one to …-off-cpu.pb.gz; a file that exists is never replaced, -2, -3 … goes before the extension. A PATH that is given replaces \
a regular file as a whole. Devices, FIFOs and - (standard output, for one output) are written directly. All messages \
go to standard error.

Privileges:
  root, or once: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,\
cap_checkpoint_restore,cap_ipc_lock+ep PATH. `perf-agent doctor` tells what works here and how to fix the rest.

Environment:
  PERF_AGENT_LOG  log of the inner workings on standard error: a level (debug) or a filter (perfagent=debug)
  XDG_CACHE_HOME  unwind tables are kept in perf-agent/unwind there, else in $HOME/.cache (HOME); without both, nowhere
  PATH            where a command (-- CMD) is looked for

Examples:
  perf-agent --profile --pid 4711
  perf-agent --profile --pid 4711 --duration 1m --flamegraph-output flame.svg
  perf-agent --profile -a --kernel-stacks --duration 30s
  perf-agent --pmu --pmu-events task-clock,page-faults --pid 4711
  perf-agent --offcpu --wakers --kernel-stacks --pid 4711
  perf-agent --profile --offcpu --wall-output wall.pb.gz --pid 4711
  perf-agent --profile --sample-rate 999 -- ./server --port 8080";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "perf-agent",
    version,
    about = ABOUT,
    override_usage = USAGE,
    after_long_help = AFTER_HELP,
    after_help = "--help tells more about options, outputs, signals and exit statuses.",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub capture: CaptureArgs,
}

/// What else there is to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Say what works here and how to fix the rest
    Doctor {
        /// Print an array of {check, status, value, affects, fix} instead of text
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
              value_name = "true|false", value_parser = OsStringValueParser::new())]
        json: Option<OsString>,
    },
}

/// A capture.
#[derive(Debug, Default, Args)]
pub struct CaptureArgs {
    /// Take an on-CPU profile: where the CPU time goes
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "What to capture")]
    pub profile: Option<OsString>,

    /// Take an off-CPU profile: where threads wait, and for how long
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "What to capture")]
    pub offcpu: Option<OsString>,

    /// Report what the scheduler does with the target (slices, waits for a CPU, switches), and count events
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "What to capture")]
    pub pmu: Option<OsString>,

    /// Profile this process: all its threads, and every descendant forked after the start. Repeatable
    #[arg(long, value_name = "PID", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "Target: exactly one of --pid, -a, -- CMD")]
    pub pid: Vec<OsString>,

    /// Profile every process, and kernel threads
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(),
          help_heading = "Target: exactly one of --pid, -a, -- CMD")]
    pub all: Option<OsString>,

    /// Start this command and profile it and its descendants from the first instruction on, until the last one exits
    /// or the capture ends
    #[arg(last = true, value_name = "CMD", value_parser = OsStringValueParser::new(),
          help_heading = "Target: exactly one of --pid, -a, -- CMD")]
    pub command: Vec<OsString>,

    /// Length of the capture: NUMBER UNIT pairs without blanks, units ns us µs ms s m h (500ms, 10s, 1m30s, 1.5h)
    /// [default: 10s; with a command: until it ends]
    #[arg(long, value_name = "DUR", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "How to capture")]
    pub duration: Option<OsString>,

    /// Samples per second and CPU, from 1 to kernel.perf_event_max_sample_rate [default: 99]
    #[arg(long, value_name = "HZ", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "How to capture")]
    pub sample_rate: Option<OsString>,

    /// How stacks are walked: fp (frame pointers only; may truncate code that was built without them, and says so),
    /// dwarf (tables from unwind information, all built before the first sample; a command's as it maps files), auto (as
    /// dwarf, but with -a tables are built in order of use, and with --pid waited for up to 5s if --offcpu is on, else up to 100ms) [default: auto]
    #[arg(long, value_name = "MODE", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub unwind: Option<OsString>,

    /// Add kernel frames. Without it a sample in a system call shows its user stack, a kernel thread (-a only) the
    /// single frame [kernel thread]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub kernel_stacks: Option<OsString>,

    /// Keep threads apart by the labels `tid` and `thread`
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub per_thread: Option<OsString>,

    /// Which off-CPU time is recorded, a comma list of blocked, iowait (uninterruptible sleep that adds to load) and
    /// preempted (waiting for a CPU) [default: blocked,iowait]
    #[arg(long, value_name = "LIST", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub offcpu_states: Option<OsString>,

    /// Off-CPU intervals shorter than this are counted, not recorded [default: 0]
    #[arg(long, value_name = "DUR", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "How to capture")]
    pub min_block: Option<OsString>,

    /// Record who ends each off-CPU interval: below the blocked stack a frame [woken by], then process, thread and
    /// stack of the waker
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub wakers: Option<OsString>,

    /// Events to count: hardware (cycles, instructions, cache-misses, …), cache (LLC-load-misses, …), software
    /// (task-clock, page-faults, context-switches, …), rHEX [default: cycles,instructions,cache-misses]
    #[arg(long, value_name = "LIST", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub pmu_events: Option<OsString>,

    /// With -a --pmu: figures of each process too
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true|false", value_parser = OsStringValueParser::new(), help_heading = "How to capture")]
    pub per_pid: Option<OsString>,

    /// The profile, gzip-compressed pprof; - is standard output [default: a new file, see below]
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub profile_output: Option<OsString>,

    /// The off-CPU profile, likewise
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub offcpu_output: Option<OsString>,

    /// The report of --pmu; the word auto is a new file named like the profile's [default: standard output]
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub pmu_output: Option<OsString>,

    /// Form of that report: text or json [default: text]
    #[arg(long, value_name = "FMT", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub pmu_format: Option<OsString>,

    /// Serve metrics over HTTP during the capture, at HOST:PORT/metrics (OpenMetrics); :PORT is this machine only
    #[arg(long, value_name = "ADDR", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub metrics_listen: Option<OsString>,

    /// With --profile --offcpu: both as one profile, with the label `state` (on-cpu, runqueue, blocked, iowait). It sums
    /// to threads x time
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub wall_output: Option<OsString>,

    /// The same capture as folded stacks; with both --profile and --offcpu, the on-CPU one
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub folded_output: Option<OsString>,

    /// The same capture as an SVG flame graph; with both --profile and --offcpu, the on-CPU one
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new(), help_heading = "Outputs")]
    pub flamegraph_output: Option<OsString>,

    /// A comment in the profile; V may be empty. Repeatable. Keys starting with `perf-agent.` are reserved
    #[arg(long, value_name = "K=V", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "Outputs")]
    pub tag: Vec<OsString>,

    /// Distinct stacks held in the kernel between two drains; what finds no room is counted as lost.map_full
    /// [default: 65536]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "Advanced")]
    pub max_stacks: Option<OsString>,

    /// Size of the ring that carries unseen stacks, a power of two, suffix K, M or G; what finds no room is counted as
    /// lost.ring_full [default: 4M]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = OsStringValueParser::new(),
          help_heading = "Advanced")]
    pub ring_size: Option<OsString>,

    /// Test mode: walk each reuse of a remembered walk again in full and compare
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true,
          value_name = "true|false", value_parser = OsStringValueParser::new())]
    pub self_check: Option<OsString>,
}

impl CaptureArgs {
    /// Every option that was given, with its word, as the library takes them.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, &OsString)> {
        let single = [
            ("profile", &self.profile),
            ("offcpu", &self.offcpu),
            ("offcpu-states", &self.offcpu_states),
            ("min-block", &self.min_block),
            ("wakers", &self.wakers),
            ("pmu", &self.pmu),
            ("pmu-events", &self.pmu_events),
            ("pmu-format", &self.pmu_format),
            ("per-pid", &self.per_pid),
            ("metrics-listen", &self.metrics_listen),
            ("all", &self.all),
            ("duration", &self.duration),
            ("sample-rate", &self.sample_rate),
            ("unwind", &self.unwind),
            ("kernel-stacks", &self.kernel_stacks),
            ("per-thread", &self.per_thread),
            ("profile-output", &self.profile_output),
            ("offcpu-output", &self.offcpu_output),
            ("wall-output", &self.wall_output),
            ("folded-output", &self.folded_output),
            ("flamegraph-output", &self.flamegraph_output),
            ("max-stacks", &self.max_stacks),
            ("ring-size", &self.ring_size),
            ("self-check", &self.self_check),
        ];
        let repeated = [("pid", &self.pid), ("tag", &self.tag)];
        single
            .into_iter()
            .filter_map(|(name, word)| Some((name, word.as_ref()?)))
            .chain(repeated.into_iter().flat_map(|(name, words)| words.iter().map(move |word| (name, word))))
    }
}
