//! Processes whose unwind tables fill the memory for tables.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perfagent::{Agent, Ledger, Report, WarningKind};
use testkit::Process;

use super::{Programs, VICTIM, await_line, ledger, rooted, start};
use crate::started::started;

/// Memory for tables in these tests.
const MEMORY: u32 = 4 << 20;
/// Rows of each library of an attacker, at 4 bytes.
const ROWS: u32 = 40_000;
/// Rows of a victim: more than a library's, so that no hole that libraries leave is large enough.
const ROWS_OF_VICTIM: u32 = 60_000;

/// Libraries with large tables, a program that loads them, and a victim with a large table. `None`: there is no compiler.
struct Attack {
    programs: Programs,
    program: PathBuf,
    victim: PathBuf,
    library: PathBuf,
}

impl Attack {
    fn new() -> Option<Self> {
        let programs = Programs::new();
        let compiler = testkit::needed("cc")?;
        let folder = programs.0.path().to_owned();
        let source = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let rows = source("many_rows.S", include_str!("many_rows.S"));
        let tables = source("many_tables.c", include_str!("many_tables.c"));
        let victim = source("large_victim.c", VICTIM);
        let compile = |output: &str, words: &[&str], sources: &[&Path]| {
            let output = folder.join(output);
            let mut command = Command::new(&compiler);
            // Without a build-id, copies of a file share no table.
            command.args(["-O1", "-fno-omit-frame-pointer", "-Wl,--build-id=none"]).args(words);
            assert!(command.arg("-o").arg(&output).args(sources).status().unwrap().success());
            output
        };
        let define = |rows: u32| format!("-DROWS={rows}");
        let library =
            compile("library.so", &["-shared", "-fPIC", "-DLIBRARY", &define(ROWS)], &[&tables, &rows]);
        let program = compile("many_tables", &["-ldl"], &[&tables]);
        let victim = compile("large_victim", &[&define(ROWS_OF_VICTIM)], &[&victim, &rows]);
        Some(Self { programs, program, victim, library })
    }

    /// Starts a process with so many libraries that no other process has.
    fn start(&self, mode: &str, libraries: usize) -> Process {
        let folder = tempfile::tempdir_in(self.programs.0.path()).unwrap().keep();
        let copies = (0..libraries).map(|number| {
            let copy = folder.join(format!("library{number}.so"));
            std::fs::copy(&self.library, &copy).unwrap();
            copy.to_str().unwrap().to_owned()
        });
        let copies: Vec<String> = copies.collect();
        let words: Vec<&str> = std::iter::once(mode).chain(copies.iter().map(String::as_str)).collect();
        let mut process = start(&self.program, &words);
        await_line(&mut process);
        process
    }
}

/// An agent with little memory for tables that profiles these processes, and the paths of all files whose table was made or read.
fn agent(targets: &[Process]) -> (Agent, Arc<Mutex<Vec<String>>>) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&paths);
    let builder = Agent::builder().sample_rate(1999).with_cpu_profile().table_memory(MEMORY);
    let builder = targets.iter().fold(builder, |builder, target| builder.pid(target.pid()));
    let builder = builder.on_table_compiled(move |table| told.lock().unwrap().push(table.path.clone()));
    (builder.build().unwrap(), paths)
}

/// What the ledger says under a key.
fn count(ledger: &Ledger, key: &str) -> u64 {
    let entries = ledger.entries();
    let found = entries.iter().find(|(name, _)| name == key);
    found.map_or(0, |(_, count)| count.parse().unwrap())
}

/// Starts a victim when the memory is full, waits until it is served, and gives the report with another victim that ran then. Without
/// their table most of its stacks would be cut: that many stacks as large cannot be walked in user space. `is_served` is told how often the
/// victim's table was made or read.
fn attacked(
    attack: &Attack,
    attackers: impl FnOnce() -> Vec<Process>,
    is_served: impl Fn(&Agent, usize) -> bool,
) -> Option<(Report, u32)> {
    let attackers = attackers();
    let (agent, paths) = agent(&attackers);
    if !started(&agent) {
        return None;
    }
    testkit::until("the memory for tables is full", || agent.ledger().tables_failed > 0);
    let first = start(&attack.victim, &["600000"]);
    agent.add_pid(first.pid()).unwrap();
    let victim = attack.victim.to_str().unwrap();
    let tries = || paths.lock().unwrap().iter().filter(|path| *path == victim).count();
    testkit::until("there is room for the victim's table", || is_served(&agent, tries()));
    let mut second = start(&attack.victim, &["1000"]);
    let pid = second.pid();
    agent.add_pid(pid).unwrap();
    second.wait().unwrap();
    agent.wait(Duration::from_millis(200));
    let report = agent.stop().unwrap();
    drop((attackers, first));
    Some((report, pid))
}

#[test]
fn a_process_that_uses_more_tables_than_there_is_memory_costs_others_no_stacks() {
    let Some(attack) = Attack::new() else { return };
    // It found no room at first, and is tried again when there is some.
    let is_served = |_: &Agent, tries: usize| tries >= 2;
    let attackers = || vec![attack.start("always", 32)];
    let Some((report, pid)) = attacked(&attack, attackers, is_served) else { return };
    let (samples, percent) = rooted(&report, pid);
    assert!(samples > 500 && percent > 97.0, "{percent} % of {samples}");
    let ledger = ledger(&report);
    let [evicted, failed] = ["tables_evicted", "tables_failed"].map(|key| count(ledger, key));
    assert!(evicted > 0 && failed > 0, "{evicted} tables evicted, {failed} failed");
    let told = report.warnings.iter().filter(|warning| warning.kind == WarningKind::Tables);
    let told = told.filter(|warning| warning.message.contains("left it for"));
    assert_eq!(told.count(), 1, "{:?}", report.warnings);
}

#[test]
fn processes_that_use_all_memory_together_keep_out_no_other() {
    let Some(attack) = Attack::new() else { return };
    // Each has more than a third of the memory in use, and none has half of it.
    let attackers = || (0..3).map(|_| attack.start("always", 9)).collect();
    let is_served = |_: &Agent, tries: usize| tries >= 2;
    let Some((report, pid)) = attacked(&attack, attackers, is_served) else { return };
    let (samples, percent) = rooted(&report, pid);
    assert!(samples > 300 && percent > 97.0, "{percent} % of {samples}");
    assert_ne!(count(ledger(&report), "tables_evicted"), 0);
}

#[test]
fn tables_that_are_not_used_any_more_leave_for_those_that_are() {
    let Some(attack) = Attack::new() else { return };
    // None has half of the memory, and all of them more than there is.
    let idle = || (0..6).map(|_| attack.start("once", 7)).collect();
    // Only the victim runs, and its stacks are walked in the kernel.
    let is_served = |agent: &Agent, tries: usize| {
        let counts = || (agent.ledger().samples, agent.ledger().deferred + agent.ledger().unsent_of_process);
        let (samples, unwalked) = counts();
        testkit::until("samples come", || counts().0 >= samples + 200);
        tries > 0 && counts().1 < unwalked + 20
    };
    let Some((report, pid)) = attacked(&attack, idle, is_served) else { return };
    let (samples, percent) = rooted(&report, pid);
    assert!(samples > 500 && percent > 97.0, "{percent} % of {samples}");
    assert_ne!(count(ledger(&report), "tables_evicted"), 0);
}
