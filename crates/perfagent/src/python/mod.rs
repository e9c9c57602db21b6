//! Interpreters in processes, so that stacks show the functions of programs in Python instead of the loop that runs them.
//!
//! In: which mapped files hold an interpreter ([`InterpreterFiles`]), where a process keeps the states of its threads (`calibration`), telling
//! both to the programs ([`Pythons`]), and the code objects that the programs send ([`CodeStore`]). Guaranteed: processes are read and never
//! changed; what is read is checked and bounded; files and memory are read by workers, so the thread of the capture waits for neither.
//! Not here: layouts of interpreters and line tables (crate `interpreters`), the walk (`bpf/`), and where interpreted frames stand
//! among native ones (`session`).

mod asleep;
mod calibration;
mod code_store;
mod files;
mod pythons;

pub(crate) use code_store::{CodeStore, SentCode};
pub(crate) use pythons::Pythons;
