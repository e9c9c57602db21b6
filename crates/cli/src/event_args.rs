//! The options of `perf-agent events`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

use crate::values::Text;

/// What `perf-agent events` does.
#[derive(Debug, Subcommand)]
pub enum EventsAction {
    /// Print the tracepoints of this kernel, and the events of the processor and of the kernel with a word on whether they work here
    List {
        /// Only names that match, with * and ? as in a shell; without them, names that contain it
        #[arg(value_name = "GLOB")]
        glob: Option<String>,
        /// Print an array of {name, set, available} instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print the fields of a tracepoint or probe: offset, size, kind, name
    Format {
        /// GROUP:NAME, as in `perf-agent events list`, or a probe as for `events trace`
        #[arg(value_name = "SPEC")]
        name: String,
        /// Print {name, id, fields} instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print events as they happen, in order of time. Without --pid and --cgroup those of the whole system
    Trace(Box<TraceArgs>),
    /// Count events together, of processes, a cgroup, the whole system, or a command
    Stat(Box<StatArgs>),
    /// Remove the probes that processes of perf-agent left behind when they were killed. Probes of others and of those that live stay
    Clean,
}

/// The options of `events trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub events: ChosenEvents,

    /// Only this process, its threads, and the children that they start later; may be given several times
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub pid: Vec<u32>,

    /// Only this cgroup: a path below the mount of cgroups, or a whole path; may be given several times
    #[arg(long, value_name = "CGROUP", conflicts_with = "pid")]
    pub cgroup: Vec<String>,

    /// Stop after this time: 10s, 500ms, 2m [default: until Ctrl+C, or until all processes have ended]
    #[arg(long, short, value_name = "DURATION")]
    pub duration: Option<Text>,

    /// Stop after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_events: Option<u64>,

    /// With the stack of each event: the frames of the kernel and of the program, innermost first, also where programs have no frame pointers
    #[arg(long)]
    pub stacks: bool,

    /// Of each stack, copy so many bytes: a multiple of 8. Longer stacks are cut, and tell so [default: 16384]
    #[arg(long, value_name = "BYTES", requires = "stacks", value_parser = clap::value_parser!(u32).range(8..=65_528))]
    pub stack_bytes: Option<u32>,

    /// Pages of each CPU's ring, rounded up to a power of two: with more, bursts lose less [default: 64; with --stacks 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ring_pages: Option<u32>,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// The options of `events stat`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// What to count, as for `events trace`, separated by commas: page-faults,sched:sched_switch. They are counted as one group. May be given several times
    /// [default: task-clock, context-switches, cpu-migrations, page-faults, and of the processor cycles, instructions, branches and branch-misses if it counts them]
    #[arg(long = "event", short = 'e', value_name = "LIST")]
    pub events: Vec<String>,

    /// Only this process, its threads, and the children that they start later; may be given several times
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub pid: Vec<u32>,

    /// Only this cgroup: a path below the mount of cgroups, or a whole path; may be given several times
    #[arg(long, value_name = "CGROUP", conflicts_with = "pid")]
    pub cgroup: Vec<String>,

    /// The whole system, also while a command runs. The default without --pid, --cgroup and a command
    #[arg(long, short, conflicts_with_all = ["pid", "cgroup"])]
    pub all: bool,

    /// Print what was counted each time so long has passed: 1s, 500ms
    #[arg(long, short = 'I', value_name = "DURATION")]
    pub interval: Option<Text>,

    /// Stop after this time: 10s, 500ms, 2m [default: until Ctrl+C, or until the command or all processes have ended]
    #[arg(long, short, value_name = "DURATION")]
    pub duration: Option<Text>,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    /// Write to this file [default: standard output; with a command, whose output that is, standard error]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Start this command and count until it ends; without other targets only it and its children, from its first instruction. The exit status is then the
    /// command's
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// An event with its filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenEvent {
    pub text: String,
    pub filter: Option<String>,
}

/// The events of `-e`, each with the `--filter` behind it.
#[derive(Debug, Default)]
pub struct ChosenEvents(pub Vec<ChosenEvent>);

impl Args for ChosenEvents {
    fn augment_args(command: Command) -> Command {
        let event = Arg::new("events").short('e').long("event").value_name("SPEC").action(ArgAction::Append).required(true).help(
            "What to print: a tracepoint GROUP:NAME, an event by perf's name (page-faults, cycles), of a PMU (msr/tsc/), raw:0xN, bp:ADDRESS:rwx, or a probe: uprobe:PATH:SYMBOL, \
             uretprobe:PATH:SYMBOL, usdt:PATH:PROVIDER:NAME, kprobe:SYMBOL, kretprobe:SYMBOL. Behind it, `period=N` prints every Nth only; all else are \
             arguments of the probe: `a=%di:s64 s=+0(%si):string`. May be given several times",
        );
        let filter = Arg::new("filter").long("filter").value_name("TEXT").action(ArgAction::Append).help(
            "Print only what passes, in the kernel's language: 'prev_pid > 100 && next_comm ~ \"a*\"'. It belongs to the -e before it",
        );
        command.arg(event).arg(filter)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ChosenEvents {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let places = |name| {
            let places = matches.indices_of(name).into_iter().flatten();
            places.zip(matches.get_many::<String>(name).into_iter().flatten().cloned()).collect::<Vec<_>>()
        };
        let events = places("events");
        let mut chosen: Vec<ChosenEvent> =
            events.iter().map(|(_, text)| ChosenEvent { text: text.clone(), filter: None }).collect();
        for (at, filter) in places("filter") {
            let before = events.partition_point(|(event, _)| *event < at);
            let Some(event) = before.checked_sub(1).and_then(|event| chosen.get_mut(event)) else {
                return Err(refused("--filter belongs to the -e before it, and there is none"));
            };
            if event.filter.replace(filter).is_some() {
                return Err(refused("an event has two filters; write one with && between them"));
            }
        }
        Ok(Self(chosen))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn refused(text: &str) -> Error {
    Error::raw(clap::error::ErrorKind::ValueValidation, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Vec<(String, Option<String>)>, String> {
        let command = ChosenEvents::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(words.split(' ')).map_err(|error| error.to_string())?;
        let chosen = ChosenEvents::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(chosen.0.into_iter().map(|event| (event.text, event.filter)).collect())
    }

    #[test]
    fn a_filter_belongs_to_the_event_before_it() {
        let named = |text: &str, filter: Option<&str>| (text.to_owned(), filter.map(str::to_owned));
        let chosen = read("-e a:b --filter x>1 -e c:d --event e:f --filter y>1").unwrap();
        assert_eq!(chosen, [named("a:b", Some("x>1")), named("c:d", None), named("e:f", Some("y>1"))]);
        assert!(read("--filter x>1 -e a:b").unwrap_err().contains("there is none"));
        assert!(read("-e a:b --filter x --filter y").unwrap_err().contains("two filters"));
    }
}
