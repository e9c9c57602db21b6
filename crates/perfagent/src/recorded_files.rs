//! The files of a recording of another profiler, and the names of code that is in none, on this machine.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use perf_data_reader::{Files, FoundFile, FoundName, Headers, RecordedFile};
use profile::{Avma, BuildId, Function, Svma};
use recording::FileIdentity;
use symbolization::{
    CodeRanges, ObjectFile, ObjectSource, Options, PerfMap, PerfMapError, PerfMapOwner, SourceLine,
    kernel_identity, open_recorded, perf_map_shortfall,
};
use sys::filemap::FileMap;

const VDSO: &str = "[vdso]";
/// Perf maps that are kept.
const MAX_MAPS: usize = 64;
/// Shortfalls of perf maps that are reported in full. Others are counted.
const MAX_REPORTED: usize = 8;

/// Finds files in directories that the user named, or at their paths.
pub(crate) struct RecordedFiles {
    symbol_dirs: Vec<PathBuf>,
    /// When the recording ended.
    ended: SystemTime,
    /// The recording is of this machine, or of one with its name and the same release of the kernel.
    is_of_here: bool,
    maps: HashMap<i32, MapOfProcess>,
    /// Processes that have no perf map, or none that is used.
    without: HashSet<i32>,
    vdso: Option<Arc<[u8]>>,
    vdso_symbols: symbols::Symbolizer,
    /// Perf maps that are not used, and why.
    refused: Vec<String>,
    /// Processes whose perf maps are not read, because there are more than [`MAX_MAPS`].
    beyond: HashSet<i32>,
}

impl RecordedFiles {
    pub(crate) fn new(symbol_dirs: &[PathBuf], ended: SystemTime) -> Self {
        Self {
            symbol_dirs: symbol_dirs.to_vec(),
            ended,
            is_of_here: false,
            maps: HashMap::new(),
            without: HashSet::new(),
            vdso: own_vdso().map(Arc::from),
            vdso_symbols: symbols::Symbolizer::new(symbols::Options::default()),
            refused: Vec::new(),
            beyond: HashSet::new(),
        }
    }

    /// The recording ended now.
    pub(crate) fn end(&mut self) {
        self.ended = SystemTime::now();
    }

    /// Perf maps that are not used, or not wholly, and why.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let maps =
            self.maps.iter().filter_map(|(pid, map)| perf_map_shortfall(&map.map, u32::try_from(*pid).ok()?));
        let mut all: Vec<_> = self.refused.iter().cloned().chain(maps).collect();
        all.sort();
        let more = all.len().saturating_sub(MAX_REPORTED) + self.beyond.len();
        all.truncate(MAX_REPORTED);
        if more > 0 {
            all.push(format!("perf maps of {more} more processes are not used, or not wholly"));
        }
        all
    }

    fn open(&self, file: &RecordedFile) -> Option<(File, FileIdentity)> {
        let path = Path::new(&file.path);
        let in_dir = |dir: &PathBuf| {
            let build_id = file.build_id.as_ref()?;
            let by_id = dir.join(build_id.path(""));
            let by_name = path.file_name().map(|name| dir.join(name));
            let mut paths = std::iter::once(by_id).chain(by_name);
            paths.find_map(|path| open_recorded(&path, Some(build_id), None))
        };
        let inode = file.inode.map(|inode| inode.inode);
        let at_its_path = |build_id| open_recorded(path, build_id, inode);
        // Files that `perf inject --jit` makes have their build-id where no loader finds it.
        let by_inode = || inode.and_then(|_| at_its_path(None));
        self.symbol_dirs
            .iter()
            .find_map(in_dir)
            .or_else(|| at_its_path(file.build_id.as_ref()))
            .or_else(by_inode)
    }

    /// The perf map of a process, if it is one of the recording.
    fn map(&mut self, pid: i32) -> Option<&mut MapOfProcess> {
        if self.without.contains(&pid) || self.beyond.contains(&pid) {
            return None;
        }
        if !self.maps.contains_key(&pid) {
            let owner = PerfMapOwner::of_recorded(u32::try_from(pid).ok()?, self.ended);
            let opened = if self.maps.len() < MAX_MAPS {
                PerfMap::open(&owner, None).map(Some)
            } else {
                owner.find().map(|()| None)
            };
            match opened {
                Ok(Some(map)) => _ = self.maps.insert(pid, MapOfProcess { map, code: Arc::default() }),
                Ok(None) => _ = self.beyond.insert(pid),
                Err(error) => {
                    self.without.insert(pid);
                    if !matches!(error, PerfMapError::Missing { .. }) {
                        self.refused.push(error.to_string());
                    }
                }
            }
        }
        self.maps.get_mut(&pid)
    }
}

