//! Requests to symbol sources, and what they are about.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use profile::{Avma, Svma};
use recording::{CodeObject, ExecInstance, KernelImage, Module};
use symbols::{CodeRanges, JitDump, JitDumpError, ObjectFile, PerfMap, PerfMapError};

/// The file behind a module.
pub trait ModuleFile: Send + Sync {
    /// Opens it. `None` if it cannot be read any more. Called on the thread that names, once for each delivery at most.
    fn open(&self) -> Option<OpenedModule>;

    /// Its size in bytes. Called on the thread that schedules: it must not wait for a disk.
    fn size(&self) -> u64;
}

/// An open module.
pub struct OpenedModule {
    /// How crate `symbols` takes it.
    pub object: ObjectFile,
    /// What keeps the paths in `object` valid, as open descriptors.
    pub guard: Box<dyn Any + Send + Sync>,
}

/// A program in a live capture that makes code at run time.
pub trait JitProgram: Send + Sync {
    /// When it ended, if it did.
    fn ended(&self) -> Option<SystemTime>;

    /// Opens its perf map. `None` if its process is gone and nothing was kept of it.
    fn open(&self) -> Option<Result<PerfMap, PerfMapError>>;

    /// Where it ran code that it made at run time. `None` if that is not known: entries of its perf map then count anywhere.
    fn code(&self) -> Option<Arc<CodeRanges>> {
        None
    }

    /// Asks the program to write its perf map, if it is one that is asked: `Ok` if it did. Called on the thread that reads files, before its places
    /// are looked up for the first time, and such of which some have no name; `is_last`: before they are looked up for the last time.
    fn renew(&self, is_last: bool) -> Option<Result<(), String>> {
        let _ = is_last;
        None
    }

    /// Whether the name of a place may be another one when the interval ends.
    fn names_may_change(&self) -> bool {
        self.has_dump()
    }

    /// Whether it maps a file that may be a jitdump.
    fn has_dump(&self) -> bool {
        false
    }

    /// Opens its jitdump. `None` if it maps none so far. Called on the thread that reads files.
    fn open_dump(&self) -> Option<Result<JitDump, JitDumpError>> {
        None
    }
}

/// A place in code that a program made at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitPlace {
    /// The address in its process.
    pub address: Avma,
    /// When it was handed over (`CLOCK_MONOTONIC`): the code that runs there now was made before.
    pub seen_ns: u64,
}

/// What tells programs apart in all intervals of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId {
    /// Process number.
    pub pid: u32,
    /// When it began, ns since the epoch.
    pub began_ns: i64,
}

impl From<&ExecInstance> for ProgramId {
    fn from(program: &ExecInstance) -> Self {
        Self { pid: program.pid, began_ns: program.began_ns }
    }
}

/// A request for names. Addresses are those of instructions: return addresses have already been moved to their calls.
///
/// A request owns all that it holds: a source may keep it, or send it to another thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// For places in one module.
    Module(ModuleRequest),
    /// For places in the kernel.
    Kernel(KernelRequest),
    /// For places in code that one program made at run time.
    Jit(JitRequest),
    /// For places in one function of an interpreted language.
    Interpreted(InterpretedRequest),
}

impl Request {
    /// How many places it is for.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Module(request) => request.svmas.len(),
            Self::Kernel(request) => request.addresses.len(),
            Self::Jit(request) => request.addresses.len(),
            Self::Interpreted(request) => request.instructions.len(),
        }
    }

    /// Whether it is for no place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Places in one module.
#[derive(Clone)]
#[non_exhaustive]
pub struct ModuleRequest {
    /// The module.
    pub module: Arc<Module>,
    /// Link-time addresses in it.
    pub svmas: Vec<Svma>,
    file: Arc<FileOnce>,
}

/// Places in the kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelRequest {
    /// The kernel of a recording; none in a live capture, where it is the running one.
    pub image: Option<Arc<KernelImage>>,
    /// Addresses in that kernel.
    pub addresses: Vec<Avma>,
}

/// Places in code that one program made at run time.
#[derive(Clone)]
#[non_exhaustive]
pub struct JitRequest {
    /// The program.
    pub program: Arc<ExecInstance>,
    /// The program in the live capture; none for a recording.
    pub(crate) live: Option<Arc<dyn JitProgram>>,
    /// Addresses in its process.
    pub addresses: Vec<Avma>,
    /// When each of them was handed over (`CLOCK_MONOTONIC`).
    pub(crate) seen_ns: Vec<u64>,
    /// They are looked up for the last time.
    pub(crate) is_last: bool,
}

/// Places in one function of an interpreted language.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InterpretedRequest {
    /// The function.
    pub code: Arc<CodeObject>,
    /// Instructions in it.
    pub instructions: Vec<u32>,
}

impl ModuleRequest {
    pub(crate) fn new(module: Arc<Module>, svmas: Vec<Svma>, file: Arc<FileOnce>) -> Self {
        Self { module, svmas, file }
    }

    /// The file, opened at the first call; `None` if there is none.
    #[must_use]
    pub fn open(&self) -> Option<&OpenedModule> {
        self.file.open()
    }
}

impl fmt::Debug for ModuleRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleRequest")
            .field("module", &self.module)
            .field("svmas", &self.svmas)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for JitRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JitRequest")
            .field("program", &self.program)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// A file that is opened once for all batches of a delivery.
pub(crate) struct FileOnce {
    file: Option<Arc<dyn ModuleFile>>,
    opened: OnceLock<Option<OpenedModule>>,
}

impl FileOnce {
    pub(crate) fn new(file: Option<Arc<dyn ModuleFile>>) -> Self {
        Self { file, opened: OnceLock::new() }
    }

    fn open(&self) -> Option<&OpenedModule> {
        self.opened.get_or_init(|| self.file.as_ref()?.open()).as_ref()
    }

    /// Whether it was to be opened and could not be.
    pub(crate) fn failed(&self) -> bool {
        self.opened.get().is_some_and(Option::is_none)
    }
}
