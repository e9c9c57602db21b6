//! The directory of the cache: which one, and whether it is safe to use.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use tempfile::TempDir;

/// Why a directory cannot be the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheDirError {
    /// It exists and is something else.
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    /// It is another user's.
    #[error("{path} belongs to user {uid}, who could plant files in it")]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Others may write into it.
    #[error("{path} is writable by other users (mode {mode:03o}), who could plant files in it")]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be made, read or written.
    #[error("{path}: {source}")]
    System {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The usual directory: `perf-agent/debuginfod` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`. `None` if neither is set.
#[must_use]
pub fn default_cache_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("perf-agent/debuginfod"))
}

/// Whether a directory can be the cache. Changes nothing: a missing directory is made when it is needed.
///
/// # Errors
/// [`CacheDirError`]
pub fn check_cache_dir(path: &Path) -> Result<(), CacheDirError> {
    let system = |path: &Path, source| CacheDirError::System { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Ok(meta) => {
            judge(path, meta.is_dir(), meta.uid(), meta.mode())?;
            access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| system(path, errno.into()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = path.ancestors().skip(1).map(|above| match above.as_os_str().is_empty() {
                true => Path::new("."),
                false => above,
            });
            let Some(existing) = above.into_iter().find(|above| above.exists()) else {
                return Err(system(path, error));
            };
            if !existing.is_dir() {
                return Err(CacheDirError::NotADirectory(existing.to_owned()));
            }
            access(existing, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|errno| system(existing, errno.into()))
        }
        Err(error) => Err(system(path, error)),
    }
}

fn judge(path: &Path, is_dir: bool, uid: u32, mode: u32) -> Result<(), CacheDirError> {
    const STICKY: u32 = 0o1000;
    let path = || path.to_owned();
    if !is_dir {
        return Err(CacheDirError::NotADirectory(path()));
    }
    if !is_trusted(uid) {
        return Err(CacheDirError::Owner { path: path(), uid });
    }
    if mode & 0o022 != 0 && mode & STICKY == 0 {
        return Err(CacheDirError::Writable { path: path(), mode: mode & 0o777 });
    }
    Ok(())
}

/// Whether files of a user may be believed: our own and root's.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Makes a directory if it is missing, and checks it.
pub(super) fn open(path: &Path) -> Result<PathBuf, CacheDirError> {
    let path = std::path::absolute(path)
        .map_err(|source| CacheDirError::System { path: path.to_owned(), source })?;
    check_cache_dir(&path)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .map_err(|source| CacheDirError::System { path: path.clone(), source })?;
    check_cache_dir(&path)?;
    Ok(path)
}

/// A directory for this run only.
pub(super) fn private() -> io::Result<TempDir> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().prefix("perf-agent-debuginfod-").permissions(mode).tempdir()
}

/// Makes the directories for a file. In a directory that others may write to, they may have made them before: those are refused.
pub(super) fn make_folder(root: &Path, folder: &Path) -> io::Result<PathBuf> {
    let mut path = root.to_owned();
    for part in folder {
        path.push(part);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let meta = std::fs::symlink_metadata(&path)?;
        judge(&path, meta.is_dir(), meta.uid(), meta.mode()).map_err(io::Error::other)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn directories_that_others_can_write_to_or_own_are_refused() {
        let path = Path::new("/c");
        let own = rustix::process::geteuid().as_raw();
        assert!(judge(path, true, own, 0o40700).is_ok());
        assert!(judge(path, true, 0, 0o40755).is_ok());
        assert!(judge(path, true, own, 0o41777).is_ok(), "as /tmp");
        for mode in [0o40777, 0o40702, 0o40770] {
            assert!(matches!(judge(path, true, own, mode), Err(CacheDirError::Writable { .. })), "{mode:o}");
        }
        assert!(matches!(judge(path, true, own + 1, 0o40700), Err(CacheDirError::Owner { .. })));
        assert!(matches!(judge(path, false, own, 0o100_600), Err(CacheDirError::NotADirectory(_))));
    }

    #[test]
    fn a_check_changes_nothing_and_names_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        check_cache_dir(&deep).unwrap();
        assert!(!folder.path().join("a").exists());
        std::fs::write(folder.path().join("a"), "").unwrap();
        let error = check_cache_dir(&deep).unwrap_err().to_string();
        assert!(error.contains("/a"), "{error}");
        let error = check_cache_dir(Path::new("/proc/1/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("/proc/1"), "{error}");
    }

    #[test]
    fn a_folder_that_somebody_else_can_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let planted = folder.path().join("x");
        std::fs::create_dir(&planted).unwrap();
        std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_folder(folder.path(), Path::new("x/y")).is_err());
        std::os::unix::fs::symlink("/tmp", folder.path().join("link")).unwrap();
        assert!(make_folder(folder.path(), Path::new("link")).is_err());
        assert!(make_folder(folder.path(), Path::new("z/y")).unwrap().is_dir());
    }
}
