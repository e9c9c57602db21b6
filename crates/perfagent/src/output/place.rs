//! The place that the path of an output leads to: a name in a directory, or a device or FIFO that is written directly.
//!
//! A path is walked name by name, each from the descriptor of the directory before, so what was looked at is what is used later. Links are
//! followed only if those who made them may be trusted: the kernel's setting `fs.protected_symlinks` covers sticky directories only, and
//! may be off, and `RESOLVE_NO_SYMLINKS` of openat2(2) would refuse `/var/run` and `/dev/fd` too.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use super::directory::Directory;

/// The largest number of symbolic links to follow in a path, as in the kernel.
const MAX_LINKS: u32 = 40;

/// The magic number of procfs, whose links may lead to what has no path.
const PROC: u64 = 0x9fa0;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The place that a path leads to.
#[derive(Debug)]
pub(super) enum Place {
    /// A device or FIFO, which is written directly. The handle keeps it, whatever gets its name later.
    Direct { handle: Arc<OwnedFd>, inode: Inode },
    /// A regular file, existing or not. All links are followed.
    Regular { directory: Directory, name: OsString, inode: Option<Inode> },
}

/// (device, inode).
pub(super) type Inode = (u64, u64);

/// A path that was followed to its end.
#[derive(Debug)]
pub(super) struct Followed {
    /// Where it leads.
    pub(super) place: Place,
    /// The directory that the path itself names, before a link of its last name.
    pub(super) beside: Directory,
}

pub(super) fn inode_of(stat: &Stat) -> Inode {
    (stat.st_dev, stat.st_ino)
}

/// The directory of a path; empty for a bare name.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// The place of a path. Follows links.
///
/// # Errors
/// That of the system call; [`io::ErrorKind::PermissionDenied`], with the path, for a link that others made.
pub(super) fn place_of(path: &Path) -> io::Result<Place> {
    follow(path).map(|followed| followed.place)
}

/// As [`place_of`], with the directory that the path itself names.
///
/// # Errors
/// As those of [`place_of`].
pub(super) fn follow(path: &Path) -> io::Result<Followed> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none() {
        return Err(Errno::ISDIR.into());
    }
    let mut walk = Walk::from(path)?;
    let mut shown = path.to_owned();
    let mut beside = None;
    while let Some(name) = walk.rest.pop_front() {
        if !walk.rest.is_empty() {
            walk.enter(&name)?;
            continue;
        }
        let directory = Directory::new(rustix::io::fcntl_dupfd_cloexec(&walk.at, 0)?, parent(&shown));
        let beside = beside.get_or_insert_with(|| directory.clone());
        match walk.last(&name)? {
            End::Link(target) => shown = parent(&shown).join(target),
            End::Place(found) => {
                let place = match found {
                    Found::Direct(handle, inode) => Place::Direct { handle: Arc::new(handle), inode },
                    Found::Regular(inode) => Place::Regular { directory, name, inode },
                };
                return Ok(Followed { place, beside: beside.clone() });
            }
        }
    }
    Err(Errno::ISDIR.into())
}

/// The directory of this path. Follows links.
///
/// # Errors
/// As those of [`place_of`].
pub(super) fn directory_of(path: &Path) -> io::Result<Directory> {
    let mut walk = Walk::from(path)?;
    while let Some(name) = walk.rest.pop_front() {
        walk.enter(&name)?;
    }
    Ok(Directory::new(walk.at, path))
}

/// A path on the way.
struct Walk {
    at: OwnedFd,
    rest: VecDeque<OsString>,
    links: u32,
}

/// What the last name of a path is.
enum End {
    /// A link. The walk goes on with its target.
    Link(PathBuf),
    Place(Found),
}

enum Found {
    Direct(OwnedFd, Inode),
    Regular(Option<Inode>),
}

impl Walk {
    fn from(path: &Path) -> io::Result<Self> {
        let current = openat(rustix::fs::CWD, ".", HANDLE | OFlags::DIRECTORY, Mode::empty())?;
        let mut walk = Self { at: current, rest: VecDeque::new(), links: 0 };
        walk.insert(path)?;
        Ok(walk)
    }

    /// Puts the names of a path before those that are left.
    fn insert(&mut self, path: &Path) -> io::Result<()> {
        for component in path.components().rev() {
            match component {
                Component::RootDir | Component::Prefix(_) => {
                    self.at = openat(rustix::fs::CWD, "/", HANDLE | OFlags::DIRECTORY, Mode::empty())?;
                }
                Component::CurDir => {}
                Component::ParentDir => self.rest.push_front("..".into()),
                Component::Normal(name) => self.rest.push_front(name.to_owned()),
            }
        }
        Ok(())
    }

    /// Goes to a directory.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let handle = openat(&self.at, name, HANDLE | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fstat(&handle)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.at = handle,
            FileType::Symlink => {
                self.count_link(name, &stat)?;
                if is_on_proc(&handle) {
                    // Its text may be that of another mount namespace.
                    self.at = openat(&self.at, name, HANDLE | OFlags::DIRECTORY, Mode::empty())?;
                } else {
                    self.insert(&target_of(&handle)?)?;
                }
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
        Ok(())
    }

