//! Why a process was not switched on or off.

use std::fmt;

use remote_call::CallError;

/// The kind of a refusal. Its name is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Token {
    /// No interpreter in the process.
    NotPython,
    /// A version below 3.12.
    PythonTooOld,
    /// Built without trampolines, or the interpreter refused.
    NoPerfTrampoline,
    /// A function that is needed cannot be found.
    NoLibpythonSymbols,
    /// No safe place, or a call did not return, in time.
    Timeout,
    /// The process may not be traced.
    PtraceDenied,
    /// The process has ended.
    Exited,
    /// Anything else.
    Other,
}

impl Token {
    /// The name as messages have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotPython => "not_python",
            Self::PythonTooOld => "python_too_old",
            Self::NoPerfTrampoline => "no_perf_trampoline",
            Self::NoLibpythonSymbols => "no_libpython_symbols",
            Self::Timeout => "timeout",
            Self::PtraceDenied => "ptrace_denied",
            Self::Exited => "exited",
            Self::Other => "other",
        }
    }
}

/// Why a process was not switched: `TOKEN: cause`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{token}: {cause}")]
pub struct Refusal {
    /// The kind.
    pub token: Token,
    /// The cause in words.
    pub cause: String,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Refusal {
    pub(crate) fn new(token: Token, cause: impl Into<String>) -> Self {
        Self { token, cause: cause.into() }
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let token = match &error {
            CallError::Ended => Token::Exited,
            CallError::Denied(_) => Token::PtraceDenied,
            CallError::Late(_) => Token::Timeout,
            CallError::Fault(_) | CallError::Unfit(_) | CallError::Io { .. } => Token::Other,
        };
        Self::new(token, error.to_string())
    }
}

impl From<process::Error> for Refusal {
    fn from(error: process::Error) -> Self {
        let token = match &error {
            process::Error::Gone { .. } => Token::Exited,
            process::Error::Permission { .. } => Token::PtraceDenied,
            _ => Token::Other,
        };
        Self::new(token, error.to_string())
    }
}
