//! perf.data files of `perf record`, in the hands of a library user.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use perf_data_reader::{Files, FoundFile, Headers, PerfData, RecordedFile, is_perf_data};
use recording::FileIdentity;
use symbolization::open_recorded;
use sys::filemap::FileMap;

use crate::{Error, NamingOutcome, Symbolizer, WrittenProfile};

/// A file that `perf record`, or a program that writes the same format, has written. Stacks are read from call chains and, of `--call-graph dwarf`,
/// walked with the files of this machine that have the recorded build-ids.
///
/// ```no_run
/// use perfagent::{FileTarget, PerfDataFile, Symbolizer, TemporaryFiles};
///
/// let mut file = PerfDataFile::read(std::fs::File::open("perf.data")?)?;
/// let (profile, outcome) = file.profile(0, &Symbolizer::new());
/// println!("{} places have a name", outcome.named);
/// profile.write(FileTarget::from_word("perf.pb.gz".as_ref()), &TemporaryFiles::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PerfDataFile {
    data: PerfData,
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

    /// Reads a whole file. Any file may be given: what is no perf.data is refused, and memory stays bounded.
    ///
    /// # Errors
    /// [`Error::Profile`], whose message tells what is wrong, and where.
    pub fn read(file: File) -> Result<Self, Error> {
        let data = PerfData::read(file, &mut OnThisMachine)
            .map_err(|error| Error::Profile { reason: error.to_string() })?;
        Ok(Self { data })
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
        let found = self.data.profile(event, &mut OnThisMachine);
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

/// Finds the files of a recording at their paths.
struct OnThisMachine;

const VDSO: &str = "[vdso]";

impl OnThisMachine {
    fn open(file: &RecordedFile) -> Option<(File, FileIdentity)> {
        let inode = file.inode.map(|inode| inode.inode);
        open_recorded(Path::new(&file.path), file.build_id.as_ref(), inode)
    }
}

impl Files for OnThisMachine {
    fn find(&mut self, file: &RecordedFile) -> Option<FoundFile> {
        if file.path == VDSO {
            let bytes = own_vdso()?;
            let headers = Headers::read(&|buffer, at| {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            });
            let headers = headers.ok()??;
            let is_same = file.build_id.is_some() && headers.build_id == file.build_id;
            return is_same.then_some(FoundFile { headers, size: bytes.len() as u64, mtime_ns: 0 });
        }
        let (opened, identity) = Self::open(file)?;
        let headers = Headers::read(&|buffer, at| opened.read_at(buffer, at)).ok()??;
        Some(FoundFile { headers, size: identity.size, mtime_ns: identity.mtime_ns })
    }

    fn content(&mut self, file: &RecordedFile) -> Option<Box<dyn AsRef<[u8]>>> {
        if file.path == VDSO {
            return Some(Box::new(own_vdso()?));
        }
        let (opened, _) = Self::open(file)?;
        Some(Box::new(Mapped(FileMap::new(&opened).ok()?)))
    }
}

struct Mapped(FileMap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The code that the kernel gives to this process, and to all others of the same kind.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let address = |hex| u64::from_str_radix(hex, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}
