//! Files that appear complete or not at all.
//!
//! A regular file is written without a name (`O_TMPFILE`) and gets its name at the end, so even SIGKILL leaves nothing
//! behind. On file systems without unnamed files it has a registered temporary name in the same directory.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::names::AutoName;
use super::place::{Place, parent, place_of};
use super::sink::Sink;
use super::target::{FileTarget, OutputTarget};
use super::temporary::{TemporaryFile, TemporaryFiles};
use crate::CancelToken;

/// Time between two checks whether a FIFO has a reader.
const READER_EVERY: Duration = Duration::from_millis(20);

/// Mode of new files; the kernel applies the umask.
const MODE: u32 = 0o644;

/// The largest number tried for an automatic name.
const MAX_NUMBER: u32 = 10_000;

/// An output being written. A regular file appears only after [`finish`](Self::finish).
pub(crate) struct OutputFile {
    writer: BufWriter<Counted>,
}

/// An output that was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The final path; none for sinks and standard output.
    pub(crate) path: Option<PathBuf>,
    /// Bytes written.
    pub(crate) bytes: u64,
}

struct Counted {
    inner: Inner,
    bytes: u64,
}

enum Inner {
    Staged { file: File, temporary: Option<TemporaryFile>, final_name: FinalName, registry: TemporaryFiles },
    Direct { file: File, path: PathBuf },
    Stdout(File),
    Sink(Box<dyn Sink>),
}

/// The name that a file gets when it is complete.
enum FinalName {
    Replace(PathBuf),
    FirstFree(AutoName),
}

impl FinalName {
    fn path(&self) -> PathBuf {
        match self {
            Self::Replace(path) => path.clone(),
            Self::FirstFree(name) => name.path(1),
        }
    }
}

impl OutputFile {
    /// Opens a target for writing. `registry` lists temporary names while they exist. Waits for a reader of a FIFO until
    /// `give_up` is cancelled.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn open(
        target: OutputTarget,
        registry: &TemporaryFiles,
        give_up: &CancelToken,
    ) -> io::Result<Self> {
        let inner = match target {
            OutputTarget::Sink(sink) => Inner::Sink(sink),
            OutputTarget::File(FileTarget::Stdout) => Inner::Stdout(stdout()?),
            OutputTarget::File(FileTarget::Auto(name)) => stage(FinalName::FirstFree(name), registry)?,
            OutputTarget::File(FileTarget::Path(path)) => match place_of(&path)? {
                Place::Direct { .. } => Inner::Direct { file: open_direct(&path, give_up)?, path },
                Place::Regular { path, .. } => stage(FinalName::Replace(path), registry)?,
            },
        };
        Ok(Self { writer: BufWriter::with_capacity(64 << 10, Counted { inner, bytes: 0 }) })
    }

    /// Writes the buffered bytes. A regular file gets its name later, in [`publish_all`].
    ///
    /// # Errors
    /// The error of the system call or of the sink.
    pub(crate) fn finish(self) -> io::Result<Written> {
        let Counted { mut inner, bytes } =
            self.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        match &mut inner {
            Inner::Staged { file, .. } => file.sync_data().or_else(ignore_unsupported)?,
            Inner::Sink(sink) => sink.flush()?,
            Inner::Direct { .. } | Inner::Stdout(_) => {}
        }
        Ok(Written { inner, bytes })
    }
}

/// A completely written output. A regular file does not have its name yet.
pub(crate) struct Written {
    inner: Inner,
    bytes: u64,
}

impl Written {
    /// Claims the automatic name with this number, if this file has an automatic name. A drop of the result frees the name.
    fn claim(&self, number: u32) -> Option<io::Result<TemporaryFile>> {
        let Inner::Staged { file, temporary, final_name: FinalName::FirstFree(name), registry } = &self.inner
        else {
            return None;
        };
        let path = name.path(number);
        let claimed = match temporary {
            None => link_to(file, &path),
            Some(_) => OpenOptions::new().write(true).create_new(true).open(&path).map(drop),
        };
        Some(claimed.map(|()| registry.register(path)))
    }

