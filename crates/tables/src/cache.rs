//! Compiled tables on disk, found by file and times, or by content.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use rustix::fs::AtFlags;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::fs::Stat;
use unwind::Table;

use crate::digest::Digester;
use crate::key::CacheKey;
use crate::key::Digest;
use crate::key::HEADER_LEN;
use crate::key::Owner;

/// Limit of all files together. The least recently used files are removed first.
const CAP_BYTES: u64 = 512 << 20;
/// The limit is checked each time that this part of it was written, because a check costs a system call for each file.
const TRIM_PARTS: u64 = 32;
const TEMPORARY: &str = ".new-";
const TABLE: &str = ".rows";
/// A temporary file of this age is left over from a killed process.
const TEMPORARY_MAX_AGE: Duration = Duration::from_secs(3600);

/// Why a directory cannot be used, or a table cannot be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A system call failed.
    #[error("{attempt} {path}: {source}; the unwind cache is not used, tables are compiled again each time")]
    Io {
        /// The attempt.
        attempt: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory belongs to another user.
    #[error(
        "{path} belongs to user {owner}, not to {user}: it is not used as unwind cache; set XDG_CACHE_HOME"
    )]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The group or others may read or write the directory.
    #[error("{path} is open to others (mode {mode:o}): it is not used as unwind cache; chmod 700 it")]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// A directory of compiled tables. Every access is relative to the descriptor that was checked on opening.
#[derive(Debug)]
pub struct Cache {
    directory: OwnedFd,
    path: PathBuf,
    /// None: the secret can be neither read nor written, so no table is found by content.
    digester: Option<Digester>,
    cap_bytes: u64,
    /// Bytes written since the last check of the limit.
    untrimmed: AtomicU64,
    sequence: AtomicU64,
    link: Link,
}

/// Gives a file in a directory a second name.
type Link = fn(&OwnedFd, &str, &str) -> rustix::io::Result<()>;

