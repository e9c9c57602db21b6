//! Perf maps: the names that runtimes with a JIT write for their code to `/tmp/perf-PID.map`.
//!
//! Guaranteed: only a regular file of the target's user or of root is read, never through a symbolic link in its last
//! component, and only while its own program writes it. At most 256 MiB and 4 million entries of a map are kept; of a map
//! that is written anew again and again, 1 GiB is read altogether. The latest entry that covers an address wins, because
//! code is moved and thrown away. Appended entries are read when the caller asks for them and the file has changed. Lines
//! that are malformed or do not fit are counted.
//!
//! Text of a target may look like entries: V8 writes the source of a regular expression into its map as it is. So an entry has at most
//! 64 MiB, and lies within one executable mapping without a file, as far as those are known ([`PerfMap::within`]). A mapping that becomes
//! known later may make a refused entry valid: then the map is read again, up to 512 MiB altogether. Refused entries are
//! reported ([`perf_map_shortfall`]).

mod code_ranges;
mod error;
mod line;
mod map;
mod owner;
mod shortfall;

pub use code_ranges::CodeRanges;
pub use error::PerfMapError;
pub use map::{PerfMap, PerfMapEntry};
pub use owner::PerfMapOwner;
pub(crate) use owner::tick_after;
pub use shortfall::{perf_map_shortfall, spent_perf_map};
