//! From words to the library's builder: the words go through as they are, and the automatic name is added.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use perfagent::{AgentBuilder, AutoName, OutputKind, Subject, auto_name};

use crate::args::CaptureArgs;

/// What the command line asks for, unchecked.
pub fn builder(args: &CaptureArgs) -> AgentBuilder {
    let mut builder =
        args.options().fold(AgentBuilder::default(), |builder, (name, word)| builder.option(name, word));
    if let Some((program, arguments)) = args.command.split_first() {
        let mut command = Command::new(program);
        command.args(arguments);
        builder = builder.command(command);
    }
    let is_on = |flag: &Option<OsString>| flag.as_deref() == Some(OsStr::new("true"));
    let timestamp = jiff::Zoned::now().strftime("%Y%m%d%H%M").to_string();
    if is_on(&args.profile) && args.profile_output.is_none() {
        builder = builder.cpu_profile(automatic_name(args, &timestamp, OutputKind::CpuProfile));
    }
    if is_on(&args.offcpu) && args.offcpu_output.is_none() {
        builder = builder.off_cpu_profile(automatic_name(args, &timestamp, OutputKind::OffCpuProfile));
    }
    match args.pmu_output.as_deref() {
        None if !is_on(&args.pmu) => {}
        None => builder = builder.option("pmu-output", "-"),
        Some(word) if word == "auto" => {
            let json = args.pmu_format.as_deref() == Some(OsStr::new("json"));
            let kind = if json { OutputKind::PmuJson } else { OutputKind::PmuReport };
            builder = builder.pmu_output(automatic_name(args, &timestamp, kind));
        }
        Some(word) => builder = builder.option("pmu-output", word),
    }
    builder
}

/// The name of an output if none was given.
fn automatic_name(args: &CaptureArgs, timestamp: &str, kind: OutputKind) -> AutoName {
    let named = |name: &[u8], pid| auto_name(Subject::Process { name, pid }, timestamp, kind);
    if let Some(program) = args.command.first() {
        let base = Path::new(program).file_name().unwrap_or(program);
        return named(base.as_bytes(), std::process::id());
    }
    match args.pid.first().and_then(|pid| pid.to_str()?.parse().ok()) {
        Some(number) => {
            let pid = process_of(number);
            named(&comm(pid), pid)
        }
        None => auto_name(Subject::System, timestamp, kind),
    }
}

/// The process that a number given as target stands for. If there is none, the start says so.
pub fn process_of(number: u32) -> u32 {
    perfagent::process_of(number).unwrap_or(number)
}

/// The name of a process; empty if there is none.
pub fn comm(pid: u32) -> Vec<u8> {
    let mut name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    name
}
