//! The allocators in the files that processes have mapped: where their functions are to be probed.
//!
//! Guaranteed: files are opened on a thread of its own, so that one whose file system does not answer holds up nothing but its own probes; each file is read once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use events::Mmap;
use events::monitor::FunctionPlace;
use kernel::HeapProgram;
use probes::Binary;
use probes::Location;
use sys::clock::kernel_ns;

use super::functions;
use super::returns::{self, Returns, Wanted};
use super::samplers::go::{self, Go};
use super::samplers::jemalloc;
use super::samplers::{Sampler, otel};
use crate::Error;

/// Files of one process that are looked at.
const MAX_FILES: usize = 4096;

/// The functions whose price decides that of all.
const FREQUENT: [&str; 6] = ["malloc", "calloc", "realloc", "free", "_Znwm", "_ZdlPv"];

/// With this function a handler of C++ exceptions begins.
const CATCH: &str = "__cxa_begin_catch";

/// Device (major, minor) and inode.
type FileNumber = (u32, u32, u64);

/// A file that may have an allocator, by the paths under which it can be opened.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    number: Option<FileNumber>,
    paths: Vec<PathBuf>,
    mapped: Option<Mapped>,
}

/// Where a process has mapped code of a file.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    pid: u32,
    start: u64,
    /// The offset in the file.
    offset: u64,
}

/// Where an allocator is to be probed, by program.
pub(super) type Places = BTreeMap<HeapProgram, Vec<FunctionPlace>>;

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) places: Places,
    /// The instruction at one of the places is not emulated by the kernel, so that a hit costs ten times as much.
    pub(super) is_dear: bool,
    /// A frequent function is probed at its instructions that return.
    pub(super) returns_are_dear: bool,
    /// Where handlers of exceptions begin.
    pub(super) catches: Vec<FunctionPlace>,
    /// Functions that are not recorded, and why.
    pub(super) left_out: Vec<String>,
    /// Go's compiler made the file.
    pub(super) is_go: bool,
    /// What Go's runtime offers.
    pub(super) go: Option<Go>,
    /// Another allocator that samples itself.
    pub(super) sampler: Option<Sampler>,
    /// Why samples that are told cannot be used.
    pub(super) unusable: Option<String>,
}

/// Looks for allocators.
pub(super) struct Allocators {
    known: BTreeSet<FileNumber>,
    ask: Sender<Candidate>,
    answers: Receiver<Found>,
    pending: usize,
}

impl Allocators {
    /// `return_probes`: targets survive them.
    pub(super) fn start(return_probes: bool) -> Result<Self, Error> {
        let (ask, asked) = channel::<Candidate>();
        let (answer, answers) = channel();
        let look = move || {
            let names = functions::names();
            for candidate in asked {
                if answer.send(look_into(&candidate, &names, return_probes)).is_err() {
                    break;
                }
            }
        };
        sys::thread::spawn_quiet_thread("alloc", look).map_err(|source| Error::System {
            attempt: "start a thread that looks for allocators".to_owned(),
            source,
        })?;
        Ok(Self { known: BTreeSet::new(), ask, answers, pending: 0 })
    }

    /// Asks for the files that a process has mapped, as far as they are new.
    pub(super) fn ask_for_process(&mut self, pid: u32) {
        for candidate in mapped_by(pid) {
            self.ask_for(candidate);
        }
    }

    /// Asks for a file that a process has just mapped, if it is new.
    pub(super) fn ask_for_mapping(&mut self, mapping: &Mmap) {
        let number = (mapping.dev_major, mapping.dev_minor, mapping.inode);
        let end = mapping.address.saturating_add(mapping.len);
        if mapping.inode != 0 {
            let mapped = Mapped { pid: mapping.pid, start: mapping.address, offset: mapping.file_offset };
            self.ask_for(candidate(mapped, end, number, &mapping.path));
        }
    }

    /// Asks for a file that will be mapped.
    pub(super) fn ask_for_file(&mut self, path: &Path) {
        self.ask_for(Candidate { number: number_of(path), paths: vec![path.to_owned()], mapped: None });
    }

    fn ask_for(&mut self, candidate: Candidate) {
        if candidate.number.is_some_and(|number| !self.known.insert(number)) {
            return;
        }
        self.pending += usize::from(self.ask.send(candidate).is_ok());
    }

    /// The answers that come within this time.
    pub(super) fn take(&mut self, wait: Duration) -> Vec<Found> {
        let by = Instant::now() + wait;
        let mut all = Vec::new();
        while self.pending > 0 {
            let Ok(found) = self.answers.recv_timeout(by.saturating_duration_since(Instant::now())) else {
                break;
            };
            self.pending -= 1;
            all.push(found);
        }
        all
    }
}

fn candidate(mapped: Mapped, end: u64, number: FileNumber, path: &[u8]) -> Candidate {
    let Mapped { pid, start, .. } = mapped;
    let mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    let mut paths = vec![mapping];
    if let Ok(path) = std::str::from_utf8(path)
        && path.starts_with('/')
    {
        paths.push(PathBuf::from(format!("/proc/{pid}/root{path}")));
    }
    Candidate { number: Some(number), paths, mapped: Some(mapped) }
}

