//! Symbol sources of the host program: in a capture, and for a recording of one. Without privileges the tests skip and say so.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perfagent::model::Profile;
use perfagent::symbol_source::{Answer, Request, SourceLine, SymbolSource};
use perfagent::{Agent, AgentBuilder, MemorySink, Mode, Recording, Symbolizer, Warning, WarningKind};

use crate::started::started;

const LONG: Duration = Duration::from_secs(60);
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

/// The file of the shell.
fn shell_path() -> String {
    std::fs::canonicalize("/bin/sh").unwrap().to_str().unwrap().to_owned()
}

/// Names every address of one file.
struct NamesFile(String);

impl SymbolSource for NamesFile {
    fn name(&self) -> &str {
        "test"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        match request {
            Request::Module(request) if request.module.path == self.0 => {
                let line =
                    |name: String| vec![SourceLine { name: name.into(), line: 7, ..SourceLine::default() }];
                Answer::Names(request.svmas.iter().map(|svma| line(format!("known_{svma:x}"))).collect())
            }
            _ => Answer::NotMine,
        }
    }
}

/// Panics at each request, and counts them.
struct Panics(Arc<AtomicU64>);

impl SymbolSource for Panics {
    fn name(&self) -> &str {
        "broken"
    }

    fn lookup(&mut self, _: &Request) -> Answer {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("as the test asks")
    }
}

fn burning() -> AgentBuilder {
    let mut command = Command::new("sh");
    command.args(["-c", BURN]).stdin(Stdio::null());
    Agent::builder().command(command).sample_rate(499).with_cpu_profile()
}

/// The names of all places in a file: of the innermost functions.
fn names(profile: &Profile, path: &str) -> Vec<String> {
    let in_file = |mapping: Option<perfagent::model::MappingId>| {
        mapping.is_some_and(|id| profile.mappings[id.0 as usize].filename == path)
    };
    let name = |line: &perfagent::model::Line| profile.functions[line.function.0 as usize].name.clone();
    let places = profile.locations.iter().filter(|location| in_file(location.mapping));
    places.map(|location| location.lines.first().map(name).unwrap_or_default()).collect()
}

fn tells_panics(warnings: &[Warning], panics: u64) -> bool {
    let times = if panics == 1 { "time" } else { "times" };
    let message = format!("the symbol source \"broken\" panicked {panics} {times}");
    warnings.iter().any(|warning| warning.kind == WarningKind::Names && warning.message.starts_with(&message))
}

#[test]
fn a_source_names_a_file_first_and_one_that_panics_costs_nothing_but_a_warning() {
    let panics = Arc::new(AtomicU64::new(0));
    let builder = burning().symbol_source(Panics(Arc::clone(&panics))).symbol_source(NamesFile(shell_path()));
    let agent = builder.build().unwrap();
    if !started(&agent) {
        return;
    }
    agent.wait(LONG);
    let report = agent.stop().unwrap();
    let names = names(&report.cpu_profile().unwrap(), &shell_path());
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("known_")), "{names:?}");
    let panics = panics.load(Ordering::Relaxed);
    assert!(panics > 0 && tells_panics(&report.warnings, panics), "{panics} {:?}", report.warnings);
}

#[test]
fn a_recording_is_named_later_by_sources_of_the_host_program() {
    let sink = MemorySink::new();
    let agent = burning().recording_output_to(sink.clone()).build().unwrap();
    if !started(&agent) {
        return;
    }
    agent.wait(LONG);
    let report = agent.stop().unwrap();
    let recording = Recording::read_from(&sink.take()[..]).unwrap();
    let profile = |recording: &Recording| recording.profile(Mode::OnCpu).unwrap();
    assert_eq!(profile(&recording), report.cpu_profile().unwrap());
    let before = names(&profile(&recording), &shell_path());
    assert!(!before.iter().any(|name| name.starts_with("known_")), "{before:?}");

    let panics = Arc::new(AtomicU64::new(0));
    let symbolizer =
        Symbolizer::new().symbol_source(NamesFile(shell_path())).symbol_source(Panics(Arc::clone(&panics)));
    let named = recording.symbolize(&symbolizer);
    let after = names(&profile(&named), &shell_path());
    // A place that is both left by a call and interrupted has two names.
    assert!(after.len() >= before.len(), "{before:?} became {after:?}");
    assert!(after.iter().all(|name| name.starts_with("known_")), "{after:?}");
    let panics = panics.load(Ordering::Relaxed);
    assert!(panics > 0 && tells_panics(&named.warnings(), panics), "{panics} {:?}", named.warnings());
    let mut folded = Vec::new();
    named.encode_profile(Mode::OnCpu, "folded", &mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    assert!(folded.contains("known_"), "no name begins with known_: {folded}");
    assert!(named.encode_profile(Mode::OffCpu, "folded", &mut Vec::new()).is_err());
}