impl Files for RecordedFiles {
    fn find(&mut self, file: &RecordedFile) -> Option<FoundFile> {
        if file.path == VDSO {
            let bytes = self.vdso.as_ref()?;
            let headers = Headers::read(&|buffer, at| {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            });
            let headers = headers.ok()??;
            let is_same = match file.build_id {
                Some(_) => headers.build_id == file.build_id,
                None => self.is_of_here,
            };
            return is_same.then_some(FoundFile { headers, size: bytes.len() as u64, mtime_ns: 0 });
        }
        let (opened, identity) = self.open(file)?;
        let headers = Headers::read(&|buffer, at| opened.read_at(buffer, at)).ok()??;
        let is_another =
            headers.build_id.is_some() && file.build_id.is_some() && headers.build_id != file.build_id;
        if is_another {
            return None;
        }
        Some(FoundFile { headers, size: identity.size, mtime_ns: identity.mtime_ns })
    }

    fn content(&mut self, file: &RecordedFile) -> Option<Box<dyn AsRef<[u8]>>> {
        if file.path == VDSO {
            return Some(Box::new(Arc::clone(self.vdso.as_ref()?)));
        }
        let (opened, _) = self.open(file)?;
        Some(Box::new(Mapped(FileMap::new(&opened).ok()?)))
    }

    fn machine(&mut self, hostname: &str, release: &str) {
        let ours = rustix::system::uname();
        let is = |told: &str, ours: &CStr| !told.is_empty() && told.as_bytes() == ours.to_bytes();
        self.is_of_here = is(hostname, ours.nodename()) && is(release, ours.release());
    }

    /// Streams and compressed recordings have no build-ids. The kernel of a machine with this name and of this release is taken for the one that
    /// runs here, as perf does without asking for either.
    fn kernel(&mut self) -> Option<BuildId> {
        self.is_of_here.then(|| kernel_identity(&Options::default()).build_id)?
    }

    fn jit_name(&mut self, pid: i32, address: u64, within: Range<u64>) -> Option<FoundName> {
        self.map(pid)?.lookup(address, within)
    }

    fn vdso_name(&mut self, address: u64) -> Option<FoundName> {
        let file = ObjectFile {
            source: ObjectSource::Bytes(Arc::clone(self.vdso.as_ref()?)),
            display_path: VDSO.to_owned(),
            root: None,
            build_id: None,
        };
        let lines = self.vdso_symbols.object(&file, &[Svma(address)]).into_iter().next()?;
        lines.into_iter().next().map(name)
    }
}

fn name(line: SourceLine) -> FoundName {
    let function = Function {
        name: line.name.to_string(),
        system_name: line.system_name.to_string(),
        filename: line.file.to_string(),
        start_line: line.start_line,
    };
    FoundName { function, line: line.line }
}

/// The perf map of a process of the recording.
struct MapOfProcess {
    map: PerfMap,
    /// Its mappings of code that were asked for.
    code: Arc<CodeRanges>,
}

impl MapOfProcess {
    fn lookup(&mut self, address: u64, within: Range<u64>) -> Option<FoundName> {
        if !self.code.holds(within.start, within.end)
            && Arc::make_mut(&mut self.code).add(Avma(within.start)..Avma(within.end))
        {
            self.map.within(Arc::clone(&self.code));
        }
        let found = self.map.lookup(Avma(address));
        // A refused entry may have hidden a valid one.
        let found = found.or_else(|| self.map.refresh().then(|| self.map.lookup(Avma(address)))?);
        found.map(|entry| name(entry.line))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_refused_are_reported() {
        let map = testkit::PerfMap::of(std::process::id());
        map.write("1000 10 leaf\n1ff0 20 beyond\nnonsense\n").unwrap();
        // None of these numbers is that of a process, or of another run of this test.
        let first = (1 << 22) + 256 * std::process::id();
        let pids = first + 70..first + 140;
        let written =
            pids.clone().map(testkit::PerfMap::of).inspect(|map| map.write("1000 10 leaf\n").unwrap());
        let written: Vec<_> = written.collect();
        // A map that is younger than the recording is not that of its process.
        let mut files = RecordedFiles::new(&[], SystemTime::now() + std::time::Duration::from_secs(1));
        files.end();
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut name = |address| files.jit_name(pid, address, 0x1000..0x2000).map(|name| name.function.name);
        assert_eq!((name(0x1008).as_deref(), name(0x1ff8)), (Some("leaf"), None));
        let told = files.shortfalls();
        assert!(
            told.len() == 1 && told[0].contains("1 malformed lines, 1 entries that do not lie"),
            "{told:?}"
        );
        let name = |files: &mut RecordedFiles, pid: u32| {
            files.jit_name(i32::try_from(pid).unwrap(), 0x1008, 0x1000..0x2000).is_some()
        };
        assert!((first..first + 70).all(|pid| !name(&mut files, pid)));
        assert_eq!(files.shortfalls(), told, "processes without a map are not beyond the limit");
        // Processes beyond the limit, and one without a map after them.
        assert_eq!(pids.clone().filter(|pid| name(&mut files, *pid)).count(), MAX_MAPS - 1);
        assert!(!name(&mut files, first + 140));
        assert!(files.shortfalls()[1].contains("perf maps of 7 more processes"), "{:?}", files.shortfalls());
        drop(written);
    }
}
