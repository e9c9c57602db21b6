//! The program that a perf map belongs to: where its map is, also after the process has ended, and whether the map is
//! from this program.
//!
//! The map is named by the PID, and the same PID is used again: by a later process, by the next program after an exec, in
//! other PID namespaces. So a map counts only if it was last written while its program ran.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_getres};
use sys::reopen::reopen;

use super::error::PerfMapError;

/// Where maps are.
const FOLDER: &str = "tmp";

/// A program as the owner of a perf map. It is made while the program runs, and finds the map after its end, too.
#[derive(Debug)]
pub struct PerfMapOwner {
    pid: u32,
    /// Its PID in its own, innermost PID namespace, which is in the name of its map.
    nspid: u32,
    folder: Folder,
    /// Users whose files are accepted: the owner of the process's directory in `/proc`, and its effective user.
    users: [u32; 2],
    began: SystemTime,
    /// When its recording ended: a map that was made later is that of another program with its number.
    recorded_until: Option<SystemTime>,
}

/// The `/tmp` of a process.
#[derive(Debug)]
enum Folder {
    Ours,
    Theirs(OwnedFd),
    /// There is none, or looking at it is not permitted.
    Closed(Errno),
}

impl PerfMapOwner {
    /// Reads the facts of a running process. `nspid` is its PID in its own innermost PID namespace, `began` the time of the
    /// fork or exec that started its program. The caller makes sure that the PID still names that process.
    ///
    /// # Errors
    /// The errno of looking at the process, if it is gone. If its `/tmp` is closed to us, opening the map fails later.
    pub fn of(pid: u32, nspid: u32, began: SystemTime) -> io::Result<Self> {
        // The directory of a process that is not dumpable belongs to root.
        let user = std::fs::metadata(format!("/proc/{pid}"))?.uid();
        let users = [user, effective_user(pid).unwrap_or(user)];
        let folder = match foreign_folder(pid) {
            Ok(Some(folder)) => Folder::Theirs(folder),
            Ok(None) => Folder::Ours,
            Err(error @ (Errno::ACCESS | Errno::PERM | Errno::NOENT)) => Folder::Closed(error),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { pid, nspid, folder, users, began, recorded_until: None })
    }

    /// A process of a recording of another profiler, which may have ended since. Its map is looked for in our `/tmp`, and counts if it was made
    /// before the recording ended. `until`: when that was.
    #[must_use]
    pub fn of_recorded(pid: u32, until: SystemTime) -> Self {
        let ours = rustix::process::geteuid().as_raw();
        let user = std::fs::metadata(format!("/proc/{pid}")).map_or(ours, |of| of.uid());
        Self {
            pid,
            nspid: pid,
            folder: Folder::Ours,
            users: [user, ours],
            began: SystemTime::UNIX_EPOCH,
            recorded_until: Some(until),
        }
    }

    /// Whether it holds a descriptor.
    #[must_use]
    pub fn holds_folder(&self) -> bool {
        matches!(self.folder, Folder::Theirs(_))
    }

    /// Looks for the map without reading it.
    ///
    /// # Errors
    /// [`PerfMapError`] if there is no map, or no trustworthy one.
    pub fn find(&self) -> Result<(), PerfMapError> {
        self.open(None).map(drop)
    }

    /// Opens the map: first in the folder of the process with the PID of its namespace, then in our `/tmp` with the PID
    /// here.
    pub(super) fn open(&self, ended: Option<SystemTime>) -> Result<File, PerfMapError> {
        let own =
            open(format!("/{FOLDER}"), OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY, Mode::empty())
                .ok();
        let (theirs, shown) = match &self.folder {
            Folder::Theirs(folder) => (Some(folder), format!("/proc/{}/root/{FOLDER}", self.pid)),
            Folder::Ours => (own.as_ref(), format!("/{FOLDER}")),
            Folder::Closed(_) => (None, format!("/proc/{}/root/{FOLDER}", self.pid)),
        };
        let candidates = [
            (theirs, format!("{shown}/{}", file_name(self.nspid)), file_name(self.nspid)),
            (own.as_ref(), format!("/{FOLDER}/{}", file_name(self.pid)), file_name(self.pid)),
        ];
        let (mut tried, mut refusal) = (Vec::new(), None);
        for (folder, shown, name) in candidates {
            let shown = PathBuf::from(shown);
            if tried.contains(&shown) {
                continue;
            }
            match folder.map(|folder| self.open_in(folder, &name, &shown, ended)) {
                Some(Ok(file)) => return Ok(file),
                Some(Err(PerfMapError::Missing { .. })) | None => {}
                Some(Err(error)) => drop(refusal.get_or_insert(error)),
            }
            tried.push(shown);
        }
        Err(refusal.unwrap_or_else(|| match (&self.folder, tried.first()) {
            (Folder::Closed(error @ (Errno::ACCESS | Errno::PERM)), Some(path)) => {
                PerfMapError::Io { pid: self.pid, path: path.clone(), source: (*error).into() }
            }
            _ => PerfMapError::Missing { pid: self.pid, tried },
        }))
    }