    /// Looks at the last name.
    fn last(&mut self, name: &OsStr) -> io::Result<End> {
        let handle = match openat(&self.at, name, HANDLE | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(End::Place(Found::Regular(None))),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&handle)?;
        if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
            return found(handle, &stat).map(End::Place);
        }
        self.count_link(name, &stat)?;
        if is_on_proc(&handle) {
            let open = openat(&self.at, name, HANDLE, Mode::empty())?;
            let stat = fstat(&open)?;
            if !FileType::from_raw_mode(stat.st_mode).is_file() {
                return found(open, &stat).map(End::Place);
            }
        }
        let target = target_of(&handle)?;
        self.insert(&target)?;
        Ok(End::Link(target))
    }

    /// Refuses a link of others, and too many.
    fn count_link(&mut self, name: &OsStr, link: &Stat) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if may_follow(link.st_uid, &fstat(&self.at)?) {
            return Ok(());
        }
        let message = format!("{} is a link of another user (uid {})", name.display(), link.st_uid);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

fn found(handle: OwnedFd, stat: &Stat) -> io::Result<Found> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Socket => Err(Errno::NXIO.into()),
        FileType::RegularFile => Ok(Found::Regular(Some(inode_of(stat)))),
        _ => Ok(Found::Direct(handle, inode_of(stat))),
    }
}

fn is_on_proc(handle: &impl AsFd) -> bool {
    fstatfs(handle).is_ok_and(|system| system.f_type as u64 == PROC)
}

fn target_of(link: &impl AsFd) -> io::Result<PathBuf> {
    let target = readlinkat(link, "", Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
}

/// A link is followed if it is root's, ours or that of the user who called sudo, or if nobody else could make it: its directory belongs to one
/// of them and is not writable by others.
fn may_follow(owner: u32, directory: &Stat) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    is_trusted(owner) || (is_trusted(directory.st_uid) && directory.st_mode & WRITABLE_BY_OTHERS == 0)
}

fn is_trusted(user: u32) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    let by_sudo = || std::env::var("SUDO_UID").ok().and_then(|text| text.parse().ok());
    user == 0 || user == ours || (ours == 0 && by_sudo() == Some(user))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    fn refused(path: &Path) -> Option<io::ErrorKind> {
        place_of(path).err().map(|error| error.kind())
    }

    fn leads_to(path: &Path) -> PathBuf {
        match place_of(path).unwrap() {
            Place::Regular { directory, name, .. } => directory.path_of(&name),
            Place::Direct { .. } => panic!("{} is not regular", path.display()),
        }
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_where_others_can_make_links() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root: it gives a link to another user");
        }
        let directory = tempfile::tempdir().unwrap();
        let mode = |mode| {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o1777);
        let (secret, link) = (directory.path().join("secret"), directory.path().join("cpu.pb.gz"));
        symlink(&secret, &link).unwrap();
        assert_eq!(leads_to(&link), secret, "it is ours");
        lchown(&link, Some(65534), Some(65534)).unwrap();
        assert_eq!(refused(&link), Some(io::ErrorKind::PermissionDenied), "without a file");
        std::fs::write(&secret, "mine").unwrap();
        assert_eq!(refused(&link), Some(io::ErrorKind::PermissionDenied), "with a file");
        mode(0o755);
        assert_eq!(leads_to(&link), secret, "nobody else can make links there");
        std::os::unix::fs::chown(directory.path(), Some(65534), Some(65534)).unwrap();
        assert_eq!(refused(&link), Some(io::ErrorKind::PermissionDenied), "the directory is another user's");
    }

    #[test]
    fn directories_behind_links_of_others_are_not_entered() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root: it gives a link to another user");
        }
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        symlink("real", &link).unwrap();
        assert_eq!(leads_to(&link.join("x.svg")), link.join("x.svg"));
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        lchown(&link, Some(65534), Some(65534)).unwrap();
        assert_eq!(refused(&link.join("x.svg")), Some(io::ErrorKind::PermissionDenied));
        assert!(directory_of(&link).is_err() && directory_of(&real).is_ok());
    }

    #[test]
    fn links_above_and_below() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        symlink("../a/b/../x.svg", at("a/up")).unwrap();
        assert_eq!(leads_to(&at("a/b/../up")).file_name().unwrap(), "x.svg");
        symlink("..", at("a/directory")).unwrap();
        assert_eq!(refused(&at("a/directory")), Some(io::ErrorKind::IsADirectory));
        assert_eq!(refused(&at("a/missing/x.svg")), Some(io::ErrorKind::NotFound));
        symlink("loop", at("loop")).unwrap();
        assert_eq!(Errno::from_io_error(&place_of(&at("loop")).unwrap_err()), Some(Errno::LOOP));
    }

    #[test]
    fn descriptors_are_written_directly_or_as_the_file_that_they_are() {
        let (_reader, writer) = std::io::pipe().unwrap();
        assert!(matches!(place_of(&super::super::directory::fd_path(&writer)), Ok(Place::Direct { .. })));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.svg");
        let file = std::fs::File::create(&path).unwrap();
        assert_eq!(leads_to(&super::super::directory::fd_path(&file)), path);
        assert!(matches!(place_of(Path::new("/dev/null")), Ok(Place::Direct { .. })));
    }
}
