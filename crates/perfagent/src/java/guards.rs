//! What is checked before a process gets SIGQUIT.
//!
//! A program that maps `libjvm.so` and catches SIGQUIT has a running HotSpot: an exec would have removed both, and the JVM catches the
//! signal itself unless it was told not to. The checks are read from `/proc` each time; nothing that was known before counts.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

use rustix::io::Errno;

use super::error::JavaError;

/// Bytes of a list of mappings that are read.
const MAX_MAPS: u64 = 64 << 20;
/// Bytes of a command line or an environment that are read.
const MAX_WORDS: u64 = 1 << 20;
const SIGQUIT: u32 = 3;

/// Options with which the JVM either ends on SIGQUIT or does not listen.
const FORBIDDING: [&str; 3] = ["-Xrs", "-XX:+ReduceSignalUsage", "-XX:+DisableAttachMechanism"];
/// Variables that hold options of a JVM.
const VARIABLES: [&str; 3] = ["JAVA_TOOL_OPTIONS=", "_JAVA_OPTIONS=", "JDK_JAVA_OPTIONS="];

/// User and group as whom a process acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Whether a process has code of a HotSpot JVM.
pub(super) fn maps_jvm(pid: u32) -> Result<bool, JavaError> {
    let maps =
        File::open(format!("/proc/{pid}/maps")).map_err(of_proc("open the mappings of the process"))?;
    let kind =
        jvm_in(BufReader::new(maps.take(MAX_MAPS))).map_err(of_proc("read the mappings of the process"))?;
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
    let status = read_some(pid, "status").map_err(of_proc("read the status of the process"))?;
    check_status(&String::from_utf8_lossy(&status))
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

/// The JVM whose code is among these mappings.
fn jvm_in(mut maps: impl BufRead) -> io::Result<Option<Kind>> {
    let (mut found, mut line) = (None, Vec::new());
    loop {
        line.clear();
        if maps.by_ref().take(2 * 4096).read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        let text = String::from_utf8_lossy(&line);
        let Some((path, name)) = text.trim_end_matches('\n').rsplit_once('/') else { continue };
        let is_code = path.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        if is_code && name.starts_with("libj9vm") {
            return Ok(Some(Kind::OpenJ9));
        }
        if is_code && name == "libjvm.so" {
            found = Some(Kind::HotSpot);
        }
    }
}

fn check_status(status: &str) -> Result<Owner, JavaError> {
    let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    // Real, effective, saved, of the file system.
    let effective = |key: &str| field(key)?.split_ascii_whitespace().nth(1)?.parse::<u32>().ok();
    match field("State:").and_then(|state| state.chars().next()) {
        None | Some('Z' | 'X' | 'x') => return Err(JavaError::Gone),
        Some('T' | 't') => return Err(JavaError::Stopped),
        Some(_) => {}
    }
    let caught = field("SigCgt:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    if caught & 1 << (SIGQUIT - 1) == 0 {
        return Err(JavaError::NotCaught);
    }
    let (Some(uid), Some(gid)) = (effective("Uid:"), effective("Gid:")) else { return Err(JavaError::Gone) };
    Ok(Owner { uid, gid })
}

fn forbidding_option(pid: u32) -> Option<&'static str> {
    let words = read_some(pid, "cmdline").unwrap_or_default();
    let environment = read_some(pid, "environ").unwrap_or_default();
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

fn read_some(pid: u32, file: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/{file}"))?.take(MAX_WORDS).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_process_that_catches_the_signal_may_get_it() {
        let status = |state: &str, caught: &str| {
            format!("Name:\tjava\nState:\t{state}\nUid:\t1\t7\t1\t1\nGid:\t1\t8\t1\t1\nSigCgt:\t{caught}\n")
        };
        let check = |state, caught| check_status(&status(state, caught)).map_err(|error| error.to_string());
        assert_eq!(check("S (sleeping)", "0000000101005ccd"), Ok(Owner { uid: 7, gid: 8 }));
        assert_eq!(check("R (running)", "0000000000000004"), Ok(Owner { uid: 7, gid: 8 }));
        for caught in ["0000000101005cc9", "0000000000000000", "", "x"] {
            assert!(check("S (sleeping)", caught).unwrap_err().contains("would end it"), "{caught}");
        }
        assert!(check("T (stopped)", "4").unwrap_err().contains("stopped"));
        assert!(check("t (tracing stop)", "4").unwrap_err().contains("stopped"));
        assert!(check("Z (zombie)", "4").unwrap_err().contains("ended"));
        assert!(check_status("").is_err());
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
        let line = |rights: &str, path: &str| format!("7f00-7f01 {rights} 00000000 08:01 5    {path}\n");
        let kind = |text: &str| jvm_in(text.as_bytes()).unwrap();
        let hot_spot = line("r-xp", "/usr/lib/jvm/a b/lib/server/libjvm.so");
        assert_eq!(kind(&hot_spot), Some(Kind::HotSpot));
        assert_eq!(kind(&line("r-xp", "/x/libjvm.so (deleted)")), Some(Kind::HotSpot));
        assert_eq!(kind(&line("r--p", "/x/libjvm.so")), None);
        assert_eq!(kind(&line("r-xp", "/x/libjvm.so.1")), None);
        assert_eq!(kind(&[hot_spot, line("r-xp", "/x/libj9vm29.so")].concat()), Some(Kind::OpenJ9));
        assert_eq!(kind(&line("r-xp", "[vdso]")), None);
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
