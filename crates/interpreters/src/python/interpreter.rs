//! The interpreter in an ELF file: a shared `libpython`, or a program that it is linked into.

use elf::constants::EM_X86_64;
use profile::Svma;
use thiserror::Error;

use super::debug_offsets::DebugOffsetsError;
use super::evaluator::Evaluator;
use super::layout::Layout;
use super::symbols::{Place, Symbol, Symbols};
use super::thread_variable::ThreadVariable;
use super::version::{Family, Stage, Version};
use super::version_text;

/// The minor version from which on threads keep their state in a variable.
const FIRST_WITH_THREAD_VARIABLE: u8 = 15;

/// What is known of an interpreter from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// How the file tells the version.
    pub version_source: VersionSource,
    /// The address of `_PyRuntime`, at which everything begins.
    pub runtime: Svma,
    /// The function whose native frames stand for Python frames.
    pub evaluator: Evaluator,
    /// Where the fields of its data are.
    pub layout: Layout,
    /// The variable in which threads keep their state. `None` for versions that keep it under a key of the threading library.
    pub thread_variable: Option<ThreadVariable>,
}

/// How a file tells its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// By the number `Py_Version`, from 3.11 on.
    Number,
    /// By the text that `Py_GetVersion` returns.
    Text,
}

/// Why the Python frames of an interpreter cannot be walked. Each is told with the version where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InterpreterError {
    /// Too old, or newer than what is known.
    #[error("CPython {0} is not supported; versions from 3.8 to 3.15 are")]
    Version(Version),
    /// An alpha or beta, whose data nobody knows.
    #[error(
        "this is a pre-release of CPython {0}, which is not supported; release candidates and releases are"
    )]
    PreRelease(Version),
    /// Another implementation.
    #[error("PyPy is not supported; CPython from 3.8 to 3.15 is")]
    PyPy,
    /// Not x86-64.
    #[error("CPython is supported on x86-64 only, not on machine {0} of ELF files")]
    Machine(u16),
    /// The version is neither exported nor in the code that tells it.
    #[error("the version of this CPython cannot be found in its file")]
    NoVersion,
    /// A build for debugging, whose data differ.
    #[error("this is a build of CPython {0} for debugging (--with-pydebug), which is supported from 3.13 on")]
    DebugBuild(Version),
    /// The file is stripped of a symbol that a usual build exports, or the symbol stands for nothing.
    #[error("CPython {version} lacks the symbol {symbol}, or it stands for nothing in the file")]
    Symbol {
        /// The version.
        version: Version,
        /// The name of the symbol.
        symbol: &'static str,
    },
    /// Its threads keep their state in a way that is not known.
    #[error(
        "CPython {0}: the code of PyGILState_GetThisThreadState does not tell where threads keep their state"
    )]
    NoThreadVariable(Version),
    /// What it tells of itself cannot be.
    #[error("CPython {version}: {error}")]
    DebugOffsets {
        /// The version.
        version: Version,
        /// What is wrong.
        error: DebugOffsetsError,
    },
}

impl Interpreter {
    /// Finds the interpreter in the bytes of a file. `None` if the file has none.
    ///
    /// # Errors
    /// It has one whose frames cannot be walked.
    pub fn of_file(file: &[u8]) -> Result<Option<Self>, InterpreterError> {
        let Some(elf) = elf::Layout::parse(file) else { return Ok(None) };
        let symbols = Symbols::read(&elf, file);
        if symbols.get(Symbol::PyPy).is_some() {
            return Err(InterpreterError::PyPy);
        }
        // Versions before 3.7 lack the first, versions before 3.6 lack the second.
        let has = |symbol| symbols.get(symbol).is_some();
        let is_interpreter = has(Symbol::Runtime)
            || has(Symbol::Evaluator)
            || (has(Symbol::CodeType) && has(Symbol::GetVersion));
        if !is_interpreter {
            return Ok(None);
        }
        if elf.machine != EM_X86_64 {
            return Err(InterpreterError::Machine(elf.machine.0));
        }
        let (version, stage, version_source) =
            version(&elf, file, &symbols).ok_or(InterpreterError::NoVersion)?;
        let family = version.family().ok_or(InterpreterError::Version(version))?;
        if stage == Stage::Early {
            return Err(InterpreterError::PreRelease(version));
        }
        if family != Family::DebugOffsets && has(Symbol::CountedReferences) {
            return Err(InterpreterError::DebugBuild(version));
        }
        let missing = |symbol| InterpreterError::Symbol { version, symbol };
        let runtime = symbols.get(Symbol::Runtime).ok_or(missing("_PyRuntime"))?;
        let evaluator = symbols
            .get(Symbol::Evaluator)
            .and_then(|function| Evaluator::read(&elf, file, function))
            .ok_or(missing("_PyEval_EvalFrameDefault"))?;
        let layout = match Layout::of(version) {
            Some(known) => known,
            None => Layout::from_debug_offsets(bytes_of(&elf, file, runtime), version)
                .map_err(|error| InterpreterError::DebugOffsets { version, error })?,
        };
        let thread_variable = match version.minor {
            ..FIRST_WITH_THREAD_VARIABLE => None,
            _ => {
                let function =
                    symbols.get(Symbol::OwnState).ok_or(missing("PyGILState_GetThisThreadState"))?;
                let variable = ThreadVariable::of_code(&elf, file, function);
                Some(variable.ok_or(InterpreterError::NoThreadVariable(version))?)
            }
        };
        let runtime = Svma(runtime.address);
        Ok(Some(Self { version, version_source, runtime, evaluator, layout, thread_variable }))
    }
}

fn version(layout: &elf::Layout, file: &[u8], symbols: &Symbols) -> Option<(Version, Stage, VersionSource)> {
    let by_number = symbols.get(Symbol::Version).and_then(|place| {
        let number = u64::from_le_bytes(*bytes_of(layout, file, place).first_chunk()?);
        Some(Version::from_hex(u32::try_from(number).ok()?))
    });
    if let Some((version, stage)) = by_number {
        return Some((version, stage, VersionSource::Number));
    }
    let (version, stage) = version_text::of_code(layout, file, symbols.get(Symbol::GetVersion)?)?;
    Some((version, stage, VersionSource::Text))
}

/// The initial value of a variable, as far as the file has it.
fn bytes_of<'f>(layout: &elf::Layout, file: &'f [u8], place: Place) -> &'f [u8] {
    let bytes = layout.bytes_at(file, place.address).unwrap_or_default();
    &bytes[..bytes.len().min(usize::try_from(place.size).unwrap_or(usize::MAX))]
}
