//! perf.data files of `perf record`, in the hands of a library user.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::time::SystemTime;

use perf_data_reader::{PerfData, is_perf_data};
use recording::FileIdentity;

use crate::recorded_files::RecordedFiles;
use crate::{Error, NamingOutcome, Symbolizer, WrittenProfile};

/// A file that `perf record`, or a program that writes the same format, has written. Stacks are read from call chains and, of `--call-graph dwarf`,
/// walked with the files of this machine that have the recorded build-ids.
///
/// ```no_run
/// use perfagent::{FileTarget, PerfDataFile, Symbolizer, TemporaryFiles};
///
/// let symbolizer = Symbolizer::new().symbol_dir("/srv/symbols");
/// let mut file = PerfDataFile::read(std::fs::File::open("perf.data")?, &symbolizer)?;
/// let (profile, outcome) = file.profile(0, &symbolizer);
/// println!("{} places have a name", outcome.named);
/// profile.write(FileTarget::from_word("perf.pb.gz".as_ref()), &TemporaryFiles::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PerfDataFile {
    data: PerfData,
    files: RecordedFiles,
}

impl std::fmt::Debug for PerfDataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfDataFile").field("data", &self.data).finish_non_exhaustive()
    }
}

/// An event of a perf.data file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerfDataEvent {
    /// Its name, as `perf evlist` prints it.
    pub name: String,
    /// Its samples.
    pub samples: u64,
}

impl PerfDataFile {
    /// Whether the file begins as perf.data files do.
    ///
    /// # Errors
    /// Those of reading and of seeking: a pipe cannot be read twice.
    pub fn is_one(file: &mut File) -> std::io::Result<bool> {
        let mut begin = Vec::new();
        file.take(8).read_to_end(&mut begin)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(is_perf_data(&begin))
    }

    /// Reads a whole file. Any file may be given: what is no perf.data is refused, and memory stays bounded. Stacks are walked with the
    /// files of the symbolizer's directories, or of this machine.
    ///
    /// # Errors
    /// [`Error::Profile`], whose message tells what is wrong, and where.
    pub fn read(file: File, symbolizer: &Symbolizer) -> Result<Self, Error> {
        let ended = file.metadata().and_then(|of| of.modified()).unwrap_or_else(|_| SystemTime::now());
        let mut files = RecordedFiles::new(symbolizer.symbol_dirs(), ended);
        let data = PerfData::read(file, &mut files).map_err(|error| told(&error))?;
        Ok(Self { data, files })
    }

    /// Reads a stream, as `perf record -o -` writes it, to its end.
    ///
    /// # Errors
    /// As [`PerfDataFile::read`]; also if it is a file of sections, which cannot be read in one go.
    pub fn read_stream(input: impl Read, symbolizer: &Symbolizer) -> Result<Self, Error> {
        let mut files = RecordedFiles::new(symbolizer.symbol_dirs(), SystemTime::now());
        let data = PerfData::read_stream(input, &mut files).map_err(|error| told(&error))?;
        files.end();
        Ok(Self { data, files })
    }

    /// The events, in the order of the file.
    #[must_use]
    pub fn events(&self) -> Vec<PerfDataEvent> {
        let event = |event: perf_data_reader::RecordedEvent<'_>| PerfDataEvent {
            name: event.name.to_owned(),
            samples: event.samples,
        };
        self.data.events().map(event).collect()
    }

    /// The profile of an event, by its number, with the names that the symbolizer finds.
    pub fn profile(&mut self, event: usize, symbolizer: &Symbolizer) -> (WrittenProfile, NamingOutcome) {
        let found = self.data.profile(event, &mut self.files);
        let identity = |found: &Option<perf_data_reader::FoundIdentity>| {
            found.map(|found| FileIdentity {
                size: found.size,
                mtime_ns: found.mtime_ns,
                ..FileIdentity::default()
            })
        };
        let identities: Vec<_> = found.identities.iter().map(identity).collect();
        WrittenProfile::from(found.profile).symbolize_of(symbolizer, &identities)
    }

    /// What is to be said about the file and the profiles made so far, one line each.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        let mut told = self.data.told().to_vec();
        told.extend(self.files.shortfalls());
        let missing: Vec<_> = self.data.missing().map(|file| file.path.as_str()).collect();
        if let Some(first) = missing.first() {
            let files = missing.len();
            told.push(format!(
                "{files} files of the recording are not here, or are others now ({first}{}): their functions have no names, and addresses in them are offsets",
                if files > 1 { ", …" } else { "" }
            ));
        }
        told
    }
}

fn told(error: &perf_data_reader::Error) -> Error {
    Error::Profile { reason: error.to_string() }
}
