//! Checks whether outputs can be created, before anything is attached. Creates and changes nothing.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD};

use super::directory::{Directory, fd_path};
use super::kind::OutputKind;
use super::place::{Inode, Place, directory_of, inode_of, parent, place_of};
use super::target::FileTarget;
use crate::error::Error;

/// Magic numbers of procfs and sysfs: root has write access there, but nobody can create files.
const KERNEL_FILE_SYSTEMS: [u64; 2] = [0x9fa0, 0x6265_6572];

/// The identity of an output's file. Two outputs must not share one.
#[derive(Default)]
struct Identity {
    name: Option<(Inode, OsString)>,
    inode: Option<Inode>,
    direct: bool,
}

/// Checks that each target can be created, and that no two are the same file.
///
/// # Errors
/// [`Error::InvalidConfig`] with the path and the system error.
pub(crate) fn check_all<'a>(
    targets: impl IntoIterator<Item = (OutputKind, &'a FileTarget)>,
) -> Result<(), Error> {
    let mut seen: Vec<(OutputKind, Identity)> = Vec::new();
    for (kind, target) in targets {
        if *target == FileTarget::Stdout && kind.is_binary() && io::stdout().is_terminal() {
            return Err(binary_to_terminal(kind.option()));
        }
        let identity = check(target).map_err(|error| {
            Error::invalid(
                kind.option(),
                format!("{} {}: {error}", kind.option(), target.describe()),
                hint(kind, target, &error),
            )
        })?;
        if let Some((other, _)) = seen.iter().find(|(_, other)| other.same_as(&identity)) {
            return Err(Error::invalid(
                kind.option(),
                format!("{} and {} are one file: {}", other.option(), kind.option(), target.describe()),
                "give each output a path of its own",
            ));
        }
        seen.push((kind, identity));
    }
    Ok(())
}

/// The refusal of a binary output that would go to a terminal.
fn binary_to_terminal(option: &str) -> Error {
    let reason = format!("{option} -: the output is binary, and standard output is a terminal");
    Error::invalid(option, reason, "redirect standard output (> FILE), or give a path")
}

fn hint(kind: OutputKind, target: &FileTarget, error: &io::Error) -> String {
    let path = match target {
        FileTarget::Path(path) => path.clone(),
        FileTarget::Auto(name) => name.path(1),
        FileTarget::Stdout => return "open standard output, or give a path".to_owned(),
    };
    if path.as_os_str().is_empty() {
        return "give the path of a file".to_owned();
    }
    let directory = parent(&path).display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound if !Path::new("/proc/self/fd").exists() => {
            "mount /proc, through which devices and FIFOs are opened: mount -t proc proc /proc".to_owned()
        }
        io::ErrorKind::NotFound => format!("create the directory first: mkdir -p '{directory}'"),
        io::ErrorKind::IsADirectory => "give the path of a file".to_owned(),
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            "choose a path without links of other users".to_owned()
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("'{directory}' must be writable; choose another place with {} PATH", kind.option())
        }
        _ => "choose another path".to_owned(),
    }
}

fn check(target: &FileTarget) -> io::Result<Identity> {
    match target {
        FileTarget::Stdout => {
            let stat = rustix::fs::fstat(io::stdout())?;
            if stands_for_closed(&stat)? {
                return Err(rustix::io::Errno::BADF.into());
            }
            Ok(Identity { inode: Some((stat.st_dev, stat.st_ino)), direct: true, name: None })
        }
        FileTarget::Auto(name) => {
            require_directory(&directory_of(name.directory())?)?;
            Ok(Identity::default())
        }
        FileTarget::Path(path) => match place_of(path)? {
            Place::Direct { handle, inode } => {
                access(&fd_path(&handle), Access::WRITE_OK)?;
                Ok(Identity { inode: Some(inode), direct: true, name: None })
            }
            Place::Regular { directory, name, inode } => {
                let directory = require_directory(&directory)?;
                Ok(Identity { name: Some((directory, name)), inode, direct: false })
            }
        },
    }
}

