//! What `/proc` tells of a process before it is touched: whether something is in the way of a call in it.

use std::fs;

use crate::refusal::{Refusal, Token};

/// `vfork`, and `clone` and `clone3`, by which libraries do the same.
const VFORKS: [&str; 3] = ["58", "56", "435"];
/// Where tasks of a frozen cgroup stand: those of the second version, of which the first function may be part of the second one, and of the
/// first version. Tasks that are stopped or traced stand there too, but are in another state.
const FREEZERS: [&str; 4] = ["do_freezer_trap", "get_signal", "__refrigerator", "refrigerator"];

const NO_ENTRY: i32 = 2;
const NO_PROCESS: i32 = 3;

/// Something that is in the way.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// It does not go away while somebody waits.
    Final(Refusal),
    /// It may go away.
    Passing(&'static str),
}

/// What is in the way of calls in a process, if anything.
pub(crate) fn of_process(pid: u32) -> Option<Obstacle> {
    let refuse = |token, cause: String| Some(Obstacle::Final(Refusal::new(token, cause)));
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => status,
        Err(error) if matches!(error.raw_os_error(), Some(NO_ENTRY | NO_PROCESS)) => String::new(),
        Err(error) => return refuse(Token::Other, format!("read /proc/{pid}/status: {error}")),
    };
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let state = field("State:").chars().next();
    // A process that ends gives its memory away first. Where only the first thread has ended, the others can be used.
    let is_first_ended = state == Some('Z') || field("VmSize:").is_empty();
    let has_ended = status.is_empty() || state == Some('X') || is_first_ended && threads(pid) <= 1;
    if has_ended {
        return refuse(Token::Exited, "it has ended".to_owned());
    }
    let tracer = field("TracerPid:");
    if !matches!(tracer, "" | "0") {
        // The kernel tells the thread.
        let process = tracer.parse().ok().and_then(|tid| process::task::tgid_of(tid).ok());
        let process = process.map_or_else(|| tracer.to_owned(), |pid| pid.to_string());
        return refuse(Token::PtraceDenied, format!("process {process} traces it: end that first"));
    }
    if field("Seccomp:") == "1" {
        let cause = "it is in the strict mode of seccomp: a system call of the interpreter would end it";
        return refuse(Token::Other, cause.to_owned());
    }
    let parent = field("PPid:").parse().unwrap_or(0);
    if parent != 0 && sys::memory::is_shared(pid, parent) {
        return Some(Obstacle::Passing(
            "it runs in the memory of its parent until it executes a program (vfork)",
        ));
    }
    if state == Some('T') {
        return Some(Obstacle::Passing("it is stopped by a signal: let it go on by SIGCONT"));
    }
    let waits_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    if FREEZERS.contains(&waits_in.trim()) {
        return Some(Obstacle::Passing("its cgroup is frozen: thaw it"));
    }
    None
}

/// What is in the way of stopping a thread: one that waits in the kernel where signals do not reach it would stop only later.
pub(crate) fn of_thread(pid: u32, tid: u32) -> Option<&'static str> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    if state != Some('D') {
        return None;
    }
    let call = fs::read_to_string(format!("{folder}/syscall")).unwrap_or_default();
    let number = call.split(' ').next().unwrap_or_default();
    Some(if VFORKS.contains(&number) {
        "its thread waits for a child that has not executed its program yet (vfork)"
    } else {
        "its thread waits in the kernel, where it cannot be interrupted"
    })
}

/// The number of its threads; 0 if it has ended.
fn threads(pid: u32) -> usize {
    process::task::threads(pid).map_or(0, |threads| threads.len())
}
