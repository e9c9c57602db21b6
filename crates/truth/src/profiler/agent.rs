//! perf-agent: command line, and stacks out of its pprof file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profile::{LabelValue, LocationId, Profile};

use super::scope::Scope;
use crate::frame::{Capture, Frame, Stack, plain_name};

pub(super) fn command(
    path: &Path,
    more: &[String],
    scope: Scope,
    seconds: f64,
    rate_hz: u32,
    folder: &Path,
) -> (Command, PathBuf) {
    let file = folder.join("agent.pb.gz");
    let mut command = Command::new(path);
    command.arg("--profile");
    match scope {
        Scope::Process(pid) => command.args(["--pid", &pid.to_string()]),
        Scope::Machine => command.arg("-a"),
    };
    command.args(["--duration", &format!("{}ms", (seconds * 1000.0).round())]);
    command.args(["--sample-rate", &rate_hz.to_string()]);
    command.arg("--profile-output").arg(&file).args(more);
    (command, file)
}

/// Starts a command whose output goes to a file.
pub(super) fn spawn_logged(mut command: Command, log: &Path) -> Result<Child> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let again = file.try_clone().context("share the log file")?;
    command.stdin(Stdio::null()).stdout(file).stderr(again);
    command.spawn().with_context(|| format!("start {}", command.get_program().display()))
}

/// Waits for a command that must succeed within a limit.
pub(crate) fn wait_ok(child: &mut Child, name: &str, log: &Path, limit: Duration) -> Result<()> {
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for the profiler")? {
            break status;
        }
        if Instant::now() > end {
            bail!("{name} did not end within {} s; its messages:\n{}", limit.as_secs(), messages(log));
        }
        thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        bail!("{name} ended with {status}; its messages:\n{}", messages(log));
    }
    Ok(())
}

fn messages(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// Reads a pprof file as perf-agent writes it.
///
/// # Errors
/// If the file cannot be read or is no profile.
pub fn read_pprof(file: &Path) -> Result<Capture> {
    let bytes = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let profile = formats::pprof::decode(&bytes).with_context(|| format!("decode {}", file.display()))?;
    let stacks = profile.samples.iter().map(|sample| {
        let value = |index: usize| sample.values.get(index).and_then(|v| u64::try_from(*v).ok()).unwrap_or(0);
        let mut stack =
            Stack { count: value(0), ns: value(1), values: sample.values.clone(), ..Stack::default() };
        for id in sample.locations.iter().rev() {
            add_frame(&profile, *id, &mut stack);
        }
        for label in &sample.labels {
            match (label.key.as_str(), &label.value) {
                ("pid", LabelValue::Num(pid)) => stack.pid = u32::try_from(*pid).unwrap_or(0),
                ("comm", LabelValue::Str(comm)) => stack.comm.clone_from(comm),
                ("state", LabelValue::Str(state)) => stack.state.clone_from(state),
                _ => {}
            }
        }
        stack
    });
    let mut build_ids: HashMap<String, Vec<Vec<u8>>> = HashMap::new();
    for mapping in &profile.mappings {
        let Some(id) = &mapping.build_id else { continue };
        let known = build_ids.entry(mapping.filename.clone()).or_default();
        if !known.iter().any(|known| known == id.as_bytes()) {
            known.push(id.as_bytes().to_vec());
        }
    }
    Ok(Capture {
        build_ids,
        stacks: stacks.collect(),
        comments: profile.comments.clone(),
        kernel_ns: None,
        kernel_runs: None,
        sampler: None,
        duration_ns: u64::try_from(profile.duration_ns).unwrap_or(0),
        file: file.to_owned(),
    })
}

fn add_frame(profile: &Profile, id: LocationId, stack: &mut Stack) {
    let Some(location) = profile.locations.get(id.0 as usize) else { return };
    let mapping = location.mapping.and_then(|id| profile.mappings.get(id.0 as usize));
    // Of inlined functions only the outermost has a frame.
    let function = location.lines.last().and_then(|line| profile.functions.get(line.function.0 as usize));
    let module = mapping.map(|m| m.filename.clone()).unwrap_or_default();
    if module.starts_with("[kernel") {
        return;
    }
    match function {
        Some(f) if mapping.is_none() && f.name.starts_with("[truncated") => {
            stack.truncated = Some(f.name.clone())
        }
        _ => stack.frames.push(Frame {
            name: function
                .map(|f| plain_name(&f.name))
                .filter(|n| !n.is_empty() && n != "[unknown]" && n != "[jit]"),
            module,
            svma: location.address,
        }),
    }
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Function, Label, Line, Mapping, Svma, ValueType};

    use super::*;

    #[test]
    fn stacks_come_back_root_first_with_one_frame_per_location() {
        let cpu = ValueType::new("cpu", "nanoseconds");
        let mut b = Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 10);
        let mapping =
            b.mapping(Mapping { limit: Svma(0x1000), filename: "/bin/prog".into(), ..Mapping::default() });
        let mut line = |name: &str| {
            let function = b.function(Function { name: name.into(), ..Function::default() });
            Line { function, line: 0, column: 0 }
        };
        let (inlined, outer, main) = (line("inlined()"), line("outer(int)"), line("main"));
        let leaf = b.location(Some(mapping), 0x10, vec![inlined, outer]);
        let caller = b.location(Some(mapping), 0x20, vec![main]);
        let unnamed = b.location(Some(mapping), 0x30, Vec::new());
        let cut = b.synthetic("[truncated: unreadable stack]");
        b.add(
            vec![Label::num("pid", 7), Label::str("comm", "prog"), Label::str("state", "iowait")],
            vec![leaf, caller, unnamed, cut],
            &[3, 30],
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.pb.gz");
        let profile = b.finish(1, 2, vec!["perf-agent.lost=0".into()]);
        fs::write(&file, formats::pprof::encode(&profile)).unwrap();

        let capture = read_pprof(&file).unwrap();
        let stack = &capture.stacks[0];
        assert_eq!((stack.count, stack.ns, stack.pid), (3, 30, 7));
        assert_eq!((stack.comm.as_str(), stack.state.as_str()), ("prog", "iowait"));
        assert_eq!(stack.truncated.as_deref(), Some("[truncated: unreadable stack]"));
        assert_eq!(stack.display(), "[truncated: unreadable stack] > ?@prog > main@prog > outer@prog");
        assert_eq!((capture.ledger("lost"), capture.duration_ns), (Some("0"), 2));
    }
}
