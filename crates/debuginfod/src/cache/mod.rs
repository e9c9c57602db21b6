//! The cache: fetched files in a directory that any number of processes share.
//!
//! A file gets its name by a rename, when it is whole and known to be the right one. Locks on files, which the kernel drops with their
//! process, keep processes from fetching the same file at once and from filling the directory beyond its bound together. There is no
//! database: the directory is the index, and the times of files tell which were used last.

mod client_cache;
mod directory;
mod index;
mod lock;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use tempfile::TempDir;

pub use self::client_cache::client_cache_dir;
pub(crate) use self::client_cache::find as find_in_client_cache;
pub use self::directory::{CacheDirError, check_cache_dir, default_cache_dir};
pub(crate) use self::index::Room;
use self::index::make_room;
use self::lock::Lock;
use crate::content::Content;
use crate::entry::Artifact;
use crate::server::Server;

/// How long it is believed that no server has a file.
const MISSING_IS_VALID: Duration = Duration::from_secs(600);
/// Changes of the directory take moments. A process that is stopped meanwhile is not waited for longer.
const CHANGE: Duration = Duration::from_secs(5);
/// Numbers of temporary files.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// The cache.
pub(crate) struct Cache {
    root: PathBuf,
    /// Removes the directory in the end, if it is for this run only.
    _private: Option<TempDir>,
    max: u64,
    /// Files that this run uses: they are not removed.
    used: Mutex<Vec<PathBuf>>,
}

/// A file that is being written. It is removed unless it is stored.
pub(crate) struct Draft {
    pub(crate) file: File,
    path: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A file of the cache, open.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) file: File,
    pub(crate) content: Content,
}

