//! The file of a module, found by the path in a recording. The path is hostile input.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use elf::Headers;
use profile::BuildId;
use recording::{FileIdentity, Module, ModuleKind};
use rustix::fs::{
    CWD, FileType, FsWord, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, fstat, fstatfs, openat2,
};
use symbols::{ObjectFile, ObjectSource};
use sys::reopen::reopen;

use crate::request::{ModuleFile, OpenedModule};

/// File systems of the kernel: proc, sysfs, debugfs, tracefs. They hold no programs, and opening or reading some of their files has
/// effects.
const KERNEL_FILE_SYSTEMS: [FsWord; 4] = [PROC_SUPER_MAGIC, 0x6265_6572, 0x6462_6720, 0x7472_6163];

/// A file on this machine, at the path that the recording tells.
///
/// It is opened if it is a regular file outside of `/proc` and `/sys` and proves to be the file of the recording: it has the build-id of the module
/// or, where the module has none, its size and time of modification.
#[derive(Clone, Debug)]
pub struct PathFile {
    path: PathBuf,
    build_id: Option<BuildId>,
    identity: FileIdentity,
    /// Where a file with the build-id is looked for if it is not at its path.
    symbol_dirs: Vec<PathBuf>,
}

impl PathFile {
    /// The file of a module; `None` if the module is no file with symbols. Opens nothing.
    #[must_use]
    pub fn of(module: &Module) -> Option<Self> {
        let path = PathBuf::from(&module.path);
        let may_be_found = module.kind == ModuleKind::Elf && path.is_absolute();
        may_be_found.then(|| Self {
            path,
            build_id: module.build_id.clone(),
            identity: module.identity,
            symbol_dirs: Vec::new(),
        })
    }

    /// The same; preferred is the file with its build-id in one of these directories, below `.build-id` as in `/usr/lib/debug` or by its
    /// name. If it is neither there nor at its path, its debug file in one of them is taken for it. The user chose the directories.
    #[must_use]
    pub fn or_in(self, symbol_dirs: &[PathBuf]) -> Self {
        Self { symbol_dirs: symbol_dirs.to_vec(), ..self }
    }

    /// The file, or the one of the directories.
    fn find(&self) -> Option<File> {
        let in_dirs = |suffix| self.symbol_dirs.iter().find_map(|dir| self.find_in(dir, suffix));
        // The file itself knows more than its debug file: stubs, and the tables of Go.
        in_dirs("").or_else(|| self.open_checked()).or_else(|| in_dirs(".debug"))
    }

    fn find_in(&self, dir: &Path, suffix: &str) -> Option<File> {
        let build_id = self.build_id.as_ref()?;
        let by_name = self.path.file_name().map(|name| {
            let mut path = dir.join(name).into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        });
        [Some(dir.join(build_id.path(suffix))), by_name].into_iter().flatten().find_map(|path| {
            let (file, _) = open_regular(&path)?;
            (build_id_of(&file).as_ref() == Some(build_id)).then_some(file)
        })
    }

    /// The file at its path, if it is the right one.
    fn open_checked(&self) -> Option<File> {
        let (file, stat) = open_regular(&self.path)?;
        let same = match &self.build_id {
            Some(_) => build_id_of(&file) == self.build_id,
            None => self.identity.size > 0 && self.has_identity(&stat),
        };
        same.then_some(file)
    }

    fn has_identity(&self, stat: &Stat) -> bool {
        let mtime_ns =
            stat.st_mtime.saturating_mul(1_000_000_000).saturating_add_unsigned(stat.st_mtime_nsec);
        u64::try_from(stat.st_size) == Ok(self.identity.size) && mtime_ns == self.identity.mtime_ns
    }
}

impl ModuleFile for PathFile {
    fn open(&self) -> Option<OpenedModule> {
        let file = self.find()?;
        let object = ObjectFile {
            source: ObjectSource::Path(through(file.as_raw_fd())),
            display_path: self.path.to_string_lossy().into_owned(),
            root: None,
            build_id: self.build_id.clone(),
        };
        Some(OpenedModule { object, guard: Box::new(file) })
    }

    fn size(&self) -> u64 {
        self.identity.size
    }
}

/// The file at a path, if it is that of a recording of another program: it has the build-id or, where that is not known, the inode number.
/// Devices are not compared: file systems in layers tell processes other ones than recordings.
#[must_use]
pub fn open_recorded(
    path: &Path,
    build_id: Option<&BuildId>,
    inode: Option<u64>,
) -> Option<(File, FileIdentity)> {
    let (file, stat) = open_regular(path)?;
    let same = match build_id {
        Some(_) => build_id_of(&file).as_ref() == build_id,
        None => inode == Some(stat.st_ino),
    };
    let mtime_ns = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add_unsigned(stat.st_mtime_nsec);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    same.then(|| (file, FileIdentity { size, mtime_ns, ..FileIdentity::default() }))
}