    /// Whether a file with the automatic name and this number exists.
    fn is_taken(&self, number: u32) -> bool {
        let Inner::Staged { final_name: FinalName::FirstFree(name), .. } = &self.inner else {
            return false;
        };
        name.path(number).symlink_metadata().is_ok()
    }

    fn publish(self, claimed: Option<io::Result<TemporaryFile>>) -> io::Result<Finished> {
        let path = match self.inner {
            Inner::Staged { file, temporary, final_name, registry } => Some(match final_name {
                FinalName::Replace(path) => replace(&file, temporary, path, &registry)?,
                FinalName::FirstFree(name) => {
                    settle(temporary, claimed.unwrap_or_else(|| none_free(&name))?)?
                }
            }),
            Inner::Direct { path, .. } => Some(path),
            Inner::Stdout(_) | Inner::Sink(_) => None,
        };
        Ok(Finished { path, bytes: self.bytes })
    }
}

/// Gives files their names. All automatic names get the same number: the first one that is free for all of them.
pub(crate) fn publish_all(written: Vec<io::Result<Written>>) -> Vec<io::Result<Finished>> {
    // A file that has lost its last name cannot get a new one, so claimed names are kept until all files have their final one.
    let (mut claims, mut given_up) = (Vec::new(), Vec::new());
    for number in 1..=MAX_NUMBER {
        if written.iter().flatten().any(|output| output.is_taken(number)) {
            continue;
        }
        for output in &written {
            claims.push(output.as_ref().ok().and_then(|output| output.claim(number)));
        }
        let overtaken = |claim: &Option<io::Result<_>>| matches!(claim, Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists);
        if !claims.iter().any(overtaken) {
            break;
        }
        given_up.append(&mut claims);
    }
    claims.resize_with(written.len(), || None);
    written.into_iter().zip(claims).map(|(output, claim)| output?.publish(claim)).collect()
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.inner {
            Inner::Staged { file, .. } | Inner::Direct { file, .. } | Inner::Stdout(file) => {
                file.write(bytes)
            }
            Inner::Sink(sink) => sink.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Staged { file, .. } | Inner::Direct { file, .. } | Inner::Stdout(file) => file.flush(),
            Inner::Sink(sink) => sink.flush(),
        }
    }
}

/// Ignores the error of a file system that cannot sync: the write itself succeeded.
fn ignore_unsupported(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    }
}

/// Standard output without std's buffer, which ignores a closed descriptor.
fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Opens a device or FIFO without blocking: a blocking open of a FIFO without a reader could not be cancelled.
fn open_direct(path: &Path, give_up: &CancelToken) -> io::Result<File> {
    if !std::fs::metadata(path)?.file_type().is_fifo() {
        return OpenOptions::new().write(true).open(path);
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(opened) => {
                let flags = rustix::fs::fcntl_getfl(&opened)? - OFlags::NONBLOCK;
                rustix::fs::fcntl_setfl(&opened, flags)?;
                return Ok(File::from(opened));
            }
            Err(Errno::NXIO) if give_up.is_cancelled() => {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "nobody reads this FIFO"));
            }
            Err(Errno::NXIO) => thread::sleep(READER_EVERY),
            Err(error) => return Err(error.into()),
        }
    }
}

fn stage(final_name: FinalName, registry: &TemporaryFiles) -> io::Result<Inner> {
    let path = final_name.path();
    let registry = registry.clone();
    if let Some(file) = open_unnamed(parent(&path)) {
        return Ok(Inner::Staged { file, temporary: None, final_name, registry });
    }
    let temporary = registry.register(temporary_path(&path));
    let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(temporary.path())?;
    Ok(Inner::Staged { file, temporary: Some(temporary), final_name, registry })
}

/// A file without a name, if the file system supports it and `/proc` is there to name the file later.
fn open_unnamed(directory: &Path) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, directory, flags, Mode::from_raw_mode(MODE)).ok()?);
    fd_path(&file).symlink_metadata().is_ok().then_some(file)
}

