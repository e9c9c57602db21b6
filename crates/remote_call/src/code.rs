//! The code of a running process: its files, their symbols, and the stacks of its threads by the frame sections of those files.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use process::{Bytes, Files, Image, MappedFile, Region};
use profile::Avma;
use sys::ptrace::Registers;
use unwind::StepError;
use unwind::full::{Frame, FullUnwinder};

use crate::error::CallError;
use crate::gadgets::{self, Store};
use crate::symbols;

/// Files of one process that are held open.
const MAX_FILES: usize = 512;
/// Bytes of the stack of a thread that are read. A thread with more is not walked to its end.
const MAX_STACK: usize = 1 << 20;
/// Frames of a stack.
const MAX_FRAMES: usize = 8192;
/// Bytes of a list of mappings that are read.
const MAX_MAPS: u64 = 64 << 20;
/// Code of one region that is searched.
const MAX_SEARCHED: usize = 64 << 20;

/// The files that a process executes, and where.
pub struct Code {
    pid: u32,
    image: Image,
    files: Vec<CodeFile>,
    /// Searched once, before anything is stopped.
    way_back: Option<WayBackCode>,
}

/// The code that leads back from a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayBackCode {
    pub(crate) store_at: u64,
    pub(crate) store: Store,
    pub(crate) sigreturn: u64,
    /// The function that tells where `errno` is.
    pub(crate) errno_location: u64,
}

/// One of the files.
pub struct CodeFile {
    file: Arc<MappedFile>,
    bytes: Option<Bytes>,
    bias: u64,
    unwinder: OnceLock<Option<FullUnwinder<Bytes>>>,
}

/// The stack of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Where each frame executes, the innermost first: an address inside of the instruction.
    pub addresses: Vec<u64>,
    /// The outermost frame of the thread was reached.
    pub is_whole: bool,
    /// A signal handler runs.
    pub in_handler: bool,
}

impl Code {
    /// Reads which files a process executes and opens them.
    ///
    /// # Errors
    /// It has ended, or may not be read.
    pub fn read(pid: u32) -> Result<Self, process::Error> {
        let image = process::read_image(pid, &Files::with_budget(MAX_FILES))?;
        let mut files: Vec<CodeFile> = Vec::new();
        for region in image.regions().iter() {
            let Some(file) = region.file() else { continue };
            let Some(svma) = file.svma_of(region.offset) else { continue };
            let bias = region.start.0.wrapping_sub(svma.0);
            let is_known = |known: &CodeFile| known.bias == bias && Arc::ptr_eq(&known.file, file);
            if !files.iter().any(is_known) {
                let bytes = file.bytes().ok();
                files.push(CodeFile { file: Arc::clone(file), bytes, bias, unwinder: OnceLock::new() });
            }
        }
        let mut code = Self { pid, image, files, way_back: None };
        code.way_back = code.find_way_back();
        Ok(code)
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &[CodeFile] {
        &self.files
    }

    /// The file in which an address is.
    #[must_use]
    pub fn file_at(&self, address: u64) -> Option<&CodeFile> {
        let region = self.image.find(Avma(address))?;
        self.file_of(region)
    }

    fn file_of(&self, region: &Region) -> Option<&CodeFile> {
        let file = region.file()?;
        let bias = region.start.0.wrapping_sub(file.svma_of(region.offset)?.0);
        self.files.iter().find(|known| known.bias == bias && Arc::ptr_eq(&known.file, file))
    }

    /// The address of an exported function, in the first file that has it.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.files.iter().find_map(|file| file.symbols(&[name])[0]).filter(|address| self.is_code(*address))
    }

    /// Whether there is code at an address.
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        self.image.find(Avma(address)).is_some()
    }

    /// The stack of a thread with these registers, as it is now: it must stand.
    #[must_use]
    pub fn walk(&self, registers: &Registers) -> Walked {
        let r = registers;
        let mut stack = vec![0; MAX_STACK];
        let read = read_up_to(self.pid, r.rsp, &mut stack);
        let memory = |address: u64| {
            let at = usize::try_from(address.checked_sub(r.rsp)?).ok()?;
            let word = stack.get(..read)?.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(*word.first_chunk()?))
        };
        let general = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15,
        ];
        let mut walked = Walked { addresses: Vec::new(), is_whole: false, in_handler: false };
        let mut frame = Frame::leaf(&general, r.rip);
        while walked.addresses.len() < MAX_FRAMES {
            walked.in_handler |= frame.exact && !walked.addresses.is_empty();
            walked.addresses.push(frame.lookup_address());
            let file = self.file_at(frame.lookup_address());
            let unwinder = file.and_then(|file| file.unwinder().map(|unwinder| (unwinder, file.bias)));
            let Some((unwinder, bias)) = unwinder else { return walked };
            match unwinder.step(&frame, bias, &memory) {
                Ok(caller) => frame = caller,
                Err(StepError::Root) => {
                    walked.is_whole = true;
                    return walked;
                }
                Err(_) => return walked,
            }
        }
        walked
    }

    /// The code that leads back from a function.
    pub(crate) fn way_back(&self) -> Result<WayBackCode, CallError> {
        self.way_back.ok_or(CallError::Unfit("it lacks code of a C library that leads back"))
    }

    fn find_way_back(&self) -> Option<WayBackCode> {
        let errno_location = self.symbol("__errno_location")?;
        let (store_at, store) = self.search(|code| gadgets::store(code).map(|store| (store.at, store)))?;
        let (sigreturn, ()) = self.search(|code| gadgets::sigreturn(code).map(|at| (at, ())))?;
        Some(WayBackCode { store_at, store, sigreturn, errno_location })
    }

    /// Searches the C library first, as it is in memory.
    fn search<T>(&self, find: impl Fn(&[u8]) -> Option<(usize, T)>) -> Option<(u64, T)> {
        let mut regions: Vec<&Region> =
            self.image.regions().iter().filter(|region| region.file().is_some()).collect();
        regions.sort_by_key(|region| !region.file().is_some_and(|file| is_c_library(name_of(file.path()))));
        regions.into_iter().find_map(|region| {
            let size = usize::try_from(region.end.0 - region.start.0).ok()?.min(MAX_SEARCHED);
            let mut code = vec![0; size];
            let read = read_up_to(self.pid, region.start.0, &mut code);
            let (at, found) = find(&code[..read])?;
            Some((region.start.0 + at as u64, found))
        })
    }
}