/// The files with code that a process has mapped.
fn mapped_by(pid: u32) -> Vec<Candidate> {
    let mut all = Vec::new();
    let Ok(maps) = File::open(format!("/proc/{pid}/maps")) else { return all };
    let _what_was_read = process::maps::for_each(maps, |entry| {
        if entry.executable && entry.inode != 0 && all.len() < MAX_FILES {
            let number = (entry.dev_major, entry.dev_minor, entry.inode);
            let mapped = Mapped { pid, start: entry.start, offset: entry.offset };
            all.push(candidate(mapped, entry.end, number, &process::maps::unescape(entry.path)));
        }
    });
    all
}

/// Device and inode of a file, as far as file systems show the same ones to `stat` as in mappings.
fn number_of(path: &Path) -> Option<FileNumber> {
    let stat = rustix::fs::stat(path).ok()?;
    Some((rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino))
}

fn look_into(candidate: &Candidate, names: &[&str], return_probes: bool) -> Found {
    let opened = candidate.paths.iter().find_map(|path| {
        let is_it = path.starts_with("/proc") && path.to_string_lossy().contains("/map_files/")
            || candidate.number.is_none_or(|number| number_of(path).is_none_or(|other| other == number));
        Some((Binary::open(path).ok().filter(|_| is_it)?, path))
    });
    let Some((binary, path)) = opened else { return Found::default() };
    let functions = binary.functions(names);
    let mut found = Found { is_go: binary.is_go(), ..Found::default() };
    find_functions(&binary, path, &functions, names, return_probes, &mut found);
    let catch = binary.functions(&[CATCH]);
    let place = |location: &Location| place_at(path, binary.place(location).offset);
    found.catches = catch.iter().map(|(_, location)| place(location)).collect();
    found.go = go::find(&binary, path);
    match otel::find(&binary, path) {
        Ok(sampler) => found.sampler = sampler,
        Err(why) => found.unusable = Some(why),
    }
    if let (None, Some(jemalloc)) = (&found.sampler, jemalloc::find(&binary, path, kernel_ns()))
        && candidate.mapped.is_some_and(|mapped| are_on(&binary, mapped, &jemalloc.switches))
    {
        found.sampler = Some(jemalloc.sampler);
    }
    found
}

fn place_at(path: &Path, offset: u64) -> FunctionPlace {
    FunctionPlace { path: path.to_owned(), offset, counter: None }
}

/// Enters the places of the functions by name.
fn find_functions(
    binary: &Binary,
    path: &Path,
    functions: &[(usize, Location)],
    names: &[&str],
    return_probes: bool,
    found: &mut Found,
) {
    let numbers: Vec<usize> = functions.iter().map(|(number, _)| *number).collect();
    let programs = functions.iter().zip(functions::programs(&numbers));
    let programs = programs.filter_map(|((number, location), program)| Some((*number, location, program?)));
    let (mut wanted, mut is_frequent) = (Vec::new(), Vec::new());
    for (number, location, program) in programs {
        is_frequent.push(names.get(number).is_some_and(|name| FREQUENT.contains(name)));
        wanted.push(Wanted { location, program, is_cpp: functions::is_cpp(number) });
    }
    let decided = returns::decide(binary, &wanted, return_probes);
    let mut sites = BTreeSet::new();
    for ((one, returns), is_frequent) in wanted.iter().zip(decided).zip(is_frequent) {
        let placement = binary.place(one.location);
        match returns {
            Returns::BehindInner => continue,
            Returns::Unknown(why) => {
                found.left_out.push(why);
                continue;
            }
            Returns::NotNeeded => {}
            Returns::ByProbe => {
                let place = place_at(path, placement.offset);
                found.places.entry(HeapProgram::Returned).or_default().push(place);
            }
            Returns::At(offsets) => {
                found.returns_are_dear |= is_frequent;
                sites.extend(offsets);
            }
        }
        found.is_dear |= is_frequent && !placement.is_emulated;
        found.places.entry(one.program).or_default().push(place_at(path, placement.offset));
    }
    if !sites.is_empty() {
        let places = sites.into_iter().map(|offset| place_at(path, offset)).collect();
        found.places.insert(HeapProgram::ReturnedHere, places);
    }
}

/// Whether these variables of one byte, by their link-time addresses, are all 1 in the process that has mapped the file.
fn are_on(binary: &Binary, mapped: Mapped, switches: &[u64]) -> bool {
    let Some(linked) = binary.address_of(mapped.offset) else { return false };
    switches.iter().all(|switch| {
        let mut byte = [0];
        let address = switch.wrapping_sub(linked).wrapping_add(mapped.start);
        sys::memory::read(mapped.pid, address, &mut byte).is_ok_and(|read| read == 1) && byte == [1]
    })
}
