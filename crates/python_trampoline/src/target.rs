//! The interpreter of a process, found in its mapped files.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;

use interpreters::python::{Interpreter, InterpreterError, Version};
use remote_call::{Code, CodeFile};

use crate::api::Api;
use crate::refusal::{Refusal, Token};

/// The first version with trampolines.
const FIRST: (u8, u8) = (3, 12);
/// In an ELF file: 32 or 64 bits.
const CLASS_AT: usize = 4;
const CLASS_32: u8 = 1;
/// Bytes of what the kernel told at the start; they are some hundreds.
const MAX_START: u64 = 4096;
const NO_ENTRY: i32 = 2;
const NO_PROCESS: i32 = 3;
const NO_RIGHT: i32 = 13;

/// A process with an interpreter that can be switched.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    /// What the kernel told the program at its start. Each execution of a program has its own.
    start: Vec<u8>,
    pub(crate) code: Code,
    pub(crate) api: Api,
    /// The code of the interpreter's loop.
    pub(crate) evaluator: Vec<Range<u64>>,
    locking: Locking,
    /// The functions that take the interpreter's lock and give it back, as far as they are known by name.
    of_lock: Vec<Range<u64>>,
    /// The interpreter's own variables, with the interpreter's lock among them.
    runtime: Vec<Range<u64>>,
}

/// Its loader, in which no function may be called, is not to be told from the C library that is at the bottom of each stack.
const MUSL: &str = "it runs with musl; trampolines are switched in processes with glibc only";

const RUNTIME: &str = "_PyRuntime";

/// Functions that hold the lock of pending calls for a moment, or that are called meanwhile. The first two are known by name only in files with
/// all symbols.
const LOCKING: [&str; 16] = [
    "_Py_HandlePending",
    "make_pending_calls",
    "Py_AddPendingCall",
    "_PyEval_AddPendingCall",
    "Py_MakePendingCalls",
    "_PyEval_MakePendingCalls",
    "_PyEval_SignalReceived",
    "PyThread_acquire_lock",
    "PyThread_acquire_lock_timed",
    "PyThread_release_lock",
    "PyMutex_Lock",
    "PyMutex_Unlock",
    "_PyMutex_LockTimed",
    "_PyMutex_LockSlow",
    "_PyMutex_TryUnlock",
    "_PyParkingLot_Park",
];

/// Functions that take the interpreter's lock or give it back. Those that are not exported are known by name only in files with all symbols.
const OF_LOCK: [&str; 16] = [
    "take_gil",
    "drop_gil",
    "drop_gil_impl",
    "_Py_HandlePending",
    "_PyEval_AcquireLock",
    "_PyEval_ReleaseLock",
    "_PyThreadState_Attach",
    "_PyThreadState_Detach",
    "PyEval_AcquireLock",
    "PyEval_ReleaseLock",
    "PyEval_AcquireThread",
    "PyEval_ReleaseThread",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyGILState_Ensure",
    "PyGILState_Release",
];

/// Where the lock of pending calls may be held.
struct Locking {
    functions: Vec<Range<u64>>,
    /// Whether all of them are known.
    all_known: bool,
    /// The addresses of the interpreter's file.
    bias: u64,
}

impl Locking {
    fn of(file: &CodeFile) -> Self {
        let found = file.functions(&LOCKING);
        let all_known = found.iter().any(|(index, _)| *index == 0);
        Self { functions: found.into_iter().map(|(_, range)| range).collect(), all_known, bias: file.bias() }
    }
}

impl Target {
    /// Finds everything that can be found without touching the process.
    pub(crate) fn find(pid: u32) -> Result<Self, Refusal> {
        let stat = process::task::stat(pid)?;
        if matches!(stat.state, 'Z' | 'X') {
            return Err(Refusal::new(Token::Exited, "it has ended"));
        }
        if pid == std::process::id() {
            return Err(Refusal::new(Token::NotPython, "it is perf-agent itself"));
        }
        let start = start_of(pid)?;
        let code = Code::read(pid)?;
        let (api, file, evaluator) = Self::interpreter(&code)?;
        if code.files().iter().any(CodeFile::is_musl) {
            return Err(Refusal::new(Token::NoPerfTrampoline, MUSL));
        }
        let locking = Locking::of(file);
        let ranges = |names: &[&str]| -> Vec<_> {
            file.functions(names).into_iter().map(|(_, range)| range).collect()
        };
        let (runtime, of_lock) = (ranges(&[RUNTIME]), ranges(&OF_LOCK));
        if runtime.is_empty() {
            return Err(Refusal::new(Token::NoLibpythonSymbols, format!("{} lacks {RUNTIME}", file.path())));
        }
        let start_ticks = stat.start_time_ticks;
        Ok(Self { pid, start_ticks, start, api, evaluator, locking, of_lock, runtime, code })
    }

