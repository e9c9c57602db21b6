//! perf.data files, as `perf record` writes them, as profiles.
//!
//! In: the header, events, features and records of files and of streams (`perf record -o -`), compressed (`-z`) or not; mappings and names of processes in the order of time; call chains;
//! walks over the copies of stacks that `--call-graph dwarf` records. Samples with equal stacks of one thread are added up while the file is read.
//! Guaranteed: no I/O but that of the reader and of [`Files`], which the caller gives; no panic, and memory and work bounded, whatever the
//! bytes are; what is wrong with a file is told with its offset.
//! Not here: names (crate `symbolization`), writing of such files, hardware traces, branch records.
//!
//! ```
//! let error = perf_data_reader::PerfData::read(std::io::Cursor::new(b"PERFILE2"), &mut perf_data_reader::NoFiles);
//! assert!(error.is_err_and(|error| error.to_string().contains("offset 0")));
//! ```
#![forbid(unsafe_code)]

mod attr;
mod budget;
mod bytes;
mod error;
mod features;
mod files;
mod groups;
mod header;
mod import;
mod processes;
mod profiles;
mod record;
mod records;
mod resolve;
mod rounds;
mod sample;
mod source;
mod stacks;
mod unpack;
mod walk;

use std::io::{Read, Seek};

pub use elf::Headers;
pub use error::Error;
pub use files::{Files, FoundFile, FoundName, NoFiles, RecordedFile};
pub use header::is_perf_data;
pub use profiles::{EventProfile, FoundIdentity};
pub use record::Inode;

/// What a file recorded.
pub struct PerfData {
    imported: import::Imported,
}

/// An event of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedEvent<'a> {
    /// Its name, as `perf evlist` prints it.
    pub name: &'a str,
    /// Its samples.
    pub samples: u64,
}

impl std::fmt::Debug for PerfData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfData").finish_non_exhaustive()
    }
}

impl PerfData {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`Error`], with the offset.
    pub fn read(input: impl Read + Seek, files: &mut dyn Files) -> Result<Self, Error> {
        Ok(Self { imported: import::import(input, files)? })
    }

    /// Reads a stream, as `perf record -o -` writes it, to its end.
    ///
    /// # Errors
    /// [`Error`], with the offset.
    pub fn read_stream(input: impl Read, files: &mut dyn Files) -> Result<Self, Error> {
        Ok(Self { imported: import::import_stream(input, files)? })
    }

    /// The events, in the order of the file.
    pub fn events(&self) -> impl Iterator<Item = RecordedEvent<'_>> {
        let Self { imported } = self;
        imported
            .attrs
            .all
            .iter()
            .zip(&imported.samples)
            .map(|(attr, samples)| RecordedEvent { name: &attr.name, samples: *samples })
    }

    /// The profile of an event, by its number.
    pub fn profile(&mut self, event: usize, files: &mut dyn Files) -> EventProfile {
        profiles::profile(&mut self.imported, event, files)
    }

    /// What is to be said about the file, one line each.
    pub fn told(&self) -> &[String] {
        &self.imported.told
    }

    /// The files with frames in the profiles so far that were not found: addresses in them are offsets.
    pub fn missing(&self) -> impl Iterator<Item = &RecordedFile> {
        self.imported.files.missing()
    }
}
