//! Files that are written in place, because they are read while they grow, and because what was written must be left when the process is
//! killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::place::{Place, place_of};

/// Creates a file, or empties the one that is there. It is a regular file, at the end of all links of the path.
///
/// # Errors
/// The error of the system call; [`io::ErrorKind::InvalidInput`] for a device or FIFO.
pub(crate) fn create_in_place(path: &Path) -> io::Result<File> {
    let Place::Regular { path, .. } = place_of(path)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    };
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).custom_flags(no_follow).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_emptied_and_what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        create_in_place(&link).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
        create_in_place(&folder.path().join("new")).unwrap();
        let refused = |path: &str| create_in_place(Path::new(path)).unwrap_err().kind();
        assert_eq!(refused("/dev/null"), io::ErrorKind::InvalidInput);
        assert_eq!(refused("/no/such/file"), io::ErrorKind::NotFound);
    }
}