    fn open_in(
        &self,
        folder: &OwnedFd,
        name: &str,
        shown: &Path,
        ended: Option<SystemTime>,
    ) -> Result<File, PerfMapError> {
        let io = |source| PerfMapError::Io { pid: self.pid, path: shown.to_owned(), source };
        let refused = |reason| PerfMapError::Refused { pid: self.pid, path: shown.to_owned(), reason };
        // A handle that can be examined; nothing is opened for reading yet.
        let handle = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let handle = match openat(folder, name, handle, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::SRCH) => {
                return Err(PerfMapError::Missing { pid: self.pid, tried: vec![shown.to_owned()] });
            }
            Err(error) => return Err(io(error.into())),
        };
        match FileType::from_raw_mode(fstat(&handle).map_err(|error| io(error.into()))?.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(refused("it is a symbolic link")),
            _ => return Err(refused("it is not a regular file")),
        }
        let file = match reopen(&handle) {
            Ok(file) => file,
            Err(Errno::AGAIN) => return Err(refused("another process has a lease on it")),
            Err(error) => return Err(io(error.into())),
        };
        let meta = file.metadata().map_err(io)?;
        if meta.uid() != 0 && !self.users.contains(&meta.uid()) {
            return Err(refused("it belongs neither to the user of the process nor to root"));
        }
        let written = written(&meta).map_err(io)?;
        // Where the time of creation is not known, that of the last change is later than it.
        let made = meta.created().unwrap_or(written);
        if self.recorded_until.is_some_and(|until| made > tick_after(until)) {
            return Err(refused(
                "it was made after the recording had ended, by another program with its number",
            ));
        }
        if tick_after(written) < self.began {
            return Err(refused(
                "it was last written before this program began: by another one with its number, or the clock was set since",
            ));
        }
        if ended.is_some_and(|ended| written > tick_after(ended)) {
            return Err(refused(
                "it was written after this program had ended: by another one with its number, or the clock was set since",
            ));
        }
        Ok(file)
    }
}

fn file_name(pid: u32) -> String {
    format!("perf-{pid}.map")
}

/// When a map was last written.
pub(super) fn written(meta: &Metadata) -> io::Result<SystemTime> {
    meta.modified()
}

/// The clock of file times lags behind by at most this much.
fn tick() -> Duration {
    let coarse = clock_getres(ClockId::RealtimeCoarse);
    Duration::new(coarse.tv_sec.unsigned_abs(), u32::try_from(coarse.tv_nsec).unwrap_or(0))
}

/// One tick later, or the same time if it is the last that can be stored: files may have any time.
pub(crate) fn tick_after(time: SystemTime) -> SystemTime {
    time.checked_add(tick()).unwrap_or(time)
}

/// The `/tmp` of a process, if it is not ours.
fn foreign_folder(pid: u32) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let root = open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let theirs = match openat2(&root, FOLDER, flags, Mode::empty(), inside) {
        Err(Errno::NOSYS) => openat(&root, FOLDER, flags | OFlags::NOFOLLOW, Mode::empty()),
        other => other,
    }?;
    let ours = open(format!("/{FOLDER}"), flags, Mode::empty()).ok();
    let same = ours.is_some_and(|ours| place(&ours).is_some_and(|ours| Some(ours) == place(&theirs)));
    Ok((!same).then_some(theirs))
}