fn fd_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A name that nobody can guess: in a directory of all users another one may make files with names that are known before.
fn temporary_path(path: &Path) -> PathBuf {
    let number = RandomState::new().build_hasher().finish();
    let file_name: String = path.file_name().unwrap_or_default().to_string_lossy().chars().take(48).collect();
    parent(path).join(format!(".{file_name}.{number:016x}.tmp"))
}

fn link_to(file: &File, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, fd_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

fn replace(
    file: &File,
    temporary: Option<TemporaryFile>,
    path: PathBuf,
    registry: &TemporaryFiles,
) -> io::Result<PathBuf> {
    let temporary = match temporary {
        Some(temporary) => temporary,
        None => {
            let temporary = registry.register(temporary_path(&path));
            link_to(file, temporary.path())?;
            temporary
        }
    };
    std::fs::rename(temporary.path(), &path)?;
    temporary.keep();
    Ok(path)
}

/// Makes a claimed name the final name of the file.
fn settle(temporary: Option<TemporaryFile>, claimed: TemporaryFile) -> io::Result<PathBuf> {
    let path = claimed.path().to_owned();
    if let Some(temporary) = temporary {
        std::fs::rename(temporary.path(), &path)?;
        temporary.keep();
    }
    claimed.keep();
    Ok(path)
}

fn none_free(name: &AutoName) -> io::Result<TemporaryFile> {
    let message = format!("{} and {} numbered names exist already", name.path(1).display(), MAX_NUMBER - 1);
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::kind::OutputKind;
    use super::super::names::{Subject, auto_name};
    use super::super::sink::MemorySink;
    use super::*;

    fn write(target: impl Into<FileTarget>, bytes: &[u8]) -> io::Result<Finished> {
        let mut file =
            OutputFile::open(OutputTarget::File(target.into()), &TemporaryFiles::new(), &CancelToken::new())?;
        file.write_all(bytes)?;
        publish(file.finish())
    }

    fn publish(written: io::Result<Written>) -> io::Result<Finished> {
        publish_all(vec![written]).remove(0)
    }

    fn entries(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_explicit_path_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.pb.gz");
        std::fs::write(&path, "old").unwrap();
        let finished = write(path.clone(), b"new bytes").unwrap();
        assert_eq!(finished, Finished { path: Some(path.clone()), bytes: 9 });
        assert_eq!(std::fs::read(&path).unwrap(), b"new bytes");
        assert_eq!(entries(dir.path()), ["cpu.pb.gz"]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o644, 0);
    }

    #[test]
    fn an_output_that_is_not_finished_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.pb.gz");
        std::fs::write(&path, "old").unwrap();
        let target = OutputTarget::File(path.clone().into());
        let mut file = OutputFile::open(target, &TemporaryFiles::new(), &CancelToken::new()).unwrap();
        file.write_all(&[7; 200_000]).unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(entries(dir.path()), ["cpu.pb.gz"]);
    }

    #[test]
    fn an_automatic_name_never_replaces_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let name =
            auto_name(Subject::System, "202604021430", OutputKind::CpuProfile).in_directory(dir.path());
        for expected in
            ["202604021430-on-cpu.pb.gz", "202604021430-on-cpu-2.pb.gz", "202604021430-on-cpu-3.pb.gz"]
        {
            let finished = write(name.clone(), expected.as_bytes()).unwrap();
            assert_eq!(finished.path, Some(dir.path().join(expected)));
        }
        assert_eq!(entries(dir.path()).len(), 3);
        assert_eq!(std::fs::read(name.path(2)).unwrap(), b"202604021430-on-cpu-2.pb.gz");
    }

    #[test]
    fn files_with_temporary_names_behave_as_unnamed_files() {
        let dir = tempfile::tempdir().unwrap();
        let registry = TemporaryFiles::new();
        let name =
            auto_name(Subject::System, "202604021430", OutputKind::CpuProfile).in_directory(dir.path());
        for number in 1..=2 {
            let finished = publish(Ok(named(FinalName::FirstFree(name.clone()), &registry, b""))).unwrap();
            assert_eq!(finished.path, Some(name.path(number)));
        }
        publish(Ok(named(FinalName::Replace(name.path(1)), &registry, b"again"))).unwrap();
        assert_eq!(std::fs::read(name.path(1)).unwrap(), b"again");
        assert_eq!(entries(dir.path()).len(), 2);
    }

    /// Written as on a file system without unnamed files.
    fn named(final_name: FinalName, registry: &TemporaryFiles, bytes: &[u8]) -> Written {
        let temporary = registry.register(temporary_path(&final_name.path()));
        let mut file = File::create(temporary.path()).unwrap();
        file.write_all(bytes).unwrap();
        let registry = registry.clone();
        Written { inner: Inner::Staged { file, temporary: Some(temporary), final_name, registry }, bytes: 0 }
    }

    #[test]
    fn automatic_names_of_one_run_have_one_number() {
        let dir = tempfile::tempdir().unwrap();
        let registry = TemporaryFiles::new();
        let name = |kind| auto_name(Subject::System, "202604021430", kind).in_directory(dir.path());
        let (cpu, off_cpu) = (name(OutputKind::CpuProfile), name(OutputKind::OffCpuProfile));
        std::fs::write(off_cpu.path(1), "old").unwrap();
        let unnamed = |name: &AutoName| {
            OutputFile::open(OutputTarget::File(name.clone().into()), &registry, &CancelToken::new())
                .unwrap()
                .finish()
        };
        let named = |name: &AutoName| Ok(named(FinalName::FirstFree(name.clone()), &registry, b""));
        let failed = || Err(io::Error::from(io::ErrorKind::StorageFull));
        for (number, written) in [
            (2, vec![unnamed(&cpu), failed(), unnamed(&off_cpu)]),
            (3, vec![named(&cpu), failed(), named(&off_cpu)]),
        ] {
            let paths: Vec<_> = publish_all(written).into_iter().map(|f| f.ok()?.path).collect();
            assert_eq!(paths, [Some(cpu.path(number)), None, Some(off_cpu.path(number))]);
        }
        assert!(!cpu.path(1).exists());
        assert_eq!(std::fs::read(off_cpu.path(1)).unwrap(), b"old");
        assert_eq!(entries(dir.path()).len(), 5);
    }

    #[test]
    fn an_interrupted_process_removes_its_temporary_files() {
        let dir = tempfile::tempdir().unwrap();
        let registry = TemporaryFiles::new();
        let temporary = registry.register(dir.path().join(".x.tmp"));
        std::fs::write(temporary.path(), "half").unwrap();
        registry.clone().remove_all();
        assert_eq!(entries(dir.path()), [""; 0]);
        drop(temporary);
    }

    #[test]
    fn links_are_followed_and_devices_written_directly() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        write(link.clone(), b"through").unwrap();
        assert_eq!(std::fs::read(&real).unwrap(), b"through");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(write("/dev/null", b"gone").unwrap().bytes, 4);
        assert_eq!(write("/dev/full", b"x").unwrap_err().raw_os_error(), Some(28));
    }

    #[test]
    fn the_wait_for_a_fifo_reader_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let give_up = CancelToken::new();
        let opened = thread::scope(|scope| {
            let opening = scope.spawn(|| open_direct(&path, &give_up));
            give_up.cancel();
            opening.join().unwrap()
        });
        assert!(opened.unwrap_err().to_string().contains("nobody reads"));
        // More than fits into a pipe: the writer waits for the reader.
        let content = vec![b'x'; 1 << 20];
        let read = thread::scope(|scope| {
            let reading = scope.spawn(|| std::fs::read(&path).unwrap());
            write(path.clone(), &content).unwrap();
            reading.join().unwrap()
        });
        assert_eq!(read, content);
    }

    #[test]
    fn a_sink_gets_every_byte() {
        let sink = MemorySink::new();
        let target = OutputTarget::Sink(Box::new(sink.clone()));
        let mut file = OutputFile::open(target, &TemporaryFiles::new(), &CancelToken::new()).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        assert_eq!(publish(file.finish()).unwrap(), Finished { path: None, bytes: 100_000 });
        assert_eq!(sink.take(), vec![1; 100_000]);
    }
}
