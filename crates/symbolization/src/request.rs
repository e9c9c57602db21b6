//! Requests to symbol sources, and what they are about.

use std::any::Any;
use std::cell::OnceCell;
use std::time::SystemTime;

use profile::{Avma, Svma};
use recording::{CodeObject, ExecInstance, Module};
use symbols::{ObjectFile, PerfMap, PerfMapError};

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
    pub guard: Box<dyn Any + Send>,
}

/// A program in a live capture that makes code at run time.
pub trait JitProgram: Send + Sync {
    /// When it ended, if it did.
    fn ended(&self) -> Option<SystemTime>;

    /// Opens its perf map. `None` if its process is gone and nothing was kept of it.
    fn open(&self) -> Option<Result<PerfMap, PerfMapError>>;
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
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// For places in one module.
    Module(ModuleRequest<'a>),
    /// For places in the kernel.
    Kernel(KernelRequest<'a>),
    /// For places in code that one program made at run time.
    Jit(JitRequest<'a>),
    /// For places in one function of an interpreted language.
    Interpreted(InterpretedRequest<'a>),
}

/// Places in one module.
#[derive(Clone, Copy)]
pub struct ModuleRequest<'a> {
    /// The module.
    pub module: &'a Module,
    /// Link-time addresses in it.
    pub svmas: &'a [Svma],
    file: &'a FileOnce<'a>,
}

/// Places in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelRequest<'a> {
    /// Addresses in the running kernel.
    pub addresses: &'a [u64],
}

/// Places in code that one program made at run time.
#[derive(Clone, Copy)]
pub struct JitRequest<'a> {
    /// The program.
    pub program: &'a ExecInstance,
    /// The program in the live capture; none for a recording.
    pub live: Option<&'a dyn JitProgram>,
    /// Addresses in its process.
    pub addresses: &'a [Avma],
}

/// Places in one function of an interpreted language.
#[derive(Clone, Copy, Debug)]
pub struct InterpretedRequest<'a> {
    /// The function.
    pub code: &'a CodeObject,
    /// Instructions in it.
    pub instructions: &'a [u32],
}

impl<'a> ModuleRequest<'a> {
    pub(crate) fn new(module: &'a Module, svmas: &'a [Svma], file: &'a FileOnce<'a>) -> Self {
        Self { module, svmas, file }
    }

    /// The file, opened at the first call; `None` if there is none.
    #[must_use]
    pub fn open(&self) -> Option<&'a OpenedModule> {
        self.file.open()
    }
}

impl std::fmt::Debug for ModuleRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModuleRequest")
            .field("module", &self.module)
            .field("svmas", &self.svmas)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for JitRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JitRequest")
            .field("program", &self.program)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// A file that is opened once for all batches of a delivery.
pub(crate) struct FileOnce<'a> {
    file: Option<&'a dyn ModuleFile>,
    opened: OnceCell<Option<OpenedModule>>,
}

impl<'a> FileOnce<'a> {
    pub(crate) fn new(file: Option<&'a dyn ModuleFile>) -> Self {
        Self { file, opened: OnceCell::new() }
    }

    fn open(&self) -> Option<&OpenedModule> {
        self.opened.get_or_init(|| self.file.and_then(ModuleFile::open)).as_ref()
    }

    /// Whether it was to be opened and could not be.
    pub(crate) fn failed(&self) -> bool {
        self.opened.get().is_some_and(Option::is_none)
    }
}
