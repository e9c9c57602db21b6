//! Root directories of containers, kept open, so that debug files are found there even after the process has ended.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, fstat, open, stat};

/// Files of further containers are searched in the own root only.
const MAX_ROOTS: usize = 256;

/// A root directory other than that of this process.
#[derive(Clone, Debug)]
pub struct ContainerRoot(Arc<OwnedFd>);

impl ContainerRoot {
    /// A path that leads there as long as this is held.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// The roots seen so far, each opened once.
#[derive(Debug, Default)]
pub(crate) struct ContainerRoots(Mutex<HashMap<(u64, u64), ContainerRoot>>);

impl ContainerRoots {
    /// The root in which the process in `proc_dir` maps a file. `None` if it is that of this process, or if the process is gone. A file
    /// that lies in the own root gets its names from there, so that no container can choose them. May block.
    pub(crate) fn of(&self, proc_dir: &Path, file: &File, path: &str) -> Option<ContainerRoot> {
        let root = proc_dir.join("root");
        let own = stat("/").map(|own| (own.st_dev, own.st_ino)).ok();
        let found = stat(&root).ok().map(|found| (found.st_dev, found.st_ino))?;
        if Some(found) == own {
            return None;
        }
        let stamp = fstat(file).ok().map(|file| (file.st_dev, file.st_ino));
        if stat(path).is_ok_and(|ours| stamp == Some((ours.st_dev, ours.st_ino))) {
            return None;
        }
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = known().get(&found) {
            return Some(root.clone());
        }
        if known().len() >= MAX_ROOTS {
            return None;
        }
        // Without the lock: a file system may be slow.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(&root, flags, Mode::empty()).ok()?;
        // The process may have changed its root since the check above.
        let opened = fstat(&fd).ok()?;
        let root = ContainerRoot(Arc::new(fd));
        Some(known().entry((opened.st_dev, opened.st_ino)).or_insert(root).clone())
    }

    /// Closes the roots that no file needs any more. They would keep the file systems of ended containers from being unmounted.
    pub(crate) fn prune(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, root| Arc::strong_count(&root.0) > 1);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A file that is in no root any more.
    fn deleted_file() -> File {
        tempfile::tempfile().unwrap()
    }

    fn root_of(roots: &ContainerRoots, pid: u32, file: &File, path: &str) -> Option<ContainerRoot> {
        roots.of(Path::new(&format!("/proc/{pid}")), file, path)
    }

    #[test]
    fn our_own_root_is_not_kept() {
        let file = deleted_file();
        assert!(root_of(&ContainerRoots::default(), std::process::id(), &file, "/deleted").is_none());
        assert!(root_of(&ContainerRoots::default(), u32::MAX, &file, "/deleted").is_none());
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
        let (file, ours) = (deleted_file(), File::open("/bin/cat").unwrap());
        let roots = ContainerRoots::default();
        let mut root = None;
        testkit::until("the process has another root, or may not have one", || {
            root = root_of(&roots, child.id(), &file, "/deleted");
            root.is_some() || child.try_wait().unwrap().is_some()
        });
        assert!(
            root_of(&roots, child.id(), &ours, "/bin/cat").is_none(),
            "the process maps a file of our own root"
        );
        let full = ContainerRoots::default();
        for number in 0..MAX_ROOTS as u64 {
            let any = ContainerRoot(Arc::new(File::open("/").unwrap().into()));
            full.0.lock().unwrap().insert((number, 0), any);
        }
        assert!(root_of(&full, child.id(), &file, "/deleted").is_none(), "there is a limit");
        let _ = child.kill();
        child.wait().unwrap();
        let Some(root) = root else {
            testkit::skip!("no chroot without CAP_SYS_CHROOT");
        };
        assert!(root.path().join("bin/cat").is_file());
        assert_eq!(roots.0.lock().unwrap().len(), 1);
    }
}
