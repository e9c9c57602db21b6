//! Bytes of mapped files for unwinding, and whether all of them could be read.

use std::io;
use std::sync::Arc;

use process::{ContentStamp, FileKind, MappedFile};

/// A file as input of the table compiler.
pub(crate) struct TableInput(pub(crate) Arc<MappedFile>);

impl tables::Input for TableInput {
    fn stamp(&self) -> Option<tables::Stamp> {
        let ContentStamp { device, inode, size, mtime_ns, ctime_ns } = self.0.stamp()?;
        Some(tables::Stamp { device, inode, size, mtime_ns, ctime_ns })
    }

    fn size(&self) -> u64 {
        self.0.identity().size
    }

    fn doubtful_device(&self) -> Option<tables::Device> {
        let identity = self.0.identity();
        (!self.0.always_answers()).then_some((identity.dev_major, identity.dev_minor))
    }

    fn read(&self) -> io::Result<Box<dyn tables::Content>> {
        Ok(Box::new(FileBytes::of(&self.0)?))
    }
}

/// The bytes of a file.
pub(crate) struct FileBytes {
    bytes: process::Bytes,
    /// A mapped file may lose pages while it is read; a copy in memory cannot.
    is_mapped: bool,
}

impl FileBytes {
    pub(crate) fn of(file: &MappedFile) -> io::Result<Self> {
        Ok(Self { bytes: file.bytes()?, is_mapped: file.kind() != FileKind::InMemory })
    }

    /// Whether all bytes read so far could be read. False if that is not known.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_mapped || sys::filemap::is_whole(&self.bytes).unwrap_or(false)
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl tables::Content for FileBytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn release(&self) {
        self.bytes.release();
    }

    fn is_whole(&self) -> bool {
        self.is_whole()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use process::{Files, Image};
    use tables::{Cache, Compiler, Input};

    /// A process that maps a library of ours and never runs it.
    pub(crate) struct Idle(Child);

    impl Idle {
        /// With its image and the library in it.
        pub(crate) fn with(library: &Path) -> (Self, Image, Arc<MappedFile>) {
            let mut command = Command::new("cat");
            command.env("LD_PRELOAD", library).stdin(Stdio::piped()).stdout(Stdio::null());
            let idle = Self(command.spawn().unwrap());
            let files = Files::new();
            for _ in 0..10_000 {
                // While it executes there is none.
                if let Ok(image) = process::read_image(idle.0.id(), &files) {
                    let is_it = |file: &&Arc<MappedFile>| file.path() == library.to_str().unwrap();
                    let mapped = || image.regions().iter().filter_map(|region| region.file());
                    let file = mapped().find(is_it).cloned();
                    if let Some(file) = file {
                        return (idle, image, file);
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            panic!("{} was not mapped", library.display());
        }

        /// A library whose frame sections are in its second half.
        pub(crate) fn library() -> Vec<u8> {
            let places =
                ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"].into_iter();
            places.into_iter().find_map(|path| std::fs::read(path).ok()).unwrap()
        }
    }

    impl Drop for Idle {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Is cut off while it is read.
    struct Shrinking {
        source: TableInput,
        file: File,
        len: u64,
    }

    impl Input for Shrinking {
        fn stamp(&self) -> Option<tables::Stamp> {
            // As on a disk that fails: nothing has changed, and yet nothing can be read.
            Some(tables::Stamp { device: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 })
        }

        fn size(&self) -> u64 {
            self.source.size()
        }

        fn read(&self) -> io::Result<Box<dyn tables::Content>> {
            let content = self.source.read()?;
            self.file.set_len(self.len)?;
            Ok(content)
        }
    }

    #[test]
    fn a_file_cut_off_while_its_table_is_made_gives_none() {
        let folder = tempfile::tempdir().unwrap();
        let original = Idle::library();
        let whole = unwind::compile(&original).unwrap();
        // One that is copied before it is compiled, and one that is too large for that.
        for extra in [0, 9 << 20] {
            let library = folder.path().join(format!("{extra}.so"));
            let mut bytes = original.clone();
            bytes.resize(bytes.len() + extra, 0);
            std::fs::write(&library, bytes).unwrap();
            let (_idle, _, file) = Idle::with(&library);
            let ask = |input: Box<dyn Input>| {
                let cache = Cache::at(&folder.path().join("cache")).unwrap();
                let (compiler, answers) = Compiler::start(1, Some(cache), tables::spawn_thread).unwrap();
                assert!(compiler.submit(1, 0, input));
                answers.recv().unwrap()
            };
            let answer = ask(Box::new(TableInput(Arc::clone(&file))));
            assert_eq!(*answer.table.unwrap(), whole);
            std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
            let writable = File::options().write(true).open(&library).unwrap();
            let (source, len) = (TableInput(file), original.len() as u64 / 2);
            let answer = ask(Box::new(Shrinking { source, file: writable, len }));
            assert!(matches!(answer.table, Err(tables::Error::Incomplete)), "{answer:?}");
            let kept = std::fs::read_dir(folder.path().join("cache")).unwrap();
            let kept: Vec<_> = kept.map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(kept, ["secret"]);
        }
    }
}
