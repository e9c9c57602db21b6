//! A jitdump file that a program writes, read as it grows.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::SystemTime;

use profile::Avma;

use super::code::{JitCode, JitCodeCounts};
use super::error::JitDumpError;
use super::record::has_magic;
use crate::perf_map::tick_after;
use crate::source_line::SourceLine;

/// The jitdump of one program. The file stays open, so it can be read after the process has ended.
#[derive(Debug)]
pub struct JitDump {
    file: File,
    code: JitCode,
    /// When the program ended. Later writes come from another program.
    ended: Option<SystemTime>,
    /// Size of the file when it was last read.
    seen: u64,
    was_cut: bool,
}

impl JitDump {
    /// Reads the file that a program maps, as far as it is written. `ended`: when the program ended, if it has.
    ///
    /// # Errors
    /// [`JitDumpError`] if it cannot be read or is no jitdump, so far.
    pub fn open(file: File, ended: Option<SystemTime>) -> Result<Self, JitDumpError> {
        let mut dump = Self { file, code: JitCode::default(), ended, seen: 0, was_cut: false };
        let size = dump.file.metadata()?.len();
        dump.read(size)?;
        Ok(dump)
    }

    /// Whether a file begins as a jitdump, of either byte order.
    #[must_use]
    pub fn is_one(file: &File) -> bool {
        let mut begin = [0; 4];
        file.read_exact_at(&mut begin, 0).is_ok() && has_magic(begin)
    }

    /// Tells the dump that its program has ended: later writes are not read.
    pub fn end(&mut self, at: SystemTime) {
        self.ended.get_or_insert(at);
    }

    /// Reads records that were appended. True if there were any.
    pub fn refresh(&mut self) -> bool {
        let Ok(meta) = self.file.metadata() else { return false };
        let in_time = |ended| meta.modified().is_ok_and(|written| written <= tick_after(ended));
        // What is written into a file anew has other times and places: what was read stays.
        self.was_cut |= meta.len() < self.code.position();
        if meta.len() == self.seen || self.was_cut || !self.ended.is_none_or(in_time) {
            return false;
        }
        self.read(meta.len()).unwrap_or(false)
    }

    fn read(&mut self, size: u64) -> Result<bool, JitDumpError> {
        self.seen = size;
        let Self { file, code, .. } = self;
        code.read(size, |buffer, at| file.read_at(buffer, at))
    }

    /// The name of the code that was at an address at a time (`CLOCK_MONOTONIC`), among what was read so far.
    #[must_use]
    pub fn lookup(&self, address: Avma, at_ns: u64) -> Option<SourceLine> {
        self.code.lookup(address, at_ns)
    }

    /// What is not used.
    #[must_use]
    pub fn counts(&self) -> JitCodeCounts {
        self.code.counts()
    }

    /// Whether the file became shorter than what was read of it: it is not read any more.
    #[must_use]
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Bytes that were read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.code.bytes_read()
    }

    /// Heap in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.code.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn load(start: u64, size: u64, time: u64, name: &str) -> Vec<u8> {
        let length = (16 + 40 + name.len() + 1) as u32;
        let numbers = [start, start, size, 1].map(u64::to_ne_bytes).concat();
        let prefix = [&0u32.to_ne_bytes()[..], &length.to_ne_bytes(), &time.to_ne_bytes(), &[0; 8]].concat();
        [&prefix, &numbers, name.as_bytes(), b"\0"].concat()
    }

    fn name(dump: &JitDump, address: u64) -> Option<String> {
        dump.lookup(Avma(address), 100).map(|line| line.name.into())
    }

    #[test]
    fn a_file_is_read_as_it_grows_until_its_program_ends_or_it_is_cut() {
        let header =
            [&[0x4A69_5444u32, 1, 40, 62, 0, 1].map(u32::to_ne_bytes).concat()[..], &[0; 16]].concat();
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(JitDump::open(file.try_clone().unwrap(), None), Err(JitDumpError::NoHeader)));
        let mut end = 0;
        let mut write = |bytes: &[u8]| {
            file.write_all_at(bytes, end).unwrap();
            end += bytes.len() as u64;
        };
        write(&header);
        let mut dump = JitDump::open(file.try_clone().unwrap(), None).unwrap();
        assert!(!dump.refresh());
        let second = load(0x20, 0x10, 2, "second");
        write(&load(0x10, 0x10, 1, "first"));
        write(&second[..second.len() - 1]);
        assert!(dump.refresh());
        assert_eq!((name(&dump, 0x1f).as_deref(), name(&dump, 0x20)), (Some("first"), None));
        write(&second[second.len() - 1..]);
        assert!(dump.refresh() && !dump.refresh());
        assert_eq!(name(&dump, 0x2f).as_deref(), Some("second"));
        dump.end(SystemTime::now() - Duration::from_secs(60));
        write(&load(0x30, 0x10, 3, "of another program"));
        assert!(!dump.refresh());
        assert_eq!(name(&dump, 0x30), None);
        dump.ended = None;
        file.set_len(50).unwrap();
        assert!(!dump.refresh() && dump.was_cut());
        assert_eq!(name(&dump, 0x10).as_deref(), Some("first"));
    }
}
