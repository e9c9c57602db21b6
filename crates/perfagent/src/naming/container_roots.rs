//! Root directories of containers, kept open, so that debug files are found there even after the process has ended.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use process::MappedFile;
use rustix::fs::{Mode, OFlags, Stat, fstat, open, stat};

/// Files of further containers are searched in the agent's own root only.
const MAX_ROOTS: usize = 256;

/// A root directory other than the agent's own.
#[derive(Clone, Debug)]
pub(crate) struct ContainerRoot(Arc<OwnedFd>);

impl ContainerRoot {
    /// A path that leads there as long as this is held.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// The roots seen so far, each opened once.
#[derive(Debug, Default)]
pub(crate) struct ContainerRoots(HashMap<(u64, u64), ContainerRoot>);

impl ContainerRoots {
    /// The root in which a process maps a file. `None` if it is the agent's own, or if the process is gone. A file that lies in the
    /// agent's own root gets its names from there, so that no container can choose them.
    pub(crate) fn of(&mut self, pid: u32, file: &MappedFile) -> Option<ContainerRoot> {
        let path = format!("/proc/{pid}/root");
        let own = stat("/").map(|own| (own.st_dev, own.st_ino)).ok();
        let found = stat(&path).ok().map(|found| (found.st_dev, found.st_ino))?;
        if Some(found) == own {
            return None;
        }
        // After the cheap checks: the path is chosen by the process and may lead to a file system that does not answer.
        let stamp = file.stamp();
        let same = |ours: Stat| stamp.is_some_and(|s| (s.device, s.inode) == (ours.st_dev, ours.st_ino));
        if stat(file.path()).is_ok_and(same) {
            return None;
        }
        if let Some(root) = self.0.get(&found) {
            return Some(root.clone());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(&path, flags, Mode::empty()).ok().filter(|_| self.0.len() < MAX_ROOTS)?;
        // The process may have changed its root since the check above.
        let opened = fstat(&fd).ok()?;
        let root = ContainerRoot(Arc::new(fd));
        self.0.insert((opened.st_dev, opened.st_ino), root.clone());
        Some(root)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    /// A file that is in no root any more.
    fn deleted_file() -> MappedFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        MappedFile::open(file.path()).unwrap()
    }

    #[test]
    fn our_own_root_is_not_kept() {
        let file = deleted_file();
        assert!(ContainerRoots::default().of(std::process::id(), &file).is_none());
        assert!(ContainerRoots::default().of(u32::MAX, &file).is_none());
    }

    #[test]
    fn another_root_outlives_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "set -e; cd {}; for file in $(ldd /bin/cat | grep -o '/[^ ]*') /bin/cat; \
             do mkdir -p .$(dirname $file); cp $file .$file; done; exec chroot . /bin/cat",
            folder.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (file, ours) = (deleted_file(), MappedFile::open(Path::new("/bin/cat")).unwrap());
        let mut roots = ContainerRoots::default();
        let root = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            (roots.of(child.id(), &file), child.try_wait().unwrap())
        })
        .find_map(|(root, ended)| (root.is_some() || ended.is_some()).then_some(root))
        .flatten();
        assert!(roots.of(child.id(), &ours).is_none(), "a file of our own, whoever maps it");
        let _ = child.kill();
        child.wait().unwrap();
        let Some(root) = root else {
            testkit::skip!("no chroot without CAP_SYS_CHROOT");
        };
        assert!(root.path().join("bin/cat").is_file());
        assert_eq!(roots.0.len(), 1);
    }
}
