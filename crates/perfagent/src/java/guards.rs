//! What is checked before a process gets SIGQUIT.
//!
//! A program that maps `libjvm.so` and catches SIGQUIT has a running HotSpot: an exec would have removed both, and the JVM catches the
//! signal itself unless it was told not to. The checks are read from `/proc` each time; nothing that was known before counts.

use std::io;

use rustix::io::Errno;

use super::error::JavaError;
use crate::runtime_socket::{self, Owner, Status};

const SIGQUIT: u32 = 3;

/// Options with which the JVM either ends on SIGQUIT or does not listen.
const FORBIDDING: [&str; 3] = ["-Xrs", "-XX:+ReduceSignalUsage", "-XX:+DisableAttachMechanism"];
/// Variables that hold options of a JVM.
const VARIABLES: [&str; 3] = ["JAVA_TOOL_OPTIONS=", "_JAVA_OPTIONS=", "JDK_JAVA_OPTIONS="];

/// Whether a process has code of a HotSpot JVM.
pub(super) fn maps_jvm(pid: u32) -> Result<bool, JavaError> {
    let mut kind = None;
    runtime_socket::code_names(pid, |file| note(&mut kind, file))
        .map_err(of_proc("read the mappings of the process"))?;
    if kind == Some(Kind::OpenJ9) { Err(JavaError::OpenJ9) } else { Ok(kind.is_some()) }
}

/// Checks that a process may get SIGQUIT now. Gives as whom it acts.
pub(super) fn check(pid: u32, start_ticks: u64) -> Result<Owner, JavaError> {
    if process::task::start_time(pid).ok() != Some(start_ticks) {
        return Err(JavaError::Gone);
    }
    if let Some(option) = forbidding_option(pid) {
        return Err(JavaError::Forbidden(option));
    }
    if !maps_jvm(pid)? {
        return Err(JavaError::Gone);
    }
    check_status(runtime_socket::status(pid).map_err(of_proc("read the status of the process"))?)
}

/// Of a process that is gone, all files are missing.
fn of_proc(attempt: &'static str) -> impl FnOnce(io::Error) -> JavaError {
    move |source| match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::SRCH) => JavaError::Gone,
        _ => JavaError::Io { attempt, source },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    HotSpot,
    OpenJ9,
}

/// Notes the JVM of which a file is the code. OpenJ9 counts where there are both.
fn note(found: &mut Option<Kind>, file: &str) {
    if file.starts_with("libj9vm") {
        *found = Some(Kind::OpenJ9);
    } else if file == "libjvm.so" {
        found.get_or_insert(Kind::HotSpot);
    }
}

fn check_status(status: Option<Status>) -> Result<Owner, JavaError> {
    let status = status.filter(|status| !status.is_gone()).ok_or(JavaError::Gone)?;
    if status.is_stopped() {
        return Err(JavaError::Stopped);
    }
    if status.caught & 1 << (SIGQUIT - 1) == 0 {
        return Err(JavaError::NotCaught);
    }
    Ok(status.owner)
}

fn forbidding_option(pid: u32) -> Option<&'static str> {
    let words = runtime_socket::proc_file(pid, "cmdline").unwrap_or_default();
    let environment = runtime_socket::proc_file(pid, "environ").unwrap_or_default();
    option_in(&String::from_utf8_lossy(&words), &String::from_utf8_lossy(&environment))
}

/// The first option that forbids asking, among the words of a command line and in an environment, each with zeros between them.
fn option_in(words: &str, environment: &str) -> Option<&'static str> {
    let in_variables = environment
        .split('\0')
        .filter_map(|text| VARIABLES.iter().find_map(|name| text.strip_prefix(name)))
        .flat_map(str::split_ascii_whitespace);
    words
        .split('\0')
        .chain(in_variables)
        .find_map(|word| FORBIDDING.into_iter().find(|option| *option == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_process_that_catches_the_signal_may_get_it() {
        let status = |state: &str, caught: &str| {
            format!("Name:\tjava\nState:\t{state}\nUid:\t1\t7\t1\t1\nGid:\t1\t8\t1\t1\nSigCgt:\t{caught}\n")
        };
        let check = |state, caught| {
            check_status(Status::parse(&status(state, caught))).map_err(|error| error.to_string())
        };
        assert_eq!(check("S (sleeping)", "0000000101005ccd"), Ok(Owner { uid: 7, gid: 8 }));
        assert_eq!(check("R (running)", "0000000000000004"), Ok(Owner { uid: 7, gid: 8 }));
        for caught in ["0000000101005cc9", "0000000000000000", "", "x"] {
            assert!(check("S (sleeping)", caught).unwrap_err().contains("would end it"), "{caught}");
        }
        assert!(check("T (stopped)", "4").unwrap_err().contains("stopped"));
        assert!(check("t (tracing stop)", "4").unwrap_err().contains("stopped"));
        assert!(check("Z (zombie)", "4").unwrap_err().contains("ended"));
        assert!(check_status(None).is_err());
    }

    #[test]
    fn options_that_forbid_are_found_where_a_jvm_takes_them_from() {
        let disable = "-XX:+DisableAttachMechanism";
        assert_eq!(option_in("java\0-Xrs\0Main\0", ""), Some("-Xrs"));
        assert_eq!(
            option_in("java\0Main\0", &format!("A=b\0JAVA_TOOL_OPTIONS=-Dx {disable}\0")),
            Some(disable)
        );
        assert_eq!(option_in("java\0Main\0", "_JAVA_OPTIONS=-Xrs"), Some("-Xrs"));
        assert_eq!(option_in("java\0-Xrsx\0-XX:-DisableAttachMechanism\0", "OTHER=-Xrs\0"), None);
    }

    #[test]
    fn the_code_of_a_jvm_tells_its_kind() {
        let kind = |files: &[&str]| {
            let mut kind = None;
            files.iter().for_each(|file| note(&mut kind, file));
            kind
        };
        assert_eq!(kind(&["libc.so.6", "libjvm.so"]), Some(Kind::HotSpot));
        assert_eq!(kind(&["libjvm.so.1", "java"]), None);
        for both in [["libjvm.so", "libj9vm29.so"], ["libj9vm29.so", "libjvm.so"]] {
            assert_eq!(kind(&both), Some(Kind::OpenJ9));
        }
    }

    #[test]
    fn this_process_is_no_jvm_and_gets_no_signal() {
        let own = std::process::id();
        let start = process::task::start_time(own).unwrap();
        assert!(!maps_jvm(own).unwrap());
        assert!(matches!(check(own, start), Err(JavaError::Gone)));
        assert!(matches!(check(own, start + 1), Err(JavaError::Gone)));
        assert!(matches!(maps_jvm(u32::MAX), Err(JavaError::Gone)));
    }
}
