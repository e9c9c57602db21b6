//! Processes: which are known, what each was at which time, and how that follows from what the kernel tells.
//!
//! In: process life from the BPF ring and mappings from the side band, merged by time ([`Arrivals`]), what follows from
//! them ([`Processes`]), the history of each process (`Histories`), labels, and reading /proc again after records were lost. Guaranteed: a stack finds the
//! program that ran when it was taken. Not here: unwind tables, and telling the kernel about mappings.

mod arrivals;
mod changes;
mod clock;
mod ended;
mod exec_instance;
mod histories;
mod history;
mod idle;
mod known;
mod labels;
mod losses;
mod names;
mod nowhere;
mod rereads;
mod tally;
mod target_files;
mod target_looks;
mod targets;
mod unread;

pub(crate) use arrivals::{Arrival, Arrivals};
pub(crate) use ended::has_ended;
pub(crate) use exec_instance::ExecInstance;
pub(crate) use history::ProcessSnapshot;
pub(crate) use idle::{KnownProcess, ProcessRoom, that_leave};
pub(crate) use known::Processes;
pub(crate) use labels::Labeller;
pub(crate) use losses::Losses;
pub(crate) use nowhere::LostAt;
pub use targets::process_of;
pub(crate) use targets::{count_threads, missing, named, own_namespace, resolve, zombie};
