//! Finds the file of a command as execvp(3) will, before anything is attached, and explains why the kernel cannot run it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;
use rustix::io::Errno;

use super::facts;
use crate::output::access;

/// How many bytes of a file the kernel reads to recognize its format.
const FIRST_LINE: u64 = 256;

/// The file of the command's program.
///
/// # Errors
/// The error that execvp(3) would return.
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

/// As [`look_up`], with the agent's search path.
pub(crate) fn look_up_here(command: &Command) -> Option<PathBuf> {
    look_up(command, &facts::search_path()).ok()
}

/// The hint for a failed `exec` of this file. The kernel's error is the same for a missing file and a missing
/// interpreter.
pub(crate) fn hint(path: &Path, error: &io::Error) -> Option<String> {
    let is_missing = match Errno::from_io_error(error)? {
        Errno::NOENT => true,
        Errno::ACCESS => false,
        _ => return None,
    };
    let mut begin = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE).read_to_end(&mut begin).ok()?;
    let shown = path.display();
    let Some(line) = begin.strip_prefix(b"#!") else {
        let loader =
            || format!("the loader that {shown} asks for is missing here: `readelf -l {shown}` names it");
        return is_missing.then(loader);
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
    let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    let interpreter = String::from_utf8_lossy(interpreter);
    let what = if is_missing { "install it" } else { "make it executable" };
    Some(format!(
        "the first line of {shown} asks for the interpreter `{interpreter}`: {what}, or correct that line"
    ))
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
    fn distinguishes_a_missing_interpreter_from_a_missing_file() {
        let dir = tempfile::tempdir().unwrap();
        let hint_for = |content: &[u8], errno: Errno| {
            let path = dir.path().join("tool");
            std::fs::write(&path, content).unwrap();
            hint(&path, &errno.into())
        };
        let missing = hint_for(b"#! /no/such/shell -e\necho", Errno::NOENT).unwrap();
        assert!(missing.contains("`/no/such/shell`") && missing.contains("/tool"), "{missing}");
        assert!(hint_for(b"#!/bin/sh\r\n", Errno::NOENT).unwrap().contains("`/bin/sh\r`"));
        assert!(hint_for(b"#!", Errno::NOENT).is_some());
        assert!(hint_for(b"\x7fELF", Errno::NOENT).unwrap().contains("loader"));
        assert_eq!(hint_for(b"\x7fELF", Errno::ACCESS), None);
        assert_eq!(hint_for(b"#!/no/such/shell", Errno::NOMEM), None);
        assert_eq!(hint(&dir.path().join("gone"), &Errno::NOENT.into()), None);
    }

    #[test]
    fn finds_the_file_that_execvp_finds() {
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
