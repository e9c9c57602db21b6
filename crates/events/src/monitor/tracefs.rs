//! tracefs: where it is, which tracepoints it has, and their formats.

use std::fs;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use tracepoints::Format;

use super::error::MonitorError;

/// Where tracefs is usually mounted.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Longest list of tracepoints that is read.
const MAX_LIST: u64 = 16 << 20;
/// Names that an error suggests.
const NEAR: usize = 3;

/// A mounted tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds it: `directory` if given, else where mountinfo says, else at the two usual places. If it is nowhere, and this process may mount, it gets a
    /// mount that no other process sees and that ends with this one.
    ///
    /// # Errors
    /// [`MonitorError::Tracefs`] with the places that were searched.
    pub fn find(directory: Option<&Path>) -> Result<Self, MonitorError> {
        let candidates: Vec<PathBuf> = match directory {
            Some(directory) => vec![directory.to_owned()],
            None => mounts("tracefs", None).into_iter().chain(USUAL.map(PathBuf::from)).collect(),
        };
        let found = candidates.iter().find(|root| root.join("events").is_dir());
        if let Some(root) = found {
            return Ok(Self { root: root.clone() });
        }
        if directory.is_none()
            && let Some(root) = detached()
        {
            return Ok(Self { root });
        }
        let mut searched =
            if directory.is_none() { vec!["/proc/self/mountinfo".to_owned()] } else { Vec::new() };
        searched.extend(candidates.iter().map(|path| path.display().to_string()));
        searched.dedup();
        Err(MonitorError::Tracefs { searched })
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All tracepoints as `group:event`, as `available_events` lists them, in order of their names.
    ///
    /// # Errors
    /// [`MonitorError::Read`].
    pub fn names(&self) -> Result<Vec<String>, MonitorError> {
        let text = self.read(&self.root.join("available_events"))?;
        let mut names: Vec<String> =
            text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The format of a tracepoint: `group:event` or `group/event`.
    ///
    /// # Errors
    /// [`MonitorError::UnknownTracepoint`] with similar names; [`MonitorError::Format`] if its text is not understood.
    pub fn format(&self, name: &str) -> Result<Format, MonitorError> {
        let unknown = |path: PathBuf| {
            let near = near(name, &self.names().unwrap_or_default());
            MonitorError::UnknownTracepoint { name: name.to_owned(), path, near }
        };
        let is_part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        };
        let parts = name
            .split_once([':', '/'])
            .filter(|(group, event)| is_part(group) && is_part(event) && *group != ".." && *event != "..");
        let Some((group, event)) = parts else {
            return Err(unknown(self.root.join("events").join("GROUP/EVENT")));
        };
        let directory = self.root.join("events").join(group).join(event);
        if !directory.is_dir() {
            return Err(unknown(directory));
        }
        let text = self.read(&directory.join("format"))?;
        Format::parse(&text).map_err(|source| MonitorError::Format { name: name.to_owned(), source })
    }

    fn read(&self, path: &Path) -> Result<String, MonitorError> {
        let mut text = String::new();
        let read = fs::File::open(path).and_then(|file| file.take(MAX_LIST).read_to_string(&mut text));
        read.map(|_| text).map_err(|source| MonitorError::Read { path: path.to_owned(), source })
    }
}

/// The path to a mount of this process alone. `None` without cap_sys_admin, or where the kernel has no tracefs.
fn detached() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mount = MOUNT.get_or_init(|| {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
        fsconfig_create(context.as_fd()).ok()?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).ok()
    });
    let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_ref()?.as_raw_fd()));
    root.join("events").is_dir().then_some(root)
}

/// The mount points of a type of file system whose options contain a word, of the root of that file system only.
pub(crate) fn mounts(kind: &str, option: Option<&str>) -> Vec<PathBuf> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    mounts_in(&String::from_utf8_lossy(&text), kind, option)
}

