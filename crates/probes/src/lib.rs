//! Where probes go in a file: the file offset of a uprobe's target, the sites of USDT probes, and the cheapest place for a probe of a function.
//!
//! In: [`Target`], a target as text; [`Binary`], a file in which [`Binary::locate`] finds targets, [`Binary::place`] finds the
//! instruction that costs least, [`Binary::parameter`] finds where a function has a parameter there, and [`Binary::usdt`] finds the sites of a USDT
//! probe with their semaphores and arguments. [`Binary::exits`] and [`Binary::call_returns`] find the places at which a function returns.
//! Guaranteed: files are not trusted: no panic, and memory and time are bounded whatever their bytes are. An offset
//! is returned only if it is in an executable segment, and not inside of an instruction where the code can be decoded. Nothing is asked of the kernel.
//! Not here: opening probes (crate `events`), names of addresses (crate `symbols`).
//!
//! ```
//! use probes::{Binary, Target};
//! let binary = Binary::open("/proc/self/exe".as_ref())?;
//! let location = binary.locate(&Target::parse("main")?)?;
//! let placement = binary.place(&location);
//! assert!(placement.offset >= location.offset && placement.offset - location.offset < 64);
//! # Ok::<(), probes::ProbeError>(())
//! ```
#![forbid(unsafe_code)]

mod binary;
mod boundary;
mod error;
mod exits;
mod functions;
mod go_functions;
mod image;
mod location;
mod near;
mod parameters;
mod path_text;
mod placement;
mod symbol_table;
mod target;
mod usdt;

pub use binary::Binary;
pub use error::ProbeError;
pub use exits::{CallReturns, FunctionExit};
pub use location::Location;
pub use parameters::{Parameter, ParameterError};
pub use path_text::{read_path, shown_path};
pub use placement::Placement;
pub use target::Target;
pub use unwind::Callee;
pub use usdt::{UsdtProbe, UsdtSite};
