//! The functions of the interpreter that are called, and the texts that they are given.

use remote_call::{Code, CodeFile};

use crate::refusal::{Refusal, Token};

/// The addresses of functions in a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    /// Takes the lock, if the thread does not have it: 0 if it had.
    pub(crate) ensure: u64,
    pub(crate) release: u64,
    /// The state of this thread; none if the thread never ran Python.
    pub(crate) own_state: u64,
    /// The state of this thread if it has the lock.
    pub(crate) current_state: u64,
    pub(crate) add_pending_call: u64,
    pub(crate) get_object: u64,
    pub(crate) set_object: u64,
    pub(crate) call: u64,
    pub(crate) call_with: u64,
    pub(crate) text: u64,
    pub(crate) utf8: u64,
    pub(crate) is_true: u64,
    pub(crate) drop: u64,
    pub(crate) clear_error: u64,
    /// The error that the last call has set, which is none afterwards.
    pub(crate) take_error: u64,
    pub(crate) text_of: u64,
    pub(crate) interpreter_of: u64,
    pub(crate) main_interpreter: u64,
    /// The type of functions that are written in C; no function.
    pub(crate) built_in: u64,
    /// Of the C library.
    pub(crate) sched_yield: u64,
}

const NAMES: [&str; 17] = [
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyGILState_GetThisThreadState",
    "Py_AddPendingCall",
    "PySys_GetObject",
    "PySys_SetObject",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyUnicode_FromString",
    "PyUnicode_AsUTF8",
    "PyObject_IsTrue",
    "Py_DecRef",
    "PyErr_Clear",
    "PyErr_GetRaisedException",
    "PyObject_Str",
    "PyThreadState_GetInterpreter",
    "PyInterpreterState_Main",
];
const BUILT_IN: &str = "PyCFunction_Type";
/// The name up to 3.12 and the one since 3.13.
const CURRENT_STATE: [&str; 2] = ["PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet"];

impl Api {
    pub(crate) fn find(file: &CodeFile, code: &Code) -> Result<Self, Refusal> {
        let missing =
            |name: &str| Refusal::new(Token::NoLibpythonSymbols, format!("{} lacks {name}", file.path()));
        let found = file.symbols(&NAMES);
        let at = |index: usize| {
            let address = found.get(index).copied().flatten().filter(|address| code.is_code(*address));
            address.ok_or_else(|| missing(NAMES[index]))
        };
        let current =
            file.symbols(&CURRENT_STATE).into_iter().flatten().find(|address| code.is_code(*address));
        Ok(Self {
            ensure: at(0)?,
            release: at(1)?,
            own_state: at(2)?,
            current_state: current.ok_or_else(|| missing(CURRENT_STATE[0]))?,
            add_pending_call: at(3)?,
            get_object: at(4)?,
            set_object: at(5)?,
            call: at(6)?,
            call_with: at(7)?,
            text: at(8)?,
            utf8: at(9)?,
            is_true: at(10)?,
            drop: at(11)?,
            clear_error: at(12)?,
            take_error: at(13)?,
            text_of: at(14)?,
            interpreter_of: at(15)?,
            main_interpreter: at(16)?,
            built_in: file.symbols(&[BUILT_IN])[0].ok_or_else(|| missing(BUILT_IN))?,
            sched_yield: code.symbol("sched_yield").ok_or_else(|| missing("sched_yield of the C library"))?,
        })
    }
}

/// The texts that functions are given, one after the other, each with a zero at its end.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_active: u64,
    pub(crate) streams: u64,
    pub(crate) activate: u64,
    pub(crate) deactivate: u64,
    pub(crate) backend: u64,
    pub(crate) mark_name: u64,
    pub(crate) mark: u64,
}

impl Texts {
    /// The positions are relative until [`Texts::at`].
    pub(crate) fn new(mark: &str) -> Self {
        let mut bytes = Vec::new();
        let mut put = |text: &str| {
            let at = bytes.len() as u64;
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
            at
        };
        let is_active = put("is_stack_trampoline_active");
        let streams = put("__stdout__");
        let activate = put("activate_stack_trampoline");
        let deactivate = put("deactivate_stack_trampoline");
        let backend = put("perf");
        let mark_name = put("_perf_agent_trampoline");
        let mark = put(mark);
        Self { bytes, is_active, streams, activate, deactivate, backend, mark_name, mark }
    }

    /// With the addresses that they have in a process.
    pub(crate) fn at(mut self, base: u64) -> Self {
        for place in [
            &mut self.is_active,
            &mut self.streams,
            &mut self.activate,
            &mut self.deactivate,
            &mut self.backend,
            &mut self.mark_name,
            &mut self.mark,
        ] {
            *place += base;
        }
        self
    }
}
