//! The registry of mapped files: it holds each file once and keeps it open, within a budget of descriptors.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::closer::Closer;
use crate::container_roots::{ContainerRoot, ContainerRoots};
use crate::file::MappedFile;
use crate::identity::{DeviceAndInode, FileIdentity};
use crate::memory_reader::MemoryReader;
use crate::open::{self, Opened, Paths};
use crate::open_failure::OpenFailure;
use crate::region::OpeningFile;
use crate::trampolines::{self, Layout};
use crate::vdso;

/// Failures are remembered by file, so that each file counts once. Beyond this many, every failure counts.
const MAX_REMEMBERED_FAILURES: usize = 1 << 16;

/// All files that processes map, each opened once.
///
/// Files are found by the device and inode that the kernel reports for a mapping. A file that was changed in place (same
/// inode, other size or time) is another file from then on.
#[derive(Debug)]
pub struct Files {
    known: Mutex<Known>,
    pins: Arc<AtomicUsize>,
    max_pins: usize,
    roots: ContainerRoots,
    closer: Closer,
    vdso: OnceLock<Option<Arc<MappedFile>>>,
    /// By their layout, of which there are a handful.
    trampolines: Mutex<HashMap<Layout, Option<Arc<MappedFile>>>>,
    memory: MemoryReader,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<DeviceAndInode, Vec<Arc<MappedFile>>>,
    failures: HashMap<DeviceAndInode, Failed>,
    counts: OpenCounts,
    /// Failures of files that targets map.
    of_targets: OpenCounts,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    why: OpenFailure,
    /// Why the first target could not open it. Others may have met another reason.
    of_target: Option<OpenFailure>,
}

/// How many files were opened and how many were not, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Files opened.
    pub opened: u64,
    /// Of these, files that are not kept open, because the budget of descriptors is used up. Their headers were read. Their
    /// content cannot be read after the file is deleted or replaced.
    pub not_pinned: u64,
    /// Files that could not be opened because a permission or capability is missing.
    pub permission: u64,
    /// Files that no longer exist under any known path.
    pub gone: u64,
    /// Files whose path leads to another file now.
    pub replaced: u64,
    /// Mapped files that are not regular files.
    pub not_regular: u64,
    /// Files that could not be opened because no descriptor was free.
    pub too_many_open_files: u64,
    /// Files that were given up because their file system did not answer.
    pub no_answer: u64,
    /// Files that could not be opened or read for any other reason.
    pub io: u64,
    /// Reads of memory of processes that were given up because a page did not come.
    pub memory_no_answer: u64,
}

impl OpenCounts {
    fn of(&mut self, failure: OpenFailure) -> &mut u64 {
        match failure {
            OpenFailure::Permission => &mut self.permission,
            OpenFailure::Gone => &mut self.gone,
            OpenFailure::Replaced => &mut self.replaced,
            OpenFailure::NotRegular => &mut self.not_regular,
            OpenFailure::TooManyOpenFiles => &mut self.too_many_open_files,
            OpenFailure::NoAnswer => &mut self.no_answer,
            OpenFailure::Io => &mut self.io,
        }
    }
}

impl Default for Files {
    fn default() -> Self {
        Self::new()
    }
}

impl Files {
    /// An empty registry. Raises the soft limit of open files to the hard one and takes half of it as its budget.
    #[must_use]
    pub fn new() -> Self {
        let limit = usize::try_from(sys::usage::raise_open_files()).unwrap_or(usize::MAX);
        Self::with_budget((limit / 2).min(1 << 16))
    }

