//! Names for the frames of recordings: while a capture runs, and later.
//!
//! In: [`Symbolization`], a thread that names frames during a capture, with [`PendingNames`] and [`LateNames`] for each interval and [`Deliveries`], the
//! schedule by which new frames are handed over; [`Symbolizer`], which names a finished recording; [`SymbolSource`], the trait by which
//! names are found, and [`Sources`], the list of sources in the order in which they are asked.
//! Guaranteed: a source that panics costs its own answer and nothing else; results of earlier intervals are kept within a bound;
//! symbolization can be abandoned at any time, and the frames that were not looked up are counted. The paths in a recording are hostile
//! input: only regular files are opened, nothing of `/proc` is, and a file must prove that it is the one of the recording.
//! Not here: how files are read (crate `symbols`), which file a process maps (the live capture tells by [`ModuleFile`] and
//! [`JitProgram`]), and what outputs show.
//!
//! ```
//! use symbolization::{Options, Symbolizer};
//!
//! let named = Symbolizer::new(Options::default()).symbolize(recording::Recording::default());
//! assert!(named.names.is_empty());
//! ```

#![forbid(unsafe_code)]

mod abandon;
mod chain;
mod deliveries;
mod engine;
mod figures;
mod given_kernel;
mod guarded;
mod interval;
mod kernel_addresses;
mod line;
mod name_cache;
mod offline;
mod options;
mod path_file;
mod request;
mod running_kernel;
mod source;
mod sources;
mod work;
mod worker;
mod written;

pub use abandon::AbandonToken;
pub use deliveries::{Deliveries, FrameContext};
pub use figures::{Figures, Lookup};
pub use offline::Symbolizer;
pub use options::{Fetch, KernelFiles, Options};
pub use path_file::{PathFile, open_recorded};
pub use request::{
    InterpretedRequest, JitPlace, JitProgram, JitRequest, KernelRequest, ModuleFile, ModuleRequest,
    OpenedModule, ProgramId, Request,
};
pub use running_kernel::{kernel_identity, kernel_image, kernel_modules};
pub use source::{Answer, SymbolSource};
pub use sources::Sources;
pub use symbols::{
    CodeRanges, JitDump, JitDumpError, ObjectFile, ObjectSource, PerfMap, PerfMapError, PerfMapOwner,
    SharedText, SourceLine, perf_map_shortfall,
};
pub use work::{ModuleHandle, ProgramHandle, Work};
pub use worker::{LateNames, PendingNames, Symbolization};
pub use written::{NamedProfile, symbolize_profile, symbolize_profile_of};