impl Cache {
    /// In the given directory, or in the usual one. If that cannot be used, in a private one for this run.
    pub(crate) fn open(given: Option<&Path>, max: u64) -> io::Result<Self> {
        let with = |root, private| Self { root, _private: private, max, used: Mutex::default() };
        if let Some(given) = given {
            return Ok(with(directory::open(given).map_err(io::Error::other)?, None));
        }
        match default_cache_dir().map(|usual| directory::open(&usual)) {
            Some(Ok(root)) => return Ok(with(root, None)),
            Some(Err(error)) => tracing::debug!(target: "perfagent", "debuginfod: {error}"),
            None => {}
        }
        let private = directory::private()?;
        Ok(with(private.path().to_owned(), Some(private)))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Waits for the right to fetch a file, which one process has at a time, until `goes_on` is false.
    pub(crate) fn lock(&self, artifact: &Artifact, goes_on: impl Fn() -> bool) -> io::Result<Option<Lock>> {
        let folder = directory::make_folder(&self.root, &artifact.folder())?;
        Lock::wait(&folder.join(".lock"), goes_on)
    }

    /// Whether there is a file of this name.
    pub(crate) fn has(&self, artifact: &Artifact) -> bool {
        self.path(artifact).symlink_metadata().is_ok()
    }

    /// A file, if it is there and is what it should be; otherwise it is removed. It counts as used by this run.
    pub(crate) fn find(&self, artifact: &Artifact) -> Option<Cached> {
        let path = self.path(artifact);
        let file = open_own(&path)?;
        match Content::of(&file).filter(|content| content.build_id == artifact.build_id) {
            Some(content) => {
                let _ = file.set_modified(SystemTime::now());
                self.use_file(path);
                Some(Cached { file, content })
            }
            None => {
                tracing::debug!(target: "perfagent", "debuginfod: {} is damaged: removed", path.display());
                let _ = std::fs::remove_file(&path);
                None
            }
        }
    }

    /// Whether these servers have said lately that they do not have a file.
    pub(crate) fn is_missing(&self, artifact: &Artifact, servers: &[Server]) -> bool {
        let path = self.root.join(artifact.folder()).join(artifact.missing_name());
        let Some(file) = open_own(&path) else { return false };
        let is_young = file
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age < MISSING_IS_VALID));
        is_young && io::read_to_string(io::Read::take(file, 1 << 17)).is_ok_and(|text| text == asked(servers))
    }

    /// Remembers that these servers do not have a file.
    pub(crate) fn set_missing(&self, artifact: &Artifact, servers: &[Server]) {
        let write = || -> io::Result<()> {
            let draft = self.draft(artifact)?;
            io::Write::write_all(&mut &draft.file, asked(servers).as_bytes())?;
            std::fs::rename(&draft.path, self.root.join(artifact.folder()).join(artifact.missing_name()))
        };
        if let Err(error) = write() {
            tracing::debug!(target: "perfagent", "debuginfod: remember a missing file: {error}");
        }
    }

    /// A new file that nobody else sees.
    pub(crate) fn draft(&self, artifact: &Artifact) -> io::Result<Draft> {
        let folder = directory::make_folder(&self.root, &artifact.folder())?;
        let path = folder.join(artifact.temporary_name(NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed)));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Draft { file, path })
    }

    /// Gives a whole and right file its name, after making room for it. If there is no room, it stays without a name, and is gone when it
    /// is closed.
    pub(crate) fn store(&self, draft: Draft, artifact: &Artifact) -> io::Result<(File, Room)> {
        let file = draft.file.try_clone()?;
        file.sync_all()?;
        let path = self.path(artifact);
        let Some(_lock) = self.change()? else { return Ok((file, Room::default())) };
        // An older one with this name is replaced.
        let _ = std::fs::remove_file(&path);
        let room = make_room(&self.root, file.metadata()?.len(), self.max, &self.used_files())?;
        if room.is_enough {
            std::fs::rename(&draft.path, &path)?;
            self.use_file(path);
        }
        Ok((file, room))
    }

    /// Removes files until the bound is kept, and what killed processes left behind.
    pub(crate) fn tidy(&self) -> io::Result<Room> {
        let Some(_lock) = self.change()? else { return Ok(Room::default()) };
        make_room(&self.root, 0, self.max, &self.used_files())
    }

    /// The lock that is held while the directory is changed.
    fn change(&self) -> io::Result<Option<Lock>> {
        let begun = std::time::Instant::now();
        Lock::wait(&self.root.join(".lock"), || begun.elapsed() < CHANGE)
    }

    fn path(&self, artifact: &Artifact) -> PathBuf {
        self.root.join(artifact.folder()).join(artifact.file_name())
    }

    fn use_file(&self, path: PathBuf) {
        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !used.contains(&path) {
            used.push(path);
        }
    }

    fn used_files(&self) -> Vec<PathBuf> {
        self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// The content of a marker: which servers were asked.
fn asked(servers: &[Server]) -> String {
    servers.iter().map(|server| format!("{server}\n")).collect()
}

/// Opens a regular file of our own or of root's.
fn open_own(path: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    (meta.is_file() && directory::is_trusted(meta.uid())).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::entry::Kind;

    fn of_shell() -> Artifact {
        let content = Content::of(&File::open("/bin/sh").unwrap()).unwrap();
        Artifact { kind: Kind::Executable, build_id: content.build_id }
    }

    fn store(cache: &Cache, artifact: &Artifact, bytes: &[u8]) -> Room {
        let draft = cache.draft(artifact).unwrap();
        io::Write::write_all(&mut &draft.file, bytes).unwrap();
        cache.store(draft, artifact).unwrap().1
    }

    #[test]
    fn a_stored_file_is_found_private_and_used_and_a_damaged_one_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        let cache = Cache::open(Some(&root), 1 << 30).unwrap();
        let (shell, bytes) = (of_shell(), std::fs::read("/bin/sh").unwrap());
        assert!(cache.find(&shell).is_none());
        assert!(store(&cache, &shell, &bytes).is_enough);
        let path = cache.path(&shell);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!([mode(&root), mode(path.parent().unwrap()), mode(&path)], [0o700, 0o700, 0o600]);
        let old = SystemTime::now() - Duration::from_secs(1000);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(cache.find(&shell).is_some());
        assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > old, "a hit is a use");
        std::fs::write(&path, &bytes[..1000]).unwrap();
        assert!(cache.find(&shell).is_none());
        assert!(!path.exists());
        let other = Artifact { build_id: "01020304".parse().unwrap(), ..shell };
        store(&cache, &other, &bytes);
        assert!(cache.find(&other).is_none(), "it has another build-id");
    }

    #[test]
    fn a_draft_that_is_not_stored_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path()), 1 << 30).unwrap();
        let draft = cache.draft(&of_shell()).unwrap();
        let path = draft.path.clone();
        assert!(path.exists());
        drop(draft);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_or_a_pipe_in_the_place_of_a_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path()), 1 << 30).unwrap();
        let shell = of_shell();
        drop(cache.draft(&shell).unwrap());
        std::os::unix::fs::symlink("/bin/sh", cache.path(&shell)).unwrap();
        assert!(cache.find(&shell).is_none());
        std::fs::remove_file(cache.path(&shell)).unwrap();
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, cache.path(&shell), kind, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(cache.find(&shell).is_none());
    }

    #[test]
    fn a_missing_file_is_remembered_for_ten_minutes_and_for_the_servers_that_were_asked() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path()), 1 << 30).unwrap();
        let (shell, server) = (of_shell(), |text: &str| vec![text.parse::<Server>().unwrap()]);
        assert!(!cache.is_missing(&shell, &server("http://a")));
        cache.set_missing(&shell, &server("http://a"));
        assert!(cache.is_missing(&shell, &server("http://a")));
        assert!(!cache.is_missing(&shell, &server("http://b")));
        let debug = Artifact { kind: Kind::Debuginfo, ..shell.clone() };
        assert!(!cache.is_missing(&debug, &server("http://a")), "that was not asked for");
        let marker = folder.path().join(shell.folder()).join(shell.missing_name());
        let old = SystemTime::now() - Duration::from_secs(601);
        File::options().write(true).open(marker).unwrap().set_modified(old).unwrap();
        assert!(!cache.is_missing(&shell, &server("http://a")));
    }

    #[test]
    fn a_file_that_does_not_fit_can_be_used_and_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = std::fs::read("/bin/sh").unwrap();
        let cache = Cache::open(Some(folder.path()), bytes.len() as u64 * 3 / 2).unwrap();
        let shell = of_shell();
        assert!(store(&cache, &shell, &bytes).is_enough);
        let other = Artifact { kind: Kind::Debuginfo, ..shell.clone() };
        assert!(!store(&cache, &other, &bytes).is_enough, "this run uses the first one");
        assert!(cache.find(&other).is_none() && cache.find(&shell).is_some());
        let next = Cache::open(Some(folder.path()), cache.max).unwrap();
        let room = store(&next, &other, &bytes);
        assert_eq!((room.is_enough, room.removed), (true, 1));
        assert!(next.find(&other).is_some() && next.find(&shell).is_none());
    }
}