impl CodeFile {
    /// The path in the view of a process.
    #[must_use]
    pub fn path(&self) -> &str {
        self.file.path()
    }

    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        name_of(self.file.path())
    }

    /// What is added to link-time addresses.
    #[must_use]
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// The whole content; empty if it cannot be read.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// Whether it is the dynamic loader.
    #[must_use]
    pub fn is_loader(&self) -> bool {
        let name = self.name();
        name.starts_with("ld-") || name.starts_with("ld64.") || name.starts_with("ld.so")
    }

    /// Whether it is musl's C library, which is the dynamic loader too.
    #[must_use]
    pub fn is_musl(&self) -> bool {
        is_musl(self.name())
    }

    /// The addresses of exported symbols by their names.
    #[must_use]
    pub fn symbols(&self, names: &[&str]) -> Vec<Option<u64>> {
        let found = symbols::find(self.bytes(), names);
        found.into_iter().map(|svma| svma.map(|svma| svma.wrapping_add(self.bias))).collect()
    }

    /// Where functions with these names are, with the parts that a compiler has split off: the position in `names` and the addresses.
    #[must_use]
    pub fn functions(&self, names: &[&str]) -> Vec<(usize, Range<u64>)> {
        let at = |svma: u64| svma.wrapping_add(self.bias);
        let found = symbols::ranges(self.bytes(), names);
        found.into_iter().map(|(index, range)| (index, at(range.start)..at(range.end))).collect()
    }

    fn unwinder(&self) -> Option<&FullUnwinder<Bytes>> {
        let make = || FullUnwinder::new(self.file.bytes().ok()?).ok();
        self.unwinder.get_or_init(make).as_ref()
    }
}

fn name_of(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn is_c_library(name: &str) -> bool {
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
}

/// glibc's names have a number.
fn is_musl(name: &str) -> bool {
    name == "libc.so" || name.starts_with("libc.musl-") || name.starts_with("ld-musl-")
}

/// Memory from an address on, until it is unreadable. The number of bytes.
fn read_up_to(pid: u32, address: u64, buffer: &mut [u8]) -> usize {
    sys::memory::read(pid, address, buffer).unwrap_or(0)
}

/// Bytes below a stack pointer.
pub(crate) struct StackRoom {
    /// That are mapped.
    pub(crate) mapped: u64,
    /// With what the kernel adds when they are used.
    pub(crate) growing: u64,
}

/// The room below a stack pointer.
pub(crate) fn stack_room(pid: u32, sp: u64) -> Result<StackRoom, CallError> {
    let maps = File::open(format!("/proc/{pid}/maps")).map_err(CallError::io("open the list of mappings"))?;
    for line in BufReader::new(maps.take(MAX_MAPS)).lines() {
        let line = line.map_err(CallError::io("read the list of mappings"))?;
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let bounds = range.split_once('-').and_then(|(start, end)| {
            Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
        });
        let Some((start, end)) = bounds.filter(|(start, end)| (*start..*end).contains(&sp)) else { continue };
        if !rights.starts_with("rw") {
            break;
        }
        let mapped = sp - start;
        let growing = if line.ends_with("[stack]") {
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
            let soft = limits.lines().find_map(|line| line.strip_prefix("Max stack size"));
            let soft = soft.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
            mapped.max(soft.unwrap_or(u64::MAX).saturating_sub(end - sp))
        } else {
            mapped
        };
        return Ok(StackRoom { mapped, growing });
    }
    Err(CallError::Unfit("its stack pointer is not in memory that it may write"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn musl_is_known_by_its_names() {
        for name in ["libc.so", "libc.musl-x86_64.so.1", "ld-musl-x86_64.so.1"] {
            assert!(is_musl(name), "{name}");
        }
        for name in ["libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2", "libpython3.12.so.1.0"] {
            assert!(!is_musl(name), "{name}");
        }
    }
}
