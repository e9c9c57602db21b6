//! The cache of elfutils' client, which debuggers fill: `DIR/BUILD-ID/debuginfo` and `DIR/BUILD-ID/executable`.
//!
//! It is only read. A file there is believed if it and its directories are ours or root's and others cannot write to them, and if it has the
//! build-id. An empty file says that a server did not have it: that is not believed, other servers are asked here.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Cached, directory, open_own};
use crate::content::Content;
use crate::entry::Artifact;

/// The directory: `DEBUGINFOD_CACHE_PATH`, else `debuginfod_client` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`.
#[must_use]
pub fn client_cache_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    variable("DEBUGINFOD_CACHE_PATH").or_else(|| cache().map(|cache| cache.join("debuginfod_client")))
}

/// A file, if it is there and may be believed.
pub(crate) fn find(dir: &Path, artifact: &Artifact) -> Option<Cached> {
    let folder = dir.join(artifact.build_id.to_string());
    if ![dir, &folder].into_iter().all(is_safe) {
        return None;
    }
    let file = open_own(&folder.join(artifact.kind.word()))?;
    let content = Content::of(&file).filter(|content| content.build_id == artifact.build_id)?;
    Some(Cached { file, content })
}

/// Whether nobody else could have put files there.
fn is_safe(dir: &Path) -> bool {
    let meta = std::fs::symlink_metadata(dir);
    meta.is_ok_and(|meta| meta.is_dir() && directory::is_trusted(meta.uid()) && meta.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::entry::Kind;

    #[test]
    fn a_file_is_believed_by_its_build_id_in_directories_that_only_we_write_to() {
        let dir = tempfile::tempdir().unwrap();
        let build_id = Content::of(&File::open("/bin/sh").unwrap()).unwrap().build_id;
        let artifact = |kind| Artifact { kind, build_id: build_id.clone() };
        let folder = dir.path().join(build_id.to_string());
        let found = |kind| find(dir.path(), &artifact(kind)).is_some();
        assert!(!found(Kind::Debuginfo));
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy("/bin/sh", folder.join("debuginfo")).unwrap();
        std::fs::write(folder.join("executable"), "").unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        assert!(found(Kind::Debuginfo) && !found(Kind::Executable), "an empty one is nothing");
        for writable in [dir.path(), &folder] {
            std::fs::set_permissions(writable, Permissions::from_mode(0o777)).unwrap();
            assert!(!found(Kind::Debuginfo), "others could have put it there");
            std::fs::set_permissions(writable, Permissions::from_mode(0o700)).unwrap();
        }
        assert!(found(Kind::Debuginfo));
        let other = Artifact { build_id: "01020304".parse().unwrap(), ..artifact(Kind::Debuginfo) };
        std::fs::rename(&folder, dir.path().join("01020304")).unwrap();
        assert!(find(dir.path(), &other).is_none(), "it has another build-id");
        assert!(dir.path().join("01020304/debuginfo").exists(), "nothing is removed there");
    }
}