fn place(folder: impl AsFd) -> Option<(u64, u64)> {
    fstat(folder).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

fn effective_user(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use super::*;

    /// The name in the first line of a map.
    fn first_name(file: File) -> String {
        let text = io::read_to_string(file).unwrap();
        text.trim_end().rsplit(' ').next().unwrap().to_owned()
    }

    const HOUR: Duration = Duration::from_secs(3600);

    fn opened(nspid: u32, began: SystemTime, ended: Option<SystemTime>) -> Result<String, PerfMapError> {
        let owner = PerfMapOwner::of(std::process::id(), nspid, began).unwrap();
        assert!(!owner.holds_folder());
        owner.open(ended).map(first_name)
    }

    #[test]
    fn no_tick_follows_the_last_possible_time() {
        let mut last = SystemTime::UNIX_EPOCH;
        for power in (0..63).rev() {
            last = last.checked_add(Duration::from_secs(1 << power)).unwrap_or(last);
        }
        last += Duration::from_nanos(999_999_999);
        assert_eq!(tick_after(last), last);
        assert!(tick_after(SystemTime::UNIX_EPOCH) > SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn the_map_in_our_folder_is_used_if_theirs_is_closed() {
        // No process can have this number, so the file is this test's own.
        let pid = u32::MAX - 2 - std::process::id();
        let closed = |error| PerfMapOwner {
            pid,
            nspid: 7,
            folder: Folder::Closed(error),
            users: [rustix::process::geteuid().as_raw(); 2],
            began: SystemTime::UNIX_EPOCH,
            recorded_until: None,
        };
        let denied = closed(Errno::ACCESS).open(None).unwrap_err();
        let text = format!("{denied}");
        assert!(text.contains("/root/tmp/perf-7.map") && text.contains("ermission denied"), "{text}");
        assert!(matches!(closed(Errno::NOENT).open(None), Err(PerfMapError::Missing { .. })));
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "10 10 name\n").unwrap();
        let opened = closed(Errno::ACCESS).open(None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(first_name(opened.unwrap()), "name");
    }

    #[test]
    fn files_of_others_links_and_pipes_are_refused() {
        // No process can have this number in its namespace, so the file is this test's own.
        let nspid = u32::MAX - std::process::id();
        let path = format!("/tmp/perf-{nspid}.map");
        let long_ago = SystemTime::UNIX_EPOCH;
        assert!(matches!(opened(nspid, long_ago, None), Err(PerfMapError::Missing { .. })));
        std::fs::write(&path, "10 10 good\n").unwrap();
        assert_eq!(opened(nspid, long_ago, None).unwrap(), "good");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let link = opened(nspid, long_ago, None);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(link, Err(PerfMapError::Refused { .. })), "{link:?}");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from(0o600)).unwrap();
        let pipe = opened(nspid, long_ago, None);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(pipe, Err(PerfMapError::Refused { .. })), "{pipe:?}");
        if rustix::process::geteuid().is_root() {
            std::fs::write(&path, "10 10 planted\n").unwrap();
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            let planted = opened(nspid, long_ago, None);
            std::fs::remove_file(&path).unwrap();
            assert!(matches!(planted, Err(PerfMapError::Refused { .. })), "{planted:?}");
        }
    }

    #[test]
    fn a_map_of_another_program_with_the_same_pid_is_refused() {
        let nspid = u32::MAX - 1 - std::process::id();
        let path = format!("/tmp/perf-{nspid}.map");
        std::fs::write(&path, "10 10 name\n").unwrap();
        let now = std::fs::metadata(&path).unwrap().modified().unwrap();
        let said = [
            opened(nspid, now, None),
            opened(nspid, now - HOUR, Some(now)),
            opened(nspid, now + HOUR, None),
            opened(nspid, now - HOUR, Some(now - HOUR / 2)),
        ];
        std::fs::remove_file(&path).unwrap();
        let [fresh, of_the_dead, former, later] = said;
        assert_eq!((fresh.unwrap(), of_the_dead.unwrap()), ("name".to_owned(), "name".to_owned()));
        assert!(former.unwrap_err().to_string().contains("before this program began"));
        assert!(later.unwrap_err().to_string().contains("after this program had ended"));
    }

    #[test]
    fn a_map_that_is_younger_than_a_recording_is_refused() {
        let pid = u32::MAX - 3 - std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "10 10 name\n").unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        let made = meta.created().or_else(|_| meta.modified()).unwrap();
        let open = |until| PerfMapOwner::of_recorded(pid, until).open(None).map(first_name);
        let (before, after) = (open(made - HOUR), open(made + HOUR));
        std::fs::remove_file(&path).unwrap();
        assert!(before.unwrap_err().to_string().contains("made after the recording had ended"));
        assert_eq!(after.unwrap(), "name");
        assert!(matches!(open(made), Err(PerfMapError::Missing { .. })));
    }

    #[test]
    fn a_map_in_another_mount_namespace_is_found_after_the_end() {
        let script = "mount -t tmpfs none /tmp && echo '10 10 inside' > /tmp/perf-$$.map && echo ready && exec sleep 60";
        let Some(mut command) = testkit::unshare(&["--mount"]) else { return };
        let mut child = command.args(["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let owner = PerfMapOwner::of(child.id(), child.id(), SystemTime::UNIX_EPOCH);
        let _ = child.kill();
        child.wait().unwrap();
        assert_eq!(line, "ready\n");
        let owner = owner.unwrap();
        assert!(owner.holds_folder());
        assert_eq!(first_name(owner.open(None).unwrap()), "inside");
    }
}
