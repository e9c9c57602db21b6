//! The facts of processes and threads, from `/proc`.
//!
//! All PIDs are those of the PID namespace that `/proc` belongs to; [`proc_is_own`] tells whether it is our own. Every file
//! is read up to a limit.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::Error;

/// Bytes of a file in `/proc/PID` that are read, unless the caller has another limit.
const MAX_BYTES: u64 = 1 << 16;

/// Bit of a task's flags: a kernel thread.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The content of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Name of the first thread. Bytes that are not UTF-8 are replaced.
    pub comm: String,
    /// `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// The parent.
    pub parent: u32,
    /// Whether it is a kernel thread.
    pub is_kernel_thread: bool,
    /// CPU time of all its threads, also of those that have ended, in clock ticks.
    pub cpu_ticks: u64,
    /// Start in clock ticks since boot. It tells apart processes with the same PID.
    pub start_time_ticks: u64,
}

/// The identity of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// Device of the file system of namespaces.
    pub device: u64,
    /// Inode there.
    pub inode: u64,
}

/// All processes, in no order.
///
/// # Errors
/// The errno of reading `/proc`.
pub fn list_processes() -> io::Result<Vec<u32>> {
    numbers_in(Path::new("/proc"))
}

/// All processes with their parents, in no order. A process that ends meanwhile may be missing.
///
/// # Errors
/// The errno of reading `/proc`.
pub fn parents() -> io::Result<Vec<(u32, u32)>> {
    Ok(list_processes()?.into_iter().filter_map(|pid| Some((pid, stat(pid).ok()?.parent))).collect())
}

/// All threads of a process, in no order.
///
/// # Errors
/// [`Error::Gone`] if there is no such process.
pub fn threads(pid: u32) -> Result<Vec<u32>, Error> {
    let path = format!("/proc/{pid}/task");
    numbers_in(Path::new(&path)).map_err(|source| Error::of(pid, Path::new(&path), source))
}

fn numbers_in(folder: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Reads `/proc/PID/stat`.
///
/// # Errors
/// [`Error::Gone`] if there is no such process.
pub fn stat(pid: u32) -> Result<Stat, Error> {
    let path = format!("/proc/{pid}/stat");
    let text = read(pid, &path)?;
    parse_stat(&text).ok_or_else(|| malformed(pid, path))
}

/// The content of `/proc/PID/stat`, whose name part may hold any bytes. None if it is malformed.
#[must_use]
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may itself contain some.
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let comm = text.get(open + 1..close)?;
    let mut fields = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    let user: u64 = fields.nth(4)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let start_time_ticks = fields.nth(6)?.parse().ok()?;
    Some(Stat {
        comm: String::from_utf8_lossy(comm).into_owned(),
        state,
        parent,
        is_kernel_thread: flags & PF_KTHREAD != 0,
        cpu_ticks: user.saturating_add(system),
        start_time_ticks,
    })
}

/// Start of a process, in clock ticks since boot.
///
/// # Errors
/// [`Error::Gone`] if there is no such process.
pub fn start_time(pid: u32) -> Result<u64, Error> {
    Ok(stat(pid)?.start_time_ticks)
}

/// Whether a process is a kernel thread.
///
/// # Errors
/// [`Error::Gone`] if there is no such process.
pub fn is_kernel_thread(pid: u32) -> Result<bool, Error> {
    Ok(stat(pid)?.is_kernel_thread)
}

/// Name of a process.
///
/// # Errors
/// [`Error::Gone`] if there is no such process.
pub fn comm(pid: u32) -> Result<String, Error> {
    name_in(pid, &format!("/proc/{pid}/comm"))
}

/// Name of a thread.
///
/// # Errors
/// [`Error::Gone`] if there is no such thread in this process.
pub fn thread_comm(pid: u32, tid: u32) -> Result<String, Error> {
    name_in(pid, &format!("/proc/{pid}/task/{tid}/comm"))
}

fn name_in(pid: u32, path: &str) -> Result<String, Error> {
    let text = read(pid, path)?;
    Ok(String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(&text)).into_owned())
}

/// The process that a thread belongs to; a process belongs to itself.
///
/// # Errors
/// [`Error::Gone`] if there is no such thread.
pub fn tgid_of(tid: u32) -> Result<u32, Error> {
    let numbers = status_numbers(tid, "Tgid:")?;
    numbers.first().copied().ok_or_else(|| malformed(tid, format!("/proc/{tid}/status")))
}

