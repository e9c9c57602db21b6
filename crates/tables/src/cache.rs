//! Compiled tables on disk, by the file and its times, and by content.

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

/// All files together take no more than this; the least recently used go first.
const CAP_BYTES: u64 = 512 << 20;
/// Looked after whenever that part of it was written: a look costs a system call for each file.
const TRIM_PARTS: u64 = 32;
const TEMPORARY: &str = ".new-";
const TABLE: &str = ".rows";
/// A temporary file this old is left over from a process that was killed.
const TEMPORARY_MAX_AGE: Duration = Duration::from_secs(3600);

/// Why a directory cannot be used, or a table not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A system call failed.
    #[error("{attempt} {path}: {source}; the unwind cache is not used, tables are compiled again each time")]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
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
        /// Who wants to use it.
        user: u32,
    },
    /// Group or others may read or write the directory.
    #[error("{path} is open to others (mode {mode:o}): it is not used as unwind cache; chmod 700 it")]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// A directory of compiled tables. All access is relative to the directory that was checked when it was opened.
#[derive(Debug)]
pub struct Cache {
    directory: OwnedFd,
    path: PathBuf,
    /// None: the secret can be neither read nor written, so nothing is found by content.
    digester: Option<Digester>,
    cap_bytes: u64,
    /// Bytes written since the limit was looked after.
    untrimmed: AtomicU64,
    sequence: AtomicU64,
    link: Link,
}

/// Gives a file of a directory a second name.
type Link = fn(&OwnedFd, &str, &str) -> rustix::io::Result<()>;

fn link(directory: &OwnedFd, file: &str, second: &str) -> rustix::io::Result<()> {
    rustix::fs::linkat(directory, file, directory, second, AtFlags::empty())
}

