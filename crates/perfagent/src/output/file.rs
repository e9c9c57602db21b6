//! Files that appear complete or not at all.
//!
//! A regular file is written without a name (`O_TMPFILE`) and gets its name at the end, so even SIGKILL leaves nothing
//! behind. On file systems without unnamed files it has a registered temporary name in the same directory.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::destination::{Destination, OpenFile, OpenTarget};
use super::directory::{Directory, fd_path, temporary_name};
use super::publish::{FinalName, Staged, Written};
use super::sink::Sink;
use super::temporary::TemporaryFiles;
use crate::CancelToken;

/// Time between two checks whether a FIFO has a reader.
const READER_EVERY: Duration = Duration::from_millis(20);
/// A FIFO without a reader is given up after this time.
const READER_LIMIT: Duration = Duration::from_secs(5);

/// An output being written. A regular file appears only after [`finish`](Self::finish).
pub(crate) struct OutputFile {
    writer: BufWriter<Counted>,
}

struct Counted {
    inner: Inner,
    bytes: u64,
}

enum Inner {
    Staged(Staged),
    Direct { file: File, path: PathBuf },
    Stdout(File),
    Sink(Box<dyn Sink>),
}

impl OutputFile {
    /// Begins to write. `registry` lists temporary names while they exist. Waits for a reader of a FIFO for [`READER_LIMIT`], or until `give_up` is
    /// cancelled.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn begin(
        target: OpenTarget,
        registry: &TemporaryFiles,
        give_up: &CancelToken,
    ) -> io::Result<Self> {
        let inner = match target {
            OpenTarget::Sink(sink) => Inner::Sink(sink),
            OpenTarget::File(OpenFile(destination)) => match destination {
                Destination::Stdout => Inner::Stdout(stdout()?),
                Destination::Direct { handle, path } => {
                    Inner::Direct { file: open_direct(&handle, give_up)?, path }
                }
                Destination::Numbered { directory, name } => {
                    Inner::Staged(stage(directory, FinalName::FirstFree(name.numbered()), registry)?)
                }
                Destination::Interval { directory, name } => {
                    Inner::Staged(stage(directory, FinalName::FirstFree(name), registry)?)
                }
                Destination::Named { directory, name, .. } => {
                    Inner::Staged(stage(directory, FinalName::Replace(name), registry)?)
                }
            },
        };
        Ok(Self { writer: BufWriter::with_capacity(64 << 10, Counted { inner, bytes: 0 }) })
    }

    /// Writes the buffered bytes. A regular file gets its name later, in [`publish_all`](super::publish::publish_all).
    ///
    /// # Errors
    /// The error of the system call or of the sink.
    pub(crate) fn finish(self) -> io::Result<Written> {
        let Counted { inner, bytes } = self.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(match inner {
            Inner::Staged(staged) => {
                staged.file.sync_data().or_else(ignore_unsupported)?;
                Written::Staged { staged, bytes }
            }
            Inner::Sink(mut sink) => {
                sink.flush()?;
                Written::There { path: None, bytes }
            }
            Inner::Direct { path, .. } => Written::There { path: Some(path), bytes },
            Inner::Stdout(_) => Written::There { path: None, bytes },
        })
    }
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
            Inner::Staged(Staged { file, .. }) | Inner::Direct { file, .. } | Inner::Stdout(file) => {
                file.write(bytes)
            }
            Inner::Sink(sink) => sink.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Staged(Staged { file, .. }) | Inner::Direct { file, .. } | Inner::Stdout(file) => {
                file.flush()
            }
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
fn open_direct(handle: &OwnedFd, give_up: &CancelToken) -> io::Result<File> {
    let path = fd_path(handle);
    if FileType::from_raw_mode(fstat(handle)?.st_mode) != FileType::Fifo {
        return OpenOptions::new().write(true).open(path);
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let deadline = Instant::now() + READER_LIMIT;
    loop {
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(opened) => {
                let flags = rustix::fs::fcntl_getfl(&opened)? - OFlags::NONBLOCK;
                rustix::fs::fcntl_setfl(&opened, flags)?;
                return Ok(File::from(opened));
            }
            Err(Errno::NXIO) if give_up.is_cancelled() => {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "nobody reads this FIFO"));
            }
            Err(Errno::NXIO) if Instant::now() >= deadline => {
                let reason =
                    format!("nobody has opened this FIFO for reading in {} s", READER_LIMIT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            Err(Errno::NXIO) => thread::sleep(READER_EVERY),
            Err(error) => return Err(error.into()),
        }
    }
}