/// PIDs of a process in all its PID namespaces: from the namespace of this `/proc` to the innermost. Kernels before 4.1
/// show the first alone.
///
/// # Errors
/// [`Error::Gone`] if there is no such process.
pub fn ns_pids(pid: u32) -> Result<Vec<u32>, Error> {
    let pids = status_numbers(pid, "NSpid:")?;
    Ok(if pids.is_empty() { vec![pid] } else { pids })
}

fn status_numbers(pid: u32, key: &str) -> Result<Vec<u32>, Error> {
    let text = read(pid, &format!("/proc/{pid}/status"))?;
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(key.as_bytes()));
    let numbers = line.and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    Ok(numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
}

/// The PID namespace of a process.
///
/// # Errors
/// [`Error::Gone`] if there is no such process, [`Error::Permission`] without the right to trace it.
pub fn pid_namespace(pid: u32) -> Result<Namespace, Error> {
    let path = format!("/proc/{pid}/ns/pid");
    let data = fs::metadata(&path).map_err(|source| Error::of(pid, Path::new(&path), source))?;
    Ok(Namespace { device: data.dev(), inode: data.ino() })
}

/// The processes in nested PID namespaces whose PID there is `innermost`.
///
/// # Errors
/// The errno of reading `/proc`.
pub fn find_by_innermost_pid(innermost: u32) -> io::Result<Vec<u32>> {
    let nested =
        |pid: &u32| ns_pids(*pid).is_ok_and(|pids| pids.len() > 1 && pids.last() == Some(&innermost));
    Ok(list_processes()?.into_iter().filter(nested).collect())
}

/// Whether `/proc` shows the PID namespace of this process. It does not if it was mounted in another one.
#[must_use]
pub fn proc_is_own() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    shown.and_then(|pid| pid.to_str()?.parse().ok()) == Some(std::process::id())
}

pub(crate) fn read_capped(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read(pid: u32, path: &str) -> Result<Vec<u8>, Error> {
    let path = Path::new(path);
    read_capped(path, MAX_BYTES).map_err(|source| Error::of(pid, path, source))
}

fn malformed(pid: u32, path: String) -> Error {
    Error::Io {
        pid,
        path,
        source: io::Error::new(io::ErrorKind::InvalidData, "not in the form that is known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let text = b"42 (a) R 1) b) S 7 42 42 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!((&*stat.comm, stat.state, stat.parent), ("a) R 1) b", 'S', 7));
        assert_eq!((stat.is_kernel_thread, stat.start_time_ticks), (true, 12345));
        assert_eq!(parse_stat(b"42 (cut) S 7"), None);
        assert_eq!(parse_stat(b")("), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn knows_this_process() {
        let own = std::process::id();
        assert!(list_processes().unwrap().contains(&own));
        let facts = stat(own).unwrap();
        assert_eq!(facts.parent, std::os::unix::process::parent_id());
        assert!(!facts.is_kernel_thread);
        assert_eq!(facts.comm, comm(own).unwrap());
        assert!(parents().unwrap().contains(&(own, facts.parent)));
        assert_eq!(ns_pids(own).unwrap().first(), Some(&own));
        assert!(proc_is_own());
    }

    #[test]
    fn a_thread_leads_to_its_process() {
        let own = std::process::id();
        let thread = std::thread::Builder::new().name("a\nthread".to_owned());
        let tid = || rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        thread
            .spawn(move || {
                assert_eq!(tgid_of(tid()).unwrap(), own);
                assert!(threads(own).unwrap().contains(&tid()));
                assert_eq!(thread_comm(own, tid()).unwrap(), "a\nthread");
            })
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn tells_gone_from_other_errors() {
        assert!(matches!(stat(u32::MAX), Err(Error::Gone { pid: u32::MAX })));
        assert!(matches!(threads(u32::MAX), Err(Error::Gone { .. })));
        assert!(matches!(tgid_of(u32::MAX), Err(Error::Gone { .. })));
    }

    #[test]
    fn kernel_threads_are_told_apart() {
        // PID 2 is kthreadd, where the PID namespace is that of the machine.
        if comm(2).is_ok_and(|name| name == "kthreadd") {
            assert!(is_kernel_thread(2).unwrap());
        } else {
            testkit::skipped("no kernel thread to be seen in this PID namespace");
        }
    }
}