fn mounts_in(text: &str, kind: &str, option: Option<&str>) -> Vec<PathBuf> {
    let place = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let mut words = behind.split(' ');
        let is_kind = words.next() == Some(kind);
        let options = words.nth(1).unwrap_or_default();
        let has_option = option.is_none_or(|option| options.split(',').any(|word| word == option));
        let mut words = before.split(' ').skip(3);
        let (root, point) = (words.next()?, words.next()?);
        (is_kind && has_option && root == "/").then(|| PathBuf::from(point.replace("\\040", " ")))
    };
    text.lines().filter_map(place).collect()
}

/// Names with the same event in another group, then those that contain the event's name, then those of its group that begin most like it.
fn near(name: &str, all: &[String]) -> Vec<String> {
    let (group, event) = name.split_once([':', '/']).unwrap_or(("", name));
    if event.len() < 3 {
        return Vec::new();
    }
    let event_of = |known: &str| known.split_once(':').map_or("", |(_, event)| event).to_owned();
    let in_common = |known: &str| {
        event_of(known).bytes().zip(event.bytes()).take_while(|(one, other)| one == other).count()
    };
    let is_near = |known: &&String| {
        known.contains(event)
            || in_common(known) > 2 && known.split(':').next() == Some(group)
            || in_common(known) + 1 >= event.len()
    };
    let mut found: Vec<&String> = all.iter().filter(is_near).collect();
    found.sort_by_key(|known| {
        (event_of(known) != event, !known.contains(event), std::cmp::Reverse(in_common(known)), *known)
    });
    found.into_iter().take(NEAR).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 30 0:6 / /dev rw - devtmpfs udev rw,size=1k
40 30 0:28 / /sys/fs/cgroup/perf\\040event rw,nosuid shared:9 - cgroup cgroup rw,perf_event
41 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
42 30 0:12 /sub /mnt rw - tracefs tracefs rw
43 30 0:12 / /sys/kernel/tracing rw shared:2 - tracefs none rw
broken line";

    #[test]
    fn mounts_are_found_by_type_and_option() {
        assert_eq!(mounts_in(MOUNTS, "tracefs", None), [Path::new("/sys/kernel/tracing")]);
        assert_eq!(mounts_in(MOUNTS, "cgroup", Some("perf_event")), [Path::new("/sys/fs/cgroup/perf event")]);
        assert!(mounts_in(MOUNTS, "cgroup2", None).is_empty());
    }

    #[test]
    fn similar_names_are_suggested() {
        let all = ["sched:sched_switch", "sched:sched_waking", "xyz:sched_switch"].map(str::to_owned);
        assert_eq!(near("shced:sched_switch", &all), ["sched:sched_switch", "xyz:sched_switch"]);
        assert_eq!(
            near("sched:sched_switchs", &all),
            ["sched:sched_switch", "xyz:sched_switch", "sched:sched_waking"]
        );
        assert_eq!(near("sched:waking", &all), ["sched:sched_waking"]);
        assert_eq!(near("sched:sched_swich", &all), ["sched:sched_switch", "sched:sched_waking"]);
        assert!(near("a:b", &all).is_empty());
    }

    #[test]
    fn a_missing_tracefs_tells_where_it_was_searched() {
        let error = Tracefs::find(Some(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("mount -t tracefs"), "{error}");
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("events/a/b")).unwrap();
        fs::write(folder.path().join("events/a/b/format"), "name: b\nID: 5\n").unwrap();
        let tracefs = Tracefs::find(Some(folder.path())).unwrap();
        assert_eq!(tracefs.format("a:b").unwrap().id, 5);
        assert_eq!(tracefs.format("a/b").unwrap().id, 5);
        for name in ["a", "a:", ":b", "..:a", "a:..", "a:b/..", "a/b/../b", "a:c", ""] {
            assert!(matches!(tracefs.format(name), Err(MonitorError::UnknownTracepoint { .. })), "{name}");
        }
    }
}
