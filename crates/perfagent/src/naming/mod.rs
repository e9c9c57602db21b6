//! Names for the frames of a live capture: which files and programs are behind them, and when they are handed to the thread that looks
//! names up (crate `symbolization`).

mod container_roots;
mod jit_program;
mod live_naming;
mod module_file;

pub(crate) use container_roots::ContainerRoots;
pub(crate) use jit_program::LiveProgram;
pub(crate) use live_naming::Naming;
pub(crate) use module_file::LiveModule;
pub(crate) use symbolization::LateNames;
