//! Names for the frames of a live capture: which files and programs are behind them, and when they are handed to the thread that looks
//! names up (crate `symbolization`).

mod dotnet_maps;
mod dotnet_names;
mod dump_candidates;
mod java_names;
mod jit_program;
mod live_naming;
mod module_file;
mod pace;
mod perf_map_owners;

pub(crate) use dotnet_maps::DotNetMaps;
pub(crate) use jit_program::{LiveProgram, WhoIsAsked};
pub(crate) use live_naming::Naming;
pub(crate) use module_file::LiveModule;
pub(crate) use perf_map_owners::PerfMapOwners;
pub(crate) use symbolization::LateNames;