    /// The functions of the interpreter, its file, and where its loop is.
    fn interpreter(code: &Code) -> Result<(Api, &CodeFile, Vec<Range<u64>>), Refusal> {
        let mut refused = None;
        for file in candidates(code) {
            if is_named(file) && file.bytes().get(CLASS_AT) == Some(&CLASS_32) {
                refused = Some(Refusal::new(Token::Other, format!("{} is a 32-bit program", file.path())));
            }
            let interpreter = match Interpreter::of_file(file.bytes()) {
                Ok(Some(interpreter)) => interpreter,
                Ok(None) => continue,
                Err(error) => {
                    refused = Some(of_interpreter(error));
                    continue;
                }
            };
            if (interpreter.version.major, interpreter.version.minor) < FIRST {
                return Err(too_old(interpreter.version));
            }
            if interpreter.layout.free_threaded {
                let version = interpreter.version;
                // Nothing keeps its other threads from running meanwhile.
                let cause =
                    format!("CPython {version} is a free-threaded build, whose trampolines are left alone");
                return Err(Refusal::new(Token::NoPerfTrampoline, cause));
            }
            let at = |range: &Range<_>| bias(file, range);
            let evaluator = interpreter.evaluator.ranges.iter().map(at).collect();
            return Ok((Api::find(file, code)?, file, evaluator));
        }
        Err(refused.unwrap_or_else(|| Refusal::new(Token::NotPython, "no interpreter of Python is mapped")))
    }

    /// Whether a thread that waits for the change of this word waits for the interpreter's own lock. It is half-way through the C library's
    /// functions for that lock, and may not call them again before it is through.
    pub(crate) fn is_own_lock(&self, word: u64) -> bool {
        self.runtime.iter().any(|range| range.contains(&word))
    }

    /// Whether the process is still the one that was found, and executes the same program.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let is_same =
            process::task::start_time(self.pid)? == self.start_ticks && start_of(self.pid)? == self.start;
        let ended = || Refusal::new(Token::Exited, "it has ended, or executes another program");
        is_same.then_some(()).ok_or_else(ended)
    }

    /// Whether a thread with this stack is half-way through taking the interpreter's lock or giving it back.
    pub(crate) fn is_at_lock(&self, addresses: &[u64]) -> bool {
        let is_in = |ranges: &[Range<u64>], address| ranges.iter().any(|range| range.contains(address));
        let until_loop = addresses.iter().take_while(|address| !is_in(&self.evaluator, address));
        until_loop.into_iter().any(|address| is_in(&self.of_lock, address))
    }

    /// Whether a thread with this stack may ask for a pending call: it runs Python code, and does not hold the lock of pending calls. Where the
    /// functions that hold it are not known by name, that is certain only in the interpreter's loop itself and in other files.
    pub(crate) fn may_ask(&self, addresses: &[u64]) -> bool {
        let Some((leaf, _)) = addresses.split_first() else { return false };
        let in_loop = |address: &u64| self.evaluator.iter().any(|range| range.contains(address));
        let locks = |address: &u64| self.locking.functions.iter().any(|range| range.contains(address));
        let until_loop = addresses.iter().take_while(|address| !in_loop(address));
        let in_interpreter = self.code.file_at(*leaf).is_some_and(|file| file.bias() == self.locking.bias);
        addresses.iter().any(in_loop)
            && !until_loop.clone().any(locks)
            && (self.locking.all_known || !in_interpreter || in_loop(leaf))
    }
}

fn start_of(pid: u32) -> Result<Vec<u8>, Refusal> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(NO_ENTRY | NO_PROCESS) => Refusal::new(Token::Exited, "it has ended"),
        Some(NO_RIGHT) => Refusal::new(Token::PtraceDenied, "cap_sys_ptrace is missing"),
        _ => Refusal::new(Token::Other, format!("read /proc/{pid}/auxv: {error}")),
    };
    let file = File::open(format!("/proc/{pid}/auxv")).map_err(failed)?;
    let mut start = Vec::new();
    file.take(MAX_START).read_to_end(&mut start).map_err(failed)?;
    Ok(start)
}

fn bias(file: &CodeFile, range: &Range<profile::Svma>) -> Range<u64> {
    range.start.0.wrapping_add(file.bias())..range.end.0.wrapping_add(file.bias())
}

/// Files that are named like an interpreter, then all others but the C library and the loader: the program may be named as it likes.
fn candidates(code: &Code) -> impl Iterator<Item = &CodeFile> {
    let may_be = |file: &&CodeFile| !file.name().contains(".so");
    let named = code.files().iter().filter(|file| is_named(file));
    named.chain(code.files().iter().filter(move |file| may_be(file) && !is_named(file)))
}

fn is_named(file: &CodeFile) -> bool {
    file.name().starts_with("libpython") || file.name().starts_with("python")
}

fn too_old(version: Version) -> Refusal {
    Refusal::new(Token::PythonTooOld, format!("CPython {version} has no trampolines; 3.12 and later have"))
}

fn of_interpreter(error: InterpreterError) -> Refusal {
    match error {
        InterpreterError::Version(version) | InterpreterError::DebugBuild(version)
            if (version.major, version.minor) < FIRST =>
        {
            too_old(version)
        }
        InterpreterError::Symbol { .. } => Refusal::new(Token::NoLibpythonSymbols, error.to_string()),
        error => Refusal::new(Token::Other, error.to_string()),
    }
}