    /// An empty registry that keeps at most `max_pins` files open.
    #[must_use]
    pub fn with_budget(max_pins: usize) -> Self {
        Self {
            known: Mutex::default(),
            pins: Arc::default(),
            max_pins,
            roots: ContainerRoots::default(),
            closer: Closer::default(),
            vdso: OnceLock::new(),
            trampolines: Mutex::default(),
            memory: MemoryReader::default(),
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> OpenCounts {
        OpenCounts { memory_no_answer: self.memory.unanswered(), ..self.known().counts }
    }

    /// The failures of files that targets map.
    #[must_use]
    pub fn failures_of_targets(&self) -> OpenCounts {
        OpenCounts { memory_no_answer: self.memory.unanswered(), ..self.known().of_targets }
    }

    /// Reads parts of the memory of a process, given as address and length, on a worker thread; each as far as it is readable. `None`: a
    /// page does not come, because the file behind it does not answer. That takes a moment, and further reads of the process are refused at
    /// once.
    pub fn read_memory(&self, pid: u32, parts: Vec<(u64, usize)>) -> Option<Vec<Vec<u8>>> {
        self.memory.read(pid, parts)
    }

    /// How many files are kept open.
    #[must_use]
    pub fn pinned(&self) -> usize {
        self.pins.load(Ordering::Relaxed)
    }

    /// Forgets and closes every file that nothing else refers to.
    pub fn prune(&self) {
        let mut unused = Vec::new();
        self.known().files.retain(|_, versions| {
            unused.extend(versions.extract_if(.., |file| Arc::strong_count(file) == 1));
            !versions.is_empty()
        });
        // Without the lock: they are closed.
        drop(unused);
        self.roots.prune();
    }

    /// The vDSO of 64-bit processes. None if it cannot be read.
    #[must_use]
    pub fn vdso(&self) -> Option<Arc<MappedFile>> {
        self.vdso.get_or_init(|| vdso::read().and_then(MappedFile::vdso).map(Arc::new)).clone()
    }

    /// The file that says how to unwind trampolines of this layout.
    pub(crate) fn trampolines(&self, layout: Layout) -> Option<Arc<MappedFile>> {
        let mut known = self.trampolines.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(layout).or_insert_with(|| trampolines::file(layout).map(Arc::new)).clone()
    }

    /// The file that the process in `proc_dir` maps at `range`. `paths`: none for files without a path; `shown_path`: the
    /// path that a new file gets.
    pub(crate) fn mapped(
        &self,
        proc_dir: &Path,
        range: (u64, u64),
        paths: Option<Paths<'_>>,
        shown_path: &str,
        wanted: DeviceAndInode,
    ) -> Result<Arc<MappedFile>, OpenFailure> {
        if let Some(file) = self.unchanged(wanted) {
            return Ok(file);
        }
        // Without the lock: a file system may be slow.
        let opened = open::open_mapping(proc_dir, range, paths, wanted)?;
        let root = self.roots.of(proc_dir, &opened.file, shown_path);
        self.adopt(opened, shown_path, wanted, root)
    }

    /// A file that is kept open, has not changed, and lies on a file system that always answers.
    pub(crate) fn at_hand(&self, wanted: DeviceAndInode) -> Option<Arc<MappedFile>> {
        let file = self.known().files.get(&wanted)?.last().cloned()?;
        (file.always_answers() && file.is_unchanged()).then_some(file)
    }

    /// The newest version known of this file, if it is kept open and has not changed. May block.
    fn unchanged(&self, wanted: DeviceAndInode) -> Option<Arc<MappedFile>> {
        let file = self.known().files.get(&wanted)?.last().cloned()?;
        file.is_unchanged().then_some(file)
    }

    fn adopt(
        &self,
        opened: Opened,
        path: &str,
        wanted: DeviceAndInode,
        root: Option<ContainerRoot>,
    ) -> Result<Arc<MappedFile>, OpenFailure> {
        if let Some(file) = find(&self.known(), wanted, opened.identity) {
            return Ok(file);
        }
        let pins = (self.pinned() < self.max_pins).then_some(&self.pins);
        let file =
            MappedFile::new(opened, path.to_owned(), pins, &self.closer).map_err(|_| OpenFailure::Io)?;
        let file = file.in_root(root);
        let mut known = self.known();
        // Another thread may have added it in the meantime.
        if let Some(file) = find(&known, wanted, file.identity()) {
            return Ok(file);
        }
        known.counts.opened += 1;
        known.counts.not_pinned += u64::from(pins.is_none());
        if let Some(Failed { why, of_target }) = known.failures.remove(&wanted) {
            *known.counts.of(why) -= 1;
            if let Some(why) = of_target {
                *known.of_targets.of(why) -= 1;
            }
        }
        let file = Arc::new(file);
        known.files.entry(wanted).or_default().push(Arc::clone(&file));
        Ok(file)
    }

    /// Remembers a file that could not be opened, so that all processes that map it share it.
    pub(crate) fn remember_unreadable(&self, file: MappedFile) -> Arc<MappedFile> {
        let identity = file.identity();
        let mut known = self.known();
        let versions = known.files.entry(identity.device_and_inode()).or_default();
        let same = versions.iter().find(|other| other.identity() == identity && other.key() == file.key());
        match same {
            Some(same) => Arc::clone(same),
            None => {
                let file = Arc::new(file);
                // In front, so that the last one remains the newest that could be opened.
                versions.insert(0, Arc::clone(&file));
                file
            }
        }
    }

    /// Counts a file that could not be opened, once; and once more when it is a target's.
    pub(crate) fn count_failure(&self, file: &OpeningFile, why: OpenFailure) {
        let of_target = file.is_of_target().then_some(why);
        let known = &mut *self.known();
        let (mut is_new, mut is_new_of_target) = (true, of_target.is_some());
        let is_remembered = known.failures.len() < MAX_REMEMBERED_FAILURES;
        match known.failures.entry(file.wanted()) {
            Entry::Occupied(mut before) => {
                is_new = false;
                let before = &mut before.get_mut().of_target;
                is_new_of_target &= before.is_none();
                *before = before.or(of_target);
            }
            Entry::Vacant(free) if is_remembered => _ = free.insert(Failed { why, of_target }),
            Entry::Vacant(_) => {}
        }
        *known.counts.of(why) += u64::from(is_new);
        *known.of_targets.of(why) += u64::from(is_new_of_target);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(known: &Known, wanted: DeviceAndInode, identity: FileIdentity) -> Option<Arc<MappedFile>> {
    known.files.get(&wanted)?.iter().find(|file| file.identity() == identity).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(path: &Path) -> DeviceAndInode {
        crate::identity::device_and_inode(&rustix::fs::stat(path).unwrap())
    }

    fn get(files: &Files, path: &Path) -> Result<Arc<MappedFile>, OpenFailure> {
        let paths = Paths { in_target: path, here: path };
        files.mapped(Path::new("/proc/self"), (1, 2), Some(paths), path.to_str().unwrap(), wanted(path))
    }

    #[test]
    fn the_same_file_is_opened_once_under_all_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::copy("/bin/sh", &first).unwrap();
        std::fs::hard_link(&first, &second).unwrap();
        let files = Files::with_budget(10);
        let one = get(&files, &first).unwrap();
        assert!(Arc::ptr_eq(&one, &get(&files, &second).unwrap()));
        assert_eq!((files.pinned(), files.counts().opened), (1, 1));
        drop(one);
        files.prune();
        assert_eq!(files.pinned(), 0);
    }

    #[test]
    fn a_file_changed_in_place_is_another_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "one").unwrap();
        let files = Files::with_budget(10);
        let before = get(&files, file.path()).unwrap();
        std::fs::write(&file, "other").unwrap();
        let after = get(&files, file.path()).unwrap();
        assert_ne!(before.identity(), after.identity());
        assert!(Arc::ptr_eq(&after, &get(&files, file.path()).unwrap()));
    }

    #[test]
    fn without_descriptors_headers_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::copy("/bin/sh", &path).unwrap();
        let files = Files::with_budget(0);
        let file = get(&files, &path).unwrap();
        assert!(Arc::ptr_eq(&file, &get(&files, &path).unwrap()), "known, though not open");
        assert!(file.build_id().is_some() && !file.is_pinned());
        assert_eq!((files.pinned(), files.counts().not_pinned), (0, 1));
        assert_eq!(*file.bytes().unwrap(), *std::fs::read("/bin/sh").unwrap(), "while it is there");
        std::fs::copy("/bin/ls", &path).unwrap();
        assert_eq!(file.bytes().unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    fn failures_are_counted_once_per_file() {
        let files = Files::with_budget(10);
        for _ in 0..3 {
            files.count_failure(&opening((1, 2, 3)), OpenFailure::Gone);
        }
        let one = OpenCounts { gone: 1, ..OpenCounts::default() };
        assert_eq!((files.counts(), files.failures_of_targets()), (one, one));
    }

    fn opening(wanted: DeviceAndInode) -> OpeningFile {
        OpeningFile::new(wanted, String::new())
    }

    #[test]
    fn failures_of_other_processes_are_counted_apart() {
        let files = Files::with_budget(10);
        let of_other = opening((1, 2, 3));
        of_other.set_of_no_target();
        (0..2).for_each(|_| files.count_failure(&of_other, OpenFailure::Permission));
        let one = OpenCounts { permission: 1, ..OpenCounts::default() };
        assert_eq!((files.counts(), files.failures_of_targets()), (one, OpenCounts::default()));
        // A target maps it too.
        (0..2).for_each(|_| files.count_failure(&opening((1, 2, 3)), OpenFailure::Permission));
        assert_eq!((files.counts(), files.failures_of_targets()), (one, one));
        files.count_failure(&of_other, OpenFailure::Permission);
        assert_eq!((files.counts(), files.failures_of_targets()), (one, one));
    }

    #[test]
    fn a_file_that_is_opened_later_is_no_failure() {
        let (files, sh) = (Files::with_budget(10), Path::new("/bin/sh"));
        files.count_failure(&opening(wanted(sh)), OpenFailure::Gone);
        get(&files, sh).unwrap();
        assert_eq!(files.counts(), OpenCounts { opened: 1, ..OpenCounts::default() });
    }

    #[test]
    fn a_target_may_meet_another_reason() {
        let (files, sh) = (Files::with_budget(10), Path::new("/bin/sh"));
        let of_other = opening(wanted(sh));
        of_other.set_of_no_target();
        files.count_failure(&of_other, OpenFailure::Gone);
        files.count_failure(&opening(wanted(sh)), OpenFailure::Permission);
        files.count_failure(&opening(wanted(sh)), OpenFailure::Io);
        let gone = OpenCounts { gone: 1, ..OpenCounts::default() };
        let permission = OpenCounts { permission: 1, ..OpenCounts::default() };
        assert_eq!((files.counts(), files.failures_of_targets()), (gone, permission));
        get(&files, sh).unwrap();
        assert_eq!(files.failures_of_targets(), OpenCounts::default());
        assert_eq!(files.counts(), OpenCounts { opened: 1, ..OpenCounts::default() });
    }

    #[test]
    fn the_vdso_is_an_elf_file_with_code() {
        let file = Files::with_budget(0).vdso().unwrap();
        assert_eq!((file.path(), file.kind()), ("[vdso]", crate::FileKind::InMemory));
        assert!(file.segments().iter().any(|segment| segment.executable));
        assert!(file.build_id().is_some());
        assert!(file.bytes().unwrap().starts_with(b"\x7fELF"));
    }
}
