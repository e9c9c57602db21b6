//! Looks a command up as execvp(3) will, before anything is attached.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;
use rustix::io::Errno;

use crate::output::access;

/// The file that the command's program names.
///
/// # Errors
/// The error that execvp(3) would meet.
pub(super) fn look_up(command: &Command, agent_path: &OsStr) -> io::Result<PathBuf> {
    let program = Path::new(command.get_program());
    let directory = command.get_current_dir().unwrap_or(Path::new(""));
    if program.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        let path = directory.join(program);
        return executable(&path).map(|()| path);
    }
    let own = command.get_envs().find(|(key, _)| *key == "PATH").and_then(|(_, value)| value);
    let mut refused = None;
    for folder in std::env::split_paths(own.unwrap_or(agent_path)) {
        let path = directory.join(folder).join(program);
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = Some(error),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| Errno::NOENT.into()))
}

fn executable(path: &Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(Errno::ACCESS.into());
    }
    access(path, Access::EXEC_OK)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn finds_what_execvp_finds() {
        let dir = tempfile::tempdir().unwrap();
        let place = |folder: &str, name: &str, mode: u32| {
            let folder = dir.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), "").unwrap();
            std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        place("a", "tool", 0o644);
        place("b", "tool", 0o755);
        place("a", "plain", 0o644);
        std::fs::create_dir_all(dir.path().join("a/folder")).unwrap();
        let path = std::env::join_paths([dir.path().join("a"), dir.path().join("b")]).unwrap();
        let find = |program: &str| look_up(&Command::new(program), &path);
        assert_eq!(find("tool").unwrap(), dir.path().join("b/tool"));
        assert_eq!(find("plain").unwrap_err().raw_os_error(), Some(13));
        assert_eq!(find("folder").unwrap_err().raw_os_error(), Some(13));
        assert_eq!(find("missing").unwrap_err().raw_os_error(), Some(2));
        assert_eq!(find("").unwrap_err().raw_os_error(), Some(2));
        assert_eq!(find("/").unwrap_err().raw_os_error(), Some(13));
        let mut here = Command::new("./b/tool");
        here.current_dir(dir.path());
        assert!(look_up(&here, &path).is_ok());
        let mut own = Command::new("tool");
        own.env("PATH", dir.path().join("a"));
        assert_eq!(look_up(&own, &path).unwrap_err().raw_os_error(), Some(13));
    }
}
