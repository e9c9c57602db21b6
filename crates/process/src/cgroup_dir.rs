//! Control groups of version 2 by path or container.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::cgroup;

/// Inode of the first cgroup namespace: PROC_CGROUP_INIT_INO, include/linux/proc_ns.h.
pub(crate) const FIRST_NAMESPACE: u64 = 0xefff_fffb;
/// The kernel's programs look at so many levels.
const MAX_LEVEL: u32 = 31;

/// A control group of version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupDir {
    /// Its directory.
    pub path: PathBuf,
    /// Its id in the kernel.
    pub id: u64,
    /// The lowest and the highest level that it may have; one level, unless a cgroup namespace hides how deep it is.
    pub levels: (u32, u32),
}

/// Why there is no such control group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// No cgroup2 file system is mounted.
    #[error("no control groups of version 2 are mounted here")]
    NotMounted,
    /// Neither a path nor a container.
    #[error("there is no such control group of version 2, and no container with this id")]
    NotFound,
    /// Several containers have an id that begins so.
    #[error("the ids of several containers begin so: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
}

/// Where a cgroup2 file system is mounted.
struct Mount {
    point: PathBuf,
    /// The group at that point, as a path of the hierarchy.
    root: PathBuf,
}

/// Finds a control group by its directory, by its path in the hierarchy, or by the id of a container, of which 12 digits or
/// more are enough.
///
/// # Errors
/// [`CgroupError`].
pub fn find(word: &str) -> Result<CgroupDir, CgroupError> {
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    if mounts.is_empty() {
        return Err(CgroupError::NotMounted);
    }
    let whole = fs::canonicalize(word).ok();
    let by_path = mounts.iter().flat_map(|mount| {
        let inside = mount.point.join(word.trim_start_matches('/'));
        let given = whole.clone().filter(|path| path.starts_with(&mount.point));
        [given, Some(inside).filter(|path| path.is_dir())]
            .into_iter()
            .flatten()
            .map(move |path| (mount, path))
    });
    if let Some(found) = by_path.filter_map(|(mount, path)| of(mount, path)).next() {
        return Ok(found);
    }
    let mut found = Vec::new();
    if let Some(mount) = mounts.first().filter(|_| word.len() >= 12) {
        find_container(&mount.point, word, &mut found);
        found.sort();
        // The groups below that of a container are in it.
        found.dedup_by(|inner, outer| inner.starts_with(outer));
        if let [one] = &found[..] {
            return of(mount, one.clone()).ok_or(CgroupError::NotFound);
        }
    }
    match found.is_empty() {
        true => Err(CgroupError::NotFound),
        false => Err(CgroupError::Ambiguous(found.iter().map(|path| path.display().to_string()).collect())),
    }
}

fn of(mount: &Mount, path: PathBuf) -> Option<CgroupDir> {
    let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
    let below = depth(path.strip_prefix(&mount.point).ok()?);
    let is_first = fs::metadata("/proc/self/ns/cgroup").is_ok_and(|own| own.ino() == FIRST_NAMESPACE);
    let levels =
        if is_first { (depth(&mount.root) + below, depth(&mount.root) + below) } else { (below, MAX_LEVEL) };
    Some(CgroupDir { path, id: metadata.ino(), levels })
}

fn depth(path: &Path) -> u32 {
    path.components().filter(|part| matches!(part, Component::Normal(_))).count() as u32
}

/// The mounts of cgroup2 file systems in the text of `/proc/PID/mountinfo`.
fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let mut fields = front.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (back.split(' ').next()? == "cgroup2")
            .then(|| Mount { point: unescaped(point).into(), root: unescaped(root).into() })
    };
    text.lines().filter_map(mount).collect()
}

/// The kernel writes a blank in a path as `\\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ")
}

/// Adds the directories below `folder` that are groups of a container with this id.
fn find_container(folder: &Path, id: &str, found: &mut Vec<PathBuf>) {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = entry.path();
        let container = cgroup::of_path(&path.to_string_lossy()).container_id;
        if container.is_some_and(|container| container.starts_with(id)) {
            found.push(path);
        } else {
            find_container(&path, id, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_roots() {
        let text = "25 1 0:22 / /proc rw - proc proc rw\n\
                    35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n\
                    36 25 0:30 /a/b /mnt/a\\040b rw - cgroup2 none rw\n";
        let found = mounts(text);
        let paths: Vec<_> =
            found.iter().map(|mount| (mount.root.to_str().unwrap(), mount.point.to_str().unwrap())).collect();
        assert_eq!(paths, [("/", "/sys/fs/cgroup"), ("/a/b", "/mnt/a b")]);
        assert_eq!([depth(&found[0].root), depth(&found[1].root)], [0, 2]);
    }

    #[test]
    fn containers_are_found_by_the_begin_of_their_id() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = ("ab".repeat(32), format!("abababababab{}", "0".repeat(52)));
        for path in
            [format!("system.slice/docker-{one}.scope/init.scope"), format!("docker/{two}"), "x".to_owned()]
        {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let find = |id: &str| {
            let mut found = Vec::new();
            find_container(folder.path(), id, &mut found);
            found.len()
        };
        assert_eq!([find(&one), find(&two[..16]), find("abababababab"), find("ffffffffffff")], [1, 1, 2, 0]);
    }
}
