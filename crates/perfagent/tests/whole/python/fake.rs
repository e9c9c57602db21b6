//! Programs that look like an interpreter and lie: what they cause is bounded and counted, and no name is made up.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use perfagent::{Agent, Mode, Report};
use testkit::Process;

use super::captured::{Captured, stacks};
use crate::started::started;

const PROGRAM: &str = include_str!("fake.c");

/// Compiles the program under a name. `None`: there is no compiler.
fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<std::path::PathBuf> {
    let compiler = testkit::needed("cc")?;
    let (source, program) = (folder.join("fake.c"), folder.join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    let status = Command::new(compiler)
        .args(["-O1", "-g", "-rdynamic", "-pthread", "-o"])
        .args([&program, &source])
        .args(flags)
        .status();
    assert!(status.unwrap().success());
    Some(program)
}

/// Profiles a program that runs.
fn profile(command: &mut Command) -> Option<Report> {
    let mut process = Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    assert_eq!(testkit::Lines::of(process.stdout.take().unwrap()).next(), "ready");
    let agent = Agent::builder().pid(process.pid()).sample_rate(499).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return None;
    }
    agent.wait(Duration::from_secs(2));
    Some(agent.stop().unwrap())
}

/// How many walks ended in a way.
fn walks(ledger: &[(String, String)], key: &str) -> u64 {
    ledger.iter().find(|(known, _)| known == key).map_or(0, |(_, count)| count.parse().unwrap())
}

#[test]
fn a_false_interpreter_has_bounded_stacks_and_no_names_but_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "python3", &[]) else { return };
    for what in ["circle", "garbage", "moving"] {
        let Some(report) = profile(Command::new(&program).arg(what)) else { return };
        let shown = stacks(report.recording(), Mode::OnCpu);
        let all: u64 = shown.all.iter().map(|stack| stack.count).sum();
        println!("{what}: {all} samples, {} stacks, {:?}", shown.all.len(), shown.ledger);
        assert!(all > 20, "{what}: {all} samples");
        for Captured { lines, .. } in &shown.all {
            assert!(lines.len() < 700, "{what}: {} frames", lines.len());
            for line in lines.iter().filter(|line| line.is_python) {
                // Random words may be a name; one that is just written may have zeros at its end.
                let is_own = what == "garbage" || line.name.trim_matches(['A', '\0', '…']).is_empty();
                assert!(is_own && line.name.len() <= 2100, "{what}: {}", line.name);
            }
            // The frames of C stay.
            assert!(lines.iter().any(|line| !line.is_python), "{what}: {lines:?}");
        }
        if what == "circle" {
            assert!(walks(&shown.ledger, "python.limit") > 20, "{:?}", shown.ledger);
            let longest = shown.all.iter().map(|stack| stack.python().count()).max();
            assert_eq!(longest, Some(512));
        }
    }
}

#[test]
fn a_program_with_the_name_of_an_interpreter_and_a_damaged_file_is_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "python3.12", &[]) else { return };
    let mut bytes = std::fs::read(&program).unwrap();
    // The section headers: what they tell of symbols and code is noise, and the program does not need them.
    let headers = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
    for (at, byte) in bytes.iter_mut().enumerate().skip(headers) {
        *byte = (at.wrapping_mul(0x9e37_79b9) >> 13) as u8;
    }
    std::fs::write(&program, bytes).unwrap();
    let Some(report) = profile(Command::new(&program).arg("circle")) else { return };
    let shown = stacks(report.recording(), Mode::OnCpu);
    let samples = shown.all.iter().map(|stack| stack.count).sum::<u64>();
    assert!(samples > 20, "{samples} samples");
    assert!(shown.all.iter().all(|stack| stack.python().next().is_none()));
}

#[test]
fn an_interpreter_that_is_not_supported_is_told_with_version_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "python3", &["-DVERSION=0x031002f0"]) else { return };
    let Some(report) = profile(Command::new(&program).arg("circle")) else { return };
    let told: Vec<_> = report.warnings.iter().filter(|warning| warning.message.contains("Python")).collect();
    let [warning] = told[..] else { panic!("{:?}", report.warnings) };
    assert!(warning.message.contains("CPython 3.16.2 is not supported"), "{warning:?}");
    assert!(warning.hint.as_deref().is_some_and(|hint| hint.contains("3.8 to 3.15")), "{warning:?}");
    let shown = stacks(report.recording(), Mode::OnCpu);
    assert_eq!(walks(&shown.ledger, "python.unsupported_version"), 1, "{:?}", shown.ledger);
    assert!(shown.all.iter().all(|stack| stack.python().next().is_none()));
}