fn link(directory: &OwnedFd, file: &str, second: &str) -> rustix::io::Result<()> {
    rustix::fs::linkat(directory, file, directory, second, AtFlags::empty())
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/perf-agent/unwind`, else `$HOME/.cache/perf-agent/unwind`; `None` if neither
    /// variable holds an absolute path.
    ///
    /// # Errors
    /// The directory cannot be created or must not be trusted.
    pub fn open_default() -> Result<Option<Self>, CacheError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        base.map(|base| Self::at(&base.join("perf-agent/unwind"))).transpose()
    }

    /// A cache in a directory. A missing directory is created with mode 0700.
    ///
    /// # Errors
    /// The directory cannot be created, belongs to another user or is open to others. A user who can read it could
    /// learn which programs were profiled; a user who can write it could change how they are unwound.
    pub fn at(path: &Path) -> Result<Self, CacheError> {
        let failed = |attempt| {
            let path = path.to_owned();
            move |source: io::Error| CacheError::Io { attempt, path, source }
        };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("creating"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed("opening")(e.into()))?;
        let stat = rustix::fs::fstat(&directory).map_err(|e| failed("inspecting")(e.into()))?;
        let user = rustix::process::geteuid().as_raw();
        if stat.st_uid != user {
            return Err(CacheError::Owner { path: path.to_owned(), owner: stat.st_uid, user });
        }
        if stat.st_mode & 0o077 != 0 {
            return Err(CacheError::NotPrivate { path: path.to_owned(), mode: stat.st_mode & 0o7777 });
        }
        let digester = Digester::open(&directory).ok();
        // The first stored table triggers a check of the files that earlier processes left.
        let (sequence, untrimmed) = (AtomicU64::new(0), AtomicU64::new(CAP_BYTES));
        let path = path.to_owned();
        Ok(Self { directory, path, digester, cap_bytes: CAP_BYTES, untrimmed, sequence, link })
    }

    /// The key of this content; none without a secret.
    #[must_use]
    pub fn digest(&self, content: &[u8]) -> Option<Digest> {
        Some(self.digester.as_ref()?.digest(content))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table of a file. `None`: it is missing, or something about it is inconsistent; then the file is removed.
    #[must_use]
    pub fn load(&self, key: &CacheKey) -> Option<Table> {
        let name = key.file_name();
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.directory, &name, flags, Mode::empty()).ok()?;
        let table = self.read(&fd, key);
        if table.is_some() {
            // The modification time is the time of the last use. If setting it fails, the file is only removed earlier.
            _ = File::from(fd).set_modified(SystemTime::now());
        } else {
            _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty());
        }
        table
    }

    fn read(&self, fd: &OwnedFd, key: &CacheKey) -> Option<Table> {
        let stat = rustix::fs::fstat(fd).ok()?;
        let size = u64::try_from(stat.st_size).ok()?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0;
        if !regular || !ours || size > self.cap_bytes {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).ok()?);
        File::from(fd.as_fd().try_clone_to_owned().ok()?).take(size).read_to_end(&mut bytes).ok()?;
        let (head, table) = bytes.split_at_checked(HEADER_LEN)?;
        Owner::from_bytes(head)?.is_found_by(key).then(|| unwind::decode(table).ok())?
    }

    /// Stores a table under each key of its owner. From time to time, removes the least recently used tables beyond the
    /// limit of 512 MiB.
    ///
    /// # Errors
    /// Writing failed, for example because the disk is full. No part of the table remains.
    pub(crate) fn store(&self, owner: Owner, table: &Table) -> Result<(), CacheError> {
        let names: Vec<String> = owner.keys().map(|key| key.file_name()).collect();
        let Some((last, others)) = names.split_last() else { return Ok(()) };
        let new =
            || format!("{TEMPORARY}{}-{}", std::process::id(), self.sequence.fetch_add(1, Ordering::Relaxed));
        let temporary = new();
        let written = self.write(&temporary, owner, table).and_then(|()| {
            for name in others {
                // A second name for the same file. A link cannot replace an older file, but the rename of a link can.
                let second = new();
                if (self.link)(&self.directory, &temporary, &second).is_err() {
                    // On file systems without links each name has a copy.
                    self.write(&second, owner, table)?;
                }
                self.rename(&second, name)?;
            }
            self.rename(&temporary, last)
        });
        written.map_err(|source| {
            _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
            CacheError::Io { attempt: "writing", path: self.path.join(last), source }
        })?;
        let len = HEADER_LEN as u64 + table.byte_size() as u64;
        if self.untrimmed.fetch_add(len, Ordering::Relaxed) + len < self.cap_bytes / TRIM_PARTS {
            return Ok(());
        }
        self.untrimmed.store(0, Ordering::Relaxed);
        self.trim(&names).map_err(|source| CacheError::Io {
            attempt: "trimming",
            path: self.path.clone(),
            source,
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        rustix::fs::renameat(&self.directory, from, &self.directory, to).map_err(|error| {
            _ = rustix::fs::unlinkat(&self.directory, from, AtFlags::empty());
            error.into()
        })
    }

    fn write(&self, name: &str, owner: Owner, table: &Table) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(fd);
        let written = file.write_all(&owner.to_bytes()).and_then(|()| file.write_all(&unwind::encode(table)));
        written.inspect_err(|_| _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()))
    }

    /// Removes files, the least recently used first, until the limit holds. `keep` names the files that were just
    /// written.
    fn trim(&self, keep: &[String]) -> io::Result<()> {
        let mut files = Vec::new();
        let mut total = 0;
        for entry in rustix::fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            let Ok(stat) = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let temporary = name.to_bytes().starts_with(TEMPORARY.as_bytes());
            if temporary && age(&stat) > TEMPORARY_MAX_AGE {
                _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty());
            } else if !temporary && name.to_bytes().ends_with(TABLE.as_bytes()) {
                // A file with two names is removed with its second name; each name counts for its part.
                let size = u64::try_from(stat.st_size).unwrap_or(0) / u64::from(stat.st_nlink.max(1) as u32);
                total += size;
                if keep.iter().all(|keep| name.to_bytes() != keep.as_bytes()) {
                    files.push(((stat.st_mtime, stat.st_mtime_nsec), size, name));
                }
            }
        }
        files.sort();
        for (_, size, name) in files {
            if total <= self.cap_bytes {
                break;
            }
            if rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty()).is_ok() {
                total -= size;
            }
        }
        Ok(())
    }
}

fn age(stat: &Stat) -> Duration {
    let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    SystemTime::now().duration_since(modified).unwrap_or_default()
}

#[cfg(test)]
mod tests;
