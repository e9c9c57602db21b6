//! Debug files by build-id: fetched from debuginfod servers, and kept in a directory.
//!
//! In: [`Fetcher`], which fetches on threads of its own, each file once for all who ask; [`Server`]; [`Settings`]. What was fetched is counted as recordings keep it. For fuzzing:
//! [`answer`], what the head of an answer means, and [`entry`], what a name in the cache means.
//! Guaranteed: nothing is contacted before something is asked for. A file is given out only if it is an ELF file with the build-id that was
//! asked for. A file appears in the cache whole or not at all, also if the process is killed. Time, bytes and requests are bounded. Any
//! number of processes may share a cache.
//! Not here: which files are worth fetching, and reading their names (crate `symbolization`).
//!
//! ```
//! use debuginfod::{Fetcher, Server, Settings};
//!
//! let server: Server = "https://debuginfod.example.org".parse()?;
//! let fetcher = Fetcher::new(Settings { servers: vec![server], ..Settings::default() });
//! assert_eq!(fetcher.figures().fetched, 0, "nothing was asked for");
//! # Ok::<(), debuginfod::ServerError>(())
//! ```

#![forbid(unsafe_code)]

pub mod answer;
mod cache;
mod cause;
mod content;
mod download;
pub mod entry;
mod fetcher;
mod http;
mod server;
mod settings;

pub use cache::{CacheDirError, check_cache_dir, client_cache_dir, default_cache_dir};
pub use cause::Cause;
pub use entry::{Artifact, Kind};
pub use fetcher::{Fetched, Fetcher, Status, Want};
pub use server::{Server, ServerError, servers_of_environment};
pub use settings::Settings;