/// Whether standard output was closed when this program started. Rust then opens the null device in its place, for reading
/// and writing; a shell's `>/dev/null` opens it only for writing.
fn stands_for_closed(stat: &rustix::fs::Stat) -> io::Result<bool> {
    let null = std::fs::metadata("/dev/null")?.rdev();
    let mode = rustix::fs::fcntl_getfl(io::stdout())? & rustix::fs::OFlags::RWMODE;
    Ok(stat.st_rdev == null && mode == rustix::fs::OFlags::RDWR)
}

impl Identity {
    fn same_as(&self, other: &Self) -> bool {
        let same_name = self.name.is_some() && self.name == other.name;
        let same_inode = self.inode.is_some() && self.inode == other.inode;
        same_name || (same_inode && (self.direct || other.direct))
    }
}

fn require_directory(directory: &Directory) -> io::Result<Inode> {
    let stat = rustix::fs::fstat(directory)?;
    access_at(directory, Path::new("."), Access::WRITE_OK | Access::EXEC_OK)?;
    if rustix::fs::fstatfs(directory).is_ok_and(|fs| KERNEL_FILE_SYSTEMS.contains(&(fs.f_type as u64))) {
        return Err(rustix::io::Errno::PERM.into());
    }
    Ok(inode_of(&stat))
}

/// Checks access with the effective IDs if the kernel supports that (since 5.8), else with the real IDs.
pub(crate) fn access(path: &Path, access: Access) -> io::Result<()> {
    access_at(CWD, path, access)
}

fn access_at(directory: impl AsFd, path: &Path, access: Access) -> io::Result<()> {
    match rustix::fs::accessat(&directory, path, access, AtFlags::EACCESS) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {
            Ok(rustix::fs::accessat(&directory, path, access, AtFlags::empty())?)
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(targets: &[(OutputKind, FileTarget)]) -> String {
        match check_all(targets.iter().map(|(kind, target)| (*kind, target))) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    fn one(path: impl Into<FileTarget>) -> String {
        reason(&[(OutputKind::CpuProfile, path.into())])
    }

    #[test]
    fn messages_have_the_path_and_the_system_error() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no/such/x.pb.gz");
        let message = one(missing.clone());
        assert!(message.contains(missing.to_str().unwrap()), "{message}");
        assert!(message.contains("No such file or directory"), "{message}");
        for directory in [dir.path().to_owned(), dir.path().join("new/"), "/".into(), "..".into()] {
            assert!(one(directory).contains("Is a directory"));
        }
        assert!(one("").contains("No such file"));
        assert!(one("/dev/null/x").contains("Not a directory"));
        // Root may write to the folder, which makes no files.
        let refusal =
            if rustix::process::geteuid().is_root() { "not permitted" } else { "Permission denied" };
        assert!(one("/proc/x.pb.gz").contains(refusal));
        assert_eq!(one(dir.path().join("new.pb.gz")), "");
        assert_eq!(one("/dev/null"), "");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_empty_path_gets_no_hint_to_create_a_directory() {
        let error = check_all([(OutputKind::CpuProfile, &FileTarget::from(""))]).unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("give the path of a file"));
    }

    #[test]
    fn a_loop_of_links_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("loop");
        std::os::unix::fs::symlink("loop", &link).unwrap();
        assert!(one(link).contains("os error"));
    }

    #[test]
    fn two_outputs_must_be_two_files() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        let pair = |a: &Path, b: &Path| {
            reason(&[(OutputKind::CpuProfile, a.into()), (OutputKind::Folded, b.into())])
        };
        assert!(pair(&real, &real).contains("one file"));
        assert!(pair(&real, &link).contains("one file"));
        assert!(pair(&dir.path().join("./real"), &real).contains("one file"));
        assert!(pair(Path::new("/dev/null"), Path::new("/dev/null")).contains("one file"));
        assert_eq!(pair(&real, &dir.path().join("other")), "");
        let twice = [(OutputKind::CpuProfile, FileTarget::Stdout), (OutputKind::Folded, FileTarget::Stdout)];
        assert!(reason(&twice).contains("one file"));
    }
}