/// Opens a regular file that no magic link leads to: such links in `/proc` lead to the files of processes. The type of the file is
/// checked before it is opened for reading: opening a pipe would block, opening a device may have effects. Where `openat2(2)` is
/// forbidden, nothing is opened.
fn open_regular(path: &Path) -> Option<(File, Stat)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let handle: OwnedFd = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).ok()?;
    let stat = fstat(&handle).ok()?;
    let of_kernel = KERNEL_FILE_SYSTEMS.contains(&fstatfs(&handle).ok()?.f_type);
    if of_kernel || !FileType::from_raw_mode(stat.st_mode).is_file() {
        return None;
    }
    Some((reopen(&handle).ok()?, stat))
}

/// The build-id of an ELF file.
pub(crate) fn build_id_of(file: &File) -> Option<BuildId> {
    Headers::read(&|buffer, at| file.read_at(buffer, at)).ok()??.build_id
}

/// A path that leads to an open file.
fn through(descriptor: i32) -> PathBuf {
    format!("/proc/self/fd/{descriptor}").into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;

    fn module(path: &Path) -> Module {
        let path = path.to_str().unwrap().to_owned();
        Module { path, build_id: None, kind: ModuleKind::Elf, identity: FileIdentity::default() }
    }

    /// As a live capture would record it.
    fn recorded(path: &Path) -> Module {
        let mut module = module(path);
        if let Ok(meta) = std::fs::metadata(path) {
            module.identity.size = meta.len();
            module.identity.mtime_ns = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
        }
        module
    }

    fn opens(module: &Module) -> bool {
        PathFile::of(module).and_then(|file| file.open()).is_some()
    }

    #[test]
    fn a_file_is_believed_by_its_build_id_alone_if_the_module_has_one() {
        let build_id = build_id_of(&File::open("/bin/sh").unwrap()).unwrap();
        let mut module = module(Path::new("/bin/sh"));
        assert!(!opens(&module), "nothing is known of the file");
        module.build_id = Some(build_id);
        assert!(opens(&module));
        let mut other = recorded(Path::new("/bin/sh"));
        other.build_id = Some("01020304".parse().unwrap());
        assert!(!opens(&other), "though size and time are right");
    }

    #[test]
    fn without_a_build_id_size_and_time_must_be_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "content").unwrap();
        let module = recorded(file.path());
        assert!(opens(&module));
        let times = SystemTime::now() - Duration::from_secs(10);
        file.as_file().set_modified(times).unwrap();
        assert!(!opens(&module), "another time");
        let mut longer = recorded(file.path());
        assert!(opens(&longer));
        longer.identity.size += 1;
        assert!(!opens(&longer));
    }

    #[test]
    fn hostile_paths_open_nothing_and_do_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(path("loop"), path("loop")).unwrap();
        symlink("/proc/self/exe", path("exe")).unwrap();
        let pid = std::process::id();
        let hostile = [
            path("fifo"),
            path("loop"),
            path("exe"),
            folder.path().to_owned(),
            path("missing"),
            "/dev/zero".into(),
            "/dev/tty".into(),
            "/proc/self/exe".into(),
            format!("/proc/{pid}/exe").into(),
            format!("/proc/{pid}/root/bin/sh").into(),
            format!("/proc/{pid}/maps").into(),
            "/proc/self/mem".into(),
            "/proc/version".into(),
            "/sys/kernel/notes".into(),
            "/proc/self/fd/0".into(),
            "".into(),
            "relative".into(),
            "/".repeat(10_000).into(),
            "/bin/sh\0".into(),
        ];
        let sh = build_id_of(&File::open("/bin/sh").unwrap());
        for path in hostile {
            for build_id in [None, sh.clone()] {
                let module = Module { build_id, ..recorded(&path) };
                assert!(!opens(&module), "{}", path.display());
            }
        }
    }

    #[test]
    fn a_huge_sparse_file_is_read_where_its_headers_point_and_no_farther() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // The notes of this file are all of it.
        let mut header = std::fs::read("/bin/sh").unwrap()[..64 + 56].to_vec();
        let word = |bytes: &mut Vec<u8>, at: usize, value: u64| {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        header[56..58].copy_from_slice(&1u16.to_le_bytes());
        header[64..68].copy_from_slice(&PT_NOTE.to_le_bytes());
        word(&mut header, 32, 64);
        word(&mut header, 64 + 8, 4096);
        word(&mut header, 64 + 32, (10 << 30) - 4096);
        word(&mut header, 64 + 48, 4);
        std::fs::write(&file, header).unwrap();
        file.as_file().set_len(10 << 30).unwrap();
        let build_id = Some("01020304".parse().unwrap());
        let before = bytes_read();
        assert!(!opens(&Module { build_id, ..recorded(file.path()) }));
        let read = bytes_read() - before;
        assert!((64..16 << 20).contains(&read), "{read} bytes");
    }

    const PT_NOTE: u32 = 4;

    /// Bytes read by this thread.
    fn bytes_read() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap()
    }

    #[test]
    fn code_without_a_file_is_not_looked_for() {
        let vdso = Module { path: "[vdso]".to_owned(), kind: ModuleKind::InMemory, ..module(Path::new("/")) };
        assert!(PathFile::of(&vdso).is_none());
        assert!(PathFile::of(&module(Path::new("relative/path"))).is_none());
        assert!(
            PathFile::of(&Module { kind: ModuleKind::NotElf, ..recorded(Path::new("/bin/sh")) }).is_none()
        );
    }
}
