//! What profiles of allocations cost: the CPU time of one pair of `malloc` and `free` in a program that does nothing else.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::find_command;
use truth::programs::SampledHeap;
use truth::session::{Session, Subject};
use truth::target::Target;

use crate::statistics::quantile;
use crate::tool::interrupt;

/// Time for bpftrace to attach, which does not tell when it has.
const STARTS: Duration = Duration::from_millis(1500);

/// What looks at the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    None,
    /// perf-agent with this option.
    Agent(&'static str),
    /// Started with the program.
    Heaptrack,
    /// Counts the calls of malloc by stack.
    Bpftrace,
}

/// A program under a tool.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// For the table.
    pub name: &'static str,
    program: SampledHeap,
    /// Of jemalloc.
    setting: Option<&'static str>,
    tool: Tool,
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Which case.
    pub case: Case,
    /// ns of CPU time for each pair, or why the case was skipped.
    pub ns: Result<f64, String>,
    /// How many times that of the same program without any tool.
    pub factor: Option<f64>,
}

const fn case(name: &'static str, program: SampledHeap, setting: Option<&'static str>, tool: Tool) -> Case {
    Case { name, program, setting, tool }
}

/// The cases. The first one of each program is the program alone.
pub const CASES: [Case; 12] = [
    case("glibc alone", SampledHeap::Pairs, None, Tool::None),
    case("glibc, --heap", SampledHeap::Pairs, None, Tool::Agent("--heap")),
    case("glibc, --heap=exact", SampledHeap::Pairs, None, Tool::Agent("--heap=exact")),
    case("glibc, heaptrack", SampledHeap::Pairs, None, Tool::Heaptrack),
    case("glibc, bpftrace: malloc by ustack", SampledHeap::Pairs, None, Tool::Bpftrace),
    case("jemalloc alone", SampledHeap::JemallocPairs, None, Tool::None),
    case("jemalloc, prof:true", SampledHeap::JemallocPairs, Some("prof:true"), Tool::None),
    case("jemalloc, prof:true, --heap", SampledHeap::JemallocPairs, Some("prof:true"), Tool::Agent("--heap")),
    case("jemalloc, --heap", SampledHeap::JemallocPairs, None, Tool::Agent("--heap")),
    case("Go alone", SampledHeap::GoPairs, None, Tool::None),
    case("Go, --heap", SampledHeap::GoPairs, None, Tool::Agent("--heap")),
    case("Go, --heap=exact", SampledHeap::GoPairs, None, Tool::Agent("--heap=exact")),
];

/// Measures all cases in each of so many rounds.
///
/// # Errors
/// If a program or a tool fails.
pub fn measure(out: &Path, agent: &Path, rounds: usize, seconds: f64) -> Result<Vec<Cost>> {
    let mut all = Vec::new();
    let mut times = vec![Vec::new(); CASES.len()];
    for _ in 0..rounds {
        for (case, times) in CASES.iter().zip(&mut times) {
            if missing(case).is_none() {
                let ns = run(out, agent, case, seconds).with_context(|| format!("measure {}", case.name))?;
                times.push(ns);
            }
        }
    }
    let mut alone: Option<(SampledHeap, f64)> = None;
    for (case, mut times) in CASES.into_iter().zip(times) {
        let ns = match missing(&case) {
            Some(reason) => Err(reason),
            None => Ok(quantile(&mut times, 0.5)),
        };
        if alone.is_none_or(|(program, _)| program != case.program) {
            alone = ns.as_ref().ok().map(|ns| (case.program, *ns));
        }
        let factor = ns.as_ref().ok().zip(alone).map(|(ns, (_, alone))| ns / alone);
        all.push(Cost { case, ns, factor });
    }
    Ok(all)
}

/// Why a case cannot be measured here.
fn missing(case: &Case) -> Option<String> {
    let command = match case.tool {
        Tool::Heaptrack => Some("heaptrack"),
        Tool::Bpftrace => Some("bpftrace"),
        Tool::None | Tool::Agent(_) => None,
    };
    let no_tool = command.filter(|command| find_command(command).is_none());
    no_tool.map(|command| format!("{command} is missing")).or_else(|| case.program.missing())
}

fn run(out: &Path, agent: &Path, case: &Case, seconds: f64) -> Result<f64> {
    let program = case.program.path(out)?;
    let folder = tempfile::tempdir().context("create a folder for a tool's files")?;
    let mut command = match case.tool {
        Tool::Heaptrack => {
            let mut command = Command::new("heaptrack");
            command.arg("-o").arg(folder.path().join("heaptrack")).arg(&program);
            command
        }
        _ => Command::new(&program),
    };
    command.envs(case.setting.map(|setting| ("MALLOC_CONF", setting)));
    let target = Target::start_command(&mut command)?;
    match case.tool {
        Tool::None | Tool::Heaptrack => window(&target, seconds),
        Tool::Agent(option) => {
            let options = [option, "--duration", "1h"];
            let mut session = Session::start(agent, &options, Subject::Process(target.pid()))?;
            session.until_attached()?;
            let ns = window(&target, seconds)?;
            session.stop()?;
            session.finish()?;
            Ok(ns)
        }
        Tool::Bpftrace => {
            let mut tool = bpftrace(target.pid())?;
            thread::sleep(STARTS);
            let ns = window(&target, seconds);
            interrupt(&mut tool, "bpftrace")?;
            ns
        }
    }
}

fn bpftrace(pid: u32) -> Result<Child> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).context("read the program's mappings")?;
    let libc = maps.split_whitespace().find(|word| word.contains("/libc.so.6"));
    let libc = libc.context("the program has no libc")?;
    Command::new("bpftrace")
        .args(["-p", &pid.to_string(), "-e", &format!("uprobe:{libc}:malloc {{ @[ustack] = count(); }}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("run bpftrace")
}

/// ns of CPU time for each pair during the next seconds.
fn window(target: &Target, seconds: f64) -> Result<f64> {
    drop(target.pending_lines());
    thread::sleep(Duration::from_secs_f64(seconds));
    let counts: Vec<[f64; 2]> = target.pending_lines().iter().filter_map(|line| read_count(line)).collect();
    let (first, last) = (counts.first().context("no counts")?, counts.last().context("no counts")?);
    ensure!(last[0] > first[0], "the program did not count on");
    Ok((last[1] - first[1]) / (last[0] - first[0]))
}

fn read_count(line: &str) -> Option<[f64; 2]> {
    let mut words = line.strip_prefix("count ")?.split(' ').map(str::parse);
    Some([words.next()?.ok()?, words.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_each_program_is_measured_alone_first() {
        assert_eq!((read_count("count 5 10"), read_count("ready")), (Some([5.0, 10.0]), None));
        let mut programs = Vec::new();
        for case in CASES {
            if !programs.contains(&case.program) {
                assert_eq!((case.tool, case.setting), (Tool::None, None), "{}", case.name);
                programs.push(case.program);
            }
        }
    }
}
