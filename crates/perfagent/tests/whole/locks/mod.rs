//! Locks with known answers that are no mutexes: the writer of a read-write lock, and waits by the calls that only do that.

mod go;
mod kernel;

use std::io::Write;
use std::process::{Command, Stdio};

use perfagent::{Agent, AgentBuilder, HeldBy, LockClass};
use testkit::Process;

use crate::events::{captured_of, compiled};
use crate::started::started;

const SOURCE: &str = include_str!("locks.c");
const ROUNDS: u64 = 200;

#[test]
fn a_writer_is_the_owner_of_its_lock_and_waits_by_newer_calls_are_seen() {
    let flags = [format!("-DROUNDS={ROUNDS}"), "-pthread".to_owned()];
    let with_locks = |builder: AgentBuilder, _: &std::path::Path| builder.with_locks();
    let Some((report, words)) = captured_of(SOURCE, &flags, with_locks) else { return };
    let locks = report.recording().locks().unwrap();
    let of_table: Vec<_> = locks.held.iter().filter(|row| row.name.starts_with("table")).collect();
    assert!(of_table.iter().all(|row| row.class == LockClass::ReadWrite), "{of_table:?}");
    let waits: u64 = of_table.iter().map(|row| row.waits).sum();
    // The second writer may have to wait for the reader too, which is no owner. On a busy machine a thread may come when the lock is free.
    assert!((2 * ROUNDS * 9 / 10..=3 * ROUNDS).contains(&waits), "{waits}: {of_table:?}");
    let is_writer = |by: &HeldBy| matches!(by, HeldBy::Waiting(functions) if functions.iter().any(|function| function == "hold_table"));
    let owners = of_table.iter().flat_map(|row| &row.owners);
    let by_writer: u64 = owners.filter(|(by, _)| is_writer(by)).map(|(_, waits)| waits).sum();
    assert!(by_writer >= 2 * ROUNDS * 9 / 10, "{by_writer}: {of_table:?}");
    if words == 0 {
        testkit::skip!("the kernel lacks the newer calls of futexes");
    }
    for place in ["wait_word", "wait_words"] {
        let at = locks.others.iter().filter(|row| {
            row.waiters.iter().any(|waiter| waiter.functions.iter().any(|function| function == place))
        });
        let (waits, released) =
            at.fold((0, 0), |(waits, released), row| (waits + row.waits, released + row.released));
        assert_eq!((waits, released), (ROUNDS, ROUNDS), "{place}: {:?}", locks.others);
    }
}

#[test]
fn a_mutex_that_processes_share_is_one_lock_at_all_its_addresses() {
    let flags = [format!("-DROUNDS={ROUNDS}"), "-pthread".to_owned()];
    let with_locks = |builder: AgentBuilder, _: &std::path::Path| builder.with_locks();
    let Some((report, waited)) = captured_of(include_str!("shared.c"), &flags, with_locks) else { return };
    let locks = report.recording().locks().unwrap();
    let of_program: Vec<_> = locks.held.iter().filter(|row| !row.class.is_of_kernel()).collect();
    let [row] = &of_program[..] else { panic!("{of_program:#?}") };
    assert!(row.name.starts_with("memfd:lock+0x"), "{row:#?}");
    assert_eq!((row.class, row.locks), (LockClass::Mutex, 1), "{row:#?}");
    assert!((2..=3).contains(&row.processes), "{row:#?}");
    // Those that want it wait for each other too, and shorter than the program counts.
    assert!(waited >= ROUNDS && (waited..=3 * ROUNDS).contains(&row.waits), "{waited}: {row:#?}");
    assert!(row.released * 100 >= row.waits * 99, "{row:#?}");
    // Before it sleeps, and where it gets no CPU after that, the holder is runnable.
    let in_hold = |functions: &[String]| functions.iter().any(|function| function == "hold");
    let is_holder = |by: &HeldBy| match by {
        HeldBy::Waiting(functions) => in_hold(functions),
        other => matches!(other, HeldBy::Runnable),
    };
    let by_holder: u64 = row.owners.iter().filter(|(by, _)| is_holder(by)).map(|(_, waits)| waits).sum();
    assert!(by_holder >= ROUNDS, "{row:#?}");
    assert!(row.owners.iter().any(|(by, _)| matches!(by, HeldBy::Waiting(at) if in_hold(at))), "{row:#?}");
}

#[test]
fn the_whole_system_has_the_same_waits_among_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [format!("-DROUNDS={ROUNDS}"), "-pthread".to_owned()];
    let Some(path) = compiled(folder.path(), SOURCE, &flags) else { return };
    let mut program =
        Process::start(Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let agent = Agent::builder().system_wide().with_locks().build().unwrap();
    if !started(&agent) {
        return;
    }
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    program.first_line();
    let report = agent.stop().unwrap();
    let locks = report.recording().locks().unwrap();
    let of_program: Vec<_> = locks.held.iter().filter(|row| row.pid == Some(program.pid())).collect();
    let of_table: Vec<_> = of_program.iter().filter(|row| row.name.starts_with("table")).collect();
    let waits: u64 = of_table.iter().map(|row| row.waits).sum();
    assert!((2 * ROUNDS * 9 / 10..=3 * ROUNDS).contains(&waits), "{waits}: {of_program:?}");
    let released: u64 = of_table.iter().map(|row| row.released).sum();
    assert!(released * 100 >= waits * 99, "{released} of {waits}: {of_table:?}");
    assert!(of_table.iter().all(|row| row.class == LockClass::ReadWrite), "{of_table:?}");
    // Threads of other processes wait as well, at least those of this one for the work of the test's harness.
    let has_others = locks.held.iter().chain(&locks.others).any(|row| row.pid != Some(program.pid()));
    assert!(has_others, "{locks:?}");
}