fn stage(directory: Directory, final_name: FinalName, registry: &TemporaryFiles) -> io::Result<Staged> {
    let registry = registry.clone();
    if let Some(file) = directory.create_unnamed() {
        return Ok(Staged { file, directory, temporary: None, final_name, registry });
    }
    let temporary = registry.register(&directory, temporary_name(&final_name.first()));
    let file = directory.create(temporary.name())?;
    Ok(Staged { file, directory, temporary: Some(temporary), final_name, registry })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use std::ffi::OsString;
    use std::path::Path;

    use super::super::kind::OutputKind;
    use super::super::names::{AutoName, Subject, auto_name};
    use super::super::place::directory_of;
    use super::super::publish::{Finished, publish_all};
    use super::super::sink::MemorySink;
    use super::super::target::FileTarget;
    use super::*;

    fn open(target: impl Into<FileTarget>) -> OpenTarget {
        OpenTarget::File(OpenFile::open(&target.into()).unwrap())
    }

    fn write(target: impl Into<FileTarget>, bytes: &[u8]) -> io::Result<Finished> {
        let target = OpenTarget::File(OpenFile::open(&target.into())?);
        let mut file = OutputFile::begin(target, &TemporaryFiles::new(), &CancelToken::new())?;
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
        let mut file =
            OutputFile::begin(open(path.clone()), &TemporaryFiles::new(), &CancelToken::new()).unwrap();
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
        let directory = directory_of(dir.path()).unwrap();
        for number in 1..=2 {
            let first_free = FinalName::FirstFree(name.numbered());
            let finished = publish(Ok(named(first_free, &directory, &registry, b""))).unwrap();
            assert_eq!(finished.path, Some(name.path(number)));
        }
        let replace = FinalName::Replace(name.file_name(1));
        publish(Ok(named(replace, &directory, &registry, b"again"))).unwrap();
        assert_eq!(std::fs::read(name.path(1)).unwrap(), b"again");
        assert_eq!(entries(dir.path()).len(), 2);
    }

    /// Written as on a file system without unnamed files.
    fn named(
        final_name: FinalName,
        directory: &Directory,
        registry: &TemporaryFiles,
        bytes: &[u8],
    ) -> Written {
        let temporary = registry.register(directory, temporary_name(&final_name.first()));
        let mut file = directory.create(temporary.name()).unwrap();
        file.write_all(bytes).unwrap();
        let (directory, registry, bytes) = (directory.clone(), registry.clone(), bytes.len() as u64);
        Written::Staged {
            staged: Staged { file, directory, temporary: Some(temporary), final_name, registry },
            bytes,
        }
    }

    #[test]
    fn automatic_names_of_one_run_have_one_number() {
        let dir = tempfile::tempdir().unwrap();
        let registry = TemporaryFiles::new();
        let name = |kind| auto_name(Subject::System, "202604021430", kind).in_directory(dir.path());
        let (cpu, off_cpu) = (name(OutputKind::CpuProfile), name(OutputKind::OffCpuProfile));
        std::fs::write(off_cpu.path(1), "old").unwrap();
        let directory = directory_of(dir.path()).unwrap();
        let unnamed = |name: &AutoName| {
            OutputFile::begin(open(name.clone()), &registry, &CancelToken::new()).unwrap().finish()
        };
        let named =
            |name: &AutoName| Ok(named(FinalName::FirstFree(name.numbered()), &directory, &registry, b""));
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
        let directory = directory_of(dir.path()).unwrap();
        let temporary = registry.register(&directory, OsString::from(".x.tmp"));
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
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let give_up = CancelToken::new();
        let opened = thread::scope(|scope| {
            let opening =
                scope.spawn(|| OutputFile::begin(open(path.clone()), &TemporaryFiles::new(), &give_up));
            give_up.cancel();
            opening.join().unwrap()
        });
        assert!(opened.err().unwrap().to_string().contains("nobody reads"));
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
    fn what_happens_to_the_path_later_redirects_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("mine")).unwrap();
        std::fs::create_dir_all(at("theirs")).unwrap();
        let (to_name, to_directory) = (open(at("mine/a.svg")), open(at("mine/b.svg")));
        let finish = |target| {
            let mut file = OutputFile::begin(target, &TemporaryFiles::new(), &CancelToken::new()).unwrap();
            file.write_all(b"profile").unwrap();
            publish(file.finish()).unwrap();
        };
        std::os::unix::fs::symlink(at("theirs/a.svg"), at("mine/a.svg")).unwrap();
        finish(to_name);
        std::fs::rename(at("mine"), at("moved")).unwrap();
        std::os::unix::fs::symlink("theirs", at("mine")).unwrap();
        finish(to_directory);
        assert_eq!(entries(&at("moved")), ["a.svg", "b.svg"]);
        assert_eq!(std::fs::read_link(at("moved/a.svg")).ok(), None);
        assert_eq!(entries(&at("theirs")), [""; 0]);
    }

    #[test]
    fn a_fifo_is_the_one_that_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("fifo"), dir.path().join("secret"));
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let target = open(path.clone());
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        std::fs::write(&other, "old").unwrap();
        std::fs::rename(&other, &path).unwrap();
        let mut file = OutputFile::begin(target, &TemporaryFiles::new(), &CancelToken::new()).unwrap();
        file.write_all(b"profile").unwrap();
        publish(file.finish()).unwrap();
        let mut bytes = [0; 7];
        std::io::Read::read_exact(&mut &reader, &mut bytes).unwrap();
        assert_eq!((&bytes, std::fs::read(&path).unwrap()), (b"profile", b"old".to_vec()));
    }

    #[test]
    fn a_sink_gets_every_byte() {
        let sink = MemorySink::new();
        let target = OpenTarget::Sink(Box::new(sink.clone()));
        let mut file = OutputFile::begin(target, &TemporaryFiles::new(), &CancelToken::new()).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        assert_eq!(publish(file.finish()).unwrap(), Finished { path: None, bytes: 100_000 });
        assert_eq!(sink.take(), vec![1; 100_000]);
    }
}