impl Cache {
    /// The cache of the user: `$XDG_CACHE_HOME/perf-agent/unwind`, else `$HOME/.cache/perf-agent/unwind`; `None` if
    /// neither variable holds an absolute path.
    ///
    /// # Errors
    /// The directory cannot be created or must not be trusted.
    pub fn open_default() -> Result<Option<Self>, CacheError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        base.map(|base| Self::at(&base.join("perf-agent/unwind"))).transpose()
    }

    /// A cache in a directory, which is created with mode 0700 where it is missing.
    ///
    /// # Errors
    /// The directory cannot be created, belongs to another user or is open to others: who may read it could learn which
    /// programs were profiled, and who may write it could say how they are unwound.
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
        // What others have left is looked after with the first table.
        let (sequence, untrimmed) = (AtomicU64::new(0), AtomicU64::new(CAP_BYTES));
        let path = path.to_owned();
        Ok(Self { directory, path, digester, cap_bytes: CAP_BYTES, untrimmed, sequence, link })
    }

    /// What finds this content.
    #[must_use]
    pub fn digest(&self, content: &[u8]) -> Option<Digest> {
        Some(self.digester.as_ref()?.digest(content))
    }

    /// Where the cache is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table of a file. `None`: there is none, or anything about it disagrees; then the file is removed.
    #[must_use]
    pub fn load(&self, key: &CacheKey) -> Option<Table> {
        let name = key.file_name();
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.directory, &name, flags, Mode::empty()).ok()?;
        let table = self.read(&fd, key);
        if table.is_some() {
            // The modification time is the time of the last use. Failing to set it only makes the file go earlier.
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

    /// Keeps a table under each key that its owner has, and now and then removes the least recently used ones beyond the
    /// limit of 512 MiB.
    ///
    /// # Errors
    /// Writing failed, for example because the disk is full. Nothing of the table is left then.
    pub(crate) fn store(&self, owner: Owner, table: &Table) -> Result<(), CacheError> {
        let names: Vec<String> = owner.keys().map(|key| key.file_name()).collect();
        let Some((last, others)) = names.split_last() else { return Ok(()) };
        let new =
            || format!("{TEMPORARY}{}-{}", std::process::id(), self.sequence.fetch_add(1, Ordering::Relaxed));
        let temporary = new();
        let written = self.write(&temporary, owner, table).and_then(|()| {
            for name in others {
                // The same file under another name: a link cannot take the place of an older one, a renamed link can.
                let second = new();
                if (self.link)(&self.directory, &temporary, &second).is_err() {
                    // Not all file systems know links; there each name has a copy.
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

    /// Removes files, oldest use first, until the limit holds. `keep` were just written.
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
                // A file under two names goes with the second one; each counts for its part.
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
mod tests {
    use super::*;
    use crate::key::Stamp;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::LazyLock;

    static TABLE: LazyLock<Table> =
        LazyLock::new(|| unwind::compile(&std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap()).unwrap());

    /// Files that were known by nothing but their number.
    fn file(inode: u64) -> (CacheKey, Owner) {
        let stamp = Stamp { device: 1, inode, size: 3, mtime_ns: 4, ctime_ns: 5 };
        (CacheKey::File(stamp), Owner { stamp: Some(stamp), digest: None })
    }

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("a/b")).unwrap();
        (folder, cache)
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let (_folder, cache) = cache();
        let ((key, owner), (other, _)) = (file(1), file(2));
        assert_eq!(cache.load(&key), None);
        cache.store(owner, &TABLE).unwrap();
        assert_eq!(cache.load(&key).as_ref(), Some(&*TABLE));
        assert_eq!(cache.load(&other), None);
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(cache.path().to_owned()), 0o700);
        assert_eq!(mode(cache.path().join("file-1-1.rows")), 0o600);
    }

    #[test]
    fn one_file_is_found_by_each_of_its_keys() {
        let (_folder, cache) = cache();
        let (key, owner) = file(1);
        let digest = cache.digest(b"content");
        let by_content = CacheKey::Content(digest.unwrap());
        for _ in 0..2 {
            cache.store(Owner { digest, ..owner }, &TABLE).unwrap();
            assert!(cache.load(&key).is_some() && cache.load(&by_content).is_some());
        }
        let inode = |key: &CacheKey| std::fs::metadata(cache.path().join(key.file_name())).unwrap().ino();
        assert_eq!(inode(&key), inode(&by_content));
        assert_eq!(cache.load(&CacheKey::Content(cache.digest(b"other").unwrap())), None);
        cache.store(Owner::default(), &TABLE).unwrap();
        let names = std::fs::read_dir(cache.path()).unwrap().count();
        assert_eq!(names, 3, "both names and the secret");
    }

    #[test]
    fn without_links_each_name_has_a_copy() {
        let (_folder, mut cache) = cache();
        cache.link = |_, _, _| Err(rustix::io::Errno::PERM);
        let (key, owner) = file(1);
        let digest = cache.digest(b"content");
        let by_content = CacheKey::Content(digest.unwrap());
        for _ in 0..2 {
            cache.store(Owner { digest, ..owner }, &TABLE).unwrap();
            assert_eq!(cache.load(&key).as_ref(), Some(&*TABLE));
            assert_eq!(cache.load(&by_content).as_ref(), Some(&*TABLE));
        }
        let metadata = |key: &CacheKey| std::fs::metadata(cache.path().join(key.file_name())).unwrap();
        assert_ne!(metadata(&key).ino(), metadata(&by_content).ino());
        assert_eq!([&key, &by_content].map(|key| metadata(key).mode() & 0o777), [0o600; 2]);
        // Nothing half written is seen under a name, and nothing else stays.
        let mut names: Vec<_> =
            std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let mut expected = [key.file_name(), by_content.file_name(), "secret".to_owned()];
        expected.sort();
        assert_eq!(names, expected.map(std::ffi::OsString::from));
        std::fs::write(cache.path().join(key.file_name()), b"cut").unwrap();
        assert!(cache.load(&key).is_none() && cache.load(&by_content).is_some(), "each has its checksum");
    }

    #[test]
    fn damaged_foreign_and_renamed_files_are_ignored_and_removed() {
        let (_folder, cache) = cache();
        let (key, owner) = file(1);
        let file_path = cache.path().join(key.file_name());
        let damage: [fn(&Path); 5] = [
            |file| std::fs::write(file, b"").unwrap(),
            |file| {
                let mut bytes = std::fs::read(file).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(file, bytes).unwrap();
            },
            |file| std::fs::write(file, &std::fs::read(file).unwrap()[..200]).unwrap(),
            |file| std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).unwrap(),
            |file| std::fs::rename(file.with_file_name("file-1-2.rows"), file).unwrap(),
        ];
        for damage in damage {
            cache.store(file(2).1, &TABLE).unwrap();
            cache.store(owner, &TABLE).unwrap();
            damage(&file_path);
            assert_eq!(cache.load(&key), None);
            assert!(!file_path.exists());
        }
        std::os::unix::fs::symlink("file-1-2.rows", &file_path).unwrap();
        assert_eq!(cache.load(&key), None);
    }

    #[test]
    fn directories_that_are_not_private_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o750, 0o701, 0o720] {
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
            let error = Cache::at(folder.path()).unwrap_err();
            assert!(error.to_string().contains(&format!("(mode {mode:o}): it is not used")), "{error}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no secret is put there");
        }
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
        assert!(Cache::at(folder.path()).is_ok());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(matches!(Cache::at(&link), Err(CacheError::Io { .. })));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(1), None).unwrap();
            assert!(matches!(Cache::at(folder.path()), Err(CacheError::Owner { owner: 1, user: 0, .. })));
        }
    }

    #[test]
    fn the_limit_is_looked_after_with_every_so_many_bytes() {
        let (_folder, mut cache) = cache();
        cache.cap_bytes = TRIM_PARTS * 3 * (HEADER_LEN + TABLE.byte_size()) as u64;
        let leftover = cache.path().join(".new-1-1");
        let is_looked_after = |inode| {
            std::fs::write(&leftover, b"x").unwrap();
            let old = SystemTime::now() - Duration::from_secs(7200);
            File::open(&leftover).unwrap().set_modified(old).unwrap();
            cache.store(file(inode).1, &TABLE).unwrap();
            !leftover.exists()
        };
        let looks: Vec<bool> = (1..8).map(is_looked_after).collect();
        assert_eq!(looks, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let (_folder, mut cache) = cache();
        let size = (HEADER_LEN + unwind::encode(&TABLE).len()) as u64;
        cache.cap_bytes = size * 3;
        let files = [1, 2, 3].map(file);
        for (i, (key, owner)) in files.iter().enumerate() {
            cache.store(*owner, &TABLE).unwrap();
            let past = SystemTime::now() - Duration::from_secs(100 - i as u64);
            File::open(cache.path().join(key.file_name())).unwrap().set_modified(past).unwrap();
        }
        let [first, second, third] = files.map(|(key, _)| key);
        assert!(cache.load(&first).is_some());
        std::fs::write(cache.path().join(".new-1-1"), b"x").unwrap();
        // Under two names it counts once.
        let digest = cache.digest(b"content");
        cache.store(Owner { digest, ..file(4).1 }, &TABLE).unwrap();
        assert!(cache.load(&second).is_none());
        assert!(cache.load(&first).is_some() && cache.load(&third).is_some());
        assert!(cache.path().join(".new-1-1").exists());
        let old = SystemTime::now() - Duration::from_secs(7200);
        File::open(cache.path().join(".new-1-1")).unwrap().set_modified(old).unwrap();
        cache.store(file(4).1, &TABLE).unwrap();
        assert!(!cache.path().join(".new-1-1").exists());
        assert!(cache.path().join("secret").exists());
    }
}
