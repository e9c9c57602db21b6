//! The secret of a cache, and hashes of contents with that secret.

use std::fs::File;
use std::hash::DefaultHasher;
use std::hash::Hasher as _;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;
use rustix::fs::Mode;
use rustix::fs::OFlags;

use crate::key::Digest;

const NAME: &str = "secret";
/// Only this user can read it: the directory is private.
type Secret = [u8; 32];

/// Hashes contents with SipHash, after the secret. Different contents have equal hashes with a probability of 1 in
/// 2^64.
#[derive(Debug)]
pub(crate) struct Digester {
    after_secret: DefaultHasher,
}

impl Digester {
    /// Reads the secret of a cache, or creates it at the first use.
    pub(crate) fn open(directory: &OwnedFd) -> io::Result<Self> {
        let secret = match read(directory)? {
            Some(secret) => secret,
            None => make(directory)?,
        };
        let mut after_secret = DefaultHasher::new();
        after_secret.write(&secret);
        Ok(Self { after_secret })
    }

    pub(crate) fn digest(&self, content: &[u8]) -> Digest {
        let mut hasher = self.after_secret.clone();
        hasher.write(content);
        Digest { hash: hasher.finish(), size: content.len() as u64 }
    }
}

/// None if the secret is missing, incomplete or readable by others.
fn read(directory: &OwnedFd) -> io::Result<Option<Secret>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(directory, NAME, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        other => other?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    let private = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    let mut bytes = Vec::new();
    File::from(fd).take(64).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok().filter(|_| private))
}

fn make(directory: &OwnedFd) -> io::Result<Secret> {
    let mut secret = Secret::default();
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let temporary = format!(".new-secret-{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let written = File::from(fd)
        .write_all(&secret)
        .and_then(|()| Ok(rustix::fs::renameat(directory, &temporary, directory, NAME)?));
    if let Err(error) = written {
        _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
        return Err(error);
    }
    // Another process may have created a secret at the same time. The last rename wins, so read the file again.
    Ok(read(directory)?.unwrap_or(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> Digester {
        Digester::open(&File::open(path).unwrap().into()).unwrap()
    }

    #[test]
    fn digests_depend_on_content_and_secret() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let digest = open(one.path()).digest(b"content");
        assert_eq!(open(one.path()).digest(b"content"), digest);
        assert_ne!(open(one.path()).digest(b"Content"), digest);
        assert_ne!(open(two.path()).digest(b"content"), digest);
        let others = std::fs::read_dir(one.path()).unwrap().count();
        assert_eq!(others, 1, "only the secret");
    }

    #[test]
    fn a_secret_that_others_could_read_is_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let before = open(folder.path()).digest(b"content");
        let secret = folder.path().join(NAME);
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o644)).unwrap();
        let after = open(folder.path()).digest(b"content");
        assert_ne!(before, after);
        std::fs::write(&secret, b"short").unwrap();
        assert_ne!(open(folder.path()).digest(b"content"), after);
    }
}
